"""The autograd node of an operator that writes: it marks the written tensors, which take the node as their origin.

Autograd moves a tensor that is written to the node, and keeps its history as the node's input. A rule that reads the
value before the call needs that history too, for its own derivative: the node is given a copy that was made before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._spec.plan import LeafCounts
from .derivatives import Derivatives
from .node import NodeFactory
from .refuse import refuse_saved


class WritingNode(NodeFactory):
    """Makes the nodes of an operator that writes, for eager calls.

    Its nodes take, after the tensors of the call, a copy of each written tensor whose value before the call a rule
    reads. They return the written tensors, and after them what callers get.

    Attributes:
        copied: which leaves are copied.
    """

    def __init__(self, derivatives: Derivatives, counts: LeafCounts, mask: Sequence[bool]) -> None:
        super().__init__(derivatives, counts, mask, batched=False, hidden=False)
        groups = self._groups()
        self.written = [(groups[p.name] or [])[0] for p in self.signature.written]
        self.copied: list[int] = []
        self.namespace["written_again"] = self._written_again

    def make(self) -> type[Any]:
        """The `Function` subclass; its attribute `copied` tells which of the written tensors are copied."""
        made = super().make()
        made.copied = tuple(map(self.written.index, self.copied))
        return made

    def _save_leaf(self, number: int) -> str:
        if number not in self.written:
            return super()._save_leaf(number)
        if number not in self.copied:
            self.copied.append(number)
        return self._save(f"b{number}")

    def _parts(self) -> dict[str, str]:
        parts = super()._parts()  # It finds out what is copied.
        beside = "".join(f"o{i}, " for i in range(len(self.written), len(self.signature.outputs)))
        dirty = ", ".join(f"t{i}" for i in self.written)
        same = "; ".join(f"o{i} = t{number}" for i, number in enumerate(self.written))
        return parts | {
            "copies": "".join(f", b{i}" for i in self.copied),
            "outs": f"({beside})",
            "save": "; ".join([same, *(f"ctx.{o}_version = {o}._version" for _, o in self._kept()), parts["save"]]),
            "mark": f"ctx.mark_dirty({dirty}); {parts['mark'] or 'pass'}",
        }

    def _is_constant(self, number: int) -> bool:
        """Tell it too of what is written, needs no gradient, and is moved by nothing that does: running statistics."""
        if super()._is_constant(number) or number >= len(self.written):
            return super()._is_constant(number)
        groups = self._groups()
        movers = [i for name in self.record.movers(self.signature.outputs[number]) for i in groups[name] or ()]
        return not any(self.mask[i] for i in [self.written[number], *movers])

    def _kept(self) -> list[tuple[int, str]]:
        """The written values that are saved: their places among what is saved, and their names."""
        after = {f"o{i}" for i in range(len(self.written))}
        return [(i, name) for i, name in enumerate(self.saved) if name in after]

    def _unpacked(self) -> list[str]:
        """Unpack what was saved, and refuse a written value that was written again and comes from a hook.

        torch compares versions where there is no hook. Checkpointing computes the value again, with what is written
        into it afterwards. Autograd counts once what a node marks.
        """
        later = [f"if version(s{i}) > ctx.{name}_version + 1: written_again()" for i, name in self._kept()]
        return [*super()._unpacked(), *later]

    def _written_again(self) -> None:
        raise refuse_saved(
            self.record.name, "a value that was written again, and computed again by a checkpoint",
            "write into a copy, or outside of the checkpoint",
        )  # fmt: skip

    def _gradients(self) -> str:
        return super()._gradients() + ", None" * len(self.copied)
