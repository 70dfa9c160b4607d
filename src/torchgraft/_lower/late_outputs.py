"""Recognising outputs whose sizes are known only after the call, and making fake ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._generated import compile_source
from .._spec.late import LateShapes
from .._spec.plan import Plan
from ..errors import UnsupportedError

_RETURNS = """\
def make(looks, complete, bounds):
    {bounds}
    def returns({outputs}):
        if not looks({outputs}):
            return False
        {shapes}
        return {tests}
    return returns
"""


def like_these(late: LateShapes, outputs: Sequence[Tensor]) -> Callable[..., bool]:
    """A function that tells whether outputs look like these, late sizes apart, and agree on those.

    What it does not recognise is no error yet: `settle` finds out, and says it in words. Its source is generated, since
    the hot path calls it.
    """
    names = [f"o{i}" for i in range(len(outputs))]
    tests = [f"{name}.is_contiguous()" for name in names]
    sizes = []
    for name, ((first, axis), *others) in late.places().items():
        size = f"s{first}[{axis}]"
        tests += [f"s{number}[{other}] == {size}" for number, other in others]
        tests += [f"{size} <= bound_{name}"] if name in late.bounds else []
        sizes.append(f"{name!r}: {size}")
    if late.computed():
        tests.append(f"complete({{{', '.join(sizes)}}}) == [{', '.join(f's{i}' for i in range(len(names)))}]")
    source = _RETURNS.format(
        bounds="; ".join(f"bound_{name} = bounds[{name!r}]" for name in late.bounds) or "pass",
        outputs=", ".join(names),
        shapes="; ".join(f"s{i} = {name}.shape" for i, name in enumerate(names)),
        tests=" and ".join(tests),
    )
    make = _maker(source, late.operator)
    returns: Callable[..., bool] = make(_torch.plain_tensors_of(late.known(), outputs), late.complete, late.bounds)
    return returns


@functools.lru_cache(maxsize=256)
def _maker(source: str, operator: str) -> Callable[..., Any]:
    """One for all shapes of an operator's calls: the text is the same."""
    make: Callable[..., Any] = compile_source(source, f"{operator} outputs", {})["make"]
    return make


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

    shapes = late.make(new_size, _torch.promise)
    return [
        torch.empty(shape, dtype=dtype, device=plan.device)
        for shape, (_, dtype) in zip(shapes, plan.outputs, strict=True)
    ]
