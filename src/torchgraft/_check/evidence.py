"""The numbers behind a finding, as JSON holds them and pictures show them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Evidence:
    """The numbers behind a finding, of the smallest case that shows it.

    All are real: a complex number is two, its real part and its imaginary part.

    Attributes:
        analytic: the Jacobian that the derivative under test gives, ``(outputs, inputs)``, flattened.
        numeric: the Jacobian by differences of the function.
        estimate: the estimated error of each entry of `numeric`; infinite where differences cannot tell.
        steps: of the difference ladder along the direction that shows the error most.
        ladder: the estimate of the directional derivative at each step.
        bars: its estimated error at each step.
        chosen: the place in `steps` of the step that was used; None where there is no ladder.
        along: what the derivative under test gives along that direction.
        outputs: name and shape of each output, in the order of the rows; empty where they are not known.
        inputs: name and shape of each primal, in the order of the columns.
    """

    analytic: Tensor
    numeric: Tensor
    estimate: Tensor | None = None
    steps: tuple[float, ...] = ()
    ladder: tuple[float, ...] = ()
    bars: tuple[float, ...] = ()
    chosen: int | None = None
    along: float | None = None
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
