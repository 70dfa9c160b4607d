"""Training in eager code and compiled, side by side."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import torch
from torch import Tensor

from .digits import Digits
from .network import Filter, Network
from .training import batches, loss_of, make_optimizer, step


def find_backend() -> str:
    """Inductor, which generates C++; where there is no compiler for it, the backend that generates no code."""
    compilers = [os.environ.get("CXX", ""), "g++", "c++", "clang++", "cl"]
    return "inductor" if any(map(shutil.which, compilers)) else "aot_eager"


def compare(first: Filter, digits: Digits, *, steps: int, batch: int, backend: str) -> tuple[list[float], list[float]]:
    """The losses of an eager and of a compiled training that start and go on with the same numbers.

    The losses of later steps agree only if the gradients of the earlier ones do.
    """
    compiled = torch.compile(loss_of, fullgraph=True, backend=backend)
    return losses(first, loss_of, digits, steps, batch), losses(first, compiled, digits, steps, batch)


def losses(first: Filter, function: Callable[..., Tensor], digits: Digits, steps: int, batch: int) -> list[float]:
    """The loss before each of the first steps."""
    torch.manual_seed(0)
    network = Network(first)
    optimizer = make_optimizer(network)
    pairs = batches(digits, batch)
    return [step(network, optimizer, *next(pairs), loss_function=function) for _ in range(steps)]
