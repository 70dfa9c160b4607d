"""A kernel in C or C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._build.cuda.by_hand import KernelPrototype
from .._build.native_function import NativeFunction, Result
from .._build.prototype import Prototype
from .._build.source import Source
from .._spec.axes import Shape
from .._spec.outputs import leaf_names
from .._spec.plan import Plan, seeded
from .._spec.shape_rule import missing_shape
from .._spec.signature import Signature
from ..errors import DeclarationError
from .kernel import Kernel
from .written import written_places


class NativeKernel(Kernel):
    """A C function, which sees one sample.

    Args:
        function: the stub that was decorated.
        source: the source of the C function.
    """

    opaque = True
    trusted = True
    native: NativeFunction

    def __init__(self, signature: Signature, function: Callable[..., Any], source: Source) -> None:
        super().__init__(signature, function)
        self.kind = source.language
        prototype = (KernelPrototype if source.launch else Prototype)(signature, source.function or signature.name)
        self.native = NativeFunction(source, prototype, signature.name)
        if source.launch is not None:
            source.launch.check_names(prototype.sizes, signature.name)
            self.check_on_cuda()

    def check_on_cuda(self) -> None:
        if self.native.unfit is not None:
            argument, problem, expected, got = self.native.unfit
            raise DeclarationError(problem, operator=self.signature.name, argument=argument, expected=expected, got=got)

    def runs_on(self, device: str) -> bool:
        """Tell whether it computes on devices of a type."""
        return self.native.runs_on(device)

    def planned(self, plan: Plan, values: Sequence[Any]) -> Callable[..., Any]:
        """The library's function itself, where there is nothing more to do."""
        results = self._results(plan)
        if self._is_ready(plan) and (not self.signature.written or self.native.prototype.scalar):
            ready = self.native.ready_over(values, self._leads(plan), len(plan.batch), results, plan.sizes)
            if ready is not None:
                return ready
        if plan.batch:
            return lambda *values: self.call_planned(values, plan)
        if not results:
            return lambda *values: self.call_planned(values, plan)
        outputs = self.native.dtypes_of(results)
        device = self.native.device_of(values)
        shapes = [shape for shape, _ in results if shape is not None]
        trailing = self.native.trailing(plan.sizes, shapes, device)
        function = self.native.variant(self.native.dtypes(values), outputs, device=device)
        if self.native.prototype.count:
            return lambda *values: function(*self.native.in_full(values, shapes), *trailing)
        return (lambda *values: function(*values, *trailing)) if trailing else function

    def in_place(self, plan: Plan, values: Sequence[Any]) -> Callable[..., Any] | None:
        """The function on the memory itself, if that is laid out as C reads it."""
        if not self._is_ready(plan) or not all(values[i].is_contiguous() for i in written_places(self.signature)):
            return None
        results = self._results(plan)
        return self.native.ready_over(values, self._leads(plan), len(plan.batch), results, plan.sizes, in_place=True)

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over all leading axes."""
        values = seeded(self.signature, values, plan) if plan.batch else values  # Without a batch, the library does it.
        results = self._results(plan)
        return self.single(self.native.run(values, self._leads(plan), len(plan.batch), results, plan.sizes))

    def explained(self, error: RuntimeError, values: Sequence[Any]) -> Exception:
        """The error for what the function said when it failed."""
        return self.native.explained(error, values)

    def _is_ready(self, plan: Plan) -> bool:
        """Tell whether arguments go to the function as they are; a loop makes a seed for each of its samples."""
        return not plan.batch or self.signature.seed is None

    def _leads(self, plan: Plan) -> list[int]:
        return [leaf.lead for leaf in plan.leaves]

    def _results(self, plan: Plan) -> list[Result]:
        names = leaf_names(self.signature.outputs, len(plan.outputs))
        return [(self._known(shape, name), dtype) for name, (shape, dtype) in zip(names, plan.outputs, strict=True)]

    def _known(self, shape: Shape | None, output: str) -> Shape | None:
        if shape is None and not self.signature.late:  # A function that says sizes makes outputs of them.
            raise DeclarationError(
                "the output's shape is not known before a C function runs", operator=self.signature.name,
                argument=output, expected="annotated axes, or a shape rule",
                got="a list" if self.signature.returns_list else "a bare Tensor",
                hint=missing_shape(self.signature),
            )  # fmt: skip
        return shape
