"""Causes: from matrices whose mistake is known, from Functions with one, and none where nothing fits."""

import re

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

import torchgraft as tg
from torchgraft._check.case import Case
from torchgraft._check.cause.blocks import Block, Observation, Side
from torchgraft._check.cause.explain import explain
from torchgraft._check.cause.factors import atoms
from torchgraft._check.cause.places import simplest
from torchgraft._check.cause.recognise import Mistake, recognise
from torchgraft._check.cause.terms import upstream
from torchgraft._check.finding import Finding, Verdict
from torchgraft._check.target import make_target

FINDING = Finding("wrong-gradient", Verdict.FAIL, "The gradient is wrong")

# -- matrices -------------------------------------------------------------------------------------------------------


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def block(analytic, numeric, shape_in=None, shape_out=None, *, x=None, y=None, error=1e-11, **fields):
    """A block of one output and one input."""
    rows, columns = numeric.shape
    x = draw(*(shape_in or (columns,)), seed=11) if x is None else x
    y = draw(*(shape_out or (rows,)), seed=9) if y is None else y
    estimate = np.full(numeric.shape, error)
    return Block(Observation(analytic, numeric, estimate, (Side("y", y),), (Side("x", x),), **fields), 0, 0)


def cause_of(*blocks):
    return recognise(blocks)[0]


MATRIX = draw(6, 6)
X = draw(6, seed=11)


def wrong_where(mask, change):
    return np.where(mask, change(MATRIX), MATRIX)


@pytest.mark.parametrize(
    ("analytic", "words"),
    [
        (0 * MATRIX, "is zero"),
        (-MATRIX, "has the wrong sign"),
        (2 * MATRIX, "too large by a factor 2"),
        (MATRIX / 2, "too small by a factor 2"),
        (-3 * MATRIX, "has the wrong sign and is too large by a factor 3"),
        (MATRIX / 6, "too small by a factor 6"),
        (MATRIX * np.pi, "has the extra factor pi"),
        (MATRIX / np.sqrt(2), "lacks the factor sqrt(2)"),
        (MATRIX * np.log(2), "has the extra factor ln 2"),
        (MATRIX * 1.0005, "0.05 %"),
        (MATRIX * np.float32(1 / 6) * 6, "0.1666666716 is float32(1/6)"),
        (MATRIX * 3.14159 / np.pi, "3.14159 in place of pi"),
        (
            MATRIX * 1.001,
            "is 1.001 times what it should be, as a constant of too few digits makes it: 0.143 in place of 1/7",
        ),
        (MATRIX.T, "transposed"),
        (MATRIX[:, ::-1], "is flipped along axis 0"),
        (MATRIX[::-1], "upstream gradient of y flipped"),
        (np.roll(MATRIX, 1, 1), "shifted by one along axis 0, wrapped around"),
        (MATRIX[:, [0, 1, 4, 3, 2, 5]], "elements [2] and [4] exchanged"),
        (MATRIX[:, [3, 1, 4, 0, 2, 5]], "in another order"),
        (MATRIX * X, "extra factor x"),
        (MATRIX / X, "lacks the factor x"),
        (MATRIX / X**2, "lacks the factor x^2"),
        (MATRIX / np.cos(X), "lacks the factor cos(x)"),
        (MATRIX / (2 * np.exp(X)), "lacks the factor 2 exp(x)"),
        (MATRIX * np.sin(X) / np.cos(X), "extra factor tan(x)"),
        (MATRIX * np.sin(X) / (1 + X**2), "has sin(x) where (1 + x^2) belongs"),
        (MATRIX / draw(6, seed=9)[:, None], "lacks the factor y"),
        (np.broadcast_to(MATRIX.sum(0), (6, 6)), "ignores the upstream gradient"),
        (MATRIX + 0.25, "too large by a constant, 0.25"),
        (MATRIX - np.eye(6), "too small by a constant, 1 times the upstream gradient"),
        (MATRIX * np.eye(6), "element by element"),
        (MATRIX + np.outer(draw(6, seed=3), draw(6, seed=4)), "all elements share"),
        (MATRIX.astype(np.float32).astype(float), "float32"),
        (np.full_like(MATRIX, np.nan), "not finite"),
        (wrong_where(X < 0, np.negative), "wrong sign where x < 0"),
        (wrong_where(np.arange(6) == 5, np.zeros_like), "is zero at the last index"),
        (wrong_where(np.arange(6) == 0, np.zeros_like), "is zero at the first index"),
        (wrong_where(np.arange(6) >= 4, np.zeros_like), "in the tail"),
        (wrong_where(np.arange(6) == 2, lambda m: 2 * m), "index 2"),
        (wrong_where((np.arange(6) == 5)[:, None], np.zeros_like), "at the last index of y"),
        (wrong_where(np.tri(6, k=-1, dtype=bool).T, np.zeros_like), "earlier"),
    ],
)
def test_one_mistake_is_named(analytic, words):
    found = cause_of(block(np.ascontiguousarray(analytic), MATRIX))
    assert found is not None
    assert words in found.words, found.words


def test_nothing_is_named_where_nothing_fits():
    assert cause_of(block(draw(6, 6, seed=5), MATRIX)) is None


def test_nothing_is_wrong_within_the_estimates():
    assert not block(MATRIX + 3e-6, MATRIX, error=1e-6).wrong.any()
    assert block(MATRIX + 3e-6, MATRIX, error=1e-7).wrong.all()


def test_entries_that_cannot_be_compared_are_left_out():
    analytic, made = -MATRIX, block(-MATRIX, MATRIX)
    made.observation.estimate[0] = np.inf
    made.observation.analytic[0] = 7
    assert cause_of(block(analytic, MATRIX)).what == cause_of(made).what == "has the wrong sign"


def test_one_number_shows_no_factor_without_a_name():
    assert cause_of(block(np.array([[1.2345]]), np.array([[1.0]]), x=np.array([0.3]), y=np.array([0.7]))) is None


def test_a_cause_that_another_observation_contradicts_is_none():
    """x is 2 in the first observation: a factor 2 and a factor x give the same."""
    j, x = np.eye(3), np.full(3, 2.0)
    first = block(np.diag(x), j, x=x)
    twice = block(2 * j, j, x=draw(3, seed=1))
    times = block(np.diag(draw(3, seed=1)), j, x=draw(3, seed=1))
    assert "factor 2" in cause_of(first, twice).words
    assert "factor x" in cause_of(first, times).words
    assert cause_of(twice, times) is None


def test_a_cause_may_act_in_some_observations_only():
    cause, agree = recognise([block(-MATRIX, MATRIX), block(MATRIX[:2], MATRIX[:2])])
    assert cause.what == "has the wrong sign"
    assert agree == [True, False]


def test_sizes_are_named_by_their_axis():
    j = draw(4, 12)
    a = block(j / 4, j, (4, 3))
    b = block(draw(5, 10) / 5, draw(5, 10), (5, 2))
    assert "the size of axis 0 of x: a mean where a sum belongs" in cause_of(a, b).words


def test_axes_are_named():
    j = draw(5, 6)
    back = np.arange(6).reshape(3, 2).T.ravel()
    assert "transposed (axes 0 and 1 exchanged)" in cause_of(block(j[:, back], j, (3, 2))).words
    assert "flipped along axis 1" in cause_of(block(j.reshape(5, 3, 2)[..., ::-1].reshape(5, 6), j, (3, 2))).words


def test_an_operand_that_is_not_transposed():
    """y = x w, and the gradient for x is v w."""
    w = draw(3, 3)
    right, wrong = np.kron(np.eye(2), w.T), np.kron(np.eye(2), w)
    assert "transposed as a map" in cause_of(block(wrong, right, (2, 3), (2, 3))).what


def test_numbers_among_the_arguments_are_factors():
    found = cause_of(block(MATRIX / 0.37, MATRIX, numbers={"scale": 0.37}))
    assert found.words == "lacks the factor scale"
    assert {"scale"} <= {atom.words for atom in atoms(block(MATRIX, MATRIX, numbers={"scale": 0.37}))}


def two(analytic, numeric, names=("a", "b"), column=0):
    """The block of one of two inputs of three elements."""
    sides = tuple(Side(name, draw(3, seed=i), 3 * i) for i, name in enumerate(names))
    estimate = np.full(numeric.shape, 1e-11)
    return Block(Observation(analytic, numeric, estimate, (Side("y", draw(len(numeric))),), sides), 0, column)


def test_the_gradient_of_another_input():
    j = draw(4, 6)
    assert cause_of(two(j[:, [3, 4, 5, 0, 1, 2]], j)).words == "is that for b"
    values = draw(3, seed=1)
    assert "lacks the factor b" in cause_of(two(np.hstack([j[:, :3] / values, j[:, 3:]]), j)).words


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda g: np.clip(g, -1, 1), "clamps the upstream gradient of y to [-1, 1]"),
        (np.abs, "absolute value"),
        (np.sign, "only the sign"),
        (np.square, "square"),
        (lambda g: np.maximum(g, 0), "drops negative"),
    ],
)
def test_functions_of_the_upstream_gradient(function, words):
    made = block(MATRIX, MATRIX, scaled=lambda s: MATRIX * float(function(np.asarray(s))) / s)
    assert not made.observation.linear((-1.0, 8.0))
    scaled = Block(next(made.observation.at_scale(s) for s in (8.0, -1.0) if made.observation.at_scale(s).wrong), 0, 0)
    assert words in recognise([scaled], [Mistake(upstream)])[0].words


@pytest.mark.parametrize(
    ("low", "high", "number"),
    [
        (-0.3, 0.2, 0.0),
        (0.3, 1.2, 1.0),
        (1.1, 2.7, 2.0),
        (0.11, 0.34, 0.2),
        (-7.0, -3.2, -5.0),
        (0.7512, 0.7589, 0.755),
    ],
)
def test_the_simplest_number_between_two(low, high, number):
    assert simplest(low, high) == pytest.approx(number)


def pairs(z):
    """Multiplication by complex numbers as a real matrix."""
    parts = np.array([[z.real, -z.imag], [z.imag, z.real]])
    return parts.transpose(2, 0, 3, 1).reshape(2 * z.shape[0], 2 * z.shape[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [(np.conj, "lacks a conjugate"), (lambda z: 1j * z, "extra factor i"), (lambda z: 2 * z, "factor 2")],
)
def test_complex_entries(change, words):
    z = draw(3, 3) + 1j * draw(3, 3, seed=1)
    value = draw(3) + 1j * draw(3, seed=1)
    look = Observation(
        pairs(change(z)), pairs(z), np.full((6, 6), 1e-11), (Side("y", value, pairs=True),),
        (Side("x", value, pairs=True),),
    )  # fmt: skip
    assert words in cause_of(Block(look, 0, 0)).words


# -- functions ------------------------------------------------------------------------------------------------------


def function(forward, backward):
    """The `apply` of a Function; backward gets the upstream gradient, the inputs and the output."""

    def run(ctx, *inputs):
        ctx.inputs = inputs
        ctx.output = forward(*inputs)
        return ctx.output.clone()

    def back(ctx, grad):
        return backward(grad, *ctx.inputs, ctx.output)

    return type("Made", (Function,), {"forward": staticmethod(run), "backward": staticmethod(back)}).apply


def explained(forward, backward, *inputs, **options):
    def target(x, *rest):
        return apply(x, *rest)

    apply = function(forward, backward)
    return explain(Case(make_target(target), inputs), FINDING, **options)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def sigmoid_wrong(g, x, y):
    return g * x * (1 - x)


@pytest.mark.parametrize(
    ("forward", "backward", "words"),
    [
        (torch.sin, lambda g, x, y: -g * x.cos(), "the gradient for x has the wrong sign"),
        (lambda x: x**3, lambda g, x, y: g * x**2, "too small by a factor 3"),
        (torch.tanh, lambda g, x, y: g * (1 - y), "lacks the factor (1 + output)"),
        (torch.exp, lambda g, x, y: g * x.exp() * y, "has the extra factor output"),
        (torch.sigmoid, sigmoid_wrong, "has x (1 - x) where output (1 - output) belongs"),
        (lambda x: x * x.exp(), lambda g, x, y: g * x.exp(), "lacks the factor (1 + x)"),
        (lambda x: x * x.sin(), lambda g, x, y: g * x.sin(), "lacks the term x cos(x)"),
        (lambda x: x.cumsum(0), lambda g, x, y: g.cumsum(0), "transposed as a map"),
        (lambda x: x.softmax(0), lambda g, x, y: g * y * (1 - y), "element by element"),
        (lambda x: x.mean(), lambda g, x, y: g.expand_as(x), "a sum where a mean belongs"),
        (torch.sin, lambda g, x, y: x.cos(), "ignores the upstream gradient"),
        (torch.sin, lambda g, x, y: (g * x.cos()).float().double(), "float32"),
        (torch.sin, lambda g, x, y: g.clamp(-1, 1) * x.cos(), "clamps the upstream gradient"),
        (lambda x: x.abs() ** 1.5, lambda g, x, y: 1.5 * g * x.abs().sqrt(), "wrong sign where x < 0"),
        (lambda x: x.clamp(max=1) * x, lambda g, x, y: 2 * g * x, "where x > 1"),
        (torch.sin, lambda g, x, y: g * x.cos() + 1, "upstream gradient of output is no factor of: a constant, 1"),
        (torch.sin, lambda g, x, y: None, "None"),
    ],
)  # fmt: skip
def test_functions(forward, backward, words):
    found = explained(forward, backward, normal(5))
    assert words in found.cause
    assert found.evidence.numeric.shape == found.evidence.analytic.shape
    assert found.error > found.estimate


def test_evidence_for_pictures():
    found = explained(torch.sin, lambda g, x, y: -g * x.cos(), normal(3)).evidence
    assert found.outputs == (("output", (3,)),)
    assert found.inputs == (("x", (3,)),)
    assert torch.allclose(found.analytic.diagonal(), -normal(3).cos(), atol=1e-9)
    assert torch.allclose(found.numeric.diagonal(), normal(3).cos(), atol=1e-9)


def test_the_right_one_has_no_cause():
    assert explained(torch.sin, lambda g, x, y: g * x.cos(), normal(5)) == FINDING


def test_a_batch_of_one():
    found = explained(lambda x: x.mean(0), lambda g, x, y: g.expand_as(x), normal(1, 3))
    assert found == FINDING  # the gradient is right there
    found = explained(lambda x: 3 * x, lambda g, x, y: (1 if len(x) == 1 else 3) * g, normal(1, 3))
    assert "too small by a factor 3" in found.cause
    assert "only where axis 0 of x has size 1" in found.cause


@pytest.mark.slow
def test_several_inputs():
    def case(backward):
        apply = function(torch.mul, lambda g, a, b, y: backward(g, a, b))
        return explain(Case(make_target(lambda a, b: apply(a, b)), (normal(4), normal(4, seed=1))), FINDING).cause

    assert case(lambda g, a, b: (g * a, g * b)) == "the gradients for a and b are swapped"
    assert case(lambda g, a, b: (-g * b, -g * a)) == "the gradient for a and b has the wrong sign"
    mixed = case(lambda g, a, b: (-g * b, 2 * g * a))
    assert "the gradient for a has the wrong sign" in mixed
    assert "the gradient for b is too large by a factor 2" in mixed


@pytest.mark.slow
def test_broadcast_inputs():
    found = explained(
        torch.add, lambda g, x, b, y: (g, g.mean(0)), normal(4, 3), normal(3, seed=1)
    )  # fmt: skip
    assert "a mean where a sum belongs" in found.cause


def test_complex_functions():
    found = explained(torch.square, lambda g, x, y: 2 * g * x, normal(3, dtype=torch.complex128))
    assert "lacks a conjugate" in found.cause


def test_ties():
    def full(g, x, y):
        return g * (x == y)

    apply = function(lambda x: x.amax(), full)
    case = Case(make_target(lambda x: apply(x)), (torch.tensor([1.0, 3.0, 3.0], dtype=torch.float64),))
    found = explain(case, FINDING.but(code="wrong-at-ties"))
    assert re.search(r"equal \(ties\).* 2 times .* 1 is right: each of them gets all", found.cause)


def test_one_of_many():
    def zeroed(g, x, y):
        out = 2 * g * x
        out[123:124] = 0
        return out

    found = explained(torch.square, zeroed, normal(150))
    assert found.cause == "the gradient for x is zero in one element [123]"


def test_what_is_off_by_less_than_single_precision_has_no_such_cause():
    """An iteration may stop at 1e-12."""
    assert cause_of(block(MATRIX * (1 + 1e-12 * draw(6, 6, seed=4)), MATRIX, error=1e-15)) is None
    said = cause_of(block(MATRIX * (1 + 3e-8 * draw(6, 6, seed=4)), MATRIX, error=1e-15))
    assert "float32" in said.what


def test_an_entry_is_shown_with_the_digits_in_which_it_is_wrong():
    """With ten digits one is rounded up and the other down, and with eleven they are the same again."""
    noise = torch.tensor([1.8, -0.4, 0.9, -1.1], dtype=torch.float64)
    grown = function(torch.exp, lambda g, x, y: g * y * (1 + 1e-11 * noise[: len(x)]))
    found = tg.check(grown, torch.ones(4, dtype=torch.float64), only="gradient").findings[0]
    shown = re.search(r"is (2\.\d+) where (2\.\d+) is right", found.cause)
    assert shown[1] != shown[2]


def test_ones_and_zeros_were_not_rounded():
    """They are numbers of every dtype, here beside a scale that is forgotten."""
    scale = np.array([0.99, 1.004, 0.996])
    assert cause_of(block(np.eye(3), np.diag(scale))) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("forward", [torch.tanh, torch.exp, torch.det], ids=lambda f: f.__name__)
def test_small_dtypes_and_ill_conditioned_observations(forward, dtype):
    dtype, shape = (torch.float64, (3, 3)) if forward is torch.det else (dtype, (4,))

    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    case = Case(make_target(lambda x: forward(Twice.apply(x))), (normal(*shape, dtype=dtype),))
    assert "the gradient for x is too large by a factor 2" in explain(case, FINDING).cause


def test_without_a_cause_the_entries_are_listed():
    noise = normal(4, 4, seed=7)
    found = explained(lambda x: x.sin(), lambda g, x, y: g @ noise[: len(g), : len(g)], normal(4))
    assert "16 of 16 entries of the Jacobian of output by x are wrong; d output[" in found.cause


def test_it_fits_on_a_screen():
    found = explained(lambda x: x.sin(), lambda g, x, y: g @ normal(9, 9, seed=7)[: len(g), : len(g)], normal(9))
    assert len(found.cause) < 400


@pytest.mark.slow
def test_it_is_told_whose_constant_has_few_digits():
    tenth = float(torch.tensor(0.1, dtype=torch.float32))
    for forward, backward, said in ((tenth, 0.1, "is right, and the forward contains"), (0.1, tenth, "x contains")):
        scaled = function(lambda x, by=forward: x * by, lambda grad, x, out, by=backward: grad * by)
        assert said.replace("x ", "input 0 ") in tg.check(scaled, normal(3), only="gradient").findings[0].cause


# -- what fits anything names nothing -------------------------------------------------------------------------------


def test_a_single_row_shows_no_shared_term():
    numeric = draw(1, 6)
    assert cause_of(block(numeric + draw(1, 6, seed=3), numeric)) is None


def test_a_matrix_of_rank_one_shows_no_shared_term():
    numeric = np.outer(draw(6), draw(6, seed=1))
    assert cause_of(block(numeric + np.outer(draw(6, seed=2), draw(6, seed=3)), numeric)) is None


def test_shared_terms_of_slices():
    rows, numeric = np.zeros((12, 12)), draw(12, 12)
    for i in range(3):
        part = slice(4 * i, 4 * i + 4)
        rows[part, part] = np.outer(draw(4, seed=i), draw(4, seed=9 + i))
    assert "share" in cause_of(block(numeric + rows, numeric)).what


def test_a_place_is_no_wider_than_what_is_wrong():
    """A loss has one row, of which any element makes the whole row wrong."""
    numeric = draw(1, 6)
    analytic = np.where(np.arange(6) == 3, 2 * numeric + 0.1, numeric)
    assert cause_of(block(analytic, numeric)).where == "at index 3"


def test_a_factor_of_numbers_that_are_all_the_same():
    """A constant that is added would give them too."""
    identity = np.eye(5)
    cause = cause_of(block(-0.5 * identity, identity))
    assert cause.what.startswith("has the wrong sign and is too")


# -- faults of C functions, which have no other cause ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "rule", "cause"),
    [
        ("for (int64_t i = 1; i < n; i++) out[i] = x[i];", None, "unsafe: the function never wrote out[0]"),
        ("out[0] = x[1L << 40];", None, "unsafe: the function stepped out of its memory"),  # It ends its process.
        (
            "for (int64_t i = 0; i < n; i++) out[i] = x[i];",
            "for (int64_t i = 0; i < n; i++) grad_x[i] = 2 * grad[i] + 0 * grad[i + 1];",
            "unsafe.vjp[x]: the function stepped out of its memory",
        ),
    ],
)
def test_a_fault_in_c_is_the_cause(kernel, rule, cause):
    @tg.op(kernel=tg.c(f"void unsafe(int64_t n, const T *x, T *out) {{ {kernel} }}"))
    def unsafe(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return tg.native

    if rule is None:
        unsafe.vjp("x")(lambda grad: grad)
    else:
        source = tg.c(f"void unsafe_vjp_x(int64_t n, const T *grad, T *grad_x) {{ {rule} }}")

        @unsafe.vjp("x", kernel=source)
        def _(grad):
            return tg.native

    report = tg.check(unsafe, torch.ones(3, dtype=torch.float64, requires_grad=True), only="gradient")
    (found,) = (finding for finding in report.findings if finding.severity is Verdict.FAIL)
    assert found.cause.startswith(cause)
    assert "tg.debug()" in found.hint


@pytest.mark.slow
def test_a_fault_at_a_size_that_nobody_gave_is_the_cause():
    @tg.op(
        kernel=tg.c("#include <assert.h>\nvoid first(int64_t n, const T *x, T *out) { assert(n > 1); *out = x[0]; }")
    )
    def first(x: Float[Tensor, "n"]) -> Float[Tensor, ""]:
        return tg.native

    first.vjp("x")(lambda grad, x: torch.nn.functional.pad(grad[None], (0, x.shape[0] - 1)))
    report = tg.check(first, torch.ones(3, dtype=torch.float64), only="sizes")
    (found,) = report.findings
    assert re.match(r"first: the function crashed \(.*n > 1.*failed", found.cause)


def test_a_kernel_that_does_not_compile_is_no_matter_of_domains():
    @tg.op(kernel=tg.c("void broken(int64_t n, const T *x, T *out) { out[0] = nothing; }"))
    def broken(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return tg.native

    broken.adjoint("x")(lambda grad: grad)
    (found,) = tg.check(broken, torch.ones(3, dtype=torch.float64)).findings
    assert re.search(r"refused the kernel: .*error.*nothing", found.cause)
    assert "call it once" in found.hint
