"""Special functions are declared when they are asked for: by name, or by a saved graph."""

import importlib
import pkgutil

import pytest
import scipy.special
import torch

import torchgraft as tg
from tests.fresh import run
from torchgraft.scipy import special

FAMILIES = dict.fromkeys(special._FAMILY.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_table_names_all_public_functions_of_a_family(family):
    module = importlib.import_module(f"{special.__name__}.{family}")
    operators = {name: value for name, value in vars(module).items() if isinstance(value, tg.Op)}
    own = {name for name, op in operators.items() if op.__module__ == module.__name__ and "Example:" in op.__doc__}
    assert own == {name for name in special.__all__ if special._FAMILY[name] == family}


def test_no_function_is_hidden_by_a_module_of_its_name():
    """Nor is a function of SciPy that we lack a module of ours."""
    files = {module.name for module in pkgutil.iter_modules(special.__path__)}
    assert FAMILIES.keys() < files
    assert not files & set(dir(scipy.special))
    assert set(special.__all__) < set(dir(special))
    with pytest.raises(AttributeError, match=r"'torchgraft.scipy.special' has no attribute 'gamman'"):
        special.gamman  # noqa: B018


ASKED = """
import sys
import torch
import torchgraft.scipy.special as special

x = torch.tensor([0.5], dtype=torch.float64)
assert "torchgraft.scipy.special.bessel" not in sys.modules
"""

WAYS = {
    "by its name": "assert special.jv(0, x) == special.jv(0.0, x)",
    "by an operator": "assert torch.ops.torchgraft.jv_nth.default._schema.name == 'torchgraft::jv_nth'",
    "under fake tensors": """
from torch._subclasses import FakeTensorMode
with FakeTensorMode() as mode:
    assert special.jv(0, mode.from_tensor(x)).shape == (1,)
""",
    "under vmap": "assert torch.vmap(lambda x: special.jv(0, x))(x) == special.jv(0, x)",
    "in compiled code": """
compiled = torch.compile(lambda x: special.jv(0, x), backend="aot_eager", fullgraph=True)
assert compiled(x) == special.jv(0, x)
x.requires_grad_()
assert torch.autograd.grad(compiled(x), x) == torch.autograd.grad(special.jv(0, x), x)
""",
    "where another operator is not known": """
import torchgraft.scipy.signal  # Its operators are declared in the same namespace.
assert "torchgraft.scipy.special.bessel" not in sys.modules
assert not hasattr(torch.ops.torchgraft, "no_such") and "torchgraft.scipy.special.bessel" in sys.modules
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_family_is_declared_when_it_is_asked_for(way):
    done = run("-c", ASKED + WAYS[way])
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_thread_finds_an_operator_that_another_one_is_declaring():
    slowly = """
import threading, time
began, define, found = threading.Event(), torch.library.Library.define, []

def late(library, schema, *args, **options):
    if schema.startswith("jv("):
        began.set()
        time.sleep(0.3)
    return define(library, schema, *args, **options)

torch.library.Library.define = late
other = threading.Thread(target=lambda: (began.wait(), found.append(torch.ops.torchgraft.jv.default)))
other.start()
special.jv
other.join()
assert found == [special.jv.torch_op]
"""
    done = run("-c", ASKED + slowly)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_family_is_declared_by_a_saved_program(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return special.jv(0, x)

    x = torch.tensor([0.5], dtype=torch.float64)
    torch.export.save(torch.export.export(Model(), (x,)), tmp_path / "model.pt2")
    loaded = "assert torch.export.load(sys.argv[1]).module()(x) == special.jv(0, x)"
    done = run("-c", ASKED + loaded, tmp_path / "model.pt2")
    assert done.returncode == 0, done.stderr
