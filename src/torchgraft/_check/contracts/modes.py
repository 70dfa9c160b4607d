"""The same call where nothing is recorded, and where it is run again in the backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
from torch.utils.checkpoint import checkpoint

from ..baseline import baseline, short
from ..case import Case, Linearization
from ..finding import Finding, Verdict


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
        made = checkpoint(lambda *primals: tuple(case.outputs(primals)), *fresh, use_reentrant=True)
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
