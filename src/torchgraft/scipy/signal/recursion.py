"""The recursive filter and its transpose, of which all derivatives of `lfilter` and `sosfilt` are made.

With coefficients divided by ``a[0]``, a filter solves ``L [y; zf] = B [x; 0] + [zi; 0]``: L has the numbers of `a` on
its diagonals, B those of `b`, and both have a row for each sample and one for each number of the final state. The
transpose of L is the same recursion, run from the last sample to the first: `reverse_recursion`. What remains of each
gradient is a correlation, `slide`, so that nothing is kept but signals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Inexact
from torch import Tensor
from torch.nn.functional import pad

import torchgraft as tg

from .sliding import lags, slide_rows

# Without fused multiplications, as SciPy is compiled: values are then the same to the last bit.
SOURCE = tg.c("kernels/recursion.c", flags=["-ffp-contract=off", "-fcx-limited-range"])


class Filtered(NamedTuple):
    """The output of a filter, and its final state."""

    y: Inexact[Tensor, "*batch rows n"]
    zf: Inexact[Tensor, "*batch rows taps-1"]


@tg.op(kernel=SOURCE)
@tg.domain(b="[-1, 1]", a="[1, 2]")  # Feedback does not run away.
def filtered(
    b: Inexact[Tensor, "*batch taps"],
    a: Inexact[Tensor, "*batch taps"],
    x: Inexact[Tensor, "*batch rows n"],
    zi: Inexact[Tensor, "*batch rows taps-1"],
    sections: bool,
) -> Filtered:
    """Rows filtered by the same coefficients, in the transposed direct form II.

    Args:
        b: numerator.
        a: denominator; ``a[0]`` is not zero.
        x: signals.
        zi: initial states.
        sections: add in the order of `scipy.signal.sosfilt` instead of that of `lfilter`.

    Raises:
        KernelError: ``a[0]`` is zero.
    """


@tg.op(kernel=SOURCE)
@tg.domain(a="[-1/4, 1/4]")
def reverse_recursion(
    a: Inexact[Tensor, "*batch taps"],
    drive: Inexact[Tensor, "*batch rows n"],
    state: Inexact[Tensor, "*batch rows taps-1"],
) -> Inexact[Tensor, "*batch rows n+taps-1"]:
    """The v with ``v[i] + a[1] v[i + 1] + a[2] v[i + 2] + ... = drive[i]``, which ends with `state`.

    It does not depend on ``a[0]``, which is taken for 1.
    """


@filtered.vjp("x", "zi")
def _(grad_y: Tensor, grad_zf: Tensor, b: Tensor, a: Tensor) -> Any:
    first = a[..., :1]
    multiplier = reverse_recursion((a / first).conj(), grad_y, grad_zf)
    return slide_rows(multiplier, (b / first).conj()), multiplier[..., : b.shape[-1] - 1]


@filtered.vjp("b", "a")
def _(grad_y: Tensor, grad_zf: Tensor, a: Tensor, x: Tensor, zi: Tensor, y: Tensor, zf: Tensor) -> Any:
    first, taps = a[..., :1], a.shape[-1]
    multiplier = reverse_recursion((a / first).conj(), grad_y, grad_zf)
    # The equations times a[0] have the states times a[0] in them.
    states = multiplier[..., : taps - 1] * zi.conj() - multiplier[..., x.shape[-1] :] * zf.conj()
    by_first = pad(states.sum((-2, -1))[..., None], (0, taps - 1))
    return lags(multiplier, x) / first.conj(), (by_first - lags(multiplier, y)) / first.conj()


def solved(a: Tensor, grad: Tensor) -> Filtered:
    """The transpose of `reverse_recursion`, applied to a cotangent: L's solution."""
    count = a.shape[-1] - 1
    one = pad(torch.ones_like(a[..., :1]), (0, count))
    x, rest = grad[..., : grad.shape[-1] - count], grad[..., grad.shape[-1] - count :]
    y, zf = filtered(one, torch.cat([one[..., :1], a[..., 1:].conj()], -1), x, torch.zeros_like(rest), False)
    return Filtered(y, zf + rest)


@reverse_recursion.vjp("drive", "state")
def _(grad: Tensor, a: Tensor) -> Any:
    y, zf = solved(a, grad)
    return y, zf


@reverse_recursion.vjp("a")
def _(grad: Tensor, a: Tensor, out: Tensor) -> Any:
    by_a = lags(out, solved(a, grad).y).conj()
    return torch.cat([torch.zeros_like(by_a[..., :1]), -by_a[..., 1:]], -1)
