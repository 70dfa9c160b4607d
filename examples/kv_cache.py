# An operator that writes: a step of decoding puts one key and one value into caches that are allocated once.
# The C function gets the caches' own memory. With a gradient, under transforms and compiled it is right as well.
import statistics
import time

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import torchgraft as tg

SOURCE = tg.c("""
#include <string.h>

int put_(int64_t n, int64_t d, T *keys, T *values, const T *key, const T *value, int64_t at) {
    if (at < 0 || at >= n) return 1; /* there is no such row: this raises */
    memcpy(keys + at * d, key, d * sizeof(T));
    memcpy(values + at * d, value, d * sizeof(T));
    return 0;
}
""")


@tg.domain(n="[3, 6]", at={0, 1, 2})
@tg.op(kernel=SOURCE)
def put_(
    keys: tg.Mutated[Float[Tensor, "*batch n d"]],
    values: tg.Mutated[Float[Tensor, "*batch n d"]],
    key: Float[Tensor, "*batch d"],
    value: Float[Tensor, "*batch d"],
    at: int,
) -> None:
    """Put a key and a value at a row of their caches."""


@put_.vjp("keys", independent="values_after")
def _(grad_keys, at):
    return without_row(grad_keys, at)


@put_.vjp("values", independent="keys_after")
def _(grad_values, at):
    return without_row(grad_values, at)


@put_.vjp("key", independent="values_after")
def _(grad_keys, at):
    return grad_keys[..., at, :]


@put_.vjp("value", independent="keys_after")
def _(grad_values, at):
    return grad_values[..., at, :]


def without_row(grad: Tensor, at: int) -> Tensor:
    """The gradient of what the row held before, which is gone."""
    rows = torch.arange(grad.shape[-2], device=grad.device)[:, None]
    return torch.where(rows == at, torch.zeros_like(grad), grad)


if __name__ == "__main__":
    torch.manual_seed(0)
    heads, length, d = 4, 16, 8
    query, key, value = torch.randn(3, length, heads, 1, d).unbind()
    keys, values = torch.zeros(2, heads, length, d).unbind()

    def decode(step: int) -> Tensor:
        put_(keys, values, key[step, :, 0], value[step, :, 0], step)
        return functional.scaled_dot_product_attention(query[step], keys[:, : step + 1], values[:, : step + 1])

    stepwise = torch.cat([decode(step) for step in range(length)], 1)
    whole = functional.scaled_dot_product_attention(
        *(x[:, :, 0].transpose(0, 1) for x in (query, key, value)), is_causal=True
    )
    torch.testing.assert_close(stepwise, whole)
    print("decoding step by step gives what attention over all gives")

    cache, row = torch.zeros(2, 16384, 1024), torch.ones(2, 1024)

    def write():
        put_(*cache, *row, 5)

    @torch.compile(fullgraph=True)
    def compiled(cache, row):
        put_(*cache, *row, 5)

    for name, function in (("eager", write), ("compiled", lambda: compiled(cache, row))):
        with torch.no_grad():
            function()
            times = []
            for _ in range(50):
                start = time.perf_counter()
                function()
                times.append(time.perf_counter() - start)
        print(f"{name:8} {1e6 * statistics.median(times):6.1f} us to write a row of each of two caches of 64 MB")
