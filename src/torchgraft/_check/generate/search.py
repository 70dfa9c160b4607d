"""Searching for the smallest case that shows something, by hypothesis."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..case import Case
from ..target import Target
from .arguments import PRECISIONS
from .draw import HypothesisDraw, Impossible
from .inputs import Call, attempt, cases, make_arguments, make_case

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def strategy(target: Target, precisions: Sequence[torch.dtype] = PRECISIONS) -> SearchStrategy[Call]:
    """A hypothesis strategy of positional and keyword arguments, which shrinks towards plain and small ones.

    The target may refuse some of them.

    Raises:
        ImportError: hypothesis is not installed.
        ArgumentError: annotations do not say what the target takes.

    Example:
        >>> @given(strategy(make_target(linear)))
        ... def test_that_it_is_linear(call):
        ...     args, kwargs = call
    """
    import hypothesis
    from hypothesis import strategies

    arguments = make_arguments(target, precisions)

    @strategies.composite
    def calls(draw: Callable[[Any], Any]) -> Call:
        try:
            drawn = arguments.draw(HypothesisDraw(draw))
        except Impossible:
            hypothesis.reject()
        return drawn.args, drawn.kwargs

    made: SearchStrategy[Call] = calls()
    return made


def smallest(target: Target, fails: Callable[[Case], bool], *, seed: int = 0, tries: int = 200) -> Case | None:
    """A case that fails and is about as plain and small as one can be; None where none of those tried fails.

    Without hypothesis it is the first of a fixed set, which goes from plain to odd.

    Args:
        target: that has a signature.
        fails: whether a case shows what is looked for; what the target refuses is not given to it.
        seed: of what is tried.
        tries: how many cases are looked at for a first one that fails; making it smaller takes about as many again.
    """
    if importlib.util.find_spec("hypothesis") is None:
        return next((case for case in cases(target, seed=seed, count=tries) if fails(case)), None)
    return _search(target, fails, seed, tries)


def _search(target: Target, fails: Callable[[Case], bool], seed: int, tries: int) -> Case | None:
    import hypothesis

    found: list[Case] = []

    def failing(call: Call) -> bool:
        case = make_case(target, *call, seed=seed)
        if attempt(case) is not None or not fails(case):
            return False
        found[:] = [case]
        return True

    settings = hypothesis.settings(
        database=None, deadline=None, max_examples=tries, suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    try:
        hypothesis.find(strategy(target), failing, settings=settings, random=random.Random(seed))
    except hypothesis.errors.NoSuchExample:
        return None
    except hypothesis.errors.Flaky:  # it fails only now and then: the last that failed is as good as any
        pass
    return found[0] if found else None
