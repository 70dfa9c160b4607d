"""Modules whose backward runs parts of them again, with the parameters of the call."""

import threading

import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

from .checks.looking import DOUBLE, normal

pytestmark = pytest.mark.usefixtures("unexplained")
X = normal(3, 4)


@pytest.fixture(autouse=True)
def one_seed():
    torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, dtype=DOUBLE), nn.Linear(4, 4, dtype=DOUBLE)


class Checkpointed(Net):
    def part(self, x):
        return self.second(self.first(x).tanh())

    def forward(self, x):
        return checkpoint(self.part, x, use_reentrant=False).sin()


class Scale(Function):
    """Reads the parameter from the module in its backward."""

    sign = 1

    @staticmethod
    def forward(ctx, x, weight, module):
        ctx.save_for_backward(x)
        ctx.module = module
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.module.weight, ctx.module.sign * (grad * x).sum(0), None


class Scaled(nn.Module):
    sign = 1

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(4))

    def forward(self, x):
        return Scale.apply(x, self.weight, self)


class Coupled(Function):
    """A reversible block: its inputs are computed again, and it pulls through its parts by itself."""

    @staticmethod
    def forward(ctx, a, b, block, *parameters):
        with torch.no_grad():
            c = a + block.first(b)
            d = b + block.second(c)
        ctx.save_for_backward(c, d, *parameters)
        ctx.block = block
        return c, d

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_c, grad_d):
        (c, d, *_), block = ctx.saved_tensors, ctx.block
        with torch.enable_grad():
            c = c.detach().requires_grad_()
            moved = block.second(c)
            below = (d - moved).detach().requires_grad_()
            moved_below = block.first(below)
        grad_above, weight, bias = vjp_of(moved, [c, *block.second.parameters()], grad_d)
        grad_c = grad_c + grad_above
        grad_below, *first = vjp_of(moved_below, [below, *block.first.parameters()], grad_c)
        return grad_c, grad_d + grad_below, None, *first, None if weight is None else block.sign * weight, bias


def vjp_of(output, inputs, grad):
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(output, wanted, grad))
    return [next(found) if tensor.requires_grad else None for tensor in inputs]


class Reversible(Net):
    sign = 1

    def forward(self, x):
        return torch.cat(Coupled.apply(*torch.stack([x, 2 * x]), self, *self.parameters()))


class Replayed(Function):
    """Runs a part again in the backward, and pulls to the parameters that it was given and has saved."""

    @staticmethod
    def forward(ctx, x, part, *parameters):
        ctx.save_for_backward(x, *parameters)
        ctx.part = part
        return part(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            wanted = [again, *(p for p in parameters if p.requires_grad)]
            found = iter(torch.autograd.grad(ctx.part(again), wanted, grad, allow_unused=True))
        return next(found), None, *(next(found) if p.requires_grad else None for p in parameters)


class Replaying(Net):
    def forward(self, x):
        return Replayed.apply(self.first(x), self.second, *self.second.parameters())


class Accumulates(Function):
    """Pulls through a part by `.backward()`, which adds to ``grad`` of the part's parameters."""

    sign = 1

    @staticmethod
    def forward(ctx, x, part):
        ctx.save_for_backward(x)
        ctx.part = part
        with torch.no_grad():
            return part(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            ctx.part(x).backward(grad)
        ctx.part.bias.grad *= Accumulates.sign
        return x.grad, None


class Accumulating(Net):
    def forward(self, x):
        return Accumulates.apply(self.first(x), self.second)


class Tied(Net):
    def __init__(self):
        super().__init__()
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x).tanh())


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(4, dtype=DOUBLE), nn.Linear(4, 4, dtype=DOUBLE)

    def forward(self, x):
        return self.linear(self.norm(x))


class Lazy(nn.Module):
    """Makes a buffer in its first call."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(4))

    def forward(self, x):
        if not hasattr(self, "scale"):
            self.register_buffer("scale", torch.arange(1.0, 5.0, dtype=x.dtype))
        return x * self.weight * self.scale


class Locked(Scaled):
    """Cannot be copied."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x * self.weight


RIGHT = {
    "checkpoint": Checkpointed,
    "reads": Scaled,
    "reversible": Reversible,
    "replaying": Replaying,
    "tied": Tied,
    "batch norm": Normed,
    "lazy": Lazy,
    "locked": Locked,
    "lstm": lambda: nn.LSTM(4, 3, dtype=DOUBLE),
    "weight norm": lambda: nn.utils.weight_norm(nn.Linear(4, 4, dtype=DOUBLE)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", RIGHT)
def test_modules_that_are_right_pass(name):
    module = RIGHT[name]()
    state = {key: value.clone() for key, value in module.state_dict().items()}
    # Torch's own second derivative of a normed weight is wrong.
    report = tg.check(module, X, skip="second order" if name == "weight norm" else ())
    assert report.ok, report.to_text()
    torch.testing.assert_close(dict(module.state_dict()), state, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_gradients_that_are_accumulated_in_a_backward_count():
    report = tg.check(Accumulating(), X, only=("gradient", "linearity", "state", "sizes", "freed"))
    assert report.ok, report.to_text()
    said = tg.check(Accumulating(), X, only="returned").findings
    assert [(f.code, f.where.partition(";")[0]) for f in said] == [
        ("accumulates-itself", "the gradient of second.weight and second.bias")
    ]
    assert not tg.check(Scaled(), X, only="returned").findings


# -- what is wrong in them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "name"), [(Scaled, "weight"), (Reversible, "second.weight")])
def test_a_wrong_sign_for_one_parameter(make, name):
    module = make()
    module.sign = -1
    assert f"The gradient of `{name}` is wrong" in " ".join(titles(module))


def test_a_wrong_gradient_that_is_accumulated(monkeypatch):
    monkeypatch.setattr(Accumulates, "sign", -1)
    assert "The gradient of `second.bias` is wrong" in " ".join(titles(Accumulating()))


def test_a_parameter_that_a_checkpoint_does_not_see():
    class Frozen(Checkpointed):
        def part(self, x):
            return nn.functional.linear(self.first(x).tanh(), self.second.weight, self.second.bias.detach())

    assert "`second.bias`" in " ".join(titles(Frozen()))


def titles(module):
    return [finding.title for finding in tg.check(module, X, only="gradient").findings]


def test_a_module_that_counts_its_calls():
    class Counting(Scaled):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.weight * self.calls

    report = tg.check(Counting(), X, only=("determinism", "state"))
    assert [finding.title for finding in report.findings] == ["The same call gives another output"]
    assert [result.verdict for result in report.results] == [tg.Verdict.FAIL, tg.Verdict.INCONCLUSIVE]


def test_a_weight_that_is_kept_is_told_and_not_left_in_the_module():
    class Keeping(Scaled):
        kept = None

        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.ones(2, dtype=DOUBLE))

        def forward(self, x):
            if self.kept is None:
                self.kept = self.weight - self.weight.mean()
            return x * self.kept

    module = Keeping()
    found = tg.check(module, X)
    assert module.kept is None
    assert {finding.code for finding in found.findings} == {"nondeterministic-gradient", "state-between-calls"}


@pytest.mark.parametrize("only", ["compile", "export"])
def test_a_compiler_leaves_nothing_in_the_module(only):
    class Showing(Scaled):
        last, calls = None, 0

        def forward(self, x):
            self.last, self.calls = x, self.calls + 1
            return x * self.weight

    module = Showing()
    assert tg.check(module, X, only=only, compilers=True).ok
    assert module.last is None
    assert module.calls == 0


def test_a_frozen_bias_that_is_dropped():
    class Dropped(Net):
        def forward(self, x):
            bias = self.first.bias if self.first.bias.requires_grad else None
            return nn.functional.linear(x, self.first.weight, bias)

    (finding,) = tg.check(Dropped(), X, only="subsets").findings
    assert "first.bias" in finding.where


def test_two_parameters_in_one_memory():
    made = nn.Sequential(nn.Linear(4, 4, dtype=DOUBLE), nn.Linear(4, 4, dtype=DOUBLE))
    made[1].weight = nn.Parameter(made[0].weight.data)
    (finding,) = tg.check(made, X, only="aliasing").findings
    assert finding.title == "The parameters 0.weight and 1.weight are two in one memory"
    made[1].weight = made[0].weight
    assert not tg.check(made, X, only="aliasing").findings
