"""The same numbers, laid out in memory in other ways."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from ..baseline import Baseline, Value, baseline, pulled, short
from ..case import Case
from ..finding import Finding, Inconclusive, Skip, Verdict

Layout = Callable[[Tensor], Tensor | None]

CONTIGUOUS = "call .contiguous() on what is read through its address, and use .reshape instead of .view"


def transposed(tensor: Tensor) -> Tensor | None:
    """The first axis moves fastest."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return None
    back = tuple(reversed(range(tensor.dim())))
    return tensor.permute(back).clone(memory_format=torch.contiguous_format).permute(back)


def strided(tensor: Tensor) -> Tensor | None:
    """Every other element of its memory; NaN in between."""
    return torch.stack([torch.full_like(tensor, float("nan")), tensor], -1)[..., 1] if tensor.numel() else None


def offset(tensor: Tensor) -> Tensor | None:
    """It starts in the middle of its memory, off the alignment that processors like; NaN before it."""
    if not tensor.numel():
        return None
    flat = tensor.reshape(-1)
    return torch.cat([flat.new_full((3,), float("nan")), flat])[3:].view(tensor.shape)


def channels_last(tensor: Tensor) -> Tensor | None:
    """As images are kept that convolutions like."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.clone(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else None


def lazy(tensor: Tensor) -> Tensor | None:
    """Its memory holds the conjugate, or minus its numbers; a bit says so."""
    if tensor.is_complex():
        return tensor.conj().resolve_conj().conj()
    if tensor.dtype not in (torch.float32, torch.float64) or not tensor.numel():
        return None
    return torch.complex(tensor, -tensor).conj().imag


LAZY = "lazily conjugated or negated"

LAYOUTS: dict[str, Layout] = {
    "transposed": transposed, "strided": strided, "offset": offset, "channels last": channels_last,
    LAZY: lazy,
}  # fmt: skip


def _everywhere(tensor: Tensor) -> Tensor | None:
    """Its first element everywhere, in the memory of one: what the backward of a sum hands out."""
    return (
        tensor.reshape(-1)[:1].clone().reshape((1,) * tensor.dim()).expand(tensor.shape) if tensor.numel() > 1 else None
    )


def _along(axis: int, tensor: Tensor) -> Tensor | None:
    """Its first slice along one axis, repeated: what the backward of a sum over that axis hands out."""
    if tensor.dim() < 2 or tensor.shape[axis] < 2:
        return None
    return tensor.narrow(axis, 0, 1).clone().expand(tensor.shape)


EXPANDED: dict[str, Layout] = {
    "expanded": _everywhere,
    "expanded along the first axis": partial(_along, 0),
    "expanded along the last axis": partial(_along, -1),
}
"""Layouts in which elements share memory; the others hold any numbers."""


def inputs(case: Case) -> Iterator[Finding]:
    """Call with the same numbers in other layouts, all inputs at once."""
    base, tried, said = baseline(case), False, set[str]()
    if base.random:
        raise Skip("it draws random numbers, in the order in which memory lies")
    for name, dense, given in _variants(case.primals, parameters(case)):
        tried = True
        with contextlib.suppress(Inconclusive):  # equal elements are out of the domain, as a matrix of them is singular
            found = list(_try_inputs(base if dense is None else baseline(case.replaced(dense)), given, name))
            yield from (f for f in found if f.code not in said)
            said |= {f.code for f in found}
    if not tried:
        raise Skip("tensors of one element have one layout")


def _try_inputs(base: Baseline, primals: Sequence[Tensor], layout: str) -> Iterator[Finding]:
    where = f"{layout} inputs; {base.case.label}"
    given = [primal.detach().requires_grad_() for primal in primals]
    try:
        recorded = base.case.record(given)
    except Exception as error:
        yield Finding(
            "layout-refused", Verdict.PASS, f"Refuses {layout} inputs", where, cause=short(error), hint=CONTIGUOUS
        )
        return
    outputs = [output.detach() for output in recorded.outputs]
    wrong = [
        d.finding(
            "input-layout", f"An output is another where inputs are {layout}", where,
            cause="memory is read as if the input were contiguous", hint=CONTIGUOUS,
        )
        for d in base.differing_outputs(outputs)
    ]  # fmt: skip
    if wrong:
        yield from wrong
        return
    try:
        found = pulled(recorded, base)
    except Exception as error:
        yield _raised("input-layout-raises", f"The backward raises where inputs are {layout}", where, error, layout)
        return
    for difference in base.differing_gradients(found):
        yield difference.finding(
            "input-layout", f"A gradient is another where inputs are {layout}", where,
            cause="the backward reads memory of what was saved as if it were contiguous", hint=CONTIGUOUS,
        )  # fmt: skip


def gradients(case: Case) -> Iterator[Finding]:
    """Pull with the same numbers in other layouts; autograd itself hands out expanded and transposed ones."""
    base, tried, said = baseline(case), False, set[str]()
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    for name, dense, given in _variants([c for c in base.cotangents if c is not None]):
        tried = True
        expected = base.gradients if dense is None else case.linearize().pull(_placed(base, used, dense))
        found = list(_try_gradients(base, _placed(base, used, given), expected, name))
        yield from (f for f in found if f.code not in said)
        said |= {f.code for f in found}
    if not tried:
        raise Skip("tensors of one element have one layout")


def _placed(base: Baseline, used: Sequence[int], given: Sequence[Tensor]) -> list[Value]:
    """Upstream gradients of the outputs that have one."""
    placed: list[Value] = [None] * len(base.cotangents)
    for i, cotangent in zip(used, given, strict=True):
        placed[i] = cotangent
    return placed


def _try_gradients(base: Baseline, given: Sequence[Value], expected: Sequence[Value], layout: str) -> Iterator[Finding]:
    where = f"{layout} upstream gradient; {base.case.label}"
    try:
        found = base.case.linearize().pull(given)
    except Exception as error:
        title = f"The backward raises where the upstream gradient is {layout}"
        yield _raised("gradient-layout-raises", title, where, error, layout)
        return
    for difference in base.differing_gradients(found, expected):
        yield difference.finding(
            "gradient-layout", f"The gradient is another where the upstream gradient is {layout}", where,
            cause="the memory of the upstream gradient is read as if it were contiguous", hint=CONTIGUOUS,
        )  # fmt: skip


def _raised(code: str, title: str, where: str, error: Exception, layout: str) -> Finding:
    """A refusal; NumPy has no bit for lazy tensors, and torch hands them out for complex numbers alone."""
    severity = Verdict.PASS if layout == LAZY else Verdict.FAIL
    return Finding(code, severity, title, where, cause=short(error), hint=CONTIGUOUS)


def parameters(case: Case) -> set[int]:
    """The primals that are a module's parameters, which lie in memory as the module made them."""
    if case.target.kind != "module":
        return set()
    own = {name for name, _ in case.target.origin.named_parameters()}
    return {i for i, name in enumerate(case.names) if name in own}


def _variants(
    tensors: Sequence[Tensor], fixed: Container[int] = ()
) -> Iterator[tuple[str, list[Tensor] | None, list[Tensor]]]:
    """Names of layouts, and the tensors in them, where they can have them.

    Between the two stand the same numbers, contiguous, or None where they are those of the tensors themselves.
    """
    for name, layout in [*LAYOUTS.items(), *EXPANDED.items()]:
        made = [None if i in fixed else layout(tensor) for i, tensor in enumerate(tensors)]
        if all(other is None for other in made):
            continue
        given = [tensor.clone() if other is None else other for tensor, other in zip(tensors, made, strict=True)]
        yield name, [tensor.contiguous() for tensor in given] if name in EXPANDED else None, given
