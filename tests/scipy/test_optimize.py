"""Roots and assignments: values are SciPy's, derivatives those of closed forms and differences."""

import doctest
import gc
import itertools
import weakref

import numpy as np
import pytest
import scipy.optimize
import torch

import torchgraft as tg
from torchgraft.scipy import optimize, special
from torchgraft.scipy.optimize import implicit

IMAGINARY = torch.tensor(1j)
SOLVERS = ["hybr", "lm", "broyden1", "broyden2", "anderson", "diagbroyden", "krylov", "df-sane"]


def double(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def cube_root(p):
    return optimize.root(lambda x: x**3 - p, torch.ones_like(p), tol=1e-14).x.sum()


# -- root -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SOLVERS)
def test_root_is_scipys(method):
    p, start = double(2.0), np.zeros((2, 2))
    found = optimize.root(lambda x, p: x + 0.3 * torch.sin(x.flip(0)) - p, torch.from_numpy(start), (p,), method)
    expected = scipy.optimize.root(lambda x, p: x + 0.3 * np.sin(x[::-1]) - p, start, 2.0, method)
    assert found.keys() == expected.keys()
    assert (found.nfev, found.message, found.x.shape) == (expected.nfev, expected.message, expected.x.shape)
    torch.testing.assert_close(found.x.detach(), torch.from_numpy(expected.x), rtol=0, atol=1e-13)
    (slope,) = torch.autograd.grad(found.x.sum(), p)
    exact = (4 / (1 + 0.3 * found.x.cos())).mean()
    torch.testing.assert_close(slope, exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("order", range(1, 5))
def test_derivatives_of_any_order(order):
    """Of p^(1/3)."""
    p, factor = double(2.0), 1.0
    value = cube_root(p)
    for k in range(order):
        (value,) = torch.autograd.grad(value, p, create_graph=True)
        factor *= 1 / 3 - k
    assert value.item() == pytest.approx(factor * 2 ** (1 / 3 - order), rel=1e-12, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "transforms",
    [*itertools.product([torch.func.jacrev, torch.func.jacfwd], repeat=3)],
    ids=lambda found: "-".join(f.__name__ for f in found),
)
def test_transforms_nest(transforms):
    function = cube_root
    for transform in transforms:
        function = transform(function)
    expected = 10 / 27 * torch.tensor([2.0, 3.0]).double() ** (-8 / 3)
    torch.testing.assert_close(torch.vmap(function)(torch.tensor([2.0, 3.0]).double()), expected)


def fixed_point(weight, bias, w):
    h = w.exp() * w[0]  # used as it is, and through w
    called = lambda x: x - special.gammainc(h + 1, torch.nn.functional.linear(x, weight, bias) ** 2 + w)  # noqa: E731
    return optimize.root(called, [0.0, 0.0], tol=1e-14).x


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd, torch.func.hessian])
def test_an_earlier_root_may_be_the_start(transform):
    p = torch.tensor([2.0, 3.0], dtype=torch.float64)

    def warm(p):
        start = optimize.root(lambda x: x**2 - p, torch.ones_like(p), tol=1e-14).x
        return optimize.root(lambda x: x**3 - p, start, tol=1e-14).x.sum()

    torch.testing.assert_close(transform(warm)(p), transform(lambda p: (p ** (1 / 3)).sum())(p))


def test_whatever_is_closed_over_gets_gradients():
    """Leaves, what was computed from them, and what operators take."""
    inputs = double([[0.3, 0.1], [-0.2, 0.5]]), double([0.1, 0.2]), double([0.3, 0.4])
    assert torch.autograd.gradcheck(fixed_point, inputs)


def test_parameters_of_modules_get_gradients():
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 2)  # float32, for which the solver is given torch's Jacobian
    x = optimize.root(lambda x: x - 0.5 * torch.tanh(layer(x)), torch.zeros(2)).x
    assert x.dtype == torch.float32
    found = torch.autograd.grad(x.sum(), layer.parameters())
    weight, bias = (parameter.detach().double().requires_grad_() for parameter in layer.parameters())
    again = optimize.root(lambda x: x - 0.5 * torch.tanh(torch.nn.functional.linear(x, weight, bias)), [0.0, 0.0]).x
    for one, other in zip(found, torch.autograd.grad(again.sum(), (weight, bias)), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-6)


def test_own_functions_of_autograd_are_followed():
    class Double(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return 2 * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    p = double(3.0)
    (slope,) = torch.autograd.grad(optimize.brentq(lambda x: x**2 - Double.apply(p), 0, 5), p)
    assert slope.item() == pytest.approx(6**-0.5)


def test_jacobians_and_callbacks_are_used():
    p, seen, start = double(2.0), [], torch.ones(2).double()
    slopes = lambda x: torch.diag(3 * x**2)  # noqa: E731
    given = optimize.root(lambda x: x**3 - p, start, jac=slopes)
    both = optimize.root(lambda x: (x**3 - p, slopes(x)), start, jac=True)
    assert given.njev == both.njev == 1
    for found in (given, both):
        assert torch.autograd.grad(found.x.sum(), p)[0].item() == pytest.approx(2 / 3 * 2 ** (-2 / 3))
    optimize.root(lambda x: x**3 - p, start, method="krylov", callback=lambda x, f: seen.append((x, f)))
    assert all(isinstance(tensor, torch.Tensor) for pair in seen for tensor in pair)
    assert seen


@pytest.mark.parametrize(
    ("fun", "start", "error", "said"),
    [
        (lambda x: x**2 + 1, [1.0], RuntimeError, "not making good progress"),
        (lambda x: 1.0, [1.0], tg.ArgumentError, "the function returns no tensor"),
        (lambda x: x[:1], [1.0, 2.0], tg.ShapeError, "as many values as unknowns"),
        (lambda x: x + 1j, [1.0], tg.DtypeError, "no real values"),
        (lambda x: (x * IMAGINARY).real, [1.0], tg.DtypeError, "complex"),
        (lambda x: x, torch.zeros(1, dtype=torch.complex64), tg.DtypeError, "is complex"),
        (lambda x: x, torch.zeros(1, device="meta"), tg.DeviceError, "not copied"),
        (lambda x: x, [1j], tg.ArgumentError, "no array of real numbers"),
        (lambda x: x, [torch.ones((), requires_grad=True)], tg.ArgumentError, "no array of real numbers"),
        (lambda x: x, [], RuntimeError, "Improper input parameters"),
    ],
)
def test_wrong_roots_are_refused(fun, start, error, said):
    with pytest.raises(error, match=said):
        optimize.root(fun, start)


def test_what_has_no_derivative_says_so():
    p = double(2.0)
    line = optimize.root(lambda x: torch.stack([x[0] + x[1] - p, 2 * x[0] + 2 * x[1] - 2 * p]), [1.0, 1.0])
    with pytest.raises(tg.DerivativeError, match="Jacobian is singular"):
        torch.autograd.grad(line.x.sum(), p)
    units = optimize.root(lambda x: torch.stack([x[0] - p, 1e-30 * (x[1] - p)]), [2.0, 2.0])  # which is regular
    assert torch.autograd.grad(units.x.sum(), p)[0].item() == pytest.approx(2)
    unused = optimize.root(lambda x: torch.stack([x[0] - p, x[0] - p]), [1.0, 1.0])
    with pytest.raises(tg.DerivativeError, match="Jacobian is singular"):
        torch.autograd.grad(unused.x.sum(), p)
    unfinished = optimize.brentq(lambda x: x**3 - p, 0, 3, maxiter=3, disp=False)
    with pytest.raises(tg.DerivativeError, match="no root has no derivative"):
        torch.autograd.grad(unfinished, p)


def test_what_passes_for_a_root_has_no_derivative():
    """The least square of a function without a root, which SciPy calls a success, and a jump."""
    p = double(2.0)
    least = optimize.root(lambda x: x**2 + p, [1.0], method="lm")
    jump = optimize.brentq(lambda x: torch.where(x > p / 2, x, -x), 0.5, 2.5)
    for found in (least.x.sum(), jump):
        with pytest.raises(tg.DerivativeError, match="is no root, and has no derivative"):
            torch.autograd.grad(found, p)


def test_jacobians_that_are_none_are_refused():
    with pytest.raises(tg.ArgumentError, match="the Jacobian is no tensor"):
        optimize.root(lambda x: x**2 - 2, [1.0], jac=lambda x: 2 * x.numpy())
    with pytest.raises(tg.ArgumentError, match="does not return its Jacobian"):
        optimize.root(lambda x: x**2 - 2, [1.0], jac=True)


class Root(torch.nn.Module):
    def forward(self, p):
        return optimize.root(lambda x: x**3 - p, [1.0]).x


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit
def test_tracers_of_one_graph_are_refused():
    p = double(2.0).detach()
    for trace in (
        lambda: torch.fx.experimental.proxy_tensor.make_fx(Root())(p),
        lambda: torch.export.export(Root(), (p,), strict=False),
        lambda: torch.jit.trace(Root(), (p,)),
    ):
        with pytest.raises(tg.UnsupportedError, match="cannot be part of a graph"):
            trace()


def test_a_function_that_has_changed_is_noticed():
    p, roots = double(2.0), []
    for k in (1.0, 2.0):
        roots.append(optimize.brentq(lambda x: x**3 - k * p, 0, 3))  # noqa: B023 - the mistake
    assert torch.autograd.grad(roots[1], p)[0].item() == pytest.approx(4 ** (1 / 3) / 6)
    with pytest.raises(tg.DerivativeError, match="has changed since it was solved"):
        torch.autograd.grad(roots[0], p)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hybr", "krylov"])
def test_nothing_is_kept(method):
    def call():
        p = torch.ones(1, dtype=torch.float64, requires_grad=True)
        x = optimize.root(lambda x: x**3 + p * x - 1, [1.0], method=method).x
        torch.autograd.grad(x.sum(), p)
        return weakref.ref(p)

    call()
    gc.collect()
    before = len(implicit._OBJECTS)
    gc.disable()
    try:
        assert call()() is None
        assert len(implicit._OBJECTS) == before
    finally:
        gc.enable()


def test_compilers_break_the_graph():
    function = lambda p: 2 * optimize.root(lambda x: x**3 - p, [1.0]).x.sin().sum()  # noqa: E731
    p, compiled = double(2.0), torch.compile(function, backend="eager")
    for value in (p, double(5.0)):
        assert compiled(value).item() == function(value).item()
    assert torch.autograd.grad(compiled(p), p) == torch.autograd.grad(function(p), p)
    whole = torch.compile(lambda p: optimize.brentq(lambda x: x - p, 0.0, 3.0), backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        whole(p)


# -- brentq -----------------------------------------------------------------------------------------------------------


def test_brentq_is_scipys():
    x, told = optimize.brentq(lambda x, p: x**3 - p, 0, 3, (double(2.0),), full_output=True)
    expected, wanted = scipy.optimize.brentq(lambda x: x**3 - 2, 0, 3, full_output=True)
    assert (x.item(), x.shape, told.root) == (expected, (), x)
    assert (told.iterations, told.function_calls, told.flag) == (wanted.iterations, wanted.function_calls, wanted.flag)
    low = optimize.brentq(lambda x: x**3 - 2, torch.tensor(0.0), 3)
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(expected, rel=1e-6, abs=0)


def test_the_inverse_of_an_operator():
    """gammaincinv, and its derivatives of both orders."""
    a, y = double(2.5), double(0.3)
    x = optimize.brentq(lambda x: special.gammainc(a, x) - y, 0, 50, xtol=1e-15)
    first = torch.autograd.grad(x, (a, y), create_graph=True)
    expected = torch.autograd.grad(special.gammaincinv(a, y), (a, y), create_graph=True)
    torch.testing.assert_close(first, expected, rtol=1e-12, atol=0)
    x = optimize.brentq(lambda x: special.gammainc(2.5, x) - y, 0, 50, xtol=1e-15)
    second, wanted = (
        torch.autograd.grad(torch.autograd.grad(value, y, create_graph=True)[0], y)[0]
        for value in (x, special.gammaincinv(2.5, y))
    )
    torch.testing.assert_close(second, wanted, rtol=1e-11, atol=0)


def test_brentq_refuses_what_scipy_refuses():
    with pytest.raises(optimize.ConvergenceError, match=r"Failed to converge after 3 iterations\."):
        optimize.brentq(lambda x: x**3 - 2, 0, 3, maxiter=3)
    with pytest.raises(ValueError, match="must have different signs"):
        optimize.brentq(lambda x: x**3 - 2, 3, 4)
    with pytest.raises(ValueError, match="is NaN"):
        optimize.brentq(lambda x: torch.log(x - 5), 0, 3)
    with pytest.raises(tg.ShapeError, match="is no number"):
        optimize.brentq(lambda x: x, torch.zeros(2), 3)
    with pytest.raises(tg.UnsupportedError, match="several results under vmap"):
        torch.vmap(lambda p: optimize.brentq(lambda x: x - p, 0, 3, full_output=True)[0])(torch.ones(2))
    with pytest.raises(tg.UnsupportedError, match="an end that"):
        torch.vmap(lambda end: optimize.brentq(lambda x: x - 1, 0, end))(torch.ones(2))


# -- assignments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (0, 2)])
def test_assignments_are_scipys(shape, maximize):
    cost = torch.from_numpy(np.random.default_rng(0).normal(size=shape))
    expected = scipy.optimize.linear_sum_assignment(cost.numpy(), maximize)
    for costs in (cost, cost.requires_grad_(), cost.detach().mul(1e6).long()):
        found = optimize.linear_sum_assignment(costs, maximize)
        assert [index.tolist() for index in found] == [index.tolist() for index in expected]


def test_truth_values_are_costs():
    cost = np.array([[True, False, True], [False, True, True]])
    rows, columns = optimize.linear_sum_assignment(torch.from_numpy(cost))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])


def best(cost):
    rows, columns = optimize.linear_sum_assignment(cost)
    return cost[rows, columns].sum()


def test_the_optimal_cost_is_differentiable():
    costs = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 4))).requires_grad_()
    assert torch.autograd.gradcheck(best, (costs[0].detach().requires_grad_(),))
    expected = torch.stack([best(cost) for cost in costs])
    torch.testing.assert_close(torch.vmap(best)(costs), expected)
    torch.testing.assert_close(torch.compile(best, fullgraph=True, backend="aot_eager")(costs[0]), expected[0])
    slopes = torch.func.jacrev(best)(costs[0])
    torch.testing.assert_close(slopes, torch.func.jacfwd(best)(costs[0]))
    assert slopes.sum() == 3


@pytest.mark.parametrize(
    ("cost", "error", "said"),
    [
        (torch.full((2, 2), torch.inf), ValueError, "infeasible"),
        (torch.full((2, 2), torch.nan), ValueError, "invalid numeric entries"),
        (torch.zeros(2), tg.ShapeError, "axes"),
        (torch.zeros(2, 2, dtype=torch.complex64), tg.DtypeError, "complex64"),
    ],
)
def test_wrong_assignments_are_refused(cost, error, said):
    with pytest.raises(error, match=said):
        optimize.linear_sum_assignment(cost)


# -- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["root", "brentq", "linear_sum_assignment"])
def test_examples_print_what_they_say(name):
    names, runner = {"torch": torch} | vars(optimize), doctest.DocTestRunner(verbose=False)
    example = doctest.DocTestParser().get_doctest(getattr(optimize, name).__doc__, names, name, None, 0)
    assert example.examples
    assert runner.run(example).failed == 0
