"""Derivatives that are not there, and say so."""

from __future__ import annotations

from typing import Any

import torchgraft as tg


def no_second_derivative(derivative: tg.Op[..., Any], operator: str, *parameters: str) -> None:
    """Declare that the derivative of an operator has itself none in parameters; it raises where one is asked for.

    Args:
        derivative: the elementwise operator that gives the first derivative.
        operator: whose derivative that is.
        parameters: inputs of both.
    """
    for parameter in parameters:
        reason = f"the second derivative of {operator} in {parameter} is not available"
        derivative.nondifferentiable(parameter, reason=reason)
