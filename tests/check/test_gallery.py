"""Every operator of the gallery is proved, as `torchgraft check examples` proves it."""

from pathlib import Path

import pytest
import torch

import torchgraft as tg
from torchgraft._check.command.collect import collect

from ..default import by_default, first_of_each

EXAMPLES = Path(__file__).parents[2] / "examples"
OPERATORS = [
    entry
    for path in sorted(EXAMPLES.glob("*.py"))
    for entry in collect(str(path))
    if entry.kind == "operator" and not entry.why_not
]


def kinds(entry):
    """The language of the kernel, and the kind of each rule."""
    record = entry.target().origin._record
    return [type(record.kernel_for(torch.device("cpu"))), *(kind for kind, rules in record.rules.items() if rules)]


ONE_OF_EACH = first_of_each(OPERATORS, kinds)


def name(entry):
    return entry.place.rpartition("/")[2]


def test_there_are_operators():
    assert len(OPERATORS) > 25


@pytest.mark.parametrize("entry", by_default(OPERATORS, ONE_OF_EACH.__contains__, name))
def test_the_gallery_is_proved(entry):
    report = tg.check(entry.target().origin)
    assert report.ok, str(report)
