// A device of torch's that is the CPU: memory of its own name, and operators that refuse what lies elsewhere.
#include <torch/extension.h>

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

namespace {

constexpr auto TYPE = c10::DeviceType::PrivateUse1;
const c10::Device DEVICE(TYPE, 0);
const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t size) override {
        void *memory = nullptr;
        if (size) TORCH_CHECK(!posix_memalign(&memory, 64, size), "no memory");
        return {memory, memory, &free, DEVICE};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free; }
    void copy_data(void *to, const void *from, size_t size) const override { std::memcpy(to, from, size); }
};
Memory memory;

at::Tensor tensor_of(const c10::Storage &storage, const at::Tensor &like, c10::DispatchKeySet keys) {
    auto made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, like.dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.is_conj()) made._set_conj(true);
    if (like.is_neg()) made._set_neg(true);
    return made;
}

// The same memory as a tensor of the CPU.
at::Tensor on_cpu(const at::Tensor &tensor) {
    const auto &storage = tensor.storage();
    auto *allocator = c10::GetAllocator(c10::kCPU);
    const bool grows = storage.nbytes() == 0;  // Results that are still to be made are empty at first.
    c10::DataPtr data(storage.mutable_data(), c10::Device(c10::kCPU));
    if (grows) data = allocator->allocate(0);
    c10::Storage same(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), allocator, grows);
    return tensor_of(same, tensor, c10::DispatchKeySet(c10::DispatchKey::CPU));
}

// The memory of the CPU as memory of the device.
c10::DataPtr taken(const c10::Storage &storage) {
    auto *kept = new c10::Storage(storage);
    return {kept->mutable_data(), kept, [](void *one) { delete static_cast<c10::Storage *>(one); }, DEVICE};
}

struct Call {
    std::vector<std::pair<at::Tensor, at::Tensor>> seen;  // a tensor of the device, and the same of the CPU
    const std::string &name;

    at::Tensor in(const at::Tensor &given) {
        if (!given.defined()) return given;
        if (given.device().type() == TYPE) {
            seen.emplace_back(given, on_cpu(given));
            return seen.back().second;
        }
        TORCH_CHECK(given.dim() == 0, "Expected all tensors to be on the same device, but ", name, " got one on ",
                    given.device(), " beside ", DEVICE);
        return given;
    }

    at::Tensor out(const at::Tensor &made) {
        if (!made.defined()) return made;
        if (made._is_zerotensor()) return out(at::zeros(made.sizes(), made.options()));  // It has no memory.
        for (auto &[given, same] : seen)
            if (made.unsafeGetTensorImpl() == same.unsafeGetTensorImpl()) return given;
        for (auto &[given, same] : seen)
            if (made.storage().data() && made.storage().data() == same.storage().data())
                return tensor_of(given.storage(), made, KEYS);
        const size_t size = made.storage().nbytes();
        c10::Storage own(c10::Storage::use_byte_size_t(), size, taken(made.storage()), &memory, true);
        return tensor_of(own, made, KEYS);
    }

    void in(c10::IValue &value) {
        if (value.isTensor()) value = in(value.toTensor());
        else if (value.isDevice() && value.toDevice().type() == TYPE) value = c10::Device(c10::kCPU);
        else if (value.isTensorList()) {
            std::vector<at::Tensor> made;
            for (const at::Tensor &one : value.toTensorVector()) made.push_back(in(one));
            value = made;
        } else if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> made;
            for (const std::optional<at::Tensor> &one : value.toOptionalTensorList())
                made.push_back(one ? std::optional<at::Tensor>(in(*one)) : std::nullopt);
            value = made;
        }
    }

    void out(c10::IValue &value) {
        if (value.isTensor()) value = out(value.toTensor());
        else if (value.isTensorList()) {
            std::vector<at::Tensor> made;
            for (const at::Tensor &one : value.toTensorVector()) made.push_back(out(one));
            value = made;
        }
    }
};

void run(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    const size_t count = op.schema().arguments().size();
    Call call{{}, op.schema().name()};
    for (size_t i = stack->size() - count; i < stack->size(); i++) call.in((*stack)[i]);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    for (auto &[given, same] : call.seen) {
        if (given.storage().nbytes() != same.storage().nbytes()) {
            given.storage().set_data_ptr_noswap(taken(same.storage()));
            given.storage().set_nbytes(same.storage().nbytes());
        }
        if (given.sizes() != same.sizes() || given.strides() != same.strides())
            given.unsafeGetTensorImpl()->set_sizes_and_strides(same.sizes(), same.strides(), same.storage_offset());
    }
    const size_t made = op.schema().returns().size();
    for (size_t i = stack->size() - made; i < stack->size(); i++) call.out((*stack)[i]);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(size, &memory, KEYS, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
    return at::detail::empty_strided_generic(size, stride, &memory, KEYS, c10::dtype_or_default(dtype));
}

at::Tensor here(const at::Tensor &tensor) { return tensor.device().type() == TYPE ? on_cpu(tensor) : tensor; }

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool) {
    here(to).copy_(here(from));
    return to;
}

const at::Tensor &resize(const at::Tensor &self, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
    int64_t count = 1;
    for (int64_t one : size) count *= one;
    const size_t bytes = (self.storage_offset() + count) * self.itemsize();
    if (bytes > self.storage().nbytes()) {
        auto data = memory.allocate(bytes);
        std::memcpy(data.get(), self.storage().data(), self.storage().nbytes());
        self.storage().set_data_ptr_noswap(std::move(data));
        self.storage().set_nbytes(bytes);
    }
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    return self;
}

at::Tensor &set_storage(at::Tensor &self, at::Storage storage, int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
    std::vector<int64_t> steps(stride.begin(), stride.end());
    if (steps.empty()) {
        steps.resize(size.size(), 1);
        for (int64_t i = (int64_t)size.size() - 2; i >= 0; i--) steps[i] = steps[i + 1] * size[i + 1];
    }
    self.unsafeGetTensorImpl()->set_sizes_and_strides(size, steps, offset);
    return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", &empty);
    m.impl("empty_strided", &empty_strided);
    m.impl("_copy_from", &copy_from);
    m.impl("resize_", &resize);
    m.impl("set_.source_Storage_storage_offset", &set_storage);
}

// `copy_` comes here with what is lazily negative or conjugate, and `here` keeps that.
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { c10::SetAllocator(TYPE, &memory); }
