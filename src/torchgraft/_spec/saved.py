"""`Saved`: an output for the rules alone."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from ..errors import DeclarationError

if TYPE_CHECKING:
    X = TypeVar("X")
    Name = TypeVar("Name")

    class Kept(Generic[Name]):
        """Nothing is of this type: it tells type checkers a saved output from one that callers get."""

    Saved: TypeAlias = X | Kept[Name]
else:

    class Saved:
        """Marks an output that is kept for the rules and never handed to the caller.

        ``tg.Saved[X, Literal["name"]]`` is the annotation `X` of a further output, which rules ask for as `name`. The
        index of a max pool is the classic case: plain PyTorch makes people return it only to be able to save it.
        Type checkers know that callers do not get it. ``tg.Saved[X, "name"]`` means the same, and is refused by them.

        Raises:
            DeclarationError: what stands in the brackets is no annotation and name.

        Example:
            >>> Index = tg.Saved[Int64[Tensor, ""], Literal["index"]]
            >>> def pool(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], Index]:
            ...     return x.amax(), x.argmax()
        """

        def __class_getitem__(cls, item: Any) -> Any:
            annotation, name = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            if typing.get_origin(name) is Literal:
                (name,) = typing.get_args(name)
            if not isinstance(name, str):
                raise DeclarationError(
                    "Saved takes an annotation and a name",
                    expected='tg.Saved[Int64[Tensor, "n"], Literal["index"]]',
                    got=f"tg.Saved[{item!r}]",
                )
            return SavedOutput(annotation, name)


@dataclass(frozen=True)
class SavedOutput:
    """The value of the annotation `Saved[...]`."""

    annotation: Any
    name: str

    def __repr__(self) -> str:
        return f'tg.Saved[{getattr(self.annotation, "__name__", self.annotation)}, Literal["{self.name}"]]'

    def __call__(self) -> None:  # Inside tuple[...], typing accepts only callables.
        raise TypeError("tg.Saved[...] is an annotation")
