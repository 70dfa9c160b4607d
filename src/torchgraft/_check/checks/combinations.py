"""Traits of a call in combination: each pair of them in some call, where derivatives are compared with differences.

A call has seven dimensions: values, upstream gradients, sizes, precision, what is passed, the mode, the derivative that
is taken. The rows of a covering array have each pair of traits in some call. Each is looked at by one cheap number;
only where two numbers disagree do the checks that judge them run.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ... import _torch
from ..baseline import Value, baseline, distance, generator, signed
from ..case import Case, Linearization
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..generate.inputs import signature_of
from ..numeric.gradient import compare, is_right
from ..numeric.probe import Probe, in_double
from ..numeric.vectors import flatten
from ..serial import threads
from ..variations import SHAPES, VALUES, admitted, nearby, with_precision, with_sizes, with_values, within
from .layouts import lazy, parameters, strided
from .orders import backward_case, push, second_order, tangents
from .vmap import mapped

# -- the dimensions and their traits; the first of each is the plain one -----------------------------------------------

TRAITS: dict[str, tuple[str, ...]] = {
    "values": ("", *VALUES),
    "cotangents": ("", "that sum to zero", "that are tiny", "with one element", "of ones", "of zeros"),
    "sizes": ("", *SHAPES),
    "precision": ("", "another precision", "bfloat16"),
    "arguments": ("", "one tensor twice", "views", "parameters", "another layout"),
    "mode": (
        "",
        "deterministic algorithms and anomaly detection",
        "autocast in the backward",
        "another number of threads",
        "the graph of the backward",
        "a checkpoint",
    ),
    "order": ("", "second order", "third order", "forward mode", "vmap", "vmap of vmap", "forward over reverse"),
}

_STORED = """
0000000 4411245 2522103 6550351 1121320 3231012 7130444 1360115 7012316 6462024 0142232 5301453 5252140 2200226
2061431 3440333 1541046 4332121 3351204 3022455 5510422 0211154 6241405 7561250 4150013 5420211 7402132 1432456
4260302 6322036 6030243 5532335 5160106 2342342 2111055 4502314 3101041 4042410 0450425 1050232 5040124 1210301
6312130 7220023 0360343 2431100 7340451 4220034 3560120 0521111 6122012 2051214 7350305 4552256 3311113 3121446
0331052 1000034 6000115 1111003 0302046 5521045
"""
ROWS = tuple(tuple(map(int, row)) for row in _STORED.split())
"""Calls that have each pair of traits, made by `benchmarks/covering.py`; the first is plain."""

OWN = ("operator", "function", "library")
"""Kinds of targets whose derivatives are no one else's."""

Row = tuple[int, ...]
STRANGE = tuple(list(TRAITS).index(name) for name in ("values", "sizes", "precision"))
"""Places in a row of what changes the arguments."""
SLOW, ENOUGH, FEWEST = 0.02, 50_000, 12
"""Seconds of a slow call, elements of a large one, and the rows that are tried of such."""
WORK = 3_000_000
"""Elements that torch may compute in a call with other arguments, where each operation counts as a thousand."""
MOST = 3
"""Findings after which no other call is made."""
STEP = 2.0**-9
"""Of the differences, in units of each tensor."""
CLOSE = 1e-6
"""The relative deviation of a number that is looked at closely."""


def combinations(case: Case) -> Iterator[Finding]:
    """Call with each pair of traits; what is wrong is told with as few of them as show it."""
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers")
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("sparse tensors have other values, sizes and layouts of their own")
    if not is_right(case):
        raise Skip("the gradient is wrong in the plain call already")
    calls, said = _Calls(case), set[str]()
    for row in ROWS[: _affordable(case)]:
        found = calls.look(row)
        if found is None or found.code in said:
            continue
        said.add(found.code)
        yield calls.told(*calls.reduced(row, found))
        if len(said) == MOST:
            return


def _affordable(case: Case) -> int:
    """The number of rows that take seconds: fewer for a large case, or one that takes 20 ms."""
    size = sum(tensor.numel() for tensor in (*case.primals, *baseline(case).outputs))
    start = time.perf_counter()
    case.linearize()
    slow = time.perf_counter() - start > SLOW
    return max(FEWEST, len(ROWS) * ENOUGH // max(size, ENOUGH)) if not slow else FEWEST


class _Calls:
    """Calls of one target, with traits."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.free = signature_of(case.target) is not None
        nodes = _torch.nodes_in_graph(case.linearize().outputs)
        self.own = case.target.kind in OWN or any(
            isinstance(node, torch.autograd.function.FunctionCtx) for node in nodes
        )
        self._variants = dict[Row, Case | None]()

    # -- the arguments of a row ------------------------------------------------------------------------------------

    def variant(self, row: Row) -> tuple[Row, Case]:
        """The case with the traits of a row that the target takes, and the row without the others.

        Traits that it refuses together are tried apart: sizes are left out first, then precision, then values.
        """
        values, _, sizes, precision, *_ = row
        for kept in ((1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
            chosen = tuple(a * b for a, b in zip((values, sizes, precision), kept, strict=True))
            if chosen not in self._variants:
                self._variants[chosen] = self._made(*chosen)
            made = self._variants[chosen]
            if made is not None:
                break
        assert made is not None  # the plain one is taken
        values, sizes, precision = chosen
        return (values, row[1], sizes, precision, *row[4:]), made

    def _made(self, values: int, sizes: int, precision: int) -> Case | None:
        """The case with these traits; None where the target does not take them, or draws random numbers."""
        case = self.case
        try:
            if sizes:
                case = self._with_own_parameters(with_sizes(case, TRAITS["sizes"][sizes], free=self.free))
            if values:
                case = self._with_own_parameters(with_values(case, TRAITS["values"][values]))
            if precision:
                case = with_precision(case, TRAITS["precision"][precision])
            if case is self.case:
                return case
            taken = within(case)
            with _torch.Effort(WORK):
                recorded = case.linearize()
                outputs = recorded.outputs
                with contextlib.suppress(RuntimeError, ValueError, TypeError, IndexError):  # which is for later
                    recorded.pull([torch.zeros_like(o) if o.requires_grad else None for o in outputs])
            taken = taken and len(outputs) == len(baseline(self.case).outputs)
            taken = taken and all(bool(o.isfinite().all()) and o.numel() for o in outputs)
            return case if taken and any(o.requires_grad for o in outputs) else None
        except (Exception, _torch.TooMuch):
            return None

    def _with_own_parameters(self, case: Case) -> Case:
        """The case with a module's own parameters: kernels that trust their module crash where they do not fit."""
        own, fixed = self.case.primals, parameters(self.case)
        return case.replaced([own[i] if i in fixed else primal for i, primal in enumerate(case.primals)])

    # -- one call --------------------------------------------------------------------------------------------------

    def look(self, row: Row) -> Finding | None:
        """Make the call of a row; look closely where something disagrees."""
        row, case = self.variant(row)
        trait = {dimension: TRAITS[dimension][place] for dimension, place in zip(TRAITS, row, strict=True)}
        try:
            return next(self._looks(case, trait), None)
        except (Skip, Inconclusive):
            return None
        except Exception as error:
            if not self.own or (any(row[place] for place in STRANGE) and not self.free):
                return None  # to raise is right where nobody asked for it
            return Finding(
                "backward-raises", Verdict.FAIL, f"The backward raises {type(error).__name__}", "the backward",
                cause=" ".join(str(error).split())[:160],
            )  # fmt: skip

    def _looks(self, case: Case, trait: dict[str, str]) -> Iterator[Finding]:
        line = _Line(case, trait["cotangents"])
        if not line.agrees():
            yield from self._meant(case, compare(case, flatten(line.dense)))
        yield from self._passed(line, trait)
        if self.own and not case.target.declared.surrogates:  # of which the check `second order` knows what is meant
            with _forward_mode(trait["mode"]):
                yield from self._meant(case, ORDERS[trait["order"]](line), smooth=case is not self.case)

    def _meant(self, case: Case, found: Iterator[Finding], *, smooth: bool = False) -> Iterator[Finding]:
        """Findings that are a defect of the target, at arguments where numbers tell something.

        The NaN of torch's own derivative at a kink is torch's; next to a singular matrix nothing is right or wrong; and
        where a function has a kink, forward and reverse mode may take the slopes of different sides.
        """
        with contextlib.suppress(Skip, Inconclusive):
            for finding in found:
                lost = finding.error is not None and math.isnan(finding.error)
                if finding.severity is not Verdict.FAIL or lost or ("nan" in finding.code and not self.own):
                    continue
                if finding.code == "nan-gradient" or (_conditioned(case) and (not smooth or _smooth(case))):
                    yield finding

    def _passed(self, line: _Line, trait: dict[str, str]) -> Iterator[Finding]:
        """Pass the same numbers in another way, and in a mode."""
        how = trait["arguments"], trait["mode"]
        expected, found = line.gradients, _pulled(line, *how)
        if trait["arguments"] == "one tensor twice" and found is not None:
            line = _Line(_twice(line.case), trait["cotangents"])
            expected = line.gradients
        finite = all(bool(g.isfinite().all()) for g in expected if g is not None)
        if found is None or _near(found, expected, _least(line, trait["mode"])) or not finite:
            return
        if not _conditioned(line.case):
            return
        base = baseline(line.case)
        for difference in base.differing_gradients(found, expected, times=4.0):
            if difference.error > _least(line, trait["mode"]) * _largest(expected):
                yield difference.finding(
                    "gradient-of-the-call", "The gradient depends on how the function is called", difference.name,
                    cause="it asks for more than the numbers that it is given",
                )  # fmt: skip

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
        names = dict(zip(TRAITS, row, strict=True))
        parts = {dimension: TRAITS[dimension][place] for dimension, place in names.items() if place}
        if "cotangents" in parts:
            parts["cotangents"] = f"upstream gradients {parts['cotangents']}"
        strange = [dimension for dimension in ("values", "sizes", "precision") if dimension in parts]
        title = finding.title + (f", at {' and '.join(strange)} you did not give" if strange else "")
        where = "; ".join([*parts.values(), finding.where.partition(";")[0], self.variant(row)[1].label])
        cause = f"only with {' and '.join(parts.values())}" if parts else None
        hint = finding.hint
        if strange:
            hint = "; ".join(filter(None, [hint, "if it is not made for them, give `samples`, or refuse them"]))
        cause = "; ".join(filter(None, [cause, finding.cause])) or None
        return finding.but(title=title, where=where, cause=cause, hint=hint, case=self.variant(row)[1])


def _conditioned(case: Case) -> bool:
    """Whether rounding the arguments leaves most digits of the values."""
    base = baseline(case)
    epsilon = max(torch.finfo(primal.dtype).eps for primal in case.primals)
    return bool(max(base.output_slack, default=0.0) <= epsilon**0.375 * _largest(base.outputs))


def _smooth(case: Case) -> bool:
    """Whether the function has a derivative in all elements, along some direction."""
    probe = Probe(case)
    ladder = probe.climb(probe.direction(generator(case, 93)))
    return bool(ladder.known.all())


# -- the number by which a call is looked at ---------------------------------------------------------------------------


class _Line:
    """A case along one direction, for one cotangent."""

    def __init__(self, case: Case, cotangents: str) -> None:
        self.case = case
        self.primals = case.primals
        self.recorded = case.linearize()
        source = generator(case, 91)
        self.cotangents = [_cotangent(o, cotangents, source) for o in self.recorded.outputs]
        self.dense = [torch.zeros_like(o) if c is None else c for o, c in self._pairs()]
        self.gradients = [None if g is None else g.detach() for g in self.recorded.pull(self.cotangents)]
        self.direction = [_unit(primal) * signed(primal, source) for primal in self.primals]

    def _pairs(self) -> Iterator[tuple[Tensor, Value]]:
        return zip(self.recorded.outputs, self.cotangents, strict=True)

    @property
    def double(self) -> bool:
        """Whether differences have enough digits."""
        return all(t.dtype in (torch.float64, torch.complex128) for t in (*self.primals, *self.recorded.outputs))

    def agrees(self) -> bool:
        """Whether the backward gives the number that differences give; with few digits, the gradient of float64."""
        if self.double:
            return _agree(self.gradients, self.direction, partial(_inner_values, self.case, self.dense), self.primals)
        wide = self.case.with_leaves([in_double(leaf) for leaf in self.case.leaves])
        expected = wide.linearize().pull([None if c is None else in_double(c) for c in self.cotangents])
        epsilon = max(torch.finfo(p.dtype).eps for p in self.primals)
        return _near(self.gradients, expected, 64 * epsilon)


def _cotangent(output: Tensor, kind: str, source: torch.Generator) -> Value:
    if not output.requires_grad:
        return None
    made = signed(output.detach(), source)
    match kind:
        case "that sum to zero" if made.numel() > 1:
            made = made - made.mean()
        case "that are tiny":
            made = made * 1e-9
        case "with one element" if made.numel():
            at = torch.zeros(made.numel(), dtype=made.dtype, device=made.device)
            at[made.numel() // 2] = 1
            made = at.view(made.shape)
        case "of ones":
            made = torch.ones((), dtype=made.dtype, device=made.device).expand(made.shape)
        case "of zeros":
            made = torch.zeros_like(made)
    return made


def _unit(primal: Tensor) -> float:
    largest = float(primal.abs().max()) if primal.numel() else 1.0
    return min(largest, 1.0) or 1.0


def _inner_values(case: Case, weights: Sequence[Tensor], primals: Sequence[Tensor]) -> float:
    """Return <v, f(x)>."""
    return float(flatten(case.values(primals)) @ flatten(weights))


def _agree(
    gradients: Sequence[Value],
    direction: Sequence[Tensor],
    function: Callable[[Sequence[Tensor]], float],
    primals: Sequence[Tensor],
) -> bool:
    """Whether <g, u> is what differences of a function of the primals give, as far as two of them tell."""
    products = torch.cat([torch.zeros(0, dtype=torch.float64), *_products(gradients, direction)])
    slopes = []
    for step in (STEP, STEP / 2):
        ends = ([p + sign * step * u for p, u in zip(primals, direction, strict=True)] for sign in (1, -1))
        plus, minus = (function(end) for end in ends)
        slopes.append((plus - minus) / (2 * step))
    numeric = (4 * slopes[1] - slopes[0]) / 3
    size = max(float(torch.linalg.vector_norm(products)), abs(numeric))
    doubt = 8 * abs(numeric - slopes[1])
    return abs(float(products.sum()) - numeric) <= CLOSE * size + doubt and doubt <= 1e-3 * size


def _products(left: Sequence[Value], right: Sequence[Value]) -> Iterator[Tensor]:
    for a, b in zip(left, right, strict=True):
        if a is not None and b is not None:
            yield flatten([a]) * flatten([b])


def _near(found: Sequence[Value], expected: Sequence[Value], part: float) -> bool:
    largest = _largest(expected)
    return all(distance(a, b) <= part * largest for a, b in zip(found, expected, strict=True))


def _largest(values: Sequence[Value]) -> float:
    return max((float(v.abs().max()) for v in values if v is not None and v.numel()), default=0.0)


def _least(line: _Line, mode: str) -> float:
    """The part of the largest gradient that rounding may change: under autocast single precision has no more digits."""
    epsilon = max((torch.finfo(p.dtype).eps for p in line.primals), default=0.0)
    if "autocast" not in mode or line.double:
        return 256 * epsilon
    scale = max(baseline(line.case).gradient_scale, default=0.0) / (_largest(line.gradients) or 1.0)
    return max(256 * epsilon, 0.1 * max(1.0, scale))


# -- the same numbers in other ways ------------------------------------------------------------------------------------


def _twice(case: Case) -> Case:
    """The case with the first of two alike primals in both places.

    Raises:
        Skip: no two are alike.
    """
    i, j = _alike(case)
    return case.replaced([case.primals[i] if k == j else primal for k, primal in enumerate(case.primals)])


def _alike(case: Case) -> tuple[int, int]:
    """Places of two primals of one kind, which are no parameters of a module."""
    primals, fixed = case.primals, parameters(case)
    for i, j in itertools.combinations([i for i in range(len(primals)) if i not in fixed], 2):
        if primals[i].shape == primals[j].shape and primals[i].dtype == primals[j].dtype:
            return i, j
    raise Skip("no two arguments are alike")


def _pulled(line: _Line, arguments: str, mode: str) -> list[Value] | None:
    """The gradients where arguments are passed in a way, in a mode; None where that is the plain call."""
    if not mode and not arguments:
        return None
    case = _twice(line.case) if arguments == "one tensor twice" else line.case
    leaves, passed = _given(case, arguments)
    function = _recomputed(case) if mode == "a checkpoint" else case.outputs
    with _forward_mode(mode), torch.enable_grad():
        recorded = Linearization(leaves, list(function(passed)))
    with _backward_mode(mode):
        found = recorded.pull(line.cotangents, create_graph=mode == "the graph of the backward")
    found = [None if g is None else g.detach() for g in found]
    if arguments == "views":
        return [None if g is None else g[1] for g in found]
    if arguments == "one tensor twice":
        i, j = _alike(case)
        separate = line.case.linearize(case.primals).pull(line.cotangents)
        second = separate[j]
        found[i] = found[i] if second is None or found[i] is None else found[i] - second  # type: ignore[operator]
        found[j] = second
    return found


def _given(case: Case, arguments: str) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves, and what is passed of them."""
    primals = [primal.detach().clone() for primal in case.primals]
    match arguments:
        case "views":
            leaves = [torch.stack([torch.zeros_like(p), p]).requires_grad_() for p in primals]
            return leaves, [leaf[1] for leaf in leaves]
        case "parameters":
            leaves = [nn.Parameter(p) for p in primals]
            return leaves, leaves
        case "another layout":
            fixed = parameters(case)
            made = [None if i in fixed else lazy(p) if p.is_complex() else strided(p) for i, p in enumerate(primals)]
            primals = [p if other is None else other for p, other in zip(primals, made, strict=True)]
    leaves = [p.requires_grad_() for p in primals]
    if arguments == "one tensor twice":
        i, j = _alike(case)
        return leaves, [leaves[i] if k == j else leaf for k, leaf in enumerate(leaves)]
    return leaves, leaves


def _recomputed(case: Case) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
    """The call in a checkpoint, which keeps nothing and calls again in the backward."""

    def call(primals: Sequence[Tensor]) -> Sequence[Tensor]:
        made: Sequence[Tensor] = checkpoint(lambda *p: tuple(case.outputs(p)), *primals, use_reentrant=False)
        return made

    return call


@contextlib.contextmanager
def _forward_mode(mode: str) -> Iterator[None]:
    match mode:
        case "deterministic algorithms and anomaly detection":
            before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
            torch.use_deterministic_algorithms(True, warn_only=True)
            try:
                with torch.autograd.set_detect_anomaly(True, check_nan=False):
                    yield
            finally:
                torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        case "another number of threads":
            with threads(3):
                yield
        case _:
            yield


@contextlib.contextmanager
def _backward_mode(mode: str) -> Iterator[None]:
    if mode == "autocast in the backward":
        with torch.autocast("cpu", torch.bfloat16):
            yield
    else:
        with _forward_mode(mode):
            yield


# -- derivatives of other orders ---------------------------------------------------------------------------------------


def _first(line: _Line) -> Iterator[Finding]:
    yield from ()


def _second(line: _Line) -> Iterator[Finding]:
    """The derivative of the backward, by differences of the backward."""
    if not line.double:
        return
    derived = _derived(line.case)
    if derived is not None and not _Line(derived, "").agrees():
        yield from second_order(line.case)


def _third(line: _Line) -> Iterator[Finding]:
    derived = _derived(line.case) if line.double and line.case.target.kind in OWN else None
    again = None if derived is None else _derived(derived)
    if derived is None or again is None or _Line(again, "").agrees():
        return
    for finding in second_order(derived):
        yield finding.but(code=f"third-{finding.code}", title=f"{finding.title}, of the backward (third order)")


def _derived(case: Case) -> Case | None:
    """The backward as a case; None where it cannot be differentiated, and says so."""
    try:
        derived = backward_case(baseline(case))
        recorded = derived.linearize()
        if _torch.refuses_backward(recorded.outputs) or not any(o.requires_grad for o in recorded.outputs):
            return None
        recorded.pull([torch.zeros_like(o) if o.requires_grad else None for o in recorded.outputs])
    except Exception:
        return None
    return derived


def _forward(line: _Line) -> Iterator[Finding]:
    """<v, J u> by the tangent, and <v J, u>."""
    try:
        pushed = push(line.case, line.direction)
    except Exception:
        return
    forward = sum(float(p.sum()) for p in _products(pushed, line.cotangents))
    products = torch.cat([torch.zeros(0, dtype=torch.float64), *_products(line.gradients, line.direction)])
    epsilon = max(torch.finfo(p.dtype).eps for p in line.primals)
    if not abs(forward - float(products.sum())) <= 64 * epsilon**0.75 * float(torch.linalg.vector_norm(products)):
        yield from tangents(line.case)


def _mapped(line: _Line, samples: int = 5) -> Iterator[Finding]:
    """The gradients of a vmapped call beside those of a loop, for more samples than other checks take."""
    if not _same_as_loop(line, (samples,)):
        yield from mapped(line.case)


def _mapped_twice(line: _Line) -> Iterator[Finding]:
    if _same_as_loop(line, (2, 3)):
        return
    found = list(mapped(line.case))
    yield from found
    if not found:
        yield Finding(
            "vmap-of-vmap", Verdict.FAIL, "The gradient of a vmap in a vmap is another than in a loop", "two levels",
            cause="the vmap rule takes the axis of the other level for its own", hint="move the axis by in_dims",
        )  # fmt: skip


def _same_as_loop(line: _Line, sizes: tuple[int, ...]) -> bool:
    """Whether a vmapped call of many samples has the gradients that a loop has; refusals are as good."""
    case, count = line.case, torch.Size(sizes).numel()
    samples = [case.primals, *(nearby(case, salt=i) for i in range(1, count))]
    if not all(admitted(case, sample) for sample in samples):
        return True
    loop = [case.linearize(sample).pull(line.cotangents) for sample in samples]
    stacked = [torch.stack(column).view(*sizes, *column[0].shape) for column in zip(*samples, strict=True)]
    leaves = [primal.detach().clone().requires_grad_() for primal in stacked]
    used = [i for i, c in enumerate(line.cotangents) if c is not None]

    def outputs(*primals: Tensor) -> tuple[Tensor, ...]:
        made = case.outputs(primals)
        return tuple(made[i] for i in used)

    function: Callable[..., Any] = outputs
    for _ in sizes:
        function = torch.vmap(function)
    try:
        with torch.enable_grad(), _torch.quiet_vmap():
            made = function(*leaves)
        weights = [line.dense[i].expand(o.shape) for i, o in zip(used, made, strict=True)]
        found = torch.autograd.grad(made, leaves, weights, allow_unused=True)
    except Exception:
        return True
    if not all(bool(g.isfinite().all()) for row in loop for g in row if g is not None):
        return True
    columns = [[row[i] for row in loop] for i in range(len(leaves))]
    dense = [
        None if any(g is None for g in column) else torch.stack([g for g in column if g is not None]).view(*leaf.shape)
        for column, leaf in zip(columns, leaves, strict=True)
    ]
    close = 16 * _least(line, "")
    if _near(found, dense, close):
        return True
    scale = max(1.0, max(baseline(case).gradient_scale) / (_largest(dense) or 1.0))
    return _near(found, dense, close * scale)


def _forward_over_reverse(line: _Line) -> Iterator[Finding]:
    """The tangents of the gradients, by inputs and upstream gradients together, beside differences of the gradients."""
    derived = _derived(line.case) if line.double else None
    if derived is None:
        return
    base, count = baseline(line.case), len(line.primals)
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    returned = [i for i, g in enumerate(base.gradients) if g is not None]

    def gradients(*tensors: Tensor) -> tuple[Tensor, ...]:
        back = torch.func.vjp(lambda *p: tuple(line.case.outputs(p)[i] for i in used), *tensors[:count])[1]
        found = back(tuple(tensors[count:]))
        return tuple(found[i] for i in returned)

    probe = Probe(derived)
    direction = probe.direction(generator(derived, 97))
    given, moves = probe.inputs.unflatten(probe.point), probe.inputs.unflatten(direction)
    try:
        pushed = flatten(torch.func.jvp(gradients, tuple(given), tuple(moves))[1])
    except Exception:  # to refuse is right
        return
    against = signed(pushed, generator(derived, 99))
    weights = probe.outputs.unflatten(against)

    def along(at: Sequence[Tensor]) -> float:
        return _inner_values(derived, weights, [t + float(at[0]) * u for t, u in zip(given, moves, strict=True)])

    if _agree([(pushed @ against)[None]], [torch.ones(1)], along, [torch.zeros(1)]):
        return
    ladder = probe.climb(direction)
    gap = torch.where(ladder.known, pushed - ladder.derivative, 0).abs()
    if bool((gap > 8 * ladder.error + CLOSE * ladder.scale).any()):
        worst = int(gap.argmax())
        yield Finding(
            "forward-over-reverse", Verdict.FAIL, "The tangent of the gradient is not its derivative",
            "torch.func.jvp of torch.func.vjp", float(pushed[worst]), float(ladder.derivative[worst]),
            float(gap[worst]), float(8 * ladder.error[worst]),
            hint="compute `jvp` and `backward` by torch functions of the inputs",
        )  # fmt: skip


ORDERS: dict[str, Callable[[_Line], Iterator[Finding]]] = {
    "": _first,
    "second order": _second,
    "third order": _third,
    "forward mode": _forward,
    "vmap": _mapped,
    "vmap of vmap": _mapped_twice,
    "forward over reverse": _forward_over_reverse,
}
