"""Computing with few digits, where an operation computes with many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class Rounding(TorchDispatchMode):
    """Within, what torch computes of floating tensors is rounded at random: views, and what is written into, are not.

    Args:
        epsilon: results are off by up to twice this part.
        source: of the random numbers.
    """

    def __init__(self, epsilon: float, source: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._epsilon, self._source = epsilon, source

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and round its results."""
        made = func(*args, **(kwargs or {}))
        computes = any(isinstance(arg, Tensor) and arg.is_floating_point() for arg in args)
        if not computes or any(returned.alias_info is not None for returned in func._schema.returns):
            return made
        return pytree.tree_map_only(Tensor, self._rounded, made)

    def _rounded(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = torch.empty(tensor.shape, dtype=torch.float64).uniform_(-2, 2, generator=self._source)
        return (tensor * (1 + self._epsilon * noise.to(tensor.device))).to(tensor.dtype)
