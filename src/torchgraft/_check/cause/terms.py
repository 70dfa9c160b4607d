"""Mistakes that move a gradient's entries, add to them or drop some, or treat the upstream gradient as no factor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from .blocks import SLACK, Array, Block, Proposal, element
from .factors import COSTS, ONE, Proposals, digits, sources

# -- complex numbers: a conjugate that is missing, a part that is dropped -------------------------------------------


def conjugate(block: Block, mask: Array) -> Proposals:
    """Propose that the derivative is not conjugated, or that the gradient or the upstream gradient is."""
    j, e, name = block.numeric, block.estimate, block.output.name
    hint = "for complex inputs multiply the upstream gradient by the conjugate: grad * derivative.conj()"
    if block.folded:
        yield Proposal("lacks a conjugate (conj)", j.conj(), 0.7, hint)
        yield Proposal("drops the imaginary part of the derivative", j.real + 0j, 1, hint)
        yield Proposal("drops the real part of the derivative", 1j * j.imag, 1.2, hint)
    elif block.output.pairs and block.input.pairs:
        columns = np.where(np.arange(j.shape[1]) % 2, -1, 1)
        rows = np.where(np.arange(j.shape[0]) % 2, -1, 1)[:, None]
        words = "lacks a conjugate (conj), or has one too many: its imaginary part has the wrong sign"
        yield Proposal(words, j * columns, 0.7, hint)
        yield Proposal(f"is wrong by a conjugate (conj) of the upstream gradient of {name}", j * rows, 0.8, hint)
        yield Proposal("lacks a conjugate (conj) of the derivative", j * rows * columns, 0.7, hint)
        for of, kept in (("", columns > 0), (" of the upstream gradient", rows > 0)):
            yield Proposal(f"drops the imaginary part{of}", j * kept, 0.9, hint, e * kept)


# -- entries in wrong places: axes that are exchanged or run backwards, indices that are off by one ------------------

Change = tuple[str, Array, float, str]
"""Words for another order of elements, the place each is taken from (-1 for zero), the cost, and a hint."""


def order(block: Block, mask: Array) -> Proposals:
    """Propose the gradient's elements, or those of the upstream gradient, in another order."""
    of = f"takes the upstream gradient of {block.output.name}"
    for axis, shape, start, permuted in (
        (1, block.input_shape, "is", "has"),
        (0, block.output_shape, of, f"{of} with"),
    ):
        for verb, found in ((start, _orders(shape)), (permuted, _permutation(block, axis, shape))):
            for words, index, cost, hint in found:
                kept = np.expand_dims(index >= 0, 1 - axis)
                moved, spread = (np.where(kept, m.take(index, axis), 0) for m in (block.numeric, block.estimate))
                yield Proposal(f"{verb} {words}", moved, cost + 0.3 * (axis == 0), hint, spread)


def _orders(shape: tuple[int, ...]) -> Iterator[Change]:
    """List other orders of the elements of a tensor of this shape."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    axes = [axis for axis, size in enumerate(shape) if size > 1][-4:]
    for permuted in itertools.permutations(axes):
        new = list(range(len(shape)))
        for old, axis in zip(axes, permuted, strict=True):
            new[old] = axis
        moved = [axis for axis in axes if new[axis] != axis]
        how = f"axes {moved[0]} and {moved[1]} exchanged" if len(moved) == 2 else f"axes in the order {tuple(new)}"
        if moved:
            yield f"transposed ({how})", places.transpose(new).ravel(), 0.8 + len(moved) / 10, "transpose it back"
    for count in range(1, len(axes) + 1):
        for chosen in itertools.combinations(axes, count):
            name = f"{'axis' if count == 1 else 'axes'} {' and '.join(map(str, chosen))}"
            yield f"flipped along {name}", np.flip(places, chosen).ravel(), 1.2 + count / 10, f"flip {name} back"
    for axis, by in itertools.product(axes, (1, -1)):
        words, hint = f"shifted by {'' if by > 0 else 'minus '}one along axis {axis}", "look for an index off by one"
        around = np.roll(places, by, axis)
        yield f"{words}, wrapped around", around.ravel(), 2.2, hint
        edge = np.indices(shape)[axis] == (0 if by > 0 else shape[axis] - 1)
        yield words, np.where(edge, -1, around).ravel(), 2, hint


def _permutation(block: Block, axis: int, shape: tuple[int, ...]) -> Iterator[Change]:
    """Find the order in which columns (axis 1) or rows of the right block are those of the wrong one."""
    floor = np.broadcast_to(block.floor, block.wrong.shape)
    parts = block.analytic, block.numeric, SLACK * block.estimate, floor, block.wrong
    a, j, slack, floor, wrong = (part if axis else part.T for part in parts)
    moved = np.flatnonzero(wrong.any(0))
    if not 2 <= len(moved) <= 64 or not block.judged.all() or not np.isfinite(block.analytic).all():
        return
    index, free = np.arange(a.shape[1]), list(moved)
    for column in moved:
        close = np.abs(a[:, [column]] - j[:, free]) <= slack[:, free] + floor[:, [column]]
        if not close.all(0).any():
            return
        index[column] = free.pop(int(close.all(0).argmax()))
    pair = " and ".join(element(shape, int(place)) for place in moved)
    words = f"elements {pair} exchanged" if len(moved) == 2 else "its elements in another order"
    yield words, index, 2.5 if len(moved) == 2 else 5, "look at the indices"


def adjoint(block: Block, mask: Array) -> Proposals:
    """Propose the map itself where its transpose belongs: all axes, or an axis of the input with one of the output."""
    out, into = block.output_shape, block.input_shape
    why = "an operand is not transposed in the backward"
    hint = "the backward of a product multiplies by the transposed (conjugated) operand"
    if out == into and len(block.numeric) > 1:
        yield Proposal(f"is transposed as a map: {why}", block.numeric.T, 0.95, hint, block.estimate.T)
    for a, b in itertools.product(range(len(out)), range(len(into))):
        if out[a] == into[b] > 1 and len(out) + len(into) > 2:
            moved, spread = (
                np.swapaxes(m.reshape(out + into), a, len(out) + b).reshape(m.shape)
                for m in (block.numeric, block.estimate)
            )
            words = f"is transposed as a map in axis {b} (axis {a} of {block.output.name}): {why}"
            yield Proposal(words, moved, 1.3, hint, spread)
    if len(into) > 1 and into[-1] == into[-2] and not block.input.pairs:
        index = np.arange(block.numeric.shape[1]).reshape(into).swapaxes(-1, -2).ravel()
        moved, spread = ((m + m[:, index]) / 2 for m in (block.numeric, block.estimate))
        words = "is shared between both halves of the matrix, though the function does not take it for symmetric"
        hint = f"make it symmetric in the function: ({block.input.name} + {block.input.name}.mT) / 2"
        yield Proposal(words, moved, 1.3, hint, spread)


def swapped(block: Block, mask: Array) -> Proposals:
    """Propose the gradient of another input, or one from another output's upstream gradient."""
    seen, output, into = block.observation, block.output, block.input
    hint = "gradients come, and are returned, in the order of the arguments"
    others = [(into, other, output, other, f"is that for {other.name}", 0.8) for other in seen.inputs]
    others += [(output, other, other, into, f"takes {output.name} for {other.name}", 1) for other in seen.outputs]
    for own, other, rows, columns, words, cost in others:
        if other is not own and (other.value.shape, other.pairs) == (own.value.shape, own.pairs):
            moved, spread = seen.numeric.copy(), seen.estimate.copy()
            for matrix in (moved, spread):
                matrix[output.place, into.place] = matrix[rows.place, columns.place]
            yield Proposal(words, block.take(moved), cost, hint, np.abs(block.take(spread)))


# -- a part that is missing: everything off the diagonal, or all but one of several contributions -------------------


def _own(block: Block) -> Array | None:
    """The entries between an element and itself, if output and input have one shape."""
    return np.eye(len(block.numeric), dtype=bool) if block.output_shape == block.input_shape else None


def elementwise(block: Block, mask: Array) -> Proposals:
    """Propose what an element does to itself alone, though elements depend on each other."""
    own = _own(block)
    if own is None:
        return
    if len(own) > 1:
        words = "is taken element by element: what an element does to the others is missing"
        hint = "the Jacobian is not diagonal: add the terms between different elements (a sum over the axis)"
        yield Proposal(words, block.numeric * own, 1.1, hint, block.estimate * own)
    if np.isfinite(block.analytic).all():  # The diagonal is wrong too, by the same term.
        coupled = (np.abs(block.numeric) > 4 * block.estimate + block.floor) & ~own
        words = "is taken element by element: a term through what elements share (a sum, mean or norm) is missing"
        hint = "differentiate through the sum, mean or norm inside as well"
        kept, free = np.where(own, block.analytic, 0), len(own) if 2 * coupled.sum() > len(own) else UNTOLD
        yield Proposal(words, kept, 2.6, hint, block.estimate * ~own, free)


def straight_through(block: Block, mask: Array) -> Proposals:
    """Propose a straight-through estimator: the upstream gradient is passed through a flat function."""
    own, inside = _own(block), mask & block.judged
    flat = not (np.abs(block.numeric) > 4 * block.estimate + block.floor)[inside].any()
    if own is not None and inside.any() and flat:
        words = "is the upstream gradient as it is, though the function is flat (its derivative is 0)"
        yield Proposal(words, own.astype(float), 0.9, "return 0: a straight-through estimator is no derivative")


def overwritten(block: Block, mask: Array) -> Proposals:
    """Propose that of several contributions to an element only the last, or the first, arrives."""
    moves = np.abs(block.numeric) > 4 * block.estimate
    places = np.arange(len(moves))[:, None]
    hint = "add what belongs to one element: index_add_, scatter_add_ or index_put_(accumulate=True)"
    ends = (("last", np.where(moves, places, -1).max(0)), ("first", np.where(moves, places, len(moves)).min(0)))
    for which, kept in ends:
        words = f"keeps only the {which} of the contributions to each element: what is indexed twice is overwritten"
        yield Proposal(words, block.numeric * (places == kept), 1.4, hint)


# -- a term that is missing or extra: a constant, a function, what a sum contributes --------------------------------

UNTOLD = 1 << 30
"""Free numbers of what every block of one or two rows is: it names nothing, but contradicts nothing either."""

SURE = 8
"""A cause that names a term must hold for so many more entries than it has numbers."""


def offset(block: Block, mask: Array) -> Proposals:
    """Propose a constant that is added, to every entry or to what an element does to itself."""
    own, hint = _own(block), "look for a term that is missing or added"
    everywhere = np.ones_like(block.numeric, dtype=bool)
    for support in (everywhere, own) if own is not None and len(own) > 1 else (everywhere,):
        used = support & mask & block.judged
        gaps, known = (block.analytic - block.numeric)[used], np.abs(block.numeric[used])
        if not len(gaps) or not block.wrong[used].all() or abs(gaps.mean().imag) > 1e-6 * abs(gaps.mean()):
            continue
        c = float(gaps.mean().real)
        even = np.ptp(known) <= 1e-6 * known.max() and known.max() > 1e-6 * abs(c)  # A factor would explain it as well.
        c = round(c, 9) if abs(c - round(c, 9)) < 1e-6 * abs(c) else c
        words = f"is too {'large' if c > 0 else 'small'} by a constant, {digits(abs(c))}"
        if support is own and abs(abs(c) - 1) < 1e-9:
            words += f" times the upstream gradient of {block.output.name}"
            hint = "the upstream gradient itself is a term of the gradient" if c < 0 else hint
        yield Proposal(words, block.numeric + c * support, 3, hint, free=UNTOLD if even else 1)


def term(block: Block, mask: Array) -> Proposals:
    """Propose a function, or a product of two, that is missing from what an element does to itself, or added."""
    own = _own(block)
    if own is None or not (block.wrong & mask & own).any() or (block.wrong & ~own).any():
        return
    used = (mask & block.judged).diagonal()
    gaps, doubts = (block.analytic - block.numeric).diagonal()[used], SLACK * block.estimate.diagonal()[used]
    known = [source for source in sources(block) if len(source.values) == len(own)][:4]
    for first, second in itertools.combinations_with_replacement(known, 2):
        left, right = first.curves(), second.curves()
        with np.errstate(all="ignore"):
            products = left[:, None, used] * right[None, :, used]
            c = (products.conj() * gaps).real.sum(-1) / (np.abs(products) ** 2).sum(-1)
            nearest = np.sign(c) * 2 ** np.round(np.log2(np.abs(c))).clip(-1, 1)
            close = np.abs(nearest[..., None] * products - gaps) <= 2 * doubts + 1e-9 * np.abs(gaps)
        for i, k in np.argwhere((np.abs(c - nearest) < 1e-3) & close.all(-1)):
            value = float(nearest[i, k])
            factors = [s.label(int(n)) for s, n in ((first, i), (second, k)) if n != ONE]
            name = " ".join(([] if abs(value) == 1 else [digits(abs(value))]) + (factors or ["1"]))
            how = f"lacks the term {name}" if value < 0 else f"has the extra term {name}"
            cost = 3.5 + first.cost + second.cost + COSTS[i] + COSTS[k] + 0.5 * (len(factors) - 1)
            hint = f"{'add' if value < 0 else 'leave out'} {name}, times the upstream gradient"
            with np.errstate(all="ignore"):
                yield Proposal(how, block.numeric + value * np.diag(left[i] * right[k]), cost, hint, free=1)


def sum_term(block: Block, mask: Array) -> Proposals:
    """Propose a difference of rank 1 or 2, over all elements or those of one slice: a sum's share."""
    gap = np.where(block.judged & mask, block.analytic - block.numeric, 0)
    if not np.isfinite(gap).all():
        return
    doubt = SLACK * np.where(block.judged, block.estimate, 0) + block.floor
    shared, free, wide = np.zeros_like(gap), 0, False
    for part in _slices(np.abs(gap) > doubt):
        low, told = _low_rank(gap[part], doubt[part])
        if not told:
            return
        shared[part], free, wide = low, free + told, wide or min(low.shape) > 1
    if not wide:
        return  # Nothing is shared.
    words = "is off by a matrix of low rank, as where a term that all elements share (a sum, a mean, a norm) is missing"
    hint = "if there is a sum, mean or norm inside, differentiate through it as well"
    _, right = _low_rank(np.where(block.judged, block.numeric, 0), doubt)
    one = 0 < right < sum(gap.shape)  # Any mistake then has rank 1 or 2.
    untold = one or (gap != 0).sum() - free < SURE
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


def _low_rank(part: Array, doubt: Array) -> tuple[Array, int]:
    """The matrix of rank 1, or 2, that a part is, and how many numbers it has; none if it is not."""
    u, s, v = np.linalg.svd(part, full_matrices=False)
    rank = max(1, int((s > np.linalg.norm(doubt)).sum()))
    return (u[:, :rank] * s[:rank]) @ v[:rank], rank * (sum(part.shape) - rank) if rank < 3 else 0


# -- mistakes with the upstream gradient that one scale of it would not show: ignored, clamped, its sign or size lost --

NONLINEAR = "is not linear in the upstream gradient: other sizes or signs of it give more than a multiple"

SCALES = (-1.0, 1.0, 8.0, 0.125, -8.0)


def ignored(block: Block, mask: Array) -> Proposals:
    """Propose a backward that takes the upstream gradient for all ones."""
    words = f"ignores the upstream gradient of {block.output.name}: it is as if that were all ones"
    scale, shape = block.observation.scale, block.numeric.shape
    if len(block.numeric) > 1 or _follows(block, lambda g: 1):
        sums = np.broadcast_to(block.numeric.sum(0), shape) / scale
        spread = np.broadcast_to(block.estimate.sum(0), shape) / abs(scale)
        yield Proposal(words, sums, 0.9, "multiply by the upstream gradient (grad_output)", spread)


def upstream(block: Block, mask: Array) -> Proposals:
    """Propose a function of the upstream gradient in its place, or a term that it is no factor of."""
    seen, name = block.observation, block.output.name
    if seen.scaled is None:
        return
    low, high = _limit(block, -1), _limit(block, 1)
    functions: tuple[tuple[str, Callable[[float], float], float], ...] = (
        ("takes the absolute value of {}", np.abs, 1.0),
        ("takes only the sign of {}", np.sign, 1.0),
        ("drops negative entries of {}", lambda g: max(g, 0), 1.1),
        ("takes the square of {}", np.square, 1.2),
        ("takes the square root of {}", lambda g: np.sign(g) * abs(g) ** 0.5, 1.4),
        ("takes tanh of {}", np.tanh, 1.4),
        (f"clamps {{}} to [{digits(low)}, {digits(high)}]", lambda g: min(max(g, low), high), 1.15),
    )
    for words, function, cost in functions:
        if _follows(block, function):
            part, hint = function(seen.scale) / seen.scale, "a backward is linear in the upstream gradient"
            full = words.format(f"the upstream gradient of {name}")
            yield Proposal(full, part * block.numeric, cost, hint, abs(part) * block.estimate)
    rest = (_at(block, 1.0) - _at(block, 8.0)) * 8 / 7
    gaps = (np.abs(_at(block, scale) - rest / scale - block.numeric) for scale in SCALES)
    if all((gap <= SLACK * block.estimate + 16 * block.floor)[block.judged].all() for gap in gaps):
        words, known = f"has a term that the upstream gradient of {name} is no factor of", rest[block.judged]
        if len(known) and np.ptp(known.real) <= 1e-6 * np.abs(known).max():
            words += f": a constant, {digits(round(float(known.real.mean()), 9))}"
        yield Proposal(words, block.numeric + rest / seen.scale, 1.2, "multiply every term by the upstream gradient")


def _at(block: Block, scale: float) -> Array:
    assert block.observation.scaled is not None
    return block.take(block.observation.scaled(scale))


def _limit(block: Block, sign: int) -> float:
    """The number at which the upstream gradient saturates as it grows; infinite if there is none."""
    with np.errstate(all="ignore"):
        far = sign * 2.0**40 * (_at(block, sign * 2.0**40) / block.numeric)[block.alive].real
    return float(np.median(far)) if len(far) and np.ptp(far) <= 1e-3 * np.abs(far).max() < 1e6 else sign * np.inf


def _follows(block: Block, function: Callable[[float], float]) -> bool:
    """Tell whether the derivative is `function` of the upstream gradient at all scales, and a scale shows it."""
    if block.observation.scaled is None:
        return False
    parts = {scale: float(function(scale)) / scale for scale in SCALES}
    close = [
        np.abs(_at(block, scale) - part * block.numeric) <= SLACK * abs(part) * block.estimate + 4 * block.floor
        for scale, part in parts.items()
    ]
    return max(abs(part - 1) for part in parts.values()) > 1e-3 and all(one[block.judged].all() for one in close)
