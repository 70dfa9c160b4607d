"""Modules and functions as people write them, of which the checker once said what is not so."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import torch
from jaxtyping import Float
from torch import nn
from torch.autograd import Function
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import torchgraft as tg
from torchgraft._check import endless
from torchgraft._check.children import may_fork

from .. import fresh
from .checks.looking import DOUBLE, normal

pytestmark = pytest.mark.usefixtures("unexplained")


@pytest.fixture(autouse=True)
def one_seed():
    torch.manual_seed(0)


class Words(nn.Module):
    """Embeddings, of which one row is padding, and the same weight at the end."""

    def __init__(self, *, tied):
        super().__init__()
        self.embed = nn.Embedding(5, 4, padding_idx=0, dtype=DOUBLE)
        self.head = nn.Linear(4, 5, bias=False, dtype=DOUBLE)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, words):
        return self.head(self.embed(words).tanh())


@pytest.mark.parametrize("tied", [False, True])
def test_a_row_for_padding_has_no_gradient_on_purpose(tied):
    report = tg.check(Words(tied=tied), torch.tensor([[1, 2, 0], [3, 2, 0]]))
    assert report.headline == "PASS (left out: embed.weight[0])"


class Listed(nn.Module):
    """It keeps its parameters in a dictionary too."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(3))
        self.all_of_them = {"weight": self.weight}

    def forward(self, x):
        return x * self.all_of_them["weight"].exp()


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(3))

    def forward(self, x):
        return torch.tanh(x * self.weight)


class Scripted(nn.Module):
    """Its parameters are kept in C++."""

    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Inner())

    def forward(self, x):
        return self.inner(x)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("make", [Listed, Scripted])
def test_parameters_that_are_kept_elsewhere(make):
    assert tg.check(make(), normal(2, 3), only=("gradient", "aliasing", "determinism", "state")).ok


def test_what_refuses_grad_is_differentiated_by_backward():
    def reentrant(x):
        return checkpoint(lambda y: torch.tanh(y * y), x, use_reentrant=True)

    assert tg.check(reentrant, normal(3), only=("gradient", "linearity", "mutation", "combinations")).ok


def information(p):
    """The mutual information of a number with itself: a constant, for a single one."""
    bins = torch.linspace(0, 1, 5, dtype=p.dtype)
    part = torch.exp(-8 * (p.reshape(-1, 1) - bins) ** 2)
    part = part / part.sum(-1, keepdim=True)
    mean, both = part.mean(0, keepdim=True), part.T @ part / len(part)
    return -(both * torch.log((both + 1e-7) / (mean.T @ mean + 1e-7) + 1e-7)).sum()


@pytest.mark.parametrize("count", [1, 16])
def test_a_gradient_that_is_nothing_but_rounding(count):
    assert tg.check(information, torch.rand(count, dtype=DOUBLE)).ok


def test_single_precision_on_the_way_loses_digits_and_is_not_wrong():
    report = tg.check(lambda x: x.softmax(-1, dtype=torch.float32).to(x.dtype), normal(5, 8))
    assert {finding.severity for finding in report.findings} == {tg.Verdict.LOSES_DIGITS}


class Viewing(Function):
    """Takes a view of an argument where nothing is recorded: it says that it requires grad, and has no graph."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.mT

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.mT @ x


def test_a_view_of_an_argument_is_no_captured_tensor():
    class Layer(nn.Linear):
        def forward(self, x):
            return Viewing.apply(x, 2 * self.weight)

    assert not tg.check(Layer(4, 3, bias=False, dtype=DOUBLE), normal(2, 4), only="captures").findings


class Freeing(Function):
    """Gives its output's memory back in the backward, as reversible blocks do that compute it anew."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.made = [x.sin()]
        return ctx.made[0]

    @staticmethod
    def backward(ctx, grad):
        for made in ctx.made:
            made.untyped_storage().resize_(0)
        ctx.made.clear()
        return grad * ctx.saved_tensors[0].cos()


def test_memory_that_is_given_back_is_not_read():
    assert tg.check(Freeing.apply, normal(3), only=("gradient", "linearity", "returned")).ok


@pytest.mark.slow
@pytest.mark.skipif(not may_fork(), reason="a crash would end this process")
def test_a_kernel_of_torch_that_crashes_is_looked_at_in_a_child():
    def sampled(x, grid, padding_mode="zeros"):
        return functional.grid_sample(x, grid / grid.abs().amax(), padding_mode=padding_mode, align_corners=True)

    report = tg.check(sampled, normal(1, 2, 6, 6), normal(1, 6, 6, 2), only=("gradient", "options", "combinations"))
    assert report.results


def test_threads_of_gnu_openmp_do_not_live_in_a_child(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba.np.ufunc.omppool", sys)
    assert not may_fork()


def test_a_call_that_works_long_is_no_other_output():
    def padded(x):
        return functional.pad(x, (1, 1, 1, 1, 1, 1), mode="circular")

    assert tg.check(padded, normal(1, 3, 3, 3, 3), only="caches").ok


# -- what was said of wrong ones, and was not the cause --------------------------------------------------------------


class Assigning(Function):
    """A write that the version counter does not see, as a solver makes it into the buffer of its stages."""

    @staticmethod
    def forward(ctx, buffer, value, place):
        ctx.place = place
        buffer.data[place] = value
        return buffer

    @staticmethod
    def backward(ctx, grad):
        return grad, grad[ctx.place], None


def stages(x):
    made = torch.empty(2, *x.shape, dtype=x.dtype)
    for place, value in enumerate((x, x.sin())):
        made = Assigning.apply(made, value, place)
    return made[0] * 2 + made[1]


def test_what_a_function_was_given_is_no_captured_tensor():
    assert not tg.check(stages, normal(3), only="captures").findings


class Rooted(Function):
    """Its backward has a derivative that is infinite where the output is 0, and calls no `torch.where`."""

    @staticmethod
    def forward(ctx, x):
        made = x.clamp(min=0) ** 2
        ctx.save_for_backward(made)
        return made

    @staticmethod
    def backward(ctx, grad):
        (made,) = ctx.saved_tensors
        return 2 * grad * made.sqrt()


def test_a_second_derivative_that_is_nan_is_told_once_without_a_where_that_is_not_there():
    x = torch.tensor([[1.5, -0.5, 2.0], [-2.0, 1.0, 0.5]], dtype=DOUBLE)
    report = tg.check(Rooted.apply, x, only=("second order", "combinations"))
    (finding,) = report.findings
    assert finding.code == "wrong-second-derivative"
    assert "infinity minus infinity" in finding.cause
    assert "you did not give" not in finding.title


class Popping(Function):
    """Its second backward finds nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.detach().clone()
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        kept = ctx.kept
        del ctx.kept
        return grad * kept.cos()


def test_a_second_backward_that_raises_is_told_by_that_name_alone():
    report = tg.check(Popping.apply, normal(3), only=("freed", "combinations", "gradient"))
    assert [finding.code for finding in report.findings] == ["backward-only-once"]


def test_of_many_parameters_the_number_is_told():
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    module.register_forward_hook(lambda module, args, output: output * (1 + float(output.sum()) * 1e-3))
    (finding, *_) = tg.check(module, normal(4, 2), only="gradient").findings
    assert finding.where.endswith("6 parameters in float64")


# -- what has no derivative, or no sizes yet -------------------------------------------------------------------------


def weighted(x, weight):
    return functional.cross_entropy(x, torch.tensor([0, 2, 1]), weight=weight)


@pytest.mark.parametrize(
    ("target", "make", "name"),
    [
        (nn.SoftMarginLoss(), lambda: (normal(3), normal(3).sign()), "target"),
        (weighted, lambda: (normal(3, 4), normal(4).exp()), "weight"),
        (lambda a, x: torch.igamma(a, x), lambda: (normal(3).exp(), normal(3).exp()), "a"),
    ],
)
def test_arguments_by_which_torch_has_no_derivative_are_left_out(target, make, name):
    report = tg.check(target, *make(), only=("gradient", "second order", "values"))
    assert report.headline == f"PASS (left out: {name})"


def test_a_function_that_does_not_implement_its_backward_is_no_pass():
    class Unfinished(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

    assert not tg.check(Unfinished.apply, normal(3), normal(3)).ok


def test_a_lazy_module_has_to_be_called_once():
    module = nn.LazyLinear(3, dtype=DOUBLE)
    with pytest.raises(tg.ArgumentError, match="was called once") as caught:
        tg.check(module, normal(2, 4))
    assert caught.value.got == "LazyLinear with weight, bias"
    module(normal(2, 4))
    assert tg.check(module, normal(2, 4), only="gradient").ok


def test_labels_that_are_validated_are_no_pass_and_hide_nothing_else():
    def loss(x, labels):
        if not bool(((labels == 0) | (labels == 1)).all()):
            raise RuntimeError("labels are 0 or 1")
        return functional.binary_cross_entropy_with_logits(x, labels)

    x, labels = normal(4), torch.tensor([0, 1, 1, 0], dtype=DOUBLE)
    report = tg.check(loss, x, labels)
    unknown = [result for result in report.results if result.verdict is tg.Verdict.INCONCLUSIVE]
    assert report.verdict is tg.Verdict.INCONCLUSIVE
    assert [result.note for result in unknown] == [
        "`labels` cannot be moved, so nothing is told of its gradient: RuntimeError: labels are 0 or 1; "
        "if it is data, let only others require grad"
    ]
    assert tg.check(loss, x.requires_grad_(), labels).headline == "PASS"


@pytest.mark.parametrize("family", [torch.distributions.Gamma, torch.distributions.Beta])
def test_draws_whose_gradient_is_that_of_the_distribution_are_not_called_wrong(family):
    report = tg.check(lambda a, b: family(a, b).rsample(), normal(3).exp(), normal(3).exp())
    assert {r.check for r in report.results if r.verdict is tg.Verdict.INCONCLUSIVE} == {"gradient"}
    assert report.verdict is tg.Verdict.INCONCLUSIVE


# -- iterations, and what rounding hides ------------------------------------------------------------------------------


def newton(x):
    """The square root, to more digits than single precision has."""
    y = torch.ones_like(x)
    while ((y * y - x).abs() > 1e-10 * x).any():
        y = (y + x / y) / 2
    return y


def test_an_iteration_that_never_ends_with_fewer_digits_is_not_waited_for():
    report = tg.check(newton, torch.tensor([0.7, 1.3, 2.0], dtype=DOUBLE), only=("autocast", "state", "gradient"))
    assert report.ok
    assert {r.check for r in report.results if r.verdict is tg.Verdict.SKIPPED} == {"autocast"}


def test_an_iteration_that_never_ends_where_results_are_rounded_otherwise_is_not_waited_for():
    def root(x):
        y = torch.ones_like(x)
        while ((y * y - x).abs() > 1e-6 * x).any():
            y = (y + x / y) / 2
        return y

    assert tg.check(root, torch.tensor([0.7, 1.3, 2.0]), only=("gradient", "linearity")).ok


class Doubled(Function):
    """A logarithm of 1 + x^2, whose gradient is twice too large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (1 + x * x).log()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 4 * x / (1 + x * x)


def test_a_change_that_rounding_hides_is_no_wrong_gradient_and_no_pass():
    def right(x, b):
        return (1 + x * x).log().sum() + (b * b).sum()

    def wrong(x, b):
        return Doubled.apply(x).sum() + (b * b).sum()

    assert tg.check(right, normal(4), normal(4), only=("gradient", "combinations")).ok
    for function in (right, wrong):
        tiny = tg.check(function, 1e-9 * normal(4), 1e-9 * normal(4), only="gradient")
        assert tiny.verdict is tg.Verdict.INCONCLUSIVE
    assert tg.check(wrong, normal(4), normal(4), only="gradient").verdict is tg.Verdict.FAIL


# -- hooks of parameters, derivatives inside of a call, permutations, what a call leaves ------------------------------


def halving(grad):
    return grad / 2


def halving_in_place(grad):
    grad.div_(2)


def looking(grad):
    assert grad.isfinite().all()


@pytest.mark.parametrize(("hook", "changes"), [(halving, True), (halving_in_place, True), (looking, False)])
def test_a_hook_of_a_parameter_may_look_at_a_gradient_and_not_change_it(hook, changes):
    module = nn.Linear(3, 2, dtype=DOUBLE)
    module.weight.register_hook(hook)
    (result,) = tg.check(module, normal(4, 3), only="returned").results
    assert (result.verdict is tg.Verdict.FAIL) is changes
    assert [finding.code for finding in result.findings] == ["hook-changes-gradient"] * changes


def test_a_hook_that_runs_after_the_gradient_is_said_not_to_be_looked_at():
    module = nn.Linear(3, 2, dtype=DOUBLE)
    module.bias.register_post_accumulate_grad_hook(lambda p: p.grad.zero_())
    (finding,) = tg.check(module, normal(4, 3), only="returned").findings
    assert (finding.code, finding.severity) == ("hook-after-gradient", tg.Verdict.PASS)


def by_transform(x):
    return -torch.func.grad(lambda y: (y**4).sum())(x)


def by_engine(x):
    with torch.enable_grad():
        y = x if x.requires_grad else x.clone().requires_grad_()
        return -torch.autograd.grad((y**4).sum(), y, create_graph=True)[0]


@pytest.mark.parametrize("force", [by_transform, by_engine])
def test_what_differentiates_inside_of_a_call(force):
    report = tg.check(force, normal(3), only=("modes", "mutation", "state", "forward mode", "gradient"))
    assert report.ok
    assert not [r.check for r in report.results if r.verdict is tg.Verdict.SKIPPED]


class Permuted(Function):
    """Right for permutations, as it is meant."""

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        made = torch.empty_like(grad)
        made[order] = grad
        return made, None


def test_a_permutation_has_no_index_twice_at_another_size():
    report = tg.check(Permuted.apply, normal(4, 2), torch.tensor([2, 0, 3, 1]))
    assert report.ok
    (finding,) = report.findings
    assert "none may come twice" in finding.hint


class Leaky(nn.Module):
    """Keeps a potential with its graph, and begins anew in each call or goes on."""

    def __init__(self, *, anew):
        super().__init__()
        self.anew = anew
        self.register_buffer("potential", torch.zeros(3, dtype=DOUBLE))

    def forward(self, x):
        self.potential = (torch.zeros_like(x) if self.anew else self.potential) * 0.5 + x.sin()
        return self.potential * 2


@pytest.mark.parametrize(("anew", "severity"), [(True, tg.Verdict.PASS), (False, tg.Verdict.FAIL)])
def test_a_graph_that_is_kept_in_a_buffer_is_a_defect_where_the_next_call_needs_it(anew, severity):
    said = tg.check(Leaky(anew=anew), normal(3), only="state").findings
    assert severity in {finding.severity for finding in said if finding.code == "graph-in-buffer"}


def test_what_a_call_leaves_is_not_called_an_overwritten_input():
    class Integrating(nn.Module):
        kept = 0.0

        def forward(self, x):
            self.kept = self.kept / 2 + x.detach()
            return (x * self.kept).sin()

    codes = {finding.code for finding in tg.check(Integrating(), normal(3), only=("aliasing", "determinism")).findings}
    assert codes == {"nondeterministic-output"}


class Counting(Function):
    """A number that counts calls enters the values, by a part."""

    @staticmethod
    def forward(ctx, x, part, number):
        number[0] += 1
        ctx.save_for_backward(x)
        ctx.factor = 1 + part * number[0]
        return ctx.factor * x.sin()

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad * ctx.saved_tensors[0].cos() / (1 + (grad.stride()[-1] > 1)), None, None


def test_what_changes_with_each_call_is_told_once_and_blames_no_way_to_call():
    number = [0]
    report = tg.check(lambda x: Counting.apply(x, 1.0, number), normal(3, 4), skip="gradient")
    assert [finding.code for finding in report.findings] == ["nondeterministic-output"]
    unsure = {result.check for result in report.results if "check of determinism tells" in result.note}
    assert unsure >= {"layouts of gradients", "modes", "threads", "state"}


def test_what_outweighs_the_noise_between_calls_is_told_beside_it():
    number = [0]
    report = tg.check(
        lambda x: Counting.apply(x, 1e-9, number), normal(3, 4), only=("determinism", "layouts of gradients")
    )
    assert {finding.code for finding in report.findings} == {"nondeterministic-output", "gradient-layout"}


@pytest.mark.slow
@pytest.mark.skipif(not may_fork(), reason="a crash would end the process")
def test_a_kernel_of_torch_that_writes_out_of_its_memory_is_looked_at_in_a_child(tmp_path):
    script = tmp_path / "norm.py"  # A process of its own: a thread that another test left would forbid children.
    script.write_text(
        "import torch\nimport torchgraft as tg\n"
        "v, g = torch.randn(2, 4, dtype=torch.float64), torch.rand(2, 1, dtype=torch.float64) + 0.5\n"
        "report = tg.check(torch._weight_norm, v, g, only=('gradient', 'sizes', 'combinations'))\n"
        "print(*sorted({result.check for result in report.results}))\n"
    )
    assert fresh.run(script, cwd=tmp_path, check=True).stdout.split() == ["combinations", "gradient", "sizes"]


class Stuck(Function):
    """Its backward has no end once it was called a few times, whatever its upstream gradient."""

    backwards = 0

    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, grad):
        Stuck.backwards += 1
        while Stuck.backwards > 2:
            pass
        return grad / 2


def test_calls_that_have_no_end_are_ended_and_after_two_no_other_check_is_tried(monkeypatch):
    monkeypatch.setattr(endless, "MINUTE", 0.2)
    report = tg.check(Stuck.apply, normal(3), only=("gradient", "freed", "linearity", "leaks"))
    notes = [result.note.partition(" after")[0] for result in report.results]
    assert notes == ["a call was ended", "a call was ended", *["not tried: 2 calls did not end"] * 2]
    assert report.verdict is tg.Verdict.INCONCLUSIVE
    with ThreadPoolExecutor(1) as pool:  # There is no guard, and nothing is left of the one before.
        assert pool.submit(tg.check, torch.sin, normal(3), only="gradient").result().ok


SLOW_MODULE = """
import time

END = time.process_time() + 0.6
while time.process_time() < END:
    pass
"""


def test_no_call_is_ended_within_an_import(monkeypatch, tmp_path):
    """Half a module would stay, and whoever needs it later would fail."""
    (tmp_path / "busy_while_imported.py").write_text(SLOW_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(endless, "MINUTE", 0.2)
    calls = [0]

    def late(x):
        calls[0] += 1
        if calls[0] == 4:
            import busy_while_imported  # noqa: F401
        return x.sin()

    assert tg.check(late, normal(3), only="gradient").ok
    assert calls[0] > 4
    assert hasattr(sys.modules.pop("busy_while_imported"), "END")


def test_a_guard_of_the_caller_stays():
    before = signal.signal(signal.SIGVTALRM, lambda number, frame: None)
    try:
        mine = signal.getsignal(signal.SIGVTALRM)
        assert tg.check(torch.sin, normal(3), only="gradient").ok
        assert signal.getsignal(signal.SIGVTALRM) is mine
    finally:
        signal.signal(signal.SIGVTALRM, before)
    assert tg.check(torch.sin, normal(3), only="gradient").ok
    assert signal.getsignal(signal.SIGVTALRM) == signal.SIG_DFL


# -- what torch's own modules and functions do ------------------------------------------------------------------------


class Versioned(nn.Module):
    """Keeps the version of its weight, as a cache does, and what is computed without grad mode is detached."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(3, 3))

    def forward(self, x):
        self.seen = self.weight._version
        return x @ (self.weight if torch.is_grad_enabled() else self.weight.detach())


def log_likelihood(x, mean, log_scale):
    return -0.5 * ((x - mean) / log_scale.exp()) ** 2 - log_scale


def exponential(matrix):
    values, vectors = torch.linalg.eigh(matrix + matrix.mT)
    return (vectors * values.tanh().unsqueeze(-2)) @ vectors.mT


def attention(query, key, value):
    return functional.scaled_dot_product_attention(query, key, value)


def ctc(x, targets, lengths, target_lengths):
    return functional.ctc_loss(x.log_softmax(-1), targets, lengths, target_lengths)


OF_TORCH = {
    "a version in inference mode": (Versioned(), normal(2, 3)),
    "in place": (nn.ReLU(inplace=True), normal(3, 4)),
    "an exponential that overflows": (log_likelihood, normal(4), normal(4), normal(4)),
    "equal eigenvalues": (exponential, normal(4, 4)),
    "groups of nothing": (nn.GroupNorm(2, 4), torch.randn(3, 4, 5)),
    "pixels of nothing": (nn.PixelShuffle(2), normal(4, 1, 2)),
    "keys and values of other lengths": (attention, normal(2, 2, 4, 3), normal(2, 2, 5, 3), normal(2, 2, 5, 3)),
    "labels that point out of a table": (
        ctc, normal(8, 2, 5), torch.tensor([[1, 2, 2], [3, 4, 1]]), torch.tensor([8, 8]), torch.tensor([3, 2]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", OF_TORCH.values(), ids=OF_TORCH)
def test_limits_of_torch_are_notices_at_most(call):
    report = tg.check(*call)
    assert report.ok, str(report)


class ActNorm(nn.Module):
    """Takes its shift from its first batch."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3, dtype=DOUBLE))
        self.ready = False

    def forward(self, x):
        if not self.ready:
            self.shift.data.copy_(-x.detach().mean(0))
            self.ready = True
        return (x + self.shift).sin()


def test_a_module_that_initializes_itself_is_to_be_called_once():
    module, x = ActNorm(), normal(6, 3)
    with pytest.raises(tg.ArgumentError, match="sets parameters in its first call") as told:
        tg.check(module, x)
    assert told.value.got == "ActNorm with shift"
    module(x)
    assert tg.check(module, x).ok


class Pair(NamedTuple):
    one: torch.Tensor
    other: torch.Tensor


def test_a_named_tuple_does_not_grow():
    """A list may have another length."""
    assert tg.check(lambda pair: pair.one * pair.other.sin(), Pair(normal(3), normal(3)), only=("options", "state")).ok


def test_a_rule_that_cannot_be_used_is_a_failure():
    @tg.op
    def both(x: Float[torch.Tensor, "n"]) -> tuple[Float[torch.Tensor, "n"], Float[torch.Tensor, "n"]]:
        return x**2, x.sin()

    @both.vjp("x")
    def _(grad_out0, x):
        return 2 * x * grad_out0

    (finding,) = tg.check(both).findings
    assert (finding.code, finding.severity) == ("backward-raises", tg.Verdict.FAIL)
    assert "does not read grad_out1" in finding.cause
    assert 'independent="out1"' in finding.cause


class Padded(Function):
    """It refuses a negative padding, which is tried in the place of the one that was given."""

    @staticmethod
    def forward(ctx, x, padding=1):
        ctx.padding = padding
        if padding < 0:
            raise RuntimeError("negative padding is not supported")
        return functional.pad(x, (padding, padding))

    @staticmethod
    def backward(ctx, grad):
        return grad[..., ctx.padding : grad.shape[-1] - ctx.padding], None


def test_options_that_are_refused_leave_nothing_untold():
    assert tg.check(Padded.apply, normal(2, 9), 0, only=("caches", "options")).ok


class Started(Function):
    """A step from a state of all samples; one of a single sample broadcasts in the forward as well."""

    @staticmethod
    def forward(ctx, x, weight, start):
        ctx.save_for_backward(x, weight)
        ctx.start = None if start is None else start.shape
        state = x @ weight
        return state if start is None else state + start

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        start = None if ctx.start is None else grad.reshape(ctx.start)
        return grad @ weight.mT, x.mT @ grad, start


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(3, 4))

    def forward(self, x: torch.Tensor, start: torch.Tensor | None = None):
        return Started.apply(x, self.weight, start)


def test_a_tensor_of_another_size_in_the_place_of_none_is_no_failure():
    report = tg.check(Recurrent(), normal(4, 3), only="options")
    assert report.ok
    assert [finding.code for finding in report.findings] == ["backward-raises"]
