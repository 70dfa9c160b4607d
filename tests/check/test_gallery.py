"""Every operator of the gallery is proved, as `torchgraft check examples` proves it."""

from pathlib import Path

import pytest

import torchgraft as tg
from torchgraft._check.command.collect import collect

EXAMPLES = Path(__file__).parents[2] / "examples"
OPERATORS = [
    entry
    for path in sorted(EXAMPLES.glob("*.py"))
    for entry in collect(str(path))
    if entry.kind == "operator" and not entry.why_not
]


def name(entry):
    return entry.place.rpartition("/")[2]


def test_there_are_operators():
    assert len(OPERATORS) > 25


@pytest.mark.slow
@pytest.mark.parametrize("entry", OPERATORS, ids=name)
def test_the_gallery_is_proved(entry):
    report = tg.check(entry.target().origin)
    assert report.ok, str(report)
