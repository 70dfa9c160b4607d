"""The backward pass of a case as a linear map of one real vector."""

from __future__ import annotations

import torch
from torch import Tensor

from ..finding import Inconclusive
from .flat import flatten
from .probe import Probe


class BackwardRaises(Exception):
    """The backward pass raised what is the cause of this."""


class Backward:
    """The backward pass at the point of a probe, or at another one.

    A graph that does not last for a second backward pass is recorded anew for each.

    Attributes:
        wanted: the elements of the outputs that require grad.

    Raises:
        Inconclusive: nothing requires grad, or the values differ from those without grad mode.
    """

    def __init__(self, probe: Probe, point: Tensor | None = None) -> None:
        self._probe = probe
        self._point = probe.point if point is None else point
        self._recorded = probe.linearize(self._point)
        self._lasting = True
        outputs = self._recorded.outputs
        if not any(output.requires_grad for output in outputs):
            raise Inconclusive("no output requires grad")
        self.values = flatten(outputs)
        if self.values.shape != probe.values.shape:
            raise Inconclusive("the sizes of the outputs differ from call to call")
        self.wanted = torch.zeros(probe.outputs.size, dtype=torch.bool)
        for output, place in zip(outputs, probe.outputs.slices, strict=True):
            self.wanted[place] = output.requires_grad

    def pull(self, cotangent: Tensor) -> Tensor:
        """V J, with zeros where there is no gradient.

        Raises:
            BackwardRaises: it raises, also on a graph of its own.
        """
        if self._lasting:
            try:
                return self._pull(cotangent)
            except Exception:
                self._lasting = False
        self._recorded = self._probe.linearize(self._point)
        try:
            return self._pull(cotangent)
        except Exception as error:
            raise BackwardRaises from error

    def _pull(self, cotangent: Tensor) -> Tensor:
        recorded = self._recorded
        found = recorded.pull(self._probe.outputs.unflatten(cotangent))
        made = [torch.zeros_like(p) if g is None else g for p, g in zip(recorded.primals, found, strict=True)]
        return flatten([g if g.layout == torch.strided else g.to_dense() for g in made])
