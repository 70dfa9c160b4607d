"""References: what they get, and what they give."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch
from jaxtyping import Complex, Float, Real
from torch import Tensor

import torchgraft as tg
from torchgraft._check.checks.reference import reference_outputs
from torchgraft._check.finding import Skip


@tg.op
def ratio(x: Float[Tensor, "..."], y: Float[Tensor, "..."], scale: float = 1.0) -> Float[Tensor, "..."]:
    return scale * x / y


@pytest.fixture(autouse=True)
def _forget():
    yield
    for op in (ratio, log_gamma, extremes, correlate, total):
        op._record.reference = None


@tg.op
def log_gamma(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return scipy.special.gammaln(x)


@tg.op
def extremes(
    x: Float[Tensor, "*batch n"], *, by: float = 1.0
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    return by * x.amax(-1), by * x.amin(-1)


@tg.op(batch="loop")
def correlate(x: Float[np.ndarray, "n"], kernel: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n-k+1"]:
    return np.correlate(x, kernel, mode="valid")


@tg.op
def total(xs: list[Real[Tensor, "n"]], z: Complex[Tensor, "n"] | None = None) -> Float[Tensor, "n"]:
    return sum(x.double() for x in xs)


X = torch.tensor([[0.5], [2.0]])
Y = torch.tensor([1.0, 3.0, 7.0])


def test_tensors_come_in_double_precision():
    seen = []

    @ratio.reference
    def _(x, y, scale):
        seen.extend([x.dtype, y.shape, scale])
        return scale * x / y

    (made,) = reference_outputs(ratio, (X, Y), {"scale": 2})
    assert seen == [torch.float64, (3,), 2.0]
    assert torch.equal(made, 2 * X.double() / Y.double())


def test_arrays():
    @ratio.reference
    def _(x: np.ndarray, y: np.ndarray, scale):
        assert isinstance(x, np.ndarray)
        return scale * np.divide(x, y)

    assert torch.equal(reference_outputs(ratio, (X.bfloat16(), Y))[0], X.double() / Y.double())


def test_a_reference_divides_integers_in_double_precision():
    """torch makes single precision of the quotient of integers, and the operator would be blamed for it."""

    @ratio.reference
    def _(x, y, scale):
        return x / y * (torch.tensor(2) / 3)

    assert torch.equal(reference_outputs(ratio, (X, Y))[0], X.double() / Y.double() * (2 / 3))


def test_a_ufunc_is_a_reference():
    log_gamma.reference(scipy.special.gammaln)
    assert reference_outputs(log_gamma, (torch.tensor([3.0]),))[0].item() == np.log(2)


def test_numbers_one_element_at_a_time():
    @ratio.reference
    def _(x: float, y: float, scale: float):
        assert type(x) is float
        return scale * x / y

    assert torch.equal(reference_outputs(ratio, (X, Y))[0], X.double() / Y.double())


def test_mpmath_has_fifty_digits():
    @log_gamma.reference
    def _(x: mpmath.mpf):
        assert mpmath.mp.dps == 50
        return mpmath.loggamma(x).real

    digits = mpmath.mp.dps
    x = torch.tensor([[-0.5, 1.0], [2.5, 171.5]], dtype=torch.float64)
    (made,) = reference_outputs(log_gamma, (x,))
    assert made.shape == x.shape
    torch.testing.assert_close(made, torch.lgamma(x), rtol=1e-15, atol=1e-15)
    assert mpmath.mp.dps == digits
    assert reference_outputs(log_gamma, (torch.empty(2, 0),))[0].shape == (2, 0)


def test_complex_numbers():
    @tg.op
    def exp(z: Complex[Tensor, "..."]) -> Complex[Tensor, "..."]:
        return z.exp()

    @exp.reference
    def _(z: mpmath.mpc):
        return mpmath.exp(z)

    z = torch.tensor([1 + 2j, -3j])
    (made,) = reference_outputs(exp, (z.conj(),))
    torch.testing.assert_close(made, z.to(torch.complex128).conj().exp(), rtol=1e-15, atol=1e-15)


def test_several_outputs_and_keywords():
    @extremes.reference
    def _(x, *, by):
        return by * x.max(-1).values, by * x.min(-1).values

    high, low = reference_outputs(extremes, (torch.arange(6.0).reshape(2, 3),), {"by": 2.0})
    assert (high.tolist(), low.tolist()) == ([4.0, 10.0], [0.0, 6.0])


@pytest.mark.parametrize("lead", [(), (4,), (2, 3), (0,)])
def test_under_a_loop_it_sees_one_sample(lead):
    @correlate.reference
    def _(x: np.ndarray, kernel: np.ndarray):
        assert x.ndim == kernel.ndim == 1
        return np.array([x[i : i + len(kernel)] @ kernel for i in range(len(x) - len(kernel) + 1)])

    x, kernel = torch.randn(*lead, 5, dtype=torch.float64), torch.randn(2, dtype=torch.float64)
    (made,) = reference_outputs(correlate, (x, kernel))
    torch.testing.assert_close(made, correlate(x, kernel))


@pytest.mark.parametrize("count", [0, 3])
def test_several_outputs_of_numbers(count):
    @tg.op
    def polar(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> tuple[Real[Tensor, "..."], Real[Tensor, "..."]]:
        return torch.hypot(x, y), torch.atan2(y, x)

    @polar.reference
    def _(x: float, y: float):
        return math.hypot(x, y), math.atan2(y, x)

    x = torch.linspace(-1, 1, count, dtype=torch.float64)
    torch.testing.assert_close(reference_outputs(polar, (x, 2 - x)), list(polar(x, 2 - x)))


def test_lists_optional_tensors_and_promotion():
    @total.reference
    def _(xs, z):
        assert z is None
        assert {x.dtype for x in xs} == {torch.float64}
        return xs[0] + xs[1]

    assert reference_outputs(total, ([torch.ones(2), torch.arange(2)],))[0].tolist() == [1.0, 2.0]


def test_none_is_declared():
    with pytest.raises(Skip, match="no reference"):
        reference_outputs(ratio, (X, Y))


@pytest.mark.parametrize("numbers", [True, False])
def test_a_number_in_the_place_of_none_is_no_other_way_to_round(numbers):
    """The root of a negative number is none; half of the arguments that are generated are negative."""

    def root(x, wrongly):
        return x.clamp(min=0).sqrt() if wrongly else x.sqrt()

    @tg.op
    def rooted(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return root(x, numbers)

    rooted.reference(lambda x: root(x, not numbers))
    x = torch.tensor([2.0, -1.0], dtype=torch.float64)
    (finding,) = tg.check(rooted, x, only="reference").findings
    assert (finding.code, finding.error) == ("wrong-value", math.inf)
    rooted.reference(lambda x: root(x, numbers))
    assert tg.check(rooted, x, only="reference").ok


@pytest.mark.parametrize("of", ["a surrogate", "no derivative"])
@pytest.mark.parametrize("given", [True, False])
def test_halves_are_rounded_as_the_reference_rounds_them(of, given):
    """Where both jump, and nothing on the way is rounded, no rounding explains that they go different ways."""

    @tg.op
    def steps(x: Float[Tensor, "..."], step: float = 1.0) -> Float[Tensor, "..."]:
        return torch.round(x / step) * step

    if of == "a surrogate":
        steps.surrogate("x", of=lambda x, step: x)(lambda grad: grad)
    else:
        steps.nondifferentiable("x")
    x = (torch.tensor([0.5, 1.2, 2.5], dtype=torch.float64), 1.0) if given else ()
    steps.reference(lambda x, step: torch.floor(x / step + 0.5) * step)
    (finding,) = tg.check(steps, *x, only="reference").findings
    assert finding.code == "wrong-value"
    steps.reference(lambda x, step: torch.round(x / step) * step)
    assert tg.check(steps, *x, only="reference").ok


def test_a_value_of_zero_by_hand():
    """A reference that defines a value by hand is compared there, whatever arguments are drawn."""

    @tg.op
    def cardinal(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return torch.sinc(x / math.pi)

    cardinal.nondifferentiable("x")
    cardinal.reference(lambda x: torch.where(x == 0, 0.0, torch.sin(x) / x))
    assert not tg.check(cardinal, only="reference").ok
    cardinal.reference(lambda x: torch.where(x == 0, 1.0, torch.sin(x) / x))
    assert tg.check(cardinal, only="reference").ok
