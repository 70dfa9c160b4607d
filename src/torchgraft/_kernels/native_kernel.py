"""A kernel in C or C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._build.native_function import NativeFunction, Result
from .._build.prototype import Prototype
from .._build.source import Source
from .._spec.axes import Shape
from .._spec.outputs import leaf_names
from .._spec.plan import Plan
from .._spec.shape_rule import missing_shape
from .._spec.signature import Signature
from ..errors import DeclarationError
from .kernel import Kernel


class NativeKernel(Kernel):
    """A C function, which sees one sample.

    Args:
        function: the stub that was decorated.
        source: the source of the C function.
    """

    opaque = True
    trusted = True

    def __init__(self, signature: Signature, function: Callable[..., Any], source: Source) -> None:
        super().__init__(signature, function)
        self.kind = source.language
        self.native = NativeFunction(source, Prototype(signature, source.function or signature.name), signature.name)

    def planned(self, plan: Plan, values: Sequence[Any]) -> Callable[..., Any]:
        """The library's function itself, where there is nothing more to do."""
        if plan.batch:
            return lambda *values: self.call_planned(values, plan)
        results = self._results(plan)
        if not results:
            return lambda *values: self.call_planned(values, plan)
        outputs = self.native.dtypes_of(results)
        trailing = self.native.trailing((), [shape for shape, _ in results])
        function = self.native.variant(self.native.dtypes(values), outputs, fast=not trailing)
        return (lambda *values: function(*values, *trailing)) if trailing else function

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over all leading axes."""
        leads = [leaf.lead for leaf in plan.leaves]
        return self.single(self.native.run(values, leads, len(plan.batch), self._results(plan)))

    def explained(self, error: RuntimeError, values: Sequence[Any]) -> Exception:
        """The error for what the function said when it failed."""
        return self.native.explained(error, values)

    def _results(self, plan: Plan) -> list[Result]:
        names = leaf_names(self.signature.outputs, len(plan.outputs))
        return [(self._known(shape, name), dtype) for name, (shape, dtype) in zip(names, plan.outputs, strict=True)]

    def _known(self, shape: Shape | None, output: str) -> Shape:
        if shape is None:
            raise DeclarationError(
                "the output's shape is not known before a C function runs", operator=self.signature.name,
                argument=output, expected="annotated axes, or a shape rule",
                got="a list" if self.signature.returns_list else "a bare Tensor",
                hint=missing_shape(self.signature),
            )  # fmt: skip
        return shape
