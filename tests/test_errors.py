"""Errors carry data: fields, text, pickling."""

import copy
import pickle

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

KINDS = [
    tg.ArgumentError, tg.DeclarationError, tg.DerivativeError, tg.DeviceError, tg.DtypeError, tg.KernelError,
    tg.RuleError, tg.ShapeError, tg.TorchgraftError, tg.UnsupportedError,
]  # fmt: skip
FIELDS = {"operator": "linear", "argument": "bias", "expected": "m = 3", "got": 5, "hint": "two\nlines"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy], ids=range(3))
def test_errors_keep_their_fields(kind, again):
    error = kind("sizes differ", **FIELDS)
    error.add_note("seen in a worker")
    other = again(error)
    assert type(other) is kind
    assert {name: getattr(other, name) for name in FIELDS} == FIELDS
    assert other.problem == "sizes differ"
    assert other.__notes__ == ["seen in a worker"]
    assert str(other) == str(error)
    assert isinstance(other, tg.TorchgraftError)


def test_the_text_is_made_from_the_fields():
    assert str(tg.ShapeError("sizes differ", **FIELDS)) == (
        "operator 'linear' argument 'bias': sizes differ\n"
        "  expected: m = 3\n"
        "  got:      5\n"
        "  next:     two\n"
        "            lines"
    )
    assert str(tg.ShapeError("alone")) == "alone"
    assert str(tg.ShapeError("one", argument="x")) == "argument 'x': one"


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (tg.ArgumentError, TypeError),
        (tg.DeclarationError, TypeError),
        (tg.DtypeError, TypeError),
        (tg.ShapeError, ValueError),
        (tg.DeviceError, RuntimeError),
        (tg.KernelError, RuntimeError),
        (tg.RuleError, RuntimeError),
        (tg.DerivativeError, RuntimeError),
        (tg.UnsupportedError, NotImplementedError),
    ],
)
def test_errors_are_the_builtin_kind_too(kind, builtin):
    assert issubclass(kind, builtin)


def test_an_error_of_a_real_call_pickles():
    @tg.op
    def add(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x + y

    with pytest.raises(tg.ShapeError) as caught:
        add(torch.ones(2), torch.ones(3))
    other = pickle.loads(pickle.dumps(caught.value))
    assert (other.operator, other.argument, other.expected) == ("add", "y", "n = 2")
    assert str(other) == str(caught.value)
