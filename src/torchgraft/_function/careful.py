"""A forward of an adopted Function that runs again: what it asks and what it draws would not be the same.

A call hands on what it knows from its beginning to the kernel and to the rule; see `Scope`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from .. import _torch
from ..errors import KernelError, UnsupportedError
from .asked import Answering
from .nested import as_outputs


class Scope(threading.local):
    """State of a call of an adopted operator, from the call down to its kernel and back to its rule.

    Attributes:
        ctx: the node of eager code that calls the kernel; `CAREFUL` for a call through the dispatcher; else None.
        needs: which arguments are differentiated at any level; None where that is not known.
        transformed: whether something is about, a transform or a tracer, under which forward may be run again.
    """

    ctx: Any = None
    needs: tuple[bool, ...] | None = None
    transformed: bool = True


CAREFUL = object()


@contextlib.contextmanager
def within(scope: Scope, **known: Any) -> Iterator[None]:
    """Within, a scope knows something else."""
    before = scope.ctx, scope.needs, scope.transformed
    for name, value in known.items():
        setattr(scope, name, value)
    try:
        yield
    finally:
        scope.ctx, scope.needs, scope.transformed = before


def outside(scope: Scope) -> contextlib.AbstractContextManager[None]:
    """Within, user code runs, which may call the same operator."""
    return within(scope, ctx=None, needs=None, transformed=True)


class Careful(contextlib.ExitStack):
    """Within, a forward runs that is not the first, or will not be the last.

    Args:
        name: of the Function.
        parameters: names of its parameters.
        values: its arguments.
        needs: what it is told where it asks whether they require grad; None where nobody knows.
    """

    def __init__(
        self, name: str, parameters: Sequence[str], values: Sequence[Any], needs: Sequence[bool] | None
    ) -> None:
        super().__init__()
        self.name = name
        self.parameters = parameters
        self.values = values
        self.needs = needs

    def __enter__(self) -> Careful:
        super().__enter__()
        self._before = _torch.Generators.snapshot()
        self._answering = self.enter_context(Answering(self.values, self.needs))
        self._watch = self.enter_context(_torch.RandomWatch())
        return self

    def __exit__(self, kind: Any, *error: Any) -> Any:
        result = super().__exit__(kind, *error)
        if self.needs is None and self._answering.asked is not None:
            raise _asks(self.name, self.parameters[self._answering.asked])
        return result

    def refuse_draws(self, output: Any) -> None:
        """Refuse a forward that has drawn random numbers.

        Raises:
            Redrawn: it has.
        """
        drawn = self._before.moved() or self._watch.explicit
        if drawn is None and not all(map(_torch.holds_numbers, filter(_is_tensor, as_outputs(output)))):
            drawn = self._watch.drawn  # A tracer only pretends to draw.
        if drawn is not None:
            raise Redrawn.by(self.name, drawn)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


class Redrawn(KernelError):
    """A forward draws, and has to run again."""

    @classmethod
    def by(cls, name: str, drawn: str) -> Redrawn:
        """Make the error for a Function, from the name of what has drawn."""
        return cls(
            f"its forward draws random numbers ({drawn}), and would draw others when it is run again",
            operator=name,
            expected="eager code and first derivatives, or a function of its arguments",
            got="a transform, a compiler, or a second derivative",
            hint="draw outside and pass what was drawn: a mask, or a seed",
        )


def _asks(operator: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"its forward asks whether '{name}' requires grad, which an operator in a graph is not told",
        operator=operator,
        argument=name,
        expected="a call of the operator, or a forward that does not ask",
        got=f"{name}.requires_grad",
        hint=f"ask outside, and pass the answer: forward(ctx, {name}, trains: bool)",
    )
