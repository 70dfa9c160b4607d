"""The fuzz itself: for half a minute with a fixed seed, and whether it sees what it must."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .. import fresh
from .__main__ import Child
from .blocks import mul, num, var
from .choose import Seeded
from .declaration import LOOSE, Declaration, Rule, draw_declaration, draw_plan
from .judge import Result, judge, normal
from .needs import lacking
from .program import Case, Leaf, draw_case
from .report import FAILURES, Report, failure
from .search import search
from .stack import DEAR, DERIVATIVES, ENDS, RECORDS, VALUES, Layer, Stack, draw_stack
from .tensors import Formula, Input, Node

REFUSALS = Path(__file__).with_name("refusals.md")
LAYERS = {
    layer.name: layer for maker in {**ENDS, **DERIVATIVES, **VALUES, **RECORDS} for layer in [maker(Seeded(3), 1)]
}
SEED, CASES, MANY = 20, 100, 300


@pytest.fixture(scope="module")
def report() -> Report:
    made = Report()
    search(SEED, CASES, made, slow=False)
    return search(SEED + 1, CASES // 10, made)


@pytest.mark.slow
def test_every_case_is_right_or_refused(report: Report):
    assert not report.failures, "\n\n".join(f"{f.title}\n\n{f.program}" for f in report.failures)


@pytest.mark.slow
def test_many_more_cases_are_right_or_refused():
    report = search(SEED + 2, MANY, Report())
    assert not report.failures, "\n\n".join(f"{f.title}\n\n{f.program}" for f in report.failures)
    assert report.share_refused <= 0.05, report.table()


@pytest.mark.slow
def test_few_cases_are_refused_that_the_rules_suffice_for(report: Report):
    assert report.share_refused <= 0.05, report.table()


@pytest.mark.slow
def test_every_refusal_is_in_the_table(report: Report):
    known = REFUSALS.read_text()
    missing = [text for text in report.refused if f"| `{text}` |" not in known]
    assert not missing, f"add them to {REFUSALS.name}, with the reason: {missing}"


@pytest.mark.slow
def test_most_cases_are_compared(report: Report):
    assert report.kinds["right"] > 0.6 * sum(report.kinds.values()), report.table()


@pytest.mark.slow
def test_the_search_is_determined_by_its_seed():
    first, second = search(7, 25, Report(), slow=False), search(7, 25, Report(), slow=False)
    assert (first.kinds, first.layers) == (second.kinds, second.layers)


# -- planted faults ---------------------------------------------------------------------------------------------------

OPERATOR = """\
@tg.op
def fuzzed(x: Float[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch"]]:
    return torch.sin(x), torch.square(x).sum(-1)


@fuzzed.vjp("x")
def _(grad_out0, grad_out1, x):
    return {gradient}
"""
RIGHT = "grad_out0 * torch.cos(x) + grad_out1[..., None] * 2 * x"
TRUTH = "def truth(x):\n    return torch.sin(x), torch.square(x).sum(-1)\n"


def planted(source: str, *layers: str, recorded: bool = False, truth: str = TRUTH) -> Case:
    """A case of one input."""
    x = Input("x", ("n",), True)
    node = Node("out", mul(num(2), var("x")), ("n",), batched=True)
    formula = Formula((x,), (), (node,), ("out",))
    declaration = Declaration(formula, "star", "torch", (Rule("vjp", ("x",), "torch"),), source=source, truth=truth)
    stack = Stack(tuple(LAYERS[name] for name in layers), recorded)
    return Case(declaration, stack, (Leaf("x", (2, 3), 0),), "x", "float64")


STACKS = [
    ("grad",),
    ("jvp",),
    ("vjp",),
    ("jacrev",),
    ("jacfwd",),
    ("hessian",),
    ("vmap", "grad"),
    ("jvp", "grad"),
    ("linearize",),
]
RECORDED = [
    ("backward",),
    ("autograd.grad", "autograd.grad"),
    ("dual level",),
    ("is_grads_batched",),
    ("checkpoint", "backward"),
]
EVERY = [*((stack, False) for stack in STACKS), *((stack, True) for stack in RECORDED)]


@pytest.mark.parametrize(("layers", "recorded"), EVERY)
def test_what_is_right_is_right(layers, recorded):
    assert judge(planted(OPERATOR.format(gradient=RIGHT), *layers, recorded=recorded)) == Result("right", "")


@pytest.mark.parametrize(("layers", "recorded"), EVERY)
def test_a_wrong_factor_is_found(layers, recorded):
    source = OPERATOR.format(gradient="1.001 * grad_out0 * torch.cos(x) + grad_out1[..., None] * 2 * x")
    assert judge(planted(source, *layers, recorded=recorded)).kind == "wrong"


@pytest.mark.parametrize(("layers", "recorded"), EVERY)
def test_a_cotangent_that_is_dropped_is_found(layers, recorded):
    source = OPERATOR.format(gradient="grad_out0 * torch.cos(x) + 0 * grad_out1[..., None] * x")
    assert judge(planted(source, *layers, recorded=recorded)).kind == "wrong"


PLAIN = "def fuzzed(x):\n    return torch.sin({x}), torch.square(x).sum(-1)\n"


@pytest.mark.parametrize(("layers", "recorded"), EVERY)
def test_a_detached_result_is_found(layers, recorded):
    assert judge(planted(PLAIN.format(x="x.detach()"), *layers, recorded=recorded)).kind == "wrong"


def test_a_missing_tangent_is_found():
    source = PLAIN.format(x="fwAD.unpack_dual(x).primal")
    assert judge(planted(source, "dual level")).kind == "wrong"
    assert judge(planted(source, "backward", recorded=True)).kind == "right"


def test_recording_that_is_lost_is_found():
    source = "def fuzzed(x):\n    with torch.no_grad():\n        return truth(x)\n"
    assert judge(planted(source, "computed inputs", recorded=True)) == Result("wrong", "result 0: detached")


@pytest.mark.parametrize("value", ["x.sin() + 1e-6", "x.sin()[:1]", "x.sin().float()"])
def test_a_wrong_value_shape_or_dtype_is_found(value):
    source = f"def fuzzed(x):\n    return {value}, torch.square(x).sum(-1)\n"
    assert judge(planted(source, "functionalize")).kind == "wrong"


def test_an_error_that_names_no_operator_is_found():
    source = "def fuzzed(x):\n    raise IndexError('list index out of range')\n"
    assert judge(planted(source, "grad")) == Result("unnamed", "IndexError: list index out of range")


@pytest.mark.parametrize(("name", "kind"), [("fuzzed", "refused"), ("other", "unnamed")])
def test_what_torch_does_not_map_in_a_rule_is_named_by_its_frame(name, kind):
    source = (
        f"def {name}(x):\n    raise RuntimeError('Batching rule not implemented for aten::f')\n\n\nfuzzed = {name}\n"
    )
    assert judge(planted(source, "grad")).kind == kind


def test_an_error_of_torch_as_well_is_skipped():
    truth = "def truth(x):\n    raise ValueError('no')\n"
    assert judge(planted(PLAIN.format(x="x"), "grad", truth=truth)).kind == "skipped"


def test_rounding_is_no_failure():
    source = "def fuzzed(x):\n    return truth(x.double())[0].float(), truth(x.flip(-1))[1]\n"
    for layers in (("grad",), ("hessian",)):
        case = planted(source, *layers)
        assert judge(Case(case.declaration, case.stack, case.leaves, case.call, "float32")).kind == "right"


@pytest.mark.slow
def test_a_failure_is_shrunk_and_known_afterwards(monkeypatch):
    def flip(self, body=Stack.text):  # every operator is negated under grad
        return body(self).replace(
            "torch.func.grad(lambda *xs: scalar(",
            "torch.func.grad(lambda *xs: (1 if case.f is truth else -1) * scalar(",
        )

    monkeypatch.setattr(Stack, "text", flip)
    monkeypatch.setattr(
        Case, "case_text", lambda self, body=Case.case_text: body(self).replace("dtype):", "dtype):\n    case.f = f", 1)
    )
    report = search(1, 30, Report(), slow=False, shrinking=2)
    assert report.failures
    assert any("grad" in found.layers and len(found.layers) <= 2 for found in report.failures)


# -- programs ---------------------------------------------------------------------------------------------------------


def printed(program: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(program, "<program>", "exec", dont_inherit=True), {"__name__": "program"})
    return out.getvalue().strip()


@pytest.mark.parametrize("seed", range(40))
def test_a_program_shows_what_the_judge_saw(seed):
    case = draw_case(Seeded(seed), slow=False)
    if case.declaration.flaw is not None or set(case.stack.names) & DEAR:
        pytest.skip("what draws random numbers shows others each time, and tracers are slow")
    result = judge(case)
    kind, _, text = printed(case.program()).partition(": ")
    assert (kind, normal(text)) == (result.kind, normal(result.text))


@pytest.mark.slow
def test_a_program_stands_alone(tmp_path):
    case = planted(OPERATOR.format(gradient="2 * " + RIGHT), "grad")
    file = tmp_path / "program.py"
    file.write_text(case.program())
    made = fresh.run(file, cwd=tmp_path, check=True)
    assert made.stdout.startswith("wrong: result 0: tensor(")


def test_programs_are_short():
    lengths = [len(draw_case(Seeded(seed), slow=False).program().splitlines()) for seed in range(100)]
    assert sorted(lengths)[50] < 260


# -- what is drawn ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_kind_of_declaration_is_drawn():
    made = [draw_declaration(c, draw_plan(c)) for c in map(Seeded, range(600))]
    assert {d.kernel for d in made} == {"torch", "numpy", "c"}
    assert {d.batch for d in made} == {"none", "star", "hash", "loop", "elementwise"}
    assert {d.form for d in made} == {"single", "tuple", "named"}
    assert {(r.kind, r.medium) for d in made for r in d.rules} == {
        (kind, medium) for kind in ("vjp", "jvp", "partial", "adjoint") for medium in ("torch", "array", "c")
    }
    assert any(
        len(d.formula.outputs) > 1 and r.kind == "adjoint" and r.medium == "array" for d in made for r in d.rules
    )
    assert any(len(r.inputs) > 1 for d in made for r in d.rules)
    assert len({d.flaw for d in made}) == 4
    assert not LOOSE or any(d.formula.still for d in made)
    assert not LOOSE or any("independent=" in d.source for d in made)


@pytest.mark.slow
def test_every_transform_is_drawn():
    names = {name for seed in range(8000) for name in draw_stack(Seeded(seed), 2).names}
    assert names >= {*LAYERS, "compile, eager", "compile, aot_eager", "compile, inductor", "export", "inference_mode"}


@pytest.mark.parametrize("seed", range(60))
def test_rules_suffice_where_nothing_lacks(seed):
    """What the guide says that the rules give, the operator itself says too."""
    case = draw_case(Seeded(seed), slow=False)
    if lacking(case) is None and case.stack.modes == "R":
        assert all(case.declaration.reverse_rule(name) is not None for name in case.inputs)


# -- the report -------------------------------------------------------------------------------------------------------


def test_a_report_survives_its_way_from_a_child():
    report = Report()
    case = planted(OPERATOR.format(gradient="2 * " + RIGHT), "grad")
    found = report.take(case, judge(case))
    assert found is not None
    report.add(found)
    again = Report.from_json(report.to_json())
    assert again.table() == report.table()
    assert again.take(case, judge(case)) is None, "known by now"


def test_more_of_the_same_is_one_failure():
    first = failure(
        planted(OPERATOR.format(gradient="2 * " + RIGHT), "grad"), Result("wrong", "result 0: 1 in the place of 2")
    )
    second = failure(
        planted(OPERATOR.format(gradient="2 * " + RIGHT), "vmap", "vjp"),
        Result("wrong", "result 0: 3 in the place of 2"),
    )
    report = Report()
    report.add(second)
    report.add(first)
    report.add(second)
    assert report.failures == [first]


@pytest.mark.parametrize(
    ("code", "kind"), [("import os; os.abort()", "crash"), ("import os, signal; os.kill(os.getpid(), 9)", "hang")]
)
def test_a_child_that_dies_leaves_its_case(tmp_path, code, kind):
    (tmp_path / "case.py").write_text("the program")
    (tmp_path / "log").write_text("what it said")
    process = subprocess.Popen([sys.executable, "-c", code])
    process.wait()
    (found,) = Child(process, tmp_path, 5).report().failures
    assert found.kind == kind
    assert "the program" in found.program
    assert "what it said" in found.program


def test_a_case_that_dies_in_plain_torch_is_skipped(tmp_path):
    (tmp_path / "case.py").write_text(
        "import os\nverdict = lambda case, op, *rest: os.abort() if op == 'plain' else None\n"
        "case, fuzzed, truth = '', 'ours', 'plain'\nprint(verdict(case, fuzzed, truth, 0))"
    )
    (tmp_path / "log").write_text("")
    process = subprocess.Popen([sys.executable, "-c", "import os; os.abort()"])
    process.wait()
    report = Child(process, tmp_path, 5).report()
    assert (dict(report.kinds), report.failures) == ({"skipped": 1}, [])


def test_the_table_of_refusals_gives_reasons():
    rows = re.findall(r"^\| `(.+)` \| (.*) \|$", REFUSALS.read_text(), re.MULTILINE)
    assert rows
    assert all(reason.strip() for _, reason in rows)


def test_kinds_are_those_of_the_report():
    assert set(FAILURES) == {"wrong", "unnamed", "undeclared", "state", "crash", "hang"}
    assert isinstance(LAYERS["grad"], Layer)
    assert torch.get_num_threads() == 1
