"""A term that is missing or extra: a constant, a function, everything off the diagonal, what a sum contributes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .constants import digits
from .curves import COSTS, CURVES, sources
from .look import SLACK, Array, Block
from .proposal import Proposal, mechanism


def _own(block: Block) -> Array | None:
    """The entries between an element and itself, if output and input have one shape."""
    if block.output_shape != block.input_shape:
        return None
    return np.eye(len(block.numeric), dtype=bool)


@mechanism("elementwise")
def elementwise(block: Block, mask: Array) -> Iterator[Proposal]:
    """Only what an element does to itself, though elements depend on each other."""
    own = _own(block)
    if own is None or len(own) < 2:
        return
    words = "is taken element by element: what an element does to the others is missing"
    hint = "the Jacobian is not diagonal: add the terms between different elements (a sum over the axis)"
    yield Proposal("elementwise", words, block.numeric * own, block.estimate * own, 1.1, hint)


@mechanism("offset")
def offset(block: Block, mask: Array) -> Iterator[Proposal]:
    """A constant is added, to every entry or to what an element does to itself."""
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
        c = round(c, 9) if abs(c - round(c, 9)) < 1e-6 * abs(c) else c
        words = f"is too {'large' if c > 0 else 'small'} by a constant, {digits(abs(c))}"
        hint = "look for a term that is missing or added"
        if support is own and abs(abs(c) - 1) < 1e-9:
            words += f" times the upstream gradient of {block.output.name}"
            hint = "the upstream gradient itself is a term of the gradient" if c < 0 else hint
        yield Proposal("offset", words, block.numeric + c * support, block.estimate, 3, hint, free=1)


@mechanism("term")
def term(block: Block, mask: Array) -> Iterator[Proposal]:
    """A function, or a product of two, is missing from, or added to, what an element does to itself."""
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
                yield Proposal("term", how, predicted, block.estimate, cost, hint, free=1)


@mechanism("sum-term")
def sum_term(block: Block, mask: Array) -> Iterator[Proposal]:
    """What is missing has one row and one column: the share of a sum, a mean or a norm."""
    gap = np.where(block.judged & mask, block.analytic - block.numeric, 0)
    if not np.isfinite(gap).all():
        return
    u, s, v = np.linalg.svd(gap, full_matrices=False)
    size = SLACK * np.linalg.norm(np.where(block.judged, block.estimate, 0)) + np.linalg.norm(block.floor)
    if (s[1:] > size).any() or s[0] < 16 * size:
        return
    predicted = block.numeric + s[0] * np.outer(u[:, 0], v[0])
    words = "lacks a term (or has an extra one) that all elements share, as a sum, a mean or a norm contributes"
    hint = "differentiate through the sum, mean or norm inside as well"
    free = sum(gap.shape) + 4
    yield Proposal("sum-term", words, predicted, block.estimate, 4.5, hint, free=free)
