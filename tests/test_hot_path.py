"""What the hot path has recognised once does not make it blind: the state of the world may have changed since."""

import threading

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64, Real
from torch import Tensor
from torch.autograd import forward_ad

import torchgraft as tg


@tg.op
def affine(
    x: Float[Tensor, "n"], shift: Float[Tensor, "n"] | None = None, *, factor: float = 2.0
) -> Float[Tensor, "n"]:
    out = x * factor
    return out if shift is None else out + shift


@affine.vjp("x")
def _(grad, factor):
    return grad * factor


@affine.vjp("shift")
def _(grad):
    return grad


@tg.op
def cosine(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.cos(x)


@cosine.partial("x")
def _(x):
    return -torch.sin(x)


def warm(x):
    """Fill the caches of the hot path."""
    for _ in range(2):
        affine(x)
        cosine(x)


def test_every_state_after_the_plain_one():
    x = torch.rand(3)
    warm(x)
    p = x.clone().requires_grad_()
    assert affine(p).grad_fn.name() == "affineBackward"
    with torch.no_grad():
        assert affine(p).grad_fn is None
    with torch.inference_mode():
        assert affine(x).is_inference()
        assert affine(affine(x)).is_inference()
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(affine(forward_ad.make_dual(x, torch.ones(3)))).tangent
        torch.testing.assert_close(tangent, torch.full((3,), 2.0))
    torch.testing.assert_close(torch.func.grad(lambda x: affine(x).sum())(x), torch.full((3,), 2.0))
    torch.testing.assert_close(torch.func.vmap(affine)(torch.stack([x, x])), torch.stack([2 * x, 2 * x]))
    assert affine(x).grad_fn is None
    assert affine(torch.nn.Parameter(x)).requires_grad


def test_optional_tensors_come_and_go():
    x, shift = torch.rand(3), torch.rand(3)
    p = shift.clone().requires_grad_()
    for _ in range(3):
        torch.testing.assert_close(affine(x), 2 * x)
        torch.testing.assert_close(affine(x, shift), 2 * x + shift)
        torch.testing.assert_close(affine(x, shift=None, factor=3.0), 3 * x)
        torch.testing.assert_close(torch.autograd.grad(affine(x, p).sum(), p)[0], torch.ones(3))


def test_numbers_are_converted_on_every_call():
    x = torch.rand(3)
    for factor in (2.0, 2, True, np.float32(2), np.int64(2)):
        torch.testing.assert_close(affine(x, factor=factor), x * float(factor))


def test_shapes_and_dtypes_alternate():
    for _ in range(3):
        for size in (1, 2, 5):
            for dtype in (torch.float32, torch.float64):
                x = torch.rand(size, dtype=dtype)
                assert affine(x).shape == (size,)
                assert affine(x).dtype is dtype
                torch.testing.assert_close(cosine(x), x.cos())
    with pytest.raises(tg.ShapeError):
        affine(torch.rand(2, 3))


def test_a_subclass_keeps_its_type():
    class Tagged(Tensor):
        pass

    x = torch.rand(3)
    warm(x)
    assert type(affine(x.as_subclass(Tagged))) in (Tagged, Tensor)
    torch.testing.assert_close(affine(x.as_subclass(Tagged)).as_subclass(Tensor), 2 * x)


def test_a_rule_declared_after_the_first_call_counts():
    @tg.op
    def late(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * 3

    p = torch.ones(2, requires_grad=True)
    with pytest.raises(tg.DerivativeError):
        late(p).sum().backward()

    @late.vjp("x")
    def _(grad):
        return grad * 3

    torch.testing.assert_close(torch.autograd.grad(late(p).sum(), p)[0], torch.full((2,), 3.0))


def test_a_kernel_declared_after_the_first_call_counts():
    @tg.op
    def replaced(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * 3

    x = torch.ones(2)
    replaced(x)

    @replaced.kernel("cpu")
    def _(x):
        return x * 4

    torch.testing.assert_close(replaced(x), torch.full((2,), 4.0))
    assert replaced.capabilities()["compile"]


def test_default_device_does_not_leave_the_hot_path():
    x = torch.rand(3)
    warm(x)
    calls = []
    caller = type(affine).__call__

    with torch.device("cpu"):
        torch.testing.assert_close(affine(x), 2 * x)
        slow = affine._lowering.call
        affine._lowering.call = lambda *args: calls.append(args) or slow(*args)
        try:
            affine(x)
        finally:
            del affine._lowering.call
    assert caller is type(affine).__call__
    assert calls == []


@tg.op
def blend(
    x: Real[Tensor, "..."], y: Real[Tensor, "..."], low: Real[Tensor, "..."] | None = None,
    high: Real[Tensor, "..."] | None = None, *, times: float = 1.0,
) -> Float[Tensor, "..."]:  # fmt: skip
    return torch.as_tensor(x * y.double().exp() * times, dtype=x.dtype if x.is_floating_point() else torch.float64)


@blend.vjp("x", "y")
def _(grad, x, y, out, times):
    return grad * y.exp() * times, grad * out


@pytest.mark.parametrize(
    ("x", "y"), [("x", "x"), ("x", 2.0), ("x", 2), (3, "x"), ("integers", "x"), ("x", "integers"), ("x", "other")]
)
def test_what_is_like_known_tensors_is_known(x, y, monkeypatch):
    """One tensor twice, two that are absent, numbers and other dtypes are no new combination at every call."""
    tensor = torch.rand(3, dtype=torch.float64)
    given = {"x": tensor, "other": tensor + 1, "integers": torch.tensor([1, 2, 3])}
    arguments = [given.get(value, value) for value in (x, y)]
    expected = torch.as_tensor(arguments[0]).double() * torch.as_tensor(arguments[1]).double().exp() * 2
    torch.testing.assert_close(blend(*arguments, times=2.0), expected)
    planned = []
    plan = blend._record.plan
    monkeypatch.setattr(blend._record, "plan", lambda *args: planned.append(args) or plan(*args))
    torch.testing.assert_close(blend(*arguments, times=2.0), expected)
    assert planned == []


def test_the_gradient_of_one_tensor_twice():
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        (gradient,) = torch.autograd.grad(blend(x, x).sum(), x)
        torch.testing.assert_close(gradient, (1 + x.detach()) * x.detach().exp())
    assert torch.autograd.gradgradcheck(lambda x: blend(x, x), x)


def test_many_threads():
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for i in range(60):
            x = torch.rand(1 + (seed + i) % 7, generator=generator).requires_grad_(i % 2 == 0)
            if not torch.equal(affine(x).detach(), x.detach() * 2):
                failures.append((seed, i))
            if x.requires_grad and not torch.equal(torch.autograd.grad(cosine(x).sum(), x)[0], -x.detach().sin()):
                failures.append((seed, i, "grad"))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_parameter_may_have_any_name():
    """Names of the generated code and of the dispatcher are not taken away from the user."""

    @tg.op
    def named(
        self: Float[Tensor, "n"],
        kernel: Float[Tensor, "n"],
        type: float,
        entry: int,
        *,
        keyset: float,
        info: str = "a",
        in_dims: bool = False,
    ) -> Float[Tensor, "n"]:
        return self * type + kernel * entry * keyset

    @named.vjp("self")
    def _(grad, type):
        return grad * type

    @named.vjp("kernel")
    def _(grad, entry, keyset):
        return grad * entry * keyset

    x, y = torch.rand(3), torch.rand(3)
    for _ in range(2):
        torch.testing.assert_close(named(x, y, 2.0, 3, keyset=0.5), 2 * x + 1.5 * y)
    gradient = torch.func.grad(lambda y: named(x, y, 2.0, 3, keyset=0.5).sum())(y)
    torch.testing.assert_close(gradient, torch.full((3,), 1.5))
    batch = torch.func.vmap(lambda y: named(x, y, 2.0, 3, keyset=0.5))(torch.stack([y, y]))
    torch.testing.assert_close(batch[0], 2 * x + 1.5 * y)


def test_integer_and_saved_outputs_on_the_hot_path():
    @tg.op
    def top(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], tg.Saved[Int64[Tensor, ""], "index"]]:
        return x.amax(), x.argmax()

    @top.vjp("x")
    def _(grad, x, index):
        return torch.zeros_like(x).index_put((index,), grad)

    for _ in range(3):
        p = torch.tensor([1.0, 5.0, 2.0], requires_grad=True)
        out = top(p)
        assert isinstance(out, Tensor)
        assert out.item() == 5.0
        assert torch.autograd.grad(out, p)[0].tolist() == [0.0, 1.0, 0.0]
        assert top(p.detach()).item() == 5.0
