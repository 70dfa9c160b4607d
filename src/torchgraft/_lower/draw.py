"""The seed of a call: what the caller gives for it, or what torch's generator draws.

It is drawn outside of the operator, by `torch.randint`: so `vmap` maps the draw as its randomness mode says, compilers
have it in their graphs, and a checkpoint draws it again.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .._spec.seed import drawn
from .._spec.signature import Signature
from ..errors import ArgumentError, DeviceError, UnsupportedError

END = 2**63 - 1
"""Seeds are drawn below it. They are not negative, since NumPy's generators take none that is."""


def drawing(signature: Signature) -> Callable[[Any, Any, Sequence[Any]], Tensor]:
    """Make the function that gives an operator's calls their seeds.

    It takes what was given for the seed and for `generator`, and the other tensors of the call; it returns the seed.
    """
    assert signature.seed is not None
    name, title = signature.parameters[signature.seed].name, signature.name

    def seed(given: Any, generator: Any, values: Sequence[Any]) -> Tensor:
        if isinstance(given, torch.Generator) and generator is None:
            given, generator = drawn, given
        if given is drawn:
            return _draw(title, generator, values)
        if generator is not None:
            raise ArgumentError(
                "is given, and so is a generator that would draw it", operator=title, argument=name,
                expected="one of the two", got=f"{name}={given!r}, generator={generator!r}", hint="leave one out",
            )  # fmt: skip
        if isinstance(given, Tensor):
            return given
        return torch.tensor(_number(title, name, given), device=_device(values))

    return seed


def _draw(title: str, generator: Any, values: Sequence[Any]) -> Tensor:
    device = _device(values)
    if generator is not None:
        _check_generator(title, generator, device)
    if torch.compiler.is_dynamo_compiling():
        return torch.randint(END, (), generator=generator, device=device)
    try:
        return torch.randint(END, (), generator=generator, device=device)
    except RuntimeError as error:
        if "randomness error mode" not in str(error):
            raise
        raise UnsupportedError(
            "draws a seed inside of torch.vmap, which was not told whether samples share it", operator=title,
            expected='torch.vmap(..., randomness="different"), or randomness="same"', got='randomness="error"',
            hint="or draw outside: pass a seed, in_dims=0 for one of each sample",
        ) from error  # fmt: skip


def _check_generator(title: str, generator: Any, device: torch.device | None) -> None:
    if not isinstance(generator, torch.Generator):
        raise ArgumentError(
            "is no generator", operator=title, argument="generator", expected="a torch.Generator, or None",
            got=type(generator).__name__,
        )  # fmt: skip
    if device is not None and generator.device.type != device.type:
        raise DeviceError(
            f"draws on {generator.device}, and the tensors are on {device}", operator=title, argument="generator",
            expected=f"a generator of {device}", got=str(generator.device), hint=f'torch.Generator("{device}")',
        )  # fmt: skip


def _number(title: str, name: str, given: Any) -> int:
    """A seed that is given as a number."""
    try:
        number = python.index(given) if not isinstance(given, bool) else None
    except TypeError:
        number = None
    if number is None or not 0 <= number <= END:
        raise ArgumentError(
            "is no seed", operator=title, argument=name, got=repr(given),
            expected="an int from 0 to 2**63 - 1, a tensor of int64, or nothing", hint="leave it out: it is drawn then",
        )  # fmt: skip
    return number


def _device(values: Sequence[Any]) -> torch.device | None:
    """The device of the call; None where no tensor tells it."""
    return next((value.device for value in _flat(values)), None)


def _flat(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _flat(value)
