"""A case, and its text: a program that stands alone, or a module for the judge."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace

from . import verdict
from .choose import Chooser, chance, weighted
from .declaration import Declaration, Plan, draw_declaration, draw_plan
from .stack import HELPERS, Stack, draw_stack
from .tensors import Input

IMPORTS = {
    "contextlib": "import contextlib", "random": "import random", "NamedTuple": "from typing import NamedTuple",
    "Literal": "from typing import Literal", "Any": "from typing import Any",
    "np": "import numpy as np", "torch": "import torch",
    "fwAD": "import torch.autograd.forward_ad as fwAD", "Float": "from jaxtyping import Float",
    "Complex": "from jaxtyping import Complex", "Tensor": "from torch import Tensor",
    "make_fx": "from torch.fx.experimental.proxy_tensor import make_fx",
    "TorchDispatchMode": "from torch.utils._python_dispatch import TorchDispatchMode", "tg": "import torchgraft as tg",
}  # fmt: skip

TENSOR = """\
def tensor(shape, dtype, seed):
    made = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return made.to(dtype)
"""
COMPLEX_TENSOR = """\
def tensor(shape, dtype, seed):
    made = torch.rand((*shape, 2), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return torch.view_as_complex(made).to(dtype.to_complex())
"""
COMPILE = """\
def compiler(f, **options):
    torch._dynamo.reset()
    return torch.compile(f, **options)
"""
EXPORT = """\
def exporter(f, xs):
    return torch.export.export(Module(f), xs).module()
"""
TRACE = """\
def tracer(f, xs):
    return make_fx(f)(*xs)
"""
LINEARIZE = """\
def linearizer(f, xs):
    return torch.func.linearize(f, *xs)
"""
LAYOUTS = {
    "": "{}",
    "transposed": "{0}.transpose(-1, -2).contiguous().transpose(-1, -2)",
    "strided": "torch.stack([{0}, {0}], -1)[..., 0]",
    "expanded": "{0}[..., :1].expand({0}.shape)",
    "offset": "torch.cat([{0}.new_zeros(1), {0}.reshape(-1)])[1:].reshape({0}.shape)",
    "negated": "torch._neg_view(-{0})",
    "conjugated": "{0}.conj().resolve_conj().conj()",
    "zero": "0 * {0}",
    "parameter": "torch.nn.Parameter({0}, requires_grad=False)",
}
"""Ways to lie in memory, as code."""


@dataclass(frozen=True)
class Leaf:
    """One tensor of the call.

    Attributes:
        chosen: it is among the tensors that transforms see.
        grad: it requires grad, where the stack is recorded.
    """

    name: str
    shape: tuple[int, ...]
    seed: int
    layout: str = ""
    chosen: bool = True
    grad: bool = True


@dataclass(frozen=True)
class Case:
    """A declaration, a call and a stack of transforms."""

    declaration: Declaration
    stack: Stack
    leaves: tuple[Leaf, ...]
    call: str
    dtype: str

    @property
    def chosen(self) -> tuple[Leaf, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.chosen)

    @property
    def inputs(self) -> set[str]:
        """Names of the inputs that transforms see."""
        return {leaf.name.partition("_")[0] for leaf in self.chosen}

    def case_text(self) -> str:
        chosen = [leaf.name for leaf in self.chosen]
        lines = ["def case(f, dtype):"]
        for leaf in self.leaves:
            made = f"tensor({leaf.shape!r}, dtype, {leaf.seed})"
            lines.append(f"    {leaf.name} = {made}")
            if leaf.layout:
                lines.append(f"    {leaf.name} = {LAYOUTS[leaf.layout].format(leaf.name)}")
        if self.stack.recorded:
            lines += [f"    {leaf.name}.requires_grad_()" for leaf in self.chosen if leaf.grad]
        names = ", ".join(chosen)
        lines += ["", f"    def call({names}):"]
        formula = self.declaration.formula
        if formula.still:
            lines.append(f"        made = list(f({self.call}))")
            places = [formula.outputs.index(name) for name in formula.still]
            lines += [f"        made[{place}] = made[{place}].detach()" for place in places]
            lines += ["        return flat(made)", ""]
        else:
            lines += [f"        return flat(f({self.call}))", ""]
        lines.append(f"    return stack(call, ({names},))")
        return "\n".join(lines) + "\n"

    def module(self) -> str:
        """The text that the judge runs: everything but imports and comparison."""
        stack = self.stack
        parts = [self.declaration.source, self.declaration.truth]
        parts.append(COMPLEX_TENSOR if self.declaration.formula.complex else TENSOR)
        parts += [HELPERS[name] for name in stack.helpers()]
        body = stack.text()
        parts += [COMPILE] if "compiler(" in body else []
        parts += [HELPERS["Module"], EXPORT] if "exporter(" in body else []
        parts += [TRACE] if "tracer(" in body else []
        parts += [LINEARIZE] if "linearizer(" in body else []
        parts += [body, self.case_text()]
        return "\n\n".join(part.strip("\n") + "\n" for part in parts)

    def program(self) -> str:
        """The text that stands alone, and prints a verdict."""
        body = self.module()
        judge = inspect.getsource(verdict)
        judge = judge[judge.index("# --") :]
        tail = f"print(verdict(case, {'fuzzed'}, truth, torch.{self.dtype}, globals()))\n"
        text = f"{body}\n\n{judge}\n\n{tail}"
        return f"{imports(text)}\n\n\n{text}"


def imports(text: str) -> str:
    used = set(re.findall(r"\w+", text))
    return "\n".join(line for name, line in IMPORTS.items() if name in used)


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw_case(c: Chooser, *, slow: bool = True) -> Case:
    plan = draw_plan(c)
    sizes = {axis: weighted(c, {2: 6, 3: 3, 1: 2, 0: 1}) for axis in ("m", "n")}
    batch = c.pick(((), (), (2,), (2,), (3, 2), (0,), (1,)))
    leaves: list[Leaf] = []
    arguments: list[str] = []
    for i, v in enumerate(plan.formula.inputs):
        if v.optional and c.pick((False, False, True)):
            arguments.append("None")
        elif plan.batch == "elementwise" and i > 0 and chance(c, 5):
            arguments.append("0.75")
        else:
            names = [f"{v.name}_{j}" for j in range(c.pick((2, 1, 3)))] if v.many else [v.name]
            leaves += [_leaf(c, plan, v, name, sizes, batch, len(leaves) + j) for j, name in enumerate(names)]
            arguments.append(f"[{', '.join(names)}]" if v.many else v.name)
    arguments += [repr(c.pick(a.samples)) for a in plan.formula.arguments]
    if not any(leaf.chosen and leaf.grad for leaf in leaves):
        leaves[0] = replace(leaves[0], chosen=True, grad=True)
    stack = draw_stack(c, sum(leaf.chosen for leaf in leaves), slow=slow)
    declaration = draw_declaration(c, plan, stack.modes)
    return Case(declaration, stack, tuple(leaves), ", ".join(arguments), c.pick(("float64", "float64", "float32")))


def _leaf(c: Chooser, d: Plan, v: Input, name: str, sizes: dict[str, int], batch: tuple[int, ...], number: int) -> Leaf:
    core = tuple(1 if axis in v.wide and c.pick((True, False)) else sizes[axis] for axis in v.axes)
    front = batch if v.batched else ()
    if d.batch in ("hash", "loop", "elementwise") and (v.batched or d.batch == "loop"):
        front = _broadcast(c, batch, number)
    shape = front + core
    options = {"": 20, "strided": 2, "offset": 1, "negated": 1, "zero": 1, "parameter": 1}
    if len(shape) > 1:
        options["transposed"] = 3
    if shape and shape[-1] > 0:
        options["expanded"] = 1
    if d.formula.complex:
        options |= {"conjugated": 3, "negated": 0, "zero": 0}
    return Leaf(name, shape, number, weighted(c, options), not chance(c, 10), not chance(c, 10))


def _broadcast(c: Chooser, batch: tuple[int, ...], number: int) -> tuple[int, ...]:
    """A shape that broadcasts to `batch`; that of the first tensor is `batch` itself."""
    if number == 0 or c.pick((True, True, False)):
        return batch
    return tuple(c.pick((1, size)) for size in batch[c.pick(range(len(batch) + 1)) :])
