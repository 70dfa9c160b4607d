"""Exchange between torch and SciPy's solvers: arguments, values, and errors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import torchgraft as tg

from ... import _torch
from ..arguments import check_cpu


class ConvergenceError(tg.TorchgraftError, RuntimeError):
    """A solver did not find a root; the text is SciPy's.

    Example:
        >>> raise ConvergenceError("Failed to converge after 100 iterations.", operator="brentq", expected="a root")
    """


F = TypeVar("F", bound=Callable[..., Any])


def eager(function: F) -> F:
    """`function`, at which compilers break the graph: SciPy's solvers are not to be traced.

    A tracer that makes one graph is refused: there the root would be of the equations that it saw.
    """
    name = f"torchgraft.scipy.optimize.{function.__name__}"
    function = _torch.disabled(function, f"{name} calls back into Python, and cannot be part of a graph")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return function(*args, **kwargs)
        graph = _torch.dispatch_modes() > 0 and _torch.tracing_to_graph()
        if graph or torch.compiler.is_compiling() or _torch.is_tracing():
            raise tg.UnsupportedError(
                "calls back into Python, and cannot be part of a graph", operator=function.__name__,
                expected="a call in eager code", got="a call that is traced or exported",
            )  # fmt: skip
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def real_start(operator: str, name: str, value: Any) -> Tensor:
    """Read the start of a solver, which is a real tensor on the CPU, or numbers.

    Raises:
        ArgumentError: it is something else.
        DtypeError: it is complex.
        DeviceError: it is on another device.
    """
    if not isinstance(value, Tensor):
        try:
            return torch.from_numpy(np.array(value, dtype=np.float64))
        except (TypeError, ValueError, RuntimeError) as error:
            raise tg.ArgumentError(
                "is no array of real numbers", operator=operator, argument=name, expected="a tensor, or numbers",
                got=repr(value),
            ) from error  # fmt: skip
    if value.is_complex():
        raise tg.DtypeError("is complex", operator=operator, argument=name, expected="a real tensor", got=value.dtype)
    check_cpu(operator, name, value)
    return value if value.is_floating_point() else value.double()


def real_values(operator: str, returned: Any, x: Tensor) -> Tensor:
    """Return the values of a user's function in the shape of its argument.

    Raises:
        ArgumentError: it is no tensor, and no sequence of such.
        DtypeError: it is not real.
        ShapeError: it has another number of elements.
    """
    if isinstance(returned, (list, tuple)) and returned and all(isinstance(value, Tensor) for value in returned):
        returned = torch.stack([value.reshape(()) for value in returned])
    if not isinstance(returned, Tensor):
        raise tg.ArgumentError(
            "the function returns no tensor", operator=operator, expected="a tensor, made of x by torch functions",
            got=type(returned).__name__,
        )  # fmt: skip
    if not returned.is_floating_point():
        raise tg.DtypeError(
            "the function returns no real values", operator=operator, expected="a floating dtype", got=returned.dtype
        )
    if returned.numel() != x.numel():
        raise tg.ShapeError(
            "the function has not as many values as unknowns", operator=operator,
            expected=f"{x.numel()}, as in x of shape {tuple(x.shape)}", got=f"shape {tuple(returned.shape)}",
        )  # fmt: skip
    return returned.reshape(x.shape)


@contextlib.contextmanager
def lent(function: Callable[..., Any] | None) -> Iterator[Callable[..., Any] | None]:
    """A function for SciPy, whose solvers keep it in reference cycles: these hold nothing that is the function's."""
    lending = [function]
    try:
        yield None if function is None else lambda *args: lending[0](*args)  # type: ignore[misc]
    finally:
        lending.clear()


def as_array(values: Tensor) -> np.ndarray:
    """For SciPy, in double precision."""
    array: np.ndarray = values.detach().double().numpy()
    return array


def as_tensor(values: Any, like: Tensor) -> Tensor:
    """From SciPy, in the dtype of the start."""
    return torch.from_numpy(np.array(values, dtype=np.float64)).to(like.dtype)
