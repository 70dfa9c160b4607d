"""Every operator is proved, as `torchgraft check torchgraft.scipy` proves it."""

import pytest

import torchgraft as tg
from torchgraft._check.command.collect import collect
from torchgraft.scipy import special

OPERATORS = [entry for entry in collect("torchgraft.scipy") if not entry.why_not]


def test_there_are_operators():
    assert len(OPERATORS) >= 66


# Elementwise functions are alike to compilers: those of `special` meet them with the slow tests, but for these.
SHOWN = {"airy", "betainc", "gammainc", "hyp2f1", "kv", "polygamma", "spherical_jn", "zeta"}
COMPILERS = ("compile", "export", "opcheck")


def name(entry):
    return entry.place.rpartition(":")[2]


def leaves_compilers_out(entry):
    return hasattr(special, name(entry)) and name(entry) not in SHOWN


@pytest.mark.parametrize("entry", OPERATORS, ids=name)
def test_the_operators_are_proved(entry):
    report = tg.check(entry.target().origin, compilers=not leaves_compilers_out(entry))
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("entry", list(filter(leaves_compilers_out, OPERATORS)), ids=name)
def test_to_compilers_too(entry):
    report = tg.check(entry.target().origin, only=COMPILERS)
    assert report.ok, str(report)
