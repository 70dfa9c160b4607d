"""``python -m tests.fuzz.on_writes --seconds 600``: random programs whose operators write into views of a few tensors.

Each program is run with operators that write, and with plain torch: `copy_` of what is computed from copies. Both give
the same numbers and the same derivatives, or both refuse.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

# -- operators --------------------------------------------------------------------------------------------------------


@tg.op
def axpy_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."]) -> None:
    y.add_(x, alpha=2.0)


@axpy_.partial("y")
def _(y):
    return torch.ones_like(y)


@axpy_.partial("x")
def _(x):
    return torch.full_like(x, 2.0)


@tg.op
def scale_(y: tg.Mutated[Float[np.ndarray, "*batch n"]], x: Float[np.ndarray, "*batch n"]) -> None:
    y *= np.sin(x)


@scale_.vjp("y")
def _(grad_y, x):
    return grad_y * torch.sin(x)


@scale_.vjp("x")
def _(grad_y, y, x):
    return grad_y * y * torch.cos(x)


@tg.op(
    kernel=tg.c("""
void blend_(int64_t n, T *y, const T *x) {
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * y[i] / 4 + x[i];
}""")
)
def blend_(y: tg.Mutated[Float[Tensor, "*batch n"]], x: Float[Tensor, "*batch n"]) -> None:
    return tg.native


@blend_.vjp("y")
def _(grad_y, y):
    return grad_y * y / 2


@blend_.vjp("x")
def _(grad_y):
    return grad_y


@tg.op(kernel=tg.c("#include <tgmath.h>\nT bend_(T y, T x) { return sin(y + x); }"))
def bend_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."]) -> None:
    return tg.native


@bend_.vjp("y", "x")
def _(grad_y, y, x):
    slope = grad_y * torch.cos(y + x)
    return slope, slope


FORMULAS: dict[str, tuple[Any, Callable[[Tensor, Tensor], Tensor]]] = {
    "axpy_": (axpy_, lambda y, x: y + 2 * x),
    "scale_": (scale_, lambda y, x: y * torch.sin(x)),
    "blend_": (blend_, lambda y, x: y * y / 4 + x),
    "bend_": (bend_, lambda y, x: torch.sin(y + x)),
}

STALE = "saved for the backward pass has been changed in place since"

Write = Callable[[str, Tensor, Tensor], None]


def ours(name: str, y: Tensor, x: Tensor) -> None:
    FORMULAS[name][0](y, x)


def plain(name: str, y: Tensor, x: Tensor) -> None:
    y.copy_(FORMULAS[name][1](y.clone(), x.clone()))


# -- programs ---------------------------------------------------------------------------------------------------------

WHOLE = ("{}",) * 6  # Autograd writes in place into these alone.
VIEWS = (*WHOLE, "{}[0]", "{}[1:]", "{}[:-1]", "{}[:, 1:]", "{}[:, ::2]", "{}.mT[1:]", "{}.flatten()[3:9]", "{}[None]")
SHAPE = (4, 3)


@dataclass(frozen=True)
class Program:
    """A program on the tensors a and b, which it does not write, and p and q, made from them.

    Attributes:
        lines: statements; `write` is ours or the plain one.
    """

    lines: tuple[str, ...]

    def run(self, write: Write, a: Tensor, b: Tensor) -> Tensor:
        """The loss: it hangs on all that was written."""
        names: dict[str, Any] = {
            "write": write, "a": a, "b": b, "p": a * 1.5, "q": torch.sin(b), "torch": torch, "kept": [],
        }  # fmt: skip
        for line in self.lines:
            exec(line, names)  # Our own text.
        kept = sum((value**2).sum() for value in names["kept"])
        loss: Tensor = (names["p"] ** 2).sum() + torch.sin(names["q"]).sum() + kept
        return loss


def draw(seed: int) -> Program:
    """A program of a few statements."""
    rng = random.Random(seed)

    def place(name: str, shape: torch.Size | None = None) -> str:
        fitting = [v for v in VIEWS if shape is None or eval(v.format("t"), {"t": torch.zeros(SHAPE)}).shape == shape]
        return rng.choice(fitting).format(name)

    lines = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(("write", "write", "write", "keep", "no_grad"))
        target = place(rng.choice("pq"))
        shape = eval(target, {"p": torch.zeros(SHAPE), "q": torch.zeros(SHAPE)}).shape
        source = place(rng.choice("pqab"), shape)
        source = rng.choice((source, source, f"({source} * 0.5)", f"{source}.detach()"))
        call = f"write({rng.choice(list(FORMULAS))!r}, {target}, {source})"
        if kind == "keep":
            lines.append(f"kept.append({rng.choice('pq')} * {rng.choice('pqab')})")
        elif kind == "no_grad":
            lines.append(f"with torch.no_grad(): {call}")
        else:
            lines.append(call)
    return Program(tuple(lines))


# -- ways to run them -------------------------------------------------------------------------------------------------


def _values() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, *SHAPE, dtype=torch.float64, generator=generator).unbind()
    return a, b


def values(program: Program, write: Write) -> Sequence[Tensor]:
    with torch.no_grad():
        return [program.run(write, *_values()) for _ in range(2)]


def inference(program: Program, write: Write) -> Sequence[Tensor]:
    with torch.inference_mode():
        return [program.run(write, *_values()).clone() for _ in range(2)]


def gradients(program: Program, write: Write) -> Sequence[Tensor]:
    a, b = (v.clone().requires_grad_() for v in _values())
    for _ in range(2):
        found = torch.autograd.grad(program.run(write, a, b), (a, b))
    return found


def second(program: Program, write: Write) -> Sequence[Tensor]:
    a, b = (v.clone().requires_grad_() for v in _values())
    first = torch.autograd.grad(program.run(write, a, b), (a, b), create_graph=True)
    return torch.autograd.grad(sum((g**2).sum() for g in first), (a, b))


def func_grad(program: Program, write: Write) -> Sequence[Tensor]:
    return torch.func.grad(lambda a, b: program.run(write, a, b), argnums=(0, 1))(*_values())


def jvp(program: Program, write: Write) -> Sequence[Tensor]:
    a, b = _values()
    return torch.func.jvp(lambda a, b: program.run(write, a, b), (a, b), (b, a))


def per_sample(program: Program, write: Write) -> Sequence[Tensor]:
    a, b = (torch.stack([v, 2 * v]) for v in _values())
    return torch.vmap(torch.func.grad(lambda a, b: program.run(write, a, b), argnums=(0, 1)))(a, b)


def functionalized(program: Program, write: Write) -> Sequence[Tensor]:
    return [torch.func.functionalize(lambda a, b: program.run(write, a, b))(*_values())]


WAYS = (values, inference, gradients, second, func_grad, jvp, per_sample, functionalized)


@dataclass(frozen=True)
class Outcome:
    """What became of one program in one way: right, stale, both refuse, or wrong."""

    kind: str
    text: str


def compared(program: Program, way: Callable[..., Sequence[Tensor]]) -> Outcome:
    """Compare ours with plain torch."""
    results: list[Any] = []
    for write in (ours, plain):
        try:
            results.append(way(program, write))
        except (RuntimeError, tg.TorchgraftError) as error:
            results.append(error)
    found, expected = results
    shown = f"{way.__name__}\n    " + "\n    ".join(program.lines)
    if isinstance(found, Exception) or isinstance(expected, Exception):
        if isinstance(found, Exception) and isinstance(expected, Exception):
            return Outcome("both refuse", shown)
        if STALE in str(found):  # A rule reads an argument that was written later; plain torch had a copy.
            return Outcome("stale", shown)
        return Outcome("wrong", f"{shown}\nours: {found!r}\nplain: {expected!r}")
    same = all(torch.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(found, expected, strict=True))
    return Outcome("right" if same else "wrong", f"{shown}\nours: {found}\nplain: {expected}")


def outcomes(seeds: Iterable[int]) -> Iterator[Outcome]:
    """Compare one program for each seed, in every way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            program = draw(seed)
            yield from (compared(program, way) for way in WAYS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    until, seed, kinds = time.monotonic() + options.seconds, options.seed * 1_000_000, Counter[str]()
    while time.monotonic() < until:
        for outcome in outcomes([seed]):
            kinds[outcome.kind] += 1
            if outcome.kind == "wrong":
                print(f"\n## {seed}: {outcome.text}")
        seed += 1
    print(dict(kinds))
    return int(bool(kinds["wrong"]))


if __name__ == "__main__":
    raise SystemExit(main())
