"""`pytest --torchgraft`: as a user runs it, with the plugin found by its entry point."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import torchgraft

SOURCES = Path(torchgraft.__file__).parents[1]
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

OPS = """
import threading
import time

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


def made(name, kernel, partial):
    lock = threading.Lock()  # which cannot be pickled, nor can what closes over it

    def call(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        with lock:
            print("from the kernel")
            return kernel(x)

    made = tg.op(name=name)(call)
    made.partial("x")(lambda x: partial(x))
    return made


square = made("square", lambda x: x * x, lambda x: 2 * x)
cube = made("cube", lambda x: x**3, lambda x: 2 * x**2)
rough = made("rough", torch.sin, lambda x: (1 + 1e-9) * torch.cos(x))
lost = made("lost", lambda x: x * float("nan"), lambda x: x)


class Unsaid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad
"""
SLOW = """
import time
import torch

def slow(x):
    time.sleep(0.1)
    return x * x

slow.samples = lambda: [torch.ones(2, dtype=torch.float64)]
"""
LEAVES = """
import os, sys
import torch

def leaves(x):
    os._exit(0)

def exits(x):
    sys.exit(0)

leaves.samples = exits.samples = lambda: [torch.ones(2, dtype=torch.float64)]
"""
FILES = {
    "ops.py": OPS,
    "slow.py": SLOW,
    "leaves.py": LEAVES,
    "empty.py": "number = 3\n",
    "bad.py": "import torch\n\ndef half():\n    return 1 / 0\n\nhalf()\n",
    "pack/__init__.py": "",
    "pack/first.py": OPS,
    "pack/second.py": "from .first import square\nimport torchgraft as tg\n",
    "test_plain.py": "def test_plain():\n    pass\n",
    "pytest.ini": "[pytest]\nstrict = true\nfilterwarnings = error\n",
}


class Session:
    """What one run of pytest gave: its exit status, what it printed, and how each test ended."""

    def __init__(self, process):
        self.status = process.returncode
        self.text = process.stdout
        found = re.findall(r"^(?:\[.*?\] )?(\S+::\S+) (?:<- \S+ )?([A-Z]+)\b", self.text, re.M)
        found += [(i, o) for o, i in re.findall(r"^\[gw\d\] \[ *\d+%\] ([A-Z]+) (\S+)", self.text, re.M)]
        self.outcomes = dict(found)

    def paragraph(self, headline):
        """What is said of a failure."""
        return re.search(rf"^_+ {re.escape(headline)} _+\n(.*?)(?=^[_=]{{5}})", self.text, re.M | re.S)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A project, and beside it what an installation leaves: metadata with the entry points of `pyproject.toml`."""
    folder = tmp_path_factory.mktemp("plugin")
    for name, text in FILES.items():
        (folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "project" / name).write_text(text)
    metadata = folder / "site/torchgraft-0.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torchgraft\nVersion: 0.0\n")
    points = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["pytest11"]
    lines = ["[pytest11]", *(f"{name} = {place}" for name, place in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def run(folder):
    def run(*arguments):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        paths = [str(folder / "site"), str(SOURCES), inherited.get("PYTHONPATH", "")]
        process = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=folder / "project",
            env=inherited | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return Session(process)

    return run


# -- one run, as users read it ----------------------------------------------------------------------------------------

SOME = ("-k", "plain or samples or gradient and not layouts")


@pytest.fixture(scope="module")
def session(run):
    return run("-v", "-rs", "--torchgraft", "ops.py", "--torchgraft-seed", "3", *SOME)


def test_each_operator_and_check_is_a_test(session):
    assert session.status == 1
    assert session.outcomes == {
        "test_plain.py::test_plain": "PASSED",
        "torchgraft::ops.py::square::samples": "PASSED",
        "torchgraft::ops.py::square::gradient": "PASSED",
        "torchgraft::ops.py::cube::samples": "PASSED",
        "torchgraft::ops.py::cube::gradient": "FAILED",
        "torchgraft::ops.py::rough::samples": "PASSED",
        "torchgraft::ops.py::rough::gradient": "FAILED",
        "torchgraft::ops.py::lost::samples": "PASSED",
        "torchgraft::ops.py::lost::gradient": "FAILED",
        "torchgraft::ops.py::Unsaid::samples": "SKIPPED",
    }


def test_a_failure_is_a_paragraph_and_no_traceback(session):
    said = session.paragraph("cube: gradient")
    assert said.startswith("FAIL: The gradient of `x` is wrong\n\n1. The gradient of `x` is wrong\n")
    assert re.search(r"^ +cause +\S", said, re.M)
    assert re.search(r"^ +repro +\S", said, re.M)
    assert ".py:" not in said.partition("repro")[0]
    assert session.paragraph("rough: gradient").startswith("LOSES_DIGITS: ")


def test_what_could_not_be_told_fails(session):
    said = session.paragraph("lost: gradient")
    assert said.startswith("INCONCLUSIVE: ")
    assert "no element of the outputs is finite" in said


def test_a_skip_says_why_and_where(session):
    line = OPS.splitlines().index("class Unsaid(torch.autograd.Function):") + 1
    assert f"SKIPPED [1] ops.py:{line}: nothing says what it takes" in session.text


def test_what_kernels_print_is_not_shown(session):
    assert "from the kernel" not in session.text


def test_the_header_says_how_to_draw_the_same(session):
    assert "torchgraft: ops.py; seed 3\n" in session.text


def test_the_same_in_several_processes(run, session):
    spread = run("-v", "-n", "2", "--torchgraft", "ops.py", "--torchgraft-seed", "3", *SOME)
    assert spread.status == 1
    assert spread.outcomes == session.outcomes
    for headline in ("cube: gradient", "rough: gradient", "lost: gradient"):
        assert session.paragraph(headline) in spread.text


# -- what is collected ------------------------------------------------------------------------------------------------


def collected(run, *arguments):
    lines = run("--collect-only", "-q", *arguments).text.splitlines()
    return [line for line in lines if "::" in line]


def test_a_package_is_walked_and_nothing_is_checked_twice(run):
    places = ["--torchgraft", "pack", "--torchgraft", "pack/first.py", "--torchgraft", "ops.py:cube"]
    ids = collected(run, *places, "-k", "gradient and not layouts")
    names = ("square", "cube", "rough", "lost")
    assert ids == [
        *(f"torchgraft::pack/first.py::{name}::gradient" for name in names), "torchgraft::ops.py::cube::gradient"
    ]  # fmt: skip


def test_a_module_by_its_name(run):
    ids = collected(run, "--torchgraft", "pack.first:square")
    assert "torchgraft::pack.first::square::gradient" in ids
    assert "torchgraft::pack.first::square::layouts-of-inputs" in ids
    assert not any("inductor" in name for name in ids)


def test_inductor_is_asked_for(run):
    ids = collected(run, "--torchgraft", "pack.first:square", "--torchgraft-inductor")
    assert "torchgraft::pack.first::square::inductor" in ids


def test_marks(run):
    ids = collected(run, "--torchgraft", "ops.py", "-m", "torchgraft")
    assert ids
    assert all(name.startswith("torchgraft::ops.py::") for name in ids)
    assert collected(run, "--torchgraft", "ops.py", "-m", "not torchgraft") == ["test_plain.py::test_plain"]


# -- wrong use --------------------------------------------------------------------------------------------------------


WRONG = {
    "bad.py": ["'bad.py': cannot be imported", "ZeroDivisionError: division by zero", "bad.py, line 4", "return 1 / 0"],
    "nowhere.py": ["'nowhere.py': cannot be imported", "there is no file"],
    "ops.py:nothing": ["'ops.py:nothing': does not exist", "expected: square, cube, rough, lost, Unsaid"],
    "empty.py": ["empty.py: nothing is declared there that can be checked"],
    "ops.py:Unsaid": ["'ops.py:Unsaid': cannot be checked from here", "nothing says what it takes"],
}


def test_what_cannot_be_collected_is_an_error_without_a_traceback(run):
    session = run(*(argument for place in WRONG for argument in ("--torchgraft", place)))
    assert session.status == 2
    for place, said in WRONG.items():
        assert f"ERROR torchgraft::{place}" in session.text
        message = session.text.partition(said[0])[2].partition("\n_")[0]
        for words in said[1:]:
            assert words in message
    assert "Traceback" not in session.text
    assert "plugin.py" not in session.text


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--torchgraft-device=nonsense", "argument '--torchgraft-device': cannot be used"),
        ("--torchgraft-budget=0", "--torchgraft-budget: no number of seconds above 0"),
    ],
)
def test_options_that_cannot_be(run, option, said):
    session = run("--torchgraft", "ops.py", option)
    assert session.status == 4
    assert f"ERROR: {said}" in session.text
    assert "Traceback" not in session.text


def test_a_target_that_leaves_is_a_failure(run):
    session = run("-v", "--torchgraft", "leaves.py", "-k", "samples")
    assert session.status == 1
    for name, call in {"leaves": "os._exit(0)", "exits": "sys.exit(0)"}.items():
        said = session.paragraph(f"{name}: samples")
        assert said.startswith(f"FAIL: The target leaves the interpreter: {call}")
        assert "leaves.py, line " in said
        assert "Traceback" not in said


def test_a_budget_is_kept_in_each_test(run):
    session = run(
        "-v", "--torchgraft", "slow.py", "--torchgraft-budget", "0.5", "-k", "samples or mutation or gradient"
    )
    assert session.status == 1
    assert session.outcomes["torchgraft::slow.py::slow::samples"] == "PASSED"
    assert session.outcomes["torchgraft::slow.py::slow::gradient"] == "FAILED"
    assert session.paragraph("slow: gradient").startswith("INCONCLUSIVE: not tried: the 0.5 s were over")


def test_nothing_is_imported_where_nothing_is_asked_for(run, folder):
    (folder / "project/test_light.py").write_text(
        "import sys\n\ndef test_light():\n    assert 'torch' not in sys.modules\n"
    )
    session = run("-v", "test_light.py")
    assert (session.status, session.outcomes) == (0, {"test_light.py::test_light": "PASSED"})
    assert "torchgraft-0.0" in session.text  # the plugin is there
    assert "--torchgraft=TARGET" in run("--help").text
