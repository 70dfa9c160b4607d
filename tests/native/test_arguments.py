"""Every kind of argument arrives in C as it was given, by the dispatcher and without it."""

from contextlib import nullcontext

import pytest
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

import torchgraft as tg

STRINGS = "#include <string.h>\n"


@tg.op(kernel=tg.c("void f(int64_t n, const T *x, double _Complex z, T *out) "
                   "{ out[0] = n * __real__ z; out[1] = __imag__ z; }"))  # fmt: skip
def f(x: Float[Tensor, "n"], z: complex) -> Float[Tensor, "2"]: ...


@pytest.mark.slow
def test_a_complex_number():
    for z in (1 + 2j, -0.5j, 3.0, 2):
        assert f(torch.ones(2), z).tolist() == [2 * complex(z).real, complex(z).imag]
    with pytest.raises(tg.ArgumentError):
        f(torch.ones(2), None)


@tg.op(kernel=tg.c("""
void g(int64_t n, const T *x, const double _Complex *zs, int64_t zs_length, const double _Complex *z, T *out) {
    *out = z ? 1000 * __real__ *z : 0;
    for (int64_t i = 0; i < zs_length; i++) *out += __real__ zs[i] + 100 * __imag__ zs[i];
}
"""), name="g")  # fmt: skip
def complexes(x: Float[Tensor, "n"], zs: list[complex], z: complex | None = None) -> Float[Tensor, ""]: ...


def test_complex_lists_and_optional_ones():
    assert complexes(torch.ones(1), [1 + 1j, 2]).item() == 103
    assert complexes(torch.ones(1), [], 2j + 3).item() == 3000


@tg.op(kernel=tg.c(STRINGS + """
void h(int64_t n, const T *x, const char *const *names, int64_t names_length, const char *mode, int64_t mode_length,
       const char *device, int64_t device_length, T *out) {
    out[0] = names_length;
    out[1] = names_length ? (T)strlen(names[names_length - 1]) : -1;
    out[2] = mode ? (T)mode_length : -1;
    out[3] = !strcmp(device, "cuda:1") && device_length == 6;
}
"""), name="h")  # fmt: skip
def texts(x: Float[Tensor, "n"], names: list[str], mode: str | None, device: torch.device) -> Float[Tensor, "4"]: ...


def test_texts():
    assert texts(torch.ones(1), ["a", "é"], "mode", torch.device("cuda", 1)).tolist() == [2, 2, 4, 1]
    assert texts(torch.ones(1), [], None, "cpu").tolist() == [0, -1, -1, 0]


@tg.op(kernel=tg.c("""
void joined(int64_t n, const T *const *xs, int64_t xs_length, const T *y, int64_t axis, T *out) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = y[i] * axis;
        for (int64_t j = 0; j < xs_length; j++) out[i] += (j + 1) * xs[j][i];
    }
}
"""))  # fmt: skip
def joined(xs: list[Float[Tensor, "*batch n"]], y: Float[Tensor, "n"], axis: int) -> Float[Tensor, "*batch n"]: ...


def plain_joined(xs, y, axis):
    return y * axis + sum((j + 1) * x for j, x in enumerate(xs))


@joined.vjp("xs")
def _(grad, xs):
    return [(j + 1) * grad for j, _ in enumerate(xs)]


@joined.vjp("y")
def _(grad, axis):
    return axis * grad.reshape(-1, grad.shape[-1]).sum(0)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_lists_of_tensors(batch):
    count = 70  # more than a call has room for at first, and at second
    xs = [torch.randn(*batch, 4, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    y = torch.randn(4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(joined(xs, y, 2), plain_joined(xs, y, 2))
    strided = [x.flip(-1).expand(*batch, 4) for x in xs]
    torch.testing.assert_close(joined(strided, y, 2), plain_joined(strided, y, 2))
    found = torch.autograd.grad(joined(xs, y, 2).square().sum(), [*xs, y])
    for one, other in zip(found, torch.autograd.grad(plain_joined(xs, y, 2).square().sum(), [*xs, y]), strict=True):
        torch.testing.assert_close(one, other)


def test_an_empty_list_and_one_of_other_sizes():
    y = torch.randn(4)
    torch.testing.assert_close(joined([], y, 3), 3 * y)
    with pytest.raises(tg.ShapeError):
        joined([y, torch.ones(5)], y, 3)
    with pytest.raises(tg.DtypeError):
        joined([y, y.double()], y, 3)


def test_vmap_of_lists():
    xs, y = [torch.randn(5, 4) for _ in range(3)], torch.randn(5, 4)
    mapped = torch.vmap(lambda a, b, c, y: joined([a, b, c], y, 1))(*xs, y)
    torch.testing.assert_close(mapped, plain_joined(xs, y, 1))


@tg.op(kernel=tg.c("""
void many(int64_t n, const T *a, const T *b, const T *c, bool flag, int64_t count, double factor, const int64_t *maybe,
          const double *also, const bool *perhaps, int32_t dtype, T *out) {
    *out = (a ? a[n - 1] : 0) + (b ? 10 * b[n - 1] : 0) + 100 * c[n - 1] + (flag ? 1000 : 0) + count * factor
         + (maybe ? *maybe : 0) + (also ? *also : 0) + (perhaps ? 1 + *perhaps : 0) + 10000 * dtype;
}
"""))  # fmt: skip
def many(
    a: Float[Tensor, "n"] | None,
    b: Float[Tensor, "n"] | None,
    c: Float[Tensor, "n"],
    flag: bool,
    count: int,
    factor: float,
    maybe: int | None,
    also: float | None,
    perhaps: bool | None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, ""]: ...


@pytest.mark.slow
def test_numbers_and_what_is_not_there():
    one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for _ in range(3):
        assert many(one, None, one, True, -3, 0.5, None, None, None).item() == 61099.5
        assert many(None, one, one, False, 2**40, 0.0, -7, 0.25, True).item() == 60105.25
        assert many(None, None, one, False, 0, 1e300, 1, None, False, torch.float64).item() == 70102


@tg.op(kernel=tg.c("""
void fast(int64_t n, const T *a, const T *b, bool flag, int64_t count, double factor, const int64_t *maybe,
          const bool *perhaps, T *out, int64_t *size) {
    *out = (a ? a[n - 1] : 0) + 100 * b[n - 1] + (flag ? 1000 : 0) + count * factor + (maybe ? *maybe : 0)
         + (perhaps ? 1 + *perhaps : 0);
    *size = n;
}
"""))  # fmt: skip
def fast(
    a: Float[Tensor, "n"] | None,
    b: Float[Tensor, "n"],
    flag: bool,
    count: int,
    factor: float,
    maybe: int | None,
    perhaps: bool | None,
) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]: ...


@pytest.mark.slow
def test_without_the_dispatcher():
    one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for _ in range(3):
        assert [t.item() for t in fast(None, one, True, -3, 0.5, None, True)] == [1100.5, 2]
        assert [t.item() for t in fast(one, one, False, 2**40, 1.0, -7, None)] == [2**40 + 94, 2]


@pytest.mark.slow
def test_nothing_is_left_behind():
    """Handles, lists, strings and optional words of 20000 calls, some of them failing."""
    import resource

    def use():
        texts(torch.ones(1), ["a" * 1000] * 10, "mode" * 1000, "cpu")
        many(None, big, big, True, 1, 1.0, 1, 1.0, True)
        fast(big, big, True, 1, 1.0, 1, True)
        joined([big] * 20, big, 1)
        with pytest.raises(tg.KernelError):
            failing(big, 5, "x" * 1000)

    big = torch.ones(1000)
    for _ in range(50):
        use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1500):
        use()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8_000  # KiB; each use is about 100


@tg.op(kernel=tg.c("int failing(int64_t n, const T *x, const int64_t *code, const char *s, int64_t s_length, T *out) "
                   "{ return (int)*code; }"))  # fmt: skip
def failing(x: Float[Tensor, "n"], code: int | None, s: str) -> Float[Tensor, "n"]: ...


@pytest.mark.slow
def test_a_workspace_for_each_thread():
    @tg.op(kernel=tg.c("""
    void reverse(int64_t n, const T *x, T *copy, int64_t *places, T *out) {
        for (int64_t i = 0; i < n; i++) copy[i] = x[i], places[i + 1] = n - 1 - i;
        for (int64_t i = 0; i < n; i++) out[i] = copy[places[i + 1]];
    }
    """))  # fmt: skip
    def reverse(
        x: Float[Tensor, "*batch n"], copy: Float[tg.Workspace, "n"], places: Int64[tg.Workspace, "n+1"]
    ) -> Float[Tensor, "*batch n"]: ...

    x = torch.randn(5000, 101)
    torch.testing.assert_close(reverse(x), x.flip(-1))
    torch.testing.assert_close(reverse(x[:, :0]), x[:, :0])
    torch.testing.assert_close(torch.compile(reverse, fullgraph=True)(x), x.flip(-1))
    with pytest.raises(TypeError):
        reverse(x, x)


def test_workspaces_of_other_kinds_and_of_old():
    with pytest.raises(tg.DeclarationError, match="the dtype of a workspace is not known") as caught:

        @tg.op(kernel=tg.c("void f(int64_t n, T *work, const T *x, T *out) {}"))
        def f(work: Int[tg.Workspace, "n"], x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
            return tg.native

    assert (caught.value.argument, caught.value.got) == ("work", "Int")
    with pytest.warns(DeprecationWarning, match=r'write Int64\[tg.Workspace, "n"\]'):
        old = tg.workspace("n", torch.int64)

    @tg.op(kernel=tg.c("void g(int64_t n, const T *x, int64_t *work, T *out) { out[0] = x[0]; }"))
    def g(x: Float[Tensor, "n"], work: old) -> Float[Tensor, ""]:
        return tg.native

    assert g(torch.tensor([2.0, 3.0])) == 2


def test_a_stub_without_its_kernel():
    @tg.op
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return tg.native

    with pytest.raises(tg.KernelError, match="the body of a stub is in C"):
        f(torch.ones(2))


def test_a_workspace_needs_a_kernel_in_c():
    with pytest.raises(tg.DeclarationError, match="only a kernel in C has a workspace"):

        @tg.op
        def f(x: Float[Tensor, "n"], work: Float[tg.Workspace, "n"]) -> Float[Tensor, "n"]: ...


@tg.op(
    kernel=tg.c("""
    void big(int64_t n, const T *x, int64_t k, double scale, const int64_t *list, int64_t list_length, T *out) {
        for (int64_t i = 0; i < n; i++) out[i] = scale * (k >> 62) + (list_length ? list[0] >> 62 : 0);
    }
    """)
)
def big(x: Float[Tensor, "n"], k: int, scale: float = 1.0, list: list[int] = ()) -> Float[Tensor, "n"]: ...


@big.vjp("x", kernel=tg.c("void big_vjp_x(int64_t n, const T *grad, int64_t k, T *grad_x) { *grad_x = 0; }"))
def _(grad, k): ...


def test_the_largest_numbers_arrive():
    x = torch.ones(1)
    for _ in range(2):
        assert [big(x, k).item() for k in (2**63 - 1, -(2**63))] == [1, -2]
        assert big(x, 0, 1.0, [2**63 - 1]).item() == 1
        assert [big(x, 2**62, scale).item() for scale in (float("inf"), 2**70, True)] == [float("inf"), 2**70, 1]


CALLS = {
    "plainly": lambda *args: big(torch.ones(1), *args),
    "backward": lambda *args: big(torch.ones(1, requires_grad=True), *args).sum().backward(),
    "vmap": lambda *args: torch.vmap(lambda x: big(x, *args))(torch.ones(2, 1)),
    "grad": lambda *args: torch.func.grad(lambda x: big(x, *args).sum())(torch.ones(1)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("debug", [False, True])
def test_numbers_that_c_does_not_have(call, debug):
    call(1)
    for args, name in [((2**63,), "k"), ((-(2**63) - 1,), "k"), ((1, 10**400), "scale"), ((1, 1.0, [2**63]), "list")]:
        for _ in range(2):
            with (
                pytest.raises(tg.ArgumentError, match="is too large") as caught,
                tg.debug() if debug else nullcontext(),
            ):
                call(*args)
            assert (caught.value.operator, caught.value.argument) == ("big", name)
            assert "torchgraft_native" not in str(caught.value)
