"""Guards of a running rule: it must not write into its arguments, nor open a transform level inside of another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from .. import _torch
from ..errors import DerivativeError, RuleError


@contextlib.contextmanager
def within_level(label: str) -> Iterator[None]:
    """Within, a rule runs, maybe inside of the processing of a transform level, where no further one can be opened.

    Raises:
        DerivativeError: the rule has tried to.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, DerivativeError) or not _torch.opens_no_level(error):
            raise
        raise DerivativeError(
            "a rule that uses torch.func cannot run inside of forward mode, or of hooks on saved tensors",
            operator=label,
            expected="torch functions of what the rule is given",
            got="a transform of torch.func, within another, a dual level or such hooks",
            hint=f"write the derivative out, here or in a rule for forward mode, @{label.partition('.')[0]}.jvp",
        ) from error


@contextlib.contextmanager
def unwritten(label: str, reads: Sequence[str], values: Sequence[Any]) -> Iterator[None]:
    """Within, a rule runs on `values`.

    Args:
        reads: what the rule calls them.

    Raises:
        RuleError: the rule has written into a tensor among them.
    """
    items = [item for value in values for item in (value if isinstance(value, (list, tuple)) else [value])]
    tensors = [item for item in items if isinstance(item, Tensor)]
    before = list(map(_torch.version, tensors))
    yield
    if list(map(_torch.version, tensors)) != before:
        raise mutated(label, reads)


def mutated(label: str, reads: Sequence[str]) -> RuleError:
    """The error for a rule that has written into one of `reads`."""
    return RuleError(
        "the rule wrote into a tensor that it was given",
        operator=label,
        expected="a rule without side effects",
        got=f"{' or '.join(reads)} changed in place",
        hint=f"work on a copy\nwrong: return {reads[0]}.mul_(2)\nright: return {reads[0]} * 2",
    )
