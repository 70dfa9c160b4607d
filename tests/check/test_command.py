"""`torchgraft check`: what it collects, prints and writes, how it exits, and what wrong use does to it."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from torchgraft import cli
from torchgraft._check.checks.table import NAMED
from torchgraft._check.command import command
from torchgraft._check.command.collect import collect

from .. import fresh

HEAD = """
import os, sys, time, ctypes
import torch
from jaxtyping import Float
from torch import Tensor
import torchgraft as tg
"""
SQUARE = """
@tg.op
def square(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x * x

@square.partial("x")
def _(x):
    return 2 * x
"""
CUBE = SQUARE.replace("square", "cube").replace("x * x", "x**3").replace("2 * x", "2 * x**2")  # which is wrong
FUNCTION = """
class Sin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()
"""
SAMPLES = """
    @staticmethod
    def samples(generator):
        yield torch.randn(3, dtype=torch.float64, generator=generator)
"""
RUN = "import sys; from torchgraft.cli import main; sys.exit(main())"
QUICK = ("--only", "gradient,linearity")


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """In a folder of its own; what is imported there is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def write(body, name="ops.py", head=HEAD):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + textwrap.dedent(body))
        return name

    return write


@pytest.fixture
def check(capsys):
    """Run the command: its exit status, and what it printed."""

    def check(*arguments):
        status = cli.main(["check", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return check


def read_json():
    return json.loads(Path("out.json").read_text())


def verdicts(out):
    """The lines about targets: place and verdict."""
    return {place: verdict for verdict, place in re.findall(r"^([A-Z_]+) {2,}(\S+:\S+)  ", out, re.M)}


# -- what passes, and what does not -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_right_passes(write, check):
    status, out, err = check(write(SQUARE))
    assert (status, err) == (0, "")
    first, blank, last = out.splitlines()
    assert re.fullmatch(r"PASS +ops.py:square  \d+ checks passed, \d+ skipped; [\d.]+ m?s", first)
    assert (blank, last.partition(";")[0]) == ("", "1 target: 1 PASS")


@pytest.mark.slow
def test_what_is_wrong_is_found(write, check):
    status, out, _ = check(write(SQUARE + CUBE), *QUICK)
    assert status == 1
    assert verdicts(out) == {"ops.py:square": "PASS", "ops.py:cube": "FAIL"}
    assert "1. The gradient of `x` is wrong" in out
    assert "ops.py:square (" not in out  # only what did not pass has a paragraph
    assert out.splitlines()[-1].startswith("2 targets: 1 FAIL, 1 PASS; ")


@pytest.mark.slow
def test_every_finding_can_be_seen_again(write, check):
    _, out, _ = check(write(CUBE), *QUICK)
    assert re.search(r"repro +\S", out)


@pytest.mark.slow
def test_lost_digits_are_no_pass(write, check):
    imprecise = SQUARE.replace("2 * x", "2 * x * (1 + 1e-9)")
    status, out, _ = check(write(imprecise), *QUICK)
    assert (status, verdicts(out)) == (1, {"ops.py:square": "LOSES_DIGITS"})


# -- what is collected ------------------------------------------------------------------------------------------------


def test_what_is_imported_is_not_collected(write, check):
    write(SQUARE, "elsewhere.py")
    status, out, _ = check(
        write("from elsewhere import square\nfrom elsewhere import square as again\n" + CUBE), *QUICK
    )
    assert (status, list(verdicts(out))) == (1, ["ops.py:cube"])


def test_a_target_with_two_names_is_checked_once(write, check):
    assert list(verdicts(check(write(SQUARE + "again = square\n"), "ops.py", *QUICK)[1])) == ["ops.py:square"]


EXPORTS = {
    "exporting": "from .ops import square as square\n",
    "exporting_late": """
import importlib

def __dir__():
    return ["square", "missing"]

def __getattr__(name):
    if name == "missing":
        import no_such_package
    if name == "square":
        return importlib.import_module(".ops", __name__).square
    raise AttributeError(name)
""",
}


@pytest.mark.parametrize("name", EXPORTS)
def test_what_a_package_does_not_export_is_its_own_affair(tmp_path, monkeypatch, name):
    package = tmp_path / "library" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(EXPORTS[name])
    (package / "ops.py").write_text(HEAD + SQUARE + CUBE)
    (package / "others.py").write_text(HEAD + CUBE + SQUARE.replace("square", "_square"))  # nothing of it is exported
    monkeypatch.syspath_prepend(package.parent)
    found = {entry.place: entry.why_not for entry in collect(name)}
    for private in (f"{name}.ops:cube", f"{name}.others:_square"):
        assert found.pop(private).startswith("it is private to its package")
    assert found == {f"{name}.ops:square": "", f"{name}.others:cube": ""}
    assert [entry.why_not for entry in [*collect(f"{name}.ops"), *collect(f"{name}.ops:cube")]] == ["", "", ""]


def test_operators_that_helpers_of_a_package_declare_are_found(tmp_path, monkeypatch):
    package = tmp_path / "library" / "helping"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .rows import twice as twice\n")
    (package / "helper.py").write_text(
        HEAD + "def declare(name, factor):\n"
        "    def f(x: Float[Tensor, '...']) -> Float[Tensor, '...']:\n        return factor * x\n"
        "    f.__module__ = 'helping.rows'\n    return tg.op(name=name)(f)\n"
    )
    (package / "rows.py").write_text("from .helper import declare\ntwice = declare('twice', 2.0)\n")
    (package / "script.py").write_text("raise RuntimeError('a script that declares nothing')\n")
    monkeypatch.syspath_prepend(package.parent)
    assert [(entry.place, entry.why_not) for entry in collect("helping")] == [("helping.rows:twice", "")]


@pytest.mark.slow
def test_a_function_is_checked_on_its_samples(write, check):
    status, out, _ = check(write(FUNCTION + SAMPLES), *QUICK)
    assert (status, verdicts(out)) == (0, {"ops.py:Sin": "PASS"})
    wrong = (FUNCTION + SAMPLES).replace("x.cos()", "-x.cos()")
    status, out, _ = check(write(wrong, "wrong.py"), *QUICK)
    assert (status, verdicts(out)) == (1, {"wrong.py:Sin": "FAIL"})


@pytest.mark.slow
def test_a_base_class_is_no_target(write, check):
    base = "class Base(torch.autograd.Function):\n    pass\n"
    assert list(verdicts(check(write(base + SQUARE), *QUICK)[1])) == ["ops.py:square"]


def test_functions_of_torchgraft_are_collected_too(write, check):
    hardened = (FUNCTION + SAMPLES).replace("torch.autograd.Function", "tg.Function")
    assert verdicts(check(write("Function = tg.Function\n" + hardened), *QUICK)[1]) == {"ops.py:Sin": "PASS"}


def test_samples_serve_the_call_as_well(write, check):
    scope = {}
    exec(HEAD + FUNCTION + SAMPLES, scope)
    for target in (scope["Sin"], scope["Sin"].apply):
        report = scope["tg"].check(target, only=["gradient"])
        assert report.ok
        assert report.results[0].case == "x: float64[3]"


@pytest.mark.slow
def test_a_function_is_checked_by_its_annotations(write, check):
    annotated = FUNCTION.replace("(ctx, x):", '(ctx, x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:')
    assert check(write(annotated), *QUICK)[0] == 0
    assert check(write(annotated.replace("x.cos()", "x.sin()"), "wrong.py"), *QUICK)[0] == 1


@pytest.mark.slow
def test_what_says_not_what_it_takes_is_listed(write, check):
    status, out, _ = check(write(SQUARE + FUNCTION), *QUICK)
    assert verdicts(out) == {"ops.py:square": "PASS", "ops.py:Sin": "SKIPPED"}
    assert "nothing says what it takes" in out
    assert status == 0


def test_nothing_that_passed_is_no_pass(write, check):
    status, out, _ = check(write(FUNCTION))
    assert (status, verdicts(out)) == (1, {"ops.py:Sin": "SKIPPED"})


OTHERS = """
@torch.library.custom_op("test_command::exp", mutates_args=())
def exp(x: Tensor) -> Tensor:
    return x.exp()

exp.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)
exp.samples = lambda: [torch.ones(3, dtype=torch.float64)]

class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        return self.weight * x

    @staticmethod
    def samples():
        yield torch.arange(3, dtype=torch.float64)

class Unsaid(torch.nn.Linear):
    pass

def twice(x, factor):
    return factor * x

def unsaid(x):
    return x

twice.samples = lambda generator: [{"x": torch.randn(2, dtype=torch.float64, generator=generator), "factor": 2.0}]
layer = torch.nn.Linear(2, 3).double()
layer.samples = lambda: [torch.ones(4, 2, dtype=torch.float64)]
"""


@pytest.mark.slow
def test_other_kinds_are_checked_where_they_have_samples(write, check):
    assert check(write(OTHERS), *QUICK, "--json", "out.json")[0] == 0
    report = read_json()
    assert {target["target"]: target["kind"] for target in report["targets"]} == {
        "ops.py:exp": "library", "ops.py:Scale": "module", "ops.py:twice": "callable", "ops.py:layer": "module",
    }  # fmt: skip
    assert {case["case"] for target in report["targets"] for case in target["results"]} >= {
        "x: float64[3]", "weight: float64[3], x: float64[3]",
    }  # fmt: skip


@pytest.mark.slow
def test_the_parameters_of_a_module_are_checked(write, check):
    wrong = OTHERS.replace("self.weight * x", "self.weight.detach() * x + self.weight - self.weight.detach()")
    status, out, _ = check(f"{write(wrong)}:Scale", *QUICK)
    assert status == 1
    assert "The gradient of `weight` is wrong" in out


@pytest.mark.slow
def test_one_target_by_its_name(write, check):
    place = write(SQUARE + CUBE + "class Inner:\n    nested = square\n")
    assert check(f"{place}:square", *QUICK)[0] == 0
    assert check(f"{place}:Inner.nested", *QUICK)[0] == 0
    assert check(f"{place}:cube", *QUICK)[0] == 1


@pytest.mark.slow
def test_a_function_with_annotations_is_checked_where_it_is_named(write, check):
    annotated = 'def double(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:\n    return 2 * x\n'
    place = write(annotated + SQUARE)
    assert verdicts(check(place, *QUICK)[1]) == {"ops.py:square": "PASS"}
    assert verdicts(check(f"{place}:double", *QUICK)[1]) == {"ops.py:double": "PASS"}


PACKAGE = {
    "pack/__init__.py": "from .one import square",
    "pack/one.py": HEAD + SQUARE,
    "pack/sub/__init__.py": "",
    "pack/sub/two.py": HEAD + "from ..one import square\n" + SQUARE.replace("square", "other"),
    "pack/tests/test_three.py": "import torchgraft\nraise RuntimeError('a test')",
    "pack/script.py": "raise RuntimeError('a script that declares nothing')",
}


@pytest.mark.parametrize(
    ("target", "places"),
    [
        ("pack", ["pack/one.py:square", "pack/sub/two.py:other"]),
        (".", ["pack/one.py:square", "pack/sub/two.py:other"]),
        ("pack.one", ["pack.one:square"]),
        ("pack/sub/two.py", ["pack/sub/two.py:other"]),
        ("pack.sub.two:other", ["pack.sub.two:other"]),
    ],
)
def test_packages_and_folders(write, check, target, places):
    for name, text in PACKAGE.items():
        write(text, name, head="")
    status, out, _ = check(target, *QUICK)
    assert (status, list(verdicts(out))) == (0, places)


@pytest.mark.slow
def test_an_installed_package_is_walked(write, check, tmp_path, monkeypatch):
    for name, text in PACKAGE.items():
        write(text.replace("pack", "installed"), f"site/{name.replace('pack', 'installed')}", head="")
    monkeypatch.syspath_prepend(tmp_path / "site")
    status, out, _ = check("installed", *QUICK)
    assert (status, list(verdicts(out))) == (0, ["installed.one:square", "installed.sub.two:other"])


@pytest.mark.slow
def test_files_may_have_the_same_name(write, check):
    write(SQUARE, "a/ops.py")
    write(CUBE, "b/ops.py")
    status, out, _ = check("a/ops.py", "b/ops.py", "a/ops.py", *QUICK)
    assert (status, verdicts(out)) == (1, {"a/ops.py:square": "PASS", "b/ops.py:cube": "FAIL"})


def test_a_file_may_be_called_as_a_module_of_pythons_own(write, check):
    import random

    assert check(write(SQUARE, "random.py"), *QUICK)[0] == 0
    assert sys.modules["random"] is random


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "meant"),
    [
        ([], True),
        (["linear"], True),
        (["LINEAR"], True),
        (["conv"], False),
        (["not conv"], True),
        (["linear", "not bias"], False),
        (["conv", "linear"], True),
        (["conv", "not relu"], False),
        (["lin*bias"], True),
        (["lin?bias"], False),
        (["ops.py:linear"], True),
    ],
)
def test_parts_of_names(patterns, meant):
    assert command.is_meant("ops.py:linear_bias", patterns) is meant


@pytest.mark.parametrize(
    "pattern", ["", "not ", "linear and conv", "linear or conv", "not linear and conv", "(a or b)"]
)
def test_expressions_of_pytest_are_refused(write, check, pattern):
    status, out, err = check(write(SQUARE), "-k", pattern)
    assert (status, out) == (2, "")
    assert "'-k': cannot be read\n  expected: a part of a name" in err


@pytest.mark.slow
def test_some_targets(write, check):
    place = write(SQUARE + CUBE)
    assert verdicts(check(place, *QUICK, "-k", "square")[1]) == {"ops.py:square": "PASS"}
    assert verdicts(check(place, *QUICK, "-k", "not cube")[1]) == {"ops.py:square": "PASS"}
    status, out, err = check(place, "-k", "nothing", "-k", "none")
    assert (status, out) == (2, "")
    assert "-k nothing -k none: matches none of ops.py:square, ops.py:cube" in err


@pytest.mark.slow
def test_some_checks(write, check):
    place = write(CUBE)
    assert check(place, "--only", "determinism", "--only", "linearity")[0] == 0
    status, _, err = check(place, "--only", "gradiant")
    assert status == 2
    assert "there is no such check" in err
    assert "gradient" in err
    assert "got:      gradiant" in err
    check(place, "--only", "linearity,gradient", "--skip", "gradient", "--json", "out.json")
    results = read_json()["targets"][0]["results"]
    assert {result["check"] for result in results} == {"linearity"}


@pytest.mark.slow
def test_compilers_are_asked_for(write, check):
    place = write(SQUARE)
    left_out = ("--skip", ",".join(name for name in NAMED if name not in ("compile", "gradient")))

    def ran(*options):
        check(place, *left_out, *options, "--json", "out.json")
        return {result["check"] for result in read_json()["targets"][0]["results"]}

    assert ran() == {"gradient"}
    assert ran("--compilers") == {"compile", "gradient"}


def test_lists(write, check):
    status, out, _ = check(write(SQUARE + FUNCTION), "--list")
    assert status == 0
    assert out.splitlines() == ["ops.py:square  operator", "ops.py:Sin  function  SKIPPED: nothing says what it takes"]
    status, out, _ = check("--list")
    assert (status, re.findall(r"^gradient .*", out, re.M)) == (
        0, [f"{'gradient':20}  The backward pass gives the derivative of the forward pass."]
    )  # fmt: skip


def test_json_alone_is_on_the_standard_output(write, check):
    noisy = SQUARE.replace("return x * x", "print('from the kernel')\n    return x * x")
    status, out, err = check(write(noisy), *QUICK, "--json", "-")
    report = json.loads(out)
    assert (status, report["ok"], report["verdict"]) == (0, True, "PASS")
    assert [target["target"] for target in report["targets"]] == ["ops.py:square"]
    assert verdicts(err) == {"ops.py:square": "PASS"}
    assert "from the kernel" not in err


@pytest.mark.slow
def test_json_alone_is_there_whoever_prints(write):
    native = "ctypes.CDLL(None).puts(b'from native code'); os.write(1, b'by the descriptor'); return x * x"
    noisy = "print('at import')" + SQUARE.replace("return x * x", native)
    process = fresh.run("-c", RUN, "check", write(noisy), *QUICK, "--json", "-")
    assert json.loads(process.stdout)["ok"]
    assert "at import" in process.stderr
    assert "from native code" not in process.stderr


@pytest.mark.slow
def test_json_says_what_the_exit_status_says(write, check):
    place = write(SQUARE + FUNCTION + CUBE)
    for left_out, status in {"cube": 0, "square": 1}.items():
        assert check(place, *QUICK, "-k", f"not {left_out}", "--json", "out.json")[0] == status
        assert read_json()["ok"] is (status == 0)


@pytest.mark.slow
def test_runs_with_one_seed_are_equal(write, check):
    def run(*arguments):
        check(write(CUBE), *QUICK, "--json", "out.json", *arguments)
        return re.sub(r'"seconds": .*', "", Path("out.json").read_text())

    assert run("--seed", "3") == run("--seed", "3")
    assert run("--seed", "3") != run("--seed", "4")


WAITS = """
    @tg.op
    def waits(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        while x.dtype is torch.bfloat16:
            pass
        return 2 * x

    @waits.vjp("x")
    def _(grad):
        return 2 * grad
"""
WAYS_IN = {
    "tg.check": "import torchgraft as tg, ops; print(tg.check(ops.waits, only='gradient'))",
    "command": "from torchgraft.cli import main; main(['check', 'ops.py', '--only', 'gradient'])",
    "pytest": "import pytest; pytest.main(['-q', '-p', 'no:cacheprovider', '--torchgraft', 'ops.py', '-k', 'samples'])",
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_generated_calls_have_an_end(write, way):
    """A call that somebody gave would wait in the user's program as well; nobody has waited for one that is made up."""
    write(WAITS)
    script = f"from torchgraft._check import endless; endless.MINUTE = 0.3; {WAYS_IN[way]}"
    out = fresh.run("-c", script, cwd=Path.cwd()).stdout
    assert "The target does not come back: a call used 0 s of CPU time" in out
    assert "while x.dtype is torch.bfloat16:" in out


@pytest.mark.slow
def test_html(write, check, tmp_path):
    check(write(SQUARE + CUBE), *QUICK, "--html", "deep/report.html")
    page = (tmp_path / "deep/report.html").read_text()
    assert "ops.py:square" in page
    assert re.search("The gradient of .*x.* is wrong", page)


def test_a_file_that_cannot_be_written(write, check, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for option in ("--html", "--json"):
        for file in ("file/report", "folder"):
            status, out, err = check(write(SQUARE), *QUICK, option, file)
            assert (status, out) == (2, "")  # before anything is checked
            assert "is not written" in err


def test_a_device_that_is_not_there(write, check):
    status, _, err = check(write(SQUARE), "--device", "nonsense")
    assert status == 2
    assert "'--device': cannot be used" in err


def test_tensors_are_on_the_device(write, check):
    """On the device without numbers a call can say where it is, and no more."""
    place = write("""
        def function(x):
            if x.device.type == "meta":
                raise KeyError("a call on " + x.device.type)
            return x * x

        function.samples = lambda: [torch.ones(3, dtype=torch.float64)]
    """)
    assert check(place, *QUICK)[0] == 0
    status, out, _ = check(place, *QUICK, "--device", "meta")
    assert status == 1
    assert "a call on meta" in out


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "soon"])
def test_a_budget_is_a_number_of_seconds(budget, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["check", "ops.py", "--budget", budget])
    assert "--budget: invalid number of seconds value" in capsys.readouterr().err


SLOW = """
@tg.op
def slow(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    time.sleep(0.05)
    return x * x

@slow.partial("x")
def _(x):
    return 2 * x
"""


@pytest.mark.slow
def test_the_budget_is_kept_and_shared(write, check):
    status, out, _ = check(write(SLOW + SQUARE), "--only", "linearity,state", "--budget", "4")
    assert (status, verdicts(out)) == (1, {"ops.py:slow": "INCONCLUSIVE", "ops.py:square": "PASS"})
    assert re.search(r"state +INCONCLUSIVE +not tried", out)


def test_targets_for_which_no_time_is_left_are_listed(write, check):
    status, out, _ = check(write(SLOW.replace("0.05", "0.3") + SQUARE), *QUICK, "--budget", "0.1")
    assert (status, verdicts(out)) == (1, {"ops.py:slow": "INCONCLUSIVE", "ops.py:square": "INCONCLUSIVE"})
    assert re.search(r"ops.py:square .*inconclusive", out)
    assert "not tried: the time was over" in out


@pytest.mark.slow
def test_many_checks_that_were_not_tried_share_a_row(write, check):
    _, out, _ = check(write(SLOW), "--budget", "0.5")
    row = re.search(r"^  (\d+) checks  INCONCLUSIVE  not tried: the \S+ s were over\n(.*?)\n\n", out, re.M | re.S)
    names = re.sub(r"\s+", " ", row[2]).strip(" ()").split(", ")
    assert len(names) == int(row[1]) > 10
    assert {"layouts of inputs", "threads"} <= set(names)


def test_an_interrupt_shows_what_was_done(write, check, monkeypatch):
    real = command.examine

    def examine(entry, *arguments):
        if entry.place.endswith("cube"):
            raise KeyboardInterrupt
        return real(entry, *arguments)

    monkeypatch.setattr(command, "examine", examine)
    status, out, _ = check(write(SQUARE + CUBE), *QUICK)
    assert (status, verdicts(out)) == (130, {"ops.py:square": "PASS"})
    assert out.splitlines()[-1].endswith("interrupted, 1 not tried")


def test_an_interrupt_while_files_are_imported(write, check):
    status, out, err = check(write("raise KeyboardInterrupt"))
    assert (status, out, err) == (130, "", "interrupted, before anything was checked\n")


# -- processes --------------------------------------------------------------------------------------------------------

ENDS = (
    SLOW.replace("0.05", "1000")
    + """
@tg.op
def reads(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x * x

@reads.partial("x")
def _(x):
    __import__('ctypes').string_at(0)

@tg.op
def exits(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    sys.exit(0)

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(2, 2, dtype=torch.float64)

    def forward(self, x):
        return super().forward(x).detach() * self.weight.sum()

    @staticmethod
    def samples():
        yield torch.ones(2, dtype=torch.float64)
"""
)
CRASH = "__import__('ctypes').string_at(0)"  # no name tells that it is native
NOISY = "print('at import')" + SQUARE.replace("return x * x", "os.write(1, b'by the descriptor'); return x * x")


@pytest.mark.slow
def test_each_target_has_a_process_of_its_own(write, check):
    """One run for all ways to end, since each target costs the start of a process."""
    place = write(ENDS + NOISY)
    process = subprocess.run(
        [sys.executable, "-c", RUN, "check", place, *QUICK, "--isolate", "--budget", "20", "--json", "-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 1
    assert verdicts(process.stderr) == {
        "ops.py:slow": "INCONCLUSIVE", "ops.py:reads": "FAIL", "ops.py:exits": "FAIL",
        "ops.py:Net": "FAIL", "ops.py:square": "PASS",
    }  # fmt: skip
    assert "at import" in process.stderr
    results = {target["target"]: target["results"] for target in json.loads(process.stdout)["targets"]}

    # how each ended, and where
    found = {name: [f for r in some for f in r["findings"] if f["code"] == "crash"] for name, some in results.items()}
    said = {name.partition(":")[2]: (some[0]["title"], some[0]["where"]) for name, some in found.items() if some}
    line = {text.strip(): number for number, text in enumerate(Path(place).read_text().splitlines(), 1)}
    read = f"{os.getcwd()}/ops.py, line {line[CRASH]}, in reads.partial[x]"
    assert said == {
        "reads": ("The target ends its process: SIGSEGV", read),
        "exits": ("The target ends its process: sys.exit(0)", f"ops.py, line {line['sys.exit(0)']}:\n    sys.exit(0)"),
    }
    assert results["ops.py:slow"][0]["note"] == "the time was over, and a call did not end: the process was killed"

    # the checks after an end are listed
    assert [(r["check"], r["verdict"], r["note"]) for r in results["ops.py:reads"]] == [
        ("gradient", "FAIL", ""), ("linearity", "INCONCLUSIVE", "not tried: the process ended in 'gradient'")
    ]  # fmt: skip

    # what is found in a process is what is found here: parameters of modules too are drawn alike
    check(f"{place}:Net", *QUICK, "--json", "out.json")
    (here,) = read_json()["targets"]
    for result in [*here["results"], *results["ops.py:Net"]]:
        del result["seconds"]
        for finding in result["findings"]:
            del finding["repro"]
    assert here["results"] == results["ops.py:Net"]


@pytest.mark.parametrize("call", ["sys.exit(0)", "os._exit(0)"])
def test_a_target_that_leaves_does_not_pass(write, check, call):
    leaving = SQUARE.replace("return 2 * x", call)
    status, out, err = check(write(leaving + CUBE.replace("2 * x**2", "3 * x**2")), *QUICK)
    assert (status, err, verdicts(out)) == (1, "", {"ops.py:square": "FAIL", "ops.py:cube": "PASS"})
    assert f"The target ends its process: {call}" in out
    assert re.search(rf"where +ops.py, line 14:\n +{re.escape(call)}", out)


@pytest.mark.slow
def test_a_target_may_leave_a_process_that_it_forked(write, check):
    forking = "pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n    os.waitpid(pid, 0)\n    return x * x"
    status, out, _ = check(write(SQUARE.replace("return x * x", forking)), "--only", "linearity")
    assert (status, verdicts(out)) == (0, {"ops.py:square": "PASS"})


@pytest.mark.slow
def test_a_crash_shows_where(write):
    process = fresh.run("-c", RUN, "check", write(ENDS), *QUICK, "-k", "reads")
    assert process.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in process.stderr
    assert re.search(r"ops.py\", line \d+ in reads", process.stderr)


def test_an_import_that_crashes(write, check):
    status, out, err = check(write("os.abort()"), "--isolate")
    assert (status, out) == (2, "")
    assert "'ops.py': cannot be imported" in err
    assert "the process ended: SIGABRT in " in err
    assert "ops.py, line 7" in err


# -- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(x):\n    return 1 / 0\nf(3)\n", ["ZeroDivisionError: division by zero", "line 8:", "return 1 / 0"]),
        ("def f(:\n", ["SyntaxError", "line 7:", "def f(:"]),
        ("sys.exit('no')", ["SystemExit: no", "line 7:"]),
        ("os._exit(0)", ["os._exit(0)", "line 7:"]),
        ("import no_such_module", ["No module named 'no_such_module'", "line 7:", "import no_such_module"]),
        ("@tg.op\ndef f(x): return x", ["DeclarationError", "line "]),
    ],
)  # fmt: skip
def test_a_file_that_does_not_import(write, check, text, said):
    status, out, err = check(write(text), write(SQUARE, "fine.py"))
    assert (status, out) == (2, "")
    assert "'ops.py': cannot be imported" in err
    assert "Traceback" not in err
    for words in said:
        assert words in err


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere.py", "there is no file"),
        ("no_such_module", "No module named 'no_such_module'"),
        ("ops.py:nothing", "'ops.py:nothing': does not exist\n  expected: square, Sin"),
        ("ops.py:Sin", "nothing says what it takes\n  next:     annotate it with jaxtyping, or give it samples"),
        ("ops.py:number", "'ops.py:number': cannot be checked\n  expected: an operator"),
        ("empty.py", "nothing is declared there that can be checked"),
    ],
)
def test_targets_that_are_none(write, check, target, said):
    write(SQUARE + FUNCTION + "number = 3\n")
    write("", "empty.py")
    status, out, err = check(target)
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_no_target(check):
    status, _, err = check()
    assert status == 2
    assert "no TARGET" in err


WRONG = {
    "raises on its samples": ("return x * x", "raise ValueError('never')", "The target raises ValueError|took none of"),
    "raises in its backward": ("return 2 * x", "raise ValueError('never')", "The backward pass raises ValueError"),
    "NaN": ("return x * x", "return x * float('nan')", "no element of the outputs is finite"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_targets_that_cannot_be_told(write, check, wrong):
    old, new, said = WRONG[wrong]
    status, out, err = check(write(SQUARE.replace(old, new)), *QUICK)
    assert (status, err) == (1, "")
    assert "PASS" not in verdicts(out).values()
    assert re.search(said, out)


PLAIN = """
def function(x):
    return {body}

function.samples = lambda: [torch.ones(3, dtype=torch.float64)]
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x.detach() * 2", "no output requires grad"),
        ("x.argmax()", "no output is a floating-point or complex tensor"),
        ("torch.as_tensor(__import__('numpy').random.default_rng().normal(size=3)) * x", "differ|another"),
        ("1 / 0", "The target raises ZeroDivisionError"),
    ],
)
def test_functions_that_cannot_be_told(write, check, body, said):
    status, out, err = check(write(PLAIN.format(body=body)), "--only", "gradient,determinism")
    assert (status, err) == (1, "")
    assert re.search(said, out)


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ("lambda: 1 / 0", "ZeroDivisionError before anything was called"),
        ("lambda: [3]", "DeclarationError before anything was called"),
        ("lambda: []", "there was no call to try"),
    ],
)
def test_samples_that_are_none(write, check, samples, said):
    status, out, err = check(write(f"def function(x):\n    return x\n\nfunction.samples = {samples}\n"), *QUICK)
    assert (status, err) == (1, "")
    assert said in out


def test_a_module_that_cannot_be_made(write, check):
    needy = OTHERS.replace("def __init__(self):", "def __init__(self, size):")
    status, out, _ = check(write(needy), *QUICK, "-k", "Scale", "-k", "twice")
    assert verdicts(out) == {"ops.py:Scale": "SKIPPED", "ops.py:twice": "PASS"}
    assert "it cannot be made: TypeError" in out
    assert status == 0


# -- what is not installed --------------------------------------------------------------------------------------------


def test_without_matplotlib_and_rich(write, check, monkeypatch, tmp_path):
    for name in ("matplotlib", "rich", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    status, out, err = check(write(CUBE), *QUICK, "--html", "report.html")
    assert (status, err, verdicts(out)) == (1, "", {"ops.py:cube": "FAIL"})
    assert "torchgraft[report]" in (tmp_path / "report.html").read_text()


# -- the terminal -----------------------------------------------------------------------------------------------------


def run_on_terminal(*arguments):
    """With the standard error on a terminal: what was printed, and what the terminal was sent."""
    parent, child = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments], stdout=subprocess.PIPE, stderr=child, text=True, env=environment
    )
    os.close(child)
    sent = b""
    try:
        while chunk := os.read(parent, 4096):
            sent += chunk
    except OSError:  # the other end is closed
        pass
    out, _ = process.communicate()
    os.close(parent)
    return out, sent.decode()


@pytest.mark.slow
def test_a_line_moves_on_the_terminal_and_is_erased(write):
    out, sent = run_on_terminal("check", write(SQUARE), *QUICK)
    assert verdicts(out) == {"ops.py:square": "PASS"}
    assert "\r" not in out
    assert re.search(r"\r\[1/1\] ops.py:square gradient  \d\.\d s", sent)
    assert re.search(r"\r +\r$", sent)
    assert "PASS" not in sent
