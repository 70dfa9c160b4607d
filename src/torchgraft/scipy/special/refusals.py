"""Derivatives that are not there, and say so."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import torchgraft as tg


def no_second_derivative(derivative: tg.Op, operator: str, *parameters: str) -> None:
    """Declare that the derivative of an operator has itself none in parameters; it raises where one is asked for.

    Args:
        derivative: the elementwise operator that gives the first derivative.
        operator: whose derivative that is.
        parameters: inputs of both.
    """
    for parameter in parameters:
        derivative.partial(parameter)(_refusing(operator, parameter))


def _refusing(operator: str, parameter: str) -> Any:
    def refuse() -> Tensor:
        raise tg.DerivativeError(
            "the second derivative in a parameter is not available", operator=operator, argument=parameter,
            expected=f"first derivatives in {parameter}", got="a second one",
            hint=f"pass {parameter}.detach() where its gradient is differentiated again",
        )  # fmt: skip

    return refuse
