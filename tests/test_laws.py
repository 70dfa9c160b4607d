"""Laws of mathematics, stated once and run over every operator of the table."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jvp

from torchgraft._lower.structures import take_apart

from .cases import CASES, FORWARD, FORWARD_AGAIN, ONE_LEVEL, ONE_OF_EACH, REVERSE, REVERSE_AGAIN, Case
from .default import by_default
from .transforms import directions, weights

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
linear_inputs = [
    pytest.param(case, name, id=f"{case.name}-{name}") for case in CASES for name in case.op._record.rules["adjoint"]
]


def cases_of(*needs: str) -> list[Case]:
    """List every operator that can do all of `needs`; what the others do is the matrix's matter."""
    return [case for case in CASES if not case.cannot & set(needs)]


def able(*needs: str):
    return pytest.mark.parametrize("case", cases_of(*needs), ids=lambda case: case.name)


def mapped(*needs: str):
    """Over operators that `vmap` maps."""
    cases = [case for case in cases_of(*needs) if case.op.capabilities()["vmap"]]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def some(*needs: str):
    """Over one operator of each kind by default, where each takes half a second."""
    rows = by_default(cases_of(*needs), lambda case: case.name in ONE_OF_EACH, lambda case: case.name)
    return pytest.mark.parametrize("case", rows)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The real inner product."""
    return (a.conj() * b).sum().real


def inexact(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(out for out in outputs if out.is_floating_point() or out.is_complex())


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values_are_those_of_the_reference(case: Case, dtype: torch.dtype):
    leaves = case.leaves(dtype)
    got, expected = case.raw(case.call, dtype)(*leaves), case.raw(case.reference, dtype)(*leaves)
    for a, b in itertools.zip_longest(got, expected):
        torch.testing.assert_close(a, b)
        assert a.is_contiguous()


@pytest.mark.parametrize(("case", "name"), linear_inputs)
def test_an_adjoint_is_linear_and_transposed(case: Case, name: str):
    """A(ax + by) = a A(x) + b A(y), and <A x, y> = <x, A* y>."""
    arguments = case.arguments()
    position = list(case.op._record.signature.names).index(name)

    def apply(x: Tensor) -> Tensor:
        """All outputs as one vector, or the only one."""
        made = case.call(*arguments[:position], x, *arguments[position + 1 :], **case.keywords)
        return torch.cat([part.flatten() for part in made]) if isinstance(made, list) else made

    x = arguments[position]
    u, v = weights(x), weights(x).sin() + x
    torch.testing.assert_close(apply(2 * u - 3 * v), 2 * apply(u) - 3 * apply(v))
    assert not apply(torch.zeros_like(x)).any()
    out, pullback = torch.func.vjp(apply, u)
    y = weights(out).sin() * (1 + 2j if out.is_complex() else 1)
    torch.testing.assert_close(inner(apply(u), y), inner(u, pullback(y)[0]))


@able(REVERSE, FORWARD)
def test_vjp_against_jvp(case: Case):
    """<J t, c> = <t, J* c> for any tangent and cotangent."""
    f, x = case.smooth(case.call), case.primals()
    tangents = directions(x)
    out, out_tangent = torch.func.jvp(f, x, tangents)
    cotangent = weights(out).cos() * (1 + 2j if out.is_complex() else 1)
    gradients = torch.func.vjp(f, *x)[1](cotangent)
    torch.testing.assert_close(
        inner(out_tangent, cotangent), sum(map(inner, tangents, gradients)), rtol=1e-10, atol=1e-12
    )


@mapped()
def test_batch_against_loop(case: Case):
    """A batch of samples is what one call for each sample gives, outputs and gradients."""
    f = case.raw(case.call)
    stacked = [torch.stack([leaf, leaf.roll(1, -1) if leaf.dim() else 2 * leaf]) for leaf in case.leaves()]
    batched = torch.func.vmap(f)(*stacked)
    looped = [f(*(leaf[i] for leaf in stacked)) for i in range(2)]
    for got, expected in zip(batched, zip(*looped, strict=True), strict=True):
        torch.testing.assert_close(got, torch.stack(expected))


@mapped(REVERSE)
def test_batched_gradients_against_loop(case: Case):
    f, x = case.smooth(case.call), case.primals()
    stacked = tuple(torch.stack([v, v.roll(1, -1) if v.dim() else 2 * v]) for v in x)

    def gradients(x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        out, pullback = torch.func.vjp(f, *x)
        return pullback(weights(out))

    batched = torch.func.vmap(gradients)(stacked)
    for i in range(2):
        torch.testing.assert_close([b[i] for b in batched], list(gradients(tuple(v[i] for v in stacked))))


def checked(case: Case) -> tuple:
    """The operator itself, not curved, with inputs that require grad."""
    x = iter(v.requires_grad_() for v in case.primals())
    leaves = [
        next(x) if case._differentiable(position, leaf) else leaf for position, leaf in case._leaves(torch.float64)
    ]
    f = case.raw(case.call)
    return (lambda *leaves: inexact(f(*leaves))), leaves


@able(REVERSE)
def test_gradcheck(case: Case):
    forward = FORWARD not in case.cannot
    assert gradcheck(
        *checked(case), check_forward_ad=forward, check_batched_grad=True, check_batched_forward_grad=forward
    )


@able(FORWARD)
def test_forward_mode_alone(case: Case):
    f, x = case.smooth(case.call), case.primals()
    tangents, step = directions(x), 1e-6
    plus, minus = (f(*(v + s * t for v, t in zip(x, tangents, strict=True))) for s in (step, -step))
    torch.testing.assert_close(torch.func.jvp(f, x, tangents)[1], (plus - minus) / (2 * step), rtol=1e-6, atol=1e-7)


@some(REVERSE, REVERSE_AGAIN)
def test_gradgradcheck(case: Case):
    both = not case.cannot & {FORWARD, ONE_LEVEL}
    assert gradgradcheck(*checked(case), check_fwd_over_rev=both, check_rev_over_rev=True)


@some(FORWARD, FORWARD_AGAIN)
def test_third_derivative_is_symmetric(case: Case):
    """d3 f / dx_i dx_j dx_k does not depend on the order of i, j, k."""

    def loss(*x: Tensor) -> Tensor:
        out = case.smooth(case.call)(*x)
        return (out * weights(out)).sum()

    x = case.primals()
    ways = [directions(x), tuple(weights(v).sin() for v in x), tuple(v + 0.5 for v in x)]

    def derivative(f, way: tuple[Tensor, ...]):
        return lambda *x: jvp(f, x, way)[1]

    def along(order: tuple[int, ...]) -> Tensor:
        f = loss
        for i in order:
            f = derivative(f, ways[i])
        return f(*x)

    first, *others = [along(order) for order in itertools.permutations(range(3))]
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-9, atol=1e-9)


@some()
def test_opcheck(case: Case):
    signature, given = case.op._record.signature, case.arguments()
    arguments = [
        [v.requires_grad_() for v in a] if isinstance(a, list) and REVERSE not in case.cannot else a
        for a in (take_apart(signature, given) if signature.structures else given)
    ]
    for i, argument in enumerate(arguments):
        if isinstance(argument, Tensor) and REVERSE not in case.cannot and case._differentiable(i, argument):
            argument.requires_grad_()
    results = torch.library.opcheck(case.op.functional.torch_op, tuple(arguments), case.keywords)
    assert set(results.values()) == {"SUCCESS"}
