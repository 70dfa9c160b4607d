"""Cases inside and outside of a declared domain."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._check.case import Case
from torchgraft._check.target import make_target
from torchgraft._check.variations import within


@tg.op
@tg.domain(x="positive", n="[2, inf)", power="[1, 3]", weights="nonnegative")
def weighted(x: Float[Tensor, "n"], power: int, weights: list[float]) -> Float[Tensor, "n"]:
    return x**power * sum(weights)


@pytest.mark.parametrize(
    ("x", "power", "weights", "inside"),
    [
        ([1.0, 2.0], 2, [0.0, 1.0], True),
        ([1.0, 0.0], 2, [1.0], False),
        ([1.0], 2, [1.0], False),
        ([1.0, 2.0], 4, [1.0], False),
        ([1.0, 2.0], 2, [1.0, -1.0], False),
    ],
)
def test_within(x, power, weights, inside):
    assert within(Case(make_target(weighted), (torch.tensor(x), power, weights))) is inside


def test_what_declares_no_domain_is_within():
    assert within(Case(make_target(torch.sin), (torch.tensor([-1.0]),)))
