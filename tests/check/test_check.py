"""`tg.check` as a caller sees it: its options, and targets of which there is little to prove."""

import os
import time

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft import Verdict
from torchgraft._check.clock import Clock
from torchgraft._check.prepare import CASES, prepare
from torchgraft._check.target import make_target
from torchgraft.scipy.special import jv

X = torch.tensor([0.5, -1.25, 2.0], dtype=torch.float64)


class Double(torch.autograd.Function):
    """Half of its gradient is missing."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return grad


def results(report):
    return {result.check: result for result in report.results}


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("only", ["gradient", ["gradient"], ("gradient",)])
def test_one_check_by_its_name(only):
    assert results(tg.check(torch.sin, X, only=only)).keys() == {"gradient"}


def test_checks_are_left_out():
    found = results(tg.check(torch.sin, X, skip=["compile", "export"])).keys()
    assert "gradient" in found
    assert not found & {"compile", "export", "inductor"}


def test_a_name_that_is_nearly_one():
    with pytest.raises(tg.TorchgraftError) as error:
        tg.check(torch.sin, X, only="layouts")
    assert error.value.got == "layouts"
    assert "layouts of inputs" in error.value.hint


def test_what_runs_once_looks_in_double_precision():
    """Differences in sixteen bits tell little, and the fourth case of this operator has no more."""
    cases = prepare(make_target(jv), seed=0, clock=Clock()).cases
    assert cases[3].primals[0].dtype == torch.float16
    assert "float64" in results(tg.check(jv, only="ties"))["ties"].case


def test_keywords_names_and_progress():
    heard = []
    report = tg.check(torch.cumsum, X, kwargs={"dim": 0}, name="sums", only="gradient", progress=heard.append)
    assert report.ok
    assert report.target == "sums"
    assert heard == ["gradient"]


@pytest.mark.slow
def test_a_seed_gives_the_same_report():
    first, second = (tg.check(Double, X, seed=3, only="gradient").findings[0] for _ in range(2))
    assert first == second


# -- time --------------------------------------------------------------------------------------------------------------


def slow(x):
    time.sleep(0.05)
    return x.sin()


def test_what_was_cut_off_took_its_time():
    report = tg.check(slow, X, budget=0.3)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert sum(result.seconds for result in report.results) > 0.2
    assert results(report)["gradient"].note.startswith("not tried")


def test_cases_take_a_part_of_the_time():
    @tg.op
    def patient(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        time.sleep(0.02)
        return 2 * x

    @patient.vjp("x")
    def _(grad):
        return 2 * grad

    prepared = prepare(make_target(patient), seed=0, clock=Clock(0.3))
    assert 0 < len(prepared.cases) < CASES
    assert prepared.results == []


# -- targets -----------------------------------------------------------------------------------------------------------


def test_nothing_is_proved_of_what_does_not_require_grad():
    report = tg.check(lambda x: x.detach(), X)
    assert not report.ok
    assert report.verdict is Verdict.INCONCLUSIVE
    assert results(report)["gradient"].note == "no output requires grad"


def test_a_target_without_a_backward():
    forward = type("Forward", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x.sin())})
    (finding,) = tg.check(forward, X).findings
    assert finding.title == "The backward pass raises NotImplementedError"
    assert "backward" in finding.cause


@pytest.mark.parametrize(
    "target", [lambda x: x * float("nan"), lambda x: (x - x.min()).log()], ids=["all", "a gradient at the edge"]
)
def test_values_that_are_not_numbers_are_no_mistake(target):
    assert {f.code for f in tg.check(target, X).findings} == {"values-not-finite"}  # A notice.


def test_a_gradient_that_is_not_a_number_is_shown_as_it_is():
    nowhere = type("Nowhere", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: 2 * x), "backward": staticmethod(lambda ctx, grad: grad * float("nan")),
    })  # fmt: skip
    (finding,) = tg.check(nowhere, X, only="gradient").findings
    assert finding.analytic != finding.analytic
    assert finding.numeric == pytest.approx(2)


def test_a_sample_that_is_refused_is_said_once_with_its_line():
    def picky(x):
        raise ValueError("not this one")

    picky.samples = lambda: [X]
    report = tg.check(picky)
    (result,) = [r for r in report.results if r.check == "samples"]
    (finding,) = result.findings
    assert finding.title == "The target raises ValueError"
    assert "test_check.py, line" in finding.where
    assert "sample" in finding.hint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_target_that_forks_does_not_multiply():
    process = os.getpid()

    def forks(x):
        os.fork()
        return x.sin()

    assert tg.check(forks, X, only="gradient").ok
    assert os.getpid() == process
