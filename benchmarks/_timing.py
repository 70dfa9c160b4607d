"""Timing rows of a table: ours and a rival in turn, many rounds, medians."""

# ruff: noqa: RUF001 - Chinese has commas of its own

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import torch

ROUNDS = 60
ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs/benchmarks.md", ROOT / "README.md"
SUMMARY = (
    "no-grad call, 1 tensor, 1 number", "forward + backward, 1 tensor, 1 number", "5 elementwise in a row, 1e6",
    "C source to first result", "mutants of the backwards", "planted bugs of the project's zoo, found",
)  # fmt: skip
"""Rows of all tables that the READMEs show, by a part of their first cell."""
CHINESE = {
    "| rival | result | bar |": "| 对照 | 结果 | 目标 |",
    "no-grad call": "不记录梯度的一次调用",
    "forward + backward": "前向加反向",
    ", 1 tensor, 1 number": "，1 个张量、1 个数",
    "5 elementwise in a row, 1e6, compiled": "5 个逐元素算子串联，1e6 个元素，编译后",
    "C source to first result": "从 C 源代码到第一个结果",
    " mutants of the backwards of ": " 个变异后的 backward（取自 ",
    " operators, float64, found": " 个算子，float64）的检出率",
    "planted bugs of the project's zoo, found": "本项目植入错误的检出率",
    "bare kernel": "裸内核",
    "plain functions": "普通函数",
    "slow": "慢速模式",
    ", fast": "，快速模式",
    " of ": " / ",
}
"""The words of these rows, for the README in Chinese."""


@dataclass
class Row:
    """One line of the table."""

    what: str
    ours: str
    rival: str
    result: str
    bar: str


def interleave(
    functions: dict[str, Callable[[], object]],
    calls: int,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds a call of each function in each round, all functions in turn within a round.

    Each is called once untimed before it is timed, and each round begins with another one: what ran before (the
    garbage collector, above all) must not be charged to whoever comes first.
    """
    for function in functions.values():
        for _ in range(max(3, calls // 10)):
            function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    gc.disable()
    try:
        names = list(functions)
        for i in range(rounds):
            for name in names[i % len(names) :] + names[: i % len(names)]:
                function = functions[name]
                function()
                start = clock()
                for _ in range(calls):
                    function()
                times[name].append((clock() - start) / calls)
            gc.collect()
    finally:
        gc.enable()
    return times


def us(times: list[float]) -> str:
    return f"{statistics.median(times) * 1e6:.2f} us"


def ms(times: list[float]) -> str:
    return f"{statistics.median(times) * 1e3:.3f} ms"


def ratio(ours: list[float], rival: list[float]) -> float:
    """Median of the ratios round by round, which a drift of the machine does not touch."""
    return statistics.median(a / b for a, b in zip(ours, rival, strict=True))


def difference(ours: list[float], rival: list[float]) -> float:
    """Median of the differences round by round, in us."""
    return statistics.median(a - b for a, b in zip(ours, rival, strict=True)) * 1e6


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    versions = f"torch {torch.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    return f"{versions}, Python {platform.python_version()}, {cpu}, one thread"


def table(rows: list[Row]) -> str:
    lines = ["| | torchgraft | rival | result | bar |", "|---|---|---|---|---|"]
    lines += [f"| {row.what} | {row.ours} | {row.rival} | **{row.result}** | {row.bar} |" for row in rows]
    return "\n".join([*lines, "", f"Medians of {ROUNDS} interleaved rounds; {machine()}."])


def write(title: str, text: str) -> None:
    """Put the table between its markers, and the rows that summarise all tables into the README of every language."""
    put(title, text, [PAGE])
    text = summary(PAGE.read_text())
    put("summary", text, [README])
    put("summary", in_chinese(text), [README.with_suffix(".zh.md")])


def summary(page: str) -> str:
    """The table of a few rows of the page's tables."""
    lines = page.splitlines()
    rows = [next(line for line in lines if name in line.partition(" | ")[0]) for name in SUMMARY]
    return "\n".join(["| | torchgraft | rival | result | bar |", "|---|---|---|---|---|", *rows])


def in_chinese(table: str) -> str:
    """The summary with Chinese words."""
    for english, chinese in CHINESE.items():
        table = table.replace(english, chinese)
    return table


def put(title: str, text: str, pages: Sequence[Path]) -> None:
    """Put a table between its markers in some pages."""
    start, end = f"<!-- table: {title} -->", "<!-- end -->"
    for page in pages:
        before, found, rest = page.read_text().partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{page} has no place for the table: {start} ... {end}")
        page.write_text(f"{before}{start}\n{text}\n{end}{after}")


def run(title: str, description: str | None, benchmarks: Mapping[str, Callable[[], list[Row]]]) -> None:
    """The command line of one table.

    Args:
        title: of the table, by which the page marks its place.
        description: for ``--help``.
        benchmarks: what makes the rows.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(benchmarks)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for name, make in benchmarks.items() if not options.names or name in options.names for row in make()]
    text = table(rows)
    print(text)
    if options.write:
        write(title, text)
