"""Kernels and rules on arrays: dtypes that NumPy lacks, and what an adjoint needs besides what it reads."""

import numpy as np
import pytest
import torch
from jaxtyping import Complex, Float
from torch import Tensor

import torchgraft as tg
from torchgraft._kernels.arrays import to_array


@tg.op
def spectrum(x: Float[np.ndarray, "n"]) -> Complex[np.ndarray, "n"]:
    return np.fft.fft(x).astype(np.result_type(x.dtype, np.complex64))


@tg.op
def repeated(x: Float[np.ndarray, "n"], k: int) -> Float[np.ndarray, "n {k}"]:
    return np.repeat(x[:, None], k, 1)


@repeated.adjoint("x")
def _(grad: np.ndarray):
    return grad.sum(1)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.complex32),
        (torch.bfloat16, torch.complex64),
        (torch.float32, torch.complex64),
        (torch.float64, torch.complex128),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_outputs_have_the_precision_of_the_input(dtype: torch.dtype, expected: torch.dtype):
    out = spectrum(torch.arange(4).to(dtype))
    assert out.dtype == expected
    assert out.to(torch.complex128).tolist() == pytest.approx([6, -2 + 2j, -2, -2 - 2j])


def test_an_adjoint_need_not_ask_for_the_numbers_of_its_own_derivative():
    x, cotangent = torch.randn(3, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(repeated(x, 2), x, cotangent, create_graph=True)
    weight = torch.tensor([1.0, 2.0, 3.0])
    (second,) = torch.autograd.grad(gradient, cotangent, weight)
    assert second.tolist() == [[1, 1], [2, 2], [3, 3]]
    _, tangent = torch.func.jvp(
        lambda c: torch.func.vjp(lambda x: repeated(x, 2), x)[1](c)[0], (cotangent,), (cotangent,)
    )
    torch.testing.assert_close(tangent, cotangent.sum(1))


@pytest.mark.parametrize(
    "view", [lambda p: p, lambda p: p.mT, lambda p: p[1:, ::2]], ids=["itself", "transposed", "strided"]
)
def test_the_memory_of_a_parameter_can_still_be_resized(view):
    """FSDP does so; `Tensor.numpy` would forbid it."""
    parameter = torch.nn.Parameter(torch.randn(4, 4))
    lent = view(parameter)
    assert to_array(lent, "op", "w").tolist() == lent.tolist()
    assert parameter.untyped_storage().resizable()


def test_the_memory_of_a_part_can_still_be_resized_among_processes():
    """FSDP resizes what stands behind the part of a DTensor, which no type tells from other tensors."""
    part = torch.nn.Parameter(torch.randn(4)).detach()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert to_array(part, "op", "w").tolist() == part.tolist()
    finally:
        torch.distributed.destroy_process_group()
    assert part.untyped_storage().resizable()


@pytest.mark.parametrize("batch", ["loop", None])
def test_a_rule_that_reads_a_list_of_one_array_gets_a_list(batch):
    @tg.op(batch=batch)
    def weighted(x: Float[np.ndarray, "n"], ws: list[Float[np.ndarray, "n"]]) -> Float[np.ndarray, "n"]:
        return x * sum(ws)

    @weighted.vjp("x")
    def _(grad: np.ndarray, ws: list[np.ndarray]) -> np.ndarray:
        return grad * sum(ws)

    x, w = torch.ones(2, 3, dtype=torch.float64), torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    if batch is None:
        x, w = x[1], w[1]
    gradient = torch.func.grad(lambda x: weighted(x, [w]).sum())(x)
    torch.testing.assert_close(gradient, w)


def test_an_array_of_one_element_that_runs_backwards():
    @tg.op
    def flipped(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return np.flip(x)

    x = torch.ones(1)
    torch.testing.assert_close(flipped(x), x)


def test_a_partial_derivative_on_arrays_broadcasts():
    @tg.op
    def affine(x: Float[Tensor, "..."], y: Float[Tensor, "..."], c: float) -> Float[Tensor, "..."]:
        return x * y + c * x

    @affine.partial("x")
    def _(y: np.ndarray, c: float) -> np.ndarray:
        return y + c

    @affine.partial("y")
    def _(x: np.ndarray) -> np.ndarray:
        return x

    @tg.op
    def scaled(x: Float[np.ndarray, "..."], c: float) -> Float[np.ndarray, "..."]:
        return c * x

    @scaled.partial("x")
    def _(c: float):
        return torch.tensor(c)

    x, y = torch.rand(3, 2, dtype=torch.float64), torch.rand(1, dtype=torch.float64)

    def loss(affine, scaled):
        return lambda x, y: (affine(x, y, 2.0) * scaled(x, 3.0)).sin().sum()

    plain = loss(lambda x, y, c: x * y + c * x, lambda x, c: c * x)
    for transform in (lambda f: torch.func.grad(f, (0, 1)), lambda f: torch.vmap(torch.func.grad(f), (0, None))):
        torch.testing.assert_close(transform(loss(affine, scaled))(x, y), transform(plain)(x, y))
