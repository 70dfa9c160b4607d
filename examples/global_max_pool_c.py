# A residual in C: the function writes where each maximum was into an output that `tg.Saved` keeps for the rule alone.
# A rule in C is not differentiated: a second derivative is refused.
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("""
int global_max_pool(int64_t c, int64_t h, int64_t w, const T *images, T *out, int64_t *index) {
    if (c > 0 && h * w == 0) return 1; /* nothing has no maximum: this raises */
    for (int64_t i = 0; i < c; i++) {
        const T *image = images + i * h * w;
        index[i] = 0;
        for (int64_t j = 1; j < h * w; j++)
            if (image[j] > image[index[i]] || image[j] != image[j]) index[i] = j; /* a NaN is the largest */
        out[i] = image[index[i]];
    }
    return 0;
}

void global_max_pool_vjp_images(int64_t c, int64_t h, int64_t w, const T *grad, const int64_t *index, T *grad_images) {
    for (int64_t j = 0; j < c * h * w; j++) grad_images[j] = 0;
    for (int64_t i = 0; i < c; i++) grad_images[i * h * w + index[i]] = grad[i];
}
""")


@tg.op(kernel=SOURCE)
def global_max_pool(
    images: Float[Tensor, "*batch c h w"],
) -> tuple[Float[Tensor, "*batch c"], tg.Saved[Int64[Tensor, "*batch c"], Literal["index"]]]:
    """The largest value of each channel."""


@global_max_pool.vjp("images", kernel=SOURCE)
def _(grad, index): ...


if __name__ == "__main__":
    image = torch.tensor([[[1.0, 7.0, 3.0], [7.0, 2.0, 5.0]]], requires_grad=True)

    maxima = global_max_pool(image)
    (gradient,) = torch.autograd.grad(maxima, image, retain_graph=True)
    print("maxima:  ", maxima.tolist(), " one for each channel, and no index")
    print("gradient:", gradient.tolist(), " all of it to the first 7")
    (gradient,) = torch.autograd.grad(maxima.square().sum(), image, create_graph=True)
    try:
        gradient.sum().backward()
    except tg.DerivativeError as error:
        print("second:  ", error.problem)
