"""The plan: what annotations say about one call's arguments."""

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Complex, Float, Float64, Inexact, Int, Int64, Real, Shaped
from torch import Tensor

from torchgraft import ArgumentError, DeviceError, DtypeError, ShapeError, UnsupportedError
from torchgraft._spec.conversion import common_dtype, convert
from torchgraft._spec.plan import flatten, leaf_counts, make_plan, replace
from torchgraft._spec.reading import read_signature


def read(function, *, loop=False):
    return read_signature(function, function.__name__, loop=loop, frames=0)


def plan(function, *values, loop=False, **options):
    return make_plan(read(function, loop=loop), values, **options)


def linear(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]: ...


def concatenate(xs: list[Float[Tensor, "n _"]], by: int = 1) -> Float[Tensor, "n {by}"]: ...


def add(x: Float[Tensor, "#n"], y: Float[Tensor, "#n"]) -> Float[Tensor, "n"]: ...


def real(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]: ...


ones = torch.ones


# -- tensors and their places --------------------------------------------------------------------------------
def test_flatten_and_replace_are_inverse():
    signature = read(concatenate)
    values = [[ones(1), ones(2)], 3]
    assert [leaf.numel() for leaf in flatten(signature, values)] == [1, 2]
    assert replace(signature, values, ["a", "b"]) == [["a", "b"], 3]
    assert leaf_counts(signature, values) == (2,)
    assert leaf_counts(read(linear), [ones(1), ones(1), None]) == (1, 1, None)
    assert replace(read(linear), [1, 2, None], ["a", "b"]) == ["a", "b", None]


def test_leaves_know_their_names():
    made = plan(concatenate, [ones(2, 3), ones(2, 4)], 5)
    assert [leaf.name for leaf in made.leaves] == ["xs[0]", "xs[1]"]
    assert made.outputs == (((2, 5), torch.float32),)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
def test_output_shapes(batch):
    made = plan(linear, ones(*batch, 4), ones(5, 4), None)
    assert made.outputs == (((*batch, 5), torch.float32),)
    assert made.batch == ()
    assert made.device == torch.device("cpu")


def test_full_shapes():
    made = plan(add, ones(1), ones(4))
    assert [(leaf.shape, leaf.full) for leaf in made.leaves] == [((1,), (4,)), ((4,), (4,))]


def test_shape_rule():
    def f(x: Tensor, k: int) -> Float64[Tensor, "..."]: ...

    def g(x: Tensor, k: int) -> tuple[Tensor, Tensor]: ...

    signature = read(g)
    made = make_plan(signature, [ones(2, 3), 4], shape_rule=lambda k, x: ((*x, k), [k]))
    assert [shape for shape, _ in made.outputs] == [(2, 3, 4), (4,)]
    assert [shape for shape, _ in plan(g, ones(2), 1).outputs] == [None, None]
    with pytest.raises(ShapeError, match="wrong number of shapes") as caught:
        make_plan(signature, [ones(2, 3), 4], shape_rule=lambda x: (x,))
    assert (caught.value.operator, caught.value.expected, caught.value.got) == ("g.shape", "2 shapes", 1)


# -- loops ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("left", "right", "batch"),
    [((), (), ()), ((3,), (), (3,)), ((), (3,), (3,)), ((2, 1), (3,), (2, 3)), ((1,), (4,), (4,)), ((0,), (1,), (0,))],
)
def test_leading_axes_broadcast(left, right, batch):
    made = plan(add, ones(*left, 4), ones(*right, 1), loop=True)
    assert made.batch == batch
    assert made.outputs == (((*batch, 4), torch.float32),)
    assert [leaf.lead for leaf in made.leaves] == [len(left), len(right)]
    assert {leaf.full for leaf in made.leaves} == {(*batch, 4)}


def test_leading_axes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match=r"leading axes \(3,\) do not broadcast with \(2,\)") as caught:
        plan(add, ones(2, 4), ones(3, 4), loop=True)
    assert (caught.value.operator, caught.value.argument) == ("add", "y")


def test_too_few_axes_for_a_sample():
    with pytest.raises(ShapeError, match="has 0 axes") as caught:
        plan(add, ones(2, 4), ones(()), loop=True)
    assert (caught.value.argument, caught.value.got) == ("y", "shape ()")


# -- dtypes --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_float_output_has_the_inputs_dtype(dtype):
    assert plan(add, ones(2, dtype=dtype), ones(2, dtype=dtype)).outputs[0][1] is dtype


def test_dtypes_of_several_outputs():
    def f(
        x: Float[Tensor, "n"], index: Int[Tensor, "n"], mask: Bool[Tensor, "n"]
    ) -> tuple[
        Complex[Tensor, "n"], Int[Tensor, "n"], Bool[Tensor, "n"], Float64[Tensor, "n"], Shaped[Tensor, "n"]
    ]: ...

    made = plan(f, ones(2), ones(2, dtype=torch.int32), ones(2, dtype=torch.bool))
    assert [dtype for _, dtype in made.outputs] == [
        torch.complex64, torch.int32, torch.bool, torch.float64, torch.float32,
    ]  # fmt: skip


def test_mixed_precision_names_both_arguments():
    with pytest.raises(DtypeError, match="mixed dtypes: input is float32, but bias is float64") as caught:
        plan(linear, ones(4), ones(5, 4), ones(5, dtype=torch.double))
    error = caught.value
    assert (error.operator, error.argument, error.expected, error.got) == ("linear", "bias", "float32", "float64")
    assert "bias.to(input.dtype)" in error.hint
    assert "Real, which promotes" in error.hint


def test_real_and_complex_of_one_precision_go_together():
    def f(x: Inexact[Tensor, "n"], y: Inexact[Tensor, "n"]) -> Inexact[Tensor, "n"]: ...

    for left, right in [(torch.float32, torch.complex64), (torch.complex64, torch.float32)]:
        assert plan(f, ones(1, dtype=left), ones(1, dtype=right)).outputs[0][1] is torch.complex64
    with pytest.raises(DtypeError, match="x is complex128, but y is float32"):
        plan(f, ones(1, dtype=torch.complex128), ones(1))


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (torch.int64, torch.int64, torch.float64),
        (torch.int64, torch.float32, torch.float64),
        (torch.int16, torch.float32, torch.float32),
        (torch.float16, torch.float32, torch.float32),
        (torch.float32, torch.float32, None),
        (torch.uint8, torch.bfloat16, torch.bfloat16),
    ],
)
def test_real_promotes(left, right, common):
    assert common_dtype(read(real), [ones(1, dtype=left), ones(1, dtype=right)]) is common


def test_real_to_real_stays_integer():
    def f(x: Real[Tensor, "n"], y: Real[Tensor, "n"]) -> Real[Tensor, "n"]: ...

    values = [ones(1, dtype=torch.int8), ones(1, dtype=torch.int32)]
    assert common_dtype(read(f), values) is torch.int32
    assert common_dtype(read(f), [values[0], values[0]]) is None
    assert plan(f, values[0], values[0]).outputs[0][1] is torch.int8


@pytest.mark.parametrize(
    ("annotation", "dtype", "hint"),
    [
        (Float, torch.int64, "x.double(), or annotate with Real"),
        (Float, torch.bool, "x.double(), or annotate with Real"),
        (Float, torch.complex64, "x.real or x.abs(), or annotate with Complex"),
        (Real, torch.complex64, "x.real or x.abs()"),
        (Float64, torch.float32, "x.to(torch.float64)"),
        (Int64, torch.int32, "x.to(torch.int64)"),
        (Int64, torch.float64, "x.to(torch.int64)"),
    ],
)
def test_a_dtype_that_is_not_admitted(annotation, dtype, hint):
    def f(y: Shaped[Tensor, ""], x: annotation[Tensor, "n"]) -> Shaped[Tensor, "n"]: ...

    with pytest.raises(DtypeError, match=f"has dtype {str(dtype)[6:]}") as caught:
        plan(f, ones(()), ones(1, dtype=dtype))
    error = caught.value
    assert (error.operator, error.argument, error.got) == ("f", "x", str(dtype)[6:])
    assert error.expected.startswith(annotation.__name__)
    assert hint in error.hint


# -- devices, and what is no tensor --------------------------------------------------------------------------
def test_devices_must_agree():
    with pytest.raises(DeviceError, match="is on meta, but input is on cpu") as caught:
        plan(linear, ones(4), ones(5, 4), ones(5, device="meta"))
    error = caught.value
    assert (error.operator, error.argument, error.expected, error.got) == ("linear", "bias", "cpu", "meta")
    assert error.hint == "pass bias.to(input.device)"


def test_no_tensor_in_the_call():
    with pytest.raises(ArgumentError, match="got no tensor at all"):
        plan(concatenate, [], 1)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (np.ones(2), "torch.from_numpy"),
        (2.0, "torch.tensor(value)"),
        ([1.0], "torch.tensor(value)"),
        (((1, 2.0), (3, 4)), "torch.tensor(value)"),
        ([ones(2)], "flat arguments"),
        ([], "flat arguments"),
        ({"a": 1}, "flat arguments"),
        ("text", None),
        (None, None),
    ],
)
def test_no_tensors(value, hint):
    with pytest.raises(ArgumentError, match="argument 'weight': is not a tensor") as caught:
        convert(read(linear), [ones(2), value, None])
    assert caught.value.expected == 'Float[Tensor, "m n"]'
    assert caught.value.got.startswith(type(value).__name__)
    assert (hint is None) == (caught.value.hint is None)
    assert hint is None or hint in caught.value.hint


def test_no_list_of_tensors():
    for value in (ones(2), None, 3.0, {ones(2)}):
        with pytest.raises(ArgumentError, match="argument 'xs': is not a list of tensors") as caught:
            convert(read(concatenate), [value, 1])
        assert caught.value.expected == 'a list of Float[Tensor, "n _"]'
    with pytest.raises(ArgumentError, match=r"argument 'xs\[1\]'"):
        convert(read(concatenate), [[ones(2), 1.0], 1])
    assert len(convert(read(concatenate), [(ones(2), ones(3)), 1])[0]) == 2


def test_sparse_tensors():
    with pytest.raises(UnsupportedError, match="is a tensor of layout sparse_coo") as caught:
        convert(read(linear), [ones(2), ones(3, 2).to_sparse(), None])
    assert (caught.value.argument, caught.value.hint) == ("weight", "pass x.to_dense()")
