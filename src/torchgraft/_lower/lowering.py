"""The lowering of one operator: its names in the dispatcher, and what each part of the dispatcher does with them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._mesh import call as mesh
from .._record import Record
from .._spec.conversion import check_ranges, convert
from .._spec.dtypes import FLOATS
from .._spec.outputs import flattened, grouped
from .._spec.plan import LeafCounts, leaf_counts
from .._spec.shape_rule import missing_shape
from ..errors import UnsupportedError
from . import fingerprint, vmap
from .derivatives import Derivatives
from .dispatcher_op import DispatcherOp, companion
from .jvp import JVP
from .late_outputs import fake_outputs
from .node import NodeFactory, Recorded, as_run
from .vjp import Weigh
from .writing_node import WritingNode


class Lowering:
    """One operator in PyTorch's dispatcher.

    It has four names. Beside the operator itself stands its mapped variant, whose tensors all carry `lead` leading
    batch axes: `vmap` falls back on it where the annotations have no batch axes. Each of the two has an opaque form,
    which compiled code calls. All but the first are made when they are first needed.

    Args:
        record: of the operator.
        weigh: multiplies cotangents and tangents with partial derivatives.

    Attributes:
        derivatives: its rules, made callable.
        dispatched: the operator itself.
        generated: what was generated for its calls, by kind.
    """

    def __init__(self, record: Record, weigh: Weigh) -> None:
        self.record = record
        self.derivatives = Derivatives(record, self.call, weigh)
        self.generated: dict[type[Any], Any] = {}
        self._nodes: dict[Any, type[Any]] = {}
        self._mapped: DispatcherOp | None = None
        self._opaque: dict[bool, DispatcherOp] = {}
        self._lock = threading.RLock()  # A name must be defined once, whichever thread needs it first.
        name = companion(record.qualname, "functional") if record.signature.written else record.qualname
        self.dispatched = self._register(name, record.signature.schema(), mapped=False)
        if record.sealed:
            self.opaque(mapped=False)  # An exported program needs it in a process that never compiled.

    def forget(self) -> None:
        """Forget what was derived of declarations that have changed."""
        self._nodes.clear()

    @property
    def torch_op(self) -> Any:
        return self.dispatched.torch_op

    def vmap(self, info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        """The batching rule of the operator."""
        return Part(self, self.dispatched, mapped=False).vmap(info, in_dims, *args)

    def tags(self) -> tuple[torch.Tag, ...]:
        """The tags of the operator's names."""
        tags = [torch.Tag.flexible_layout] if hasattr(torch.Tag, "flexible_layout") else []
        tags += [] if self.record.is_captured else [torch.Tag.cudagraph_unsafe]
        tags += [torch.Tag.dynamic_output_shape] if self.record.signature.late else []
        return tuple(tags)

    def _register(self, name: str, schema: str, *, mapped: bool, decomposes: bool = True) -> DispatcherOp:
        dispatched = DispatcherOp(name, schema, tags=self.tags())
        part = Part(self, dispatched, mapped=mapped)
        dispatched.backend(part.backend)
        dispatched.fake(part.fake)
        dispatched.vmap(part.vmap)
        dispatched.dtensors(part.mesh)
        if self.record.signature.returns_list:
            dispatched.at_key("Batched", part.legacy_vmap)
        dispatched.at_key("Autograd", part.autograd, with_keyset=True)
        if decomposes:
            dispatched.decomposition(part.decompose)
        for key in _torch.AUTOCAST_KEYS:
            dispatched.at_key(key, part.autocast)
        return dispatched

    def mapped(self) -> DispatcherOp:
        """The operator whose tensors carry leading batch axes; their number is its last argument."""
        with self._lock:
            if self._mapped is None:
                schema = self.record.signature.schema(lead=True)
                self._mapped = self._register(companion(self.record.qualname, "vmap"), schema, mapped=True)
            return self._mapped

    def opaque(self, *, mapped: bool) -> DispatcherOp:
        """The operator, or its mapped variant, as compiled code calls it where it cannot see inside.

        It has no decomposition (Inductor refuses an operator that has one and is still called), and its name tells
        the annotations: Inductor's cache on disk knows by the name which shapes and dtypes its code was built for.
        """
        with self._lock:
            if mapped not in self._opaque:
                what = ("vmap_" if mapped else "") + fingerprint.of_signature(self.record.signature)
                name, schema = companion(self.record.qualname, what), self.record.signature.schema(lead=mapped)
                self._opaque[mapped] = self._register(name, schema, mapped=mapped, decomposes=False)
            return self._opaque[mapped]

    def writing_node(self, counts: LeafCounts, mask: Sequence[bool]) -> type[Any]:
        """The autograd node for a call that writes."""
        key = (counts, tuple(mask))
        if key not in self._nodes:
            self._nodes[key] = WritingNode(self.derivatives, counts, mask).make()
        return self._nodes[key]

    def node(self, counts: LeafCounts, mask: Sequence[bool], *, batched: bool, hidden: bool) -> type[Any]:
        """The autograd node for one set of present inputs and of inputs that need gradients."""
        key = (counts, tuple(mask), batched, hidden)
        node = self._nodes.get(key)
        if node is None:
            if self.record.eager_node is not None and not hidden and not batched:
                node = self.record.eager_node(counts, tuple(mask))
            if node is None:
                node = NodeFactory(self.derivatives, counts, mask, batched=batched, hidden=hidden).make()
            self._nodes[key] = node
        return node

    def call(self, values: Sequence[Any], lead: int = 0) -> list[Tensor]:
        """All outputs, a list among them flattened, through the dispatcher."""
        operator, extra = (self.torch_op, ()) if lead == 0 else (self.mapped().torch_op, (lead,))
        scope = self.record.call_scope
        try:
            with contextlib.nullcontext() if scope is None else scope(values):
                result = operator(*values, *extra)
        except RuntimeError:
            check_ranges(self.record.signature, values)
            raise
        return self.flat(result)

    def flat(self, result: Any) -> list[Tensor]:
        """All outputs, a list among them flattened, of what the dispatcher returned."""
        signature = self.record.signature
        if not signature.returns_list:
            return [result] if isinstance(result, Tensor) else list(result)
        return flattened(signature.outputs, [result] if len(signature.outputs) == 1 else result)


class Part:
    """The implementation of the operator, or of its mapped variant, at each dispatch key."""

    def __init__(self, lowering: Lowering, dispatched: DispatcherOp, *, mapped: bool) -> None:
        self.lowering = lowering
        self.record = lowering.record
        self.dispatched = dispatched
        self.is_mapped = mapped

    def _values(self, args: Sequence[Any]) -> tuple[list[Any], int]:
        *args, lead = args if self.is_mapped else (*args, 0)
        return convert(self.record.signature, self.record.with_defaults(args)), lead

    def _again(self, values: Sequence[Any], lead: int) -> list[Tensor]:
        return self.lowering.call(values, lead)

    def _pack(self, outputs: Sequence[Any]) -> Any:
        """All outputs, or something about each of them, as the schema has it."""
        if self.record.signature.returns_list:
            outputs = grouped(self.record.signature.outputs, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    # -- backends, fake tensors -------------------------------------------------------------------------------

    def backend(self, *args: Any) -> Any:
        values, lead = self._values(args)
        values = self.record.promoted(values)
        plan = self.record.plan(values, lead)
        with _torch.outside_level(), torch.no_grad():
            return self._pack(self.record.kernel_for(plan.device).run(values, plan))

    def fake(self, *args: Any) -> Any:
        values, lead = self._values(args)
        values = self.record.promoted(values)
        plan = self.record.plan(values, lead)
        kernel = self.record.kernel_for(plan.device)  # What cannot be run is not traced either.
        if plan.late is not None:
            leaves = self.record.leaves(values)
            return self._pack(fake_outputs(plan, plan.late, self.dispatched.torch_op, self.record.name, leaves))
        if all(shape is not None for shape, _ in plan.outputs):
            return self._pack(
                [torch.empty(shape or (), dtype=dtype, device=plan.device) for shape, dtype in plan.outputs]
            )
        if kernel.opaque:
            raise UnsupportedError(
                "the output's shape is not known without running the kernel",
                operator=self.record.name,
                expected="annotated output axes, or a shape rule",
                got=", ".join(map(str, self.record.signature.outputs)),
                hint=missing_shape(self.record.signature),
            )
        return self._pack(kernel.run(values, plan))

    def decompose(self, *args: Any) -> Any:
        """The torch body in the operator's place, for tracers below autograd: Inductor fuses it, export keeps ATen.

        A graph that may still be differentiated (`make_fx`, `torch.func.linearize`) keeps the operator: its derivative
        is its rules', not the body's. That of an exported program is refused: the program is wanted in ATen alone.
        """
        if not _torch.tracing_to_graph():  # Only shapes are wanted, or a mode looks on, such as one that counts.
            return self.fake(*args) if _torch.fake_mode_of(args) else NotImplemented
        if not _torch.tracing_final_graph():
            return NotImplemented
        if self.record.sealed or _torch.tangents_from_outside():  # The body alone would differentiate them.
            return self.lowering.opaque(mapped=self.is_mapped)(*args)
        values, lead = self._values(args)
        try:
            values = self.record.promoted(values)
            plan = self.record.plan(values, lead)
            if plan.batch:  # A dispatch mode cannot trace torch.vmap; `_inline` did it where it could.
                return self.lowering.opaque(mapped=self.is_mapped)(*args)
            outputs, leaves = self.record.kernel_for(plan.device).run(values, plan), self.record.leaves(values)
            owned = [o.clone() if _torch.is_view(o) or any(o is x for x in leaves) else o for o in outputs]
            return self._pack(_torch.without_derivative(owned, leaves) if torch.compiler.is_exporting() else owned)
        except Exception:  # What cannot be traced stays one opaque call, which raises in its turn.
            return self.lowering.opaque(mapped=self.is_mapped)(*args)

    # -- derivatives ------------------------------------------------------------------------------------------

    def autograd(self, keyset: Any, *args: Any) -> Any:
        values, lead = self._values(args)
        if _torch.any_dtensor(self.record.leaves(values)):
            return self._pack(self._on_mesh(values, lead))
        with _torch.level() if _torch.functorch_active() else contextlib.nullcontext():
            return self._pack(self._autograd(keyset, self.record.promoted(values), lead))

    def mesh(self, *args: Any) -> Any:
        """The operator on DTensors, below autograd."""
        return self._pack(self._on_mesh(*self._values(args)))

    def _on_mesh(self, values: list[Any], lead: int) -> list[Tensor]:
        return mesh.call(self.record, self.record.promoted(values), lead, lambda v: self._again(v, lead), shown=False)

    def _autograd(self, keyset: Any, values: list[Any], lead: int) -> Sequence[Tensor]:
        leaves = self.record.leaves(values)
        if _torch.forward_mode_enabled():  # In a graph of Dynamo, Python does not know whether a level is open.
            duals = [
                _torch.unpack_dual(leaf) if leaf.is_floating_point() or leaf.is_complex() else (leaf, None)
                for leaf in leaves
            ]
            if any(tangent is not None for _, tangent in duals):
                primals = self.record.replace(values, [primal for primal, _ in duals])
                with _torch.known_forward_level():
                    outputs = self._attach_node(keyset, primals, lead, tuple(leaves))
                    return self._forward_mode(primals, [tangent for _, tangent in duals], outputs, lead)
        return self._attach_node(keyset, values, lead, None)

    def _attach_node(
        self, keyset: Any, values: list[Any], lead: int, originals: tuple[Tensor, ...] | None
    ) -> Sequence[Tensor]:
        """The call below autograd, with a node on top where an input needs a gradient.

        Args:
            originals: the inputs with their tangents, which the node saves in their place, so that a backward pass
                inside the same forward level sees them.
        """
        run = self._below(keyset, lead)
        leaves = self.record.leaves(values)
        mask = [leaf.requires_grad for leaf in leaves] if torch.is_grad_enabled() else []
        if not any(mask):
            result = run(*values)
        else:
            plan = self.record.plan(values, lead)
            counts = leaf_counts(self.record.signature, values)
            eager = self.record.eager_node is not None and originals is None and _torch.is_at_bottom(leaves)
            node = self.lowering.node(counts, mask, batched=bool(plan.batch), hidden=not eager)
            scalars = tuple(v for v, p in zip(values, self.record.signature.parameters, strict=True) if not p.is_tensor)
            with _torch.single_level():
                result = node.apply(Recorded(run, plan, scalars, originals), *leaves)
        return [result] if isinstance(result, Tensor) else list(result)

    def _below(self, keyset: Any, lead: int) -> Callable[..., Any]:
        call = _torch.redispatch_below_autograd(self.dispatched.torch_op, keyset)
        if self.record.signature.returns_list:
            call = self._flattening(call)
        extra = (lead,) if self.is_mapped else ()
        mapped = self.is_mapped or self.record.signature.loop
        if mapped and not _torch.functorch_active() and _torch.tracing_final_graph():

            def inline(*values: Any) -> Any:
                result = self._inline(values, lead)
                return call(*values, *extra) if result is None else result

            return inline
        return lambda *values: call(*values, *extra)

    def _flattening(self, call: Callable[..., Any]) -> Callable[..., list[Tensor]]:
        return lambda *args: self.lowering.flat(call(*args))

    def _inline(self, values: Sequence[Any], lead: int) -> Any:
        """The mapped torch body in the operator's place, for a tracer; None where that cannot be."""
        plan = self.record.plan(values, lead)
        if self.record.sealed or not plan.batch or _torch.tangents_from_outside():
            return None
        try:
            with _torch.below_autograd():
                outputs = self.record.kernel_for(plan.device).run(values, plan, may_loop=False)
                if torch.compiler.is_exporting():
                    outputs = _torch.without_derivative(outputs, self.record.leaves(values))
                return as_run(self.record.signature, outputs)
        except Exception:  # It stays one opaque call, as in `decompose`.
            return None

    def _forward_mode(
        self, values: list[Any], tangents: Sequence[Tensor | None], outputs: Sequence[Tensor], lead: int
    ) -> Sequence[Tensor]:
        """Forward mode, peeled off: the operator on the primals, and the rule on primals and tangents."""
        plan = self.record.plan(values, lead)

        def push(*tangents: Tensor | None) -> list[Tensor | None]:
            return JVP(self.lowering.derivatives, values, tangents, outputs, plan, lead).run()

        legacy = any(t is not None and _torch.is_legacy_batched(t) for t in tangents)
        made = _torch.map_legacy(push, tangents) if legacy else push(*tangents)
        return [o if t is None else _torch.make_dual(o, t) for o, t in zip(outputs, made, strict=True)]

    # -- vmap, autocast ---------------------------------------------------------------------------------------

    def vmap(self, info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        if self.record.signature.late:
            raise vmap.refuse_late(self.record.signature)
        values, lead = self._values(args)
        dims = vmap.leaf_dims(self.record.signature, values, in_dims)
        leaves = self.record.leaves(values)
        if self.record.signature.seed is not None and not self.is_mapped:
            leaves, dims = vmap.with_sample_seeds(self.record.signature, values, leaves, dims, info.batch_size)
        outputs = self._map(values, lead, leaves, dims, info.batch_size)
        return self._pack(outputs), self._pack([0] * len(outputs))

    def legacy_vmap(self, *args: Any) -> Any:
        """The older `vmap`, whose fallback knows no lists."""
        values, lead = self._values(args)
        level, leaves, dims = _torch.legacy_unwrap(self.record.leaves(values))
        size = next(leaf.shape[0] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None)
        outputs = self._map(values, lead, leaves, dims, size)
        return self._pack([_torch.legacy_wrap(output, level) for output in outputs])

    def _map(
        self, values: list[Any], lead: int, leaves: Sequence[Tensor], dims: Sequence[int | None], size: int
    ) -> list[Tensor]:
        """The outputs for each sample along the mapped axes, in front of all others."""
        if self.is_mapped:
            moved, lead = vmap.to_front(leaves, dims), lead + 1
        else:
            inside = vmap.into_batch_axes(self.record.signature, values, leaves, dims, size)
            moved, lead = (inside, 0) if inside is not None else (vmap.to_front(leaves, dims), 1)
        return self._again(self.record.replace(values, moved), lead)

    def autocast(self, *args: Any) -> Any:
        values, lead = self._values(args)
        with _torch.below_autocast():
            return self._pack(self._again(self._cast(values), lead))

    def _cast(self, values: list[Any]) -> list[Any]:
        """Floating inputs in the operator's autocast dtype, or in the widest among them; float64 stays, as in torch."""
        eligible = [
            leaf
            for i, p in self.record.signature.tensors
            if p.tensor.dtypes.numeric and values[i] is not None
            for leaf in (values[i] if p.many else [values[i]])
            if leaf.dtype in FLOATS
        ]
        dtypes, target = {leaf.dtype for leaf in eligible}, self.record.autocast
        if dtypes and (target is None or torch.float64 in dtypes):
            target = functools.reduce(torch.promote_types, dtypes)
        cast = {id(leaf): leaf.to(target) for leaf in eligible}
        return self.record.replace(values, [cast.get(id(leaf), leaf) for leaf in self.record.leaves(values)])
