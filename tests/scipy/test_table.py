"""A row becomes an operator: kernel, signature, docstring, derivatives and refusals."""

import inspect
import pickle

import pytest
import torch

import torchgraft as tg
from torchgraft.scipy.special.docstrings import WIDTH, docstring
from torchgraft.scipy.special.sources import lent, ours
from torchgraft.scipy.special.table import Input, Option, Refused, function, nth, second_of

scaled = function(
    "scaled", ours(None, "double f = SCIPY(xlogy); return (T)(twice ? 2 * f : f);"),
    "The product a log(x), or twice of it.",
    a=Input("any number.", None, Refused("`{}` is given")),
    x=Input("positive.", "positive", lambda a, x, twice: (1 + twice) * a / x, "a / x (DLMF 4.7.1)."),
    twice=Option(bool, "double it.", False),
    returns="In the shape of both.", raises="a derivative in `a`", example=("scaled(a, x)", "tensor(1.)"),
)  # fmt: skip

tripled_nth = nth("tripled", ours(None, "n == 0 ? 3 * x : 3"), most=1)


def numbers(*values):
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


def test_a_row_is_an_operator_of_its_module():
    assert str(inspect.signature(scaled)).startswith("(a: jaxtyping.Real[Tensor, '...'], x: ")
    assert [(p.name, p.default) for p in inspect.signature(scaled).parameters.values()][2] == ("twice", False)
    assert (scaled.__module__, scaled.__name__) == (__name__, "scaled")
    assert tripled_nth.__module__ == __name__
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert scaled._record.domains.keys() == {"x"}


def test_its_value_and_derivative():
    a, x = numbers(3.0, 0.5)
    value = scaled(3.0, x, True)
    assert value.item() == 6 * torch.tensor(0.5, dtype=torch.float64).log().item()
    assert torch.autograd.grad(value, x)[0].item() == 12
    with pytest.raises(tg.DerivativeError, match="`a` is given"):
        torch.autograd.grad(scaled(a, 0.5), a)


def test_its_docstrings():
    assert scaled.__doc__ == (
        "The product a log(x), or twice of it.\n\n"
        "Args:\n    a: any number.\n    x: positive.\n    twice: double it.\n\n"
        "Returns:\n    In the shape of both.\n\nRaises:\n    DerivativeError: a derivative in `a` is asked for.\n\n"
        "Example:\n    >>> scaled(a, x)\n    tensor(1.)"
    )
    assert scaled._record.rules["partial"]["x"].written.__doc__ == "a / x (DLMF 4.7.1)."


def test_derivatives_end_at_an_order():
    (x,) = numbers(0.5)
    (slope,) = torch.autograd.grad(tripled_nth(x, 0), x, create_graph=True)
    assert slope.item() == 3
    with pytest.raises(tg.DerivativeError, match=r"'tripled' argument 'x'.*\n.*order 1 at most"):
        torch.autograd.grad(slope, x)


def test_a_refusal_names_the_input():
    assert second_of("stdtr").reason.format("df") == "the second derivative of stdtr in df is not available"


def test_functions_of_scipy_are_imported():
    made = lent("betainc")("f", {"a": "T", "b": "T", "x": "T"})
    assert made.imports == (("scipy_betainc", "scipy.special.cython_special:__pyx_fuse_0betainc"),)
    assert "TG_IMPORT(double, scipy_betainc, (double, double, double, int))" in made.code
    assert "T f(T a, T b, T x) { return (T)(SCIPY(betainc)); }" in made.code
    assert ours(None, "x")("f", {"x": "T"}).imports == ()
    twice = ours(None, "x < 1 ? SCIPY(psi) : -SCIPY(psi)")("f", {"x": "T"})
    assert twice.code.count("TG_IMPORT(double, scipy_psi, (double, int))") == 1


def test_lines_are_broken_beside_relations_and_not_within():
    text = docstring("Summary.", {"x": "word " * 18 + "and then also x < 1e-20 or more."}, "Shape.", "", ("f()", "1"))
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[4] == "        x < 1e-20 or more."
    assert "Raises" not in text
