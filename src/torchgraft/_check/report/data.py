"""A report as data: JSON that other programs read."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .summary import checks, counts, worst

if TYPE_CHECKING:
    from .report import Report

FORMAT = 1  # goes up when a key changes its meaning or goes away


def dumps(report: Report) -> str:
    """The whole report."""
    return _text(_head() | _content(report))


def dumps_all(reports: Sequence[Report], *, ok: bool) -> str:
    """Several reports: under ``targets``, each as `dumps` gives it.

    Args:
        reports: of the targets, in their order.
        ok: whether all together have passed.
    """
    verdict = worst(report.verdict for report in reports)
    return _text(_head() | {"ok": ok, "verdict": verdict, "targets": [_content(report) for report in reports]})


def _head() -> dict[str, Any]:
    return {"format": FORMAT, "torch": torch.__version__}


def _content(report: Report) -> dict[str, Any]:
    return {
        "target": report.target,
        "kind": report.kind,
        "seed": report.seed,
        "ok": report.ok,
        "verdict": report.verdict,
        "checks": counts(check.verdict for check in checks(report)),
        "results": report.results,
    }


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(plain(content), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """A value made of what JSON has, exact to the last bit."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, complex):
        return {"real": plain(value.real), "imag": plain(value.imag)}
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return f"<{type(value).__qualname__}>"  # not its repr, which may hold an address


def _tensor(value: Tensor) -> dict[str, Any]:
    dense = value.detach() if value.layout == torch.strided else value.detach().to_dense()
    return {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "values": None if value.is_meta else plain(dense.tolist()),
    }
