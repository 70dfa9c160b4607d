"""Mistakes that multiply a gradient: by nothing, a number, a function, or by fewer digits."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from .blocks import SLACK, Array, Block, Proposal

Proposals = Iterator[Proposal]


def digits(value: float) -> str:
    """A number in words, short: ``1.25``, ``1e-06``."""
    return f"{value:.5g}"


# -- one number for all entries: nothing, the wrong sign, a factor, a constant with too few digits -----------------


def zero(block: Block, mask: Array) -> Proposals:
    """Propose that no gradient arrives, or one that is not finite."""
    absent, nothing = block.column in block.observation.absent, np.zeros_like(block.numeric)
    words = "is missing (None, which counts as zero)" if absent else "is zero"
    hint = "compute and return it; only an input that the output does not depend on may get None, or be `independent`"
    yield Proposal(words, nothing, 0.5, hint, spread=nothing.real)
    if not np.isfinite(block.analytic).all():
        hint = "guard the formula: 0/0 and inf - inf, also where the upstream gradient is zero"
        yield Proposal("is not finite (NaN or infinite)", nothing + np.inf, 0.4, hint)


CONSTANTS = {
    "pi": math.pi, "2 pi": 2 * math.pi, "e": math.e, "ln 2": math.log(2), "ln 10": math.log(10),
    "sqrt(2)": math.sqrt(2), "sqrt(3)": math.sqrt(3), "sqrt(pi)": math.sqrt(math.pi),
    "sqrt(2 pi)": math.sqrt(2 * math.pi), "sqrt(2/pi)": math.sqrt(2 / math.pi), "2/sqrt(pi)": 2 / math.sqrt(math.pi),
    "pi/180": math.pi / 180, "Euler's gamma": float(np.euler_gamma),
}  # fmt: skip
ROUNDED = {f"1/{k}": 1 / k for k in (6, 3, 7, 9, 10, 5, 12)} | {
    "1/sqrt(2)": math.sqrt(0.5), "1/pi": 1 / math.pi, "1/sqrt(2 pi)": 1 / math.sqrt(2 * math.pi), "0.01": 0.01,
    "GELU's 0.044715": 0.044715, "SELU's scale": 1.0507009873554804934, "SELU's alpha": 1.6732632423543772848,
}  # fmt: skip
"""Numbers that lose digits where they are written, as do all `CONSTANTS`."""


class Atom(NamedTuple):
    """A positive number with a name, and how far-fetched it is as a factor.

    A count is of something that a sum and a mean differ by; the words of a number are the number itself.
    """

    words: str
    value: float
    cost: float
    kind: str = "named"


def atoms(block: Block) -> Iterator[Atom]:
    """All numbers above 1 or below it that a factor in this block may be; their inverses are not listed."""
    seen = block.observation
    yield from (Atom(str(k), float(k), 1 + k / 20, "number") for k in range(2, 13))
    yield from (Atom(f"{p}/{q}", p / q, 2.2, "number") for p, q in ((3, 2), (4, 3), (5, 2)))
    for name, value in seen.numbers.items():
        yield Atom(name, abs(value), 1.05)
        yield Atom(f"{name}^2", value * value, 2.4)
        yield Atom(f"1 - {name}", abs(1 - value), 2.4)
    others = (side for side in seen.inputs if side is not block.input)
    for far, side in enumerate((block.input, block.output, *others)):
        shape, cost, total = side.value.shape, 1.3 + min(far, 4) / 10, f"the number of elements of {side.name}"
        named = [(f"the size of axis {axis} of {side.name}", size) for axis, size in enumerate(shape)]
        for words, n in [*named, (total, side.value.size)] if len(shape) > 1 else [(total, side.value.size)]:
            yield Atom(words, n, cost, "count")
            yield Atom(f"the square root of {words}", math.sqrt(n), cost + 1)
            yield Atom(f"n - 1 (n is {words})", n - 1, cost + 1, "count")
            yield Atom(f"n/(n - 1) (n is {words})", n / (n - 1 or n), cost + 1.2)
    yield from (Atom(words, value, 2 + i / 50) for i, (words, value) in enumerate(CONSTANTS.items()))
    yield from (Atom(f"10^{k}", 10.0**k, 2.5, "number") for k in (2, 3, 4, 6))
    single = (side for side in (*seen.inputs, *seen.outputs) if side.value.size == 1)
    yield from (Atom(side.name, float(np.abs(side.value).item()), 3) for side in single)


def factor(block: Block, mask: Array) -> Proposals:
    """Propose a constant times what it should be."""
    c, doubt = ratio(block, mask)
    if isinstance(c, complex):
        for words, unit in (("i", 1j), ("-i", -1j)):
            if abs(c - unit) < 0.01:
                yield Proposal(f"has an extra factor {words}", unit * block.numeric, 1.5)
        return
    yield Proposal("has the wrong sign", -block.numeric, 0.6, "negate it")
    if not np.isfinite(c) or c == 0:
        return
    spread, size = abs(c) * block.estimate, max(abs(c), 1 / abs(c))
    for atom in atoms(block):
        value = max(atom.value, 1 / atom.value) if atom.value > 0 else 0
        if abs(size - value) > doubt * size or value - 1 < 1e-12:
            continue
        exact = math.copysign(value if abs(c) > 1 else 1 / value, c)
        words, hint = _phrase(atom, abs(c) > 1)
        words, cost = f"{'has the wrong sign and ' if c < 0 else ''}{words}", atom.cost + 2 * (c < 0)
        yield Proposal(words, exact * block.numeric, cost, hint, spread)
    gap = abs(c - 1)
    if gap > doubt:
        how = f"is {digits(c)} times what it should be"
        if 0 < gap < 0.2:  # Cases share only so many digits of the distance from 1.
            part = f"{100 * gap:.2g} %" if gap >= 1e-4 else f"a part in {1 / gap:.2g}"
            rounded = f"{c:.{2 - math.floor(math.log10(gap))}f}".rstrip("0")
            how = f"is too {'large' if c > 1 else 'small'} by {part}: a factor {rounded}"
        yield Proposal(how, c * block.numeric, 6, "look for a constant factor", spread, free=1)


def ratio(block: Block, mask: Array) -> tuple[float | complex, float]:
    """Return (c, doubt): within `mask` the derivative under test is c times the right one, in least squares."""
    used = mask & block.judged & np.isfinite(block.numeric)
    a, b, e = block.analytic[used], block.numeric[used], block.estimate[used]
    norm = np.linalg.norm(b)
    if not (np.isfinite(a).all() and 0 < norm < math.inf):
        return math.nan, 0.0
    c = complex(np.vdot(b, a)) / float(norm) ** 2
    doubt = float(SLACK * np.linalg.norm(e) / norm + 64 * block.observation.eps)
    return (c.real if abs(c.imag) <= abs(c) * (doubt + 1e-6) else c), doubt


def _phrase(atom: Atom, large: bool) -> tuple[str, str]:
    """Words and a hint for a factor."""
    if atom.kind == "named":
        how, hint = ("lacks the", "multiply by") if large != (atom.value > 1) else ("has the extra", "leave out")
        return f"{how} factor {atom.words}", f"{hint} {atom.words}"
    by = f"is too {'large' if large else 'small'} by a factor {atom.words}"
    if atom.kind == "count":
        if large:
            return f"{by}: a sum where a mean belongs", f"divide by {atom.words}"
        return f"{by}: a mean where a sum belongs", f"do not divide by {atom.words}; sum"
    if atom.words == "2":
        by += f" ({'twice' if large else 'half of'} what it should be)"
    return by, f"look for {'an extra' if large else 'a missing'} factor {atom.words}"


def constant(block: Block, mask: Array) -> Proposals:
    """Propose a constant with too few digits."""
    c, doubt = ratio(block, mask)
    if isinstance(c, complex) or not 20 * doubt < abs(c - 1) < 0.05:
        return
    hint = "write the constant with all its digits, in the dtype of the input"
    for name, true in {**ROUNDED, **CONSTANTS, **block.observation.numbers}.items():
        for written, text, cost in _shortened(name, true):
            for r in (written / true, true / written):
                if abs(r - c) <= doubt + 0.02 * abs(c - 1):
                    seen = np.isclose(np.abs(block.analytic), abs(written), rtol=1e-12, atol=0).any()
                    words = f"contains a constant of too few digits: {text}"
                    exact = np.isclose(np.abs(block.numeric), abs(written), rtol=1e-11, atol=0).any()
                    if exact and not seen:
                        words = f"is right, and the forward contains a constant of too few digits: {text}"
                    elif not seen and abs(r - round(r, 4)) < 1e-12:  # It may as well be written so.
                        words = f"is {r:.4g} times what it should be, as a constant of too few digits makes it: {text}"
                    yield Proposal(words, r * block.numeric, cost - seen, hint)


def _shortened(name: str, true: float) -> Iterator[tuple[float, str, float]]:
    """A constant as someone may have written it."""
    for kind in (np.float32, np.float16):
        short = float(kind(true)) if abs(true) < 6e4 else 0
        if short:
            yield short, f"{short:.10g} is {kind.__name__}({name})", 2.5
    for count in range(2, 11):
        unit = 10.0 ** (count - 1 - math.floor(math.log10(abs(true))))
        for short in {float(f"{true:.{count}g}"), math.trunc(true * unit) / unit} - {true}:
            yield short, f"{short:g} in place of {name}" if count < 7 else f"{short!r} in place of {name}", 3


# -- a factor that varies from entry to entry: a function of an input or of an output that is missing, extra or wrong --

SAMPLES = 12
"""A function is tried on so many entries before it is on all."""
POLE = 1e6
"""An entry that is more than so many times the right one is next to a pole, where digits cancel."""
TIMES = {1.0: "", 2.0: "2 ", 3.0: "3 ", 4.0: "4 ", 0.5: "1/2 ", -1.0: "-", -2.0: "-2 ", -3.0: "-3 ", -0.5: "-1/2 "}
"""Numbers that a function may come with."""


def chain(block: Block, mask: Array) -> Proposals:
    """Propose a factor of the chain rule that is missing, or one too many."""
    entries = _wrong_entries(block, mask)
    for source in sources(block):
        for found in _quotients(block, entries, source, source):
            if (found.has == ONE) is not (found.wants == ONE):
                missing, curve = found.has == ONE, min(found.has, found.wants)
                name, cost = f"{found.words}{source.label(curve)}", 1.6 + source.cost + COSTS[curve] + found.cost
                what, hint = ("lacks the", "multiply by") if missing else ("has the extra", "leave out")
                yield _times(block, found.times, f"{what} factor {name}", cost, f"{hint} {name}")


def another(block: Block, mask: Array) -> Proposals:
    """Propose one function where another belongs, of the input or of the output."""
    entries = _wrong_entries(block, mask)
    own = [source for source in sources(block) if source.name in (block.input.name, block.output.name)]
    for first, second in itertools.product(own, own):
        for found in _quotients(block, entries, first, second):
            finite = np.abs(found.times[np.isfinite(found.times)])
            if finite.size == 1 or (
                finite.size and np.ptp(finite) > 1e-9 * finite.max()
            ):  # One value everywhere is a factor, and no function.
                has, wants = f"{found.words}{first.label(found.has)}", second.label(found.wants)
                cost = 3.5 + first.cost + second.cost + COSTS[found.has] + COSTS[found.wants] + found.cost
                what, hint = f"has {has} where {wants} belongs", f"write {wants} in place of {has}"
                yield _times(block, found.times, what, cost, hint, free=2)


class Entries(NamedTuple):
    """A few wrong entries of a block.

    Attributes:
        rows: of each entry.
        columns: of each entry.
        ratio: of each to what it should be.
        doubt: the relative error of `ratio`.
    """

    rows: Array
    columns: Array
    ratio: Array
    doubt: float


class Quotient(NamedTuple):
    """A function where another belongs.

    Attributes:
        has: the index of the function that is there.
        wants: the index of the one that belongs there.
        words: a simple number that comes with it, followed by a space; empty for 1.
        times: what the entries of the block are multiplied by, ``(rows, columns)``.
    """

    has: int
    wants: int
    words: str
    times: Array

    @property
    def cost(self) -> float:
        """Tell how far-fetched the number is."""
        return 0.5 if self.words else 0.0


def _wrong_entries(block: Block, mask: Array) -> Entries:
    with np.errstate(all="ignore"):
        doubt = SLACK * block.estimate / np.abs(block.numeric)
        near = np.abs(block.analytic) < POLE * np.abs(block.numeric)
    rows, columns = np.nonzero(block.wrong & mask & near & (doubt < 0.01) & (block.analytic != 0))
    order = np.argsort(columns * 7919 % 104729 + rows / 1e6, kind="stable")  # Samples come from many columns.
    chosen = order[:: max(1, len(order) // SAMPLES)][:SAMPLES]
    at = rows[chosen], columns[chosen]
    most = float(doubt[at].max(initial=0)) * 2 + 256 * block.observation.eps
    return Entries(*at, block.analytic[at] / block.numeric[at], most)


def _quotients(block: Block, entries: Entries, first: Source, second: Source) -> Iterator[Quotient]:
    """Find functions whose quotient, times a simple number, the wrong entries are of the right ones."""
    ratio, doubt = entries.ratio, entries.doubt
    if first.rows is not second.rows or not len(ratio):
        return
    place = entries.rows if first.rows else entries.columns
    have, want = first.curves(), second.curves()
    numbers = TIMES | {value: f"{name} " for name, value in block.observation.numbers.items() if value not in TIMES}
    with np.errstate(all="ignore"):
        found = ratio * want[None, :, place] / have[:, None, place]
        found[ONE] = 1 / found[ONE]  # What is missing is told with its number.
        even = np.abs(found - found[..., :1]).max(-1) <= 4 * doubt * np.abs(found[..., 0])
        for i, j in np.argwhere(even):
            for value, words in numbers.items():
                if abs(found[i, j, 0] - value) <= (8 * doubt + 1e-9) * abs(value):
                    times = (1 / value if i == ONE else value) * have[i] / want[j]
                    yield Quotient(int(i), int(j), words, first.spread_out(times))


def _times(block: Block, times: Array, words: str, cost: float, hint: str, free: int = 0) -> Proposal:
    with np.errstate(all="ignore"):
        predicted = np.where(np.abs(times) < POLE, block.numeric * times, np.nan)
        return Proposal(words, predicted, cost, hint, block.estimate * np.abs(times), free)


# -- digits that were lost: a gradient that passed through a smaller dtype --------------------------------------------


def precision(block: Block, mask: Array) -> Proposals:
    """Propose that entries are off by roundings of a smaller dtype, each by its own."""
    size = np.abs(block.numeric)
    whole = size[np.isfinite(size)].max(initial=0)
    parts = torch.from_numpy(np.ascontiguousarray(block.analytic).view(float))
    gap = np.abs(block.analytic - block.numeric)
    gap = gap[np.isfinite(gap)].max(initial=0)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        name, unit = str(dtype).removeprefix("torch."), torch.finfo(dtype).eps / 2
        if block.observation.eps >= unit:
            continue
        hint = f"compute in the dtype of the input; look for constants, buffers or conversions in {name}"
        if (block.wrong & mask).sum() > 1 and parts.equal(parts.to(dtype).double()) and not _are_few_bits(parts):
            words = f"is rounded to {name}: all its elements are {name} numbers"
            yield Proposal(words, block.numeric, 1.3, hint, spread=block.estimate + 4 * unit * whole)
        # A mistake could hide in the errors of smaller ones; and what is off by 1e-12 is more precise.
        if dtype is torch.float32 and gap >= unit * whole / 256:
            for cost, scale in ((5.5, size), (5.7, whole)):
                spread = block.estimate + unit * scale
                yield Proposal("has the precision of float32 only", block.numeric, cost, hint, spread)


def _are_few_bits(parts: torch.Tensor) -> bool:
    """Return True for numbers that every dtype holds, such as zeros and ones: nothing was rounded to them."""
    return parts.equal(parts.to(torch.float8_e5m2).double())


# -- functions that a factor of the chain rule may be, of the tensors around ------------------------------------------


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


CURVES: dict[str, tuple[Any, float]] = {
    "{}": (lambda x: x, 0.0),
    "{}^2": (lambda x: x * x, 0.1),
    "exp({})": (np.exp, 0.2),
    "cos({})": (np.cos, 0.2),
    "sin({})": (np.sin, 0.2),
    "(1 - {})": (lambda x: 1 - x, 0.2),
    "(1 - {}^2)": (lambda x: 1 - x * x, 0.2),
    "{} (1 - {})": (lambda x: x * (1 - x), 0.3),
    "sqrt({})": (np.sqrt, 0.3),
    "|{}|": (np.abs, 0.3),
    "sign({})": (np.sign, 0.3),
    "{}^3": (lambda x: x**3, 0.4),
    "{}^4": (lambda x: x**4, 0.8),
    "log({})": (np.log, 0.4),
    "(1 + {})": (lambda x: 1 + x, 0.4),
    "(1 + {}^2)": (lambda x: 1 + x * x, 0.4),
    "sqrt(1 - {}^2)": (lambda x: np.sqrt(1 - x * x), 0.5),
    "sqrt(1 + {}^2)": (lambda x: np.sqrt(1 + x * x), 0.5),
    "tanh({})": (np.tanh, 0.4),
    "(1 - tanh({})^2)": (lambda x: 1 - np.tanh(x) ** 2, 0.5),
    "sigmoid({})": (_sigmoid, 0.4),
    "sigmoid({}) (1 - sigmoid({}))": (lambda x: _sigmoid(x) * (1 - _sigmoid(x)), 0.5),
    "(1 + exp({}))": (lambda x: 1 + np.exp(x), 0.6),
    "exp({}^2)": (lambda x: np.exp(x * x), 0.5),
    "tan({})": (np.tan, 0.6),
    "{}^1.5": (lambda x: x**1.5, 0.6),
    "1": (np.ones_like, 0.0),
}
"""Name and function, and how far-fetched it is; inverses are tried as well."""
COSTS, ONE = [cost for _, cost in CURVES.values()], len(CURVES) - 1


class Source(NamedTuple):
    """Values of a tensor, one for each column or one for each row, and how far-fetched they are."""

    name: str
    values: Array
    rows: bool
    cost: float

    def curves(self) -> Array:
        """All functions of the values, ``(functions, values)``."""
        with np.errstate(all="ignore"):
            return np.stack([f(self.values) + 0 * self.values for f, _ in CURVES.values()])

    def label(self, curve: int) -> str:
        """A function of it, in words."""
        return list(CURVES)[curve].replace("{}", self.name)

    def spread_out(self, values: Array) -> Array:
        """Values like its own as they broadcast to a block."""
        return np.expand_dims(values, int(self.rows))


def sources(block: Block) -> Iterator[Source]:
    """All tensors that fit the columns or the rows, the input itself first."""
    seen = block.observation
    named = list[tuple[str, Array, float]]()
    for far, side in enumerate([block.input, *(s for s in seen.inputs if s is not block.input), *seen.outputs]):
        named.append((side.name, side.value, cost := 0.1 * min(far, 4)))
        if side.pairs:
            named.append((f"conj({side.name})", side.value.conj(), cost + 0.1))
            named.append((f"|{side.name}|", np.abs(side.value), cost + 0.2))
    for a, b in itertools.permutations(seen.inputs[:4], 2):
        with contextlib.suppress(ValueError):  # They do not broadcast.
            named.append((f"({a.name} - {b.name})", a.value - b.value, 0.8))
            named.append((f"({a.name} {b.name})", a.value * b.value, 0.9))
    for name, values, cost in named:
        for rows, shape, side in ((False, block.input_shape, block.input), (True, block.output_shape, block.output)):
            pairs = side.pairs and not block.folded
            if not (pairs and np.iscomplexobj(values)):
                with contextlib.suppress(ValueError):
                    flat = np.broadcast_to(values[..., None] if pairs else values, shape).ravel()
                    yield Source(name, flat, rows, cost + 0.05 * rows)
