"""Generators of random numbers: their states, and who draws from them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import random
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import _C, Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .levels import functorch_active
from .plain import materialized
from .thread_modes import dispatch_modes


class RandomWatch(TorchDispatchMode):
    """Within, notices operators that draw random numbers, also where a tracer only pretends to run them.

    It sees torch's generators alone, the explicit ones among them; `Generators` sees those of NumPy and of Python.

    Attributes:
        drawn: the name of the first operator that may draw; some do so for some arguments only.
        explicit: the name of the first one that was handed a generator.
    """

    supports_higher_order_operators = True
    """Such as `torch.cond`, and the call of a Triton kernel: else torch refuses them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drawn: str | None = None
        self.explicit: str | None = None

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and look at the generators."""
        if not isinstance(func, torch._ops.OpOverload):  # It is a higher order operator, which calls functions.
            return func(*map(self._watched, args), **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.drawn = self.drawn or func.__name__
            if any(isinstance(value, torch.Generator) for value in (*args, *(kwargs or {}).values())):
                self.explicit = self.explicit or func.__name__
        return func(*materialized(args), **(kwargs or {}))

    def _watched(self, value: Any) -> Any:
        """A function that a higher order operator calls, watched as well; a graph is read."""
        if isinstance(value, torch.fx.GraphModule):
            for node in value.graph.nodes:
                if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                    self.drawn = self.drawn or node.target.__name__
        if not isinstance(value, types.FunctionType):
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return value(*args, **kwargs)

        return call


class Generators:
    """A snapshot of the generators that belong to nobody: torch's defaults, `numpy.random` and `random`.

    Taken and compared in 20 us each; 60 us more where NumPy's generator has moved since the last snapshot.
    """

    def __init__(self) -> None:
        with directly():
            self._torch = _torch_states()
        self._numpy = _numpy_state()
        self._python = random.getstate()

    @classmethod
    def snapshot(cls) -> Generators:
        """The states as they are now."""
        return cls()

    def all_moved(self) -> list[str]:
        """The names of those that have moved since: ``torch``, ``numpy.random``, ``random``."""
        with directly():
            torch_moved = list(map(_bytes, _torch_states())) != list(map(_bytes, self._torch))
        python_moved = _telling(random.getstate()) != _telling(self._python)
        moved = {"torch": torch_moved, "numpy.random": self._numpy.moved(), "random": python_moved}
        return [name for name, has_moved in moved.items() if has_moved]

    def moved(self) -> str | None:
        """The name of one that has moved since; None where none has."""
        return next(iter(self.all_moved()), None)

    def restore(self) -> None:
        """Put the generators back."""
        cpu, *cuda = self._torch
        with directly():
            torch.default_generator.set_state(cpu)
            for generator, state in zip(_cuda_generators(), cuda, strict=False):
                generator.set_state(state)
        np.random.set_state(self._numpy.state)
        random.setstate(self._python)


@contextlib.contextmanager
def directly() -> Iterator[None]:
    """Within, torch functions work on plain tensors alone, whatever transforms and modes are about."""
    if functorch_active() or dispatch_modes():
        with _C._DisableFuncTorch(), _disable_current_modes():
            yield
    else:
        yield


def _torch_states() -> list[Tensor]:
    return [generator.get_state() for generator in (torch.default_generator, *_cuda_generators())]


def _cuda_generators() -> tuple[torch.Generator, ...]:
    return torch.cuda.default_generators if torch.cuda.is_initialized() else ()


def _bytes(state: Tensor) -> bytes:
    return state.numpy().tobytes()


class _NumpyState(NamedTuple):
    """The state of NumPy's global generator.

    Attributes:
        raw: the memory of its bits; None where that is not known.
        state: all of it, as NumPy tells it.
    """

    raw: bytes | None
    state: Any

    def moved(self) -> bool:
        raw = _numpy_raw()
        if raw != self.raw:
            return True
        # Normal numbers are drawn in pairs, and the second one waits: taking it leaves the bits alone.
        return (raw is None or self.state["has_gauss"]) and not _same(np.random.get_state(legacy=False), self.state)


def _telling(state: Any) -> Any:
    """A part of the state of Python's generator that no draw leaves alone: the place among its words, and the first."""
    _, words, gauss = state
    return words[-1], words[:8], gauss


_known: list[_NumpyState] = []


def _numpy_state() -> _NumpyState:
    """The state of NumPy's generator; asked for only where it has moved, for NumPy takes 60 us to tell it."""
    raw = _numpy_raw()
    if raw is None or not _known or _known[0].raw != raw or _known[0].state["has_gauss"]:
        _known[:] = [_NumpyState(raw, np.random.get_state(legacy=False))]
    return _known[0]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(_same(value, other[name]) for name, value in one.items())
    return bool(np.array_equal(one, other))


_MT19937 = 625 * 4  # The state has 624 words and a place among them.


def _numpy_raw() -> bytes | None:
    bits = np.random.get_bit_generator()  # type: ignore[attr-defined] # NumPy's stubs lack it.
    if type(bits) is not np.random.MT19937:  # Somebody has put another one in its place.
        return None
    return ctypes.string_at(bits.ctypes.state_address, _MT19937)
