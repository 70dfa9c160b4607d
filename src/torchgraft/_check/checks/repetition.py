"""The same call again, among other calls and in other modes, gives the same."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _torch
from ..baseline import Difference, Value, baseline, distance, pulled, short
from ..case import Case, Linearization, describe
from ..finding import Finding, Skip, Verdict
from ..kept import on_one_module
from ..target import can_be_copied, copied
from ..variations import elsewhere

# -- the same call again, and the same backward again ----------------------------------------------------------------


HINTS = {
    "output": "draw from torch's generators, or take the random numbers as an argument",
    "gradient": "draw in forward, and save what was drawn",
}


def determinism(case: Case) -> Iterator[Finding]:
    """Call twice, and pull twice through the second call."""
    base, kept = baseline(case), on_one_module(case)
    with torch.random.fork_rng(devices=[]):
        kept.linearize()
        states = [_states()]
        again = kept.linearize()
        states.append(_states())
        gradients = [pulled(again, base), pulled(again, base)]
        states.append(_states())
    outputs = [output.detach() for output in again.outputs]
    yield from _compare(case, "output", base.output_name, outputs, base.outputs, _drawn(*states[:2]))
    for other in (base.gradients, gradients[0]):
        found = list(_compare(case, "gradient", base.gradient_name, gradients[1], other, _drawn(*states[1:])))
        if found:
            yield from found
            return


def _compare(
    case: Case,
    what: str,
    name: Callable[[int], str],
    found: Sequence[Value],
    expected: Sequence[Value],
    drawn: str | None,
) -> Iterator[Finding]:
    for i, (value, other) in enumerate(zip(found, expected, strict=True)):
        difference = Difference(i, name(i), value, other, distance(value, other), _rounding(other))
        if not difference.error:
            continue
        cause = drawn or "it depends on something that is no argument, or on what an earlier call left"
        title = f"The same call gives another {what}"
        if difference.error > difference.slack:
            yield difference.finding(f"nondeterministic-{what}", title, case.label, cause=cause, hint=HINTS[what])
        else:
            finding = difference.finding(f"nondeterministic-{what}", f"{title}, by rounding", case.label)
            yield finding.but(severity=Verdict.PASS, cause="sums in another order each time")


def _rounding(value: Value) -> float:
    """What another order of summation can do where the inputs are the same: some units in the last place."""
    if value is None or not value.numel():
        return 0.0
    return 64 * torch.finfo(value.dtype).eps * float(value.abs().max())


def _states() -> dict[str, bytes]:
    return {
        "Python's random module": pickle.dumps(random.getstate()),
        "NumPy's global generator": pickle.dumps(np.random.get_state()),
        "torch's global generator": torch.get_rng_state().numpy().tobytes(),
    }


def _drawn(before: dict[str, bytes], after: dict[str, bytes]) -> str | None:
    """Whose random numbers were drawn in between."""
    found = [name for name, state in before.items() if state != after[name]]
    return f"random numbers are drawn from {found[0]}" if found else None


# -- calls that do not know of each other ----------------------------------------------------------------------------


HINT = "keep what backward needs on ctx, by save_for_backward; nothing on the class, in a global or in a closure"


def state(case: Case) -> Iterator[Finding]:
    """Two forwards, then two backwards; then the first call again."""
    base, other = baseline(case), elsewhere(case)
    expected = pulled(case.linearize(other), base)
    for order in ("in the same order", "in reverse order"):
        first, second = case.linearize(), case.linearize(other)
        if order == "in reverse order":
            second_found = pulled(second, base)
            first_found = pulled(first, base)
        else:
            first_found = pulled(first, base)
            second_found = pulled(second, base)
        where = f"two forwards, then their backwards {order}; {case.label}"
        wrong = base.differing_gradients(first_found) or base.differing_gradients(second_found, expected)
        for difference in wrong:
            yield difference.finding(
                "state-between-calls", "The gradient is another where two calls are interleaved", where,
                cause="what the forward keeps is overwritten by the next call", hint=HINT,
            )  # fmt: skip
        if wrong:
            return
    kept = on_one_module(case)
    kept.linearize()
    for difference in base.differing_outputs([output.detach() for output in kept.linearize().outputs]):
        yield difference.finding(
            "state-between-calls", "The output is another after other calls", f"the same call again; {case.label}",
            cause="a result or a counter is kept between calls", hint=HINT,
        )  # fmt: skip
    yield from _graph_in_buffers(case)


def _graph_in_buffers(case: Case) -> Iterator[Finding]:
    """A buffer that a call leaves behind must not be part of its graph: the next call's would go on in it."""
    if case.target.kind != "module" or not can_be_copied(case.target.origin):
        return
    (parameters, *args), kwargs = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    module = copied(case.target.origin, parameters)
    with torch.enable_grad():
        module(*args, **kwargs)
    for name, buffer in module.named_buffers():
        if buffer.requires_grad:
            yield Finding(
                "graph-in-buffer", Verdict.FAIL, f"The buffer {name} keeps the graph of the call",
                f"the buffer {name}; {case.label}",
                cause="it is computed from inputs or parameters: the backward of the next call goes through this one",
                hint="update it under torch.no_grad(), or from x.detach()",
            )  # fmt: skip


# -- the same call where nothing is recorded, and where it is run again in the backward ------------------------------


def modes(case: Case) -> Iterator[Finding]:
    """Call under no_grad and inference_mode, and in a checkpoint, whose backward calls the forward again."""
    base = baseline(case)
    quiet: dict[str, AbstractContextManager[object]] = {
        "no_grad": torch.no_grad(),
        "inference_mode": torch.inference_mode(),
    }
    for name, mode in quiet.items():
        where = f"{name}; {case.label}"
        try:
            with mode:
                found = [output.clone() for output in case.outputs()]
        except Exception as error:
            yield Finding("mode-raises", Verdict.FAIL, f"It raises under {name}", where, cause=short(error))
            continue
        for difference in base.differing_outputs(found):
            yield difference.finding(
                "mode-output", f"An output is another under {name}", where,
                cause="the forward looks at whether a gradient is wanted", hint="compute the same value in every mode",
            )  # fmt: skip
    yield from _reentrant(case)


def _reentrant(case: Case) -> Iterator[Finding]:
    base = baseline(case)
    fresh = [primal.clone().requires_grad_() for primal in case.primals]
    where = f"in torch.utils.checkpoint, reentrant; {case.label}"
    try:
        made = _torch.checkpointed(lambda *primals: tuple(case.outputs(primals)), *fresh)
        found = _accumulated(Linearization(fresh, list(made)), base.cotangents)
    except RuntimeError as error:
        if "leaf Variable" in str(error):  # changes its inputs in place, which a checkpoint does not allow
            return
        yield Finding("checkpoint-raises", Verdict.FAIL, "It raises in a checkpoint", where, cause=short(error))
        return
    for difference in base.differing_gradients(found):
        yield difference.finding(
            "checkpoint-gradient", "The gradient is another where the forward is run again in the backward", where,
            cause="state that is shared between calls", hint="keep on ctx what belongs to one call",
        )  # fmt: skip


def _accumulated(recorded: Linearization, cotangents: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Gradients by `.backward()`: a reentrant checkpoint does not work with `autograd.grad`."""
    pairs = [(o, c.clone()) for o, c in zip(recorded.outputs, cotangents, strict=True) if c is not None]
    torch.autograd.backward([o for o, _ in pairs], [c for _, c in pairs])
    return [primal.grad for primal in recorded.primals]


# -- tensors that a call uses and was not given ----------------------------------------------------------------------


def captures(case: Case) -> Iterator[Finding]:
    """Watch what torch functions are given while nothing is recorded, and look at the leaves of the graph."""
    baseline(case)
    watch = _Watch()
    with watch:
        recorded = case.linearize()
    given = {id(primal) for primal in recorded.primals}
    silent = [
        t
        for t in watch.seen
        if t.numel() and not _made_of(t, given) and not any(_torch.shares_memory(t, p) for p in recorded.primals)
    ]
    for tensor in silent[:3]:
        in_function = case.target.kind in ("function", "library", "operator")
        yield Finding(
            "captured-tensor", Verdict.FAIL if in_function else Verdict.PASS,
            f"Uses a tensor {describe(tensor)} that requires grad and is no argument: its gradient is lost",
            f"a captured tensor; {case.label}",
            cause="it comes from a closure, a global or an attribute, and nothing is recorded where it is used",
            hint="make it an argument of forward, and return its gradient",
        )  # fmt: skip
    if silent:
        return
    for tensor in _other_leaves(recorded, given)[:3]:
        yield Finding(
            "captured-parameter", Verdict.PASS,
            f"Depends on a tensor {describe(tensor)} that is no argument: its gradient is not checked",
            f"a captured tensor; {case.label}", hint="check a function that takes it as an argument",
        )  # fmt: skip


def _made_of(tensor: Tensor, given: set[int]) -> bool:
    """Whether a tensor is an argument, or was computed from one."""
    return id(tensor) in given or any(id(leaf) in given for leaf in _leaves([tensor]))


def _other_leaves(recorded: Linearization, given: set[int]) -> list[Tensor]:
    return [leaf for leaf in _leaves(recorded.outputs) if id(leaf) not in given]


def _leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The leaves of the graph."""
    found = (getattr(node, "variable", None) for node in _torch.nodes_in_graph(tensors))
    return [leaf for leaf in found if isinstance(leaf, Tensor)]


class _Watch(torch.overrides.TorchFunctionMode):
    """Within, collects the tensors that require grad and are given to torch while nothing is recorded.

    Attributes:
        seen: these tensors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`."""
        if not torch.is_grad_enabled() and getattr(func, "__name__", "") not in _HARMLESS:
            for value in _torch.pytree.tree_leaves((args, kwargs)):
                if isinstance(value, Tensor) and value.requires_grad and not any(value is t for t in self.seen):
                    self.seen.append(value)
        return func(*args, **(kwargs or {}))


_HARMLESS = frozenset(
    {"detach", "__get__", "size", "dim", "stride", "is_floating_point", "is_complex", "numel", "data_ptr"}
)
"""They look at a tensor without using its numbers; what is detached is constant on purpose."""


# -- random numbers that nobody asked for ----------------------------------------------------------------------------


def randomness(case: Case) -> Iterator[Finding]:
    """Look whether torch's generator moved on: compilers call an operator once for two calls, or twice for one."""
    base = baseline(case)
    if case.target.kind not in ("operator", "library"):
        raise Skip("functions may draw from torch's generators, which are seeded for each call")
    overload = case.target.operator.torch_op if case.target.operator else _torch.overload_of(case.target.origin)
    if base.random and torch.Tag.nondeterministic_seeded not in overload.tags:
        yield Finding(
            "hidden-randomness", Verdict.FAIL, "The operator draws random numbers and does not say so", case.label,
            cause="compiled code and checkpoints rely on operators that give the same for the same arguments",
            hint="take a seed or the draws as an argument, or the tag torch.Tag.nondeterministic_seeded",
        )  # fmt: skip
