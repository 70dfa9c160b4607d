"""Numbers in the place of an elementwise operator's tensors."""

import numpy as np
import pytest
import torch
from jaxtyping import Complex, Float, Inexact, Int, Real
from torch import Tensor

import torchgraft as tg


@tg.op
def power(x: Float[Tensor, "..."], n: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x**n


@power.partial("x")
def _(x, n):
    return n * x ** (n - 1)


@power.partial("n")
def _(x, n):
    return x**n * x.log()


@tg.op
def hypotenuse(x: Real[np.ndarray, "..."], y: Real[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.hypot(x, y)


@tg.op
def turned(z: Inexact[Tensor, "..."], times: Int[Tensor, "..."]) -> Inexact[Tensor, "..."]:
    return z * (-1) ** times


X = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
TWO = torch.tensor(2.0, dtype=torch.float64)

CALLS = {
    "a call": lambda f, x: f(x),
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
    "vmap": lambda f, x: torch.vmap(f)(x),
    "compile": lambda f, x: torch.compile(f, backend="aot_eager", fullgraph=True)(x),
    "export": lambda f, x: torch.export.export(Calls(f), (x,)).module()(x),
}


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", CALLS)
def test_a_number_is_as_good_as_a_tensor(name):
    torch.testing.assert_close(CALLS[name](lambda x: power(x, 2), X), CALLS[name](lambda x: power(x, TWO), X))
    torch.testing.assert_close(CALLS[name](lambda n: power(2.0, n), X), CALLS[name](lambda n: power(TWO, n), X))


@pytest.mark.slow
def test_numbers_that_change_between_calls_of_compiled_code():
    compiled = torch.compile(power, backend="aot_eager", fullgraph=True, dynamic=True)
    for number in (1.5, 2.5, 2):
        torch.testing.assert_close(compiled(X, number), X**number)


def test_a_gradient_flows_to_the_tensor_alone():
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(power(x, 3).sum(), x)
    torch.testing.assert_close(gradient, 3 * X**2)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (torch.float32, 2, torch.float32),
        (torch.float32, 0.5, torch.float32),
        (torch.bfloat16, 0.5, torch.bfloat16),
        (torch.int64, 2, torch.float64),
        (torch.int32, 0.5, torch.float64),
    ],
)
def test_a_number_follows_the_tensors(dtype, number, expected):
    """As NumPy's functions do."""
    x = torch.tensor([1, 2], dtype=dtype)
    found = hypotenuse(x, number)
    assert found.dtype == expected
    torch.testing.assert_close(found, torch.hypot(x.double(), TWO * 0 + number).to(expected))


@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(2)], ids=lambda n: n.dtype.name)
def test_numbers_of_numpy_are_numbers(number):
    assert torch.equal(power(X, number), power(X, number.item()))


def test_each_number_has_the_dtype_of_its_parameter():
    assert turned(X, 1).tolist() == (-X).tolist()
    assert turned(X.to(torch.complex128), 2).tolist() == X.tolist()
    with pytest.raises(tg.DtypeError, match="argument 'times': has dtype float64"):
        turned(X, 1.5)


def test_a_complex_number_among_real_tensors():
    @tg.op
    def scaled(x: Float[Tensor, "..."], by: Complex[Tensor, "..."]) -> Complex[Tensor, "..."]:
        return x * by

    assert scaled(torch.ones(1), 2j).dtype == torch.complex64


@pytest.mark.parametrize("arguments", [(X, True), (2.0, 3.0), (X, "2")], ids=["bool", "no tensor", "str"])
def test_what_is_no_number_is_refused(arguments):
    with pytest.raises(tg.ArgumentError, match="is not a tensor"):
        power(*arguments)


def test_other_operators_take_tensors_alone():
    @tg.op
    def total(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, ""]:
        return (x * y).sum()

    with pytest.raises(tg.ArgumentError, match="argument 'y': is not a tensor"):
        total(X, 2.0)
