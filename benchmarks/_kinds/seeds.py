"""Seeds that are drawn outside of the kernel."""

from __future__ import annotations

import torch
from _timing import Row, difference, interleave, us
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SEEDED = tg.c("""
void plain(int64_t n, const T *x, T *out) { for (int64_t i = 0; i < n; i++) out[i] = x[i]; }
void seeded(int64_t n, const T *x, int64_t seed, T *out) { for (int64_t i = 0; i < n; i++) out[i] = x[i] + (T)seed; }
""")


@tg.op(kernel=SEEDED)
def plain(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...


@tg.op(kernel=SEEDED)
def seeded(x: Float[Tensor, "*batch n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]: ...


def seeds() -> list[Row]:
    """A call that draws its seed, and one that is given it, over a call without a seed."""
    x, seed = torch.randn(8), torch.tensor(3)
    with torch.no_grad():
        times = interleave(
            {
                "plain": lambda: plain(x), "drawn": lambda: seeded(x), "given": lambda: seeded(x, seed=seed),
                "randint": lambda: torch.randint(2**63 - 1, ()),
            },
            2000,
        )  # fmt: skip
    rival = f"without a seed {us(times['plain'])}"
    return [
        Row("no-grad call, seed drawn", us(times["drawn"]), f"{rival}, `torch.randint` alone {us(times['randint'])}",
            f"{difference(times['drawn'], times['plain']):+.2f} us", "at most 1.8 us"),
        Row("no-grad call, seed given", us(times["given"]), rival,
            f"{difference(times['given'], times['plain']):+.2f} us", ""),
    ]  # fmt: skip
