"""How the house stands: sizes, words, circles, what type checkers see, and what a declaration costs.

Figures of source are counted by the same functions that the tests use. Declarations are timed beside
`torch.library.custom_op` in one process, imports in fresh processes. Run it as

    python benchmarks/house.py               # prints the table
    python benchmarks/house.py declare       # some rows of it
    python benchmarks/house.py --write       # and puts it into the page of benchmarks
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from _timing import ROOT, ROUNDS, Row, interleave, ms, run
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

sys.path.insert(0, str(ROOT))  # for the tests

PROCESSES = 11
CALLS = 5
"""Declarations in a row, as a module has them."""
_numbers = itertools.count()


def types() -> list[Row]:
    """Lines of wrong and of right use, and what both type checkers say of them."""
    from tests.typing.test_lines import LINES, mypy, pyright

    text = LINES.read_text().splitlines()
    wrong = {number for number, line in enumerate(text, 1) if line.endswith("# wrong")}
    rows = []
    for name, checker in (("mypy --strict", mypy), ("basedpyright", pyright)):
        found = {number for number, _ in checker()}
        ours = f"{len(wrong & found)} of {len(wrong)}, {len(found - wrong)}"
        rows.append(Row(f"lines refused by {name}: wrong ones, right ones", ours, "-", ours, "all, 0"))
    return rows


def words() -> list[Row]:
    """Lines of source, first lines of docstrings, circles of imports, lines of the README."""
    from tests.test_english import docstrings, unclear
    from tests.test_imports import SOURCES, circle

    lines = sum(text.count("\n") for text in SOURCES.values())
    checker = {path: text for path, text in SOURCES.items() if path.startswith("_check/")}
    bad, all_of_them = len(list(unclear(SOURCES))), sum(1 for _ in docstrings(SOURCES))
    round_trip = " -> ".join(circle(SOURCES, late=True)) or "none"
    readme = len((ROOT / "README.md").read_text().splitlines())
    checked = sum(text.count("\n") for text in checker.values())
    return [
        Row("lines of Python in src, stubs apart", f"{lines:,}", "-", f"{lines:,}", "29,000"),
        Row("lines and files of the checker", f"{checked:,}", "-", f"{checked:,}, {len(checker)}", "8,500, 45"),
        Row("first lines of docstrings that are clauses or short", f"{bad} of {all_of_them}", "-", f"{bad}", "4 %"),
        Row("circles of imports, late ones and those for types counted", round_trip, "-", round_trip, "none"),
        Row("lines of the README", f"{readme}", "-", f"{readme}", "130"),
    ]


_WRITTEN = """
def mul_exp(x{i}: Float[Tensor, "n"], y{i}: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x{i} * torch.exp(y{i})

def in_x(grad, y{i}):
    return grad * torch.exp(y{i})

def in_y(grad, x{i}, y{i}):
    return grad * x{i} * torch.exp(y{i})
"""
"""A kernel and two rules. Their names differ each time: operators with like signatures share generated code."""


def _written() -> Iterator[dict[str, Any]]:
    for i in itertools.count():
        names = {"torch": torch, "Tensor": Tensor, "Float": Float, "__name__": __name__}
        exec(_WRITTEN.format(i=i), names)
        yield names | {"i": i}


_prepared = list(itertools.islice(_written(), 2 * ROUNDS * (CALLS + 2) + ROUNDS + 20))


def _ours() -> Callable[..., Tensor]:
    names = _prepared.pop()
    mul_exp: tg.Op[..., Tensor] = tg.op(names["mul_exp"])
    mul_exp.vjp(f"x{names['i']}")(names["in_x"])
    mul_exp.vjp(f"y{names['i']}")(names["in_y"])
    return mul_exp


def _theirs() -> Callable[..., Tensor]:
    @torch.library.custom_op(f"house::mul_exp_{next(_numbers)}", mutates_args=())
    def mul_exp(x: Tensor, y: Tensor) -> Tensor:
        return x * torch.exp(y)

    @mul_exp.register_fake
    def _(x: Tensor, y: Tensor) -> Tensor:
        return torch.empty_like(x)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * torch.exp(y), grad * x * torch.exp(y)

    mul_exp.register_autograd(backward, setup_context=setup_context)
    return mul_exp


def _differentiate(function: Callable[..., Tensor]) -> None:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.autograd.grad(function(x, y).sum(), (x, y))


def declare() -> list[Row]:
    """A declaration with two rules, alone, with the first call, and with the first forward and backward.

    The first call of a custom_op loads Dynamo, after which our calls are generated with the declaration. So ours are
    timed before, too, and this function runs before those that import the tests.
    """
    before = [_seconds(_ours) for _ in range(ROUNDS)]
    called_before = [_seconds(lambda: _ours()(torch.ones(3), torch.ones(3))) for _ in range(ROUNDS)]
    passed_before = [_seconds(lambda: _differentiate(_ours())) for _ in range(ROUNDS)]
    times = interleave(
        {
            "ours": _ours, "theirs": _theirs,
            "our call": lambda: _differentiate(_ours()), "their call": lambda: _differentiate(_theirs()),
        },
        calls=CALLS,
    )  # fmt: skip
    theirs = statistics.median(times["theirs"])
    rows = (
        ("declaration with two rules", before, "1.14 x (0.8 ms of 0.7)"),
        ("the same, where Dynamo is loaded", times["ours"], "1.14 x (0.8 ms of 0.7)"),
        ("with its first call", called_before, "3.6 x (2.5 ms of 0.7)"),
        ("with its first forward and backward", passed_before, ""),
        ("the same, where Dynamo is loaded", times["our call"], ""),
    )
    return [
        Row(what, ms(ours), f"custom_op's declaration {theirs * 1e3:.3f} ms",
            f"{statistics.median(ours) / theirs:.2f} x", bar)
        for what, ours, bar in rows
    ]  # fmt: skip


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def imports() -> list[Row]:
    """What an import adds to that of torch, SciPy and jaxtyping, in fresh processes in turn, from compiled bytecode."""
    base = "import torch, scipy.special, jaxtyping"
    bars = {
        "import torchgraft": "50 ms", "import torchgraft.scipy.special": "150 ms",
        "from torchgraft.scipy.special import gammaln": "", "from torchgraft.scipy.special import *": "",
    }  # fmt: skip
    times: dict[str, list[float]] = {statement: [] for statement in bars}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        for _ in range(PROCESSES):  # The first writes the bytecode.
            for statement in bars:
                before = "" if statement == "import torchgraft" else "; import torchgraft"
                timed = f"{base}{before}; import gc; gc.disable(); import time; t = time.perf_counter(); {statement}; "
                ran = [sys.executable, "-c", f"{timed}print(time.perf_counter() - t)"]
                done = subprocess.run(ran, capture_output=True, text=True, check=True, env=environment)
                times[statement].append(float(done.stdout))
    found = {statement: f"{statistics.median(times[statement]) * 1e3:.0f} ms" for statement in bars}
    return [Row(f"`{statement}`", found[statement], "-", found[statement], bars[statement]) for statement in bars]


if __name__ == "__main__":
    run("house", __doc__, {"declare": declare, "imports": imports, "words": words, "types": types})
