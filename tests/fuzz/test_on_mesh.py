"""Random operators on simulated meshes are right, and the comparison sees what it must."""

import pytest

from torchgraft._mesh import choice
from torchgraft._mesh.transposes import Place, Side

from .on_mesh import outcomes

FEW, CASES, MANY = 8, 25, 150


@pytest.mark.parametrize("seeds", [range(FEW), pytest.param(range(FEW, MANY), marks=pytest.mark.slow)])
def test_operators_on_meshes_are_right(seeds):
    found = list(outcomes(seeds))
    assert not any(o.failed for o in found), "\n\n".join(f"{o.kind}: {o.text}\n{o.program}" for o in found if o.failed)
    assert sum(o.kind == "right" for o in found) > 0.8 * len(seeds)


def nothing_travels(monkeypatch):
    monkeypatch.setattr(Side, "_placed", lambda self, tensor: (tensor, ()))


def gradients_are_not_summed(monkeypatch):
    def place(tensor, gradient, once=False):
        return Place(tensor, tensor if gradient.is_partial() else gradient, once)

    monkeypatch.setattr(choice, "Place", place)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [nothing_travels, gradients_are_not_summed])
def test_faults_are_found(fault, monkeypatch):
    fault(monkeypatch)
    assert any(outcome.failed for outcome in outcomes(range(CASES)))
