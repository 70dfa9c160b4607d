"""Calls on a mesh, one by one: where results lie, and every way to call, to differentiate and to compile."""

import contextlib
import copy
import gc
import itertools
import pickle
import weakref

import numpy as np
import pytest
import torch
from torch import distributed
from torch.distributed.tensor import DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.placement_types import _StridedShard

import torchgraft as tg
from examples.dct import dct

from ..default import by_default
from . import operators as ops
from .ranks import mesh_of, on_ranks
from .table import EXACT, TABLE, compare, full, lay, real

R, P, S0, S1, S2 = Replicate(), Partial(), Shard(0), Shard(1), Shard(2)
LINEARS = ["mesh linear", "mesh linear_np", "mesh linear_c", "mesh linear_cpp", "mesh linear_num"]


def close(made, expected):
    torch.testing.assert_close(full(made), expected.detach(), **EXACT)


def square_loss(function):
    """A loss of tensors, whether they are DTensors or not."""
    return lambda *tensors: (function(*tensors) ** 2).sum()


# -- where results lie ------------------------------------------------------------------------------------------------

ONE_AXIS = {
    "the batch": ([S0, R, R], S0),
    "a column of weights": ([R, S0, S0], S1),
    "a column, and a whole bias": ([R, S0, R], S1),
    "a row of weights": ([S1, S1, R], P),
    "all whole": ([R, R, R], R),
    "a row, and terms of a bias": ([S1, S1, P], P),
}


@pytest.mark.parametrize(
    ("name", "where"),
    by_default(itertools.product(LINEARS, ONE_AXIS), lambda name, where: name == LINEARS[-1] or where == "the batch"),
)
@on_ranks(2)
def test_placement_of_an_output(name, where):
    places, wanted = ONE_AXIS[where]
    (made,) = compare(TABLE[name], mesh_of(2), [(place,) for place in places])
    assert made.placements == (wanted,), made.placements


TWO_AXES = {
    "batch and batch": ([(S0, S0), (R, R), (R, R)], (S0, S0)),
    "batch and column": ([(S0, R), (R, S0), (R, S0)], (S0, S1)),
    "batch and row": ([(S0, S1), (R, S1), (R, R)], (S0, P)),
    "column and row": ([(R, S1), (S0, S1), (S0, R)], (S1, P)),
    "row and row, where six numbers leave none to one of four ranks": ([(S1, S1), (S1, S1), (R, R)], (P, R)),
    "batch and whole": ([(S0, R), (R, R), (R, R)], (S0, R)),
}


@pytest.mark.slow
@pytest.mark.parametrize("where", TWO_AXES)
@on_ranks(4)
def test_placements_on_two_mesh_axes(where):
    places, wanted = TWO_AXES[where]
    (made,) = compare(TABLE["mesh linear"], mesh_of(2, 2), places)
    assert made.placements == wanted, made.placements


@pytest.mark.slow
@pytest.mark.parametrize("places", [(S0, S0), (S0, S1), (S0, R), (S0, P), (P, S1), (P, P)], ids=str)
@on_ranks(4)
def test_a_linear_operator_on_two_mesh_axes(places):
    """Sums go through term by term, and the axis that is transformed is gathered."""
    (made,) = compare(TABLE["dct"], mesh_of(2, 2), [places])
    assert made.placements == tuple(R if place == S1 else place for place in places), made.placements


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 3, 5])
@on_ranks(4)
def test_ranks_without_rows(rows):
    x, w, b = real(rows, 6), real(4, 6), real(4)
    mesh = mesh_of(4)
    for function in (ops.linear, ops.linear_np, ops.linear_c, ops.linear_cpp):
        plain = [t.clone().requires_grad_() for t in (x, w, b)]
        laid = [lay(t, mesh, [p]).requires_grad_() for t, p in zip((x, w, b), (S0, R, R), strict=True)]
        made = function(*laid)
        assert made.placements == (S0 if rows > 1 else R,)
        close(made, function(*plain))
        gradients = torch.autograd.grad(square_loss(function)(*laid), laid)
        for one, other in zip(gradients, torch.autograd.grad(square_loss(function)(*plain), plain), strict=True):
            close(one, other)


@on_ranks(4)
def test_no_rank_is_left_without_a_term():
    """Of a sum over two numbers, two of four ranks would have none: the operator is called on whole tensors."""
    x, w = real(5, 2), real(4, 2)
    made = ops.linear_c(lay(x, mesh_of(4), [S1]), lay(w, mesh_of(4), [S1]))
    assert made.placements == (R,), made.placements
    close(made, x @ w.mT)


@on_ranks(4)
def test_no_rank_is_left_without_a_column():
    """A layer of three outputs would leave one of four ranks without any, which its rules need not know."""
    x, w = real(5, 2), real(3, 2)
    made = ops.linear_c(lay(x, mesh_of(4), [R]), lay(w, mesh_of(4), [S0]))
    assert made.placements == (R,), made.placements
    close(made, x @ w.mT)


@on_ranks(4)
def test_strided_shards():
    mesh = mesh_of(2, 2)
    x = real(8, 6)
    inner = lay(x, mesh, (R, S0)).to_local()
    local = inner.chunk(2)[mesh.get_coordinate()[0]]
    strided = DTensor.from_local(
        local, mesh, [_StridedShard(0, split_factor=2), S0], run_check=False, shape=x.shape, stride=x.stride()
    ).requires_grad_()
    close(strided, x)
    w = lay(real(4, 6), mesh, (R, R))
    made = ops.linear(strided, w)
    close(made, x @ full(w).mT)
    (gradient,) = torch.autograd.grad((made**2).sum(), strided)
    close(gradient, 2 * (x @ full(w).mT) @ full(w))


@on_ranks(4)
def test_mesh_axes_that_cut_in_another_order():
    """The placements alone do not tell which rank has which rows."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta

    mesh, x, w = mesh_of(2, 2), real(8, 6), real(4, 6)
    outer, inner = mesh.get_coordinate()
    order = (ShardOrderEntry(tensor_dim=0, mesh_dims=(1, 0)),)
    spec = DTensorSpec(mesh, (S0, S0), TensorMeta(x.shape, x.stride(), x.dtype), shard_order=order)
    swapped = DTensor(x.chunk(2)[inner].chunk(2)[outer].contiguous(), spec, requires_grad=False).requires_grad_()
    for places in ((R, R), (S0, S0)):
        made = ops.linear(swapped, lay(w, mesh, places))
        close(made, x @ w.mT)
        (gradient,) = torch.autograd.grad((made**2).sum(), swapped)
        close(gradient, 2 * (x @ w.mT) @ w)


@on_ranks(4)
def test_terms_along_one_mesh_axis_and_a_whole_along_the_other():
    """It lies as wanted but for a sum that it is not yet: a whole becomes the terms of a sum on one rank alone."""
    seed = lay(real(5, 6), mesh_of(2, 2), (P, R))
    x = lay(real(5, 6), mesh_of(2, 2), (P, P)).requires_grad_()
    (gradient,) = torch.autograd.grad(ops.turned(x.mT), x, seed)
    close(gradient, full(seed))


# -- arguments --------------------------------------------------------------------------------------------------------


@on_ranks(2)
def test_a_bias_of_whole_numbers_counts_once():
    x, w, b = torch.arange(30).reshape(5, 6), torch.arange(24).reshape(4, 6), torch.tensor([1, -2, 3, 4])
    mesh = mesh_of(2)
    made = ops.linear_num(lay(x, mesh, [S1]), lay(w, mesh, [S1]), lay(b, mesh, [R]))
    assert made.placements == (P,)
    close(made, x @ w.mT + b)


@on_ranks(2)
def test_mixed_dtypes_are_promoted():
    x, w, b = torch.arange(30).reshape(5, 6), real(4, 6).float(), real(4)
    mesh = mesh_of(2)
    laid = [lay(x, mesh, [S1]), lay(w, mesh, [S1]).requires_grad_(), lay(b, mesh, [R]).requires_grad_()]
    made = ops.linear_num(*laid)
    assert made.dtype == torch.float64
    close(made, x.double() @ w.double().mT + b)
    of_w, of_b = torch.autograd.grad(made.sum(), laid[1:])
    assert (of_w.dtype, of_b.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(full(of_w), x.sum(0).expand(4, 6).float())
    close(of_b, torch.full((4,), 5.0, dtype=torch.float64))


@on_ranks(2)
def test_numbers_and_tensors_without_axes():
    x = real(5, 4)
    laid = lay(x, mesh_of(2), [S0]).requires_grad_()
    for y in (2, 2.0, torch.tensor(2.0, dtype=torch.float64)):
        made = ops.mean_of(laid, y)
        assert made.placements == (S0,)
        close(made, (x + 4) / 2)
        (gradient,) = torch.autograd.grad(made.sum(), laid)
        close(gradient, torch.full_like(x, 0.5))


@on_ranks(2)
def test_a_plain_tensor_without_axes_gets_its_gradient():
    x, y = real(5, 4), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    made = ops.mean_of(lay(x, mesh_of(2), [S0]), y)
    made.sum().redistribute(placements=[R]).to_local().backward()
    torch.testing.assert_close(y.grad, torch.tensor(40.0, dtype=torch.float64))


@pytest.mark.parametrize("asked", ["x", "w", "b", "x b", "w b"])
@on_ranks(2)
def test_gradients_of_some_inputs(asked):
    mesh = mesh_of(2)
    tensors = {"x": real(5, 6), "w": real(4, 6), "b": real(4)}
    plain = {name: tensor.clone().requires_grad_(name in asked) for name, tensor in tensors.items()}
    expected = torch.autograd.grad(square_loss(ops.linear)(*plain.values()), [plain[n] for n in asked.split()])
    for places in ([S0, R, R], [S1, S1, R], [R, S0, S0]):
        laid = {
            name: lay(tensor, mesh, [place]).requires_grad_(name in asked)
            for (name, tensor), place in zip(tensors.items(), places, strict=True)
        }
        made = ops.linear(*laid.values())
        for one, other in zip(
            torch.autograd.grad((made**2).sum(), [laid[n] for n in asked.split()]), expected, strict=True
        ):
            close(one, other)


@on_ranks(2)
def test_one_tensor_given_twice():
    x = real(5, 4)
    for place in (S0, S1, R, P):
        laid = lay(x, mesh_of(2), [place]).requires_grad_()
        made = ops.mean_of(laid, laid)
        close(made, (x + x * x) / 2)
        (gradient,) = torch.autograd.grad(made.sum(), laid, create_graph=True)
        close(gradient, 0.5 + x)
        (second,) = torch.autograd.grad(gradient.sum(), laid)
        close(second, torch.ones_like(x))


@on_ranks(2)
def test_parts_that_are_not_contiguous():
    x, w = real(6, 5), real(4, 6)
    for function in (ops.linear, ops.linear_np, ops.linear_c):
        for place in (S0, S1, R):
            laid = lay(x, mesh_of(2), [place]).requires_grad_()
            made = function(laid.mT, lay(w, mesh_of(2), [R]))
            close(made, x.mT @ w.mT)
            (gradient,) = torch.autograd.grad(made.sum(), laid)
            close(gradient, w.sum(0)[:, None].expand(6, 5))


@on_ranks(2)
def test_parts_of_gradients_are_contiguous():
    """As the DTensor says of itself: torch's views of it rely on that, and a rule may return any strides."""
    x = lay(real(3, 4), mesh_of(2), [R]).requires_grad_()
    seed = real(4, 3)
    (gradient,) = torch.autograd.grad(ops.turned(x), x, lay(seed, mesh_of(2), [R]))
    assert gradient.stride() == (4, 1)
    assert gradient.to_local().stride() == (4, 1), gradient.to_local().stride()
    close(gradient.view(12), seed.mT.reshape(12))


# -- ways to call -----------------------------------------------------------------------------------------------------

MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "saved_tensors_hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t),
    "none": contextlib.nullcontext,
}


@pytest.mark.parametrize("mode", MODES)
@on_ranks(2)
def test_modes(mode):
    x, w = real(5, 6), real(4, 6)
    laid = [lay(x, mesh_of(2), [S1]).requires_grad_(), lay(w, mesh_of(2), [S1]).requires_grad_()]
    with MODES[mode]():
        made = ops.linear(*laid)
        close(made, x @ w.mT)
        assert made.requires_grad == (mode not in ("no_grad", "inference_mode"))
        if made.requires_grad:
            close(torch.autograd.grad((made**2).sum(), laid)[0], 2 * (x @ w.mT) @ w)
    made = ops.linear(*laid)  # The next call has forgotten the mode.
    close(torch.autograd.grad((made**2).sum(), laid)[0], 2 * (x @ w.mT) @ w)


@on_ranks(2)
def test_direct_calls_of_the_dispatched_operator():
    x, w = real(5, 6), real(4, 6)
    for place in ((S0, R), (S1, S1), (R, S0)):
        laid = [lay(t, mesh_of(2), [p]).requires_grad_() for t, p in zip((x, w), place, strict=True)]
        made = ops.linear.torch_op(*laid)
        close(made, x @ w.mT)
        first = torch.autograd.grad((made**2).sum(), laid, create_graph=True)
        close(first[0], 2 * (x @ w.mT) @ w)
        close(torch.autograd.grad(first[0].sum(), laid[0])[0], (2 * w.mT @ w).sum(0).expand(5, 6))
    values, index = ops.widest.torch_op(lay(real(3, 5), mesh_of(2), [S1]))
    assert values.placements == index.placements == (S0,)


@on_ranks(2)
def test_autocast():
    x, w = real(5, 6).float(), real(4, 6).bfloat16()
    laid = [lay(t, mesh_of(2), [S1]).requires_grad_() for t in (x, w)]
    with torch.autocast("cpu", torch.bfloat16):
        made = ops.linear(*laid)
    assert made.dtype == torch.float32
    torch.testing.assert_close(full(made), x @ w.float().mT, rtol=1e-2, atol=1e-2)
    of_x, of_w = torch.autograd.grad(made.sum(), laid)
    assert (of_x.dtype, of_w.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(full(of_x), w.float().sum(0).expand(5, 6), rtol=1e-2, atol=1e-2)


@on_ranks(2)
def test_two_backward_passes_and_hooks():
    x, w = real(5, 6), real(4, 6)
    laid = [lay(x, mesh_of(2), [S1]).requires_grad_(), lay(w, mesh_of(2), [S1]).requires_grad_()]
    made = ops.linear(*laid)
    seen = []
    made.register_hook(lambda gradient: seen.append(gradient) or 2 * gradient)
    made.sum().backward(retain_graph=True)
    made.sum().backward()
    assert len(seen) == 2
    close(seen[0], torch.ones(5, 4, dtype=torch.float64))
    close(laid[0].grad, 4 * w.sum(0).expand(5, 6))
    close(laid[1].grad, 4 * x.sum(0).expand(4, 6))
    with pytest.raises(RuntimeError, match="second time"):
        made.sum().backward()


@on_ranks(2)
def test_an_output_that_is_not_used():
    """Its cotangent is zero; a gradient that is not asked for is not made."""
    x = real(5, 4)
    for place in (S0, S1, R):
        laid = lay(x, mesh_of(2), [place]).requires_grad_()
        shift = lay(real(4), mesh_of(2), [R])
        made = ops.moments(laid, shift)
        assert isinstance(made, ops.Moments)
        (gradient,) = torch.autograd.grad(made.second.sum(), laid)
        close(gradient, 2 * x)


# -- transforms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [(S0, R), (S1, S1), (R, S0), (R, R), (P, R)], ids=str)
@on_ranks(2)
def test_func_grad(places):
    x, w = real(5, 6), real(4, 6)
    laid = [lay(t, mesh_of(2), [p]) for t, p in zip((x, w), places, strict=True)]
    loss = square_loss(ops.linear)
    expected = torch.func.grad(loss, argnums=(0, 1))(x, w)
    for one, other in zip(torch.func.grad(loss, argnums=(0, 1))(*laid), expected, strict=True):
        close(one, other)

    def twice(x, w):
        return (torch.func.grad(loss)(x, w) ** 2).sum()

    for one, other in zip(torch.func.grad(twice, (0, 1))(*laid), torch.func.grad(twice, (0, 1))(x, w), strict=True):
        close(one, other)


@on_ranks(2)
def test_func_vjp():
    x, w = real(5, 6), real(4, 6)
    laid = [lay(t, mesh_of(2), [S1]) for t in (x, w)]
    out, pull = torch.func.vjp(ops.linear, *laid)
    seed = real(5, 4)
    close(out, x @ w.mT)
    of_x, of_w = pull(lay(seed, mesh_of(2), [R]))
    close(of_x, seed @ w)
    close(of_w, seed.mT @ x)


def answer(function, laid, plain):
    """What a function says on a mesh where it refuses, or "" where it gives what it gives for plain tensors."""
    expected = function(*plain)
    try:
        made = function(*laid)
    except (RuntimeError, tg.TorchgraftError) as error:
        return f"{type(error).__name__}: {error}"
    close(made, expected)
    return ""


TORCH_REFUSES = "does not have a sharding strategy registered"  # an operator of torch, whose name it gives
BY_NAME = "a derivative is taken of a DTensor below a mapped axis"
TORCH_IS_WRONG = "returned a gradient of another shape"  # of torch's product of DTensors with a mapped axis

MAPPED = {
    "vmap": (lambda op: torch.func.vmap(op, in_dims=(0, None)), [""]),
    "vmap of weights": (lambda op: torch.func.vmap(lambda x, w: op(x, w.unsqueeze(0)), in_dims=(None, 0)), [""]),
    "vmap of the last axis": (lambda op: lambda x, w: torch.func.vmap(op, (1, None))(x.unsqueeze(0), w), [""]),
    "vmap of vmap": (
        lambda op: lambda x, w: torch.func.vmap(torch.func.vmap(op, (0, None)), (0, None))(x.unsqueeze(1), w), [""]
    ),
    "jacrev": (lambda op: lambda x, w: torch.func.jacrev(lambda x: op(x, w))(x), [""]),
    "jacrev of weights": (lambda op: lambda x, w: torch.func.jacrev(lambda w: op(x, w))(w), [""]),
    "grad of vmap": (lambda op: torch.func.grad(square_loss(torch.func.vmap(op, (0, None)))), ["", BY_NAME]),
    "vmap of grad": (
        lambda op: torch.func.vmap(torch.func.grad(square_loss(op)), (0, None)),
        ["", BY_NAME, TORCH_REFUSES, TORCH_IS_WRONG],
    ),
    "jvp": (lambda op: lambda x, w: torch.func.jvp(lambda x: op(x, w), (x,), (x,))[1], ["", TORCH_REFUSES]),
}  # fmt: skip
"""Transforms, and what operators may answer: "" is the right value."""


@pytest.mark.parametrize("places", [(S0, R), (S1, S1), (R, S0), (R, R), (P, R)], ids=str)
@pytest.mark.parametrize("transform", MAPPED)
@on_ranks(2)
def test_transforms_are_right_or_refused(transform, places):
    x, w = real(5, 6), real(4, 6)
    laid = [lay(t, mesh_of(2), [p]) for t, p in zip((x, w), places, strict=True)]
    function, allowed = MAPPED[transform]
    for op in (ops.linear, ops.linear_loop):
        said = answer(function(op), laid, (x, w))
        assert said == "" or any(text in said for text in allowed if text), said


# -- the memory of a mesh ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@on_ranks(2)
def test_remembered_calls_keep_no_mesh_alive():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("passing",))
    ops.linear(lay(real(5, 6), mesh, [S0]), lay(real(4, 6), mesh, [R]))
    assert mesh.__dict__["_torchgraft"], "the call is not remembered"
    alive = weakref.ref(mesh)
    del mesh
    gc.collect()
    assert alive() is None


@on_ranks(2)
def test_a_mesh_can_be_copied_after_calls():
    mesh = mesh_of(2)
    x = lay(real(5, 6), mesh, [S0])
    ops.linear(x, lay(real(4, 6), mesh, [R]))
    for copied in (pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh), copy.copy(mesh)):
        assert copied == mesh
        made = ops.linear(lay(real(5, 6), copied, [S0]), lay(real(4, 6), copied, [R]))
        assert made.placements == (S0,)
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(x)
    assert copy.deepcopy(module).weight.placements == (S0,)
    assert np.isfinite(full(copy.deepcopy(module).weight)).all()


# -- compiled ---------------------------------------------------------------------------------------------------------

COMPILED = [
    pytest.param("aot_eager", "mesh linear"),
    *[
        pytest.param(backend, name, marks=pytest.mark.slow)
        for backend in ("aot_eager", "inductor")
        for name in ("mesh linear", "mesh linear_np", "mesh linear_c", "mesh linear_cpp", "mesh linear_loop")
        if (backend, name) != ("aot_eager", "mesh linear")
    ],
]


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "name"), COMPILED)
@on_ranks(2, timeout=300)
def test_compiled(backend, name):
    case = TABLE[name]
    x, w = case.leaves()[:2]
    function = case.call
    torch._dynamo.reset()  # All cases share one code object, and so its limit of recompilations.
    compiled = torch.compile(square_loss(function), backend=backend, fullgraph=True)
    plain = [t.clone().requires_grad_() for t in (x, w)]
    loss = square_loss(function)(*plain)
    expected = torch.autograd.grad(loss, plain)
    for places in ((S0, R), (S1, S1)):
        laid = [lay(t, mesh_of(2), [p]).requires_grad_() for t, p in zip((x, w), places, strict=True)]
        made = compiled(*laid)
        close(made, loss)
        for one, other in zip(torch.autograd.grad(made, laid), expected, strict=True):
            close(one, other)


@on_ranks(2)
def test_a_rank_outside_of_the_mesh_computes_nothing():
    """It has empty parts of the whole shapes, and takes part in the backward, as with torch's functions."""
    mesh = DeviceMesh("cpu", [0])
    x, w = (distribute_tensor(real(*shape), mesh, [S0]).requires_grad_() for shape in ((5, 6), (4, 6)))
    made = ops.linear(x, w)
    gradients = torch.autograd.grad(made.sum(), (x, w))
    assert made.shape == (5, 4)
    assert [g.shape for g in gradients] == [(5, 6), (4, 6)]
    empty = [t.to_local().numel() == 0 for t in (made, *gradients)]
    assert empty == [distributed.get_rank() == 1] * 3


@on_ranks(2)
def test_the_rule_of_each_sample_runs_whole_in_numpy():
    """A transform differentiates each sample before the mesh can cut."""
    plain = real(4, 5)
    per_sample = torch.func.vmap(torch.func.grad(lambda row: (dct(row) ** 3).sum()))
    made = per_sample(distribute_tensor(plain, mesh_of(2), [S0]))
    torch.testing.assert_close(made.full_tensor(), per_sample(plain))
