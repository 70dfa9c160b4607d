"""What the matrix cannot show with one backend and one size: Inductor, dynamic shapes, recompilation, graphs."""

import io

import pytest
import torch
from jaxtyping import Float, Inexact
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import torchgraft as tg
from examples.correlate2d import correlate2d
from examples.linear import linear
from examples.softplus import softplus

from . import operators as ops
from .cases import CASES, ONE_OF_EACH, REVERSE, Case
from .default import by_default
from .matrix import assert_same
from .test_examples import conv2d

EXAMPLES = {
    "linear": (linear, torch.nn.functional.linear, lambda n: (torch.randn(n, 4), torch.randn(n + 1, 4))),
    "correlate2d": (correlate2d, conv2d, lambda n: (torch.randn(n, n + 3, n + 4), torch.randn(2, 3))),
    "softplus": (softplus, torch.nn.functional.softplus, lambda n: (torch.randn(n, 4),)),
}
examples = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def gradients(f, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    x = tuple(a.detach().clone().requires_grad_() for a in arguments)
    out = f(*x)
    return (out.detach(), *torch.autograd.grad(out.abs().square().sum(), x))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.name in ("linear", "correlate2d", "softplus", "global_max", "mixture")],
    ids=lambda case: case.name,
)
def test_inductor(case: Case):
    compiled = torch.compile(case.smooth(case.call), fullgraph=True)
    torch.testing.assert_close(
        gradients(compiled, case.primals()), gradients(case.smooth(case.reference), case.primals())
    )


@pytest.mark.slow
@examples
def test_dynamic_shapes_compile_once(name: str):
    op, reference, make = EXAMPLES[name]
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda *x: op(*x).sin(), backend=counter, fullgraph=True, dynamic=True)
    for n in (5, 7, 9):
        arguments = make(n)
        torch.testing.assert_close(
            gradients(compiled, arguments), gradients(lambda *x: reference(*x).sin(), arguments), rtol=1e-4, atol=1e-5
        )
    assert counter.frame_count == 1


@examples
def test_a_call_is_one_graph_and_compiles_once(name: str):
    op, _, make = EXAMPLES[name]
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda *x: op(*x).sin(), backend=counter)
    arguments = make(5)
    for _ in range(3):
        torch.testing.assert_close(compiled(*arguments), op(*arguments).sin())
    assert counter.frame_count == 1


@tg.op(batch="loop")
def solve(a: Float[Tensor, "n n"], b: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return torch.linalg.solve(a, b)  # checks for singular matrices, an effect that compilers order with tokens


@solve.vjp("b")
def _(grad, a):
    return torch.linalg.solve(a.mT, grad)


@pytest.mark.slow
def test_a_kernel_with_effects_is_compiled_and_exported():
    a, b = torch.eye(3) + 0.2 * torch.rand(3, 3), torch.rand(3)
    expected = gradients(lambda b: torch.linalg.solve(a, b), (b,))
    compiled = torch.compile(lambda b: solve(a, b), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(gradients(compiled, (b,)), expected)

    class Module(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return solve(a, b)

    program = torch.export.export(Module(), (a, b)).run_decompositions()
    torch.testing.assert_close(program.module()(a, b), expected[0])


def test_double_backward_of_a_compiled_function_is_refused():
    x = torch.rand(3, requires_grad=True)
    for f in (torch.sigmoid, softplus):  # by AOTAutograd, and never silently wrong
        (first,) = torch.autograd.grad(torch.compile(f, backend="aot_eager")(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"double backward|does not require grad"):
            first.sum().backward()


@pytest.mark.slow
def test_operators_whose_first_calls_are_traced():
    """More of them than Dynamo begins anew, one within the body of another operator of torch."""

    def declare():
        @tg.op
        def untouched(x: Float[Tensor, "n"], times: float = 2.0) -> Float[Tensor, "n"]:
            return x * times

        return untouched

    operators = [declare() for _ in range(101)]

    def function(x):
        for op in operators[:-1]:
            x = op(x, times=1.0)
        return torch.cond(x.sum() > 0, lambda x: operators[-1](x, times=3.0), lambda x: -x, (x,)) + 1

    backend = CompileCounterWithBackend("eager")
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    x = torch.ones(2)
    for _ in range(2):
        assert compiled(x).tolist() == [4.0, 4.0]
    assert operators[0](x).tolist() == [2.0, 2.0]
    assert compiled(x).tolist() == [4.0, 4.0]
    assert backend.frame_count == 1


def test_a_graph_from_before_a_declaration_is_not_used():
    @tg.op
    def changing(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * 3

    compiled = torch.compile(lambda x: changing(x), backend="aot_eager", fullgraph=True)
    x = torch.ones(2)
    assert compiled(x).tolist() == [3.0, 3.0]
    changing.kernel("cpu")(lambda x: x * 4)
    assert compiled(x).tolist() == [4.0, 4.0]


def test_two_operators_of_one_shape_are_told_apart():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def apply(op, x: Tensor) -> Tensor:
        return op(x)

    x = torch.rand(3)
    torch.testing.assert_close(apply(ops.cube, x), x**3)
    torch.testing.assert_close(apply(ops.fourth, x), x**4)


@pytest.mark.slow
def test_a_graph_break_beside_the_operator():
    @torch.compile(backend="aot_eager")
    def f(x: Tensor) -> Tensor:
        y = softplus(x)
        torch._dynamo.graph_break()
        return softplus(y)

    x = torch.rand(3, requires_grad=True)
    f(x).sum().backward()
    y = x.detach().clone().requires_grad_()
    softplus(softplus(y)).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def some_by_default(cases):
    """Over one operator of each kind, and with the slow tests over all."""
    rows = by_default(cases, lambda case: case.name in ONE_OF_EACH, lambda case: case.name)
    return pytest.mark.parametrize("case", rows)


@pytest.mark.parametrize(
    "case",
    by_default(
        [case for case in CASES if case.in_matrix],
        lambda case: case.name in ("linear", "linear_cpp"),
        lambda case: case.name,
    ),
)
def test_exported_torch_kernels_are_aten(case: Case):
    """Torch kernels decompose and load without torchgraft; NumPy kernels stay one call."""
    raw = case.raw(case.call)

    class Module(torch.nn.Module):
        def forward(self, *leaves: Tensor) -> tuple[Tensor, ...]:
            return raw(*leaves)

    program = torch.export.export(Module(), tuple(case.leaves())).run_decompositions()
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    namespaces = {target.split(".")[0] for target in targets}
    if case.torch_kernel:
        assert namespaces <= {"aten", "<built-in function getitem>", "prims"}
    else:
        assert case.op.torch_op.namespace in namespaces
    assert_same(program.module()(*case.leaves()), raw(*case.leaves()))


@examples
def test_export_with_named_dynamic_shapes(name: str):
    op, reference, make = EXAMPLES[name]

    class Module(torch.nn.Module):
        def forward(self, *x: Tensor) -> Tensor:
            return op(*x)

    batch = torch.export.Dim("batch", min=2, max=1000)
    arguments = make(5)
    shapes = ({0: batch}, *({} for _ in arguments[1:]))
    program = torch.export.export(Module(), arguments, dynamic_shapes=(shapes,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    other = (torch.randn(11, *arguments[0].shape[1:]), *arguments[1:])
    torch.testing.assert_close(loaded(*other), reference(*other))


def test_an_exported_training_graph_keeps_the_rules():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            return softplus(linear(x, self.weight))

    module = Module()
    x = torch.randn(5, 4)
    exported = torch.export.export(module, (x,)).module()
    exported(x).sum().backward()
    module(x).sum().backward()
    torch.testing.assert_close(dict(exported.named_parameters())["weight"].grad, module.weight.grad)


@tg.op
def spike(v: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return (v > 0).to(v.dtype)


@spike.surrogate("v", of=torch.sigmoid)
def _(grad, v):
    return grad * torch.sigmoid(v) * (1 - torch.sigmoid(v))


@tg.op
def norms(x: Inexact[Tensor, "*batch n"], y: Float[Tensor, "n"]) -> Float[Tensor, "*batch"]:
    return (x.abs() * y).square().sum(-1).sqrt()


IN_ATEN = {
    "surrogate": (spike, [torch.rand(3)]),
    "without rules": (norms, [torch.rand(2, 3), torch.rand(3)]),
    "complex": (norms, [torch.rand(2, 3, dtype=torch.complex128), torch.rand(3, dtype=torch.float64)]),
    "empty": (torch.vmap(norms, in_dims=(0, None)), [torch.rand(2, 0), torch.rand(0)]),
}


@pytest.mark.parametrize("name", by_default(IN_ATEN, {"without rules"}.__contains__))
def test_a_program_in_aten_alone_has_no_derivative(name: str):
    """Its rules are gone with the operator, and the body's derivative may be another: here of a step, and at 0."""
    f, inputs = IN_ATEN[name]

    class Module(torch.nn.Module):
        def forward(self, *inputs: Tensor) -> Tensor:
            return f(*inputs)

    program = torch.export.export(Module(), tuple(inputs)).run_decompositions()
    assert {str(node.target).split(".")[0] for node in program.graph.nodes if node.op == "call_function"} == {"aten"}
    values = program.module()
    assert_same(values(*inputs), f(*inputs))
    for i, x in enumerate(inputs):
        leaf = x.clone().requires_grad_()
        made = values(*inputs[:i], leaf, *inputs[i + 1 :])
        with pytest.raises(RuntimeError, match="derivative for aten::copy is not implemented"):
            made.sum().backward()
    with pytest.raises((RuntimeError, NotImplementedError), match=r"aten::copy|forward AD with copy"):
        torch.func.jvp(values, tuple(inputs), tuple(map(torch.ones_like, inputs)))


@some_by_default(case for case in CASES if case.in_matrix and REVERSE not in case.cannot)
def test_autocast_eager_and_compiled_agree(case: Case):
    x = tuple(v.detach() for v in case.primals(torch.float32))
    f = case.smooth(case.call, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        eager = gradients(f, x)
        compiled = gradients(torch.compile(f, backend="aot_eager", fullgraph=True), x)
    assert_same(compiled, eager)
    assert [g.dtype for g in eager[1:]] == [v.dtype for v in x]
