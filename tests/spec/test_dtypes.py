"""Dtypes: what an annotation admits, what is promoted, what an output gets."""

import functools

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Complex, Complex64, Float, Float32, Inexact, Int, Int64, Integer, Num, Real, Shaped, UInt
from torch import Tensor

from torchgraft._spec.dtypes import ANY, Dtypes, complex_twin, is_inexact, name_of, promote, real_twin

INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64}
UNSIGNED = {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
COMPLEXES = {torch.complex64, torch.complex128}


def dtypes(kind):
    return Dtypes.read(kind[Tensor, "n"])


@pytest.mark.parametrize(
    ("kind", "admitted"),
    [
        (Float, FLOATS),
        (Complex, COMPLEXES),
        (Inexact, FLOATS | COMPLEXES),
        (Int, INTEGERS),
        (UInt, UNSIGNED),
        (Integer, INTEGERS | UNSIGNED),
        (Real, FLOATS | INTEGERS | UNSIGNED),
        (Num, FLOATS | COMPLEXES | INTEGERS | UNSIGNED),
        (Bool, {torch.bool}),
        (Float32, {torch.float32}),
        (Int64, {torch.int64}),
        (Complex64, {torch.complex64}),
    ],
)
def test_admitted(kind, admitted):
    read = dtypes(kind)
    everything = FLOATS | COMPLEXES | INTEGERS | UNSIGNED | {torch.bool}
    assert {dtype for dtype in everything if read.admits(dtype)} == admitted
    assert str(read) == kind.__name__
    assert read.exact == (next(iter(admitted)) if len(admitted) == 1 else None)
    assert read.differentiable == bool(admitted & (FLOATS | COMPLEXES))


def test_shaped_and_bare_tensors_admit_everything():
    assert dtypes(Shaped) is ANY
    assert ANY.admits(torch.bool)
    assert ANY.differentiable
    assert not ANY.numeric


def test_float8_only_where_it_is_named():
    assert not dtypes(Float).admits(torch.float8_e4m3fn)
    assert dtypes(jaxtyping.Float8e4m3fn).exact is torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("kind", "common", "result"),
    [
        (Float, torch.float32, torch.float32),
        (Float, torch.bfloat16, torch.bfloat16),
        (Float, torch.complex128, torch.float64),
        (Float, torch.int32, torch.float64),
        (Complex, torch.float32, torch.complex64),
        (Complex, torch.float64, torch.complex128),
        (Complex, torch.float16, torch.complex32),
        (Complex, torch.bfloat16, torch.complex64),
        (Complex, torch.complex64, torch.complex64),
        (Inexact, torch.complex64, torch.complex64),
        (Real, torch.int16, torch.int16),
        (Bool, torch.float32, torch.bool),
        (Float32, torch.float64, torch.float32),
        (Shaped, torch.float64, torch.float64),
    ],
)
def test_the_output_has_the_inputs_precision(kind, common, result):
    assert dtypes(kind).of_output(common, common, None) is result


@pytest.mark.parametrize(
    ("kind", "integer", "result"),
    [
        (Int, torch.int32, torch.int32),
        (Int, None, torch.int64),
        (Int, torch.uint8, torch.int64),
        (UInt, torch.uint16, torch.uint16),
        (UInt, torch.int8, torch.uint8),
        (Integer, torch.uint8, torch.uint8),
    ],
)
def test_an_integer_output_has_the_dtype_of_an_integer_input(kind, integer, result):
    assert dtypes(kind).of_output(torch.float64, torch.float64, integer) is result


@pytest.mark.parametrize("real", sorted(FLOATS - {torch.bfloat16}, key=str))
def test_twins_are_inverse(real):
    assert real_twin(complex_twin(real)) is real
    assert real_twin(real) is real
    assert complex_twin(complex_twin(real)) is complex_twin(real)


def test_names():
    assert name_of(torch.float32) == "float32"
    assert is_inexact(torch.complex32)
    assert not is_inexact(torch.bool)


NUMPY_KNOWS = sorted((FLOATS | COMPLEXES | INTEGERS | UNSIGNED) - {torch.bfloat16}, key=str)


@given(st.frozensets(st.sampled_from(NUMPY_KNOWS), min_size=1))
def test_promotion_is_numpys(given_dtypes):
    expected = np.result_type(*(np.dtype(name_of(dtype)) for dtype in given_dtypes))
    assert name_of(promote(given_dtypes, to_float=False)) == expected.name
    inexact = np.issubdtype(expected, np.inexact)
    assert name_of(promote(given_dtypes, to_float=True)) == (expected.name if inexact else "float64")


@given(st.lists(st.sampled_from(sorted(FLOATS | INTEGERS | COMPLEXES, key=str)), min_size=1))
def test_promotion_with_bfloat16_is_torchs_in_any_order(others):
    result = promote(frozenset({torch.bfloat16, *others}), to_float=True)
    assert is_inexact(result)
    assert result is functools.reduce(torch.promote_types, [torch.bfloat16, *others])
    assert result is functools.reduce(torch.promote_types, [*others, torch.bfloat16])
