"""Operators among the rest of Python and PyTorch: copies, processes, threads, loaders, profiles, modes."""

import concurrent.futures
import copy
import multiprocessing
import pickle
import threading

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import torchgraft as tg
from examples.correlate2d import correlate2d
from examples.linear import linear
from examples.softplus import softplus
from torchgraft._check import children

from . import operators as ops
from .cases import CASES, REVERSE, Case
from .default import by_default
from .matrix import assert_same


def columns_where(admits):
    """Over the cases of the matrix that `admits`."""
    cases = [case for case in CASES if case.in_matrix and admits(case)]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


columns = columns_where(lambda case: True)
start_methods = pytest.mark.parametrize(
    "method",
    ["spawn", pytest.param("fork", marks=pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"))],
)


@columns
def test_copies_are_the_operator_itself(case: Case):
    assert copy.copy(case.op) is case.op
    assert copy.deepcopy({"op": case.op})["op"] is case.op
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(case.op, protocol)) is case.op


def test_a_module_that_holds_operators_is_copied_pickled_and_saved(tmp_path):
    module = Holder(softplus)
    x = torch.rand(3)
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert other is not module
        torch.testing.assert_close(other(x), module(x))


class Holder(torch.nn.Module):
    def __init__(self, op: tg.Op):
        super().__init__()
        self.op, self.scale = op, torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.op(self.scale * x)


def gradients_of(case: Case) -> list[Tensor]:
    x = [v.requires_grad_() for v in case.primals()]
    out = case.smooth(case.call)(*x)
    return [g.detach() for g in torch.autograd.grad(out.abs().sum(), x)]


def work(name: str) -> bytes:
    """What a worker process does: eager values and gradients of one case."""
    case = next(case for case in CASES if case.name == name)
    return pickle.dumps([g.tolist() for g in gradients_of(case)])


@pytest.mark.slow
@start_methods
def test_worker_processes_compute_the_same(method: str):
    names = ["linear", "correlate2d", "softplus", "global_max", "hyperbolic"]
    here = [work(name) for name in names]  # also starts whatever pools there are, before the fork
    context = multiprocessing.get_context(method)
    # One thread each, as a DataLoader does it: torch's own OpenMP threads do not survive a fork.
    pool = concurrent.futures.ProcessPoolExecutor(
        1, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)
    )
    with pool:
        assert list(pool.map(work, names, timeout=120)) == here


def fail(_: int) -> None:
    linear(torch.ones(2, 3), torch.ones(4, 5))


@pytest.mark.slow
def test_an_error_crosses_the_border_between_processes():
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=children.fresh()) as pool:
        error = pool.submit(fail, 0).exception(timeout=120)
    assert isinstance(error, tg.ShapeError)
    assert error.operator == "linear"
    assert "weight" in str(error)


class Images(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Tensor:
        return correlate2d(torch.full((4, 5), float(i)), torch.ones(2, 3))


@pytest.mark.parametrize("method", by_default(["spawn", "fork"], lambda method: method == "fork"))
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_loader_workers(method: str):
    loader = DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context=method)
    batches = torch.cat(list(loader))
    torch.testing.assert_close(batches, 6 * torch.arange(8.0)[:, None, None].expand(8, 3, 3))


@columns_where(lambda case: REVERSE not in case.cannot)
def test_threads(case: Case):
    """Concurrent calls with different shapes and modes do not see each other's plans."""
    expected, failures = gradients_of(case), []
    barrier = threading.Barrier(4)

    def run(i: int) -> None:
        barrier.wait()
        try:
            for _ in range(5):
                assert_same(gradients_of(case), expected)
                with torch.no_grad():
                    case.raw(case.call)(*case.leaves(torch.float32))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def profiled(function) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function()
    return {event.key for event in profile.key_averages()}


@pytest.mark.parametrize(
    ("op", "shapes", "names"),
    [
        (linear, [(5, 4), (3, 4), (3,)], ["linear.vjp[input]", "linear.vjp[weight]", "linear.vjp[bias]"]),
        (correlate2d, [(6, 5), (2, 3)], ["correlate2d.adjoint[x]", "correlate2d.adjoint[kernel]"]),
        (softplus, [(3,)], ["softplus.partial[x]"]),
        (ops.bilinear, [(3,), (3, 2)], ["bilinear.vjp[x,w]"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, tg.Op) else None,
)
def test_the_profiler_shows_operators_and_rules_by_name(op: tg.Op, shapes: list, names: list[str]):
    x = [torch.rand(shape).requires_grad_() for shape in shapes]
    events = profiled(lambda: op(*x).sum().backward())
    assert any(op.__name__ in event and ".vjp" not in event for event in events)
    assert set(names) <= events


@columns_where(lambda case: not case.writes and sum(leaf.is_floating_point() for leaf in case.leaves()) > 1)
def test_mixed_float_inputs(case: Case):
    """An error without autocast; with it the widest dtype, and gradients in the inputs' own."""
    leaves = case.leaves(torch.float32)
    half = [leaf.to(torch.bfloat16) if i == 0 else leaf for i, leaf in enumerate(leaves)]
    with pytest.raises(tg.DtypeError, match=case.op.__name__):
        case.raw(case.call)(*half)
    half = [leaf.requires_grad_() if i == 0 else leaf for i, leaf in enumerate(half)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = case.raw(case.call)(*half)
    widened = [half[0].detach().float(), *leaves[1:]]
    assert_same([o.detach() for o in out], list(case.raw(case.call)(*widened)))
    sum(o.sum() for o in out).backward()
    assert half[0].grad.dtype == torch.bfloat16


@tg.op(autocast=torch.bfloat16)
def product(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * y


@product.vjp("x")
def _(grad, y):
    return grad * y


@pytest.mark.slow
def test_the_declared_autocast_dtype_is_used():
    x, y = torch.rand(3, requires_grad=True), torch.rand(3)
    assert product(x, y).dtype == torch.float32
    for f in (product, torch.compile(product, backend="aot_eager", fullgraph=True)):
        torch._dynamo.reset()
        with torch.autocast("cpu", dtype=torch.float16):
            out = f(x, y)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out, x.bfloat16() * y.bfloat16())
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert gradient.dtype == torch.float32


def test_float64_is_not_rounded_under_autocast():
    """As in torch, whose matmul leaves it alone."""
    x = torch.tensor([1 + 2.0**-40], dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(product(x, x), x * x)
        assert torch.equal(product(x, x.float()), x * x.float())


@pytest.mark.parametrize("enter", ["set_default_device", "with device"])
def test_a_default_device_does_not_leave_the_fast_path(enter: str, monkeypatch: pytest.MonkeyPatch):
    x = torch.rand(3)
    softplus(x)
    calls = []
    monkeypatch.setattr(type(softplus._lowering), "call", lambda *_, **__: calls.append(1))
    try:
        if enter == "set_default_device":
            torch.set_default_device("cpu")
            out = softplus(x)
        else:
            with torch.device("cpu"):
                out = softplus(x)
    finally:
        torch.set_default_device(None)
    assert calls == []
    torch.testing.assert_close(out, torch.nn.functional.softplus(x))


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(False),
    "multithreading off": lambda: torch.autograd.set_multithreading_enabled(False),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [(softplus, [(11,)]), (linear, [(11, 4), (3, 4)]), (correlate2d, [(11, 13), (2, 3)])],
    ids=["softplus", "linear", "correlate2d"],
)
def test_first_call_in_another_mode(op: tg.Op, shapes: list, mode: str):
    """What was seen under one mode does not decide what happens under another."""
    op._declare(lambda record: None)  # forgets every call so far
    x = [torch.rand(shape, requires_grad=True) for shape in shapes]
    for _ in range(2):
        with MODES[mode]():
            inside = op(*x)
        assert inside.requires_grad == (mode not in ("no_grad", "inference_mode"))
        out = op(*x)
        assert out.requires_grad
        assert all(g.any() for g in torch.autograd.grad(out.sum(), x))


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated:DeprecationWarning")
def test_jit_trace_is_refused():
    with pytest.raises(tg.UnsupportedError, match="softplus"):
        torch.jit.trace(softplus, (torch.rand(3),))


def test_inputs_cannot_be_written_by_a_numpy_kernel():
    x = torch.rand(3)
    before = x.clone()
    with pytest.raises(tg.KernelError, match="overwrite"):
        overwrite(x)
    torch.testing.assert_close(x, before)


@tg.op
def overwrite(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    x *= 2
    return x
