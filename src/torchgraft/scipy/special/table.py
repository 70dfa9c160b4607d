"""The rows of which the functions are made: one for each, with its inputs, their domains and derivatives.

Example:
    >>> ellipk = function(
    ...     "ellipk", lent("ellipk"), "The complete elliptic integral of the first kind K(m) (DLMF 19.2.8, m = k^2).",
    ...     m=Input("parameter, at most 1.", "(-inf, 1)", lambda m: ellipk_nth(m, 1), "dK/dm (DLMF 19.4.1)."),
    ...     returns=BROADCAST, raises="a third derivative", example=("ellipk(torch.tensor(0.5))", "tensor(1.8541)"),
    ... )
    >>> ellipk_nth = nth("ellipk", ours("elliptic.c", "ellipk_by_c(1 - (double)x, n)"), most=2)
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, NoReturn

import torch
from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .docstrings import docstring
from .sources import Kernel

ELEMENT, RESULT = Real[Tensor, "..."], Float[Tensor, "..."]
IN_C = {int: "int64_t", bool: "bool", float: "double"}

# -- what a row consists of -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """A refusal in the place of a derivative, for a reason, in which ``{}`` is the input."""

    reason: str


Rule = Callable[..., Any] | Refused | None
"""The derivative in an input: a function of what it asks for by name, as `Op.partial` takes it."""


@dataclass(frozen=True)
class Input:
    """A tensor that a function takes.

    Attributes:
        text: in the function's docstring.
        domain: as `tg.domain` takes it; None for none.
        rule: the derivative.
        formula: that of the derivative, with its source: the docstring of the rule.
        type: its annotation.
    """

    text: str
    domain: Any
    rule: Rule
    formula: str = ""
    type: Any = ELEMENT


@dataclass(frozen=True)
class Option:
    """A parameter that is no tensor: its type, its text in the function's docstring, and its default."""

    type: Any
    text: str = ""
    default: Any = inspect.Parameter.empty


def function(
    name: str,
    kernel: Kernel,
    summary: str,
    /,
    *,
    returns: str = "",
    raises: str = "",
    example: tuple[str, str] | None = None,
    outputs: int = 1,
    cuda_by_torch: Callable[..., Tensor] | None = None,
    cuda_by_c: Kernel | None = None,
    **parameters: Input | Option | type | Rule,
) -> tg.Op[..., Any]:
    """Declare an elementwise operator, public or the derivative of one.

    Args:
        name: of the operator.
        kernel: what `ours`, `lent` or `whole` returned.
        summary: the docstring's first paragraphs: what it is, its formula and the source of that.
        returns: the docstring's part of this name.
        raises: derivatives that are refused, for the docstring.
        example: a call and what it prints, for the docstring of a public function.
        outputs: how many results it has.
        cuda_by_torch: torch's own function of the same digits in double precision, for CUDA, where that of the CPU is
            SciPy's.
        cuda_by_c: likewise what `ours` returned, of a function that calls nothing of SciPy.
        parameters: an `Input` each, or of an operator that is not public its derivative alone; the type of what is no
            tensor, or an `Option`.
    """
    read = {key: value if isinstance(value, (Input, Option)) else _short(value) for key, value in parameters.items()}
    inputs = {key: value for key, value in read.items() if isinstance(value, Input)}
    texts = {key: value.text for key, value in read.items()}
    doc = docstring(summary, texts, returns, raises, example) if example else summary
    stub = _stub(name, doc, read, outputs)
    domains = {key: value.domain for key, value in inputs.items() if value.domain is not None}
    c_types = {key: "T" if key in inputs else IN_C.get(value.type, "int64_t") for key, value in read.items()}
    operator: tg.Op[..., Any] = tg.op(kernel=kernel(name, c_types))(tg.domain(**domains)(stub) if domains else stub)
    if cuda_by_torch is not None:
        operator.kernel("cuda")(_in_double(cuda_by_torch, list(inputs)))
    if cuda_by_c is not None:
        operator.kernel("cuda", cuda_by_c(name, c_types))(stub)
    for key, value in inputs.items():
        if isinstance(value.rule, Refused):
            operator.nondifferentiable(key, reason=value.rule.reason.format(key))
        elif value.rule is not None:
            value.rule.__doc__ = value.formula or value.rule.__doc__
            operator.partial(key)(value.rule)
    return operator


def _in_double(theirs: Callable[..., Tensor], names: list[str]) -> Callable[..., Any]:
    """The kernel of tensors that computes in double precision, whatever the dtype, as those in C do."""

    def kernel(*values: Tensor) -> Tensor:
        floating = [value.dtype for value in values if value.is_floating_point()]
        return theirs(*(value.double() for value in values)).to(floating[0] if floating else torch.float64)

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    kernel.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return kernel


def _short(value: Any) -> Input | Option:
    """Read a parameter of an operator that is not public, of which its row says no more than that."""
    return Option(value) if isinstance(value, type) else Input("", None, value)


def _stub(name: str, doc: str, parameters: Mapping[str, Input | Option], outputs: int) -> Callable[..., Any]:
    """The function that says to `tg.op` what the operator in C takes and returns."""

    def stub() -> None: ...

    result = RESULT if outputs == 1 else GenericAlias(tuple, (RESULT,) * outputs)
    stub.__name__ = stub.__qualname__ = name
    stub.__module__, stub.__doc__ = _declaring(), doc
    stub.__annotations__ = {key: value.type for key, value in parameters.items()} | {"return": result}
    made = [
        inspect.Parameter(
            key, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=value.type,
            default=value.default if isinstance(value, Option) else inspect.Parameter.empty,
        )
        for key, value in parameters.items()
    ]  # fmt: skip
    stub.__signature__ = inspect.Signature(made, return_annotation=result)  # type: ignore[attr-defined]
    return stub


def _declaring() -> str:
    """The name of the module that has the row."""
    frame = sys._getframe(1)
    while frame.f_globals is globals() and frame.f_back is not None:
        frame = frame.f_back
    module: str = frame.f_globals["__name__"]
    return module


# -- derivatives of higher order --------------------------------------------------------------------------------------


def nth(name: str, kernel: Kernel, most: float = math.inf) -> tg.Op[..., Any]:
    """Declare ``name_nth(x, n)``: the derivative of order `n` of a function of one variable.

    Args:
        name: of the function.
        kernel: of `x` and `n`.
        most: the highest order that there is.
    """

    def higher(x: Any, n: int) -> Any:
        return refuse_order(name, "x", most) if n >= most else operator(x, n + 1)

    operator = function(f"{name}_nth", kernel, f"The derivative of order `n` of `{name}`.", x=higher, n=int)
    return operator


def second_of(operator: str) -> Refused:
    """Refuse a second derivative, in the row of the first one of an operator."""
    return Refused(f"the second derivative of {operator} in {{}} is not available")


def refuse_order(operator: str, argument: str, most: float) -> NoReturn:
    """Say that derivatives end at an order.

    Raises:
        DerivativeError: always.
    """
    raise tg.DerivativeError(
        "derivatives of so high an order are not available", operator=operator, argument=argument,
        expected=f"order {most} at most", got=f"order {most + 1}",
    )  # fmt: skip
