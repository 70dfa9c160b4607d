"""Finding an operator that a command line names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from ._errors import DeclarationError
from ._op import Op


def find_operator(place: str) -> Op:
    """The operator that ``file.py:name`` or ``package.module:name`` names; its module is imported.

    Raises:
        DeclarationError: there is no such operator.
    """
    module_name, _, name = place.rpartition(":")
    if not module_name or not name:
        raise DeclarationError("names no operator", argument=place, expected="file.py:name", got=place)
    try:
        module = _import(module_name)
    except (ImportError, OSError) as error:
        raise DeclarationError(
            "cannot be imported", argument=module_name, expected="a Python file, or a module", got=str(error)
        ) from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Op):
        known = sorted(key for key, value in vars(module).items() if isinstance(value, Op))
        raise DeclarationError(
            "is no operator", operator=name, expected=", ".join(known) or f"a tg.op in {module_name}", got=repr(found)
        )
    return found


def _import(name: str) -> Any:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    sys.path.insert(0, str(path.parent))  # as Python does for a script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
