"""Layouts of equal numbers in memory, and the dtypes of autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, distance, generator, vjp_of
from ..case import Case
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..late import alike
from ..numeric.line import factor
from ..target import Target
from ..work import limits, tried
from .ways import Made, Words, claimed, compared, placed, require_fixed

Layout = Callable[[Tensor], Tensor | None]
Look = Callable[[str, list[Tensor], list[Tensor] | None], Iterator[Finding]]
"""Looks at a layout: its name, tensors that have it, and the same numbers contiguous, where they are not as given."""


def transposed(tensor: Tensor) -> Tensor | None:
    """The first axis moves fastest."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return None
    back = tuple(reversed(range(tensor.dim())))
    return tensor.permute(back).clone(memory_format=torch.contiguous_format).permute(back)


def strided(tensor: Tensor) -> Tensor | None:
    """Every other element of its memory; NaN in between."""
    return torch.stack([torch.full_like(tensor, float("nan")), tensor], -1)[..., 1] if tensor.numel() else None


def lazy(tensor: Tensor) -> Tensor | None:
    """A tensor whose memory holds the conjugate, or minus its numbers; a bit says so."""
    if tensor.is_complex():
        return tensor.conj().resolve_conj().conj()
    if tensor.dtype not in (torch.float32, torch.float64) or not tensor.numel():
        return None
    return torch.complex(tensor, -tensor).conj().imag


def expanded(tensor: Tensor, axis: int | None = None) -> Tensor | None:
    """The first slice along an axis, or the first element, repeated: what the backward of a sum hands out."""
    if axis is None:
        return tensor.reshape(-1)[0].clone().expand(tensor.shape) if tensor.numel() > 1 else None
    if tensor.dim() < 2 or tensor.shape[axis] < 2:
        return None
    return tensor.narrow(axis, 0, 1).clone().expand(tensor.shape)


LAZY = "lazily conjugated or negated"
NAN = float("nan")
IMAGES = {4: torch.channels_last, 5: torch.channels_last_3d}
LAYOUTS: dict[str, Layout] = {
    "transposed": transposed,
    "strided": strided,
    # It begins after NaN in its memory, off the alignment that processors like.
    "offset": lambda x: torch.cat([x.new_full((3,), NAN), x.flatten()])[3:].view(x.shape) if x.numel() else None,
    "channels last": lambda x: x.clone(memory_format=IMAGES[x.dim()]) if x.dim() in IMAGES else None,
    LAZY: lazy,
    "expanded": expanded,
    "expanded along the first axis": partial(expanded, axis=0),
    "expanded along the last axis": partial(expanded, axis=-1),
}
"""Layouts of tensors. Elements share memory in those that are expanded; the others hold any numbers."""

CONTIGUOUS = "call .contiguous() on what is read through its address, and use .reshape instead of .view"


def _each(tensors: Sequence[Tensor], look: Look, fixed: Container[int] = ()) -> Iterator[Finding]:
    """Look at each layout that some of the tensors can have; nothing is said twice."""
    tried, said = False, set[str]()
    for name, layout in LAYOUTS.items():
        made = [None if i in fixed else layout(tensor) for i, tensor in enumerate(tensors)]
        if all(other is None for other in made):
            continue
        tried = True
        given = [tensor.clone() if other is None else other for tensor, other in zip(tensors, made, strict=True)]
        dense = [tensor.contiguous() for tensor in given] if name.startswith("expanded") else None
        with contextlib.suppress(Inconclusive):  # Equal elements may leave the domain: a matrix of them is singular.
            found = list(look(name, given, dense))
            yield from (f for f in found if f.code not in said)
            said |= {f.code for f in found}
    if not tried:
        raise Skip("tensors of one element have one layout")


def _raised(code: str, title: str, layout: str) -> Words:
    """A refusal; NumPy has no bit for lazy tensors, and torch hands them out for complex numbers alone."""
    return Words(code, title, hint=CONTIGUOUS, severity=Verdict.PASS if layout == LAZY else Verdict.FAIL)


def _misread(layout: str, cause: str) -> tuple[str, str]:
    """The cause and the next step where numbers are others in a layout."""
    if layout == LAZY:
        cause = "memory is read without the bit that stands for a conjugate, or for a minus"
        return cause, "call .resolve_conj().resolve_neg() on what is read through its address"
    return cause, CONTIGUOUS


def inputs(case: Case) -> Iterator[Finding]:
    """Call with the same numbers in other layouts, all inputs at once."""
    require_fixed(baseline(case), ", in the order in which memory lies")
    yield from _each(case.primals, partial(_inputs, baseline(case)), case.parameters)


def _inputs(base: Baseline, layout: str, given: list[Tensor], dense: list[Tensor] | None) -> Iterator[Finding]:
    if dense is not None:
        base = baseline(base.case.replaced(dense))
        if not base.conditioned or not all(bool(output.isfinite().all()) for output in base.outputs):
            raise Inconclusive("equal elements are next to where the target is defined")
    how, recorded = f"{layout} inputs", []

    def forward() -> Made:
        recorded.append(base.case.record([primal.detach().requires_grad_() for primal in given]))
        return recorded[0].outputs, ()

    title = f"An output is another where inputs are {layout}"
    wrong = Words("input-layout", title, *_misread(layout, "memory is read as if the input were contiguous"))
    found = list(
        compared(
            base, how, forward, output=wrong,
            raises=Words("layout-refused", f"Refuses {layout} inputs", hint=CONTIGUOUS, severity=Verdict.PASS),
        )
    )  # fmt: skip
    yield from found
    if not found:
        title = f"A gradient is another where inputs are {layout}"
        cause = "the backward reads memory of what was saved as if it were contiguous"
        raises = _raised("input-layout-raises", f"The backward raises where inputs are {layout}", layout)
        wrong = Words("input-layout", title, *_misread(layout, cause))
        yield from compared(base, how, lambda: ((), vjp_of(recorded[0], base)), raises=raises, gradient=wrong)


def gradients(case: Case) -> Iterator[Finding]:
    """Run the backward on the same numbers in other layouts; autograd itself hands out expanded and transposed ones."""
    base = baseline(case)
    yield from _each([c for c in base.cotangents if c is not None], partial(_gradients, base))


def _gradients(base: Baseline, layout: str, given: list[Tensor], dense: list[Tensor] | None) -> Iterator[Finding]:
    def backward(tensors: list[Tensor]) -> Made:
        return (), base.case.linearize().vjp(placed(base, tensors), as_given=True)

    title = f"The gradient is another where the upstream gradient is {layout}"
    cause = "the memory of the upstream gradient is read as if it were contiguous"
    raises = f"The backward raises where the upstream gradient is {layout}"
    yield from compared(
        base, f"{layout} upstream gradient", lambda: backward(given), expected=backward(dense) if dense else None,
        raises=_raised("gradient-layout-raises", raises, layout),
        gradient=Words("gradient-layout", title, *_misread(layout, cause)),
    )  # fmt: skip


# -- the call under autocast: dtypes fit, and gradients are right to the digits that are left ------------------------

DTYPE = torch.bfloat16
CAST = "decorate forward with torch.amp.custom_fwd(device_type=...) and backward with custom_bwd, or cast by hand"
AUTOCAST_OUTPUT = Words(
    "autocast-output", "Under autocast {} is another",
    "the forward asks whether autocast is on", "compute the same in every dtype",
)  # fmt: skip
AUTOCAST_GRADIENT = Words(
    "autocast-gradient", "Under autocast {} is wrong", "forward and backward work in different dtypes", CAST
)
DTYPES_MEET = (
    "an operation gets tensors of two dtypes, of which autocast has made one",
    "convert one of them, such as y.to(x.dtype); or leave autocast for this part: torch.autocast(..., enabled=False)",
)
"""Words for what is computed by torch's operations alone."""


def autocast(case: Case) -> Iterator[Finding]:
    """Run in float32 with and without autocast, which leaves float64 alone."""
    baseline(case)
    wide = [isinstance(x, Tensor) and x.layout == torch.strided and x.dtype == torch.float64 for x in case.leaves]
    single = case.with_leaves([x.float() if is_wide else x for x, is_wide in zip(case.leaves, wide, strict=True)])
    try:
        if tried(single, given=case) is None:
            raise Inconclusive("it refuses it, or works long")
        base = baseline(single)
    except Inconclusive as why:
        raise Skip(f"not in float32: {why}") from why
    require_fixed(base, ", and others in another dtype")
    how, title = "autocast to bfloat16", "It raises under autocast"
    try:
        with torch.autocast(case.device_type, DTYPE), _torch.Effort(*limits(case)):
            recorded = single.linearize()
        title = "The backward raises after a forward under autocast"
        pairs = zip(base.cotangents, recorded.outputs, strict=True)
        found = recorded.vjp([None if c is None else c.to(o.dtype) for c, o in pairs])
    except (_torch.TooMuch, Inconclusive):
        raise Skip("it works far longer under autocast") from None
    except Exception as error:  # Autocast is not meant for double precision.
        meant = any(primal.dtype == torch.float32 for primal in case.primals) or claimed(case, "autocast")
        severity = Verdict.FAIL if meant else Verdict.PASS
        words = ("forward and backward get different dtypes", CAST) if case.is_own else DTYPES_MEET
        yield Words("autocast-raises", title, *words, severity).at(f"{how}; {single.label}", error)
        return
    samples = _in_few_digits(base)
    differing = list(compared(
        _with_slack(base, samples), how, lambda: (recorded.outputs, found),
        output=AUTOCAST_OUTPUT, gradient=AUTOCAST_GRADIENT,
    ))  # fmt: skip
    yield from differing or AUTOCAST_GRADIENT.of(_scaled(base, found, samples), f"{how}; {single.label}")


def _scaled(base: Baseline, gradients: Sequence[Value], samples: Sequence[Sequence[Value]]) -> Iterator[Difference]:
    """Yield gradients that are a multiple of what they should be: rounding errors of the elements do not add up so."""
    count = len(base.outputs)
    for i, (found, expected) in enumerate(zip(gradients, base.gradients, strict=True)):
        factors = [factor(value, expected) for value in (found, *(sample[count + i] for sample in samples))]
        off, *others = (abs(factor - 1) for factor in factors)
        slack = 4 * max(others, default=0.0) + 2 * torch.finfo(DTYPE).eps
        if off > slack and expected is not None:
            size = float(torch.linalg.vector_norm(expected))
            yield Difference(base.gradient_name(i), found, expected, off * size, slack * size)


def _in_few_digits(base: Baseline) -> list[list[Value]]:
    """Outputs and gradients, each time with other numbers rounded to bfloat16.

    Raises:
        Inconclusive: the target refuses such numbers.
    """
    made = []
    for sample in range(3):
        # Terms that cancel, as those of what softmax takes off do, are rounded where they are computed.
        rounding = _torch.Rounding(generator(base.case, 85, sample), torch.finfo(DTYPE).eps)
        for mode, inward in ((rounding, False), (contextlib.nullcontext(), False), (contextlib.nullcontext(), True)):
            with contextlib.suppress(Exception, _torch.TooMuch), mode:
                made.append(_nudged(base, sample, inward))
                break
        else:
            raise Inconclusive("it refuses arguments that are rounded to bfloat16")
    return made


def _with_slack(base: Baseline, samples: Sequence[Sequence[Value]]) -> Baseline:
    """The baseline, from which results may be as far as rounding whatever comes by to bfloat16 can take them."""
    every = [*base.outputs, *base.gradients]
    finite = [None if value is None else value.abs()[value.isfinite()] for value in every]
    sizes = [0.0 if value is None or not value.numel() else float(value.max()) for value in finite]
    slacks = [16 * torch.finfo(DTYPE).eps * size for size in sizes]
    for found in samples:
        slacks = [s + 4 * distance(value, other) for s, value, other in zip(slacks, found, every, strict=True)]
    count = len(base.outputs)
    return replace(base, output_slack=slacks[:count], gradient_slack=slacks[count:])


def _nudged(base: Baseline, sample: int, inward: bool) -> list[Value]:
    """Outputs and gradients where arguments are rounded to bfloat16, towards zero if they must not become larger."""
    rounded = partial(_rounded, base.case.target, source=generator(base.case, 83, sample), inward=inward)
    moved = base.case.linearize([rounded(primal) for primal in base.case.primals])
    return [*moved.outputs, *moved.vjp([None if c is None else rounded(c) for c in base.cotangents])]


def _rounded(target: Target, tensor: Tensor, source: torch.Generator, *, inward: bool) -> Tensor:
    noise = (torch.rand(tensor.shape, generator=source, dtype=torch.float64) - 0.5) * 4 * torch.finfo(DTYPE).eps
    noise = alike(target, -noise.abs() if inward else noise, tensor)
    return (tensor * (1 + noise)).to(tensor.dtype)
