"""A bar that shows how far the command is, where somebody looks: on a terminal, with rich."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

Advance = Callable[[int, str], None]
"""Is told how many targets are done, and what is going on."""


@contextlib.contextmanager
def bar(total: int) -> Iterator[Advance]:
    """Within, a bar stands below what is printed; nothing does where rich is missing, or errors go to no terminal."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield lambda done, what: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, what: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    # What goes into a file or a pipe must not be sent to the terminal.
    with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as progress:
        task = progress.add_task("", total=total)
        yield lambda done, what: progress.update(task, completed=done, description=what)
