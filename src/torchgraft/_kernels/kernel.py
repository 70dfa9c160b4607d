"""A kernel: what computes an operator's outputs, callable on tensors and checked."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from .. import _torch
from .._captures import CaptureWatch, captured_with_grad
from .._randomness import Probe
from .._spec.outputs import grouped
from .._spec.plan import Plan, flatten, replace, seeded
from .._spec.shape_rule import missing_shape
from .._spec.signature import Signature
from .._spec.structures import Structure, gathering
from ..errors import KernelError
from .batching import vectorise
from .ownership import held_elsewhere
from .results import Samples, as_sequence, refuse_captured, refuse_mutated, refuse_random, settle
from .written import in_full, leads_in_full, on_copies

if TYPE_CHECKING:
    from .._build.native_function import NativeFunction

_WATCHED = 3
"""Runs in which captured tensors are looked for."""


class Kernel(ABC):
    """A kernel, which computes an operator's outputs.

    Attributes:
        kind: what it is written in, for `print(op)`.
        opaque: tracers cannot see into it, and it computes on the CPU alone.
        trusted: what it returns is as annotated and its own, and its inputs are as they were: made so by torchgraft.
        function: what the user wrote.
        call: the function on tensors, positional, unchecked.
        probe: looks out for hidden randomness; None where there can be none.
        writing: the user's function, positional, which writes into the arguments that are declared as written.
        native: the function in C that it is; None in Python.
    """

    kind: str
    opaque: ClassVar[bool]
    trusted: ClassVar[bool] = False
    call: Callable[..., Any]
    writing: Callable[..., Any]
    probe: Probe | None = None
    native: NativeFunction | None = None

    def __init__(self, signature: Signature, function: Callable[..., Any]) -> None:
        self.signature = signature
        self.function = function
        self._runs = 0

    def runs_on(self, device: str) -> bool:
        """Tell whether it computes on devices of a type."""
        return not self.opaque or device == "cpu"

    def check_on_cuda(self) -> None:  # noqa: B027 - Those in Python may.
        """Raise a `DeclarationError` if it is declared for CUDA and cannot run there."""

    def run(
        self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True, new: bool = False, recorded: bool = False
    ) -> list[Tensor]:
        """All outputs, checked against the plan and owned by nobody else.

        Args:
            may_loop: batch axes that `torch.vmap` cannot map are looped over; else they raise.
            new: the function has not met arguments like these before.
            recorded: it is recorded, so that an output shows whether it depends on a captured tensor.

        Raises:
            KernelError: the kernel broke its promise.
        """
        captured = captured_with_grad(self.function)
        if captured is not None:
            raise refuse_captured(self.signature.name, captured)
        leaves = flatten(self.signature, values)
        versions = _versions(leaves)
        with contextlib.nullcontext() if recorded else self._watching(leaves):
            result = self._looked_at(lambda: self.call_planned(values, plan, may_loop=may_loop), new=new)
        held = [] if self.opaque else held_elsewhere(result)
        if any(held):
            self.copy_borrowed(result)
        for leaf, before, after in zip(plan.leaves, versions, _versions(leaves), strict=True):
            if before != after:
                raise refuse_mutated(self.signature.name, leaf.name)
        outputs = settle(self.signature, plan, result, leaves)
        return [o.clone() if h else o for o, h in zip(outputs, held, strict=True)] if any(held) else outputs

    def run_probing(self, values: Sequence[Any], plan: Plan) -> list[Tensor]:
        """`run`, and a look at whether an output hangs on a tensor that was captured."""
        return self.run(values, plan, new=True)

    def _watching(self, inputs: Sequence[Tensor]) -> contextlib.AbstractContextManager[Any]:
        """Refuse captured tensors in the first runs, and in all on fake tensors, which a compiler makes a graph of.

        The watch keeps whatever the kernel makes alive, and so must not see each run on real tensors.
        """
        self._runs += 1
        fake = any(type(leaf) not in _torch.PLAIN_TYPES for leaf in inputs)
        if self.trusted or (self._runs > _WATCHED and not fake):
            return contextlib.nullcontext()
        return CaptureWatch(inputs, lambda: refuse_captured(self.signature.name))

    def _looked_at(self, run: Callable[[], Any], *, new: bool) -> Any:
        return run() if self.probe is None else self.probe.look(run, new=new)

    def _take(self, function: Callable[..., Any], copy: Callable[[Any], Any]) -> None:
        """Take the user's function as what runs.

        Args:
            copy: copies what the function writes: the operator writes nothing.
        """
        call = self.writing = positional(self.signature, function)
        if self.signature.written:
            call = on_copies(self.signature, call, copy)
        self.probe = Probe(call, function, lambda drawn: refuse_random(self.signature.name, drawn))

    @cached_property
    def _positional(self) -> Callable[..., Any]:
        """The user's function, positional; with an eye on each of its calls, if it may draw in any of them."""
        assert self.probe is not None
        return self.probe if self.probe.always else self.probe.function

    def copy_borrowed(self, result: Any) -> None:
        """From now on, copy outputs whose memory is not torch's own; opaque kernels return none that are."""
        raise NotImplementedError

    def planned(self, plan: Plan, values: Sequence[Any]) -> Callable[..., Any]:
        """The function on calls like this one, unchecked: what the hot path calls.

        Args:
            plan: of the call.
            values: its arguments: plain tensors, on which the dispatcher has nothing to do.
        """
        whole = in_full(self.signature, values, plan) is values and not plan.batch and not plan.samples
        return self.call if whole else lambda *values: self.call_planned(values, plan)

    def in_place(self, plan: Plan, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The function that writes into the memory itself, on calls like this one, unchecked; None if there is none.

        It returns what the user's function returns.
        """
        looked_at = self.probe is not None and self.probe.always  # It would have to run twice.
        return None if plan.batch or plan.samples or looked_at else self.writing

    def explained(self, error: RuntimeError, values: Sequence[Any]) -> Exception:
        """Explain an error that the function raised when it was called with `values`."""
        return error

    @abstractmethod
    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over the plan's batch axes, unchecked."""

    def single(self, outputs: Any) -> Any:
        """Outputs, a list among them flattened, as `call` returns them."""
        groups = grouped(self.signature.outputs, outputs) if self.signature.returns_list else outputs
        return groups[0] if self.signature.alone else groups

    def empty(self, plan: Plan) -> Any:
        """The outputs of a batch without samples."""
        if any(shape is None for shape, _ in plan.outputs):
            raise KernelError(
                "the output's shape for an empty batch is not known",
                operator=self.signature.name,
                hint=missing_shape(self.signature),
            )
        return self.single([torch.empty(shape or (), dtype=dtype, device=plan.device) for shape, dtype in plan.outputs])


class TorchKernel(Kernel):
    """A function of tensors."""

    kind = "torch"
    opaque = False

    def __init__(self, signature: Signature, function: Callable[..., Any]) -> None:
        super().__init__(signature, function)
        self._take(function, torch.clone)

    @cached_property
    def call(self) -> Callable[..., Any]:  # type: ignore[override]
        """The function on tensors, in whose place `copy_borrowed` may put another one."""
        return self._positional

    def run_probing(self, values: Sequence[Any], plan: Plan) -> list[Tensor]:
        """`run`, recording, to see whether an output hangs on a tensor that was captured."""
        detached = [leaf.detach() for leaf in flatten(self.signature, values)]
        with torch.enable_grad():
            outputs = self.run(replace(self.signature, values, detached), plan, new=True, recorded=True)
        # Detached inputs share the version of the real ones: mutation is still seen.
        return outputs

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over the plan's batch axes: by `torch.vmap`, or a loop."""
        values = seeded(self.signature, in_full(self.signature, values, plan), plan)
        if not plan.batch:
            return self.call(*values)
        if any(size == 0 for size in plan.batch):
            return self.empty(plan)
        leaves, leads = flatten(self.signature, values), leads_in_full(self.signature, plan)
        take = Samples(self.signature, plan)

        def function(cores: list[Tensor]) -> Sequence[Tensor]:
            return take(self.call(*replace(self.signature, values, cores)))

        return self.single(vectorise(function, leaves, leads, plan.batch, may_loop=may_loop))

    def copy_borrowed(self, result: Any) -> None:
        """From now on, copy outputs whose memory is not torch's own: the hot path cannot tell by their looks."""
        outputs = as_sequence(self.signature, result)
        if self.call is not self._positional or not any(
            isinstance(output, Tensor) and _torch.borrows_memory(output) for output in outputs
        ):
            return

        def call(*values: Any) -> Any:
            outputs = as_sequence(self.signature, self._positional(*values))
            return self.single(
                [o.clone() if isinstance(o, Tensor) and _torch.borrows_memory(o) else o for o in outputs]
            )

        self.call = call


def positional(signature: Signature, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, callable with positional arguments alone, and with fields in the place of structures."""
    keywords = signature.keywords
    if signature.structures:
        return gathering(function, [p if isinstance(p, Structure) else p.name for p in signature.given], keywords)
    if not keywords:
        return function
    count = len(signature.parameters) - len(keywords)

    def call(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(keywords, values[count:], strict=True)))

    return call


def _versions(leaves: Sequence[Tensor]) -> list[int | None]:
    # Inference tensors do not count their versions.
    return [None if leaf.is_inference() else leaf._version for leaf in leaves]
