"""Generators of random numbers: who has drawn is seen, and undone."""

import random

import numpy as np
import pytest
import torch

from torchgraft._torch import Generators

DRAWS = {
    "torch": lambda: torch.rand(()),
    "numpy.random": lambda: np.random.rand(),
    "random": random.random,
}


def numbers():
    return torch.rand(3).tolist(), np.random.randn(3).tolist(), [random.gauss(0, 1) for _ in range(3)]


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_seen_and_undone(name):
    before = Generators.snapshot()
    assert before.moved() is None
    DRAWS[name]()
    assert before.moved() == name
    before.restore()
    assert before.moved() is None
    expected = numbers()
    before.restore()
    assert numbers() == expected
    assert Generators.snapshot().moved() is None


def test_the_second_of_a_pair_of_normal_numbers():
    np.random.seed(0)
    np.random.randn()
    before = Generators.snapshot()
    second = np.random.randn()
    assert before.moved() == "numpy.random"
    before.restore()
    assert np.random.randn() == second


def test_another_generator_in_the_place_of_numpys():
    given = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        before = Generators.snapshot()
        assert before.moved() is None
        first = np.random.rand()
        assert before.moved() == "numpy.random"
        before.restore()
        assert before.moved() is None
        assert np.random.rand() == first
    finally:
        np.random.set_bit_generator(given)


@pytest.mark.parametrize(
    "inside",
    [
        lambda look: torch.vmap(lambda x: (look(), x)[1])(torch.ones(2)),
        lambda look: torch.func.grad(lambda x: (look(), x)[1])(torch.ones(())),
        lambda look: torch.func.hessian(lambda x: (look(), x * x)[1])(torch.ones(())),
        lambda look: torch.fx.experimental.proxy_tensor.make_fx(lambda x: (look(), x)[1])(torch.ones(2)),
    ],
    ids=["vmap", "grad", "hessian", "make_fx"],
)
def test_under_transforms(inside):
    seen = []

    def look():
        before = Generators.snapshot()
        seen.append(before.moved())
        torch.default_generator.manual_seed(3)
        seen.append(before.moved())
        before.restore()
        seen.append(before.moved())

    inside(look)
    assert seen[:3] == [None, "torch", None]
