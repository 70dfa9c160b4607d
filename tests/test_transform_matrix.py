"""Every operator through every transform: right, refused by torchgraft, or nothing that plain torch does either."""

import pytest
import torch

import torchgraft as tg

from . import matrix, operators
from .cases import ONE_OF_EACH, Case
from .transforms import TRANSFORMS, Transform

# Half a second to three a cell. The others compile too, and what differs is shown by one operator of each kind.
SLOW = {
    "export, run_decompositions", "export, strict", "compile(jvp)", "compile(jacfwd)", "compile(hessian)",
    "compile(vmap(grad))", "backward of compile(vmap)", "backward of compile(grad)", "jacfwd(compile)",
    "hessian(compile)", "make_fx(grad), symbolic", "compile, dynamic", "compile(grad)", "compile(vmap)",
    "grad(compile)", "jvp(compile)", "vmap(compile)",
}  # fmt: skip


def marks(case: Case, transform: Transform) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if transform.name in SLOW and case.name not in ONE_OF_EACH else []


CELLS = [
    pytest.param(case, transform, id=f"{transform!r}-{case.name}", marks=marks(case, transform))
    for transform in TRANSFORMS
    for case in matrix.MATRIX
]


def test_slow_transforms_are_transforms():
    assert {transform.name for transform in TRANSFORMS} >= SLOW


@pytest.mark.parametrize(("case", "transform"), CELLS)
def test_cell(case: Case, transform: Transform):
    cell, wanted = matrix.judge(case, transform), matrix.expected(case, transform)
    if cell != wanted and not matrix.is_pinned_torch():  # other versions can do more, or less
        assert matrix.ABSENT in (cell, wanted)
    else:
        assert cell == wanted


def test_documentation_is_up_to_date():
    assert matrix.DOCUMENT.read_text() == matrix.render(), "run: python -m tests.matrix"


def test_every_operator_has_a_column():
    declared = {op for op in vars(operators).values() if isinstance(op, tg.Op)}
    assert declared <= {case.op for case in matrix.MATRIX}


def _planted(x: torch.Tensor) -> torch.Tensor:
    return x**3


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("value", lambda x: x**3 + 1e-6),
        ("shape", lambda x: (x**3)[None]),
        ("dtype", lambda x: (x**3).float()),
        ("detached", lambda x: (x**3).detach() + 0 * x),
        ("zero derivative", lambda x: (x**3).detach()),
        ("refused by torch, not by us", lambda x: x.backward()),
    ],
)
def test_the_matrix_sees_a_planted_fault(fault: str, wrong):
    case = Case("planted", wrong, _planted, lambda: (torch.rand(3, dtype=torch.float64) + 1,))
    seen = []
    for transform in TRANSFORMS:
        if transform.name in (
            "backward",
            "jvp",
            "grad, create_graph",
            "no_grad",
            "vmap, each subset of inputs, in_dims 0, 1, -1",
        ):
            try:
                seen.append(matrix.judge(case, transform))
            except Exception:
                seen.append("fault")
    assert "fault" in seen
    assert matrix.REFUSED not in seen


@pytest.mark.parametrize(("op", "position"), [(operators.blur, 1), (operators.cube, 0), (operators.arctangent, 0)])
def test_what_has_no_derivative_is_refused_by_name(op: tg.Op, position: int):
    case = next(case for case in matrix.MATRIX if case.op is op)
    arguments = case.arguments()
    arguments[position].requires_grad_()
    if op is operators.arctangent:
        (first,) = torch.autograd.grad(op(*arguments).sum(), arguments[position], create_graph=True)
        with pytest.raises(tg.DerivativeError, match=r"arctangent\.vjp\[x\].*differentiated again"):
            first.sum().backward()
    else:
        with pytest.raises(tg.DerivativeError, match=f"'{op.__name__}'.*'{'width' if position else 'x'}'"):
            op(*arguments).sum().backward()
