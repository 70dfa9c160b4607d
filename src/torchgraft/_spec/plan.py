"""The plan of a call: what the annotations say about these very arguments.

A plan is made once for each combination of shapes and dtypes and then recognised by the hot path; under tracing
it is made with SymInts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._draws.numbers import sample_seeds
from ..errors import ArgumentError, DeviceError, DtypeError, ShapeError
from .axes import Axes, Binding, Shape, broadcast
from .dtypes import Dtypes, is_inexact, name_of, real_twin
from .late import LateShapes
from .outputs import spread
from .seed import check_seed, samples_of
from .shape_rule import ShapeRule, shapes_by_rule
from .signature import Output, Parameter, Signature

LeafCounts = tuple[int | None, ...]
"""For each tensor parameter the number of tensors that were passed for it: 1, or that of a list; None if absent."""


@dataclass(frozen=True)
class Leaf:
    """One tensor that was passed.

    Attributes:
        name: its name as callers write it, ``xs[2]`` in a list.
        owner: its parameter's name.
        shape: its shape.
        dtype: its dtype.
        full: the batch axes, and its core axes with broadcasting ones at their full size: what a rule may return.
        aligned: its shape, with a 1 for each axis of `full` that it lacks.
        lead: how many leading axes were added to the core axes.
    """

    name: str
    owner: str
    shape: Shape
    dtype: torch.dtype
    full: Shape
    aligned: Shape
    lead: int

    @property
    def like(self) -> tuple[Shape, torch.dtype]:
        return self.shape, self.dtype

    def summed(self, gradient: Tensor) -> Tensor:
        """A gradient of the full shape, summed over the axes along which the tensor was broadcast."""
        total = gradient.sum_to_size(self.aligned)
        return total if self.aligned == self.shape else total.reshape(self.shape)


@dataclass(frozen=True)
class Plan:
    """Shapes and dtypes that follow from those of a call.

    Attributes:
        leaves: every tensor that was passed, lists flattened.
        outputs: shape and dtype of each output, a list flattened; the shape is None where no annotation or shape rule
            gives it, and for all outputs if one has a late size. One entry stands for all tensors of a list whose
            length nobody knows before the kernel has run.
        batch: the leading axes that torchgraft loops or maps over.
        device: of the inputs, and so of the outputs.
        sizes: of the named axes.
        late: the outputs' shapes, where sizes in them are known only after the call.
        samples: the operator's own batch axes, each sample of which has a seed; none where nothing is drawn.
        lead: how many axes stand in front of the operator's own.
        items: of such a list, the shape of its tensors as annotated, None for an axis of any size; None without axes.
        open: there is such a list.
    """

    leaves: tuple[Leaf, ...]
    outputs: tuple[tuple[Shape | None, torch.dtype], ...]
    batch: Shape
    device: torch.device
    sizes: Mapping[str, Any]
    late: LateShapes | None = None
    samples: Shape = ()
    lead: int = 0
    items: Shape | None = None
    open: bool = False

    def expected(self, outputs: Sequence[Output], count: int) -> list[tuple[Shape | None, torch.dtype]]:
        """Shape and dtype of each of `count` tensors of the outputs."""
        if not self.open:
            return list(self.outputs)
        planned = dict(zip([output.name for output in outputs], self.outputs, strict=True))
        return [planned[output.name] for output in spread(outputs, count)]


def seeded(signature: Signature, values: Sequence[Any], plan: Plan) -> Sequence[Any]:
    """The arguments of a call, with a seed for each sample in the place of one for all."""
    at = signature.seed
    if at is None or not plan.samples:
        return values
    return [*values[:at], _of_samples(values[at], plan), *values[at + 1 :]]


def seeded_reads(signature: Signature, names: Sequence[str], values: Sequence[Any], plan: Plan) -> Sequence[Any]:
    """Replace one seed for all by one for each sample, in what a rule reads."""
    if signature.seed is None or not plan.samples:
        return values
    seed = signature.parameters[signature.seed].name
    return [_of_samples(v, plan) if name == seed else v for name, v in zip(names, values, strict=True)]


def _of_samples(seed: Tensor, plan: Plan) -> Tensor:
    return seed if seed.dim() > plan.lead else sample_seeds(seed, plan.samples)


def leaves_of(plan: Plan, names: Sequence[str]) -> list[Leaf]:
    """The plan's leaves that belong to the named inputs."""
    return [leaf for name in names for leaf in plan.leaves if leaf.owner == name]


def owners_of(signature: Signature, values: Sequence[Any]) -> list[Parameter]:
    """The parameter of each tensor that is there, lists flattened."""
    return [p for i, p in signature.tensors if values[i] is not None for _ in (values[i] if p.many else [values[i]])]


def leaf_counts(signature: Signature, values: Sequence[Any]) -> LeafCounts:
    """Count the tensors of a call, parameter by parameter."""
    return tuple(
        None if (value := values[i]) is None else len(value) if parameter.many else 1
        for i, parameter in signature.tensors
    )


def flatten(signature: Signature, values: Sequence[Any]) -> list[Tensor]:
    """The tensors that are there, lists flattened."""
    leaves: list[Tensor] = []
    for i, parameter in signature.tensors:
        value = values[i]
        if parameter.many:
            leaves.extend(value)
        elif value is not None:
            leaves.append(value)
    return leaves


def replace(signature: Signature, values: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """`values` with its tensors replaced, in the order of `flatten`."""
    result = list(values)
    rest = iter(leaves)
    for i, parameter in signature.tensors:
        if parameter.many:
            result[i] = [next(rest) for _ in values[i]]
        elif values[i] is not None:
            result[i] = next(rest)
    return result


def make_plan(
    signature: Signature, values: Sequence[Any], *, lead: int = 0, shape_rule: ShapeRule | None = None
) -> Plan:
    """The plan of a call, or the error that says what does not fit.

    Args:
        values: the arguments, converted.
        lead: number of leading axes that every tensor carries beside its annotation (size 1 broadcasts).
        shape_rule: the operator's ``@f.shape`` function.

    Raises:
        ShapeError, DtypeError, DeviceError: the arguments contradict the annotations or each other.
    """
    named = [
        (f"{p.shown}[{j}]" if p.many else p.shown, p, leaf)
        for i, p in signature.tensors
        if values[i] is not None
        for j, leaf in enumerate(values[i] if p.many else [values[i]])
    ]
    others_first = sorted(named, key=lambda item: item[1].is_seed)  # No output follows the seed.
    device = _check_devices(signature, [(name, leaf) for name, _, leaf in others_first])
    dtypes = check_dtypes(signature, [(name, p.tensor.dtypes, leaf.dtype) for name, p, leaf in others_first])
    arguments = {p.name: value for p, value in zip(signature.parameters, values, strict=True)}
    binding = Binding({name: arguments[name] for name in signature.shape_arguments})
    leads = [lead + _loop_rank(signature, name, p.tensor.axes, leaf, lead) for name, p, leaf in named]
    cores = [tuple(leaf.shape)[n:] for (_, _, leaf), n in zip(named, leads, strict=True)]
    batch = _batch(signature, [(name, tuple(leaf.shape)[:n]) for (name, _, leaf), n in zip(named, leads, strict=True)])
    annotated = [(p.tensor.axes, core) for (_, p, _), core in zip(named, cores, strict=True)]
    for axes, core in annotated:
        if axes is not None:
            axes.bind(core, binding)
    for axes, core in annotated:
        if axes is not None:
            axes.check_expressions(core, binding)
    leaves = tuple(
        Leaf(
            name,
            p.name,
            tuple(leaf.shape),
            leaf.dtype,
            batch + (core if axes is None else axes.full(core, binding)),
            (1,) * (len(batch) - n) + tuple(leaf.shape)[:n] + (core if axes is None else axes.aligned(core, binding)),
            len(batch) if p.is_seed else n,  # Before it is looped over, each sample has a seed of its own.
        )
        for (name, p, leaf), n, (axes, core) in zip(named, leads, annotated, strict=True)
    )
    written = [next(leaf for leaf in leaves if leaf.owner == p.name) for p in signature.written]
    late = _late(signature, binding) if signature.late else None
    items: Shape | None = None
    returned: list[tuple[Shape | None, torch.dtype]]
    if late is not None:
        returned = [(None, dtype) for dtype in dtypes]
    elif shape_rule is not None:
        core_values = replace(signature, values, [torch.Size(core) for core in cores])
        given = shapes_by_rule(signature, shape_rule, core_values, binding)
        dtype_of = dict(zip([output.name for output in signature.returned], dtypes, strict=True))
        owners = spread(signature.returned, len(given))
        returned = [(batch + shape, dtype_of[owner.name]) for owner, shape in zip(owners, given, strict=True)]
    else:
        annotated_shapes = [
            None if output.type.axes is None else batch + output.type.axes.evaluate(binding)
            for output in signature.returned
        ]
        pairs = list(zip(signature.returned, annotated_shapes, strict=True))
        items = next((shape for output, shape in pairs if output.many), None)
        shapes = [None if output.many else shape for output, shape in pairs]
        returned = list(zip(shapes, dtypes, strict=True))
    outputs = [(leaf.full, leaf.dtype) for leaf in written] + returned
    samples = _samples(signature, named, lead)
    is_open = signature.returns_list and shape_rule is None
    return Plan(leaves, tuple(outputs), batch, device, binding.sizes, late, samples, lead, items, is_open)


def _late(signature: Signature, binding: Binding) -> LateShapes:
    bounds = {late.name: late.bound.evaluate(binding)[0] for late in signature.late if late.bound is not None}
    outputs = tuple((output.name, output.type.axes) for output in signature.outputs if output.type.axes is not None)
    return LateShapes(signature.name, outputs, binding, bounds, signature.late_names)


def _samples(signature: Signature, named: Sequence[tuple[str, Parameter, Tensor]], lead: int) -> Shape:
    """The operator's own batch axes, each sample of which has a seed; none where there is no seed."""
    if signature.seed is None:
        return ()
    shapes = [(p, tuple(leaf.shape)[lead:]) for _, p, leaf in named]
    samples = samples_of(signature, [(p, shape) for p, shape in shapes if not p.is_seed])
    check_seed(signature, next(shape for p, shape in shapes if p.is_seed), samples)
    return samples


def _check_devices(signature: Signature, leaves: Sequence[tuple[str, Tensor]]) -> torch.device:
    if not leaves:
        raise ArgumentError(
            "got no tensor at all",
            operator=signature.name,
            expected="at least one tensor, which gives the device",
            got="only None and empty lists",
        )
    first_name, first = leaves[0]
    for name, leaf in leaves[1:]:
        if leaf.device != first.device:
            raise DeviceError(
                f"is on {leaf.device}, but {first_name} is on {first.device}",
                operator=signature.name,
                argument=name,
                expected=str(first.device),
                got=str(leaf.device),
                hint=f"pass {name}.to({first_name}.device)",
            )
    return first.device


def check_dtypes(signature: Signature, leaves: Sequence[tuple[str, Dtypes, torch.dtype]]) -> list[torch.dtype]:
    """The dtypes of what the function returns, from name, annotation and dtype of each tensor.

    Raises:
        DtypeError: a dtype is not admitted, or two do not go together.
    """
    common: tuple[str, torch.dtype] | None = None
    for name, dtypes, dtype in leaves:
        if not dtypes.admits(dtype):
            raise _not_admitted(signature.name, name, dtypes, dtype)
        if not dtypes.numeric:
            continue
        if common is None:
            common = name, dtype
        elif dtype != common[1]:
            real, complex_ = real_twin(dtype), real_twin(common[1])
            if real != complex_:
                raise DtypeError(
                    f"mixed dtypes: {common[0]} is {name_of(common[1])}, but {name} is {name_of(dtype)}",
                    operator=signature.name,
                    argument=name,
                    expected=name_of(common[1]),
                    got=name_of(dtype),
                    hint=f"pass {name}.to({common[0]}.dtype), or annotate with Real, which promotes",
                )
            if common[1] == real_twin(common[1]):  # The complex one decides.
                common = name, dtype
    first = leaves[0][2]
    integer = next((d for _, k, d in leaves if not k.numeric and not is_inexact(d) and d != torch.bool), None)
    shared = common[1] if common else next((d for _, _, d in leaves if is_inexact(d)), None)
    return [output.type.dtypes.of_output(shared or first, first, integer) for output in signature.returned]


def _not_admitted(operator: str, name: str, dtypes: Dtypes, dtype: torch.dtype) -> DtypeError:
    hint = None
    if dtype.is_complex and dtypes.kind in ("Complex", "Inexact"):
        hint = f"pass {name}.to(torch.complex64)"
    elif dtype.is_complex:
        hint = f"pass {name}.real or {name}.abs(), or annotate with Complex or Inexact"
    elif not is_inexact(dtype) and dtypes.kind.startswith(("Float", "Complex", "Inexact")):
        hint = f"pass {name}.double(), or annotate with Real, which promotes integers"
    elif dtypes.exact is not None:
        hint = f"pass {name}.to(torch.{name_of(dtypes.exact)})"
    return DtypeError(
        f"has dtype {name_of(dtype)}",
        operator=operator,
        argument=name,
        expected=f"{dtypes} ({', '.join(sorted(name_of(d) for d in dtypes.admitted or ()))})",
        got=name_of(dtype),
        hint=hint,
    )


def _loop_rank(signature: Signature, name: str, axes: Axes | None, leaf: Tensor, lead: int) -> int:
    """Count the axes of `leaf` that are looped over."""
    if not signature.loop:
        if leaf.dim() < lead:
            raise AssertionError(f"{signature.name}: {name} lacks its {lead} batch axes")
        return 0
    assert axes is not None
    assert axes.rank is not None
    extra = leaf.dim() - lead - axes.rank
    if extra < 0:
        raise ShapeError(
            f"has {leaf.dim()} axes",
            operator=signature.name,
            argument=name,
            expected=f"at least {axes.rank} axes, '{axes}', after any leading ones",
            got=f"shape {tuple(leaf.shape)}",
        )
    return extra


def _batch(signature: Signature, leads: Sequence[tuple[str, Shape]]) -> Shape:
    batch: Shape = ()
    for name, shape in leads:
        try:
            batch = broadcast(batch, shape)
        except RuntimeError:
            raise ShapeError(
                f"leading axes {tuple(shape)} do not broadcast with {tuple(batch)}",
                operator=signature.name,
                argument=name,
                expected=f"leading axes that broadcast with {tuple(batch)}",
                got=f"{tuple(shape)}",
            ) from None
    return batch
