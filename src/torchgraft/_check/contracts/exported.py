"""`torch.export`, saved and loaded, against the call."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ... import _torch
from ..baseline import baseline
from ..case import Case, differentiable
from ..claims import Refused, attempt, refusal, unclaimed
from ..finding import Finding, Skip
from .compiled import quiet_compiler


def exported(case: Case) -> Iterator[Finding]:
    """Export, save, load, run."""
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers")
    with quiet_compiler(), torch.no_grad():
        args, kwargs = case.arguments([primal.clone() for primal in case.primals])
        try:
            found = attempt(lambda: _round_trip(case, args, kwargs))
        except Refused as why:
            yield from refusal(case, "export", why)
            return
    yield from unclaimed(case, "export")
    for difference in base.differing_outputs(found):
        yield difference.finding(
            "exported-output", "The exported program gives another output", f"torch.export; {case.label}",
            cause="a number was taken for a constant when the call was traced", hint="compute with tensors only",
        )  # fmt: skip


class _Module(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.target.function

    def forward(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs in one list: a named tuple would have to be registered to be saved."""
        return [leaf for leaf in _torch.pytree.tree_leaves(self.function(*args, **kwargs)) if differentiable(leaf)]


def _round_trip(case: Case, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The outputs of the program that was exported, saved and loaded."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(_Module(case), args, kwargs, strict=False), file)
    file.seek(0)
    outputs = torch.export.load(file).module()(*args, **kwargs)
    return [leaf if leaf.layout == torch.strided else leaf.to_dense() for leaf in outputs]
