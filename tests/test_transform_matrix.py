"""Every operator through every transform: right, refused by torchgraft, or nothing that plain torch does either."""

import itertools

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from . import matrix, operators
from .cases import ONE_OF_EACH, Case
from .default import by_default, first_of_each
from .transforms import TRANSFORMS, Transform

# What compiles takes half a second to three a cell. Operators of each kind go through one such transform; the others
# take turns with an operator whose kernel is in torch, in NumPy and in C++, and with one with a list.
FOR_KINDS = {"compile, forward and backward"}
COMPILED = ("linear", "correlate2d", "linear_cpp", "mixture")
TURN = {
    transform.name: COMPILED[i % len(COMPILED)] for i, transform in enumerate(t for t in TRANSFORMS if t.slow)
}  # fmt: skip
LONG, LINEAR = {"export, run_decompositions", "compile(hessian)", "hessian(compile)"}, "linear"  # Seconds a cell.

# Surroundings, in which operators differ by their kind and by what they cannot.
AROUND = ("contexts", "other tensors", "tracers")
SELDOM = {"jacfwd(jacrev(jacfwd))", "jacfwd(jacfwd(jacfwd))", "linearize"}  # Long, and made of others.
KINDS = ONE_OF_EACH | {case.name for case in first_of_each(matrix.MATRIX, lambda case: [case.cannot])}


def is_quick(transform: Transform, case: Case) -> bool:
    if transform.slow and transform.name not in FOR_KINDS:
        return case.name == (TURN[transform.name] if transform.name not in LONG else LINEAR)
    around = transform.group in AROUND or transform.name in FOR_KINDS | SELDOM
    if around or transform.name.startswith("functional."):
        return case.name in KINDS
    return True


CELLS = by_default(
    itertools.product(TRANSFORMS, matrix.MATRIX), is_quick, lambda transform, case: f"{transform!r}-{case.name}"
)


def test_what_is_chosen_is_there():
    assert {transform.name for transform in TRANSFORMS} >= FOR_KINDS | SELDOM | LONG
    assert {transform.group for transform in TRANSFORMS} >= set(AROUND)
    assert {case.name for case in matrix.MATRIX} >= {*COMPILED, LINEAR}


@pytest.mark.parametrize(("transform", "case"), CELLS)
def test_cell(transform: Transform, case: Case):
    cell, wanted = matrix.judge(case, transform), matrix.expected(case, transform)
    if cell != wanted and not matrix.is_pinned_torch():  # other versions can do more, or less
        assert matrix.ABSENT in (cell, wanted)
    else:
        assert cell == wanted


@tg.op
def marked(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x**3


@marked.vjp("x")
def _(grad: Tensor, x: Tensor) -> Tensor:
    return 6 * grad * x**2


def of_twice_the_slope(x: Tensor) -> Tensor:
    """Give the values and slopes of `marked`: rounding has none, and tracers of torch 2.14 lose `detach`."""
    return 2 * x**3 - ((x * 2.0**40).round() / 2.0**40) ** 3


MARKED = Case("marked", marked, of_twice_the_slope, lambda: (torch.rand(3, dtype=torch.float64) + 1,))


@pytest.mark.parametrize("transform", by_default(TRANSFORMS, lambda transform: not transform.slow, repr))
def test_the_derivative_is_the_rule_s(transform: Transform):
    """It is not that of the kernel's body, which is half of it here: rules of other operators could not tell."""
    assert matrix.judge(MARKED, transform) in (matrix.YES, matrix.REFUSED, matrix.ABSENT)


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
