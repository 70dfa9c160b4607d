"""Wrong use of `tg.module` and of the classes that it makes: each error says what is right."""

import pytest
import torch

import torchgraft as tg
from tests.nn import operators
from tests.nn.operators import Affine, Linear, affine, linear


def declare(op, parameters, **more):
    return lambda: tg.module(op, parameters, **more)


@pytest.mark.parametrize(
    ("wrong", "match", "argument"),
    [
        (declare(operators.dots, ("weight",)), r"the size of '\.\.\.' cannot be known", "weight"),
        (declare(linear, ("input",)), r"the size of '\*batch' cannot be known", "input"),
        (declare(operators.anonymous, ("weight",)), "the size of '_' cannot be known", "weight"),
        (declare(operators.bare, ("weight",)), "its shape is not annotated", "weight"),
        (declare(operators.listed, ("weights",)), "a list of tensors has no one shape", "weights"),
        (declare(linear, ("wait",)), "no tensor input 'wait'", "wait"),
        (declare(affine, ("power",)), "no tensor input 'power'", "power"),
        (declare(linear, ("weight", "weight")), "'weight' is named twice", "weight"),
        (declare(linear, ("bias",), buffers=("bias",)), "'bias' is named twice", "bias"),
        (declare(affine, ("steps",)), "cannot be a parameter", "steps"),
        (declare(operators.hiding, ("weight",)), "two attributes 'half'", "half"),
        (declare(linear, "weight"), "names stand in a tuple", "parameters"),
        (declare(linear, ("weight",), init={"bias": torch.nn.init.zeros_}), "init names 'bias'", "bias"),
        (declare(torch.sin, ()), "a module is made of", None),
        (declare(linear.__wrapped__, ()), "made of an operator", None),
    ],
)
def test_declarations(wrong, match, argument):
    with pytest.raises(tg.DeclarationError, match=match) as caught:
        wrong()
    assert caught.value.argument == argument
    assert caught.value.expected


@pytest.mark.parametrize(
    ("wrong", "match", "argument"),
    [
        (lambda: Linear(k=3), "no axis and no argument 'k'", "k"),
        (lambda: Linear(4), "missing a required argument: 'm'", None),
        (lambda: Linear(4, 3, 2), "too many positional arguments", None),
        (lambda: Linear(4, 3, n=4), "multiple values for argument 'n'", None),
        (lambda: Linear(4, -3), "is the size of an axis", "m"),
        (lambda: Linear(4.0, 3), "is the size of an axis", "n"),
        (lambda: Linear(True, 3), "size of an axis", "n"),
        (lambda: Linear(4, 3, bias=torch.zeros(3)), "is a switch", "bias"),
        (lambda: Affine(4, power="two"), "has the wrong type", "power"),
        (lambda: Affine(4), "missing a required argument: 'power'", None),
    ],
)
def test_constructors(wrong, match, argument):
    with pytest.raises(tg.ArgumentError, match=match) as caught:
        wrong()
    assert isinstance(caught.value, TypeError)
    assert caught.value.argument == argument
    assert caught.value.operator in ("Linear", "Affine")


def test_an_init_that_fills_nothing_is_refused():
    """Its parameter would be memory that nobody has written; what is left of another one is NaN."""
    with pytest.raises(tg.DeclarationError, match="returns a new tensor") as caught:
        tg.module(linear, ("weight",), init={"weight": torch.zeros_like})(n=2, m=3)
    assert (caught.value.argument, caught.value.got) == ("weight", "zeros_like")
    half = tg.module(linear, ("weight",), init={"weight": lambda weight: weight[0].zero_()})(n=2, m=3)
    assert half.weight.isnan().tolist() == [[False, False], [True, True], [True, True]]


def test_a_wrong_axis_is_told_the_right_ones():
    with pytest.raises(tg.ArgumentError) as caught:
        Linear(in_features=4, out_features=3)
    assert "Linear(n: int, m: int, *, bias: bool = True" in caught.value.expected
    assert caught.value.got == "Linear(in_features=4, out_features=3)"
    assert caught.value.hint == "axes: n, m"


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32], ids=str)
def test_dtypes_that_are_not_admitted(dtype):
    module = tg.module(operators.exact, parameters=("weight",)) if dtype == torch.float32 else Linear
    with pytest.raises(tg.DtypeError, match="does not admit this dtype") as caught:
        module(4, 3, dtype=dtype)
    assert caught.value.argument == "weight"


def test_computed_sizes_are_not_negative():
    with pytest.raises(tg.ShapeError, match="axis n-4 = -1 is negative"):
        tg.module(operators.shrinking, parameters=("weight",))(n=3)
