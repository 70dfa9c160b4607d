"""What `ctx` says and is told: the same bodies on both bases, with the same answers."""

import threading

import pytest
import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

import torchgraft as tg

from .table import Legacy, X, Y

BASES = pytest.mark.parametrize("base", [torch.autograd.Function, tg.Function], ids=["torch", "torchgraft"])


def define(base, **methods):
    return type("Defined", (base,), {name: staticmethod(method) for name, method in methods.items()})


def leaf(value=X):
    return value.clone().requires_grad_()


def gradients(out, *inputs):
    return [grad.tolist() for grad in torch.autograd.grad(out.sum(), inputs)]


def product(ctx, x, y):
    ctx.save_for_backward(x, y)
    return x * y


def product_backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * y, grad * x


# -- needs_input_grad -------------------------------------------------------------------------------------------------


@BASES
@pytest.mark.parametrize("setup", [False, True], ids=["context", "setup"])
@pytest.mark.parametrize("needs", [(True, False), (False, True), (True, True)], ids=str)
def test_needs_input_grad(base, setup, needs):
    seen = {}

    def look(ctx, inputs, output):
        seen["forward"] = ctx.needs_input_grad

    def forward(x, number, y, index):
        return x + y

    def forward_with_context(ctx, *inputs):
        look(ctx, inputs, None)
        return forward(*inputs)

    def backward(ctx, grad):
        seen["backward"] = ctx.needs_input_grad
        return grad, None, grad, None

    methods = {"forward": forward, "setup_context": look} if setup else {"forward": forward_with_context}
    x, y = (value.clone().requires_grad_(need) for value, need in zip((X, Y), needs, strict=True))
    define(base, backward=backward, **methods).apply(x, 2.0, y, torch.tensor([1])).sum().backward()
    assert seen == dict.fromkeys(["forward", "backward"], (needs[0], False, needs[1], False))
    assert (x.grad is not None, y.grad is not None) == needs


def test_needs_input_grad_numbers_arguments_by_keyword():
    seen = []

    def forward(ctx, x, number=1.0, y=None):
        seen.append(ctx.needs_input_grad)
        return x + y

    f = define(tg.Function, forward=forward, backward=lambda ctx, grad: (None, None, grad))
    y = leaf(Y)
    f.apply(y=y, x=X).sum().backward()
    assert seen == [(False, False, True)]
    assert y.grad.tolist() == [1, 1, 1]


# -- saved tensors and attributes -------------------------------------------------------------------------------------


@BASES
def test_the_last_save_counts(base):
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        ctx.save_for_backward(y, None, x)
        ctx.number, ctx.shape, ctx.words = 3, x.shape, ["a", {"b": 1}]
        return x * y * 3

    def backward(ctx, grad):
        y, nothing, x = ctx.saved_tensors
        assert (nothing, ctx.shape, ctx.words) == (None, (3,), ["a", {"b": 1}])
        return ctx.number * grad * y, ctx.number * grad * x

    x, y = leaf(X), leaf(Y)
    assert gradients(define(base, forward=forward, backward=backward).apply(x, y), x, y) == [
        (3 * Y).tolist(),
        (3 * X).tolist(),
    ]


@BASES
def test_the_context_is_the_node(base):
    def forward(ctx, x, y):
        ctx.label = "kept"
        return product(ctx, x, y)

    x, y = leaf(X), leaf(Y)
    out = define(base, forward=forward, backward=product_backward).apply(x, y)  # of which the node is no owner
    node = out.grad_fn
    assert node.label == "kept"
    assert [saved is given for saved, given in zip(node.saved_tensors, (x, y), strict=True)] == [True, True]
    node.label = "changed"
    assert (node.label, node.needs_input_grad) == ("changed", (True, True))
    assert type(node).__name__ == "DefinedBackward"


@BASES
def test_saved_tensors_are_freed(base):
    x, y = leaf(X), leaf(Y)
    out = define(base, forward=product, backward=product_backward).apply(x, y)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = out.grad_fn.saved_tensors


@BASES
def test_saved_tensors_that_are_cleared_when_read(base):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        with pytest.raises(RuntimeError, match="can only be accessed once"):
            _ = ctx.saved_tensors
        return grad * y, grad * x

    f = define(base, forward=product, backward=backward)
    f.clear_saved_tensors_on_access = True
    x, y = leaf(X), leaf(Y)
    assert gradients(f.apply(x, y), x, y) == [Y.tolist(), X.tolist()]


@BASES
def test_materialized_gradients(base):
    seen = []

    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        inert = x * 2
        ctx.mark_non_differentiable(inert)
        return x * 1, x * 3, inert, (x > 0).long()

    def backward(ctx, *grads):
        seen[:] = [grad if grad is None else (grad.dtype, grad.tolist()) for grad in grads]
        return grads[0], None

    f, x = define(base, forward=forward, backward=backward), leaf()
    first, _, inert, positive = f.apply(x, True)
    assert not inert.requires_grad
    assert not positive.requires_grad
    zeros, ones = (torch.float64, [0, 0, 0]), (torch.float64, [1, 1, 1])
    first.sum().backward()
    assert seen[:3] == [ones, zeros, zeros]
    f.apply(x, False)[0].sum().backward()
    assert seen == [ones, None, None, None]


# -- in place ---------------------------------------------------------------------------------------------------------


def double_in_place(ctx, x, y):
    x.mul_(y)
    ctx.mark_dirty(x)
    ctx.save_for_backward(y)
    return x


def twice(base):
    return define(base, forward=double_in_place, backward=lambda ctx, grad: (grad * ctx.saved_tensors[0], None)).apply


@BASES
def test_dirty_results(base):
    x = leaf()
    middle = x * 1
    out = twice(base)(middle, Y)
    assert out is middle
    assert middle.grad_fn.name() == "DefinedBackward"
    assert middle._version > 0
    assert gradients(middle * 1, x) == [Y.tolist()]


@BASES
def test_dirty_leaf(base):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        twice(base)(leaf(), Y)


@BASES
def test_dirty_without_grad_becomes_part_of_the_graph(base):
    def forward(ctx, buffer, x):
        buffer.add_(x)
        ctx.mark_dirty(buffer)
        return buffer

    buffer, x = torch.zeros(3, dtype=torch.float64), leaf()
    out = define(base, forward=forward, backward=lambda ctx, grad: (None, 5 * grad)).apply(buffer, x)
    assert out is buffer
    assert buffer.requires_grad
    assert gradients(buffer, x) == [[5, 5, 5]]


@BASES
def test_dirty_view(base):
    x = leaf()
    whole = x * 1
    twice(base)(whole[:2], Y[:2])
    torch.testing.assert_close(whole.detach(), X * torch.tensor([-0.5, 3, 1]))
    assert gradients(whole, x) == [[-0.5, 3, 1]]


@BASES
def test_dirty_but_not_returned(base):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 1

    f = define(base, forward=forward, backward=lambda ctx, grad: 2 * grad)
    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned"):
        f.apply(leaf() * 1)


@BASES
def test_dirty_among_several(base):
    def forward(ctx, x, y):
        x.add_(y)
        ctx.mark_dirty(x)
        return x, x * 2

    f = define(base, forward=forward, backward=lambda ctx, a, b: (a + 2 * b, a + 2 * b))
    x, y = leaf(X), leaf(Y)
    first, second = f.apply(x * 1, y)
    assert gradients(first + second, x, y) == [[3, 3, 3], [3, 3, 3]]


@BASES
def test_an_output_may_be_changed_afterwards(base):
    f = define(base, forward=lambda ctx, x: x * 2, backward=lambda ctx, grad: 2 * grad)
    x = leaf()
    out = f.apply(x)
    out.mul_(5)
    assert gradients(out, x) == [[10, 10, 10]]


@BASES
def test_a_view_that_comes_out_may_not_be_changed(base):
    f = define(base, forward=lambda ctx, x: x[:2], backward=lambda ctx, grad: torch.cat([grad, grad[:1] * 0]))
    with pytest.raises(RuntimeError, match="view"):
        f.apply(leaf() * 1).mul_(2)


# -- arguments --------------------------------------------------------------------------------------------------------


@BASES
def test_any_number_of_tensors(base):
    def forward(ctx, *tensors):
        ctx.count = len(tensors)
        return sum(tensors[1:], tensors[0] * 1)

    f = define(base, forward=forward, backward=lambda ctx, grad: tuple((i + 1) * grad for i in range(ctx.count)))
    for count in (1, 2, 5):
        leaves = [leaf() for _ in range(count)]
        assert gradients(f.apply(*leaves), *leaves) == [[i + 1] * 3 for i in range(count)]


@BASES
def test_no_arguments(base):
    f = define(base, forward=lambda ctx: torch.ones(2), backward=lambda ctx, grad: None)
    out = f.apply()
    assert (out.tolist(), out.requires_grad) == ([1, 1], False)


@BASES
def test_defaults(base):
    def forward(ctx, x, y=2.0, z=None):
        ctx.save_for_backward(z)
        ctx.y = y
        return x * y if z is None else x * y * z

    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return (grad * ctx.y * (1 if z is None else z), None, None)[: 1 if z is None else 3]

    f, x = define(base, forward=forward, backward=backward), leaf()
    assert gradients(f.apply(x), x) == [[2, 2, 2]]
    assert gradients(f.apply(x, 3.0, Y), x) == [(3 * Y).tolist()]


@BASES
def test_defaults_beside_setup_context(base):
    seen = []

    def setup_context(ctx, inputs, output):
        seen.append(inputs[1:])
        ctx.k = inputs[1]

    f = define(
        base, forward=lambda x, k=2: x * k, setup_context=setup_context, backward=lambda ctx, g: (ctx.k * g, None)
    )
    x = leaf()
    assert gradients(f.apply(x), x) == [[2, 2, 2]]
    assert gradients(f.apply(x, 7), x) == [[7, 7, 7]]
    assert seen == [(2,), (7,)]


class Weighted(tg.Function):
    """With parameters of every kind."""

    @staticmethod
    def forward(ctx, x, /, weight, *rest, scale=1.0, mode="sum"):
        ctx.save_for_backward(x, weight, *rest)
        ctx.scale = scale
        return (x * weight + sum(rest)) * scale

    @staticmethod
    def backward(ctx, grad):
        x, weight, *rest = ctx.saved_tensors
        grad = grad * ctx.scale
        return grad * weight, grad * x, *[grad for _ in rest]


def test_keywords_of_every_kind():
    x, y, z = leaf(X), leaf(Y), leaf(X + 1)
    assert gradients(Weighted.apply(x, y, z, scale=2.0), x, y, z) == [(2 * Y).tolist(), (2 * X).tolist(), [2, 2, 2]]
    assert gradients(Weighted.apply(x, weight=y, mode="mean"), x, y) == [Y.tolist(), X.tolist()]


def test_a_nested_call_has_keywords_of_its_own():
    class Outer(tg.Function):
        @staticmethod
        def forward(ctx, x, *, k=1.0):
            ctx.k = k
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                ctx.inner = gradients(Weighted.apply(inner, Y, scale=10.0), inner)[0]
            return x * k + Outer.apply(x.detach()) if k > 1 else x * k

        @staticmethod
        def backward(ctx, grad):
            assert ctx.inner == (10 * Y).tolist()
            return grad * ctx.k

    x = leaf()
    assert gradients(Outer.apply(x, k=3.0), x) == [[3, 3, 3]]


def test_keywords_on_several_threads():
    results = {}

    def work(scale):
        for _ in range(100):
            x = leaf()
            results.setdefault(scale, []).append(gradients(Weighted.apply(x, Y, scale=scale), x)[0])

    threads = [threading.Thread(target=work, args=(float(scale),)) for scale in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {scale: len(r) for scale, r in results.items()} == dict.fromkeys([1.0, 2.0, 3.0, 4.0], 100)
    assert all(gradient == (scale * Y).tolist() for scale, found in results.items() for gradient in found)


# -- errors -----------------------------------------------------------------------------------------------------------


class Mine(Exception):
    """Of user code."""


@BASES
@pytest.mark.parametrize("where", ["forward", "setup_context", "backward"])
def test_errors_of_user_code_come_through(base, where):
    broken = [True]

    def fail(place):
        if place == where and broken[0]:
            raise Mine(place)

    def forward(x):
        fail("forward")
        return 2 * x

    def setup_context(ctx, inputs, output):
        fail("setup_context")

    def backward(ctx, grad):
        fail("backward")
        return 2 * grad

    f, x = define(base, forward=forward, setup_context=setup_context, backward=backward), leaf()
    with pytest.raises(Mine, match=where):
        gradients(f.apply(x), x)
    broken[0] = False
    assert gradients(f.apply(x), x) == [[2, 2, 2]]


def test_an_error_leaves_nothing_for_the_next_call():
    def forward(ctx, x, *, k=1.0):
        if k < 0:
            raise Mine
        ctx.k = k
        return k * x

    f, x = define(tg.Function, forward=forward, backward=lambda ctx, grad: ctx.k * grad), leaf()
    with pytest.raises(Mine):
        f.apply(x, k=-1.0)
    with pytest.raises(tg.ArgumentError):
        f.apply(x, k=5.0, unknown=0)
    assert gradients(f.apply(x), x) == [[1, 1, 1]]


# -- what is replaced -------------------------------------------------------------------------------------------------


@BASES
@pytest.mark.parametrize("name", ["forward", "setup_context", "backward"])
def test_a_method_that_is_replaced(base, name):
    def setup_context(ctx, inputs, output):
        ctx.factor = 2

    def changed_setup(ctx, inputs, output):
        ctx.factor = 20

    f = define(base, forward=lambda x: 2 * x, setup_context=setup_context, backward=lambda ctx, g: ctx.factor * g)
    x = leaf(torch.ones(1))
    before = f.apply(x)
    changed = {
        "forward": lambda x: 20 * x,
        "setup_context": changed_setup,
        "backward": lambda ctx, g: 10 * ctx.factor * g,
    }
    setattr(f, name, staticmethod(changed[name]))
    out = f.apply(x)
    assert (out.item(), gradients(out, x)) == {
        "forward": (20, [[2]]),
        "setup_context": (2, [[20]]),
        "backward": (2, [[20]]),
    }[name]
    assert gradients(before, x) == ([[20]] if name == "backward" else [[2]])  # found when it is run


@BASES
def test_a_parent_that_is_replaced(base):
    parent = define(base, forward=lambda ctx, x: 2 * x, backward=lambda ctx, grad: 2 * grad)
    child = type("Child", (parent,), {})
    x = leaf()
    assert gradients(child.apply(x), x) == [[2, 2, 2]]
    parent.backward = staticmethod(lambda ctx, grad: 9 * grad)
    assert gradients(child.apply(x), x) == [[9, 9, 9]]


# -- other derivatives ------------------------------------------------------------------------------------------------


@BASES
def test_once_differentiable(base):
    f = define(base, forward=product, backward=once_differentiable(product_backward))
    x, y = leaf(X), leaf(Y)
    assert gradients(f.apply(x, y), x, y) == [Y.tolist(), X.tolist()]
    (first,) = torch.autograd.grad(f.apply(x, y).sum(), x, create_graph=True)
    torch.testing.assert_close(first.detach(), Y)
    with pytest.raises(RuntimeError, match=r"cannot be differentiated again|does not require grad"):
        torch.autograd.grad(first.sum(), y)


@BASES
def test_backward_that_runs_autograd(base):
    """A backward pass inside of a backward pass, as reversible layers have it."""
    weight = torch.nn.Parameter(Y.clone())

    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        with torch.enable_grad():
            torch.autograd.backward((x.detach() * weight).sin(), grad)
        return grad * (x * weight).cos() * weight, None

    def forward(ctx, x, w):
        return product(ctx, x, w).sin()

    x = leaf()
    define(base, forward=forward, backward=backward).apply(x, weight.detach()).sum().backward()
    torch.testing.assert_close(x.grad, (X * Y).cos() * Y)
    torch.testing.assert_close(weight.grad, (X * Y).cos() * X)


@BASES
def test_a_function_inside_of_forward(base):
    """With grad mode on inside, its graph is one of its own."""
    inner = define(base, forward=product, backward=product_backward)

    def forward(ctx, x):
        ctx.save_for_backward(x)
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            (ctx.slope,) = gradients(inner.apply(again, again), again)
        return inner.apply(x, x)

    f = define(base, forward=forward, backward=lambda ctx, grad: grad * torch.tensor(ctx.slope, dtype=grad.dtype))
    x = leaf()
    out = f.apply(x)
    assert out.grad_fn.next_functions[0][0].variable is x
    assert gradients(out, x) == [(2 * X).tolist()]


# -- autocast ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")  # what a cast makes is an intermediate result
@BASES
@pytest.mark.parametrize("cast", [None, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("autocast", [False, True])
def test_custom_fwd_and_bwd(base, cast, autocast):
    seen = {}

    @custom_fwd(device_type="cpu", cast_inputs=cast)
    def forward(ctx, x, w):
        seen["forward"] = torch.is_autocast_enabled("cpu"), x.dtype, w.dtype
        return product(ctx, x, w)

    @custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        seen["backward"] = torch.is_autocast_enabled("cpu")
        return product_backward(ctx, grad)

    x, w = leaf(torch.ones(3)), leaf(torch.full((3,), 2.0))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = define(base, forward=forward, backward=backward).apply(x, w)
    dtype = cast if autocast and cast else torch.float32
    assert seen["forward"] == (autocast and cast is None, dtype, dtype)
    assert out.dtype == dtype
    out.sum().backward()
    assert seen["backward"] == (autocast and cast is None)
    assert (x.grad.tolist(), x.grad.dtype, w.grad.dtype) == ([2, 2, 2], torch.float32, torch.float32)


@BASES
def test_autocast_inside_of_forward(base):
    """A product in bfloat16, whose gradient comes in bfloat16 and is cast by autograd."""

    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    def backward(ctx, grad):
        x, w = (t.to(grad.dtype) for t in ctx.saved_tensors)
        return grad @ w.mT, x.mT @ grad

    x, w = leaf(torch.ones(2, 3)), leaf(torch.ones(3, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = define(base, forward=forward, backward=backward).apply(x, w)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (torch.float32, [[4] * 3] * 2)


# -- methods of self --------------------------------------------------------------------------------------------------


def test_an_instance_is_not_changed_by_its_calls():
    f, x, y = Legacy(2.0), leaf(X), leaf(Y)
    first, second = f(x), f(y)
    third = f(x)
    plain = lambda t: 2 * t * (t * t).sum()  # noqa: E731
    for out, given in ((third, x), (second, y), (first, x)):
        (expected,) = torch.autograd.grad(plain(given).sum(), given)
        torch.testing.assert_close(torch.autograd.grad(out.sum(), given)[0], expected)
    assert vars(f) == {"factor": 2.0}


def test_calls_of_one_instance_in_each_other():
    f, x = Legacy(2.0), leaf()
    plain = lambda t: 2 * t * (t * t).sum()  # noqa: E731
    for _ in range(2):
        (made,) = torch.autograd.grad(f(f(x)).sum(), x, create_graph=True)
        (expected,) = torch.autograd.grad(plain(plain(x)).sum(), x, create_graph=True)
        torch.testing.assert_close(made, expected)
        torch.testing.assert_close(*(torch.autograd.grad(g.sum(), x)[0] for g in (made, expected)))


def test_attributes_of_an_instance_may_change_between_calls():
    f, x = Legacy(2.0), leaf()
    first = f(x)
    f.factor = 5.0
    second = f(x)
    slopes = [torch.autograd.grad(out.sum(), x)[0] for out in (first, second)]
    torch.testing.assert_close(slopes[1], 2.5 * slopes[0])


def test_every_way_to_call_an_instance():
    x = leaf()
    calls = [Legacy.apply(x), Legacy()(x), Legacy(1.0)(x), Legacy(factor=1.0)(x), Legacy().apply(x)]
    assert all(torch.equal(out, calls[0]) for out in calls)
    assert all(out.grad_fn.name() == "LegacyBackward" for out in calls)


def test_old_names():
    class Old(tg.Function):
        def __init__(self, inplace=False):
            super().__init__()
            self.inplace = inplace

        def forward(self, x, y):
            if self.inplace:
                self.mark_dirty(x)
                out = x.mul_(y)
            else:
                out = x * y
            order = y.argsort()
            self.mark_non_differentiable(order)
            self.save_for_backward(y)
            self.needs = self.needs_input_grad
            return out, order

        def backward(self, grad, _):
            (y,) = self.saved_variables
            assert self.saved_tensors[0] is y
            assert self.needs == self.needs_input_grad == (True, False)
            return grad * y, None

    for inplace in (False, True):
        x = leaf()
        middle = x * 1
        out, order = Old(inplace)(middle, Y)
        assert (out is middle) is inplace
        assert order.tolist() == Y.argsort().tolist()
        assert gradients(out, x) == [Y.tolist()]


def test_instances_of_a_subclass():
    class Twice(Legacy):
        def __init__(self):
            super().__init__(factor=2.0)

        def backward(self, grad):
            return 10 * super().backward(grad)

        def norm(self, x):
            return (x * x * x).sum()

    x = leaf()
    out = Twice()(x)
    torch.testing.assert_close(out.detach(), 2 * X * (X**3).sum())
    expected = 10 * 2 * ((X**3).sum() + 2 * X * X.sum())  # as the parent's backward has it, with the child's norm
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], expected)


def test_static_methods_with_an_instance():
    """An instance of the static dialect is no more than its `apply`."""
    f = define(tg.Function, forward=product, backward=product_backward)
    x, y = leaf(X), leaf(Y)
    assert gradients(f()(x, y), x, y) == [Y.tolist(), X.tolist()]
