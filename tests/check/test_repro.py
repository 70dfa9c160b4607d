"""Text that shows a finding again: it runs, and makes the same arguments."""

import math

import pytest
import torch
from jaxtyping import Float
from torch.autograd import Function

import torchgraft
import torchgraft as tg
from torchgraft._check.case import Case
from torchgraft._check.repro import command, literal, repro
from torchgraft._check.target import State, make_target

from .. import fresh


class Twice(Function):
    """A Function at the top of a module: it can be imported."""

    @staticmethod
    def forward(ctx, x, factor=2):
        ctx.factor = factor
        return factor * x

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def again(monkeypatch):
    """Runs a program, and gives what it passes to `check`."""
    calls = []

    def run(text):
        monkeypatch.setattr(torchgraft, "check", lambda *args, **kwargs: calls.append((args, kwargs)), raising=False)
        exec(compile(text, "repro", "exec"), {})
        return calls.pop()

    return run


def test_a_function(again):
    x = normal(2, 3)
    (target, made, factor), options = again(repro(Case(make_target(Twice.apply), (x, 3), seed=5)))
    assert target == Twice.apply
    assert torch.equal(made, x)
    assert (factor, options) == (3, {"seed": 5})


def test_it_is_short():
    text = repro(Case(make_target(Twice.apply), (torch.tensor([1.0, -1.0], dtype=torch.float64),)))
    assert text.splitlines() == [
        "import torch",
        "import torchgraft as tg",
        "from tests.check.test_repro import Twice",
        "",
        "x = torch.tensor([1.0, -1.0], dtype=torch.float64)",
        "print(tg.check(Twice.apply, x))",
    ]


def test_functions_of_torch_and_modules(again):
    assert again(repro(Case(make_target(torch.nn.functional.gelu), (normal(2),))))[0][0] is torch.nn.functional.gelu
    assert again(repro(Case(make_target(torch.sin), (normal(2),))))[0][0] is torch.sin
    module = torch.nn.Linear(3, 1).double()
    (made, x), _ = again(repro(Case(make_target(module), (dict(module.named_parameters()), normal(2, 3)))))
    assert repr(made) == repr(module)
    assert made.weight.dtype == torch.float64
    assert torch.equal(made.weight, module.weight)
    assert torch.equal(x, normal(2, 3))


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))

    def forward(self, x):
        return self.scale * x + self.shift


def test_a_module_has_the_parameters_of_the_case():
    module = Scaled()
    given = {"scale": torch.ones(2), "shift": module.shift}
    text = repro(Case(make_target(module), (given, torch.ones(2))))
    assert text.splitlines()[2:] == [
        "# target is Scaled, which has no name that can be imported",
        "",
        "target.get_parameter('scale').data = torch.tensor([1.0, 1.0])",
        "x = torch.tensor([1.0, 1.0])",
        "print(tg.check(target, x))",
    ]


def test_an_argument_is_not_confused_with_the_module():
    class Loss(torch.nn.Module):
        def forward(self, x, target):
            return (x - target).square()

    text = repro(Case(make_target(Loss()), ({}, torch.ones(2), torch.zeros(2))))
    assert text.splitlines()[-2:] == ["target_ = torch.tensor([0.0, 0.0])", "print(tg.check(target, x, target_))"]


class Sine(Function):
    @staticmethod
    def forward(ctx, x, shift):
        ctx.save_for_backward(x)
        return torch.sin(x + shift)

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.cos(ctx.saved_tensors[0]), None


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.zeros(1).double())

    def forward(self, x):
        return torch.sin(x) if self.training else Sine.apply(x, self.shift)


def test_a_module_has_the_state_in_which_it_is_wrong():
    (found,) = tg.check(Shifted(), torch.ones(1).double(), only="options").findings
    assert found.repro.splitlines()[2:-2] == [
        "# target is Shifted, which has no name that can be imported",
        "",
        "target.train(False)",
        "target.get_buffer('shift').copy_(torch.tensor([0.014754248593736863], dtype=torch.float64))",
    ]


def test_buffers_that_are_large_are_not_written_out():
    target = make_target(torch.nn.BatchNorm1d(100))
    state = State(False, buffers={"running_mean": torch.ones(100)})
    case = Case(target.in_state(state), ({}, torch.ones(1, 1)))
    assert repro(case) == command(case)


def test_a_state_of_a_module_whose_train_returns_nothing():
    class Frozen(torch.nn.Identity):
        def train(self, mode=True):
            super().train(mode)

    assert make_target(Frozen()).in_state(State(False)).origin.training is False


def test_a_module_has_the_numbers_of_the_case():
    module = torch.nn.Sequential(torch.nn.ELU())
    target = make_target(module).in_state(State(True, numbers={"0.alpha": 0.75}))
    text = repro(Case(target, ({}, torch.ones(2))))
    assert text.splitlines()[4:6] == ["target.train(True)", "target.get_submodule('0').alpha = 0.75"]
    assert (target.origin[0].alpha, module[0].alpha) == (0.75, 1.0)


def test_library_operators(again):
    target = make_target(torch.ops.torchgraft_test_repro.twice)
    (made, x), _ = again(repro(Case(target, (normal(2),))))
    assert made is torch.ops.torchgraft_test_repro.twice.default
    assert torch.equal(x, normal(2))


@torch.library.custom_op("torchgraft_test_repro::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def test_keyword_arguments_and_lists(again):
    (target, parts), options = again(repro(Case(make_target(torch.cat), ([normal(1), normal(2)],), {"dim": 0})))
    assert torch.equal(target(parts), torch.cat([normal(1), normal(2)]))
    assert (target, options) == (torch.cat, {"kwargs": {"dim": 0}})


@pytest.mark.parametrize(
    "value",
    [
        normal(2, 3), normal(3, dtype=torch.float32), normal(3, dtype=torch.float16), normal(2, dtype=torch.bfloat16),
        normal(2, 2, dtype=torch.complex128), normal(2, dtype=torch.complex64), normal(), normal(0, 3),
        torch.tensor([True, False]), torch.tensor([[1, 2]]), torch.tensor([1], dtype=torch.uint8),
        torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=torch.float64),
        normal(3, 4).mT, normal(4)[::2], normal(1, 3).expand(2, 3),
        normal(2, 3, 4, 5).to(memory_format=torch.channels_last),
        normal(5)[2:], normal(2, dtype=torch.complex128).conj(),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}{value.stride()}",
)  # fmt: skip
def test_tensors_are_written_to_the_last_bit(value):
    made = eval(literal(value), {"torch": torch})
    assert made.dtype == value.dtype
    assert made.shape == value.shape
    assert made.stride() == value.stride()
    assert made.resolve_conj().flatten().tolist().__repr__() == value.resolve_conj().flatten().tolist().__repr__()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors(layout):
    value = torch.eye(3, dtype=torch.float64).to_sparse(layout=layout)
    made = eval(literal(value), {"torch": torch})
    assert made.layout == layout
    assert torch.equal(made.to_dense(), value.to_dense())


@pytest.mark.parametrize("value", [1, 0.1, math.inf, True, None, "same", (1, (2,)), [1.5], torch.float32, {"a": 1}, 1j])
def test_other_arguments(value):
    made = eval(literal(value), {"torch": torch})
    assert made == value
    assert type(made) is type(value)


def test_what_has_no_text():
    assert literal(object()) is None
    assert literal([object()]) is None


def test_where_it_cannot_be_imported():
    def local(x):
        return x

    text = repro(Case(make_target(local), (normal(2),)))
    assert "# target is local, which has no name that can be imported" in text
    checked = []
    exec(text.replace("tg.check(", "check("), {"target": local, "check": lambda *given: checked.append(given)})
    assert checked[0][0] is local
    assert torch.equal(checked[0][1], normal(2))
    assert repro(Case(make_target(lambda x: x), (normal(2),), seed=4)).endswith("seed=4))")


def test_many_arguments_that_were_given_are_not_generated_again():
    text = repro(Case(make_target(Twice.apply), (normal(100),), seed=3))
    assert text.startswith("# call torchgraft.check(target, ..., seed=3)")
    assert "target is tests.check.test_repro:Twice" in text


@tg.op
def thrice(x: Float[torch.Tensor, "..."]) -> Float[torch.Tensor, "..."]:
    return 3 * x


def test_operators_of_this_package(again):
    case = Case(make_target(thrice), (normal(2),))
    assert again(repro(case))[0][0] is thrice
    assert command(case) == "torchgraft check tests.check.test_repro:thrice --seed 0"


def test_scripts_are_named_by_their_file(tmp_path):
    script = tmp_path / "layer.py"
    script.write_text(
        "import torch\nfrom torchgraft._check.case import Case\nfrom torchgraft._check.target import make_target\n"
        "from torchgraft._check.repro import repro, command\n"
        "def twice(x):\n    return 2 * x\n"
        "twice.samples = lambda: [(torch.ones(1),)]\n"
        "if __name__ == '__main__':\n"
        "    case = Case(make_target(twice), (torch.ones(1),), seed=2)\n"
        "    print(repro(case))\n    print(command(case))\n"
    )
    run = fresh.run(script, cwd=tmp_path, check=True)
    lines = run.stdout.splitlines()
    assert "from layer import twice" in lines
    assert lines[-1] == "torchgraft check layer.py:twice --seed 2"
