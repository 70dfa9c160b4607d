"""Rules that cannot be right: refused when they are declared, or when they return."""

import functools

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg


def make(kind=Tensor, loop=False):
    @tg.op(batch="loop" if loop else None)
    def scale(x: Float[kind, "n"], weight: Float[kind, "n"], by: float = 1.0) -> Float[kind, "n"]:
        return x * weight * by

    return scale


def elementwise():
    @tg.op
    def add(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x + y

    return add


def refused(declare, match):
    with pytest.raises(tg.DeclarationError, match=match) as caught:
        declare()
    return caught.value


# -- names ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rule", "name", "hint"),
    [
        (lambda grad, wieght: grad, "wieght", "did you mean 'weight'?"),
        (lambda grda: grda, "grda", "did you mean 'grad'?"),
        (lambda grad, output: grad, "output", "did you mean 'out'?"),
        (lambda grad, zzz: grad, "zzz", None),
        (lambda grad, x_tangent: grad, "x_tangent", None),
    ],
)
def test_a_name_that_does_not_exist(rule, name, hint):
    error = refused(lambda: make().vjp("weight")(rule), f"asks for '{name}', which does not exist")
    assert (error.operator, error.argument, error.got) == ("scale.vjp[weight]", name, name)
    assert error.expected == "x, weight, by, out, grad"
    assert error.hint == hint or (hint is None and "did you mean" in error.hint)


def test_names_of_several_outputs():
    @tg.op
    def halves(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"], Int64[Tensor, ""]]:
        return x / 2, x / 2, torch.tensor(0)

    error = refused(lambda: halves.vjp("x")(lambda grad: grad), "asks for 'grad', which does not exist")
    assert error.expected == "x, out0, out1, out2, grad_out0, grad_out1"
    assert error.hint == "each output has a gradient of its own: grad_out0, grad_out1"


def test_a_jvp_reads_the_tangent_of_each_of_its_inputs():
    """What moves through an input would be lost, or counted where nothing moves."""
    error = refused(lambda: make().jvp("x")(lambda weight, by: weight * by), "does not read x_tangent")
    assert (error.operator, error.argument) == ("scale.jvp[x]", "x_tangent")
    error = refused(lambda: make().jvp("x", "weight")(lambda x_tangent, weight: x_tangent * weight), "weight_tangent")
    assert error.argument == "weight_tangent"
    assert 'scale.nondifferentiable("weight"' in error.hint


@pytest.mark.parametrize("source", ["file.c", tg.c], ids=["a path", "c itself"])
def test_a_kernel_in_c_is_named_by_its_language(source):
    def stub(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    for declare in (lambda: tg.op(kernel=source)(stub), lambda: make().vjp("x", kernel=source)(stub)):
        error = refused(declare, "named by its language")
        assert error.argument == "kernel"
        assert error.hint == 'kernel=tg.c("file.c")'
    assert refused(lambda: make().kernel("cpu", source)(stub), "named by its language").operator == "scale"


def test_an_adjoint_cannot_read_its_own_input():
    error = refused(lambda: make().adjoint("x")(lambda grad, x: grad), "asks for 'x', which does not exist")
    assert "the operator is linear in x" in error.hint
    refused(lambda: make().adjoint("x")(lambda grad, out: grad), "asks for 'out', which does not exist")


@pytest.mark.parametrize("kind", ["vjp", "jvp", "adjoint"])
def test_an_input_that_does_not_exist(kind):
    error = refused(lambda: getattr(make(), kind)("wieght")(lambda: None), "there is no input 'wieght'")
    assert (error.operator, error.hint) == (f"scale.{kind}[wieght]", "did you mean 'weight'?")


def test_an_input_without_a_derivative():
    error = refused(lambda: make().vjp("by")(lambda grad: grad), "is not a tensor")
    assert (error.argument, error.got) == ("by", "float")
    error = refused(lambda: make().vjp("x", "by")(lambda grad: grad), "is not a tensor")
    assert error.operator == "scale.vjp[x,by]"


def test_other_refusals():
    refused(lambda: make().vjp()(lambda grad: grad), "needs the name of an input")
    refused(lambda: make().vjp("x", "x")(lambda grad: grad), "names an input twice")
    refused(lambda: make().vjp(lambda grad: grad), "was used without the name of an input")
    refused(lambda: make().vjp("x")(lambda *args: args), "asks for what it needs by name")
    refused(lambda: make().vjp("x")(lambda **args: args), "asks for what it needs by name")
    refused(lambda: make().partial("x")(lambda x: x), "only an elementwise operator has partial derivatives")
    refused(lambda: elementwise().partial("x")(torch.sigmoid), "names cannot be read")
    refused(lambda: make().nondifferentiable("by"), "there is no tensor input and no floating output 'by'")


def test_an_operator_without_differentiable_outputs():
    @tg.op
    def argmax(x: Float[Tensor, "n"]) -> Int64[Tensor, ""]:
        return x.argmax()

    assert refused(lambda: argmax.vjp("x")(lambda x: x), "no output is differentiable").got == 'out: Int64[Tensor, ""]'


def test_a_callable_object_may_be_a_rule():
    operator = elementwise()
    operator.partial("x")(functools.partial(lambda by, y: torch.full_like(y, by), 2.0))
    x = torch.ones(3, requires_grad=True)
    operator(x, torch.ones(3)).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


# -- two rules -----------------------------------------------------------------------------------------------
def _rule(kind, operator, name):
    rules = {"vjp": lambda grad: grad, "adjoint": lambda grad: grad, "partial": lambda: torch.ones(())}
    rules["jvp"] = {"x": lambda x_tangent: x_tangent, "y": lambda y_tangent: y_tangent}[name]
    return getattr(operator, kind)(name)(rules[kind])


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("first", ["vjp", "jvp", "partial", "adjoint"])
@pytest.mark.parametrize("second", ["vjp", "jvp", "partial", "adjoint"])
def test_two_rules_for_one_input(first, second, name):
    operator = elementwise()
    _rule(first, operator, name)
    if {first, second} == {"vjp", "jvp"}:
        _rule(second, operator, name)
        return
    error = refused(lambda: _rule(second, operator, name), f"input '{name}' already has the rule add.{first}")
    assert (error.operator, error.argument) == (f"add.{second}[{name}]", name)
    _rule(second, operator, {"x": "y", "y": "x"}[name])


def test_a_refused_rule_leaves_nothing_behind():
    operator = make()
    operator.vjp("weight")(lambda grad, x: grad * x)
    refused(lambda: operator.vjp("x", "weight")(lambda grad: (grad, grad)), "input 'weight' already has")
    assert "x" not in operator._record.rules["vjp"]
    operator.vjp("x")(lambda grad, weight: grad * weight)


def test_nondifferentiable_and_a_rule():
    operator = make()
    operator.nondifferentiable("x")
    assert refused(lambda: operator.vjp("x")(lambda grad: grad), "already has the rule").got.startswith("scale.nondiff")
    operator.vjp("weight")(lambda grad: grad)
    assert refused(lambda: operator.nondifferentiable("weight"), "already has the rule").argument == "weight"


# -- what rules return ---------------------------------------------------------------------------------------
def _backward(operator, *tensors):
    operator(*tensors).sum().backward()


def _vjp(operator, *tensors):
    out, pull = torch.func.vjp(operator, *[t.detach() for t in tensors])
    pull(torch.ones_like(out))


PATHS = pytest.mark.parametrize("path", [_backward, _vjp])
WRONG = {
    "shape": (lambda grad: grad[:2] + 0, "another shape", "(2,)"),
    "summed": (lambda grad: grad.sum(), "another shape", "()"),
    "rank": (lambda grad: grad[None] + 0, "another shape", "(1, 3)"),
    "dtype": (
        lambda grad: grad.astype("float64") if isinstance(grad, np.ndarray) else grad.double(),
        "dtype",
        "float64",
    ),
    "None": (lambda grad: None, "returned", "NoneType"),
    "tuple": (lambda grad: (grad,), "returned", "tuple"),
    "str": (lambda grad: "text", "returned", "str"),
}


def _array_rule(rule):
    def array_rule(grad: np.ndarray):
        return rule(grad)

    return array_rule


@PATHS
@pytest.mark.parametrize("kind", ["vjp", "adjoint"])
@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("name", ["x", "weight"])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_gradients(path, kind, array, loop, name, wrong):
    rule, problem, got = WRONG[wrong]
    operator = make(np.ndarray if array else Tensor, loop)
    other = {"x": "weight", "weight": "x"}[name]
    getattr(operator, kind)(name)(_array_rule(rule) if array else rule)
    operator.vjp(other)(lambda grad: grad)
    shape = (2, 3) if loop else (3,)
    with pytest.raises(tg.RuleError, match=problem) as caught:
        path(operator, torch.ones(shape, requires_grad=True), torch.ones(3, requires_grad=True))
    error = caught.value
    assert (error.operator, error.argument) == (f"scale.{kind}[{name}]", name)
    assert got.strip("()") in str(error.got)
    assert error.expected


@PATHS
@pytest.mark.parametrize(
    "result", [lambda g: g, lambda g: (g,), lambda g: (g, g, g), lambda g: None], ids=["bare", 1, 3, "None"]
)
def test_the_wrong_number_of_gradients(path, result):
    operator = make()
    operator.vjp("x", "weight")(lambda grad: result(grad))
    with pytest.raises(tg.RuleError, match="wrong number of results") as caught:
        path(operator, torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
    assert caught.value.operator == "scale.vjp[x,weight]"
    assert caught.value.expected == "2: x, weight"


@PATHS
@pytest.mark.parametrize("position", [0, 1])
def test_one_of_two_gradients_is_wrong(path, position):
    operator = make()
    operator.vjp("x", "weight")(lambda grad: tuple(grad[:2] if i == position else grad for i in range(2)))
    with pytest.raises(tg.RuleError, match="another shape") as caught:
        path(operator, torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
    assert caught.value.argument == ["x", "weight"][position]
    assert caught.value.got == "(2,)"


@PATHS
@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize(
    ("rule", "match"),
    [(lambda x: x[:2], "another shape"), (lambda x: None, "returned NoneType"), (lambda x: (x, x), "returned tuple")],
    ids=["shape", "None", "tuple"],
)
def test_wrong_partials(path, name, rule, match):
    operator = elementwise()
    operator.partial(name)(rule)
    operator.vjp({"x": "y", "y": "x"}[name])(lambda grad: grad)
    with pytest.raises(tg.RuleError, match=match) as caught:
        path(operator, torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
    assert caught.value.operator == f"add.partial[{name}]"


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_tangents(array, wrong):
    rule, problem, got = WRONG[wrong]
    operator = make()

    def torch_rule(weight_tangent):
        return rule(weight_tangent)

    def array_rule(weight_tangent: np.ndarray):
        return rule(weight_tangent)

    operator.jvp("weight")(array_rule if array else torch_rule)
    ones = torch.ones(3)
    with pytest.raises(tg.RuleError, match=problem) as caught:
        torch.func.jvp(lambda w: operator(ones, w), (ones,), (ones,))
    assert caught.value.operator == "scale.jvp[weight]"
    assert got.strip("()") in str(caught.value.got)


# -- side effects and aliasing -------------------------------------------------------------------------------
def test_an_array_rule_that_writes_into_what_it_was_given():
    def rule(grad: np.ndarray):
        grad *= 2
        return grad

    operator = make()
    operator.vjp("x")(rule)
    with pytest.raises(tg.RuleError, match="wrote into an array") as caught:
        _backward(operator, torch.ones(3, requires_grad=True), torch.ones(3))
    assert caught.value.operator == "scale.vjp[x]"
    assert "right: return 2 * grad" in caught.value.hint


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_a_rule_that_returns_what_it_was_given(array, later):
    calls = []

    def give(grad):
        calls.append(1)
        return grad if not later or len(calls) > 2 else grad + 0

    operator = make()
    operator.vjp("x")(_array_rule(give) if array else lambda grad: give(grad))
    cotangent = torch.ones(3)
    for _ in range(4):
        x = torch.ones(3, requires_grad=True)
        operator(x, torch.ones(3)).backward(cotangent)
        x.grad.fill_(7)
        assert cotangent.tolist() == [1, 1, 1]


def test_a_rule_that_returns_a_saved_input():
    operator = make()
    operator.vjp("x")(lambda grad, weight: weight)
    x, weight = torch.ones(3, requires_grad=True), torch.ones(3)
    operator(x, weight).sum().backward()
    x.grad.fill_(7)
    assert weight.tolist() == [1, 1, 1]


def test_a_torch_rule_that_writes_into_what_it_is_given():
    """Stock PyTorch lets it pass: the cotangent may be somebody else's too."""

    @tg.op
    def double(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * 2

    @double.vjp("x")
    def _(grad):
        return grad.mul_(2)

    with pytest.raises(tg.RuleError, match="wrote into a tensor") as caught:
        double(torch.ones(3, requires_grad=True)).backward(torch.ones(3))
    assert caught.value.operator == "double.vjp[x]"


@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(2, 3)], ids=["one sample", "a loop"])
def test_a_masked_array_would_lose_its_mask(x):
    @tg.op
    def masked(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return np.ma.masked_less(x, 0.5)

    @tg.op
    def plain(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return x * 1

    @plain.vjp("x")
    def _(grad: np.ndarray):
        return np.ma.masked_less(grad, 0.5)

    looped = torch.vmap if x.dim() > 1 else lambda f: f
    with pytest.raises(tg.KernelError, match="masked array"):
        looped(masked)(x)
    with pytest.raises(tg.RuleError, match="masked array"):
        looped(plain)(x.requires_grad_()).sum().backward()
