"""A limit on what a call computes, counted in operations, elements and calls: it says the same on every machine."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from types import FrameType
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .._frames import is_of_torch, is_own
from .plain import materialized

PRICE = 1000
"""Elements that cost as much as an operation itself."""


_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen ")
_PACKAGES = f"{os.sep}site-packages{os.sep}"


class TooMuch(BaseException):
    """A call computes more than it may; not an `Exception`, so that no user's code catches it."""


class Effort(TorchDispatchMode):
    """Within, a call is stopped that computes too much. What is counted within another counts there too.

    A tracer, of what measures coverage or of a debugger, is put aside: loops that do not end must end there too.

    Args:
        limit: elements that torch may make, where each operation counts as a thousand.
        calls: of functions of Python that may begin, as those of a solver of SciPy; None for no limit.
        lines: of Python that may run, as those of a loop that does not end; None for no limit. Those of torch, of this
            package and of Python's library are not counted.

    Attributes:
        work: what torch has made, counted as the limit is.
        calls: that have begun.
        lines: that have run, where there is a limit.
    """

    def __init__(self, limit: int, calls: int | None = None, lines: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._limit, self._most_calls, self._most_lines = limit, calls, lines
        self.work = self.calls = self.lines = 0
        self._tracer: Any = None

    def __enter__(self) -> Effort:
        """Begin to count operations, calls and lines."""
        super().__enter__()  # type: ignore[no-untyped-call]
        self._tracer = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop the count of operations, calls and lines."""
        sys.settrace(self._tracer)
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        outer = getattr(self._tracer, "__self__", None)
        if isinstance(outer, Effort):  # Its own tracer was put aside.
            outer.calls += self.calls
            outer.lines += self.lines

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Count a call; what is returned sees its lines."""
        self.calls += 1
        # What is raised in a generator that is thrown away is lost; the next call stops.
        generates = frame.f_code.co_flags & inspect.CO_GENERATOR
        if self._most_calls is not None and self.calls > self._most_calls and not generates:
            self._stop(frame)
        counted = self._most_lines is not None and _may_loop(frame.f_code.co_filename, frame.f_globals.get("__name__"))
        return self._line if counted else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self._most_lines is not None and self.lines > self._most_lines:
                self._stop(frame)
        return self._line

    def _stop(self, frame: FrameType) -> None:
        if may_stop(frame):
            raise TooMuch
        if _imports(frame):
            self.calls = self.lines = 0  # No other call pays for an import.

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to import its compiler for the sake of a mode that compiled code never sees."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and count its work."""
        made = func(*materialized(args), **(kwargs or {}))
        leaves = (made,) if isinstance(made, Tensor) else pytree.tree_leaves(made)
        self.work += PRICE + sum(leaf.numel() for leaf in leaves if isinstance(leaf, Tensor))
        if self.work > self._limit:
            raise TooMuch
        return made


@functools.cache
def _may_loop(file: str, module: object) -> bool:
    """Return False for code of torch, of this package, and of Python's library: its loops end.

    Methods of a dataclass are in no file, and have the name of its module.
    """
    if is_own(file) or is_of_torch(file) or str(module).partition(".")[0] in ("torch", "torchgraft"):
        return False
    return _PACKAGES in file or not file.startswith(_LIBRARY)


def may_stop(frame: FrameType | None) -> bool:
    """Return True if nothing is left half done where a call is stopped in this frame: no module, nothing changed."""
    return not _imports(frame) and _names(frame).isdisjoint(("__exit__", "__del__"))


def _imports(frame: FrameType | None) -> bool:
    return "_find_and_load" in _names(frame)


def _names(frame: FrameType | None) -> set[str]:
    """Names of all functions that run."""
    found = set()
    while frame is not None:
        found.add(frame.f_code.co_name)
        frame = frame.f_back
    return found
