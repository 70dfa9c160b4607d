"""Mistakes that add to a gradient, drop a part of it, or do more than multiply the upstream gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from .blocks import SLACK, Array, Block, Proposal
from .vocabulary import COSTS, CURVES, digits, sources

Proposals = Iterator[Proposal]

# -- a term that is missing or extra: a constant, a function, everything off the diagonal, what a sum contributes --

UNTOLD = 1 << 30
"""Free numbers of what every block of one or two rows is: it names nothing, but contradicts nothing either."""

SURE = 8
"""What names a term must hold for so many more entries than it has numbers."""


def _own(block: Block) -> Array | None:
    """The entries between an element and itself, if output and input have one shape."""
    if block.output_shape != block.input_shape:
        return None
    return np.eye(len(block.numeric), dtype=bool)


def elementwise(block: Block, mask: Array) -> Proposals:
    """Propose what an element does to itself alone, though elements depend on each other."""
    own = _own(block)
    if own is None:
        return
    if len(own) > 1:
        words = "is taken element by element: what an element does to the others is missing"
        hint = "the Jacobian is not diagonal: add the terms between different elements (a sum over the axis)"
        yield Proposal(words, block.numeric * own, 1.1, hint, spread=block.estimate * own)
    if np.isfinite(block.analytic).all():  # what it does to itself is wrong too, by the same term
        coupled: Array = (np.abs(block.numeric) > 4 * block.estimate + block.floor) & ~own
        words = "is taken element by element: a term through what elements share (a sum, mean or norm) is missing"
        hint = "differentiate through the sum, mean or norm inside as well"
        kept, free = np.where(own, block.analytic, 0), len(own) if 2 * coupled.sum() > len(own) else UNTOLD
        yield Proposal(words, kept, 2.6, hint, spread=block.estimate * ~own, free=free)


def straight_through(block: Block, mask: Array) -> Proposals:
    """Propose a straight-through estimator: the upstream gradient is passed through a flat function."""
    own = _own(block)
    inside = mask & block.judged
    if own is None or not inside.any() or (np.abs(block.numeric) > 4 * block.estimate + block.floor)[inside].any():
        return
    words = "is the upstream gradient as it is, though the function is flat (its derivative is 0)"
    hint = "return 0: a straight-through estimator is no derivative"
    yield Proposal(words, own.astype(float), 0.9, hint)


def overwritten(block: Block, mask: Array) -> Proposals:
    """Propose that of several contributions to an element only the last, or the first, arrives."""
    moves = np.abs(block.numeric) > 4 * block.estimate
    places = np.arange(len(moves))[:, None]
    ends = (("last", np.where(moves, places, -1).max(0)), ("first", np.where(moves, places, len(moves)).min(0)))
    hint = "add what belongs to one element: index_add_, scatter_add_ or index_put_(accumulate=True)"
    for which, kept in ends:
        words = f"keeps only the {which} of the contributions to each element: what is indexed twice is overwritten"
        only = places == kept
        yield Proposal(words, block.numeric * only, 1.4, hint)


def offset(block: Block, mask: Array) -> Proposals:
    """Propose a constant that is added, to every entry or to what an element does to itself."""
    own = _own(block)
    everywhere = np.ones_like(block.numeric, dtype=bool)
    for support in (everywhere, own) if own is not None and len(own) > 1 else (everywhere,):
        used = support & mask & block.judged
        gaps = (block.analytic - block.numeric)[used]
        if not len(gaps) or not block.wrong[used].all():
            continue
        c = complex(gaps.mean()) if np.iscomplexobj(gaps) else float(gaps.mean())
        if isinstance(c, complex):
            if abs(c.imag) > 1e-6 * abs(c):
                continue
            c = c.real
        known = np.abs(block.numeric[used])
        even = np.ptp(known) <= 1e-6 * known.max() and known.max() > 1e-6 * abs(c)  # it is as well a factor
        c = round(c, 9) if abs(c - round(c, 9)) < 1e-6 * abs(c) else c
        words = f"is too {'large' if c > 0 else 'small'} by a constant, {digits(abs(c))}"
        hint = "look for a term that is missing or added"
        if support is own and abs(abs(c) - 1) < 1e-9:
            words += f" times the upstream gradient of {block.output.name}"
            hint = "the upstream gradient itself is a term of the gradient" if c < 0 else hint
        free = UNTOLD if even else 1
        yield Proposal(words, block.numeric + c * support, 3, hint, free=free)


def term(block: Block, mask: Array) -> Proposals:
    """Propose a function, or a product of two, that is missing from what an element does to itself, or added."""
    own = _own(block)
    if own is None or not (block.wrong & mask & own).any() or (block.wrong & ~own).any():
        return
    used = (mask & block.judged).diagonal()
    gaps, doubts = (block.analytic - block.numeric).diagonal()[used], SLACK * block.estimate.diagonal()[used]
    known = [source for source in sources(block) if len(source.values) == len(own)]
    for first, second in itertools.combinations_with_replacement(known[:4], 2):
        left, right = first.curves(), second.curves()
        with np.errstate(all="ignore"):
            products = left[:, None, used] * right[None, :, used]
            c = (products.conj() * gaps).real.sum(-1) / (np.abs(products) ** 2).sum(-1)
        for value in (1.0, -1.0, 2.0, -2.0, 0.5, -0.5):
            for i, k in zip(*np.nonzero(np.abs(c - value) < 1e-3), strict=True):
                with np.errstate(all="ignore"):
                    if not (np.abs(value * products[i, k] - gaps) <= 2 * doubts + 1e-9 * np.abs(gaps)).all():
                        continue
                    predicted = block.numeric + value * np.diag(left[i] * right[k])
                factors = [s.label(int(n)) for s, n in ((first, i), (second, k)) if n != len(CURVES) - 1]
                name = " ".join(([] if abs(value) == 1 else [digits(abs(value))]) + (factors or ["1"]))
                how = f"lacks the term {name}" if value < 0 else f"has the extra term {name}"
                cost = 3.5 + first.cost + second.cost + COSTS[i] + COSTS[k] + 0.5 * (len(factors) - 1)
                hint = f"{'add' if value < 0 else 'leave out'} {name}, times the upstream gradient"
                yield Proposal(how, predicted, cost, hint, free=1)


def sum_term(block: Block, mask: Array) -> Proposals:
    """Propose a difference of rank 1 or 2, over all elements or those of one slice: a sum's share."""
    gap = np.where(block.judged & mask, block.analytic - block.numeric, 0)
    if not np.isfinite(gap).all():
        return
    doubt = SLACK * np.where(block.judged, block.estimate, 0) + block.floor
    shared, free = np.zeros_like(gap), 0
    for part in _slices(np.abs(gap) > doubt):
        low = _low_rank(gap[part], float(np.linalg.norm(doubt[part])))
        if low is None:
            return
        shared[part], told = low
        free += told
    words = "lacks a term (or has an extra one) that all elements share, as a sum, a mean or a norm contributes"
    hint = "differentiate through the sum, mean or norm inside as well"
    right = _low_rank(np.where(block.judged, block.numeric, 0), float(np.linalg.norm(doubt)))
    one = right is not None and right[1] < sum(gap.shape)  # then whatever is wrong with it has rank 1, or 2
    untold = one or int((gap != 0).sum()) - free < SURE
    yield Proposal(words, block.numeric + shared, 4.5, hint, free=UNTOLD if untold else free)


def _slices(support: Array) -> Iterator[tuple[Array, ...]]:
    """Rows and columns of each part of a matrix that is made of parts, each in other rows and columns."""
    patterns, which = np.unique(support, axis=0, return_inverse=True)
    if patterns.sum(0).max(initial=0) > 1:
        yield np.ix_(np.arange(len(support)), np.flatnonzero(support.any(0)))
        return
    for i, pattern in enumerate(patterns):
        if pattern.any():
            yield np.ix_(np.flatnonzero(which.ravel() == i), np.flatnonzero(pattern))


def _low_rank(part: Array, doubt: float) -> tuple[Array, int] | None:
    """The matrix of rank 1, or 2, that a part is, and how many numbers it has; None if it is not."""
    u, s, v = np.linalg.svd(part, full_matrices=False)
    for rank in (1, 2):
        if not (s[rank:] > doubt).any():
            low: Array = (u[:, :rank] * s[:rank]) @ v[:rank]
            return low, rank * (sum(part.shape) - rank)
    return None


# -- mistakes with the upstream gradient that one scale of it would not show: ignored, clamped, its sign or size lost --

NONLINEAR = "is not linear in the upstream gradient: other sizes or signs of it give more than a multiple"

SCALES = (-1.0, 1.0, 8.0, 0.125, -8.0)


def ignored(block: Block, mask: Array) -> Proposals:
    """Propose a backward that takes the upstream gradient for all ones."""
    words = f"ignores the upstream gradient of {block.output.name}: it is as if that were all ones"
    hint = "multiply by the upstream gradient (grad_output)"
    everything = np.broadcast_to(block.numeric.sum(0), block.numeric.shape) / block.observation.scale
    spread = np.broadcast_to(block.estimate.sum(0), block.numeric.shape) / abs(block.observation.scale)
    if len(block.numeric) > 1 or _follows(block, mask, np.ones_like):
        yield Proposal(words, everything, 0.9, hint, spread=spread)


def upstream(block: Block, mask: Array) -> Proposals:
    """Propose a function of the upstream gradient in its place."""
    if block.observation.scaled is None:
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
            one = float(function(np.asarray(block.observation.scale))) / block.observation.scale
            hint = "a backward is linear in the upstream gradient"
            yield Proposal(words, one * block.numeric, cost, hint, spread=abs(one) * block.estimate)
    yield from _affine(block)
    yield from _clamped(block, mask)


def _affine(block: Block) -> Proposals:
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
    yield Proposal(words, block.numeric + rest / block.observation.scale, 1.2, hint)


def _clamped(block: Block, mask: Array) -> Proposals:
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
    one = float(np.clip(block.observation.scale, -low, high)) / block.observation.scale
    hint = "clip gradients in the training loop, not in a backward"
    yield Proposal(words, one * block.numeric, 1.0, hint, spread=abs(one) * block.estimate)


def _at(block: Block, scale: float) -> Array:
    assert block.observation.scaled is not None
    return block.take(block.observation.scaled(scale))


def _follows(block: Block, mask: Array, function: Callable[[Array], Array]) -> bool:
    """Whether the derivative is `function` of the upstream gradient at all scales, and a scale shows it."""
    if block.observation.scaled is None:
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
