"""Mistakes with the upstream gradient that one scale of it would not show: ignored, clamped, its sign or size lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .constants import digits
from .look import SLACK, Array, Block
from .proposal import Proposal, mechanism

NONLINEAR = "is not linear in the upstream gradient: other sizes or signs of it give more than a multiple"

SCALES = (-1.0, 1.0, 8.0, 0.125, -8.0)


@mechanism("upstream-ignored")
def ignored(block: Block, mask: Array) -> Iterator[Proposal]:
    """Evaluated as if the upstream gradient were all ones."""
    words = f"ignores the upstream gradient of {block.output.name}: it is as if that were all ones"
    hint = "multiply by the upstream gradient (grad_output)"
    everything = np.broadcast_to(block.numeric.sum(0), block.numeric.shape) / block.look.scale
    spread = np.broadcast_to(block.estimate.sum(0), block.numeric.shape) / abs(block.look.scale)
    if len(block.numeric) > 1 or _follows(block, mask, np.ones_like):
        yield Proposal("upstream", words, everything, spread, 0.9, hint)


@mechanism("upstream")
def upstream(block: Block, mask: Array) -> Iterator[Proposal]:
    """A function of the upstream gradient, not it."""
    if block.look.scaled is None:
        return
    of = f"of the upstream gradient of {block.output.name}"
    for words, function, cost in (
        (f"takes the absolute value {of}", np.abs, 1.0),
        (f"takes only the sign {of}", np.sign, 1.0),
        (f"drops negative entries {of}", lambda g: np.maximum(g, 0), 1.1),
        (f"takes the square {of}", np.square, 1.2),
        (f"takes the square root {of}", lambda g: np.sign(g) * np.sqrt(np.abs(g)), 1.4),
        (f"takes tanh {of}", np.tanh, 1.4),
    ):
        if _follows(block, mask, function):
            one = float(function(np.asarray(block.look.scale))) / block.look.scale
            hint = "a backward is linear in the upstream gradient"
            yield Proposal("upstream", words, one * block.numeric, abs(one) * block.estimate, cost, hint)
    yield from _affine(block)
    yield from _clamped(block, mask)


def _affine(block: Block) -> Iterator[Proposal]:
    """A term that the upstream gradient is no factor of."""
    rest = (_at(block, 1.0) - _at(block, 8.0)) * 8 / 7
    for scale in SCALES:
        gap = np.abs(_at(block, scale) - rest / scale - block.numeric)
        if not (gap <= SLACK * block.estimate + 16 * block.floor)[block.judged].all():
            return
    words = f"has a term that the upstream gradient of {block.output.name} is no factor of"
    known = rest[block.judged]
    if len(known) and np.ptp(known.real) <= 1e-6 * np.abs(known).max():
        words += f": a constant, {digits(round(float(known.real.mean()), 9))}"
    hint = "multiply every term by the upstream gradient"
    yield Proposal("upstream", words, block.numeric + rest / block.look.scale, block.estimate, 1.2, hint)


def _clamped(block: Block, mask: Array) -> Iterator[Proposal]:
    """Entries saturate as the upstream gradient grows."""
    limits = []
    for sign in (1, -1):
        with np.errstate(all="ignore"):
            far = _at(block, sign * 2.0**40) * 2.0**40 / np.where(block.numeric == 0, np.nan, block.numeric)
        far = far[np.isfinite(far) & (np.abs(block.numeric) > 64 * block.estimate)]
        if not len(far) or np.ptp(far) > 1e-3 * np.abs(far).max():
            return
        limits.append(float(np.median(far)))
    high, low = limits
    if not 0 < high < 1e9 or not _follows(block, mask, lambda g: np.clip(g, -low, high)):
        return
    bounds = f"[{digits(-low)}, {digits(high)}]"
    words = f"clamps the upstream gradient of {block.output.name} to {bounds}"
    one = float(np.clip(block.look.scale, -low, high)) / block.look.scale
    hint = "clip gradients in the training loop, not in a backward"
    yield Proposal("upstream", words, one * block.numeric, abs(one) * block.estimate, 1.0, hint)


def _at(block: Block, scale: float) -> Array:
    assert block.look.scaled is not None
    return block.take(block.look.scaled(scale))


def _follows(block: Block, mask: Array, function: Callable[[Array], Array]) -> bool:
    """Whether the derivative is `function` of the upstream gradient at all scales, and a scale shows it."""
    if block.look.scaled is None:
        return False
    told = False
    for scale in SCALES:
        g = np.asarray(scale)
        expected = float(function(g)) / scale
        told |= abs(expected - 1) > 1e-3
        spread = SLACK * abs(expected) * block.estimate + 4 * block.floor
        if not (np.abs(_at(block, scale) - expected * block.numeric) <= spread)[block.judged].all():
            return False
    return told
