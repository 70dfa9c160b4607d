"""Recognising outputs whose sizes are known only after the call, and making fake ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._spec.late import LateShapes
from .._spec.plan import Plan
from ..errors import UnsupportedError


def like_these(late: LateShapes, outputs: Sequence[Tensor]) -> Callable[..., bool]:
    """A function that tells whether outputs look like these, late sizes apart, and agree on those.

    What it does not recognise is no error yet: `settle` finds out, and says it in words.
    """
    looks = _torch.plain_tensors_of(late.known(), outputs)
    places = list(late.places().items())
    firsts = [(*found[0], late.bounds.get(name)) for name, found in places]
    pairs = [(*found[0], *other) for _, found in places for other in found[1:]]
    computed = late.computed()

    def returns(*made: Any) -> bool:
        if not looks(*made):
            return False
        shapes = [tensor.shape for tensor in made]
        return (
            all(tensor.is_contiguous() for tensor in made)
            and all(bound is None or shapes[i][axis] <= bound for i, axis, bound in firsts)
            and all(shapes[i][axis] == shapes[j][other] for i, axis, j, other in pairs)
            and (
                not computed or late.complete({n: shapes[f[0][0]][f[0][1]] for n, f in places}) == [*map(tuple, shapes)]
            )
        )

    return returns


def fake_outputs(plan: Plan, late: LateShapes, operator: Any, name: str, values: Sequence[Any]) -> list[Tensor]:
    """Outputs without numbers, with one new symbol for each late size.

    Raises:
        UnsupportedError: on meta tensors, and on fake ones without symbols.
    """
    mode = _torch.fake_mode_of(values)

    def new_size() -> torch.SymInt:
        size = _torch.new_size(mode, operator)
        if size is None:
            raise UnsupportedError(
                f"the size {' and '.join(sorted(late.names))} of its outputs hangs on numbers, "
                f"which {'meta' if mode is None else 'fake'} tensors do not have",
                operator=name, expected="tensors with numbers, or fake ones with symbols for sizes",
                got="meta tensors" if mode is None else "a FakeTensorMode without a shape_env",
                hint="pass tensors on the CPU" if mode is None else "FakeTensorMode(shape_env=ShapeEnv())",
            )  # fmt: skip
        return size

    shapes = late.make(new_size, torch._check)
    return [
        torch.empty(shape, dtype=dtype, device=plan.device)
        for shape, (_, dtype) in zip(shapes, plan.outputs, strict=True)
    ]
