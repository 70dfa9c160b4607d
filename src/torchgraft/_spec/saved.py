"""`Saved`: an output for the rules alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from .._errors import DeclarationError

if TYPE_CHECKING:
    Saved = Annotated
else:

    class Saved:
        """Marks an output that is kept for the rules and never handed to the caller.

        ``tg.Saved[X, "name"]`` is the annotation `X` of a further output, which rules ask for as `name`. The index
        of a max pool is the classic case: plain PyTorch makes people return it only to be able to save it.

        Raises:
            DeclarationError: what stands in the brackets is no annotation and name.

        Example:
            >>> def pool(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], tg.Saved[Int64[Tensor, ""], "index"]]:
            ...     return x.amax(), x.argmax()
        """

        def __class_getitem__(cls, item: Any) -> Any:
            if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str)):
                raise DeclarationError(
                    "Saved takes an annotation and a name",
                    expected='tg.Saved[Int64[Tensor, "n"], "index"]',
                    got=f"tg.Saved[{item!r}]",
                )
            return SavedOutput(*item)


@dataclass(frozen=True)
class SavedOutput:
    """What `Saved[...]` gives."""

    annotation: Any
    name: str

    def __repr__(self) -> str:
        return f"tg.Saved[{getattr(self.annotation, '__name__', self.annotation)}, {self.name!r}]"

    def __call__(self) -> None:  # typing accepts only callables inside tuple[...]
        raise TypeError("tg.Saved[...] is an annotation")
