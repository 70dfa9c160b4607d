"""No check has anything to say of targets that are right, torch's own and Functions of every kind."""

import pytest
import torch

from torchgraft._check.checks.table import NAMED
from torchgraft._check.finding import Inconclusive, Skip, Verdict

from .looking import case_of, findings
from .right import RIGHT

COMPILERS = {"compile", "export", "fake", "opcheck", "inductor"}
OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12)
COMPILED = [
    "matmul", "Linear", "two outputs, None", "custom_op", "complex times real", "a network",
    pytest.param("NumPy", marks=pytest.mark.skipif(OLD, reason="compiled by torch 2.11 its gradient is 0")),
]  # fmt: skip


def wrong(name, target, *args):
    """List what a check finds; whatever else it raises is its own mistake."""
    try:
        return [f for f in findings(name, target, *args) if f.severity is not Verdict.PASS]
    except (Skip, Inconclusive):
        return []


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found(name):
    for check in NAMED.keys() - COMPILERS - {"gradient"}:
        assert wrong(check, *RIGHT[name]) == [], check


@pytest.mark.parametrize("name", COMPILED)
def test_nothing_is_found_by_compilers(name):
    for check in COMPILERS - {"inductor"}:
        assert wrong(check, *RIGHT[name]) == [], check


def test_what_could_not_be_told_is_little():
    """No check passes on everything without having looked."""
    unsure = []
    for check in NAMED.keys() - COMPILERS - {"gradient", "leaks", "sizes"}:
        for name, (target, *args) in RIGHT.items():
            try:
                list(NAMED[check].look(case_of(target, *args)))
            except Skip:
                continue
            except Inconclusive as why:
                unsure.append((check, name, str(why)))
    assert {(check, name) for check, name, _ in unsure} <= {("second order", "relu at ties")}, unsure
