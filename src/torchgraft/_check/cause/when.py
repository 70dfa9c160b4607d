"""When a cause acts, if not always: sizes of axes that part the cases in which it does from the others."""

from __future__ import annotations

from collections.abc import Sequence

from .look import Block


def when(blocks: Sequence[Block]) -> str:
    """Words such as "only where axis 0 of x has size 1"; empty where the sizes do not tell."""
    for i, side in enumerate(blocks[-1].look.inputs):
        values = [(block.look.inputs[i].value, bool(block.wrong.any())) for block in blocks]
        shapes = [(value.shape, acts) for value, acts in values if value.ndim == side.value.ndim]
        for axis in range(side.value.ndim):
            wrong = {shape[axis] for shape, acts in shapes if acts}
            right = {shape[axis] for shape, acts in shapes if not acts}
            words = _parted(wrong, right)
            if words:
                name = f"{side.name} has" if side.value.ndim == 1 else f"axis {axis} of {side.name} has"
                return f"only where {name} {words}"
    return ""


def _parted(wrong: set[int], right: set[int]) -> str:
    if not wrong or not right or wrong & right:
        return ""
    if wrong == {1}:
        return "size 1"
    if max(right) < min(wrong):
        return f"a size above {max(right)}" if min(wrong) - max(right) == 1 else f"size {min(wrong)} or more"
    if max(wrong) < min(right):
        return f"a size below {min(right)}"
    for tile in (2, 3, 4, 8, 16, 32):
        if all(n % tile for n in wrong) and not any(n % tile for n in right):
            return f"a size that is no multiple of {tile}"
        if all(n % tile for n in right) and not any(n % tile for n in wrong):
            return f"a size that is a multiple of {tile}"
    return ""
