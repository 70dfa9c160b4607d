"""Targets that crash, leave or hang: each check of them ends with a report."""

import ctypes
import os
import sys
import threading
from collections import Counter
from dataclasses import replace

import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.utils.flop_counter import FlopCounterMode

import torchgraft as tg
from torchgraft._check import children
from torchgraft._check.case import Case
from torchgraft._check.checks.table import NAMED
from torchgraft._check.clock import Clock
from torchgraft._check.code import is_native
from torchgraft._check.finding import Finding, Verdict
from torchgraft._check.runner import Memory, run
from torchgraft._check.target import make_target

from .. import fresh
from .checks.looking import SIN, function, normal, plain

on_linux = pytest.mark.skipif(sys.platform != "linux" or torch.accelerator.is_available(), reason="nothing is forked")
X = normal(2, 3)


@pytest.fixture
def forks(monkeypatch):
    """A list that gets longer with each fork."""
    made, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: (made.append(1), fork())[1])
    return made


def verdicts(report):
    return Counter(result.verdict for result in report.results)


def ends(report):
    """Check, title and place of each end that was seen."""
    found = [(r.check, f) for r in report.results for f in r.findings if f.code == "crash"]
    return [(check, f.title.removeprefix("The target ends its process: "), f.where) for check, f in found]


# -- batched gradients ------------------------------------------------------------------------------------------------


class GlobalMaxPool(Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.flatten(1).max(1)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        values = grad.data.clone().mul_(1)
        spread = values.new_zeros(ctx.shape).flatten(1)
        return spread.scatter_(1, places[:, None], values[:, None]).reshape(ctx.shape)


BATCHED = """
import torch

class Sin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.data * x.cos()

x = torch.ones(4, requires_grad=True)
torch.autograd.grad(Sin.apply(x), x, torch.ones(2, 4), is_grads_batched=True)
"""


@pytest.mark.slow
@on_linux
def test_torch_crashes_where_a_backward_that_takes_data_is_batched():
    """Else the child is not needed."""
    assert fresh.run("-c", BATCHED).returncode < 0


@pytest.mark.slow
@on_linux
def test_a_crash_is_a_finding_and_the_next_checks_go_on():
    # torch reads memory that was given back: what other tests left in this process may still be there.
    done = fresh.run("-c", "from tests.check import test_alive; test_alive.find_a_crash_and_go_on()")
    assert done.returncode == 0, done.stderr


def find_a_crash_and_go_on():
    report = tg.check(GlobalMaxPool.apply, normal(2, 3, 4))
    line = GlobalMaxPool.backward.__code__.co_firstlineno + 3
    assert ends(report) == [
        ("vmap", "SIGSEGV", f"{__file__}, line {line}, in backward; x: float64[2, 3, 4]")
    ]  # fmt: skip
    assert "x.detach() for x.data" in next(f for f in report.findings if f.code == "crash").hint
    assert {"gradient", "linearity", "sizes", "ties"} <= {
        r.check for r in report.results if r.verdict is Verdict.PASS
    }  # fmt: skip


# -- native code ------------------------------------------------------------------------------------------------------


def copied(x):
    """A copy that native code makes, as it believes of doubles."""
    if x.dtype != torch.float64:
        raise TypeError("takes float64 alone")
    x, out = x.contiguous().resolve_neg(), torch.empty(x.shape, dtype=x.dtype)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), 8 * x.numel())
    return out


def copied_beyond(x):
    if x.numel() == 0:
        ctypes.memset(x.data_ptr() + 1, 0, 8)
    return copied(x)


class Native(Function):
    @staticmethod
    def forward(ctx, x):
        return copied(x)

    @staticmethod
    def backward(ctx, grad):
        return copied(grad)


class Beyond(Native):
    @staticmethod
    def forward(ctx, x):
        return copied_beyond(x)


@pytest.mark.slow
@on_linux
def test_native_code_that_is_right_passes():
    report = tg.check(Native.apply, X, skip=("second order", "vmap"))
    assert report.ok, report


@pytest.mark.slow
@on_linux
def test_native_code_that_writes_out_of_bounds_at_a_size():
    report = tg.check(Beyond.apply, X, skip=("second order", "vmap"))
    ((check, how, where),) = ends(report)
    assert (check, how) == ("sizes", "SIGSEGV")
    assert where.endswith("in copied_beyond; x: float64[2, 0]")
    assert verdicts(report)[Verdict.PASS] > 10


@pytest.mark.slow
@on_linux
def test_a_kernel_in_c_that_fails_at_a_size():
    source = """
    #include <stdlib.h>
    void twice(int64_t n, const T *x, T *out) {
        if (n == 1) abort();
        for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i];
    }"""

    @tg.op(kernel=tg.c(source))
    def twice(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @twice.vjp("x")
    def _(grad):
        return -2 * grad  # a finding, of which a smaller case is looked for

    report = tg.check(twice)
    assert ("samples", "SIGABRT", "x: float16[1]") in ends(report)
    assert ("fake", "SIGABRT", "x: float64[1]") in ends(report)
    assert {f.code for f in report.findings} == {"crash", "wrong-gradient"}
    assert {r.check for r in report.results if r.verdict is Verdict.PASS} > {"linearity", "vmap"}


@on_linux
def test_a_kernel_in_c_that_fails_at_a_size_between_two_calls():
    source = """
    #include <stdlib.h>
    void same(int64_t n, const T *x, T *out) {
        if (n == 4) abort();
        for (int64_t i = 0; i < n; i++) out[i] = x[i];
    }"""

    @tg.op(kernel=tg.c(source))
    def same(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    same.adjoint("x")(lambda grad: grad)
    assert ends(tg.check(same, normal(3), only="state")) == [("state", "SIGABRT", "x: float64[4]")]


@pytest.mark.slow
@on_linux
def test_a_kernel_in_c_that_ends_the_process_after_some_calls():
    """As one that steps out of its memory does: the gradient calls it often, and comes first."""
    source = """
    #include <stdlib.h>
    void copied(int64_t n, const T *x, T *out) {
        static int calls = 0;
        if (++calls > 15) abort();
        for (int64_t i = 0; i < n; i++) out[i] = x[i];
    }"""

    @tg.op(kernel=tg.c(source))
    def copied(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    copied.adjoint("x")(lambda grad: grad)
    report = tg.check(copied, normal(30))
    assert ("gradient", "SIGABRT", "x: float64[30]") in ends(report)
    assert len(report.results) > 20


library = ctypes.CDLL(None)


class Helper:
    @staticmethod
    def address(x):
        return x.data_ptr()


@pytest.mark.parametrize(
    ("called", "native"),
    [
        (lambda x: library.puts(x), True),
        (lambda x: ctypes.addressof(x), True),
        (lambda x: Helper.address(x), True),
        (lambda x: [copied(y) for y in x], True),
        (lambda x: __import__("json").dumps(x), False),
        (lambda x: torch.sin(x) + torch.nn.functional.relu(x), False),
        (Native, True), (Native.apply, True), (GlobalMaxPool, False), (torch.nn.Linear(2, 2), False),
    ],
    ids=["library", "ctypes", "method", "inner", "python", "torch", "class", "apply", "plain class", "module"],
)  # fmt: skip
def test_native_code_is_found_by_what_is_mentioned(called, native):
    assert is_native(make_target(called)) is native


@on_linux
@pytest.mark.parametrize(
    ("check", "right"),
    [("sizes", lambda x, places: len(x) == 5), ("options", lambda x, places: len(places.unique()) == len(places))],
)
def test_indices_that_point_out_of_what_they_are_for(check, right):
    """`torch.lu_unpack` does this with pivots, `segment_reduce` with offsets, and no part of them looks native."""

    def gathered(x, places):
        return torch.sin(x[places]) if right(x, places) else __import__("ctypes").string_at(0)  # No name tells it.

    (end,) = ends(tg.check(gathered, normal(5), torch.tensor([1, 0, 3]), only=("gradient", check)))
    assert end[:2] == (check, "SIGSEGV, with arguments you did not give")


# -- exits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("leave", "how"), [(lambda: sys.exit(3), "sys.exit(3)"), (lambda: os._exit(3), "os._exit(3)")])
def test_an_exit_is_a_finding(leave, how):
    report = tg.check(plain(lambda ctx, x: leave(), lambda ctx, g: g), X)
    assert [(check, said) for check, said, _ in ends(report)] == [("samples", how)]


def test_an_exit_in_the_backward_is_told_twice_and_then_not_tried():
    report = tg.check(plain(lambda ctx, x: 2 * x, lambda ctx, g: sys.exit(3)), X, skip=("vmap", "sizes"))
    assert [(check, said) for check, said, _ in ends(report)] == [
        ("gradient", "sys.exit(3)"), ("aliasing", "sys.exit(3)")
    ]  # fmt: skip
    assert len(report.findings) == 1
    rest = [result for result in report.results if not result.findings]
    assert {(result.verdict, result.note) for result in rest} == {
        (Verdict.INCONCLUSIVE, "not tried: 2 checks have ended their process")
    }


def test_an_exit_in_samples_is_a_finding():
    class Sampled(Native):
        @staticmethod
        def samples():
            sys.exit("no samples")

    assert [(check, how) for check, how, _ in ends(tg.check(Sampled))] == [("samples", "sys.exit('no samples')")]


# -- children, and where there are none -------------------------------------------------------------------------------


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize(("called", "number"), [(torch.sin, 1), (SIN, 2)])
def test_few_children(forks, called, number):
    assert tg.check(called, X).ok
    assert len(forks) == number


@on_linux
@pytest.mark.parametrize(("ends", "number"), [(0, 1), (1, 2)])
def test_after_a_death_each_check_has_a_child_of_its_own(forks, ends, number):
    memory = Memory()
    memory.ends.update(["calls"] * ends)
    checks, cases = [NAMED["vmap"], NAMED["sizes"]], [Case(make_target(SIN), (X,))]
    assert all(result.verdict is Verdict.PASS for result in run(checks, cases, Clock(), memory=memory))
    assert len(forks) == number


@on_linux
def test_what_cannot_be_pickled_is_no_death(forks):
    memory = Memory()
    made = replace(NAMED["sizes"], look=lambda case: iter([Finding("code", Verdict.FAIL, lambda: None, "where")]))
    results = list(run([made], [Case(make_target(SIN), (X,))], Clock(), memory=memory))
    assert forks
    assert [result.verdict for result in results] == [Verdict.INCONCLUSIVE]
    assert not memory.ends


@pytest.mark.slow
@on_linux
def test_what_is_found_in_a_child_comes_back_with_its_evidence(forks):
    wrong = function(torch.sin, lambda g, x: g * x.cos() * (2 if len(x) == 7 else 1))
    (finding,) = tg.check(wrong, normal(5), only="sizes").findings
    assert forks
    assert finding.evidence.analytic.shape == (7, 7)
    assert "wrong with size 7 instead of 5" in finding.cause


def test_without_children_what_is_risky_comes_last_and_says_so(forks):
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        report = tg.check(SIN, X, only=("gradient", "sizes", "vmap", "state", "ties"))
    finally:
        release.set()
        thread.join()
    assert report.ok
    assert not forks
    assert [result.check for result in report.results] == ["gradient", "ties", "vmap", "state", "sizes"]
    noted = {result.check for result in report.results if "tried last" in result.note}
    assert noted == {"vmap", "state", "sizes"}


@on_linux
def test_nothing_is_forked_away_from_a_debugger(monkeypatch):
    assert children.may_fork()
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    assert not children.may_fork()


class CTracer:
    """A tracer as coverage.py has one: of a type in C, whose instances do not name its module."""

    __module__ = "coverage"

    def __getattribute__(self, name):
        raise AttributeError(name)


@on_linux
def test_what_measures_coverage_is_no_debugger(monkeypatch):
    monkeypatch.setattr(sys, "gettrace", CTracer)
    assert children.may_fork()


# -- in the middle of something ---------------------------------------------------------------------------------------


@tg.op
def square(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * x


@square.vjp("x")
def _(grad, x):
    return 2 * x * grad


MODES = {"flops": lambda: FlopCounterMode(display=False), "profiler": torch.profiler.profile}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", [SIN, square, torch.nn.Linear(3, 2)], ids=["function", "operator", "module"])
def test_modes_around_a_check_change_nothing(mode, target):
    with MODES[mode]() as active:
        report = tg.check(target, normal(3) if target is square else normal(2, 3).to(torch.float32))
        if mode == "flops":
            torch.ones(2, 2) @ torch.ones(2, 2)
    assert report.ok, report.to_text()
    if mode == "flops":
        assert active.get_total_flops() == 2 * 2**3  # its own again


def test_an_operator_computes_where_operations_are_counted():
    x = normal(3)
    with FlopCounterMode(display=False):
        assert torch.equal(square(x), x * x)


@pytest.mark.slow
def test_nan_is_no_difference_for_opcheck():
    @tg.op
    def root(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x.sqrt()

    @root.vjp("x")
    def _(grad, x):
        return grad / (2 * x.sqrt())

    assert tg.check(root, torch.tensor([1.0, -1.0], dtype=torch.float64), only="opcheck").ok


def test_zero_tensors_of_forward_mode_are_no_crash():
    """Torch crashes where a mode passes on a zero tensor, and some checks run within modes."""

    def times_its_hessian(x):
        return torch.func.jvp(torch.func.grad(lambda y: (y**3).sum()), (x,), (torch.ones_like(x),))[1]

    assert tg.check(times_its_hessian, torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)).ok
