"""Exceptions that carry data: every message names operator, argument, expected, got and the next step."""

from __future__ import annotations

from typing import Any

from . import _frames

__all__ = [
    "ArgumentError",
    "BuildError",
    "CheckError",
    "DeclarationError",
    "DerivativeError",
    "DeviceError",
    "DtypeError",
    "KernelError",
    "RuleError",
    "ShapeError",
    "TorchgraftError",
    "TorchgraftWarning",
    "UnsupportedError",
]


class TorchgraftError(Exception):
    """Base of every error that torchgraft raises.

    The text is made from the fields, so that tools never have to parse it.

    Attributes:
        problem: what is wrong, one sentence.
        operator: name of the operator (or ``operator.rule[input]``), if one is involved.
        argument: name of the argument, output or axis that is wrong.
        expected: what was expected there.
        got: what was found there.
        hint: the next step.

    Example:
        >>> raise ShapeError("sizes differ", operator="linear", argument="bias", expected="m = 3", got="5")
    """

    def __init__(
        self,
        problem: str,
        *,
        operator: str | None = None,
        argument: str | None = None,
        expected: object = None,
        got: object = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem
        self.operator = operator
        self.argument = argument
        self.expected = expected
        self.got = got
        self.hint = hint
        super().__init__(problem)

    def __str__(self) -> str:
        where = " ".join(
            part
            for part in (
                self.operator and f"operator '{self.operator}'",
                self.argument and f"argument '{self.argument}'",
            )
            if part
        )
        lines = [f"{where}: {self.problem}" if where else self.problem]
        if self.expected is not None:
            lines.append(f"  expected: {str(self.expected) or 'nothing'}")
        if self.got is not None:
            lines.append(f"  got:      {str(self.got) or 'nothing'}")
        if self.hint is not None:
            lines.append("  next:     " + self.hint.replace("\n", "\n            "))
        return "\n".join(lines)

    def __repr__(self) -> str:  # Compilers show this in their own errors.
        return f"{type(self).__name__}: {self}"

    def _render_traceback_(self) -> list[str]:  # IPython and Jupyter ask for it.
        return _frames.rendered(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with `args` alone and lose the fields in a worker process.
        return _rebuild, (type(self), self.problem, dict(self.__dict__))


def _rebuild(kind: type[TorchgraftError], problem: str, fields: dict[str, Any]) -> TorchgraftError:
    error = kind(problem)
    error.__dict__.update(fields)
    return error


class DeclarationError(TorchgraftError, TypeError):
    """An operator or a rule cannot be declared as it is written."""


class ArgumentError(TorchgraftError, TypeError):
    """A call's argument has the wrong type."""


class ShapeError(TorchgraftError, ValueError):
    """A tensor's shape contradicts the annotation, or the shapes of two arguments contradict each other."""


class DtypeError(TorchgraftError, TypeError):
    """A tensor's dtype is not admitted, or two dtypes do not go together."""


class DeviceError(TorchgraftError, RuntimeError):
    """A tensor is on a device for which the operator has no kernel, or on another one than its neighbours."""


class KernelError(TorchgraftError, RuntimeError):
    """A kernel returned something else than its annotation says, or changed its inputs."""


class BuildError(TorchgraftError, RuntimeError):
    """A kernel in C or C++ cannot be built."""


class RuleError(TorchgraftError, RuntimeError):
    """A rule returned something else than the gradient or tangent that was asked of it."""


class DerivativeError(TorchgraftError, RuntimeError):
    """A derivative was asked for that the operator does not have."""


class UnsupportedError(TorchgraftError, NotImplementedError):
    """A PyTorch feature that would give a wrong result with this operator, refused."""


class CheckError(TorchgraftError, AssertionError):
    """A check did not pass; its text is the report's.

    Attributes:
        report: what was checked and found, a `Report`.
    """

    def __init__(self, problem: str, *, report: Any = None, **fields: Any) -> None:
        super().__init__(problem, **fields)
        self.report = report


class TorchgraftWarning(UserWarning):
    """Legal, but costly or fragile: said once for each place, with the remedy."""


_frames.install(TorchgraftError)
