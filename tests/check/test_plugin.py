"""`pytest --torchgraft`: as a user runs it, with the plugin found by its entry point."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import torchgraft
from torchgraft._check.command.plugin import Checks

from .. import fresh

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
SPIKING = """
import torch


class Spike(torch.autograd.Function):
    surrogate = {"v": torch.sigmoid}

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        return grad * torch.sigmoid(v) * torch.sigmoid(-v) * (1 + 1e-4)

    @staticmethod
    def samples(generator):
        yield torch.randn(3, dtype=torch.float64, generator=generator)
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
    "spiking.py": SPIKING,
    "test_plain.py": "def test_plain():\n    pass\n",
    "pytest.ini": "[pytest]\nstrict = true\nfilterwarnings = error\n",
}


class Session:
    """What one run of pytest gave: its exit status, what it printed, and how each test ended."""

    def __init__(self, process):
        self.status = process.returncode
        self.text = process.stdout + process.stderr
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


def alone(*arguments, **options):
    """Run Python as a process that has imported nothing."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def run(folder):
    def run(*arguments, python=fresh.run):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        paths = [str(folder / "site"), str(SOURCES), inherited.get("PYTHONPATH", "")]
        environment = inherited | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}
        # Assertions in what is imported already cannot be rewritten, of which pytest warns.
        arguments = ("-m", "pytest", "-p", "no:cacheprovider", "--assert", "plain", *arguments)
        return Session(python(*arguments, cwd=folder / "project", env=environment))

    return run


def checks(**options):
    """What a run of pytest with these options checks."""
    default = {
        "torchgraft": ["ops.py"], "torchgraft_seed": 0, "torchgraft_budget": None, "torchgraft_device": "cpu",
        "torchgraft_compilers": False, "torchgraft_inductor": False, "torchgraft_accuracy": None,
    }  # fmt: skip
    return Checks(SimpleNamespace(getoption=(default | options).__getitem__))


# -- one run, as users read it ----------------------------------------------------------------------------------------

SOME = ("-k", "plain or samples or gradient and not layouts")


@pytest.fixture(scope="module")
def session(run):
    return run("-v", "-rs", "--torchgraft", "ops.py", "--torchgraft-seed", "3", *SOME)


@pytest.mark.slow
def test_each_operator_and_check_is_a_test(session):
    assert session.status == 1, session.text[-3000:]
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("count", ["1", "2"])
def test_the_same_in_other_processes(run, session, count):
    chosen = ("-k", "plain or cube and samples or cube and gradient and not layouts")
    spread = run("-v", "-n", count, "--torchgraft", "ops.py", "--torchgraft-seed", "3", *chosen)
    assert spread.status == 1, spread.text[-3000:]
    assert len(spread.outcomes) == 3
    assert spread.outcomes.items() <= session.outcomes.items()
    assert session.paragraph("cube: gradient") in spread.text


# -- what is collected ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ids(run):
    """Of several places that overlap."""
    places = ("pack", "pack/first.py", "ops.py:cube", "pack.first:square")
    options = [option for place in places for option in ("--torchgraft", place)]
    lines = run("--collect-only", "-q", "-m", "torchgraft", "--torchgraft-inductor", *options).text.splitlines()
    return [line for line in lines if "::" in line]


@pytest.mark.slow
def test_a_package_is_walked_and_nothing_is_checked_twice(ids):
    names = ("square", "cube", "rough", "lost")
    assert [name for name in ids if name.endswith("::gradient")] == [
        *(f"torchgraft::pack/first.py::{name}::gradient" for name in names),
        "torchgraft::ops.py::cube::gradient",
        "torchgraft::pack.first::square::gradient",  # another place
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_names_of_checks_have_no_spaces(ids):
    assert "torchgraft::pack.first::square::layouts-of-inputs" in ids


def test_the_mark_chooses_checks_alone(ids):
    assert ids
    assert all(name.startswith("torchgraft::") for name in ids)


def test_compilers_are_asked_for(ids):
    assert "torchgraft::ops.py::cube::inductor" in ids

    def names(**options):
        return {check.name for check in checks(**options).settings.checks()}

    assert names(torchgraft_inductor=True) - names() == {"inductor"}
    assert names(torchgraft_compilers=True) - names() == {"compile", "export", "opcheck"}


# -- wrong use --------------------------------------------------------------------------------------------------------


WRONG = {
    "bad.py": ["'bad.py': cannot be imported", "ZeroDivisionError: division by zero", "bad.py, line 4", "return 1 / 0"],
    "nowhere.py": ["'nowhere.py': cannot be imported", "there is no file"],
    "ops.py:nothing": ["'ops.py:nothing': does not exist", "expected: square, cube, rough, lost, Unsaid"],
    "empty.py": ["empty.py: nothing is declared there that can be checked"],
    "ops.py:Unsaid": ["'ops.py:Unsaid': cannot be checked from here", "nothing says what it takes"],
}


@pytest.mark.slow
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
    ("options", "said"),
    [
        ({"torchgraft_device": "nonsense"}, "argument '--torchgraft-device': cannot be used"),
        ({"torchgraft_budget": 0.0}, "--torchgraft-budget: no number of seconds above 0"),
    ],
)
def test_options_that_cannot_be(options, said):
    with pytest.raises(pytest.UsageError, match=re.escape(said)):  # of which pytest prints one line
        checks(**options)


@pytest.fixture(scope="module")
def ended(run):
    """Targets that leave the interpreter, and one that is slow."""
    chosen = ("-k", "samples or slow and gradient and not layouts")
    return run("-v", "--torchgraft", "leaves.py", "--torchgraft", "slow.py", "--torchgraft-budget", "0.5", *chosen)


@pytest.mark.slow
def test_a_target_that_leaves_is_a_failure(ended):
    assert ended.status == 1
    for name, call in {"leaves": "os._exit(0)", "exits": "sys.exit(0)"}.items():
        said = ended.paragraph(f"{name}: samples")
        assert said.startswith(f"FAIL: The target ends its process: {call}")
        assert "leaves.py, line " in said
        assert "Traceback" not in said


@pytest.mark.slow
def test_a_budget_is_kept_in_each_test(ended):
    assert ended.outcomes["torchgraft::slow.py::slow::samples"] == "PASSED"
    assert ended.outcomes["torchgraft::slow.py::slow::gradient"] == "FAILED"
    assert ended.paragraph("slow: gradient").startswith("INCONCLUSIVE: not tried: the 0.5 s were over")


@pytest.mark.slow
def test_nothing_is_imported_where_nothing_is_asked_for(run, folder):
    (folder / "project/test_light.py").write_text(
        "import sys\n\ndef test_light():\n    assert 'torch' not in sys.modules\n"
    )
    session = run("-v", "test_light.py", python=alone)
    assert (session.status, session.outcomes) == (0, {"test_light.py::test_light": "PASSED"})
    assert "torchgraft-0.0" in session.text  # the plugin is there
    assert "--torchgraft=TARGET" in run("--help", python=alone).text


# -- what targets declare ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_surrogates_and_an_accuracy_are_taken(run):
    test = "torchgraft::spiking.py::Spike::gradient"
    chosen = ("--torchgraft", "spiking.py", "-v", "-k", "gradient and not layouts")
    assert run(*chosen).outcomes[test] == "FAILED"
    session = run(*chosen, "--torchgraft-accuracy", "1e-3")
    assert session.outcomes[test] == "PASSED", session.text
