"""Checks of one call among others: the same again, interleaved, on threads, with nothing recorded."""

import gc
import os
import random
import threading
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

import torchgraft as tg
from torchgraft._check.finding import Skip, Verdict

from .looking import DOUBLE, SIN, alarms, case_of, findings, function, normal, plain
from .right import InPlace, scale

X = normal(3)

# -- determinism --------------------------------------------------------------------------------------------------


def test_noise_in_the_backward():
    noisy = function(torch.sin, lambda g, x: g * x.cos() * (1 + 1e-12 * torch.randn((), dtype=DOUBLE)))
    (finding,) = findings("determinism", noisy, X)
    assert finding.code == "nondeterministic-gradient"
    assert "torch's global generator" in finding.cause


@pytest.mark.parametrize(
    ("draw", "whose"),
    [(lambda: np.random.randn(), "NumPy"), (lambda: random.random(), "Python's random module")],
    ids=["NumPy", "Python"],
)
def test_noise_in_the_forward(draw, whose):
    finding = findings("determinism", lambda x: x * (1 + 1e-9 * draw()), X)[0]
    assert finding.code == "nondeterministic-output"
    assert whose in finding.cause


def test_another_order_of_summation_is_a_notice():
    calls = []

    def summed(x):
        calls.append(x)
        return (x.flip(0) if len(calls) == 1 else x).cumsum(0)[-1]

    found = [f for f in findings("determinism", summed, normal(1000)) if f.code == "nondeterministic-output"]
    assert [f.severity for f in found] == [Verdict.PASS]


# -- state, modes ---------------------------------------------------------------------------------------------------


class Rotary(nn.Module):
    """Positions in a table that grows; beyond 4 of them its base is another one, as in dynamic NTK."""

    def __init__(self, anew):
        super().__init__()
        self.scale, self.anew, self.length = nn.Parameter(torch.ones((), dtype=DOUBLE)), anew, 0

    def forward(self, x):
        if self.anew or len(x) > self.length:
            self.length = len(x)
            self.table = (torch.arange(len(x)) / max(len(x), 4)).cos()
        return self.scale * x * self.table[: len(x)]


def test_a_table_that_a_longer_call_has_made():
    assert "longer axes" in findings("state", Rotary(anew=False), X)[0].where
    assert not findings("state", Rotary(anew=True), X)


class Normalized(nn.Module):
    """Its weight is kept while no gradient is wanted, and made anew where one of its parameters is changed."""

    def __init__(self, parts):
        super().__init__()
        self.v, self.g = nn.Parameter(normal(3)), nn.Parameter(torch.ones((), dtype=DOUBLE))
        self.parts, self.key = parts, None

    def forward(self, x):
        if torch.is_grad_enabled() or self.v.is_inference():
            return x * self.g * self.v
        key = [self.v._version, self.g._version][: self.parts]
        if key != self.key:
            self.key, self.kept = key, self.g * self.v
        return x * self.kept


@pytest.mark.parametrize("parts", [1, 2])
def test_one_parameter_that_is_changed_alone(parts):
    assert alarms("state", Normalized(parts), X) == ({"state-between-calls"} if parts == 1 else set())


@pytest.mark.parametrize("once", ["if (factor == 0)", ""], ids=["kept", "computed"])
def test_a_static_variable_of_a_function_in_c(once):
    source = f"""void gained(int64_t n, const T *x, double width, T *out) {{
        static double factor = 0;
        {once} factor = 1 / width;
        for (int64_t i = 0; i < n; i++) out[i] = factor * x[i];
    }}"""

    @tg.op(kernel=tg.c(source))
    def gained(x: Float[Tensor, "*batch n"], width: float = 2.0) -> Float[Tensor, "*batch n"]: ...

    @gained.adjoint("x")
    def _(grad, width):
        return gained(grad, width)

    titles = [finding.title for finding in findings("caches", gained, X)]
    assert titles == (["The output is another than in a program of its own"] if once else [])


def test_state_on_the_class():
    kept = {}

    def forward(ctx, x):
        kept["x"] = x.detach().clone()
        return x.sin()

    assert alarms("state", plain(forward, lambda ctx, g: g * kept["x"].cos()), X) == {"state-between-calls"}


def test_a_mask_that_the_next_call_overwrites():
    """Arguments nearby have the same mask."""
    kept = {}

    def forward(ctx, x):
        kept["mask"] = x > 0
        return x.relu()

    assert alarms("state", plain(forward, lambda ctx, g: g * kept["mask"]), X) == {"state-between-calls"}


def test_values_that_are_kept():
    kept = {}

    def restless(x):
        before = kept.get("x", x.detach())
        kept["x"] = x.detach().clone()
        return x * (1 + (x.detach() - before).norm())

    assert alarms("state", restless, X) == {"state-between-calls"}
    assert alarms("state", lambda x: x * kept.setdefault("scale", 2.0), X) == set()  # the same in all calls


def test_a_table_that_belongs_to_the_latest_size_or_option():
    """Calls with the same sizes and options do not disturb each other."""
    kept = {}

    def gained(ctx, x, gain):
        kept["gain"] = gain
        return x * gain

    def averaged(ctx, x):
        kept["size"] = len(x)
        return x / len(x)

    (option,) = findings("state", plain(gained, lambda ctx, grad: (grad * kept["gain"], None)), X, 0.5)
    (size,) = findings("state", plain(averaged, lambda ctx, grad: grad / kept["size"]), X)
    assert {option.code, size.code} == {"state-between-calls"}
    assert "gain=" in option.where
    assert "size 4 instead of 3" in size.where


def test_a_value_that_depends_on_what_is_recorded():
    asks = function(lambda x: x.sin() * (1 if x.requires_grad else 1.001), lambda g, x: g * x.cos())
    assert alarms("modes", asks, X) == {"mode-output"}


def test_a_gradient_that_depends_on_whether_a_backward_is_running():
    def suspicious(x):
        return x.sin() if torch._C._current_graph_task_id() == -1 else x.detach().sin() + 0 * x

    assert alarms("modes", suspicious, X) == {"checkpoint-gradient"}


# -- threads --------------------------------------------------------------------------------------------------------


def test_a_scratch_buffer():
    scratch = torch.zeros(3, dtype=DOUBLE)

    def through_scratch(x):
        scratch.copy_(x)
        y = scratch.sin()
        return y.clone()

    finding = findings("threads", function(through_scratch, lambda g, x: g * x.cos()), X)[0]
    assert finding.code == "threads"
    assert "turns" in finding.where


def test_a_scratch_buffer_beside_a_callback_of_the_collector():
    """Hypothesis has such a callback: its lines are none of the target's, and must not put a thread ahead."""
    calls = []

    def called(phase, info):
        calls.append(phase)
        calls.append(phase)
        calls.append(phase)

    gc.callbacks.append(called)
    thresholds = gc.get_threshold()
    gc.set_threshold(10)
    try:
        test_a_scratch_buffer()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(called)
    assert calls


def test_a_gradient_in_a_buffer_that_two_threads_fill():
    """What the second one is expected to give lies in the buffer too, whichever of them comes last."""
    buffer = torch.zeros(3, dtype=DOUBLE)
    filled = function(lambda x: x.sin(), lambda g, x: torch.mul(g, x.cos(), out=buffer))
    assert all(alarms("threads", filled, X) == {"threads"} for _ in range(5))


@pytest.mark.skipif(os.cpu_count() == 1, reason="a race needs two cores")
@pytest.mark.parametrize(
    ("kept", "steps"),
    [("static", 2_000), pytest.param("static", 20_000, marks=pytest.mark.slow), ("", 2_000)],
)
def test_a_variable_that_the_threads_of_one_call_share(kept, steps):
    source = f"""
    void doubled(int64_t n, const T *x, T *out) {{
        {kept} volatile T sum;
        sum = 0;
        for (int64_t i = 0; i < {steps}; i++) sum += 1;
        for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i] + (sum - {steps});
    }}"""

    @tg.op(kernel=tg.c(source))
    def doubled(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...

    @doubled.adjoint("x")
    def _(grad):
        return 2 * grad

    assert alarms("threads", doubled, normal(2, 6)) == ({"threads"} if kept else set())


@pytest.mark.slow
def test_a_lock_makes_it_right():
    scratch, lock = torch.zeros(3, dtype=DOUBLE), threading.Lock()

    def through_scratch(x):
        with lock:
            scratch.copy_(x)
            return scratch.sin()

    assert alarms("threads", function(through_scratch, lambda g, x: g * x.cos()), X) == set()


@pytest.mark.slow
def test_nobody_waits_for_a_thread_that_waits_for_a_lock(monkeypatch):
    """One of two threads holds the lock for hundreds of lines, at each of which the other one has its turn."""
    lock, waits = threading.Lock(), []

    class Condition(threading.Condition):
        def wait_for(self, predicate, timeout=None):
            waits.append(moved := super().wait_for(predicate, timeout))
            return moved

    def long(x):
        with lock:
            for i in range(300):
                x = x + 0 * i
            return x.sin()

    monkeypatch.setattr(threading, "Condition", Condition)
    assert alarms("threads", function(long, lambda g, x: g * x.cos()), X) == set()
    assert waits
    assert waits.count(False) < 20


def test_state_of_a_thread():
    local = threading.local()

    def forward(ctx, x):
        local.x = x.detach().clone()
        return x.sin()

    assert alarms("threads", plain(forward, lambda ctx, g: g * local.x.cos()), X) == {"threads-raise"}


@pytest.mark.slow
def test_a_setting_of_the_main_thread():
    """It shows in sizes as well, which run elsewhere, and is told first."""
    local = threading.local()
    local.gain = 2.0
    gained = function(lambda x: 2 * x, lambda g, x: g * getattr(local, "gain", 1.0))
    (finding,) = findings("threads", gained, X)
    assert finding.title == "On another thread than the main one the gradient of input 0 is another"
    assert tg.check(gained, X).findings[0].code == "thread-state"


# -- captures, randomness -------------------------------------------------------------------------------------------


def test_a_captured_tensor():
    weight = normal(3, seed=1).requires_grad_()
    (finding,) = findings("captures", plain(lambda ctx, x: x * weight, lambda ctx, g: g * weight), X)
    assert (finding.code, finding.severity) == ("captured-tensor", Verdict.FAIL)


def test_a_captured_parameter_is_a_notice():
    weight = normal(3, seed=1).requires_grad_()
    (finding,) = findings("captures", lambda x: x * weight, X)
    assert (finding.code, finding.severity) == ("captured-parameter", Verdict.PASS)


def test_constants_and_views_of_inputs_are_no_captures():
    weight = normal(3, seed=1)
    assert findings("captures", function(lambda x: x * weight, lambda g, x: g * weight), X) == []
    assert findings("captures", function(lambda x: x.t() @ x, lambda g, x: x @ (g + g.t())), normal(3, 2)) == []


@torch.library.custom_op("test_calls::noisy", mutates_args=())
def library_noise(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand_like(x).clamp(min=0.5)


library_noise.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)


def test_hidden_randomness():
    @tg.op
    def noisy(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * torch.rand_like(x).clamp(min=0.5)

    noisy.vjp("x")(lambda grad, x, out: grad * out / x)
    assert "draws random numbers" in tg.check(noisy, X).findings[0].cause
    assert alarms("randomness", library_noise, X) == {"hidden-randomness"}
    assert findings("randomness", scale, X, 2.0) == []
    assert findings("randomness", SIN, X) == []


def test_a_backward_that_seeds_the_generator():
    """A mask is drawn again from a seed that is kept, and so is all that is drawn afterwards."""

    def backward(own):
        def draw_again(ctx, g):
            source = torch.Generator() if own else torch.default_generator
            return g * (torch.rand(3, generator=source.manual_seed(ctx.seed), dtype=DOUBLE) > 0.5)

        return draw_again

    def forward(ctx, x):
        ctx.seed = 3
        return x * (torch.rand(3, generator=torch.Generator().manual_seed(3), dtype=DOUBLE) > 0.5)

    assert alarms("randomness", plain(forward, backward(own=False)), X) == {"generator-reset"}
    assert alarms("randomness", plain(forward, backward(own=True)), X) == set()


@pytest.mark.parametrize(
    ("seed", "whose"), [(torch.manual_seed, "torch's"), (np.random.seed, "NumPy's"), (random.seed, "Python's")]
)
def test_a_forward_that_seeds_a_generator(seed, whose):
    def forward(ctx, x):
        seed(0)
        return x * 2

    (finding,) = findings("randomness", plain(forward, lambda ctx, g: g * 2), X)
    assert finding.title == f"The forward seeds {whose} global generator"
    assert (
        findings("randomness", plain(lambda ctx, x: x + np.random.rand() * random.random(), lambda ctx, g: g), X) == []
    )


def test_generators_are_left_as_they_were():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert findings("randomness", SIN, X) == []
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


@pytest.mark.slow
def test_a_case_is_not_written_to():
    case = case_of(InPlace.apply, normal(3, 4))
    before = case.primals[0].clone()
    from torchgraft._check.checks.table import NAMED

    for name in ("layouts of inputs", "determinism", "aliasing", "vmap", "forward mode", "modes", "mutation"):
        try:
            list(NAMED[name].look(case))
        except Skip:
            continue
        assert torch.equal(case.primals[0], before), name


class Centred(nn.Module):
    """Subtracts a running mean."""

    def __init__(self, keep):
        super().__init__()
        self.keep = keep
        self.register_buffer("mean", torch.zeros(3, dtype=DOUBLE))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * self.keep(x).mean(0)
        return x - self.mean


def test_a_graph_that_is_kept_in_a_buffer():
    (finding,) = findings("state", Centred(lambda x: x), normal(4, 3))
    assert (finding.code, finding.title) == ("graph-in-buffer", "The buffer mean keeps the graph of the call")
    assert not findings("state", Centred(torch.Tensor.detach), normal(4, 3))


# -- what is kept by the identity of a tensor, or from inference mode ------------------------------------------------


class Kept(nn.Module):
    """Exponentials of a weight, which are kept for the next call."""

    def __init__(self, by):
        super().__init__()
        self.weight, self.kept, self.by = nn.Parameter(normal(3)), {}, by

    def forward(self, x):
        key = self.by(self.weight)
        if key not in self.kept:
            self.kept = {key: self.weight.exp()}
        return x * self.kept[key]


def test_what_is_kept_by_the_identity_of_a_parameter():
    (finding,) = findings("state", Kept(id), normal(2, 3))[:1]
    assert finding.title == "The output is that of earlier values, after arguments were changed in place"


class KeptUnrecorded(Kept):
    """What is kept is used where nothing is recorded."""

    def forward(self, x):
        return x * self.weight.exp() if torch.is_grad_enabled() else super().forward(x)


def test_what_is_kept_where_nothing_is_recorded():
    (finding,) = findings("state", KeptUnrecorded(id), normal(2, 3))[:1]
    assert "a call under no_grad" in finding.where
    assert not findings("state", KeptUnrecorded(lambda weight: tuple(weight.tolist())), normal(2, 3))


class Workspace(nn.Module):
    """A sine whose backward reads a buffer that each call of the module overwrites."""

    def __init__(self, shared):
        super().__init__()
        self.shared = shared
        self.register_buffer("slope", torch.zeros(2, 3, dtype=DOUBLE))

    def forward(self, x):
        class Sine(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, slope):
                ctx.slope = slope.copy_(x.cos()) if self.shared else x.cos()
                return x.sin()

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, grad):
                return grad * ctx.slope, None

        return Sine.apply(x, self.slope)


class LastInput(nn.Module):
    """The backward takes the last input of the layer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(3, seed=1))

    def forward(self, x):
        layer = self

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                layer.last = x
                ctx.save_for_backward(weight)
                return x * x * weight

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, grad):
                (weight,) = ctx.saved_tensors
                return 2 * grad * layer.last * weight, grad * layer.last**2

        return Square.apply(x, self.weight)


def test_an_input_that_the_layer_keeps():
    """It keeps what is no parameter: a parameter could not be followed by another tensor."""
    assert alarms("state", LastInput(), X) == {"state-between-calls"}


def test_a_buffer_that_the_next_call_overwrites():
    assert alarms("state", Workspace(shared=True), normal(2, 3)) == {"state-between-calls"}
    assert not alarms("state", Workspace(shared=False), normal(2, 3))


class Dropped(nn.Module):
    """A mask of a seed and of sizes, which the backward reads from the module, or from what was saved."""

    def __init__(self, late):
        super().__init__()
        self.late = late

    def forward(self, x, seed):
        layer = self

        class Drop(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, mask):
                ctx.save_for_backward(mask)
                return x * mask

            @staticmethod
            def backward(ctx, grad):
                return grad * (layer.mask if layer.late else ctx.saved_tensors[0]), None

        self.mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).to(x.dtype)
        return Drop.apply(x, self.mask)


def test_a_mask_of_a_call_with_other_sizes():
    (finding,) = findings("state", Dropped(late=True), normal(4, 5), 7)
    assert "size 6 instead of 5" in finding.where
    assert not alarms("state", Dropped(late=False), normal(4, 5), 7)


def test_a_mask_that_the_backward_draws_again():
    """The generator is in another state there than it was in the forward."""

    def backward(ctx, g):
        return g * (torch.rand(3, dtype=DOUBLE) > 0.5)

    report = tg.check(plain(lambda ctx, x: x * (torch.rand(3, dtype=DOUBLE) > 0.5), backward), X, only="gradient")
    assert not report.ok


class Root(nn.Module):
    """A root of y^3 - y = x by Newton's method, from the last one; there are three where x is small."""

    def __init__(self, warm):
        super().__init__()
        self.warm, self.last = warm, None

    def forward(self, x):
        y = 1 + x.detach().abs() if self.last is None or not self.warm else self.last
        for _ in range(60):
            y = y - (y**3 - y - x) / (3 * y**2 - 1)
        self.last = y.detach()
        return y


@pytest.mark.slow
def test_a_solver_that_starts_where_it_was():
    given = torch.tensor([0.7, 1.0, 2.5], dtype=DOUBLE)
    assert alarms("state", Root(warm=True), given) == {"state-between-calls"}
    assert not alarms("state", Root(warm=False), given)


def test_a_buffer_that_the_backward_changes():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.BatchNorm1d(3, dtype=DOUBLE)

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False)

    found = findings("state", Again(), normal(4, 3))
    assert {finding.code for finding in found} == {"buffer-changed"}
    assert not findings("state", nn.BatchNorm1d(3, dtype=DOUBLE), normal(4, 3))


class Table(nn.Module):
    """A product with a table that the first call makes."""

    def __init__(self, mode):
        super().__init__()
        self.table, self.mode = None, mode

    def forward(self, x):
        if self.table is None:
            with self.mode():
                self.table = torch.arange(3, dtype=torch.float64)
        return x * self.table


def test_a_table_from_inference_mode():
    (finding,) = findings("state", Table(nullcontext), normal(2, 3))
    assert finding.title == "It cannot be differentiated after a call in inference mode"
    assert "Inference tensors" in finding.cause
    assert not findings("state", Table(partial(torch.inference_mode, False)), normal(2, 3))
