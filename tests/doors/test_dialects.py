"""Code for torch.autograd.Function on torchgraft's: the same numbers, also where the original cannot go."""

import gc
import pickle
import threading
import weakref

import pytest
import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import forward_ad

import torchgraft as tg
from tests.doors.functions import BOTH, PLAIN, instance

pytestmark = pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
each = pytest.mark.parametrize("name", BOTH)


def x_and_copy():
    x = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    return x, x.detach().clone().requires_grad_()


def derivatives(f, x, order):
    """Values and gradients up to an order."""
    values = [f(x)]
    for _ in range(order):
        (gradient,) = torch.autograd.grad(values[-1].sum(), x, create_graph=True, materialize_grads=True)
        values.append(gradient + 0 * x)
    return [value.detach() for value in values]


@each
@pytest.mark.parametrize("base", [torch.autograd.Function, tg.Function], ids=["torch", "torchgraft"])
def test_values_and_gradients(name, base):
    x, y = x_and_copy()
    torch.testing.assert_close(derivatives(BOTH[name](base), x, 1), derivatives(PLAIN[name], y, 1))


@each
def test_higher_orders(name):
    x, y = x_and_copy()
    torch.testing.assert_close(derivatives(BOTH[name](tg.Function), x, 3), derivatives(PLAIN[name], y, 3))


@each
def test_gradcheck(name):
    if name in ("reverse_gradient", "same_object", "mapped"):
        pytest.skip("its gradient is wrong on purpose")
    x, _ = x_and_copy()
    assert torch.autograd.gradcheck(BOTH[name](tg.Function), x)
    assert torch.autograd.gradgradcheck(BOTH[name](tg.Function), x)


REVERSE = {
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](torch.ones_like(f(x)))[0],
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "grad of grad": lambda f, x: torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(x),
    "jacrev of jacrev": lambda f, x: torch.func.jacrev(torch.func.jacrev(f))(x),
    "vmap": lambda f, x: torch.vmap(f)(torch.stack([x, -x])),
    "vmap over the last axis": lambda f, x: torch.vmap(f, in_dims=1, out_dims=1)(torch.stack([x, -x], 1)),
    "vmap of grad": lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.stack([x, -x])),
    "grad of vmap": lambda f, x: torch.func.grad(lambda x: torch.vmap(f)(x).sum())(torch.stack([x, -x])),
    "vmap of vmap": lambda f, x: torch.vmap(torch.vmap(f))(torch.stack([x, -x]).expand(2, 2, 3)),
}


@each
@pytest.mark.parametrize("transform", REVERSE.values(), ids=REVERSE)
def test_transforms(name, transform):
    f, x = BOTH[name](tg.Function), x_and_copy()[0].detach()
    mapped = "vmap" in next(key for key, value in REVERSE.items() if value is transform)
    if mapped and name == "in_place":
        with pytest.raises(tg.UnsupportedError, match="under vmap: forward changes an argument in place"):
            transform(f, x)
    elif transform is REVERSE["vmap of grad"] and name == "relu":
        try:  # torch maps what its backward does since 2.15
            made = transform(f, x)
        except RuntimeError as error:
            assert "boolean mask" in str(error)  # noqa: PT017 - it need not be raised
        else:
            torch.testing.assert_close(made, transform(PLAIN[name], x))
    else:
        torch.testing.assert_close(transform(f, x), transform(PLAIN[name], x))


FORWARD = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "jacfwd of jacfwd": lambda f, x: torch.func.jacfwd(torch.func.jacfwd(f))(x),
    "hessian": lambda f, x: torch.func.hessian(f)(x),
    "jacrev of jacfwd": lambda f, x: torch.func.jacrev(torch.func.jacfwd(f))(x),
    "three": lambda f, x: torch.func.jacfwd(torch.func.jacrev(torch.func.jacfwd(f)))(x),
    "vmap of jvp": lambda f, x: torch.vmap(lambda x: torch.func.jvp(f, (x,), (x,))[1])(torch.stack([x, -x])),
    "jvp of vmap": lambda f, x: torch.func.jvp(torch.vmap(f), (torch.stack([x, -x]),), (torch.stack([x, x]),)),
}


@pytest.mark.parametrize("transform", FORWARD.values(), ids=FORWARD)
def test_forward_mode(transform):
    x = x_and_copy()[0].detach()
    torch.testing.assert_close(transform(BOTH["power"](tg.Function), x), transform(PLAIN["power"], x))


def test_forward_mode_of_several_outputs():
    x = x_and_copy()[0].detach()
    made = torch.func.jvp(torch.vmap(BOTH["mapped"](tg.Function)), (x,), (x,))
    torch.testing.assert_close(made, torch.func.jvp(torch.vmap(PLAIN["mapped"]), (x,), (x,)))


def test_dual_levels():
    x, _ = x_and_copy()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        out = BOTH["power"](tg.Function)(dual)
        primal, tangent = forward_ad.unpack_dual(out)
        torch.testing.assert_close(tangent, 3 * x**2)
        (mixed,) = torch.autograd.grad(tangent.sum(), x, retain_graph=True)
        torch.testing.assert_close(mixed, 6 * x)
        (gradient,) = torch.autograd.grad(primal.sum(), x)
        torch.testing.assert_close(forward_ad.unpack_dual(gradient).tangent, 6 * x)


# -- the instance dialect -------------------------------------------------------------------------------------------


def test_instances():
    scale = instance()
    x, _ = x_and_copy()
    for call in (scale(), scale(2.0), scale.apply):
        out = call(x)
        (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        torch.testing.assert_close(gradient, 4 * x)
        torch.testing.assert_close(torch.autograd.grad(gradient.sum(), x)[0], torch.full_like(x, 4))


def test_each_call_has_a_state_of_its_own():
    f = instance()(3.0)
    x, y = x_and_copy()
    first, second = f(x), f(2 * y)
    torch.testing.assert_close(torch.autograd.grad(second.sum(), y)[0], 24 * y)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 6 * x)
    assert vars(f) == {"factor": 3.0}


def test_instances_under_transforms():
    f, x = instance()(3.0), x_and_copy()[0].detach()
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(x), 6 * x)
    torch.testing.assert_close(torch.vmap(torch.func.grad(f))(x), 6 * x)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(lambda x: f(x).sum()))(x), 6 * torch.eye(3).double())


# -- arguments --------------------------------------------------------------------------------------------------------


class Weighted(tg.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None, *, scale=1.0):
        ctx.save_for_backward(x, weight)
        ctx.scale, ctx.biased = scale, bias is not None
        return (x * weight + (0 if bias is None else bias)) * scale

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = grad * ctx.scale
        return grad * weight, grad * x, grad if ctx.biased else None


def test_tensors_by_keyword_have_gradients():
    x, w = x_and_copy()
    b = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    out = Weighted.apply(x, bias=b, weight=w, scale=2.0)
    for gradient, expected in zip(
        torch.autograd.grad(out.sum(), [x, w, b]), [2 * w, 2 * x, 2 * torch.ones(3)], strict=True
    ):
        torch.testing.assert_close(gradient, expected.double())
    torch.testing.assert_close(torch.autograd.grad(Weighted.apply(x, w).sum(), x)[0], w)
    torch.testing.assert_close(
        torch.func.grad(lambda x: Weighted.apply(x, weight=w.detach(), scale=3.0).sum())(x.detach()), 3 * w
    )


def test_a_tensor_by_keyword_alone_is_refused():
    class Only(tg.Function):
        @staticmethod
        def forward(ctx, x, *, weight):
            return x * weight

        @staticmethod
        def backward(ctx, grad):
            return grad

    x, w = x_and_copy()
    with pytest.raises(tg.ArgumentError, match="by keyword alone would get no gradient") as caught:
        Only.apply(x, weight=w)
    assert (caught.value.operator, caught.value.argument) == ("Only", "weight")


@pytest.mark.parametrize(
    "call", [lambda x: Weighted.apply(x=x), lambda x: Weighted.apply(x, x, wait=x)], ids=["missing", "unknown"]
)
def test_other_arguments_are_refused(call):
    with pytest.raises(tg.ArgumentError, match="other arguments than its forward takes"):
        call(torch.ones(3))


def test_integers_have_no_gradient():
    x, index = torch.ones(3, requires_grad=True), torch.tensor([2, 0])

    class Take(tg.Function):
        @staticmethod
        def forward(ctx, x, index):
            ctx.save_for_backward(index)
            ctx.shape = x.shape
            return x[index]

        @staticmethod
        def backward(ctx, grad):
            (index,) = ctx.saved_tensors
            return grad.new_zeros(ctx.shape).index_add(0, index, grad), None

    assert torch.autograd.grad(Take.apply(x, index).sum(), x)[0].tolist() == [1, 0, 1]
    assert not Take.apply(torch.arange(3), index).requires_grad


def test_lists_pass_untouched():
    items = [torch.ones(2), {"a": 1}]

    class Keep(tg.Function):
        @staticmethod
        def forward(ctx, x, things, f):
            assert things is items
            return x * f(things[0].sum().item())

        @staticmethod
        def backward(ctx, grad):
            return grad * 4, None, None

    x = torch.ones(3, requires_grad=True)
    assert torch.autograd.grad(Keep.apply(x, items, lambda v: 2 * v).sum(), x)[0].tolist() == [4, 4, 4]


# -- PyTorch around it ----------------------------------------------------------------------------------------------


@each
def test_checkpoint_and_hooks_for_saved_tensors(name):
    f = BOTH[name](tg.Function)
    x, y = x_and_copy()
    out = torch.utils.checkpoint.checkpoint(lambda x: f(x * 1), x, use_reentrant=False)
    with torch.autograd.graph.save_on_cpu():
        other = f(y * 1)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x), torch.autograd.grad(other.sum(), y))


def test_no_grad_and_inference_mode():
    f = BOTH["exp"](tg.Function)
    x, _ = x_and_copy()
    with torch.no_grad():
        assert not f(x).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).exp())
        assert f(x).is_inference()


def test_names():
    x, _ = x_and_copy()
    assert BOTH["exp"](tg.Function)(x).grad_fn.name() == "ExpBackward"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        BOTH["exp"](tg.Function)(x).sum().backward()
    assert {"ExpBackward", "Exp"} <= {event.name for event in profile.events()}


def test_several_threads():
    f, results = BOTH["power"](tg.Function), {}

    def work(k):
        for _ in range(50):
            x = torch.full((3,), 2.0, requires_grad=True)
            f(x, k=k).sum().backward()
        results[k] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {2: [4] * 3, 3: [12] * 3, 4: [32] * 3}


def test_autocast():
    class Product(tg.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad * w, grad * x

    x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = Product.apply(x, w)
    assert out.dtype == torch.bfloat16
    gradients = torch.autograd.grad(out.sum(), [x, w])
    assert [g.dtype for g in gradients] == [torch.float32, torch.float32]  # as torch casts them
    assert gradients[0].tolist() == [2, 2, 2]


def test_inheritance_and_replacement():
    class Parent(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    class Child(Parent):
        @staticmethod
        def backward(ctx, grad):
            return 10 * Parent.backward(ctx, grad)

    x = torch.ones(2, requires_grad=True)
    assert torch.autograd.grad(Child.apply(x).sum(), x)[0].tolist() == [20, 20]
    assert torch.autograd.grad(Parent.apply(x).sum(), x)[0].tolist() == [2, 2]
    Child.backward = staticmethod(lambda ctx, grad: 7 * grad)
    assert torch.autograd.grad(Child.apply(x).sum(), x)[0].tolist() == [7, 7]


def test_nothing_lives_longer_than_the_graph():
    f, scale = BOTH["exp"](tg.Function), instance()
    gc.collect()
    gc.disable()
    try:
        for call in (f, scale(2.0)):
            x = torch.ones(3, requires_grad=True)
            out = call(x)
            seen = weakref.ref(out), weakref.ref(x)
            out.sum().backward()
            del out, x
            assert [reference() for reference in seen] == [None, None]
    finally:
        gc.enable()


def test_errors_are_pickled():
    with pytest.raises(tg.ArgumentError) as caught:
        Weighted.apply(torch.ones(2))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.operator, str(again)) == ("Weighted", str(caught.value))


# -- compilers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in BOTH if name not in ("nested", "numpy_sort", "several", "same_object")]
)
def test_compiled_whole(name):
    f = BOTH[name](tg.Function)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    x, y = x_and_copy()
    out, expected = compiled(x), f(y)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x), torch.autograd.grad(expected.sum(), y))


@each
def test_compiled_transforms_keep_the_derivative(name):
    """On torch 2.13 `compile(grad(Function.apply))` drops it without a word."""
    f = BOTH[name](tg.Function)
    x = x_and_copy()[0].detach()
    gradient = torch.func.grad(lambda x: f(x).sum())
    torch.testing.assert_close(torch.compile(gradient, backend="aot_eager")(x), gradient(x))


def test_compiled_instances():
    scale, x = instance(), torch.ones(3, requires_grad=True)
    out = torch.compile(lambda x: scale(3.0)(x) + 1, backend="aot_eager")(x)
    assert torch.autograd.grad(out.sum(), x)[0].tolist() == [6, 6, 6]


def test_compiled_with_inductor():
    f = BOTH["exp"](tg.Function)
    x, y = x_and_copy()
    out = torch.compile(lambda x: f(x) * 2, fullgraph=True)(x)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], 2 * y.exp())


def test_what_is_found_on_the_base_class():
    """The Dice loss of many a U-Net calls forward of an instance; roma says of a Function that it has no jvp."""

    class Dice(tg.Function):
        def forward(self, x, target):
            self.save_for_backward(x, target)
            return torch.dot(x, target)

    x = torch.ones(3, requires_grad=True)
    Dice().forward(x, torch.full((3,), 2.0)).backward()
    assert x.grad.tolist() == [2, 2, 2]

    class NoForwardMode(tg.Function):
        jvp = tg.Function.jvp

        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    assert torch.func.grad(lambda x: NoForwardMode.apply(x).sum())(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(tg.DerivativeError, match="has no jvp"):
        torch.func.jvp(NoForwardMode.apply, (torch.ones(2),), (torch.ones(2),))


def test_tensors_saved_for_forward_have_a_name_of_their_own():
    class Square(tg.Function):
        @staticmethod
        def forward(x):
            return x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_for_forward
            return 2 * x * tangent

    assert torch.func.jvp(Square.apply, (torch.tensor(3.0),), (torch.tensor(1.0),))[1].item() == 6
