"""A function in C on tensors: a library for each combination of dtypes, built when it is first needed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._spec.axes import Shape
from .._spec.conversion import check_ranges
from .._spec.dtypes import HALVES, name_of
from .._spec.outputs import flattened, grouped, spread
from .._spec.plan import flatten
from .._spec.signature import Parameter
from ..errors import ArgumentError, DeviceError, KernelError, TorchgraftError
from . import debug, library
from .cuda.device import Device, current
from .cuda.text import Unfit, reads_halves, sizes_of, trailing, unfit
from .launch import EXTENTS
from .prototype import Prototype
from .source import Source

if TYPE_CHECKING:
    from .cuda.function import CudaFunction

Known = tuple[Shape, torch.dtype]
Result = tuple[Shape | None, torch.dtype]
"""Shape and dtype of an output; the shape is None where the function says its size."""

WIDE = dict.fromkeys(HALVES, torch.float32) | {torch.complex32: torch.complex64}
"""Half precision is computed in single and rounded: a sum in halves would lose its terms."""


class NativeFunction:
    """A C function, of a kernel or a rule.

    Args:
        source: where it is.
        prototype: what it takes.
        label: of the kernel or rule, for messages.
        error: what its failures raise.

    Attributes:
        seen: the digests of the files that it was built from; those of all functions of an operator are in one.
    """

    def __init__(
        self, source: Source, prototype: Prototype, label: str, error: type[TorchgraftError] = KernelError
    ) -> None:
        self.source = source
        self.prototype = prototype
        self.label = label
        self.error = error
        self.seen: dict[str, str] = {}
        self._tensors = prototype.signature.tensors
        self._variants: dict[Any, Callable[..., Any]] = {}
        self._built: dict[Any, library.Library | CudaFunction] = {}
        self._converted = [i for i, a in enumerate(self._passed()) if a.converts]

    def _passed(self) -> list[Any]:
        return [argument for argument in self.prototype.arguments if argument.schema]

    def dtypes(self, values: Sequence[Any]) -> tuple[torch.dtype | None, ...]:
        """The dtype of each tensor parameter; None for one that is not there.

        Raises:
            ArgumentError: a list mixes dtypes.
        """
        return tuple(self._dtype(parameter.name, values[i]) for i, parameter in self._tensors)

    def _dtype(self, name: str, value: Any) -> torch.dtype | None:
        items = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        found = {item.dtype for item in items}
        if len(found) > 1:
            raise ArgumentError(
                "is a list of several dtypes, of which a C function has one", operator=self.label, argument=name,
                expected="one dtype", got=", ".join(sorted(map(name_of, found))),
            )  # fmt: skip
        return next(iter(found), None)

    def variant(
        self, dtypes: tuple[torch.dtype | None, ...], outputs: tuple[torch.dtype | None, ...], *, bare: bool = False,
        device: Device | None = None,
    ) -> Callable[..., Any]:  # fmt: skip
        """The function for a combination of dtypes, below autograd; it takes the arguments of `Prototype.schema`.

        Args:
            dtypes: of each tensor parameter.
            outputs: of each output; None for an empty list.
            bare: it will be called without sizes and shapes.
            device: what the tensors are on, from `device_of`; None is the CPU.
        """
        key = dtypes, outputs, bare, debug.mode(), device
        function = self._variants.get(key)
        if function is None:
            function = self._make(dtypes, outputs, bare=bare, device=device)
            self._variants[key] = function
        return function

    @cached_property
    def unfit(self) -> Unfit | None:
        """Why it has no kernel on CUDA; None where it has one."""
        return unfit(self.prototype, self.source)

    def runs_on(self, device: str) -> bool:
        """Tell whether the function computes on devices of a type."""
        on_cpu = device == "cpu" and self.source.launch is None
        return on_cpu or (device in ("cuda", current().key.lower()) and self.unfit is None)

    def device_of(self, values: Sequence[Any]) -> Device | None:
        """The devices that the tensors are on, where they are not on the CPU."""
        device = current()
        items = (item for i, p in self._tensors for item in (values[i] if p.many else [values[i]]))
        return device if any(item is not None and device.serves(item) for item in items) else None

    def _on(
        self, device: Device, dtypes: tuple[torch.dtype | None, ...], outputs: tuple[torch.dtype | None, ...]
    ) -> Callable[..., Any]:
        from .cuda.function import CudaFunction, summing  # Most programs never need it.

        if self.unfit is not None:
            argument, problem, expected, got = self.unfit
            raise DeviceError(
                problem, operator=self.label, argument=argument, expected=expected, got=got,
                hint="pass tensors on the CPU, or write the kernel for CUDA: @f.kernel('cuda')",
            )  # fmt: skip
        function = CudaFunction(self.source, self.prototype, self._names(dtypes, outputs), device)
        if self.prototype.is_rule and not self.prototype.scalar:
            return summing(self.prototype, function)
        self._built[dtypes, outputs, device] = function
        return function

    def _names(
        self, dtypes: tuple[torch.dtype | None, ...], outputs: tuple[torch.dtype | None, ...]
    ) -> dict[str, torch.dtype]:
        """The dtype of each tensor that is there, by its name."""
        named = zip((p.name for _, p in self._tensors), dtypes, strict=True)
        made = zip((output.name for output in self.prototype.signature.outputs), outputs, strict=True)
        return {name: dtype for name, dtype in (*named, *made) if dtype is not None}

    def ready(
        self, values: Sequence[Any], outputs: tuple[torch.dtype, ...], trailing: Sequence[Any] | None = (), *,
        in_place: bool = False,
    ) -> Callable[..., Any] | None:  # fmt: skip
        """The function for plain arguments that look like `values`, without the dispatcher; see `Library.ready`.

        Args:
            outputs: dtypes of the outputs.
            trailing: what the function takes after its arguments; None to leave it out.
        """
        dtypes, device = self.dtypes(values), self.device_of(values)
        function = self.variant(dtypes, outputs, bare=trailing is None, device=device)
        built = self._built.get((dtypes, outputs, device))
        if built is None or debug.mode() is not None or not self.prototype.has_ready_calls:
            return None  # Halves that are widened have no library, sums over samples on CUDA no function.
        try:
            return built.ready(lambda: function(*values, *(trailing or ())), in_place=in_place)
        except RuntimeError:  # The call itself raises it again, in words.
            return None

    def _make(
        self, dtypes: tuple[torch.dtype | None, ...], outputs: tuple[torch.dtype | None, ...], *, bare: bool,
        device: Device | None,
    ) -> Callable[..., Any]:  # fmt: skip
        keeps_halves = device is not None and reads_halves(self.prototype, self.source)
        if not keeps_halves and any(d in WIDE for d in (*dtypes, *outputs)):
            wide = tuple(None if d is None else WIDE.get(d, d) for d in dtypes)
            narrow = tuple(None if d is None else WIDE.get(d, d) for d in outputs)
            return self._widened(self.variant(wide, narrow, bare=bare, device=device), outputs)
        if device is not None:
            return self._on(device, dtypes, outputs)
        names = self._names(dtypes, outputs)
        mode = None if self.source.imports else debug.mode()  # Another program does not have what Python lends.
        if mode is not None:
            from .debugged import DebugFunction  # Most programs never need it.

            return DebugFunction(self.source, self.prototype, names, mode, self.label, self.error, self.seen)
        built = self._built.get((dtypes, outputs, None))
        if built is None:
            built = library.build(self.source, self.prototype, names, self.seen)
            self._built[dtypes, outputs, None] = built
        assert isinstance(built, library.Library)
        function = built.bare if bare else built.function
        return self._converting(function) if self._converted else function

    def _converting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Arguments that torch's C interface does not know, in types that it knows."""
        passed, positions = self._passed(), self._converted

        def call(*values: Any) -> Any:
            changed = list(values)
            for i in positions:
                changed[i] = passed[i].convert(values[i])
            return function(*changed)

        return call

    def _widened(self, function: Callable[..., Any], outputs: Sequence[torch.dtype | None]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            made = function(*(_widen(value) for value in values))
            if len(outputs) == 1:
                return _narrow(made, outputs[0])
            return tuple(_narrow(value, dtype) for value, dtype in zip(made, outputs, strict=True))

        return call

    def run(
        self,
        values: Sequence[Any],
        leads: Sequence[int],
        rank: int,
        results: Sequence[Result],
        sizes: Mapping[str, Any],
    ) -> list[Tensor]:
        """The function over leading axes that every tensor may have beside its own batch axes.

        Args:
            values: its arguments.
            leads: for each tensor, lists flattened, the number of such axes; they broadcast from the right.
            rank: the most that a tensor has.
            results: shape, with all leading axes, and dtype of each output; no shape where the function says sizes.
            sizes: of the axes; -1 is passed for one that is not there.

        Raises:
            DeviceError: a tensor is elsewhere.
            KernelError, RuleError: the function said that it failed.
        """
        device = self._check_device(values)
        if not results:  # An empty list is all that the function would make.
            return []
        known = [(shape, dtype) for shape, dtype in results if shape is not None]
        if rank:
            values, leads = self._own_seeds(values, leads, rank)
        if rank and (self.prototype.whole or self._maps_common(leads, values)):
            return self._loop(values, leads, rank, known, sizes)
        values, shapes = self._aligned(values, leads, rank, known)
        values = self.in_full(values, shapes)
        function = self.variant(self.dtypes(values), self.dtypes_of(results), device=device)
        made = self.call(function, *values, *self.trailing(sizes, shapes, device))
        outputs = self._flat(made)
        return [
            o.reshape(shape) if shape is not None and tuple(o.shape) != tuple(shape) else o
            for o, (shape, _) in zip(outputs, results, strict=True)
        ]

    def ready_over(
        self, values: Sequence[Any], leads: Sequence[int], rank: int, results: Sequence[Result],
        sizes: Mapping[str, Any], *, in_place: bool = False,
    ) -> Callable[..., Any] | None:  # fmt: skip
        """The function over leading axes for plain arguments like `values`, without the dispatcher; see `ready`.

        None where each call has more to do than to compute.
        """
        known = [(shape, dtype) for shape, dtype in results if shape is not None]
        if not self.prototype.has_ready_calls:
            return None
        aligned, shapes = self._aligned(values, leads, rank, known)
        if any(tuple(shape) != tuple(wanted) for shape, (wanted, _) in zip(shapes, known, strict=True)):
            return None
        if any(full is not given for full, given in zip(self.in_full(aligned, shapes), aligned, strict=True)):
            return None
        outputs = tuple(dtype for _, dtype in known)
        trailing = self.trailing(sizes, shapes, self.device_of(values))
        return self.ready(aligned, outputs, trailing, in_place=in_place)

    def _own_seeds(self, values: Sequence[Any], leads: Sequence[int], rank: int) -> tuple[Sequence[Any], Sequence[int]]:
        """The arguments, in which a seed without axes is that of every sample: by itself the library would number them.

        Where the operator has batch axes of its own, the caller has given each sample its own seed.
        """
        at = self.prototype.signature.seed
        if at is None or values[at].dim():
            return values, leads
        before = [values[i] for i, _ in self._tensors if i < at and values[i] is not None]
        leaf = sum(len(value) if isinstance(value, (list, tuple)) else 1 for value in before)
        seed = values[at].reshape((1,) * rank)
        return [*values[:at], seed, *values[at + 1 :]], [*leads[:leaf], rank, *leads[leaf + 1 :]]

    def dtypes_of(self, results: Sequence[Result]) -> tuple[torch.dtype | None, ...]:
        """The dtype of each output; None for an empty list."""
        groups = grouped(self.prototype.signature.outputs, [dtype for _, dtype in results])
        return tuple(next(iter(group), None) if isinstance(group, list) else group for group in groups)

    def _flat(self, made: Any) -> list[Tensor]:
        """The outputs that a variant returned, one by one."""
        outputs = self.prototype.signature.outputs
        groups = [made] if len(outputs) == 1 else made
        return flattened(outputs, groups)

    def trailing(
        self, sizes: Mapping[str, Any], shapes: Sequence[Shape], device: Device | None = None
    ) -> list[list[int]]:
        """Arguments that the function takes after the operator's own.

        Args:
            sizes: of the axes; -1 is passed for one that is not there.
            shapes: of the outputs.
            device: as `variant` takes it.
        """
        names = self.prototype.trailing if device is None else trailing(self.prototype)
        return [self._sizes(sizes, shapes) if name == "tg_sizes" else self._encoded(shapes) for name in names]

    def _sizes(self, sizes: Mapping[str, Any], shapes: Sequence[Shape]) -> list[int]:
        """The sizes in the order of the function, and what a kernel that is written by hand is launched with."""
        launch, prototype = self.source.launch, self.prototype
        found = {name: int(sizes.get(name, -1)) for name in prototype.sizes}
        if launch is None:
            return list(found.values())
        if prototype.count:
            found[prototype.count] = max(map(math.prod, self._batches(shapes)))
        has_work = any(map(math.prod, shapes))
        extents = launch.sizes(found, self.label) if has_work else [0] * EXTENTS
        return [*(found[name] for name in sizes_of(prototype)), *extents]

    def _batches(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The batch axes of each output."""
        cores = [0 if result.core is None else len(result.core.tokens) for result in self.prototype.results]
        return [shape[: len(shape) - core] for shape, core in zip(shapes, cores, strict=True)]

    def _encoded(self, shapes: Sequence[Shape]) -> list[int]:
        """Shapes of outputs in one list: a number of axes and then sizes, those of a list behind its length."""
        encoded: list[int] = []
        for shape in grouped(self.prototype.signature.outputs, shapes):
            several = isinstance(shape, list)
            encoded += [len(shape)] if several else []
            encoded += [size for one in (shape if several else [shape]) for size in (len(one), *one)]
        return encoded

    def call(self, function: Callable[..., Any], *values: Any) -> Any:
        """Call a variant; what it says when it fails becomes an error of ours."""
        try:
            return function(*values)
        except RuntimeError as error:
            raise self.explained(error, values) from None

    def explained(self, error: RuntimeError, values: Sequence[Any]) -> TorchgraftError:
        """The error for what a function said when it failed; one of ours, of a debugged function, is that.

        Args:
            values: what it was called with.
        """
        if isinstance(error, TorchgraftError):
            return error
        check_ranges(self.prototype.signature, values[: len(self.prototype.signature.parameters)])
        return self.error(str(error).partition("\nException raised from")[0], operator=self.label)

    def _check_device(self, values: Sequence[Any]) -> Device | None:
        """Return what the tensors are on, as `device_of` does.

        Raises:
            DeviceError: some are elsewhere.
        """
        device = self.device_of(values)
        for i, parameter in self._tensors:
            items = values[i] if isinstance(values[i], (list, tuple)) else [values[i]]
            for item in items:
                if item is None or (item.is_cpu if device is None else device.serves(item)):
                    continue
                expected = "cpu" if device is None else "cuda"
                raise DeviceError(
                    f"is on {item.device}, and the function is for {'the CPU' if device is None else 'CUDA'}",
                    operator=self.label, argument=parameter.name, expected=expected, got=str(item.device),
                    hint=f"pass tensors on {'the CPU' if device is None else 'one device'}",
                )  # fmt: skip
        return device

    # -- batches ----------------------------------------------------------------------------------------------------

    def _aligned(
        self, values: Sequence[Any], leads: Sequence[int], rank: int, results: Sequence[Known]
    ) -> tuple[list[Any], list[Shape]]:
        """Arguments and shapes of results whose added axes stand above one another: in front of the widest batch."""
        if not rank:
            return list(values), [shape for shape, _ in results]
        cores = {a.name: len(a.core.tokens) for a in self.prototype.arrays if a.core is not None}
        by_name = {r.name: 0 if r.core is None else len(r.core.tokens) for r in self.prototype.results}
        of_results = [by_name[output.name] for output in spread(self.prototype.signature.outputs, len(results))]
        rest = iter(leads)
        tensors = [
            (i, j, item, next(rest), cores[p.name])
            for i, p in self._tensors
            if values[i] is not None
            for j, item in enumerate(values[i] if p.many else [values[i]])
        ]
        own = [item.dim() - lead - core for _, _, item, lead, core in tensors]
        own += [len(shape) - rank - core for (shape, _), core in zip(results, of_results, strict=True)]
        widest = max(own)
        aligned = [list(value) if isinstance(value, (list, tuple)) else value for value in values]
        for i, j, item, lead, core in tensors:
            ones = (None,) * (widest - (item.dim() - lead - core))
            moved = item[(slice(None),) * lead + ones] if ones and lead else item
            if isinstance(aligned[i], list) and self.prototype.signature.parameters[i].many:
                aligned[i][j] = moved
            else:
                aligned[i] = moved
        shapes = []
        for (shape, _), core in zip(results, of_results, strict=True):
            shapes.append((*shape[:rank], *(1,) * (widest - (len(shape) - rank - core)), *shape[rank:]))
        return aligned, shapes

    def _maps_common(self, leads: Sequence[int], values: Sequence[Any]) -> bool:
        """Tell whether a kernel that is written by hand would need a tensor of its own for each sample, and has one."""
        if self.source.launch is None:
            return False
        there = [p for i, p in self._tensors if values[i] is not None]
        return any(lead and not _has_run(p) for lead, p in zip(leads, there, strict=True))

    def in_full(self, values: Sequence[Any], shapes: Sequence[Shape]) -> Sequence[Any]:
        """The arguments; of a kernel that walks along all samples, those with batch axes in full and contiguous."""
        if self.prototype.count is None:
            return values
        batch, full = self._batches(shapes)[0], list(values)
        for i, core in self._walked:
            value = values[i]
            if value is None:
                continue
            shape = (*batch, *value.shape[value.dim() - core :])
            if tuple(value.shape) != shape or not value.is_contiguous():
                full[i] = value.expand(shape).contiguous()
        return full

    @cached_property
    def _walked(self) -> list[tuple[int, int]]:
        """The tensors with batch axes: their places, and how many axes a sample has."""
        cores = {a.name: len(a.core.tokens) if a.core else 0 for a in self.prototype.arrays}
        return [(i, cores[p.name]) for i, p in self._tensors if _has_run(p)]

    def _loop(
        self, values: Sequence[Any], leads: Sequence[int], rank: int, results: Sequence[Known],
        sizes: Mapping[str, Any],
    ) -> list[Tensor]:  # fmt: skip
        """One sample after another, for a function that takes arrays whole."""
        batch = results[0][0][:rank]
        device = next(item.device for item in flatten(self.prototype.signature, values))
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in results]
        cores = [(shape[rank:], dtype) for shape, dtype in results]
        for index in itertools.product(*map(range, batch)):
            rest = iter(leads)

            def at(item: Tensor, rest: Any = rest, index: Any = index) -> Tensor:
                lead = next(rest)
                places = index[rank - lead :]
                sample = tuple(i if size != 1 else 0 for i, size in zip(places, item.shape[:lead], strict=True))
                return item[sample]

            sample: list[Any] = list(values)
            for i, p in self._tensors:
                if values[i] is not None:
                    sample[i] = [at(item) for item in values[i]] if p.many else at(values[i])
            for output, value in zip(made, self.run(sample, [0] * len(leads), 0, cores, sizes), strict=True):
                output[index] = value
        return made


def _has_run(parameter: Parameter) -> bool:
    """Tell whether a tensor has batch axes."""
    return parameter.tensor.axes is not None and parameter.tensor.axes.leading_run is not None


def _narrow(value: Any, dtype: torch.dtype | None) -> Any:
    return [item.to(dtype) for item in value] if isinstance(value, list) else value.to(dtype)


def _widen(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(WIDE[value.dtype]) if value.dtype in WIDE else value
    return [_widen(item) for item in value] if isinstance(value, list) else value
