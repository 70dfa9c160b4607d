"""Forward mode: which of several rules pushes a tangent, whose memory it has, and what a rule may not do meanwhile."""

import itertools

import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import hessian, jacfwd, jacrev, jvp, vmap

import torchgraft as tg

from ..default import in_turn

# -- rules for several inputs ------------------------------------------------------------------------------------
NAMES = ("x", "y", "z")
POINT = tuple(torch.tensor([value, 2 * value], dtype=torch.float64) for value in (0.5, 1.5, 2.5))


def _groupings(names):
    """Every way to part names into groups."""
    if not names:
        yield ()
        return
    first, *others = names
    for count in range(len(others) + 1):
        for chosen in itertools.combinations(others, count):
            for rest in _groupings([name for name in others if name not in chosen]):
                yield ((first, *chosen), *rest)


REVERSE = list(_groupings(NAMES))
FORWARD = [
    groups for count in range(4) for chosen in itertools.combinations(NAMES, count) for groups in _groupings(chosen)
]


def _slopes(x, y, z):
    return {"x": y * z**2, "y": x * z**2, "z": 2 * x * y * z}


def _vjp(operator, names):
    def rule(grad, x, y, z):
        gradients = tuple(grad * _slopes(x, y, z)[name] for name in names)
        return gradients if len(names) > 1 else gradients[0]

    operator.vjp(*names)(rule)


def _jvp(operator, names):
    tangents = ", ".join(f"{name}_tangent" for name in names)
    source = f"lambda {tangents}, x, y, z: sum(t * slopes(x, y, z)[n] for t, n in zip([{tangents}], names))"
    operator.jvp(*names)(eval(source, {"slopes": _slopes, "names": names}))


@pytest.mark.parametrize(("reverse", "forward"), in_turn(2, REVERSE, FORWARD))
def test_every_tangent_is_pushed_once(reverse, forward):
    """A vjp of several inputs gives the tangents of those alone that have no rule for forward mode."""

    @tg.op
    def product(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * y * z**2

    for names in reverse:
        _vjp(product, names)
    for names in forward:
        _jvp(product, names)
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(3), k) for k in (1, 2, 3)):

        def function(*some, chosen=chosen):
            given = dict(zip(chosen, some, strict=True))
            return product(*(given.get(i, value) for i, value in enumerate(POINT)))

        slopes = list(_slopes(*POINT).values())
        expected = sum(slopes[i] * (i + 1) for i in chosen)
        some = tuple(POINT[i] for i in chosen)
        got = jvp(function, some, tuple(torch.full_like(POINT[i], i + 1) for i in chosen))[1]
        torch.testing.assert_close(got, expected)
    second = hessian(lambda *p: product(*p).sum(), (0, 1, 2))(*POINT)
    expected = hessian(lambda x, y, z: (x * y * z**2).sum(), (0, 1, 2))(*POINT)
    torch.testing.assert_close(second, expected)


# -- memory ------------------------------------------------------------------------------------------------------
def _copy():
    @tg.op
    def copy(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
        return x.clone(), x.clone()

    copy.nondifferentiable("y")
    return copy


def _with_jvp(rule):
    copy = _copy()
    copy.jvp("x")(rule)
    return copy


def _with_vjp():
    copy = _copy()
    copy.vjp("x")(lambda grad_out0, grad_out1: grad_out0 + grad_out1)
    return copy


def _dual(function, primal, tangent):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(primal, tangent))).tangent


PUSHES = {
    "jvp": lambda f, x, t: jvp(f, (x,), (t,))[1],
    "dual level": _dual,
    "vmap": lambda f, x, t: vmap(lambda t: jvp(f, (x,), (t,))[1])(t[None])[0],
}
pushes = pytest.mark.parametrize("push", PUSHES.values(), ids=PUSHES)
SAME = {
    "tangent": _with_jvp(lambda x_tangent: (x_tangent, x_tangent)),
    "view": _with_jvp(lambda x_tangent: (x_tangent[:], x_tangent.view(-1))),
    "of each other": _with_jvp(lambda x_tangent: (1 * x_tangent,) * 2),
    "vjp": _with_vjp(),
}


@pushes
@pytest.mark.parametrize("operator", SAME.values(), ids=SAME)
def test_a_tangent_has_memory_of_its_own(operator, push):
    """Who writes into an output writes into its tangent, and into no other."""

    def function(x):
        first, second = operator(x, torch.ones(2))
        first.mul_(5)
        return first + 10 * second + 100 * x

    assert push(function, torch.ones(2), torch.tensor([1.0, 2.0])).tolist() == [115, 230]


# -- side effects ------------------------------------------------------------------------------------------------
def _square():
    @tg.op
    def square(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x**2

    return square


WRITING = {
    "jvp, tangent": ("jvp", lambda x_tangent, x: x_tangent.mul_(2 * x)),
    "jvp, input": ("jvp", lambda x_tangent, x: x_tangent * x.mul_(2)),
    "jvp, output": ("jvp", lambda x_tangent, x, out: 2 * x_tangent * x + 0 * out.mul_(2)),
    "partial, input": ("partial", lambda x: x.mul_(2)),
    "vjp, input": ("vjp", lambda grad, x: grad * x.mul_(2)),
    "vjp, output": ("vjp", lambda grad, x, out: 2 * grad * x + 0 * out.mul_(2)),
}


@pushes
@pytest.mark.parametrize(("kind", "rule"), WRITING.values(), ids=WRITING)
def test_a_rule_that_writes_into_what_it_is_given(kind, rule, push):
    square = _square()
    getattr(square, kind)("x")(rule)
    with pytest.raises(tg.RuleError, match="wrote into a tensor") as caught:
        push(square, torch.ones(2), torch.ones(2))
    assert caught.value.operator == f"square.{kind}[x]"


# -- rules that use torch.func ------------------------------------------------------------------------------------
TRANSFORMING = {
    "vjp": ("vjp", lambda grad, x: torch.func.vjp(lambda x: x**2, x)[1](grad)[0]),
    "grad": ("vjp", lambda grad, x: torch.func.grad(lambda x: (grad * x**2).sum())(x)),
    "vmap": ("vjp", lambda grad, x: vmap(lambda g, x: 2 * g * x)(grad, x)),
    "partial": ("partial", lambda x: torch.func.grad(lambda x: (x**2).sum())(x)),
    "jvp": ("jvp", lambda x_tangent, x: jvp(lambda x: x**2, (x,), (x_tangent,))[1]),
}
NESTED = {
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(lambda x: f(x).sum())(x),
    "jacrev of jacfwd": lambda f, x: jacrev(jacfwd(lambda x: f(x).sum()))(x),
    "vmap of jvp": lambda f, x: PUSHES["vmap"](f, x, x),
}


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize(("kind", "rule"), TRANSFORMING.values(), ids=TRANSFORMING)
def test_a_transform_within_forward_mode_is_refused_in_words(kind, rule, nested):
    square, x = _square(), torch.tensor([1.0, 2.0])
    getattr(square, kind)("x")(rule)
    with pytest.raises(tg.DerivativeError, match=r"uses torch\.func cannot run inside of forward mode") as caught:
        nested(square, x)
    assert caught.value.operator == f"square.{kind}[x]"
    assert "@square.jvp" in caught.value.hint
    assert jacfwd(lambda x: x**2)(x).tolist() == [[2, 0], [0, 4]]  # the levels are as they were


def test_a_transform_within_a_dual_level_is_refused_in_words():
    square = _square()
    square.jvp("x")(TRANSFORMING["jvp"][1])
    with pytest.raises(tg.DerivativeError, match="cannot run inside of forward mode"):
        _dual(square, torch.ones(2), torch.ones(2))


def test_a_rule_for_forward_mode_makes_up_for_one_that_uses_a_transform():
    square, x = _square(), torch.tensor([1.0, 2.0])
    square.vjp("x")(TRANSFORMING["vjp"][1])
    square.jvp("x")(lambda x_tangent, x: 2 * x_tangent * x)
    assert jacfwd(square)(x).tolist() == jacrev(square)(x).tolist() == [[2, 0], [0, 4]]
    assert jacfwd(jacfwd(lambda x: square(x).sum()))(x).tolist() == [[2, 0], [0, 2]]
