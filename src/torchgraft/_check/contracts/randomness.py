"""Random numbers that nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ... import _torch
from ..baseline import baseline
from ..case import Case
from ..finding import Finding, Skip, Verdict


def randomness(case: Case) -> Iterator[Finding]:
    """Look whether torch's generator moved on: compilers call an operator once for two calls, or twice for one."""
    base = baseline(case)
    if case.target.kind not in ("operator", "library"):
        raise Skip("functions may draw from torch's generators, which are seeded for each call")
    overload = case.target.operator.torch_op if case.target.operator else _torch.overload_of(case.target.origin)
    if base.random and torch.Tag.nondeterministic_seeded not in overload.tags:
        yield Finding(
            "hidden-randomness", Verdict.FAIL, "The operator draws random numbers and does not say so", case.label,
            cause="compiled code and checkpoints rely on operators that give the same for the same arguments",
            hint="take a seed or the draws as an argument, or the tag torch.Tag.nondeterministic_seeded",
        )  # fmt: skip
