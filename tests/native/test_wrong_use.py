"""Kernels in C that cannot be built, or called: each is refused, and the error says what to write."""

import textwrap

import pytest
import torch
from jaxtyping import Complex, Float, Float16, Inexact
from torch import Tensor

import torchgraft as tg
from torchgraft._build.library import build
from torchgraft._build.prototype import Prototype
from torchgraft._spec.reading import read_signature

from .. import fresh

HEAD = "void f(int64_t n, const T *x, int64_t k, T *out)"


def declare(source):
    @tg.op(kernel=tg.c(source))
    def f(x: Float[Tensor, "*batch n"], k: int = 1) -> Float[Tensor, "*batch n"]: ...

    return f


def refused(source):
    with pytest.raises(tg.BuildError) as caught:
        declare(source)(torch.ones(3))
    assert caught.value.operator == "f"
    return caught.value


# -- sources -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        "void f(int64_t n, const T *x, T *out)",
        "void f(int64_t n, const T *x, double k, T *out)",
        "void f(int64_t n, T *x, int64_t k, T *out)",
        "T f(int64_t n, const T *x, int64_t k, T *out)",
        "static void f(int64_t n, const T *x, int64_t k, T *out)",
        "void f(int64_t k, const T *x, int64_t n, T *out)",  # of the right types, in another order
        "void f(int64_t n, const T *out, int64_t k, T *x)",
    ],
)
def test_another_prototype(head):
    result = "return 0;" if head[0] == "T" else ""
    error = refused(f"/* f(int) */ // f(x)\n{head} {{ {result} }}")
    assert (error.expected, error.got) == (HEAD, head)
    assert "print(f.prototype())" in error.hint


def test_other_names_are_free():
    assert declare("void f(int64_t length, const T *from, int64_t how, T *to) { for (; length--;) to[length] = 7; }")(
        torch.ones(2)
    ).tolist() == [7, 7]


def test_no_such_function():
    error = refused("void g(void) {}")
    assert (error.problem, error.expected) == ("the source defines no function 'f'", HEAD)


@pytest.mark.slow
def test_no_such_function_of_a_rule():
    """What its author has called almost so is meant, and not the kernel."""
    code = f"""
        {HEAD} {{ *out = *x; }}
        void f_vjp_y(int64_t n, const T *grad, T *grad_x) {{ *grad_x = *grad; }}
    """
    f = declare(code)

    @f.vjp("x", kernel=tg.c(code))
    def f_vjp_x(grad): ...

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(tg.BuildError, match="defines no function 'f_vjp_x'") as raised:
        f(x).sum().backward()
    assert raised.value.hint.endswith('tg.c(..., function="f_vjp_y")')


def test_a_syntax_error_names_the_line(tmp_path):
    error = refused(f"{HEAD} {{\n    out[0] = missing;\n}}")
    assert "source of f:2:14: error: 'missing' undeclared" in error.got
    file = tmp_path / "mit Lücken und ünïcode.c"
    file.write_text(f"{HEAD} {{\n\n    out[0] = x\n}}")
    error = refused(file)
    assert f"{file}:3" in error.got
    assert "In file included" not in error.got


def test_a_warning_is_shown_once(own_cache):
    f = declare(f"{HEAD} {{\n    int unused; for (int64_t i = 0; i < n; i++) out[i] = x[i];\n}}")
    with pytest.warns(tg.TorchgraftWarning, match=r"source of f:2:9: warning: unused variable"):
        f(torch.ones(2))
    f(torch.ones(2))


def test_a_symbol_that_is_nowhere():
    assert "nowhere" in refused(f"void nowhere(void);\n{HEAD} {{ nowhere(); }}").got


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if (n > 5) return 1;", "control reaches end of non-void function"),
        ("out[0] = unknown_function(x[0]); return 0;", "implicit declaration of function"),
        ("int *wrong = out; return *wrong;", "incompatible pointer type"),
        ("int *wrong = n; return *wrong;", "without a cast"),
    ],
)
def test_mistakes_that_would_be_wrong_numbers(body, said):
    """Older compilers only warn of them."""
    assert said in refused(HEAD.replace("void", "int") + f" {{ {body} }}").got


def test_no_such_file():
    with pytest.raises(tg.DeclarationError, match="there is no such source file") as caught:
        tg.c("missing.c")
    assert caught.value.got.endswith("tests/native/missing.c")


@pytest.mark.slow
def test_paths_are_relative_to_the_file_that_declares(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/header.h").write_text("#define FACTOR 3\n")
    (tmp_path / "kernels/triple.c").write_text(
        '#include "header.h"\nvoid triple(int64_t n, const T *x, T *out) { while (n--) out[n] = FACTOR * x[n]; }\n'
    )
    (tmp_path / "declares.py").write_text(
        textwrap.dedent("""
            import torch, torchgraft as tg
            from jaxtyping import Float
            from torch import Tensor

            @tg.op(kernel=tg.c("kernels/triple.c"))
            def triple(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

            print(triple(torch.ones(2)).tolist())
            """)
    )
    run = fresh.run("../declares.py", cwd=tmp_path / "kernels")
    assert run.stdout.strip() == "[3.0, 3.0]", run.stderr


# -- compilers -----------------------------------------------------------------------------------------------------


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    error = refused(f"{HEAD} {{ out[0] = 1; }}")
    assert error.problem == "there is no compiler"
    assert "ziglang" in error.hint
    assert "apt install" in error.hint


@pytest.mark.slow
def test_a_compiler_with_arguments(monkeypatch):
    monkeypatch.setenv("CC", "cc -DFROM_THE_ENVIRONMENT=5")
    f = declare(f"{HEAD} {{ while (n--) out[n] = FROM_THE_ENVIRONMENT; }}")
    assert f(torch.ones(2)).tolist() == [5, 5]


def test_a_compiler_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert refused(f"{HEAD} {{ out[0] = 2; }}").got == "CC=no-such-compiler"


def test_flags_includes_and_libraries(tmp_path):
    (tmp_path / "value.h").write_text("#define VALUE 4\n")
    source = tg.c(
        f"#include <value.h>\n{HEAD} {{ while (n--) out[n] = VALUE + FLAG; }}",
        flags=["-DFLAG=10"],
        include=[tmp_path],
        libraries=["m"],
    )

    @tg.op(kernel=source)
    def f(x: Float[Tensor, "n"], k: int = 1) -> Float[Tensor, "n"]: ...

    assert f(torch.ones(1)).tolist() == [14]


# -- annotations ---------------------------------------------------------------------------------------------------


def stub_bare(x: Tensor) -> Float[Tensor, "n"]: ...
def stub_anonymous(x: Float[Tensor, "_ n"]) -> Float[Tensor, "n"]: ...
def stub_runs(x: Float[Tensor, "*batch n"], y: Float[Tensor, "*other n"]) -> Float[Tensor, "*batch n"]: ...
def stub_sum(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "n"]: ...
def stub_whole(x: Float[Tensor, "*batch n"], y: Tensor) -> Float[Tensor, "*batch n"]: ...
def stub_keyword(x: Float[Tensor, "int"]) -> Float[Tensor, "int"]: ...
def stub_same(x: Float[Tensor, "x"]) -> Float[Tensor, "x"]: ...
def stub_list(xs: list[Float[Tensor, "..."]]) -> Float[Tensor, "..."]: ...
def stub_workspace(x: Float[Tensor, "..."], work: Float[tg.Workspace, "3"]) -> Float[Tensor, "..."]: ...
def stub_unknown(x: Float[Tensor, "n"], work: Float[tg.Workspace, "_"]) -> Float[Tensor, "n"]: ...
def stub_prefix(x: Float[Tensor, "tg_n"]) -> Float[Tensor, "tg_n"]: ...
def stub_half(x: Float16[Tensor, "n"]) -> Float16[Tensor, "n"]: ...
def stub_optional(x: Float[Tensor, "..."], y: Float[Tensor, "..."] | None) -> Float[Tensor, "..."]: ...


@pytest.mark.parametrize("stub", [value for name, value in vars().copy().items() if name.startswith("stub_")])
def test_annotations_without_a_counterpart_in_c(stub):
    with pytest.raises(tg.DeclarationError) as caught:
        tg.op(kernel=tg.c("void f(void) {}"), name="f")(stub)
    assert caught.value.operator == "f"
    assert caught.value.argument
    assert caught.value.expected


def test_arrays_are_refused():
    import numpy as np

    with pytest.raises(tg.DeclarationError, match="a kernel in C takes tensors"):

        @tg.op(kernel=tg.c(f"{HEAD} {{}}"))
        def f(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]: ...


# -- the shim's own checks: what Python's miss, a program without Python would ----------------------------------------


def shim_of(source, stub, **dtypes):
    return build(tg.c(source), Prototype(read_signature(stub, "f", loop=False, frames=0), "f"), dtypes).function


def add(
    x: Float[Tensor, "*batch n"], y: Float[Tensor, "2*n-1"], z: Float[Tensor, "n"]
) -> Float[Tensor, "*batch n-3"]: ...


@pytest.mark.parametrize(
    ("x", "y", "z", "match"),
    [
        ((2, 4), (7,), (5,), "argument 'z': axis n is 5, expected 4"),
        ((2, 4), (8,), (4,), r"argument 'y': axis 2\*n-1 is 8, expected 7"),
        ((2, 4), (), (4,), "argument 'y' has 0 axes, expected at least 1"),
        ((2, 2), (3,), (2,), "output 'out': axis 0 is -1"),
        ((2, 4), (3, 7), (4,), "leading axes do not broadcast"),
    ],
)
def test_shapes_that_contradict_each_other(x, y, z, match):
    source = "void f(int64_t n, const T *x, const T *y, const T *z, T *out) {}"
    f = shim_of(source, add, x=torch.float32, y=torch.float32, z=torch.float32, out=torch.float32)
    assert f(torch.ones(2, 4), torch.ones(7), torch.ones(4)).shape == (2, 1)
    for _ in range(3):  # nothing of a failed call is left
        with pytest.raises(RuntimeError, match=match):
            f(torch.ones(x), torch.ones(y), torch.ones(z))
    with pytest.raises(RuntimeError, match="argument 'z' has dtype 7, this kernel was built for 6"):
        f(torch.ones(2, 4), torch.ones(7), torch.ones(4).double())


def of_complex(z: Complex[Tensor, "n"]) -> Complex[Tensor, "n"]: ...


def test_complex_elements_alone_are_t():
    f = shim_of(
        "void f(int64_t n, const T *z, T *out) { while (n--) out[n] = z[n] * z[n]; }", of_complex,
        z=torch.complex64, out=torch.complex64,
    )  # fmt: skip
    z = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(f(z), z * z)


@pytest.mark.slow
def test_the_real_twin_of_elements_that_may_be_complex():
    @tg.op(
        kernel=tg.c("""
        void size(int64_t n, const T *z, T_real *out) {
            while (n--) out[n] = __builtin_hypot(__real__ z[n], __imag__ z[n]);
        }
        """)
    )
    def size(z: Inexact[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        z = torch.randn(3, dtype=dtype)
        for _ in range(2):
            torch.testing.assert_close(size(z), z.abs())


def test_real_and_complex_elements_have_one_type():
    @tg.op(kernel=tg.c("void f(int64_t n, const T *x, const T *y, T *out) { while (n--) out[n] = x[n] + y[n]; }"))
    def f(x: Inexact[Tensor, "n"], y: Inexact[Tensor, "n"]) -> Inexact[Tensor, "n"]: ...

    x = torch.arange(3.0)
    torch.testing.assert_close(f(x, x), 2 * x)
    torch.testing.assert_close(f(1j * x, 1j * x), 2j * x)
    with pytest.raises(tg.DtypeError, match="one type of elements") as caught:
        f(x, 1j * x)
    assert caught.value.argument == "y"
