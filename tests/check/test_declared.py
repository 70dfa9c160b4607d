"""Declarations qualify a verdict: the headline shows them, and what is left out is no pass."""

import json

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._check.report.report import Report, html_page
from torchgraft._check.report.result import Result


def report(*declared, verdict=tg.Verdict.PASS):
    return Report("f", "callable", [Result("gradient", "it holds", verdict)], declared=declared)


@pytest.mark.parametrize(
    ("declared", "headline"),
    [((), "PASS"), (("to 1e-08",), "PASS (to 1e-08)"), (("to 1e-08", "left out: n"), "PASS (to 1e-08, left out: n)")],
)
def test_the_headline_shows_what_qualifies_the_verdict(declared, headline):
    found = report(*declared)
    assert found.headline == headline
    assert str(found).splitlines()[0].startswith(f"{headline}  f (")
    assert found.verdict is tg.Verdict.PASS
    data = json.loads(found.to_json())
    assert (data["format"], data["headline"], data["declared"]) == (1, headline, list(declared))
    assert all(word in html_page([found]) and word in html_page([found, report()]) for word in declared)


def test_a_failure_has_a_headline_too():
    assert report("to 1e-08", verdict=tg.Verdict.FAIL).headline == "FAIL (to 1e-08)"


@tg.op
def quantized(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    return 3 * x, x.sin()


quantized.nondifferentiable("out1", reason="a diagnostic")


@quantized.vjp("x")
def _(grad_out0):
    return 3 * grad_out0


@pytest.mark.slow
def test_an_output_without_a_derivative_is_left_out():
    found = tg.check(quantized, compilers=True)
    assert found.headline == "PASS (left out: out1)", str(found)
    notes = {result.check: result.note for result in found.results}
    assert notes["opcheck"].startswith("left out: ")
    assert not [note for note in notes.values() if note.startswith("refused")]


@tg.op
def calibrated(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x.sin()


calibrated.nondifferentiable("x")


def test_a_check_of_nothing_names_the_declaration():
    found = tg.check(calibrated)
    assert found.headline == "SKIPPED (left out: x)"
    notes = {result.check: result.note for result in found.results}
    assert notes["gradient"] == notes["vmap"] == "left out: x: nondifferentiable"


def test_without_a_declaration_nothing_is_left_out():
    found = tg.check(torch.sin, torch.ones(3, dtype=torch.int64))
    assert "left out" not in str(found)


class Weighted(torch.autograd.Function):
    """x times t; t is data."""

    refusal: type[Exception] = ValueError

    @classmethod
    def forward(cls, ctx, x, t):
        if ctx.needs_input_grad[1]:
            raise cls.refusal("times are data")
        ctx.save_for_backward(t)
        return x * t

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


class Misspelt(Weighted):
    refusal = NameError


def test_tensors_for_which_a_gradient_is_refused_are_left_out_and_named():
    x, t = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([3.0, 5.0], dtype=torch.float64)
    found = tg.check(Weighted.apply, x, t, only=("gradient", "outputs"))
    assert found.headline == "PASS (left out: t)"
    assert not tg.check(Weighted.apply, x, t.clone().requires_grad_(), only="gradient").ok  # It is asked for.
    assert not tg.check(Misspelt.apply, x, t, only="gradient").ok  # That is no refusal.
