"""What a bug of the zoo is: a bug, its right version, and what a checker should say of the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import observe

Inputs = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A planted bug.

    Attributes:
        name: unique in the zoo.
        wrong: a target with the bug: a Function's apply, an operator, a module or another callable.
        right: the same without it. It has no other defect: no checker may flag it.
        truth: the same by torch's own functions and their derivatives; it proves the right one right.
        inputs: makes the arguments of a check; None where the checker has to make them (operators of this package).
        expects: words of which one occurs in the name, code or title of what finds it.
        cause: words of which one occurs in the cause that is named.
        source: where people make it.
        shown_by: an observation in which the two differ.
        probe: makes arguments that show the bug, where those of `inputs` do not, or where there are none.
        smooth: whether differences can prove the right one as well.
        family: the file that it lives in.
    """

    name: str
    wrong: Any
    right: Any
    truth: Any
    inputs: Inputs | None
    expects: set[str]
    cause: tuple[str, ...]
    source: str
    shown_by: observe.Observation = observe.gradients
    probe: Inputs | None = None
    smooth: bool = True
    family: str = ""

    def arguments(self) -> tuple[Any, ...]:
        """Arguments that show the bug."""
        make = self.probe or self.inputs
        assert make is not None
        return make()


def function(name: str, forward: Callable[..., Any], backward: Callable[..., Any], *, once: bool = False) -> Any:
    """The `apply` of a Function with one output; `backward` gets its gradient and the tensors that forward got."""

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def run(ctx: Any, grad: Tensor) -> Any:
        return backward(grad, *ctx.saved_tensors)

    body = {"forward": forward, "setup_context": setup_context, "backward": once_differentiable(run) if once else run}
    return type(name, (Function,), {key: staticmethod(value) for key, value in body.items()}).apply


def normal(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64, seed: int = 0) -> Inputs:
    """Arguments: normally distributed tensors of these shapes."""

    def make() -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes)

    return make


def given(*arguments: Any, dtype: torch.dtype = torch.float64) -> Inputs:
    """Arguments: lists become tensors."""
    return lambda: tuple(torch.tensor(a, dtype=dtype) if isinstance(a, list) else a for a in arguments)
