"""Autograd keeps what the rules of the inputs in need of a gradient ask for, and nothing else."""

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import torchgraft as tg
from examples.linear import linear
from examples.softplus import softplus

from . import operators as ops


class DispatcherPath(TorchDispatchMode):
    """A mode that changes nothing, but sends every call through the dispatcher."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.fixture(params=["eager", "dispatcher"])
def path(request: pytest.FixtureRequest):
    if request.param == "eager":
        yield "eager"
    else:
        with DispatcherPath():
            yield "dispatcher"


def saved_by(op, *arguments, **keywords) -> list[int]:
    """Positions of the tensors among `arguments` that autograd saves; -1 for anything else it saves."""
    kept: list[int] = []
    pointers = [a.data_ptr() if isinstance(a, Tensor) else None for a in arguments]

    def pack(tensor: Tensor) -> Tensor:
        kept.append(pointers.index(tensor.data_ptr()) if tensor.data_ptr() in pointers else -1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        made = op(*arguments, **keywords)
    assert all(out.requires_grad for out in ([made] if isinstance(made, Tensor) else made) if out.is_floating_point())
    return sorted(kept)


@pytest.mark.parametrize(
    ("needs", "saved"),
    [("i", [1]), ("w", [0]), ("b", []), ("iw", [0, 1]), ("ib", [1]), ("wb", [0]), ("iwb", [0, 1])],
)
def test_linear_saves_what_is_asked_for(path: str, needs: str, saved: list[int]):
    input, weight, bias = torch.randn(5, 4), torch.randn(3, 4), torch.randn(3)
    for name, tensor in zip("iwb", (input, weight, bias), strict=True):
        tensor.requires_grad_(name in needs)
    for _ in range(2):  # the first call is checked in words, the second takes the short way
        assert saved_by(linear, input, weight, bias) == saved


@pytest.mark.parametrize("needs", [True, False])
def test_nothing_is_saved_without_grad_mode(path: str, needs: bool):
    x, kept = torch.randn(5, requires_grad=needs), []
    with torch.set_grad_enabled(not needs), torch.autograd.graph.saved_tensors_hooks(kept.append, lambda t: t):
        out = softplus(x)
    assert not out.requires_grad
    assert kept == []


def test_saved_output_is_kept_and_not_returned(path: str):
    x = torch.randn(2, 5, requires_grad=True)
    out = ops.global_max(x)
    assert isinstance(out, Tensor)
    assert saved_by(ops.global_max, x) == [-1, 0]  # the index, and x for its shape


def test_nothing_is_computed_for_frozen_inputs(path: str):
    """The rule of a frozen input does not run."""
    x, w = torch.randn(4), torch.randn(3, 4, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        linear(x, w).sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert not any("vjp[input]" in name for name in names)
    assert w.grad is not None
    assert x.grad is None


def test_a_saved_tensor_that_changed_is_noticed(path: str):
    x, w = torch.randn(5, 4), torch.randn(3, 4, requires_grad=True)
    out = linear(x, w)
    x.mul_(2)
    with pytest.raises(tg.DerivativeError, match="modified by an inplace operation") as caught:
        out.sum().backward()
    assert caught.value.operator == "linear"


def test_the_graph_is_freed_after_backward(path: str):
    x = torch.randn(5, 4, requires_grad=True)
    loss = linear(x, torch.randn(3, 4)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_fake_tensors_save_the_same():
    with FakeTensorMode() as mode:
        x, w = mode.from_tensor(torch.randn(5, 4)), mode.from_tensor(torch.randn(3, 4)).requires_grad_()
        kept: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            linear(x, w)
    assert [tuple(t.shape) for t in kept] == [(5, 4)]
