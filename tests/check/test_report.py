"""Reports: the verdict, the text, the data, the error."""

import itertools
import json
import math
import pickle
import re
import sys

import numpy as np
import pytest
import torch

import torchgraft as tg
from torchgraft._check.evidence import apart, printable, shown
from torchgraft._check.finding import Verdict
from torchgraft._check.report.report import Report, data_of
from torchgraft._check.report.result import Result, checks, duration

from . import made


def report(*verdicts, **fields):
    return Report("f", "callable", [Result(f"check{i}", "it holds", v, **fields) for i, v in enumerate(verdicts)])


# -- the verdict ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdicts", list(itertools.product(Verdict, repeat=2)))
def test_the_verdict_is_the_worst(verdicts):
    found = report(*verdicts)
    assert found.verdict is max(verdicts, key=list(Verdict).index)
    assert found.ok == (set(verdicts) in ({Verdict.PASS}, {Verdict.PASS, Verdict.SKIPPED}))
    assert bool(found) is found.ok


def test_nothing_checked_is_no_pass():
    assert not report().ok
    assert not report(Verdict.SKIPPED).ok
    assert "no pass" in str(report())
    assert "no pass" in str(report(Verdict.SKIPPED))
    assert "no pass" not in str(report(Verdict.SKIPPED, Verdict.PASS))


def test_a_finding_counts_even_where_its_check_passed():
    found = Report("f", "callable", [Result("gradient", "", Verdict.PASS, findings=(made.sign(),))])
    assert found.verdict is Verdict.FAIL


def test_a_notice_is_no_mistake():
    passed = Result("outputs", "", Verdict.PASS, findings=(made.notice(),))
    assert Report("f", "callable", [passed]).ok
    skipped = Result("outputs", "", Verdict.SKIPPED, findings=(made.notice(),))
    assert not Report("f", "callable", [skipped]).ok


def test_the_same_thing_is_found_once_and_the_worst_comes_first():
    again = made.sign().but(where="output 0, input x; x: float64[1]")
    found = made.report(made.constant(), made.sign(), again, made.leak()).findings
    assert [finding.code for finding in found] == ["wrong-gradient", "leak", "loses-digits"]


def test_checks_are_gathered_over_their_cases():
    found = {check.name: check for check in checks(made.report(made.sign(), made.constant()))}
    assert list(found) == ["gradient", "linearity", "layouts", "vmap"]
    assert found["gradient"].verdict is Verdict.FAIL
    assert found["gradient"].share == "1 of 3"
    assert found["gradient"].said == "the gradient is wrong"
    assert found["layouts"].said == "layouts of inputs and gradients change nothing"


def test_reasons_are_counted():
    many = [Result("a", "", Verdict.SKIPPED, note=note) for note in ("no vmap", "no vmap", "sparse", "meta")]
    assert checks(Report("f", "callable", many))[0].note == "no vmap (and 2 more)"


# -- the error --------------------------------------------------------------------------------------------------


def test_what_passed_raises_nothing():
    made.report().raise_if_failed()


@pytest.mark.parametrize("wrong", [made.report(made.sign()), made.report(made.constant()), made.unsure(), report()])
def test_what_did_not_pass_raises(wrong):
    with pytest.raises(tg.CheckError) as caught:
        wrong.raise_if_failed()
    assert caught.value.report is wrong
    assert str(caught.value) == wrong.to_text()
    assert isinstance(caught.value, AssertionError)


def test_the_error_pickles():
    with pytest.raises(tg.CheckError) as caught:
        made.report(made.leak()).raise_if_failed()
    other = pickle.loads(pickle.dumps(caught.value))
    assert str(other) == str(caught.value)
    assert other.report == caught.value.report


# -- the text ---------------------------------------------------------------------------------------------------

TEXT = """\
FAIL  Sin (autograd.Function): 1 check failed, 2 passed, 1 skipped; 3 cases, 24 ms, seed 0

  gradient  FAIL     2 of 3  the gradient is wrong; the output stays alive after its last
                             reference is gone
  vmap      SKIPPED          the Function has no vmap staticmethod

1. the gradient is wrong
   verdict   FAIL  wrong-gradient
   where     output 0, input x; x: float64[4]
   analytic  -0.87758
   numeric   0.87758
   error     1.8; numerics explain at most 2.1e-13
   cause     the gradient has the wrong sign
   hint      return grad * x.cos(): the derivative of sin is cos, not -cos
   repro     torchgraft check ops.py:Sin --seed 0

2. the output stays alive after its last reference is gone
   verdict   FAIL  leak
   where     output 0
   cause     ctx.result holds the output, which holds ctx
   hint      ctx.save_for_backward(result)"""


def test_the_text():
    assert made.report(made.sign(), made.leak()).to_text(90) == TEXT


def test_what_requires_no_grad_is_said():
    text = str(made.unsure())
    assert text.startswith("INCONCLUSIVE  detached (function): 1 check inconclusive;")
    assert "no output requires grad" in text


@pytest.mark.parametrize("width", [80, 90, 100])
def test_lines_keep_to_the_width(width):
    findings = [
        made.sign(),
        made.constant(),
        made.leak(),
        made.one_entry(),
        made.sign().but(code="x", title="long " * 40),
    ]
    text = made.report(*findings, target="an.operator.with_a_long_name " * 5).to_text(width)
    assert max(map(len, text.splitlines())) <= width
    assert len(text) > 1000


def test_code_is_not_wrapped():
    code = "x = torch.tensor([" + "1.0, " * 40 + "])\nSin.apply(x)"
    hint = "write\n    return " + "grad * " * 30 + "x"
    text = made.report(made.sign().but(repro=code, hint=hint)).to_text(80)
    assert code.splitlines()[0] in text
    assert hint.splitlines()[1] in text


def test_control_characters_are_spelled_out():
    text = made.report(made.sign().but(where="\x1b[2Jx\x07\ud800"), target="a\x1b[31mb").to_text()
    assert "\x1b" not in text
    assert r"a\x1b[31mb" in text
    assert r"\x1b[2Jx\x07\ud800" in text
    assert printable("two\r\nlines\r") == "two\nlines\\r"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "90", "COLORTERM": "truecolor"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_colours():
    text = str(made.report(made.sign(), made.leak()))
    assert "\x1b[1;31mFAIL" in text
    stripped = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert stripped == TEXT


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("variable", ["NO_COLOR", "without rich"])
def test_no_colours_where_they_are_not_wanted_or_rich_is_missing(monkeypatch, variable):
    if variable == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    assert "\x1b[1;31m" not in str(made.report(made.sign()))


def test_rich_prints_it():
    from rich.console import Console

    console = Console(width=120)
    with console.capture() as captured:
        console.print(made.report(made.leak()))
    assert "ctx.save_for_backward(result)" in captured.get()


# -- the data ---------------------------------------------------------------------------------------------------


def test_the_data_is_complete():
    original = made.report(made.sign(), made.conjugate())
    data = json.loads(original.to_json())
    assert (data["target"], data["kind"], data["seed"]) == ("Sin", "function", 0)
    assert (data["ok"], data["verdict"]) == (False, "FAIL")
    assert data["checks"] == {"FAIL": 1, "PASS": 2, "SKIPPED": 1}
    assert len(data["results"]) == len(original.results)
    found = data["results"][0]["findings"][0]
    finding = made.sign()
    assert found["analytic"] == finding.analytic
    assert found["cause"] == finding.cause
    assert found["evidence"]["steps"] == list(finding.evidence.steps)
    again = torch.tensor(found["evidence"]["numeric"]["values"], dtype=torch.float64)
    assert torch.equal(again, finding.evidence.numeric)
    assert data["results"][1]["findings"][0]["numeric"] == {"real": 2.0, "imag": 2.0}


def test_the_data_is_stable():
    assert made.report(made.sign()).to_json() == made.report(made.sign()).to_json()
    assert list(json.loads(report().to_json())) == [
        "format", "torch", "target", "kind", "seed", "ok", "verdict", "headline", "declared", "checks", "results"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (1 / 3, 1 / 3),
        (complex(1, math.inf), {"real": 1.0, "imag": "inf"}),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.arange(2), [0, 1]),
        (torch.tensor([math.nan, 1]), {"dtype": "float32", "shape": [2], "values": ["nan", 1.0]}),
        (torch.ones(1, requires_grad=True), {"dtype": "float32", "shape": [1], "values": [1.0]}),
        (torch.eye(1).to_sparse(), {"dtype": "float32", "shape": [1, 1], "values": [[1.0]]}),
        (torch.empty(2, device="meta"), {"dtype": "float32", "shape": [2], "values": None}),
        (Verdict.PASS, "PASS"),
        (True, True),
        (("a", None), ["a", None]),
        ({1: 2}, {"1": 2}),
        (object(), "<object>"),
    ],
)
def test_values_become_json(value, expected):
    data = data_of(value)
    assert data == expected
    assert type(data) is type(expected)
    assert json.loads(json.dumps(data, allow_nan=False)) == expected


# -- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ((1.0, -1.0), ("1", "-1")),
        ((0.16666667163372, 1 / 6), ("0.1666666716", "0.1666666667")),
        ((1.0, 1.0 + 2**-52), ("1", "1.0000000000000002")),
        ((2.0, 2.0), ("2", "2")),
        ((math.nan, 0.0), ("nan", "0")),
        ((1 + 1j, 1 - 1j), ("1+1j", "1-1j")),
        ((torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.125])), ("[1, 2]", "[1, 2.125]")),
        ((None, 3), ("None", "3")),
    ],
)
def test_differing_numbers_are_shown_apart(pair, expected):
    assert apart(*pair) == expected


def test_large_tensors_are_described():
    assert shown(torch.full((3, 4), -2.5)) == "float32[3, 4] with entries up to 2.5"
    assert shown(torch.ones(9, dtype=torch.bool)) == "bool[9]"
    assert shown(torch.tensor(True)) == "True"
    assert shown(torch.eye(2).to_sparse()) == "[[1, 0], [0, 1]]"


@pytest.mark.parametrize(("seconds", "text"), [(0.0124, "12 ms"), (0.9999, "1.0 s"), (12.34, "12.3 s")])
def test_durations(seconds, text):
    assert duration(seconds) == text
