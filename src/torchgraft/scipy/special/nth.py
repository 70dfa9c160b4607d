"""Derivatives of every order in one argument: one operator for all of them, which takes the order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import Source, c
from .sources import KERNELS


def nth_source(file: str, name: str, call: str, variables: str, lent: Mapping[str, str]) -> Source:
    """The kernel of a derivative of order `n`, which a file in `kernels` has in double precision.

    Args:
        file: in `kernels`.
        name: of the operator.
        call: an expression in C, such as ``"dawsn_derivative(x, n)"``.
        variables: that it has beside `n`, such as ``"x"``.
        lent: what the file imports of `scipy.special.cython_special`: the name in the file, and the one there.
    """
    arguments = ", ".join(f"T {variable}" for variable in variables.split())
    head = f"T {name}({arguments}, int64_t n)"
    return c(
        f"{(KERNELS / file).read_text()}\n{head} {{ return (T){call}; }}",
        flags=["-ffp-contract=off"],
        imports={name: f"scipy.special.cython_special:{exported}" for name, exported in lent.items()},
    )


def nth(file: str, name: str, call: str, lent: Mapping[str, str]) -> tg.Op:
    """An operator ``name(x, n)``: the derivative of order `n` of a function of one variable, as of `nth_source`."""

    def derivative(x: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]: ...

    operator = tg.op(name=name, kernel=nth_source(file, name, call, "x", lent))(derivative)

    @operator.partial("x")
    def _(x: Tensor, n: int) -> Any:
        return operator(x, n + 1)

    return operator
