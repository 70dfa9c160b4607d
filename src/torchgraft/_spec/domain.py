"""`domain`: where the values of an operator's arguments may lie."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from numbers import Integral, Real
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import DeclarationError
from .numbers import evaluate, names_in, read_number
from .signature import Parameter, Signature

F = TypeVar("F", bound=Callable[..., Any])

NAMED = {
    "real": "(-inf, inf)",
    "positive": "(0, inf)",
    "nonnegative": "[0, inf)",
    "negative": "(-inf, 0)",
    "nonpositive": "(-inf, 0]",
    "nonzero": "(-inf, inf) except 0",
    "unit": "[0, 1]",
}
_BELOW_ALL, _ABOVE_ALL = ast.Constant(-math.inf), ast.Constant(math.inf)
_INTEGERS = {
    "integers": (-math.inf, math.inf),
    "positive integers": (1, math.inf),
    "nonnegative integers": (0, math.inf),
    "negative integers": (-math.inf, -1),
    "nonpositive integers": (-math.inf, 0),
}
_EXPECTED = (
    f"{', '.join(NAMED)}, an interval such as '(0, 1]', (low, high) for an open and [low, high] for a closed one, "
    "a set {a, b}; with 'except 0, 1', 'except nonpositive integers' or 'except odd multiples of pi/2' behind it, "
    "and '^n' for the length of a list"
)


@dataclass(frozen=True)
class Points:
    """The points ``start + k * step`` from `low` to `high`; with the step 0, one point."""

    start: float
    step: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def nearest(self, values: Tensor) -> Tensor:
        """The point next to each value."""
        if self.step == 0:
            return torch.full_like(values, self.start)
        first, last = self._index(self.low, math.ceil), self._index(self.high, math.floor)
        places = ((values - self.start) / self.step).round().clamp(first, last)
        return places * self.step + self.start

    def around_zero(self) -> Tensor:
        """The points next to zero, five of them; where there are fewer, some again."""
        near = self.nearest(torch.zeros(5, dtype=torch.float64)) + self.step * torch.arange(-2, 3)
        return self.nearest(near)

    def _index(self, bound: float, rounded: Callable[[float], int]) -> float:
        return rounded((bound - self.start) / self.step) if math.isfinite(bound) else bound


@dataclass(frozen=True)
class Range:
    """A domain with its bounds as numbers: an interval without some points, or a set of members."""

    low: float = -math.inf
    high: float = math.inf
    closed: tuple[bool, bool] = (False, False)
    poles: tuple[Points, ...] = ()
    members: tuple[Any, ...] = ()

    @property
    def everything(self) -> bool:
        """True if every finite number lies in it."""
        return self.low == -math.inf and self.high == math.inf and not self.poles and not self.members

    def admits(self, values: Tensor) -> Tensor:
        """Tell which values lie in it: of a complex value, the real part; nothing but finite numbers."""
        if values.is_complex():
            values = values.real
        if self.members:
            return torch.isin(values, torch.as_tensor(self.members, dtype=values.dtype, device=values.device))
        values = values.double()
        above = values >= self.low if self.closed[0] else values > self.low
        below = values <= self.high if self.closed[1] else values < self.high
        inside = above & below & values.isfinite()
        for pole in self.poles:
            inside &= values != pole.nearest(values)
        return inside

    def has(self, value: float) -> bool:
        """Return True if one number lies in it."""
        return bool(self.admits(torch.tensor(float(value), dtype=torch.float64)))


@dataclass(frozen=True)
class Domain:
    """The domain of one argument or of one axis.

    Attributes:
        text: as it was written.
        low: the lower bound, which may read axes and int arguments by name.
        high: the upper one.
        closed: whether the bounds belong to it.
        poles: points that do not.
        members: the values, where it is a finite set.
        length: of the list that the argument is.
    """

    text: str
    low: ast.expr = _BELOW_ALL
    high: ast.expr = _ABOVE_ALL
    closed: tuple[bool, bool] = (False, False)
    poles: tuple[Points, ...] = ()
    members: tuple[Any, ...] = ()
    length: ast.expr | None = None

    @property
    def reads(self) -> set[str]:
        """Names of the axes and arguments that its bounds are made of."""
        return {name for node in (self.low, self.high, self.length) if node is not None for name in names_in(node)}

    def at(self, names: Mapping[str, Any]) -> Range:
        """Its numbers in a call whose axes and int arguments are these."""
        return Range(evaluate(self.low, names), evaluate(self.high, names), self.closed, self.poles, self.members)

    def length_at(self, names: Mapping[str, Any]) -> int:
        """The length of the list in a call whose axes and int arguments are these."""
        assert self.length is not None
        return max(0, int(evaluate(self.length, names)))

    def __str__(self) -> str:
        return self.text


def domain(**domains: Any) -> Callable[[F], F]:
    """Declare where the arguments of an operator may lie, so that what checks it stays there.

    A domain is a name (``"real"``, ``"positive"``, ``"nonnegative"``, ``"negative"``, ``"nonpositive"``,
    ``"nonzero"``, ``"unit"``), an interval as mathematics writes it (``"(0, 1]"``, ``"[-1/e, inf)"``), a pair of
    bounds, open as a tuple and closed as a list (``(0, 1)``, ``[0, 1]``; None is infinite), or a set of values.
    Points where the operator is not defined follow after ``except``: numbers, ``integers``,
    ``nonpositive integers``, ``multiples of pi``, ``odd multiples of pi/2``. A list's length follows after ``^``:
    ``"real^2"``. Bounds may name axes and int arguments, ``index="[0, n)"``, and an axis has a domain too,
    ``n="[2, inf)"``. Of a complex value, the real part lies in the domain.

    Calls are not restricted by it. It goes below ``@tg.op`` or above, or on an operator that is there already,
    ``tg.domain(x="positive")(log)``.

    Raises:
        DeclarationError: a domain cannot be read, or an argument or axis does not exist.

    Example:
        >>> @tg.op
        ... @tg.domain(x="real except nonpositive integers")
        ... def gammaln(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        ...     return scipy.special.gammaln(x)
    """

    def declare(target: F) -> F:
        name = getattr(target, "__name__", "?")
        read = {argument: read_domain(spec, name, argument) for argument, spec in domains.items()}
        record = getattr(target, "_record", None)
        if record is not None:
            record.declare_domains(read)
        else:
            target.__domains__ = {**declared_domains(target), **read}  # type: ignore[attr-defined]
        return target

    return declare


def declared_domains(function: Callable[..., Any]) -> dict[str, Domain]:
    """Domains that `domain` left at a function below ``@tg.op``."""
    return getattr(function, "__domains__", {})


# -- reading ------------------------------------------------------------------------------------------------------


def read_domain(spec: Any, operator: str, argument: str) -> Domain:
    """The domain that `spec` says.

    Raises:
        DeclarationError: it cannot be read, or is empty.
    """
    try:
        read = _read(spec)
        _refuse_empty(read)
    except (ValueError, ZeroDivisionError) as error:
        raise DeclarationError(
            f"the domain cannot be read: {error}",
            operator=operator,
            argument=argument,
            expected=_EXPECTED,
            got=repr(spec),
        ) from None
    return read


def _read(spec: Any) -> Domain:
    if isinstance(spec, str):
        return _read_text(spec)
    if isinstance(spec, (set, frozenset)):
        if not spec:
            raise ValueError("the set is empty")
        members = tuple(sorted(spec, key=lambda value: (type(value).__name__, value)))
        return Domain("{" + ", ".join(map(repr, members)) + "}", members=members)
    if isinstance(spec, (tuple, list)) and len(spec) == 2:
        low, high = (_bound(value, infinite) for value, infinite in zip(spec, (-math.inf, math.inf), strict=True))
        closed = isinstance(spec, list)
        text = f"[{low:g}, {high:g}]" if closed else f"({low:g}, {high:g})"
        return Domain(text, ast.Constant(low), ast.Constant(high), (closed, closed))
    raise ValueError("it is no text, pair or set")


def _bound(value: Any, infinite: float) -> float:
    if value is None:
        return infinite
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        raise ValueError(f"{value!r} is no bound")
    return int(value) if isinstance(value, Integral) else float(value)


def _read_text(text: str) -> Domain:
    rest, power, length = text.partition("^")
    values, _, poles = rest.partition(" except ")
    read = _read_interval(NAMED.get(values.strip(), values.strip()))
    return replace(
        read, text=text, poles=(*read.poles, *_read_points(poles)), length=read_number(length) if power else None
    )


def _read_interval(text: str) -> Domain:
    if " except " in text:  # A name may stand for an interval with exceptions.
        return _read_text(text)
    match = re.fullmatch(r"([\[(])(.+)([\])])", text)
    if match is None:
        quoted = ": a set is written without quotes" if text.startswith("{") else ""
        raise ValueError(f"'{text}' is neither a name nor an interval{quoted}")
    left, inside, right = match.groups()
    for comma in [place for place, letter in enumerate(inside) if letter == ","]:
        try:  # A bound may have commas of its own: min(n, m).
            low, high = read_number(inside[:comma]), read_number(inside[comma + 1 :])
        except ValueError:
            continue
        return Domain(text, low, high, (left == "[", right == "]"))
    raise ValueError(f"'{text}' has no two bounds")


def _read_points(text: str) -> tuple[Points, ...]:
    """The points behind ``except``."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        odd, _, step = item.partition("multiples of ")
        if item in _INTEGERS:
            found.append(Points(0.0, 1.0, *_INTEGERS[item]))
        elif step and odd.strip() in ("", "odd"):
            size = _constant(step)
            found.append(Points(size, 2 * size) if odd else Points(0.0, size))
        else:
            found.append(Points(_constant(item)))
    return tuple(found)


def _constant(text: str) -> float:
    node = read_number(text)
    if names_in(node):
        raise ValueError(f"'{text}' is no number")
    return float(evaluate(node, {}))


def _refuse_empty(read: Domain) -> None:
    if not names_in(read.low) | names_in(read.high):
        made = read.at({})
        if made.low > made.high or (made.low == made.high and not all(made.closed)):
            raise ValueError("no value lies in it")
    if read.length is not None and not names_in(read.length):
        length = evaluate(read.length, {})
        if type(length) is not int or length < 0:
            raise ValueError(f"{length} is no length")


# -- checking against a signature ---------------------------------------------------------------------------------


def check_domains(signature: Signature, domains: Mapping[str, Domain]) -> None:
    """Refuse domains of what does not exist, or of what has its values from its type.

    Raises:
        DeclarationError: the first that does not fit.
    """
    axes: set[str] = set()
    for _, parameter in signature.tensors:
        if parameter.tensor.axes is not None:
            axes |= parameter.tensor.axes.binds
    numbers = {p.name for p in signature.parameters if not p.is_tensor and p.scalar.type is int and not p.scalar.many}
    _refuse_circles(signature, domains)
    for name, declared in domains.items():
        parameter_ = signature.names.get(name)
        problem = None
        if parameter_ is None and name not in axes:
            problem = f"there is no argument and no axis '{name}'"
        elif unknown := sorted(declared.reads - axes - numbers):
            problem = f"its bounds read '{unknown[0]}', which is no axis and no int argument"
        elif parameter_ is not None:
            problem = _unfit(parameter_, declared)
        if problem is not None:
            raise DeclarationError(
                problem, operator=signature.name, argument=name, got=declared.text,
                expected=", ".join([*signature.names, *sorted(axes)]) if parameter_ is None else str(parameter_.type),
            )  # fmt: skip


def _refuse_circles(signature: Signature, domains: Mapping[str, Domain]) -> None:
    try:
        TopologicalSorter({name: declared.reads for name, declared in domains.items()}).prepare()
    except CycleError as error:
        circle = error.args[1]
        raise DeclarationError(
            "bounds read each other", operator=signature.name, argument=circle[0], expected="an order",
            got=", ".join(f"{name}: {domains[name]}" for name in sorted(set(circle))),
        ) from None  # fmt: skip


def _unfit(parameter: Parameter, declared: Domain) -> str | None:
    """Why a domain does not go with a parameter's type."""
    many = parameter.many if parameter.is_tensor else parameter.scalar.many
    if declared.length is not None and not many:
        return "only a list has a length"
    if parameter.is_tensor:
        if not all(isinstance(member, Real) for member in declared.members):
            return "its values are no numbers"
        return "a tensor of booleans has no domain" if parameter.tensor.dtypes.exact is torch.bool else None
    scalar = parameter.scalar
    if scalar.choices or scalar.type is bool:
        return "its values are said by its type"
    if declared.members:
        try:
            for member in declared.members:
                replace(scalar, many=False).convert(member, "", "")
        except TypeError:
            return f"its values are no {scalar.type.__name__}"
    elif scalar.type not in (int, float, complex) and declared.text.partition("^")[0].strip() != "real":
        return f"an interval of {scalar.type.__name__} does not exist"
    return None
