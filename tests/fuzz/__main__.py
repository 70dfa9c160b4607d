"""``python -m tests.fuzz --seconds 600``: random declarations under random transforms, for as long as you like.

The cases run in child processes, so that a crash or a hang ends one of them and not the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

from .report import Failure, Report

HANG = 240.0
"""Seconds after which a case counts as hanging."""

_SETTINGS = {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1_000_000, help="stop after so many cases")
    parser.add_argument("--chunk", type=int, default=1000, help="cases of one child process")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), help="where the programs of failures are written"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return child(options.child, options.seed, options.chunk, options.seconds)
    report = parent(options)
    print(report.table())
    for found in report.failures:
        print(f"    {options.out / found.file}")
    return 1 if report.failures else 0


# -- a child ----------------------------------------------------------------------------------------------------------


def child(folder: Path, seed: int, count: int, seconds: float) -> int:
    import torch

    from .search import search

    torch.set_num_threads(1)
    known = Report.from_json((folder / "known.json").read_text())
    report = Report(failures=list(known.failures))

    def before(case) -> None:
        (folder / "case.py").write_text(case.program())

    def save() -> None:
        (folder / "report.json.part").write_text(report.to_json())
        (folder / "report.json.part").replace(folder / "report.json")

    search(seed, count, report, until=time.monotonic() + seconds, before=before, after=save)
    save()
    return 0


# -- the parent -------------------------------------------------------------------------------------------------------


@dataclass
class Child:
    """A running child process and its folder."""

    process: subprocess.Popen[bytes]
    folder: Path
    seed: int
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "log"

    def ended(self) -> bool:
        """Whether it is over; one that hangs is ended."""
        file = self.folder / "case.py"
        if self.process.poll() is None and file.exists() and time.time() - file.stat().st_mtime > HANG:
            self.process.kill()
            self.process.wait()
        return self.process.poll() is not None

    def report(self) -> Report:
        """What it has found; how it ended, where it has not ended by itself."""
        file, case = self.folder / "report.json", self.folder / "case.py"
        report = Report.from_json(file.read_text()) if file.exists() else Report()
        if self.process.returncode == 0:
            return report
        ending = "hang" if self.process.returncode == -9 else "crash"
        if case.exists():
            tail = self.log.read_text(errors="replace")[-8000:]
            program = case.read_text()
            if dies_in_plain_torch(program, self.folder / "plain.py"):
                report.kinds["skipped"] += 1
                report.skipped[f"the expression, too, ends in a {ending}"] += 1
                return report
            report.kinds[ending] += 1
            report.add(
                Failure(
                    ending,
                    f"return code {self.process.returncode}",
                    (str(self.seed),),
                    (),
                    program + "\n" + textwrap.indent(tail, "# "),
                )
            )
        else:
            print(self.log.read_text(errors="replace")[-3000:], file=sys.stderr)
            raise SystemExit("a child process did not start")
        return report


def dies_in_plain_torch(program: str, file: Path) -> bool:
    """Whether a program crashes or hangs with the expression in the place of the operator, too."""
    file.write_text(program.replace("print(verdict(case, fuzzed, truth,", "print(verdict(case, truth, truth,"))
    environment = {**os.environ, **_SETTINGS}
    try:
        ran = subprocess.run([sys.executable, file], capture_output=True, timeout=HANG, env=environment)
    except subprocess.TimeoutExpired:
        return True
    return ran.returncode < 0


def parent(options: argparse.Namespace) -> Report:
    report, end = Report(), time.monotonic() + options.seconds
    running: list[Child] = []
    started = 0

    def wanted() -> bool:
        return time.monotonic() < end - 5 and sum(report.kinds.values()) < options.cases

    with tempfile.TemporaryDirectory() as folder:
        try:
            while running or wanted():
                while len(running) < options.jobs and wanted():
                    place = Path(folder) / str(started)
                    place.mkdir()
                    seed = 1_000_003 * options.seed + 101 * started
                    running.append(start(place, options, seed, end - time.monotonic(), report))
                    started += 1
                time.sleep(0.5)
                for one in [one for one in running if one.ended()]:
                    running.remove(one)
                    report.merge(one.report())
                    report.write(options.out)
                    print(
                        f"{sum(report.kinds.values())} cases, {len(report.failures)} failures",
                        file=sys.stderr,
                        flush=True,
                    )
        finally:
            for one in running:
                one.process.kill()
    return report


def start(folder: Path, options: argparse.Namespace, seed: int, seconds: float, report: Report) -> Child:
    (folder / "known.json").write_text(Report(failures=report.failures).to_json())
    command = [sys.executable, "-m", "tests.fuzz", "--child", str(folder), "--seed", str(seed)]
    command += ["--chunk", str(min(options.chunk, options.cases)), "--seconds", str(seconds)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **_SETTINGS})
    return Child(process, folder, seed)


if __name__ == "__main__":
    sys.exit(main())
