"""One number for all entries: nothing, the wrong sign, a factor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .constants import CONSTANTS, Atom, atoms, digits
from .look import SLACK, Array, Block
from .proposal import Proposal, mechanism


@mechanism("zero")
def zero(block: Block, mask: Array) -> Iterator[Proposal]:
    """Nothing arrives."""
    nothing = np.zeros_like(block.numeric)
    words, hint = "is zero", "compute and return it; only an input that the output does not depend on may get None"
    if (block.row, block.column) in block.look.absent:
        words = "is missing (None, which counts as zero)"
    yield Proposal("zero", words, nothing, nothing.real, 0.5, hint)


@mechanism("nan")
def nan(block: Block, mask: Array) -> Iterator[Proposal]:
    """NaN or infinite, where the right one is finite."""
    if not np.isfinite(block.analytic).all():
        lost = np.full_like(block.numeric, np.inf)
        hint = "guard the formula: 0/0 and inf - inf, also where the upstream gradient is zero"
        yield Proposal("nan", "is not finite (NaN or infinite)", lost, block.estimate, 0.4, hint)


@mechanism("sign")
def sign(block: Block, mask: Array) -> Iterator[Proposal]:
    """A minus is missing, or one is too many."""
    yield Proposal("sign", "has the wrong sign", -block.numeric, block.estimate, 0.6, "negate it")


@mechanism("factor")
def factor(block: Block, mask: Array) -> Iterator[Proposal]:
    """Constant times what it should be."""
    c, doubt = ratio(block, block.numeric, mask)
    if c is None or not np.isfinite(c) or abs(c) == 0:
        return
    spread = abs(c) * block.estimate
    if isinstance(c, complex):
        for words, value in (("i", 1j), ("-i", -1j)):
            if abs(c - value) < 0.01:
                yield Proposal("factor", f"has an extra factor {words}", value * block.numeric, block.estimate, 1.5)
        return
    negative = "has the wrong sign and " if c < 0 else ""
    size = max(abs(c), 1 / abs(c))
    for atom in atoms(block):
        value = atom.value if atom.value > 1 else 1 / atom.value if atom.value > 0 else 0
        if abs(size - value) > doubt * size or value - 1 < 1e-12:
            continue
        exact = math.copysign(value if abs(c) > 1 else 1 / value, c)
        words, hint = _phrase(atom, abs(c))
        yield Proposal(
            "factor", f"{negative}{words}", exact * block.numeric, spread, atom.cost + 2 * (c < 0), hint
        )  # fmt: skip
    if abs(c - 1) > doubt:
        how = f"is {rounded(c)} times what it should be"
        if abs(c - 1) < 0.2:
            how = f"is too {'large' if c > 1 else 'small'} by {_part(abs(c - 1))}: a factor {rounded(c)}"
        yield Proposal("factor", how, c * block.numeric, spread, 6, "look for a constant factor", free=1)


@mechanism("constant")
def constant(block: Block, mask: Array) -> Iterator[Proposal]:
    """A constant with too few digits."""
    c, doubt = ratio(block, block.numeric, mask)
    if c is None or isinstance(c, complex) or not 0 < abs(c - 1) < 0.05 or abs(c - 1) < 20 * doubt:
        return
    for name, true in {**_SIMPLE, **CONSTANTS, **block.look.numbers}.items():
        for written, text, cost in _shortened(name, true):
            for r in (written / true, true / written):
                if abs(r - c) > doubt + 0.02 * abs(c - 1):
                    continue
                seen = np.isclose(np.abs(block.analytic), abs(written), rtol=1e-12, atol=0).any()
                yield Proposal(
                    "constant", f"contains a constant of too few digits: {text}", r * block.numeric, block.estimate,
                    cost - seen, "write the constant with all its digits, in the dtype of the input",
                )  # fmt: skip


_SIMPLE = {f"1/{k}": 1 / k for k in (6, 3, 7, 9, 10, 5, 12)} | {
    "1/sqrt(2)": math.sqrt(0.5), "1/pi": 1 / math.pi, "1/sqrt(2 pi)": 1 / math.sqrt(2 * math.pi), "0.01": 0.01,
    "GELU's 0.044715": 0.044715, "SELU's scale": 1.0507009873554804934, "SELU's alpha": 1.6732632423543772848,
}  # fmt: skip


def _shortened(name: str, true: float) -> Iterator[tuple[float, str, float]]:
    """A constant as someone may have written it."""
    if not math.isfinite(true) or true == 0:
        return
    for dtype, label in ((np.float32, "float32"), (np.float16, "float16")):
        if abs(true) < 6e4:
            short = float(dtype(true))
            yield short, f"{short:.10g} is {label}({name})", 2.5
    for count in range(2, 11):
        for short in {float(f"{true:.{count}g}"), _cut(true, count)}:
            if short != true:
                yield short, f"{short:g} in place of {name}" if count < 7 else f"{short!r} in place of {name}", 3


def _cut(value: float, count: int) -> float:
    unit = 10.0 ** (count - 1 - math.floor(math.log10(abs(value))))
    return math.trunc(value * unit) / unit


def ratio(block: Block, base: Array, mask: Array) -> tuple[float | complex | None, float]:
    """The number that turns `base` into the derivative under test within `mask`, best in least squares; its doubt."""
    used = mask & block.judged & np.isfinite(base)
    a, b, e = block.analytic[used], base[used], block.estimate[used]
    if not np.isfinite(a).all():
        return None, 0.0
    norm = float(np.vdot(b, b).real)
    if norm <= 0 or not np.isfinite(norm):
        return None, 0.0
    c = np.vdot(b, a) / norm
    doubt = SLACK * float(np.sqrt((e * e).sum())) / math.sqrt(norm) + 64 * block.look.eps
    if np.iscomplexobj(c):
        whole = complex(c)
        return (whole.real if abs(whole.imag) <= abs(whole) * (doubt + 1e-6) else whole), doubt
    return float(c), doubt


def _part(gap: float) -> str:
    return f"{100 * gap:.2g} %" if gap >= 1e-4 else f"a part in {1 / gap:.2g}"


def rounded(c: float) -> str:
    """A factor with as many digits as its distance from 1 has in common between cases."""
    if not 0 < abs(c - 1) < 0.2:
        return digits(c)
    return f"{c:.{2 - math.floor(math.log10(abs(c - 1)))}f}".rstrip("0")


def _phrase(atom: Atom, c: float) -> tuple[str, str]:
    """Words and a hint for a factor."""
    large = c > 1
    if atom.kind == "named":
        missing = large != (atom.value > 1)
        return (f"lacks the factor {atom.words}", f"multiply by {atom.words}") if missing else (
            f"has the extra factor {atom.words}", f"leave out {atom.words}")  # fmt: skip
    by = f"is too {'large' if large else 'small'} by a factor {atom.words}"
    if atom.kind == "count":
        if large:
            return f"{by}: a sum where a mean belongs", f"divide by {atom.words}"
        return f"{by}: a mean where a sum belongs", f"do not divide by {atom.words}; sum"
    if atom.words == "2":
        by += " (twice what it should be)" if large else " (half of what it should be)"
    return by, f"look for {'an extra' if large else 'a missing'} factor {atom.words}"
