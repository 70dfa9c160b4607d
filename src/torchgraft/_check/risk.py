"""Checks that have ended processes."""

from __future__ import annotations

import contextlib

from .. import _torch
from .case import Case
from .checks.table import Check
from .native import is_native


def is_risky(check: Check, case: Case) -> bool:
    """Return True if a check makes calls of this target that may end the process.

    Native code may fail at a size, and, other than a torchgraft operator's, whose arguments are checked before it is
    called, on whatever its author did not think of. In Python code, batched gradients end the process where a backward
    takes ``grad.data``; and that it calls nothing native cannot be known.
    """
    if "risks" not in case.memo:  # every check asks
        case.memo["risks"] = is_native(case.target), _has_functions(case)
    native, functions = case.memo["risks"]
    operator = case.target.operator is not None
    if native:
        return not operator or check.probes in ("sizes", "forwards")
    return check.probes in ("batches", "sizes") and not operator and functions


def _has_functions(case: Case) -> bool:
    """Return True if derivatives that are not torch's own take part."""
    with contextlib.suppress(Exception):  # the check will say what
        return bool(_torch.functions_in_graph(case.linearize().outputs))
    return False
