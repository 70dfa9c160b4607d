"""Calls that do not know of each other: what one leaves changes no other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..baseline import Baseline, baseline, vjp_of
from ..case import Case, Linearization
from ..finding import Finding, Verdict
from ..numeric.gradient import is_shown_wrong
from ..options import options
from ..target import can_be_copied, copied
from ..variations import admitted, elsewhere, nearby, resized, sizes
from ..work import limited
from .ways import Made, Words, compared, made, on_one_module

HINT = "keep what backward needs on ctx, by save_for_backward; nothing on the class, in a global or in a closure"
INTERLEAVED = Words(
    "state-between-calls", "The gradient is another where two calls are interleaved",
    "what the forward keeps is overwritten by the next call", HINT,
)  # fmt: skip
OTHERS = 8
"""Other options that are looked at: in calls between a forward and its backward, and in fake calls."""
STEPS = 4
"""Arguments each of which is changed alone."""

AFTER_OTHERS = Words(
    "state-between-calls", "The output is another after other calls",
    "a result, a table or a counter is kept between calls, and made for other arguments", HINT,
)  # fmt: skip
STALE = Words(
    "state-between-calls", "{} is that of earlier values, after arguments were changed in place",
    "something is kept by the identity or the address of a tensor, and not computed again when its numbers change",
    "compute it in each call; or keep the tensor's `_version` beside what is computed from it",
)  # fmt: skip
FIRST_NUMBERS = Words(
    "state-between-calls", "The gradient is that of the numbers of the call before, of the same size",
    "something is kept by the sizes of the arguments, and made of the numbers of the first call",
    "compute it in each call, and keep on ctx what backward needs",
)  # fmt: skip
NEW = (23, 26)
"""No other check tries sizes that are larger by this, so that nothing is kept of them."""
INFERENCE = Words(
    "state-between-calls", "It cannot be differentiated after a call in inference mode",
    "a tensor that was made there is kept for later calls",
    "make what is kept in the constructor, or under torch.inference_mode(False)",
)  # fmt: skip


def state(case: Case) -> Iterator[Finding]:
    """Two forwards, then two backwards; then the first call again."""
    base, other = baseline(case), elsewhere(case)
    expected = vjp_of(case.linearize(other), base)
    for order, places in (("in the same order", (0, 1)), ("in reverse order", (1, 0))):
        recorded = [case.linearize(), case.linearize(other)]
        gradients = {i: vjp_of(recorded[i], base) for i in places}
        where = f"two forwards, then their backwards {order}; {case.label}"
        for i, right in enumerate((base.gradients, expected)):
            found = list(INTERLEAVED.of(base.differing_gradients(gradients[i], right), where))
            yield from found
            if found:
                return
    yield from _among_other_calls(base)
    kept = on_one_module(case)
    kept.linearize()
    yield from compared(base, "the same call again", lambda: (kept.linearize().outputs, ()), output=AFTER_OTHERS)
    yield from _after_long_calls(base)
    yield from _after_far_calls(base)
    yield from _of_the_first_numbers(base)
    yield from _after_a_step(base)
    yield from _after_inference(base)
    if case.target.kind == "module" and can_be_copied(case.target.origin):
        yield from _buffers(base)


def _among_other_calls(base: Baseline) -> Iterator[Finding]:
    """Call with other numbers, sizes and options between the forward and the backward of a call."""
    case = base.case
    numbers = [("other numbers", case.replaced(elsewhere(case)))]
    longer = [(f"size {n + 1} instead of {n}", resized(case, n, n + 1)) for n in sizes(case)]
    for what, other in [*numbers, *longer, *itertools.islice(options(case), OTHERS)]:
        recorded, call = _first_call(case)
        try:
            call(other)
        except Exception:  # The target refuses it.
            continue

        def backward(recorded: Linearization = recorded) -> Made:
            return (), vjp_of(recorded, base)

        where = f"a call with {what} before the backward"
        found = list(compared(base, where, backward, raises=INTERLEAVED, gradient=INTERLEAVED))
        yield from found
        if found:
            return


def _first_call(case: Case) -> tuple[Linearization, Callable[[Case], Linearization]]:
    """A recorded call, and a function that makes another one: of the same module, whose parameters stay."""
    module = case.target.origin
    if case.target.kind != "module" or not can_be_copied(module):
        return case.linearize(), lambda other: limited(other, given=case).linearize()
    leaves = case.leaves_of(case.primals)
    (parameters, *_), _ = case.arguments(leaves)
    one = copied(module, parameters)

    def call(parameters: object, *args: Any, **kwargs: Any) -> Any:
        return one(*args, **kwargs)

    return case.calling(call).record(leaves), lambda other: limited(other.calling(call), given=case).linearize()


def _after_a_step(base: Baseline) -> Iterator[Finding]:
    """Change arguments in place between two calls, as an optimizer does, beside a fresh call: all, then each alone."""
    case, given = base.case, base.case.primals
    all_of_them = nearby(case, salt=3, spread=2.0**-3)
    one_alone = ([*given[:i], all_of_them[i], *given[i + 1 :]] for i in range(len(given) if len(given) > 1 else 0))
    for moved in (all_of_them, *itertools.islice(one_alone, STEPS)):
        found = list(_after_one_step(base, moved))
        yield from found
        if found:
            return


def _after_one_step(base: Baseline, moved: Sequence[Tensor]) -> Iterator[Finding]:
    fresh = on_one_module(base.case)
    if not admitted(base.case, moved):
        return
    expected, again = made(fresh, base, moved), made(fresh, base, moved)
    if base.differing_outputs(again[0], expected[0]):
        return  # The target counts its calls, or averages over them.
    for recorded in (True, False):
        how = f"a call, a change of arguments in place, and a call{'' if recorded else ' under no_grad'}"
        call = partial(_stepped, on_one_module(base.case), base, moved, recorded)
        gradient = STALE if recorded else None
        found = list(compared(base, how, call, raises=STALE, output=STALE, gradient=gradient, expected=expected))
        yield from found
        if found:
            return


def _stepped(kept: Case, base: Baseline, moved: Sequence[Tensor], recorded: bool) -> Made:
    leaves = base.case.leaves_of(base.case.primals, [recorded] * len(base.case.primals))

    def call() -> Made:
        if not recorded:
            with torch.no_grad():
                return kept.outputs(leaves), ()
        linear = kept.record(leaves)
        return linear.outputs, vjp_of(linear, base)

    call()
    with torch.no_grad():
        for leaf, value in zip(leaves, moved, strict=True):
            if not torch.equal(leaf, value):  # A write counts, whatever it writes.
                leaf.copy_(value)
    return call()


def _after_long_calls(base: Baseline) -> Iterator[Finding]:
    """Call after calls with longer axes, for which a table that is kept may have been made anew."""
    case, call = base.case, _first_call(base.case)[1]
    with contextlib.suppress(Exception):
        call(case.replaced(elsewhere(case)))
    if base.differing_outputs(call(case).outputs, base.outputs):
        return  # It averages over what it has seen.
    for n in sizes(case):
        with contextlib.suppress(Exception):  # The target refuses it.
            call(resized(case, n, 3 * n))
    where = "a call after calls with longer axes"
    yield from compared(base, where, lambda: (call(case).outputs, ()), output=AFTER_OTHERS)


def _after_far_calls(base: Baseline) -> Iterator[Finding]:
    """Call at one point after calls at large values of either sign: a solver may start from where it was."""
    kept, primals = limited(on_one_module(base.case), given=base.case), base.case.primals
    for part in (1.0, 0.125):
        after = []
        for sign in (1, -1):
            with contextlib.suppress(Exception):  # The target refuses them.
                kept.linearize([4 * sign * primal for primal in primals])
                after.append(kept.linearize([part * primal for primal in primals]).outputs)
        if len(after) == 2 and all(bool(output.isfinite().all()) for output in after[0]):
            where = f"after a call at large values, and at their negatives; {base.case.label}"
            yield from AFTER_OTHERS.of(base.differing_outputs(after[1], after[0])[:1], where)


def _of_the_first_numbers(base: Baseline) -> Iterator[Finding]:
    """Call with two sets of numbers, in one order at a new size and in the other at another one.

    Where the second gradient is wrong both times, and the first right, it is that of the numbers before.
    """
    case = base.case
    for n in sizes(case):
        with contextlib.suppress(Exception):  # The target refuses the size.
            turns = ((resized(case, n, n + more), order) for more, order in zip(NEW, ((1, 2), (2, 1)), strict=True))
            if all(_has_those_of_the_first(case, longer, order) for longer, order in turns):
                yield FIRST_NUMBERS.at(f"two calls at size {n + NEW[0]} instead of {n}; {case.label}")
            return


def _has_those_of_the_first(given: Case, case: Case, order: Sequence[int]) -> bool:
    """Call with one set of numbers, and tell whether the gradient at another set alone is wrong then."""
    first, second = (limited(case.replaced(nearby(case, salt=salt, spread=2.0**-2)), given=given) for salt in order)
    recorded = first.linearize()
    recorded.vjp([torch.ones_like(output) if output.requires_grad else None for output in recorded.outputs])
    return is_shown_wrong(second) and not is_shown_wrong(first)


def _after_inference(base: Baseline) -> Iterator[Finding]:
    """Train after a call in inference mode: tensors that are kept from there cannot be saved for a backward."""
    kept = on_one_module(base.case)
    try:
        with torch.inference_mode():
            kept.outputs()
    except Exception:  # The check of modes tells it.
        return
    how = "a call in inference mode, and a call that is differentiated"
    yield from compared(base, how, lambda: made(kept, base), raises=INFERENCE, output=AFTER_OTHERS)


def _buffers(base: Baseline) -> Iterator[Finding]:
    """A buffer must not keep the graph of a call, in which the next call would go on; nor may a backward change it."""
    case = base.case
    leaves = case.leaves_of(case.primals)
    given = [leaf if i in case.parameters else leaf.clone() for i, leaf in enumerate(leaves)]  # It may write into them.
    (parameters, *args), kwargs = case.arguments(given)
    module = copied(case.target.origin, parameters)
    with torch.enable_grad():
        returned = module(*args, **kwargs)
    buffers = dict(module.named_buffers())
    holding = [name for name, buffer in buffers.items() if buffer.requires_grad]
    before = {name: buffer.detach().clone() for name, buffer in buffers.items()}

    def backward(returned: Any) -> None:
        outputs = [output.sum() for output in case.target.differentiable(returned) if output.requires_grad]
        torch.autograd.backward([output.real for output in outputs])

    backward(returned)
    if holding:
        yield from _graphs_kept(case, holding, lambda: backward(module(*args, **kwargs)))
        return
    for name, value in before.items():
        if not torch.equal(value, buffers[name]):
            yield Words(
                "buffer-changed", f"The backward changes the buffer {name}",
                "the forward runs again there, as in a checkpoint, and updates it a second time",
                "update it in the first forward only: see context_fn of torch.utils.checkpoint",
            ).at(f"the buffer {name}; {case.label}")  # fmt: skip


def _graphs_kept(case: Case, names: Sequence[str], again: Callable[[], None]) -> Iterator[Finding]:
    """Tell of buffers that keep a graph: a notice, if a call and its backward go on without it."""
    severity = Verdict.PASS
    cause = "it is computed from inputs or parameters, and keeps their memory until the next call"
    try:
        with torch.enable_grad():
            again()
    except RuntimeError:
        severity = Verdict.FAIL
        cause = "it is computed from inputs or parameters: the backward of the next call goes through this one"
    for name in names:
        yield Words(
            "graph-in-buffer", f"The buffer {name} keeps the graph of the call", cause,
            "update it under torch.no_grad(), or from x.detach()", severity,
        ).at(f"the buffer {name}; {case.label}")  # fmt: skip
