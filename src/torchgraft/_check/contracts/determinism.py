"""The same call again, and the same backward again."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..baseline import Baseline, Difference, Value, baseline, distance, pulled
from ..case import Case
from ..contract import contract
from ..finding import Finding, Verdict


@contract("determinism", "The same call gives the same bits again, forward and backward.")
def determinism(case: Case) -> Iterator[Finding]:
    """Call twice, and pull twice through the second call."""
    base = baseline(case)
    with torch.random.fork_rng(devices=[]):
        before = _states()
        again = case.linearize()
        middle = _states()
        gradients = [pulled(again, base), pulled(again, base)]
        after = _states()
    outputs = [output.detach() for output in again.outputs]
    yield from _compare(
        base, "nondeterministic-output", "The same call gives another output", outputs, base.outputs, base.output_name,
        _drawn(before, middle), "draw from torch's generators, or take the random numbers as an argument",
    )  # fmt: skip
    for other in (base.gradients, gradients[0]):
        found = list(
            _compare(
                base, "nondeterministic-gradient", "The same backward gives another gradient", gradients[1], other,
                base.gradient_name, _drawn(middle, after), "draw in forward, and save what was drawn",
            )
        )  # fmt: skip
        if found:
            yield from found
            return


def _compare(
    base: Baseline,
    code: str,
    title: str,
    found: list[Value] | list[Tensor],
    expected: list[Value] | list[Tensor],
    name: object,
    drawn: str | None,
    hint: str,
) -> Iterator[Finding]:
    assert callable(name)
    for i, (value, other) in enumerate(zip(found, expected, strict=True)):
        error = distance(value, other)
        if error == 0:
            continue
        rounding = _rounding(other)
        difference = Difference(i, name(i), value, other, error, rounding)
        finding = difference.finding(
            code, title, base.case.label, cause=drawn or "something that is no argument", hint=hint
        )
        if error <= rounding:
            finding = finding.but(
                severity=Verdict.PASS, title=f"{title}, by rounding", cause="sums in another order each time", hint=None
            )
        yield finding


def _rounding(value: Value) -> float:
    """What another order of summation can do: the inputs are the same, so no more than a few units in the last place."""
    if value is None or not value.numel():
        return 0.0
    return 64 * torch.finfo(value.dtype).eps * float(value.abs().max())


def _states() -> dict[str, object]:
    return {
        "Python's random module": random.getstate(),
        "NumPy's global generator": np.random.get_state()[1:3],
        "torch's global generator": torch.get_rng_state(),
    }


def _drawn(before: dict[str, object], after: dict[str, object]) -> str | None:
    """Whose random numbers were drawn in between."""
    for name, state in before.items():
        if not _equal(state, after[name]) and name != "torch's global generator":
            return f"{name} was drawn from"
    torch_before, torch_after = before["torch's global generator"], after["torch's global generator"]
    return None if _equal(torch_before, torch_after) else "torch's global generator was drawn from"


def _equal(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
