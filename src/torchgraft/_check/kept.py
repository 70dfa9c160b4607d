"""A module that keeps what its calls leave in it, where each call has a copy else."""

from __future__ import annotations

from dataclasses import replace

from .case import Case
from .target import borrowed, can_be_copied, copied


def on_one_module(case: Case) -> Case:
    """Return the case with one module for all calls, whose own parameters no call sees changed.

    Of what is no module the case itself is returned.
    """
    module = case.target.origin
    if case.target.kind != "module" or not can_be_copied(module):
        return case
    (parameters, *_), _ = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    kept = case.with_leaves(case.leaves)
    kept.target = replace(case.target, function=borrowed(copied(module, parameters)))
    return kept
