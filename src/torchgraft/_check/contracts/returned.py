"""What a backward returns, before the engine makes it fit.

Autograd sums a gradient that broadcasts over its input, and converts one of another dtype, without a word: a missing
reduction then gives right numbers by accident, or wrong ones, and a float32 gradient has lost half its digits.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..baseline import baseline, pulled
from ..case import Case, describe
from ..finding import Finding, Skip, Verdict


def returned(case: Case) -> Iterator[Finding]:
    """Listen to the backward of each Function in the graph."""
    base = baseline(case)
    recorded = case.linearize()
    classes = _torch.functions_in_graph(recorded.outputs)
    if not classes:
        raise Skip("no autograd.Function takes part")
    found: list[Finding] = []
    with contextlib.ExitStack() as stack:
        for cls in classes:
            stack.enter_context(_listening(cls, lambda *seen: found.extend(_judge(case, *seen))))
        pulled(recorded, base)
    yield from found


def _judge(
    case: Case, cls: type, index: int, gradient: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> Iterator[Finding]:
    named = cls is getattr(case.target.origin, "__self__", None) and index < len(case.target.parameters)
    name = case.target.parameters[index] if named else f"input {index} of {cls.__name__}"
    where = f"the gradient of {name}; {case.label}"
    title = f"The backward returns {describe(gradient)} for an input that is {name_of(dtype)}{list(shape)}"
    if tuple(gradient.shape) != shape:
        yield Finding(
            "unreduced-gradient", Verdict.FAIL, title, where,
            cause="the sum over broadcast axes is missing (a reduction); the engine makes up for it where it can",
            hint="sum over the axes that were broadcast: grad.sum_to_size(x.shape)",
        )  # fmt: skip
    elif gradient.dtype != dtype:
        narrower = _digits(gradient.dtype) < _digits(dtype)
        lossy = f"it is computed in {name_of(gradient.dtype)}, and digits are lost"
        yield Finding(
            "gradient-dtype", Verdict.FAIL if narrower else Verdict.PASS, title, where,
            cause=lossy if narrower else "the engine rounds it",
            hint="compute in the input's dtype: numpy's defaults and torch.tensor(...) choose their own",
        )  # fmt: skip


def _digits(dtype: torch.dtype) -> float:
    """Binary digits; none for integers."""
    return -math.log2(torch.finfo(dtype).eps) if dtype.is_floating_point or dtype.is_complex else 0.0


def name_of(dtype: torch.dtype) -> str:
    """``float32``."""
    return str(dtype).removeprefix("torch.")


Seen = Callable[[type, int, Tensor, tuple[int, ...], torch.dtype], None]


@contextlib.contextmanager
def _listening(cls: Any, see: Seen) -> Iterator[None]:
    """Within, `see` is called with each gradient that the backward of a Function returns."""
    own = {name: vars(cls)[name] for name in ("backward", "vjp") if name in vars(cls)}
    for name in [name for name in ("backward", "vjp") if _overridden(cls, name)]:
        setattr(cls, name, staticmethod(_wrapped(cls, getattr(cls, name), see)))
    try:
        yield
    finally:
        for name in ("backward", "vjp"):
            if name in vars(cls):
                delattr(cls, name)
        for name, value in own.items():
            setattr(cls, name, value)


def _overridden(cls: Any, name: str) -> bool:
    return getattr(cls, name, None) is not None and getattr(cls, name) is not getattr(torch.autograd.Function, name)


def _wrapped(cls: type, backward: Callable[..., Any], see: Seen) -> Callable[..., Any]:
    def listen(ctx: Any, *gradients: Any) -> Any:
        results = backward(ctx, *gradients)
        every = results if isinstance(results, tuple) else (results,)
        wanted = _torch.input_metadata(ctx)
        # Edges are those of tensors alone: where other arguments stand between them, their gradients are None.
        places = range(len(every)) if len(every) == len(wanted) else [i for i, r in enumerate(every) if r is not None]
        if len(places) == len(wanted):
            for i, metadata in zip(places, wanted, strict=True):
                if isinstance(every[i], Tensor) and metadata is not None:
                    see(cls, i, every[i], *metadata)
        return results

    return listen
