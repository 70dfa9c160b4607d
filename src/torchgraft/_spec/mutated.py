"""`Mutated`: an argument that the operator writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias, TypeVar

from ..errors import DeclarationError

if TYPE_CHECKING:
    X = TypeVar("X")
    Mutated: TypeAlias = Annotated[X, "written"]
else:

    class Mutated:
        """Marks a tensor argument that the operator writes.

        ``y: tg.Mutated[X]`` is the annotation `X` of a tensor, whose memory the kernel gets and may write: a tensor, a
        writable array, a pointer that is not const in C. An operator that writes may return None, or further outputs.
        Its rules ask for ``y``, the value before the call, for ``y_after``, the one after it, and for ``grad_y``, the
        gradient of the value after it; ``@f.vjp("y")`` returns that of the value before.

        Raises:
            DeclarationError: it is made optional.

        Example:
            >>> @tg.op
            ... def axpy_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"], a: float) -> None:
            ...     y.add_(x, alpha=a)
            >>> @axpy_.vjp("y")
            ... def _(grad_y):
            ...     return grad_y
            >>> @axpy_.vjp("x")
            ... def _(grad_y, a):
            ...     return a * grad_y
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return MutatedArgument(item)


class MutatedArgument:
    """The value of the annotation `Mutated[...]`."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation

    def __repr__(self) -> str:
        return f"tg.Mutated[{getattr(self.annotation, '__name__', self.annotation)}]"

    def __call__(self) -> NoReturn:  # Inside of list[...], typing accepts only callables.
        raise TypeError("tg.Mutated[...] is an annotation")

    def __or__(self, other: Any) -> NoReturn:
        raise DeclarationError(
            "an argument that is written cannot be left out, or be something else", argument=repr(self),
            expected="tg.Mutated[...] alone", got=f"{self!r} | {other}",
            hint="declare a second operator without the argument",
        )  # fmt: skip

    __ror__ = __or__


def split_mutated(annotation: Any) -> tuple[Any, bool]:
    """The annotation of a tensor, and whether it is marked as written."""
    if isinstance(annotation, MutatedArgument):
        return annotation.annotation, True
    return annotation, False
