"""Functions in C++: exceptions, templates, overloads, complex elements, and what is refused."""

import pytest
import torch
from jaxtyping import Complex, Float
from torch import Tensor

import torchgraft as tg

MEDIAN = """
#include <algorithm>
#include <stdexcept>
#include <string>

template <class E> void median(int64_t n, const E *x, E *sorted, E *out) {
    if (n == 0) throw std::invalid_argument("median of " + std::to_string(n) + " elements");
    std::copy(x, x + n, sorted);
    std::nth_element(sorted, sorted + n / 2, sorted + n);
    *out = sorted[n / 2];
}
"""


@tg.op(kernel=tg.cpp(MEDIAN))
def median(x: Float[Tensor, "*batch n"], sorted: Float[tg.Workspace, "n"]) -> Float[Tensor, "*batch"]: ...


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_template(dtype):
    x = torch.randn(3000, 7, dtype=dtype)
    torch.testing.assert_close(median(x), x.median(-1).values)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 100_000])
def test_an_exception_becomes_one_of_python(count):
    for _ in range(2):
        with pytest.raises(tg.KernelError, match="median of 0 elements") as caught:
            median(torch.ones(count, 0))
        assert caught.value.operator == "median"
    assert median(torch.ones(2, 3)).tolist() == [1, 1]


@pytest.mark.slow
def test_anything_else_that_is_thrown():
    @tg.op(kernel=tg.cpp("T f(T x) { throw 3; }"))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    for x in (torch.ones(3), torch.ones(6)[::2]):
        with pytest.raises(tg.KernelError, match="threw something that is no std::exception"):
            f(x)


@pytest.mark.slow
def test_an_error_code():
    @tg.op(kernel=tg.cpp("int f(int64_t n, const T *x, T *out) { return n; }"))
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, ""]: ...

    with pytest.raises(tg.KernelError, match="the function returned 4"):
        f(torch.ones(4))


@pytest.mark.slow
def test_an_overload_is_chosen():
    @tg.op(kernel=tg.cpp("float f(float x) { return x + 1; } double f(double x) { return x + 2; }"))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    assert f(torch.zeros(2)).tolist() == [1, 1]
    assert f(torch.zeros(2, dtype=torch.float64)).tolist() == [2, 2]


SOURCE = tg.cpp("""
void turn(int64_t n, const T_complex *z, const T_real *angle, std::complex<double> scale, T_complex *out) {
    for (int64_t i = 0; i < n; i++) out[i] = z[i] * std::polar<T_real>(1, angle[i]) * T_complex(scale);
}
void turn_vjp_z(int64_t n, const T_complex *grad, const T_real *angle, std::complex<double> scale, T_complex *grad_z) {
    T_complex back = std::conj(T_complex(scale));
    for (int64_t i = 0; i < n; i++) grad_z[i] = grad[i] * std::polar<T_real>(1, -angle[i]) * back;
}
""")


@tg.op(kernel=SOURCE)
def turn(z: Complex[Tensor, "*batch n"], angle: Float[Tensor, "n"], scale: complex) -> Complex[Tensor, "*batch n"]: ...


@turn.vjp("z", kernel=SOURCE)
def _(grad, angle, scale): ...


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complex_elements(dtype):
    angle = torch.randn(3, dtype=dtype)
    z = torch.randn(2, 3, dtype=torch.complex64 if dtype is torch.float32 else torch.complex128, requires_grad=True)
    wanted = z * torch.polar(torch.ones(3, dtype=dtype), angle) * (1 + 2j)
    torch.testing.assert_close(turn(z, angle, 1 + 2j), wanted)
    weights = torch.randn_like(wanted)
    one, other = (torch.autograd.grad(o, z, weights) for o in (turn(z, angle, 1 + 2j), wanted))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("void f(int64_t n, const T *x, float *out, int) {}", "takes something else"),
        ("void f(const T *x, int64_t n, T *out) {}", "takes something else"),
        ("T f(int64_t n, const T *x, T *out) { return 0; }", "takes something else"),
        ("void g(int64_t n, const T *x, T *out) {}", "defines no function 'f'"),
        ("void f(int64_t n, const T *x, T *out) { return 1 }", "the compiler refused"),
    ],
)
def test_what_is_refused(source, problem):
    @tg.op(kernel=tg.cpp(source))
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    with pytest.raises(tg.BuildError, match=problem):
        f(torch.ones(2))


def test_a_file_and_its_line(tmp_path):
    path = tmp_path / "with space é.cc"
    path.write_text("// first\nvoid f(int64_t n, const T *x, T *out) {\n    int unknown = nothing;\n}\n")

    @tg.op(kernel=tg.cpp(path, flags=["-std=c++20"]))
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    with pytest.raises(tg.BuildError) as caught:
        f(torch.ones(2))
    assert f"{path}:3:19: error" in caught.value.got


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)

    @tg.op(kernel=tg.cpp("T f(T x) { return x; }"))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    with pytest.raises(tg.BuildError, match="there is no compiler") as caught:
        f(torch.ones(2))
    assert "$CXX" in caught.value.expected
