"""A limit on what torch computes, counted in operations and elements: it says the same on every machine."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

PRICE = 1000
"""Elements that cost as much as an operation itself."""


class TooMuch(BaseException):
    """A call computes more than it may; not an `Exception`, so that no user's code catches it."""


class Effort(TorchDispatchMode):
    """Within, a call is stopped that computes too much.

    Args:
        limit: elements that may be made, where each operation counts as a thousand.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = limit

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to import its compiler for the sake of a mode that compiled code never sees."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and count its work."""
        made = func(*args, **(kwargs or {}))
        leaves = (made,) if isinstance(made, Tensor) else pytree.tree_leaves(made)
        self._left -= PRICE + sum(leaf.numel() for leaf in leaves if isinstance(leaf, Tensor))
        if self._left < 0:
            raise TooMuch
        return made
