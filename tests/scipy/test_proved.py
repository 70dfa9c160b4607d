"""Every operator is proved, as `torchgraft check torchgraft.scipy` proves it."""

import pytest

import torchgraft as tg
from torchgraft._check.command.collect import collect

OPERATORS = [entry for entry in collect("torchgraft.scipy") if not entry.why_not]


def test_there_are_operators():
    assert len(OPERATORS) >= 66


def name(entry):
    return entry.place.rpartition(":")[2]


@pytest.mark.slow
@pytest.mark.parametrize("entry", OPERATORS, ids=name)
def test_the_operators_are_proved(entry):
    report = tg.check(entry.target().origin, compilers=True)
    assert report.ok, str(report)
