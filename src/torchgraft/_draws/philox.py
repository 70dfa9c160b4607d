"""Philox4x32-10: four random words of 32 bits for each counter and key.

Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch

Array = np.ndarray[Any, Any]

WORD = 0xFFFFFFFF
_ROUNDS = 10
_FACTORS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85
_CHUNK = 1 << 14  # Of counters, whose words stay in the cache.


def philox(seeds: Tensor, numbers: Tensor, purpose: int) -> tuple[Tensor, ...]:
    """Four words for each number of each seed, as int64.

    Args:
        seeds: the keys, of 64 bits.
        numbers: the counters, of 64 bits; they broadcast with the seeds.
        purpose: further 64 bits of the counters.
    """
    if not torch.compiler.is_compiling() and _torch.is_direct([seeds, numbers]) and seeds.is_cpu:
        return torch.from_numpy(_on_arrays(seeds.numpy(), numbers.numpy(), purpose)).unbind()
    return _on_tensors(seeds, numbers, purpose)


# -- on tensors -------------------------------------------------------------------------------------------------------


def _on_tensors(seeds: Tensor, numbers: Tensor, purpose: int) -> tuple[Tensor, ...]:
    """In plain arithmetic, which tracers, `vmap` and compilers know. No step leaves int64, whose overflow is nobody's.

    A product c f of two words may need 64 bits, and is c (f - 2**32) + c 2**32. The first term fits, since both factors
    are larger than 2**31: its lower word is that of the product, and its upper word has to be increased by c.
    """
    c0, c1 = numbers & WORD, numbers >> 32 & WORD
    c2, c3 = torch.full_like(numbers, purpose & WORD), torch.full_like(numbers, purpose >> 32)
    keys = seeds & WORD, seeds >> 32 & WORD
    first, second = (factor - 2**32 for factor in _FACTORS)
    for i in range(_ROUNDS):
        if i == _ROUNDS // 2:  # Inductor repeats a formula at each use of its result, but stores what is stacked.
            c0, c1, c2, c3 = torch.stack((c0, c1, c2, c3)).unbind()
        k0, k1 = (key + i * step & WORD for key, step in zip(keys, _STEPS, strict=True))
        p0, p1 = c0 * first, c2 * second
        c0, c1, c2, c3 = (p1 >> 32) + c2 ^ c1 ^ k0, p1 & WORD, (p0 >> 32) + c0 ^ c3 ^ k1, p0 & WORD
    return c0, c1, c2, c3


# -- on arrays --------------------------------------------------------------------------------------------------------


def _on_arrays(seeds: Array, numbers: Array, purpose: int) -> Array:
    """Compute it in NumPy, whose unsigned integers wrap, and in pieces that stay in the cache."""
    shape = np.broadcast_shapes(seeds.shape, numbers.shape)
    keys = np.broadcast_to(seeds, shape).reshape(-1).view(np.uint64)
    counters = np.broadcast_to(numbers, shape).reshape(-1).view(np.uint64)
    made = np.empty((4, keys.size), np.int64)
    for start in range(0, keys.size, _CHUNK):
        piece = slice(start, start + _CHUNK)
        made[:, piece] = _rounds(keys[piece], counters[piece], purpose)
    return made.reshape(4, *shape)


def _rounds(keys: Array, counters: Array, purpose: int) -> Array:
    word, half = np.uint64(WORD), np.uint64(32)
    factors, steps = tuple(map(np.uint64, _FACTORS)), tuple(map(np.uint64, _STEPS))
    k0, k1, c0, c1 = keys & word, keys >> half, counters & word, counters >> half
    c2, c3 = np.full_like(counters, purpose & WORD), np.full_like(counters, purpose >> 32)
    for _ in range(_ROUNDS):
        p0, p1 = c0 * factors[0], c2 * factors[1]
        c0, c1, c2, c3 = p1 >> half ^ c1 ^ k0, p1 & word, p0 >> half ^ c3 ^ k1, p0 & word
        k0, k1 = k0 + steps[0] & word, k1 + steps[1] & word
    return np.stack((c0, c1, c2, c3))
