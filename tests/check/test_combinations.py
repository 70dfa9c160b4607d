"""The check `combinations`, the check `options`, and what the checker finds of what nobody thought of."""

import enum
import itertools
from typing import Literal

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

import torchgraft as tg
from torchgraft._check.case import Case
from torchgraft._check.checks.traits import ARRAY, ROWS
from torchgraft._check.target import make_target
from torchgraft._check.variations import with_sizes

from ..default import by_default, first_of_each
from .twenty import RIGHT_SINE, TWENTY, function, normal, sine

pytestmark = pytest.mark.usefixtures("unexplained")

NOT_FOUND = {"no bias", "sixteen bits", "from the end"}
"""An option that nothing names, more elements than are tried, and indices, which nobody may change."""

QUICK = ("combinations", "options")


def findings(target, *args, only=QUICK):
    """What is found, without notices."""
    return [f for f in tg.check(target, *args, only=only).findings if f.severity is not tg.Verdict.PASS]


def test_the_rows_have_each_pair_of_traits():
    for i, j in itertools.combinations(range(len(ARRAY)), 2):
        pairs = {(row[i], row[j]) for row in ROWS}
        assert pairs == set(itertools.product(range(ARRAY[i]), range(ARRAY[j])))
    assert not any(ROWS[0])
    assert len(ROWS) <= 60


@pytest.mark.slow
def test_an_iteration_that_ends_at_other_values_and_not_beside_them():
    def forward(x):
        gap, left = (x - x.round()).abs(), int(10 * x.abs().sum())
        while left > 0 or bool(((gap > 0) & (gap < 2.0**-6)).any()):
            left -= 1
        return x.sin()

    x = torch.tensor([0.3, 1.4, 2.6, -0.8], dtype=torch.float64)
    report = tg.check(function(forward, lambda grad, x, out: grad * x.cos()), x, only="combinations")
    assert report.ok


@pytest.mark.slow
def test_a_solver_that_needs_many_steps_at_other_values_is_not_called_there():
    longest = 0

    def step(x, size):
        return x - size * x

    def decay(x):
        nonlocal longest
        count = 10 + int(100 * x.abs().max())
        found = x.detach().numpy()
        for done in range(count):
            found, longest = step(found, 1 / count), max(longest, done)
        return torch.from_numpy(np.asarray(found))

    def backward(grad, x, out):
        count = 10 + int(100 * x.abs().max())
        return grad * (1 - 1 / count) ** count

    target = function(decay, backward)
    assert tg.check(target, normal(4), only="combinations").ok
    assert 100 < longest < 25_000  # 30,000 steps for values up to 300


@pytest.mark.parametrize(("pair", "found"), [(torch.mul, False), (lambda a, b: (a * b).sum(0), True)])
def test_masked_values_are_for_functions_that_sum(pair, found):
    """The derivative of what is nothing at minus infinity is asked for only where others are summed with it."""

    def forward(x):
        return pair(x.exp(), torch.ones_like(x)).log1p()

    def backward(grad, x, out):
        total = pair(x.exp(), torch.ones_like(x))
        return grad / (1 + total) * (x.exp() + 0 * x)

    target = function(forward, backward)
    codes = {f.code for f in findings(target, normal(3, 4), only="combinations")}
    assert ("nan-gradient" in codes) is found


def test_a_limit_at_infinity_is_no_mask():
    """A power is nothing there too, but not at -10,000; its derivative, infinity times nothing, is nobody's."""

    def potential(x):
        return -1 / (x.square().sum(-1) + 0.01).sqrt()

    def backward(grad, x, out):
        return (grad * (x.square().sum(-1) + 0.01) ** -1.5)[..., None] * x

    assert not findings(function(potential, backward), normal(2, 3), only="combinations")


def test_equal_values_may_be_refused():
    def ratio(a, b):
        if torch.equal(a, b):
            raise ValueError("the ends are equal")
        return a / b

    target = function(ratio, lambda grad, a, b, out: (grad / b, -grad * a / b**2))
    assert not findings(target, normal(4), normal(4, seed=1) + 3, only="combinations")


def sine_nearby(x):
    if x.shape != (4,) or x.dtype != torch.float64 or (x - normal(4)).abs().max() > 0.1:
        raise ValueError("other arguments are refused")
    return x.sin()


def refuses_a_graph(grad, x, out):
    if torch.is_grad_enabled():
        raise RuntimeError("derivatives of second order are not supported")
    return grad * x.cos()


def entropy(x):
    return -(x.softmax(-1) * x.log_softmax(-1)).sum(-1)


def entropy_gradient(grad, x, out):
    return -grad[..., None] * x.softmax(-1) * (x.log_softmax(-1) + out[..., None])


def mask_like(x):
    """A mask that float32 draws otherwise than float64."""
    return torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(3)) < 0.75


def between(m, e):
    """The root of x - e sin(x) = m by halving, where 0 <= e < 1."""
    low, high = m - e, m + e
    for _ in range(60):
        x = (low + high) / 2
        low, high = torch.where(x - e * x.sin() < m, x, low), torch.where(x - e * x.sin() < m, high, x)
    return (low + high) / 2


def between_gradient(grad, m, e, out):
    slope = grad / (1 - e * out.cos())
    return slope, slope * out.sin()


def area(points):
    x, y = points.unbind(-1)
    return (x * y.roll(-1) - x.roll(-1) * y).sum() / 2


def area_gradient(grad, points, out):
    x, y = points.unbind(-1)
    return grad / 2 * torch.stack([y.roll(-1) - y.roll(1), x.roll(1) - x.roll(-1)], -1)


def gram(x):
    """It is singular in float32 far from zero, and the identity next to zero."""
    return x @ x.mT + torch.eye(len(x), dtype=x.dtype)


def volume(x):
    return 2 * torch.linalg.cholesky(gram(x)).diagonal().log().sum()


def volume_gradient(grad, x, out):
    return 2 * grad * torch.linalg.solve(gram(x), x)


QUIET = {
    "a backward that refuses its graph": (sine_nearby, refuses_a_graph, normal(4)),
    "an entropy that saturates": (entropy, entropy_gradient, normal(3, 5)),
    "a mask that another dtype draws otherwise": (
        lambda x: x * mask_like(x), lambda grad, x, out: grad * mask_like(x), normal(4, 5),
    ),
    "an eccentricity": (between, between_gradient, normal(5), torch.linspace(0.1, 0.7, 5, dtype=torch.float64)),
    "an area far from zero": (area, area_gradient, normal(5, 2)),
    "the volume of a Gram matrix": (volume, volume_gradient, normal(2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", by_default(QUIET, lambda name: name != "an eccentricity"))  # All of it takes 5 s.
def test_right_ones_are_not_blamed(name):
    forward, backward, *inputs = QUIET[name]
    found = findings(function(forward, backward), *inputs)
    assert not found, found[0]


@tg.op
@tg.domain(n="positive", d="positive", tolerance="[0.0001, 0.1]", x="[-100, 100]")
def to_unit(x: Float[Tensor, "*batch n d"], tolerance: float = 0.01) -> Float[Tensor, "*batch n d"]:
    """Rows over their lengths; zeros for rows that are tiny beside the longest one."""
    kept, rows = _kept(x, tolerance)
    return torch.where(kept, rows / _lengths(rows), 0)


@to_unit.vjp("x")
def _(grad, x, tolerance):
    kept, rows = _kept(x, tolerance)
    direction = rows / _lengths(rows)
    across = grad - direction * (grad * direction).sum(-1, keepdim=True)
    return torch.where(kept, across / _lengths(rows), 0)


def _lengths(x):
    size = x.abs().amax(-1, keepdim=True)
    size = torch.where(size > 0, size, 1)
    return size * torch.linalg.vector_norm(x / size, dim=-1, keepdim=True)


def _kept(x, tolerance):
    length = _lengths(x.double())
    kept = length > tolerance * length.amax((-2, -1), keepdim=True)
    return kept, torch.where(kept, x, 1)


@pytest.mark.slow
def test_rounding_along_an_axis_of_1_is_no_third_derivative():
    """The derivative is 0 there, and all that is left of it is rounding: about two grains."""
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = tg.check(to_unit, x, only="combinations").findings
    assert not found, found[0]


def test_the_default_of_an_option_that_is_given_is_tried():
    made = function(
        lambda x, norm: x.sin() * (norm or 2), lambda grad, x, norm, out: (grad * x.cos() * (norm or 1), None)
    )

    def scaled(x, norm=None):
        return made(x, norm)

    found = tg.check(scaled, normal(4), kwargs={"norm": 3.0}, only="options").findings
    assert [f.where.partition(";")[0] for f in found] == ["norm=0.0", "norm=None"]


each_of_twenty = pytest.mark.parametrize("pair", TWENTY, ids=lambda pair: pair.name)

# Many have one right version.
RIGHT = first_of_each(TWENTY, lambda pair: [pair.right])


@pytest.mark.slow
@each_of_twenty
def test_functions_that_no_check_was_written_for(pair):
    assert tg.check(pair.wrong, *pair.inputs()).ok is (pair.name in NOT_FOUND)


@pytest.mark.slow
@each_of_twenty
def test_they_are_found_in_combinations(pair):
    if pair.name == "address":
        pytest.skip("found where memory happens to be used again; the check `state` finds it for certain")
    assert bool(findings(pair.wrong, *pair.inputs())) is (pair.name not in NOT_FOUND)


@pytest.mark.slow
@each_of_twenty
def test_their_right_versions(pair):
    report = tg.check(pair.right, *pair.inputs())
    assert report.ok, str(report)


@pytest.mark.parametrize("pair", by_default(TWENTY, RIGHT.__contains__, lambda pair: pair.name))
def test_their_right_versions_in_combinations(pair):
    assert not findings(pair.right, *pair.inputs())


# -- one mistake a trait -----------------------------------------------------------------------------------------------


def wrong_where(condition):
    """A sine whose gradient is off by a hundredth where something holds of the gradient and the input."""
    return sine(
        lambda grad, x: (grad + (grad.abs().max() == 0)) * x.cos() * 1.01 if condition(grad, x) else grad * x.cos()
    )


TRAITED = {
    "large values": lambda grad, x: bool((x.abs() > 20).any()),
    "whole numbers": lambda grad, x: bool((x == x.round()).all()) and 0 < float(x.abs().max()) < 100,
    "tiny values": lambda grad, x: bool((x.abs() < 1e-6).all()) and bool(x.all()),
    "zeros": lambda grad, x: not x.any(),
    "nearly equal values": lambda grad, x: (
        bool((x.abs() > 1e-3).any()) and 1 < x.numel() < 100 and 0 < float(x.flatten().diff().abs().min()) < 1e-2
    ),
    "values in order, from end to end": lambda grad, x: x.numel() > 1 and bool((x.flatten().diff() > 0).all()),
    "upstream gradients that sum to zero": lambda grad, x: float(grad.sum()) == 0 and float(grad.abs().sum()) > 1e-3,
    "upstream gradients that are tiny": lambda grad, x: bool((grad.abs() < 1e-7).all()),
    "upstream gradients with one element": lambda grad, x: grad.numel() > 1 and int((grad != 0).sum()) == 1,
    "upstream gradients of zeros": lambda grad, x: not grad.any(),
    "upstream gradients of ones": lambda grad, x: bool((grad == 1).all()),
    "an axis of 1": lambda grad, x: x.dim() == 1 and len(x) == 1,
    "no axes": lambda grad, x: not x.dim(),
    "four axes": lambda grad, x: x.dim() == 4,
    "five axes": lambda grad, x: x.dim() == 5,
    "thousands of elements": lambda grad, x: x.numel() > 4096,
    "another precision": lambda grad, x: x.dtype == torch.float32,
    "parameters": lambda grad, x: isinstance(x, torch.nn.Parameter),
    "deterministic": lambda grad, x: torch.are_deterministic_algorithms_enabled(),
    "anomaly": lambda grad, x: torch.is_anomaly_enabled(),
    "autocast in the backward": lambda grad, x: torch.is_autocast_enabled("cpu"),
    "the graph of the backward": lambda grad, x: torch.is_grad_enabled(),
}


@pytest.mark.slow
@pytest.mark.parametrize("trait", TRAITED)
def test_a_mistake_with_one_trait_is_found_and_named(trait):
    found = findings(wrong_where(TRAITED[trait]), normal(4))
    assert any(trait in finding.where for finding in found), found


@pytest.mark.slow
def test_a_band_of_values_that_few_elements_miss():
    """A twentieth of the numbers between -4 and 4 are in it, and none of those that are given; few of them show it."""
    given = torch.tensor([-1.5, -0.5, 0.25, 1.25], dtype=torch.float64)
    wrong = sine(lambda grad, x: grad * x.cos() * torch.where((x.abs() > 2.6) & (x.abs() < 2.8), 1.01, 1.0))
    (finding,) = findings(wrong, given)
    assert finding.where.endswith("; some values; input 0: float64[4]")
    assert finding.title.endswith("at values you did not give")


@pytest.mark.slow
def test_a_backward_in_single_precision_shows_beside_doubles():
    narrow = sine(lambda grad, x: grad * x.float().cos())
    (finding,) = findings(narrow, normal(4).float())
    assert finding.severity is tg.Verdict.LOSES_DIGITS
    assert "another precision" in finding.where
    assert "at a precision you did not give" in finding.title
    assert not findings(RIGHT_SINE, normal(4).float())


@pytest.mark.slow
@pytest.mark.parametrize(("given", "tried"), [(3, 3), (60_000, 1)])
def test_complex_tensors_that_nobody_gave_are_a_notice(given, tried):
    naive = function(torch.mul, lambda grad, a, b, out: (grad * b, grad * a))
    report = tg.check(naive, normal(given), normal(given, seed=1), only="combinations")
    assert report.ok
    (finding,) = report.findings
    assert finding.code == "wrong-for-complex"
    assert f"complex128[{tried}]" in finding.where
    right = function(torch.mul, lambda grad, a, b, out: (grad * b.conj(), grad * a.conj()))
    assert not tg.check(right, normal(3), normal(3, seed=1), only="combinations").findings


def rms(wide, factor=lambda grad: 1):
    """Hundred times numbers by their root mean square, which the forward computes in double precision."""

    def forward(x):
        y = x.double()
        return (100 * y * (y.square().mean(-1, keepdim=True) + 1).rsqrt()).to(x.dtype)

    def backward(grad, x, out):
        y, g = wide(x), wide(grad) * 100
        r = (y.square().mean(-1, keepdim=True) + 1).rsqrt()
        return factor(grad) * (r * g - y * r**3 * (g * y).mean(-1, keepdim=True)).to(x.dtype)

    return function(forward, backward)


def test_an_order_that_few_digits_do_not_show():
    """In float32 one minus a billionth is one: other elements are the largest there, and the gradient is as right."""

    def backward(grad, x, out):
        weights = torch.arange(1.0, 1 + x.shape[-1], dtype=x.dtype).expand_as(x)
        return -grad[..., None] * torch.zeros_like(x).scatter(-1, (1 - x).sort(-1).indices, weights)

    def forward(x):
        return ((1 - x).sort(-1).values * torch.arange(1.0, 1 + x.shape[-1], dtype=x.dtype)).sum(-1)

    assert not findings(function(forward, backward), normal(9))


def test_a_cancellation_next_to_an_end():
    """Where zeros are refused, tiny numbers are told from them."""

    def forward(x):
        if bool((x >= 0).any()):
            raise ValueError("negative numbers")
        return torch.log(-torch.expm1(x))

    wrong = function(forward, lambda grad, x, out: -grad * x.exp() / (1 - x.exp()))
    right = function(forward, lambda grad, x, out: grad * x.exp() / torch.expm1(x))
    given = -normal(8).abs() - 0.1
    assert "tiny values; another precision" in findings(wrong, given)[0].where
    assert not findings(right, given)


@pytest.mark.slow
def test_a_backward_that_overflows_in_sixteen_bits():
    given = normal(4, 16).float()
    (notice,) = (f for f in tg.check(rms(lambda x: x), given, only=QUICK).findings if "float16" in f.where)
    assert "large values; float16" in notice.where
    assert notice.severity is tg.Verdict.PASS  # Nobody gave numbers of sixteen bits.
    assert not findings(rms(torch.Tensor.double), given)
    doubled = rms(lambda x: x, lambda grad: 2 if grad.dim() == 5 and grad.min() == grad.max() else 1)
    (finding,) = findings(doubled, given)  # The notice does not stand for it.
    assert "of ones" in finding.where
    large = (100 * given).half()
    assert tg.check(rms(torch.Tensor.double), large)
    assert not tg.check(rms(lambda x: x), large)


# -- options -----------------------------------------------------------------------------------------------------------


class Side(enum.Enum):
    LEFT = enum.auto()
    RIGHT = enum.auto()


class Weighted(Function):
    """x times a weight that all options make, with the gradient of their defaults."""

    @staticmethod
    def forward(ctx, x, flag=False, factor=1.0, word: Literal["one", "two"] = "one", side=Side.LEFT):
        return x * (2 if flag else 1) * factor * (3 if word == "two" else 1) * (5 if side is Side.RIGHT else 1)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None, None


def weighted(x, flag=False, factor=1.0, word: Literal["one", "two"] = "one", side=Side.LEFT):
    return Weighted.apply(x, flag, factor, word, side)


class Module(torch.nn.Module):
    def forward(self, x, flag=False, factor=1.0, word: Literal["one", "two"] = "one", side=Side.LEFT):
        return Weighted.apply(x, flag, factor, word, side)


@pytest.mark.parametrize("target", [Weighted.apply, weighted, Module()], ids=["Function", "function", "module"])
@pytest.mark.parametrize("given", [(), (False,), (False, 1.0, "one", Side.LEFT)], ids=len)
def test_options_that_are_given_or_left_out(target, given):
    found = tg.check(target, normal(3), *given, only="options").findings
    said = [finding.where.partition(";")[0] for finding in found]
    assert sorted(said) == sorted(["flag=True", "factor=1.5", "word='two'", f"side={Side.RIGHT!r}"])


def test_an_option_with_which_a_loop_does_not_end_is_not_tried():
    class Stepped(Function):
        @staticmethod
        def forward(ctx, x, step, count):
            time = 0.0
            while time < 1:
                time += step
            while count != 1:
                count //= 2
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None, None

    report = tg.check(Stepped.apply, normal(3), 0.25, 4)
    assert report.ok, report


@pytest.mark.parametrize("place", [lambda axis, q: axis, lambda axis, q: axis % q.dim()], ids=["wrong", "right"])
def test_an_axis_of_a_tensor_without_gradient_counted_from_the_end(place):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, q, scale, axis):
            if scale.shape != (q.shape[axis],):
                raise ValueError("one scale for each slice")
            ctx.q, ctx.axis = q, axis
            return q * scale.view([-1 if i == axis % q.dim() else 1 for i in range(q.dim())])

        @staticmethod
        def backward(ctx, grad):
            others = [i for i in range(ctx.q.dim()) if i != place(ctx.axis, ctx.q)]
            return None, (grad * ctx.q).sum(others).expand(ctx.q.shape[ctx.axis]), None

    codes = torch.tensor([[3, -5, 7], [1, 0, -2]])
    found = tg.check(Scaled.apply, codes, normal(2).requires_grad_(), 0, only="options").findings
    said = [finding.where.partition(";")[0] for finding in found if finding.severity is tg.Verdict.FAIL]
    assert said == ["axis=-2"] * (place(-1, codes) == -1)


def test_a_tensor_that_may_be_left_out():
    class Biased(Function):
        @staticmethod
        def forward(ctx, x, bias: torch.Tensor | None):
            return x + 1 if bias is None else x + bias

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    (finding,) = tg.check(Biased.apply, normal(3), normal(3), only="options").findings
    assert finding.code == "backward-raises"
    assert finding.where.startswith("bias=None")


class Scaled(Function):
    """x times a factor, of which the forward mode knows nothing."""

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * 1.0


@pytest.mark.slow
def test_other_derivatives_with_another_option():
    assert tg.check(Scaled.apply, normal(3), 1.0, skip="options").ok
    finding = tg.check(Scaled.apply, normal(3), 1.0, only="options").findings[0]
    assert finding.where.startswith("factor=1.5")


# -- data that needs no gradient, and sizes of arguments beside each other --------------------------------------------


def test_masks_of_one_value():
    def mean(x, mask):
        return torch.where(mask.any(), (x * mask).sum() / mask.sum(), x.new_zeros(()))

    mask = torch.tensor([True, False, True])
    found = tg.check(mean, normal(3), mask, only="options").findings
    assert {finding.where.partition(";")[0] for finding in found} == {"mask all False"}
    safe = lambda x, mask: (x * mask).sum() / mask.sum().clamp(min=1)  # noqa: E731
    assert tg.check(safe, normal(3), mask, only="options").ok


def test_a_mask_that_leaves_out_an_infinity():
    """With True everywhere the values are infinite, for which nobody asked."""

    def energy(r, q, mask):
        return q * torch.where(mask, 1 / torch.where(mask, r, 1), 0)

    r, mask = torch.tensor([1.0, 0.0, 2.5, 0.0], dtype=torch.float64), torch.tensor([True, False, True, False])
    assert tg.check(energy, r, normal(4), mask, only="options").ok


def test_small_integers_at_their_ends():
    def scaled(grad, s, q, out):
        return grad * (q - 3), None  # in eight bits -128 - 3 is 125

    target = function(lambda s, q: s * (q.double() - 3), scaled)
    (finding,) = tg.check(target, normal(2), torch.tensor([3, 5], dtype=torch.int8), only="options").findings
    assert "of ends of torch.int8" in finding.where


def losses(count):
    """A mean of log-probabilities of labels, whose gradient counts labels in some way."""

    class Loss(Function):
        @staticmethod
        def forward(ctx, x, labels, ignore_index=-1):
            if x.shape[:1] != labels.shape:
                raise ValueError("one label for each row")
            kept = labels != ignore_index
            picked = x.gather(1, labels.where(kept, 0)[:, None])[:, 0]
            ctx.save_for_backward(x, labels, kept)
            return (picked * kept).sum() / kept.sum()

        @staticmethod
        def backward(ctx, grad):
            x, labels, kept = ctx.saved_tensors
            share = (grad * kept / count(labels, kept)).to(x.dtype)
            return torch.zeros_like(x).scatter(1, labels.where(kept, 0)[:, None], share[:, None]), None, None

    return Loss.apply


@pytest.mark.slow
def test_labels_that_are_ignored():
    arguments = normal(4, 3), torch.tensor([0, 2, 1, 2])
    assert tg.check(losses(lambda labels, kept: kept.sum()), *arguments, only=("options", "sizes")).ok
    found = tg.check(losses(lambda labels, kept: len(labels)), *arguments, only="options").findings
    said = {finding.where.partition(";")[0] for finding in found}
    assert said == {"labels with an element ignore_index=-1", "ignore_index=0"}


def test_labels_that_a_wrapper_ignores_by_default():
    """Labels that lie apart in memory, too."""
    loss = losses(lambda labels, kept: len(labels))
    labels = torch.tensor([[0, 1], [2, 1], [1, 0], [2, 0]])[:, 0]
    found = tg.check(lambda x, labels: loss(x, labels, -100), normal(4, 3), labels, only="options").findings
    assert [finding.where.partition(";")[0] for finding in found] == ["labels with an element ignore_index=-100"]


def test_thousands_of_elements_are_no_millions():
    """Beside a mask of many there are numbers without axes."""
    case = Case(make_target(torch.where), [torch.ones(10, 10) > 0, normal(), normal()])
    larger = with_sizes(case, "thousands of elements", free=True)
    assert 4096 < max(leaf.numel() for leaf in larger.leaves) < 5000


def test_lengths_are_no_labels():
    """Those below 1 are nobody's, and each of them is as good as the next."""

    def sums(grad, x, lengths, out):
        mask = torch.arange(3) < lengths[:, None]
        mask[:, 0] &= lengths > 0
        return grad[:, None] * mask, None

    first = function(lambda x, n: (x * (torch.arange(3) < n.clamp(min=1)[:, None])).sum(1), sums)
    assert not findings(first, normal(2, 3), torch.tensor([3, 2]), only="options")


def test_a_batch_of_rows_beside_one_weight():
    def sums(grad, x, w, out):
        return grad * w, (grad * x).sum(0).reshape(-1, len(w))[0]

    (finding,) = findings(function(torch.mul, sums), normal(5, 3), normal(3, seed=1))
    assert "an axis in front of the largest" in finding.where


@pytest.mark.slow
def test_complex_beside_real_tensors_make_all_of_them_complex():
    def product(conjugate):
        def backward(grad, z, w, out):
            by_w = grad * z.conj()
            return grad * conjugate(w), by_w if w.is_complex() else by_w.real

        return function(torch.mul, backward)

    given = torch.complex(normal(3), normal(3, seed=1)), normal(3, seed=2)
    found = findings(product(lambda w: w), *given, only="combinations")
    assert [finding.code for finding in found] == ["wrong-for-complex"]
    assert not findings(product(torch.Tensor.conj), *given, only="combinations")


@pytest.mark.slow
def test_labels_are_as_many_as_rows():
    """The batch has another size only if the labels have it too."""
    arguments = normal(4, 3), torch.tensor([0, 2, 1, 2])
    (finding,) = tg.check(losses(lambda labels, kept: kept.sum().clamp(max=64)), *arguments, only="sizes").findings
    assert "labels: int64[67]" in finding.where


@pytest.mark.slow
def test_a_single_axis_shorter_longer_or_of_size_1():
    def mean(grad, x, y, out):
        share = grad * (x - y) * 2 / x.numel()
        return tuple(share.sum_to_size(t.shape) * sign for t, sign in ((x, 1), (y, -1)))

    (finding,) = tg.check(
        function(lambda x, y: ((x - y) ** 2).mean(), mean), normal(4, 3), normal(4, 3, seed=1), only="sizes"
    ).findings
    assert "of size 1" in finding.cause

    def scores(q, k):
        """The last of q may see all of k, the one before it all but one."""
        return (q @ k.mT).tril(k.shape[0] - q.shape[0])

    def backward(grad, q, k, out):
        kept = grad.tril(min(0, k.shape[0] - q.shape[0]) if grad.shape[0] < grad.shape[1] else grad.shape[1] - len(q))
        return kept @ k, kept.mT @ q

    (finding,) = tg.check(function(scores, backward), normal(4, 2), normal(4, 2, seed=1), only="sizes").findings
    assert "shorter by one" in finding.cause


def test_arguments_that_no_longer_fit_each_other():
    """The forward takes a longer table, and the backward refuses it: that is no wrong number."""

    def picky(grad, x, y, out):
        if x.shape != y.shape:
            raise ValueError("of one size")
        return grad * y[: len(x)], torch.zeros_like(y) + grad * x

    def product(x, y):
        return x * y[: len(x)]

    assert tg.check(function(product, picky), normal(4), normal(4, seed=1), only="sizes").ok


# -- values of other signs, matrices with equal eigenvalues -----------------------------------------------------------


@pytest.mark.slow
def test_a_branch_that_hides_the_value_alone():
    def force(x):
        return torch.where(x > 0, x**1.5, 0.0)

    given = normal(3).abs() + 0.1
    (finding,) = findings(force, given)
    assert finding.code == "nan-gradient"
    assert not findings(lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0) ** 1.5, 0.0), given)


@pytest.mark.slow
def test_equal_eigenvalues():
    def by_eigenvalues(grad, a, out):
        gap = torch.linalg.eigvalsh(a).diff().min().detach()
        return grad * a.inverse().mT * (gap / gap)  # as differences of eigenvalues divide each other

    matrix = normal(3, 3)
    (finding,) = findings(function(torch.logdet, by_eigenvalues), matrix @ matrix.mT + torch.eye(3).double())
    assert "multiples of the identity" in finding.where


def test_options_of_torch_are_notices():
    """Some of these change gradients on purpose."""
    places = torch.tensor([0, 1, 1])
    report = tg.check(torch.nn.functional.embedding, places, normal(3, 2), only="options")
    assert report.ok
    assert any("scale_grad_by_freq=True" in finding.where for finding in report.findings)


@pytest.mark.parametrize("seed", [4, 17, 20])
def test_a_median_of_three_equal_elements_has_no_derivative(seed):
    """It is smooth along each line, and its derivatives add up along one pair of three."""

    def backward(grad, x, out):
        return torch.zeros_like(x).scatter(0, x.median(0).indices[None], grad[None])

    median = function(lambda x: x.median(0).values, backward)
    assert tg.check(median, normal(3, 1, seed=seed), seed=seed, only="combinations").ok


def test_what_fails_at_large_values_in_sixteen_bits_is_a_notice():
    def backward(grad, x, out):
        shift = 77.7 * (x.abs().amax() > 100)  # At 300, bfloat16 rounds the sum by 1.
        return grad * (x + shift - out - shift).exp()

    right = function(lambda x: x.logsumexp(0), backward)
    report = tg.check(right, normal(6), only="combinations")
    assert report.ok
    assert any("large values; bfloat16" in f.where for f in report.findings)


def test_a_variance_that_cancels_in_single_precision():
    def standardized(x):
        return (x - x.mean()) / x.std(correction=0)

    def by(variance):
        def backward(grad, x, out):
            moved = grad - grad.mean() - out * (grad * out).mean()
            return moved / variance(x).clamp(min=1e-30).sqrt()

        return function(standardized, backward)

    x = normal(12)
    (finding,) = findings(by(lambda x: (x * x).mean() - x.mean() ** 2), x)
    assert "a mean far from zero; another precision" in finding.where
    assert not findings(by(lambda x: (x - x.mean()).square().mean()), x)


@pytest.mark.parametrize("factor", [1, 2])
def test_a_parameter_of_zeros_hides_no_gradient(factor):
    """The gradient of `a` is 0 before `b` is trained, whatever it is multiplied by."""

    def backward(grad, x, a, b, out):
        return 2 * grad @ b @ a, factor * (grad @ b).mT @ x, 2 * grad.mT @ (x @ a.mT)

    adapted = function(lambda x, a, b: 2 * x @ a.mT @ b.mT, backward)

    class Adapter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Parameter(normal(2, 4)), torch.nn.Parameter(torch.zeros(3, 2).double())

        def forward(self, x):
            return adapted(x, self.a, self.b)

    report = tg.check(Adapter(), normal(5, 4), only="gradient")
    assert [f.where.partition(";")[0] for f in report.findings] == ["the output by `a`"] * (factor == 1)


class Columns(torch.nn.Module):
    """A function of numbers and of one parameter for each column."""

    def __init__(self, function, start):
        super().__init__()
        self.function, self.weight = function, torch.nn.Parameter(torch.full((3,), start).double())

    def forward(self, x):
        return self.function(x, self.weight)


@pytest.mark.slow
def test_a_parameter_may_change_its_sign():
    def leaky(negative):
        def backward(grad, x, slope, out):
            below = negative(x, out)
            return torch.where(below, grad * slope, grad), (grad * x * below).sum(0)

        return Columns(function(lambda x, slope: torch.where(x < 0, slope * x, x), backward), 0.25)

    (found,) = findings(leaky(lambda x, out: out < 0), normal(4, 3), only="combinations")
    assert "equal parameters of both signs" in found.where
    assert not findings(leaky(lambda x, out: x < 0), normal(4, 3), only="combinations")


def test_a_parameter_is_not_broadcast():
    """A column of numbers beside it would be, and nobody calls a layer so."""

    def backward(grad, x, weight, out):
        by_x = grad[:, None] * weight
        return by_x[:, : x.shape[1]], (grad[:, None] * x).sum(0).expand_as(weight)

    layer = Columns(function(lambda x, weight: (x * weight).sum(-1), backward), 0.5)
    assert not findings(layer, normal(4, 3), only=("combinations", "sizes"))


@pytest.mark.parametrize("jumps", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_gradient_where_values_jump(jumps):
    """Beside equal numbers the sign of their difference is any, and a distance has a kink."""

    def compared(x):
        gap = x[..., 0] - x[..., 1]
        return gap / torch.where(gap == 0, 1.0, gap.abs()) + x.sum(-1) if jumps else gap.abs() + x.sum(-1)

    def backward(grad, x, out):
        gap = x[..., 0] - x[..., 1]
        slope = 0 / gap if jumps else gap / gap.abs()
        return grad[..., None] * torch.stack([1 + slope, 1 - slope], -1)

    given = torch.tensor([[0.5, 1.0], [2.0, 0.25], [-1.0, 1.5]], dtype=torch.float64)
    assert tg.check(function(compared, backward), given, only=("combinations", "ties")).ok is jumps


def test_rows_that_all_go_one_way():
    """Each fourth row of a kind is left out, and there are three at most."""

    def kept(x):
        kind = torch.nn.functional.one_hot((7 * x).cos().argmax(-1), x.shape[-1])
        few = (kind * kind.cumsum(0)).sum(-1, keepdim=True) <= 3
        return (few | (x.abs().amax(-1, keepdim=True) < 0.25)).to(x.dtype)

    def routed(slope):
        return function(lambda x: x.sin() * kept(x), lambda grad, x, out: grad * x.cos() * slope(x))

    given = torch.tensor([[2.0, 0.5, 1.0], [0.5, 2.0, 1.0], [1.0, 0.5, 2.0], [1.5, 0.25, 1.0]], dtype=torch.float64)
    (found,) = findings(routed(torch.ones_like), given, only="combinations")
    assert "slices that are alike" in found.where
    assert not findings(routed(kept), given, only="combinations")


@pytest.mark.parametrize("kept", [True, False])
def test_a_mask_in_the_place_of_none(kept):
    class Masked(Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(x, mask)
            return x.sin() if mask is None else x.sin().masked_fill(~mask, 0.0)

        @staticmethod
        def backward(ctx, grad):
            x, mask = ctx.saved_tensors
            grad = grad if mask is None or not kept else grad.masked_fill(~mask, 0.0)
            return grad * x.cos(), None

    class Layer(torch.nn.Module):
        def forward(self, x, mask=None):
            return Masked.apply(x, mask)

    found = [finding.where for finding in findings(Layer(), normal(2, 3, 3), only="options")]
    assert found == ([] if kept else ["a tensor for mask; x: float64[2, 3, 3], mask: bool[3, 3]"])


class Standardized(torch.nn.Module):
    """Numbers by the mean and the deviation of earlier ones, as a batch norm that no longer trains."""

    def __init__(self, slope):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3).double())
        self.register_buffer("deviation", torch.ones(3).double())
        self.called = function(lambda x, mean, deviation: (x - mean) / deviation, slope)

    def forward(self, x):
        return torch.tanh(x) if self.training else self.called(x, self.mean, self.deviation)


@pytest.mark.parametrize("trained", [False, True])
def test_buffers_of_ones_hide_no_gradient(trained):
    wrong = Standardized(lambda grad, x, mean, deviation, out: (grad, None, None)).train(trained)
    (found,) = tg.check(wrong, normal(2, 3), only="options").findings
    assert found.where == "training=False and other buffers; x: float64[2, 3]"
    assert wrong.training is trained
    assert torch.equal(wrong.deviation, torch.ones(3).double())
    right = Standardized(lambda grad, x, mean, deviation, out: (grad / deviation, None, None)).train(trained)
    assert not tg.check(right, normal(2, 3), only="options").findings


@pytest.mark.parametrize(
    ("slope", "found"),
    [(lambda grad, x, out: grad * x.cos() * torch.where(x > 20, 1.01, 1), ["the output by `x`; large values"]),
     (lambda grad, x, out: grad * x.cos().detach(), ["second order: the gradient of x by `x`; second order"])],
    ids=["of large values", "of second order"],
)  # fmt: skip
def test_a_mistake_that_every_option_shows_is_no_matter_of_an_option(slope, found):
    class Layer(torch.nn.Module):
        dropout = torch.nn.Dropout(0.0)

        def forward(self, x):
            return function(torch.sin, slope)(self.dropout(x))

    wheres = [finding.where.rpartition(";")[0] for finding in findings(Layer(), normal(2, 3))]
    assert wheres == found


class Gated(torch.nn.Module):
    """Twice the input, times a number of a part of it that is 1 unless somebody sets it."""

    def __init__(self, forgets):
        super().__init__()
        self.scale = torch.nn.Identity()
        self.scale.factor = 1.0
        self.called = function(
            lambda x, factor: 2 * factor * x, lambda grad, x, factor, out: (2 * grad * (1 if forgets else factor), None)
        )

    def forward(self, x):
        return self.called(x, self.scale.factor)


@pytest.mark.parametrize("forgets", [False, True])
def test_an_attribute_of_one_hides_no_gradient(forgets):
    module = Gated(forgets)
    found = [finding.where for finding in tg.check(module, normal(2), only="options").findings]
    assert found == (["scale.factor=0.75; x: float64[2]"] if forgets else [])
    assert module.scale.factor == 1.0


@pytest.mark.parametrize("accumulates", [False, True])
def test_an_index_that_comes_twice_is_a_notice(accumulates):
    """It may be that none does: a permutation has another right backward."""

    def backward(grad, x, index, out):
        return torch.zeros_like(x).index_put((index,), grad, accumulate=accumulates), None

    gathered = function(lambda x, index: x[index], backward)
    report = tg.check(gathered, normal(4), torch.tensor([2, 0, 3, 1]), only=("gradient", "options"))
    assert report.ok
    said = [] if accumulates else ["input 1 with 1 in the place of 2"]
    assert [f.where.partition(";")[0] for f in report.findings] == said


def test_a_permutation_counted_from_the_end_is_right():
    def backward(grad, x, index, out):
        return torch.zeros_like(x).index_put((index,), grad), None

    permuted = function(lambda x, index: x[index], backward)
    report = tg.check(permuted, normal(4), torch.tensor([2, 0, -1, 1]), only=("gradient", "options"))
    assert report.ok, str(report)


def test_a_segment_that_is_empty_is_a_notice():
    """The mean of nothing is said to be 0, and so has to be its gradient."""

    def forward(x, ends):
        parts = torch.tensor_split(x, ends)
        return torch.stack([part.sum() / max(len(part), 1) for part in parts])

    def backward(grad, x, ends, out):
        sizes = torch.diff(ends, prepend=ends.new_zeros(1), append=torch.tensor([len(x)]))
        lengths = sizes.clamp(min=1)
        return (grad / lengths).repeat_interleave(lengths)[: len(x)], None

    report = tg.check(function(forward, backward), normal(7), torch.tensor([2, 4, 5]), only=("gradient", "options"))
    assert report.ok
    assert [f.where.partition(";")[0] for f in report.findings] == ["input 1 with 2 in the place of 4"]


@pytest.mark.slow
def test_tiny_values_that_are_rounded_to_a_kink():
    """A table's place is about 3, so that in single precision values of 1e-9 lie on a knot."""

    def place(x):
        at = 3 + 2 * x
        index = at.floor().long().clamp(0, 5)
        return at, index

    def read(table, x):
        at, index = place(x)
        return table[index] + (at - index) * (table[index + 1] - table[index])

    def backward(grad, table, x, out):
        at, index = place(x)
        slope = table[index + 1] - table[index]
        of_table = torch.zeros_like(table).index_add(0, index, grad * (1 - at + index))
        return of_table.index_add(0, index + 1, grad * (at - index)), 2 * grad * slope

    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.values = torch.nn.Parameter(normal(7))

        def forward(self, x):
            return function(read, backward)(self.values, x)

    assert not findings(Table(), normal(8, seed=1) / 4, only="combinations")


@pytest.mark.slow
def test_one_tensor_twice():
    def wrong(grad, a, b, out):
        same = a.data_ptr() == b.data_ptr()
        return grad * b * (2 if same else 1), grad * a

    product = function(torch.mul, wrong)
    assert "one tensor twice" in findings(product, normal(4), normal(4, seed=1))[0].where
    right = function(torch.mul, lambda grad, a, b, out: (grad * b.conj(), grad * a.conj()))
    assert not findings(right, normal(4), normal(4, seed=1))


@pytest.mark.slow
def test_one_tensor_twice_of_whose_gradients_one_is_rounded_more():
    def backward(grad, a, b, out):
        b = b * (1 + (torch.get_num_threads() - 1) * 2.0**-50)  # As where threads add up parts of a sum.
        return grad, grad * (1e3 * b).cos()

    right = function(lambda a, b: a + (1e3 * b).sin() / 1e3, backward)
    assert not findings(right, normal(4), normal(4, seed=1))


def test_one_tensor_for_another_of_other_sizes():
    """The forward takes more columns than two, and the backward refuses them."""

    def backward(grad, x, points, out):
        return grad[:, None].expand_as(x), grad[:, None] * points[:, :2].flip(1)

    areas = function(lambda x, points: x.sum(1) + points[:, 0] * points[:, 1], backward)
    assert not findings(areas, normal(4, 5), normal(4, 2, seed=1))


class Cubed(Function):
    """A cube whose forward mode is right, and whose tangent of the gradient is not."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return CubedSlope.apply(grad, ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * ctx.saved_tensors[0] ** 2 * tangent


class CubedSlope(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(grad, x):
        return 3 * grad * x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, outer):
        grad, x = ctx.saved_tensors
        return outer * 3 * x**2, outer * 6 * grad * x

    @staticmethod
    def jvp(ctx, tangent, moved):
        grad, x = ctx.saved_tensors
        return 3 * tangent * x**2 + 5 * grad * x * moved


@pytest.mark.slow
def test_forward_over_reverse():
    found = findings(Cubed.apply, normal(3))
    assert {finding.code for finding in found} == {"forward-over-reverse"}


class Slopes(Function):
    """Gradients of a cube and a square, whose tangents are wrong where nothing flows from the cube."""

    generate_vmap_rule = True

    @staticmethod
    def forward(cube, square, x):
        return 3 * cube * x**2 + 2 * square * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, outer):
        cube, square, x = ctx.saved_tensors
        return outer * 3 * x**2, outer * 2 * x, outer * (6 * cube * x + 2 * square)

    @staticmethod
    def jvp(ctx, d_cube, d_square, moved):
        cube, square, x = ctx.saved_tensors
        factor = 2 if cube.any() else 3
        return 3 * d_cube * x**2 + 2 * d_square * x + (6 * cube * x + factor * square) * moved


class CubeAndSquare(Cubed):
    @staticmethod
    def forward(x):
        return x**3, x**2

    @staticmethod
    def backward(ctx, cube, square):
        return Slopes.apply(cube, square, ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent, 2 * x * tangent


@pytest.mark.slow
def test_forward_over_reverse_of_one_output():
    found = findings(CubeAndSquare.apply, normal(3))
    assert {finding.code for finding in found} == {"forward-over-reverse"}


@pytest.mark.slow
def test_third_order():
    def slope(grad, x, out):
        return grad * (x.cos() + 0 * x) if not grad.requires_grad else Second.apply(grad, x)

    class Second(Function):
        @staticmethod
        def forward(ctx, grad, x):
            ctx.save_for_backward(grad, x)
            return grad * x.cos()

        @staticmethod
        def backward(ctx, outer):
            grad, x = ctx.saved_tensors
            return outer * x.cos(), -outer * grad * x.sin().detach()

    found = findings(function(torch.sin, slope), normal(3) + 2)
    assert any("third order" in finding.where for finding in found)


@pytest.mark.slow
def test_structure_is_kept():
    """A rule that holds for symmetric matrices is right wherever the given one is symmetric."""

    def half(grad, x, out):
        return (grad + grad.mT) / 2 * 2 * x

    matrix = normal(3, 3)
    assert not [
        finding
        for finding in findings(function(lambda x: (x + x.mT) ** 2 / 4, half), matrix + matrix.mT)
        if finding.code == "wrong-gradient" and "values" in finding.where
    ]


def test_tensors_that_need_no_gradient_keep_their_values_and_sizes():
    seen = set()

    def forward(x, table):
        seen.add(tuple(table.tolist()))
        return x * table.sum()

    table = torch.ones(4, dtype=torch.float64)
    tg.check(forward, normal(4).requires_grad_(), table, only="combinations")
    assert seen == {(1.0, 1.0, 1.0, 1.0)}


def test_a_backward_that_refuses_is_right():
    """It is no defect of a bare Function to raise where nobody asked for it."""

    def picky(grad, x):
        if x.dim() != 1:
            raise ValueError("vectors only")
        return grad * x.cos()

    assert not findings(sine(picky), normal(4))


@pytest.mark.slow
def test_it_is_told_what_was_not_given():
    (finding,) = findings(wrong_where(TRAITED["five axes"]), normal(4))
    assert "sizes you did not give" in finding.title
    assert "samples" in finding.hint
    (finding,) = findings(wrong_where(TRAITED["upstream gradients of ones"]), normal(4))
    assert "did not give" not in finding.title


@pytest.mark.slow
def test_what_another_check_has_found_is_told_once():
    """The second order and a size, of which each has a check of its own, and a row of the combinations."""
    detached = function(torch.exp, lambda grad, x, out: grad * out.detach())
    assert [finding.code for finding in findings(detached, normal(3), only=())] == ["wrong-second-derivative"]
    in_fours = sine(lambda grad, x: grad * x.cos() * (torch.arange(x.numel()).view(x.shape) < x.numel() // 4 * 4))
    assert [finding.code for finding in findings(in_fours, normal(8), only=())] == ["wrong-gradient-at-size"]


def test_what_is_right_passes():
    report = tg.check(function(torch.sin, lambda grad, x, out: grad * x.cos().conj()), normal(4), only=QUICK)
    assert not report.findings
    assert {r.check: r.verdict.value for r in report.results} == {"combinations": "PASS", "options": "SKIPPED"}


def test_samples_that_the_target_refuses_are_not_mapped():
    """What refuses other numbers is right, though samples next to the given one are tried."""

    def forward(x):
        if x.shape != (8,) or x.dtype != torch.float64 or bool(((x > 1) | (x < 0.9)).any()):
            raise ValueError("eight numbers from 0.9 to 1")
        return x**3

    bounded = function(forward, lambda grad, x, out: 3 * grad * x**2)
    assert not findings(bounded, torch.linspace(0.94, 0.96, 8, dtype=torch.float64))


@pytest.mark.slow
def test_a_notice_is_not_in_the_line_of_what_failed():
    wrong = function(torch.sin, lambda grad, x, out: grad * x.cos() * (1.01 if x.dim() == 5 else 1))
    line = tg.check(wrong, normal(4), only="combinations").to_text().split("\n\n")[1]
    assert "at sizes you did not give" in line
    assert "complex" not in line
