import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("""
#include <math.h>

/* One sample: first the sizes of its axes, then the arguments, then the outputs. T is the type of the elements. */
void affine(int64_t n, int64_t m, const T *x, const T *weight, T *out) {
    for (int64_t i = 0; i < m; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < n; j++) out[i] += weight[i * n + j] * x[j];
    }
}

void affine_vjp_x_weight(int64_t n, int64_t m, const T *grad, const T *x, const T *weight, T *grad_x, T *grad_weight) {
    for (int64_t j = 0; j < n; j++) grad_x[j] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            grad_x[j] += grad[i] * weight[i * n + j];
            grad_weight[i * n + j] = grad[i] * x[j];
        }
}

/* One element, for an operator that is elementwise. */
T softplus(T x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
T softplus_partial_x(T x) { return 1 / (1 + exp(-x)); }
""")


@tg.op(kernel=SOURCE)
def affine(x: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]: ...


@affine.vjp("x", "weight", kernel=SOURCE)
def _(grad, x, weight): ...  # what the rule reads; its C function is called OPERATOR_RULE_INPUTS


@tg.op(kernel=SOURCE)
def softplus(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...


@softplus.partial("x", kernel=SOURCE)
def _(x): ...


x, weight = torch.randn(2, 3, 4, requires_grad=True).double(), torch.randn(5, 4, requires_grad=True).double()
print(torch.autograd.gradcheck(lambda x, weight: softplus(affine(x, weight)), (x, weight)))
print(softplus(affine(x.float(), weight.float())).shape)
print(affine.prototype())


@tg.op(kernel=tg.c("void swapped(const T *x, int64_t n, T *out) { out[0] = x[n - 1]; }"))
def swapped(x: Float[Tensor, "n"]) -> Float[Tensor, ""]: ...


try:
    swapped(x[0, 0])
except tg.BuildError as error:
    print(error)
