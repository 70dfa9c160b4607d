"""Searching: the smallest case that shows a bug, with hypothesis and without."""

import importlib.util
import os
import subprocess
import sys

import hypothesis
import pytest
import torch
from hypothesis import given
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from examples.correlate2d import correlate2d
from examples.linear import linear
from examples.mul_constant import mul_constant
from examples.softplus import softplus
from torchgraft._check.generate.search import smallest, strategy
from torchgraft._check.target import make_target


def found(op, fails, **options):
    return smallest(make_target(op), fails, **options)


def first(case):
    return case.primals[0]


WEIGHT_AND_BIAS = "weight: float64[3, 2], bias: float64[3]"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("op", "fails", "label"),
    [
        (softplus, lambda case: bool((first(case) < 0).any()), "x: float64[2]"),
        (softplus, lambda case: first(case).numel() == 0, "x: float64[0]"),
        (softplus, lambda case: first(case).dim() == 0, "x: float64[]"),
        (softplus, lambda case: len(first(case).unique()) < first(case).numel(), "x: float64[2]"),
        (softplus, lambda case: first(case).dtype == torch.float32, "x: float32[2]"),
        (linear, lambda case: len(case.primals) == 2, "input: float64[2], weight: float64[3, 2], bias: None"),
        (linear, lambda case: first(case).dim() == 2 != len(case.primals), "input: float64[5, 2], " + WEIGHT_AND_BIAS),
        (correlate2d, lambda case: first(case).numel() > 0, "x: float64[5, 4], kernel: float64[2, 3]"),
        (mul_constant, lambda case: case.leaves[1] == -1.5, "x: float64[2], constant: -1.5"),
    ],
    ids=range(9),
)
def test_what_is_found_is_small_and_plain(op, fails, label, seed):
    case = found(op, fails, seed=seed)
    assert fails(case)
    assert case.label == label


def test_where_nothing_fails_there_is_none():
    tried = []
    assert found(softplus, lambda case: tried.append(case) is not None, tries=50) is None
    assert 0 < len(tried) <= 50


def test_what_the_target_refuses_is_not_given():
    @tg.op
    def picky(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        if x.dim() == 1:
            raise ValueError("a batch is needed")
        return x

    assert found(picky, lambda case: True).label == "x: float64[3, 2]"


def test_the_same_seed_finds_the_same():
    one, two = (found(linear, lambda case: bool((first(case) > 3).any()), seed=5) for _ in range(2))
    assert one.label == two.label
    assert all(map(torch.equal, one.primals, two.primals))


def test_what_fails_only_now_and_then_is_found():
    times = iter(range(10**6))
    assert found(linear, lambda case: next(times) % 3 == 2) is not None


def test_errors_of_the_question_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        found(softplus, lambda case: 1 // 0)


def test_nothing_is_written(tmp_path):
    program = """
import torch
from examples.softplus import softplus
from torchgraft._check.generate.search import smallest
from torchgraft._check.target import make_target
assert smallest(make_target(softplus), lambda case: case.primals[0].numel() == 0).label == "x: float64[0]"
"""
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "TORCHGRAFT_CACHE": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", program]
    subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    assert list(tmp_path.iterdir()) == []


@given(strategy(make_target(correlate2d)))
@hypothesis.settings(max_examples=50, deadline=None, database=None)
def test_a_strategy_for_ones_own_tests(call):
    (x, kernel), kwargs = call
    assert kwargs == {}
    assert x.shape[-1] >= kernel.shape[-1] - 1
    assert x.dtype == kernel.dtype


# -- without hypothesis ---------------------------------------------------------------------------------------------


@pytest.fixture
def _without_hypothesis(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "hypothesis" else found(name))


@pytest.mark.usefixtures("_without_hypothesis")
def test_without_hypothesis_the_first_of_a_fixed_set_is_taken():
    case = found(softplus, lambda case: first(case).numel() == 0)
    assert case.label == "x: float64[0]"
    assert found(softplus, lambda case: first(case).dim() == 17) is None
