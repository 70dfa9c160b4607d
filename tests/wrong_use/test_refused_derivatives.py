"""Derivatives that an operator does not have: refused under every transform, and only where they are asked for."""

import contextlib

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import torchgraft as tg

from ..default import in_turn


def _cube():
    @tg.op
    def cube(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x**3 * y

    return cube


def _array_rule():
    cube = _cube()

    @cube.vjp("x")
    def _(grad: np.ndarray, x, y):
        return 3 * grad * x**2 * y

    return cube


def _detached_rule():
    cube = _cube()
    cube.vjp("x")(lambda grad, x, y: (3 * grad * x**2 * y).detach())
    return cube


def _residual_rule():
    @tg.op
    def cube(
        x: Float[Tensor, "..."], y: Float[Tensor, "..."]
    ) -> tuple[Float[Tensor, "..."], tg.Saved[Float[Tensor, "..."], "slope"]]:
        return x**3 * y, 3 * x**2 * y

    cube.vjp("x")(lambda grad, slope: grad * slope)
    return cube


OPAQUE = {"array": _array_rule, "detached": _detached_rule, "residual": _residual_rule}
X, Y = torch.tensor([0.5, 2.0]), torch.tensor([1.0, 3.0])


def _twice(operator, **options):
    x = X.clone().requires_grad_()
    first = torch.autograd.grad(operator(x, Y).sum(), x, create_graph=True)[0]
    assert torch.allclose(first, 3 * X**2 * Y)
    return torch.autograd.grad(first.sum(), x, **options)


def _scalar(operator):
    return lambda x: operator(x, Y).sum()


def _pointwise(operator):
    return lambda x: operator(x, torch.ones(()))


SECOND = {
    "autograd.grad twice": lambda f: _twice(f),
    "allow_unused": lambda f: _twice(f, allow_unused=True),
    "materialize_grads": lambda f: _twice(f, materialize_grads=True),
    "backward twice": lambda f: _backward_twice(f),
    "grad of grad": lambda f: grad(lambda x: grad(_scalar(f))(x).sum())(X),
    "hessian": lambda f: hessian(_scalar(f))(X),
    "jacrev of jacrev": lambda f: jacrev(jacrev(_scalar(f)))(X),
    "jacfwd of jacrev": lambda f: jacfwd(jacrev(_scalar(f)))(X),
    "jvp of grad": lambda f: jvp(grad(_scalar(f)), (X,), (torch.ones(2),)),
    "vjp of grad": lambda f: vjp(grad(_scalar(f)), X)[1](torch.ones(2)),
    "vmap of grad of grad": lambda f: vmap(grad(grad(_pointwise(f))))(X),
    "grad of vmap of grad": lambda f: grad(lambda x: vmap(grad(_pointwise(f)))(x).sum())(X),
    "autograd.functional.hessian": lambda f: torch.autograd.functional.hessian(_scalar(f), X),
}


def _backward_twice(operator):
    x = X.clone().requires_grad_()
    operator(x, Y).sum().backward(create_graph=True)
    first, x.grad = x.grad, None
    first.sum().backward()


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True:UserWarning")
@pytest.mark.parametrize("how", SECOND)
@pytest.mark.parametrize("kind", OPAQUE)
def test_a_second_derivative_through_an_opaque_rule(kind, how):
    operator = OPAQUE[kind]()
    with pytest.raises(tg.DerivativeError) as caught:
        SECOND[how](operator)
    error = caught.value
    assert error.operator.startswith("cube")
    assert error.hint


@pytest.mark.parametrize("kind", OPAQUE)
def test_a_second_derivative_with_respect_to_another_input(kind):
    operator = OPAQUE[kind]()
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    operator.vjp("y")(lambda grad, x: grad * x**3)
    first = torch.autograd.grad(operator(x, y).sum(), x, create_graph=True)[0]
    with pytest.raises(tg.DerivativeError):
        torch.autograd.grad(first.sum(), y, allow_unused=True)
    with pytest.raises(tg.DerivativeError):
        grad(lambda y: grad(lambda x: operator(x, y).sum())(X).sum())(Y)


@pytest.mark.parametrize("kind", OPAQUE)
def test_first_derivatives_are_right(kind):
    operator = OPAQUE[kind]()
    expected = 3 * X**2 * Y
    assert torch.allclose(grad(_scalar(operator))(X), expected)
    assert torch.allclose(vmap(grad(lambda x, y: operator(x, y)))(X, Y), expected)
    assert torch.allclose(jacrev(lambda x: operator(x, Y))(X), torch.diag(expected))
    x = X.clone().requires_grad_()
    torch.autograd.grad(operator(x, Y).sum(), x, create_graph=True)  # asking for a graph is no crime
    operator(x, Y).sum().backward()
    assert torch.allclose(x.grad, expected)


def test_control_a_rule_of_torch_functions_has_every_order():
    cube = _cube()
    cube.vjp("x")(lambda grad, x, y: 3 * grad * x**2 * y)
    for how in ("autograd.grad twice", "hessian", "jacfwd of jacrev", "vmap of grad of grad", "jvp of grad"):
        result = SECOND[how](cube)
        assert result is not None
    assert torch.allclose(SECOND["grad of grad"](cube), 6 * X * Y)


# -- inputs without a rule -----------------------------------------------------------------------------------
def _product():
    @tg.op
    def product(x: Float[Tensor, "n"], weight: Float[Tensor, "n"], bias: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * weight + bias

    product.vjp("x")(lambda grad, weight: grad * weight)
    return product


def _inputs():
    return [torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize(("position", "name"), [(1, "weight"), (2, "bias")])
def test_a_gradient_without_a_rule(position, name):
    operator = _product()
    inputs = _inputs()
    for ask in (
        lambda: operator(*inputs).sum().backward(),
        lambda: torch.autograd.grad(operator(*inputs).sum(), inputs[position]),
        lambda: torch.autograd.grad(operator(*inputs).sum(), [inputs[0], inputs[position]]),
        lambda: torch.autograd.grad(operator(*inputs).sum(), [inputs[position]], allow_unused=True),
        lambda: grad(lambda t: operator(*[t if i == position else v for i, v in enumerate(inputs)]).sum())(inputs[0]),
        lambda: operator(*[v.detach().requires_grad_(i == position) for i, v in enumerate(inputs)]).sum().backward(),
    ):
        with pytest.raises(tg.DerivativeError, match="there is no rule for the reverse-mode derivative") as caught:
            ask()
        error = caught.value
        assert error.operator == "product"
        assert error.argument in ("weight", "bias")  # whichever autograd comes to first, where both are asked for
        assert error.got == "rules: product.vjp[x]"
        assert f'nondifferentiable("{error.argument}", reason="..."' in error.hint
    with pytest.raises(tg.DerivativeError) as caught:
        torch.autograd.grad(operator(*inputs).sum(), inputs[position])
    assert caught.value.argument == name
    assert caught.value.expected == f'a rule @product.vjp("{name}")'


def test_no_error_where_only_another_gradient_is_asked():
    operator = _product()
    x, weight, bias = _inputs()
    assert torch.autograd.grad(operator(x, weight, bias).sum(), [x])[0].tolist() == [1, 2]
    operator(x, weight, bias).sum().backward(inputs=[x])
    assert x.grad.tolist() == [1, 2]
    assert (weight.grad, bias.grad) == (None, None)
    assert grad(lambda x: operator(x, weight, bias).sum())(x.detach()).tolist() == [1, 2]
    middle = weight * 1
    assert torch.autograd.grad(operator(x, middle, bias).sum(), [x])[0].tolist() == [1, 2]
    with pytest.raises(tg.DerivativeError) as caught:
        torch.autograd.grad(operator(x, middle, bias).sum(), [weight])
    assert caught.value.argument == "weight"


def test_nondifferentiable():
    operator = _product()
    operator.nondifferentiable("weight", "bias")
    x, weight, bias = _inputs()
    for index, name in enumerate(["weight", "bias"]):
        with pytest.raises(tg.DerivativeError, match=f"input '{name}' is declared nondifferentiable") as caught:
            torch.autograd.grad(operator(x, weight, bias).sum(), [weight, bias][index])
        assert (caught.value.operator, caught.value.argument, caught.value.hint) == (
            "product", name, f"pass {name}.detach()",
        )  # fmt: skip
    assert torch.autograd.grad(operator(x, weight, bias).sum(), x)[0].tolist() == [1, 2]
    with pytest.raises(tg.DerivativeError, match="declared nondifferentiable"):
        jvp(lambda w: operator(x.detach(), w, bias.detach()), (weight.detach(),), (torch.ones(2),))


@pytest.mark.parametrize("as_leaf", [True, False])
def test_what_has_no_derivative_is_in_nobodys_way(as_leaf):
    """The gradient of one input alone, though the other, which has none, requires one: leaf or not."""
    operator = _product()
    operator.nondifferentiable("weight")
    x, weight, bias = (leaf if as_leaf else 1 * leaf for leaf in _inputs())
    assert torch.autograd.grad(operator(x, weight, bias).sum(), x)[0].tolist() == [1, 2]
    with pytest.raises(tg.DerivativeError, match="declared nondifferentiable"):
        operator(x, weight, bias).sum().backward()
    mixed = torch.func.grad(lambda x, w: operator(x, w, bias.detach()).sum(), argnums=0)
    assert mixed(x.detach(), weight.detach()).tolist() == [1, 2]


def test_the_reason_why_there_is_no_derivative_is_said():
    operator = _product()
    operator.nondifferentiable("weight", reason="it is calibrated, not learned")
    x, weight, bias = _inputs()
    with pytest.raises(
        tg.DerivativeError, match="'weight' is declared nondifferentiable: it is calibrated, not learned"
    ):
        torch.autograd.grad(operator(x, weight, bias).sum(), weight)


# -- forward mode --------------------------------------------------------------------------------------------
def _dual_level(function, primal):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(primal, torch.ones_like(primal)))).tangent


FORWARD = {
    "jvp": lambda f: jvp(f, (X,), (torch.ones(2),)),
    "jacfwd": lambda f: jacfwd(f)(X),
    "dual_level": lambda f: _dual_level(f, X),
    "vmap of jvp": lambda f: vmap(lambda t: jvp(f, (X,), (t,))[1])(torch.eye(2)),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f))(X),
}


@pytest.mark.parametrize("how", FORWARD)
def test_forward_mode_without_a_rule(how):
    operator = _product()
    operator.jvp("x")(lambda x_tangent, weight: x_tangent * weight)
    ones = torch.ones(2)
    with pytest.raises(
        tg.DerivativeError, match="no rule for the forward-mode derivative with respect to 'weight'"
    ) as caught:
        FORWARD[how](lambda w: operator(ones, w, ones))
    error = caught.value
    assert (error.operator, error.argument) == ("product", "weight")
    assert error.expected == 'a rule @product.jvp("weight")'
    assert "weight_tangent" in error.hint


@pytest.mark.parametrize("how", FORWARD)
@pytest.mark.parametrize("kind", ["array", "detached"])
def test_forward_mode_that_cannot_be_derived(how, kind):
    operator = OPAQUE[kind]()
    with pytest.raises(tg.DerivativeError) as caught:
        FORWARD[how](lambda x: operator(x, Y))
    assert caught.value.operator.startswith("cube")


@pytest.mark.parametrize(
    "half",
    [
        lambda grad: grad.detach() / 2,
        lambda grad: torch.autograd.Variable(grad) / 2,
        lambda grad: torch.stack([e.item() * torch.ones(()) for e in grad]) / 2,
        torch.no_grad()(lambda grad: grad / 2),
    ],
    ids=["detach", "Variable", "item", "no_grad"],
)
def test_forward_mode_of_a_rule_that_detaches_a_part_of_its_cotangent(half):
    cube = _cube()
    cube.vjp("x")(lambda grad, x, y: 3 * (grad / 2 + half(grad)) * x**2 * y)
    with pytest.raises(tg.DerivativeError, match=r"or a part of it, is detached from grad"):
        jvp(lambda x: cube(x, Y), (X,), (torch.ones(2),))


def test_forward_mode_of_a_rule_that_detaches_what_it_reads_besides():
    cube = _cube()
    cube.vjp("x")(lambda grad, x, y: torch.where(grad.detach() > 0, 1, 1) * 3 * grad * x.detach() ** 2 * y)
    assert torch.allclose(jvp(lambda x: cube(x, Y), (X,), (torch.ones(2),))[1], 3 * X**2 * Y)


def test_forward_mode_through_a_residual_is_right_at_first_order():
    operator = _residual_rule()
    assert torch.allclose(_dual_level(lambda x: operator(x, Y), X), 3 * X**2 * Y)
    assert torch.allclose(jvp(lambda x: operator(x, Y), (X,), (torch.ones(2),))[1], 3 * X**2 * Y)
    with pytest.raises(tg.DerivativeError):
        jacfwd(jacfwd(lambda x: operator(x, Y)))(X)


def test_outputs_without_a_derivative():
    @tg.op
    def largest(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]:
        return x.amax(), x.argmax()

    largest.vjp("x")(lambda grad, x, out1: grad * torch.nn.functional.one_hot(out1, x.numel()).to(grad.dtype))
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    value, index = largest(x)
    assert value.requires_grad
    assert not index.requires_grad
    value.backward()
    assert x.grad.tolist() == [0, 1]


def test_a_rule_that_is_constant_on_purpose():
    @tg.op
    def sign(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.sign()

    sign.vjp("x")(lambda grad: 0 * grad)
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(sign(x).sum(), x, create_graph=True)
    assert first.tolist() == [0, 0]
    assert not first.requires_grad
    assert hessian(lambda x: sign(x).sum())(X).tolist() == [[0, 0], [0, 0]]


# -- a rule that leaves torch for a part of what it reads ---------------------------------------------------------


def cube_with(rule):
    @tg.op
    def cube(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x**3

    cube.vjp("x")(rule)
    return cube


def without_grad(grad, x):
    with torch.no_grad():
        square = x**2
    return 3 * grad * square


def squared_in_place(grad, x):
    result = torch.empty_like(x)
    result[:] = x.data**2
    return 3 * grad * result


LEAVING = {
    "detach": lambda grad, x: 3 * grad * x * x.detach(),
    "data": lambda grad, x: 3 * grad * x * x.data,
    "clone after detach": lambda grad, x: 3 * grad * x * x.detach().clone(),
    "stack of detached": lambda grad, x: 3 * grad * x * torch.stack([x[i].detach() for i in range(len(x))]),
    "no_grad": without_grad,
    "in place": squared_in_place,
}
TWICE = {
    "create_graph": lambda f, x: torch.autograd.grad(
        torch.autograd.grad(f(x).sum(), x, create_graph=True)[0].sum(), x, allow_unused=True
    ),
    "grad of grad": lambda f, x: torch.func.jacrev(torch.func.grad(lambda x: f(x).sum()))(x.detach()),
    "forward over reverse": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x.detach()),
    "forward over forward": lambda f, x: torch.func.jacfwd(torch.func.jacfwd(lambda x: f(x).sum()))(x.detach()),
    "reverse over forward": lambda f, x: torch.func.jacrev(torch.func.jacfwd(lambda x: f(x).sum()))(x.detach()),
}


@pytest.mark.parametrize("twice", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("rule", LEAVING.values(), ids=LEAVING)
def test_a_rule_that_leaves_torch_in_part_has_no_second_derivative(rule, twice):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    if rule is without_grad and "forward over" in next(name for name, way in TWICE.items() if way is twice):
        assert twice(cube_with(rule), x).diagonal().tolist() == [6, 12]  # tangents pass through no_grad
        return
    with pytest.raises(tg.DerivativeError, match=r"cube.vjp\[x\]': cannot be differentiated again: it leaves torch"):
        twice(cube_with(rule), x)


@tg.op
def doubled(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return 2 * x


@doubled.adjoint("x")
def _(grad):
    return 2 * grad


def looped(rule):
    @tg.op(batch="loop")
    def cube(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x**3

    cube.vjp("x")(rule)
    return lambda x: cube(x[None])[0]


def of_partial(rule):
    @tg.op
    def cube(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x**3

    cube.partial("x")(lambda x: rule(torch.ones_like(x), x))
    return cube


@tg.op
def squared_array(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return x * x


@squared_array.vjp("x")
def _(grad, x):
    return 2 * grad * x


@tg.op
def add_square(total: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> None:
    total += x * x


@add_square.vjp("total", "x")
def _(grad_total, x):
    return grad_total, 2 * grad_total * x


def added_square(x):
    total = torch.zeros_like(x)
    add_square(total, x)
    return total


TIMES = (
    "void times(int64_t n, const T *x, const T *y, T *out) { for (int64_t i = 0; i < n; i++) out[i] = x[i] * y[i]; }"
)


@tg.op(kernel=tg.c(TIMES))
def times(x: Float[Tensor, "*batch n"], y: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...


@times.vjp("x", "y")
def _(grad, x, y):
    return grad * y, grad * x


def times_known(x, y):
    """Call it twice with such arguments: the second call is recognised, and goes to the C function at once."""
    times(x, y)
    return times(x, y)


class Squared(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * tangent * ctx.saved_tensors[0]


UNRECORDED = {
    "C of a detached": lambda grad, x: 3 * grad * x * times_known(x.detach(), torch.ones_like(x)),
    "C of one detached": lambda grad, x: 3 * grad * times_known(x, x.detach()),
    "C under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(times_known)(x, x),
    "C of a detached under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(times_known)(x.detach(), x.detach()),
    "operator under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(squared)(x),
    "array under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(squared_array)(x),
    "written under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(added_square)(x),
    "Function under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(Squared.apply)(x),
    "forward of a Function under no_grad": lambda grad, x: 3 * grad * torch.no_grad()(Squared.forward)(x),
}
RUN = {
    "itself": cube_with,
    "mapped": lambda rule: lambda x: torch.vmap(cube_with(rule))(x[None])[0],
    "mapped within": lambda rule: cube_with(lambda grad, x: torch.vmap(rule)(grad[None], x[None])[0]),
    "mapped to the last axis": lambda rule: cube_with(
        lambda grad, x: torch.vmap(rule, out_dims=1)(grad[None], x[None])[:, 0]
    ),
    "looped": looped,
    "partial": of_partial,
    "then an operator": lambda rule: cube_with(lambda grad, x: doubled(rule(grad, x) / 2)),
}
"""Ways in which the result of a rule goes through what watches no function of torch."""
run = pytest.mark.parametrize("kind", RUN)


def twice_or_refused(kind, rule, twice):
    """Return second derivatives; None where they are refused."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    try:
        made = TWICE[twice](RUN[kind](rule), x)
    except RuntimeError:  # Some are refused by torch itself: `.data` within vmap.
        return None
    return (made[0] if isinstance(made, tuple) else made.diagonal()).tolist()


ALL_RULES = LEAVING | UNRECORDED


@pytest.mark.parametrize(("name", "kind", "twice"), in_turn(3, ALL_RULES, RUN, TWICE))
def test_what_leaves_torch_is_followed_through_all_that_runs_a_rule(name, kind, twice):
    """It is refused, or right: forward mode goes through no_grad."""
    second = twice_or_refused(kind, ALL_RULES[name], twice)
    assert second is None or second == pytest.approx([6, 12])


@run
@pytest.mark.parametrize("half", [lambda g: g.detach(), torch.no_grad()(lambda g: g * 1)], ids=["detach", "no_grad"])
def test_a_lost_part_of_a_cotangent_is_followed_through_all_that_runs_a_rule(half, kind):
    """Tangents are those of the rule, transposed: without the part they would be wrong at first order."""
    f = RUN[kind](lambda grad, x: (grad + 2 * half(grad)) * x**2)
    x, ones = torch.tensor([1.0, 2.0]), torch.ones(2)
    for tangent in (
        lambda: torch.func.jvp(f, (x,), (ones,))[1],
        lambda: torch.func.linearize(f, x)[1](ones),
        lambda: torch.autograd.functional.jvp(f, x, ones)[1],
    ):
        with contextlib.suppress(tg.DerivativeError):
            assert tangent().tolist() == pytest.approx([3, 12])


@pytest.mark.parametrize("rule", [LEAVING["detach"], LEAVING["data"], without_grad], ids=["detach", "data", "no_grad"])
def test_its_first_derivative_is_right(rule):
    x, f = torch.tensor([1.0, 2.0], requires_grad=True), cube_with(rule)
    assert torch.autograd.grad(f(x).sum(), x)[0].tolist() == [3, 12]
    assert torch.func.grad(lambda x: f(x).sum())(x.detach()).tolist() == [3, 12]
    assert torch.func.jvp(f, (x.detach(),), (torch.ones(2),))[1].tolist() == [3, 12]


HARMLESS = {
    "comparison": lambda grad, x: 3 * grad * x * x * (x.detach() < 100),
    "branch": lambda grad, x: 3 * grad * x * x if x.detach().norm() < 100 else grad,
    "shape": lambda grad, x: 3 * grad * x * x * torch.ones_like(x.detach()),
    "index": lambda grad, x: (3 * grad * x * x).gather(0, x.detach().argsort()),
    "another operator": lambda grad, x: 3 * grad * squared(x),
    "an operator in C": lambda grad, x: 3 * grad * times_known(x, x),
    "a written operator": lambda grad, x: 3 * grad * added_square(x),
    "a mask by an operator": lambda grad, x: 3 * grad * x * x * (torch.no_grad()(squared)(x) < 100),
}


@tg.op
def squared(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * x


@squared.vjp("x")
def _(grad, x):
    return 2 * grad * x


@pytest.mark.parametrize("twice", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("rule", HARMLESS.values(), ids=HARMLESS)
def test_what_is_detached_and_harmless_is_not_refused(rule, twice):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    made = twice(cube_with(rule), x)
    second = made[0] if isinstance(made, tuple) else made.diagonal()
    assert second.tolist() == [6, 12]


FOLLOWED = [name for name in HARMLESS if name not in ("branch", "index")]


@pytest.mark.parametrize(("name", "kind", "twice"), in_turn(3, FOLLOWED, RUN, TWICE))
def test_what_is_harmless_is_followed_too(name, kind, twice):
    """Branches and indices that hang on values are not for vmap."""
    second = twice_or_refused(kind, HARMLESS[name], twice)
    refused = "mapped" in kind and "forward" in twice  # Within a level of forward mode, a rule opens none of its own.
    assert second == pytest.approx([6, 12]) or (second is None and refused)


class SquaredByGrad(Squared):
    """Its forward turns grad mode on and off by itself."""

    @staticmethod
    def forward(x):
        with torch.enable_grad():
            half = x * x / 2
        with torch.no_grad():
            return half.detach() + half


@run
@pytest.mark.parametrize("twice", ["create_graph", "grad of grad"])
@pytest.mark.parametrize("function", [Squared, SquaredByGrad])
def test_a_function_has_its_own_derivative(function, twice, kind):
    second = twice_or_refused(kind, lambda grad, x: 3 * grad * function.apply(x), twice)
    assert second == pytest.approx([6, 12])


@tg.adopt(Squared)
def adopted_square(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...


def test_forward_mode_of_a_rule_that_calls_a_function():
    x = torch.tensor([1.0, 2.0])
    with pytest.raises(NotImplementedError, match="custom_function_call"):
        torch.func.jvp(cube_with(lambda grad, x: 3 * grad * Squared.apply(x)), (x,), (x,))
    adopted = cube_with(lambda grad, x: 3 * grad * adopted_square(x))
    assert TWICE["forward over forward"](adopted, x).diagonal().tolist() == [6, 12]


TRANSFORMED = {
    "vjp": lambda grad, x: torch.func.vjp(lambda x: x**3, x)[1](grad)[0],
    "gradient": lambda grad, x: torch.func.grad(lambda x: (grad * x**3).sum())(x),
    "constant gradient": lambda grad, x: grad * torch.func.grad(lambda t: (3 * x * x * t).sum())(x),
    "constant recorded": lambda grad, x: 3 * grad * x * x * torch.autograd.grad(x.sum(), x, create_graph=True)[0],
    "recorded gradient": lambda grad, x: torch.autograd.grad((grad * x**3).sum(), x, create_graph=True)[0],
}


@pytest.mark.parametrize("twice", ["create_graph", "grad of grad"])
@pytest.mark.parametrize("rule", TRANSFORMED.values(), ids=TRANSFORMED)
def test_a_rule_may_differentiate(rule, twice):
    """Where its own level has ended, or a gradient is constant there, nothing is lost."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    made = TWICE[twice](cube_with(rule), x)
    second = made[0] if isinstance(made, tuple) else made.diagonal()
    assert second.tolist() == [6, 12]


def test_a_rule_that_differentiates_and_keeps_no_record_has_no_second_derivative():
    f = cube_with(lambda grad, x: torch.autograd.grad((grad * x**3).sum(), x, retain_graph=True)[0])
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="leaves torch through grad"):
        torch.autograd.grad(first.sum(), x)
