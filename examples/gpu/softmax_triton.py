# A Triton kernel beside a torch one: `wrap_triton` shows it to torch.compile, which fuses around it. Without a GPU,
# TRITON_INTERPRET=1 python examples/gpu/softmax_triton.py runs it on the CPU.
import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.library import wrap_triton

import torchgraft as tg


@triton.jit
def softmax_rows(x, out, n, BLOCK: tl.constexpr):
    """One program a row, which fits into a block."""
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = columns < n
    values = tl.load(x + row * n + columns, mask=inside, other=-float("inf"))
    values = values.to(tl.float32) if values.dtype.primitive_bitwidth < 32 else values
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + columns, weights / tl.sum(weights, axis=0), mask=inside)


def by_triton(x: Tensor) -> Tensor:
    """Softmax over the last axis."""
    x, n = x.contiguous(), x.shape[-1]
    out = torch.empty_like(x)
    if out.numel():
        # For what traces alone: in eager mode `wrap_triton` takes a millisecond, and keeps what it was called with.
        kernel = softmax_rows if type(x) is Tensor else wrap_triton(softmax_rows)
        kernel[(out.numel() // n,)](x, out, n, BLOCK=triton.next_power_of_2(n))
    return out


@tg.op
def softmax(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    return torch.softmax(x, -1)


@softmax.kernel("cuda")
def _(x):
    return by_triton(x)


@softmax.vjp("x")
def _(grad, out):
    return out * (grad - (grad * out).sum(-1, keepdim=True))


if __name__ == "__main__":
    x = torch.randn(3, 5, device="cuda" if torch.cuda.is_available() else "cpu")
    print("Triton", *(f"{value:.4f}" for value in by_triton(x)[0].tolist()))
    print("torch ", *(f"{value:.4f}" for value in torch.softmax(x, -1)[0].tolist()))
    print(softmax)
