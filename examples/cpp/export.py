"""Export a model that calls an operator in C, for a program without Python: model.pt2, and smooth.so beside it."""

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op(
    namespace="example",
    kernel=tg.c("""
    void smooth(int64_t n, const T *x, double decay, T *out) {
        T last = 0;
        for (int64_t i = 0; i < n; i++) out[i] = last = decay * last + (1 - decay) * x[i];
    }
    """),
)
def smooth(x: Float[Tensor, "*batch n"], decay: float = 0.9) -> Float[Tensor, "*batch n"]:
    """Exponential smoothing along the last axis."""


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return smooth(self.linear(x)).tanh()


def main():
    torch.manual_seed(0)
    model = Model().eval()
    x = torch.linspace(0, 1, 16).reshape(2, 8)
    batch = torch.export.Dim("batch")
    with torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
        torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")
        smooth.save_library("smooth.so", dtypes=[torch.float32])
        print(*model(x).flatten().tolist(), sep="\n")


if __name__ == "__main__":
    main()
