import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.cpp("""
#include <algorithm>
#include <stdexcept>

template <class E> void median(int64_t n, const E *x, E *sorted, E *out) {
    if (n == 0) throw std::invalid_argument("the median of nothing");
    std::copy(x, x + n, sorted);
    std::nth_element(sorted, sorted + n / 2, sorted + n);
    *out = sorted[n / 2];
}
""")


@tg.op(kernel=SOURCE)
def median(x: Float[Tensor, "*batch n"], sorted: Float[tg.Workspace, "n"]) -> Float[Tensor, "*batch"]: ...


@median.vjp("x")  # of equal elements each gets the same share
def _(grad, x, out):
    equal = (x == out.unsqueeze(-1)).to(x.dtype)
    return grad.unsqueeze(-1) * equal / equal.sum(-1, keepdim=True)


x = torch.tensor([[5.0, 1.0, 3.0], [2.0, 2.0, 0.0]], requires_grad=True)
print(median(x).tolist(), torch.autograd.grad(median(x).sum(), x)[0].tolist())
try:
    median(torch.ones(2, 0))
except tg.KernelError as error:
    print(error)


@tg.op(kernel=tg.c("void total(int64_t n, const T *x, T *out) { for (int64_t i = 0; i <= n; i++) *out += x[i]; }"))
def total(x: Float[Tensor, "n"]) -> Float[Tensor, ""]: ...


with tg.debug():  # in a program of its own, which may go wrong
    try:
        total(x[0])
    except tg.KernelError as error:
        print(error.argument, "-", error.problem)
