"""Outputs without a derivative: what comes back through one raises, unless it is zero.

Autograd fills in zeros for outputs that nobody uses, and a compiler hands on whatever comes, so that only the numbers
tell. They are looked at by an operator of the dispatcher, which compiled code calls, too.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._record import Record
from ..errors import DerivativeError
from .dispatcher_op import DispatcherOp
from .refuse import Why, refuse_derivative

_NONE = Why("an output has no derivative", "pass output.detach() on")


def shut(
    record: Record, names: Sequence[str], cotangents: Sequence[Any], made: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Return the gradients that a node has made, which are there only if nothing came back through certain outputs.

    Args:
        record: of the operator.
        names: of the outputs.
        cotangents: of these; a list for one that is a list.
        made: the gradients; None for an input that has none.
    """
    zero = torch.zeros(())
    for name, group in zip(names, cotangents, strict=True):
        for cotangent in group if isinstance(group, list) else [group]:
            looked: Tensor = _operator()(cotangent.detach(), record.name, name, record.nondifferentiable[name] or "")
            zero = zero + refuse_derivative(looked, [cotangent], record.name, _NONE)
    return [g if g is None else _plus(g, zero) for g in made]


def _plus(g: Tensor, zero: Tensor) -> Tensor:
    """The sum, with an axis more: to add 0-d tensors, torch looks at their first sample, and vmap may have none."""
    return (g[None] + zero.to(device=g.device, dtype=g.dtype).expand(1, *g.shape))[0]


def _look(cotangent: Tensor, operator: str, output: str, reason: str) -> Tensor:
    if bool(cotangent.any()):
        raise DerivativeError(
            f"output '{output}' is declared nondifferentiable" + (f": {reason}" if reason else ""),
            operator=operator,
            argument=output,
            expected=f"no derivative through {output}",
            got=f"a gradient of {output} that is not zero",
            hint=f"pass {output}.detach() on",
        )
    return torch.zeros(())


def _fake(cotangent: Tensor, operator: str, output: str, reason: str) -> Tensor:
    return torch.zeros(())


def _vmap(info: Any, in_dims: Any, cotangent: Tensor, operator: str, output: str, reason: str) -> tuple[Tensor, None]:
    looked: Tensor = _operator()(cotangent, operator, output, reason)
    return looked, None


_SCHEMA = "(Tensor cotangent, str operator, str output, str reason) -> Tensor"
_lock = threading.Lock()
_registered: list[DispatcherOp] = []


def _operator() -> DispatcherOp:
    """The operator, registered when it is first needed: few programs have such outputs."""
    with _lock:
        if not _registered:
            made = DispatcherOp("torchgraft::shut", _SCHEMA)
            made.backend(_look)
            made.fake(_fake)
            made.vmap(_vmap)
            made.at_key("Autograd", _torch.fallthrough_kernel)
            _registered.append(made)
        return _registered[0]
