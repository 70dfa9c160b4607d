"""Traits of a call in combination: each pair of them in some call, where derivatives are compared with differences.

Each call is looked at by a few cheap numbers; only where two of them disagree do the checks that judge them run.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Iterator

import torch
from torch import Tensor

from ... import _torch
from ...errors import DtypeError, KernelError
from ..baseline import baseline, distance, generator, signed
from ..case import Case, Linearization
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..generate.inputs import signature_of
from ..numeric.gradient import compare, is_right
from ..numeric.line import CLOSE, FINE, Line, factor, largest, near
from ..numeric.probe import Probe, is_smooth
from ..variations import (
    ALL_SIGNS,
    LARGE,
    MANY,
    MASKED,
    SHIFTED,
    TRAINED,
    fit_parameters,
    with_precision,
    with_sizes,
    with_values,
    within,
)
from ..work import affordable, tried
from .traits import (
    COMPLEX,
    DETACHED,
    FIRST,
    GRAPH,
    HOW,
    LAYOUT,
    ORDERS,
    ROWS,
    SHARED,
    TRAITS,
    TWICE,
    fits,
    forward_mode,
    passed,
    row_of,
    turned,
    twice,
)

Row = tuple[int, ...]
SLOW, ENOUGH, LONGEST = 0.02, 50_000, 7
"""Seconds of a slow call, elements of a large one, and the longest stride in which the rows are tried of such."""
ALL = 700
"""Calls that all rows take."""
SCALE = 2.0**-10
"""Part of the given outputs that others have at least where an accuracy is declared: solvers have absolute ones."""
PARTS = 4_000
"""Parts of a large call that are looked at, where it shows something."""
FAR = -10_000.0
"""A number that logits are masked with in the place of minus infinity."""
MOST = 3
"""Findings after which no other call is made."""


def combinations(case: Case) -> Iterator[Finding]:
    """Call with each pair of traits; what is wrong is told with as few of them as show it."""
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers")
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("sparse tensors have other values, sizes and layouts of their own")
    if base.narrow is not None:
        raise Skip("it computes in half precision, which shows little at other values")
    if not is_right(case):
        raise Skip("the gradient is wrong in the plain call already")
    calls, said, stride = Calls(case), set[str](), _stride(case)
    for row in (*FIRST, *ROWS)[::stride]:
        found = calls.look(row)
        if found is None or found.code in said:
            continue
        told = calls.told(*calls.reduced(row, found))
        yield told
        if told.severity is not Verdict.PASS:  # A notice does not stand for what is wrong in other calls.
            said.add(found.code)
        if len(said) == MOST:
            return
    yield from calls.of_complex_numbers("an axis of 1" if stride > 1 else "")


def not_made_for(case: Case) -> str:
    """The last words of a hint about arguments that nobody gave."""
    say = "declare its domain by @tg.domain" if case.target.kind == "operator" else "give `samples`"
    return f"if it is not made for them, {say}, or refuse them"


def _stride(case: Case) -> int:
    """Every which row takes seconds at most: 1, and more for a large case, one of much work, or one of 20 ms."""
    size = sum(tensor.numel() for tensor in (*case.primals, *baseline(case).outputs))
    start = time.thread_time()
    case.linearize()
    if time.thread_time() - start > SLOW:  # A kernel in C is no work that is counted.
        return LONGEST
    return math.ceil(min(max(size / ENOUGH, ALL / affordable(case, ALL)), LONGEST))


_OF_VALUES = (KernelError, torch.linalg.LinAlgError)  # type: ignore[attr-defined] # It is documented, not re-exported.
ROW_OF_ONES = row_of(cotangents="of ones")
"""A call whose upstream gradient is expanded."""
_WRONG = frozenset({Verdict.FAIL})
_LOST = _WRONG | {Verdict.LOSES_DIGITS}


class Calls:
    """Calls of one target, with traits; each is made once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.free = signature_of(case.target) is not None
        plain = case.linearize()
        self.own = case.is_own
        self._variants: dict[Row, tuple[Case, Linearization] | None] = {(0, 0, 0): (case, plain)}
        self._lines = dict[Row, Line]()
        self._found = dict[Hashable, Finding | None]()

    # -- the arguments of a row ------------------------------------------------------------------------------------

    def variant(self, row: Row) -> tuple[Row, Case]:
        """The case with the traits of a row that the target takes, and the row without the others.

        Traits that it refuses together are tried apart: sizes are left out first, then precision, then values.
        """
        values, _, sizes, precision, *_ = row
        for kept in ((1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
            chosen = tuple(a * b for a, b in zip((values, sizes, precision), kept, strict=True))
            made = self._known(chosen)
            if made is not None:
                break
        assert made is not None  # The plain variant is taken.
        values, sizes, precision = chosen
        return (values, row[1], sizes, precision, *row[4:]), made[0]

    def _known(self, chosen: Row) -> tuple[Case, Linearization] | None:
        if chosen not in self._variants:
            self._variants[chosen] = self._made(*chosen)
        return self._variants[chosen]

    def _made(self, values: int, sizes: int, precision: int) -> tuple[Case, Linearization] | None:
        """The case with these traits, and its forward pass; None where the target does not take them, or works long."""
        case = self.case
        try:
            if sizes:
                case = self._with_own_parameters(with_sizes(case, TRAITS["sizes"][sizes], free=self.free))
                if not fit_parameters(self.case, case):
                    return None
            if values:
                case = with_values(case, TRAITS["values"][values])
                if TRAITS["values"][values] not in TRAINED:
                    case = self._with_own_parameters(case)
            if precision:
                case = with_precision(case, TRAITS["precision"][precision])
            recorded = tried(case, given=self.case) if within(case) else None
        except Exception:
            return None
        if recorded is None:
            return None
        outputs = recorded.outputs
        taken = len(outputs) == len(baseline(self.case).outputs) and any(o.requires_grad for o in outputs)
        taken = taken and all(bool(o.isfinite().all()) and o.numel() for o in outputs)
        return (case, recorded) if taken and self._is_meant((values, sizes, precision), case, outputs) else None

    def _is_meant(self, chosen: Row, case: Case, outputs: list[Tensor]) -> bool:
        """Return False where outputs are too small to tell, or values are infinite, and no sum leaves them out."""
        values, *others = chosen
        given = largest(baseline(self.case).outputs)
        saturated = TRAITS["values"][values] == LARGE and largest(outputs) < torch.finfo(torch.float64).eps * given
        if saturated or (case.target.declared.error and largest(outputs) < SCALE * given):
            return False
        if TRAITS["values"][values] != MASKED:
            return True
        return self._known((values, 0, 0)) is not None if any(others) else _leaves_out(self.case, case, outputs)

    def _with_own_parameters(self, case: Case) -> Case:
        """The case with a module's own parameters: kernels that trust their module crash where they do not fit."""
        own, fixed = self.case.primals, self.case.parameters
        return case.replaced([own[i] if i in fixed else primal for i, primal in enumerate(case.primals)])

    def _line(self, row: Row) -> Line:
        key = row[:4]
        if key not in self._lines:
            made = self._variants[row[0], row[2], row[3]]
            assert made is not None
            self._lines[key] = Line(made[0], TRAITS["cotangents"][row[1]], made[1])
        return self._lines[key]

    # -- one call --------------------------------------------------------------------------------------------------

    def look(self, row: Row) -> Finding | None:
        """Make the call of a row, but for what was made of it for other rows; look closely where numbers disagree."""
        row, _ = self.variant(row)
        for key, probe in self._probes(row):
            if key not in self._found:
                self._found[key] = self._attempt(row, probe)
            if self._found[key] is not None:
                return self._found[key]
        return None

    def _probes(self, row: Row) -> Iterator[tuple[Hashable, Callable[[Row], Iterator[Finding]]]]:
        *_, arguments, mode, order = row
        yield row[:4], self._gradient
        if arguments or mode:
            yield row[:6], self._passed
        # The check `second order` knows what is meant beside a surrogate.
        if order and self.own and not self.case.target.declared.surrogates:
            shared = mode if TRAITS["mode"][mode] in SHARED else 0
            yield (self._in_double(row)[:4], order, shared, _is_turned(row)), self._order

    def _attempt(self, row: Row, probe: Callable[[Row], Iterator[Finding]]) -> Finding | None:
        try:
            return next(probe(row), None)
        except (Skip, Inconclusive):
            return None
        except Exception as error:
            if TRAITS["mode"][row[5]] == GRAPH:
                return None  # To refuse derivatives of the backward is right.
            if _is_turned(row) or row == ROW_OF_ONES:
                return None  # The checks of layouts tell what is refused there.
            strange = row[0] or row[2] or row[3]
            strange = strange or (probe == self._passed and not fits(self.variant(row)[1], TRAITS["arguments"][row[4]]))
            refused = row[3] and (isinstance(error, DtypeError) or "not implemented for" in str(error))
            # A kernel may refuse values. One tensor given twice has other values than the target was given.
            refused = refused or (isinstance(error, _OF_VALUES) and bool(strange or row[4]))
            if not self.own or refused or (strange and not self.free):
                return None  # Nobody asked for it, so that to raise is right.
            if self._has_one_backward():
                return None  # The check of what is freed tells it.
            return Finding(
                "backward-raises", Verdict.FAIL, f"The backward raises {type(error).__name__}", "the backward",
                cause=" ".join(str(error).split())[:160],
            )  # fmt: skip

    def _has_one_backward(self) -> bool:
        """Return True if the second backward of a call raises: the calls here have many."""
        recorded, cotangents = self.case.linearize(), baseline(self.case).cotangents
        with contextlib.suppress(Exception):
            for _ in range(2):
                recorded.vjp(cotangents)
            return False
        return True

    def _gradient(self, row: Row) -> Iterator[Finding]:
        line, plain = self._line(row), not any(row[:3])
        # Single is compared with double: a number of the backward that stays in single shows there.
        digits = line.double and not (row[0] or row[2]) and line.case is not self.case
        agrees = line.agrees(FINE if digits else CLOSE)
        if not agrees and (line.double or self._computes_the_same(row[3])):
            yield from self._meant(line.case, compare(line.case, line.dense), severities=_LOST if digits else _WRONG)
        elif line.double or not plain:
            return
        if self.own and not row[1] and not line.double:  # Tiny upstream gradients are 0 in float16.
            yield from _far_off(line, gaps=not agrees, multiples=plain)

    def _computes_the_same(self, precision: int) -> bool:
        """Return True if outputs in a precision are about those in double: drawn masks may be others."""
        made = self._known((0, 0, precision))
        line = None if made is None else Line(made[0], recorded=made[1])
        wide = None if line is None else line.wide()
        return wide is not None and line is not None and near(line.outputs, wide.outputs, line.epsilon**0.25)

    def _in_double(self, row: Row) -> Row:
        """The row in double precision, where it is taken: in others, differences show little of further orders."""
        for precision in (0, 1):
            made = self._known((row[0], row[2], precision))
            if made is not None and all(p.dtype in (torch.float64, torch.complex128) for p in made[0].primals):
                return (*row[:3], precision, *row[4:])
        return row

    def _order(self, row: Row) -> Iterator[Finding]:
        """Look at a derivative of another order: where the given call shows it as well, traits are not the cause."""
        line, mode = self._line(self._in_double(row)), TRAITS["mode"][row[5]]
        line, look = turned(line) if _is_turned(row) else line, ORDERS[TRAITS["order"][row[6]]]
        given = self._line(self._in_double((0,) * len(row)))
        with forward_mode(mode if mode in SHARED else ""):
            found = self._order_of(line, look)
            if found and line is not given and any(finding.severity is Verdict.FAIL for finding in look(given)):
                found = self._order_of(given, look)
        yield from found

    def _order_of(self, line: Line, look: Callable[[Line], Iterator[Finding]]) -> list[Finding]:
        found = list(self._meant(line.case, look(line), smooth=line.case is not self.case))
        if not found:  # The scale is dear.
            return []
        least = 64 * line.epsilon * max(baseline(line.case).gradient_scale)
        return [finding for finding in found if finding.error is None or not finding.error <= least]

    def _meant(
        self, case: Case, found: Iterator[Finding], *, smooth: bool = False, severities: frozenset[Verdict] = _WRONG
    ) -> Iterator[Finding]:
        """Findings of some severities that are a defect of the target, at arguments where numbers tell something.

        Next to a singular matrix nothing is right or wrong; where a function has a kink, forward and reverse mode may
        take the slopes of different sides, and a NaN of torch's own derivative there is torch's.
        """
        with contextlib.suppress(Skip, Inconclusive):
            for finding in found:
                lost = finding.error is not None and math.isnan(finding.error)
                if finding.severity not in severities:
                    continue
                if lost:
                    meant = (self.own or not (smooth or case.target.is_torch)) and is_smooth(case)
                elif finding.code == "nan-gradient":
                    meant = (self.own and continuous(case)) or (not case.target.is_torch and is_smooth(case))
                    meant = meant and (self.own or not _decomposes(case))
                else:
                    meant = baseline(case).conditioned and (not smooth or is_smooth(case))
                if meant:
                    yield finding

    def _passed(self, row: Row) -> Iterator[Finding]:
        """Pass the same numbers in another way, and in a mode."""
        line, arguments, mode = self._line(row), TRAITS["arguments"][row[4]], TRAITS["mode"][row[5]]
        if arguments in (TWICE, DETACHED):
            recorded = tried(twice(line.case), given=self.case)
            if recorded is None:
                raise Skip("it refuses the values of one for the other")
            line = Line(twice(line.case), TRAITS["cotangents"][row[1]], recorded)
        found, expected, least = passed(line, arguments, mode), line.gradients, _least(line, mode)
        finite = all(bool(g.isfinite().all()) for g in expected if g is not None)
        if near(found, expected, least) or not finite or not baseline(line.case).conditioned:
            return
        # Large values have no digits behind the point in bfloat16: what they saturate is another number there.
        saturated = TRAITS["values"][row[0]] == LARGE
        if "autocast" in mode and (saturated or not _steady(line, torch.finfo(torch.bfloat16).eps)):
            return
        base, explained = baseline(line.case), least * largest(expected)
        if arguments == TWICE:  # The gradient of one is what the sum leaves without that of the other.
            explained = max(explained, 4 * max(base.gradient_slack))
        for difference in base.differing_gradients(found, expected, times=4.0):
            if difference.error > explained:
                yield difference.finding(
                    "gradient-of-the-call", "The gradient depends on how the function is called", difference.name,
                    cause=HOW.get(mode) or HOW.get(arguments),
                )  # fmt: skip

    def of_complex_numbers(self, sizes: str) -> Iterator[Finding]:
        """Tell whether the gradient is right for complex tensors, where real ones are given and both are taken.

        It is a notice where none of those given is complex. Other sizes are for what takes long at those given.
        """
        given = [primal.is_complex() for primal in self.case.primals]
        if not self.own or self.case.target.kind == "module" or all(given):
            return
        row, case = self.variant(row_of(sizes=sizes, precision=TRAITS["precision"][COMPLEX]))
        with contextlib.suppress(Exception):  # To refuse them is right.
            if not row[3] or self._line(row).agrees():
                return
            title = "It takes complex tensors, for which its gradient is wrong"
            hint = "multiply by the conjugate, such as grad * x.conj(), or refuse complex tensors"
            severity = Verdict.FAIL if any(given) else Verdict.PASS
            for found in compare(case):
                if found.severity is Verdict.FAIL:
                    found = found.but(code="wrong-for-complex", severity=severity, title=title, hint=hint)
                    short = severity is Verdict.PASS
                    yield found.but(analytic=None, numeric=None, error=None, estimate=None) if short else found

    # -- what is told ----------------------------------------------------------------------------------------------

    def reduced(self, row: Row, found: Finding) -> tuple[Row, Finding]:
        """The row with as few traits as show the finding."""
        row, _ = self.variant(row)
        for place in range(len(row)):
            smaller = (*row[:place], 0, *row[place + 1 :])
            again = self.look(smaller) if row[place] else None
            if again is not None and again.code == found.code:
                row, found = smaller, again
        return self.variant(row)[0], found

    def told(self, row: Row, finding: Finding) -> Finding:
        """The finding, with the traits that it needs."""
        case, first = self.variant(row)[1], finding.where.partition(";")[0]
        parts = {name: TRAITS[name][place] for name, place in zip(TRAITS, row, strict=True) if place}
        part = part_of(self.case, case) if parts.get("sizes") == MANY and parts.keys() <= {"values", "sizes"} else None
        if part is not None:  # That there are many elements is not the cause.
            (case, finding), parts = part, {"values": "some values"}
        if "cotangents" in parts:
            parts["cotangents"] = f"upstream gradients {parts['cotangents']}"
        nobody_gave = {"values": "values", "sizes": "sizes", "precision": "a precision"}
        strange = [words for dimension, words in nobody_gave.items() if dimension in parts]
        title = finding.title + (f", at {' and '.join(strange)} you did not give" if strange else "")
        # The check of sizes names it so.
        code = f"{finding.code}-at-size" if parts.keys() == {"sizes"} else finding.code
        # The first part tells that another check has found the same.
        where = "; ".join([first, *parts.values(), case.label])
        cause = f"only with {' and '.join(parts.values())}" if parts else None
        hint = finding.hint
        if strange:
            hint = "; ".join(filter(None, [hint, not_made_for(case)]))
        cause = "; ".join(filter(None, [cause, finding.cause])) or None
        given = self.free or not strange
        # A product of 300 and 300 is too large for float16, and rounded by 256 in bfloat16: right functions fail there.
        beyond = parts.get("values") == LARGE and parts.get("precision") in ("float16", "bfloat16")
        maybe_a_scale = parts.get("values") == ALL_SIGNS
        # Of derivatives of torch's own, two things at once that nobody gave are nobody's matter.
        far_fetched = not self.own and len(strange) > 1
        # An exponential of 8,000 is infinite, and torch's own derivative NaN.
        infinite = not self.own and finding.code == "nan-gradient" and parts.get("values") in (LARGE, SHIFTED)
        notice = beyond or maybe_a_scale or far_fetched or infinite
        severity = Verdict.PASS if notice else finding.severity
        return finding.but(
            code=code, title=title, where=where, cause=cause, hint=hint, given=given, case=case, severity=severity
        )


def part_of(given: Case, larger: Case) -> tuple[Case, Finding] | None:
    """Return the case of the given sizes, with a part of the numbers of a larger one, in which a gradient is wrong.

    A square matrix may have to be symmetric, which its parts are not.
    """
    shapes = [primal.shape for primal in given.primals]
    numbers = [primal.flatten() for primal in larger.primals]
    length = max(shape.numel() for shape in shapes)
    empty = any(not primal.numel() for primal in (*given.primals, *larger.primals))
    if empty or any(len(s) > 1 and s[-1] == s[-2] for s in shapes):
        return None
    for start in range(0, max(map(len, numbers)), length)[: affordable(given, PARTS)]:
        places = [(start + torch.arange(shape.numel())) % len(n) for n, shape in zip(numbers, shapes, strict=True)]
        rows = zip(numbers, places, shapes, strict=True)
        case = given.replaced([n[at.to(n.device)].view(shape) for n, at, shape in rows])
        with contextlib.suppress(Exception):
            finding = None if Line(case).agrees() else next(compare(case), None)
            if finding is not None and finding.severity is Verdict.FAIL:
                return case, finding
    return None


MULTIPLE = 8
"""Epsilons by which a gradient may be a multiple of what it is in more digits."""
DECOMPOSITIONS = ("LinalgEig", "LinalgSvd", "LinalgQr")
"""Beginnings of names of torch's nodes."""
DIGITS_HINT = "compute in more digits, and convert the gradient at the end; or avoid the cancellation"


def _is_turned(row: Row) -> bool:
    """Return True if derivatives of other orders are taken where arguments lie in another order of memory."""
    return TRAITS["arguments"][row[4]] == LAYOUT and not any(row[:4])


def _decomposes(case: Case) -> bool:
    """Return True if torch differentiates eigenvectors or singular vectors: it has no derivative where values agree."""
    nodes = _torch.nodes_in_graph(case.linearize().outputs)
    return any(node.name().startswith(DECOMPOSITIONS) for node in nodes)


def _leaves_out(case: Case, masked: Case, outputs: list[Tensor]) -> bool:
    """Return True if masked elements count as nothing, very negative ones too, and are not left alone by all others.

    A sum of powers has a limit at infinity as well, and no mask is made for it.
    """
    kept = masked.primals[0].isfinite()
    rows = zip(outputs, baseline(case).outputs, strict=True)
    if all(a.shape == b.shape == kept.shape and torch.equal(a[kept], b[kept]) for a, b in rows):
        return False
    far = tried(masked.replaced([primal.clamp(min=FAR) for primal in masked.primals]), given=case)
    return far is not None and near(far.outputs, outputs, 64 * torch.finfo(outputs[0].dtype).eps)


def _far_off(line: Line, *, gaps: bool, multiples: bool) -> Iterator[Finding]:
    """Look for gradients in few digits that are far from those in double precision, where the values are near.

    Args:
        line: in few digits.
        gaps: look for elements that are far off.
        multiples: look for a multiple of the gradient, to which rounding errors of the elements do not add up.
    """
    wide = line.wide()
    close = max(64 * line.epsilon, line.epsilon**0.5)  # Right values lose digits too, as where a mean is subtracted.
    if wide is None or not near(line.outputs, wide.outputs, close) or not wide.agrees():
        return
    for name, found, expected in zip(line.case.names, line.gradients, wide.gradients, strict=True):
        gap, size, multiple = distance(found, expected), largest([expected]), factor(found, expected)
        far = gaps and gap > size / 8
        far = far or (multiples and abs(multiple - 1) > max(MULTIPLE * line.epsilon, 2.0**-10))
        dtype = max((primal.dtype for primal in line.primals), key=lambda dtype: torch.finfo(dtype).eps)
        # A smaller gradient may be a difference of numbers as large as upstream gradients.
        if far and size / 8 > 8 * line.epsilon * largest(line.cotangents) and _steady(line, line.epsilon):
            cause, hint = "a number of the backward overflows, or is nothing but rounding", DIGITS_HINT
            if near([found], [None if expected is None else multiple * expected], MULTIPLE * line.epsilon):
                cause, hint = (
                    f"it is {multiple:.3g} times the gradient in double precision",
                    "compute the same in every dtype",
                )
            yield Finding(
                "wrong-gradient", Verdict.FAIL, f"The gradient of `{name}` is far off in {str(dtype)[6:]}", f"`{name}`",
                found, expected, gap, size / 8, cause=cause, hint=hint,
            )  # fmt: skip
            return


def _steady(line: Line, epsilon: float) -> bool:
    """Return True if gradients stay where arguments are rounded to an epsilon.

    So are numbers that they are added to, which are about 1, where the values do not tell an argument from zeros.
    """
    wide = line if line.double else line.wide()
    if wide is None:
        return True
    source, primals = generator(wide.case, 99), line.primals

    def added(place: int) -> float:
        with contextlib.suppress(Exception):
            without = [0 * p if i == place else p for i, p in enumerate(primals)]
            return float(near(line.case.values(without), line.outputs, 8 * line.epsilon))
        return 0.0

    sizes = [added(i) + p.abs() for i, p in enumerate(wide.primals)]
    for _ in range(2):
        moved = [p + epsilon * size * signed(p, source) for p, size in zip(wide.primals, sizes, strict=True)]
        try:
            found = wide.case.linearize(moved).vjp(wide.cotangents)
        except Exception:
            return False
        if not all(near([a], [b], 1 / 8) for a, b in zip(found, wide.gradients, strict=True)):
            return False
    return True


def continuous(case: Case) -> bool:
    """Return True if values nearby are near: where the rank of a matrix falls they may not be, and no slope exists."""
    probe, epsilon = Probe(case), max(torch.finfo(primal.dtype).eps for primal in case.primals)
    source, step = generator(case, 99), max(2.0**-20, 8 * epsilon)
    beside = (probe.at(probe.point + step * probe.direction(source)) for _ in range(4))
    return all(near([values], [probe.values], 2.0**-10 + 64 * epsilon) for values in beside)


def _least(line: Line, mode: str) -> float:
    """The part of the largest gradient that rounding may change: under autocast single precision has no more digits."""
    if "autocast" not in mode or line.double:
        return 256 * line.epsilon
    return max(256 * line.epsilon, 0.1 * max(1.0, line.scale / (largest(line.gradients) or 1.0)))
