"""Shapes, strides and dtypes without numbers: what compilers are told of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..baseline import baseline
from ..case import Case
from ..claims import Refused, attempt, refusal
from ..finding import Finding, Skip, Verdict
from ..points import nearby
from .layouts import transposed
from .sizes import variants

HINT = "compute the fake result's shape from the shapes of the inputs, and its strides as the kernel lays it out"


def fake(case: Case) -> Iterator[Finding]:
    """Real and fake calls at several sizes and, for operators, in several layouts."""
    baseline(case)
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("sparse tensors have no fake ones of their own")
    operator = case.target.kind in ("operator", "library")
    try:
        yield from _compare(case, case.primals, "as given", _torch.fake_call, strides=True)
    except Refused as why:
        yield from refusal(case, "compile", why)
        return
    extra = [("on device meta", case, case.primals, _meta_call)] if operator else []
    laid_out = [transposed(primal) for primal in case.primals]
    if operator and any(primal is not None for primal in laid_out):
        primals = [p if other is None else other for p, other in zip(case.primals, laid_out, strict=True)]
        extra.append(("transposed inputs", case, primals, _torch.fake_call))
    extra += [(what, other, other.primals, _torch.fake_call) for what, other in variants(case) if _takes(other)]
    for what, other, primals, call in extra:
        try:
            found = list(_compare(other, primals, what, call, strides=operator and call is _torch.fake_call))
        except Refused:
            continue
        yield from found
        if found:
            return


Call = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def _compare(case: Case, primals: list[Tensor], what: str, call: Call, *, strides: bool) -> Iterator[Finding]:
    args, kwargs = case.arguments(primals)
    found = _tensors(attempt(partial(call, case.target.function, args, kwargs)))
    with torch.no_grad():
        expected = _tensors(attempt(partial(case.call, [primal.clone() for primal in primals])))
    where = f"{what}; {case.label}"
    if len(found) != len(expected):
        title = f"Fake tensors give {len(found)} outputs, real ones {len(expected)}"
        yield Finding("fake-outputs", Verdict.FAIL, title, where, hint=HINT)
        return
    for i, (made, real) in enumerate(zip(found, expected, strict=True)):
        name = "the output" if len(found) == 1 else f"output {i}"
        for code, ours, theirs in _differences(made, real, strides):
            title = f"The fake result has {code} {ours}, the real one {theirs}"
            cause = f"the fake kernel does not compute the {code} as the kernel does, and compilers rely on it"
            yield Finding(f"fake-{code}", Verdict.FAIL, title, f"{name}; {where}", cause=cause, hint=HINT)


def _differences(made: Tensor, real: Tensor, strides: bool) -> Iterator[tuple[str, object, object]]:
    if tuple(made.shape) != tuple(real.shape):
        yield "shape", tuple(made.shape), tuple(real.shape)
    elif made.dtype != real.dtype:
        yield "dtype", made.dtype, real.dtype
    elif strides and real.numel() and _strides(made) != _strides(real):
        yield "stride", made.stride(), real.stride()


def _strides(tensor: Tensor) -> list[int]:
    """Those of axes with more than one element: the others mean nothing."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in _torch.pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _meta_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    moved = _torch.pytree.tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    return function(*moved[0], **moved[1])


def _takes(case: Case) -> bool:
    try:
        case.values(nearby(case))
    except Exception:
        return False
    return True
