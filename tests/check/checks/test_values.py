"""Values that have fewer digits than their dtype are seen, though their slope is right; and nothing else is."""

import numpy as np
import pytest
import scipy.special
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from ...zoo.bug import function

DOUBLE = torch.tensor([0.3, -1.2, 0.7, 2.1], dtype=torch.float64)


def with_values(values, dtype=None):
    """Make a Function of other values of a sine, in a dtype or the argument's, and the right derivative."""

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return values(x).to(dtype or x.dtype)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cos()

    return Sine.apply


def found(function, *inputs):
    report = tg.check(function, *inputs, only="values")
    return [(finding.code, report.verdict.name) for finding in report.findings]


LOST = {
    "the result in float32": lambda x: x.sin().float(),
    "the argument in float32": lambda x: x.float().double().sin(),
    "a sum in float32": lambda x: (x.sin() + 3).float().double() - 3,
    "through numpy's float32": lambda x: torch.from_numpy(np.sin(x.detach().numpy().astype(np.float32))),
    "one element of them": lambda x: torch.cat([x[:1].sin().float().double(), x[1:].sin()]),
    "a table of a million entries": lambda x: (x * 2**20).round().div(2**20).sin(),
}


@pytest.mark.parametrize("values", LOST.values(), ids=LOST)
def test_digits_that_are_lost_on_the_way(values):
    assert found(with_values(values), DOUBLE) == [("values-jump", "LOSES_DIGITS")]


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_half_precision_inside_of_single(narrow):
    assert found(with_values(lambda x: x.sin().to(narrow)), DOUBLE.float()) == [("values-jump", "LOSES_DIGITS")]


RIGHT = {
    "steep": lambda x: torch.sin(1e8 * x),
    "cancelling": lambda x: torch.log1p(x.abs()) - x.abs() + 1e-3,
    "with a kink": torch.relu,
    "with steps": lambda x: torch.floor(4 * x) + x,
    "quantized": torch.frac,
    "complex": lambda x: torch.view_as_real(torch.exp(1j * x)),
    "saturated": lambda x: torch.sigmoid(40 * x),
    "with a pole": lambda x: 1 / (x - 0.31),
    "zero": lambda x: 0 * x,
    "of SciPy": lambda x: torch.from_numpy(scipy.special.gammaln(x.detach().numpy())) + 0 * x,
    "with a sum": lambda x: x.exp().cumsum(0),
}


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_is_right_to_its_digits(function, dtype):
    assert found(function, DOUBLE.to(dtype)) == []


@pytest.mark.parametrize(("x", "why"), [(DOUBLE.half(), "half precision"), (DOUBLE[:0], "no elements")])
def test_what_is_left_out(x, why):
    assert why in str(tg.check(torch.sin, x, only="values"))


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_an_accumulator_of_c(size):
    """Its sum has errors that are no multiple of one rounding."""
    source = tg.c("""
    #include <stdint.h>
    void total(int64_t n, const T *x, T *out) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
        *out = sum;
    }
    """)

    @tg.op(kernel=source)
    def total(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]: ...

    @total.vjp("x")
    def _(grad, x):
        return 2 * grad[..., None] * x

    report = tg.check(total, torch.rand(size, dtype=torch.float64), only="values")
    assert [finding.code for finding in report.findings] == ["values-jump"]
    assert "float32" in report.findings[0].cause


def test_outputs_that_are_wider_than_their_arguments():
    def values(x):
        return torch.from_numpy(np.sin(x.detach().numpy().astype(np.float64)))

    assert found(with_values(values, dtype=torch.float64), DOUBLE) == [("output-dtype", "PASS")]
    assert found(with_values(values), DOUBLE) == []


@pytest.mark.parametrize(
    ("lost", "kept", "told"),
    [
        (lambda x: 1 - torch.exp(-x), lambda x: -torch.expm1(-x), ("values-cancel", "PASS")),
        (lambda x: torch.sqrt(1 + x) - 1, lambda x: x / (1 + torch.sqrt(1 + x)), ("values-cancel", "PASS")),
        (lambda x: torch.log(1 - torch.exp(-x)), lambda x: torch.log(-torch.expm1(-x)), ("values-cancel", "FAIL")),
        (lambda x: torch.log(1 + x.exp()), torch.nn.functional.softplus, ("values-overflow", "FAIL")),
        (lambda x: x.exp() / (1 + x.exp()), torch.sigmoid, ("values-overflow", "FAIL")),
        (lambda x: x.exp() / x.exp().sum(), lambda x: x.softmax(0), ("values-overflow", "FAIL")),
        (lambda x: torch.exp(-x).log(), torch.neg, ("values-overflow", "FAIL")),
    ],
    ids=["expm1", "a root beside 1", "log(1 - exp)", "softplus", "sigmoid", "softmax", "log(exp)"],
)
def test_what_float32_loses_next_to_zero_and_far_from_it(lost, kept, told):
    """A number that is off is a notice: a kernel may not be made for such. One that is infinite is a finding."""
    x = DOUBLE.abs()
    assert found(with_values(lost), x) == [told]
    assert found(with_values(kept), x) == []


def test_what_float32_cannot_hold_is_not_asked_for():
    for values in (torch.exp, lambda x: x**9, lambda x: (50 * x).cosh()):
        assert found(with_values(values), DOUBLE.abs()) == []


@pytest.mark.parametrize(("function", "count"), [(torch.reciprocal, 1), (lambda x: (x - 1.5).log(), 2)])
def test_values_that_are_not_finite_are_told_and_not_judged(function, count):
    """At a pole or beyond a domain nothing is right or wrong: a gradient of -inf there is no lost digit."""
    report = tg.check(function, torch.tensor([1.0, 2.0, 0.0, 4.0], dtype=torch.float64))
    assert report.ok, str(report)
    assert [f.title for f in report.findings] == [f"{count} of 4 values are infinite or NaN"]


def test_half_precision_on_the_way_is_told_once_and_is_no_mistake():
    """Checks that compare two right ways allow for its rounding; a wrong factor is still seen."""

    def right(x):
        return (x.bfloat16() * x.bfloat16()).float()

    report = tg.check(right, DOUBLE.float())
    assert [(finding.code, finding.severity) for finding in report.findings] == [("values-jump", "LOSES_DIGITS")]
    wrong = function("Wrong", lambda x: x.bfloat16().sin().float(), lambda grad, x: 1.5 * grad * x.cos())
    assert tg.check(wrong, torch.linspace(-2, 2, 40)).verdict == "FAIL"
