"""One call of a debugged function, as bytes: what its program reads, and what it writes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._draws.numbers import sample_seeds
from .._spec.axes import Binding
from .._spec.late import Late
from .._spec.outputs import grouped, leaf_names, spread
from .c_arguments import (
    CODES,
    Argument,
    Array,
    Arrays,
    Complexes,
    Number,
    Numbers,
    Scratch,
    SeedOfSample,
    Text,
    Texts,
    Written,
)
from .prototype import Prototype, Result, Results


class Call:
    """One call: the file that the program reads, and what its output means.

    Args:
        prototype: of the function.
        dtypes: of each tensor that is there, outputs too, by name.
        passed: the arguments that the caller passes.
        values: the arguments, converted.
        trailing: sizes and shapes, if the caller gives them.

    Attributes:
        names: of the outputs.
        batch: the axes of samples, which are the elements of an elementwise function.
        samples: their number.
    """

    def __init__(
        self,
        prototype: Prototype,
        dtypes: Mapping[str, torch.dtype],
        passed: Sequence[Argument],
        values: Sequence[Any],
        trailing: Sequence[list[int] | None],
    ) -> None:
        self.prototype = prototype
        self.dtypes = dtypes
        self.values = {argument.name: value for argument, value in zip(passed, values, strict=True)}
        given = dict(zip(self.prototype.trailing, trailing, strict=False))
        self.binding = Binding({n: v for n, v in self.values.items() if isinstance(v, int)})
        self._bind(given.get("tg_sizes"))
        for late in prototype.late:
            assert late.bound is not None
            (self.binding.sizes[late.name],) = late.bound.evaluate(self.binding)
        self.shapes = self._shapes(given.get("tg_shapes"))
        self.names = leaf_names(self.prototype.signature.outputs, len(self.shapes))
        self.batch = self._batch()
        self.samples = math.prod(self.batch)
        self.cores = [self._core(result, shape) for result, shape in self._results()]

    def _core(self, result: Result, shape: tuple[int, ...] | None) -> tuple[int, ...]:
        """The axes of one sample of an output."""
        if self.prototype.scalar:
            return ()
        if result.core is not None and not isinstance(result, Results):
            return tuple(result.core.evaluate(self.binding))
        assert shape is not None, "an output that is passed whole, or a list, has a shape rule"
        return shape if result.core is None else shape[len(shape) - len(result.core.tokens) :]

    def _results(self) -> list[tuple[Result, tuple[int, ...] | None]]:
        by_name = {result.name: result for result in self.prototype.results}
        owners = spread(self.prototype.signature.outputs, len(self.shapes))
        return [(by_name[owner.name], shape) for owner, shape in zip(owners, self.shapes, strict=True)]

    def _arrays(self) -> Iterator[tuple[Array, list[Tensor]]]:
        for array in self.prototype.arrays:
            value = self.values[array.name]
            yield array, list(value) if isinstance(array, Arrays) else [] if value is None else [value]

    def _bind(self, sizes: Sequence[int] | None) -> None:
        if sizes is not None:
            self.binding.sizes.update(zip(self.prototype.sizes, sizes, strict=True))
        for array, tensors in self._arrays():
            if array.core is not None and sizes is None:
                for tensor in tensors:
                    array.core.bind(tuple(tensor.shape[tensor.dim() - len(array.core.tokens) :]), self.binding)

    def _shapes(self, given: Sequence[int] | None) -> list[tuple[int, ...] | None]:
        if given is None:
            return [None] * len(self.prototype.results)
        rest = iter(given)
        return [
            tuple(next(rest) for _ in range(next(rest)))
            for result in self.prototype.results
            for _ in range(next(rest) if isinstance(result, Results) else 1)
        ]

    def _batch(self) -> tuple[int, ...]:
        leads = [
            tensor.shape[: tensor.dim() - len(array.core.tokens)]
            for array, tensors in self._arrays()
            if array.core is not None
            for tensor in tensors
        ]
        for result, shape in self._results():
            if shape is not None and result.core is not None:
                leads.append(torch.Size(shape[: len(shape) - len(result.core.tokens)]))
        return tuple(torch.broadcast_shapes(*leads)) if leads else ()

    # -- what the program reads ----------------------------------------------------------------------------------------

    def file(self) -> bytes:
        """See `Harness` for its order."""
        names = [*self.prototype.sizes, *(late.name for late in self.prototype.late)]
        parts = [_words(self.samples, *(self.binding.sizes.get(name, -1) for name in names))]
        parts += [self._argument(argument) for argument in self.prototype.arguments]
        for group in grouped(self.prototype.signature.outputs, [_layout(sizes) for sizes in self.cores]):
            parts += [_words(len(group)), *group] if isinstance(group, list) else [group]
        return b"".join(parts)

    def _argument(self, argument: Argument) -> bytes:
        value = self.values.get(argument.name)
        match argument:
            case Arrays():
                return b"".join([_words(len(value or ())), *(self._array(argument, item) for item in value or ())])
            case Array():
                return _words(0) if value is None else _words(1) + self._array(argument, value)
            case Scratch():
                return _words(math.prod(argument.core.evaluate(self.binding)))
            case Number():
                return _words(value is not None) + _number(argument, 0 if value is None else value)
            case Numbers():
                return _piece(None if value is None else b"".join(_number(argument, item) for item in value)) + _words(
                    len(value or ())
                )
            case Complexes():
                floats = None if value is None else torch.tensor(value, dtype=torch.float64)
                return _piece(None if floats is None else _bytes(floats)) + _words(len(value or ()) // 2)
            case Text():
                data = None if value is None else value.encode()
                return _piece(None if data is None else data + b"\0") + _words(len(data or b""))
            case Texts():
                texts = [_piece(item.encode() + b"\0") for item in value or ()]
                return b"".join([_words(-1 if value is None else len(texts)), *texts])
        raise AssertionError(argument)  # pragma: no cover - Every kind is above.

    def _array(self, array: Array, tensor: Tensor) -> bytes:
        if isinstance(array, SeedOfSample):
            tensor = tensor if tensor.dim() or not self.batch else sample_seeds(tensor, self.batch)
        elif self.prototype.scalar:
            return self._pieces(tensor.expand(self.batch), 1, [], tensor)
        if array.core is None:  # What is written is copied as it lies.
            return self._pieces(tensor if isinstance(array, Written) else _memory_of(tensor), 1, [0], tensor)
        lead = tensor.shape[: tensor.dim() - len(array.core.tokens)]
        core = array.core.full(tuple(tensor.shape[len(lead) :]), self.binding)
        count = math.prod(lead)
        numbers = torch.arange(count).reshape(lead).expand(self.batch).reshape(-1)
        return self._pieces(tensor.expand((*lead, *core)), count, numbers.tolist(), tensor)

    def _pieces(self, data: Tensor, count: int, index: Sequence[int], tensor: Tensor) -> bytes:
        size = data.numel() * data.itemsize // max(1, count)
        return b"".join([
            _words(count, size), _bytes(data), _counted(index), _words(tensor.dim()), _counted(tensor.shape),
            _counted(tensor.stride()),
        ])  # fmt: skip

    # -- what it has written -------------------------------------------------------------------------------------------

    def sample(self, number: int) -> list[int]:
        """The index of a sample; empty where there is one alone."""
        return [int(i) for i in torch.unravel_index(torch.tensor(number), self.batch)] if self.batch else []

    def said(self, data: bytes) -> list[tuple[Late, int, int]] | None:
        """Each late size, what the function said it is, and what it may be; None where the program did not write it."""
        words = [int.from_bytes(data[8 * i : 8 * i + 8], "little", signed=True) for i in range(len(data) // 8)]
        late = self.prototype.late
        if len(words) < len(late):
            return None
        return [(one, size, self.binding.sizes[one.name]) for one, size in zip(late, words, strict=False)]

    def outputs(self, data: bytes) -> list[Tensor] | None:
        """The outputs of all samples, batch axes in front; None where the program did not write them all.

        Of late axes there is as much as the function said.
        """
        said = self.said(data)
        whole = None if said is None else self._whole(data[8 * len(said) :])
        if said is None or whole is None:
            return None
        found: dict[str | None, int] = {late.name: size for late, size, _ in said}
        owners = [result for result, _ in self._results()]
        return [_cut(output, result, found) for output, result in zip(whole, owners, strict=True)]

    def _whole(self, data: bytes) -> list[Tensor] | None:
        dtypes = [self.dtypes[result.name] for result, _ in self._results()]
        sizes = [math.prod(core) * dtype.itemsize for core, dtype in zip(self.cores, dtypes, strict=True)]
        if len(data) != self.samples * sum(sizes):
            return None
        table = torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)[: len(data)]
        columns = torch.split(table.reshape(self.samples, sum(sizes)), sizes, 1)
        return [
            _from_bytes(_bytes(column), dtype).reshape((*self.batch, *core))
            for column, dtype, core in zip(columns, dtypes, self.cores, strict=True)
        ]

    def settle(self, number: int, output: Tensor) -> Tensor:
        """An output in the shape that was asked for: samples that share it are summed, as the library does it."""
        shape = self.shapes[number]
        if shape is None or tuple(output.shape) == shape:
            return output
        dtype = output.dtype
        wide = output.to(torch.complex128 if dtype.is_complex else torch.float64)
        return wide.sum_to_size(shape).to(dtype)


def _cut(output: Tensor, result: Result, sizes: Mapping[str | None, int]) -> Tensor:
    """The first part of an output along its late axes."""
    for axis, token in enumerate(result.core.tokens if sizes and result.core is not None else ()):
        if token.name in sizes:
            output = output.narrow(axis, 0, sizes[token.name])
    return output.contiguous()


def _layout(sizes: Sequence[int]) -> bytes:
    """The sizes and strides of one sample of an output."""
    strides = [math.prod(max(1, size) for size in sizes[i + 1 :]) for i in range(len(sizes))]
    return b"".join([_words(len(sizes)), _counted(sizes), _counted(strides)])


def _memory_of(tensor: Tensor) -> Tensor:
    """The memory from the first element to the last, whatever the strides say."""
    if tensor.numel() == 0:
        return tensor.reshape(-1)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((extent,), (1,))


def _words(*numbers: Any) -> bytes:
    return b"".join(int(number).to_bytes(8, "little", signed=True) for number in numbers)


def _counted(numbers: Sequence[int]) -> bytes:
    return _words(len(numbers)) + _bytes(torch.tensor(list(numbers), dtype=torch.int64))


def _piece(data: bytes | None) -> bytes:
    return _words(-1) if data is None else _words(len(data)) + data


def _bytes(tensor: Tensor) -> bytes:
    if not tensor.numel():
        return b""
    flat = tensor.detach().reshape(-1).clone(memory_format=torch.contiguous_format)  # One element may have any stride.
    data: bytes = flat.view(torch.uint8).numpy().tobytes()
    return data


def _from_bytes(data: bytes, dtype: torch.dtype) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)


_CODES = CODES | {
    torch.float16: 5, torch.complex32: 8, torch.bfloat16: 15, torch.float8_e5m2: 23, torch.float8_e4m3fn: 24,
    torch.float8_e5m2fnuz: 25, torch.float8_e4m3fnuz: 26, torch.float8_e8m0fnu: 44,
}  # fmt: skip
"""Those that no tensor of a C function has are arguments, too."""

_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, torch.dtype: torch.int32}


def _number(argument: Number | Numbers, value: Any) -> bytes:
    kind = argument.scalar.type
    number = _CODES[value] if isinstance(value, torch.dtype) else value
    return _bytes(torch.tensor([number], dtype=_NUMBERS[kind]))
