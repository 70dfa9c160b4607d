"""Generated inputs: valid, diverse, plain ones first, the same for the same seed."""

import itertools
import math
from collections import Counter
from typing import Literal

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Complex, Float, Float32, Inexact, Int, Int64, Real
from torch import Tensor, nn

import torchgraft as tg
from examples.correlate2d import correlate2d
from examples.linear import linear
from torchgraft._check.generate.inputs import Inputs, make_case
from torchgraft._check.generate.sizes import Draw
from torchgraft._check.target import make_target

from .. import cases as gallery
from .. import operators as ops


def generated(op, count=100, seed=0):
    return list(itertools.islice(Inputs(make_target(op), seed=seed), count))


def shapes(case):
    """Shapes of the tensors of a case, by name."""
    named = zip(case.leaf_names, case.leaves, strict=True)
    return {name: tuple(leaf.shape) for name, leaf in named if isinstance(leaf, Tensor)}


# -- every operator there is -------------------------------------------------------------------------------------------

# Lengths have to add up to the size of an axis, which no domain says: most of what is drawn is refused.
OPERATORS = {
    case.op._record.qualname: case.op for case in gallery.CASES if "lengths" not in case.op._record.signature.names
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_take_what_is_generated(name):
    inputs = Inputs(make_target(OPERATORS[name]))
    made = list(itertools.islice(inputs, 40))
    assert len(made) == 40
    assert len(inputs.refused) <= 10
    broken = [refusal for refusal in inputs.refused if not refusal.deliberate]
    assert len(broken) <= 4  # an axis too short for topk, none at all for a function of the last one
    assert sum(len(case.primals) > 0 for case in made) == 40
    assert sum("empty" in case.traits for case in made) <= 12


@pytest.mark.parametrize("name", OPERATORS)
def test_the_first_case_is_plain(name):
    first = generated(OPERATORS[name], 1)[0]
    assert first.traits == frozenset()
    assert all(leaf.dtype in (torch.float64, torch.complex128) for leaf in first.primals)
    assert all(leaf.is_contiguous() and leaf.numel() > 0 for leaf in first.primals)
    for leaf in first.primals:
        assert len(set(leaf.flatten().tolist())) == leaf.numel()
        real = torch.view_as_real(leaf) if leaf.is_complex() else leaf
        assert not (4 * real == (4 * real).round()).any()  # no kink there: no integers, halves, quarters


@pytest.mark.slow
def test_the_same_seed_gives_the_same_cases():
    for op in (linear, correlate2d, ops.normalize):
        one, two, other = generated(op, 30), generated(op, 30), generated(op, 30, seed=1)
        assert [case.label for case in one] == [case.label for case in two]
        assert [case.label for case in one] != [case.label for case in other]
        for a, b in zip(one, two, strict=True):
            assert all(map(torch.equal, a.primals, b.primals))
            assert [p.stride() for p in a.primals] == [p.stride() for p in b.primals]


def test_the_beginning_does_not_depend_on_how_many_follow():
    assert [c.label for c in generated(linear, 5)] == [c.label for c in generated(linear, 30)[:5]]


# -- diversity ---------------------------------------------------------------------------------------------------------


def test_cases_show_every_oddity():
    made = generated(linear, 150)
    traits = Counter(trait for case in made for trait in case.traits)
    expected = {
        "positive", "negative", "ties", "small", "large", "special", "empty", "without bias", "float32", "float16",
        "bfloat16", "transposed", "strided", "offset", "expanded", "channels last",
    }  # fmt: skip
    assert traits.keys() == expected
    assert min(traits.values()) >= 2, traits
    assert sum(not case.traits for case in made) >= 2


def test_batches_have_no_one_and_several_samples():
    batches = {shapes(case)["input"][:-1] for case in generated(linear)}
    assert {(), (0,), (1,)} <= batches
    assert {len(batch) for batch in batches} == {0, 1, 2, 3}


def test_sizes_differ_by_preference_and_are_short_and_long():
    sizes = [shapes(case)["weight"] for case in generated(linear)]
    assert sum(m != n for m, n in sizes) > 80
    seen = {size for shape in sizes for size in shape}
    assert {0, 1, 2, 3, 4, 5, 7, 19, 67} <= seen


def test_strides_are_really_there():
    inputs = [case.primals[0] for case in generated(linear, 200) if case.primals[0].dim() >= 2]
    assert any(0 in x.stride() for x in inputs if x.numel() > 0)
    assert any(x.storage_offset() > 0 for x in inputs)
    assert any(x.stride(-1) == 2 for x in inputs)
    assert any(x.stride(-1) > x.stride(0) > 0 for x in inputs if x.shape[0] > 1 and x.shape[-1] > 1)


def test_computed_sizes_come_out_as_annotated():
    outputs = Counter()
    for case in generated(correlate2d):
        (h, w), (kh, kw) = (shapes(case)[name][-2:] for name in ("x", "kernel"))
        outputs[min(h - kh, w - kw) + 1] += 1
    assert min(outputs) >= 0
    assert outputs[0] < 15
    assert outputs[1] > 0
    assert sum(count for size, count in outputs.items() if size > 1) > 50


def test_what_is_subtracted_is_smaller():
    @tg.op
    def windows(x: Float[Tensor, "h w"], y: Float[Tensor, "kh kw"]) -> Float[Tensor, "h-kh+1 w//kw"]:
        return x.new_zeros(x.shape[0] - y.shape[0] + 1, x.shape[1] // y.shape[1])

    assert shapes(generated(windows, 1)[0]) == {"x": (5, 6), "y": (2, 3)}


def test_leading_axes_of_a_loop_broadcast():
    leads = {(shapes(case)["x"][:-2], shapes(case)["kernel"][:-2]) for case in generated(correlate2d)}
    assert ((), ()) in leads
    assert any(len(x) != len(k) for x, k in leads)
    assert any(len(x) == len(k) and x != k for x, k in leads)


def test_sizes_that_arguments_give():
    for case in generated(ops.powers, 30):
        *_, k = case.leaves
        assert type(k) is int
        assert k > 0
        assert case.outputs()[0].shape == (*shapes(case)["x"], k)


def test_broadcasting_axes():
    @tg.op
    def add(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x + y

    pairs = {(shapes(case)["x"], shapes(case)["y"]) for case in generated(add)}
    assert any(x == y for x, y in pairs)
    assert any(len(x) < len(y) for x, y in pairs)
    assert any(len(x) == len(y) and x != y for x, y in pairs)
    scales = {shapes(case)["scale"][-1] == 1 for case in generated(ops.scale_rows, 40)}
    assert scales == {True, False}


# -- what annotations can say ------------------------------------------------------------------------------------------


@tg.op
def everything(
    x: Float[Tensor, "*#b n #m"],
    z: Complex[Tensor, "n 3"],
    inexact: Inexact[Tensor, "_"],
    exact: Float32[Tensor, ""],
    index: Int[Tensor, "k"],
    mask: Bool[Tensor, "n"],
    bare: Tensor,
    xs: list[Float[Tensor, "n"]],
    size: int,
    axes: list[int],
    word: str,
    wave: complex,
    maybe: Float[Tensor, "n+m"] | None = None,
    limit: float | None = None,
    mode: Literal["valid", "same", "full"] = "same",
    steps: list[float] = (0.25, 0.5, 1.0),
    *,
    flag: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "*#b n {size}"]:
    total = sum(part.abs().sum() for part in (x, z, inexact, exact, index, bare, *xs)).to(x.dtype)
    return total.expand(*x.shape[:-1], size).clone()


@pytest.mark.slow
def test_every_kind_of_parameter():
    made = [dict(zip(case.leaf_names, case.leaves, strict=True)) for case in generated(everything)]
    values = {name: {str(leaves.get(name)) for leaves in made} for name in made[0] if not name.startswith("xs")}
    assert values["mode"] == {"valid", "same", "full"}
    assert values["flag"] == {"True", "False"}
    assert {"None"} < values["limit"]
    assert {"None"} < values["maybe"]
    assert len(values["size"]) > 3
    assert len(values["steps[0]"]) > 3
    assert all(len([name for name in leaves if name.startswith("steps")]) == 3 for leaves in made)
    assert {sum(name.startswith("xs") for name in leaves) for leaves in made} == {1, 2, 3}
    assert {leaves["z"].dtype for leaves in made} == {torch.complex128, torch.complex64}
    assert {leaves["inexact"].dtype.is_complex for leaves in made} == {True, False}
    assert {leaves["exact"].dtype for leaves in made} == {torch.float32}
    assert {leaves["index"].dtype for leaves in made} == {torch.int64, torch.int32}
    for leaves in made:
        assert leaves["x"].dtype.to_complex() == leaves["z"].dtype
        assert leaves["index"].numel() == 0 or leaves["index"].min() >= 0
        assert leaves["mask"].dtype is torch.bool
    assert any(leaves["z"].is_conj() for leaves in made)


def test_integers_are_indices_where_nothing_says_more():
    for case in generated(ops.select):
        x, index = case.leaves
        assert index.numel() == 0 or index.max() < len(x)


def test_real_operators_get_integers_too_but_never_alone():
    @tg.op
    def scaled(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x * y

    dtypes = {tuple(leaf.dtype for leaf in case.leaves) for case in generated(scaled)}
    assert (torch.float64, torch.int64) in dtypes
    assert all(first.is_floating_point for first, _ in dtypes)


def test_halves_are_not_asked_of_complex_outputs():
    assert {case.primals[0].dtype for case in generated(ops.spectrum)} == {torch.float64, torch.float32}


def test_precisions_can_be_chosen():
    inputs = Inputs(make_target(linear), precisions=(torch.float32,))
    assert {p.dtype for case in itertools.islice(inputs, 20) for p in case.primals} == {torch.float32}


# -- domains -----------------------------------------------------------------------------------------------------------


def elementwise(function, spec):
    @tg.op
    @tg.domain(x=spec)
    def op(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return function(x)

    return op


@pytest.mark.parametrize(
    ("function", "spec", "on", "near"),
    [
        (torch.log, "positive", [], [0]),
        (torch.sqrt, "nonnegative", [0], [0]),
        (torch.acos, [-1, 1], [-1, 1], [-1, 1]),
        (torch.atanh, (-1, 1), [], [-1, 1]),
        (torch.logit, "(0, 1]", [1], [0, 1]),
        (torch.lgamma, "real except nonpositive integers", [], [0, -1, -2]),
        (torch.tan, "real except odd multiples of pi/2", [], [-math.pi / 2, math.pi / 2]),
        (torch.reciprocal, "nonzero", [], [0]),
        (torch.log, "[1e-3, 2e-3]", [1e-3, 2e-3], [1e-3]),
        (torch.log, "(1e6, 1e6 + 1)", [], [1e6]),
        (torch.digamma, "(-inf, 0) except negative integers", [], [0, -1]),
    ],
)
def test_values_lie_in_the_domain_and_close_to_its_ends(function, spec, on, near):
    op = elementwise(function, spec)
    allowed = op._record.domains["x"].at({})
    inputs = Inputs(make_target(op))
    made = list(itertools.islice(inputs, 300))
    assert inputs.refused == []
    for case in made:
        assert bool(allowed.admits(case.primals[0]).all()), case.label
    double = torch.cat([case.primals[0].flatten() for case in made if case.primals[0].dtype is torch.float64])
    assert all((double == point).any() for point in on)
    width = min(1.0, allowed.high - allowed.low)
    assert all((((double - point).abs() < 0.01 * width) & (double != point)).any() for point in near)
    away = torch.cat([c.primals[0].flatten() for c in made if not c.traits & {"edges", "special", "small", "expanded"}])
    assert away.unique().numel() > 100
    # Where half precision has no numbers, it is not asked for.
    halves = torch.float16 in {case.primals[0].dtype for case in made}
    assert halves == (allowed.low != 1e6)


def test_plain_values_keep_away_from_poles():
    op = elementwise(torch.lgamma, "real except nonpositive integers")
    for case in generated(op):
        if not case.traits & {"edges"}:
            x = case.primals[0].double()
            assert not ((x <= 0.1) & ((x - x.round()).abs() < 0.12)).any(), case.label


def test_domains_of_integers_axes_lists_and_choices():
    @tg.op
    @tg.domain(index="[0, n)", n="[3, inf)", weights="(0, 1)^2", k="[1, n]", count={1, 4}, word={"a", "b"}, xs="unit^k")
    def op(
        x: Float[Tensor, "*batch n"],
        index: Int[Tensor, "m"],
        weights: list[float],
        xs: list[Float[Tensor, "n"]],
        k: int,
        count: int,
        word: str,
    ) -> Float[Tensor, "*batch n"]:
        assert len(weights) == 2
        assert all(0 < weight < 1 for weight in weights)
        assert x.shape[-1] >= 3
        assert 1 <= k <= x.shape[-1]
        assert len(xs) == k
        assert all(bool(((item >= 0) & (item <= 1)).all()) for item in xs)
        assert bool(((index >= 0) & (index < x.shape[-1])).all())
        assert count in (1, 4)
        return x + {"a": 0, "b": 1}[word]

    inputs = Inputs(make_target(op))
    made = [case.leaves for case in itertools.islice(inputs, 60)]
    assert inputs.refused == []
    assert {leaves[-2] for leaves in made} == {1, 4}
    assert {leaves[-1] for leaves in made} == {"a", "b"}
    assert len({leaves[-3] for leaves in made}) > 3


def test_a_domain_may_be_wider_than_the_memory():
    """Such are times in milliseconds. Their elements differ all the same."""

    @tg.op
    @tg.domain(time="[0, 4000000000000]", x="[1e7, 1e12]")
    def op(x: Float[Tensor, "n"], time: Int64[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * time

    first = next(iter(Inputs(make_target(op))))
    assert [len(leaf.unique()) for leaf in first.leaves] == [leaf.numel() for leaf in first.leaves]
    assert first.leaves[1].max() > 1e9


def test_bounds_that_leave_nothing_are_not_tried():
    @tg.op
    @tg.domain(k="[1, n]", index="[0, m)", y="(0, n)")
    def op(x: Float[Tensor, "n m"], index: Int[Tensor, "m"], y: Float[Tensor, "m"], k: int) -> Float[Tensor, "n m"]:
        assert 1 <= k <= len(x)
        assert bool(((index >= 0) & (index < x.shape[1])).all())
        assert bool(((y > 0) & (y < len(x))).all())
        return x + k

    inputs = Inputs(make_target(op))
    made = [shapes(case)["x"] for case in itertools.islice(inputs, 100)]
    assert inputs.refused == []
    assert min(n for n, _ in made) == 1
    assert min(m for _, m in made) == 0


def test_a_complex_argument_has_its_real_part_in_the_domain():
    @tg.op
    @tg.domain(z="positive")
    def log(z: Complex[Tensor, "..."]) -> Complex[Tensor, "..."]:
        return z.log()

    made = [case.primals[0] for case in generated(log, 40)]
    assert all(bool((z.real > 0).all()) for z in made)
    assert any(bool((z.imag < 0).any()) for z in made)


def test_without_a_domain_values_leave_it():
    def of(x):
        if (x < 0).any():
            raise ValueError("negative")
        return x.sqrt()

    inputs = Inputs(make_target(elementwise(of, "real")))
    list(itertools.islice(inputs, 10))
    assert len(inputs.refused) > 10


# -- samples -----------------------------------------------------------------------------------------------------------


def test_samples_come_between_generated_cases():
    @tg.op
    def halved(x: Float[Tensor, "n"], by: float = 2.0) -> Float[Tensor, "n"]:
        return x / by

    @halved.samples
    def _():
        yield torch.full((1,), 100.0)
        yield torch.full((1,), 101.0), 3.0
        yield {"by": 4.0, "x": torch.full((1,), 102.0)}

    @halved.samples
    def _(generator):
        return [(103 + torch.rand(1, generator=generator),)]

    made = generated(halved, 12)
    own = [i for i, case in enumerate(made) if (case.primals[0] >= 100).any()]
    assert own == [1, 3, 5, 7]
    assert [dict(zip(made[i].leaf_names, made[i].leaves, strict=True)).get("by") for i in own] == [None, 3.0, 4.0, None]
    assert torch.equal(made[7].primals[0], generated(halved, 8)[7].primals[0])
    assert not torch.equal(made[7].primals[0], generated(halved, 8, seed=1)[7].primals[0])


def test_samples_serve_where_nothing_that_is_generated_is_taken():
    @tg.op
    def cholesky(a: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
        if not torch.equal(a, a.mT):
            raise ValueError("not symmetric")
        return torch.linalg.cholesky(a)

    @cholesky.samples
    def _(generator):
        for n in range(2, 7):
            a = torch.randn(n, n, generator=generator, dtype=torch.float64)
            yield a + a.mT + 4 * n * torch.eye(n)

    inputs = Inputs(make_target(cholesky))
    made = [shapes(case)["a"] for case in itertools.islice(inputs, 12)]
    assert {(n, n) for n in range(2, 7)} <= {*made}


def test_a_sample_that_is_refused_is_said():
    @tg.op
    def same(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x + y

    same.samples(lambda: [(torch.ones(2), torch.ones(3))])
    inputs = Inputs(make_target(same))
    list(itertools.islice(inputs, 3))
    (refusal,) = inputs.refused
    assert refusal.sample
    assert isinstance(refusal.error, tg.ShapeError)
    assert refusal.label == "x: float32[2], y: float32[3]"


@pytest.mark.parametrize("samples", [3, [3], [[1]], None, "x"])
def test_samples_that_are_no_calls_are_refused(samples):
    @tg.op
    def twice(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return 2 * x

    twice.samples(lambda: samples)
    with pytest.raises(tg.DeclarationError, match=r"twice.samples.*something else than calls"):
        generated(twice, 3)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_what_breaks_is_told_from_what_refuses():
    @tg.op
    def picky(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
        if x.ndim > 1:
            raise ValueError("one signal at a time")
        if x.shape[-1] > 16:
            raise RuntimeError("buffer overrun")
        if x.dtype == np.float32:
            raise RuntimeError("\"sort\" not implemented for 'Half'")
        return x[:-1] if x.shape[-1] == 1 else x.copy()

    inputs = Inputs(make_target(picky))
    list(itertools.islice(inputs, 60))
    kinds = {str(r.error).splitlines()[0]: r.deliberate for r in inputs.refused}
    assert kinds == {
        "one signal at a time": True,
        "\"sort\" not implemented for 'Half'": True,
        "buffer overrun": False,
        "operator 'picky' argument 'out': the kernel returned another shape than its annotation says": False,
    }
    assert all("x: " in refusal.label for refusal in inputs.refused)


def test_what_is_always_refused_is_given_up():
    @tg.op
    def pair(x: Float[Tensor, "n"], weights: list[float]) -> Float[Tensor, "n"]:
        first, second = weights
        return first * x + second

    inputs = Inputs(make_target(pair))
    list(itertools.islice(inputs, 100))
    assert 0 < len(inputs.refused) <= 8


def test_a_target_that_refuses_everything_gives_no_case():
    @tg.op
    def never(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        raise RuntimeError("no")

    inputs = Inputs(make_target(never))
    assert list(inputs) == []
    assert len(inputs.refused) == 60


def test_a_kernel_that_does_not_compile_is_tried_once():
    @tg.op(kernel=tg.c("void broken(int64_t n, const T *x, T *out) { out[0] = nothing; }"))
    def broken(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    inputs = Inputs(make_target(broken))
    assert list(inputs) == []
    (refusal,) = inputs.refused
    assert isinstance(refusal.error, tg.BuildError)
    assert not refusal.deliberate


# -- other targets -----------------------------------------------------------------------------------------------------


def affine(x: Float[Tensor, "*batch n"], w: Float[Tensor, "n m"], *, shift: float = 1.0) -> Float[Tensor, "*batch m"]:
    return x @ w + shift


class Square(torch.autograd.Function):
    @staticmethod
    @tg.domain(x="positive")
    def forward(ctx, x: Float[Tensor, "n"], power: int = 2) -> Float[Tensor, "n"]:
        ctx.save_for_backward(x)
        return x**power


class New(torch.autograd.Function):
    @staticmethod
    def forward(x: Float[Tensor, "a b"]) -> dict:
        return x.sum(0)

    @staticmethod
    def setup_context(ctx, inputs, output): ...


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def forward(self, x: Float[Tensor, "*batch 3"]):
        return x.double() + self.bias


def test_a_function_without_ctx():
    assert all(len(case.primals[0].shape) == 2 for case in generated(New.apply, 20))


@pytest.mark.parametrize(
    ("origin", "names"),
    [(affine, ["x", "w"]), (Square.apply, ["x"]), (Layer(), ["bias", "x"])],
    ids=["function", "Function", "module"],
)
def test_annotations_of_other_targets_serve_too(origin, names):
    made = generated(origin, 20)
    assert made[0].names == names
    assert len({case.label for case in made}) > 5
    if origin == Square.apply:
        assert all(bool((case.primals[0] > 0).all()) for case in made)


def test_inputs_of_a_module_stay_as_they_are():
    target, x, y = make_target(nn.Bilinear(2, 3, 4)), torch.ones(5, 2), torch.ones(5, 3)
    assert make_case(target, (x, y), {}, seed=0).names == ["weight", "bias", "input1", "input2"]
    assert not x.requires_grad
    assert make_case(target, (x, y.requires_grad_()), {}, seed=0).names == ["weight", "bias", "input2"]


class Bare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ...


@pytest.mark.parametrize("origin", [torch.sin, lambda x: x, Bare.apply, nn.Linear(2, 3), math.hypot], ids=range(5))
def test_targets_without_annotations_need_inputs(origin):
    with pytest.raises(tg.ArgumentError, match="nothing says what") as caught:
        generated(origin)
    assert caught.value.argument == "inputs"


# -- the back end ------------------------------------------------------------------------------------------------------


def test_plain_choices_begin_at_the_front_and_visit_all():
    draw = Draw(0)
    seen = []
    for _ in range(60):
        draw.begin()
        seen.append(draw.choose("x", "abcde"))
        draw.end(accepted=True)
    counts = Counter(seen)
    assert seen[0] == "a"
    assert 0.5 < counts["a"] / 60 < 0.8
    assert max(counts[x] for x in "bcde") - min(counts[x] for x in "bcde") <= 1


def test_refusing_what_the_reference_takes_is_no_deliberate_refusal():
    @tg.op
    @tg.domain(x="positive")
    def log1p(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if (x > 3).any():
            raise ValueError("out of range")
        return x.log1p()

    def refusals():
        inputs = Inputs(make_target(log1p), seed=0)
        list(itertools.islice(inputs, 24))
        assert inputs.refused
        return inputs.refused

    assert all(refusal.deliberate for refusal in refusals())
    log1p.reference(lambda x: torch.log1p(x))
    assert any(not r.deliberate and "of which the reference gives the value" in r.label for r in refusals())

    @log1p.reference
    def _(x: float):
        if x > 3:
            raise ValueError("out of range")
        return math.log1p(x)

    assert all(refusal.deliberate for refusal in refusals())


def test_tensors_are_taken_to_the_device():
    """On the device without numbers a call can say where it is, and no more."""
    seen = set()

    def function(x):
        seen.add(x.device.type)
        return x * x

    tg.check(function, torch.ones(3, dtype=torch.float64), device="meta", only="gradient")
    assert seen == {"meta"}


def test_a_device_has_to_be_there():
    with pytest.raises(tg.ArgumentError, match="cannot be used") as caught:
        tg.check(torch.sin, torch.ones(3), device="nonsense")
    assert caught.value.argument == "device"
