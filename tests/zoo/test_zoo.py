"""The zoo proved by itself, and the checker on the zoo."""

import pytest
import torch

import torchgraft as tg

from . import ZOO, observe
from .bug import Bug
from .judge import alarms, causes, found, named, words

bugs = pytest.mark.parametrize("bug", ZOO, ids=lambda s: f"{s.family}-{s.name}")

# Each takes half a second, and is left out where the bug is not one for compilers. The slow tests leave out nothing.
COMPILERS = {"compile", "export", "opcheck", "fake"}

# What takes ten seconds to explain.
SLOW = {"lltm", "fused_conv_bn", "statistics_held_constant"}

# Found, but the cause that is named is another one. At most a fifth of the zoo, and what is named leaves this list.
UNNAMED = {
    "adjoint_of_an_affine_map", "kernel_of_seven_digits", "mixed_derivative_of_a_special_case",
    "mixed_derivative_of_the_slope", "scipy_filter", "slope_of_the_first", "unmasked_triangle", "wrong_axis",
    "wrong_for_a_column",
}  # fmt: skip


def test_names_are_unique():
    assert len({s.name for s in ZOO}) == len(ZOO) >= 150


@bugs
def test_the_wrong_one_differs_from_the_right_one(bug: Bug):
    wrong, right = (bug.shown_by(target, bug.arguments()) for target in (bug.wrong, bug.right))
    assert not observe.same(wrong, right)


@bugs
def test_the_right_one_is_as_torch_has_it(bug: Bug):
    right, truth = (bug.shown_by(target, bug.arguments()) for target in (bug.right, bug.truth))
    assert not isinstance(right, str), right  # an error
    assert observe.same(right, truth), (right, truth)


@bugs
def test_differences_prove_the_right_one(bug: Bug):
    """Slow gradcheck: its differences are wrong by about 1e-9 here, far below its own tolerance of 1e-3."""
    if not bug.smooth:
        pytest.skip("no derivative at the probe, or not in float64")
    call = observe.Call(bug.right, bug.arguments())
    assert torch.autograd.gradcheck(call, call.leaves(), eps=1e-6, atol=1e-7, rtol=1e-6, check_undefined_grad=False)


def slow(condition: bool) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if condition else []


def checked(bug: Bug, target: object, *, thoroughly: bool = False) -> tg.Report:
    """The report on the wrong one or its right version."""
    concerned = thoroughly or bug.family in ("library", "modes") or bug.expects & COMPILERS
    return tg.check(target, *(bug.inputs() if bug.inputs else ()), compilers=bool(concerned))


@pytest.mark.parametrize("bug", [pytest.param(s, id=f"{s.family}-{s.name}", marks=slow(s.name in SLOW)) for s in ZOO])
def test_the_bug_is_found_and_its_cause_named(bug: Bug):
    report = checked(bug, bug.wrong)
    assert found(bug, report), words(report)
    assert named(bug, report) is (bug.name not in UNNAMED), causes(report)


def test_most_causes_are_named():
    assert {s.name for s in ZOO} >= UNNAMED
    assert len(UNNAMED) <= len(ZOO) / 5


# Of the right ones, those of operators of torch.library and of transforms: false alarms on others would show in the
# gallery, in torchgraft.scipy and in the tests of the checks too.
@pytest.mark.parametrize(
    "bug",
    [pytest.param(s, id=f"{s.family}-{s.name}", marks=slow(s.family not in ("library", "modes"))) for s in ZOO],
)
def test_nothing_is_found_in_the_right_one(bug: Bug):
    report = checked(bug, bug.right, thoroughly=True)
    assert not alarms(report), str(report)
