"""The digits of the values: between neighbouring arguments, in single precision far from zero, and of integers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ... import _torch
from ..baseline import FEW_ULPS, baseline, distance
from ..case import Case
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..generate.inputs import signature_of
from ..numeric.ladder import SINGLE
from ..numeric.line import largest
from ..numeric.pairing import PRECISE
from ..numeric.probe import Probe, in_double
from ..numeric.vectors import flatten
from ..variations import nearby, with_precision, with_wide_integers, within
from ..work import STEPS, WORK
from .combinations import not_made_for
from .ways import Words

# -- between neighbouring arguments ------------------------------------------------------------------------------------

SPACINGS, POINTS = (2.0**-6, 2.0**-10, 2.0**-14), 7
"""Distances of the neighbours that are looked at, and how many there are on each line.

The first is for tolerances, which make few jumps. A dtype makes one next to each number.
"""

HALVINGS = 32
"""After so many a function without a jump has the same value at both ends, but for its rounding."""

IN_SINGLE = (2.0**-26, 2.0**-20)
"""The part of the largest value by which one jumps that float32 holds; more where some are added."""

At = Callable[[float], Tensor]


def values(case: Case) -> Iterator[Finding]:
    """Look for a jump between neighbours, and narrow it down: what is continuous has none, however steep it is.

    A jump that is much larger than what is admitted belongs to the function, such as the count of an event. Then look
    in single precision: at the dtype of the outputs, and far from zero. Last, in bfloat16 with large integers.

    Raises:
        Skip: the dtype has so few digits that its own steps are as large, or there are no values.
    """
    probe = Probe(case)
    if not len(probe.values):
        raise Skip("the outputs have no elements")
    lost = ~probe.values.isfinite()
    if lost.any():
        yield Finding(
            "values-not-finite", Verdict.PASS, f"{int(lost.sum())} of {len(lost)} values are infinite or NaN",
            f"the arguments; {case.label}", cause="they have no derivative, and nothing was compared there",
            hint="give arguments at which all values are finite",
        )  # fmt: skip
    if baseline(case).narrow is not None and not probe.declared.error:
        yield _narrow(case)
        return
    declared, rounding = probe.declared.error, torch.finfo(torch.float64).eps
    if not declared and probe.grid.digits < SINGLE:
        raise Skip("half precision itself goes in steps")
    accuracy = declared or probe.grid.epsilon**PRECISE
    size = torch.ones_like(probe.values)
    for place in probe.outputs.slices:
        finite = probe.values[place][probe.values[place].isfinite()].abs()
        size[place] = float(finite.max()) if finite.any() else 1.0
    for at, spacing, line in _lines(probe, SPACINGS if declared else SPACINGS[1:]):
        if not (line.diff(n=POINTS - 1, dim=0).abs() / size).nan_to_num(posinf=0).max() > accuracy:
            continue  # It is smooth: differences of a high order fade.
        bends = (line.diff(n=2, dim=0).abs() / size).nan_to_num(posinf=0)
        start, element = divmod(int(bends.argmax()), bends.shape[1])
        jump, beside = _jump(at, (start + 1) * spacing, (start + 3) * spacing, element)
        part = jump / float(size[element])
        if 4 * accuracy + 64 * rounding < part < accuracy**0.5 and jump > 4 * beside:
            yield _finding(case, part, accuracy, declared)
            return
    if case.is_own:
        yield from _in_few_digits(case)
        yield from _rounded_integers(case)


def _lines(probe: Probe, spacings: Sequence[float]) -> list[tuple[At, float, Tensor]]:
    """Values on a line from the point, and on how to take more of them; one line for each spacing.

    A line goes along a direction, its opposite, or towards zero: the first along which the target takes all points.
    It takes none where the spacing leads out of a domain, or to outputs of another size.

    Raises:
        Inconclusive: there is no line for any spacing.
    """
    drawn = probe.direction(torch.Generator().manual_seed(probe.case.seed))
    lines: list[tuple[At, float, Tensor]] = []
    for spacing in spacings:
        for direction in (drawn, -drawn, -drawn.abs() * probe.point.sign()):
            at = partial(_at, probe, direction)
            with contextlib.suppress(Exception):
                lines.append((at, spacing, torch.stack([at(i * spacing) for i in range(1, POINTS + 1)])))
                break
    if not lines:
        raise Inconclusive("it refuses arguments next to these")
    return lines


def _at(probe: Probe, direction: Tensor, step: float) -> Tensor:
    return probe.at(probe.point + step * direction)


def _finding(case: Case, part: float, accuracy: float, declared: float) -> Finding:
    cause = "the kernel's own tolerance is larger: it takes another number of steps, or rounds on the way"
    hint = f"make the kernel's tolerance smaller, or declare accuracy={10 * part:.0e}"
    if IN_SINGLE[0] < part < IN_SINGLE[1]:
        cause = "a number on the way is float32, such as an accumulator that is a float of C"
        hint = f"compute in the dtype of the arguments, or declare accuracy={10 * part:.0e}"
    admitted = f"accuracy={accuracy:g} is declared" if declared else "their dtype has more digits"
    return Finding(
        "values-jump", Verdict.LOSES_DIGITS, f"The values jump by {part:.1g} of the largest, and {admitted}",
        f"next to the arguments; {case.label}", error=part, estimate=4 * accuracy, cause=cause, hint=hint,
    )  # fmt: skip


def _narrow(case: Case) -> Finding:
    narrow = baseline(case).narrow
    assert narrow is not None
    dtypes = " and ".join(sorted({str(primal.dtype).removeprefix("torch.") for primal in case.primals}))
    accuracy = FEW_ULPS * torch.finfo(narrow).eps
    title = f"It computes in {str(narrow).removeprefix('torch.')}, and its arguments are {dtypes}"
    return Finding(
        "values-jump", Verdict.LOSES_DIGITS, title, case.label,
        cause="a conversion on the way, or autocast; other values were not tried",
        hint=f"compute in {dtypes}; if fewer digits are meant, declare accuracy={accuracy:.0e}",
    )  # fmt: skip


def _jump(at: At, low: float, high: float, element: int) -> tuple[float, float]:
    """Halve an interval again and again; the half is kept in which an element changes most.

    Returns:
        by how much it changes in the last one, and at most in its neighbours, where a steep function changes as much.
    """

    def value(step: float) -> float:
        return float(at(step)[element])

    left, right = value(low), value(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        between = value(middle)
        if abs(between - left) > abs(right - between):
            high, right = middle, between
        else:
            low, left = middle, between
    beside = max(abs(left - value(2 * low - high)), abs(value(2 * high - low) - right))
    return abs(right - left), beside


# -- in single precision, far from zero and next to it -----------------------------------------------------------------

FAR = 4096.0
"""Numbers that are so many times their differences lose all of float32's digits where they are squared."""
OVERFLOWS = 1e30
"""Numbers that float32 may not hold, or those that they are made of; and one over it."""
BIG = (30, 300)
"""The largest of numbers whose exponentials overflow in float32, or become as good as 0."""
TINY = 2.0**-30
"""Numbers so small that 1 is as much as 1 + x in float32."""


def _in_few_digits(case: Case) -> Iterator[Finding]:
    """Look what is lost in single precision where numbers are large, beside their differences too, or tiny.

    What changes as much where the arguments are rounded is no defect, nor is what differs at the given numbers. Of
    torch's own operations nothing is asked.
    """
    if {primal.dtype for primal in case.primals} not in ({torch.float64}, {torch.float32}):
        return
    given = _in_single(case)
    if given == "wide":
        yield WIDE.at(f"arguments in float32; {case.label}")
    slight: Finding | None = None
    for words, other in _elsewhere(case) if given == "near" else ():
        found = _in_single(other)
        if found not in ("far off", "not numbers", "infinite"):
            continue
        finding = Finding(
            words.code, Verdict.PASS if found == "far off" else Verdict.FAIL,
            f"The outputs are {found} in float32, at values you did not give", f"{words.where}; {case.label}",
            cause=words.cause, hint=f"{words.hint}; {not_made_for(case)}", given=signature_of(case.target) is not None,
        )  # fmt: skip
        slight = slight or finding
        if finding.severity is Verdict.FAIL:
            slight = finding
            break
    if slight is not None:
        yield slight


def _elsewhere(case: Case) -> Iterator[tuple[_Lost, Case]]:
    """The case with numbers that show what is lost, and words for it; a module's parameters stay."""
    primals, fixed = case.primals, case.parameters
    main = max(range(len(primals)), key=lambda i: primals[i].numel())

    def moved(change: Callable[[Tensor], Tensor], places: Container[int] = range(len(primals))) -> Case:
        return case.replaced([change(p) if i in places and i not in fixed else p for i, p in enumerate(primals)])

    yield FAR_AWAY, moved(lambda p: p + FAR * largest([p]))
    yield FAR_AWAY, moved(lambda p: p + FAR * largest([p]), [main])
    yield TOO_NEAR, moved(lambda p: p * TINY)
    for size in BIG:
        yield TOO_LARGE._replace(where=f"numbers of up to {size}"), moved(partial(_at_most, size))


def _at_most(size: float, x: Tensor) -> Tensor:
    return x * (size / (largest([x]) or 1.0))


class _Lost(NamedTuple):
    """Words for numbers at which digits are lost."""

    code: str
    where: str
    cause: str
    hint: str


FAR_AWAY = _Lost(
    "values-cancel",
    f"numbers {FAR:.0f} times as large as their differences",
    "digits cancel: a difference of large numbers that are nearly equal, as E[x^2] - E[x]^2 is",
    "take the differences first, such as x - x.mean(), or compute it in double precision",
)
TOO_NEAR = _Lost(
    "values-cancel",
    "numbers 2^-30 times as large",
    "digits cancel: what is added to 1 and taken off again is lost, as in 1 - exp(-x) or sqrt(1 + x) - 1",
    "use torch.expm1, torch.log1p, or a form without the difference",
)
TOO_LARGE = _Lost(
    "values-overflow",
    "",
    "on the way a number overflows, as exp(300) does, or becomes 0, whose logarithm is infinite",
    "use functions that do not, such as softplus, logsumexp, log_softmax or log_ndtr, or take off the maximum first",
)


WIDE = Words(
    "output-dtype", "The output is float64 for arguments in float32",
    "NumPy, SciPy or a constant made it wider", "convert the result: .to(x.dtype)", Verdict.PASS,
)  # fmt: skip


def _in_single(case: Case) -> Literal["near", "far off", "infinite", "not numbers", "wide", ""]:
    """Compare outputs in single precision with those in double precision, where these tell something."""
    single = with_precision(case, "another precision") if case.primals[0].dtype == torch.float64 else case
    wide = single.with_leaves([in_double(leaf) for leaf in single.leaves])
    try:
        if not within(wide):
            return ""
        with torch.set_grad_enabled(torch.is_grad_enabled()), _torch.Effort(WORK, STEPS):
            found, expected = single.values(), wide.values()
            rounded = [wide.values(nearby(wide, salt, torch.finfo(torch.float32).eps)) for salt in range(2)]
    except (Exception, _torch.TooMuch):
        return ""
    pairs, size = list(zip(found, expected, strict=True)), largest(expected)
    if not 1 / OVERFLOWS < size < OVERFLOWS or any(a.shape != b.shape or not b.numel() for a, b in pairs):
        return ""
    if any(a.dtype == b.dtype for a, b in pairs):
        return "wide" if all(b.dtype == torch.float64 for _, b in pairs) else ""
    gap = max(float((a - b).abs().minimum((a + b).abs()).max()) for a, b in pairs)  # Eigenvectors have any sign.
    if math.isnan(gap):
        return "not numbers" if size <= largest(wide.primals) else ""
    if math.isinf(gap):
        return "infinite"
    explained = 64 * max(distance(a, b) for row in rounded for a, b in zip(row, expected, strict=True))
    return "near" if gap <= max(explained, size / 2) else "far off"


# -- integers beside numbers with few digits ---------------------------------------------------------------------------


def _rounded_integers(case: Case) -> Iterator[Finding]:
    """Look whether integers that bfloat16 does not hold are rounded to it, where the other tensors are bfloat16.

    What changes as much where the other tensors are rounded is no defect, nor is what differs at the given integers.
    """
    for name, wide in with_wide_integers(case):
        with contextlib.suppress(Exception):  # It may refuse bfloat16, or such numbers.
            given, narrow = (with_precision(one, "bfloat16") for one in (case, wide))
            if _apart(given) or not (gap := _apart(narrow)) or not within(narrow):
                continue
            yield Finding(
                "integers-rounded", Verdict.FAIL, f"With `{name}` above 256 the outputs are far off in bfloat16",
                f"integers above 256; {narrow.label}", error=gap, estimate=1 / FAR_OFF,
                cause=f"`{name}` is converted to the dtype of another argument, which rounds it: 511 becomes 512",
                hint=f"compute with `{name}` in double precision, and convert the result",
            )  # fmt: skip


FAR_OFF = 8
"""One in so many: the part of the largest value that a value is far off by."""


def _apart(narrow: Case) -> float:
    """By which part of the largest value outputs are others than in double precision; 0 where rounding explains it."""
    wide = narrow.with_leaves([in_double(leaf) for leaf in narrow.leaves])
    epsilon = max(torch.finfo(primal.dtype).eps for primal in narrow.primals)
    expected = flatten(wide.values())
    rounded = [flatten(wide.values(nearby(wide, salt, epsilon))) for salt in range(2)]
    gap, explained = largest([flatten(narrow.values()) - expected]), max(largest([r - expected]) for r in rounded)
    size = largest([expected])
    return gap / size if gap > max(size / FAR_OFF, FAR_OFF * explained) else 0.0
