"""Random programs that write are right, and the comparison sees what it must."""

import importlib.util
import sys

import pytest

from torchgraft import _torch
from torchgraft._lower import writing_call, writing_node
from torchgraft._lower.node import NodeFactory

from . import on_writes
from .on_writes import outcomes

CASES, MANY = 15, 150


@pytest.mark.parametrize("seeds", [range(CASES), pytest.param(range(CASES, MANY), marks=pytest.mark.slow)])
def test_programs_that_write_are_right(seeds):
    found = list(outcomes(seeds))
    wrong = [outcome.text for outcome in found if outcome.kind == "wrong"]
    assert not wrong, "\n\n".join(wrong)
    assert sum(outcome.kind == "right" for outcome in found) > 0.6 * len(found)


def overlaps_are_not_seen(monkeypatch):
    monkeypatch.setattr(_torch, "span", lambda tensor: 0)
    monkeypatch.setattr(_torch, "overlap", lambda one, other: False)


def the_old_value_is_not_kept(monkeypatch):
    monkeypatch.setattr(writing_node.WritingNode, "_save_leaf", NodeFactory._save_leaf)


def writes_are_not_counted(monkeypatch):
    monkeypatch.setattr(_torch, "count_writes", lambda tensors: None)


def results_are_not_copied(monkeypatch):
    monkeypatch.setattr(writing_call.WritingCall, "_copy", lambda self, name, tensor, after: None)


FAULTS = (overlaps_are_not_seen, the_old_value_is_not_kept, writes_are_not_counted, results_are_not_copied)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_are_found(fault, monkeypatch):
    fault(monkeypatch)
    spec = importlib.util.spec_from_file_location("tests.fuzz.on_writes_with_a_fault", on_writes.__file__)
    fresh = importlib.util.module_from_spec(spec)  # Its operators are declared anew.
    monkeypatch.setitem(sys.modules, spec.name, fresh)
    spec.loader.exec_module(fresh)
    assert any(outcome.kind == "wrong" for outcome in fresh.outcomes(range(120)))
