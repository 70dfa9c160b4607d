"""Reports made by hand of real numbers: what a check of some wrong derivatives would say."""

import itertools
import math

import torch

from torchgraft._check.evidence import Evidence
from torchgraft._check.finding import Finding, Verdict
from torchgraft._check.report.report import Report
from torchgraft._check.report.result import Result

STEPS = tuple(2.0**-k for k in range(2, 17))
FLOAT64 = torch.finfo(torch.float64).eps


def ladder(function, x, along):
    """Central differences of a scalar function at x, extrapolated once, with an estimate of what is wrong in each."""
    plain = [(function(x + h) - function(x - h)) / (2 * h) for h in (2 * STEPS[0], *STEPS)]
    better = [fine + (fine - coarse) / 3 for coarse, fine in itertools.pairwise(plain)]
    bars = [
        abs(e - p) ** 2 / abs(function(x)) + FLOAT64 * abs(function(x)) / h
        for e, p, h in zip(better, plain[1:], STEPS, strict=True)
    ]
    return {
        "steps": STEPS, "ladder": tuple(better), "bars": tuple(bars), "chosen": bars.index(min(bars)), "along": along,
    }  # fmt: skip


def evidence(analytic, numeric, *, x=0.7, along=None, **named):
    """Jacobians, and the ladder of sin, where the side under test gives `along`."""
    along = -math.cos(x) if along is None else along
    estimate = 1e-13 * numeric.abs() + 1e-15
    return Evidence(analytic, numeric, estimate, **ladder(math.sin, x, along), **named)


def sign():
    """The sine of four numbers, with the wrong sign."""
    x = torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.float64)
    right = x.cos().diag()
    return Finding(
        "wrong-gradient", Verdict.FAIL, "the gradient is wrong", "output 0, input x; x: float64[4]",
        analytic=-0.8775825618903728, numeric=0.8775825618903726, error=1.755, estimate=2.1e-13,
        cause="the gradient has the wrong sign", hint="return grad * x.cos(): the derivative of sin is cos, not -cos",
        repro="torchgraft check ops.py:Sin --seed 0",
        evidence=evidence(-right, right, outputs=(("out", (4,)),), inputs=(("x", (4,)),)),
    )  # fmt: skip


def transposed(n=3):
    """A product with a matrix, whose backward forgets to transpose it."""
    torch.manual_seed(1)
    weight = torch.randn(n, n, dtype=torch.float64)
    return Finding(
        "wrong-gradient", Verdict.FAIL, "the gradient is wrong", f"output 0, input x; x: float64[{n}]",
        analytic=weight.mT, numeric=weight, error=2.31, estimate=1.2e-13,
        cause="the Jacobian is transposed: where the backward multiplies with weight, it should with weight.mT",
        hint="def backward(ctx, grad):\n    return grad @ weight.mT",
        evidence=evidence(weight.mT, weight, along=0.31, outputs=(("out", (n,)),), inputs=(("x", (n,)),)),
    )  # fmt: skip


def constant():
    """hardsigmoid with a sixth that was rounded to float32."""
    right = torch.eye(6, dtype=torch.float64) / 6
    wrong = torch.eye(6, dtype=torch.float64) * torch.tensor(1 / 6).double()
    return Finding(
        "loses-digits", Verdict.LOSES_DIGITS, "the gradient has fewer digits than its dtype", "output 0, input x",
        analytic=wrong[0, 0].item(), numeric=1 / 6, error=4.97e-9, estimate=3e-16,
        cause="0.1666666716 is float32(1/6): a constant of the backward was rounded to float32",
        hint="write the constant as a Python float, 1 / 6",
        evidence=evidence(wrong, right, along=math.cos(0.7) * (1 + 3e-8)),
    )  # fmt: skip


def one_entry(rows=40, columns=60):
    """One wrong entry in a Jacobian that is too large to be drawn as a whole."""
    torch.manual_seed(0)
    right = torch.randn(rows, columns, dtype=torch.float64)
    wrong = right.clone()
    wrong[33, 51] *= 1.01
    return Finding(
        "wrong-gradient", Verdict.FAIL, "the gradient is wrong in one entry", "output 0, input weight; ...",
        analytic=wrong, numeric=right, error=0.012, estimate=4e-13, cause="only weight[5, 1] is wrong, by 1 %",
        evidence=evidence(wrong, right, along=0.77, outputs=(("out", (rows,)),), inputs=(("weight", (6, 10)),)),
    )  # fmt: skip


def conjugate():
    """A complex square whose backward does not conjugate."""
    x = torch.tensor([1 + 1j, 0.5 - 2j], dtype=torch.complex128)
    right = (2 * x).diag()
    parts = [torch.view_as_real(side.resolve_conj()).flatten(1) for side in (right.conj(), right)]
    return Finding(
        "wrong-gradient", Verdict.FAIL, "the gradient is wrong", "output 0, input z",
        analytic=right.conj()[0, 0].item(), numeric=right[0, 0].item(), error=8.0, estimate=1e-13,
        cause="the conjugate is missing", hint="return grad * (2 * z).conj()",
        evidence=evidence(*parts, outputs=(("out", (2,)),), inputs=(("z", (2, 2)),)),
    )  # fmt: skip


def leak():
    """Something that no picture shows."""
    return Finding(
        "leak", Verdict.FAIL, "the output stays alive after its last reference is gone", "output 0",
        cause="ctx.result holds the output, which holds ctx", hint="ctx.save_for_backward(result)",
    )  # fmt: skip


def notice():
    """No mistake, but worth a word."""
    return Finding("nondifferentiable-output-moves", Verdict.PASS, "output 1 has no gradient, though it moves")


def report(*findings, target="Sin", kind="function", seed=0):
    """A report with these findings, and with checks that passed, were skipped, could not tell."""
    results = [
        Result("gradient", "gradients agree with differences", one.severity, one.where, findings=(one,), seconds=0.004)
        for one in findings
    ]
    results += [
        Result("gradient", "gradients agree with differences", Verdict.PASS, "x: float64[1]", seconds=0.004),
        Result("linearity", "the backward is linear in the upstream gradient", Verdict.PASS, seconds=0.002),
        Result("layouts", "layouts of inputs and gradients change nothing", Verdict.PASS, seconds=0.01),
        Result("vmap", "vmap equals a loop", Verdict.SKIPPED, note="the Function has no vmap staticmethod"),
    ]
    return Report(target, kind, results, seed)


def unsure():
    """A report in which nothing could be told."""
    note = "no output requires grad: was it detached, or computed in NumPy?"
    result = Result("gradient", "gradients agree with differences", Verdict.INCONCLUSIVE, "x: float64[3]", note)
    return Report("detached", "callable", [result], 7)
