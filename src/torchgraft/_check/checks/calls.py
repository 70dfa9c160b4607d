"""Calls that are repeated, among other calls, and in other modes: all give the same."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, distance, vjp_of
from ..case import Case, Linearization, describe
from ..finding import Finding, Verdict
from ..numeric.gradient import is_shown_wrong
from ..numeric.line import largest
from ..options import options
from ..target import can_be_copied, copied
from ..variations import admitted, elsewhere, nearby, resized, sizes
from ..work import limited
from .ways import Made, Words, compared, made, on_one_module

# -- the same call again, and the same backward again ----------------------------------------------------------------


def determinism(case: Case) -> Iterator[Finding]:
    """Call twice, and take the VJP of the second call twice."""
    base, kept = baseline(case), on_one_module(case)
    with torch.random.fork_rng(devices=[]):
        kept.linearize()
        states = [_states()]
        again = kept.linearize()
        states.append(_states())
        gradients = [vjp_of(again, base), vjp_of(again, base)]
        states.append(_states())
    outputs = [output.detach() for output in again.outputs]
    moved = list(_same(base, "output", outputs, base.outputs, states[:2]))
    yield from moved
    # Where an output is another, so is its gradient; two backwards of one call are the same even then.
    drifts = any(finding.severity is Verdict.FAIL for finding in moved)
    for other in ([] if drifts else [base.gradients]) + [gradients[0]]:
        found = list(_same(base, "gradient", gradients[1], other, states[1:]))
        if found:
            yield from found
            return


def noise(case: Case) -> float:
    """Return by how much the same call differs from itself, beyond rounding: two in a row, whatever was before."""
    with contextlib.suppress(Exception, _torch.TooMuch):
        base, kept = baseline(case), on_one_module(case)
        with torch.random.fork_rng(devices=[]):
            (one, first), (other, second) = (made(kept, base) for _ in range(2))
        pairs = zip((*one, *first), (*other, *second), strict=True)
        gaps = [(distance(a, b), largest([b])) for a, b in pairs]
        epsilon = max(torch.finfo(primal.dtype).eps for primal in case.primals)
        return max((gap for gap, size in gaps if gap > 64 * epsilon * size), default=0.0)
    return 0.0


def _same(
    base: Baseline, what: str, found: Sequence[Value], expected: Sequence[Value], states: Sequence[dict[str, bytes]]
) -> Iterator[Finding]:
    drawn = [name for name, state in states[0].items() if state != states[1][name]]
    cause = "it depends on something that is no argument, or on what an earlier call left"
    cause = f"random numbers are drawn from {drawn[0]}" if drawn else cause
    name, hint = base.gradient_name, "draw in forward, and save what was drawn"
    if what == "output":
        name, hint = base.output_name, "draw from torch's generators, or take the random numbers as an argument"
    hint += "" if drawn else "; keep nothing of a call for later ones"
    for i, (value, other) in enumerate(zip(found, expected, strict=True)):
        # Another order of summation makes some units in the last place.
        rounding = 0.0
        if other is not None and other.numel():
            rounding = 64 * torch.finfo(other.dtype).eps * float(other.abs().max())
        difference = Difference(i, name(i), value, other, distance(value, other), rounding)
        words = Words(f"nondeterministic-{what}", f"The same call gives another {what}", cause, hint)
        if difference.error > difference.slack:
            yield from words.of([difference], base.case.label)
        elif difference.error:
            finding = difference.finding(words.code, f"{words.title}, by rounding", base.case.label)
            yield finding.but(severity=Verdict.PASS, cause="sums in another order each time")


def _states() -> dict[str, bytes]:
    return {
        "Python's random module": pickle.dumps(random.getstate()),
        "NumPy's global generator": pickle.dumps(np.random.get_state()),
        "torch's global generator": torch.get_rng_state().numpy().tobytes(),
    }


# -- calls that do not know of each other ----------------------------------------------------------------------------

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
        turns = [
            _right_in_turn(case, resized(case, n, n + more), order)
            for more, order in zip(NEW, ((1, 2), (2, 1)), strict=True)
        ]
        if all(turn == [True, False] for turn in turns):
            yield FIRST_NUMBERS.at(f"two calls at size {n + NEW[0]} instead of {n}; {case.label}")
            return
        if any(turns):
            return


def _right_in_turn(given: Case, case: Case, order: Sequence[int]) -> list[bool]:
    """Tell of each set of numbers whether the gradient is right; nothing where the target refuses the size."""
    with contextlib.suppress(Exception):
        others = [limited(case.replaced(nearby(case, salt=salt, spread=2.0**-2)), given=given) for salt in order]
        return [not is_shown_wrong(other) for other in others]
    return []


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
    (parameters, *args), kwargs = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
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


# -- the same call where nothing is recorded, and where it is run again in the backward ------------------------------

CHECKPOINT_RAISES = Words("checkpoint-raises", "It raises in a checkpoint")
CHECKPOINT = Words(
    "checkpoint-gradient", "The gradient is another where the forward is run again in the backward",
    "state that is shared between calls", "keep on ctx what belongs to one call",
)  # fmt: skip


NOT_RECORDED = "where it differentiates inside, call it under torch.no_grad(): inference mode records nothing"


def modes(case: Case) -> Iterator[Finding]:
    """Call under no_grad and inference_mode, and in a checkpoint, whose backward calls the forward again."""
    base = baseline(case)
    for name, mode in (("no_grad", torch.no_grad), ("inference_mode", torch.inference_mode)):

        def call(mode: Callable[[], AbstractContextManager[object]] = mode) -> Made:
            with mode():
                return [output.clone() for output in case.outputs()], ()

        cause, hint = "the forward looks at whether a gradient is wanted", "compute the same value in every mode"
        found = compared(
            base, name, call, raises=Words("mode-raises", f"It raises under {name}"),
            output=Words("mode-output", f"An output is another under {name}", cause, hint),
        )  # fmt: skip
        for finding in found:
            differentiates = mode is torch.inference_mode and "does not require grad" in (finding.cause or "")
            yield finding.but(severity=Verdict.PASS, hint=NOT_RECORDED) if differentiates else finding

    def recomputed() -> Made:
        fresh = [primal.clone().requires_grad_() for primal in case.primals]
        try:
            outputs = _torch.checkpointed(lambda *primals: tuple(case.outputs(primals)), *fresh)
            pairs = [(outputs[i], c.clone()) for i, c in enumerate(base.cotangents) if c is not None]
            tensors, cotangents = zip(*pairs, strict=True)
            torch.autograd.backward(tensors, cotangents)  # A reentrant checkpoint refuses `autograd.grad`.
        except RuntimeError as error:
            if "leaf Variable" in str(error):  # A checkpoint does not allow a change of inputs in place.
                return (), base.gradients
            raise
        return (), [primal.grad for primal in fresh]

    how = "in torch.utils.checkpoint, reentrant"
    yield from compared(base, how, recomputed, raises=CHECKPOINT_RAISES, gradient=CHECKPOINT)


# -- tensors that a call uses and was not given ----------------------------------------------------------------------

HARMLESS = {"detach", "__get__", "size", "dim", "stride", "is_floating_point", "is_complex", "numel", "data_ptr"}
"""Torch functions that use no number of a tensor; what is detached is constant on purpose."""


def captures(case: Case) -> Iterator[Finding]:
    """Watch what torch functions are given while nothing is recorded, and look at the leaves of the graph."""
    baseline(case)
    watch = _Watch()
    with watch:
        recorded = case.linearize()
    given = {id(primal) for primal in recorded.primals}
    silent = [t for t in watch.seen if t.numel() and not any(_torch.shares_memory(t, p) for p in recorded.primals)]
    # A view that is made where nothing is recorded has no graph; what it views has.
    owners = [[t] if t._base is None else [t, t._base] for t in silent]
    silent = [t for t, owner in zip(silent, owners, strict=True) if given.isdisjoint(map(id, (t, *_leaves(owner))))]
    where = f"a captured tensor; {case.label}"
    for tensor in silent[:3]:
        title = f"Uses a tensor {describe(tensor)} that requires grad and is no argument: its gradient is lost"
        yield Words(
            "captured-tensor", title,
            "it comes from a closure, a global or an attribute, and nothing is recorded where it is used",
            "make it an argument of forward, and return its gradient",
            Verdict.FAIL if case.target.kind in ("function", "library", "operator") else Verdict.PASS,
        ).at(where)  # fmt: skip
    if silent:
        return
    for tensor in [leaf for leaf in _leaves(recorded.outputs) if id(leaf) not in given][:3]:
        title = f"Depends on a tensor {describe(tensor)} that is no argument: its gradient is not checked"
        hint = "check a function that takes it as an argument"
        yield Words("captured-parameter", title, hint=hint, severity=Verdict.PASS).at(where)


def _leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The leaves of the graph."""
    found = (getattr(node, "variable", None) for node in _torch.nodes_in_graph(tensors))
    return [leaf for leaf in found if isinstance(leaf, Tensor)]


class _Watch(torch.overrides.TorchFunctionMode):
    """Within, collects the tensors that require grad and are given to torch while nothing is recorded.

    Those that were made there, such as zeros, are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self._made: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and collect its tensors."""
        if torch.is_grad_enabled() or getattr(func, "__name__", "") in HARMLESS:
            return func(*args, **(kwargs or {}))
        self.seen += self._unseen((args, kwargs))
        made = func(*args, **(kwargs or {}))
        self._made += self._unseen(made)
        return made

    def _unseen(self, values: Any) -> list[Tensor]:
        """Tensors that require grad and were neither given before nor made."""
        leaves = _torch.pytree.tree_leaves(values)
        found = {id(t): t for t in leaves if isinstance(t, Tensor) and t.requires_grad}
        known = {id(t) for t in (*self.seen, *self._made)}
        return [t for key, t in found.items() if key not in known]


# -- random numbers that nobody asked for ----------------------------------------------------------------------------


def randomness(case: Case) -> Iterator[Finding]:
    """Look at global generators: no call seeds them, and no operator draws from torch's and does not say so.

    The seed of an operator is given, and changes what it returns.

    Compilers call an operator once for two calls, or twice for one.
    """
    base = baseline(case)
    yield from _reset(base)
    if case.target.kind not in ("operator", "library"):
        return  # Functions may draw from torch's generators: each call seeds them.
    if case.target.seed is not None:
        yield from _unseeded(case)
    overload = case.target.operator.torch_op if case.target.operator else _torch.overload_of(case.target.origin)
    if base.random and torch.Tag.nondeterministic_seeded not in overload.tags:
        yield Words(
            "hidden-randomness", "The operator draws random numbers and does not say so",
            "compiled code and checkpoints rely on operators that give the same for the same arguments",
            "take a seed or the draws as an argument, or the tag torch.Tag.nondeterministic_seeded",
        ).at(case.label)  # fmt: skip


_SEEDS = range(1, 17)


def _unseeded(case: Case) -> Iterator[Finding]:
    """Look whether the seed of an operator changes what it returns."""
    seed, values = case.leaf_names.index(case.target.seed or ""), case.leaves
    first = case.values()
    if case.traits or not any(output.numel() for output in first):
        return
    for other in _SEEDS:
        values[seed] = other
        if not all(map(torch.equal, case.with_leaves(values).values(), first)):
            return
    yield Words(
        "seed-unused", f"{len(_SEEDS)} other seeds give the same values",
        "the kernel does not use its seed, or these arguments leave nothing to chance",
        f"draw from '{case.target.seed}', or pass arguments with which draws count", Verdict.INCONCLUSIVE,
    ).at(case.label)  # fmt: skip


def _reset(base: Baseline) -> Iterator[Finding]:
    """Look whether a generator is in the same state after a pass, whatever it was before."""
    before, reset = _torch.Generators.snapshot(), list[tuple[str, str]]()
    try:
        first = {name: _torch.Generators.snapshot() for name in _passes(base, seed=1)}
        for name in _passes(base, seed=2):
            moved = first[name].all_moved()
            reset += [(name, whose) for whose in GENERATORS if whose not in moved]
    finally:
        before.restore()
    for name, whose in reset:
        yield Words(
            "generator-reset", f"The {name} seeds {GENERATORS[whose]} global generator",
            "all random numbers that are drawn after it are those of this seed",
            "draw from a generator of its own, or save in forward what was drawn",
        ).at(f"the state of {GENERATORS[whose]} generator after a {name}; {base.case.label}")  # fmt: skip


GENERATORS = {"torch": "torch's", "numpy.random": "NumPy's", "random": "Python's"}
"""Whose the generators are, by the names that they are watched under."""


def _passes(base: Baseline, *, seed: int) -> Iterator[str]:
    """Run a forward and a backward, with seeded generators before each, and yield the name of each behind it."""
    case = base.case
    args, kwargs = case.arguments([primal.clone() for primal in case.primals])
    _seed_all(seed)
    with torch.no_grad():
        case.target.function(*args, **kwargs)  # `Case.call` would put the generator back.
    yield "forward"
    recorded = case.linearize()
    _seed_all(seed)
    vjp_of(recorded, base)
    yield "backward"


def _seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
