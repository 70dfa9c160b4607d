"""Hidden randomness: the result of a kernel or a rule must not depend on a generator that it was not given.

Compiled code would reuse what was drawn, `vmap` would share it between samples, and a backward pass would draw another
mask than the forward pass did.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from . import _torch
from ._captures import captures, is_compiled, named

R = TypeVar("R")

_SOURCES = {
    "torch": "torch's default generator",
    "numpy.random": "NumPy's global generator",
    "random": "the random module of Python",
}

_FIRST = 3
"""Calls that are looked at before a function is trusted."""

_SPEAKING = frozenset({
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "bernoulli_",
    "multinomial", "normal", "normal_", "poisson", "uniform", "uniform_", "random", "random_", "exponential_",
    "geometric_", "cauchy_", "log_normal_", "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d",
    "alpha_dropout", "native_dropout", "gumbel_softmax", "rrelu", "default_rng", "RandomState", "standard_normal",
    "choice", "shuffle", "rsample", "gauss",
})  # fmt: skip
"""Names by which code draws. Such a function may draw in some of its calls alone, and is looked at in all of them."""

_MAKING = frozenset({"default_rng", "RandomState", "Generator", "Random", "SystemRandom", "urandom", "SeedSequence"})
"""Names by which code makes a generator of its own, which may have a seed of its own, too."""


@functools.cache
def _generators() -> tuple[type, ...]:
    """Classes of generators. NumPy imports its own when they are asked for, which takes longer than a call."""
    return torch.Generator, np.random.Generator, np.random.RandomState, random.Random


def without_draws(
    function: Callable[[], R],
    refuse: Callable[[str], Exception],
    *,
    suspected: bool = False,
    elsewhere: Callable[[], Any] | None = None,
) -> R:
    """Return what `function` returns, if that does not depend on a random draw.

    A function that draws is run again, from where its generator is then. Some only choose a route by what they draw
    (SciPy's `expm_multiply` and `logm` do), and return the same.

    Args:
        function: what is looked at.
        refuse: makes the error, from the name of what has drawn.
        suspected: it may draw from a generator that is not a default one.
        elsewhere: runs it where no argument is zero. Zeros hide what they are multiplied by, and its derivative.
    """
    before = _torch.Generators.snapshot()
    if _torch.dispatch_modes():
        with _torch.RandomWatch() as watch:
            made = function()
        drawn = watch.drawn
    else:
        made, drawn = function(), None
    drawn = drawn or before.moved() or ("a generator of its own" if suspected else None)
    if drawn is not None and not (_agree(made, function) and _agree_elsewhere(made, elsewhere)):
        raise refuse(drawn)
    return made


def _agree(made: Any, function: Callable[[], Any]) -> bool:
    """Tell whether a second run makes the same; where a tracer runs nothing, it is not known, and so not said."""
    with _torch.directly():
        values = list(_leaves(made))
    if not all(map(_holds_numbers, values)):
        return False
    second = function()
    with _torch.directly():
        again = list(_leaves(second))
        return len(again) == len(values) and all(map(_same, values, again))


def _agree_elsewhere(made: Any, function: Callable[[], Any] | None) -> bool:
    """Tell whether two runs on other arguments agree, where a part of the result is zero."""
    with _torch.directly(), torch.no_grad():
        if function is None or all(map(_holds_something, _leaves(made))):
            return True
        try:
            return _agree(function(), function)
        except Exception:  # The function is not made for other arguments.
            return True


def _holds_something(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not _holds_numbers(value) or bool(value.any()) or not value.numel()
    return not isinstance(value, np.ndarray) or bool(value.any()) or not value.size


def _nonzero(value: Any) -> Any:
    """Plain arguments like these, with 1 in the place of 0."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_nonzero, value))
    if isinstance(value, Tensor):
        plain = _torch.plain_sample(value)
        return torch.where(plain == 0, torch.ones_like(plain), plain)
    return np.where(value == 0, np.ones_like(value), value) if isinstance(value, np.ndarray) else value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield _torch.plain_sample(value) if isinstance(value, Tensor) else value


def _holds_numbers(value: Any) -> bool:
    return not isinstance(value, Tensor) or (type(value) in _torch.PLAIN_TYPES and not value.is_meta)


def _same(one: Any, other: Any) -> bool:
    """Compare to rounding, which a route of its own may change."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (Tensor, np.ndarray)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        left, right = _array(one), _array(other)
        if left.dtype.kind not in "fc":
            return bool(np.array_equal(left, right))
        finite = np.abs(left[np.isfinite(left)])
        slack = 64 * _rounding(one) * (finite.max() if finite.size else 0.0)
        return bool(np.allclose(left, right, rtol=0, atol=slack, equal_nan=True))
    return bool(one == other or (one != one and other != other))


def _array(value: Tensor | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not isinstance(value, Tensor):
        return value
    plain = value.cpu().resolve_conj().resolve_neg()
    array: np.ndarray[Any, Any] = (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()
    return array


def _rounding(value: Tensor | np.ndarray[Any, Any]) -> float:
    return float(torch.finfo(value.dtype).eps if isinstance(value, Tensor) else np.finfo(value.dtype).eps)


class Probe:
    """A function whose first calls are looked at for draws; all of its calls, where its code speaks of such.

    Args:
        function: what is called.
        written: what the user wrote, of which that is made.
        refuse: makes the error, from the name of what has drawn.

    Attributes:
        function: what is called.
        left: how many calls will be looked at in any case.
    """

    def __init__(
        self, function: Callable[..., Any], written: Callable[..., Any], refuse: Callable[[str], Exception]
    ) -> None:
        functools.update_wrapper(self, function)  # Who asks for documentation gets the function's.
        self.function = function
        self.left = _FIRST
        self._written = written
        self._refuse = refuse

    @functools.cached_property
    def always(self) -> bool:
        """True if every call is looked at: the code speaks of draws."""
        return not _SPEAKING.isdisjoint(named(self._written))

    @functools.cached_property
    def _suspected(self) -> bool:
        """True if the function has, or makes, a generator that nobody else sees; those of Numba are such."""
        found = [value for _, value in captures(self._written)]
        if any(isinstance(value, _generators()) for value in found) or not _MAKING.isdisjoint(named(self._written)):
            return True
        return any(not _SPEAKING.isdisjoint(named(value.py_func)) for value in found if is_compiled(value))

    def __call__(self, *values: Any) -> Any:
        """Call the function, and look for draws."""
        return self.look(lambda: self.function(*values), elsewhere=lambda: self.function(*map(_nonzero, values)))

    def look(self, run: Callable[[], R], *, new: bool = False, elsewhere: Callable[[], Any] | None = None) -> R:
        """Return what `run` returns, which runs the function in whatever surroundings.

        Args:
            run: runs it.
            new: it is run on something that it has not met before.
            elsewhere: runs the function on other arguments.
        """
        traced = _torch.dispatch_modes() > 0  # A traced function is compiled, and runs where nobody looks.
        if not (new or self.always or self.left > 0 or traced):
            return run()
        suspected = self._suspected and (new or self.left > 0)
        self.left -= not traced
        return without_draws(run, self._refuse, suspected=suspected, elsewhere=elsewhere)


def is_looked_at(function: Callable[..., Any]) -> bool:
    """Tell whether the next call of a function will be run again if it draws; what is traced is not."""
    return isinstance(function, Probe) and (function.always or function.left > 0)


def trusted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a `Probe`, once there is nothing more to look at; anything else as it is."""
    return function.function if isinstance(function, Probe) and not is_looked_at(function) else function


def draw_words(what: str) -> dict[str, str]:
    """Return the fields of the error for a result that depends on a draw.

    Args:
        what: the name of what has drawn.
    """
    return {
        "expected": "a function of its arguments",
        "got": f"a draw from {_SOURCES.get(what, what)}, and another result from the same arguments",
        "hint": "draw from a seed that is an argument: *, seed: tg.Seed = tg.drawn",
    }
