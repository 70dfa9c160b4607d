"""Operators that return lists: every transform beside plain torch, wrong use, and random programs."""

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Float, Int64, Num
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import torchgraft as tg
from examples.split import split, to_unit

from .fuzz_lists import attempt
from .lists import EXAMPLES, LENGTHS, Clipped, Example, batched, clipped, saving, split_c, split_np, unbound, unit_c

each = pytest.mark.parametrize("example", list(EXAMPLES.values()), ids=list(EXAMPLES))
F = torch.func


def vector() -> Tensor:
    return torch.tensor([0.3, -1.2, 0.7, 2.1, -0.4, 1.6], dtype=torch.float64)


def loss(function: Any) -> Any:
    """A curved number of all outputs, each with a weight of its own."""
    return lambda x: sum((i + 1) * made.sin().sum() for i, made in enumerate(function(x)))


def agree(example: Example, make: Any) -> None:
    torch.testing.assert_close(make(example.call), make(example.plain))


# -- eager ------------------------------------------------------------------------------------------------------------


@each
def test_values(example: Example):
    x = vector()
    for given in (x, x, x.flip(0), torch.stack([x, x], 1)[:, 0]):  # known, new, and of other strides
        agree(example, lambda f, given=given: f(given))
    with torch.no_grad():
        agree(example, lambda f: f(x))
    with torch.inference_mode():
        agree(example, lambda f: f(x))


def test_callers_get_a_list():
    x = vector()
    leaf = vector().requires_grad_()
    for made in (split(x, LENGTHS), split(x, LENGTHS), split(leaf, LENGTHS), split(leaf, LENGTHS)):
        assert type(made) is list
    assert type(split_c(x, LENGTHS)) is type(split_np(x, LENGTHS)) is type(unit_c([x])) is list
    assert type(clipped(x, LENGTHS)) is Clipped
    assert type(clipped(x, LENGTHS).parts) is list
    assert type(torch.vmap(lambda x: split(x, LENGTHS))(x[None])) is list
    assert type(torch.compile(lambda x: split(x, LENGTHS), backend="eager", fullgraph=True)(x)) is list


@each
def test_backward(example: Example):
    for _ in range(3):
        agree(example, lambda f: torch.autograd.grad(loss(f)(x := vector().requires_grad_()), x))


@each
def test_some_outputs_alone(example: Example):
    """The others have no cotangent, which rules read as zeros."""
    for place in (0, -1):
        agree(
            example,
            lambda f, place=place: torch.autograd.grad(f(x := vector().requires_grad_())[place].square().sum(), x),
        )


def test_an_output_twice():
    def double(f):
        x = vector().requires_grad_()
        made = f(x)
        return torch.autograd.grad((made[1] * made[1]).sum() + made[1].sum(), x)

    agree(EXAMPLES["torch"], double)


@each
def test_numeric_derivatives(example: Example):
    def call(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(example.call(x))

    x = vector().requires_grad_()
    assert torch.autograd.gradcheck(call, x, check_forward_ad=example.forward)
    if example.again:
        assert torch.autograd.gradgradcheck(call, x)
    else:
        with pytest.raises(tg.DerivativeError):
            torch.autograd.gradgradcheck(call, x)


def test_outputs_are_the_callers_own():
    x = vector()
    for _ in range(3):
        made = split(x, LENGTHS)  # whose kernel returns views of x
        made[1].zero_()
        assert torch.equal(x, vector())
        assert torch.equal(made[2], x[3:])


def test_writing_into_an_output_that_a_rule_reads():
    x = vector().requires_grad_()
    made = batched(x, LENGTHS)
    made[1].mul_(2)
    with pytest.raises((tg.DerivativeError, RuntimeError), match="in place"):
        made[0].sum().backward()


def test_writing_into_an_output_that_no_rule_reads():
    def write(f):
        x = vector().requires_grad_()
        made = f(x)
        made[1].mul_(3)
        return torch.autograd.grad(sum(o.sum() for o in made), x)

    torch.testing.assert_close(write(EXAMPLES["torch"].call), write(lambda x: [p.clone() for p in x.split(LENGTHS)]))


def test_kept_and_shared_results_are_copied():
    table: list[Tensor] = []

    @tg.op
    def keeps(x: Float[Tensor, "n"], k: int) -> list[Float[Tensor, "n"]]:
        if not table:
            table.extend([x + 1, x + 2])
        return table if k == 0 else [table[0], table[0]] if k == 1 else [x, x]

    for k, wanted in ((0, (1, 2)), (1, (1, 1)), (2, (0, 0))):
        for _ in range(3):
            made = keeps(torch.zeros(2), k)
            assert [part[0].item() for part in made] == list(wanted)
            for part in made:
                part.fill_(9)


def test_kept_results_beside_another_output_are_copied():
    table, arrays = [torch.zeros(2), torch.ones(2)], [np.zeros(2), np.ones(2)]

    @tg.op
    def keeps(x: Float[Tensor, "n"]) -> tuple[list[Float[Tensor, "n"]], Float[Tensor, ""]]:
        return table, x.sum()

    @tg.op
    def keeps_items(x: Float[Tensor, "n"]) -> tuple[list[Float[Tensor, "n"]], Float[Tensor, ""]]:
        return [*table], x.sum()

    @tg.op
    def keeps_arrays(x: Float[np.ndarray, "n"]) -> tuple[list[Float[np.ndarray, "n"]], Float[np.ndarray, ""]]:
        return [*arrays], x.sum()

    for op in (keeps, keeps_items, keeps_arrays):
        for _ in range(5):
            made, _ = op(torch.zeros(2, dtype=torch.float64 if op is keeps_arrays else torch.float32))
            assert [part.tolist() for part in made] == [[0, 0], [1, 1]]
            for part in made:
                part.fill_(9)


# -- transforms -------------------------------------------------------------------------------------------------------


@each
def test_func_reverse(example: Example):
    x = vector()
    agree(example, lambda f: F.grad(loss(f))(x))
    agree(example, lambda f: F.jacrev(f)(x))
    agree(example, lambda f: F.vjp(f, x)[1](F.vjp(f, x)[0]))
    agree(example, lambda f: torch.vmap(F.grad(loss(f)))(torch.stack([x, x + 1, -x])))
    agree(example, lambda f: torch.vmap(F.jacrev(f))(torch.stack([x, x + 1])))


@each
def test_func_forward(example: Example):
    x = vector()
    if not example.forward:
        with pytest.raises(tg.DerivativeError, match="no rule for the forward-mode derivative"):
            F.jvp(example.call, (x,), (x,))
        return

    def dual(f):
        with forward_ad.dual_level():
            return [forward_ad.unpack_dual(made).tangent for made in f(forward_ad.make_dual(x, x + 1))]

    agree(example, dual)
    agree(example, lambda f: F.jvp(f, (x,), (x.flip(0),)))
    agree(example, lambda f: F.jacfwd(f)(x))
    agree(example, lambda f: torch.vmap(F.jacfwd(f))(torch.stack([x, x + 1])))


@each
def test_func_second_order(example: Example):
    x = vector()
    if not example.again:
        with pytest.raises(tg.DerivativeError):
            F.jacrev(F.grad(loss(example.call)))(x)
        return
    agree(example, lambda f: F.jacrev(F.grad(loss(f)))(x))
    agree(example, lambda f: F.hessian(loss(f))(x))
    agree(example, lambda f: F.jacfwd(F.jacrev(f))(x))


@each
def test_vmap(example: Example):
    x = vector()
    rows = torch.stack([x, x + 1, -x])
    agree(example, lambda f: torch.vmap(f)(rows))
    agree(example, lambda f: torch.vmap(f, in_dims=1, out_dims=-1)(rows.mT.contiguous()))
    agree(example, lambda f: torch.vmap(torch.vmap(f))(torch.stack([rows, 2 * rows])))
    agree(example, lambda f: torch.vmap(lambda y: [y.sum(), *f(x)])(rows))  # what it is called with is not mapped


def test_vmap_over_one_of_several_tensors():
    x, y = vector(), vector() + 1
    rows = torch.stack([x, y])
    made = torch.vmap(lambda row: to_unit([row, y]))(rows)
    norm = (rows.square().sum(1) + y.square().sum()).sqrt()[:, None]
    torch.testing.assert_close(made, [rows / norm, y / norm])


def test_vmap_over_nothing():
    for op in (split, split_np, batched, split_c):
        made = torch.vmap(lambda x, op=op: op(x, LENGTHS))(torch.zeros(0, 6))
        assert [tuple(part.shape) for part in made] == [(0, 1), (0, 2), (0, 3)]


@each
def test_batched_gradients(example: Example):
    """The vmap older than functorch's."""

    def rows(f):
        x = vector().requires_grad_()
        made = f(x)[-1]
        seeds = torch.eye(made.numel(), dtype=made.dtype).reshape(-1, *made.shape)
        return torch.autograd.grad(made, x, seeds, is_grads_batched=True)

    agree(example, rows)


@each
def test_checkpoint_and_functionalize(example: Example):
    x = vector()

    def checkpointed(f):
        leaf = vector().requires_grad_()
        return torch.autograd.grad(torch.utils.checkpoint.checkpoint(loss(f), leaf, use_reentrant=False), leaf)

    agree(example, checkpointed)
    agree(example, lambda f: F.functionalize(f)(x))


def test_profiler_names_the_rule():
    x = vector().requires_grad_()
    with torch.profiler.profile() as profile:
        split(x, LENGTHS)[0].sum().backward()
    assert "split.adjoint[x]" in {event.name for event in profile.events()}


def test_autocast():
    x = torch.randn(6)
    with torch.autocast("cpu", torch.bfloat16):
        made = to_unit([x, x.bfloat16()])
    assert [part.dtype for part in made] == [torch.float32, torch.float32]


# -- compilers --------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile(example: Example, backend: str):
    torch._dynamo.reset()
    compiled = torch.compile(example.call, backend=backend, fullgraph=True)
    if example.op is unbound and backend == "inductor":  # Its kernel is traced, too: the graph knows the length.
        assert not example.op._record.opaque
    torch.testing.assert_close(compiled(vector()), example.plain(vector()))
    compiled_loss = torch.compile(loss(example.call), backend=backend, fullgraph=True)
    agree(
        example,
        lambda f: torch.autograd.grad(
            (compiled_loss if f is example.call else loss(f))(x := vector().requires_grad_()), x
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("op", [split, split_np, split_c, batched], ids=lambda op: op.__name__)
def test_dynamic_shapes(op: tg.Op):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, k: [2 * part for part in op(x, [k, x.shape[0] - k])], fullgraph=True, dynamic=True
    )
    for n, k in ((6, 2), (9, 4), (11, 3)):
        x = torch.randn(n, dtype=torch.float64, requires_grad=True)
        made = compiled(x, k)
        plain = [2 * part for part in (x.sin() if op is batched else x).split([k, n - k])]
        torch.testing.assert_close(made, plain)
        weights = [torch.randn_like(part) for part in made]
        torch.testing.assert_close(torch.autograd.grad(made, x, weights), torch.autograd.grad(plain, x, weights))


class Module(nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.call(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch", "NumPy", "C", "NamedTuple", "batch axes"])
def test_export_and_make_fx(name: str):
    example, x = EXAMPLES[name], vector()
    program = torch.export.export(Module(example.call), (x,))
    torch.testing.assert_close(program.module()(x), example.plain(x))
    torch.testing.assert_close(program.run_decompositions().module()(x), example.plain(x))
    torch.testing.assert_close(make_fx(example.call)(x)(x + 1), example.plain(x + 1))
    torch.testing.assert_close(make_fx(F.grad(loss(example.call)))(x)(x + 1), F.grad(loss(example.plain))(x + 1))


def test_fake_and_meta_tensors():
    for op in (split, split_np, split_c):
        made = op(torch.empty(6, device="meta"), LENGTHS)
        assert [(part.shape, part.device.type) for part in made] == [((n,), "meta") for n in LENGTHS]
        with torch._subclasses.FakeTensorMode():
            assert [part.shape for part in op(torch.empty(6), LENGTHS)] == [(n,) for n in LENGTHS]


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        (split, (vector(), LENGTHS)), (split_np, (vector(), LENGTHS)), (split_c, (vector(), LENGTHS)),
        (clipped, (vector(), LENGTHS)), (to_unit, ([vector(), vector()],)), (unit_c, ([vector(), vector()],)),
        (saving, (vector(),)), (split, (vector()[:0], [])),
    ],
    ids=["torch", "NumPy", "C", "NamedTuple", "list in and out", "C, list in and out", "saved list", "empty"],
)  # fmt: skip
def test_opcheck(op: tg.Op, arguments: tuple[Any, ...]):
    grads = copy.deepcopy(arguments)
    for value in grads:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Tensor):
                item.requires_grad_()
    torch.library.opcheck(op.torch_op, grads)


# -- lists of special kinds -------------------------------------------------------------------------------------------


def test_an_empty_list():
    for op in (split, split_np, split_c, batched):
        for x in (torch.zeros(0), torch.zeros(0, requires_grad=True)):
            for _ in range(3):
                assert op(x, []) == []
        assert torch.vmap(lambda x, op=op: [*op(x, []), x.sum()])(torch.ones(2, 0))[0].tolist() == [0, 0]
        assert F.jvp(lambda x, op=op: [*op(x, []), x.sum()], (torch.ones(0),), (torch.ones(0),))[1][0] == 0
        compiled = torch.compile(lambda x, op=op: (op(x, []), x + 1), backend="aot_eager", fullgraph=True)
        assert compiled(torch.zeros(0, requires_grad=True))[0] == []


def test_an_empty_list_beside_another_output():
    for x in (torch.zeros(0), torch.zeros(0, requires_grad=True)):
        for _ in range(2):
            made = clipped(x, [])
            assert made.parts == []
            assert made.norm == 0
    made.norm.backward()
    assert x.grad is not None
    assert x.grad.shape == (0,)


def test_tensors_without_elements_and_without_axes():
    x = vector().requires_grad_()
    for op in (split, split_np, split_c):
        first, second = op(x, [0, 6])
        assert first.shape == (0,)
        (gradient,) = torch.autograd.grad(second.sum() + first.sum(), x)
        assert torch.equal(gradient, torch.ones_like(x))
    assert [part.item() for part in unbound(vector()[:2])] == pytest.approx([0.3, -1.2])


def test_integers_and_booleans_have_no_derivative():
    @tg.op
    def orders(x: Float[Tensor, "n"], k: int) -> list[Int64[Tensor, "n"]]:
        return [x.argsort() + i for i in range(k)]

    @orders.shape
    def _(x, k):
        return [x] * k

    @tg.op
    def masks(x: Float[Tensor, "n"], levels: list[float]) -> list[Bool[Tensor, "n"]]:
        return [x > level for level in levels]

    x = vector().requires_grad_()
    for _ in range(2):
        assert not any(made.requires_grad for made in orders(x, 2))
        assert not any(made.requires_grad for made in masks(x, [0.0, 1.0]))
    assert torch.equal(orders(x, 2)[1], x.argsort() + 1)
    assert [part.dtype for part in torch.vmap(lambda x: masks(x, [0.0]))(x[None])] == [torch.bool]
    with pytest.raises(tg.DeclarationError, match="no output is differentiable"):
        orders.vjp("x")(lambda grad: grad[0])


@pytest.mark.slow
def test_a_list_without_a_derivative():
    @tg.op
    def both(x: Float[Tensor, "n"], k: int) -> tuple[list[Float[Tensor, "n"]], Float[Tensor, "n"]]:
        return [x * i for i in range(k)], 2 * x

    @both.shape
    def _(x, k):
        return [x] * k, x

    both.nondifferentiable("out0", reason="they are only shown")

    @both.vjp("x")
    def _(grad_out1):
        return 2 * grad_out1

    x = vector().requires_grad_()
    shown, doubled = both(x, 2)
    assert torch.equal(torch.autograd.grad(doubled.sum(), x, retain_graph=True)[0], torch.full_like(x, 2))
    with pytest.raises(tg.DerivativeError, match="only shown"):
        shown[1].sum().backward()
    _, (tangents, _) = F.jvp(lambda x: both(x, 2), (vector(),), (vector(),))
    assert all(tangent.isnan().all() for tangent in tangents)
    report = tg.check(both, vector(), 2)
    assert report.ok, report


@pytest.mark.slow
def test_independent_lists():
    @tg.op
    def two(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> tuple[list[Float[Tensor, "n"]], Float[Tensor, "n"]]:
        return [x.clone(), 2 * x], x * y

    @two.shape
    def _(x, y):
        return [x, x], x

    @two.vjp("x")
    def _(grad_out0, grad_out1, y):
        first, second = grad_out0
        return first + 2 * second + y * grad_out1

    @two.vjp("y", independent="out0")
    def _(grad_out1, x):
        return x * grad_out1

    x, y = vector().requires_grad_(), vector().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: (*two(x, y)[0], two(x, y)[1]), (x, y), check_forward_ad=True)
    assert tg.check(two).ok


def test_promotion():
    @tg.op
    def halves(x: Num[Tensor, "n"]) -> list[Float[Tensor, "_"]]:
        return [x[:1] / 2, x[1:] / 2]

    assert [part.tolist() for part in halves(torch.tensor([1, 2, 4]))] == [[0.5], [1.0, 2.0]]


def test_half_precision():
    x = torch.randn(6).bfloat16()
    for op in (split_np, split_c):
        made = op(x, LENGTHS)
        torch.testing.assert_close(made, list(x.split(LENGTHS)))


def test_a_jvp_returns_a_list():
    @tg.op
    def powers(x: Float[Tensor, "n"], k: int) -> list[Float[Tensor, "n"]]:
        return [x ** (i + 1) for i in range(k)]

    @powers.shape
    def _(x, k):
        return [x] * k

    @powers.jvp("x")
    def _(x, x_tangent, k):
        return [(i + 1) * x**i * x_tangent for i in range(k)]

    x = vector()
    torch.testing.assert_close(F.jacfwd(lambda x: powers(x, 3))(x), F.jacfwd(lambda x: [x, x**2, x**3])(x))


def test_other_kernels():
    @tg.op
    def halves(x: Float[np.ndarray, "n"]) -> list[Float[np.ndarray, "_"]]:
        return [x[:1], x[1:]]

    @halves.shape
    def _(x):
        return [(1,), (x[0] - 1,)]

    @halves.kernel("cpu", tg.c("""
        void halves(int64_t n, const T *x, T *const *out, const int64_t *const *out_sizes, int64_t out_length) {
            for (int64_t i = 0; i < n; i++) i ? (out[1][i - 1] = x[i]) : (out[0][0] = x[i]);
        }"""))  # fmt: skip
    def _(x): ...

    torch.testing.assert_close(halves(vector()), list(vector().split([1, 5])))


def test_threads():
    results: list[bool] = []

    def work(k: int) -> None:
        x = vector().requires_grad_()
        for _ in range(50):
            made = split(x, [k, 6 - k])
            (gradient,) = torch.autograd.grad(made[0].sum(), x)
            results.append(gradient.sum().item() == k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200
    assert all(results)


def test_an_operator_is_copied_and_pickled_by_name():
    assert copy.deepcopy(split) is split
    assert pickle.loads(pickle.dumps(split)) is split


def test_modules():
    layer = tg.module(to_unit)()
    torch.testing.assert_close(layer([vector()]), [vector() / vector().norm()])


# -- in words ---------------------------------------------------------------------------------------------------------


def test_words():
    assert 'out: list of Float[Tensor, "_"]' in str(split)
    assert "split(Tensor x, SymInt[] lengths) -> Tensor[]" in str(split)
    assert "(Tensor[], Tensor)" in str(clipped)
    assert unbound.capabilities()["compile"].answer == "yes"
    assert "T *const *out, const int64_t *const *out_sizes, int64_t out_length" in split.prototype()
    assert "const T *const *grad, const int64_t *const *grad_sizes, int64_t grad_length" in split.prototype()


def test_a_list_whose_sizes_are_known_has_no_sizes_in_c():
    @tg.op
    def twice(x: Float[Tensor, "n"]) -> list[Float[Tensor, "n"]]: ...

    assert twice.prototype() == "void twice(int64_t n, const T *x, T *const *out, int64_t out_length)"


# -- wrong use --------------------------------------------------------------------------------------------------------


def returning(kernel: Any, shape: Any = None, annotation: Any = list[Float[Tensor, "_"]]) -> tg.Op:
    """An operator on a vector that returns what `kernel` does."""

    def f(x: Float[Tensor, "n"]) -> annotation:
        return kernel(x)

    op = tg.op(f)
    if shape is not None:
        op.shape(shape)
    return op


TWO = (lambda x: [(2,), (x[0] - 2,)],)
WRONG = {
    "a length": (lambda x: [x], *TWO, "out", "2 tensors in the list", "1"),
    "a longer length": (lambda x: [x[:2], x[2:], x], *TWO, "out", "2 tensors in the list", "3"),
    "a shape": (lambda x: [x[:2], x[1:]], *TWO, "out[1]", "(4,), from '_'", "(5,)"),
    "a dtype": (lambda x: [x[:2], x[2:].float()], *TWO, "out[1]", "float64", "float32"),
    "a number": (lambda x: [x[:2], 1.0], *TWO, "out[1]", 'list of Float[Tensor, "_"]', "float"),
    "None in it": (lambda x: [None, x[2:]], *TWO, "out[0]", 'list of Float[Tensor, "_"]', "NoneType"),
    "one tensor": (lambda x: x.reshape(2, 3), *TWO, "out", 'list of Float[Tensor, "_"]', "Tensor"),
    "nothing": (lambda x: None, *TWO, "out", 'list of Float[Tensor, "_"]', "NoneType"),
    "a rank, without a shape rule": (lambda x: [x, x[0]], None, "out[1]", "(_,), from '_'", "()"),
    "a dtype, without a shape rule": (lambda x: [x, x.int()], None, "out[1]", "float64", "int32"),
}


@pytest.mark.parametrize(("kernel", "shape", "argument", "expected", "got"), WRONG.values(), ids=WRONG)
def test_a_kernel_breaks_its_promise(kernel, shape, argument, expected, got):
    op = returning(kernel, shape)
    with pytest.raises(tg.KernelError) as caught:
        op(vector())
    assert (caught.value.argument, str(caught.value.got)) == (argument, got)
    assert expected.removeprefix("list of ") in str(caught.value.expected)
    with pytest.raises(tg.KernelError):
        op(vector().requires_grad_())
    with pytest.raises(tg.KernelError):
        torch.vmap(op)(vector()[None])


def test_a_kernel_that_breaks_its_promise_later():
    """A call that is known already is looked at, too."""
    made: list[Any] = [lambda x: [x + 1, x + 2]]
    op = returning(lambda x: made[0](x), lambda x: [x, x])
    assert len(op(vector())) == len(op(vector())) == 2
    wrong = ([torch.ones(6)], [torch.ones(6), torch.ones(6)], torch.ones(2, 6), None, 1, [vector(), vector()[:5]])
    for value in wrong:
        made[0] = lambda x, value=value: value
        for x in (vector(), vector().requires_grad_()):
            with pytest.raises(tg.KernelError):
                op(x)
    made[0] = lambda x: (x + 3, x + 4)
    assert op(vector())[1][0].item() == pytest.approx(4.3)


def test_the_length_differs_from_sample_to_sample():
    op = returning(lambda x: [x] * int(x[0]))
    with torch._dynamo.config.patch(suppress_errors=False), pytest.raises(tg.KernelError, match="for one sample than"):
        torch.vmap(op)(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))


RULES = {
    "no list": (lambda x: x[0], "gave no list of shapes", "out"),
    "sizes in place of shapes": (lambda x: [2, 4], "gave no list of shapes", "out"),
    "one shape": (lambda x: x, "gave no list of shapes", "out"),
    "a rank": (lambda x: [(2, 1), (4,)], "another shape than its annotation says", "out[0]"),
    "an error": (lambda x: [(x[3],)], "the shape rule raised IndexError", None),
}


@pytest.mark.parametrize(("rule", "match", "argument"), RULES.values(), ids=RULES)
def test_a_shape_rule_breaks_its_promise(rule, match, argument):
    op = returning(lambda x: [x[:2], x[2:]], rule)
    with pytest.raises(tg.ShapeError, match=match) as caught:
        op(vector())
    assert caught.value.operator == "f.shape"
    assert caught.value.argument == argument


def test_named_axes_are_compared_for_each_tensor():
    annotation = list[Float[Tensor, "n _"]]
    op = returning(lambda x: [x[:, None], x[:, None]], lambda x: [(x[0], 1), (x[0] + 1, 1)], annotation)
    with pytest.raises(tg.ShapeError, match="another shape") as caught:
        op(vector())
    assert (caught.value.argument, caught.value.expected) == ("out[1]", "(6, _), from 'n _'")
    unruled = returning(lambda x: [x[:, None], x[1:, None]], None, annotation)
    with pytest.raises(tg.KernelError, match="another shape") as caught:
        unruled(vector())
    assert (caught.value.argument, caught.value.expected) == ("out[1]", "(6, _), from 'n _'")


DECLARATIONS = {
    "two lists": (tuple[list[Float[Tensor, "n"]], list[Float[Tensor, "n"]]], "one list of tensors at most", "out1"),
    "an axis that nothing binds": (list[Float[Tensor, "m"]], "axis m is never bound", "out"),
    "a list of lists": (list[list[Float[Tensor, "n"]]], "is not a tensor", "out"),
    "any number in a tuple": (tuple[Float[Tensor, "n"], ...], "is not a tensor", "out1"),
    "arrays": (list[Float[np.ndarray, "n"]], "mixes Tensor and np.ndarray", "annotations"),
    "an open axis without a list": (Float[Tensor, "_"], "axis _ is never bound", "out"),
    "a saved list alone": (tg.Saved[list[Float[Tensor, "n"]], "kept"], "no output that the caller sees", "return"),
}


@pytest.mark.parametrize(("annotation", "match", "argument"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_declarations_that_are_refused(annotation, match, argument):
    with pytest.raises(tg.DeclarationError, match=match) as caught:
        returning(lambda x: x, None, annotation)
    assert caught.value.argument == argument


def test_the_next_step_names_lists():
    with pytest.raises(tg.DeclarationError) as caught:
        returning(lambda x: x, None, tuple[Float[Tensor, "n"], ...])
    assert 'list[Float[Tensor, "_"]]' in str(caught.value.hint)
    with pytest.raises(tg.DeclarationError) as caught:
        returning(lambda x: x, None, list[Float[Tensor, "m"]])
    assert '"_"' in str(caught.value.hint)


def test_what_needs_a_shape_rule():
    @tg.op
    def halves(x: Float[np.ndarray, "n"]) -> list[Float[np.ndarray, "_"]]:
        return [x[:2], x[2:]]

    @tg.op(kernel=tg.c("void in_c(int64_t n, const T *x, T *const *out, int64_t out_length) {}"))
    def in_c(x: Float[Tensor, "n"]) -> list[Float[Tensor, "n"]]: ...

    assert [part.tolist() for part in halves(torch.arange(4.0))] == [[0, 1], [2, 3]]
    assert [part.tolist() for part in torch.vmap(halves)(torch.arange(4.0)[None])] == [[[0, 1]], [[2, 3]]]
    with pytest.raises(tg.DeclarationError, match="not known before a C function runs") as native:
        in_c(torch.ones(4))
    with pytest.raises(tg.UnsupportedError, match="not known without running the kernel") as fake:
        halves(torch.empty(4, device="meta"))
    with pytest.raises(tg.KernelError, match="for an empty batch is not known") as empty:
        torch.vmap(halves)(torch.ones(0, 4))
    for caught in (native, fake, empty):
        assert "return [(n,), (m,)]" in str(caught.value.hint)
    assert halves.capabilities()["compile"].how == "add @halves.shape"


def test_c_refuses_what_it_cannot_make():
    source = tg.c("void f(void) {}", function="f")

    def whole(x: Float[Tensor, "n"]) -> list[Tensor]: ...

    with pytest.raises(tg.DeclarationError, match="lists of samples alone"):
        tg.op(kernel=source)(whole)
    op = returning(lambda x: [x], lambda x: [x], list[Float[Tensor, "n"]])
    with pytest.raises(tg.DeclarationError, match="returns no list of tensors"):
        op.jvp("x", kernel=source)(lambda x_tangent: None)
    with pytest.raises(tg.UnsupportedError, match="Python gives the length of the list"):
        split_c.save_library("/tmp/never.so")


def test_rules_that_return_something_else():
    def with_rule(kind: str, rule: Any) -> tg.Op:
        op = returning(lambda x: [x[:2], x[2:]], *TWO)
        getattr(op, kind)("x")(rule)
        return op

    x = vector()
    for made in (lambda x_tangent: x_tangent, lambda x_tangent: [x_tangent], lambda x_tangent: [x_tangent, x_tangent]):
        with pytest.raises(tg.RuleError) as caught:
            F.jvp(with_rule("jvp", made), (x,), (x,))
        assert caught.value.operator == "f.jvp[x]"
    for made in (lambda x_tangent: [x_tangent[:2]], lambda x_tangent: [x_tangent[:2], x_tangent[2:], x_tangent]):
        with pytest.raises(tg.RuleError, match="wrong number of results") as caught:
            F.jvp(with_rule("jvp", made), (x,), (x,))
        assert caught.value.expected == "2: out[0], out[1]"
    for rule in (lambda grad: grad, lambda grad: grad[0]):
        with pytest.raises(tg.RuleError):
            with_rule("vjp", rule)(vector().requires_grad_())[0].sum().backward()
    with pytest.raises(tg.RuleError, match="does not read grad"):
        with_rule("vjp", lambda x: x)(vector().requires_grad_())
    made = with_rule("vjp", lambda grad: torch.cat([grad[0].mul_(2), grad[1]]))(vector().requires_grad_())
    with pytest.raises(tg.RuleError, match="wrote into a tensor"):
        made[0].square().sum().backward()


def test_only_elementwise_operators_have_partial_derivatives():
    op = returning(lambda x: [x], lambda x: [x], list[Float[Tensor, "n"]])
    with pytest.raises(tg.DeclarationError, match="elementwise"):
        op.partial("x")(lambda x: x)


@pytest.mark.slow
def test_on_a_mesh():
    done = subprocess.run(
        [sys.executable, "-m", "tests.kinds.lists_on_mesh"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "right\n"


# -- checks -----------------------------------------------------------------------------------------------------------


def checked(kernel: Any = None, rule: Any = None, reference: Any = None, only: str | tuple[str, ...] = ()) -> tg.Report:
    """The report of an operator that splits, with a kernel, a rule or a reference of its own."""

    @tg.op
    def cut(x: Float[Tensor, "*batch n"], lengths: list[int]) -> list[Float[Tensor, "*batch _"]]:
        return [part.sin() for part in x.split(lengths, -1)] if kernel is None else kernel(x, lengths)

    @cut.shape
    def _(x, lengths):
        if sum(lengths) != x[-1]:
            raise ValueError("lengths do not add up")
        return [(*x[:-1], length) for length in lengths]

    cut.vjp("x")(rule or (lambda grad, x: torch.cat(grad, -1) * x.cos()))
    cut.reference(reference or (lambda x, lengths: [part.sin() for part in x.split(lengths, -1)]))
    return tg.check(cut, only=only)


def failed(report: tg.Report) -> set[str]:
    return {result.check for result in report.results if result.verdict == "FAIL"}


@pytest.mark.slow
def test_a_right_operator_passes_all_checks():
    report = checked()
    assert report.ok, report
    assert {"gradient", "reference", "mesh", "vmap"} <= {result.check for result in report.results}


PLANTED = {
    "parts in the wrong order": ({"rule": lambda grad, x: torch.cat(grad[::-1], -1) * x.cos()}, "gradient"),
    "the last part alone": (
        {"rule": lambda grad, x: torch.cat([*(0 * g for g in grad[:-1]), grad[-1]], -1) * x.cos()}, "gradient",
    ),
    "a factor in one part": ({"rule": lambda grad, x: torch.cat([2 * grad[0], *grad[1:]], -1) * x.cos()}, "gradient"),
    "samples that are mixed": (
        {"kernel": lambda x, lengths: [part.sin() + 0 * x.sum() + x.detach().mean() for part in x.split(lengths, -1)]},
        "mesh",
    ),
    "another value": ({"reference": lambda x, lengths: [part.cos() for part in x.split(lengths, -1)]}, "reference"),
    "another value in one part": (
        {"reference": lambda x, lengths: [x.split(lengths, -1)[0], *(p.sin() for p in x.split(lengths, -1)[1:])]},
        "reference",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "check"), PLANTED.values(), ids=PLANTED)
def test_planted_bugs_are_found(planted: dict[str, Any], check: str):
    assert failed(checked(**planted, only=check)) == {check}


@pytest.mark.slow
@pytest.mark.parametrize("op", [split, to_unit, split_c, unit_c], ids=lambda op: op.__name__)
def test_right_operators_pass(op: tg.Op):
    report = tg.check(op)
    assert report.ok, report


# -- random programs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_random_programs(first: int):
    wrong = [text for text in map(attempt, range(first, 8 * first + 20)) if text is not None]
    assert not wrong, "\n\n".join(wrong)
