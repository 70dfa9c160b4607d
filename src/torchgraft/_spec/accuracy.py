"""The accuracy of a kernel with a tolerance of its own: a solver, a quadrature, an iteration."""

from __future__ import annotations

from ..errors import TorchgraftError


def read_accuracy(value: object, refuse: type[TorchgraftError]) -> float | None:
    """An accuracy, relative to the largest element of each output; None is that of the dtype.

    Raises:
        TorchgraftError: of the class `refuse`: it is no number between 0 and 1.
    """
    if value is None or (isinstance(value, float) and 0 < value < 1):
        return value
    raise refuse(
        "an accuracy is a part of the largest element of an output", argument="accuracy",
        expected="a float between 0 and 1, such as 1e-8", got=repr(value),
    )  # fmt: skip
