"""``batch="loop"`` is a plain Python loop, whatever the kernel, the batch axes and the rules are made of."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


def correlate(x, k):
    """The kernel of a sample, for tensors and for arrays."""
    return sum(k[i] * x[i : x.shape[0] - k.shape[0] + 1 + i] for i in range(k.shape[0]))


def _zeros(like, size):
    return torch.zeros(size, dtype=like.dtype) if isinstance(like, Tensor) else np.zeros(size, like.dtype)


def _rule_x(grad, x, k):
    parts = [_zeros(grad, x.shape[0]) for _ in range(k.shape[0])]
    for i, part in enumerate(parts):
        part[i : i + grad.shape[0]] = k[i] * grad
    return sum(parts)


def _rule_x_torch(grad, x, k):
    pad = torch.nn.functional.pad
    return sum(pad(k[i] * grad, (i, x.shape[0] - grad.shape[0] - i)) for i in range(k.shape[0]))


def _rule_k(grad, x, k):
    stack = torch.stack if isinstance(grad, Tensor) else np.stack
    return stack([(grad * x[i : i + grad.shape[0]]).sum() for i in range(k.shape[0])])


def make(kind, rules):
    @tg.op(batch="loop")
    def filtered(x: Float[kind, "n"], k: Float[kind, "m"]) -> Float[kind, "n-m+1"]:
        return correlate(x, k)

    if rules is Tensor:
        filtered.vjp("x")(lambda grad, x, k: _rule_x_torch(grad, x, k))
        filtered.vjp("k")(lambda grad, x, k: _rule_k(grad, x, k))
        return filtered

    def rule_x(grad: np.ndarray, x, k):
        return _rule_x(grad, x, k)

    def rule_k(grad: np.ndarray, x, k):
        return _rule_k(grad, x, k)

    filtered.vjp("x")(rule_x)
    filtered.vjp("k")(rule_k)
    return filtered


OPERATORS = {
    f"{kind.__name__} kernel, {rules.__name__} rules": make(kind, rules)
    for kind, rules in itertools.product((Tensor, np.ndarray), repeat=2)
}


def plain_loop(x, k):
    """The same by a Python loop over the broadcast batch, differentiated by autograd."""
    batch = torch.broadcast_shapes(x.shape[:-1], k.shape[:-1])
    xs, ks = x.expand(*batch, x.shape[-1]), k.expand(*batch, k.shape[-1])
    rows = [correlate(xs[index], ks[index]) for index in np.ndindex(*batch)]
    return torch.stack(rows).reshape(*batch, x.shape[-1] - k.shape[-1] + 1)


@st.composite
def batches(draw):
    """Two batch shapes that broadcast, of several ranks."""
    full = draw(st.lists(st.integers(1, 3), max_size=3))
    shapes = []
    for _ in range(2):
        kept = full[draw(st.integers(0, len(full))) :]
        shapes.append(tuple(1 if draw(st.booleans()) else size for size in kept))
    return shapes


@pytest.mark.parametrize("name", OPERATORS)
@given(batches(), st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_values_and_gradients_are_those_of_a_loop(name, shapes, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    x, k = draw(*shapes[0], 5), draw(*shapes[1], 2)
    out = OPERATORS[name](x, k)
    torch.testing.assert_close(out, plain_loop(x, k))
    leaves = [t.clone().requires_grad_() for t in (x, k)]
    cotangent = draw(*out.shape)
    mine = torch.autograd.grad(OPERATORS[name](*leaves), leaves, cotangent)
    expected = torch.autograd.grad(plain_loop(*leaves), leaves, cotangent)
    torch.testing.assert_close(mine, expected)
    _, pull = torch.func.vjp(OPERATORS[name], x, k)
    torch.testing.assert_close(pull(cotangent), expected)


@pytest.mark.parametrize("name", [name for name in OPERATORS if "Tensor rules" in name])
@given(shapes=batches())
@settings(max_examples=10)
def test_tangents_are_those_of_a_loop(name, shapes):
    torch.manual_seed(0)
    x, k = (torch.randn(*shape, size, dtype=torch.float64) for shape, size in zip(shapes, (5, 2), strict=True))
    tangents = torch.randn_like(x), torch.randn_like(k)
    mine = torch.func.jvp(OPERATORS[name], (x, k), tangents)
    torch.testing.assert_close(mine, torch.func.jvp(plain_loop, (x, k), tangents))


@pytest.mark.parametrize("name", OPERATORS)
@given(shapes=batches(), position=st.integers(0, 3))
@settings(max_examples=10)
def test_vmap_is_one_more_batch_axis(name, shapes, position):
    torch.manual_seed(0)
    x, k = torch.randn(2, *shapes[0], 5), torch.randn(2, *shapes[1], 2)
    dims = (min(position, x.dim() - 2), 0)
    mapped = torch.vmap(OPERATORS[name], in_dims=dims)(x.movedim(0, dims[0]), k)
    expected = torch.stack([plain_loop(a, b) for a, b in zip(x, k, strict=True)])
    torch.testing.assert_close(mapped, expected)
