"""Closures of Python functions: the tensors that one uses beside its argument are found, and replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import torchgraft as tg

from ... import _torch
from ..._spec.dtypes import is_inexact


class Closure:
    """A function of one tensor, as a function of all differentiable tensors that it uses.

    Calls of torch are intercepted. Within a transform those of operators and of autograd Functions are, too: there the
    function is run.

    Args:
        operator: that asks for it, for errors.
        function: returns a tensor.
        x: an argument that it takes, and is called with once.
        args: further ones.

    Attributes:
        tensors: among `args`, closed over, of modules: what it uses.

    Raises:
        DtypeError: one of them is complex.
    """

    def __init__(self, operator: str, function: Callable[..., Any], x: Tensor, args: Sequence[Any]) -> None:
        self.function, self.args = function, tuple(args)
        finding = _Finding()

        def of_x(x: Tensor) -> Tensor:
            with finding:  # It is not around the transform, which wraps x by means of torch functions.
                finding.made(x)
                return self.plain(x)

        torch.func.vjp(of_x, x)
        self.tensors = list(finding.found.values())
        if any(tensor.is_complex() for tensor in self.tensors):
            raise tg.DtypeError(
                "uses a complex tensor, and a root of complex equations is not differentiated", operator=operator,
                expected="real tensors", got=next(t.dtype for t in self.tensors if t.is_complex()),
                hint="pass real and imaginary parts",
            )  # fmt: skip

    def __call__(self, x: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        """The function's value, with `tensors` in the places of its own."""
        others = {id(own): other for own, other in zip(self.tensors, tensors, strict=True)}
        with Replacing(others):
            value: Tensor = torch.func.vjp(self.plain, x)[0]
        return value

    def plain(self, x: Tensor) -> Tensor:
        """Its value, with its own tensors."""
        value: Tensor = self.function(x, *self.args)
        return value


class Replacing(torch.overrides.TorchFunctionMode):
    """Within, torch takes other tensors than it is given.

    Args:
        others: by id of the tensor in whose place they are.
    """

    def __init__(self, others: Mapping[int, Tensor]) -> None:
        super().__init__()
        self.others = others

    def __torch_function__(
        self, func: Callable[..., Any], classes: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call `func` with them."""
        args, kwargs = _torch.pytree.tree_map(self._other, (tuple(args), kwargs or {}))
        return func(*args, **kwargs)

    def _other(self, value: Any) -> Any:
        return self.others.get(id(value), value)


class _Finding(torch.overrides.TorchFunctionMode):
    """Within, notes the differentiable tensors that torch takes and has not made.

    Attributes:
        found: by their ids.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Tensor] = {}
        self._made: dict[int, Tensor] = {}  # They are kept alive, so that no id is used again.

    def made(self, result: Any) -> None:
        """Tensors in `result` are none that are to be found."""
        self._made |= {id(tensor): tensor for tensor in _tensors(result) if id(tensor) not in self.found}

    def __torch_function__(
        self, func: Callable[..., Any], classes: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call `func`, and look at what goes in and what comes out."""
        for tensor in _tensors((args, kwargs)):
            if id(tensor) not in self._made and is_inexact(tensor.dtype):
                self.found[id(tensor)] = tensor
        result = func(*args, **(kwargs or {}))
        self.made(result)
        return result


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in _torch.pytree.tree_leaves(values) if isinstance(value, Tensor)]
