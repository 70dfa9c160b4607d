"""Whether arguments lie where they were declared to lie."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..._spec.domain import Range
from ..._spec.plan import convert
from ..case import Case


def within(case: Case) -> bool:
    """Whether a case lies in the declared domain of its operator; it does where none is declared.

    Raises:
        TorchgraftError: the operator does not take these arguments at all.
    """
    op = case.target.operator
    if op is None or not op._record.domains:
        return True
    record = op._record
    args, kwargs = case.arguments(case.primals)
    given = {**dict(zip(record.signature.names, args, strict=False)), **kwargs}
    values = convert(record.signature, [given.get(p.name, p.default) for p in record.signature.parameters])
    arguments = dict(zip(record.signature.names, values, strict=True))
    names = {**record.plan(record.promoted(values)).sizes, **arguments}
    return all(_admits(domain.at(names), names.get(name)) for name, domain in record.domains.items())


def _admits(range_: Range, value: Any) -> bool:
    match value:
        case Tensor():
            return bool(range_.admits(value).all())
        case list() | tuple():
            return all(_admits(range_, item) for item in value)
        case int() | float():
            return range_.has(value)
    return True
