"""Compare what the checker finds in this working tree with what it found when `net.json` was written.

A change of the checker may find more and may not find less. For each planted bug of the zoo, `net.json` holds the
checks that find it, whether its cause is named, and whether its right version is free of alarms; for PyTorch's own
operators, the mutants that are missed, the samples that are flagged or cannot be told, and what all checks together
say of one sample of each, and of each module. Much of the last is true: torch has defects too. Run it as

    python benchmarks/net.py                  # compares, and exits 1 where something is lower; half an hour or more
    python benchmarks/net.py zoo --part 1/10  # every tenth planted bug
    python benchmarks/net.py --freeze         # writes net.json, on a quiet machine: explaining has limits of time
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from _defects import LOST, lost
from _opinfo import Sample, modules, mutants, samples
from check import ZOO, Part, alarms, core, float32_only, found, named

import torchgraft as tg

FROZEN = Path(__file__).with_suffix(".json")
PARTS = 40
"""Pieces of a section; a worker takes one at a time."""

_PATH = re.compile(r"/\S*/site-packages/")
"""The folder that torch is installed in, which some causes name."""

Entries = dict[str, Any]


# -- what is measured: for each section, an entry of plain data for each name ------------------------------------


def zoo(part: Part) -> Entries:
    entries: Entries = {}
    for bug in part.of(ZOO):
        inputs = bug.inputs or tuple
        wrong, right = (tg.check(target, *inputs(), compilers=True) for target in (bug.wrong, bug.right))
        finders = {r.check for r in wrong.results for f in r.findings if f.severity is not tg.Verdict.PASS}
        entries[bug.name] = {
            "found": found(bug, wrong),
            "named": named(bug, wrong),
            "silent": not alarms(right),
            "finders": sorted(finders),
            "causes": sorted({_PATH.sub("", f.cause) for f in wrong.findings if f.cause}),
        }
    return entries


def mutated(part: Part) -> Entries:
    tried = (mutant for sample in part.of(samples(torch.float64, each=1)) for _, mutant in mutants(sample))
    return {mutant.name: _said(mutant) for mutant in tried}


def right(part: Part, dtype: torch.dtype, wrap: Callable[[Sample], Sample] = lambda sample: sample) -> Entries:
    entries = {}
    for sample in part.of(samples(dtype, each=2)):
        said = _said(wrap(sample))
        entries[sample.name] = "real loss" if said == "found" and lost(sample) > LOST else said
    return entries


def battery(part: Part) -> Entries:
    """What all checks do not pass, of an operator that is right or at least PyTorch's own."""
    each = part.of(samples(torch.float64, each=1))
    return {sample.name: _blamed(tg.check(sample.function, *sample.tensors, name=sample.name)) for sample in each}


def modules_of_torch(part: Part) -> Entries:
    """What all checks do not pass, of PyTorch's own modules, which are called as users call them."""
    each = part.of(modules(torch.float64, each=1))
    return {m.name: _blamed(tg.check(m.module, *m.args, kwargs=m.kwargs, name=m.name)) for m in each}


NOTHING = (tg.Verdict.PASS, tg.Verdict.SKIPPED)


def _blamed(report: tg.Report) -> list[str]:
    return sorted({f"{r.check}: {r.verdict.name}" for r in report.results if r.verdict not in NOTHING})


def _said(sample: Sample) -> str:
    return core(sample).partition(":")[0]


SECTIONS: dict[str, Callable[[Part], Entries]] = {
    "zoo": zoo,
    "mutants": mutated,
    "float64": lambda part: right(part, torch.float64),
    "float32": lambda part: right(part, torch.float32),
    "float32-alone": lambda part: right(part, torch.float32, float32_only),
    "battery": battery,
    "modules": modules_of_torch,
}


def measure(section: str, part: Part) -> Entries:
    """Measure one part of a section, in a process of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return SECTIONS[section](part)


def measured(section: str, parts: Iterable[Part], pool: ProcessPoolExecutor) -> Entries:
    waiting = [pool.submit(measure, section, part) for part in parts]
    return {name: entry for future in waiting for name, entry in future.result().items()}


# -- what is lower -------------------------------------------------------------------------------------------------

WRONG = {"found": 0, "inconclusive": 1, "pass": 2}
"""How bad it is to say so of a wrong derivative."""

RIGHT = {"pass": 0, "real loss": 0, "inconclusive": 1, "found": 2}
"""How bad it is to say so of a right one."""

USUAL: Entries = {"mutants": "found", "float64": "pass", "float32": "pass", "float32-alone": "pass", "battery": [],
                  "modules": []}  # fmt: skip
"""What is said of most names, which are not written down."""


def lower(section: str, before: Any, now: Any) -> Iterator[str]:
    """Say what an entry has lost."""
    if section in ("battery", "modules"):
        yield from (f"{blamed}, which it was not" for blamed in now if blamed not in before)
        return
    if section != "zoo":
        ranks = WRONG if section == "mutants" else RIGHT
        if ranks[now] > ranks[before]:
            yield f"was {before}, and is {now}"
        return
    for quality in ("found", "named", "silent"):
        if before[quality] and not now[quality]:
            yield f"was {quality}, and is not"
    for finder in sorted({*before["finders"]} - {*now["finders"]}):
        yield f"`{finder}` found it, and does not"


def frozen(section: str, entries: Entries) -> Entries:
    """Return a section as it is written: the number of names, and the entries that are not the usual one."""
    odd = {name: entry for name, entry in sorted(entries.items()) if entry != USUAL.get(section)}
    return {"tried": len(entries), "entries": odd}


def compare(section: str, before: Entries, now: Entries, *, whole: bool) -> list[str]:
    """Return a line for each thing that is lower than in the frozen section."""
    fewer = [f"{section}: {before['tried']} names were tried, now {len(now)}"] if len(now) < before["tried"] else []
    usual = USUAL.get(section)
    return (fewer if whole else []) + [
        f"{section}: {name}: {text}"
        for name, entry in now.items()
        if (known := before["entries"].get(name, usual)) is not None
        for text in lower(section, known, entry)
    ]


def summary(section: str, entries: Entries) -> str:
    """Count the entries of each kind, in a line."""
    if section == "zoo":
        counts = Counter(quality for entry in entries.values() for quality, holds in entry.items() if holds is True)
    else:
        counts = Counter(", ".join(entry) or "pass" if isinstance(entry, list) else entry for entry in entries.values())
    return f"{section}: {len(entries)} tried, " + ", ".join(f"{count} {value}" for value, count in counts.most_common())


# -- the command line ------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--part", type=Part.parse, metavar="I/N", help="every N-th name from the I-th")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--freeze", action="store_true", help=f"write {FROZEN.name}")
    options = parser.parse_args()
    if options.freeze and options.part:
        parser.error("--freeze takes whole sections")
    stored = json.loads(FROZEN.read_text()) if FROZEN.exists() else {"torch": torch.__version__, "sections": {}}
    if stored["torch"] != torch.__version__ and not options.freeze:
        sys.exit(f"{FROZEN.name} was written with torch {stored['torch']}; this is {torch.__version__}")
    parts = [options.part] if options.part else [Part(i + 1, PARTS) for i in range(PARTS)]
    worse: list[str] = []
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for section in options.names or SECTIONS:
            now = measured(section, parts, pool)
            print(summary(section, now), flush=True)
            if options.freeze:
                stored["sections"][section] = frozen(section, now)
            elif section not in stored["sections"]:
                worse.append(f"{section}: it was never frozen; write it by `net.py {section} --freeze`")
            else:
                worse += compare(section, stored["sections"][section], now, whole=not options.part)
    if options.freeze:
        FROZEN.write_text(json.dumps({**stored, "torch": torch.__version__}, indent=1) + "\n")
    print(*worse, f"{len(worse)} lower", sep="\n")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
