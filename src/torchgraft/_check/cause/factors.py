"""Mistakes that multiply a gradient: by nothing, a number, a function, a conjugate, or fewer digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .blocks import POLE, SLACK, Array, Block, Proposal
from .vocabulary import CONSTANTS, COSTS, CURVES, Atom, Source, atoms, digits, sources

Proposals = Iterator[Proposal]

# -- one number for all entries: nothing, the wrong sign, a factor -------------------------------------------------


def zero(block: Block, mask: Array) -> Proposals:
    """Propose that no gradient arrives."""
    words, nothing = "is zero", np.zeros_like(block.numeric)
    if (block.row, block.column) in block.observation.absent:
        words = "is missing (None, which counts as zero)"
    hint = "compute and return it; only an input that the output does not depend on may get None"
    yield Proposal(words, nothing, 0.5, hint, spread=nothing.real)


def nan(block: Block, mask: Array) -> Proposals:
    """Propose NaN or infinity, where the right one is finite."""
    if not np.isfinite(block.analytic).all():
        hint = "guard the formula: 0/0 and inf - inf, also where the upstream gradient is zero"
        yield Proposal("is not finite (NaN or infinite)", np.full_like(block.numeric, np.inf), 0.4, hint)


def sign(block: Block, mask: Array) -> Proposals:
    """Propose a minus that is missing, or one too many."""
    yield Proposal("has the wrong sign", -block.numeric, 0.6, "negate it")


def factor(block: Block, mask: Array) -> Proposals:
    """Propose a constant times what it should be."""
    c, doubt = ratio(block, mask)
    if c is None or not np.isfinite(c) or abs(c) == 0:
        return
    if isinstance(c, complex):
        for words, value in (("i", 1j), ("-i", -1j)):
            if abs(c - value) < 0.01:
                yield Proposal(f"has an extra factor {words}", value * block.numeric, 1.5)
        return
    spread, size = abs(c) * block.estimate, max(abs(c), 1 / abs(c))
    for atom in atoms(block):
        value = atom.value if atom.value > 1 else 1 / atom.value if atom.value > 0 else 0
        if abs(size - value) > doubt * size or value - 1 < 1e-12:
            continue
        exact = math.copysign(value if abs(c) > 1 else 1 / value, c)
        words, hint = _phrase(atom, abs(c))
        words, cost = f"{'has the wrong sign and ' if c < 0 else ''}{words}", atom.cost + 2 * (c < 0)
        yield Proposal(words, exact * block.numeric, cost, hint, spread=spread)
    if abs(c - 1) > doubt:
        how = f"is {rounded(c)} times what it should be"
        if abs(c - 1) < 0.2:
            how = f"is too {'large' if c > 1 else 'small'} by {_part(abs(c - 1))}: a factor {rounded(c)}"
        yield Proposal(how, c * block.numeric, 6, "look for a constant factor", spread=spread, free=1)


def constant(block: Block, mask: Array) -> Proposals:
    """Propose a constant with too few digits."""
    c, doubt = ratio(block, mask)
    if c is None or isinstance(c, complex) or not 0 < abs(c - 1) < 0.05 or abs(c - 1) < 20 * doubt:
        return
    hint = "write the constant with all its digits, in the dtype of the input"
    for name, true in {**_SIMPLE, **CONSTANTS, **block.observation.numbers}.items():
        for written, text, cost in _shortened(name, true):
            words = f"contains a constant of too few digits: {text}"
            for r in (written / true, true / written):
                if abs(r - c) <= doubt + 0.02 * abs(c - 1):
                    seen = np.isclose(np.abs(block.analytic), abs(written), rtol=1e-12, atol=0).any()
                    yield Proposal(words, r * block.numeric, cost - seen, hint)


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
            if short:
                yield short, f"{short:.10g} is {label}({name})", 2.5
    for count in range(2, 11):
        for short in {float(f"{true:.{count}g}"), _cut(true, count)}:
            if short != true:
                yield short, f"{short:g} in place of {name}" if count < 7 else f"{short!r} in place of {name}", 3


def _cut(value: float, count: int) -> float:
    unit = 10.0 ** (count - 1 - math.floor(math.log10(abs(value))))
    return math.trunc(value * unit) / unit


def ratio(block: Block, mask: Array) -> tuple[float | complex | None, float]:
    """Return (c, doubt): within `mask` the derivative under test is c times the right one, in least squares."""
    used = mask & block.judged & np.isfinite(block.numeric)
    a, b, e = block.analytic[used], block.numeric[used], block.estimate[used]
    if not np.isfinite(a).all():
        return None, 0.0
    norm = float(np.vdot(b, b).real)
    if norm <= 0 or not np.isfinite(norm):
        return None, 0.0
    c = np.vdot(b, a) / norm
    doubt = SLACK * float(np.sqrt((e * e).sum())) / math.sqrt(norm) + 64 * block.observation.eps
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


# -- a factor that varies from entry to entry: a function of an input or of an output that is missing, extra or wrong --

SAMPLES = 12
"""A function is tried on so many entries before it is on all."""
TIMES = {1.0: "", 2.0: "2 ", 3.0: "3 ", 4.0: "4 ", 0.5: "1/2 ", -1.0: "-", -2.0: "-2 ", -3.0: "-3 ", -0.5: "-1/2 "}
"""Numbers that a function may come with."""


class _Samples:
    """A few entries of a block that are wrong, and what they are times of what they should be."""

    def __init__(self, block: Block, mask: Array) -> None:
        with np.errstate(all="ignore"):
            doubt = SLACK * block.estimate / np.abs(block.numeric)
            near = np.abs(block.analytic) < _pole(block) * np.abs(block.numeric)
        rows, columns = np.nonzero(block.wrong & mask & near & (doubt < 0.01) & (block.analytic != 0))
        order = np.argsort(columns * 7919 % 104729 + rows / 1e6, kind="stable")  # from many columns
        chosen = order[:: max(1, len(order) // SAMPLES)][:SAMPLES]
        self.rows, self.columns = rows[chosen], columns[chosen]
        self.ratio = block.analytic[self.rows, self.columns] / block.numeric[self.rows, self.columns]
        self.doubt = float(doubt[self.rows, self.columns].max(initial=0)) * 2 + 256 * block.observation.eps
        self.doubt += block.observation.eps**0.5 * block.observation.coarse

    def __len__(self) -> int:
        return len(self.ratio)

    def at(self, source: Source, curves: Array) -> Array:
        """Curves at the samples."""
        taken: Array = curves[:, self.rows if source.rows else self.columns]
        return taken

    def constants(self, quotients: Array) -> Array:
        """For each row of quotients the one number that it is, or NaN."""
        with np.errstate(all="ignore"):
            first = quotients[..., :1]
            apart = np.abs(quotients - first).max(-1)
            even = apart <= 4 * self.doubt * np.abs(first[..., 0])
            return np.where(even, first[..., 0], np.nan)


def _numbers(block: Block) -> dict[float, str]:
    return TIMES | {value: f"{name} " for name, value in block.observation.numbers.items() if value not in TIMES}


def _named(block: Block, c: complex, doubt: float) -> Iterator[tuple[float, str]]:
    """Simple numbers that a number is."""
    for value, words in _numbers(block).items():
        if abs(c - value) <= (8 * doubt + 1e-9) * abs(value):
            yield value, words


def chain(block: Block, mask: Array) -> Proposals:
    """Propose a factor of the chain rule that is missing, or one too many."""
    samples = _Samples(block, mask)
    if not len(samples):
        return
    for source in sources(block):
        curves = source.curves()[:-1]
        at = samples.at(source, curves)
        with np.errstate(all="ignore"):
            kinds = (
                ("lacks the factor", True, 1 / (samples.ratio * at)),
                ("has the extra factor", False, samples.ratio / at),
            )
        for what, missing, quotients in kinds:
            constants = samples.constants(quotients)
            for curve in np.flatnonzero(np.isfinite(constants)):
                with np.errstate(all="ignore"):
                    times = source.spread_out(1 / curves[curve] if missing else curves[curve])
                name = source.label(int(curve))
                for value, words in _named(block, complex(constants[curve]), samples.doubt):
                    cost = 1.6 + source.cost + COSTS[curve] + (value != 1) / 2
                    hint = f"multiply by {words}{name}" if missing else f"leave out {words}{name}"
                    exact = 1 / value if missing else value
                    yield _times(block, exact * times, f"{what} {words}{name}", cost, hint)


def _pole(block: Block) -> float:
    """What is more than so many times the right one is next to a pole, where digits cancel."""
    return POLE if block.observation.coarse else 1e6


def _even(values: Array) -> bool:
    """Whether values are one number: then it is a factor, and no function."""
    finite = np.abs(values[np.isfinite(values)])
    return len(finite) == 0 or (len(finite) > 1 and bool(np.ptp(finite) <= 1e-9 * finite.max()))


def _times(block: Block, times: Array, words: str, cost: float, hint: str) -> Proposal:
    """The right block times values; next to a pole nothing can be told."""
    with np.errstate(all="ignore"):
        predicted = np.where(np.abs(times) < _pole(block), block.numeric * times, np.nan)
        return Proposal(words, predicted, cost, hint, spread=block.estimate * np.abs(times))


def another(block: Block, mask: Array) -> Proposals:
    """Propose one function where another belongs, of the input or of the output."""
    samples = _Samples(block, mask)
    if not len(samples):
        return
    own = {block.input.name, block.output.name}
    known = [(source, source.curves()) for source in sources(block) if source.name in own]
    for first, have in known:
        for second, want in known:
            if first.rows != second.rows:
                continue
            with np.errstate(all="ignore"):
                quotients = samples.ratio * samples.at(second, want) / samples.at(first, have)[:, None]
            constants = samples.constants(quotients)
            for i, j in zip(*np.nonzero(np.isfinite(constants)), strict=True):
                if (first.name == second.name and i == j) or min(i, j) == len(CURVES) - 1 == max(i, j):
                    continue
                with np.errstate(all="ignore"):
                    times = have[i] / want[j]
                if _even(times):
                    continue
                for value, words in _named(block, complex(constants[i, j]), samples.doubt):
                    has, wants = f"{words}{first.label(i)}", second.label(j)
                    cost = 3.5 + first.cost + second.cost + COSTS[i] + COSTS[j] + (value != 1) / 2
                    what = f"has {has} where {wants} belongs"
                    hint = f"write {wants} in place of {has}"
                    yield replace(_times(block, value * first.spread_out(times), what, cost, hint), free=2)


# -- complex numbers: a conjugate that is missing, a part that is dropped -------------------------------------------

HINT = "for complex inputs multiply the upstream gradient by the conjugate of the derivative: grad * derivative.conj()"


def conjugate(block: Block, mask: Array) -> Proposals:
    """Propose that the derivative is not conjugated, or that the gradient or the upstream gradient is."""
    j, e = block.numeric, block.estimate
    if block.folded:
        yield Proposal("lacks a conjugate (conj)", j.conj(), 0.7, HINT)
        yield Proposal("drops the imaginary part of the derivative", j.real + 0j, 1, HINT)
        yield Proposal("drops the real part of the derivative", 1j * j.imag, 1.2, HINT)
        return
    rows, columns = _signs(block.output.pairs, j.shape[0])[:, None], _signs(block.input.pairs, j.shape[1])
    of = f"of the upstream gradient of {block.output.name}"
    for sign, cost, words, dropped in (
        (columns, 0.7, "lacks a conjugate (conj), or has one too many: its imaginary part has the wrong sign", ""),
        (rows, 0.8, f"is wrong by a conjugate (conj) {of}", " of the upstream gradient"),
        (rows * columns, 0.7, "lacks a conjugate (conj) of the derivative", None),
    ):
        if (sign < 0).any():
            yield Proposal(words, j * sign, cost, HINT)
            if dropped is not None:
                kept = sign > 0
                yield Proposal(f"drops the imaginary part{dropped}", j * kept, 0.9, HINT, spread=e * kept)


def _signs(pairs: bool, size: int) -> Array:
    signs: Array = np.ones(size)
    if pairs:
        signs[1::2] = -1
    return signs


# -- digits that were lost: a gradient that passed through a smaller dtype --------------------------------------------

UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half a unit in the last place of 1."""


def precision(block: Block, mask: Array) -> Proposals:
    """Propose that entries are off by roundings of a smaller dtype, each by its own."""
    size = np.abs(block.numeric)
    whole = size[np.isfinite(size)].max(initial=0)
    for dtype, unit in UNITS.items():
        if block.observation.eps >= unit:
            continue
        hint = f"compute in the dtype of the input; look for constants, buffers or conversions in {dtype}"
        if (block.wrong & mask).sum() > 1 and (_rounded(block.analytic, dtype) == block.analytic).all():
            words = f"is rounded to {dtype}: all its elements are {dtype} numbers"
            yield Proposal(words, block.numeric, 1.3, hint, spread=block.estimate + 4 * unit * whole)
        if dtype == "float32":  # the errors of smaller ones are large enough for a mistake to hide among them
            for cost, scale in ((5.5, size), (5.7, whole)):
                spread = block.estimate + unit * scale
                yield Proposal("has the precision of float32 only", block.numeric, cost, hint, spread=spread)


def _rounded(values: Array, dtype: str) -> Array:
    if np.iscomplexobj(values):
        both: Array = _rounded(values.real, dtype) + 1j * _rounded(values.imag, dtype)
        return both
    with np.errstate(over="ignore"):
        if dtype == "float16":
            return values.astype(np.float16).astype(float)
        single = values.astype(np.float32)
    if dtype == "bfloat16":
        single = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return single.astype(float)
