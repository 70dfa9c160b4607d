"""Generators of random numbers: their states, and who draws from them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class RandomWatch(TorchDispatchMode):
    """Within, notices operators that draw random numbers, also where a tracer only pretends to run them.

    Attributes:
        drawn: the name of the first one.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drawn: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`."""
        if torch.Tag.nondeterministic_seeded in func.tags and self.drawn is None:
            self.drawn = func.__name__
        return func(*args, **(kwargs or {}))


def random_states() -> list[Tensor]:
    """The states of torch's generators."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]


def set_random_states(states: list[Tensor]) -> None:
    """Put the generators back."""
    cpu, *cuda = states
    torch.set_rng_state(cpu)
    if cuda:
        torch.cuda.set_rng_state_all(cuda)
