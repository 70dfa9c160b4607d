"""`lfilter` and `sosfilt`: SciPy's functions, differentiable in the signal, the coefficients and the state."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..arguments import check_axis, check_tensors, has_numbers, inexact, known
from ..errors import InvalidValueError
from .recursion import filtered
from .sliding import slide

SIDE_BY_SIDE = 8
"""Rows that the kernel filters at once, where there are as many."""


def lfilter(
    b: Tensor, a: Tensor, x: Tensor, axis: int = -1, zi: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """A digital filter along one axis, in the transposed direct form II.

    Solves ``a[0] y[n] = b[0] x[n] + b[1] x[n-1] + ... - a[1] y[n-1] - ...``, as `scipy.signal.lfilter` does. Gradients
    are filters that run backwards in time, in C too; there are derivatives of any order, in both modes.

    Args:
        b: numerator, ``(p,)``.
        a: denominator, ``(q,)``; ``a[0]`` is not zero.
        x: signals of any shape, real or complex. Dtypes are promoted as NumPy does; float32 is computed in double.
        axis: of `x`, along which the filter goes.
        zi: initial state, in the shape of `x` with ``max(p, q) - 1`` in the place of the axis; other axes may be 1, and
            broadcast. At rest by default.

    Returns:
        The filtered signals, in the shape of `x`; with `zi` a tuple of them and of the final state.

    Raises:
        InvalidValueError: a shape does not fit, or ``a[0]`` is zero.
        KernelError: ``a[0]`` is zero in compiled code, or under a transform; where `a` is one number, the result is
            infinite.
        DtypeError: all arguments are integers, which SciPy does not filter either.

    Example:
        >>> lfilter(torch.tensor([0.5]), torch.tensor([1.0, -0.5]), torch.ones(4))
        tensor([0.5000, 0.7500, 0.8750, 0.9375])
    """
    given = {"b": b, "a": a, "x": x} | ({} if zi is None else {"zi": zi})
    check_tensors("lfilter", **given)
    for name, coefficients in (("b", b), ("a", a)):
        if coefficients.dim() != 1 or coefficients.shape[0] == 0:
            raise InvalidValueError(
                "coefficients are a vector", operator="lfilter", argument=name, expected="(n,), where n > 0",
                got=tuple(coefficients.shape),
            )  # fmt: skip
    if has_numbers(a) and a[0] == 0:
        raise InvalidValueError(
            "the leading coefficient is zero", operator="lfilter", argument="a", expected="a[0] != 0", got="a[0] = 0"
        )
    axis = check_axis("lfilter", x, axis)
    taps = max(b.shape[0], a.shape[0])
    b, a, x, *states = inexact("lfilter", **given)
    signals = x.movedim(axis, -1)
    rows = _grouped(signals)
    state = _state(states[0], x, axis, taps - 1).reshape(*rows.shape[:-1], taps - 1) if states else None
    y, zf = (_direct if a.shape[0] == 1 else _recursive)(b, a, rows, state, taps)
    y = y.reshape(signals.shape).movedim(-1, axis)
    return y if zi is None else (y, zf.reshape(*signals.shape[:-1], taps - 1).movedim(-1, axis))


def _recursive(b: Tensor, a: Tensor, x: Tensor, zi: Tensor | None, taps: int) -> tuple[Tensor, Tensor]:
    b, a = (pad(c, (0, taps - c.shape[0])).expand(x.shape[0], taps) for c in (b, a))
    zi = x.new_zeros(*x.shape[:-1], taps - 1) if zi is None else zi
    y, zf = filtered(b, a, x, zi, False)
    return y, zf


def _direct(b: Tensor, a: Tensor, x: Tensor, zi: Tensor | None, taps: int) -> tuple[Tensor, Tensor]:
    """Without feedback: a convolution, whose last numbers are the final state."""
    groups, rows, n = x.shape
    kernel = (b / a).flip(0).expand(groups, 1, 1, taps)
    width = n if zi is None else n + taps - 1
    made = slide(x[:, None], kernel, 1, rows, width, 0, 0, taps - 1)[:, 0]
    if zi is not None:
        made = made + pad(zi, (0, n))
    return made[..., :n], made[..., n:]


def sosfilt(sos: Tensor, x: Tensor, axis: int = -1, zi: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """A digital filter along one axis, as a cascade of second-order sections.

    As `scipy.signal.sosfilt`; derivatives are those of `lfilter`, section by section.

    Args:
        sos: coefficients, ``(sections, 6)``: in each row those of the numerator, then those of the denominator, the
            first of which is 1.
        x: signals of any shape, real or complex. Dtypes are promoted as NumPy does; float32 is computed in double.
        axis: of `x`, along which the filter goes.
        zi: initial states, ``(sections, *shape)`` where shape is that of `x` with 2 in the place of the axis. At rest
            by default.

    Returns:
        The filtered signals, in the shape of `x`; with `zi` a tuple of them and of the final states.

    Raises:
        InvalidValueError: a shape does not fit, or ``sos[:, 3]`` are not all ones. Compiled code and transforms, which
            see no values, divide each section by its ``sos[:, 3]`` instead.
        DtypeError: all arguments are integers, which SciPy does not filter either.

    Example:
        >>> sosfilt(torch.tensor([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]]), torch.ones(4))
        tensor([0.5000, 0.7500, 0.8750, 0.9375])
    """
    given = {"sos": sos, "x": x} | ({} if zi is None else {"zi": zi})
    check_tensors("sosfilt", **given)
    axis = check_axis("sosfilt", x, axis)
    sections = sos[None] if sos.dim() == 1 else sos
    if sections.dim() != 2 or sections.shape[1] != 6:
        raise InvalidValueError(
            "a section has six coefficients", operator="sosfilt", argument="sos", expected="(sections, 6)",
            got=tuple(sos.shape),
        )  # fmt: skip
    if has_numbers(sections) and not bool((sections[:, 3] == 1).all()):
        raise InvalidValueError(
            "the denominators' leading coefficients are not ones", operator="sosfilt", argument="sos",
            expected="sos[:, 3] = 1", got=f"sos[:, 3] = {sections[:, 3].tolist()}", hint="divide each row by it",
        )  # fmt: skip
    sections, x, *states = inexact("sosfilt", **(given | {"sos": sections}))
    signals = x.movedim(axis, -1)
    rows = _grouped(signals)
    first = _states(states[0], x, axis, len(sections)) if states else None
    last: list[Tensor] = []
    for i, section in enumerate(sections.unbind()):
        rest = rows.new_zeros(*rows.shape[:-1], 2) if first is None else first[i].reshape(*rows.shape[:-1], 2)
        b, a = section.expand(rows.shape[0], 6).chunk(2, -1)
        rows, zf = filtered(b, a, rows, rest, True)
        last.append(zf.reshape(*signals.shape[:-1], 2))
    y = rows.reshape(signals.shape).movedim(-1, axis)
    if first is None:
        return y
    return y, torch.stack(last).movedim(-1, axis + 1) if last else first.movedim(-1, axis + 1)


def _grouped(signals: Tensor) -> Tensor:
    """``(*batch, n)`` as ``(groups, rows, n)``: groups go to threads, and the rows of one side by side."""
    *batch, n = signals.shape
    count = math.prod(batch)
    if known(count <= SIDE_BY_SIDE):
        return signals.reshape(1, count, n)
    rows = next((rows for rows in (SIDE_BY_SIDE, SIDE_BY_SIDE // 2) if known(count % rows == 0)), 1)
    return signals.reshape(count // rows, rows, n)


def _state(zi: Tensor, x: Tensor, axis: int, count: int) -> Tensor:
    """The initial state, ``(*batch, count)``."""
    expected = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    fits = zi.dim() == x.dim() and all(
        given == size or (given == 1 and i != axis)
        for i, (given, size) in enumerate(zip(zi.shape, expected, strict=True))
    )
    if not fits:
        raise _other_shape("lfilter", zi, expected)
    return zi.expand(expected).movedim(axis, -1)


def _states(zi: Tensor, x: Tensor, axis: int, sections: int) -> Tensor:
    """The initial states, ``(sections, *batch, 2)``."""
    expected = [sections, *x.shape[:axis], 2, *x.shape[axis + 1 :]]
    if list(zi.shape) != expected:
        raise _other_shape("sosfilt", zi, expected)
    return zi.movedim(axis + 1, -1)


def _other_shape(operator: str, zi: Tensor, expected: list[int]) -> InvalidValueError:
    return InvalidValueError(
        "the state has another shape", operator=operator, argument="zi", expected=tuple(expected), got=tuple(zi.shape)
    )
