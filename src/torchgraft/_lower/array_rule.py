"""A rule on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._kernels.arrays import array_dtype, masked, to_array, to_tensor
from .._kernels.batching import loop_arrays
from .._kernels.ownership import release
from .._randomness import trusted
from .._rules.kinds import differentiable_outputs
from .._rules.results import as_results, broadcasts_to, flat_results
from .._spec.axes import Shape
from ..errors import RuleError, TorchgraftError
from .operator_rule import OperatorRule
from .rule_call import RuleCall


class ArrayRule(OperatorRule):
    """A rule on NumPy arrays."""

    def _run(self, call: RuleCall) -> list[Tensor]:
        arrays = [
            to_array(leaf, self.rule.label, name) for leaf, name in zip(call.reads, self._flat_names(call), strict=True)
        ]
        rank = call.batch_rank
        if rank == 0:
            try:
                made: Sequence[Any] = self._on_sample(call, arrays)
            except ValueError as error:
                self._explain(error)
                raise
        else:
            batch = tuple(int(size) for size in call.results[0][0][:rank])
            outputs = [
                (name, tuple(int(size) for size in shape[rank:]), _numpy_dtype(dtype))
                for name, (shape, dtype) in zip(self._result_names(call), call.results, strict=True)
            ]
            try:
                made = loop_arrays(self._sample_function(call), arrays, call.leads, batch, outputs, self._refuse)
            except ValueError as error:
                self._explain(error)
                raise
        return [
            self._settle(value, name, shape, dtype)
            for value, name, (shape, dtype) in zip(made, self._result_names(call), call.results, strict=True)
        ]

    def _sample_function(self, call: RuleCall) -> Callable[..., Any]:
        """The rule as the loop calls it: without detours where it takes plain arrays and returns one."""
        lists = any(map(self.is_list, self.tensor_names)) or bool(self.many)
        if not call.scalars and not lists and all(count == 1 for count in call.counts) and len(call.results) == 1:
            return trusted(self.rule.call)

        def on_sample(*sample: Any) -> Any:
            results = self._on_sample(call, sample)
            return results[0] if len(results) == 1 else results

        return on_sample

    def _on_sample(self, call: RuleCall, arrays: Sequence[Any]) -> Sequence[Any]:
        values: dict[str, Any] = dict(zip(self.scalar_names, call.scalars, strict=True))
        rest = iter(arrays)
        for name, count in zip(self.tensor_names, call.counts, strict=True):
            if self.is_list(name):
                values[name] = [next(rest) for _ in range(count)]
            else:
                values[name] = next(rest) if count else None
        result = self.rule.call(*(values[name] for name in self.rule.reads))
        return self.flat_results(release(result), len(call.results))

    def _explain(self, error: ValueError) -> None:
        """Say in our words what NumPy raised, where it is about an array that the rule was given."""
        if "read-only" not in str(error):
            return
        raise RuleError(
            "the rule wrote into an array that it was given",
            operator=self.rule.label,
            expected="a rule without side effects",
            got=str(error),
            hint="work on a copy\nwrong: grad *= 2; return grad\nright: return 2 * grad",
        ) from error

    def flat_results(self, result: Any, count: int) -> Sequence[Any]:
        """The rule's results one by one, in the order of `RuleCall.results`."""
        if self.rule.kind in ("vjp", "adjoint"):
            groups = as_results(self.rule.label, result, self.rule.inputs, many=False)
            flat: list[Any] = []
            for name, group in zip(self.rule.inputs, groups, strict=True):
                flat.extend(group) if name in self.many else flat.append(group)
            return as_results(self.rule.label, flat, [str(i) for i in range(count)], many=True)
        return flat_results(self.rule.label, result, differentiable_outputs(self.record.signature), count)

    def _settle(self, value: Any, name: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        tensor = to_tensor(value, self.rule.label, name, dtype, RuleError)
        if self.rule.kind == "partial" and tensor.dtype is dtype and broadcasts_to(tuple(tensor.shape), shape):
            return tensor.expand(shape).contiguous()
        if tuple(tensor.shape) != tuple(shape) or tensor.dtype is not dtype:
            raise self._refuse(name, value, (tuple(shape), dtype))
        return tensor

    def _refuse(self, name: str, made: Any, expected: Any) -> TorchgraftError:
        if isinstance(made, np.ma.MaskedArray):
            return masked(self.rule.label, name, RuleError)
        got = f"{made.shape}, {made.dtype}" if isinstance(made, (np.ndarray, np.generic)) else type(made).__name__
        return RuleError(
            "returned another shape or dtype than was asked of it",
            operator=self.rule.label,
            argument=name,
            expected=f"{expected[0]}, {str(expected[1]).removeprefix('torch.')}",
            got=got,
            hint="return the gradient; an input without one is declared with nondifferentiable"
            if made is None
            else None,
        )

    def _flat_names(self, call: RuleCall) -> list[str]:
        return [name for name, count in zip(self.tensor_names, call.counts, strict=True) for _ in range(count)]

    def _result_names(self, call: RuleCall) -> list[str]:
        if len(call.results) == len(self.rule.inputs) and self.rule.kind in ("vjp", "adjoint"):
            return list(self.rule.inputs)
        return [f"result {i}" for i in range(len(call.results))]


def _numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=array_dtype(dtype)).numpy().dtype
