"""Runs a case: its text becomes a module, and the operator is compared with the expression."""

from __future__ import annotations

import itertools
import linecache
import re
import sys
import types
import warnings
from dataclasses import dataclass

import torch

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
    return Result(kind, rest)


def normal(text: str) -> str:
    """An error's text without what differs from case to case."""
    text = text.split("\n\n")[0]
    text = re.sub(r"'[^']*'", "'_'", text)
    text = re.sub(r"\[[\w, ]*\]", "[_]", text)
    text = re.sub(r"0x[0-9a-f]+|\d+", "0", text)
    return " ".join(text.split())[:300]
