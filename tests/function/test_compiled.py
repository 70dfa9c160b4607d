"""Functions under `torch.compile`: the same numbers, in one graph where Dynamo can take them."""

import pytest
import torch

import torchgraft as tg
from torchgraft._torch import DYNAMO_KNOWS_FUNCTIONS as IN_ONE_GRAPH  # older versions of torch break it

from ..default import in_turn
from .table import CASES, Legacy, X, some
from .test_stock import agree, answer, gradients
from .test_transforms import of_one, weighted

pytestmark = pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")


@pytest.fixture(autouse=True)
def _forget_compiled():
    torch.compiler.reset()


@pytest.mark.parametrize("case", in_turn(3, some(compiled=True), name=repr))
def test_in_one_graph(case):
    compiled = torch.compile(case.make(tg.Function), fullgraph=IN_ONE_GRAPH, backend="aot_eager")
    agree(answer(gradients, compiled, case), answer(gradients, case.plain, case))


DIALECTS = (
    "coupled", "class_methods", "named_vjp", "setup", "generated_vmap_of_several", "written_vmap", "legacy_class",
    "legacy_instance", "needs_input_grad", "several_outputs", "other_arguments", "marks_dirty", "reversed_gradient",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")  # of an instance, before it lets be
@pytest.mark.parametrize("name", DIALECTS)
def test_gradients_that_are_compiled(name):
    """On torch 2.13 `compile(grad(Function.apply))` drops the custom one without a word: another than forward has."""
    case = CASES[name]
    ours, plain = (
        torch.func.grad(lambda x, f=f: weighted(of_one(case, f)(x))) for f in (case.make(tg.Function), case.plain)
    )
    torch.testing.assert_close(torch.compile(ours, backend="aot_eager")(case.values[0]), plain(case.values[0]))


def test_an_instance():
    x = X.clone().requires_grad_()
    out = torch.compile(lambda x: Legacy(3.0)(x) + 1, backend="aot_eager")(x)
    expected = 3 * x * (x * x).sum()
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x), torch.autograd.grad(expected.sum(), x))


@pytest.mark.slow
def test_with_inductor():
    f, x = CASES["saves_its_output"].make(tg.Function), X.clone().requires_grad_()
    out = torch.compile(lambda x: f(x) * 2, fullgraph=IN_ONE_GRAPH)(x)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], 2 * X.exp())
