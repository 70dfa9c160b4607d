"""The same call again, and the same backward again."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from ..baseline import Difference, Value, baseline, distance, pulled
from ..case import Case
from ..finding import Finding, Verdict

HINTS = {
    "output": "draw from torch's generators, or take the random numbers as an argument",
    "gradient": "draw in forward, and save what was drawn",
}


def determinism(case: Case) -> Iterator[Finding]:
    """Call twice, and pull twice through the second call."""
    base = baseline(case)
    with torch.random.fork_rng(devices=[]):
        states = [_states()]
        again = case.linearize()
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
