"""Solutions of equations as functions of what the equations are made of, by the implicit function theorem.

The gradient of a solution is a Python function of tensors, as the equations are. It becomes an operator by `_lifted`,
whose kernel runs it and whose own gradient is what `torch.func.vjp` makes of it, lifted again: so solutions have
derivatives of any order, in both modes, under every transform.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

import torchgraft as tg

from ... import _torch
from .closure import Closure, Replacing

# -- Python objects in graphs -----------------------------------------------------------------------------------------

_OBJECTS: dict[int, Any] = {}
_NUMBERS = itertools.count()


def _key(thing: Any) -> Tensor:
    """A tensor by which operators find a Python object, kept for as long as a graph keeps the tensor."""
    number = next(_NUMBERS)
    _OBJECTS[number] = thing
    memory = np.array(number)  # Views and wrappers of the tensor keep it, too.
    weakref.finalize(memory, _OBJECTS.pop, number)
    return torch.from_numpy(memory)


# -- functions as operators -------------------------------------------------------------------------------------------

Function = Callable[..., Tensor]


@tg.op
def _lifted(function: Int64[Tensor, ""], inputs: list[Tensor], size: int) -> Float64[Tensor, "{size}"]:
    """The value, of `size` elements, of a function that torch can differentiate."""
    called: Function = _OBJECTS[int(function)]
    with Replacing({}):  # The watch over rules leaves alone what is called from here, as it does operators.
        value = called(*inputs)
    return value


@_lifted.vjp("inputs")
def _(grad: Tensor, function: Tensor, inputs: list[Tensor]) -> Any:
    called: Function = _OBJECTS[int(function)]

    def pull(grad: Tensor, *inputs: Tensor) -> Tensor:
        gradients: tuple[Tensor, ...] = torch.func.vjp(called, *inputs)[1](grad)
        return joined(gradients)

    return split(_lifted(_key(pull), [grad, *inputs], _count(inputs)), inputs)


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in double precision, one tensor after the other."""
    return torch.cat([tensor.double().flatten() for tensor in tensors])


def split(elements: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `joined`."""
    parts = elements.split([tensor.numel() for tensor in like])
    return [part.reshape(tensor.shape).to(tensor.dtype) for part, tensor in zip(parts, like, strict=True)]


def _count(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


# -- equations --------------------------------------------------------------------------------------------------------


FAR = 0.1
"""A root is as near, relative to x and to the way from the start."""

Solver = Callable[[Tensor, Callable[[Tensor], Tensor]], tuple[Tensor, str | None]]
"""From a start and a function, an x where the function is zero, or what is none and why."""


class Equations:
    """f(x) = 0, as many equations as unknowns, and how they are solved.

    Args:
        name: of the function that is called, for errors.
        function: f; takes and returns tensors of one shape.
        start: an x, with the shape and the dtype of the solution.
        args: further arguments of f.
        solver: finds x.
    """

    def __init__(
        self, name: str, function: Callable[..., Tensor], start: Tensor, args: Sequence[Any], solver: Solver
    ) -> None:
        self.name, self.start, self.solver = name, start.detach(), solver
        self._mapped = _torch.functorch_active()  # The kernel is then given other tensors than f has.
        self.closure = Closure(name, function, self.start, args)
        self._failure: str | None = None
        self._left = 0.0  # The greatest value of f at solutions.
        self._way = 0.0  # The longest that a solver went.

    def solved(self) -> Tensor:
        """The solution, differentiable in the tensors that f uses."""
        made: Tensor = _solution(_key(self), self.start.flatten(), self.closure.tensors)
        return made.reshape(self.start.shape)

    def solve(self, start: Tensor, tensors: Sequence[Tensor]) -> Tensor:
        """Solve, and return the solution as one vector."""
        function = (lambda x: self.closure(x, tensors)) if self._mapped else self.closure.plain
        found, failure = self.solver(start.reshape(self.start.shape), function)
        self._failure = self._failure or failure
        self._left = max(self._left, _largest(function(found)))
        self._way = max(self._way, _largest(found - start.reshape(found.shape)))
        return found.detach().flatten()

    def pull(self, grad: Tensor, x: Tensor, *tensors: Tensor) -> Tensor:
        """Return -(df/dtensors)^T (df/dx)^-T grad.

        Raises:
            DerivativeError: x is no solution, or has no derivative.
        """
        slope: Tensor = torch.func.jacrev(lambda x: self._values(x, *tensors))(x).double()
        values, pull, *_ = torch.func.vjp(lambda *tensors: self._values(x, *tensors), *tensors)
        self._check(x.detach(), values.detach(), slope.detach())
        multipliers = torch.linalg.solve(slope.mT, grad.double())
        return -joined(pull(multipliers))

    def _values(self, x: Tensor, *tensors: Tensor) -> Tensor:
        """f, of flat x and in double precision."""
        return self.closure(x.reshape(self.start.shape), tensors).flatten().double()

    def _check(self, x: Tensor, values: Tensor, slope: Tensor) -> None:
        """Refuse what the theorem does not speak of.

        Raises:
            DerivativeError: x is no solution, f is another function than it was, or the slope is singular.
        """
        if self._failure is not None:
            raise tg.DerivativeError(
                "what is no root has no derivative", operator=self.name, expected="a root", got=self._failure
            )
        precision = torch.finfo(self.start.dtype).eps
        if _largest(values) > 1.001 * self._left + 1e3 * precision * _largest(slope) * _largest(x):
            raise tg.DerivativeError(
                "the function has changed since it was solved", operator=self.name,
                expected=f"values up to {self._left:.3g} at the root", got=f"{_largest(values):.3g}",
                hint="bind what it reads from Python when it is made: lambda x, k=k: ...",
            )  # fmt: skip
        # Equations and unknowns may have units as different as they like.
        even = slope / slope.abs().amax(1, keepdim=True)
        even = even / even.abs().amax(0, keepdim=True)
        sizes = torch.linalg.svdvals(even) if even.isfinite().all() else [0.0]
        if len(sizes) > 0 and not sizes[-1] > precision * len(sizes) * sizes[0]:
            raise tg.DerivativeError(
                "the Jacobian is singular at the root, which has no derivative", operator=self.name,
                expected="independent equations, that depend on x", got=f"the Jacobian {slope.tolist()}",
            )  # fmt: skip
        # A least-squares minimum and a jump pass for roots with solvers; a step of Newton's would lead far away.
        step = _largest(torch.linalg.solve(slope, values.double()))
        if not step <= FAR * (_largest(x) + self._way) + precision ** (1 / 3):
            raise tg.DerivativeError(
                "what the solver found is no root, and has no derivative", operator=self.name, expected="a root",
                got=f"values up to {_largest(values):.3g}, {step:.3g} from where they would be zero",
            )  # fmt: skip


def _largest(values: Tensor) -> float:
    return values.abs().max().item() if values.numel() > 0 else 0.0


@tg.op
def _solution(equations: Int64[Tensor, ""], start: Float[Tensor, "n"], tensors: list[Tensor]) -> Float[Tensor, "n"]:
    """The x for which f(x, tensors) is zero."""
    problem: Equations = _OBJECTS[int(equations)]
    return problem.solve(start, tensors)


_solution.nondifferentiable("start", reason="a root does not depend on where the solver starts")


@_solution.vjp("tensors")
def _(grad: Tensor, equations: Tensor, tensors: list[Tensor], out: Tensor) -> Any:
    pull = _OBJECTS[int(equations)].pull
    return split(_lifted(_key(pull), [grad, out, *tensors], _count(tensors)), tensors)
