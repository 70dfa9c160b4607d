"""Kernels with a tolerance of their own: everything is compared at the accuracy that is declared."""

import numpy as np
import pytest
import torch
from jaxtyping import Float64
from scipy.integrate import solve_ivp

import torchgraft as tg

pytestmark = pytest.mark.usefixtures("unexplained")
Y0 = torch.tensor([1.0, -0.5, 0.7], dtype=torch.float64)
RATES = torch.tensor([0.5, 1.5, 0.9], dtype=torch.float64)
PLAIN = ("gradient", "linearity", "values")


def flow(t, y, rates):
    return -rates * y + np.sin(np.roll(y, 1))


def solver(tolerance, factor=1.0):
    """The end of an orbit, and its gradient by the adjoint equation, both by an adaptive solver of their own steps."""
    options = {"rtol": tolerance, "atol": tolerance / 10}

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, rates):
            orbit = solve_ivp(lambda t, y: flow(t, y, rates.numpy(force=True)), (0, 1), y.numpy(force=True), **options)
            end = torch.from_numpy(orbit.y[:, -1].copy())
            ctx.save_for_backward(end, rates)
            return end

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            end, rates = (saved.numpy() for saved in ctx.saved_tensors)
            n = len(end)

            def adjoint(t, state):
                y, a = state[:n], state[n : 2 * n]
                return np.concatenate([flow(t, y, rates), rates * a - np.cos(y) * np.roll(a, -1), a * y])

            start = np.concatenate([end, grad.numpy(), np.zeros(n)])
            found = torch.from_numpy(solve_ivp(adjoint, (1, 0), start, **options).y[:, -1].copy())
            return factor * found[n : 2 * n], factor * found[2 * n :]

    return Solve.apply


@pytest.mark.parametrize(
    ("tolerance", "only"),
    [
        pytest.param(1e-3, (), marks=pytest.mark.slow, id="all checks"),
        *((tolerance, PLAIN) for tolerance in (1e-3, 1e-6, 1e-8, 1e-12)),
    ],
)
def test_a_solver_passes_at_its_accuracy(tolerance, only):
    report = tg.check(solver(tolerance), Y0, RATES, accuracy=10 * tolerance, only=only)
    assert report.headline == f"PASS (to {10 * tolerance:g})", str(report)


@pytest.mark.parametrize(("tolerance", "factor"), [(1e-3, -1.0), (1e-3, 0.0), (1e-6, 1.1), (1e-8, 1.001)])
def test_a_wrong_gradient_is_seen_beside_the_tolerance(tolerance, factor):
    report = tg.check(solver(tolerance, factor), Y0, RATES, accuracy=10 * tolerance, only="gradient", budget=60)
    assert "wrong-gradient" in {finding.code for finding in report.findings}
    assert report.headline == f"FAIL (to {10 * tolerance:g})"


def test_a_solver_without_an_accuracy_is_told_of_it():
    report = tg.check(solver(1e-4), Y0, RATES, only="gradient")
    assert not report.ok
    assert report.findings[0].hint.endswith("accuracy=0.001")


class Jumping(torch.autograd.Function):
    """A sine that is rounded, as one of an iteration that ends early."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x)
        return (x.sin() / step).round() * step

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos(), None


@pytest.mark.parametrize("accuracy", [1e-8, 1e-6])
def test_values_that_jump_by_more_than_is_claimed_are_seen(accuracy):
    report = tg.check(Jumping.apply, Y0, 1e-5, accuracy=accuracy, only="values")
    (finding,) = report.findings
    assert (finding.code, report.verdict) == ("values-jump", tg.Verdict.LOSES_DIGITS)
    assert f"accuracy={accuracy:g} is declared" in finding.title
    assert finding.error == pytest.approx(1e-5 / float(Y0.sin().abs().max()), rel=0.1)


@pytest.mark.slow
def test_values_that_jump_by_less_are_accepted():
    report = tg.check(Jumping.apply, Y0, 1e-5, accuracy=1e-4)
    assert report.headline == "PASS (to 0.0001)", str(report)


def test_values_below_an_absolute_accuracy_are_not_tried():
    class Absolute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.where(x.abs() < 1e-7, x / 2, x.sin())  # A solver with atol=1e-7 takes one step.

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    assert tg.check(Absolute.apply, Y0, accuracy=1e-8, only="combinations").ok


@pytest.mark.parametrize("function", [torch.abs, torch.relu, lambda x: torch.sin(300 * x), torch.exp])
def test_what_is_continuous_does_not_jump(function):
    x = torch.tensor([1e-3, -2e-3, 0.7], dtype=torch.float64)
    assert tg.check(function, x, accuracy=1e-8, only="values").ok


def test_without_a_declaration_digits_are_those_of_the_dtype():
    report = tg.check(Jumping.apply, Y0, 1e-5, only=("gradient", "values"))
    assert report.verdict is not tg.Verdict.PASS


class Tangent(torch.autograd.Function):
    """A sine whose tangent and second derivative are right to nine digits."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return Scaled.apply(grad, x)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x.cos() * (1 + 1e-9)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad, x):
        ctx.save_for_backward(grad, x)
        return grad * x.cos()

    @staticmethod
    def backward(ctx, other):
        grad, x = ctx.saved_tensors
        return other * x.cos(), -other * grad * x.sin() * (1 + 1e-9)


@pytest.mark.parametrize("check", ["forward mode", "second order"])
def test_other_derivatives_are_compared_at_the_accuracy(check):
    assert not tg.check(Tangent.apply, Y0, only=check).ok
    report = tg.check(Tangent.apply, Y0, only=check, accuracy=1e-8)
    assert report.ok, str(report)


@pytest.mark.parametrize("wrongly", [False, True])
def test_more_digits_than_are_declared_prove_the_second_order(wrongly):
    """A declaration that is modest must not cost the pass: numbers that agree to ten digits are no accident."""

    @tg.op(accuracy=1e-8)
    def softened(x: Float64[torch.Tensor, "n d"]) -> Float64[torch.Tensor, "d"]:
        return (x * x.square().add(0.01).rsqrt()).sum(0)

    @softened.vjp("x")
    def _(grad, x):
        slope = 0.01 * x.square().add(0.01) ** -1.5
        return grad * (slope.detach() if wrongly else slope)

    x = torch.linspace(-2, 2, 12, dtype=torch.float64).view(4, 3)
    assert tg.check(softened, x, only="second order").ok is not wrongly


# -- of an operator ---------------------------------------------------------------------------------------------------


@tg.op(accuracy=1e-8)
def root(x: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """The square root of 1 + x^2, by an iteration that ends early."""
    found, target = np.ones_like(x), 1 + x * x
    while np.abs(found * found - target).max(initial=0) > 1e-9:
        found = (found + target / found) / 2
    return found


@root.vjp("x")
def _(grad, x, out):
    return grad * x / out


@root.reference
def _(x: np.ndarray):
    return np.sqrt(1 + x * x)


@pytest.mark.slow
def test_an_operator_says_its_accuracy():
    assert "accuracy 1e-08" in str(root)
    report = tg.check(root)
    assert report.headline == "PASS (to 1e-08)", str(report)


def test_the_accuracy_of_a_call_is_taken_first():
    assert tg.check(root, Y0, accuracy=1e-3, only="gradient").headline == "PASS (to 0.001)"


def test_values_are_compared_with_the_reference_at_the_accuracy():
    def off(part):
        @tg.op(accuracy=1e-8)
        def value(x: Float64[torch.Tensor, "n"]) -> Float64[torch.Tensor, "n"]:
            return torch.sqrt(1 + x * x) * (1 + part)

        @value.vjp("x")
        def _(grad, x):
            return grad * x / torch.sqrt(1 + x * x)

        @value.reference
        def _(x):
            return torch.sqrt(1 + x * x)

        return tg.check(value, Y0, only="reference")

    assert off(1e-9).ok
    assert off(1e-6).findings[0].code == "wrong-value"
    assert "to 1e-08" in off(1e-6).findings[0].title


@pytest.mark.parametrize("accuracy", [0.0, 1.0, -1e-8, float("nan"), 1, "1e-8"])
def test_an_accuracy_is_between_0_and_1(accuracy):
    with pytest.raises(tg.DeclarationError, match="accuracy") as error:
        tg.op(accuracy=accuracy)(lambda x: x)
    assert error.value.argument == "accuracy"
    with pytest.raises(tg.ArgumentError, match="accuracy"):
        tg.check(torch.sin, Y0, accuracy=accuracy)
