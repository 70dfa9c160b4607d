"""Domains: what may be written, what lies in them, and what is refused."""

import math

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

import torchgraft as tg
from torchgraft._spec.domain import NAMED, read_domain

INF = math.inf
POINTS = (-INF, -4, -2.5, -1, -0.5, 0, 0.5, 1, 2.5, 4, INF, math.nan)


def admitted(spec, **names):
    """Which of `POINTS` lie in a domain."""
    inside = read_domain(spec, "f", "x").at(names).admits(torch.tensor(POINTS, dtype=torch.float64))
    return [point for point, is_in in zip(POINTS, inside.tolist(), strict=True) if is_in]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("real", [-4, -2.5, -1, -0.5, 0, 0.5, 1, 2.5, 4]),
        ("positive", [0.5, 1, 2.5, 4]),
        ("nonnegative", [0, 0.5, 1, 2.5, 4]),
        ("negative", [-4, -2.5, -1, -0.5]),
        ("nonpositive", [-4, -2.5, -1, -0.5, 0]),
        ("nonzero", [-4, -2.5, -1, -0.5, 0.5, 1, 2.5, 4]),
        ("unit", [0, 0.5, 1]),
        ("(0, 1]", [0.5, 1]),
        ("[-1/2, 1)", [-0.5, 0, 0.5]),
        ("(-pi/2, min(2.5, 4)]", [-1, -0.5, 0, 0.5, 1, 2.5]),
        ("[-1, inf]", [-1, -0.5, 0, 0.5, 1, 2.5, 4]),
        ((0, 1), [0.5]),
        ([0, 1], [0, 0.5, 1]),
        ((None, -1), [-4, -2.5]),
        ([1, None], [1, 2.5, 4]),
        ([1, 1], [1]),
        ({0.5, 4}, [0.5, 4]),
        (frozenset({-1}), [-1]),
        ("real except 0, 1", [-4, -2.5, -1, -0.5, 0.5, 2.5, 4]),
        ("real except integers", [-2.5, -0.5, 0.5, 2.5]),
        ("real except nonpositive integers", [-2.5, -0.5, 0.5, 1, 2.5, 4]),
        ("real except negative integers", [-2.5, -0.5, 0, 0.5, 1, 2.5, 4]),
        ("real except positive integers", [-4, -2.5, -1, -0.5, 0, 0.5, 2.5]),
        ("positive except multiples of 1/2", []),
        ("(-3, 3) except odd multiples of 1/2", [-1, 0, 1]),
        ("nonzero except 1", [-4, -2.5, -1, -0.5, 0.5, 2.5, 4]),
    ],
)
def test_what_lies_in_a_domain(spec, expected):
    assert admitted(spec) == expected


def test_bounds_may_name_sizes():
    assert admitted("[0, n)", n=3) == [0, 0.5, 1, 2.5]
    assert admitted("[-k, n//2]", n=5, k=1) == [-1, -0.5, 0, 0.5, 1]
    assert read_domain("[-k, n//2]^m", "f", "x").reads == {"k", "m", "n"}


def test_of_a_complex_value_the_real_part_lies_in_it():
    values = torch.tensor([1 + 5j, -1 + 5j, 5j])
    assert read_domain("positive", "f", "x").at({}).admits(values).tolist() == [True, False, False]


def test_poles_of_tan_are_where_its_cosine_is_zero():
    tan = read_domain("real except odd multiples of pi/2", "f", "x").at({})
    (points,) = tan.poles
    nearest = points.nearest(torch.linspace(-9, 9, 50, dtype=torch.float64))
    assert nearest.cos().abs().max() < 1e-14
    assert (torch.linspace(-9, 9, 50) - nearest).abs().max() <= math.pi / 2


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("posit", "neither a name nor an interval"),
        ("0, 1", "neither a name nor an interval"),
        ("(0; 1)", "no two bounds"),
        ("(0, 1, 2)", "no two bounds"),
        ("(0, __import__('os'))", "no two bounds"),
        ("(0, x.y)", "no two bounds"),
        ("(1, 0)", "no value lies in it"),
        ("(1, 1]", "no value lies in it"),
        ("(1/0, 2)", "zero"),
        ("real except x", "'x' is no number"),
        ("real except even multiples of 2", "not a number"),
        ("real^", "'' is not a number"),
        ("real^-1", "-1 is no length"),
        ("real^1.5", "1.5 is no length"),
        ((0, math.nan), "nan is no bound"),
        ((0, True), "True is no bound"),
        ((0, "1"), "'1' is no bound"),
        ((0, 1, 2), "no text, pair or set"),
        (3, "no text, pair or set"),
        (set(), "the set is empty"),
    ],
)
def test_what_cannot_be_read_is_refused(spec, problem):
    with pytest.raises(tg.DeclarationError, match="cannot be read") as caught:
        read_domain(spec, "f", "x")
    error = caught.value
    assert problem in error.problem
    assert (error.operator, error.argument, error.got) == ("f", "x", repr(spec))
    assert all(name in error.expected for name in NAMED)


def declare(**domains):
    @tg.op
    @tg.domain(**domains)
    def declared(
        x: Float[Tensor, "n m"],
        mask: Bool[Tensor, "n"],
        index: Int[Tensor, "k"],
        xs: list[Float[Tensor, "n"]],
        count: int = 2,
        ratio: float = 0.5,
        mode: str = "a",
        flag: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "n"]:
        return x[:, 0]

    return declared


@pytest.mark.parametrize(
    "domains",
    [
        {"x": "positive", "index": "[0, m)", "n": "[2, inf)", "count": "[1, n]", "ratio": (0, 1)},
        {"xs": "unit^2", "mode": {"a", "b"}, "dtype": {torch.float32}},
        {"xs": "positive^count", "index": {0, 1}, "m": {2, 4}},
    ],
)
def test_arguments_and_axes_have_domains(domains):
    assert {*declare(**domains)._record.domains} == {*domains}


@pytest.mark.parametrize(
    ("domains", "argument", "problem"),
    [
        ({"y": "real"}, "y", "no argument and no axis 'y'"),
        ({"x": "(0, q)"}, "x", "its bounds read 'q'"),
        ({"x": "(0, ratio)"}, "x", "its bounds read 'ratio'"),
        ({"x": "real^2"}, "x", "only a list has a length"),
        ({"x": {"a"}}, "x", "no numbers"),
        ({"mask": "positive"}, "mask", "booleans"),
        ({"n": "[0, m]", "m": "[0, n]"}, "n", "read each other"),
        ({"n": "[0, n]"}, "n", "read each other"),
        ({"flag": {True}}, "flag", "said by its type"),
        ({"mode": "positive"}, "mode", "an interval of str"),
        ({"mode": {1}}, "mode", "no str"),
        ({"count": {1.5}}, "count", "no int"),
    ],
)
def test_what_does_not_go_with_the_types_is_refused(domains, argument, problem):
    with pytest.raises(tg.DeclarationError, match=r"operator 'declared'") as caught:
        declare(**domains)
    assert caught.value.argument == argument
    assert problem in caught.value.problem


def test_a_domain_goes_below_above_and_afterwards():
    @tg.domain(y="negative")
    @tg.op
    @tg.domain(x="positive")
    def both(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x + y

    assert tg.domain(x="unit")(both) is both
    assert {name: str(domain) for name, domain in both._record.domains.items()} == {"x": "unit", "y": "negative"}
    with pytest.raises(tg.DeclarationError, match="no argument and no axis 'z'"):
        tg.domain(z="unit")(both)
    assert both(torch.tensor(-1.0), torch.tensor(1.0)) == 0  # calls are not restricted


def test_an_adopted_function_has_a_domain():
    class Log(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.log()

        @staticmethod
        def backward(ctx, grad):
            return grad / ctx.saved_tensors[0]

    @tg.adopt(Log)
    @tg.domain(x="positive")
    def log(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    assert str(log._record.domains["x"]) == "positive"


# -- samples and references -----------------------------------------------------------------------------------------


@tg.op
def scaled(x: Float[np.ndarray, "n"], by: float = 2.0) -> Float[np.ndarray, "n"]:
    return x * by


def test_a_function_of_samples_takes_a_generator_or_nothing():
    with pytest.raises(tg.DeclarationError, match="a function of samples has other parameters") as caught:

        @scaled.samples
        def _(a, b): ...

    assert caught.value.got == "a, b"
    assert scaled._record.samples == []


def test_a_reference_has_the_operators_parameters():
    with pytest.raises(tg.DeclarationError, match="the reference has other parameters") as caught:

        @scaled.reference
        def _(x): ...

    assert (caught.value.expected, caught.value.got) == ("x, by", "x")
    with pytest.raises(tg.DeclarationError, match="for elementwise operators"):

        @scaled.reference
        def _(x: float, by): ...

    assert scaled._record.reference is None
