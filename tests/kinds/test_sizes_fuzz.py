"""Random operators with sizes known only after the call, under random transforms, against plain torch.

`python -m tests.kinds.test_sizes_fuzz FIRST COUNT` runs other seeds.
"""

import random
import sys

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.func import functionalize, grad, hessian, jacfwd, jacrev, jvp

import torchgraft as tg

SMOOTH = {
    "sin(v)": (torch.sin, torch.cos, np.sin),
    "v * v": (torch.square, lambda v: 2 * v, np.square),
    "exp(v)": (torch.exp, torch.exp, np.exp),
}
"""A function in C, in torch, its derivative, and the function in NumPy."""


class Program:
    """An operator that selects rows of x by a threshold, and returns functions of them; its plain twin; arguments."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.language, self.matrix = pick(["torch", "NumPy", "C"]), pick([False, True])
        self.code = [pick(list(SMOOTH)) for _ in range(2)]
        self.threshold = pick([-9.0, -0.3, 0.4, 9.0])
        self.saved = pick([False, True])
        kinds = ["rows", "columns", "sums"] + (["rest"] if self.language != "C" else [])
        self.outputs = self.random.sample(kinds, pick([1, 2, 2, 3]))
        if self.outputs == ["rest"]:
            self.outputs = ["rows", "rest"]
        self.bound = self.language == "C" or pick([False, True])
        self.op = self._declared()

    # -- what it computes --------------------------------------------------------------------------------------------

    def _axes(self, output: str) -> str:
        if output == "sums":
            return "k"
        size = "n-k" if output == "rest" else "k"
        return f"d {size}" if output == "columns" and self.matrix else f"{size} d" if self.matrix else size

    def of_index(self, x: Tensor, w: Tensor, index: Tensor) -> list[Tensor]:
        """The outputs in plain torch, differentiable."""
        f, g = (SMOOTH[code][0] for code in self.code)
        chosen = x[index]
        rest = x[torch.isin(torch.arange(len(x)), index, invert=True)]
        every = {
            "rows": f(chosen) * w, "columns": g(chosen).mT if self.matrix else g(chosen), "rest": f(rest) * w,
            "sums": chosen.square().sum(1) if self.matrix else chosen.square(),
        }  # fmt: skip
        return [every[output] for output in self.outputs]

    def index(self, x: Tensor) -> Tensor:
        return torch.nonzero((x[:, 0] if self.matrix else x) > self.threshold)[:, 0]

    def plain(self, x: Tensor, w: Tensor) -> list[Tensor]:
        return self.of_index(x, w, self.index(x))

    # -- the operator ------------------------------------------------------------------------------------------------

    def _declared(self) -> tg.Op:
        array = np.ndarray if self.language == "NumPy" else Tensor
        returned = [Float[array, self._axes(output)] for output in self.outputs]
        index = Int64[array, "k"]
        returned.append(tg.Saved[index, "index"] if self.saved else index)

        def selected(x, w):
            if self.language == "torch":
                made = [*self.plain(x, w), self.index(x)]
            else:
                tensors = torch.from_numpy(x.copy()), torch.from_numpy(w.copy())
                made = [output.numpy() for output in (*self.plain(*tensors), self.index(tensors[0]))]
            return tuple(made)

        shape = "n d" if self.matrix else "n"
        selected.__annotations__ = {
            "x": Float[array, shape], "w": Float[array, "d" if self.matrix else ""], "return": tuple[tuple(returned)],
        }  # fmt: skip
        options = {"kernel": tg.c(self._source())} if self.language == "C" else {}
        op = tg.op(data_dependent="k <= n" if self.bound else "k", **options)(selected)
        cotangents = ["grad"] if len(self.outputs) == 1 else [f"grad_out{i}" for i in range(len(self.outputs))]
        name = "index" if self.saved else f"out{len(self.outputs)}"
        source = f"lambda {', '.join(cotangents)}, x, w, {name}: pull([{', '.join(cotangents)}], x, w, {name})"
        op.vjp("x", "w")(eval(source, {"pull": self._pull}))
        return op

    def _pull(self, cotangents: list[Tensor], x: Tensor, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        (f, df), (_, dg) = (SMOOTH[code][:2] for code in self.code)
        by_x, chosen = torch.zeros_like(x), x[index]
        by_w = 0 * w * sum(cotangent.sum() for cotangent in cotangents)  # Forward mode needs all of it to be linear.
        for output, cotangent in zip(self.outputs, cotangents, strict=True):
            part, places = chosen, index
            if output == "rest":
                places = torch.nonzero(torch.isin(torch.arange(len(x)), index, invert=True))[:, 0]
                part = x[places]
            if output in ("rows", "rest"):
                moved = cotangent * w * df(part)
                by_w = by_w + (cotangent * f(part)).sum_to_size(w.shape)
            elif output == "columns":
                moved = (cotangent.mT if self.matrix else cotangent) * dg(part)
            else:
                moved = 2 * part * (cotangent[:, None] if self.matrix else cotangent)
            by_x = by_x.index_add(0, places, moved)
        return by_x, by_w

    def _source(self) -> str:
        """The same in C, where an output of "d k" has room for n in each row."""
        width = "d" if self.matrix else "1"
        lines = {
            "rows": f"out{{i}}[m * {width} + j] = {self.code[0]} * w[j];",
            "columns": f"out{{i}}[j * n + m] = {self.code[1]};",
            "sums": "out{i}[m] = (j ? out{i}[m] : 0) + v * v;",
        }
        body = " ".join(lines[output].format(i=i) for i, output in enumerate(self.outputs))
        outputs = ", ".join(f"T *out{i}" for i in range(len(self.outputs)))
        last = "index" if self.saved else f"out{len(self.outputs)}"
        sizes = "int64_t n, int64_t d" if self.matrix else "int64_t n"
        return f"""
        #include <tgmath.h>
        void selected({sizes}, const T *x, const T *w, {outputs}, int64_t *{last}, int64_t *k) {{
            int64_t m = 0;
            for (int64_t r = 0; r < n; r++) {{
                if (!(x[r * {width}] > {self.threshold})) continue;
                for (int64_t j = 0; j < {width}; j++) {{ T v = x[r * {width} + j]; {body} }}
                {last}[m++] = r;
            }}
            *k = m;
        }}"""

    def call(self, x: Tensor, w: Tensor) -> list[Tensor]:
        made = self.op(x, w)
        every = [made] if isinstance(made, Tensor) else list(made)
        return every[: len(self.outputs)]

    def arguments(self) -> tuple[Tensor, Tensor]:
        shape = (self.random.choice([0, 1, 2, 5]), *((3,) if self.matrix else ()))
        generator = torch.Generator().manual_seed(self.random.randrange(2**31))
        x = torch.randn(shape, dtype=torch.float64, generator=generator)
        w = torch.randn(shape[1:], dtype=torch.float64, generator=generator)
        if self.matrix and self.random.random() < 0.3:
            x = x.T.contiguous().T
        return x, w


def _vector(function, x, w):
    return torch.cat([output.flatten() for output in function(x, w)])


def _loss(function, x, w):
    out = _vector(function, x, w)
    return (out.sin() * (torch.arange(out.shape[0], dtype=out.dtype) + 1).cos()).sum()


def _compiled(f, x, w):
    leaves = [t.clone().requires_grad_() for t in (x, w)]
    made = torch.compile(lambda x, w: _loss(f, x, w), backend="aot_eager", fullgraph=True)(*leaves)
    return made, torch.autograd.grad(made, leaves, allow_unused=True, materialize_grads=True)


def _checkpointed(f, x, w):
    leaves = [t.clone().requires_grad_() for t in (x, w)]
    made = torch.utils.checkpoint.checkpoint(lambda x, w: _loss(f, x, w), *leaves, use_reentrant=False)
    return torch.autograd.grad(made, leaves, allow_unused=True, materialize_grads=True)


TRANSFORMS = {
    "values": lambda f, x, w: f(x, w),
    "grad": lambda f, x, w: grad(lambda *p: _loss(f, *p), (0, 1))(x, w),
    "jacrev": lambda f, x, w: jacrev(lambda *p: _vector(f, *p), (0, 1))(x, w),
    "jacfwd": lambda f, x, w: jacfwd(lambda *p: _vector(f, *p), (0, 1))(x, w),
    "hessian": lambda f, x, w: hessian(lambda *p: _loss(f, *p), (0, 1))(x, w),
    "jvp(grad)": lambda f, x, w: jvp(grad(lambda x: _loss(f, x, w)), (x,), (x.cos(),)),
    "functionalize": lambda f, x, w: functionalize(grad(lambda x: _loss(f, x, w)))(x),
    "checkpoint": _checkpointed,
    "compile": _compiled,
}


def run(seed: int, *, compiles: bool) -> None:
    """One random operator at several arguments: each transform twice, so that what was recognised is met again."""
    program = Program(seed)
    names = [name for name in TRANSFORMS if compiles or name != "compile"]
    for _ in range(4):
        name, (x, w) = program.random.choice(names), program.arguments()
        for _ in range(2):
            found, expected = (TRANSFORMS[name](f, x, w) for f in (program.call, program.plain))
            try:
                torch.testing.assert_close(found, expected, equal_nan=True)
            except AssertionError as error:
                error.add_note(f"seed {seed}: {vars(program)} {name} {tuple(x.shape)}")
                raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_operators(seed):
    run(seed, compiles=seed % 12 == 0)
    torch.compiler.reset()


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        run(seed, compiles=True)
        torch.compiler.reset()
