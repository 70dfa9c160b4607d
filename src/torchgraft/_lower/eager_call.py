"""The call of an operator from Python: the short, hot function that chooses a path.

Three paths. *Plain* tensors without a gradient go straight to the kernel; with one, to an autograd node around the
kernel; everything else - transforms, compilers, fake tensors, modes, subclasses, autocast, tangents, a profiler - goes
through the dispatcher, which knows them all. The function is generated once for each operator (`hot_path`).

What a call looks like is recognised by one C call (`_torch.plain_tensors`) against what was seen and checked before;
a new combination goes down the slow path once, where every check has words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import _torch
from .._build import debug
from .._kernels.kernel import Kernel, positional
from .._kernels.results import refuse_mutated, settle
from .._mesh import call as mesh
from .._spec.conversion import common_dtype, convert, with_tensors
from .._spec.outputs import flattened, spread
from .._spec.plan import LeafCounts, Plan, leaf_counts
from ..errors import RuleError, UnsupportedError
from .hot_path import Checks, HotPath
from .late_outputs import like_these
from .lowering import Lowering
from .node import Recorded, as_run
from .watch import WATCHES, tell

Known = tuple[Any, ...]
"""An `Entry` with what the hot path needs of it before it: attributes would cost it 20 ns each."""

_SHAPES = 1024
_ALIKE = 16  # They differ in dtypes, strides, devices, or in what requires grad.


class Entry:
    """A combination of arguments that was seen and checked.

    Attributes:
        admits: whether tensors look like those that were seen.
        returns: whether outputs look as they should; None until the kernel has run.
        kernel: the kernel as the hot path calls it.
        kernel_of: whose it is.
        node: `apply` of the autograd node, for when grad mode is on; None where no input requires grad.
        plan: the plan of the call.
        run: the checked kernel, which the node calls.
        recorded: what the node is given where all arguments are tensors.
        known: the entry as the hot path keeps it.
        uncounted: the checked kernel for inputs that do not count their mutations.
        settle: finds out what is wrong with outputs that do not look as they should, and mends what may be mended.
        shape_arguments: values of the arguments on which shapes depend.
    """

    __slots__ = (
        "admits", "kernel", "kernel_of", "known", "node", "plan", "recorded", "returns", "run", "settle",
        "shape_arguments", "uncounted",
    )  # fmt: skip

    def __init__(
        self,
        admits: Callable[..., bool],
        kernel: Callable[..., Any],
        settle: Callable[..., Any],
        plan: Plan,
        shape_arguments: tuple[Any, ...],
    ) -> None:
        self.admits = admits
        self.kernel = kernel
        self.settle = settle
        self.plan = plan
        self.shape_arguments = shape_arguments
        self.returns: Callable[..., bool] | None = None
        self.node: Callable[..., Any] | None = None
        self.run: Callable[..., Any]
        self.uncounted: Callable[..., Any]
        self.kernel_of: Kernel | None = None

    def complete(self) -> None:
        """Make what the hot path takes of it, of what the first run has shown."""
        self.recorded = Recorded(self.run, self.plan, ())
        self.known: Known = (self.admits, self.returns, self.kernel, self.node, self)


def admits_nothing(*_: Any) -> bool:
    return False


class Call(ABC):
    """The call of one operator, for the declarations that there are, and what it has seen of arguments.

    Attributes:
        function: its ``__call__``.
        compiled: what Dynamo puts into its graph.
    """

    path: ClassVar[type[HotPath]]
    never: ClassVar[Known]
    """An entry that admits nothing."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.record = lowering.record
        self.signature = lowering.record.signature
        self.entries: dict[Any, list[Any]] = {}
        # With lists of tensors the number of leaves varies, and every call is checked in words.
        self.recognises = not any(p.many for _, p in self.signature.tensors)
        kernels = self.record.kernels.values()
        self._hot_path = self._generated(Checks(all(k.opaque for k in kernels), all(k.trusted for k in kernels)))
        self.compiled = self._compiled()
        self.function, self._install = self._hot_path.make(self._told, self._find, self.compiled)
        untold, self._install_untold = self._hot_path.make(self.slow, self._find, self.compiled, ())
        self._positional = positional(self.signature, partial(self.function, None))
        self._fast = positional(self.signature, partial(untold, None))
        debug.remembers(self)

    def _generated(self, checks: Checks) -> HotPath:
        """The generated functions: rules do not change them, and those of the declarations before serve again."""
        known = self.lowering.generated.get(self.path)
        if known is None or known.signature is not self.signature or known.checks != checks:
            known = self.path(self.signature, self.record.qualname, self.never, checks)
            self.lowering.generated[self.path] = known
        return known

    @abstractmethod
    def slow(self, *args: Any) -> Any:
        """Every check, every path; what is found out is installed for the hot path."""

    @_torch.no_dynamo
    def _told(self, *args: Any) -> Any:
        """Tell those who watch a rule what a call makes, which no function of torch does; else take the slow path."""
        if not WATCHES:
            return self.slow(*args)
        made = self._fast(*args)
        tell(self.signature.name, args, self._changed(args, made))
        return made

    def _changed(self, args: Sequence[Any], made: Any) -> Sequence[Any]:
        """List what a call has made."""
        return [made]

    @abstractmethod
    def _compiled(self) -> Any:
        """Make what Dynamo puts into its graph: a function, or several."""

    def forget(self) -> None:
        """Forget what was recognised; the functions of kernels may be others now."""
        self.entries.clear()
        self._install(self.never)
        self._install_untold(self.never)

    def _find(self, key: Any, tensors: Sequence[Any]) -> Known | None:
        """Find the entry for tensors like these; the key holds their shapes."""
        try:
            found = self.entries.get(key, ())
        except TypeError:  # A tracer's SymInts cannot be hashed.
            return None
        return next((entry.known for entry in found if entry.admits(*tensors)), None)

    def again(self, values: Sequence[Any]) -> Any:
        """The call with tensors in the place of others or of numbers, which the hot path may know."""
        return self._positional(*values)

    def _seen(self, values: Sequence[Any], leaves: Sequence[Tensor]) -> Sequence[Tensor]:
        """The tensors as the hot path compares them."""
        places = [i for i, _ in self.signature.tensors]
        return [_torch.absent(i) if values[i] is None else values[i] for i in places] if self.recognises else leaves

    def _keep(self, values: Sequence[Any], entry: Any) -> None:
        """Keep an entry that is complete, and install it."""
        key = [None if values[i] is None else values[i].shape for i, _ in self.signature.tensors]
        if len(self.entries) >= _SHAPES:
            self.entries.clear()
        alike = self.entries.setdefault((*key, *entry.shape_arguments), [])
        if len(alike) >= _ALIKE:
            alike.clear()
        alike.append(entry)
        self._install(entry.known)


class EagerCall(Call):
    """The call of an operator that writes nothing."""

    path = HotPath
    never = (admits_nothing, admits_nothing, admits_nothing, None, None)

    def __init__(self, lowering: Lowering) -> None:
        tensors = lowering.record.signature.tensors
        self._places = [i for i, _ in tensors]
        self._converts_nothing = not any(p.many or p.tensor.dtypes.promotes for _, p in tensors)
        super().__init__(lowering)

    @_torch.no_dynamo
    def slow(self, *args: Any) -> Any:
        """Every check, every path; what is found out is installed for the hot path."""
        if any(isinstance(value, torch.fx.Proxy) for value in args):
            raise UnsupportedError(
                "torch.fx.symbolic_trace knows neither shapes nor dtypes, which an operator checks",
                operator=self.signature.name,
                expected="a tracer that runs on tensors",
                got="a Proxy of torch.fx.symbolic_trace",
                hint="torch.export.export(module, args), or make_fx(module)(*args)",
            )
        if self._converts_nothing and _torch.all_dtensors([args[i] for i in self._places]) and _torch.runs_eagerly():
            return self._on_mesh(args)  # Numbers were converted by who called, and these tensors need not be.
        given = with_tensors(self.signature, args)
        if given is not args:
            return self.again(given)
        values = convert(self.signature, args)
        leaves = self.record.leaves(values)
        if _torch.any_dtensor_below(leaves) and _torch.runs_eagerly():
            return self._on_mesh(self.record.promoted(values))
        alive = [_torch.unwrap_dead(leaf) for leaf in leaves]
        if any(one is not other for one, other in zip(alive, leaves, strict=True)):
            return self.slow(*self.record.replace(values, alive))
        if _torch.is_tracing():
            raise UnsupportedError(
                "torch.jit.trace would record the kernel's steps and drop the operator and its derivative",
                operator=self.signature.name,
                expected="torch.export.export or torch.compile",
                got="torch.jit.trace",
                hint="torch.export.export(module, args)",
            )
        if not _torch.is_direct(leaves):
            # A tangent is no lazy view where its primal is one, and torch has no views of such a pair.
            resolved = [leaf.resolve_conj().resolve_neg() for leaf in leaves]
            return self.signature.pack(self.lowering.call(self.record.replace(values, resolved)))
        if common_dtype(self.signature, values) is not None:
            return self.again(self.record.promoted(values))
        if self.recognises and len({id(leaf) for leaf in leaves}) < len(leaves):
            return self.again(self.record.replace(values, _torch.distinct(leaves)))
        plan = self.record.plan(values)
        kernel = self.record.kernel_for(plan.device)
        entry = self._make_entry(kernel, values, leaves, plan)
        outputs = self._first_run(entry, values, leaves)
        if self.recognises:
            entry.kernel = kernel.planned(plan, values)  # The first run may have changed it.
            self._remember(values, entry)
        return self.signature.pack(outputs)

    def _on_mesh(self, values: Sequence[Any]) -> Any:
        """The call on DTensors: the parts of this rank may take the hot path."""

        def run(values: Sequence[Any]) -> Sequence[Tensor]:
            result = self.again(values)
            groups = (result,) if self.signature.structure is None else tuple(result)
            return flattened(self.signature.visible, groups) if self.signature.returns_list else groups

        made = mesh.call(self.record, values, 0, run, shown=True)
        return self.signature.pack_shown(made)

    def _make_entry(self, kernel: Kernel, values: Sequence[Any], leaves: Sequence[Tensor], plan: Plan) -> Entry:
        positions = self.signature.tensors

        def find_out(values: Sequence[Any], result: Any, versions: Sequence[int] | None) -> list[Tensor]:
            inputs = self.record.leaves(values)
            if versions is not None:
                counted = [v for (i, _), v in zip(positions, versions, strict=True) if values[i] is not None]
                for leaf, tensor, version in zip(plan.leaves, inputs, counted, strict=True):
                    if tensor._version != version:
                        raise refuse_mutated(self.signature.name, leaf.name)
            return settle(self.signature, plan, result, inputs)

        entry = Entry(
            _torch.plain_tensors(*self._seen(values, leaves)),
            kernel.planned(plan, values),
            find_out,
            plan,
            self.record.shape_values(values),
        )
        entry.kernel_of = kernel
        if any(leaf.requires_grad for leaf in leaves):  # Grad mode does not count: `admits` does not look at it.
            mask = [leaf.requires_grad for leaf in leaves]
            counts = leaf_counts(self.signature, values)
            entry.node = self._node(counts, mask, batched=bool(plan.batch))
        entry.run = self._probing(entry, kernel, plan)
        return entry

    def _node(self, counts: LeafCounts, mask: Sequence[bool], *, batched: bool) -> Callable[..., Any]:
        """`apply` of the autograd node; what refuses to be one raises when a gradient is wanted, and not before."""
        try:
            apply: Callable[..., Any] = self.lowering.node(counts, mask, batched=batched, hidden=False).apply
        except RuleError as error:
            if torch.is_grad_enabled():
                raise
            refusal = error

            def apply(*_: Any) -> Any:
                raise refusal

        return apply

    def _probing(self, entry: Entry, kernel: Kernel, plan: Plan) -> Callable[..., Any]:
        """The kernel for the first time: probed for captured tensors, and its outputs' looks remembered."""

        def run(*values: Any) -> Any:
            outputs = kernel.run_probing(values, plan)
            entry.returns = _torch.plain_tensors(*outputs) if plan.late is None else like_these(plan.late, outputs)
            return as_run(self.signature, outputs)

        return run

    def _first_run(self, entry: Entry, values: Sequence[Any], leaves: Sequence[Tensor]) -> list[Any]:
        if entry.node is None or not torch.is_grad_enabled():
            outputs = entry.run(*values)
            return [outputs] if isinstance(outputs, Tensor) else list(outputs)
        scalars = tuple(v for v, p in zip(values, self.signature.parameters, strict=True) if not p.is_tensor)
        result = entry.node(Recorded(entry.run, entry.plan, scalars), *leaves)
        shown = [result] if isinstance(result, Tensor) else list(result)
        outputs = self.signature.outputs
        every = spread(outputs, len(shown) + len(outputs) - len(self.signature.visible))
        rest = iter(shown)
        return [None if output.saved else next(rest) for output in every]

    def _remember(self, values: Sequence[Any], entry: Entry) -> None:
        entry.run = self._hot_path.make_run(entry.returns, entry.kernel, entry)
        entry.uncounted = self._hot_path.make_uncounted(entry.returns, entry.kernel, entry)
        entry.complete()
        self._keep(values, entry)

    def _compiled(self) -> Callable[..., Sequence[Tensor]]:
        """The function that Dynamo puts into its graph in the place of the operator.

        AOTAutograd's cache on disk knows an operator by its name alone and would hand out the derivative of an older
        version of the file; a graph that calls a function is not cached there. Inductor's own cache, which is keyed by
        what the function was traced into, still serves.
        """

        def call(*args: Any) -> Sequence[Tensor]:
            _torch.guard_forward_level()
            return tuple(self.lowering.call(convert(self.signature, args)))

        call.__name__ = call.__qualname__ = self.signature.name
        _torch.once_loaded(_torch.DYNAMO, lambda: torch.compiler.allow_in_graph(call))
        return call
