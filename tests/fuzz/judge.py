"""Runs a case: its text becomes a module, and the operator is compared with the expression."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import re
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.autograd.forward_ad as fwAD

from .program import Case, imports
from .verdict import verdict

_numbers = itertools.count()


@dataclass(frozen=True)
class Result:
    """What became of a case."""

    kind: str
    text: str


def judge(case: Case) -> Result:
    text = case.module()
    text = imports(text) + "\n\n" + text
    number = next(_numbers)
    name, file = f"fuzz_case_{number}", f"<fuzz {number}>"
    module = types.ModuleType(name)
    sys.modules[name] = module
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
            except Exception as error:
                return Result("undeclared", f"{type(error).__name__}: {error}")
            names = module.__dict__
            found = verdict(names["case"], names["fuzzed"], names["truth"], getattr(torch, case.dtype), names)
    finally:
        del sys.modules[name], linecache.cache[file]
    kind, _, rest = found.partition(": ")
    left = state()
    if left:
        restore()
        blameless = kind == "skipped" or leaves_open(names["case"], names["truth"], case)
        return Result("skipped" if blameless else "state", f"left open: {left}; {kind}: {rest}")
    return Result(kind, rest)


# -- what a case may leave behind -------------------------------------------------------------------------------------


def state() -> str:
    """What is open that a case opened: transforms, dual levels, modes."""
    found = {
        "a dual level": dual_level(),
        "a transform": torch._C._functorch.peek_interpreter_stack() is not None,
        "no_grad": not torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }
    return ", ".join(name for name, is_open in found.items() if is_open)


def leaves_open(run: Callable[..., Any], truth: Any, case: Case) -> bool:
    """Whether the plain expression leaves something open, too: Dynamo closes nothing where a checkpoint stops early."""

    def curved(*args: Any) -> Any:
        made = truth(*args)
        return tuple(y * y for y in made) if isinstance(made, tuple) else made * made

    with contextlib.suppress(Exception):
        run(curved, getattr(torch, case.dtype))
    left = state()
    restore()
    return bool(left)


def dual_level() -> bool:
    """Whether one is open, of torch's own or of a transform: then torch refuses to open another."""
    try:
        torch._C._exit_dual_level(level=torch._C._enter_dual_level())
    except RuntimeError:
        return True
    return False


def restore() -> None:
    """Close it, so that the next case starts as this one did."""
    torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(0)
    fwAD._current_level = -1
    if dual_level():
        torch._C._exit_dual_level(level=0)
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)


def normal(text: str) -> str:
    """An error's text without what differs from case to case."""
    text = text.split("\n\n")[0]
    text = re.sub(r"'[^']*'", "'_'", text)
    text = re.sub(r"\[[\w, ]*\]", "[_]", text)
    text = re.sub(r"leaves torch through \w+", "leaves torch through _", text)
    text = re.sub(r"0x[0-9a-f]+|\d+", "0", text)
    return " ".join(text.split())[:300]
