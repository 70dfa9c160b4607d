"""Random structures against plain torch: nested, with fields of all kinds, in kernels of all kinds.

``python -m tests.kinds.test_structures_fuzzed 0 500`` runs many seeds.
"""

import dataclasses
import random
import sys
import typing

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils import _pytree as pytree

import torchgraft as tg

NUMBERS = {float: (2.0, -0.5), int: (3, 2), bool: (True, False), typing.Literal["a", "b"]: ("a", "b")}
SEEDS = 12


class Program:
    """A structure, a function of it, and the operator that computes the same."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.array = self.choose.choice([Tensor, Tensor, np.ndarray])
        self.elementwise = self.choose.random() < 0.3
        self.axes = "..." if self.elementwise else "n"
        self.count = 0
        self.tuples = self.choose.random() < 0.4
        self.cls = self.structure(2)
        self.op = self.operator()

    # -- classes ------------------------------------------------------------------------------------------------

    def structure(self, depth):
        """A NamedTuple or a dataclass with random fields, of which the first is a tensor."""
        self.count += 1
        tensor = Float[self.array, self.axes]
        fields = [("t0", tensor)]
        for i in range(1, self.choose.randint(1, 4)):
            kinds = ["tensor", "optional", "number", "list", "structure"]
            match self.choose.choice(kinds[: 5 if depth else 4]):
                case "tensor":
                    fields.append((f"t{i}", tensor))
                case "optional":
                    fields.append((f"o{i}", tensor | None))
                case "number":
                    fields.append((f"k{i}", self.choose.choice(list(NUMBERS))))
                case "list":
                    fields.append((f"l{i}", list[tensor]))
                case "structure":
                    fields.append((f"s{i}", self.structure(depth - 1)))
        self.choose.shuffle(fields)
        name = f"Made{self.count}"
        if self.tuples and self.choose.random() < 0.5:
            return typing.NamedTuple(name, fields)
        options = {"frozen": self.choose.random() < 0.5, "slots": self.choose.random() < 0.5}
        return dataclasses.make_dataclass(name, fields, kw_only=self.choose.random() < 0.5, **options)

    # -- values -------------------------------------------------------------------------------------------------

    def value(self, cls, n, requires_grad=False):
        """A value of a class with random numbers and tensors."""
        made = {}
        for name, kind in typing.get_type_hints(cls).items():
            match name[0]:
                case "t":
                    made[name] = self.tensor(n, requires_grad)
                case "o":
                    made[name] = self.tensor(n, requires_grad) if self.choose.random() < 0.5 else None
                case "k":
                    made[name] = self.choose.choice(NUMBERS[kind])
                case "l":
                    made[name] = [self.tensor(n, requires_grad) for _ in range(self.choose.randint(0, 2))]
                case "s":
                    made[name] = self.value(kind, n, requires_grad)
        return cls(**made)

    def tensor(self, n, requires_grad):
        made = torch.randn(n, dtype=torch.float64)
        if requires_grad and self.choose.random() < 0.8:
            made.requires_grad_()
        return made

    # -- the function -------------------------------------------------------------------------------------------

    def terms(self, value, sin, weight=1.0):
        """The terms of a sum: each tensor has a weight of its own, which numbers beside it change."""
        for name in typing.get_type_hints(type(value)):
            held = getattr(value, name)
            weight = weight * 0.75 + 0.125
            match name[0]:
                case "k":
                    weight = weight + (0.5 if held in ("a", True) else -0.25 if held == "b" else 0.1 * held)
                case "s":
                    yield from self.terms(held, sin, weight)
                case _:
                    items = held if isinstance(held, list) else [] if held is None else [held]
                    yield from (weight * (i + 1) * sin(weight * item) for i, item in enumerate(items))

    def plain(self, value, scale):
        return scale * sum(self.terms(value, torch.sin))

    def gradient(self, value, grad, scale, cos, weight=1.0):
        """The same structure with the gradients; numbers become zeros of no meaning."""
        made = {}
        for name in typing.get_type_hints(type(value)):
            held = getattr(value, name)
            weight = weight * 0.75 + 0.125
            match name[0]:
                case "k":
                    weight = weight + (0.5 if held in ("a", True) else -0.25 if held == "b" else 0.1 * held)
                    made[name] = held
                case "s":
                    made[name] = self.gradient(held, grad, scale, cos, weight)
                case "l":
                    made[name] = [scale * grad * weight**2 * (i + 1) * cos(weight * x) for i, x in enumerate(held)]
                case _:
                    made[name] = None if held is None else scale * grad * weight**2 * cos(weight * held)
        return type(value)(**made)

    def operator(self):
        cls, sin = self.cls, np.sin if self.array is np.ndarray else torch.sin
        loop = {"batch": "loop"} if self.choose.random() < 0.3 and not self.elementwise else {}

        def function(given, scale):
            assert type(given) is cls
            return scale * sum(self.terms(given, sin))

        out = Float[self.array, self.axes]
        function.__annotations__ = {"given": cls, "scale": float, "return": out}
        op = tg.op(**loop)(function)

        @op.vjp("given")
        def _(grad, given, scale):
            assert type(given) is cls
            return self.gradient(given, grad, scale, torch.cos)

        return op


def leaves_of(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def differentiated(function, value):
    """The value and the gradients of a function of one structure."""
    out = function(value, 0.5)
    leaves = [leaf for leaf in leaves_of(value) if leaf.requires_grad]
    return [out, *(torch.autograd.grad(out.sin().sum(), leaves) if leaves else [])]


def run(seed):
    """Compare one program with plain torch, in some ways to call it."""
    torch.manual_seed(seed)
    program = Program(seed)
    op, plain, choose = program.op, program.plain, program.choose
    context = f"seed {seed}: {op}"
    for n in (3, 3, 5):
        value = program.value(program.cls, n, requires_grad=True)
        same(differentiated(op, value), differentiated(plain, value), context)
        with torch.no_grad():
            same(op(value, 0.5), plain(value, 0.5), context)
    leaves, spec = pytree.tree_flatten(program.value(program.cls, 4))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    primals = [leaves[i] for i in places]

    def flat(function):
        def call(*tensors):
            filled = list(leaves)
            for i, tensor in zip(places, tensors, strict=True):
                filled[i] = tensor
            return function(pytree.tree_unflatten(filled, spec), 0.5)

        return call

    tangents = [torch.randn_like(p) for p in primals]
    same(*(torch.func.jvp(flat(f), tuple(primals), tuple(tangents)) for f in (op, plain)), context)
    same(*(torch.func.jacrev(flat(f), tuple(range(len(primals))))(*primals) for f in (op, plain)), context)
    dims = [choose.choice([None, 0]) for _ in primals]
    dims[choose.randrange(len(dims))] = 0
    mapped = [torch.randn(2, *p.shape, dtype=p.dtype) if d == 0 else p for p, d in zip(primals, dims, strict=True)]
    same(*(torch.vmap(flat(f), tuple(dims))(*mapped) for f in (op, plain)), context)
    if len(places) == len(leaves):  # No number and no None is a leaf, as it is in a NamedTuple.
        given = pytree.tree_unflatten(leaves, spec)
        made, expected = (torch.func.grad(lambda v, f=f: f(v, 0.5).sin().sum())(given) for f in (op, plain))
        assert pytree.tree_structure(made) == pytree.tree_structure(expected) == spec, context
        same(leaves_of(made), leaves_of(expected), context)
    if seed % 4 == 0:
        torch._dynamo.reset()
        compiled = torch.compile(lambda v: op(v, 0.5), fullgraph=True, backend="aot_eager")
        value = program.value(program.cls, 3, requires_grad=True)
        same(differentiated(lambda v, _: compiled(v), value), differentiated(plain, value), context)


def same(made, expected, context):
    torch.testing.assert_close(made, expected, rtol=1e-9, atol=1e-9, msg=lambda text: f"{text}\n{context}")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_structures(seed):
    run(seed)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        run(number)
    print("all the same")
