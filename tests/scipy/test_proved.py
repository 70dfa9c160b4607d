"""Every operator is proved, as `torchgraft check torchgraft.scipy` proves it."""

import pytest
import torch

import torchgraft as tg
from torchgraft._check.command.collect import collect

from ..default import by_default, first_of_each

OPERATORS = [entry for entry in collect("torchgraft.scipy") if not entry.why_not]


def test_there_are_operators():
    assert len(OPERATORS) >= 66


def name(entry):
    return entry.place.rpartition(":")[2]


def kernel(entry):
    return [type(entry.target().origin._record.kernel_for(torch.device("cpu")))]


# The derivatives of each function have tests with references besides.
@pytest.mark.parametrize("entry", by_default(OPERATORS, first_of_each(OPERATORS, kernel).__contains__, name))
def test_their_derivatives_are_proved(entry):
    report = tg.check(entry.target().origin, only="gradient")
    assert report.ok, str(report)


@pytest.mark.parametrize("entry", by_default(OPERATORS, first_of_each(OPERATORS, kernel).__contains__, name))
def test_the_operators_are_proved(entry):
    report = tg.check(entry.target().origin, compilers=True)
    assert report.ok, str(report)
