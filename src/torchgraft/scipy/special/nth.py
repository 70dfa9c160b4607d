"""Derivatives of every order in one argument: one operator for all of them, which takes the order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import Source, c
from .sources import kernel_text


def nth_source(file: str, head: str, call: str, lent: Mapping[str, str] | None = None) -> Source:
    """The kernel of an operator that takes numbers beside tensors, from a file in `kernels`, in double precision.

    Args:
        file: in `kernels`.
        head: of the operator's function in C, such as ``"T dawsn_nth(T x, int64_t n)"``.
        call: an expression in C, such as ``"dawsn_derivative(x, n)"``.
        lent: what the file imports of `scipy.special.cython_special`: the name in the file, and the one there.
    """
    return c(
        f"{kernel_text(file)}\n{head} {{ return (T){call}; }}",
        flags=["-ffp-contract=off"],
        imports={name: f"scipy.special.cython_special:{exported}" for name, exported in (lent or {}).items()},
    )


def nth(
    file: str, name: str, call: str, lent: Mapping[str, str] | None = None, most: float = math.inf
) -> tg.Op[..., Any]:
    """An operator ``name(x, n)``: the derivative of order `n` of a function of one variable, as of `nth_source`.

    Args:
        most: the highest order that there is.
    """

    def derivative(x: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]: ...

    operator = tg.op(name=name, kernel=nth_source(file, f"T {name}(T x, int64_t n)", call, lent))(derivative)

    @operator.partial("x")
    def _(x: Tensor, n: int) -> Any:
        if n >= most:
            refuse_order(name.removesuffix("_nth"), "x", most)
        return operator(x, n + 1)

    return operator


def refuse_order(operator: str, argument: str, most: float) -> NoReturn:
    """Say that derivatives end at an order.

    Raises:
        DerivativeError: always.
    """
    raise tg.DerivativeError(
        "derivatives of so high an order are not available", operator=operator, argument=argument,
        expected=f"order {most} at most", got=f"order {most + 1}",
    )  # fmt: skip
