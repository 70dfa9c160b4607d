"""Mistakes that the given call hides: in a batch that is shared, in two options at once, at numbers nobody gave."""

import os
import signal

import numpy as np
import pytest
import torch
from jaxtyping import Float64
from torch.nn import functional

import torchgraft as tg
from torchgraft._check import runner
from torchgraft._check.checks.table import NAMED
from torchgraft._check.children import may_fork
from torchgraft._check.ended import Ended
from torchgraft._check.finding import Inconclusive
from torchgraft.scipy.signal.sliding import slide

from ..zoo.bug import function
from .checks.looking import DOUBLE, case_of, normal

FAIL = tg.Verdict.FAIL

pytestmark = pytest.mark.usefixtures("unexplained")


@pytest.fixture(autouse=True)
def one_seed():
    torch.manual_seed(0)


def found(target, *args, only):
    """Codes of what is wrong; notices are none."""
    return [finding.code for finding in tg.check(target, *args, only=only).findings if finding.severity is FAIL]


def positive(*shape):
    return normal(*shape).abs() + 0.1


# -- sizes and axes ---------------------------------------------------------------------------------------------------


def mean_over_a_batch(grad, x, w):
    by_weight = x.mT @ grad
    return grad @ w.mT, by_weight if x.dim() == 2 else by_weight.mean(0)


def test_a_weight_that_all_of_a_batch_share():
    product = function("Product", lambda x, w: x @ w, mean_over_a_batch)
    assert found(product, normal(5, 3), normal(3, 2), only="combinations") == ["wrong-gradient-at-size"]


@pytest.mark.parametrize("size", [8, 16, 64])
def test_a_size_that_fits_a_tile(size):
    """What is left over from a tile is tried elsewhere; here nothing is."""

    def backward(grad, x):
        right = grad.flip(-1).cumsum(-1).flip(-1)
        return right if x.shape[-1] % size else 2 * right

    sums = function("Sums", lambda x: x.cumsum(-1), backward)
    assert found(sums, normal(2, 5), only="sizes") == ["wrong-gradient-at-size"]


@pytest.mark.parametrize("size", [3, 4])
def test_a_formula_for_one_small_size(size):
    def backward(grad, x):
        right = grad.flip(-1).cumsum(-1).flip(-1)
        return -right if x.shape[-1] == size else right

    sums = function("Sums", lambda x: x.cumsum(-1), backward)
    assert found(sums, normal(2, 5), only="sizes") == ["wrong-gradient-at-size"]


def test_what_values_show_at_other_sizes_is_not_said_of_sizes():
    def backward(grad, x):
        return torch.where((x > 1.3) & (x < 1.4), 0, grad * x.cos())

    given = torch.tensor([0.3, 1.45, -0.8, 0.6, -0.4], dtype=DOUBLE)
    (finding,) = tg.check(function("Sin", lambda x: x.sin(), backward), given, only="sizes").findings
    assert (finding.code, finding.given) == ("wrong-gradient", False)
    assert finding.title.endswith("at values you did not give")
    assert finding.where.endswith("float64[5]")


def test_nothing_is_proved_without_elements():
    doubled = function("Sin", lambda x: x.sin(), lambda grad, x: 2 * grad * x.cos())
    assert tg.check(doubled, torch.zeros(0, dtype=DOUBLE)).verdict is tg.Verdict.INCONCLUSIVE


def test_calls_that_may_all_have_an_empty_axis_prove_what_they_can():
    report = tg.check(slide, only=["gradient"])
    assert report.ok, str(report)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
def test_a_whole_number_where_zero_is_refused(number):
    def backward(grad, x):
        return torch.where(x == number, 0, grad / x)

    given = torch.tensor([0.3, 0.9, 1.4, 1.8], dtype=DOUBLE)
    assert found(function("Log", lambda x: x.log(), backward), given, only="combinations") == ["wrong-gradient"]


def test_the_other_sign_of_what_is_positive_beside_another_is_a_notice():
    """It may be a scale, which is never negative."""

    def backward(grad, y, x):
        return grad * (x + 1) * torch.where(x < 0, -1, 1), grad * y

    target = function("Times", lambda y, x: y * (x + 1), backward)
    report = tg.check(target, positive(4), positive(4), only="combinations")
    assert report.ok
    (finding,) = (finding for finding in report.findings if finding.code == "wrong-gradient")
    assert "signs in turn" in finding.where


@pytest.mark.parametrize("factor", [0.6, 0.9, 1.2])
def test_a_factor_under_autocast(factor):
    """Rounding errors of single elements may be as large, and do not add up to a factor."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.factor = factor if torch.is_autocast_enabled("cpu") else 1.0
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            grad = grad.to(x.dtype) * ctx.factor
            return grad @ w.T, x.T @ grad

    codes = found(Product.apply, normal(3, 4).float(), normal(4, 6).float(), only="autocast")
    assert set(codes) == {"autocast-gradient"}


# -- options ----------------------------------------------------------------------------------------------------------


def test_two_flags_together():
    def reduced(x, log: bool = False, mean: bool = False):
        y = x.sigmoid().log() if log else x.sigmoid()
        y = y.mean() if mean else y
        return y + 0.3 * (y.detach() - y) if log and mean else y

    (finding,) = tg.check(reduced, normal(4), only="options").findings
    assert finding.where.startswith("log=True and mean=True")


def test_an_axis_counted_from_the_end_that_is_not_the_given_one():
    class Sums(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dim):
            ctx.dim = dim
            return x.cumsum(dim)

        @staticmethod
        def backward(ctx, grad):
            flipped = ctx.dim if ctx.dim >= -1 else -1
            return grad.flip(flipped).cumsum(ctx.dim).flip(flipped), None

    def sums(x, dim=1):
        return Sums.apply(x, dim)

    (finding,) = tg.check(sums, normal(3, 4), only="options").findings
    assert finding.where.startswith("dim=-2")


def test_a_third_tensor_of_a_list():
    def total(xs):
        squares = sum(x * x for x in xs)
        return squares if len(xs) < 3 else squares + 0.5 * (xs[2].detach() - xs[2])

    (finding,) = tg.check(total, [normal(3), normal(3)], only="options").findings
    assert finding.where.startswith("xs of length 3")


def test_a_temperature_of_zero_that_nobody_gave():
    def soft(x, temperature: float = 1.0):
        return torch.sigmoid(x / temperature)

    assert not tg.check(soft, normal(4), only="options").findings


def test_a_temperature_of_zero_is_told_where_the_derivative_is_its_own():
    class Soft(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, temperature):
            made = torch.sigmoid(x / temperature)
            ctx.save_for_backward(made)
            ctx.temperature = temperature
            return made

        @staticmethod
        def backward(ctx, grad):
            (made,) = ctx.saved_tensors
            return grad * made * (1 - made) / torch.tensor(ctx.temperature), None

    def soft(x, temperature: float = 1.0):
        return Soft.apply(x, temperature)

    (finding,) = tg.check(soft, normal(4), only="options").findings
    assert finding.where.startswith("temperature=0.0")


# -- at the given point -----------------------------------------------------------------------------------------------


class Looked(torch.autograd.Function):
    """Linear interpolation in a table, zero outside of it."""

    @staticmethod
    def taps(table, x):
        low = x.floor()
        for more in (0, 1):
            at = (low + more).long()
            inside = (at >= 0) & (at < len(table))
            yield at.clamp(0, len(table) - 1), inside, (x - low if more else 1 - (x - low)), 2 * more - 1

    @staticmethod
    def forward(ctx, table, x, forgets):
        ctx.save_for_backward(table, x)
        ctx.forgets = forgets
        return sum(table[at] * inside * part for at, inside, part, _ in Looked.taps(table, x))

    @staticmethod
    def backward(ctx, grad):
        table, x = ctx.saved_tensors
        by_table, by_x = torch.zeros_like(table), torch.zeros_like(x)
        for at, inside, part, sign in Looked.taps(table, x):
            by_table = by_table.index_add(0, at, grad * part * (inside | ctx.forgets))
            by_x = by_x + grad * sign * table[at] * inside
        return by_table, by_x, None


@pytest.mark.parametrize(("forgets", "verdict"), [(True, FAIL), (False, tg.Verdict.PASS)])
def test_whole_numbers_on_the_way_are_not_rounded(forgets, verdict):
    points = torch.tensor([0.3, 2.6, 4.4, -0.3], dtype=DOUBLE)
    assert tg.check(Looked.apply, normal(5), points, forgets, only="gradient").verdict is verdict


class Scaled(torch.nn.Module):
    """A scale of ones, which a gradient forgets where it is frozen."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=DOUBLE))

    def forward(self, x):
        return Product.apply(x, self.weight)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.sin() * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        by_sine = grad * weight if ctx.needs_input_grad[1] else grad
        return by_sine * x.cos(), (grad * x.sin()).sum(0)


def test_weights_of_ones_hide_nothing_where_they_are_frozen():
    assert found(Scaled(), normal(2, 3), only="subsets") == ["subset-gradient"]


# -- what is right, or told once --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not may_fork(), reason="a crash would end the process")
def test_a_kernel_of_torch_that_aborts_with_sizes_nobody_gave_is_no_defect_of_the_caller():
    def loss(scores):
        return functional.ctc_loss(scores.log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))

    report = tg.check(loss, normal(4, 1, 3), only=("gradient", "sizes"))
    assert report.ok
    (finding,) = report.findings
    assert (finding.code, finding.given) == ("crash", False)
    assert finding.title == "The target ends its process: SIGABRT, with arguments you did not give"


class Normalized(torch.autograd.Function):
    """Weight normalization, whose gain has one number for each index along one axis."""

    @staticmethod
    def forward(ctx, v, gain, dim=0):
        ctx.save_for_backward(v, gain)
        ctx.dims = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
        return gain * v / v.norm(dim=ctx.dims, keepdim=True)

    @staticmethod
    def backward(ctx, grad):
        v, gain = ctx.saved_tensors
        norm = v.norm(dim=ctx.dims, keepdim=True)
        along = (grad * v / norm).sum(ctx.dims, keepdim=True)
        return gain / norm * (grad - v / norm * along), along, None


def test_a_loud_error_with_a_number_that_nobody_gave_is_a_notice():
    report = tg.check(Normalized.apply, normal(3, 4, 2), 1 + normal(3, 1, 1) ** 2, only=("gradient", "options"))
    assert report.ok
    assert {finding.code for finding in report.findings} == {"backward-raises"}


def test_a_tensor_that_the_forward_makes_is_not_captured():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x + torch.zeros(x.shape, dtype=x.dtype, requires_grad=True)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    assert not tg.check(Square.apply, normal(2), only="captures").findings


def test_a_tensor_that_a_forward_makes_where_it_records_is_not_captured():
    class Solved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                inner = x.detach().clone().requires_grad_()
                ctx.inner, ctx.solved = inner, inner.sin()
            return ctx.solved * 1.0

        @staticmethod
        def backward(ctx, grad):
            return torch.autograd.grad(ctx.solved, ctx.inner, grad, retain_graph=True)[0]

    def scaled(x):
        return x * torch.ones(2, dtype=DOUBLE, requires_grad=True)

    assert not tg.check(Solved.apply, normal(2), only="captures").findings
    assert not tg.check(scaled, normal(2), only="captures").findings


def test_a_backward_that_writes_into_its_upstream_gradient_spoils_no_other_check():
    square = function("Square", lambda x: x * x, lambda grad, x: grad.mul_(2 * x))
    report = tg.check(square, normal(4), skip="vmap")
    told = {finding.code for finding in report.findings if finding.severity is FAIL}
    assert told == {"gradient-changed", "gradient-layout-raises"}


def test_the_second_derivative_is_not_told_with_numbers_of_a_wrong_first_one():
    def backward(grad, x, y):
        return (2 * grad * y).detach(), grad * x

    product = function("Product", lambda x, y: x * y, backward)
    told = [
        f for f in tg.check(product, normal(3), normal(3, seed=1), only="second order").findings if "second" in f.code
    ]
    assert told
    assert all(finding.analytic is None and finding.error is None for finding in told)


def test_a_second_derivative_that_torch_does_not_have_is_not_called_a_missing_gradient():
    bessel = function("J0", lambda x: torch.special.bessel_j0(x), lambda grad, x: -grad * torch.special.bessel_j1(x))
    (finding,) = tg.check(bessel, normal(4), only="second order").findings
    assert "torch has no derivative" in finding.cause
    assert finding.where.startswith("second order: the gradient of x by `x`;")


def test_a_power_that_is_wrong_for_all_but_one_number_is_told_once():
    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, p):
            norm = (x.abs() ** p).sum() ** (1 / p)
            ctx.save_for_backward(x, norm)
            ctx.p = p
            return norm

        @staticmethod
        def backward(ctx, grad):
            x, norm = ctx.saved_tensors
            return grad * x.sign() * x.abs() ** (ctx.p - 1) / norm ** (1 if ctx.p == 2 else ctx.p), None

    def norm(x, p=2.0):
        return Norm.apply(x, p)

    (finding,) = tg.check(norm, normal(4), only="options").findings
    assert finding.where.startswith("p=3.0")


# -- what the rules above must not hide -------------------------------------------------------------------------------


def test_a_table_that_another_call_changes_is_no_noise():
    table = {}

    def scaled(x):
        size = x.shape[-1]
        if len(table.get("kept", ())) < size:
            table["kept"] = torch.linspace(0.5, 1, size, dtype=x.dtype)
        return x.sin() * table["kept"][:size]

    report = tg.check(scaled, normal(4), only=("determinism", "state"))
    assert [result.verdict for result in report.results] == [tg.Verdict.PASS, FAIL]


@pytest.mark.parametrize(("check", "code"), [("freed", "second-backward"), ("linearity", "nonlinear-backward")])
def test_a_backward_that_counts_is_told_by_the_checks_for_it(check, code):
    class Counting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.count = 0
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            ctx.count += 1
            return grad * ctx.saved_tensors[0].cos() * ctx.count

    assert found(Counting.apply, normal(4), only=check) == [code]


def test_a_flag_that_makes_a_gradient_nan_is_told():
    def root(x, safe: bool = True):
        return x.sin() if safe else torch.where(x > 0, x.sqrt(), torch.zeros_like(x))

    assert len(found(root, normal(4), only="options")) == 1


def test_a_number_that_loses_digits_hides_no_wrong_one():
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, grad):
            if ctx.k == 2:
                return (grad.float() * 2).double(), None
            return grad * (7 if ctx.k < 0 else ctx.k), None

    def times(x, k: int = 1):
        return Times.apply(x, k)

    findings = tg.check(times, normal(4), only="options").findings
    assert {finding.where.partition(";")[0] for finding in findings} == {"k=2", "k=-1"}


def test_a_second_derivative_by_the_upstream_gradient_of_one_of_several_outputs():
    class Several(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin(), 2 * x, x**3

        @staticmethod
        def backward(ctx, first, second, third):
            (x,) = ctx.saved_tensors
            return first * x.cos() + 2 * second + third.detach() * 3 * x**2

    (finding,) = tg.check(Several.apply, normal(4), only="second order").findings
    assert "the gradient of x by `the upstream gradient of output 2`" in finding.where


@pytest.mark.slow
@pytest.mark.skipif(not may_fork(), reason="a crash would end the process")
def test_a_death_in_the_given_call_is_no_notice():
    def dies(x):
        if torch.is_inference_mode_enabled():
            os.kill(os.getpid(), signal.SIGSEGV)
        return x.sin()

    assert found(dies, normal(3), only=("gradient", "state")) == ["crash"]


def test_what_is_compared_with_its_target_is_not_given_another_batch():
    def backward(grad, x, t):
        return 2 * grad * (x - t) / x.numel(), 2 * grad * (t - x) / x.numel()

    loss = function("Loss", lambda x, t: ((x - t) ** 2).sum() / t.numel(), backward)
    assert not found(loss, normal(4), normal(4, seed=1), only="combinations")


def test_kinks_are_no_state():
    """The cheap number disagrees where an element lies next to one."""
    torch.manual_seed(34)
    given = torch.randn(80, dtype=DOUBLE)
    assert tg.check(lambda x: (9 * x).sin().abs(), given, seed=34, only="state").ok


def test_a_second_derivative_is_told_where_the_first_cannot_be():
    product = function("Product", lambda x, y: x * y, lambda grad, x, y: ((grad * y).detach(), grad * x))
    case = case_of(product, normal(3), normal(3, seed=1))
    case.memo["gradient"] = Inconclusive("it has kinks")
    codes = {finding.code for finding in NAMED["second order"].look(case)}
    assert "lost-second-derivative" in codes


def test_a_death_in_a_call_that_nobody_knows_is_a_finding():
    case = case_of(torch.sin, normal(3))
    known = runner._failed(NAMED["sizes"], case, Ended("SIGSEGV", call="x: float64[7]"))
    unknown = runner._failed(NAMED["sizes"], case, Ended("SIGSEGV"))
    assert [result.verdict for result in (known, unknown)] == [tg.Verdict.SKIPPED, FAIL]


# -- what strangers planted in values, dtypes and options --------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("given", [torch.float32, None])
def test_a_multiple_in_sixteen_bits(dtype, given):
    def backward(grad, x):
        return grad * x.cos() * (1.25 if x.dtype == dtype else 1.0)

    sine = function("Sine", lambda x: x.sin(), backward)
    report = tg.check(sine, normal(3, 4).to(given or dtype), only=("gradient", "combinations"))
    assert [f.code for f in report.findings if f.severity is FAIL] == ["wrong-gradient"]


@pytest.mark.parametrize("end", [5, 7])
def test_an_end_that_is_another_beyond_what_was_tried(end):
    clipped = function("Clipped", lambda x: x.clamp(-4.5, 4.5), lambda grad, x: grad * (x.abs() < end))
    assert found(clipped, normal(3, 4), only="combinations") == ["wrong-gradient"]


def test_a_gradient_is_a_number_where_a_function_is_smooth():
    fourth = function("Fourth", lambda x: x**4, lambda grad, x: grad * 4 * x**4 / x)
    assert found(fourth, normal(3), only="combinations") == ["nan-gradient"]


def test_an_infinite_gradient_where_a_function_is_smooth():
    fourth = function("Fourth", lambda x: x**4, lambda grad, x: grad * torch.where(x == 0, 1 / x.abs(), 4 * x**3))
    assert found(fourth, normal(3), only="combinations") == ["wrong-gradient"]


class Padded(torch.autograd.Function):
    """Sums of neighbours, whose gradient forgets what a padding of 2 reflects."""

    @staticmethod
    def forward(ctx, x, padding, mode):
        ctx.size, ctx.padding, ctx.mode = x.shape[-1], padding, mode
        return functional.pad(x[None], (padding, padding), mode=mode)[0].cumsum(-1)

    @staticmethod
    def backward(ctx, grad):
        grad, padding, size = grad.flip(-1).cumsum(-1).flip(-1), ctx.padding, ctx.size
        inner = grad[..., padding : padding + size].clone()
        if padding and ctx.mode == "reflect":
            for i in range(1, 2 if padding == 2 else padding + 1):
                inner[..., i] += grad[..., padding - i]
                inner[..., size - 1 - i] += grad[..., padding + size - 1 + i]
        return inner, None, None


def test_two_options_of_which_one_is_a_word():
    def padded(x, padding: int = 1, mode="constant"):
        assert padding >= 0 and mode in ("constant", "reflect")  # noqa: PT018
        return Padded.apply(x, padding, mode)

    (finding,) = tg.check(padded, normal(2, 9), only="options").findings
    assert finding.where.startswith("padding=2 and mode='reflect'")


class Picked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, index, pad):
        ctx.save_for_backward(w, index)
        return w.sin()[index] * (index != pad)

    @staticmethod
    def backward(ctx, grad):
        w, index = ctx.saved_tensors
        return torch.zeros_like(w).index_add(0, index, grad * w.cos()[index]), None, None


def test_a_number_that_leaves_out_rows_in_the_place_of_none():
    def pick(w, index, padding_idx: int | None = None):
        return Picked.apply(w, index, -1 if padding_idx is None else padding_idx)

    def embed(w, index, padding_idx: int | None = None):
        return functional.embedding(index, w, padding_idx)

    index = torch.tensor([0, 3, 1, 2])
    assert found(pick, normal(4), index, only="options") == ["wrong-gradient"]
    assert not found(embed, normal(4, 2), index, only="options")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, times):
        ctx.save_for_backward(x)
        return times * x.sin()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0].cos(), None


def test_a_number_in_the_place_of_none_without_an_annotation():
    def repeat(x, times=None):
        assert times is None or isinstance(times, int)
        return Doubled.apply(x, 2 if times is None else times)

    def right(x, times=None):
        return (2 if times is None else times) * x.sin()

    assert found(repeat, normal(4), only="options") == ["wrong-gradient"]
    assert not found(right, normal(4), only="options")


class Loss(torch.autograd.Function):
    """A mean, a sum, or what any other word gives; the gradient is that of the mean."""

    @staticmethod
    def forward(ctx, x, reduction="mean"):
        ctx.save_for_backward(x)
        ctx.words = ("batch", "stream", "device", "copy")
        loss = x.square()
        return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x / x.numel(), None


def test_words_that_a_target_does_not_know_are_one():
    places = [f.where.partition(";")[0] for f in tg.check(Loss.apply, normal(4), "mean", only="options").findings]
    assert places == ["reduction='none'", "reduction='sum'"]


def test_a_backward_that_returns_one_memory():
    kept = torch.zeros(3, dtype=DOUBLE)
    sine = function("Sine", lambda x: x.sin(), lambda grad, x: kept.copy_(grad * x.cos()))
    (finding,) = tg.check(sine, normal(3), only="linearity").findings
    assert (finding.code, finding.title[:12]) == ("gradient-reused", "The gradient")


def test_a_tangent_is_not_lost_where_the_gradient_is_wrong():
    def straight(x):
        return x + (x.round() - x).detach() if x.requires_grad else x.round()

    assert {f.code for f in tg.check(straight, normal(3), only=("gradient", "forward mode")).findings} == {
        "wrong-gradient"
    }


def test_a_value_that_is_infinite_has_no_gradient():
    @tg.op
    def log_determinant(a: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, ""]:
        return np.asarray(np.linalg.slogdet(a)[1])

    @log_determinant.vjp("a")
    def _(grad, a):
        return grad * torch.linalg.inv(a).mT

    assert tg.check(log_determinant, only="gradient").ok


@pytest.mark.parametrize("check", ["autocast", "values"])
def test_a_domain_is_left_on_no_side(check):
    def loss(p, q):
        if not all(0 <= t.min() <= t.max() <= 1 for t in (p, q)):
            raise ValueError("probabilities are between 0 and 1")
        return (p - q).square().sum()

    assert tg.check(loss, torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.999, 1.0, 0.0]), only=check).ok
