"""Random numbers of a seed: bits, uniform and normal ones, and the seeds of samples.

`torchgraft/random.h` has the same in C. Source: Box, Muller 1958 (the normal ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from ..errors import ArgumentError, DtypeError
from .philox import philox

Shape = int | Sequence[Any]

_BITS, _UNIFORM, _NORMAL, _FOLD = range(4)
"""The third word of Philox's counter for each use, so that bits, uniform and normal numbers are independent."""


def random_bits(seed: Any, shape: Shape = ()) -> Any:
    """Independent integers of 32 bits, from 0 to 2**32 - 1, as int64.

    Args:
        seed: the operator's seed: a tensor or an array of int64, or an int.
        shape: of the numbers that each seed gives.

    Returns:
        A tensor of ``seed.shape + shape``; an array where `seed` is one. ``tg_bits(seed, number)`` gives the same in
        C, the number counted along the last axis first.

    Raises:
        DtypeError: the seed is not of int64.
        ArgumentError: it is no seed, or a size is negative.
    """
    return _on_tensors(seed, lambda tensor: _shaped(_bits, tensor, shape))


def random_uniform(seed: Any, shape: Shape = (), *, dtype: Any = None) -> Any:
    """Independent numbers, uniformly distributed in [0, 1).

    Args:
        seed: the operator's seed: a tensor or an array of int64, or an int.
        shape: of the numbers that each seed gives.
        dtype: floating; torch's default one, or float64 of arrays. Narrow ones have the first digits of wide ones.

    Returns:
        A tensor of ``seed.shape + shape``; an array where `seed` is one. ``tg_uniform(seed, number)`` gives the same
        in C, the number counted along the last axis first.

    Raises:
        DtypeError: the seed is not of int64, or `dtype` is not real and floating.
        ArgumentError: it is no seed, or a size is negative.

    Example:
        >>> @tg.op
        ... def thinned(x: Float[Tensor, "*batch n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
        ...     return torch.where(tg.random_uniform(seed, x.shape[-1:]) < 0.5, 0, x)
    """
    return _on_tensors(seed, lambda tensor, dtype: _shaped(_uniform, tensor, shape, dtype), dtype)


def random_normal(seed: Any, shape: Shape = (), *, dtype: Any = None) -> Any:
    """Independent numbers, normally distributed with mean 0 and variance 1.

    Args:
        seed: the operator's seed: a tensor or an array of int64, or an int.
        shape: of the numbers that each seed gives.
        dtype: floating; torch's default one, or float64 of arrays. They are computed in float64, and rounded.

    Returns:
        A tensor of ``seed.shape + shape``; an array where `seed` is one. ``tg_normal(seed, number)`` gives the same
        in C, to rounding.

    Raises:
        DtypeError: the seed is not of int64, or `dtype` is not real and floating.
        ArgumentError: it is no seed, or a size is negative.
    """
    return _on_tensors(seed, lambda tensor, dtype: _shaped(_normal, tensor, shape, dtype), dtype)


def random_fold(seed: Any, number: Any) -> Any:
    """A seed made of a seed and a number: another stream of random numbers for each number.

    Args:
        seed: the operator's seed: a tensor or an array of int64, or an int.
        number: an int, or a tensor of int64 that broadcasts with `seed`.

    Returns:
        What `seed` is: a tensor of int64, or an array. ``tg_fold(seed, number)`` gives the same in C.

    Raises:
        DtypeError: the seed is not of int64.
        ArgumentError: it is no seed.

    Example:
        >>> noise, mask = tg.random_normal(tg.random_fold(seed, 0), n), tg.random_uniform(tg.random_fold(seed, 1), n)
    """
    if isinstance(number, np.ndarray):
        number = torch.from_numpy(number)
    return _on_tensors(seed, lambda tensor: fold(tensor, number))


def sample_seeds(seed: Tensor, batch: Sequence[Any]) -> Tensor:
    """The seed of each sample of a batch, made of one seed and the sample's number.

    Args:
        seed: may have leading axes, along which it is another one.
        batch: the shape of the batch; the result has the shape ``seed.shape + batch``.
    """
    numbers = torch.arange(math.prod(batch), device=seed.device).reshape(tuple(batch))
    return fold(seed.reshape(tuple(seed.shape) + (1,) * len(batch)), numbers)


def fold(seed: Tensor, number: Any) -> Tensor:
    """`random_fold` of a tensor."""
    if not isinstance(number, Tensor):
        number = torch.full((), number, dtype=torch.int64, device=seed.device)
    words = philox(seed, number, _FOLD)
    return words[0] + (words[1] & 0x7FFFFFFF) * 2**32  # NumPy's generators take no negative seed.


# -- numbers of a tensor of seeds, along a new last axis --------------------------------------------------------------


def _blocks(seed: Tensor, blocks: Any, purpose: int) -> tuple[Tensor, ...]:
    return philox(seed.unsqueeze(-1), torch.arange(blocks, device=seed.device), purpose)


def _interleaved(parts: Sequence[Tensor], count: Any) -> Tensor:
    """The first numbers, of which each block has one in each part."""
    joined = torch.stack(tuple(parts), -1)
    return joined.reshape(*joined.shape[:-2], joined.shape[-2] * len(parts))[..., :count]


def _bits(seed: Tensor, count: Any) -> Tensor:
    return _interleaved(_blocks(seed, (count + 3) // 4, _BITS), count)


def _53_bits(high: Tensor, low: Tensor) -> Tensor:
    return (high >> 5) * 2**26 + (low >> 6)


def _uniform(seed: Tensor, count: Any, dtype: torch.dtype) -> Tensor:
    a, b, c, d = _blocks(seed, (count + 1) // 2, _UNIFORM)
    digits = 1 - round(math.log2(torch.finfo(dtype).eps))  # Cut, since rounding would give a 1.
    return (_interleaved((_53_bits(a, b), _53_bits(c, d)), count) >> (53 - digits)).to(dtype) * 2.0**-digits


def _normal(seed: Tensor, count: Any, dtype: torch.dtype) -> Tensor:
    a, b, c, d = _blocks(seed, (count + 1) // 2, _NORMAL)
    first, second = (word.to(torch.float64) * 2.0**-53 for word in (_53_bits(a, b), _53_bits(c, d)))
    radius, angle = torch.sqrt(-2 * torch.log1p(-first)), 2 * math.pi * second
    return _interleaved((radius * torch.cos(angle), radius * torch.sin(angle)), count).to(dtype)


# -- arguments --------------------------------------------------------------------------------------------------------


def _sizes(shape: Shape) -> tuple[Any, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise ArgumentError("has a negative size", argument="shape", expected="sizes from 0", got=sizes)
    return sizes


def _shaped(numbers: Callable[..., Tensor], seed: Tensor, shape: Shape, *dtype: torch.dtype) -> Tensor:
    """Numbers of a shape behind that of the seeds."""
    sizes = _sizes(shape)
    return numbers(seed, math.prod(sizes), *dtype).reshape((*seed.shape, *sizes))


def _on_tensors(seed: Any, make: Callable[..., Tensor], *dtypes: Any) -> Any:
    """Call a function of a tensor on a seed; an array for an array."""
    if isinstance(seed, (np.ndarray, np.generic)):
        with _torch.directly():
            wide = [np.float64 if dtype is None else dtype for dtype in dtypes]
            return make(_checked(torch.from_numpy(np.array(seed))), *map(_of_numpy, wide)).numpy()
    if isinstance(seed, int) and not isinstance(seed, bool):
        seed = torch.tensor(seed)
    if not isinstance(seed, Tensor):
        raise ArgumentError(
            "is no seed", argument="seed", expected="a tensor or an array of int64, or an int", got=type(seed).__name__
        )
    wide = [torch.get_default_dtype() if dtype is None else dtype for dtype in dtypes]
    return make(_checked(seed), *map(_floating, wide))


def _checked(seed: Tensor) -> Tensor:
    if seed.dtype is not torch.int64:
        raise DtypeError("a seed is of int64", argument="seed", expected="int64", got=str(seed.dtype))
    return seed


def _of_numpy(dtype: Any) -> torch.dtype:
    """The floating dtype of torch that holds what one of NumPy does."""
    return _floating(torch.from_numpy(np.empty(0, dtype)).dtype)


def _floating(dtype: Any) -> torch.dtype:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise DtypeError("random numbers are real and floating", argument="dtype", expected="float32", got=str(dtype))
    return dtype
