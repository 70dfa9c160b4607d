"""What is wrong on a mesh is refused in words: operator, argument, what was expected, what was got, and what to do."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import parallelize_module

import torchgraft as tg
from tests.nn.operators import rotate

from . import operators as ops
from .ranks import mesh_of, on_ranks
from .table import lay, real

R, S0, S1 = Replicate(), Shard(0), Shard(1)


def refusal(call):
    """The error that a call raises, in which all parts are there."""
    with pytest.raises(tg.TorchgraftError) as caught:
        call()
    error = caught.value
    text = str(error)
    for part in ("expected:", "got:", "next:"):
        assert part in text, text
    return error, text


# -- calls ------------------------------------------------------------------------------------------------------------


@on_ranks(2)
def test_plain_tensors_are_replicated_where_torch_is_told_so():
    laid, plain = lay(real(5, 6), mesh_of(2), [S0]), real(4, 6).requires_grad_()
    with implicit_replication():
        made = ops.linear(laid, plain)
        made.square().sum().backward()
    whole = laid.full_tensor()
    torch.testing.assert_close(made.full_tensor(), whole @ plain.mT)
    torch.testing.assert_close(plain.grad, 2 * (whole @ plain.mT).mT @ whole)


@on_ranks(2)
def test_a_plain_tensor_beside_a_dtensor():
    laid, plain = lay(real(5, 6), mesh_of(2), [S0]), real(4, 6)
    for call in (lambda: ops.linear(laid, plain), lambda: ops.linear.torch_op(laid, plain)):
        error, text = refusal(call)
        assert isinstance(error, tg.ArgumentError)
        assert "operator 'linear' argument 'w': is a plain tensor beside a DTensor" in text
        assert "next:     pass distribute_tensor(w, mesh, [Replicate()])" in text


@on_ranks(2)
def test_a_plain_tensor_in_a_list():
    _, text = refusal(lambda: ops.total([lay(real(5), mesh_of(2), [S0]), real(5)], []))
    assert "argument 'terms[1]'" in text, text


@on_ranks(4)
def test_the_number_of_replicated_axes_is_that_of_the_mesh():
    _, text = refusal(lambda: ops.linear(lay(real(5, 6), mesh_of(2, 2), (S0, R)), real(4, 6)))
    assert "distribute_tensor(w, mesh, [Replicate(), Replicate()])" in text, text


@on_ranks(4)
def test_tensors_on_two_meshes():
    x, w = lay(real(5, 6), mesh_of(4), [S0]), lay(real(4, 6), mesh_of(2, 2), (R, R))
    for call in (lambda: ops.linear(x, w), lambda: ops.linear.torch_op(x, w)):
        error, text = refusal(call)
        assert isinstance(error, tg.ArgumentError)
        assert "operator 'linear' argument 'w': is on another mesh" in text
        assert "distribute_tensor(w.full_tensor(), mesh, placements)" in text


@on_ranks(2)
def test_shapes_are_those_of_the_whole():
    x, w = lay(real(5, 6), mesh_of(2), [S1]), lay(real(4, 3), mesh_of(2), [R])
    _, text = refusal_of_shape(lambda: ops.linear(x, w))
    assert "6" in text
    assert "3" in text


def refusal_of_shape(call):
    with pytest.raises(tg.ShapeError) as caught:
        call()
    return caught.value, str(caught.value)


@on_ranks(2)
def test_dtypes_are_looked_at():
    with pytest.raises(tg.DtypeError, match="linear"):
        ops.linear(lay(real(5, 6), mesh_of(2), [S1]), lay(real(4, 6).float(), mesh_of(2), [R]))


@on_ranks(2)
def test_meta_tensors():
    mesh = mesh_of(2)
    x = DTensor.from_local(torch.ones(2, 6, device="meta"), mesh, [S0], run_check=False)
    w = DTensor.from_local(torch.ones(4, 6, device="meta"), mesh, [R], run_check=False)
    made = ops.linear(x, w)
    assert (made.device.type, made.shape, made.placements) == ("meta", (4, 4), (S0,))


@on_ranks(2)
def test_a_kernel_that_raises_on_one_rank_alone():
    """Its own words arrive; no collective is left half done."""
    mesh = mesh_of(2)
    x = real(4, 3)
    x[3, 0] = -1
    laid = lay(x, mesh, [S0])
    if mesh.get_local_rank() == 1:
        with pytest.raises(ValueError, match="negative"):
            _positive(laid)
    else:
        assert _positive(laid).placements == (S0,)


@tg.op
def _positive(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
    if (x == -1).any():
        raise ValueError("negative")
    return x * x


@tg.op
def _cubed(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    return x**3


@_cubed.vjp("x")
def _(grad, x):
    return 3 * grad * x**2


@tg.op
def _exponential(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    return x.exp()


@_exponential.vjp("x")
def _(grad, out):
    return grad * out


def _derivative(op, changed, *, order):
    """Differentiate after a change in place of the input (0) or the output (1)."""
    laid = lay(real(5, 6), mesh_of(2), [S0]).requires_grad_()
    tensors = laid, op(laid)
    loss = tensors[1].sum()
    if order == 2:
        (first,) = torch.autograd.grad(loss, laid, create_graph=True)
        loss = first.sum()
    if changed is not None:
        with torch.no_grad():
            tensors[changed].mul_(2)
    return torch.autograd.grad(loss, laid)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("op", "changed"), [("_cubed", 0), ("_exponential", 1)], ids=str)
@on_ranks(2)
def test_a_dtensor_that_was_changed_in_place(op, changed, order):
    """A change of a DTensor does not show in its part, which is what a rule has saved."""
    operator = globals()[op]
    _derivative(operator, None, order=order)
    _derivative(operator, 1 - changed, order=order)  # No rule has saved it.
    with pytest.raises((tg.DerivativeError, RuntimeError), match=r"changed in place|modified by an inplace"):
        _derivative(operator, changed, order=order)


# -- declarations -----------------------------------------------------------------------------------------------------


def in_expression(x: Float[Tensor, "n"], y: Float[Tensor, "n+1"]) -> Float[Tensor, "n"]: ...
def in_output_expression(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch 2*n"]: ...
def twice(x: Float[Tensor, "n n"]) -> Float[Tensor, "n"]: ...
def twice_in_output(x: Float[Tensor, "n"]) -> Float[Tensor, "n n"]: ...
def one_of_two(x: Float[Tensor, "n m"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "m"]]: ...
def saved(x: Float[Tensor, "n m"]) -> tuple[Float[Tensor, "n"], tg.Saved[Float[Tensor, "m"], "kept"]]: ...
def plain(x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]: ...
def bare(x: Tensor) -> Tensor: ...


DECLARED = [
    (in_expression, "n", "", "is part of an expression"),
    (in_output_expression, "n", "", "is part of an expression"),
    (in_output_expression, "", "n", "is part of an expression"),
    (twice, "n", "", "occurs twice in one tensor"),
    (twice_in_output, "n", "", "occurs twice in one tensor"),
    (one_of_two, "n", "", "is missing in an output"),
    (one_of_two, "", "n", "is one of an output"),
    (saved, "n", "", "is missing in an output"),
    (plain, "n", "", "is missing in an output"),
    (plain, "", "m", "is one of an output"),
    (plain, "k", "", "no input has an axis k"),
    (plain, "batch", "", "no input has an axis batch"),
    (plain, "", "k", "no input has an axis k"),
    (plain, "m n", "n", "cannot be parallel and summed over"),
    (plain, "m,n", "", "no input has an axis m,n"),
    (bare, "n", "", "no input has an axis n"),
]


@pytest.mark.parametrize(
    ("function", "parallel", "reduction", "text"), DECLARED,
    ids=[f"{f.__name__} {p or '-'} {r or '-'}" for f, p, r, _ in DECLARED],
)  # fmt: skip
def test_axes_that_cannot_be_declared(function, parallel, reduction, text):
    error, said = refusal(lambda: tg.op(parallel=parallel, reduction=reduction)(function))
    assert isinstance(error, tg.DeclarationError)
    word = "parallel" if text != "is one of an output" and parallel else "reduction"
    assert f"operator '{function.__name__}' argument '{word}=" in said, said
    assert text in said, said


@pytest.mark.parametrize("given", [("m", "n"), ["m"], None, 3], ids=str)
@pytest.mark.parametrize("word", ["parallel", "reduction"])
def test_axes_that_are_no_string(word, given):
    error, said = refusal(lambda: tg.op(**{word: given})(plain))
    assert isinstance(error, tg.DeclarationError)
    assert f"operator 'plain' argument '{word}': is no string" in said, said
    assert f'{word}="m k" for two axes' in said, said


def test_printed_operators_say_what_is_cut():
    text = str(ops.linear)
    assert "cuts *batch, m; cuts and sums over n" in text, text
    assert "gathers everything" in str(ops.turned)


# -- ShardAxis --------------------------------------------------------------------------------------------------------

Linear = tg.module(ops.linear, parameters=("w", "b"))
Rotate = tg.module(rotate, parameters=("phase",))


@on_ranks(2)
def test_shard_axis_of_what_has_none():
    mesh = mesh_of(2)
    _, text = refusal(lambda: parallelize_module(nn.Linear(3, 4), mesh, tg.ShardAxis("m")))
    assert "argument 'module'" in text
    assert "nn.Linear" in text or "got:      Linear" in text
    _, text = refusal(lambda: parallelize_module(Rotate(3, 4), mesh, tg.ShardAxis("m")))
    assert "operator 'rotate' argument 'axis'" in text
    assert '@tg.op(parallel="m")' in text
    _, text = refusal(lambda: parallelize_module(Linear(3, 4), mesh, tg.ShardAxis("k")))
    assert "expected: m, n" in text
    assert "got:      k" in text


@on_ranks(2)
def test_shard_axis_with_the_wrong_number_of_layouts():
    for name in ("input_layouts", "output_layouts"):
        style = tg.ShardAxis("m", **{name: [R, R]})
        _, text = refusal(lambda style=style: parallelize_module(Linear(4, 4), mesh_of(2), style))
        assert f"operator 'linear' argument '{name}': has the wrong number of placements" in text, text


@on_ranks(4)
def test_shard_axis_on_two_mesh_axes():
    _, text = refusal(lambda: parallelize_module(Linear(4, 4), mesh_of(2, 2), tg.ShardAxis("m")))
    assert "operator 'linear' argument 'device_mesh': has several axes" in text
    assert "next:     pass mesh['inner']" in text


# -- imports ----------------------------------------------------------------------------------------------------------


IMPORTS = """
import sys, torch, torchgraft as tg
names = ["torch.distributed.tensor", "torch.distributed.tensor.parallel"]
tg.op, tg.check, tg.module, "ShardAxis" in dir(tg)
print(*[name in sys.modules for name in names])
tg.ShardAxis
print(*[name in sys.modules for name in names])
"""


@pytest.mark.slow
def test_nothing_of_dtensors_is_imported_before_it_is_asked_for():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True True"]
