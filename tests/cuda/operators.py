"""Elementwise operators in C, each with what it equals in plain torch."""

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

import torchgraft as tg
from examples.gelu_scalar import gelu

SOFT = tg.c("""
#include <math.h>

T soft(T x, T y, double beta) { return x > 20 ? x * y : (T)(log1p(exp(beta * x)) / beta) * y; }
T soft_partial_x(T x, T y, double beta) { return (x > 20 ? 1 : (T)(1 / (1 + exp(-beta * x)))) * y; }
T soft_partial_y(T x, T y, double beta) { return soft(x, 1, beta); }
""")

POLAR = tg.c("""
#include <tgmath.h>

void polar(T x, T y, T *radius, T *angle) {
    *radius = hypot(x, y);
    *angle = atan2(y, x);
}
""")

SHIFTED = tg.c("""
T shifted(T x, int64_t by, bool down, const double *factor) {
    return (down ? x - (T)by : x + (T)by) * (factor ? (T)*factor : 1);
}
""")

CHOSEN = tg.c("T chosen(bool take, T x, int64_t n) { return take ? x : (T)n; }")

NOISY = tg.c("""
#include <torchgraft/random.h>

T noisy(T x, int64_t seed) { return x * (T)tg_uniform(seed, 1); }
T noisy_partial_x(T x, int64_t seed) { return (T)tg_uniform(seed, 1); }
""")

SCALE = tg.c("T scale_(T y, T x, double a) { return (T)(a * y + x); }")

ROOT = tg.c("""
#include <math.h>

typedef struct { double hi, lo; } dd;

static const double table[3] = {1, 0.5, 0.25};

static dd halves(double x) { return (dd){x * table[1], x * table[2] * 2}; }

T root(T x) { dd parts = halves(sqrt(fabs(x))); return (T)(parts.hi + parts.lo); }
""")


def make():
    """Declare the operators anew: what a call has found out is kept by an operator."""

    @tg.op(kernel=SOFT)
    def soft(x: Float[Tensor, "..."], y: Float[Tensor, "..."], beta: float = 1.0) -> Float[Tensor, "..."]: ...

    @soft.partial("x", kernel=SOFT)
    def _(x, y, beta): ...

    @soft.partial("y", kernel=SOFT)
    def _(x, y, beta): ...

    @tg.op(kernel=POLAR)
    def polar(
        x: Float[Tensor, "..."], y: Float[Tensor, "..."]
    ) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]: ...

    @tg.op(kernel=SHIFTED)
    def shifted(
        x: Num[Tensor, "..."], by: int = 1, down: bool = False, factor: float | None = None
    ) -> Num[Tensor, "..."]: ...

    @tg.op(kernel=CHOSEN)
    def chosen(take: Bool[Tensor, "..."], x: Float[Tensor, "..."], n: Int[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @tg.op(kernel=NOISY)
    def noisy(x: Float[Tensor, "..."], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "..."]: ...

    @noisy.partial("x", kernel=NOISY)
    def _(x, seed): ...

    @tg.op(kernel=ROOT)
    def root(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @tg.op(kernel=SCALE)
    def scale_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."], a: float = 2.0) -> None: ...

    return {op.__name__: op for op in (soft, polar, shifted, chosen, noisy, root, scale_)}


EXAMPLES = [gelu]
NAMES = ("soft", "polar", "shifted", "chosen", "noisy", "root")
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, torch.float64, *HALVES)
