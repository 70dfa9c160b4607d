"""What a kernel or a rule returns belongs to the caller alone, whoever else held it."""

import functools

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@functools.lru_cache
def window(n):
    return np.hanning(n).astype(np.float32)


_BUFFER = np.zeros(5, np.float32)
_TABLE = torch.arange(5.0)


def cached_array(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return window(len(x))


def view_of_cached_array(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return window(2 * len(x))[: len(x)]


def buffer(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return np.multiply(x, 2, out=_BUFFER)


def array_itself(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return x


def array_view(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return x[::-1][::-1]


def table(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return _TABLE


def view_of_table(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return _TABLE[:5]


def tensor_itself(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x


def detached(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x.detach()


def through_numpy(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return torch.from_numpy(np.ascontiguousarray(x.detach().numpy()))


def through_dlpack(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return torch.from_dlpack(x.detach())


KERNELS = [
    cached_array, view_of_cached_array, buffer, array_itself, array_view,
    table, view_of_table, tensor_itself, detached, through_numpy, through_dlpack,
]  # fmt: skip


@pytest.mark.parametrize("records", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_outputs_are_nobody_elses(kernel, records):
    op = tg.op(kernel)
    op.vjp("x")(lambda grad: grad)
    for _ in range(4):
        x = torch.rand(5)
        expected = torch.as_tensor(kernel(x.numpy() if op._record.signature.numpy else x)).clone()
        given = x.clone().requires_grad_(records)
        out = op(given)
        first = out.detach().clone()
        torch.testing.assert_close(first, expected)
        op(torch.rand(5))  # what the next call does must not reach this output
        torch.testing.assert_close(out.detach(), first)
        with torch.no_grad():
            given.add_(1)
        torch.testing.assert_close(out.detach(), first)
        with torch.no_grad():
            out.add_(7)  # and what is done to the output must not reach what the kernel keeps
    x = torch.rand(5)
    torch.testing.assert_close(
        op(x), torch.as_tensor(kernel(x.numpy() if op._record.signature.numpy else x)).clone(), rtol=0, atol=0
    )
    assert torch.equal(_TABLE, torch.arange(5.0))
    np.testing.assert_array_equal(window(5), np.hanning(5).astype(np.float32))


def test_outputs_are_apart_from_each_other():
    @tg.op
    def twice(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
        y = x * 2
        return y, y

    for _ in range(3):
        left, right = twice(torch.ones(2))
        left.add_(1)
        assert right.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("with_hook", [False, True])
def test_a_fresh_output_is_not_copied(with_hook):
    """Neither after Dynamo has set its hook in the interpreter, with which calls hold their arguments longer."""
    seen = []
    if with_hook:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

    @tg.op
    def fresh(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        out = x * 2
        seen.append(out.data_ptr())
        return out

    @tg.op
    def fresh_array(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        out = x * 2
        seen.append(out.ctypes.data)
        return out

    @tg.op
    def fresh_view(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        out = np.concatenate([x, x])
        seen.append(out.ctypes.data)
        return out[: len(x)]

    for op in (fresh, fresh_array, fresh_view):
        for _ in range(3):
            assert op(torch.rand(4)).data_ptr() == seen[-1]


def test_gradients_of_one_rule_do_not_share_memory():
    """AccumulateGrad takes a gradient over as it is: two inputs would accumulate into each other."""

    @tg.op
    def add(a: Float[np.ndarray, "n"], b: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return a + b

    @add.vjp("a", "b")
    def _(grad: np.ndarray):
        shared = 1.0 * grad
        return shared, shared

    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    add(a, b).sum().backward()
    add(a, b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [2.0] * 3
