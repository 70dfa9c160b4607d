# What torch.utils.ffi once was for: a bare Tensor reaches the C function whole, of any number of axes and any strides.
# The output's shape is a rule of its own; a function that returns another number than 0 raises.
import torch
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("""
static void add_axis(const T_x *x, const T_y *y, T_out **out, int64_t dim, const int64_t *sizes,
                     const int64_t *x_strides, const int64_t *y_strides) {
    if (dim == 0) {
        *(*out)++ = *x + *y;
        return;
    }
    for (int64_t i = 0; i < *sizes; i++)
        add_axis(x + i * *x_strides, y + i * *y_strides, out, dim - 1, sizes + 1, x_strides + 1, y_strides + 1);
}

int add(const T_x *x, int64_t x_dim, const int64_t *x_sizes, const int64_t *x_strides,
        const T_y *y, int64_t y_dim, const int64_t *y_sizes, const int64_t *y_strides,
        T_out *out, int64_t out_dim, const int64_t *out_sizes, const int64_t *out_strides) {
    if (x_dim != y_dim) return 1;
    for (int64_t i = 0; i < x_dim; i++)
        if (x_sizes[i] != y_sizes[i]) return 2;
    add_axis(x, y, &out, x_dim, x_sizes, x_strides, y_strides);
    return 0;
}
""")


@tg.op(kernel=SOURCE)
def add(x: Tensor, y: Tensor) -> Tensor:
    """The sum of two arrays of one shape."""


@add.shape
def _(x):
    return x


@add.vjp("x", "y")
def _(grad, x, y):
    return grad.to(x.dtype), grad.to(y.dtype)


if __name__ == "__main__":
    x = torch.arange(6.0).reshape(2, 3).T.requires_grad_()
    y = torch.ones(1, 2).expand(3, 2)
    print(add(x, y))
    print(torch.autograd.grad(add(x, y).square().sum(), x)[0])
    try:
        add(x, torch.ones(3, 3))
    except tg.KernelError as error:
        print(error)
