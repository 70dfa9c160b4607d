"""Checks of memory: how it lies, who writes to it, who keeps it, and what is in it before."""

import ctypes

import numpy as np
import pytest
import torch
from jaxtyping import Int
from torch import Tensor, nn

import torchgraft as tg
from torchgraft._check.checks import unwritten
from torchgraft._check.finding import Inconclusive, Skip, Verdict

from .looking import DOUBLE, SIN, alarms, findings, function, normal, plain

X = normal(3, 4)


def raw(tensor):
    """Its memory from the first element on, as a kernel sees it that does not ask for strides."""
    if tensor.untyped_storage().nbytes() // 8 - tensor.storage_offset() < tensor.numel():
        return tensor
    return torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape).stride(), tensor.storage_offset())


# -- layouts --------------------------------------------------------------------------------------------------------


def test_a_forward_that_ignores_strides():
    (finding,) = findings("layouts of inputs", function(lambda x: raw(x).sin(), lambda g, x: g * x.cos()), X)
    assert finding.code == "input-layout"
    assert "the output; transposed inputs" in finding.where


def test_a_backward_that_ignores_the_strides_of_what_was_saved():
    (finding,) = findings("layouts of inputs", function(torch.sin, lambda g, x: g * raw(x).cos()), X)
    assert "the gradient of" in finding.where


@pytest.mark.parametrize(
    "touch",
    [raw, lambda g: raw(g) if g.stride(-1) != 1 else g, lambda g: g if g.storage_offset() == 0 else 0 * g,
     lambda g: g[:1].expand_as(g) if g.stride(0) == 4 and g.storage_offset() else g,
     lambda g: 2 * g if g.stride(0) == 0 and g.stride(1) else g],
    ids=["all", "transposed", "offset", "offset rows", "expanded along one axis"],
)  # fmt: skip
def test_a_backward_that_ignores_the_layout_of_the_upstream_gradient(touch):
    backward = function(torch.sin, lambda g, x: touch(g) * x.cos())
    assert alarms("layouts of gradients", backward, X) == {"gradient-layout"}


def test_a_view_of_the_upstream_gradient():
    viewed = function(torch.sin, lambda g, x: g.view(-1).view(x.shape) * x.cos())
    assert alarms("layouts of gradients", viewed, X) == {"gradient-layout-raises"}


def test_a_refusal_of_inputs_is_a_notice():
    def picky(x):
        assert x.is_contiguous()
        return x.sin()

    (finding,) = findings("layouts of inputs", function(picky, lambda g, x: g * x.cos()), X)
    assert (finding.code, finding.severity) == ("layout-refused", Verdict.PASS)


def test_lazy_conjugates():
    def real_of_memory(x):
        return torch.view_as_real(x.resolve_conj() if not x.is_conj() else x.conj())[..., 1].clone()

    wrong = function(real_of_memory, lambda g, x: torch.complex(torch.zeros_like(g), g))
    (finding,) = findings("layouts of inputs", wrong, normal(3, dtype=torch.complex128))
    assert "lazily conjugated" in finding.where


def test_channels_last():
    def forward(x):
        return x.sin() if x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last) else raw(x).sin()

    (finding,) = findings("layouts of inputs", function(forward, lambda g, x: g * x.cos()), normal(2, 3, 4, 5))
    assert "channels last" in finding.where


def test_layouts_that_there_are_not():
    with pytest.raises(Skip):
        findings("layouts of inputs", SIN, normal(0))
    with pytest.raises(Skip, match="random"):
        findings("layouts of inputs", lambda x: x * torch.rand_like(x), X)


# -- mutation -------------------------------------------------------------------------------------------------------


def written(g, x):
    g.mul_(x.cos())
    return g


def overwritten(g, x):
    x.data.mul_(2)
    return g * (x / 2).cos()


def test_an_upstream_gradient_that_is_overwritten():
    (finding,) = findings("mutation", function(torch.sin, written), X)
    assert finding.code == "gradient-changed"


def test_an_input_that_is_overwritten_in_the_backward():
    codes = [f.code for f in findings("mutation", function(torch.sin, overwritten), X)]
    assert codes == ["input-changed", "saved-changed"]


def test_a_saved_intermediate_that_is_overwritten():
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return x.sin()

    assert alarms("mutation", plain(forward, lambda ctx, g: overwritten(g, *ctx.saved_tensors)), X) == {"saved-changed"}


@pytest.mark.parametrize(
    "write",
    [lambda x: x.data.zero_(), lambda x: x.zero_(), lambda x: x.detach().numpy().fill(0)],
    ids=[".data", "in place", "NumPy"],
)
def test_an_input_that_is_overwritten_in_the_forward(write):
    def forward(ctx, x):
        y = x.sin()
        ctx.save_for_backward(x.cos())
        write(x)
        return y

    assert alarms("mutation", plain(forward, lambda ctx, g: g * ctx.saved_tensors[0]), X) == {"input-changed"}


@pytest.mark.parametrize("reads", [False, True], ids=["a running sum", "a counter that is read"])
def test_an_argument_without_gradient_that_is_overwritten(reads):
    def forward(ctx, x, state):
        ctx.save_for_backward(y := x.sin() * (state.sum() if reads else 1), x, state.clone())
        state.add_(1)
        return y.clone()

    def backward(ctx, g):
        _, x, state = ctx.saved_tensors
        return g * x.cos() * (state.sum() if reads else 1), None

    x, state = X.clone().requires_grad_(), torch.ones(2, dtype=DOUBLE)
    found = findings("mutation", plain(forward, backward), x, state)
    assert [(f.code, "state" in f.title) for f in found] == ([("input-changed", True)] if reads else [])
    assert state.tolist() == [1, 1]


def test_an_output_that_is_overwritten():
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        slope = y.clone()
        y.data.zero_()
        return g * slope

    assert {"output-changed", "saved-changed"} <= alarms("mutation", plain(forward, backward), X)


# -- aliasing -------------------------------------------------------------------------------------------------------


def test_a_buffer_for_all_outputs():
    buffer = torch.zeros(3, 4, dtype=DOUBLE)
    shared = function(lambda x: torch.from_numpy(buffer.copy_(x.sin()).numpy()), lambda g, x: g * x.cos())
    assert alarms("aliasing", shared, X) == {"result-overwritten"}


def test_a_buffer_for_all_gradients():
    buffer = torch.zeros(3, 4, dtype=DOUBLE)
    assert "result-overwritten" in alarms("aliasing", function(torch.sin, lambda g, x: buffer.copy_(g * x.cos())), X)


def test_gradients_that_are_one_memory():
    """Each becomes the `.grad` of a leaf, and what is added to one is added to the other."""

    def backward(share):
        def halves(ctx, g):
            half = g / 2
            return half.view_as(half), half.view_as(half) if share else half.clone()

        return halves

    target = lambda share: plain(lambda ctx, x, y: (x + y) / 2, backward(share))  # noqa: E731
    assert alarms("aliasing", target(share=True), normal(3), normal(3, seed=1)) == {"gradients-overlap"}
    assert alarms("aliasing", target(share=False), normal(3), normal(3, seed=1)) == set()


class Gained(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.gain, self.unused = nn.Parameter(normal(3)), nn.Parameter(normal(2))
        self.run = (lambda x: x * self.gain) if keep else self.scale

    def scale(self, x):
        return x * self.gain

    def forward(self, x):
        return self.run(x)


def test_a_copy_of_a_module_that_reads_the_original():
    """A method is bound anew in the copy; a parameter that nothing uses is no finding."""
    (finding,) = findings("aliasing", Gained(keep=True), normal(3))
    assert finding.code == "copy-reads-original"
    assert "gain" in finding.title
    assert findings("aliasing", Gained(keep=False), normal(3)) == []


def test_a_parameter_whose_gradient_is_lost_is_one_of_the_copy():
    product = plain(lambda ctx, x, gain: x * gain, lambda ctx, g: (g, torch.zeros_like(g)))

    class Lost(Gained):
        def scale(self, x):
            return product(x, self.gain)

    assert "copy-reads-original" not in alarms("aliasing", Lost(keep=False), normal(3))


def test_data_that_is_returned_and_not_written():
    target = plain(lambda ctx, table, x: (table, x * 2), lambda ctx, g, h: (None, h * 2))
    assert "written-without-gradient" not in alarms("aliasing", target, normal(3), normal(3, seed=1).requires_grad_())


def test_a_gradient_that_is_an_input():
    half_square = function(lambda x: (x * x / 2).sum(), lambda g, x: x.mul_(1).detach() if g == 0 else x.detach())
    (finding,) = findings("aliasing", half_square, X)
    assert finding.code == "gradient-aliases"


def test_memory_that_autograd_does_not_know():
    shared = function(lambda x: torch.from_numpy(x.detach().numpy()), lambda g, x: g)
    assert "unknown-alias" in alarms("aliasing", shared, X)


def test_an_output_that_is_kept_on_ctx():
    def forward(ctx, x):
        y = x.exp()
        ctx.y = y.detach()
        return y

    assert alarms("aliasing", plain(forward, lambda ctx, g: g * ctx.y), X) == {"output-overwritten"}


@pytest.mark.parametrize("guarded", [True, False])
def test_indices_that_are_refilled(guarded):
    """To refuse is right."""

    def forward(ctx, x, index):
        ctx.index, ctx.size = index, len(x)
        ctx.save_for_backward(index)
        return x[index]

    def backward(ctx, grad):
        index = ctx.saved_tensors[0] if guarded else ctx.index
        return grad.new_zeros(ctx.size).index_add(0, index, grad), None

    found = findings("aliasing", plain(forward, backward), normal(4), torch.tensor([2, 0, 2]))
    assert [f.code for f in found] == ([] if guarded else ["input-overwritten"])


def test_an_input_that_is_kept_on_ctx():
    def forward(ctx, x):
        ctx.x = x
        return x.sin()

    (finding,) = findings("aliasing", plain(forward, lambda ctx, g: g * ctx.x.cos()), X)
    assert finding.code == "input-overwritten"


def test_an_operator_that_returns_a_view():
    @torch.library.custom_op("test_checks::row", mutates_args=())
    def row(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (4,), (1,))

    row.register_autograd(lambda ctx, g: torch.cat([g[None], g.new_zeros(2, 4)]))
    try:
        found = alarms("aliasing", row, X)
    except Inconclusive as why:  # torch refuses it itself, from some version on
        found = {"undeclared-alias"} if "the target raises: RuntimeError: row" in str(why) else set()
    assert "undeclared-alias" in found


# -- leaks ----------------------------------------------------------------------------------------------------------


def test_a_graph_that_keeps_itself():
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    (finding,) = findings("leaks", plain(forward, lambda ctx, g: g * ctx.y), X)
    assert finding.code == "graph-leak"


@pytest.mark.parametrize("keep", ["input", "output"])
def test_what_a_nested_function_keeps_is_a_notice(keep):
    def forward(ctx, x):
        def again(n):
            return kept if n == 0 else again(n - 1)

        out = x.sin()
        kept = x if keep == "input" else out
        ctx.save_for_backward(x)
        again(2)
        return out

    (finding,) = findings("leaks", plain(forward, lambda ctx, g: g * ctx.saved_tensors[0].cos()), X)
    assert (finding.code, finding.severity) == ("held-in-garbage", Verdict.PASS)
    assert keep in finding.where.partition(";")[0]


@pytest.mark.parametrize(
    "keep",
    [lambda x: x.detach().clone(), lambda x: float(x.sum()), lambda x: bytearray(100)],
    ids=["tensors", "numbers", "bytes"],
)
def test_a_list_that_grows(keep):
    kept = []

    def forward(x):
        kept.append(keep(x))
        return x.sin()

    assert alarms("leaks", function(forward, lambda g, x: g * x.cos()), X) == {"memory-leak"}


def test_memory_let_go_meanwhile_hides_no_leak():
    kept, others = [], [object() for _ in range(500)]

    def forward(x):
        kept.append(object())
        if len(kept) == 20:
            others.clear()
        return x.sin()

    assert alarms("leaks", function(forward, lambda g, x: g * x.cos()), X) == {"memory-leak"}


def test_a_cache_that_fills_up_is_no_leak():
    kept = {}

    def forward(x):
        kept[len(kept) % 5] = x.detach().clone()
        return x.sin()

    assert findings("leaks", function(forward, lambda g, x: g * x.cos()), X) == []
    last = {}

    def keeps_the_last(x):
        last["x"] = x
        return x.sin()

    assert findings("leaks", keeps_the_last, X) == []


def test_the_collector_is_left_as_it_was():
    import gc

    gc.disable()
    try:
        findings("leaks", SIN, X)
        assert not gc.isenabled()
    finally:
        gc.enable()
    findings("leaks", SIN, X)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


# -- memory that nobody has written -----------------------------------------------------------------------------------


def late_half(x):
    """Its own memory, and what is beyond the half of it that is written."""
    memory = np.empty(2 * x.numel())
    memory[: x.numel()] = x.detach().numpy().ravel()
    return torch.from_numpy(memory)


def piece(x):
    """A number of a small piece of memory, of those that `malloc` hands out as they are."""
    library = ctypes.CDLL(None)
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    address = library.malloc(512)
    number = ctypes.c_double.from_address(address + 24).value
    library.free(address)
    return x.sin() + number


def marked(x):
    """A mask, of which one element is written."""
    made = torch.empty(2, dtype=torch.bool)
    made[0] = x[0, 0] > 0
    return x.clone(), made


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        (function(late_half, lambda g, x: g[: x.numel()].view_as(x)), "the output[12] is never written: 12 of 24"),
        (function(lambda x: late_half(x).sum(), lambda g, x: g.expand_as(x)), "the output is computed from memory"),
        (lambda x: (x.sin(), torch.empty(3, dtype=torch.int32)), "output 1[0] is never written: 3 of 3"),
        (piece, "the output is computed from memory"),
        (marked, "output 1 is computed from memory"),  # A copy of a bool is 0 or 1.
        (lambda x: torch.empty(int(torch.empty(1, dtype=torch.int8)) % 3), "the size of the output is computed"),
    ],
    ids=["NumPy", "sum", "integers", "malloc", "mask", "size"],
)
def test_memory_that_nobody_has_written(target, cause):
    for _ in range(5):  # What is there by chance does not count.
        (finding,) = findings("unwritten", target, X)
        assert finding.code == "unwritten-memory"
        assert finding.cause.startswith(cause)


def test_an_operator_without_a_derivative():
    @tg.op
    def signs(x: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        out = torch.empty_like(x)
        out[1:] = x[1:].sign()
        return out

    @tg.op
    def all_signs(x: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        return x.sign()

    assert alarms("unwritten", signs, torch.arange(3)) == {"unwritten-memory"}
    with pytest.raises(Skip, match="no argument"):
        findings("unwritten", all_signs, torch.arange(3))


def test_it_is_the_cause_of_a_wrong_gradient():
    def steps(x):
        out = torch.empty_like(x)
        out[1:] = x[1:] - x[:-1]
        return out

    report = tg.check(function(steps, lambda g, x: -g.diff(append=g.new_zeros(1, 4), dim=0)), X, only="gradient")
    assert [f.cause.partition(":")[0] for f in report.findings] == ["the output[0, 0] is never written"]


def test_nothing_is_left_of_what_was_freed_before():
    """Of what is freed, `malloc` keeps seven pieces of a size for itself, and all others until a later call."""
    library, size, left = ctypes.CDLL(None), 184, 0  # 184: 64 bytes of torch's, with those to align them.
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    for _ in range(30):
        pieces = [library.malloc(size) for _ in range(64)]
        for piece in pieces[::2]:
            ctypes.memset(piece, 1, size)
            library.free(piece)
        kept = [library.malloc(size) for _ in range(7)]
        with unwritten.filled():
            new = [torch.empty(64, dtype=torch.uint8) for _ in range(8)]
            left += sum(int((memory == 1).sum()) for memory in new)
        for piece in pieces[1::2] + kept:
            library.free(piece)
    assert left == 0


def test_results_that_vary_by_chance_do_not_depend_on_memory():
    calls = []

    def noisy(x):
        calls.append(x)
        return x + len(calls) // 4 % 2

    assert findings("unwritten", noisy, X) == []


def test_one_element_may_have_any_stride():
    assert findings("unwritten", lambda x: torch.fft.rfft(x), torch.randn(1, 2, dtype=DOUBLE)[:, :1]) == []
    assert findings("unwritten", lambda x: x.sin(), X[:1, ::4]) == []


@pytest.mark.parametrize(("environment", "after"), [("7", 7), ("0x10", 16), ("many", 0)])
def test_memory_is_as_before_after_a_check(environment, after, monkeypatch):
    said = []
    monkeypatch.setattr(unwritten, "_mallopt", lambda: lambda *option: said.append(option))
    monkeypatch.setenv("MALLOC_PERTURB_", environment)
    with unwritten.filled(), unwritten.filled(255):
        pass
    assert said == [(-6, 63), (-6, 255), (-6, 63), (-6, after)]


@pytest.mark.parametrize("mallopt", [None, lambda *option: 1], ids=["another C library", "another allocator"])
def test_a_system_that_cannot_fill_memory(mallopt, monkeypatch):
    monkeypatch.setattr(unwritten, "_mallopt", lambda: mallopt)
    with pytest.raises(Skip, match="cannot fill"):
        findings("unwritten", SIN, X)
    assert tg.check(SIN, X, only="gradient").ok


def test_memory_of_a_device():
    with pytest.raises(Skip, match="device"):
        findings("unwritten", SIN, X.to("meta"))
