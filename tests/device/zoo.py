"""What the checker says of the zoo on another device than the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import torchgraft as tg

from ..zoo import ZOO
from ..zoo.bug import Bug
from ..zoo.judge import alarms, found
from .own import NAME, moved

OF_THE_CPU = {
    "added_to_new_memory", "output_never_written",  # Memory of a device cannot be filled beforehand.
    "asks_for_autocast_in_backward", "mixed_dtypes_in_backward",  # Autocast changes nothing on this device.
    "body_of_another_function",  # The body serves the device: it is found as a wrong gradient.
}  # fmt: skip
"""Bugs that are not found here as they are on the CPU."""


def runs(target: Any, bug: Bug) -> bool:
    """Tell whether the target itself serves the device, forward and backward."""
    try:
        made = target(*moved(tuple(a.requires_grad_() if _is_float(a) else a for a in bug.arguments())))
        outputs = [o for o in tree_leaves(made) if isinstance(o, Tensor) and o.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])
    except Exception:  # It has no kernel there, or makes a tensor on the CPU.
        return False
    return True


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def told(bug: Bug) -> list[str]:
    """What is not as on the CPU."""
    targets = moved((bug.wrong, bug.right))
    options = {} if bug.inputs else {"device": NAME}
    wrong, right = (tg.check(target, *moved((bug.inputs or tuple)()), **options) for target in targets)
    raised = [r.note for r in (*wrong.results, *right.results) if "raised" in r.note and NAME in r.note]
    said = [f"the right one: {finding}" for finding in alarms(right)] + raised
    return [*said, *(["the wrong one is not found"] if not found(bug, wrong) and bug.name not in OF_THE_CPU else [])]


def looked_at(start: int, step: int) -> tuple[int, dict[str, list[str]]]:
    """How many bugs serve the device, and what is other than on the CPU."""
    bugs = [bug for bug in ZOO[start::step] if bug.family != "mesh"]
    bugs = [bug for bug in bugs if all(runs(target, bug) for target in moved((bug.wrong, bug.right)))]
    return len(bugs), {bug.name: said for bug in bugs if (said := told(bug))}
