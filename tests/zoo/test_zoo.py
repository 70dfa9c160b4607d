"""The zoo proved, and the checker on the zoo."""

import pytest
import torch

from . import ZOO, observe
from .specimen import Specimen

specimens = pytest.mark.parametrize("specimen", ZOO, ids=lambda s: f"{s.family}-{s.name}")


def test_names_are_unique():
    assert len({s.name for s in ZOO}) == len(ZOO) >= 60


@specimens
def test_the_wrong_one_differs_from_its_twin(specimen: Specimen):
    wrong, right = (specimen.shown_by(target, specimen.arguments()) for target in (specimen.wrong, specimen.right))
    assert not observe.same(wrong, right)


@specimens
def test_the_twin_is_as_torch_has_it(specimen: Specimen):
    right, truth = (specimen.shown_by(target, specimen.arguments()) for target in (specimen.right, specimen.truth))
    assert not isinstance(right, str), right  # an error
    assert observe.same(right, truth), (right, truth)


@specimens
def test_differences_prove_the_twin(specimen: Specimen):
    """Slow gradcheck: its error is about 1e-9 for a third derivative of 1, far below its own tolerance of 1e-3."""
    if not specimen.smooth:
        pytest.skip("no derivative, or not in float64")
    call = observe.Call(specimen.right, specimen.arguments())
    assert torch.autograd.gradcheck(call, call.leaves(), eps=1e-6, atol=1e-7, rtol=1e-6, check_undefined_grad=False)
