"""Second derivatives of Functions are right, or refused: however backward loses them, however one asks for them."""

import copy
import ctypes
import functools
import io
import itertools
import pickle
import types
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

from ..default import by_default
from .table import X

pytestmark = [
    pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning"),
    pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True"),
    pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad"),
    pytest.mark.filterwarnings("ignore:To copy construct from a tensor"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
]


def plain(x):
    return x * (x * x).sum()


def loss(f, x):
    return (f(x) * torch.arange(1, 4)).sum()


def unchanged(value):
    return value


def coupled(in_backward=unchanged, in_jvp=unchanged, *, of_grad=False):
    """x (x x).sum(), in whose derivatives one factor of one term goes through a function that gives its value."""

    class Coupled(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * (x * x).sum()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            first, second = (in_backward(grad), x) if of_grad else (grad, in_backward(x))
            return first * (x * x).sum() + 2 * second * (grad * x).sum()

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return tangent * (x * x).sum() + 2 * in_jvp(x) * (tangent * x).sum()

    return Coupled.apply


# -- ways to ask ------------------------------------------------------------------------------------------------------


def rows(first, x, **options):
    """The derivative of a vector, row by row."""
    seeds = torch.eye(x.numel(), dtype=x.dtype)
    return torch.stack([torch.autograd.grad(first, x, seed, retain_graph=True, **options)[0] for seed in seeds])


def by_create_graph(f, x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(f, x), x, create_graph=True)
    return rows(first, x)


def by_create_graph_and_a_term(f, x):
    """Beside another term nothing tells that the derivative of the first one is missing."""
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(f, x), x, create_graph=True)
    return rows(first + 0 * x, x)


def by_allow_unused(f, x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(f, x), x, create_graph=True)
    return rows(first, x, allow_unused=True, materialize_grads=True)


def by_backward(f, x):
    x = x.clone().requires_grad_()
    loss(f, x).backward(create_graph=True)
    return rows(x.grad + 0 * x, x)


def by_a_middle_tensor(f, x):
    """The argument is no leaf, and no one but the graph has it."""
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(f, x * 1), x, create_graph=True)
    return rows(first + 0 * x, x)


def by_checkpoint(f, x):
    x = x.clone().requires_grad_()
    made = checkpoint(lambda x: loss(f, x), x, use_reentrant=False)
    (first,) = torch.autograd.grad(made, x, create_graph=True)
    return rows(first + 0 * x, x)


def by_autograd_functional(f, x):
    return torch.autograd.functional.hessian(lambda x: loss(f, x), x)


def by_hooks(f, x):
    x = x.clone().requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        (first,) = torch.autograd.grad(loss(f, x), x, create_graph=True)
        return rows(first + 0 * x, x)


def by_jacrev_of_grad(f, x):
    return torch.func.jacrev(torch.func.grad(lambda x: loss(f, x)))(x)


def by_grad_of_grad(f, x):
    first = torch.func.grad(lambda x: loss(f, x))
    return torch.stack([torch.func.grad(lambda x, i=i: first(x)[i] + 0 * x.sum())(x) for i in range(x.numel())])


def by_vmap_of_grad_of_grad(f, x):
    first = torch.func.grad(lambda x: loss(f, x))
    return torch.vmap(torch.func.grad(lambda x, seed: (first(x) * seed).sum()), (None, 0))(x, torch.eye(3).to(x.dtype))


def by_grad_of_autograd(f, x):
    def first(x):
        return torch.autograd.grad(loss(f, x), x, create_graph=True)[0] + 0 * x

    return torch.stack([torch.func.grad(lambda x, i=i: first(x)[i])(x) for i in range(x.numel())])


def by_autograd_of_grad(f, x):
    x = x.clone().requires_grad_()
    return rows(torch.func.grad(lambda x: loss(f, x))(x) + 0 * x, x)


def by_forward_over_reverse(f, x):
    return torch.func.hessian(lambda x: loss(f, x))(x)


def by_jvp_of_grad(f, x):
    first = torch.func.grad(lambda x: loss(f, x))
    return torch.stack([torch.func.jvp(first, (x,), (seed,))[1] for seed in torch.eye(3, dtype=x.dtype)], 1)


def by_a_dual_level(f, x):
    x = x.clone().requires_grad_()
    columns = []
    for seed in torch.eye(3, dtype=x.dtype):
        with forward_ad.dual_level():
            (first,) = torch.autograd.grad(loss(f, forward_ad.make_dual(x, seed)), x)
            tangent = forward_ad.unpack_dual(first).tangent
            columns.append(torch.zeros_like(x) if tangent is None else tangent)
    return torch.stack(columns, 1)


def by_grad_in_a_dual_level(f, x):
    columns = []
    for seed in torch.eye(3, dtype=x.dtype):
        with forward_ad.dual_level():
            first = torch.func.grad(lambda x: loss(f, x))(forward_ad.make_dual(x, seed))
            tangent = forward_ad.unpack_dual(first).tangent
            columns.append(torch.zeros_like(x) if tangent is None else tangent)
    return torch.stack(columns, 1)


def by_jacrev_of_jacfwd(f, x):
    return torch.func.jacrev(torch.func.jacfwd(lambda x: loss(f, x)))(x)


def by_jacfwd_of_jacfwd(f, x):
    return torch.func.jacfwd(torch.func.jacfwd(lambda x: loss(f, x)))(x)


def by_reverse_over_dual(f, x):
    x = x.clone().requires_grad_()
    found = []
    for seed in torch.eye(3, dtype=x.dtype):
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(loss(f, forward_ad.make_dual(x, seed))).tangent
            found.append(torch.autograd.grad(tangent + 0 * x.detach().sum() + 0 * x.sum(), x)[0])
    return torch.stack(found)


OF_BACKWARD = [
    by_create_graph,
    by_create_graph_and_a_term,
    by_allow_unused,
    by_backward,
    by_a_middle_tensor,
    by_checkpoint,
    by_autograd_functional,
    by_hooks,
    by_jacrev_of_grad,
    by_grad_of_grad,
    by_vmap_of_grad_of_grad,
    by_grad_of_autograd,
    by_autograd_of_grad,
    by_forward_over_reverse,
    by_jvp_of_grad,
    by_a_dual_level,
    by_grad_in_a_dual_level,
]
OF_JVP = [by_jacrev_of_jacfwd, by_jacfwd_of_jacfwd, by_reverse_over_dual]


def name_of(way):
    return way.__name__.removeprefix("by_")


def each(ways):
    return pytest.mark.parametrize("way", ways, ids=name_of)


# Plain autograd, `torch.func` in reverse and in forward mode, and surroundings for which there is code.
USUAL = (by_create_graph_and_a_term, by_grad_of_grad, by_forward_over_reverse, by_a_dual_level, by_checkpoint)


def product(table, ways):
    """Each row of a table in each way; by default a few rows in all ways, and all rows in the usual ways."""
    few = list(table)[:3]
    rows = by_default(
        itertools.product(table, ways), lambda name, way: name in few or way in USUAL,
        lambda name, way: f"{name_of(way)}-{name}",
    )  # fmt: skip
    return pytest.mark.parametrize(("name", "way"), rows)


def right_or_refused(way, f, reference=plain):
    """Whether the Hessian is right, or was refused; a wrong one is an AssertionError."""
    try:
        found = way(f, X)
    except RuntimeError:
        return "refused"
    torch.testing.assert_close(found, torch.func.hessian(lambda x: loss(reference, x))(X))
    return "right"


@each(OF_BACKWARD + OF_JVP)
def test_nothing_is_lost(way):
    assert right_or_refused(way, coupled()) == "right"


# -- what loses a derivative, and gives the value all the same --------------------------------------------------------


def no_grad(t):
    with torch.no_grad():
        return t * 1


def inference_mode(t):
    with torch.inference_mode():
        made = t * 1
    return made.clone()


def set_grad_enabled(t):
    torch.set_grad_enabled(False)
    made = t * 1
    torch.set_grad_enabled(True)
    return made


def written_element_by_element(t):
    made = torch.zeros_like(t)
    for i in range(len(t)):
        made[i] = t[i].item()
    return made


def copied_into_a_buffer(t):
    return torch.empty_like(t).copy_(t.detach())


def out_argument(t):
    made = torch.empty_like(t)
    torch.mul(t.detach(), 1, out=made)
    return made


def from_memory(t):
    array = np.empty(t.shape)
    ctypes.memmove(array.ctypes.data, t.contiguous().data_ptr(), array.nbytes)
    return torch.from_numpy(array)


def through_a_file(t):
    file = io.BytesIO()
    torch.save(t.detach(), file)
    file.seek(0)
    return torch.load(file)


def graph_of_its_own(t):
    """The gradient of a graph that starts from a detached tensor."""
    with torch.enable_grad():
        inner = t.detach().requires_grad_()
        return torch.autograd.grad((inner * inner).sum() / 2, inner)[0]


def graph_that_is_not_recorded(t):
    with torch.enable_grad():
        inner = t if t.requires_grad else t.detach().requires_grad_()
        return torch.autograd.grad((inner * inner).sum() / 2, inner)[0]


class Detaching(tg.Function):
    """One that loses it in a backward of its own."""

    @staticmethod
    def forward(ctx, t):
        return t.detach() * 1

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * 0


@torch.library.custom_op("tests_function::opaque_copy", mutates_args=())
def opaque_copy(t: Tensor) -> Tensor:
    return t.clone()


LOSE = {
    "detach": lambda t: t.detach(),
    "data": lambda t: t.data,
    "detach and clone": lambda t: t.detach().clone(),
    "a view of it": lambda t: t.detach().view(3)[:],
    "twice the half": lambda t: 0.5 * t + 0.5 * t.detach(),
    "operator": lambda t: op_copy(t.detach()),
    "torch's Function": lambda t: Copy.apply(t.detach()),
    "our Function": lambda t: OurCopy.apply(t.detach()),
    "no_grad": no_grad,
    "decorated with no_grad": torch.no_grad()(lambda t: t * 1),
    "inference_mode": inference_mode,
    "set_grad_enabled": set_grad_enabled,
    "numpy": lambda t: torch.from_numpy(t.detach().numpy().copy()),
    "numpy, forced": lambda t: torch.from_numpy(t.numpy(force=True).copy()),
    "np.asarray": lambda t: torch.as_tensor(np.asarray(t.detach())),
    "dlpack": lambda t: torch.from_dlpack(t.detach()),
    "tolist": lambda t: torch.tensor(t.tolist(), dtype=t.dtype),
    "item": written_element_by_element,
    "float": lambda t: torch.stack([torch.tensor(float(e), dtype=t.dtype) for e in t]),
    "new_tensor": lambda t: t.new_tensor(t.tolist()),
    "torch.tensor": lambda t: torch.tensor(t),
    "buffer": copied_into_a_buffer,
    "buffer, by slices": lambda t: t.new_zeros(3).index_copy(0, torch.arange(3), t.detach()),
    "out": out_argument,
    "memory": from_memory,
    "file": through_a_file,
    "graph of its own": graph_of_its_own,
    "custom operator": opaque_copy,
    "norm by item": lambda t: t / t.norm() * t.norm().item(),
    "where": lambda t: torch.where(t > 0, t, t.detach()),
    "concatenated": lambda t: torch.cat([t[:1], t[1:].detach()]),
    "vmap": lambda t: torch.vmap(lambda e: e.detach() * 1)(t),
    "vmap, of the last axis": lambda t: torch.vmap(lambda e: e.detach() * 1, 1, 1)(t[None])[0],
    "torch.func.grad": lambda t: torch.func.grad(lambda z: (z * t.detach()).sum())(t),
    "torch.func.jvp": lambda t: torch.func.jvp(lambda z: z * z.detach(), (t,), (torch.ones_like(t),))[1],
    "bits": lambda t: t.view(torch.int64).view(t.dtype),
    "stack of numbers": lambda t: torch.stack([t[0], t[1].data, t[2]]),
}
lose = pytest.mark.parametrize("name", LOSE)


@product(LOSE, OF_BACKWARD)
def test_a_factor_that_backward_loses(name, way):
    right_or_refused(way, coupled(in_backward=LOSE[name]))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch 2.15 maps a custom operator so
@product(LOSE, OF_BACKWARD)
def test_a_cotangent_that_backward_loses(name, way):
    f = coupled(in_backward=LOSE[name], of_grad=True)
    right_or_refused(way, lambda x: f(x.sin()).sin(), lambda x: plain(x.sin()).sin())


def untold(t):
    with torch._C.DisableTorchFunction():
        return t.detach()


def buffer_with_a_parameter(t):
    made = torch.zeros_like(t)
    made += t
    return torch.nn.Parameter(made)


ALIASES = {
    "Variable": lambda t: torch.autograd.Variable(t),
    "Variable that requires grad": lambda t: torch.autograd.Variable(t, requires_grad=True),
    "Variable of data": lambda t: torch.autograd.Variable(t.data),
    "Variable of a Variable": lambda t: torch.autograd.Variable(torch.autograd.Variable(t)),
    "Variable of a result": lambda t: torch.autograd.Variable(t * 1),
    "Parameter": torch.nn.Parameter,
    "Parameter without": lambda t: torch.nn.Parameter(t, requires_grad=False),
    "Parameter of a view": lambda t: torch.nn.Parameter(t.view(3, 1)).view(3),
    "Parameter of a buffer": buffer_with_a_parameter,
    "ParameterList": lambda t: torch.nn.ParameterList([t])[0],
    "Buffer": torch.nn.Buffer,
    "subclass": lambda t: t.detach().as_subclass(torch.Tensor),
    "subclass, made": lambda t: torch.Tensor._make_subclass(torch.Tensor, t),
    "set_": lambda t: torch.empty(0, dtype=t.dtype).set_(t.detach()),
    "untold": untold,
    "capsule": lambda t: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t.detach())),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
}


@product(ALIASES, OF_BACKWARD)
def test_what_shares_memory_with_a_factor(name, way):
    """Of most of these, no function of torch is told."""
    assert right_or_refused(way, coupled(in_backward=ALIASES[name])) == "refused"


@product(ALIASES, OF_BACKWARD)
def test_what_shares_memory_with_a_factor_of_a_rule(name, way):
    @tg.op
    def ruled(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return plain(x)

    @ruled.vjp("x")
    def _(grad, x):
        return grad * (x * x).sum() + 2 * ALIASES[name](x) * (grad * x).sum()

    assert right_or_refused(way, ruled) == "refused"


@product(ALIASES, OF_BACKWARD)
def test_what_shares_memory_with_a_factor_of_an_adopted_function(name, way):
    @tg.adopt(coupled(in_backward=ALIASES[name]).__self__)
    def adopted(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    assert right_or_refused(way, adopted) == "refused"


@pytest.mark.parametrize("name", ["Variable", "Parameter", "set_", "deepcopy"])
@each([by_create_graph, by_checkpoint, by_hooks])
def test_what_shares_memory_with_what_forward_keeps(name, way):
    """Of an adopted Function, whose forward runs again where its intermediate results have derivatives."""

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 2 * ALIASES[name](x))
            return plain(x)

        @staticmethod
        def backward(ctx, grad):
            x, double = ctx.saved_tensors
            return grad * (x * x).sum() + double * (grad * x).sum()

    @tg.adopt(Kept)
    def kept(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    assert right_or_refused(way, kept) == "refused"


@lose
@each(OF_JVP)
def test_a_factor_that_jvp_loses(name, way):
    right_or_refused(way, coupled(in_jvp=LOSE[name]))


@pytest.mark.parametrize("name", [name for name in LOSE if name != "custom operator"])  # torch refuses that itself
@pytest.mark.parametrize("which", ["backward", "cotangent"])
def test_the_refusal_says_why(name, which):
    f = coupled(in_backward=LOSE[name], of_grad=which == "cotangent")
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again: it") as caught:
        by_create_graph_and_a_term(lambda x: f(x.sin()).sin(), X)
    error = caught.value
    assert (error.operator, error.expected) == ("Coupled.backward", "a derivative of first order")
    assert "mark_constant" in error.hint


# -- what forward has computed and kept -------------------------------------------------------------------------------


@dataclass
class Box:
    """Of user code."""

    item: object


class Slots:
    """Without a dictionary."""

    __slots__ = ("item",)

    def get(self):
        return self.item


def slots(item):
    made = Slots()
    made.item = item
    return made


KEEP = {
    "saved": (lambda ctx, s: ctx.save_for_backward(*ctx.to_save, s), lambda ctx: ctx.saved_tensors[-1]),
    "attribute": (lambda ctx, s: vars(ctx).update(s=s), lambda ctx: ctx.s),
    "list": (lambda ctx, s: vars(ctx).update(s=[0, (s,)]), lambda ctx: ctx.s[1][0]),
    "dict": (lambda ctx, s: vars(ctx).update(s={"a": {"b": s}}), lambda ctx: ctx.s["a"]["b"]),
    "array": (lambda ctx, s: vars(ctx).update(s=s.numpy()), lambda ctx: torch.from_numpy(ctx.s)),
    "dataclass": (lambda ctx, s: vars(ctx).update(s=Box(s)), lambda ctx: ctx.s.item),
    "dataclass in a list": (lambda ctx, s: vars(ctx).update(s=[Box(s)]), lambda ctx: ctx.s[0].item),
    "namespace": (lambda ctx, s: vars(ctx).update(s=types.SimpleNamespace(s=s)), lambda ctx: ctx.s.s),
    "slots": (lambda ctx, s: vars(ctx).update(s=slots(s)), lambda ctx: ctx.s.item),
    "method": (lambda ctx, s: vars(ctx).update(s=slots(s).get), lambda ctx: ctx.s()),
    "closure": (lambda ctx, s: vars(ctx).update(s=lambda: s), lambda ctx: ctx.s()),
    "default": (lambda ctx, s: vars(ctx).update(s=lambda s=s: s), lambda ctx: ctx.s()),
    "partial": (lambda ctx, s: vars(ctx).update(s=functools.partial(torch.mul, s)), lambda ctx: ctx.s(1)),
    "set": (lambda ctx, s: vars(ctx).update(s={s}), lambda ctx: next(iter(ctx.s))),
    "key": (lambda ctx, s: vars(ctx).update(s={s: 0}), lambda ctx: next(iter(ctx.s))),
    "iterator": (lambda ctx, s: vars(ctx).update(s=iter([s])), lambda ctx: next(ctx.s)),
}
keep = pytest.mark.parametrize("name", KEEP)


def keeping(name, *, kept_output=False):
    put, get = KEEP[name]

    class Keeping(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            square = (x * x).sum()
            put(ctx, square)
            return x * square

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0]
            return grad * get(ctx) + 2 * x * (grad * x).sum()

    return Keeping.apply


@keep
def test_the_first_derivative_of_what_is_kept(name):
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(keeping(name), x), x)
    torch.testing.assert_close(first, torch.func.grad(lambda x: loss(plain, x))(X))
    torch.testing.assert_close(torch.func.grad(lambda x: loss(keeping(name), x))(X), first)


@keep
@each(
    [
        way
        for way in OF_BACKWARD
        if way not in (by_forward_over_reverse, by_jvp_of_grad, by_a_dual_level, by_grad_in_a_dual_level)
    ]
)
def test_what_is_kept_has_no_second_derivative(name, way):
    assert right_or_refused(way, keeping(name)) == "refused"


def inert_output(setup):
    """An output that is marked as non-differentiable, and read by backward."""

    def keep(ctx, x, square):
        ctx.mark_non_differentiable(square)
        ctx.save_for_backward(x, square)

    def forward(x):
        square = (x * x).sum()
        return x * square, square

    def forward_with_context(ctx, x):
        outputs = forward(x)
        keep(ctx, x, outputs[1])
        return outputs

    def backward(ctx, grad, _):
        x, square = ctx.saved_tensors
        return grad * square + 2 * x * (grad * x).sum()

    methods = {"forward": forward_with_context}
    if setup:
        methods = {"forward": forward, "setup_context": lambda ctx, inputs, output: keep(ctx, inputs[0], output[1])}
    made = type("Inert", (tg.Function,), {n: staticmethod(m) for n, m in {**methods, "backward": backward}.items()})
    return lambda x: made.apply(x)[0]


@pytest.mark.parametrize("setup", [False, True], ids=["context", "setup"])
@each(OF_BACKWARD[:13])
def test_a_saved_output_without_a_derivative(setup, way):
    assert right_or_refused(way, inert_output(setup)) == "refused"


# -- what loses nothing -----------------------------------------------------------------------------------------------


@tg.op
def op_copy(t: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return t * 1


@op_copy.adjoint("t")
def _(grad):
    return grad


class Copy(torch.autograd.Function):
    """One of torch's own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(t):
        return t * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 1

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 1


class OurCopy(tg.Function):
    """One of torchgraft's."""

    @staticmethod
    def forward(ctx, t):
        return t * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * 1

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 1


def masked(t):
    with torch.no_grad():
        mask = (t > 0).to(t.dtype)
    return t * mask + t * (1 - mask)


def sorted_and_back(t):
    order = t.detach().argsort()
    return t[order][order.argsort()]


def set_by_index(t):
    made = torch.zeros_like(t)
    made[torch.arange(3)] = t
    return made


def dropped_out(t):
    mask = torch.arange(3) % 2 == 0
    return torch.where(mask, t, 2 * t) / torch.where(mask, 1.0, 2.0)


def checked(t):
    assert bool(torch.isfinite(t).all())
    assert int((t.detach() > 0).sum().item()) <= 3
    assert t.detach().shape == t.data.shape == (3,)
    return t


def graph_of_a_graph(t):
    """A gradient inside of backward, which is recorded."""
    with torch.enable_grad():
        inner = t * 1 if t.requires_grad else (t * 1).requires_grad_()
        return torch.autograd.grad((inner * inner).sum() / 2, inner, create_graph=True)[0]


LAYER = torch.nn.Linear(3, 3, dtype=torch.float64)
ONES = torch.ones(3, dtype=torch.float64)
with torch.no_grad():
    LAYER.weight.copy_(torch.eye(3))
    LAYER.bias.zero_()


HARMLESS = {
    "itself": unchanged,
    "clone": lambda t: t.clone(),
    "sign": lambda t: t.abs() * t.sign(),
    "clamp": lambda t: t.clamp(-100, 100),
    "relu": lambda t: torch.relu(t) - torch.relu(-t),
    "where": lambda t: torch.where(t.detach() > 0, t, t * 1),
    "mask": masked,
    "masked_fill": lambda t: t.masked_fill(t.detach() > 100, 0),
    "dropout": dropped_out,
    "sort": sorted_and_back,
    "index_put": lambda t: torch.zeros_like(t).index_put((torch.arange(3),), t),
    "__setitem__": set_by_index,
    "in place": lambda t: torch.zeros_like(t).add_(t).mul_(2).div_(2),
    "zeros": lambda t: t + t.new_zeros(3) + torch.zeros(t.shape) + torch.zeros_like(t),
    "ones": lambda t: t * torch.ones_like(t.detach()) * t.new_ones(3),
    "softmax": lambda t: t.softmax(0).log() + t.logsumexp(0),
    "layer_norm": lambda t: torch.nn.functional.layer_norm(t, (3,), eps=0) * t.std(correction=0) + t.mean(),
    "another dtype": lambda t: t.to(torch.complex128).real,
    "fft": lambda t: torch.fft.irfft(torch.fft.rfft(t), 3),
    "einsum": lambda t: torch.einsum("ij,j->i", torch.eye(3, dtype=torch.float64), t),
    "unbind": lambda t: torch.stack(t.unbind()),
    "detached and unused": lambda t: (t.detach() * 2, t)[1],
    "checked": checked,
    "operator": op_copy,
    "torch's Function": Copy.apply,
    "our Function": OurCopy.apply,
    "graph": graph_of_a_graph,
    "torch.func": lambda t: torch.func.grad(lambda t: (t * t).sum() / 2)(t),
    "torch.func.vmap": lambda t: torch.vmap(lambda e: e * (e.detach() < 100))(t),
    "a view of an operator": lambda t: op_copy(torch.cat([t, t]))[:3],
    "checkpoint": lambda t: checkpoint(torch.clone, t, use_reentrant=False),
    "parameters": lambda t: t @ LAYER.weight.T.T + LAYER.weight.view(9)[:3] * LAYER.bias,
    "constant in a Variable": lambda t: t * torch.autograd.Variable(ONES) * torch.nn.Parameter(ONES),
    "leaf of its own": lambda t: t * t.new_tensor([1.0, 1.0, 1.0], requires_grad=True),
}
harmless = pytest.mark.parametrize("name", HARMLESS)

UNDER_FUNC = [way for way in OF_BACKWARD if way not in (*OF_BACKWARD[:8], by_a_dual_level)]
BEYOND_TORCH = {
    "torch.func": [by_hooks],
    "torch.func.vmap": [by_hooks],
    "checkpoint": [*UNDER_FUNC, *OF_JVP, *([by_a_dual_level] if torch.__version__ < "2.12" else [])],
    "graph": [by_forward_over_reverse, by_jacrev_of_jacfwd, by_jacfwd_of_jacfwd],
}
"""torch.func does without hooks for saved tensors, which checkpointing is made of, and without requires_grad_.

In torch 2.11, a checkpoint takes no dual tensors either.
"""


def expected_of(name, way):
    return ("right", "refused") if way in BEYOND_TORCH.get(name, ()) else ("right",)


@product(HARMLESS, OF_BACKWARD)
def test_no_false_alarm(name, way):
    assert right_or_refused(way, coupled(in_backward=HARMLESS[name])) in expected_of(name, way)


@harmless
@each([by_create_graph, by_autograd_functional, by_grad_of_grad, by_jvp_of_grad])
def test_no_false_alarm_about_the_cotangent(name, way):
    f = coupled(in_backward=HARMLESS[name], of_grad=True)
    assert right_or_refused(way, lambda x: f(x.sin()).sin(), lambda x: plain(x.sin()).sin()) in expected_of(name, way)


@harmless
@each(OF_JVP)
def test_no_false_alarm_about_a_jvp(name, way):
    assert right_or_refused(way, coupled(in_jvp=HARMLESS[name])) in expected_of(name, way)
