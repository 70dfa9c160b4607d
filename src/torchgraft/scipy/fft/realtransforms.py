"""The discrete cosine and sine transforms of all types: SciPy's values, differentiable in both modes, of any order."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Real
from torch import Tensor
from torch.nn.functional import pad

import torchgraft as tg

from ..arguments import check_axis, check_tensors
from ..errors import InvalidValueError

try:
    import scipy.fft
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "torchgraft.scipy.fft needs SciPy: pip install 'torchgraft[scipy]'", name="scipy"
    ) from error

Norm = Literal["backward", "ortho", "forward"] | None
CPUS = os.cpu_count() or 1
INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}
INVERSE_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@tg.op
def transformed(
    x: Real[np.ndarray, "*batch n"], sine: bool, type: int, norm: str, orthogonalize: bool, workers: int | None
) -> Float[np.ndarray, "*batch n"]:
    """A cosine or sine transform along the last axis.

    Args:
        x: real numbers.
        sine: a sine transform instead of a cosine transform.
        type: 1, 2, 3 or 4.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``.
        orthogonalize: scale ends so that the matrix is orthogonal, times a number.
        workers: threads of SciPy's.
    """
    transform = scipy.fft.dst if sine else scipy.fft.dct
    return np.asarray(transform(x, type, norm=norm, orthogonalize=orthogonalize, workers=workers))


@transformed.samples
def _() -> Any:
    for sine in (False, True):
        for type in INVERSE_TYPE:
            for orthogonalize in (False, True):
                yield torch.arange(10.0, dtype=torch.float64).reshape(2, 5), sine, type, "ortho", orthogonalize, None


@transformed.adjoint("x")
def _(grad: Tensor, sine: bool, type: int, norm: str, orthogonalize: bool, workers: int | None) -> Any:
    # By the matrices in the notes of SciPy's `dct` and `dst`: the transpose is the transform of the inverse type, but
    # for the ends that count half in it, unless they are scaled.
    ends = () if orthogonalize else ENDS.get((sine, type), ())
    doubled = grad if type == 3 else weighed(grad, ends, 2.0)
    made = transformed(doubled, sine, INVERSE_TYPE[type], norm, orthogonalize, workers)
    return made if type == 2 else weighed(made, ends, 0.5)


ENDS = {(False, 1): (0, -1), (False, 2): (0,), (False, 3): (0,), (True, 2): (-1,), (True, 3): (-1,)}
"""Which ends of the transposed matrix count twice or half, for cosines and sines and each type."""


def weighed(x: Tensor, ends: tuple[int, ...], weight: float) -> Tensor:
    """`x` with some of its ends multiplied."""
    if not ends:
        return x
    weights = torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)
    weights[list(ends)] = weight
    return x * weights


# -- SciPy's functions ------------------------------------------------------------------------------------------------


def dct(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The discrete cosine transform along one axis, as `scipy.fft.dct`.

    Args:
        x: real or complex numbers; integers are taken for float64.
        type: 1, 2, 3 or 4.
        n: length to which the axis is cut, or filled with zeros.
        axis: that is transformed.
        norm: ``"backward"`` (the default), ``"ortho"`` or ``"forward"``.
        overwrite_x: taken for SciPy's sake; `x` is never overwritten.
        workers: threads, as SciPy counts them.
        orthogonalize: scale ends so that the matrix is orthogonal, times a number; by default where `norm` is
            ``"ortho"``. It holds for complex numbers too, for which SciPy passes it over.

    Returns:
        The transform, in the shape of `x` but for `n`.

    Raises:
        ArgumentError: `x` is no tensor, or `n` no integer.
        InvalidValueError: there is no such type, norm or axis, or nothing to transform.
        DeviceError: `x` is not on the CPU.

    Example:
        >>> dct(torch.tensor([1.0, 2.0, 3.0]))
        tensor([12.0000, -3.4641,  0.0000])
    """
    return _transform("dct", x, type, n, axis, norm, workers, orthogonalize)


def idct(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The inverse of `dct` with the same arguments, as `scipy.fft.idct`.

    Args:
        x, type, n, axis, norm, overwrite_x, workers, orthogonalize: as of `dct`.

    Returns:
        The inverse transform, in the shape of `x` but for `n`.

    Raises:
        InvalidValueError: as of `dct`.
        DeviceError: `x` is not on the CPU.

    Example:
        >>> idct(dct(torch.tensor([1.0, 2.0, 3.0])))
        tensor([1., 2., 3.])
    """
    return _transform("idct", x, type, n, axis, norm, workers, orthogonalize)


def dst(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The discrete sine transform along one axis, as `scipy.fft.dst`.

    Args:
        x, type, n, axis, norm, overwrite_x, workers, orthogonalize: as of `dct`.

    Returns:
        The transform, in the shape of `x` but for `n`.

    Raises:
        InvalidValueError: as of `dct`.
        DeviceError: `x` is not on the CPU.

    Example:
        >>> dst(torch.tensor([1.0, 2.0, 3.0]))
        tensor([ 8.0000, -3.4641,  4.0000])
    """
    return _transform("dst", x, type, n, axis, norm, workers, orthogonalize)


def idst(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
) -> Tensor:
    """The inverse of `dst` with the same arguments, as `scipy.fft.idst`.

    Args:
        x, type, n, axis, norm, overwrite_x, workers, orthogonalize: as of `dct`.

    Returns:
        The inverse transform, in the shape of `x` but for `n`.

    Raises:
        InvalidValueError: as of `dct`.
        DeviceError: `x` is not on the CPU.

    Example:
        >>> idst(dst(torch.tensor([1.0, 2.0, 3.0])))
        tensor([1., 2., 3.])
    """
    return _transform("idst", x, type, n, axis, norm, workers, orthogonalize)


def _transform(
    name: str, x: Tensor, type: int, n: int | None, axis: int, norm: Norm, workers: int | None, scaled: bool | None
) -> Tensor:
    check_tensors(name, x=x)
    axis = check_axis(name, x, axis)
    kind: str = norm or "backward"
    if n is not None and not hasattr(n, "__index__"):
        raise tg.ArgumentError("is no integer", operator=name, argument="n", expected="an integer", got=n)
    length = x.shape[axis] if n is None else n
    least = 2 if type == 1 and name in ("dct", "idct") else 1
    for argument, fits, expected, got in (
        ("type", type in INVERSE_TYPE, "1, 2, 3 or 4", type),
        ("norm", kind in INVERSE_NORM, "'backward', 'ortho' or 'forward'", repr(norm)),
        ("x" if n is None else "n", length >= least, f"{least} numbers at least", length),
        ("workers", workers is None or (workers and workers >= -CPUS), f"not 0, and at least {-CPUS}", workers),
    ):
        if not fits:
            raise InvalidValueError(
                "there is no such transform", operator=name, argument=argument, expected=expected, got=got
            )
    scaled = kind == "ortho" if scaled is None else scaled
    if name in ("idct", "idst"):
        type, kind = INVERSE_TYPE[type], INVERSE_NORM[kind]
    signals = _resized(x.movedim(axis, -1), length)
    parts = torch.view_as_real(signals.resolve_conj()).movedim(-1, 0) if x.is_complex() else signals
    made: Tensor = transformed(parts, name in ("dst", "idst"), type, kind, scaled, workers)
    if x.is_complex():
        made = torch.complex(made[0], made[1])
    return made.movedim(-1, axis)


def _resized(x: Tensor, n: int) -> Tensor:
    """`x` with its last axis cut, or filled with zeros."""
    return x[..., :n] if n <= x.shape[-1] else pad(x, (0, n - x.shape[-1]))
