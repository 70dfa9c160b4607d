"""Sizes that are known only after the call, in torch, NumPy and C: every transform is right, or refused by name."""

import contextlib
import copy
import io
import pickle
import threading
from typing import NamedTuple

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import torchgraft as tg
from torchgraft._torch import is_direct, plain_tensors_of
from torchgraft._torch.plain import _PlainGuards

from ..default import in_turn
from ..simulated import simulated

# -- the same operator in three languages ------------------------------------------------------------------------------
# Rows whose first element is positive, times w; and the sum of the squares of each.


class Rows(NamedTuple):
    rows: Float[Tensor, "k d"]
    sums: Float[Tensor, "k"]
    index: Int64[Tensor, "k"]


class ArrayRows(NamedTuple):
    rows: Float[np.ndarray, "k d"]
    sums: Float[np.ndarray, "k"]
    index: Int64[np.ndarray, "k"]


@tg.op(data_dependent="k")
def in_torch(x: Float[Tensor, "n d"], w: Float[Tensor, "d"]) -> Rows:
    (index,) = torch.nonzero(x[:, 0] > 0, as_tuple=True)
    return Rows(x[index] * w, x[index].square().sum(1), index)


@tg.op(data_dependent="k <= n")
def in_numpy(x: Float[np.ndarray, "n d"], w: Float[np.ndarray, "d"]) -> ArrayRows:
    (index,) = np.nonzero(x[:, 0] > 0)
    return ArrayRows(x[index] * w, (x[index] ** 2).sum(1), index)


SOURCE = """
void in_c(int64_t n, int64_t d, const T *x, const T *w, T *rows, T *sums, int64_t *index, int64_t *k) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!d || !(x[i * d] > 0)) continue;
        sums[m] = 0;
        for (int64_t j = 0; j < d; j++) {
            rows[m * d + j] = x[i * d + j] * w[j];
            sums[m] += x[i * d + j] * x[i * d + j];
        }
        index[m++] = i;
    }
    *k = m;
}
"""


@tg.op(kernel=tg.c(SOURCE), data_dependent="k <= n")
def in_c(x: Float[Tensor, "n d"], w: Float[Tensor, "d"]) -> Rows:
    """The rows, in C."""


def plain(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (index,) = torch.nonzero(x[:, 0] > 0, as_tuple=True)
    return x[index] * w, x[index].square().sum(1), index


for op in (in_torch, in_numpy, in_c):

    @op.vjp("x")
    def _(grad_rows, grad_sums, x, w, index):
        return torch.zeros_like(x).index_add(0, index, grad_rows * w + 2 * grad_sums[:, None] * x[index])

    @op.vjp("w", independent="sums")
    def _(grad_rows, x, index):
        return (grad_rows * x[index]).sum(0)


OPS = {"torch": in_torch, "NumPy": in_numpy, "C": in_c}
ops = pytest.mark.parametrize("op", OPS.values(), ids=OPS)
one_by_default = pytest.mark.parametrize(
    "op", [pytest.param(op, id=name, marks=() if op is in_c else pytest.mark.slow) for name, op in OPS.items()]
)


def points(*, dtype=torch.float64):
    """Arguments of one size n, of which k is 2, 5, 0 and 1; then of other sizes n, 0 and 1 among them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x, w = torch.randn(5, 3, dtype=dtype), torch.randn(3, dtype=dtype)
        x[:, 0] = torch.tensor([1.0, -1, -2, 2, -1], dtype=dtype)
        one = x.clone()
        one[3, 0] = -1
        more = torch.randn(8, 3, dtype=dtype)
    return [(x, w), (x.abs() + 0.1, w), (-x.abs() - 0.1, w), (one, w), (x[:0], w), (x[:1], w), (x[1:2], w), (more, w)]


def loss(function, x, w):
    rows, sums, _ = function(x, w)
    ramp = torch.arange(rows.shape[0], dtype=rows.dtype) + 1
    return (rows.sin().sum(1) * ramp).sum() + (sums * ramp.cos()).sum()


def vector(function, x, w):
    rows, sums, _ = function(x, w)
    return torch.cat([rows.sin().flatten(), sums])


def same(found, expected):
    torch.testing.assert_close(found, expected, equal_nan=True)


# -- eager code --------------------------------------------------------------------------------------------------------


@ops
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_values(op, mode):
    with mode():
        for x, w in points() * 2:  # The second round is recognised.
            made = op(x, w)
            assert isinstance(made, tuple)
            assert made._fields == ("rows", "sums", "index")
            same(tuple(made), plain(x, w))
            assert all(output.is_contiguous() for output in made)
            assert made.rows.untyped_storage().nbytes() == made.rows.nbytes  # No capacity is kept.


@ops
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_dtypes(op, dtype):
    x, w = points(dtype=dtype)[0]
    made = op(x, w)
    assert made.rows.dtype is dtype
    same([m.float() for m in made[:2]], [p.to(dtype).float() for p in plain(x.float(), w.float())[:2]])


@ops
def test_backward(op):
    for x, w in points():
        leaves = [t.clone().requires_grad_() for t in (x, w)]
        expected = [t.clone().requires_grad_() for t in (x, w)]
        for _ in range(2):
            loss(op, *leaves).backward()
            loss(plain, *expected).backward()
        same([t.grad for t in leaves], [t.grad for t in expected])


@ops
def test_double_backward(op):
    x, w = (t.requires_grad_() for t in points()[0])

    def second(function):
        first = torch.autograd.grad(loss(function, x, w), (x, w), create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), (x, w))

    same(second(op), second(plain))


@ops
def test_arguments_that_are_not_contiguous(op):
    x, w = points()[0]
    same(tuple(op(x.T.contiguous().T, w.repeat(2)[::2][: len(w)])), plain(x, w.repeat(2)[::2][: len(w)]))


@ops
def test_gradcheck(op):
    x, w = (t.requires_grad_() for t in points()[0])
    torch.autograd.gradcheck(lambda x, w: op(x, w)[:2], (x, w), check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(lambda x, w: op(x, w)[:2], (x, w))


@ops
def test_an_input_that_requires_no_grad(op):
    x, w = points()[0]
    w.requires_grad_()
    same(torch.autograd.grad(loss(op, x, w), w), torch.autograd.grad(loss(plain, x, w), w))


@ops
def test_checkpoint(op):
    x, w = (t.requires_grad_() for t in points()[0])
    for reentrant in (False, True):
        made = torch.utils.checkpoint.checkpoint(lambda x, w: loss(op, x, w), x, w, use_reentrant=reentrant)
        same(torch.autograd.grad(made, (x, w)) if not reentrant else _backward(made, x, w), _plain_gradients(x, w))


def _backward(made, *leaves):
    for leaf in leaves:
        leaf.grad = None
    made.backward()
    return tuple(leaf.grad for leaf in leaves)


def _plain_gradients(x, w):
    return torch.autograd.grad(loss(plain, x, w), (x, w))


@ops
def test_autocast(op):
    x, w = points(dtype=torch.float32)[0]
    with torch.autocast("cpu", torch.bfloat16):
        same(tuple(op(x, w)), plain(x, w))
        made = op(x, w.bfloat16())
    assert made.rows.dtype is torch.float32  # The widest.


@ops
def test_profiler_and_graph(op):
    x, w = (t.requires_grad_() for t in points()[0])
    with torch.profiler.profile() as profile:
        made = op(x, w)
        (made.rows.sum() + made.sums.sum()).backward()
    assert type(made.rows.grad_fn).__name__.startswith(op.__name__)
    assert any(op.__name__ in event.key for event in profile.key_averages())


@ops
def test_threads(op):
    x, w = points()[7]
    expected, wrong = plain(x, w), []

    def work():
        for _ in range(50):
            if not all(torch.allclose(a, b) for a, b in zip(op(x, w), expected, strict=True)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@ops
def test_copies_and_pickles(op):
    assert copy.deepcopy(op) is copy.copy(op) is pickle.loads(pickle.dumps(op)) is op


@ops
def test_the_hot_path_recognises_other_sizes(op, monkeypatch):
    (x, w), (many, _), *_ = points()
    op(x, w)
    monkeypatch.setattr(type(op._lowering), "call", None)
    monkeypatch.setattr(type(op._record), "plan", None)  # What has no entry would make a plan.
    with torch.no_grad():
        assert len(op(many, w).rows) == 5
        assert len(op(x, w).rows) == 2


# -- transforms --------------------------------------------------------------------------------------------------------

TRANSFORMS = {
    "grad": lambda f, x, w: grad(lambda *p: loss(f, *p), (0, 1))(x, w),
    "vjp": lambda f, x, w: vjp(lambda *p: vector(f, *p), x, w)[1](vector(f, x, w).cos()),
    "jvp": lambda f, x, w: jvp(lambda *p: vector(f, *p), (x, w), (x.cos(), w.sin())),
    "jacrev": lambda f, x, w: jacrev(lambda *p: vector(f, *p), (0, 1))(x, w),
    "jacfwd": lambda f, x, w: jacfwd(lambda *p: vector(f, *p), (0, 1))(x, w),
    "hessian": lambda f, x, w: hessian(lambda *p: loss(f, *p), (0, 1))(x, w),
    "jacrev(jacrev)": lambda f, x, w: jacrev(jacrev(lambda *p: vector(f, *p)))(x, w),
    "jacfwd(jacfwd)": lambda f, x, w: jacfwd(jacfwd(lambda *p: loss(f, *p)))(x, w),
    "jvp(grad)": lambda f, x, w: jvp(grad(lambda x: loss(f, x, w)), (x,), (x.cos(),)),
    "grad(jvp)": lambda f, x, w: grad(lambda x: jvp(lambda x: loss(f, x, w), (x,), (x.cos(),))[1])(x),
    "functionalize": lambda f, x, w: functionalize(lambda *p: vector(f, *p))(x, w),
    "functionalize(grad)": lambda f, x, w: functionalize(grad(lambda x: loss(f, x, w)))(x),
    "linearize": lambda f, x, w: torch.func.linearize(lambda x: vector(f, x, w), x)[1](x.cos()),
    "vmap of what it is not mapped over": lambda f, x, w: vmap(lambda s: s * loss(f, x, w))(torch.arange(3.0)),
}


@ops
@pytest.mark.parametrize(("name", "point"), in_turn(2, TRANSFORMS, [0, 1, 2, 3, 7]))
def test_transforms(op, name, point):
    (x, w), transform = points()[point], TRANSFORMS[name]
    same(transform(op, x, w), transform(plain, x, w))


@ops
def test_is_grads_batched(op):
    x, w = (t.requires_grad_() for t in points()[0])

    def jacobian(function):
        out = vector(function, x, w)
        return torch.autograd.grad(out, (x, w), torch.eye(len(out), dtype=out.dtype), is_grads_batched=True)

    same(jacobian(op), jacobian(plain))


@ops
def test_dual_level(op):
    x, w = points()[0]

    def push(function):
        with forward_ad.dual_level():
            out = vector(function, forward_ad.make_dual(x, x.cos()), w)
            return tuple(forward_ad.unpack_dual(out))

    same(push(op), push(plain))


MAPPED = {
    "vmap": lambda f, x, w: vmap(f, (0, None))(x, w),
    "in_dims": lambda f, x, w: vmap(f, (1, None))(x.movedim(0, 1), w),
    "of w": lambda f, x, w: vmap(f, (None, 0))(x[0], torch.stack([w, w])),
    "nested": lambda f, x, w: vmap(vmap(f, (0, None)), (0, None))(x[None], w),
    "per-sample gradients": lambda f, x, w: vmap(grad(lambda x: loss(f, x, w)))(x),
    "grad of vmap": lambda f, x, w: grad(lambda x: vmap(lambda x: loss(f, x, w))(x).sum())(x),
    "jvp of vmap": lambda f, x, w: jvp(lambda x: vmap(lambda x: loss(f, x, w))(x), (x,), (x,)),
}


@ops
@pytest.mark.parametrize("mapped", MAPPED.values(), ids=MAPPED)
def test_vmap_is_refused_by_name(op, mapped):
    x, w = points()[0]
    with pytest.raises(tg.UnsupportedError, match=rf"{op.__name__}.*vmap.*size k") as raised:
        mapped(op, torch.stack([x, x]), w)
    assert "count" in raised.value.hint
    assert f"def {op.__name__}_padded" in raised.value.hint


def test_the_hint_of_vmap_is_a_program():
    """The sketch is filled in, and mapped."""
    with pytest.raises(tg.UnsupportedError) as raised:
        vmap(in_torch, (0, None))(torch.randn(2, 5, 3), torch.randn(3))
    sketch = raised.value.hint.partition("\n")[2].replace("made = ...", "made = x[x > 0]")
    names = {"tg": tg, "Float": Float, "Int64": Int64, "Tensor": Tensor, "torch": torch, "F": torch.nn.functional}
    exec(compile(sketch, "<sketch>", "exec"), names | {"__name__": "sketch"}, local := {})
    x = torch.tensor([[1.0, -1, 2, -2], [-1, -1, -1, 3]])
    for values, count, row in zip(*vmap(local["in_torch_padded"])(x), x, strict=True):
        same(values[:count], row[row > 0])


# -- compilers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _fresh_compiler():
    yield
    torch.compiler.reset()


def _trained(function, x, w):
    leaves = [t.clone().requires_grad_() for t in (x, w)]
    made = function(*leaves)
    made.backward()
    return made.detach(), *(leaf.grad for leaf in leaves)


@ops
@pytest.mark.parametrize(
    "dynamic",
    [
        pytest.param(None, id="automatic"),
        pytest.param(True, id="dynamic", marks=pytest.mark.slow),
        pytest.param(False, id="static", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled(op, backend, dynamic):
    """Forward and backward, at sizes k of 0, 1 and more, none of which the compiler takes for another."""
    compiled = torch.compile(lambda x, w: loss(op, x, w) * 2, backend=backend, fullgraph=True, dynamic=dynamic)
    for x, w in points()[: {False: 4, None: 6}.get(dynamic)]:
        if backend == "inductor" and not len(x):
            continue  # It cannot lower x[index] of no rows by a list of unknown length, in plain torch either.
        same(_trained(compiled, x, w), _trained(lambda x, w: loss(plain, x, w) * 2, x, w))
        with torch.no_grad():
            same(compiled(x, w), loss(plain, x, w) * 2)


@ops
def test_compiled_once_for_all_sizes(op):
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x, w: loss(op, x, w), backend=counter, fullgraph=True)
    for x, w in points()[:4]:
        compiled(x, w)
    assert counter.frame_count == 1


@one_by_default
def test_compiled_outputs_have_one_size(op):
    """What is made of two outputs needs the two to be known to be equally large."""

    def function(f, x, w):
        rows, sums, index = f(x, w)
        return torch.cat([rows + sums[:, None], index[:, None] * rows], 1), rows.shape[0] == sums.shape[0]

    compiled = torch.compile(lambda x, w: function(op, x, w), backend="aot_eager", fullgraph=True)
    for x, w in points():
        same(compiled(x, w), function(plain, x, w))


@one_by_default
def test_compiled_with_graph_breaks(op):
    """Without `fullgraph`, torch does not capture sizes that hang on values."""
    assert not torch._dynamo.config.capture_dynamic_output_shape_ops
    compiled = torch.compile(lambda x, w: loss(op, x.sin(), w) * 2, backend="aot_eager")
    for x, w in points():
        same(_trained(compiled, x, w), _trained(lambda x, w: loss(plain, x.sin(), w) * 2, x, w))
    counter = torch._dynamo.testing.CompileCounter()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(lambda x, w: loss(op, x.sin(), w), backend=counter)(*points()[0])
    assert counter.frame_count == 1


@one_by_default
def test_compiled_grad(op):
    x, w = points()[0]
    expected = grad(lambda x: loss(plain, x, w))
    try:
        torch.compile(expected, backend="aot_eager", fullgraph=True)(x)
    except Exception:
        pytest.skip("this torch cannot compile the gradient of its own functions of such sizes")
    same(torch.compile(grad(lambda x: loss(op, x, w)), backend="aot_eager", fullgraph=True)(x), expected(x))


@one_by_default
def test_compiled_checkpoint(op):
    def function(f, x, w):
        return torch.utils.checkpoint.checkpoint(lambda x, w: loss(f, x, w), x, w, use_reentrant=False)

    compiled = torch.compile(lambda x, w: function(op, x, w), backend="aot_eager", fullgraph=True)
    for x, w in points()[:4]:
        same(_trained(compiled, x, w), _trained(lambda x, w: function(plain, x, w), x, w))


@ops
def test_compiled_vmap_is_refused_by_name(op):
    x, w = points()[0]
    compiled = torch.compile(vmap(lambda x: loss(op, x, w)), backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match=f"operator '{op.__name__}': torch.vmap cannot map it"):
        compiled(torch.stack([x, x]))


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, w):
        rows, sums, index = self.function(x, w)
        return rows * 2, sums + index


@pytest.mark.slow
@ops
@pytest.mark.parametrize("strict", [False, True])
def test_exported(op, strict):
    """Export, decompose, save, load, and run with other sizes."""
    x, w = points()[0]
    shapes = {"x": {0: torch.export.Dim.DYNAMIC}, "w": None}
    program = torch.export.export(Model(op), (x, w), dynamic_shapes=shapes, strict=strict)
    decomposed, file = program.run_decompositions(), io.BytesIO()
    torch.export.save(decomposed, file)
    file.seek(0)
    for module in (program.module(), decomposed.module(), torch.export.load(file).module()):
        for arguments in points()[:4] + points()[7:]:
            same(module(*arguments), Model(plain)(*arguments))


@ops
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_traced(op, mode):
    x, w = points()[0]
    traced = make_fx(lambda x, w: vector(op, x, w), tracing_mode=mode)(x, w)
    assert f"{op.torch_op}" in traced.code
    same(traced(x, w), vector(plain, x, w))
    if mode == "symbolic":
        for arguments in points()[1:4]:
            same(traced(*arguments), vector(plain, *arguments))


@ops
def test_fake_tensors_share_one_symbol_for_each_name(op):
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        x, w = (mode.from_tensor(t, static_shapes=True) for t in points()[0])
        rows, sums, index = op(x, w)
        again = op(x, w)
    assert isinstance(rows.shape[0], torch.SymInt)
    assert rows.shape[0].node.expr == sums.shape[0].node.expr == index.shape[0].node.expr
    assert rows.shape[0].node.expr != again.rows.shape[0].node.expr
    assert rows.shape[1] == 3


@ops
def test_fake_tensors_without_symbols_are_refused(op):
    with FakeTensorMode() as mode:
        x, w = (mode.from_tensor(t) for t in points()[0])
        with pytest.raises(tg.UnsupportedError, match=f"{op.__name__}.*size k") as raised:
            op(x, w)
    assert "ShapeEnv" in raised.value.hint


@ops
def test_meta_tensors_are_refused(op):
    with pytest.raises(tg.UnsupportedError, match=f"{op.__name__}.*size k .*meta tensors"):
        op(*(t.to("meta") for t in points()[0]))


@one_by_default
def test_opcheck(op):
    torch.library.opcheck(op.torch_op, tuple(t.requires_grad_() for t in points()[0]))


# -- declarations ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_sizes_and_what_is_computed_of_them():
    @tg.op(data_dependent="k <= n  m")
    def parts(
        x: Float[Tensor, "n"],
    ) -> tuple[
        Float[Tensor, "k"], Float[Tensor, "n-k"], Float[Tensor, "m 2"], Float[Tensor, "k+m 3"], Float[Tensor, "n"]
    ]:
        large, small = x[x > 0], x[x <= 0]
        m = int(x.abs().max()) if len(x) else 0
        return large, small, x.new_ones(m, 2), x.new_ones(len(large) + m, 3), x * 2

    @parts.vjp("x")
    def _(grad_out0, grad_out1, grad_out2, grad_out3, grad_out4, x):
        (places, others) = (torch.nonzero(mask, as_tuple=True)[0] for mask in (x > 0, x <= 0))
        return (2 * grad_out4).index_add(0, places, grad_out0).index_add(0, others, grad_out1)

    def total(f, x):
        large, small, *_, twice = f(x)
        return large.sin().sum() + (small**3).sum() + twice.square().sum()

    def simple(x):
        return x[x > 0], x[x <= 0], 2 * x

    compiled = torch.compile(lambda x: total(parts, x), backend="aot_eager", fullgraph=True)
    for values in ([0.5, -1, 3.5, -0.5], [1.0, 2, 3, 4], [-1.0, -2, -3, -4], [1.5]) * 2:
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        for function in (lambda x: total(parts, x), compiled):
            same(torch.autograd.grad(function(x), x), torch.autograd.grad(total(simple, x), x))
    assert [tuple(made.shape) for made in parts(torch.tensor([0.5, -1, 3.5, -0.5]))] == [
        (2,), (2,), (3, 2), (5, 3), (4,)
    ]  # fmt: skip


@pytest.mark.parametrize("language", ["torch", "C"])
def test_the_size_twice_in_one_output(language):
    """The differences of all pairs of positive numbers."""
    if language == "C":
        op = tg.op(kernel=tg.c("""
            void pairs(int64_t n, const T *x, T *out, int64_t *k) {
                int64_t m = 0;
                for (int64_t i = 0; i < n; i++) {
                    if (!(x[i] > 0)) continue;
                    int64_t l = 0;
                    for (int64_t j = 0; j < n; j++)
                        if (x[j] > 0) out[m * n + l++] = x[i] - x[j];
                    m++;
                }
                *k = m;
            }
        """), data_dependent="k <= n", name="pairs")(_pairs)  # fmt: skip
    else:
        op = tg.op(data_dependent="k", name="pairs")(_pairs_in_torch)
    for values in ([1.0, -1, 2, 3, -2], [1.0, 2], [-1.0], []):
        x = torch.tensor(values)
        same(op(x), _pairs_in_torch(x))
    bad = tg.op(data_dependent="k", name="pairs")(_no_square)
    with pytest.raises(tg.KernelError, match="k = 3 from out, but out has 2"):
        bad(torch.ones(3))


def _pairs(x: Float[Tensor, "n"]) -> Float[Tensor, "k k"]: ...


def _pairs_in_torch(x: Float[Tensor, "n"]) -> Float[Tensor, "k k"]:
    positive = x[x > 0]
    return positive[:, None] - positive


def _no_square(x: Float[Tensor, "n"]) -> Float[Tensor, "k k"]:
    return x[:, None] - x[1:]


def test_an_output_that_is_contiguous_at_first():
    """What is recognised by its sizes is laid out as the first was."""

    @tg.op(data_dependent="k")
    def columns(x: Float[Tensor, "n d"]) -> Float[Tensor, "d k"]:
        chosen = x[x[:, 0] > 0]
        return chosen.mT if x[0, 0] > 1 else chosen.mT.contiguous()

    for first in (0.5, 1.5, 0.5, 2.0):
        x = torch.tensor([[first, 1], [-1, 2], [3, 3]])
        made = columns(x)
        assert made.is_contiguous()
        same(made, x[x[:, 0] > 0].mT.contiguous())


def test_one_tensor_for_two_outputs_is_copied():
    @tg.op(data_dependent="k")
    def twice(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], Float[Tensor, "k"]]:
        made = x[x > 0]
        return made, made

    for _ in range(3):
        first, second = twice(torch.tensor([1.0, -1, 2]))
        first.zero_()
        assert second.tolist() == [1, 2]


def test_an_adjoint():
    """The operator is linear in x, and its size hangs on the mask alone."""

    @tg.op(data_dependent="k <= n")
    def masked(x: Float[Tensor, "n"], mask: Int64[Tensor, "n"]) -> Float[Tensor, "k"]:
        return x[mask > 0]

    @masked.adjoint("x")
    def _(grad, mask):
        places = torch.repeat_interleave((mask > 0).long(), output_size=grad.shape[0])
        return torch.zeros(len(mask), dtype=grad.dtype).index_add(0, places, grad)

    x, mask = torch.randn(5, dtype=torch.float64), torch.tensor([1, 0, 1, 1, 0])
    same(jacrev(lambda x: masked(x, mask).sin())(x), jacrev(lambda x: x[mask > 0].sin())(x))
    same(*(jvp(lambda x, f=f: f(x).sin(), (x,), (x,)) for f in (lambda x: masked(x, mask), lambda x: x[mask > 0])))
    with pytest.raises(tg.UnsupportedError, match=r"masked.*vmap"):  # It would map the operator itself.
        jacfwd(lambda x: masked(x, mask))(x)
    x.requires_grad_()
    torch.autograd.gradgradcheck(lambda x: masked(x, mask).sin(), x)


@pytest.mark.parametrize("guards", ["torch's", "ours"])
def test_what_is_recognised(guards, monkeypatch):
    """In C, and where torch lacks what that is made of."""
    if guards == "ours":
        monkeypatch.setattr("torchgraft._torch.plain._TensorGuards", _PlainGuards)
    looks = plain_tensors_of([[None, 3], [None]], [torch.zeros(2, 3), torch.zeros(2)])
    assert looks(torch.zeros(5, 3), torch.zeros(0))
    assert looks(torch.zeros(3, 5).T, torch.zeros(7))  # Strides are looked at elsewhere.
    for wrong in (
        (torch.zeros(5, 2), torch.zeros(2)), (torch.zeros(5, 3, 1), torch.zeros(2)), (torch.zeros(5), torch.zeros(2)),
        (torch.zeros(5, 3, dtype=torch.float64), torch.zeros(2)), (torch.zeros(5, 3), torch.zeros(2, 1)),
        (torch.zeros(5, 3), torch.zeros(2, requires_grad=True)), (torch.zeros(5, 3), None),
    ):  # fmt: skip
        assert not looks(*wrong)


def test_a_saved_output_of_the_size():
    @tg.op(data_dependent="k")
    def positive(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], tg.Saved[Int64[Tensor, "k"], "places"]]:
        (places,) = torch.nonzero(x > 0, as_tuple=True)
        return x[places].sin(), places

    @positive.vjp("x")
    def _(grad, x, places):
        return torch.zeros_like(x).index_add(0, places, grad * x[places].cos())

    def simple(x):
        return x[x > 0].sin()

    x = torch.randn(7, dtype=torch.float64, requires_grad=True)
    for function in (positive, torch.compile(positive, backend="aot_eager", fullgraph=True)):
        same(function(x), simple(x))
        same(torch.autograd.grad(function(x).sum(), x), torch.autograd.grad(simple(x).sum(), x))
    same(jacrev(positive)(x), jacrev(simple)(x))


def test_a_run_of_axes_beside_the_size():
    """k is one number for all of them: nothing is promised of samples."""

    @tg.op(data_dependent="k")
    def rows(x: Float[Tensor, "*rest n"]) -> Float[Tensor, "*rest k"]:
        return x[..., x.flatten(0, -2).sum(0) > 0]

    @rows.vjp("x")
    def _(grad, x):
        (places,) = torch.nonzero(x.flatten(0, -2).sum(0) > 0, as_tuple=True)
        return torch.zeros_like(x).index_add(-1, places, grad)

    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    expected = x[..., x.flatten(0, -2).sum(0) > 0]
    same(rows(x), expected)
    weights = torch.randn_like(expected)
    same(torch.autograd.grad(rows(x), x, weights), torch.autograd.grad(expected, x, weights))
    with pytest.raises(tg.UnsupportedError, match=r"rows.*vmap"):
        vmap(rows)(x)


def test_a_list_and_an_optional_input():
    @tg.op(data_dependent="k")
    def joined(xs: list[Float[Tensor, "_"]], y: Float[Tensor, "n"] | None = None) -> Float[Tensor, "k"]:
        every = torch.cat(xs if y is None else [*xs, y])
        return every[every > 0]

    for xs, y in (([torch.randn(3), torch.randn(2)], None), ([torch.randn(4)], torch.randn(3))):
        every = torch.cat(xs if y is None else [*xs, y])
        same(joined(xs, y), every[every > 0])


def test_a_number_in_the_bound():
    @tg.op(kernel=tg.c("""
        void first(int64_t n, const T *x, int64_t most, T *out, int64_t *k) {
            *k = n < most ? n : most;
            for (int64_t i = 0; i < *k; i++) out[i] = x[i];
        }
    """), data_dependent="k <= min(n, {most})")  # fmt: skip
    def first(x: Float[Tensor, "n"], most: int) -> Float[Tensor, "k"]: ...

    x = torch.randn(5)
    for most in (3, 7, 0, 3):
        same(first(x, most), x[:most])


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["NumPy", "C"])
def test_rules_in_other_languages(rule):
    @tg.op(kernel=tg.c("""
        void positive(int64_t n, const T *x, T *out, int64_t *index, int64_t *k) {
            int64_t m = 0;
            for (int64_t i = 0; i < n; i++)
                if (x[i] > 0) out[m] = x[i] * x[i], index[m++] = i;
            *k = m;
        }
        void positive_vjp_x(int64_t n, int64_t k, const T *grad, const int64_t *index, const T *x, T *grad_x) {
            for (int64_t i = 0; i < n; i++) grad_x[i] = 0;
            for (int64_t j = 0; j < k; j++) grad_x[index[j]] = 2 * x[index[j]] * grad[j];
        }
    """), data_dependent="k <= n")  # fmt: skip
    def positive(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], tg.Saved[Int64[Tensor, "k"], "index"]]: ...

    if rule == "C":
        positive.vjp("x", kernel=positive._record.natives()[0].source)(_rule_in_c)
    else:
        positive.vjp("x")(_rule_in_numpy)

    def simple(x):
        return x[x > 0].square()

    for x in (torch.randn(6).double(), torch.ones(6).double(), -torch.ones(6).double(), torch.randn(0).double()):
        x.requires_grad_()
        for function in (positive, torch.compile(positive, backend="aot_eager", fullgraph=True)):
            found, expected = function(x), simple(x)
            same(found, expected)
            weights = torch.randn_like(expected)
            same(torch.autograd.grad(found, x, weights), torch.autograd.grad(expected, x, weights))
    x = torch.randn(6, dtype=torch.float64)
    same(jacrev(positive)(x), jacrev(simple)(x))
    assert "int64_t n, int64_t k, const T *grad" in positive.prototype() or rule == "NumPy"


def _rule_in_c(grad, index, x): ...


_rule_in_c.__name__ = "_"


def _rule_in_numpy(grad: np.ndarray, index: np.ndarray, x: np.ndarray):
    made = np.zeros_like(x)
    made[index] = 2 * x[index] * grad
    return made


# -- C -----------------------------------------------------------------------------------------------------------------


def _in_c(body: str, *, data_dependent: str = "k <= n", returns: str = "void") -> tg.Op:
    @tg.op(kernel=tg.c(f"{returns} bad(int64_t n, const T *x, T *out, int64_t *k) {{ {body} }}"),
           data_dependent=data_dependent)  # fmt: skip
    def bad(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]: ...

    return bad


WRONG = {
    "nothing": ("(void)n;", "did not say how large"),
    "more than the memory": ("*k = n + 1;", "says a size"),
    "less than nothing": ("*k = -3;", "says a size"),
}


@pytest.mark.parametrize(("body", "match"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("debugged", [False, True])
def test_c_says_a_wrong_size(body, match, debugged):
    x, bad = torch.randn(4), _in_c(body)
    with tg.debug() if debugged else contextlib.nullcontext():
        for _ in range(2):
            with pytest.raises(tg.KernelError, match=f"bad.*{match}"):
                bad(x)


def test_c_fails_before_it_says_a_size():
    with pytest.raises(tg.KernelError, match="returned 7"):
        _in_c("return 7;", returns="int")(torch.randn(4))


def test_memory_in_every_place():
    """Axes before and behind the late ones, of which there are two."""
    op = tg.op(kernel=tg.c("""
        void cut(int64_t n, int64_t d, const T *x, T *a, T *b, T *c, int64_t *k, int64_t *m) {
            *k = n - 1, *m = 2;
            for (int64_t i = 0; i < n * d; i++) a[i] = x[i];
            for (int64_t j = 0; j < d; j++)
                for (int64_t i = 0; i < n + 1; i++)
                    for (int64_t l = 0; l < n; l++) b[(j * (n + 1) + i) * n + l] = 100 * j + 10 * i + l;
            for (int64_t i = 0; i < n * (n + 1); i++) c[i] = i;
        }
    """), data_dependent="k <= n  m <= n + 1", name="cut")(_cut)  # fmt: skip
    for n, d in ((4, 2), (3, 1), (1, 3), (2, 0)):
        x = torch.randn(n, d, dtype=torch.float64)
        j, i, last = (torch.arange(size, dtype=torch.float64) for size in (d, n + 1, n))
        whole = 100 * j[:, None, None] + 10 * i[:, None] + last
        c = torch.arange(n * (n + 1), dtype=torch.float64).reshape(n, n + 1)
        expected = (x[: n - 1], whole[:, :2, : n - 1], c[: n - 1, :2])
        same(op(x), expected)
        with tg.debug():
            same(op(x), expected)


def _cut(x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "k d"], Float[Tensor, "d m k"], Float[Tensor, "k m"]]: ...


def test_debugged_calls_look_at_the_part_that_counts():
    x = torch.randn(4)
    with tg.debug():
        same(_in_c("*k = 2; out[0] = x[1]; out[1] = x[0];")(x), x[:2].flip(0))
        with pytest.raises(tg.KernelError, match=r"never wrote out\[1\]"):
            _in_c("*k = 2; out[0] = x[1];")(x)
        with pytest.raises(tg.KernelError, match="size of out depends on memory"):
            _in_c("*k = out[0] > 0 ? 1 : 2; out[0] = out[1] = x[0];")(x)
        with pytest.raises(tg.KernelError, match="stepped out of its memory"):
            _in_c("*k = n; for (int64_t i = 0; i <= n; i++) out[i] = x[0];")(x)


def test_prototype():
    assert in_c.prototype().partition("\n")[0] == (
        "void in_c(int64_t n, int64_t d, const T *x, const T *w, T *rows, T *sums, int64_t *index, int64_t *k)"
    )


def test_a_function_with_the_size_elsewhere():
    """Two pointers of one type: their order is looked at."""
    with pytest.raises(tg.BuildError, match="something else than the annotations say"):
        tg.op(kernel=tg.c("void swapped(int64_t n, const T *x, int64_t *k, int64_t *out) { *k = 0; }"),
              data_dependent="k <= n")(_swapped)(torch.randn(3))  # fmt: skip


def swapped(x: Float[Tensor, "n"]) -> Int64[Tensor, "k"]: ...


_swapped = swapped


@pytest.mark.slow
def test_a_library_without_python(tmp_path):
    import subprocess
    import sys

    library = tmp_path / "rows.so"
    in_c.save_library(library, dtypes=[torch.float64])
    space, name = in_c.torch_op.name().split("::")
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
x = torch.tensor([[1.0, 2], [-1, 3], [2, 4]], dtype=torch.float64)
print([made.tolist() for made in torch.ops.{space}.{name}(x, x[0])])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[[1.0, 4.0], [2.0, 8.0]], [5.0, 20.0], [0, 2]]"


# -- wrong use ---------------------------------------------------------------------------------------------------------


def _declared(data_dependent, stub=None, **options):
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]:
        return x[x > 0]

    return tg.op(data_dependent=data_dependent, **options)(stub or f)


def _two(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "2*k"], Float[Tensor, "n"]]: ...
def _known(x: Float[Tensor, "k"]) -> Float[Tensor, "k"]: ...
def _expressed(x: Float[Tensor, "n"], y: Float[Tensor, "k+1"]) -> Float[Tensor, "k"]: ...
def _run(x: Float[Tensor, "n"]) -> Float[Tensor, "*k"]: ...
def _broadcast(x: Float[Tensor, "n"]) -> Float[Tensor, "#k"]: ...
def _bare(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], Tensor]: ...
def _other(x: Float[Tensor, "n"]) -> Float[Tensor, "m"]: ...


REFUSED = {
    "no string": ({"data_dependent": ["k"]}, "data_dependent", "is no string"),
    "no name": ({"data_dependent": "2*k"}, "data_dependent", "cannot be read"),
    "the other sign": ({"data_dependent": "k >= n"}, "data_dependent", "cannot be read"),
    "less": ({"data_dependent": "k < n"}, "data_dependent", "cannot be read"),
    "twice": ({"data_dependent": "k k"}, "data_dependent", "twice"),
    "no bound": ({"data_dependent": "k <="}, "data_dependent", "cannot be read"),
    "a bound of nothing": ({"data_dependent": "k <= m"}, "data_dependent", "bound of axis k"),
    "a bound of itself": ({"data_dependent": "k <= k"}, "data_dependent", "bound of axis k"),
    "a bound of an unknown": ({"data_dependent": "k <= n+m"}, "data_dependent", "never bound"),
    "a bound of any": ({"data_dependent": "k <= _"}, "data_dependent", "bound of axis k"),
    "a bound of a run": ({"data_dependent": "k <= *n"}, "data_dependent", "bound of axis k"),
    "in no output": ({"data_dependent": "k m"}, "data_dependent", "no output has axis m"),
    "an output's axis left out": ({"data_dependent": "k", "stub": _other}, "data_dependent", "no output has axis k"),
    "an expression alone": ({"data_dependent": "k", "stub": _two}, "data_dependent", "by itself"),
    "an input": ({"data_dependent": "k", "stub": _known}, "x", "known before the call"),
    "an input's expression": ({"data_dependent": "k", "stub": _expressed}, "y", "known before the call"),
    "a run": ({"data_dependent": "k", "stub": _run}, "out", "size of its own"),
    "broadcast": ({"data_dependent": "k", "stub": _broadcast}, "out", "size of its own"),
    "an output without axes": ({"data_dependent": "k", "stub": _bare}, "out1", "without axes"),
    "a loop": ({"data_dependent": "k", "batch": "loop"}, "data_dependent", "samples"),
    "parallel": ({"data_dependent": "k", "parallel": "k"}, "parallel", "sizes of outputs"),
    "reduction": ({"data_dependent": "k", "reduction": "n"}, "reduction", "sizes of outputs"),
}  # fmt: skip


@pytest.mark.parametrize(("declared", "argument", "match"), REFUSED.values(), ids=REFUSED)
def test_refused_declarations(declared, argument, match):
    with pytest.raises(tg.DeclarationError, match=match) as raised:
        _declared(**declared)
    assert argument in raised.value.argument


REFUSED_IN_C = {
    "no bound": ("k", "n", "k", "memory before"),
    "computed": ("k <= n", "n", "k n-k", "computed from"),
    "batch axes": ("k <= n", "*batch n", "*batch k", "different sizes"),
    "a whole array": ("k <= 5", "...", "k", None),
}


@pytest.mark.parametrize(("data_dependent", "x", "out", "match"), REFUSED_IN_C.values(), ids=REFUSED_IN_C)
def test_refused_declarations_in_c(data_dependent, x, out, match):
    def f(x): ...

    f.__annotations__ = {"x": Float[Tensor, x], "return": Float[Tensor, out]}
    declare = tg.op(kernel=tg.c("void f(void) {}"), data_dependent=data_dependent)
    if match is None:
        declare(f)  # A function that is told strides knows no size of x, and a number bounds.
        return
    with pytest.raises(tg.DeclarationError, match=match) as raised:
        declare(f)
    assert raised.value.operator == "f"


def test_a_bound_that_c_does_not_know():
    def f(x: Float[Tensor, "n *rest"]) -> Float[Tensor, "k"]: ...

    with pytest.raises(tg.DeclarationError, match="memory before"):
        tg.op(kernel=tg.c("void f(void) {}"), data_dependent="k <= n")(f)


WRONG_KERNELS = {
    "two sizes": (lambda x: (x[:2], x[:3]), "k = 2 from out0, but out1 has 3"),
    "axes": (lambda x: (x[:2, None], x[:2]), "2 axes"),
    "more than the bound": (lambda x: (torch.cat([x, x]), torch.cat([x, x])), "more than its bound"),
    "dtype": (lambda x: (x[:2].double(), x[:2]), "dtype"),
    "no tensor": (lambda x: (x[:2], None), "NoneType"),
    "one output": (lambda x: x[:2], "number of outputs"),
}


@pytest.mark.parametrize(("kernel", "match"), WRONG_KERNELS.values(), ids=WRONG_KERNELS)
@pytest.mark.parametrize("recorded", [False, True])
def test_wrong_kernels(kernel, match, recorded):
    """Wrong at once, and after a call that was right and is recognised."""
    right = [True]

    @tg.op(data_dependent="k <= n")
    def f(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], Float[Tensor, "k"]]:
        return (x[:3] * 1, x[:3] * 2) if right[0] else kernel(x)

    f.vjp("x")(lambda grad_out0, grad_out1, x: torch.zeros_like(x))
    x = torch.randn(5, requires_grad=recorded)
    f(x), f(x)
    right[0] = False
    for _ in range(2):
        with pytest.raises(tg.KernelError, match=match) as raised:
            f(x)
        assert raised.value.operator == "f"


def test_wrong_sizes_that_are_computed():
    @tg.op(data_dependent="k")
    def f(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], Float[Tensor, "n-k"]]:
        return x[x > 0], x[x < 0]

    f(torch.tensor([2.0, -0.5]))
    with pytest.raises(tg.KernelError, match="another shape than its annotation says"):
        f(torch.tensor([2.0, 0.0]))

    @tg.op(data_dependent="k")
    def g(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], Float[Tensor, "n-k"]]:
        return torch.cat([x, x]), x[:0]

    with pytest.raises(tg.KernelError, match="n-k = -2 is negative"):
        g(torch.ones(2))


def test_a_shape_rule_is_refused():
    f = _declared("k")
    with pytest.raises(tg.DeclarationError, match="annotated already"):
        f.shape(lambda x: x)


def test_an_output_that_is_a_view_is_owned():
    x = torch.tensor([1.0, 2.0, -1.0])
    f = _declared("k", _whole)
    made = f(x)
    made.add_(1)
    f(x).add_(1)
    assert x.tolist() == [1, 2, -1]


def _whole(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]:
    return x[:2]


def test_a_rule_of_another_shape():
    f = _declared("k")
    f.vjp("x")(lambda grad: grad)
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    with pytest.raises(tg.RuleError, match="another shape than its input"):
        f(x).sum().backward()


# -- what it says of itself, modules, meshes ---------------------------------------------------------------------------


@ops
def test_capabilities(op):
    said = op.capabilities()
    assert {name: bool(answer) for name, answer in said.items()} == {
        "reverse": True, "forward": True, "second order": True, "vmap": False, "compile": True, "export": True,
        "autocast": True,
    }  # fmt: skip
    assert "size k" in said["vmap"].how
    assert "pad" in said["vmap"].how
    row = next(line for line in str(op).splitlines() if line.startswith("  sizes"))
    assert row.split() == [
        "sizes",
        *(["k:"] if op is in_torch else ["k", "<=", "n:"]),
        *["known", "only", "after", "the", "call"],
    ]


def test_modules():
    layer = tg.module(in_torch, parameters=("w",))(d=3)
    x, _ = points(dtype=torch.float32)[0]
    same(tuple(layer(x)), tuple(t.detach() for t in plain(x, layer.w)))
    loss(lambda x, _: layer(x), x, None).backward()
    same(layer.w.grad, torch.autograd.grad(loss(plain, x, layer.w), layer.w)[0])


@pytest.mark.parametrize("placed", ["replicated", "cut"])
def test_meshes(placed):
    """Nothing is cut: what is not replicated is gathered, and every rank computes the same."""
    with simulated(2) as mesh:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        x, w = points()[0]
        x = torch.cat([x, x[:1]])
        for op in (in_torch, in_numpy, in_c):
            places = [Replicate()] if placed == "replicated" else [Shard(0)]
            a, b = distribute_tensor(x, mesh, places), distribute_tensor(w, mesh, [Replicate()])
            a.requires_grad_()
            made = op(a, b)
            for output, expected in zip(made, plain(x, w), strict=True):
                assert output.placements == (Replicate(),)
                same(output.to_local().reconcile(), expected)
            (found,) = torch.autograd.grad((made.rows.sin().sum() + made.sums.sum()), a)
            leaf = x.clone().requires_grad_()
            rows, sums, _ = plain(leaf, w)
            same(found.full_tensor().reconcile(), torch.autograd.grad(rows.sin().sum() + sums.sum(), leaf)[0])


# -- checks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@ops
def test_check(op):
    report = tg.check(op, *points()[0])
    assert report.verdict == "PASS", str(report)


@pytest.mark.slow
def test_check_finds_a_wrong_rule_and_a_wrong_kernel():
    def wrong(kernel, rule):
        op = _declared("k", kernel)
        op.vjp("x")(rule)
        op.reference(_positive)
        return tg.check(op, torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64))

    def right_rule(grad, x):
        return torch.zeros_like(x).index_add(0, torch.nonzero(x > 0)[:, 0], grad * 2)

    assert wrong(_doubled, right_rule).verdict == "PASS"
    found = wrong(_doubled, lambda grad, x: right_rule(grad, x) * 2)
    assert [finding.code for finding in found.findings][:1] == ["wrong-gradient"]
    assert wrong(_rotated, right_rule).verdict == "FAIL"


def _positive(x):
    return 2 * x[x > 0]


def _doubled(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]:
    return 2 * x[x > 0]


def _rotated(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]:
    return 2 * x[x > 0].flip(0)


def test_check_says_where_sizes_change():
    """The size jumps at the point itself: there is no derivative, which is said, and nothing is called wrong."""

    @tg.op(data_dependent="k")
    def above(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]:
        return x[x > x.mean()] if len(x) else x[:0]

    @above.vjp("x")
    def _(grad, x):
        return torch.zeros_like(x).index_add(0, torch.nonzero(x > x.mean())[:, 0], grad)

    report = tg.check(above, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert report.verdict == "INCONCLUSIVE", str(report)
    notes = " ".join(result.note for result in report.results)
    assert "the size k of its outputs changes" in notes
    assert tg.check(above, torch.tensor([1.0, 2.1, 3.0], dtype=torch.float64)).verdict == "PASS"


def test_check_takes_no_values_that_happen_to_be_a_bound():
    @tg.op(data_dependent="k")
    @tg.domain(low="[-1, 0]", high="[0, 1]")
    def within(x: Float[Tensor, "n"], low: float, high: float) -> Float[Tensor, "k"]:
        return x[(x >= low) & (x <= high)]

    @within.vjp("x")
    def _(grad, x, low, high):
        return torch.zeros_like(x).index_add(0, torch.nonzero((x >= low) & (x <= high))[:, 0], grad)

    report = tg.check(within)
    assert report.verdict == "PASS", str(report)


def test_plain_tensors_are_direct():
    """The tests above that mean the hot path do not go through the dispatcher."""
    assert is_direct(list(points()[0]))


def test_an_axis_that_no_input_has_gets_a_hint():
    with pytest.raises(tg.DeclarationError, match="axis k is never bound") as raised:
        _declared("")
    assert 'data_dependent="k"' in raised.value.hint
