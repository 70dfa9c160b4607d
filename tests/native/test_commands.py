"""`torchgraft prototype`, `torchgraft cache`, and `Op.prototype`."""

import subprocess
import sys

import pytest
import torch
from jaxtyping import Complex, Float, Int64
from torch import Tensor

import torchgraft as tg
from torchgraft.cli import main

from . import test_rules

DECLARATION = """
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from neighbour import factor


@tg.op
def scale(x: Float[Tensor, "*batch n"], by: float = factor) -> Float[Tensor, "*batch n"]:
    return x * by


@scale.vjp("x")
def _(grad, by):
    return grad * by
"""


@pytest.fixture
def declared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("declared", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "declared.py").write_text(DECLARATION)
    (tmp_path / "neighbour.py").write_text("factor = 2.0\n")
    return tmp_path


def test_a_stub_is_written_once(declared, capsys):
    assert main(["prototype", "declared.py:scale"]) == 0
    assert capsys.readouterr().out == "scale.c\n"
    text = (declared / "scale.c").read_text()
    assert "void scale(int64_t n, const T *x, double by, T *out) {" in text
    assert "void scale_vjp_x(int64_t n, const T *grad, double by, T *grad_x) {" in text
    assert main(["prototype", "declared.py:scale"]) == 2
    assert "File exists" in capsys.readouterr().err
    assert (declared / "scale.c").read_text() == text
    assert main(["prototype", "declared.py:scale", "--out", "-"]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.slow
def test_a_stub_does_not_compile_until_it_is_written(declared, own_cache):
    main(["prototype", "declared.py:scale"])
    source = (declared / "scale.c").read_text()
    stub = subprocess.run(["cc", "-fsyntax-only", "scale.c"], capture_output=True, text=True, check=False)
    assert "scale is to be written" in stub.stderr
    filled = source.replace('#error "scale is to be written"', "while (n--) out[n] = by * x[n];")
    filled = filled.replace('#error "scale_vjp_x is to be written"', "while (n--) grad_x[n] = by * grad[n];")
    (declared / "scale.c").write_text(filled)
    subprocess.run(["cc", "-fsyntax-only", "-Wall", "-Werror", "scale.c"], check=True)
    kernel = tg.c(declared / "scale.c")

    @tg.op(kernel=kernel)
    def scale(x: Float[Tensor, "*batch n"], by: float) -> Float[Tensor, "*batch n"]: ...

    @scale.vjp("x", kernel=kernel)
    def _(grad, by): ...

    assert torch.autograd.gradcheck(scale, (torch.randn(2, 3, dtype=torch.float64, requires_grad=True), 3.0))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("declared.py", "names no operator"),
        ("declared.py:nothing", "expected: scale"),
        ("missing.py:scale", "there is no file"),
        ("no.such.module:scale", "cannot be imported"),
    ],
)
def test_what_is_no_operator(declared, capsys, place, said):
    assert main(["prototype", place]) == 2
    assert said in capsys.readouterr().err
    assert not (declared / "scale.c").exists()


def test_the_cache_is_shown_and_cleared(own_cache, capsys):
    f = tg.op(kernel=tg.c("T f(T x) { return x + 1; }"), name="f")(one)
    assert f(torch.ones(1)).item() == 2
    assert main(["cache"]) == 0
    assert f"{own_cache}: 1 libraries" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert "freed" in capsys.readouterr().out
    assert list(own_cache.iterdir()) == []
    assert f(torch.ones(1)).item() == 2  # what is loaded stays
    assert tg.op(kernel=tg.c("T f(T x) { return x + 1; }"), name="f")(one)(torch.ones(1)).item() == 2


def one(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...


def test_every_function_is_shown():
    assert test_rules.affine.prototype().splitlines() == [
        "void affine(int64_t n, int64_t m, const T *x, const T *w, const T *bias, T *out)",
        "void affine_vjp_x_w(int64_t n, int64_t m, const T *grad, const T *x, const T *w, T *grad_x, T *grad_w)",
        "void copy(int64_t n, int64_t m, const T *grad, T *grad_bias)",
    ]
    assert "T power_partial_x(T y, T x, double scale)" in test_rules.power.prototype()


def test_every_kind_of_argument_is_shown():
    @tg.op(kernel=tg.c("void f(void) {}"))
    def f(
        xs: list[Float[Tensor, "n"]],
        whole: Tensor,
        z: complex,
        zs: list[complex] | None,
        names: list[str],
        device: torch.device,
        dtype: torch.dtype,
        work: Int64[tg.Workspace, "2*n"],
        flag: bool | None,
    ) -> tuple[Complex[Tensor, "n"], Int64[Tensor, "n"]]: ...

    assert f.prototype() == (
        "void f(int64_t n, const T_real *const *xs, int64_t xs_length, const T_whole *whole, int64_t whole_dim, "
        "const int64_t *whole_sizes, const int64_t *whole_strides, double _Complex z, const double _Complex *zs, "
        "int64_t zs_length, const char *const *names, int64_t names_length, const char *device, int64_t device_length, "
        "int32_t dtype, int64_t *work, const bool *flag, T_complex *out0, int64_t *out1)"
    )
