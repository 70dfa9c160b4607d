"""Computing with few digits, where an operation computes with many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .effort import TooMuch
from .plain import materialized

MOST = 20_000
"""Operations whose results are rounded."""


_aten = torch.ops.aten
_EXACT = {
    _aten.clone, _aten.neg, _aten.abs, _aten.sign, _aten.where, _aten.masked_fill, _aten.cat, _aten.stack, _aten.flip,
    _aten.index, _aten.index_select, _aten.gather, _aten.sort, _aten.topk, _aten.max, _aten.min, _aten.amax, _aten.amin,
    _aten.maximum, _aten.minimum, _aten.clamp, _aten.clamp_min, _aten.clamp_max, _aten.relu,
}  # fmt: skip
"""Operations that choose numbers, and round none."""
_WHOLE = {_aten.floor, _aten.ceil, _aten.trunc, _aten.round, _aten._to_copy}
"""Operations that jump at whole numbers: what is exact and whole must not become a little less."""


class Rounding(TorchDispatchMode):
    """Within, what torch computes of floating tensors is rounded at random: views, and what is written into, are not.

    Nor are numbers that are only chosen, and whole numbers where a little less would be another one.

    Args:
        source: of the random numbers.
        epsilon: results are off by up to twice this part, or twice that of their dtype, whichever is more.

    Attributes:
        dtypes: of the numbers that were rounded.

    Raises:
        TooMuch: there are many operations: an iteration may never come to its end where each result is another.
    """

    def __init__(self, source: torch.Generator, epsilon: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._source, self._epsilon, self._left = source, epsilon, MOST
        self.dtypes = set[torch.dtype]()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to import its compiler for the sake of a mode that compiled code never sees."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and round its results."""
        self._left -= 1
        if self._left < 0:
            raise TooMuch
        packet, args = func.overloadpacket, materialized(args)
        if packet in _WHOLE:
            args = [self._whole(arg) for arg in args]
        made = func(*args, **(kwargs or {}))
        computes = any(isinstance(arg, Tensor) and arg.is_floating_point() for arg in args)
        aliases = any(value.alias_info is not None for value in func._schema.returns)
        if aliases or not computes or packet in _EXACT or (packet in _WHOLE and packet is not _aten._to_copy):
            return made
        return pytree.tree_map_only(Tensor, self._rounded, made)

    def _whole(self, value: Any) -> Any:
        """Numbers next to whole ones become these again."""
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        whole = value.round()
        least = 8 * max(self._epsilon, torch.finfo(value.dtype).eps)
        return torch.where((value - whole).abs() <= least * whole.abs(), whole, value)

    def _rounded(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        self.dtypes.add(tensor.dtype)
        noise = torch.empty(tensor.shape, dtype=torch.float64).uniform_(-2, 2, generator=self._source)
        epsilon = max(self._epsilon, torch.finfo(tensor.dtype).eps)
        return (tensor * (1 + epsilon * noise.to(tensor.device))).to(tensor.dtype)
