"""The backward pass keeps what the engine and its callers rely on."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, cotangents_for, vjp_of
from ..case import Case, Linearization, describe
from ..evidence import listed
from ..finding import Finding, Skip, Verdict
from ..numeric.deviation import TOLERANCE
from .ways import Made, Words, compared, used

# -- a backward is a linear map of the upstream gradient: no clamp, no constant, no threshold ------------------------

LINEAR_HINT = "multiply the upstream gradient by the derivative, and do nothing else to it: clip gradients outside"


ITERATES = f"{TOLERANCE} declare what its values are right to, as accuracy=1e-8"


REUSED = Words(
    "gradient-reused", "{} changes after it was returned: the next backward writes into it",
    "each backward returns the same memory, which is kept between calls", "return a new tensor from each backward",
)  # fmt: skip


def linearity(case: Case) -> Iterator[Finding]:
    """Scale the upstream gradient by powers of two, which round nothing, and add two of them."""
    base = baseline(case)
    recorded = case.linearize()
    plain = vjp_of(recorded, base)
    slight = partial(_slight, accuracy=case.target.declared.error)
    seen: list[tuple[float, Difference]] = []
    for factor in _factors(base):
        before = [None if gradient is None else gradient.clone() for gradient in plain]
        found = _scaled(recorded.vjp(_scaled(base.cotangents, factor)), 1 / factor)
        after = [None if gradient is None else gradient.clone() for gradient in plain]
        changed = base.differing_gradients(after, before)[:1]
        if changed:
            yield from REUSED.of(changed, f"two backwards; {case.label}")
            return
        seen += [(factor, worst) for worst in base.differing_gradients(found, plain)[:1]]
    if not seen:
        other = cotangents_for(case, recorded.outputs, salt=1)
        both, apart = recorded.vjp(_sum(base.cotangents, other)), _sum(plain, recorded.vjp(other))
        title = "The backward of a sum is not the sum of the backwards"
        where = f"two upstream gradients added; {case.label}"
        for worst in base.differing_gradients(both, apart, times=4.0)[:1]:
            if slight(worst):
                yield worst.finding("loses-digits", title, where).but(severity=Verdict.LOSES_DIGITS, hint=ITERATES)
            else:
                yield worst.finding("nonlinear-backward", title, where, hint=LINEAR_HINT)
        return
    factor, most = next(((f, w) for f, w in seen if not slight(w)), seen[0])
    where = f"upstream gradient times {factor:g}; {case.label}"
    if slight(most):
        title = "The backward loses digits where upstream gradients are large or small"
        yield most.finding("loses-digits", title, where).but(severity=Verdict.LOSES_DIGITS)
    else:
        title = "The backward is not linear in the upstream gradient"
        yield most.finding("nonlinear-backward", title, where, cause=_cause_of_factor(factor, most), hint=LINEAR_HINT)


def _slight(difference: Difference, accuracy: float) -> bool:
    """Tell whether most of the digits are right."""
    expected = difference.expected
    if expected is None:
        return False
    part: float = max(1e-6, torch.finfo(expected.dtype).eps ** 0.5, accuracy**0.5)
    return difference.error <= part * float(expected.detach().abs().max())


def _factors(base: Baseline) -> tuple[float, ...]:
    """Powers of two within the range of the narrowest dtype."""
    range_ = min(math.log2(torch.finfo(c.dtype).max) for c in base.cotangents if c is not None)
    reach = max(3, int(range_) // 50)
    return (-1.0, 2.0**reach, 2.0**-reach)


def _cause_of_factor(factor: float, worst: Difference) -> str:
    if worst.found is not None and not worst.found.isfinite().all():
        return "it overflows: the gradient is computed in a narrower dtype, such as float16 (half precision)"
    if factor < 0:
        return "the sign of the upstream gradient is lost, or something is added to it"
    if factor > 1:
        return "large upstream gradients are clipped, or it is used to another power than 1"
    return "something is added to the upstream gradient, or small ones are set to 0"


def _scaled(values: Sequence[Value], factor: float) -> list[Value]:
    return [None if value is None else value.detach() * factor for value in values]


def _sum(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    return [b if a is None else a if b is None else a + b for a, b in zip(left, right, strict=True)]


# -- what a backward returns, before the engine makes it fit ---------------------------------------------------------

# Without a word, autograd sums a gradient that is too large, and converts one of another dtype. A missing reduction
# then gives right numbers by accident, or wrong ones. A float32 gradient has lost half its digits.

Seen = tuple[type, int, Tensor, tuple[int, ...], torch.dtype]
"""A Function, the place of an input, the gradient that was returned, and the shape and dtype of the input."""


ACCUMULATED = Words(
    "accumulates-itself", "The backward adds to `.grad` itself: `torch.autograd.grad` does not get this gradient",
    "an accumulation, or a backward, inside of the backward",
    "return the gradient, unless it is a reversible block that only `.backward()` runs through", Verdict.PASS,
)  # fmt: skip


HOOK = Words(
    "hook-changes-gradient", "A hook changes {}",
    "what `.backward()` gives is not the derivative, but what the hook makes of it",
    "remove the hook; or, if it is meant, leave out this check: skip=\"returned\"",
)  # fmt: skip
HOOK_AFTER = Words(
    "hook-after-gradient", "A hook runs once the gradient is accumulated, and is not looked at",
    "such a hook may change `.grad`, or take a step of an optimizer", severity=Verdict.PASS,
)  # fmt: skip


def _hooked(base: Baseline) -> Iterator[Finding]:
    """Call the hooks of a module's parameters once: copies, with which all checks compute, have none."""
    case = base.case
    own = dict(case.target.origin.named_parameters()) if case.parameters else {}
    for i in sorted(case.parameters):
        before, after = _torch.gradient_hooks(own[case.names[i]])
        gradient = base.gradients[i]
        for hook in before:
            if gradient is None:
                break
            given = gradient.clone()
            made = hook(given)
            made = given if made is None else made
            gradients = [*base.gradients[:i], made, *base.gradients[i + 1 :]]
            yield from HOOK.of(base.differing_gradients(gradients), case.label)
        if after:
            yield HOOK_AFTER.at(f"{base.gradient_name(i)}; {case.label}")


def returned(case: Case) -> Iterator[Finding]:
    """Listen to the backward of each Function in the graph, and to hooks of a module's parameters."""
    base = baseline(case)
    found = list(_hooked(base))
    yield from found
    recorded = case.linearize()
    classes = _torch.functions_in_graph(recorded.outputs)
    if not classes:
        if found:
            return
        raise Skip("no autograd.Function takes part")
    seen: list[Seen] = []
    with contextlib.ExitStack() as stack:
        for cls, name in itertools.product(classes, ("backward", "vjp")):
            rule = getattr(cls, name, None)
            if rule is not None and rule is not getattr(torch.autograd.Function, name):
                listening = staticmethod(_listening(cls, rule, seen))
                stack.enter_context(mock.patch.object(cls, name, listening))
        vjp_of(recorded, base)
    for each in seen:
        yield from _judge(case, *each)
    if recorded.accumulated:
        names = listed([case.names[place] for place in sorted(recorded.accumulated)])
        yield ACCUMULATED.at(f"the gradient of {names}; {case.label}")


def _listening(cls: type, backward: Callable[..., Any], seen: list[Seen]) -> Callable[..., Any]:
    def listen(ctx: Any, *gradients: Any) -> Any:
        results = backward(ctx, *gradients)
        every = results if isinstance(results, tuple) else (results,)
        wanted = _torch.input_metadata(ctx)
        # Only tensors have edges. Other arguments among them have the gradient None.
        places = range(len(every)) if len(every) == len(wanted) else [i for i, r in enumerate(every) if r is not None]
        if len(places) == len(wanted):
            pairs = [(i, metadata) for i, metadata in zip(places, wanted, strict=True) if metadata is not None]
            seen.extend((cls, i, every[i], *metadata) for i, metadata in pairs if isinstance(every[i], Tensor))
        return results

    return listen


def _judge(
    case: Case, cls: type, index: int, gradient: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> Iterator[Finding]:
    named = cls is getattr(case.target.origin, "__self__", None) and index < len(case.target.parameters)
    name = case.target.parameters[index] if named else f"input {index} of {cls.__name__}"
    where = f"the gradient of {name}; {case.label}"
    wanted = describe(torch.empty(shape, dtype=dtype, device="meta"))
    title = f"The backward returns {describe(gradient)} for an input that is {wanted}"
    if tuple(gradient.shape) != shape:
        yield Words(
            "unreduced-gradient", title,
            "the sum over broadcast axes is missing (a reduction); the engine makes up for it where it can",
            "sum over the axes that were broadcast: grad.sum_to_size(x.shape)",
        ).at(where)  # fmt: skip
    elif gradient.dtype != dtype:
        narrower = _digits(gradient.dtype) < _digits(dtype)
        lossy = f"it is computed in {str(gradient.dtype).removeprefix('torch.')}, and digits are lost"
        yield Words(
            "gradient-dtype", title, lossy if narrower else "the engine rounds it",
            "compute in the input's dtype: numpy's defaults and torch.tensor(...) choose their own",
            Verdict.FAIL if narrower else Verdict.PASS,
        ).at(where)  # fmt: skip


def _digits(dtype: torch.dtype) -> float:
    """Binary digits; none for integers."""
    return -math.log2(torch.finfo(dtype).eps) if dtype.is_floating_point or dtype.is_complex else 0.0


# -- a second backward over one graph: with `retain_graph` the same again, without it the same or an error -----------

FREED_HINT = "keep tensors by ctx.save_for_backward, which frees them in time, and change nothing on ctx in backward"
ONLY_ONCE = Words(
    "backward-only-once", "A second backward raises, though the graph was retained",
    "the backward gives away what it needs", FREED_HINT,
)  # fmt: skip
SECOND = Words(
    "second-backward", "A second backward over the same graph gives another gradient",
    "what the backward reads is overwritten, used up or accumulated by the first one", FREED_HINT,
)  # fmt: skip


def freed(case: Case) -> Iterator[Finding]:
    """Pull twice through a graph that is retained, then twice through one that is not."""
    base = baseline(case)

    def twice(retain: bool) -> Iterator[Finding]:
        recorded = case.linearize()

        def backward() -> Made:
            cotangents = [None if c is None else c.clone() for c in base.cotangents]
            return (), recorded.vjp(cotangents, retain_graph=retain)

        expected, raises = backward(), ONLY_ONCE if retain else None
        found = compared(base, f"retain_graph={retain}", backward, raises=raises, gradient=SECOND, expected=expected)
        yield from itertools.islice(found, 1)

    found = list(twice(True))
    yield from found
    if not found:
        with contextlib.suppress(Exception):  # A backward that saved nothing goes on; others may raise.
            yield from twice(False)


# -- each output alone: the upstream gradients of the others are undefined, not zero ---------------------------------

UNDEFINED_RAISES = Words(
    "undefined-gradient-raises", "The backward raises where only one output is used", "an upstream gradient is None",
    "an upstream gradient may be None: return None or skip its term then",
)  # fmt: skip
UNDEFINED = Words(
    "undefined-gradient", "The gradient of one output alone is another than with zeros for the others",
    "an upstream gradient that is None is not taken as zero", "leave out the terms of outputs that were not used",
)  # fmt: skip


NOT_THE_SUM = Words(
    "outputs-add-up", "The gradients of the outputs, each alone, do not add up to that of all of them",
    "the backward does something else where the upstream gradient of an output is zero",
    "compute the term of each output, whatever the upstream gradients of the others are",
)  # fmt: skip


def outputs(case: Case) -> Iterator[Finding]:
    """Leave the other outputs out, and compare with zeros in their place; with these, gradients add up."""
    base, total, told = baseline(case), list[Value](), False
    if len(used(base)) < 2:
        raise Skip("one differentiable output")
    for index in used(base):
        alone = [c.clone() if c is not None and i == index else None for i, c in enumerate(base.cotangents)]
        zeros = [None if c is None else c if i == index else torch.zeros_like(c) for i, c in enumerate(base.cotangents)]

        def backward(cotangents: Sequence[Value] = alone) -> Made:
            return (), case.linearize().vjp(cotangents)

        expected = backward(zeros)
        total = _sum(total, expected[1]) if total else list(expected[1])
        found = list(compared(
            base, f"{base.output_name(index)} alone", backward,
            raises=UNDEFINED_RAISES, gradient=UNDEFINED, expected=expected,
        ))  # fmt: skip
        yield from found
        told = told or bool(found)
    if not told:
        different = base.differing_gradients(total, base.gradients, times=4.0 * len(used(base)))
        yield from NOT_THE_SUM.of(different[:1], f"each output alone; {case.label}")


# -- each subset of the inputs may be the one that requires grad -----------------------------------------------------

SUBSET_RAISES = Words(
    "subset-raises", "It raises where only some of the inputs require grad",
    hint="look at ctx.needs_input_grad, and return None for the others",
)  # fmt: skip
SUBSET_OUTPUT = Words("subset-output", "An output depends on which inputs require grad")


def subsets(case: Case) -> Iterator[Finding]:
    """Require grad of a part of the inputs only."""
    base = baseline(case)
    count = len(base.gradients)
    if count < 2:
        raise Skip("one differentiable input")
    for chosen in _subsets(count):

        def backward(wanted: Sequence[bool] = tuple(i in chosen for i in range(count))) -> Made:
            recorded: Linearization = case.linearize(wanted=wanted)
            return recorded.outputs, vjp_of(recorded, base)

        expected = base.outputs, [g if i in chosen else None for i, g in enumerate(base.gradients)]
        yield from compared(
            base, f"only {', '.join(case.names[i] for i in chosen)} requires grad", backward,
            raises=SUBSET_RAISES, output=SUBSET_OUTPUT, gradient=_of_subset, expected=expected,
        )  # fmt: skip


def _of_subset(difference: Difference) -> Words:
    cause = "the gradient is that of another input where only this one requires grad"
    if difference.found is None:
        cause = "the gradient is missing (None) where another input does not require grad"
    elif not difference.found.any():
        cause = "the gradient is zero where another input does not require grad"
    title = "A gradient depends on which other inputs require grad"
    return Words("subset-gradient", title, cause, "compute each gradient from ctx.needs_input_grad of its own input")


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """All proper subsets of few inputs; of many, each input alone and all but one."""
    if count <= 4:
        for size in range(1, count):
            yield from itertools.combinations(range(count), size)
        return
    for i in range(min(count, 8)):
        yield (i,)
        yield tuple(j for j in range(count) if j != i)
