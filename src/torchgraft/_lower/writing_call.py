"""The call of an operator that writes into its arguments.

Four ways. *Plain* tensors without a gradient: the kernel writes into the memory itself, whose version is counted. With
a gradient: the same inside of an autograd node, which marks what is written. Everything else - transforms, modes,
subclasses, autocast, tangents, arguments whose memory overlaps - calls the function behind the operator, which writes
nothing, and copies the new values. Compilers have names of their own for the last two.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._kernels.kernel import Kernel
from .._kernels.results import refuse_mutated, settle_returned
from .._kernels.written import results_beside, written_places
from .._spec.conversion import common_dtype, convert, with_tensors
from .._spec.plan import Plan, leaf_counts
from ..errors import DtypeError, RuleError, ShapeError, UnsupportedError
from .eager_call import Call, EagerCall, admits_nothing
from .node import Recorded
from .writing_path import WritingPath, holds


class WritingEntry:
    """A combination of arguments that was seen and checked.

    Attributes:
        admits: whether tensors look like those that were seen.
        returns: whether what the kernel returns looks as it should.
        spans: bytes of memory that each tensor reaches over; 0 for one that is absent.
        node: `apply` of the autograd node; None where no argument requires grad.
        copies: the copies that the node takes of what is written.
        run: the kernel as the node calls it.
        known: the entry as the generated call keeps it.
    """

    __slots__ = (
        "admits", "copies", "kernel_of", "known", "node", "plan", "recorded", "returns", "run", "settle",
        "shape_arguments", "spans",
    )  # fmt: skip

    admits: Callable[..., bool]
    copies: Callable[..., Sequence[Tensor]]
    kernel_of: Kernel
    known: tuple[Any, ...]
    node: Callable[..., Any] | None
    plan: Plan
    recorded: Recorded
    returns: Callable[..., bool] | None
    run: Callable[..., Any]
    settle: Callable[..., Any]
    shape_arguments: tuple[Any, ...]
    spans: tuple[int, ...]


class WritingCall(Call):
    """The call of one operator that writes, for the declarations that there are.

    Args:
        functional: the call of the function behind it.
        torch_op: of the dispatcher, which writes.
    """

    path = WritingPath
    never = (admits_nothing, admits_nothing, None, None)

    def __init__(self, functional: EagerCall, torch_op: Any) -> None:
        self.functional = functional
        self._torch_op = torch_op
        self._written = written_places(functional.signature)
        rules = [rule for rules in functional.record.rules.values() for rule in rules.values()]
        parameters = functional.signature.parameters
        self._read = [i for i in self._written if any(r.residual or parameters[i].name in r.reads for r in rules)]
        names = [parameter.name for parameter in parameters]
        moved = zip(self._written, functional.signature.outputs, strict=False)
        self._movers = {i: [i, *map(names.index, functional.record.movers(output))] for i, output in moved}
        super().__init__(functional.lowering)

    # -- choosing the way -------------------------------------------------------------------------------------------

    @_torch.no_dynamo
    def slow(self, *args: Any) -> Any:
        """Every check, every way; what is found out is installed for the hot path."""
        given = with_tensors(self.signature, args)
        if given is not args:
            return self.again(given)
        values = convert(self.signature, args)
        leaves = self.record.leaves(values)
        if not _torch.is_direct(leaves) or common_dtype(self.signature, values) is not None:
            return self.apart(*values)
        self._check_written(values)
        plan = self._plan(values)
        kernel = self.record.kernel_for(plan.device)
        entry = self._make_entry(kernel, values, leaves, plan)
        recorded = entry.node is not None and torch.is_grad_enabled()
        if self._overlaps(values) or (recorded and self._writes_view(values)):
            return self.apart(*values)
        writing = kernel.in_place(plan, values)
        if writing is None:
            return self.apart(*values)
        outputs = self._first_run(entry, values, leaves)
        if self.recognises and _distinct(leaves):
            self._remember(values, entry, writing)
        return self.signature.pack_beside(outputs)

    def _changed(self, args: Sequence[Any], made: Any) -> Sequence[Any]:
        """List what a call has made and written."""
        return [made, *(args[i] for i in self._written)]

    def _check_written(self, values: Sequence[Any]) -> None:
        """Refuse what torch's own functions do not write into either."""
        for i in self._written:
            tensor, name = values[i], self.signature.parameters[i].name
            if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
                raise self._refuse(
                    name, "is a leaf that requires grad, which cannot be written where its gradient is recorded",
                    "a tensor that was computed, or grad mode off", "a leaf that requires grad",
                    f"with torch.no_grad(): {self.signature.name}(...)\nor pass {name}.clone()",
                )  # fmt: skip
            if tensor.is_inference() and not torch.is_inference_mode_enabled():
                raise self._refuse(
                    name, "is an inference tensor, which cannot be written outside of inference mode",
                    "a normal tensor, or inference mode", "an inference tensor", f"pass {name}.clone()",
                )  # fmt: skip
            if _torch.overlaps_itself(tensor):
                raise self._refuse(
                    name, "has elements that are one place in memory, as an expanded tensor has",
                    "an element for each place", f"shape {tuple(tensor.shape)}, strides {tensor.stride()}",
                    f"pass {name}.clone()",
                )  # fmt: skip

    def _refuse(self, name: str, problem: str, expected: str, got: str, hint: str) -> UnsupportedError:
        return UnsupportedError(
            problem, operator=self.signature.name, argument=name, expected=expected, got=got, hint=hint
        )

    def _plan(self, values: Sequence[Any]) -> Plan:
        plan = self.record.plan(values)
        for i, (shape, _) in zip(self._written, plan.outputs, strict=False):
            self._check_shape(i, values[i], shape or ())
        return plan

    def _check_shape(self, place: int, tensor: Tensor, shape: Sequence[Any]) -> None:
        if tuple(tensor.shape) != tuple(shape):
            name = self.signature.parameters[place].name
            raise ShapeError(
                "is written, and has not room for every element of the result: it does not broadcast",
                operator=self.signature.name, argument=name, expected=f"shape {tuple(shape)}",
                got=f"shape {tuple(tensor.shape)}",
                hint=f"pass one of the full shape, or call {self.signature.name}.functional, which returns the result",
            )  # fmt: skip

    def _overlaps(self, values: Sequence[Any]) -> bool:
        """Tell whether something written has memory in common with another argument; of two written ones, refuse it."""
        self._check_apart(values)
        others = [(values[i], p) for i, p in self.signature.tensors if not p.written and values[i] is not None]
        read = [tensor for value, p in others for tensor in (value if p.many else [value])]
        return any(_torch.overlap(values[i], tensor) for i in self._written for tensor in read)

    def _check_apart(self, values: Sequence[Any]) -> None:
        """Refuse two written arguments that have memory in common; of transformed tensors that is not known."""
        written = [values[i] for i in self._written]
        if _torch.is_at_bottom(written):
            self._refuse_common(written, _torch.overlap)

    def _refuse_common(self, written: Sequence[Tensor], overlap: Callable[[Tensor, Tensor], bool]) -> None:
        named = zip((p.name for p in self.signature.written), written, strict=True)
        for (name, one), (other_name, other) in itertools.combinations(named, 2):
            if overlap(one, other):
                raise self._refuse(
                    name, f"and {other_name}, which are both written, have memory in common",
                    "memory of its own for each", "the same memory", f"pass {name}.clone()",
                )  # fmt: skip

    def _writes_view(self, values: Sequence[Any]) -> bool:
        """Tell whether a node would write into a view: autograd says only afterwards that it may not be written."""
        return any(_torch.is_view(values[i]) for i in self._written)

    # -- without effects, and copied --------------------------------------------------------------------------------

    def apart(self, *values: Any) -> Any:
        """The function behind the operator, whose results are then copied to where they belong."""
        if self._is_for_compiler(values):
            return self._torch_op(*values)
        self._check_apart(values)
        given = list(values)
        if torch.is_grad_enabled():
            for i in (*self._read, *self._sharing(values)):  # The node saves it, and it is written afterwards.
                given[i] = [t.clone() for t in values[i]] if isinstance(values[i], (list, tuple)) else values[i].clone()
        made = self.functional.again(given)
        shown = [made] if self.signature.structure is None else list(made)
        pairs = list(zip(self._written, shown, strict=False))
        for i, after in pairs:
            self._check_shape(i, values[i], after.shape)
            if not holds(values[i].dtype, after.dtype):
                raise self._loses(self.signature.parameters[i].name, values[i], after)
        for i, after in pairs:
            self._copy(self.signature.parameters[i].name, values[i], self._unrecorded(i, values, after))
        return self.signature.pack_beside(shown[len(pairs) :])

    def _sharing(self, values: Sequence[Any]) -> list[int]:
        """List the places of what is only read, and has memory in common with what is written."""
        written = {_torch.memory(values[i]) for i in self._written}
        read = ((i, _tensors(values[i])) for i, p in self.signature.tensors if not p.written)
        return [i for i, tensors in read if any(_torch.memory(tensor) in written for tensor in tensors)]

    def _unrecorded(self, place: int, values: Sequence[Any], after: Tensor) -> Tensor:
        """A new value, without its graph where nothing that has a derivative moves it: running statistics stay so.

        A graph that may be differentiated later keeps it: what it is called with is not known yet.
        """
        if _torch.tracing_to_graph() and not _torch.tracing_final_graph():
            return after
        moving = (tensor for i in self._movers[place] for tensor in _tensors(values[i]))
        return after if any(map(_torch.has_derivative, moving)) else after.detach()

    def _is_for_compiler(self, values: Sequence[Any]) -> bool:
        """Tell whether a tracer is to see that the operator writes: nothing is differentiated, and it sees no more."""
        if not self.record.opaque or not _torch.tracing_to_graph() or _torch.functorch_active():
            return False
        recorded = torch.is_grad_enabled() and any(leaf.requires_grad for leaf in self.record.leaves(values))
        return not recorded and not _torch.tangents_possible()

    def _loses(self, name: str, tensor: Tensor, after: Tensor) -> DtypeError:
        expected, got = (str(t.dtype).removeprefix("torch.") for t in (after, tensor))
        return DtypeError(
            f"is written, and {got} does not hold what the result may be", operator=self.signature.name,
            argument=name, expected=expected, got=got, hint=f"pass {name}.to(torch.{expected})",
        )  # fmt: skip

    def _copy(self, name: str, tensor: Tensor, after: Tensor) -> None:
        try:
            tensor.copy_(_torch.laid_as(tensor, after))
        except RuntimeError as error:
            raise UnsupportedError(
                f"cannot be written here: {str(error).partition('. ')[0].strip()}",
                operator=self.signature.name, argument=name, expected="a tensor that torch lets be written",
                got="one that torch refuses to write", hint=f"pass {name}.clone(), made where the call is, or call "
                f"{self.signature.name}.functional, which returns the new value",
            ) from error  # fmt: skip

    # -- in place ---------------------------------------------------------------------------------------------------

    def _make_entry(self, kernel: Kernel, values: Sequence[Any], leaves: Sequence[Tensor], plan: Plan) -> WritingEntry:
        positions = self.signature.tensors
        entry = WritingEntry()
        entry.plan, entry.kernel_of = plan, kernel
        entry.admits = _torch.plain_tensors(*self._seen(values, leaves))
        entry.shape_arguments = self.record.shape_values(values)
        entry.spans = tuple(0 if values[i] is None else 0 if p.many else _torch.span(values[i]) for i, p in positions)
        entry.returns = None
        entry.settle = self._settling(plan)
        entry.node = None
        entry.copies = _no_copies
        mask = [leaf.requires_grad for leaf in leaves]
        if any(mask):
            self._give_node(entry, values, mask)
        return entry

    def _give_node(self, entry: WritingEntry, values: Sequence[Any], mask: Sequence[bool]) -> None:
        try:
            node = self.lowering.writing_node(leaf_counts(self.signature, values), mask)
        except RuleError as error:
            if torch.is_grad_enabled():
                raise
            refusal = error

            def refuse(*_: Any) -> Any:
                raise refusal

            entry.node = refuse
            return
        entry.node = node.apply
        if node.copied:
            copied = node.copied
            entry.copies = lambda *written: [written[i].clone() for i in copied]

    def _settling(self, plan: Plan) -> Callable[..., Sequence[Tensor]]:
        """Find out what is wrong with what the kernel did, and mend what may be mended."""
        positions = self.signature.tensors

        def settle(values: Sequence[Any], result: Any, versions: Sequence[Any] | None) -> Sequence[Tensor]:
            for (i, parameter), version in zip(positions, versions or (), strict=False):
                if values[i] is None or parameter.written or values[i]._version == version:
                    continue
                # Views of one tensor count together, and that one of them was written is no news.
                if not any(_torch.counts_with(values[i], values[place]) for place in self._written):
                    raise refuse_mutated(self.signature.name, parameter.name)
            results = results_beside(self.signature, result)
            return settle_returned(self.signature, plan, results, self.record.leaves(values))

        return settle

    def _probing(self, entry: WritingEntry, values: Sequence[Any]) -> Callable[..., Sequence[Tensor]]:
        """The kernel for the first time: on copies, since it may be run twice to see whether it draws."""

        def run(*values: Any) -> Sequence[Tensor]:
            made = entry.kernel_of.run_probing(values, entry.plan)
            for i, after in zip(self._written, made, strict=False):
                with torch.no_grad():
                    values[i].copy_(after)
            outputs = made[len(self._written) :]
            entry.returns = _torch.plain_tensors(*outputs) if outputs else None
            return tuple(outputs)

        return run

    def _first_run(self, entry: WritingEntry, values: Sequence[Any], leaves: Sequence[Tensor]) -> list[Any]:
        run = self._probing(entry, values)
        returned = self.signature.returned
        if entry.node is None or not torch.is_grad_enabled():
            return [v for v, output in zip(run(*values), returned, strict=True) if not output.saved]
        scalars = tuple(v for v, p in zip(values, self.signature.parameters, strict=True) if not p.is_tensor)
        copies = entry.copies(*(values[i] for i in self._written))
        made = entry.node(Recorded(run, entry.plan, scalars), *leaves, *copies)
        return [] if isinstance(made, Tensor) else list(made[len(self._written) :])

    def _remember(self, values: Sequence[Any], entry: WritingEntry, writing: Callable[..., Any]) -> None:
        counted = not any(leaf.is_inference() for leaf in self.record.leaves(values))
        make = self._hot_path.make_run if counted else self._hot_path.make_uncounted
        entry.run, call = make(writing, entry, self.slow)
        entry.recorded = Recorded(entry.run, entry.plan, ())
        entry.known = (entry.admits, call, entry.node, entry)
        self._keep(values, entry)

    def _compiled(self) -> tuple[Callable[..., Any], ...]:
        """Make the functions of Dynamo's graph: the one without effects, the one that writes, and two that help."""

        def copies(*written: Tensor) -> tuple[Tensor, ...]:
            if not _torch.functorch_active():  # Transformed tensors have no storage.
                self._refuse_common(written, _torch.overlap_in_storage)
            return tuple(tensor.clone() for tensor in written)

        def call(*args: Any) -> tuple[Tensor, ...]:
            _torch.guard_forward_level()
            made = self._torch_op(*convert(self.signature, args))
            return () if made is None else (made,) if isinstance(made, Tensor) else tuple(made)

        call.__name__ = call.__qualname__ = self.signature.name

        def unrecorded(place: int, after: Tensor, *values: Any) -> Tensor:
            with _torch.known_forward_level():
                return self._unrecorded(place, values, after)

        for function in (call, copies, unrecorded):
            _torch.once_loaded(_torch.DYNAMO, partial(torch.compiler.allow_in_graph, function))
        return self.functional.compiled, call, copies, unrecorded


def _tensors(value: Any) -> Sequence[Tensor]:
    """The tensors of a parameter."""
    return () if value is None else value if isinstance(value, (list, tuple)) else (value,)


def _no_copies(*_: Any) -> Sequence[Tensor]:
    return ()


def _distinct(leaves: Sequence[Tensor]) -> bool:
    return len({id(leaf) for leaf in leaves}) == len(leaves)
