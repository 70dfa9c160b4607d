"""The prototype of a kernel that is written by hand: it sees all samples, and is told how many there are."""

from __future__ import annotations

from ..prototype import Prototype


class KernelPrototype(Prototype):
    """The parameters of a kernel: as those of a function that sees a sample, with their number in front."""

    @property
    def scalar(self) -> bool:
        """It sees memory, never one element by value."""
        return False

    @property
    def count(self) -> str | None:
        """The name of the number of samples; None where no tensor has a run of axes."""
        runs = [axes.leading_run for _, kind in self._types() if (axes := kind.axes) is not None]
        names = [run.name or "count" for run in runs if run is not None]
        return names[0] if names else None

    def _is_batch(self, position: int, name: str | None) -> bool:
        return position == 0

    def _sizes(self) -> list[str]:
        return [*([self.count] if self.count else []), *super()._sizes()]
