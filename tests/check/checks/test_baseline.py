"""What checks compare with: plain results, and how far rounding can take others from them."""

import gc
import weakref

import pytest
import torch

from torchgraft._check import baseline as module
from torchgraft._check.baseline import baseline, distance, signed
from torchgraft._check.finding import Inconclusive, Skip
from torchgraft._check.variations import nearby

from .looking import DOUBLE, SIN, case_of, function, normal

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([NAN, INF], [NAN, INF], 0.0),
        ([INF], [-INF], INF),
        ([1.0], [1.0, 1.0], INF),
        ([], [], 0.0),
        (None, [0.0, -3.0], 3.0),
        (None, None, 0.0),
        ([3 + 4j], [0j], 5.0),
    ],
    ids=str,
)
def test_distance(found, expected, error):
    found, expected = (None if v is None else torch.tensor(v) for v in (found, expected))
    assert distance(found, expected) == distance(expected, found) == error


def test_what_is_not_a_number_by_one_way_to_compute_may_be_one_by_another():
    number, nan, both = (torch.tensor(v) for v in ([1.0, 2.0], [NAN, NAN], [NAN, 2.5]))
    assert distance(nan, number) == INF
    assert distance(number, nan) == 0
    assert distance(number, both) == 0.5


def test_slack_covers_another_order_of_summation():
    """And no more than some thousand times what it does."""
    x = normal(2000) * 10.0 ** normal(2000, seed=1)
    base = baseline(case_of(lambda x: x.sum(), x))
    orders = torch.stack(
        [x[torch.randperm(2000, generator=torch.Generator().manual_seed(i))].cumsum(0)[-1] for i in range(20)]
    )
    spread = float((orders - base.outputs[0]).abs().max())
    assert spread < base.output_slack[0] < 1e5 * max(spread, 1e-16 * float(x.abs().max()))


def test_slack_follows_the_condition():
    near = torch.tensor([1.0, 1.0 + 1e-6], dtype=DOUBLE)
    ill, well = (baseline(case_of(f, near)) for f in (lambda x: 1 / (x[0] - x[1]), lambda x: x[0] + x[1]))
    assert ill.output_slack[0] / ill.outputs[0].abs() > 1e4 * well.output_slack[0] / well.outputs[0].abs()
    assert baseline(case_of(SIN, near.float())).output_slack[0] > 1e8 * baseline(case_of(SIN, near)).output_slack[0]


@pytest.mark.slow
def test_it_is_measured_once_and_goes_with_its_case():
    calls = []
    case = case_of(function(lambda x: (calls.append(x), x.sin())[1], lambda g, x: g * x.cos()), normal(3))
    first = baseline(case)
    count = len(calls)
    assert baseline(case) is first
    assert len(calls) == count
    gone = weakref.ref(case)
    del case, first
    gc.collect()
    assert gone() is None


def test_what_has_no_baseline():
    with pytest.raises(Inconclusive, match="no output requires grad"):
        baseline(case_of(lambda x: x.detach(), normal(3)))
    with pytest.raises(Inconclusive, match="the target raises: ValueError: no"):
        baseline(case_of(function(torch.sin, lambda g, x: (_ for _ in ()).throw(ValueError("no"))), normal(3)))
    with pytest.raises(Skip, match="no argument"):
        baseline(case_of(lambda n: torch.ones(n), 3))


def test_random_numbers_are_the_cases_own():
    case, other = case_of(SIN, normal(5)), case_of(SIN, normal(5), seed=1)
    assert torch.equal(nearby(case)[0], nearby(case)[0])
    assert not torch.equal(nearby(case)[0], nearby(other)[0])
    assert not torch.equal(nearby(case)[0], nearby(case, salt=1)[0])
    drawn = signed(torch.zeros(1000, dtype=torch.complex64), module.generator(case, 1))
    assert drawn.dtype == torch.complex64
    assert drawn.real.abs().min() >= 0.5
    assert drawn.imag.abs().max() <= 1.5
    assert 400 < int((drawn.real > 0).sum()) < 600


def test_randomness_is_seen():
    assert baseline(case_of(lambda x: x * torch.rand_like(x), normal(3))).random
    assert not baseline(case_of(SIN, normal(3))).random
