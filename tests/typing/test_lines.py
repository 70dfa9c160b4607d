"""Type checkers refuse the lines of `lines.py` that are wrong, and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from . import stubs

LINES = Path(__file__).with_name("lines.py")
ROOT = Path(__file__).parents[2]


def mypy():
    command = [sys.executable, "-m", "mypy", "--strict", "--output=json", str(LINES)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    return {(one["line"], one["message"]) for one in found if one["severity"] == "error"}


def pyright():
    command = [sys.executable, "-m", "basedpyright", "--level=error", "--outputjson", f"--pythonpath={sys.executable}"]
    ran = subprocess.run([*command, str(LINES)], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stderr
    found = json.loads(ran.stdout)["generalDiagnostics"]
    return {(one["range"]["start"]["line"] + 1, one["message"]) for one in found}


# `make quick` runs both. They refuse the same lines, and mypy reads torch for twenty seconds.
@pytest.mark.slow
@pytest.mark.parametrize("checker", [pyright, mypy])
def test_lines_that_are_refused(checker):
    text = LINES.read_text().splitlines()
    wrong = {number for number, line in enumerate(text, 1) if line.endswith("# wrong")}
    missed = {number for number, line in enumerate(text, 1) if "# missed" in line}
    found = checker()
    assert wrong
    assert missed.isdisjoint(number for number, _ in found), "one line more is refused: say so"
    assert {number: text[number - 1] for number in wrong - {number for number, _ in found}} == {}
    assert {f"{number}: {text[number - 1]}": said for number, said in found if number not in wrong} == {}


def test_the_stub_of_the_special_functions():
    assert stubs.STUB.read_text() == stubs.text(), "python -m tests.typing.stubs"
