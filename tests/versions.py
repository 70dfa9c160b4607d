"""A slice of the tests on several versions of torch and Python, and the table of the READMEs that it fills.

    python -m tests.versions .venv .venv-*      # environments, such as `make smoke` makes them
    python -m tests.versions .venv .venv-* --write

It exits with 1 where a test failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLICE = (
    "tests/check/test_forked.py", "tests/spec", "tests/kernels", "tests/doors", "tests/wrong_use",
    "tests/test_imports.py", "tests/test_hot_path.py", "tests/test_composed.py", "tests/test_compile.py",
    "tests/test_errors.py", "tests/test_tracebacks.py", "tests/mesh", "tests/kinds/test_mutated.py",
)  # fmt: skip
"""Tests of all that hangs on torch's insides: private names, the hot path, transforms, compilers.

First those that fork: torch refuses gradients in a child of a process in which a device has threads of its own.
"""

_ASK = "import platform, torch; print(torch.__version__.partition('+')[0], platform.python_version())"


def ran(environment: Path) -> tuple[str, str, int, int]:
    """The versions of torch and Python in an environment, and how many tests passed and failed."""
    python = environment / "bin/python"
    asked = subprocess.run([python, "-c", _ASK], cwd=ROOT, capture_output=True, text=True, check=True)
    torch, version = asked.stdout.split()
    command = [python, "-m", "pytest", "-q", "-n", "2", "--tb=short", *SLICE]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", out.splitlines()[-1])}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if failed or "passed" not in counts:
        print(out)
    return torch, ".".join(version.split(".")[:2]), counts.get("passed", 0), failed or int("passed" not in counts)


def table(results: list[tuple[str, str, int, int]]) -> str:
    """Versions of torch across, of Python down; in the cells the tests that passed, and failed where any did."""
    found = {(torch, python): f"{passed:,}" + (f", {failed} failed" if failed else "")
             for torch, python, passed, failed in results}  # fmt: skip
    across, down = ({versions[i] for versions in found} for i in (0, 1))
    torches = sorted(across, key=lambda version: [int(part) for part in version.split(".")])
    lines = ["| torch | " + " | ".join(torches) + " |", "|---|" + "---|" * len(torches)]
    for python in sorted(down, key=lambda version: int(version.split(".")[1])):
        lines.append(f"| Python {python} | " + " | ".join(found.get((torch, python), "-") for torch in torches) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="put the table into the READMEs")
    options = parser.parse_args()
    results = []
    for environment in options.environments:
        results.append(ran(environment))
        print(*results[-1], flush=True)
    text = table(results)
    print(text)
    if options.write:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from _timing import README, put

        put("versions", text, [README, README.with_suffix(".zh.md")])
    return int(any(failed for *_, failed in results))


if __name__ == "__main__":
    sys.exit(main())
