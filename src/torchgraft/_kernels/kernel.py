"""A kernel: the function that a user wrote, callable on tensors and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._errors import KernelError
from .._spec.dtypes import complex_twin
from .._spec.plan import Plan, flatten, replace
from .._spec.signature import Signature
from .arrays import array_dtype, to_array, to_tensor
from .batching import loop_arrays, vectorise
from .captures import captured_with_grad
from .ownership import held_elsewhere, release
from .results import as_sequence, refuse_captured, refuse_mutated, settle


class Kernel:
    """A function of the operator's parameters, in torch or in NumPy.

    Attributes:
        function: what the user wrote.
        call: the function on tensors, positional, unchecked: what the hot path calls.
    """

    def __init__(self, signature: Signature, function: Callable[..., Any], *, numpy: bool) -> None:
        self.signature = signature
        self.function = function
        self.numpy = numpy
        self._positional = positional(signature, function)
        self.call: Callable[..., Any] = self._call_arrays if numpy else self._positional

    def run(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> list[Tensor]:
        """All outputs, checked against the plan and owned by nobody else.

        Args:
            may_loop: batch axes that `torch.vmap` cannot map are looped over; else they raise.

        Raises:
            KernelError: the kernel broke its promise.
        """
        captured = captured_with_grad(self.function)
        if captured is not None:
            raise refuse_captured(self.signature.name, captured)
        leaves = flatten(self.signature, values)
        versions = _versions(leaves)
        result = self.call_planned(values, plan, may_loop=may_loop)
        held = [] if self.numpy else held_elsewhere(result)
        if any(held):
            self._copy_borrowed(result)
        for leaf, before, after in zip(plan.leaves, versions, _versions(leaves), strict=True):
            if before != after:
                raise refuse_mutated(self.signature.name, leaf.name)
        outputs = settle(self.signature, plan, result, leaves)
        return [o.clone() if h else o for o, h in zip(outputs, held, strict=True)] if any(held) else outputs

    def _copy_borrowed(self, result: Any) -> None:
        """From now on, copy outputs whose memory is not torch's own: the hot path cannot tell by their looks."""
        outputs = as_sequence(self.signature, result)
        if self.call is not self._positional or not any(
            isinstance(output, Tensor) and _torch.borrows_memory(output) for output in outputs
        ):
            return

        def call(*values: Any) -> Any:
            outputs = as_sequence(self.signature, self._positional(*values))
            copies = [o.clone() if isinstance(o, Tensor) and _torch.borrows_memory(o) else o for o in outputs]
            return copies[0] if len(copies) == 1 and self.signature.structure is None else copies

        self.call = call

    def run_probing(self, values: Sequence[Any], plan: Plan) -> list[Tensor]:
        """`run`, recording, to see whether an output hangs on a tensor that was captured."""
        if self.numpy:
            return self.run(values, plan)
        detached = [leaf.detach() for leaf in flatten(self.signature, values)]
        with torch.enable_grad():
            outputs = self.run(replace(self.signature, values, detached), plan)
        # The detached inputs share memory with the real ones, and so their version: mutation is still seen.
        return outputs

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over the plan's batch axes, unchecked."""
        if not plan.batch:
            return self.call(*values)
        leaves = flatten(self.signature, values)
        if any(size == 0 for size in plan.batch):
            return self._empty(plan)
        if not self.numpy:
            outputs = vectorise(
                lambda cores: as_sequence(self.signature, self.call(*replace(self.signature, values, cores))),
                leaves,
                [leaf.lead for leaf in plan.leaves],
                plan.batch,
                may_loop=may_loop,
            )
        elif any(shape is None for shape, _ in plan.outputs):
            outputs = self._stack(values, leaves, plan)
        else:
            outputs = self._loop(values, leaves, plan)
        return outputs[0] if len(outputs) == 1 and self.signature.structure is None else outputs

    def _empty(self, plan: Plan) -> Any:
        if any(shape is None for shape, _ in plan.outputs):
            raise KernelError(
                "the output's shape for an empty batch is not known",
                operator=self.signature.name,
                hint=f"annotate the output's axes, or add @{self.signature.name}.shape",
            )
        outputs = [torch.empty(shape or (), dtype=dtype, device=plan.device) for shape, dtype in plan.outputs]
        return outputs[0] if len(outputs) == 1 and self.signature.structure is None else outputs

    # -- arrays ---------------------------------------------------------------------------------------------

    def _arrays(self, values: Sequence[Any]) -> list[Any]:
        """The kernel's arguments, with arrays in the place of tensors."""
        name = self.signature.name
        converted = list(values)
        for i, parameter in self.signature.tensors:
            value = values[i]
            if parameter.many:
                converted[i] = [to_array(item, name, f"{parameter.name}[{j}]") for j, item in enumerate(value)]
            elif value is not None:
                converted[i] = to_array(value, name, parameter.name)
        return converted

    def _function_on_arrays(self, *values: Any) -> Sequence[Any]:
        try:
            result = self._positional(*values)
        except ValueError as error:
            self._explain(error)
            raise
        return as_sequence(self.signature, release(result))

    def _explain(self, error: ValueError) -> None:
        """Say in our words what NumPy raised, where it is about an input."""
        if "read-only" in str(error):
            raise refuse_mutated(self.signature.name, "an array") from error

    def _call_arrays(self, *values: Any) -> Any:
        converted = self._arrays(values)
        results = self._function_on_arrays(*converted)
        wanted = self._wanted(values)
        outputs = [
            to_tensor(result, self.signature.name, output.name, dtype)
            for result, output, dtype in zip(results, self.signature.outputs, wanted, strict=True)
        ]
        return outputs[0] if self.signature.structure is None and len(outputs) == 1 else outputs

    def _wanted(self, values: Sequence[Any]) -> list[torch.dtype | None]:
        """The outputs' dtypes; needed only to round half precision, or to give a Python number one."""
        first = next((leaf.dtype for leaf in flatten(self.signature, values) if leaf.is_floating_point()), None)
        twin = None if first is None else complex_twin(first)
        return [
            output.type.dtypes.exact
            or (twin if output.type.dtypes.kind == "Complex" else first if output.type.dtypes.numeric else None)
            for output in self.signature.outputs
        ]

    def _loop(self, values: Sequence[Any], leaves: Sequence[Tensor], plan: Plan) -> list[Tensor]:
        converted = self._arrays(values)
        counts = iter(plan.leaves)
        leads: list[int | None] = []
        flat: list[Any] = []
        for parameter, value in zip(self.signature.parameters, converted, strict=True):
            items = value if parameter.is_tensor and parameter.many else [value]
            for item in items:
                flat.append(item)
                leads.append(next(counts).lead if isinstance(item, np.ndarray) and parameter.is_tensor else None)
        outputs = [
            (output.name, (shape or ())[len(plan.batch) :], _numpy_dtype(array_dtype(dtype)))
            for output, (shape, dtype) in zip(self.signature.outputs, plan.outputs, strict=True)
        ]
        try:
            made = loop_arrays(self._on_sample(values), flat, leads, plan.batch, outputs, self._refuse)
        except ValueError as error:
            self._explain(error)
            raise
        return [
            to_tensor(array, self.signature.name, output.name, dtype)
            for array, output, (_, dtype) in zip(made, self.signature.outputs, plan.outputs, strict=True)
        ]

    def _on_sample(self, values: Sequence[Any]) -> Callable[..., Any]:
        """The function as the loop calls it: without detours where it takes plain arrays and returns one."""
        lists = any(p.is_tensor and p.many for p in self.signature.parameters)
        if not lists and self.signature.structure is None and len(self.signature.outputs) == 1:
            return self._positional
        regroup = self._regroup(values)

        def call(*sample: Any) -> Any:
            outputs = as_sequence(self.signature, self._positional(*regroup(sample)))
            return outputs[0] if len(outputs) == 1 else outputs

        return call

    def _regroup(self, values: Sequence[Any]) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Puts lists of arrays together again, which the loop sees one by one."""
        if not any(p.is_tensor and p.many for p in self.signature.parameters):
            return lambda sample: sample

        def regroup(sample: Sequence[Any]) -> Sequence[Any]:
            items = iter(sample)
            return [
                [next(items) for _ in value] if p.is_tensor and p.many else next(items)
                for p, value in zip(self.signature.parameters, values, strict=True)
            ]

        return regroup

    def _stack(self, values: Sequence[Any], leaves: Sequence[Tensor], plan: Plan) -> list[Tensor]:
        """A loop whose output shapes only the kernel knows."""

        def one(cores: list[Tensor]) -> Sequence[Tensor]:
            return as_sequence(self.signature, self.call(*replace(self.signature, values, cores)))

        with _torch.level():  # arrays cannot be mapped by torch.vmap
            return vectorise(one, leaves, [leaf.lead for leaf in plan.leaves], plan.batch)

    def _refuse(self, name: str, made: Any, expected: Any) -> KernelError:
        shape, dtype = expected
        got = f"{made.shape}, {made.dtype}" if isinstance(made, (np.ndarray, np.generic)) else type(made).__name__
        return KernelError(
            "the kernel returned another shape or dtype for one sample than its annotation says",
            operator=self.signature.name,
            argument=name,
            expected=f"{shape}, {dtype}",
            got=got,
        )


def positional(signature: Signature, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, callable with positional arguments alone."""
    keywords = [p.name for p in signature.parameters if p.keyword_only]
    if not keywords:
        return function
    count = len(signature.parameters) - len(keywords)

    def call(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(keywords, values[count:], strict=True)))

    return call


def _numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


def _versions(leaves: Sequence[Tensor]) -> list[int | None]:
    # Inference tensors do not count their versions.
    return [None if leaf.is_inference() else leaf._version for leaf in leaves]
