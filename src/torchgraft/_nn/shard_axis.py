"""`ShardAxis`: tensor parallelism for generated modules, by the name of an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle
from torch.distributed.tensor.placement_types import Placement

from .._spec.signature import TensorType
from .._spec.structures import Structure
from ..errors import ArgumentError
from .module import Module

Layouts = Placement | Sequence[Placement | None] | None


class ShardAxis(ParallelStyle):
    """Shard every parameter of a `module` that has an axis, for ``torch.distributed.tensor.parallel``.

    The operator declares the axis as ``parallel`` or ``reduction`` in `op`. Along a parallel axis, the outputs are
    sharded, as those of ``ColwiseParallel`` are; over a reduction axis, they are summed, as those of
    ``RowwiseParallel`` are. Parameters without the axis are replicated.

    Args:
        axis: its name in the annotations.
        input_layouts: the placement of each tensor that the module is called with, if that is a plain tensor: one for
            all, or a sequence; None in it for the default: sharded where the input has the axis, else replicated.
        output_layouts: the placement to which each output is brought; by default sharded along a parallel axis, and
            replicated (summed) over a reduction axis.
        use_local_output: return plain tensors, not DTensors.

    Raises:
        ArgumentError: when it is applied: the module was not made by `module`, its operator does not declare the axis,
            the mesh has several axes, or a number of placements is wrong.

    Example:
        >>> parallelize_module(net, mesh, {"up": tg.ShardAxis("m"), "down": tg.ShardAxis("n")})
    """

    def __init__(
        self,
        axis: str,
        *,
        input_layouts: Layouts = None,
        output_layouts: Layouts = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.axis = axis
        self.input_layouts = input_layouts
        self.output_layouts = output_layouts
        self.use_local_output = use_local_output

    def __repr__(self) -> str:
        options = {name: getattr(self, name) for name in ("input_layouts", "output_layouts", "use_local_output")}
        return f"ShardAxis({self.axis!r}, {', '.join(f'{name}={value}' for name, value in options.items())})"

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self._check(module, device_mesh)
        assert isinstance(module, Module)
        plan = module._plan
        operator = plan.op._record.name
        names = [p.name for p in plan.inputs]
        wanted = {p.name: self._along(module, p.tensor) for p in plan.inputs if not isinstance(p, Structure)}
        given = dict(zip(names, _layouts(operator, "input_layouts", self.input_layouts, len(names)), strict=True))
        count = sum(not output.saved for output in plan.op._record.signature.outputs)
        left = _layouts(operator, "output_layouts", self.output_layouts, count)
        distribute_module(module, device_mesh, self._distribute)

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            def enter(name: str | None, value: Any) -> Any:
                return value if name not in wanted else self._enter(value, wanted[name], given[name], device_mesh)

            # What `forward` does not know goes on, to be refused there.
            placed = [enter(name, value) for name, value in itertools.zip_longest(names[: len(args)], args)]
            return tuple(placed), {name: enter(name, value) for name, value in kwargs.items()}

        def after(_: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            if isinstance(result, Tensor):
                return self._leave([result], left)[0]
            made = self._leave(result, left)
            return type(result)(*made) if hasattr(result, "_fields") else tuple(made)

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after)
        return module

    def _check(self, module: nn.Module, mesh: DeviceMesh) -> None:
        if not isinstance(module, Module):
            raise ArgumentError(
                "ShardAxis knows the axes of a module that tg.module made", argument="module",
                expected="a module of an operator", got=type(module).__name__,
                hint="name its parts in the plan, or use ColwiseParallel and RowwiseParallel for nn.Linear",
            )  # fmt: skip
        record = module._plan.op._record
        if self.axis not in (*record.parallel, *record.reduction):
            declared = ", ".join((*record.parallel, *record.reduction))
            raise ArgumentError(
                f"the operator does not say that axis {self.axis} may be cut", operator=record.name,
                argument="axis", expected=declared or "an axis that is declared", got=self.axis,
                hint=f'@tg.op(parallel="{self.axis}"), or reduction="{self.axis}", which tg.check proves',
            )  # fmt: skip
        for structure in record.signature.structures:
            raise ArgumentError(
                "is a structure, whose fields have no layouts in a plan", operator=record.name,
                argument=structure.name, expected="an operator that takes tensors one by one",
                got=structure.cls.__name__,
                hint="pass DTensors in the fields: a call with them needs no ShardAxis",
            )  # fmt: skip
        if mesh.ndim != 1:
            names = mesh.mesh_dim_names
            raise ArgumentError(
                "has several axes, and a ShardAxis takes one", operator=record.name, argument="device_mesh",
                expected="a mesh with one axis", got=str(mesh),
                hint=f"pass {f'mesh[{names[-1]!r}]' if names else 'a mesh whose axes have names, as mesh[name]'}",
            )  # fmt: skip

    def _distribute(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        """Shard the module's parameters and buffers that have the axis, and replicate the others."""
        assert isinstance(module, Module)
        for parameter in module._plan.tensors:
            tensor = getattr(module, parameter.name)
            if tensor is None:
                continue
            placement = self._along(module, parameter.tensor)
            placed: Any = distribute_tensor(tensor, mesh, [placement], src_data_rank=self.src_data_rank)
            if isinstance(tensor, nn.Parameter):
                module.register_parameter(parameter.name, nn.Parameter(placed, requires_grad=tensor.requires_grad))
            else:
                module.register_buffer(parameter.name, placed)

    def _along(self, module: Module[Any], kind: TensorType) -> Placement:
        """The placement of a tensor that is cut along the axis, which is counted from the end behind batch axes."""
        assert kind.axes is not None
        names = [token.name for token in kind.axes.tokens]
        if self.axis not in names:
            return Replicate()
        position = names.index(self.axis)
        looped = module._plan.signature.loop  # Each tensor may have batch axes in front.
        behind = looped or (kind.axes.run is not None and kind.axes.run < position)
        return Shard(position - len(names) if behind else position)

    def _enter(self, value: Any, wanted: Placement, layout: Placement | None, mesh: DeviceMesh) -> Any:
        """Take a plain tensor for a DTensor that lies as its layout says, and bring it to where the axis is cut."""
        if not isinstance(value, Tensor):
            return value
        if not isinstance(value, DTensor):
            value = DTensor.from_local(value, mesh, [layout or wanted], run_check=False)
        return value.redistribute(mesh, [wanted])

    def _leave(self, outputs: Sequence[Any], layouts: Sequence[Placement | None]) -> list[Any]:
        made = []
        for output, layout in zip(outputs, layouts, strict=True):
            placed = output.redistribute(output.device_mesh, [layout or self._summed(output.placements[0])])
            made.append(placed.to_local() if self.use_local_output else placed)
        return made

    @staticmethod
    def _summed(placement: Placement) -> Placement:
        return Replicate() if placement.is_partial() else placement


def _layouts(operator: str, argument: str, given: Layouts, count: int) -> Sequence[Placement | None]:
    """A placement, or None, for each of some tensors."""
    if given is None or isinstance(given, Placement):
        return [given] * count
    if len(given) != count:
        raise ArgumentError(
            "has the wrong number of placements", operator=operator, argument=argument, expected=f"{count} of them",
            got=len(given), hint="give one for all, or one for each tensor; None is the default",
        )  # fmt: skip
    return given
