"""A kernel in C: a library for each combination of dtypes, built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._build.prototype import Prototype
from .._build.source import Source
from .._errors import DeclarationError
from .._spec.dtypes import HALVES
from .._spec.plan import Plan, check_dtypes, flatten, replace
from .._spec.signature import Signature
from .kernel import Kernel

Dtypes = tuple[torch.dtype | None, ...]


class NativeKernel(Kernel):
    """A C function, which sees one sample.

    Args:
        function: the stub that was decorated.
        source: the source of the C function.
    """

    kind = "c"
    opaque = True

    def __init__(self, signature: Signature, function: Callable[..., Any], source: Source) -> None:
        super().__init__(signature, function)
        if signature.numpy:
            raise DeclarationError(
                "a kernel in C takes tensors", operator=signature.name, expected="Tensor", got="np.ndarray",
            )  # fmt: skip
        self.prototype = Prototype(signature, signature.name)
        self._source = source
        self._positions = [i for i, _ in signature.tensors]
        self._variants: dict[Dtypes, Callable[..., Any]] = {}
        self.call = self._call

    def planned(self, plan: Plan) -> Callable[..., Any]:
        """The library's function itself, where dtypes are all that there is to know."""
        dtypes = [leaf.dtype for leaf in plan.leaves]
        everything_there = len(dtypes) == len(self._positions)
        return super().planned(plan) if plan.batch or not everything_there else self._variant(tuple(dtypes))

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """The function over all leading axes, which the library broadcasts from the right."""
        leads = [leaf.lead for leaf in plan.leaves]
        if plan.batch and not self.signature.loop:  # in front of batch axes that not every tensor has
            leaves = flatten(self.signature, values)
            widest = max(leaf.dim() - core for leaf, core in zip(leaves, self._core_ranks(values), strict=True))
            aligned = [
                leaf[(slice(None),) * lead + (None,) * (widest - (leaf.dim() - core))]
                for leaf, lead, core in zip(leaves, leads, self._core_ranks(values), strict=True)
            ]
            values = replace(self.signature, values, aligned)
        return self.call(*values)

    def _core_ranks(self, values: Sequence[Any]) -> list[int]:
        present = [p for i, p in self.signature.tensors if values[i] is not None]
        return [len(self.prototype.core(p.tensor.axes).tokens) for p in present]

    def _call(self, *values: Any) -> Any:
        dtypes = tuple(None if values[i] is None else values[i].dtype for i in self._positions)
        return self._variant(dtypes)(*values)

    def _variant(self, dtypes: Dtypes) -> Callable[..., Any]:
        function = self._variants.get(dtypes)
        if function is None:
            function = self._variants[dtypes] = self._make(dtypes)
        return function

    def _make(self, dtypes: Dtypes) -> Callable[..., Any]:
        parameters = [p for _, p in self.signature.tensors]
        present = [(p.name, p.tensor.dtypes, d) for p, d in zip(parameters, dtypes, strict=True) if d is not None]
        outputs = check_dtypes(self.signature, present)
        if any(d in HALVES for d in dtypes):
            wide = tuple(torch.float32 if d in HALVES else d for d in dtypes)
            return self._widened(self._variant(wide), outputs)
        names = {name: dtype for name, _, dtype in present}
        names |= {output.name: dtype for output, dtype in zip(self.signature.outputs, outputs, strict=True)}
        from .._build.library import build  # costs an import; most programs build nothing

        return build(self._source, self.prototype, names)

    def _widened(self, function: Callable[..., Any], outputs: Sequence[torch.dtype]) -> Callable[..., Any]:
        """Half precision, computed in float32 and rounded."""

        def call(*values: Any) -> Any:
            wide = [v.float() if isinstance(v, Tensor) and v.dtype in HALVES else v for v in values]
            made = function(*wide)
            made = [made] if isinstance(made, Tensor) else list(made)
            return self.single([value.to(dtype) for value, dtype in zip(made, outputs, strict=True)])

        return call
