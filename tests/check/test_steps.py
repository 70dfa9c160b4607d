"""The ladder behind a picture: that of the worst entry of the Jacobian."""

import math

import pytest
import torch

from torchgraft._check.case import Case
from torchgraft._check.finding import Evidence
from torchgraft._check.numeric.probe import with_ladder
from torchgraft._check.report.plot import trace
from torchgraft._check.target import make_target

from .jacobians import numeric_jacobian


def evidence(function, *args, off):
    """A case, and the evidence of a backward pass that is wrong by `off`."""
    case = Case(make_target(function), args)
    numeric, estimate = numeric_jacobian(case)
    return case, Evidence(numeric + off, numeric, estimate)


def vector(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def test_the_ladder_is_that_of_the_worst_entry():
    x = vector(0.5, -1.0, 2.0)
    off = torch.tensor([[0.0, 0, 0], [0, 0.25, 0], [0, 0, 0.125]], dtype=torch.float64)
    case, given = evidence(torch.sin, x, off=off)
    found = with_ladder(given, case)
    used = found.ladder[found.chosen]
    assert used == pytest.approx(math.cos(-1.0), abs=1e-12)
    assert abs(used - math.cos(-1.0)) <= 4 * found.bars[found.chosen]
    assert found.along == pytest.approx(math.cos(-1.0) + 0.25)
    assert found.bars[found.chosen] == min(found.bars)
    assert len(found.steps) == len(found.ladder) == len(found.bars)
    assert list(found.steps) == sorted(found.steps, reverse=True)
    assert trace(found).along == pytest.approx(0.25)


def test_of_several_inputs_and_outputs():
    def function(a, b):
        return a * b, b.sum()

    off = torch.zeros(3, 4, dtype=torch.float64)
    off[2, 3] = 1.0
    case, given = evidence(function, vector(1.0, 2.0), vector(3.0, 0.5), off=off)
    found = with_ladder(given, case)
    assert found.ladder[found.chosen] == pytest.approx(1.0)
    assert found.along == pytest.approx(2.0)


def test_near_a_boundary_the_steps_are_those_of_the_element():
    case = Case(make_target(torch.log), [vector(2.0, 2.0**-9)])
    numeric = torch.diag(vector(0.5, 2.0**9))
    found = with_ladder(Evidence(2 * numeric, numeric), case)
    assert found.ladder[found.chosen] == pytest.approx(2.0**9, rel=1e-9)
    assert found.steps[found.chosen] < 2.0**-9
    assert math.inf in found.bars


def test_wide_steps_are_used_where_they_are_better():
    case, given = evidence(lambda x: x * 3 + 1, vector(1.0, 2.0**-12), off=torch.diag(vector(0.0, 1.0)))
    assert with_ladder(given, case).steps[0] == 0.125


def test_scaled_inputs_have_scaled_steps():
    case, given = evidence(torch.square, vector(2.0**-20, 2.0**-21), off=torch.eye(2, dtype=torch.float64))
    found = with_ladder(given, case)
    assert found.ladder[found.chosen] == pytest.approx(2.0**-19)
    assert found.steps[0] < 2.0**-20


def test_complex_entries_are_parts():
    case, given = evidence(torch.square, vector(1 + 2j, dtype=torch.complex128), off=torch.eye(2).double())
    found = with_ladder(given, case)
    assert found.ladder[found.chosen] == pytest.approx(2.0)
    assert found.along == pytest.approx(3.0)


def test_where_there_is_no_derivative_there_is_no_ladder():
    case, given = evidence(torch.abs, vector(0.0, 1.0), off=torch.zeros(2, 2).double())
    assert given.estimate[0, 0] == math.inf
    wrong = Evidence(given.analytic + torch.diag(vector(5.0, 0.0)), given.numeric, given.estimate)
    assert with_ladder(wrong, case) is wrong


def test_right_or_foreign_evidence_stays_as_it_is():
    case, given = evidence(torch.sin, vector(1.0, 2.0), off=0.0)
    assert with_ladder(given, case) is given
    other = Evidence(torch.ones(3, 2), torch.zeros(3, 2))
    assert with_ladder(other, case) is other
    empty = Evidence(torch.ones(0, 2), torch.zeros(0, 2))
    assert with_ladder(empty, case) is empty


def test_a_target_that_fails_next_to_its_arguments():
    fragile = False

    def function(x):
        if fragile and x[0] != 1.0:
            raise ValueError("only at 1")
        return x * 2

    case, given = evidence(function, vector(1.0), off=1.0)
    fragile = True
    assert with_ladder(given, case) is given
