"""No check has anything to say of targets that are right, torch's own and Functions of every kind."""

import pytest
import torch

from torchgraft._check.checks.table import NAMED
from torchgraft._check.finding import Inconclusive, Skip, Verdict
from torchgraft._torch import DYNAMO_KNOWS_FUNCTIONS

from ...default import by_default
from .looking import findings
from .right import RIGHT

COMPILERS = {"compile", "export", "fake", "opcheck", "inductor"}
OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12)
COMPILED = [
    "matmul", "two outputs, None", "custom_op", "complex times real", "a network",
    pytest.param("NumPy", marks=pytest.mark.skipif(OLD, reason="compiled by torch 2.11 its gradient is 0")),
    pytest.param(
        "Linear", marks=pytest.mark.skipif(not DYNAMO_KNOWS_FUNCTIONS, reason="before 2.13, `+=` loses its gradient")
    ),
]  # fmt: skip


def looked(check, name):
    """List what a check finds, and what it could not tell; whatever else it raises is its own mistake."""
    try:
        return [f for f in findings(check, *RIGHT[name]) if f.severity is not Verdict.PASS], []
    except Skip:
        return [], []
    except Inconclusive as why:
        return [], [str(why)]


# Functions of each kind, and odd arguments; torch's own, and large modules, are slow tests.
QUICK = {
    "Function", "Linear", "NumPy", "a network", "bfloat16", "both modes", "complex Function", "custom_op", "dropout",
    "empty", "exp at infinity", "float16", "float32", "in place, marked", "list of tensors", "nn.Linear", "own vmap",
    "random", "relu at NaN", "relu at ties", "returns its input", "running statistics", "scalar", "softmax", "sparse",
    "two outputs, None",
}  # fmt: skip


def test_what_is_quick_is_there():
    assert RIGHT.keys() >= QUICK


SILENT = {("second order", "relu at ties"), ("second order", "empty"), ("ties", "empty")}
"""Checks that can tell nothing of these, and say so."""


@pytest.mark.parametrize("name", by_default(RIGHT, QUICK.__contains__))
def test_nothing_is_found_and_everything_is_told(name):
    """No check passes on everything without having looked."""
    for check in NAMED.keys() - COMPILERS - {"gradient"}:
        found, untold = looked(check, name)
        assert found == [], check
        excused = check in ("leaks", "sizes") or (check, name) in SILENT
        assert not untold or excused, (check, untold)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_nothing_is_found_by_compilers(name):
    for check in COMPILERS - {"inductor"}:
        assert looked(check, name)[0] == [], check
