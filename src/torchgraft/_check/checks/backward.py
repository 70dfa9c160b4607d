"""The backward pass keeps what the engine and its callers rely on."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, cotangents_for, pulled, short
from ..case import Case, Linearization, describe
from ..finding import Finding, Skip, Verdict

# -- a backward is a linear map of the upstream gradient: no clamp, no constant, no threshold ------------------------


LINEAR_HINT = "multiply the upstream gradient by the derivative, and do nothing else to it: clip gradients outside"


def linearity(case: Case) -> Iterator[Finding]:
    """Scale the upstream gradient by powers of two, which round nothing, and add two of them."""
    base = baseline(case)
    recorded = case.linearize()
    plain = recorded.pull(_scaled(base.cotangents, 1.0))
    seen = [
        (factor, worst)
        for factor in _factors(base)
        for worst in base.differing_gradients(
            _scaled(recorded.pull(_scaled(base.cotangents, factor)), 1 / factor), plain
        )[:1]
    ]
    if not seen:
        yield from _additive(base, recorded, plain)
        return
    accuracy = case.target.declared.error
    factor, worst = next(((f, w) for f, w in seen if not _slight(w, accuracy)), seen[0])
    where = f"upstream gradient times {factor:g}; {case.label}"
    if _slight(worst, accuracy):
        title = "The backward loses digits where upstream gradients are large or small"
        yield worst.finding("loses-digits", title, where).but(severity=Verdict.LOSES_DIGITS)
    else:
        title = "The backward is not linear in the upstream gradient"
        yield worst.finding("nonlinear-backward", title, where, cause=_cause_of_factor(factor, worst), hint=LINEAR_HINT)


def _additive(base: Baseline, recorded: Linearization, plain: Sequence[Value]) -> Iterator[Finding]:
    other = cotangents_for(base.case, recorded.outputs, salt=1)
    both = recorded.pull(_sum(base.cotangents, other))
    apart = _sum(plain, recorded.pull(other))
    for worst in base.differing_gradients(both, apart, times=4.0)[:1]:
        yield worst.finding(
            "nonlinear-backward", "The backward of a sum is not the sum of the backwards",
            f"two upstream gradients added; {base.case.label}", hint=LINEAR_HINT,
        )  # fmt: skip


def _slight(difference: Difference, accuracy: float) -> bool:
    """Tell whether most of the digits are right."""
    expected = difference.expected
    if expected is None:
        return False
    part: float = max(1e-6, torch.finfo(expected.dtype).eps ** 0.5, accuracy**0.5)
    return difference.error <= part * float(expected.detach().abs().max())


def _factors(base: Baseline) -> tuple[float, ...]:
    """Powers of two within the range of the narrowest dtype."""
    narrowest = min(
        (torch.finfo(c.dtype) for c in base.cotangents if c is not None), key=lambda info: math.log2(info.max)
    )
    reach = max(3, int(math.log2(narrowest.max)) // 50)
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

# Autograd sums a gradient that broadcasts over its input, and converts one of another dtype, without a word: a missing
# reduction then gives right numbers by accident, or wrong ones, and a float32 gradient has lost half its digits.


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


# -- a second backward over one graph: with `retain_graph` the same again, without it the same or an error -----------


FREED_HINT = "keep tensors by ctx.save_for_backward, which frees them in time, and change nothing on ctx in backward"


def freed(case: Case) -> Iterator[Finding]:
    """Pull twice through a graph that is retained, then twice through one that is not."""
    base = baseline(case)
    recorded = case.linearize()
    first = pulled(recorded, base)
    try:
        second = pulled(recorded, base)
    except Exception as error:
        yield Finding(
            "backward-only-once", Verdict.FAIL, "A second backward raises, though the graph was retained",
            f"retain_graph=True; {case.label}", cause=f"the backward gives away what it needs: {short(error)}",
            hint=FREED_HINT,
        )  # fmt: skip
        return
    found = list(_differing(base, second, first, f"retain_graph=True; {case.label}"))
    yield from found
    if not found:
        yield from _after(base, case.linearize())


def _after(base: Baseline, recorded: Linearization) -> Iterator[Finding]:
    """Pull twice where the first backward frees the graph, which a backward that saved nothing allows."""
    first = recorded.pull(base.cotangents, retain_graph=False)
    with contextlib.suppress(Exception):
        second = recorded.pull(base.cotangents, retain_graph=False)
        yield from _differing(base, second, first, f"retain_graph=False; {base.case.label}")


def _differing(base: Baseline, second: Sequence[Value], first: Sequence[Value], where: str) -> Iterator[Finding]:
    for difference in base.differing_gradients(second, first)[:1]:
        yield difference.finding(
            "second-backward", "A second backward over the same graph gives another gradient", where,
            cause="what the backward reads is overwritten, used up or accumulated by the first one", hint=FREED_HINT,
        )  # fmt: skip


# -- each output alone: the upstream gradients of the others are undefined, not zero ---------------------------------


def outputs(case: Case) -> Iterator[Finding]:
    """Leave the other outputs out, and compare with zeros in their place."""
    base = baseline(case)
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    if len(used) < 2:
        raise Skip("one differentiable output")
    for index in used:
        alone = [c.clone() if c is not None and i == index else None for i, c in enumerate(base.cotangents)]
        zeros = [None if c is None else c if i == index else torch.zeros_like(c) for i, c in enumerate(base.cotangents)]
        expected = case.linearize().pull(zeros)
        where = f"{base.output_name(index)} alone; {case.label}"
        try:
            found = case.linearize().pull(alone)
        except Exception as error:
            yield Finding(
                "undefined-gradient-raises", Verdict.FAIL, "The backward raises where only one output is used", where,
                cause=f"an upstream gradient is None: {short(error)}",
                hint="an upstream gradient may be None: return None or skip its term then",
            )  # fmt: skip
            continue
        for difference in base.differing_gradients(found, expected):
            yield difference.finding(
                "undefined-gradient", "The gradient of one output alone is another than with zeros for the others",
                where, cause="an upstream gradient that is None is not taken as zero",
                hint="leave out the terms of outputs that were not used",
            )  # fmt: skip


# -- each subset of the inputs may be the one that requires grad -----------------------------------------------------


def subsets(case: Case) -> Iterator[Finding]:
    """Require grad of a part of the inputs only."""
    base = baseline(case)
    count = len(base.gradients)
    if count < 2:
        raise Skip("one differentiable input")
    for chosen in _subsets(count):
        wanted = [i in chosen for i in range(count)]
        where = f"only {', '.join(case.names[i] for i in chosen)} requires grad; {case.label}"
        try:
            recorded = case.linearize(wanted=wanted)
            found = pulled(recorded, base)
        except Exception as error:
            yield Finding(
                "subset-raises", Verdict.FAIL, "It raises where only some of the inputs require grad", where,
                cause=short(error), hint="look at ctx.needs_input_grad, and return None for the others",
            )  # fmt: skip
            continue
        for difference in base.differing_outputs([output.detach() for output in recorded.outputs]):
            yield difference.finding("subset-output", "An output depends on which inputs require grad", where)
        for difference in base.differing_gradients(found, wanted=wanted):
            yield difference.finding(
                "subset-gradient", "A gradient depends on which other inputs require grad", where,
                cause=_cause_of_subset(difference),
                hint="compute each gradient from ctx.needs_input_grad of its own input",
            )  # fmt: skip


def _cause_of_subset(difference: Difference) -> str:
    if difference.found is None:
        return "the gradient is missing (None) where another input does not require grad"
    if not difference.found.any():
        return "the gradient is zero where another input does not require grad"
    return "the gradient is that of another input where only this one requires grad"


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """All proper subsets of few inputs; of many, each input alone and all but one."""
    if count <= 4:
        for size in range(1, count):
            yield from itertools.combinations(range(count), size)
        return
    for i in range(min(count, 8)):
        yield (i,)
        yield tuple(j for j in range(count) if j != i)
