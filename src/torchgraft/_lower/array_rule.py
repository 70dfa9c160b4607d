"""A rule written in NumPy, as an operator of the dispatcher, so that compilers and `vmap` can carry it.

All such rules have one schema: the tensors that the rule reads, how many of them each name has and how many leading
axes each carries, the shape and dtype of each result, then the rule's non-tensor arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._errors import RuleError
from .._kernels.arrays import array_dtype, to_array, to_tensor
from .._kernels.batching import loop_arrays
from .._kernels.ownership import release
from .._record import Record
from .._rules.results import as_results
from .._rules.rule import Rule
from .._spec.axes import Shape
from .library import DispatcherOp, companion

_SCHEMA = "(Tensor[] reads, int[] counts, int[] leads, SymInt[] shapes, int[] ranks, int[] dtypes{scalars}) -> Tensor[]"
_DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
]  # fmt: skip


@dataclass(frozen=True)
class ArrayCall:
    """The arguments of one call of an array rule, unpacked.

    Attributes:
        reads: the tensors, flat.
        counts: for each tensor name that the rule reads, how many of `reads` are its own; 0 stands for None.
        leads: leading axes of each of `reads`.
        results: shape and dtype of each result, leading axes included.
        scalars: non-tensor arguments that the rule reads, in its order.
    """

    reads: tuple[Tensor, ...]
    counts: tuple[int, ...]
    leads: tuple[int, ...]
    results: tuple[tuple[Shape, torch.dtype], ...]
    scalars: tuple[Any, ...]

    @property
    def batch_rank(self) -> int:
        return max(self.leads, default=0)

    def pack(self) -> tuple[Any, ...]:
        """The call in the operator's schema."""
        return (
            list(self.reads),
            list(self.counts),
            list(self.leads),
            [size for shape, _ in self.results for size in shape],
            [len(shape) for shape, _ in self.results],
            [_DTYPES.index(dtype) for _, dtype in self.results],
            *self.scalars,
        )

    @classmethod
    def unpack(cls, args: Sequence[Any]) -> ArrayCall:
        reads, counts, leads, sizes, ranks, dtypes, *scalars = args
        rest = iter(sizes)
        shapes = [tuple(next(rest) for _ in range(rank)) for rank in ranks]
        results = tuple(zip(shapes, [_DTYPES[i] for i in dtypes], strict=True))
        return cls(tuple(reads), tuple(counts), tuple(leads), results, tuple(scalars))


class ArrayRule:
    """A rule on arrays as an operator; that its own derivative raises is seen to by the caller (`connect`).

    Attributes:
        reads: what it is called with: what the rule reads, and for an adjoint, whose derivative is the operator again,
            every non-tensor argument.
    """

    def __init__(self, record: Record, rule: Rule) -> None:
        self.record = record
        self.rule = rule
        self.many = {name for name in rule.inputs if record.signature.names[name].many}
        names = record.signature.names
        scalars = tuple(n for n in names if not names[n].is_tensor) if rule.kind == "adjoint" else ()
        self.reads = tuple(dict.fromkeys((*rule.reads, *scalars)))
        self.scalar_names = tuple(n for n in self.reads if n in names and not names[n].is_tensor)
        self.tensor_names = tuple(n for n in self.reads if n not in self.scalar_names)
        schema = "".join(f", {names[n].scalar.schema}{'?' if names[n].optional else ''} {n}" for n in self.scalar_names)
        name = companion(record.qualname, f"{rule.kind}_{'_'.join(rule.inputs)}")
        self._dispatched = DispatcherOp(name, _SCHEMA.format(scalars=schema), tags=(torch.Tag.cudagraph_unsafe,))
        self._dispatched.backend(self._backend)
        self._dispatched.fake(self._fake)
        self._dispatched.vmap(self._vmap)
        self._dispatched.at_key("Batched", self._legacy_vmap)
        if rule.kind != "adjoint":  # which gets derivatives from `differentiate_adjoint`
            self._dispatched.at_key("Autograd", _torch.fallthrough_kernel)

    @property
    def torch_op(self) -> Any:
        return self._dispatched.torch_op

    def at_autograd(self, kernel: Callable[..., Any]) -> None:
        """Give the rule derivatives of its own."""
        self._dispatched.at_key("Autograd", kernel, with_keyset=True)

    def __call__(self, call: ArrayCall) -> list[Tensor]:
        recording = torch.is_grad_enabled() and any(read.requires_grad for read in call.reads)
        if not recording and _torch.is_direct(call.reads) and call.reads[0].is_cpu:
            return self._run(call)
        return list(self._dispatched(*call.pack()))

    # -- what the dispatcher calls --------------------------------------------------------------------------

    def _backend(self, *args: Any) -> list[Tensor]:
        return self._run(ArrayCall.unpack(args))

    def _fake(self, *args: Any) -> list[Tensor]:
        call = ArrayCall.unpack(args)
        return [torch.empty(shape, dtype=dtype, device=call.reads[0].device) for shape, dtype in call.results]

    def _vmap(self, info: Any, in_dims: Any, *args: Any) -> Any:
        made = self._mapped(ArrayCall.unpack(args), in_dims[0], info.batch_size)
        return made, [0] * len(made)

    def _legacy_vmap(self, *args: Any) -> list[Tensor]:
        call = ArrayCall.unpack(args)
        level, reads, dims = _torch.legacy_unwrap(call.reads)
        size = next(read.shape[0] for read, dim in zip(reads, dims, strict=True) if dim is not None)
        plain = ArrayCall(tuple(reads), call.counts, call.leads, call.results, call.scalars)
        return [_torch.legacy_wrap(result, level) for result in self._mapped(plain, dims, size)]

    def _mapped(self, call: ArrayCall, dims: Sequence[int | None], size: int) -> list[Tensor]:
        rank = call.batch_rank
        reads: list[Tensor] = []
        leads: list[int] = []
        for leaf, lead, dim in zip(call.reads, call.leads, dims, strict=True):
            if dim is not None:  # size-1 axes line the new axis up with the others' leading ones
                moved = leaf.movedim(dim, 0)
                ones = (1,) * (rank - lead)
                reads.append(moved.reshape(moved.shape[0], *ones, *moved.shape[1:]))
                leads.append(rank + 1)
            else:
                reads.append(leaf)
                leads.append(lead)
        results = tuple(((size, *shape), dtype) for shape, dtype in call.results)
        return self(ArrayCall(tuple(reads), call.counts, tuple(leads), results, call.scalars))

    # -- running --------------------------------------------------------------------------------------------

    def _run(self, call: ArrayCall) -> list[Tensor]:
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

    def _sample_function(self, call: ArrayCall) -> Callable[..., Any]:
        """The rule as the loop calls it: without detours where it takes plain arrays and returns one."""
        if not call.scalars and not self.many and all(count == 1 for count in call.counts) and len(call.results) == 1:
            return self.rule.call

        def on_sample(*sample: Any) -> Any:
            results = self._on_sample(call, sample)
            return results[0] if len(results) == 1 else results

        return on_sample

    def _on_sample(self, call: ArrayCall, arrays: Sequence[Any]) -> Sequence[Any]:
        values: dict[str, Any] = dict(zip(self.scalar_names, call.scalars, strict=True))
        rest = iter(arrays)
        for name, count in zip(self.tensor_names, call.counts, strict=True):
            parameter = self.record.signature.names.get(name.removesuffix("_tangent"))
            if parameter is not None and parameter.many:
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
        """The rule's results one by one, in the order of `ArrayCall.results`."""
        if self.rule.kind in ("vjp", "adjoint"):
            groups = as_results(self.rule.label, result, self.rule.inputs, many=False)
            flat: list[Any] = []
            for name, group in zip(self.rule.inputs, groups, strict=True):
                flat.extend(group) if name in self.many else flat.append(group)
            return as_results(self.rule.label, flat, [str(i) for i in range(count)], many=True)
        return as_results(self.rule.label, result, [str(i) for i in range(count)], many=False)

    def _settle(self, value: Any, name: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        tensor = to_tensor(value, self.rule.label, name, dtype, RuleError)
        if tuple(tensor.shape) != tuple(shape) or tensor.dtype is not dtype:
            raise self._refuse(name, value, (tuple(shape), dtype))
        return tensor

    def _refuse(self, name: str, made: Any, expected: Any) -> RuleError:
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

    def _flat_names(self, call: ArrayCall) -> list[str]:
        return [name for name, count in zip(self.tensor_names, call.counts, strict=True) for _ in range(count)]

    def _result_names(self, call: ArrayCall) -> list[str]:
        if len(call.results) == len(self.rule.inputs) and self.rule.kind in ("vjp", "adjoint"):
            return list(self.rule.inputs)
        return [f"result {i}" for i in range(len(call.results))]


def _numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=array_dtype(dtype)).numpy().dtype
