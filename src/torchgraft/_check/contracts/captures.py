"""Tensors that a call uses and was not given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..baseline import baseline
from ..case import Case, Linearization, describe
from ..finding import Finding, Verdict


def captures(case: Case) -> Iterator[Finding]:
    """Watch what torch functions are given while nothing is recorded, and look at the leaves of the graph."""
    baseline(case)
    watch = _Watch()
    with watch:
        recorded = case.linearize()
    given = {id(primal) for primal in recorded.primals}
    silent = [
        t
        for t in watch.seen
        if t.numel() and not _made_of(t, given) and not any(_torch.shares_memory(t, p) for p in recorded.primals)
    ]
    for tensor in silent[:3]:
        in_function = case.target.kind in ("function", "library", "operator")
        yield Finding(
            "captured-tensor", Verdict.FAIL if in_function else Verdict.PASS,
            f"Uses a tensor {describe(tensor)} that requires grad and is no argument: its gradient is lost",
            f"a captured tensor; {case.label}",
            cause="it comes from a closure, a global or an attribute, and nothing is recorded where it is used",
            hint="make it an argument of forward, and return its gradient",
        )  # fmt: skip
    if silent:
        return
    for tensor in _other_leaves(recorded, given)[:3]:
        yield Finding(
            "captured-parameter", Verdict.PASS,
            f"Depends on a tensor {describe(tensor)} that is no argument: its gradient is not checked",
            f"a captured tensor; {case.label}", hint="check a function that takes it as an argument",
        )  # fmt: skip


def _made_of(tensor: Tensor, given: set[int]) -> bool:
    """Whether a tensor is an argument, or was computed from one."""
    return id(tensor) in given or any(id(leaf) in given for leaf in _leaves([tensor]))


def _other_leaves(recorded: Linearization, given: set[int]) -> list[Tensor]:
    return [leaf for leaf in _leaves(recorded.outputs) if id(leaf) not in given]


def _leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The leaves of the graph."""
    found = (getattr(node, "variable", None) for node in _torch.nodes_in_graph(tensors))
    return [leaf for leaf in found if isinstance(leaf, Tensor)]


class _Watch(torch.overrides.TorchFunctionMode):
    """Within, collects the tensors that require grad and are given to torch while nothing is recorded.

    Attributes:
        seen: these tensors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`."""
        if not torch.is_grad_enabled() and getattr(func, "__name__", "") not in _HARMLESS:
            for value in _torch.pytree.tree_leaves((args, kwargs)):
                if isinstance(value, Tensor) and value.requires_grad and not any(value is t for t in self.seen):
                    self.seen.append(value)
        return func(*args, **(kwargs or {}))


_HARMLESS = frozenset(
    {"detach", "__get__", "size", "dim", "stride", "is_floating_point", "is_complex", "numel", "data_ptr"}
)
"""They look at a tensor without using its numbers; what is detached is constant on purpose."""
