"""PyTorch's own checks of operators' registrations."""

from __future__ import annotations

import itertools
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ... import _torch
from ..baseline import baseline, short
from ..case import Case
from ..finding import Finding, Skip, Verdict
from .compiled import quiet_compiler

MEANING = {
    "test_schema": (
        "The schema is not what the kernel does",
        "say in mutates_args what is written to, and return no views",
    ),
    "test_autograd_registration": (
        "The derivative is registered at a wrong place",
        "use torch.library.register_autograd",
    ),
    "test_faketensor": (
        "The fake kernel gives other shapes, strides or dtypes than the kernel",
        "correct register_fake",
    ),
    "test_aot_dispatch_dynamic": (
        "Traced with dynamic sizes it gives another result",
        "correct register_fake and the backward",
    ),
}


def opcheck(case: Case) -> Iterator[Finding]:
    """Each of its tests."""
    baseline(case)
    overload = _overload(case)
    if overload is None:
        raise Skip("no operator of torch.library")
    args, kwargs = _arguments(case)
    with quiet_compiler():
        results: dict[str, Any] = torch.library.opcheck(overload, args, kwargs, raise_exception=False)
    for test, result in results.items():
        if isinstance(result, Exception):
            title, hint = MEANING.get(test, (f"{test} fails", "see torch.library.opcheck"))
            severity = Verdict.PASS if _of_torch(result) else Verdict.FAIL
            yield Finding(
                f"opcheck-{test.removeprefix('test_').replace('_', '-')}", severity, title, f"{test}; {case.label}",
                cause=short(result), hint=hint,
            )  # fmt: skip


def _overload(case: Case) -> Any:
    operator = case.target.operator
    return operator.torch_op if operator is not None else _torch.overload_of(case.target.origin)


def _arguments(case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Those of the operator in `torch.ops`, with primals that require grad."""
    args, kwargs = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    if case.target.operator is None:
        return args, kwargs
    record = case.target.operator._record
    given = {**dict(zip(record.signature.names, args, strict=False)), **kwargs}
    return tuple(given.get(p.name, p.default) for p in record.signature.parameters), {}


def _of_torch(error: BaseException) -> bool:
    """Whether torch stumbled over itself: an error that nobody raises on purpose, and not in the user's code."""
    if not isinstance(error, (LookupError, AttributeError)):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    inside = itertools.dropwhile(lambda name: not name.startswith(_TORCH), files)
    return all(name.startswith((_TORCH, _STANDARD)) for name in inside)


_TORCH, _STANDARD = str(Path(torch.__file__).parent), sysconfig.get_path("stdlib")
