"""Axes along which a call can be cut into independent parts, or into the terms of a sum, as its annotations promise."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .._record import Record
from .._spec.axes import Axes, Axis
from .._spec.dtypes import is_inexact
from .._spec.outputs import spread
from .._spec.plan import Plan, owners_of
from .._spec.signature import Signature, TensorType
from ..errors import DeclarationError

Kind = Literal["batch", "parallel", "reduction"]


@dataclass(frozen=True)
class Cut:
    """One axis of a call along which tensors can be cut.

    Attributes:
        axis: what tells it from the call's other ones.
        name: as people read it.
        kind: ``batch`` and ``parallel``: the parts of the outputs are put together; ``reduction``: they are summed.
        size: the length of the axis.
        inputs: where each tensor of the call has the axis; None for one that has not, or has it with size 1.
        outputs: where each output has it, a list flattened; None for the outputs of a reduction.
        once: the tensors without the axis of a reduction, such as a bias: one of the terms has it, the others zeros.
    """

    axis: Hashable
    name: str
    kind: Kind
    size: Any
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    once: tuple[bool, ...]


def find_cuts(record: Record, values: Sequence[Any], plan: Plan) -> list[Cut]:
    """The axes along which one call can be cut.

    Args:
        values: the arguments, converted; tensors count by their shapes alone.
        plan: of the call.
    """
    signature = record.signature
    kinds = [owner.tensor for owner in owners_of(signature, values)]
    results = [output.type for output in spread(signature.outputs, len(plan.outputs))]
    shapes = [shape for shape, _ in plan.outputs]
    if None in signature.annotations or None in shapes:
        return []  # Nobody knows what a tensor without axes has to do with those of the others.
    named: dict[Hashable, Kind] = dict.fromkeys(record.parallel, "parallel")
    named |= dict.fromkeys(record.reduction, "reduction")
    run = signature.batch_run
    places_in = [
        _places(kind, len(leaf.shape), leaf.lead, run, named) for kind, leaf in zip(kinds, plan.leaves, strict=True)
    ]
    places_out = [
        _places(kind, len(shape or ()), len(plan.batch), run, named)
        for kind, shape in zip(results, shapes, strict=True)
    ]
    numeric = [kind.dtypes.numeric or is_inexact(leaf.dtype) for kind, leaf in zip(kinds, plan.leaves, strict=True)]
    axes = dict.fromkeys(axis for places in places_in for axis in places)
    found = (_cut(axis, named.get(axis, "batch"), plan, places_in, places_out, numeric) for axis in axes)
    return [cut for cut in found if cut is not None]


def _cut(
    axis: Hashable,
    kind: Kind,
    plan: Plan,
    places_in: Sequence[Mapping[Hashable, int]],
    places_out: Sequence[Mapping[Hashable, int]],
    numeric: Sequence[bool],
) -> Cut | None:
    """The cut along one axis; None if an output lacks it, or it has one element."""
    summed = kind == "reduction"
    if not summed and not all(axis in places for places in places_out):
        return None
    pairs = list(zip(plan.leaves, places_in, strict=True))
    sizes = [leaf.shape[places[axis]] if axis in places else 1 for leaf, places in pairs]
    size = max(sizes)
    if size == 1:
        return None
    inputs = tuple(places[axis] if own == size else None for own, places in zip(sizes, places_in, strict=True))
    outputs = tuple(None if summed else places[axis] for places in places_out)
    once = tuple(summed and counts and axis not in places for counts, places in zip(numeric, places_in, strict=True))
    return Cut(axis, axis if isinstance(axis, str) else _batch_name(axis), kind, size, inputs, outputs, once)


def linear_inputs(record: Record, values: Sequence[Any]) -> list[int]:
    """The tensors of a call, by number, in which all outputs are linear: their rule is an adjoint."""
    signature = record.signature
    if not all(output.floating and not output.inert for output in signature.outputs):
        return []
    owners = enumerate(owners_of(signature, values))
    return [i for i, owner in owners if owner.name in record.rules["adjoint"] and not owner.many]


def promised_axes(record: Record) -> dict[Kind, tuple[str, ...]]:
    """The axes along which calls can be cut, as annotations write them."""
    signature = record.signature
    if None in signature.annotations:
        return {"batch": (), "parallel": (), "reduction": ()}
    run = signature.batch_run
    seeds = {p.tensor.axes for _, p in signature.tensors if p.is_seed}
    leading = (axes for axes in _annotations(signature) if run is not None and axes not in seeds and _leads(axes, run))
    batch = [axes.tokens[0].text for axes in leading]
    loop = ("leading axes",) if signature.loop else ()
    return {
        "batch": (*loop, *dict.fromkeys(batch)), "parallel": record.parallel, "reduction": record.reduction,
    }  # fmt: skip


def batch_inputs(signature: Signature) -> set[str]:
    """The names of the inputs that have the batch axes, as callers write them."""
    run = signature.batch_run
    return {
        p.shown
        for _, p in signature.tensors
        if signature.loop or (run is not None and p.tensor.axes is not None and _leads(p.tensor.axes, run))
    }


def _leads(axes: Axes, run: Axis) -> bool:
    return axes.leading_run is not None and axes.leading_run.name == run.name


def _places(
    kind: TensorType, rank: int, lead: int, run: Axis | None, named: Mapping[Hashable, Kind]
) -> dict[Hashable, int]:
    """The positions of a tensor's axes that may be cut. Batch axes are counted from their end, where they line up."""
    assert kind.axes is not None
    tokens, at = kind.axes.tokens, kind.axes.run
    found: dict[Hashable, int] = {("lead", i): lead - 1 - i for i in range(lead)}
    length = rank - lead - len(tokens) + 1
    if run is not None and _leads(kind.axes, run):
        found |= {("run", i): lead + length - 1 - i for i in range(length)}
    for position, token in enumerate(tokens):
        if token.name in named and not token.variadic:
            before = at is None or position < at
            found[token.name] = lead + position if before else rank - len(tokens) + position
    return found


def _batch_name(axis: Any) -> str:
    return f"batch axis {-1 - axis[1]}"


# -- what is declared -------------------------------------------------------------------------------------------------


def read_axes(signature: Signature, parallel: str, reduction: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the names of axes that were declared to be parallel, or to be summed over.

    Raises:
        DeclarationError: a name is no axis of an input, is part of an expression, or the outputs contradict it.
    """
    for word, text in (("parallel", parallel), ("reduction", reduction)):
        if not isinstance(text, str):
            raise DeclarationError(
                "is no string", operator=signature.name, argument=word, expected="names with spaces between them",
                got=repr(text), hint=f'write {word}="m", or {word}="m k" for two axes',
            )  # fmt: skip
    names = parallel.split(), reduction.split()
    if signature.seed is not None and (names[0] or names[1]):
        raise DeclarationError(
            "a mesh cannot cut the axes of one sample of an operator that draws random numbers: each part would draw "
            "those of another place", operator=signature.name, argument="parallel" if names[0] else "reduction",
            expected="nothing beside a seed", got=" ".join(names[0] or names[1]),
            hint="make it a batch axis: each sample has a seed of its own",
        )  # fmt: skip
    for word, given in zip(("parallel", "reduction"), names, strict=True):
        for name in given:
            why = _refusal(signature, word, name, twice=name in names[0] and name in names[1])
            if why is not None:
                raise DeclarationError(
                    why, operator=signature.name, argument=f"{word}={name!r}",
                    expected=f"one of {', '.join(sorted(_single(signature))) or 'no axis: none has a name of its own'}",
                    got=name, hint=_HINTS[word],
                )  # fmt: skip
    return tuple(dict.fromkeys(names[0])), tuple(dict.fromkeys(names[1]))


_HINTS = {
    "parallel": "name an axis that every output has: its slices are computed each by itself",
    "reduction": "name an axis that no output has: the outputs are sums over its slices",
}


def _refusal(signature: Signature, word: str, name: str, *, twice: bool) -> str | None:
    if signature.late:
        return "the sizes of outputs hang on values, so that those of parts differ from those of the whole"
    if twice:
        return f"axis {name} cannot be parallel and summed over"
    if name not in _single(signature):
        return f"no input has an axis {name} with a name of its own"
    if name in {axis for axes in _annotations(signature) for axis in axes.reads()[0]}:
        return f"axis {name} is part of an expression: its slices have other sizes"
    having = [_count(output.type.axes, name) for output in signature.outputs]
    inputs = [_count(p.tensor.axes, name) for _, p in signature.tensors]
    if max(having + inputs) > 1:
        return f"axis {name} occurs twice in one tensor, which cannot be cut twice"
    if word == "parallel" and not all(having):
        return f"axis {name} is missing in an output"
    if word == "reduction" and any(having):
        return f"axis {name} is one of an output, so nothing is summed over it"
    return None


def _annotations(signature: Signature) -> Iterator[Axes]:
    return (axes for axes in signature.annotations if axes is not None)


def _single(signature: Signature) -> set[str]:
    """The names of single axes of inputs."""
    found = [p.tensor.axes for _, p in signature.tensors]
    return {name for axes in found if axes is not None for name in axes.binds}


def _count(axes: Axes | None, name: str) -> int:
    tokens: Sequence[Axis] = axes.tokens if axes is not None else ()
    return sum(token.name == name for token in tokens)
