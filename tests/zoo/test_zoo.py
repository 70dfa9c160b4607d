"""The zoo proved by itself, and the checker on the zoo."""

import json
from pathlib import Path

import pytest
import torch

import torchgraft as tg
from torchgraft._check.checks.table import NAMED
from torchgraft._check.children import may_fork

from ..default import by_default, first_of_each
from . import ZOO, observe
from .bug import Bug
from .judge import alarms, causes, found, named, words

NET = json.loads((Path(__file__).parents[2] / "benchmarks" / "net.json").read_text())["sections"]["zoo"]["entries"]


def name(bug: Bug) -> str:
    return f"{bug.family}-{bug.name}"


def finders(bug: Bug) -> set[str]:
    """List the checks that are known to find a bug; none, where the file does not have it yet."""
    return set(NET.get(bug.name, {}).get("finders", ())) & NAMED.keys()


def lacks_a_child(bug: Bug) -> bool:
    """Return True if a check that finds a bug compares two children, and another test's thread forbids them.

    A bug that the file does not have yet may be such a one.
    """
    return not may_fork() and ("caches" in finders(bug) or not finders(bug))


bugs = pytest.mark.parametrize("bug", ZOO, ids=name)

# To try all checks and to explain what they find takes seconds. The right version is looked at for one bug of each
# family and for each check, and with compilers for one of each family.
FAMILIES = first_of_each(ZOO, lambda bug: [bug.family])
ONE_OF_EACH = first_of_each(ZOO, lambda bug: [bug.family, *finders(bug)])

# Each takes half a second, and is left out where the bug is not one for compilers.
COMPILERS = {"compile", "export", "opcheck", "fake"}

# Found, but the cause that is named is another one. At most a fifth of the zoo, and what is named leaves this list.
UNNAMED = {
    "mixed_derivative_of_a_special_case", "mixed_derivative_of_the_slope", "scipy_filter",
    "unmasked_triangle", "wrong_axis", "wrong_for_a_column", "runs_with_the_whole_cotangent",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _denormals_are_numbers():
    """Set back what one of the bugs leaves on."""
    yield
    torch.set_flush_denormal(False)


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


def quick(bug: Bug) -> set[str]:
    """List the checks to find a bug with, and that of the gradient, on whose verdict others wait; all if none is known.

    A notice of a bug for compilers is left out where it is expected elsewhere, and combinations, which take longest,
    where another check finds it, other than by what calls before it have left.
    """
    known = finders(bug) - (COMPILERS - bug.expects)
    known = known if bug.family == "state" else known - {"combinations"} or known
    return known | {"gradient"} if known else set()


def checked(bug: Bug, target: object, *, only: set[str] | tuple[()] = (), thoroughly: bool = False) -> tg.Report:
    """The report on the wrong one or its right version."""
    concerned = thoroughly or bug.family in ("library", "modes") or bug.expects & COMPILERS
    return tg.check(target, *(bug.inputs() if bug.inputs else ()), only=only, compilers=bool(concerned))


@bugs
@pytest.mark.unless("test_the_bug_is_found_and_its_cause_named")
@pytest.mark.usefixtures("unexplained")
def test_the_bug_is_found_by_the_checks_for_it(bug: Bug):
    if lacks_a_child(bug):
        pytest.skip("there can be no child in this process")
    report = checked(bug, bug.wrong, only=quick(bug))
    assert found(bug, report), words(report)


@pytest.mark.parametrize("bug", by_default(ZOO, ONE_OF_EACH.__contains__, name))
@pytest.mark.unless("test_nothing_is_found_in_the_right_one")
def test_the_checks_for_it_find_nothing_in_the_right_one(bug: Bug):
    report = checked(bug, bug.right, only=quick(bug))
    assert not alarms(report), str(report)


@bugs
@pytest.mark.slow
def test_the_bug_is_found_and_its_cause_named(bug: Bug):
    if lacks_a_child(bug):
        pytest.skip("there can be no child in this process")
    report = checked(bug, bug.wrong)
    assert found(bug, report), words(report)
    assert named(bug, report) is (bug.name not in UNNAMED), causes(report)


def test_most_causes_are_named():
    assert {s.name for s in ZOO} >= UNNAMED
    assert len(UNNAMED) <= len(ZOO) / 5


@bugs
@pytest.mark.slow
def test_nothing_is_found_in_the_right_one(bug: Bug):
    report = checked(bug, bug.right, thoroughly=bug in FAMILIES)
    assert not alarms(report), str(report)
