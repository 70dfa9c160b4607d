"""Every transform of PyTorch that the matrix runs an operator through, the same code for operator and reference.

A transform takes a `Subject` and returns tensors. What it needs of an operator is said where it is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .cases import Case


@dataclass
class Subject:
    """What a transform is applied to: an operator or its reference.

    Attributes:
        f: of `x`, returns one vector, floating or complex.
        x: the tensors that are differentiated.
        raw: of `leaves`, returns a tuple of all outputs.
        leaves: all tensors of the call.
        compiler: what compiles a function; eager code stands in its place where values are wanted.
    """

    f: Callable[..., Tensor]
    x: tuple[Tensor, ...]
    raw: Callable[..., tuple[Tensor, ...]]
    leaves: list[Tensor]
    compiler: Callable[..., Callable[..., Any]]

    @classmethod
    def of(cls, case: Case, op: Callable[..., Any], compiler: Callable[..., Any]) -> Subject:
        return cls(case.smooth(op), case.primals(), case.raw(op), case.leaves(), compiler)

    @property
    def loss(self) -> Callable[..., Tensor]:
        """`f` weighted to one real number."""
        f = self.f

        def loss(*x: Tensor) -> Tensor:
            out = f(*x)
            weighted = (out * weights(out)).sum()
            return weighted.real if weighted.is_complex() else weighted

        return loss

    @property
    def every(self) -> tuple[int, ...]:
        """`argnums` of all of `x`."""
        return tuple(range(len(self.x)))

    def recording(self) -> tuple[Tensor, ...]:
        """`x` as leaves that require grad."""
        return tuple(x.detach().clone().requires_grad_() for x in self.x)

    def stacked(self, size: int = 3) -> tuple[Tensor, ...]:
        """`size` different samples of `x` along a new first axis."""
        return tuple(torch.stack([x * (1 + 0.1 * i) for i in range(size)]) for x in self.x)


def weights(like: Tensor) -> Tensor:
    """Different weights for each element, made without randomness so that every transform can carry them."""
    ramp = torch.arange(like.numel(), dtype=torch.float64, device=like.device).reshape(like.shape).to(like.dtype)
    return (ramp + 1).cos()


def directions(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A tangent for each of `tensors`."""
    return tuple(weights(t) * (0.5 + i) for i, t in enumerate(tensors))


@dataclass(frozen=True)
class Transform:
    """One row of the matrix.

    Attributes:
        name: as the documentation shows it.
        run: the transform.
        needs: names of `cases.py`; an operator that cannot is refused.
        group: heading in the documentation.
        slow: compiles, and so starts with a fresh Dynamo.
    """

    name: str
    run: Callable[[Subject], Any]
    needs: frozenset[str]
    group: str
    slow: bool

    def __repr__(self) -> str:
        return self.name


TRANSFORMS: list[Transform] = []


def transform(
    group: str, name: str, *needs: str, slow: bool = False
) -> Callable[[Callable[[Subject], Any]], Callable[[Subject], Any]]:
    """Register a row."""

    def register(run: Callable[[Subject], Any]) -> Callable[[Subject], Any]:
        TRANSFORMS.append(Transform(name, run, frozenset(needs), group, slow))
        return run

    return register


# Each module adds its rows; their order is that of the documentation.
from . import transforms_func, transforms_autograd, transforms_compile, transforms_export  # noqa: E402, F401, I001
