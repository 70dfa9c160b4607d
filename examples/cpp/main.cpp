// Runs model.pt2, which calls the operator in smooth.so, on the numbers that export.py takes. No Python.
#include <ATen/ops/linspace.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>

int main() {
    if (!dlopen("./smooth.so", RTLD_NOW)) {  // before the model, which looks for the operator when it is loaded
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    torch::inductor::AOTIModelPackageLoader model("model.pt2");
    const at::Tensor x = at::linspace(0, 1, 16).reshape({2, 8});
    const at::Tensor out = model.run({x})[0].contiguous();
    for (int64_t i = 0; i < out.numel(); i++) std::printf("%.9g\n", out.const_data_ptr<float>()[i]);
}
