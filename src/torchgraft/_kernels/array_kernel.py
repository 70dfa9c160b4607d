"""A kernel on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._spec.dtypes import HALVES, complex_twin
from .._spec.outputs import leaf_names, spread
from .._spec.plan import Plan, flatten, replace, seeded
from .._spec.signature import Output, Signature
from ..errors import KernelError, TorchgraftError
from .arrays import array_dtype, masked, to_array, to_tensor
from .batching import loop_arrays, vectorise
from .kernel import Kernel
from .ownership import release
from .results import Samples, as_sequence, refuse_mutated
from .written import in_full, leads_in_full, results_beside, written_places


class ArrayKernel(Kernel):
    """A function of NumPy arrays."""

    kind = "numpy"
    opaque = True

    def __init__(self, signature: Signature, function: Callable[..., Any]) -> None:
        super().__init__(signature, function)
        self._take(function, np.ndarray.copy)
        self.call = self._call_arrays

    def in_place(self, plan: Plan, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The function on arrays that are the memory itself; half precision has no such arrays."""
        places = written_places(self.signature)
        if super().in_place(plan, values) is None or any(values[i].dtype in HALVES for i in places):
            return None

        def call(*values: Any) -> Any:
            arrays = self._arrays(values, in_place=True)
            results = results_beside(self.signature, release(self.writing(*arrays)))
            outputs = self._to_tensors(results, self.signature.returned, values)
            return outputs[0] if len(outputs) == 1 else outputs or None

        return call

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over the plan's batch axes, in a loop."""
        values = seeded(self.signature, in_full(self.signature, values, plan), plan)
        if not plan.batch:
            return self.call(*values)
        if any(size == 0 for size in plan.batch):
            return self.empty(plan)
        leaves = flatten(self.signature, values)
        known = all(shape is not None for shape, _ in plan.outputs)
        return self.single(self._loop(values, leaves, plan) if known else self._stack(values, leaves, plan))

    def _arrays(self, values: Sequence[Any], *, in_place: bool = False) -> list[Any]:
        """The kernel's arguments, with arrays in the place of tensors: `in_place`, it may write into some."""
        name = self.signature.name
        converted = list(values)
        for i, parameter in self.signature.tensors:
            value = values[i]
            if parameter.many:
                converted[i] = [to_array(item, name, f"{parameter.shown}[{j}]") for j, item in enumerate(value)]
            elif value is not None:
                converted[i] = to_array(value, name, parameter.shown, writable=in_place and parameter.written)
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
            arrays = " or ".join(parameter.shown for _, parameter in self.signature.tensors if not parameter.written)
            raise refuse_mutated(self.signature.name, arrays) from error

    def _call_arrays(self, *values: Any) -> Any:
        converted = self._arrays(values)
        results = self._function_on_arrays(*converted)
        return self.single(self._to_tensors(results, self.signature.outputs, values))

    def _to_tensors(self, results: Sequence[Any], outputs: Sequence[Output], values: Sequence[Any]) -> list[Tensor]:
        """Turn what the function returned for `outputs` into tensors; dtypes are needed for halves and numbers."""
        first = next((leaf.dtype for leaf in flatten(self.signature, values) if leaf.is_floating_point()), None)
        twin = None if first is None else complex_twin(first)
        names, owners = leaf_names(outputs, len(results)), spread(outputs, len(results))
        made: list[Tensor] = []
        for result, name, output in zip(results, names, owners, strict=True):
            dtypes = output.type.dtypes
            dtype = dtypes.exact or (twin if dtypes.kind == "Complex" else first if dtypes.numeric else None)
            made.append(to_tensor(result, self.signature.name, name, dtype))
        return made

    def _loop(self, values: Sequence[Any], leaves: Sequence[Tensor], plan: Plan) -> list[Tensor]:
        converted = self._arrays(values)
        counts = iter(leads_in_full(self.signature, plan))
        leads: list[int | None] = []
        flat: list[Any] = []
        for parameter, value in zip(self.signature.parameters, converted, strict=True):
            items = value if parameter.is_tensor and parameter.many else [value]
            for item in items:
                flat.append(item)
                leads.append(next(counts) if isinstance(item, np.ndarray) and parameter.is_tensor else None)
        names = leaf_names(self.signature.outputs, len(plan.outputs))
        outputs = [
            (name, (shape or ())[len(plan.batch) :], _numpy_dtype(array_dtype(dtype)))
            for name, (shape, dtype) in zip(names, plan.outputs, strict=True)
        ]
        try:
            made = loop_arrays(self._on_sample(values, plan), flat, leads, plan.batch, outputs, self._refuse)
        except ValueError as error:
            self._explain(error)
            raise
        return [
            to_tensor(array, self.signature.name, name, dtype)
            for array, name, (_, dtype) in zip(made, names, plan.outputs, strict=True)
        ]

    def _on_sample(self, values: Sequence[Any], plan: Plan) -> Callable[..., Any]:
        """The function as the loop calls it: without detours where it takes plain arrays and returns one."""
        lists = any(p.is_tensor and p.many for p in self.signature.parameters)
        if not lists and self.signature.alone and not self.signature.returns_list:
            return self._positional
        regroup = self._regroup(values)
        take = Samples(self.signature, plan)

        def call(*sample: Any) -> Any:
            outputs = take(self._positional(*regroup(sample)))
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
        take = Samples(self.signature, plan)

        def one(cores: list[Tensor]) -> Sequence[Tensor]:
            return take(self.call(*replace(self.signature, values, cores)))

        with _torch.level():  # `torch.vmap` cannot map arrays.
            return vectorise(one, leaves, leads_in_full(self.signature, plan), plan.batch)

    def _refuse(self, name: str, made: Any, expected: Any) -> TorchgraftError:
        if isinstance(made, np.ma.MaskedArray):
            return masked(self.signature.name, name, KernelError)
        shape, dtype = expected
        got = f"{made.shape}, {made.dtype}" if isinstance(made, (np.ndarray, np.generic)) else type(made).__name__
        return KernelError(
            "the kernel returned another shape or dtype for one sample than its annotation says",
            operator=self.signature.name,
            argument=name,
            expected=f"{shape}, {dtype}",
            got=got,
        )


def _numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype
