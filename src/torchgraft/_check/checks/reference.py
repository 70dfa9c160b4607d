"""The values against the operator's reference, and those of its kernel for other devices."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..._kernels.batching import vectorise
from ..._kernels.kernel import positional
from ..._op import Op
from ..._record import Record
from ..._spec.axes import broadcast
from ..._spec.outputs import flattened
from ..._spec.plan import owners_of, seeded
from ..._spec.reference import Reference
from ..baseline import Difference, distance, nudged, short, slack
from ..case import Case, describe
from ..finding import Finding, Inconclusive, Skip
from ..numeric.probe import in_double
from ..target import differentiable
from ..variations import values_of, within
from .ways import Words, tensors

# -- both on the same arguments --------------------------------------------------------------------------------------


def reference(case: Case) -> Iterator[Finding]:
    """Call operator and reference, in double precision; or the kernels of the CPU and of all other devices.

    Whole numbers and halves come second: there references round, branch, and have values that they define by hand.
    """
    operator = case.target.operator
    if operator is None or operator._record.reference is None:
        yield from _beside_other_kernel(case)
        return
    found = list(_beside_reference(case, operator))
    for times in TIMES if not found else ():
        leaves = [_halves(times * leaf) if differentiable(leaf) else leaf for leaf in case.leaves]
        with contextlib.suppress(Exception):  # One of both may refuse them, or have no value there.
            other = case.with_leaves(leaves)
            found += _beside_reference(other, operator) if within(other) else []
        if found:
            break
    yield from found


TIMES = (0, 1, 3, 7)
"""Multiples of the arguments that are rounded to halves."""


def _halves(x: Tensor) -> Tensor:
    """Numbers that are rounded to multiples of one half; the parts of complex ones."""
    return torch.view_as_complex(_halves(torch.view_as_real(x))) if x.is_complex() else (2 * x).round() / 2


def _beside_reference(case: Case, operator: Op[..., Any]) -> Iterator[Finding]:
    def expected(primals: Sequence[Tensor]) -> list[Tensor]:
        args, kwargs = case.arguments(primals)
        return reference_outputs(operator, args, kwargs)

    found = tensors(case.call())
    try:
        right = expected(case.primals)
    except Exception as error:  # The operator must raise as well, or give NaN or infinity, as torch does.
        if not any(value.numel() for value in found) or not all(bool(value.isfinite().all()) for value in found):
            raise Inconclusive(f"the reference raises: {short(error)}") from error
        title = "The reference raises, and the operator returns a value"
        hint = "refuse these arguments as the reference does, or declare the domain: @tg.domain"
        cause = f"the reference raises {short(error)}"
        yield Words("raises-only-in-reference", title, cause, hint).at(case.label)
        return
    differing = list(_differing(case, found, right, "the reference"))
    yield from differing or _at_a_jump(case, found, right, expected)


def _at_a_jump(
    case: Case, found: list[Tensor], right: list[Tensor], expected: Callable[[Sequence[Tensor]], list[Tensor]]
) -> Iterator[Finding]:
    """Compare at numbers with few bits, where both may jump and nothing on the way is rounded: they jump as one.

    Next to a jump it is rounding that decides, so that both must agree on either side of it.
    """
    exact = [_slack(case, value, ()) for value in found]
    apart = [distance(a, b) > slack for a, b, slack in zip(found, right, exact, strict=True)]
    if not any(apart) or not all(map(_has_few_bits, case.leaves)):
        return
    for sample in range(2):
        beside = nudged(case, case.primals, sample)
        pairs = zip(tensors(case.call(beside)), expected(beside), exact, strict=True)
        if any(distance(a, b) > slack for a, b, slack in pairs):
            return
    name = _name(apart.index(True), len(apart))
    cause = "both jump here, and agree on either side of the jump: they round halves, or tell `<` from `<=`, unlike"
    yield Words("wrong-value", f"{name.capitalize()} is not that of the reference", cause).at(case.label)


def _has_few_bits(leaf: Any) -> bool:
    """Return True unless numbers have more binary digits than a few: of others, arithmetic rounds what it makes."""
    if isinstance(leaf, Tensor):
        return not differentiable(leaf) or bool(torch.equal(leaf * 8, _halves(leaf * 8)))
    return not isinstance(leaf, float) or (16 * leaf).is_integer()


def _beside_other_kernel(case: Case) -> Iterator[Finding]:
    """Call the kernel of the CPU, and that of all other devices, where it is in torch and runs here as well."""
    operator = case.target.operator
    kernels = {} if operator is None else operator._record.kernels
    if operator is None or "cpu" not in kernels or kernels[None].opaque or operator._record.signature.seed is not None:
        raise Skip("no reference is declared")
    record = operator._record
    values = record.promoted(values_of(record, *case.arguments(case.primals)))
    try:
        with torch.no_grad():
            outputs = kernels[None].run(values, record.plan(values))
    except Exception as error:
        raise Skip(f"no reference is declared, and the kernel of other devices raises here: {short(error)}") from error
    for finding in _differing(case, tensors(case.call()), tensors(record.signature.pack(outputs)), "the body in torch"):
        yield finding.but(cause="the kernel of the CPU, and the body, which serves other devices, are of two functions")


def _differing(case: Case, found: list[Tensor], expected: list[Tensor], whose: str) -> Iterator[Finding]:
    """Compare outputs with those of a reference."""
    if len(found) != len(expected):
        yield Words("wrong-value", f"{len(found)} outputs, and {len(expected)} of {whose}").at(case.label)
        return
    moved = [tensors(case.call(nudged(case, case.primals, sample))) for sample in range(2)]
    accuracy = case.target.declared.error
    for i, (value, other) in enumerate(zip(found, expected, strict=True)):
        name = _name(i, len(found))
        if value.shape != other.shape:
            title = f"{name.capitalize()} is {describe(value)}, and {list(other.shape)} in {whose}"
            yield Words("wrong-value", title).at(f"{name}; {case.label}")
            continue
        allowed = _slack(case, value, [sample[i] for sample in moved])
        # A value where there is none, or none where there is one, is no other way to round.
        unlike = not torch.equal(value.isnan(), other.isnan())
        difference = Difference(name, value, other, math.inf if unlike else distance(value, other), allowed)
        if not difference.error <= difference.slack:
            to = f" to {accuracy:g}" if accuracy else ""
            yield difference.finding("wrong-value", f"{name.capitalize()} is not that of {whose}{to}", case.label)


def _slack(case: Case, value: Tensor, moved: Sequence[Tensor]) -> float:
    return slack(value, moved, case.target.declared.error, units=256)


def _name(output: int, count: int) -> str:
    return "the output" if count == 1 else f"output {output}"


# -- what a reference returns ----------------------------------------------------------------------------------------

DIGITS = 50
"""Decimal digits of mpmath's numbers."""


def reference_outputs(op: Op[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Tensor]:
    """The outputs that callers see, as the operator's reference computes them from inputs in double precision.

    Raises:
        Skip: there is no reference.
        ArgumentError, ShapeError: the operator does not take these arguments.

    Example:
        >>> reference_outputs(softplus, (torch.zeros(1),))
        [tensor([0.6931], dtype=torch.float64)]
    """
    record = op._record
    if record.reference is None:
        raise Skip("no reference is declared")
    values = record.promoted(values_of(record, args, kwargs or {}))
    if record.signature.seed is not None:
        values = list(seeded(record.signature, values, record.plan(values)))
    leaves = [in_double(leaf.detach().resolve_conj().resolve_neg()) for leaf in record.leaves(values)]
    call = (_by_numbers if record.reference.sees == "numbers" else _by_tensors)(record, record.reference)

    def of(leaves: Sequence[Tensor]) -> list[Tensor]:
        with _double_by_default():
            return call(record.replace(values, leaves))

    if not record.signature.loop:
        return of(leaves)
    plan = record.plan(values)
    with _torch.level():  # It runs sample by sample, whatever the reference is made of.
        return vectorise(of, leaves, [leaf.lead for leaf in plan.leaves], plan.batch)


@contextlib.contextmanager
def _double_by_default() -> Iterator[None]:
    """Within, new tensors are double: torch makes single ones of Python's numbers, and where it divides integers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _by_tensors(record: Record, reference: Reference) -> Callable[[list[Any]], list[Tensor]]:
    function = positional(reference.signature, reference.function)

    def call(values: list[Any]) -> list[Tensor]:
        if reference.sees == "arrays":
            arrays: list[Any] = [leaf.numpy() for leaf in record.leaves(values)]
            values = record.replace(values, arrays)
        made = function(*values)
        groups = [made] if record.signature.structure is None else made
        outputs = flattened(record.signature.visible, groups) if record.signature.returns_list else groups
        return [torch.as_tensor(output) for output in outputs]

    return call


def _by_numbers(record: Record, reference: Reference) -> Callable[[list[Any]], list[Tensor]]:
    """The reference element by element; complex ones are made by `complex`, or by mpmath's `mpc`."""
    function = positional(reference.signature, reference.function)
    assert reference.number is not None
    real: Callable[[Any], Any] = reference.number
    of_mpmath = getattr(real, "__module__", "").partition(".")[0] == "mpmath"
    mpmath = importlib.import_module("mpmath") if of_mpmath else None
    imaginary = mpmath.mpc if mpmath else complex

    def number(item: Any) -> Any:
        return imaginary(item) if isinstance(item, complex) else real(item)

    def call(values: list[Any]) -> list[Tensor]:
        leaves = record.leaves(values)
        shape = broadcast(*(tuple(leaf.shape) for leaf in leaves))
        columns = [leaf.broadcast_to(shape).reshape(-1).tolist() for leaf in leaves]
        seeds = [owner.is_seed for owner in owners_of(record.signature, values)]
        rows = []
        with mpmath.workdps(DIGITS) if mpmath else contextlib.nullcontext():
            for row in zip(*columns, strict=True):
                numbers = [item if is_seed else number(item) for item, is_seed in zip(row, seeds, strict=True)]
                rows.append(function(*record.replace(values, numbers)))
        made = [rows]
        if record.signature.structure is not None:
            made = [[row[i] for row in rows] for i in range(len(record.signature.visible))]
        return [tensor(column).reshape(shape) for column in made]

    def tensor(items: Sequence[Any]) -> Tensor:
        if any(isinstance(item, complex) or hasattr(item, "_mpc_") for item in items):
            return torch.tensor([complex(item) for item in items], dtype=torch.complex128)
        return torch.tensor([float(item) for item in items], dtype=torch.float64)

    return call
