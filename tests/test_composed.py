"""Transforms on top of transforms: each derivative beside that of the plain torch expression."""

import numpy as np
import pytest
import torch
from jaxtyping import Complex, Float, Inexact
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import torchgraft as tg


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# -- adjoints with several cotangents --------------------------------------------------------------------------------


def plain(x, w):
    return 2 * x, 3 * x * w


@tg.op
def on_arrays(
    x: Float[np.ndarray, "n"], w: Float[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    return 2 * x, 3 * x * w


@on_arrays.adjoint("x")
def _(grad_out0: np.ndarray, grad_out1: np.ndarray, w: np.ndarray) -> np.ndarray:
    return 2 * grad_out0 + 3 * w * grad_out1


SPLIT = tg.c("""
void in_c(int64_t n, const T *x, const T *w, T *out0, T *out1) {
    for (int64_t i = 0; i < n; i++) { out0[i] = 2 * x[i]; out1[i] = 3 * x[i] * w[i]; }
}
void in_c_adjoint_x(int64_t n, const T *grad_out0, const T *grad_out1, const T *w, T *grad_x) {
    for (int64_t i = 0; i < n; i++) grad_x[i] = 2 * grad_out0[i] + 3 * w[i] * grad_out1[i];
}
""")


@tg.op(kernel=SPLIT)
def in_c(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]: ...


@in_c.adjoint("x", kernel=SPLIT)
def _(grad_out0, grad_out1, w): ...


def mixed(f, w):
    def value(x):
        one, two = f(x, w)
        return (one.sin() * two.exp()).sum() + two.cos().sum()

    return value


@pytest.mark.parametrize("op", [on_arrays, in_c], ids=["numpy", "c"])
def test_an_adjoint_pushes_the_tangents_of_its_cotangents_jointly(op):
    x, w, t = normal(3), normal(3, seed=1), normal(3, seed=2)
    for transform in (torch.func.hessian, lambda f: lambda x: torch.func.jvp(torch.func.grad(f), (x,), (t,))[1]):
        torch.testing.assert_close(transform(mixed(op, w))(x), transform(mixed(plain, w))(x))


def test_an_adjoint_of_tensors_without_axes_is_differentiated_twice():
    @tg.op
    def scale(x: Float[np.ndarray, ""], w: Float[np.ndarray, ""]) -> Float[np.ndarray, ""]:
        return x * w

    @scale.adjoint("x")
    def _(grad: np.ndarray, w: np.ndarray) -> np.ndarray:
        return grad * w

    @scale.adjoint("w")
    def _(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
        return grad * x

    def f(op):
        return lambda x: op(x, x.exp()).sin()

    x = normal()
    for inner, outer in ((torch.func.grad, torch.func.grad), (torch.func.jacrev, torch.func.jacfwd)):
        found, expected = (outer(inner(f(op)))(x) for op in (scale, torch.mul))
        torch.testing.assert_close(found, expected)


def test_a_hessian_of_a_looped_adjoint_has_a_gradient():
    """Its cotangents have other leading axes than what comes back through the adjoint."""

    @tg.op(batch="loop")
    def three(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"], z: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
        return x * y * z

    @three.adjoint("x")
    def _(grad: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return grad * y * z

    three.adjoint("y")(lambda grad, x, z: grad * x * z)
    three.adjoint("z")(lambda grad, x, y: grad * x * y)
    xs = [normal(2, 2, seed=seed).requires_grad_() for seed in range(3)]

    def gradient(op):
        blocks = torch.func.hessian(lambda *xs: op(*xs).sin().sum(), (0, 1, 2))(*xs)
        return torch.autograd.grad(sum(block.cos().sum() for row in blocks for block in row), xs)

    torch.testing.assert_close(gradient(three), gradient(lambda x, y, z: x * y * z))


# -- tracers whose graphs are differentiated -------------------------------------------------------------------------


@tg.op
def sine(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return torch.sin(x)


@sine.partial("x")
def _(x):
    return torch.cos(x)


@tg.op(batch="loop")
def twice_on_purpose(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * 1


@twice_on_purpose.vjp("x")
def _(grad):
    return 2 * grad


@pytest.mark.parametrize("kind", ["jvp", "partial"])
def test_a_tangent_may_not_depend_on_an_input_that_another_output_reads(kind):
    """It hangs on what was pushed, and is therefore not taken for detached."""

    @tg.op
    def both(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
        return x * y, 2 * x

    if kind == "jvp":
        both.jvp("x", "y")(lambda x_tangent, y_tangent, x, y: (x_tangent * y + x * y_tangent, 2 * x_tangent))
    else:
        both.partial("x")(lambda x, y: (y, 2 + 0 * x))
        both.partial("y")(lambda x: (x, 0 * x))

    def derivatives(f):
        return torch.func.jacrev(torch.func.jacfwd(f, (0, 1)), (0, 1))(normal(3), normal(3, seed=1))

    torch.testing.assert_close(derivatives(both), derivatives(lambda x, y: (x * y, 2 * x)))


def test_a_linearized_map_has_a_gradient():
    y, v = normal(3), normal(3, seed=1)
    for at in (v, torch.zeros_like(v)):
        found, expected = (torch.func.jacrev(torch.func.linearize(f, y)[1])(at) for f in (sine, torch.sin))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "through", [lambda f: torch.func.grad(f), lambda f: torch.func.jacrev(f)], ids=["grad", "jacrev"]
)
def test_a_traced_graph_keeps_the_refusal_of_a_derivative(through):
    """Copied into the graph as a value without a derivative, it would have the derivative 0."""

    @tg.op
    def total(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, ""]:
        return np.sin(x).sum()

    @total.vjp("x")
    def _(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
        return grad * np.cos(x)

    x = normal(3)
    graph = make_fx(through(total))(x)
    torch.testing.assert_close(graph(x), x.cos())
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again"):
        torch.func.grad(lambda x: graph(x).sum())(x)


@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_a_traced_graph_keeps_the_derivative_of_the_rule(mode):
    x = normal(2, 3)
    for op in (twice_on_purpose, torch.vmap(twice_on_purpose)):
        graph = make_fx(op, tracing_mode=mode)(x)
        torch.testing.assert_close(torch.func.grad(lambda x, g=graph: g(x).sum())(x), torch.full_like(x, 2.0))


@tg.op(batch="loop")
def dot(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    return x @ y


dot.adjoint("x")(lambda grad, y: grad * y)
dot.adjoint("y")(lambda grad, x: grad * x)


class Gradient(torch.nn.Module):
    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.batched = batched

    def forward(self, x, y, cotangent):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(dot(x, y), x, cotangent, is_grads_batched=self.batched)[0]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_an_exported_gradient_of_a_rule_that_vmap_maps(batched, lead):
    """The exporter works above vmap, and sees none of it in a backward pass."""
    x, y = normal(*lead, 3), normal(*lead, 3, seed=1)
    cotangent = normal(*(4,) * batched, *lead)
    program = torch.export.export(Gradient(batched), (x, y, cotangent))
    torch.testing.assert_close(program.module()(2 * x, 3 * y, cotangent), cotangent[..., None] * 3 * y)


# -- hooks on saved tensors, checkpoints -----------------------------------------------------------------------------


@tg.op
def product(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * x * y


@product.vjp("x", "y")
def _(grad, x, y):
    return 2 * grad * x * y, grad * x * x


def dual_tangent(f, x, y, t):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, t), y)).tangent


def func_tangent(f, x, y, t):
    return torch.func.jvp(lambda x: f(x, y), (x,), (t,))[1]


def hooked(run):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        return run()


def checkpointed(run):
    return checkpoint(run, use_reentrant=False)


@pytest.mark.parametrize("around", [hooked, checkpointed])
@pytest.mark.parametrize("tangent", [dual_tangent, func_tangent])
def test_forward_mode_derived_from_a_vjp_keeps_its_gradient(around, tangent):
    x, y, t = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_(), normal(3, seed=2)
    found = around(lambda: tangent(product, x, y, t))
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), (x, y)), torch.autograd.grad((2 * x * y * t).sum(), (x, y))
    )


# -- gradients of inputs that were broadcast ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
def test_a_run_that_broadcasts_is_summed_where_it_stands(size):
    """Not the axes that would be summed if the missing ones stood in front: (2, 2) would fit both."""

    @tg.op
    def scaled(x: Float[Tensor, "n *#batch"], s: Float[Tensor, "n *#batch"]) -> Float[Tensor, "n *batch"]:
        return x * s.reshape(*s.shape, *[1] * (x.ndim - s.ndim))

    scaled.vjp("s")(lambda grad, x: grad * x)
    x, s = normal(2, size), normal(2, seed=1).requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(scaled(x, s).sum(), s)[0], x.sum(1))


@pytest.mark.parametrize("size", [2, 3])
def test_a_mapped_axis_is_not_summed_in_the_place_of_a_broadcast_one(size):
    @tg.op
    def times(x: Float[Tensor, "*#batch n"], y: Float[Tensor, "*#batch n"]) -> Float[Tensor, "*batch n"]:
        return x * y

    @times.adjoint("x")
    def _(grad: np.ndarray, y: np.ndarray) -> np.ndarray:
        return grad * y

    times.vjp("y")(lambda grad, x: grad * x)
    x, y, grad = normal(size, 3), normal(2, 3, seed=1).requires_grad_(), normal(size, 3, seed=2)

    def pulled(op):
        return torch.vmap(lambda y: torch.func.vjp(lambda x: op(x, y), x)[1](grad)[0])(y)

    found, expected = (torch.autograd.grad(pulled(op).square().sum(), y)[0] for op in (times, torch.mul))
    torch.testing.assert_close(found, expected)


# -- tangents that enter compiled code from outside ------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True], ids=["first", "compiled before"])
@pytest.mark.parametrize("op", [product, torch.vmap(product)], ids=["plain", "vmap"])
def test_tangents_pass_through_compiled_code(op, warm):
    x, y, t = normal(2, 3), normal(2, 3, seed=1), normal(2, 3, seed=2)
    if op is product:
        x, y, t = x[0], y[0], t[0]
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: op(x, y) + 0 * x, backend="aot_eager", fullgraph=True)
    if warm:
        compiled(x, y)
    try:
        found = dual_tangent(compiled, x, y, t)
    except torch._dynamo.exc.Unsupported as error:  # torch 2.15 itself takes no tangents from outside
        assert "dual tensor input" in str(error)  # noqa: PT017 - other versions raise nothing
        return
    torch.testing.assert_close(found, 2 * x * y * t)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_what_runs_beside_a_graph_is_not_compiled():
    """Dynamo's hook stays set where a transform breaks the graph; it finds functions of torch alone to compile."""
    graphs = []

    def backend(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph

    def pushed(x):
        t = torch.linspace(0, 1, 3, dtype=x.dtype)
        return torch.func.jvp(torch.func.functionalize(lambda x: product(x, x)), (x,), (t,))[1]

    torch._dynamo.reset()
    x = normal(3)
    torch.testing.assert_close(torch.compile(pushed, backend=backend)(x), pushed(x))
    assert all("functorch" not in name for graph in graphs for name in graph), graphs


# -- corners -----------------------------------------------------------------------------------------------------------


@tg.op
def cosine(x: Float[Tensor, ""]) -> Float[Tensor, ""]:
    return torch.cos(x)


@cosine.jvp("x")
def _(x, x_tangent):
    return -torch.sin(x) * x_tangent


@cosine.vjp("x")
def _(grad, x):
    return -torch.sin(x) * grad


@pytest.mark.parametrize(("op", "plain"), [(sine, torch.sin), (cosine, torch.cos)], ids=["partial", "jvp"])
def test_a_tangent_without_axes_has_its_primals_dtype(op, plain):
    """Torch promotes the tangent of ``2.0 * x`` to float64 under torch.func."""
    x = torch.tensor(0.5)
    for f in (lambda f: lambda x: f(2.0 * x), lambda f: lambda x: 3 * f(x / 2.0) * x):
        for outer in (torch.func.hessian, lambda f: torch.func.jacfwd(torch.func.jacfwd(f))):
            torch.testing.assert_close(outer(f(op))(x), outer(f(plain))(x), check_dtype=False)


@pytest.mark.parametrize("transform", [torch.func.hessian, lambda f: lambda x: torch.func.jvp(f, (x,), (x,))[1]])
def test_derivatives_of_no_samples(transform):
    x = torch.zeros(0, 3, dtype=torch.float64)

    def f(op):
        return lambda x: op(x, x.exp()).sum()

    found = torch.vmap(transform(f(product)))(x)
    torch.testing.assert_close(found, torch.vmap(transform(f(lambda x, y: x * x * y)))(x))


@pytest.mark.parametrize("transform", [torch.func.hessian, torch.func.grad, torch.func.jacfwd])
def test_derivatives_of_a_loop_over_no_samples(transform):
    """A blank sample says what depends on what, so that nothing is taken for detached."""

    @tg.op(batch="loop")
    def inner(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, ""]:
        return (x.sqrt() * y).sum()

    inner.vjp("x")(lambda grad, x, y: grad * y / (2 * x.sqrt()))  # not finite at 0
    inner.vjp("y")(lambda grad, x: grad * x.sqrt())
    y = normal(3).requires_grad_()
    found = transform(lambda y: inner(torch.zeros(0, 3, dtype=y.dtype), y.sin()).square().sum())(y)
    torch.testing.assert_close(found, torch.zeros_like(found))
    assert torch.autograd.grad(found.sum(), y)[0].eq(0).all()


def test_a_jacobian_of_no_outputs():
    """Its vmap maps no cotangents, and not even the blank sample of a loop has any."""

    @tg.op(batch="loop")
    def inner(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        return (x * y).sum(), x.sum()

    inner.vjp("x")(lambda grad_out0, y: grad_out0[None] * y)
    inner.vjp("y")(lambda grad_out0, x: grad_out0[None] * x)
    inner.nondifferentiable("out1", reason="it is not wanted")
    x, y = torch.zeros(0, 3, dtype=torch.float64), normal(3)

    def f(op):
        return lambda x, y: op(x, y)[0]

    wanted = torch.func.jacrev(f(lambda x, y: ((x * y).sum(-1), None)), (0, 1))(x, y)
    torch.testing.assert_close(torch.func.jacrev(f(inner), (0, 1))(x, y), wanted)


def test_a_jacobian_of_no_outputs_beside_one_without_a_derivative():
    @tg.op
    def split(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
        return x * y, x - y

    split.vjp("x", "y")(lambda grad_out0, x, y: (grad_out0 * y, grad_out0 * x))
    split.nondifferentiable("out1", reason="it is not wanted")
    x, y = torch.zeros(0), torch.tensor(0.5)  # torch adds no 0-d tensors over no samples
    found = torch.func.jacrev(lambda x, y: split(x, y)[0], (0, 1))(x, y)
    torch.testing.assert_close(found, torch.func.jacrev(torch.mul, (0, 1))(x, y))


def test_what_torch_cannot_transpose_names_the_rule():
    """Torch adds no tensors without axes over no samples: here, what comes back through two rules."""
    x, y, z = torch.zeros(0, 3), torch.ones(3), torch.ones(1)

    @tg.op
    def inner(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "#n"]) -> Float[Tensor, ""]:
        return (x * y * z).sum()

    inner.vjp("x")(lambda grad, y, z: grad[..., None] * y * z)
    inner.vjp("y")(lambda grad, x, z: grad[..., None] * x * z)
    with pytest.raises(IndexError) as caught:
        torch.vmap(lambda x: torch.func.jvp(lambda x, y: inner(x, y, z), (x, y), (y, y)))(x)
    assert "inner.vjp[x], inner.vjp[y]" in caught.value.__notes__[0]


@pytest.mark.parametrize("lazily", [torch._neg_view, torch.conj], ids=["negated", "conjugated"])
def test_lazy_views_under_vmap_and_forward_mode(lazily):
    """Torch has no views of a dual tensor whose primal alone is lazily negated."""
    x, t = normal(4, 3), normal(4, 3, seed=1)
    if lazily is torch.conj:
        x, t = torch.complex(x, t), torch.complex(t, x)

    def f(op):
        return lambda x: torch.vmap(op)(x, x)

    @tg.op
    def times(x: Inexact[Tensor, "n"], y: Inexact[Tensor, "n"]) -> Inexact[Tensor, "n"]:
        return x * y

    @times.jvp("x", "y")
    def _(x, y, x_tangent, y_tangent):
        return x_tangent * y + x * y_tangent

    found, expected = (torch.func.jvp(f(op), (lazily(x),), (t,)) for op in (times, torch.mul))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("op", "truth"), [(product, lambda x, w: x * x * w), (on_arrays, plain)], ids=["vjp", "adjoint"]
)
def test_an_expanded_input_of_a_functionalized_derivative(op, truth):
    """Torch fails on each view of such a dual; the primal that a dual is made of is a view."""
    x, w, t = normal(1).expand(3).requires_grad_(), normal(3, seed=1), normal(3, seed=2)

    def pushed(f):
        def value(x):
            return sum(torch.utils._pytree.tree_leaves(f(x, w))).sin().sum()

        return torch.func.functionalize(lambda x: torch.func.jvp(torch.func.grad(value), (x,), (t,))[1])(x)

    torch.testing.assert_close(pushed(op), pushed(truth))


def test_tangents_without_axes_are_added_over_no_samples():
    """Torch raises where a mapped tensor without axes meets one that is not mapped, over no samples."""

    @tg.op
    def scaled(x: Float[Tensor, ""], w: Float[Tensor, ""]) -> Float[Tensor, ""]:
        return x * w

    scaled.adjoint("x")(lambda grad, w: grad * w)
    scaled.adjoint("w")(lambda grad, x: grad * x)
    one = torch.ones((), dtype=torch.float64)

    def pushed(w):
        return torch.func.jvp(scaled, (one, one), (one, w))[1]

    assert torch.vmap(pushed)(normal(0)).shape == (0,)
    torch.testing.assert_close(torch.vmap(pushed)(normal(3)), 1 + normal(3))


# -- kernels that a handler of a mode, or of a subclass, calls -------------------------------------------------------


class Wrapper(Tensor):
    """A subclass whose handler calls the operator on the tensor inside."""

    @staticmethod
    def __new__(cls, inner):
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        inner = [arg.inner if isinstance(arg, cls) else arg for arg in args]
        return cls(function(*inner, **(kwargs or {})))


@tg.op
def conjugated(z: Complex[Tensor, "n"]) -> Complex[Tensor, "n"]:
    return z.conj() * 2


@tg.op
def totals(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x.cumsum(0)


Z = torch.complex(normal(3), normal(3, seed=1))


def test_a_kernel_keeps_conjugations_under_a_mode_and_in_a_subclass():
    """torch leaves the key of conjugation out while it runs a handler, and in what the handler calls."""
    with FlopCounterMode(display=False):
        torch.testing.assert_close(conjugated(Z), Z.conj() * 2)
    torch.testing.assert_close(conjugated(Wrapper(Z)).inner, Z.conj() * 2)


def test_a_kernel_is_mapped_under_a_mode():
    """torch.vmap in a handler hands wrapped tensors to kernels of C++, which crash."""
    x = normal(4, 3)
    with FlopCounterMode(display=False):
        torch.testing.assert_close(torch.vmap(totals)(x), x.cumsum(1))
