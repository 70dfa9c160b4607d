"""How autodoc shows signatures."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import torchgraft as tg

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Shown = tuple[str | None, str | None]

ARRAY = re.compile(r"\w+\[(?:Tensor|ndarray), '[^']*'\]")
CONSTANT = re.compile(r"(?<== )_?[A-Z][A-Z_]+\b")


def without_inherited(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> Shown | None:
    """A class without a constructor of its own needs no signature: all errors have that of their base."""
    inherited = what in ("class", "exception") and "__init__" not in vars(thing)
    return ("", returns) if signature and inherited else None


def for_callers(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> Shown | None:
    """An operator takes and returns tensors, whatever its kernel does; a default is shown by value, not by name."""
    if what != "function":
        return None
    module = vars(sys.modules[thing.__module__])
    text = CONSTANT.sub(lambda found: repr(module[found[0]]) if found[0] in module else found[0], signature or "")
    if isinstance(thing, tg.Op):
        return ARRAY.sub("Tensor", text), ARRAY.sub("Tensor", returns or "")
    return text, returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both."""
    app.connect("autodoc-process-signature", without_inherited)
    app.connect("autodoc-process-signature", for_callers)
    return {"parallel_read_safe": True}
