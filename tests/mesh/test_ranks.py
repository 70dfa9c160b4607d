"""The harness itself: what ranks return and raise arrives, and nothing waits for ever."""

import os
import time

import pytest
import torch
from torch import distributed

from . import ranks as harness
from .ranks import RankError, on_ranks, ranks


@on_ranks(2)
def numbers(plus):
    total = torch.tensor(distributed.get_rank() + plus)
    distributed.all_reduce(total)
    return distributed.get_rank(), total.item()


@on_ranks(2)
def one_raises():
    if distributed.get_rank() == 1:
        raise ValueError("the text of rank 1")
    distributed.barrier()


@on_ranks(2)
def all_raise():
    raise ValueError(f"the text of rank {distributed.get_rank()}")


@on_ranks(2, timeout=1)
def waits():
    time.sleep(100)


@on_ranks(2)
def dies():
    if distributed.get_rank() == 1:
        os._exit(3)
    distributed.barrier()


def test_values_of_all_ranks_return():
    assert numbers(plus=10) == [(0, 21), (1, 21)]


def test_all_ranks_raise_and_live_on():
    with pytest.raises(RankError, match=r"(?s)rank 0: .*the text of rank 0.*rank 1: .*the text of rank 1"):
        all_raise()
    assert ranks(2).alive
    assert numbers(plus=0) == [(0, 1), (1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "text"),
    [
        (one_raises, r"(?s)rank 0: was not ready in time.*rank 1: .*ValueError: the text of rank 1"),
        (dies, r"(?s)rank 0: .*rank 1: died"),
        (waits, "rank 0, rank 1: was not ready in time"),
    ],
    ids=["one raises", "one dies", "all wait"],
)
def test_no_rank_waits_for_another(monkeypatch, job, text):
    monkeypatch.setattr(harness, "GRACE", 0.5)
    numbers(plus=0)  # The start of the ranks does not count.
    begun = time.monotonic()
    with pytest.raises(RankError, match=text):
        job()
    assert time.monotonic() - begun < 60  # They would wait for 100 s, or for ever.
    assert not ranks.__globals__["_pools"][2].alive
    assert numbers(plus=1) == [(0, 3), (1, 3)]
