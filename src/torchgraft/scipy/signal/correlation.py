"""`correlate` and `convolve`: SciPy's functions, differentiable in both arguments."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from ..arguments import check_tensors, common_dtype, known
from ..errors import InvalidValueError
from .sliding import slide

Mode = Literal["full", "valid", "same"]
Method = Literal["auto", "direct", "fft"]

DIRECT_AXES = 3
"""So many axes the kernel has."""


def correlate(in1: Tensor, in2: Tensor, mode: Mode = "full", method: Method = "auto") -> Tensor:
    """The cross-correlation of two arrays of as many axes: sums over j of ``in1[i + j] conj(in2[j])``.

    As `scipy.signal.correlate`. Gradients are correlations too; there are derivatives of any order, in both modes.

    Args:
        in1: of any dtype; integers are exact, as long as they fit. Dtypes are promoted as NumPy does.
        in2: as `in1`, with as many axes.
        mode: what is returned: ``"full"``, everything; ``"valid"``, where one lies inside of the other; ``"same"``, as
            much as `in1`, from the middle.
        method: ``"direct"``, sums of products, slow for more than three axes; ``"fft"``, whose error is relative to the
            largest value; ``"auto"``, the faster of them, and the direct one for integers.

    Returns:
        Along each axis ``n1 + n2 - 1``, ``|n1 - n2| + 1`` or ``n1`` numbers.

    Raises:
        InvalidValueError: the arrays are empty or have other numbers of axes, neither lies inside of the other in
            ``"valid"``, or there is no such mode or method.

    Example:
        >>> correlate(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.5]))
        tensor([0.5000, 2.0000, 3.5000, 3.0000, 0.0000])
    """
    check("correlate", in1, in2, mode, method)
    return _combined("correlate", in1, in2.conj().resolve_conj(), mode, method)


def convolve(in1: Tensor, in2: Tensor, mode: Mode = "full", method: Method = "auto") -> Tensor:
    """The convolution of two arrays of as many axes: sums over j of ``in1[i - j] in2[j]``.

    As `scipy.signal.convolve`. Gradients are correlations; there are derivatives of any order, in both modes.

    Args:
        in1: of any dtype; integers are exact, as long as they fit. Dtypes are promoted as NumPy does.
        in2: as `in1`, with as many axes.
        mode: what is returned: ``"full"``, everything; ``"valid"``, where one lies inside of the other; ``"same"``, as
            much as `in1`, from the middle.
        method: as of `correlate`.

    Returns:
        Along each axis ``n1 + n2 - 1``, ``|n1 - n2| + 1`` or ``n1`` numbers.

    Raises:
        InvalidValueError: as of `correlate`.

    Example:
        >>> convolve(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.5]), mode="same")
        tensor([1.0000, 2.5000, 4.0000])
    """
    check("convolve", in1, in2, mode, method)
    return _combined("convolve", in1, in2.flip(tuple(range(in2.dim()))), mode, method)


def check(operator: str, in1: Tensor, in2: Tensor, mode: Mode, method: Method) -> None:
    """Refuse what SciPy refuses."""
    check_tensors(operator, in1=in1, in2=in2)
    for name, value, choices in (("mode", mode, get_args(Mode)), ("method", method, get_args(Method))):
        if value not in choices:
            raise InvalidValueError(
                f"there is no such {name}", operator=operator, argument=name, expected=" or ".join(map(repr, choices)),
                got=repr(value),
            )  # fmt: skip
    if in1.dim() != in2.dim():
        raise InvalidValueError(
            "has another number of axes than in1", operator=operator, argument="in2", expected=f"{in1.dim()} axes",
            got=f"{in2.dim()} in {tuple(in2.shape)}",
        )  # fmt: skip
    for name, array in (("in1", in1), ("in2", in2)):
        if 0 in array.shape:
            raise InvalidValueError(
                "is empty", operator=operator, argument=name, expected="a number at least", got=tuple(array.shape)
            )


def _combined(operator: str, in1: Tensor, kernel: Tensor, mode: Mode, method: Method) -> Tensor:
    """Sums over j of ``in1[i + j] kernel[j]``."""
    starts, sizes = _window(operator, in1.shape, kernel.shape, mode)
    dtype = common_dtype([in1.dtype, kernel.dtype])
    in1, kernel = in1.to(dtype), kernel.to(dtype)
    if in1.dim() == 0:
        return in1 * kernel
    if method == "auto":
        method = _faster(in1, kernel, sizes)
    return (_direct if method == "direct" else _by_fft)(in1, kernel, starts, sizes)


def _window(operator: str, n: Sequence[int], k: Sequence[int], mode: Mode) -> tuple[list[int], list[int]]:
    """The place of the wanted part in the full result, and its sizes."""
    pairs = list(zip(n, k, strict=True))
    if mode == "full":
        return [0] * len(pairs), [a + b - 1 for a, b in pairs]
    if mode == "same":
        return [(b - 1) // 2 for _, b in pairs], list(n)
    if all(a >= b for a, b in pairs):
        return [b - 1 for _, b in pairs], [a - b + 1 for a, b in pairs]
    if all(b >= a for a, b in pairs):
        return [a - 1 for a, _ in pairs], [b - a + 1 for a, b in pairs]
    raise InvalidValueError(
        "neither array lies inside of the other", operator=operator, argument="in2",
        expected=f"sizes of in1, {tuple(n)}, all at least those of in2, or at most", got=tuple(k),
    )  # fmt: skip


def _faster(in1: Tensor, kernel: Tensor, sizes: Sequence[int]) -> Method:
    """The faster method, by rough times; the direct one where sizes are symbols of a compiler."""
    if not in1.is_floating_point() and not in1.is_complex():
        return "direct"
    if in1.dim() > DIRECT_AXES:
        return "fft"
    pairs = list(zip(in1.shape, kernel.shape, strict=True))
    products = [min(n * k, size * min(n, k)) for (n, k), size in zip(pairs, sizes, strict=True)]
    points = math.prod([n + k - 1 for n, k in pairs])
    transforms = (600 if in1.dim() == 1 else 200) * points + 500_000
    return "fft" if known(math.prod(products) > transforms) else "direct"


def _direct(in1: Tensor, kernel: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
    if in1.dtype is torch.bool:  # NumPy tells whether any product is true.
        return _direct(in1.long(), kernel.long(), starts, sizes) != 0
    missing = DIRECT_AXES - in1.dim()
    if missing < 0:
        return _direct_along_first(in1, kernel, starts, sizes)
    leads = [k - 1 - start for k, start in zip(kernel.shape, starts, strict=True)]
    ones = (1,) * missing
    first, second = (array.reshape(ones + tuple(array.shape)) for array in (in1, kernel))
    return slide(first, second, *ones, *sizes, *[0] * missing, *leads).reshape(sizes)


def _direct_along_first(in1: Tensor, kernel: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Sums over the first axis of correlations along the others."""
    n, k = in1.shape[0], kernel.shape[0]
    shifts = [i - (k - 1 - starts[0]) for i in range(sizes[0])]
    sums = [
        [_direct(in1[shift + j], kernel[j], starts[1:], sizes[1:]) for j in range(k) if 0 <= shift + j < n]
        for shift in shifts
    ]
    return torch.stack([functools.reduce(torch.add, terms) for terms in sums])


def _by_fft(in1: Tensor, kernel: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The product of transforms. Integers are rounded; along an axis of one number there is nothing to transform."""
    dtype = in1.dtype
    exact = not dtype.is_floating_point and not dtype.is_complex
    wide = torch.float64 if exact else torch.promote_types(dtype, torch.float32)
    in1, kernel = in1.to(wide), kernel.flip(tuple(range(kernel.dim()))).to(wide)
    axes = [axis for axis, pair in enumerate(zip(in1.shape, kernel.shape, strict=True)) if 1 not in pair]
    lengths = [fast_length(in1.shape[axis] + kernel.shape[axis] - 1) for axis in axes]
    if not axes:
        full = in1 * kernel
    elif wide.is_complex:
        product = torch.fft.fftn(in1, lengths, axes) * torch.fft.fftn(kernel, lengths, axes)
        full = torch.fft.ifftn(product, lengths, axes)
    else:
        product = torch.fft.rfftn(in1, lengths, axes) * torch.fft.rfftn(kernel, lengths, axes)
        full = torch.fft.irfftn(product, lengths, axes)
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        full = full.narrow(axis, start, size)
    return (full.round() if exact else full).to(dtype).contiguous()


FAST_LENGTHS = sorted(odd << count for odd in (1, 3, 5, 9, 15, 25) for count in range(40))


def fast_length(n: int) -> int:
    """The least power of two, times few threes and fives, that is not below n; n itself where it is a symbol."""
    return next((length for length in FAST_LENGTHS if known(n <= length)), n)
