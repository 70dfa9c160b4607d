"""Functions of samples on what stands in for CUDA: one thread a sample, and kernels that are written by hand."""

import random

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

import torchgraft as tg
from torchgraft._check.case import Case
from torchgraft._check.checks.ways import claimed
from torchgraft._check.target import make_target

from .draws import TOLERANCES, apart
from .operators import FLOATS, make
from .standin import emulated

CORRELATE = tg.c(
    """
#include <stddef.h>

void correlate(int64_t n, int64_t k, const T *x, const T *w, double scale, const T *bias, T *out) {
    for (int64_t i = 0; i + k <= n; i++) {
        out[i] = bias ? *bias : 0;
        for (int64_t j = 0; j < k; j++) out[i] += (T)scale * x[i + j] * w[j];
    }
}

void correlate_vjp_w(int64_t n, int64_t k, const T *grad, const T *x, double scale, T *grad_w) {
    for (int64_t j = 0; j < k; j++) {
        grad_w[j] = 0;
        for (int64_t i = 0; i + k <= n; i++) grad_w[j] += (T)scale * x[i + j] * grad[i];
    }
}

void correlate_vjp_x(int64_t n, int64_t k, const T *grad, const T *w, double scale, T *grad_x) {
    for (int64_t i = 0; i < n; i++) grad_x[i] = 0;
    for (int64_t i = 0; i + k <= n; i++)
        for (int64_t j = 0; j < k; j++) grad_x[i + j] += (T)scale * w[j] * grad[i];
}
""",
    cuda="per_sample",
)


def make_correlate():
    """Declare it anew: what a call has found out is kept by an operator."""

    @tg.op(kernel=CORRELATE)
    def correlate(
        x: Float[Tensor, "*batch n"], w: Float[Tensor, "#*batch k"], scale: float = 1.0,
        bias: Float[Tensor, "#*batch"] | None = None,
    ) -> Float[Tensor, "*batch n-k+1"]:  # fmt: skip
        return tg.native

    @correlate.vjp("w", kernel=CORRELATE)
    def _(grad, x, scale): ...

    @correlate.vjp("bias")
    def _(grad):
        return grad.sum(-1)

    @correlate.vjp("x", kernel=CORRELATE)
    def _(grad, w, scale): ...

    return correlate


def layouts(chance, *shape):
    """A tensor in one of several layouts."""
    match chance.randrange(3):
        case 0:
            return torch.randn(*shape[:-1], 2 * shape[-1], dtype=torch.float64)[..., ::2]
        case 1:
            return torch.randn(*shape[::-1], dtype=torch.float64).permute(*range(len(shape))[::-1])
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_one_thread_a_sample(dtype):
    """Values and the gradient of the weight, which is summed over samples that share it."""
    chance = random.Random(str(dtype))
    on_cpu = make_correlate()

    def results(op, x, w, scale, bias):
        w = w.detach().clone().requires_grad_()
        out = op(x, w, scale, bias)
        (slope,) = torch.autograd.grad(out, w, torch.ones_like(out))
        return out.detach(), slope

    for _ in range(12):
        batch = [chance.choice([1, 2, 5]) for _ in range(chance.randrange(3))]
        own = chance.choice([[], batch, [1] * len(batch)])
        x, w = layouts(chance, *batch, 6).to(dtype), layouts(chance, *own, 3).to(dtype)
        bias = None if chance.random() < 0.5 else torch.randn(batch, dtype=torch.float64).to(dtype)
        scale = chance.choice([1.0, 0.5])
        expected = results(on_cpu, x, w, scale, bias)
        with emulated() as driver:
            made = results(make_correlate(), x, w, scale, bias)
            assert driver.launches >= 2
        for one, other in zip(made, expected, strict=True):
            assert apart(one, other) <= 10 * TOLERANCES[dtype]


SHARED = tg.c(
    """
void weighted(int64_t n, const T *x, const T *w, T *out) {
    *out = 0;
    for (int64_t i = 0; i < n; i++) *out += x[i] * w[i] * w[i];
}

void weighted_vjp_w(int64_t n, const T *grad, const T *x, const T *w, T *grad_w) {
    for (int64_t i = 0; i < n; i++) grad_w[i] = 2 * *grad * x[i] * w[i];
}
""",
    cuda="per_sample",
)


def make_weighted():
    @tg.op(kernel=SHARED)
    def weighted(x: Float[Tensor, "*batch n"], w: Float[Tensor, "n"]) -> Float[Tensor, "*batch"]:
        return tg.native

    @weighted.vjp("w", kernel=SHARED)
    def _(grad, x, w): ...

    return weighted


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_gradient_of_what_all_samples_share(dtype):
    """The rule sums over the samples itself, where the annotation has no batch axes."""
    for shape in ((3,), (2, 3), (4, 2, 3), (0, 3), (1, 3)):
        x, w = torch.randn(shape, dtype=torch.float64).to(dtype), torch.randn(3, dtype=torch.float64).to(dtype)
        expected = (2 * x.double() * w.double()).sum_to_size(3)
        with emulated():
            w.requires_grad_()
            (made,) = torch.autograd.grad(make_weighted()(x, w).sum(), w)
            mapped = torch.vmap(torch.func.grad(lambda w, x: make_weighted()(x, w).sum()), (None, 0))(
                w.detach(), x[None]
            )
        assert apart(made, expected.to(dtype)) <= 20 * TOLERANCES[dtype]
        assert apart(mapped[0], expected.to(dtype)) <= 20 * TOLERANCES[dtype]


def test_transforms_of_samples():
    x, w = torch.randn(4, 7, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    expected = torch.vmap(make_correlate())(x, w)
    with emulated() as driver:
        correlate = make_correlate()
        torch.testing.assert_close(torch.vmap(correlate)(x, w), expected)
        torch.testing.assert_close(torch.vmap(correlate, (1, None))(x.T.contiguous(), w[0]), make_correlate()(x, w[0]))
        assert correlate(x[:0], w[0]).shape == (0, 5)
        assert driver.launches
        compiled = torch.compile(lambda x, w: correlate(x, w) * 2, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, w), 2 * expected)


@pytest.mark.slow
def test_the_checker_proves_functions_of_samples():
    with emulated() as driver:
        report = tg.check(make_correlate())
        assert driver.launches > 40
    assert report.ok, str(report)


def test_what_one_thread_a_sample_is_good_for_is_printed():
    assert "  cuda     one thread a sample: good for many small samples" in str(make_correlate())


def test_functions_of_samples_are_asked_for():
    @tg.op(
        kernel=tg.c("void twice(int64_t n, const T *x, T *out) { for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i]; }")
    )
    def twice(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return tg.native

    assert "cuda" not in str(twice)
    with emulated(), pytest.raises(tg.DeviceError, match="runs on the CPU alone unless that is asked for") as caught:
        twice(torch.ones(3))
    assert "per_sample" in caught.value.expected


def test_an_error_code_is_refused():
    source = "int odd(int64_t n, const T *x, T *out) { out[0] = x[0]; return 0; }"

    @tg.op(kernel=tg.c(source, cuda="per_sample"))
    def odd(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
        return tg.native

    assert "cuda" not in str(odd)
    with emulated(), pytest.raises(tg.DeviceError, match="error code"):
        odd(torch.ones(3))


def test_what_cuda_may_be():
    with pytest.raises(tg.DeclarationError, match="is unknown") as caught:
        tg.c("void f(void) {}", cuda="per_element")
    assert caught.value.argument == "cuda"


def make_jittered():
    @tg.op(kernel=tg.c(
        """#include <torchgraft/random.h>

        void jittered(int64_t n, const T *x, int64_t seed, T *out) {
            for (int64_t i = 0; i < n; i++) out[i] = x[i] + tg_uniform(seed, i + 1);
        }
        """,
        cuda="per_sample",
    ))  # fmt: skip
    def jittered(x: Float[Tensor, "*batch n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
        return tg.native

    return jittered


def test_each_sample_has_the_seed_that_it_has_on_the_cpu():
    x, seeds = torch.zeros(3, 2, 4), torch.arange(6).reshape(3, 2)
    calls = [
        lambda op: op(x, seed=5),
        lambda op: op(x, seed=seeds),
        lambda op: torch.vmap(lambda x: op(x, seed=7), randomness="same")(x),
    ]
    expected = [call(make_jittered()) for call in calls]
    with emulated() as driver:
        assert all(torch.equal(call(make_jittered()), made) for call, made in zip(calls, expected, strict=True))
        assert driver.launches >= 3


def test_elements_that_are_written():
    @tg.op(kernel=tg.c("T damp(T y, T x, double by) { return y * (T)by + x; }"))
    def damp(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."], by: float = 0.5) -> None:
        return tg.native

    y = torch.ones(3, 4)
    with emulated() as driver:
        damp(y[:, 1:3], torch.ones(2))
        assert driver.launches
    assert y.tolist() == [[1, 1.5, 1.5, 1]] * 3


# -- by hand ----------------------------------------------------------------------------------------------------------

BY_HAND = """
__global__ void scaled(int64_t batch, int64_t n, const T *x, const T *w, double by, T *out) {
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x)
        for (int64_t i = threadIdx.x + threadIdx.y * blockDim.x; i < n; i += blockDim.x * blockDim.y)
            out[b * n + i] = x[b * n + i] * w[i] * (T)by;
}

extern "C" __global__ void __launch_bounds__(128) total(int64_t count, const T *x, const int64_t *y, double *out) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = (double)x[i] + (double)y[i];
}
"""


def make_scaled(**launch):
    @tg.op(kernel=tg.cuda(BY_HAND, **({"grid": lambda batch: min(batch, 3), "block": (4, 2)} | launch)))
    def scaled(x: Float[Tensor, "*batch n"], w: Float[Tensor, "n"], by: float = 2.0) -> Float[Tensor, "*batch n"]:
        return tg.native

    @scaled.vjp("x")
    def _(grad, w, by):
        return grad * w * by

    @scaled.vjp("w")
    def _(grad, x, w, by):
        return (grad * x * by).sum_to_size(w.shape)

    return scaled


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_kernel_by_hand(dtype):
    chance = random.Random(str(dtype))
    with emulated() as driver:
        scaled = make_scaled()
        for _ in range(10):
            batch = [chance.choice([1, 2, 5]) for _ in range(chance.randrange(3))]
            x, w = layouts(chance, *batch, 6).to(dtype), layouts(chance, 6).to(dtype)
            x = x.expand(3, *x.shape) if chance.random() < 0.3 else x
            assert apart(scaled(x, w, 0.5), x * w * 0.5) <= TOLERANCES[dtype]
        assert driver.launches


def test_a_kernel_by_hand_is_launched_as_declared():
    with emulated() as driver:
        scaled = make_scaled()
        scaled(torch.ones(2, 5), torch.ones(5))
        assert (driver.blocks, driver.threads, driver.n) == (2, 4, 2)
        launches = driver.launches
        assert scaled(torch.ones(0, 5), torch.ones(5)).shape == (0, 5)
        assert scaled(torch.ones(2, 0), torch.ones(0)).shape == (2, 0)
        assert driver.launches == launches


def test_what_the_checker_reads_is_said_of_the_device(monkeypatch):
    case = Case(make_target(make_scaled()), (torch.ones(2, 5), torch.ones(5)))
    assert not claimed(case, "forward")
    monkeypatch.setattr(type(case), "device_type", "cuda")
    assert claimed(case, "forward")


def test_shared_memory_beyond_what_a_block_has():
    x, w = torch.ones(2, 5), torch.ones(5)
    with emulated() as driver:
        make_scaled(shared=49152)(x, w)
        assert driver.shared == 0
        make_scaled(shared=lambda n: 20_000 * n)(x, w)
        assert driver.shared == 100_000
        scaled = make_scaled(shared=lambda n: 20_000 * n)
        for n in (7, 3, 5):
            scaled(torch.ones(2, n), torch.ones(n))
            assert driver.shared == 140_000  # Another thread may need it.
        with pytest.raises(tg.KernelError, match="refused so much shared memory"):
            make_scaled(shared=10**6)(x, w)


@pytest.mark.slow
def test_transforms_of_a_kernel_by_hand():
    x, w = torch.randn(4, 7, dtype=torch.float64), torch.randn(4, 7, dtype=torch.float64)
    with emulated():
        scaled = make_scaled()
        torch.testing.assert_close(torch.vmap(scaled)(x, w), 2 * x * w)
        torch.testing.assert_close(torch.vmap(scaled, (None, 0))(x, w), 2 * x * w[:, None])
        torch.testing.assert_close(torch.vmap(scaled, (1, None))(x.T.contiguous(), w[0]), 2 * x * w[0])
        slope = torch.func.grad(lambda w: scaled(x, w).sum())(w[0])
        torch.testing.assert_close(slope, 2 * x.sum(0))
        compiled = torch.compile(lambda x, w: scaled(x, w) * 2, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, w[0]), 4 * x * w[0])
        assert tg.check(scaled).ok


def test_elements_and_several_kernels_in_a_file():
    @tg.op(kernel=tg.cuda(BY_HAND, grid=lambda count: -(-count // 128), block=128))
    def total(x: Float[Tensor, "..."], y: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        return tg.native

    with emulated():
        x, y = torch.randn(3, 1, dtype=torch.float64), torch.arange(4)
        assert torch.equal(total(x, y), x + y)
        assert torch.equal(torch.vmap(total)(x, y[:3]), torch.vmap(torch.add)(x, y[:3]))


def test_a_kernel_by_hand_beside_one_for_the_cpu():
    @tg.op
    def scaled(x: Float[Tensor, "*batch n"], w: Float[Tensor, "n"], by: float = 2.0) -> Float[Tensor, "*batch n"]:
        return x * w * by

    @scaled.kernel("cuda", tg.cuda(BY_HAND, grid=lambda batch: batch))
    def _(x, w, by):
        return tg.native

    assert "any: torch, cuda: cuda" in str(scaled)
    assert torch.equal(scaled(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(tg.DeclarationError, match="does not run on this type of device"):
        scaled.kernel("cpu", tg.cuda(BY_HAND, grid=1))(lambda x, w, by: tg.native)


def test_a_kernel_by_hand_is_for_cuda():
    scaled = make_scaled()
    with pytest.raises(tg.DeviceError, match="there is no kernel"):
        scaled(torch.ones(2), torch.ones(2))


WRONG = {
    "grid=0": ({"grid": 0}, "grid"),
    "a float": ({"grid": 1.5}, "grid"),
    "four numbers": ({"grid": (1, 1, 1, 1)}, "grid"),
    "too many blocks": ({"grid": (1, 65536)}, "grid"),
    "too many threads": ({"grid": 1, "block": (32, 33)}, "block"),
    "negative memory": ({"grid": 1, "shared": -1}, "shared"),
    "no axis": ({"grid": lambda m: m}, "grid"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_launch_is_refused_where_it_is_declared(wrong):
    launch, argument = WRONG[wrong]
    with pytest.raises(tg.DeclarationError) as caught:
        make_scaled(**launch)
    assert caught.value.argument == argument


def test_a_wrong_launch_is_refused_in_a_call():
    with emulated() as driver:
        with pytest.raises(tg.KernelError, match="no size that CUDA knows") as caught:
            make_scaled(grid=lambda n: n - 5)(torch.ones(2, 5), torch.ones(5))
        assert (caught.value.operator, caught.value.argument, caught.value.got) == ("scaled", "grid", "0")
        driver.refuses = 1
        with pytest.raises(tg.KernelError, match=r"refused the launch of a grid of \(2, 1, 1\), blocks of \(4, 2, 1\)"):
            make_scaled()(torch.ones(2, 5), torch.ones(5))


def test_what_a_kernel_by_hand_does_not_take():
    with pytest.raises(tg.DeclarationError, match="is not told all sizes"):

        @tg.op(kernel=tg.cuda("__global__ void f(const T *x, T *out) {}", grid=1))
        def f(x: Float[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
            return tg.native


SWAPPED = [
    "__global__ void f(int64_t n, int64_t batch, const T *x, const T *y, T *out) {}",
    "__global__ void f(int64_t batch, int64_t n, const T *y, const T *x, T *out) {}",
    "__global__ void __launch_bounds__(128) f(int64_t n, int64_t k, const T *x, const T *y, T *out) {}",
]


@pytest.mark.parametrize("source", SWAPPED)
def test_parameters_in_another_order_are_refused(source):
    @tg.op(kernel=tg.cuda(source, grid=1))
    def f(x: Float[Tensor, "*batch n"], y: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return tg.native

    with emulated(), pytest.raises(tg.BuildError) as caught:
        f(torch.ones(2, 3), torch.ones(2, 3))
    assert "int64_t batch, int64_t n, const T *x, const T *y, T *out" in str(caught.value.expected)


def test_elements_in_another_order_are_refused():
    @tg.op(kernel=tg.c("T f(T y, T x) { return x - y; }"))
    def f(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return tg.native

    with emulated(), pytest.raises(tg.BuildError, match="something else than the annotations say"):
        f(torch.ones(2), torch.ones(2))


def test_which_calls_cuda_graphs_hold():
    """A kernel in C that runs there is only launched; one that is for the CPU alone moves nothing to a device."""

    @tg.op(kernel=tg.c("void twice(int64_t n, const T *x, T *out) { out[0] = x[0]; }"))
    def twice(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return tg.native

    unsafe = torch.Tag.cudagraph_unsafe
    assert unsafe in twice.torch_op.tags
    for op in (make_correlate(), make_scaled(), make()["soft"]):
        assert unsafe not in op.torch_op.tags


def test_arguments_of_a_kernel_by_hand():
    source = """
__global__ void many(
    int64_t batch, int64_t n, const T *x, const T *b, const double *k, bool up, int64_t m, T *sum, T *two
) {
    for (int64_t i = 0; i < batch * n; i++) {
        sum[i] = x[i];
        sum[i] += b ? b[i % n] : (T)0;
        sum[i] += (k ? *k : 0) + (up ? (double)m : 0);
        two[i] = x[i];
        two[i] *= 8;
        two[i] -= x[i] * 4;
        two[i] /= 2;
    }
}
"""

    @tg.op(kernel=tg.cuda(source, grid=1, block=1))
    def many(
        x: Float[Tensor, "*batch n"], b: Float[Tensor, "#n"] | None = None, k: float | None = None, up: bool = False,
        m: int = 3,
    ) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch n"]]:  # fmt: skip
        return tg.native

    with emulated():
        for dtype in FLOATS:
            x, b = torch.ones(2, 3, dtype=dtype), torch.arange(3).to(dtype)
            calls = {(): 0, (b,): b, (b[:1] + 1,): 1, (None, 2.5): 2.5, (b, 0.5, True, 10): b + 10.5}
            for args, more in calls.items():
                made = many(x, *args)
                assert torch.equal(made[0], x + more)
                assert torch.equal(made[1], 2 * x)
        assert many(torch.ones(1, 1, dtype=torch.float64), None, None, True, 2**40)[0].item() == 2**40 + 1


UNFIT = {
    "is written": ("void f(int64_t n, T *x) {}", {"x": tg.Mutated[Float[Tensor, "n"]], "return": None}),
    "is no tensor and no number": ("void f(int64_t n, const T *const *x, int64_t x_length, T *out) {}", {
        "x": list[Float[Tensor, "n"]], "return": Float[Tensor, "n"]}),
    "is not told all sizes": ("void f(const T *x, T *out) {}", {"x": Tensor, "return": Float[Tensor, ""]}),
}  # fmt: skip


@pytest.mark.parametrize("problem", UNFIT)
@pytest.mark.parametrize("by_hand", [True, False])
def test_what_cuda_does_not_take_is_refused_by_name(problem, by_hand):
    """A kernel by hand where it is declared, a function in C where it is called."""
    source, annotations = UNFIT[problem]
    kernel = tg.cuda(source, grid=1) if by_hand else tg.c(source, cuda="per_sample")
    x = [torch.ones(3)] if "list" in str(annotations["x"]) else torch.ones(3)

    def f(x): ...

    f.__annotations__ = annotations
    with emulated(), pytest.raises(tg.DeclarationError if by_hand else tg.DeviceError, match=problem):
        tg.op(kernel=kernel)(f)(x)


def test_a_kernel_by_hand_is_no_rule():
    scaled = make_scaled()
    with pytest.raises(tg.DeclarationError, match="values, not derivatives") as caught:
        scaled.vjp("x", kernel=tg.cuda(BY_HAND, grid=1))(lambda grad: tg.native)
    assert "declare an operator with this kernel" in caught.value.hint
