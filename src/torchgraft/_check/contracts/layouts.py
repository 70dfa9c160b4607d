"""The same numbers, laid out in memory in other ways."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence

import torch
from torch import Tensor

from ..baseline import Baseline, Value, baseline, pulled, short
from ..case import Case
from ..contract import contract
from ..finding import Finding, Inconclusive, Skip, Verdict

Layout = Callable[[Tensor], Tensor | None]

CONTIGUOUS = "call .contiguous() on what is read through its address, and use .reshape instead of .view"


def transposed(tensor: Tensor) -> Tensor | None:
    """The first axis moves fastest."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return None
    back = tuple(reversed(range(tensor.dim())))
    return tensor.permute(back).contiguous().permute(back)


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
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else None


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


@contract("layouts of inputs", "Results do not depend on how the inputs lie in memory.")
def inputs(case: Case) -> Iterator[Finding]:
    """Call with the same numbers in other layouts, all inputs at once, and then with expanded ones."""
    base, tried = baseline(case), 0
    if base.random:
        raise Skip("it draws random numbers, in the order in which memory lies")
    fixed = parameters(case)
    for name, layout in LAYOUTS.items():
        primals = _laid_out(case.primals, layout, fixed)
        if primals is not None:
            tried += 1
            yield from _try_inputs(base, [p for p in primals if p is not None], name)
    expanded = [None if i in fixed else _expanded(primal) for i, primal in enumerate(case.primals)]
    if any(e is not None for e in expanded):
        tried += 1
        dense = [p if e is None else e.contiguous() for p, e in zip(case.primals, expanded, strict=True)]
        primals = [p if e is None else e for p, e in zip(case.primals, expanded, strict=True)]
        with contextlib.suppress(Inconclusive):  # equal elements are out of the domain, as a matrix of them is singular
            yield from _try_inputs(baseline(case.replaced(dense)), primals, "expanded")
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
        yield _raised("input-layout-raises", f"The backward raises where inputs are {layout}", where, error)
        return
    for difference in base.differing_gradients(found):
        yield difference.finding(
            "input-layout", f"A gradient is another where inputs are {layout}", where,
            cause="the backward reads memory of what was saved as if it were contiguous", hint=CONTIGUOUS,
        )  # fmt: skip


@contract("layouts of gradients", "Gradients do not depend on how the upstream gradients lie in memory.")
def gradients(case: Case) -> Iterator[Finding]:
    """Pull with the same numbers in other layouts; autograd itself hands out expanded and transposed ones."""
    base, tried = baseline(case), 0
    for name, layout in LAYOUTS.items():
        given = _laid_out(base.cotangents, layout)
        if given is not None:
            tried += 1
            yield from _try_gradients(base, given, base.gradients, name)
    expanded = [None if c is None else _expanded(c) for c in base.cotangents]
    if any(e is not None for e in expanded):
        tried += 1
        dense = [c if e is None else e.contiguous() for c, e in zip(base.cotangents, expanded, strict=True)]
        given = [c if e is None else e for c, e in zip(base.cotangents, expanded, strict=True)]
        yield from _try_gradients(base, given, case.linearize().pull(dense), "expanded")
    if not tried:
        raise Skip("tensors of one element have one layout")


def _try_gradients(base: Baseline, given: Sequence[Value], expected: Sequence[Value], layout: str) -> Iterator[Finding]:
    where = f"{layout} upstream gradient; {base.case.label}"
    try:
        found = base.case.linearize().pull(given)
    except Exception as error:
        title = f"The backward raises where the upstream gradient is {layout}"
        found = _raised("gradient-layout-raises", title, where, error)
        # NumPy has no such bit, and torch hands it out for complex tensors alone: to refuse it is right.
        yield found.but(severity=Verdict.PASS) if layout == LAZY else found
        return
    for difference in base.differing_gradients(found, expected):
        yield difference.finding(
            "gradient-layout", f"The gradient is another where the upstream gradient is {layout}", where,
            cause="the memory of the upstream gradient is read as if it were contiguous", hint=CONTIGUOUS,
        )  # fmt: skip


def _raised(code: str, title: str, where: str, error: Exception) -> Finding:
    return Finding(code, Verdict.FAIL, title, where, cause=short(error), hint=CONTIGUOUS)


def parameters(case: Case) -> set[int]:
    """The primals that are a module's parameters, which lie in memory as the module made them."""
    if case.target.kind != "module":
        return set()
    own = {name for name, _ in case.target.origin.named_parameters()}
    return {i for i, name in enumerate(case.names) if name in own}


def _laid_out(tensors: Sequence[Value], layout: Layout, fixed: Container[int] = ()) -> list[Value] | None:
    """The tensors, in the layout where they can have it; None where none can."""
    made = [None if t is None or i in fixed else layout(t) for i, t in enumerate(tensors)]
    if all(tensor is None for tensor in made):
        return None
    return [tensor if other is None else other for tensor, other in zip(tensors, made, strict=True)]


def _expanded(tensor: Tensor) -> Tensor | None:
    """Its first element everywhere, in the memory of one."""
    return tensor.reshape(-1)[:1].reshape((1,) * tensor.dim()).expand(tensor.shape) if tensor.numel() > 1 else None
