"""Calls that are repeated, in other modes, and with random numbers: all give the same."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, distance, vjp_of
from ..case import Case, Linearization, describe
from ..finding import Finding, Verdict
from ..numeric.line import largest
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
        difference = Difference(name(i), value, other, distance(value, other), rounding)
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
            made = case.leaves_of(case.primals)  # Parameters are made outside, and activations in the mode.
            with mode():
                given = [leaf if i in case.parameters else leaf.clone() for i, leaf in enumerate(made)]
                return [output.clone() for output in case.outputs(given)], ()

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
    watches, recorded = (_Watch(), _Watch()), list[Linearization]()
    for watch in watches:
        with watch:
            recorded.append(case.linearize())
    # Arguments, and what a call makes, are other tensors in each of two calls: what both use comes from elsewhere.
    calls = [_leaves([*watch.seen, *call.outputs]) for watch, call in zip(watches, recorded, strict=True)]
    common = set.intersection(*({id(leaf) for leaf in leaves} for leaves in calls))
    silent = [t for t in watches[0].seen if t.numel() and not common.isdisjoint(map(id, _leaves([t])))]
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
    for tensor in [leaf for leaf in _leaves(recorded[0].outputs) if id(leaf) in common][:3]:
        title = f"Depends on a tensor {describe(tensor)} that is no argument: its gradient is not checked"
        hint = "check a function that takes it as an argument"
        yield Words("captured-parameter", title, hint=hint, severity=Verdict.PASS).at(where)


def _leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The leaves of the graph; a view that is made where nothing is recorded has none, but what it views has."""
    tensors = [*tensors, *(t._base for t in tensors if t._base is not None)]
    variables = (getattr(node, "variable", None) for node in _torch.nodes_in_graph(tensors))
    found = [t for t in (*tensors, *variables) if isinstance(t, Tensor) and t.requires_grad and t.is_leaf]
    return list({id(leaf): leaf for leaf in found}.values())


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
