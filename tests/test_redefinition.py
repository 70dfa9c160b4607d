"""A definition is what it was when it was made: redefinitions, factories, and caches on disk."""

import os
import subprocess
import sys

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from . import fresh


def make_scale(factor):
    @tg.op
    def scaled(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * factor

    @scaled.vjp("x")
    def _(grad):
        return grad * factor

    return scaled


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_operators_of_one_factory_stay_apart():
    """Also in compiled code, and in either order of use."""
    two, three = make_scale(2.0), make_scale(3.0)
    x = torch.ones(4, requires_grad=True)
    for op, factor in ((three, 3.0), (two, 2.0)):
        compiled = torch.compile(lambda x, op=op: op(x) + 1, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(op(x), x * factor)
        torch.testing.assert_close(compiled(x), x * factor + 1)
        torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x)[0], torch.full((4,), factor))
        torch.testing.assert_close(torch.func.grad(lambda x, op=op: op(x).sum())(x), torch.full((4,), factor))


def test_the_new_definition_wins_in_compiled_code():
    names = {"tg": tg, "Float": Float, "Tensor": Tensor, "__name__": "notebook"}
    cell = """
@tg.op
def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: return x * {0}
@f.vjp("x")
def _(grad): return grad * {0}
def use(x): return f(x) + 1
"""
    exec(cell.format(2.0), names)
    compiled = torch.compile(lambda x: names["f"](x) + 1, backend="aot_eager", fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(compiled(x), torch.full((3,), 3.0))
    old = names["f"]
    exec(cell.format(5.0), names)
    torch.testing.assert_close(compiled(x), torch.full((3,), 6.0))
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x)[0], torch.full((3,), 5.0))
    torch.testing.assert_close(old(x), torch.full((3,), 2.0))  # who kept the old one keeps what it did
    assert old.torch_op is not names["f"].torch_op


def test_a_changed_signature_may_follow():
    """Three declarations of one name, of which two have one schema, once made torch abort at exit."""
    code = """
import torch, torchgraft as tg
from jaxtyping import Float
from torch import Tensor
for source in ("a: float = 1.0", "a: float = 1.0", "a: float | None = None"):
    names = dict(globals())
    exec(f'''
@tg.op
def f(x: Float[Tensor, "n"], {source}) -> Float[Tensor, "n"]: return x * (a or 2.0)
''', names)
    print(names["f"](torch.ones(2)).tolist())
"""
    done = fresh.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["[1.0, 1.0]", "[1.0, 1.0]", "[2.0, 2.0]"]


def test_an_exported_program_keeps_its_operator():
    class Module(torch.nn.Module):
        def forward(self, x):
            return op(x)

    op = make_scale(7.0)
    exported = torch.export.export(Module(), (torch.ones(3),)).module()
    op = make_scale(8.0)
    torch.testing.assert_close(exported(torch.ones(3)), torch.full((3,), 7.0))


_EDITED = """
import sys, torch, torchgraft as tg
from jaxtyping import Float
from torch import Tensor

@tg.op(namespace="edited")
def f(x: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    return x * 2.0

@f.vjp("x")
def _(grad):
    return RULE

x = torch.ones(3, 3, requires_grad=True)
torch.compile(lambda x: f(x) @ x, fullgraph=True)(x).sum().backward()
print(x.grad[0, 0].item())
"""


def test_another_rule_is_another_name():
    """By which compilers know an operator, also in what they keep on disk."""

    def declare(rule):
        @tg.op(namespace="edited")
        def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
            return x * 2.0

        f.vjp("x")(rule)
        return str(f.torch_op)

    assert declare(lambda grad: 2.0 * grad) != declare(lambda grad: 3.0 * grad)


@pytest.mark.slow
def test_an_edited_file_is_not_served_from_caches_on_disk(tmp_path):
    """AOTAutograd's cache knows an operator by its name alone: a bare custom operator gets the old derivative.

    The caches are the user's, where Inductor has already looked the processor over, and there is no C++ to compile:
    both take ten seconds. What an earlier run has left there is as stale as what this one leaves.
    """
    script = tmp_path / "edited.py"

    def run(rule):
        script.write_text(_EDITED.replace("RULE", rule))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert run("grad") == 9.0
    assert run("grad @ grad") == 33.0


_ANNOTATED = """
import numpy as np, torch, torchgraft as tg
from jaxtyping import Float, Float64
from torch import Tensor

@tg.op(namespace="edited")
def g(x: Float[np.ndarray, "n"]) -> OUTPUT[np.ndarray, "n"]:
    return (x * 2).astype(DTYPE)

x = torch.arange(1, 7.0)
print((torch.compile(lambda x: (g(x) + 1).sin() * 2)(x) - ((g(x) + 1).sin() * 2)).abs().max().item())
"""


@pytest.mark.slow
def test_an_edited_annotation_is_not_served_from_caches_on_disk(tmp_path):
    """Inductor's cache knows by the name which dtype its code reads: with a stale one it would read garbage."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    script = tmp_path / "annotated.py"
    for output, dtype in (("Float", "np.float32"), ("Float64", "np.float64")):
        script.write_text(_ANNOTATED.replace("OUTPUT", output).replace("DTYPE", dtype))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment)
        assert float(done.stdout) < 1e-5


_FACTORY = """
import sys, torch, torchgraft as tg
from jaxtyping import Float
from torch import Tensor

def make(factor):
    @tg.op(namespace="factory")
    def scaled(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * factor
    return scaled

class Module(torch.nn.Module):
    def forward(self, x):
        return three(x)

if sys.argv[1] == "save":
    two, three = make(2.0), make(3.0)
    torch.export.save(torch.export.export(Module(), (torch.ones(2),)), sys.argv[2])
else:
    three, two = make(3.0), make(2.0)  # in another order
    print(torch.export.load(sys.argv[2]).module()(torch.ones(2)).tolist())
"""


@pytest.mark.slow
def test_an_exported_program_finds_the_operator_of_a_factory_by_what_it_is(tmp_path):
    path = str(tmp_path / "program.pt2")
    fresh.run("-c", _FACTORY, "save", path, check=True)
    done = fresh.run("-c", _FACTORY, "load", path, check=True)
    assert done.stdout.strip() == "[3.0, 3.0]"


def test_what_is_declared_after_a_compilation_counts():
    @tg.op
    def later(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x + 1

    compiled = torch.compile(lambda x: later(x) * 1, backend="aot_eager", fullgraph=True)
    assert compiled(torch.zeros(2)).tolist() == [1.0, 1.0]

    @later.kernel("cpu")
    def _(x):
        return x + 2

    assert later(torch.zeros(2)).tolist() == [2.0, 2.0]
    assert compiled(torch.zeros(2)).tolist() == [2.0, 2.0]
