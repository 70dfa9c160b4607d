"""Non-tensor arguments: which annotations they have, and how values are converted."""

from collections.abc import Sequence
from fractions import Fraction
from typing import List, Literal, Optional, Union  # noqa: UP035

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchgraft import ArgumentError
from torchgraft._spec.scalars import Scalar, read_scalar, strip_optional


def convert(annotation, value):
    return read_scalar(annotation).convert(value, "op", "k")


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (bool, "bool"),
        (int, "SymInt"),
        (float, "float"),
        (complex, "complex"),
        (str, "str"),
        (torch.dtype, "ScalarType"),
        (torch.device, "Device"),
        (Literal["a", "b"], "str"),
        (Literal[1, 2], "SymInt"),
        (list[int], "SymInt[]"),
        (Sequence[float], "float[]"),
        (tuple[int, ...], "SymInt[]"),
        (list[Literal["a", "b"]], "str[]"),
    ],
    ids=str,
)
def test_schema(annotation, schema):
    assert read_scalar(annotation).schema == schema


@pytest.mark.parametrize(
    "annotation",
    [
        bytes,
        object,
        dict,
        list,
        list[list[int]],
        tuple[int, int],
        list[torch.dtype],
        Literal[1, "a"],
        Literal[None],
        None,
    ],
    ids=str,
)
def test_annotations_that_are_no_argument(annotation):
    assert read_scalar(annotation) is None


@pytest.mark.parametrize(
    ("annotation", "value", "converted"),
    [
        (bool, True, True),
        (bool, np.bool_(False), False),
        (int, 3, 3),
        (int, True, 1),
        (int, np.int8(3), 3),
        (int, np.uint64(2**40), 2**40),
        (int, np.bool_(True), 1),
        (float, 2, 2.0),
        (float, np.float32(0.5), 0.5),
        (float, np.int64(3), 3.0),
        (complex, 1.5, 1.5 + 0j),
        (complex, np.complex64(1j), 1j),
        (str, "same", "same"),
        (torch.dtype, torch.float16, torch.float16),
        (torch.device, "cpu", torch.device("cpu")),
        (torch.device, torch.device("meta"), torch.device("meta")),
        (list[int], (1, 2), [1, 2]),
        (list[int], range(3), [0, 1, 2]),
        (list[int], torch.Size([4, 5]), [4, 5]),
        (list[int], np.array([1, 2], dtype=np.int8), [1, 2]),
        (list[float], [1, np.float32(0.5)], [1.0, 0.5]),
        (list[float], [], []),
        (list[str], ["a", "b"], ["a", "b"]),
        (tuple[bool, ...], [True, np.bool_(False)], [True, False]),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], np.int64(2), 2),
        (list[Literal["a", "b"]], ("a", "a"), ["a", "a"]),
    ],
    ids=repr,
)
def test_conversion(annotation, value, converted):
    result = convert(annotation, value)
    assert result == converted
    assert type(result) is type(converted)
    if isinstance(result, list):
        assert [type(item) for item in result] == [type(item) for item in converted]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (bool, 1),
        (bool, "True"),
        (int, 2.0),
        (int, "2"),
        (int, np.float64(2)),
        (int, 1j),
        (float, 1j),
        (float, "1.0"),
        (float, Fraction(1, 2)),
        (float, np.array(1.0)),
        (float, None),
        (complex, "1j"),
        (str, b"bytes"),
        (torch.dtype, np.float32),
        (torch.dtype, "float32"),
        (torch.device, 0),
        (list[int], 3),
        (list[int], [1, 2.5]),
        (list[int], np.ones((2, 2), dtype=int)),
        (list[int], {1: 2}),
        (list[int], {1, 2}),
        (list[str], "ab"),
        (list[int], None),
    ],
    ids=repr,
)
def test_wrong_types_are_refused(annotation, value):
    with pytest.raises(ArgumentError, match="argument 'k': has the wrong type") as caught:
        convert(annotation, value)
    error = caught.value
    assert (error.operator, error.argument) == ("op", "k")
    assert error.expected == str(read_scalar(annotation))
    assert " of type " in error.got
    assert error.hint in (f"pass {error.expected}", f"pass a value of type {error.expected}")


@pytest.mark.parametrize("annotation", [bool, int, float, complex, str, list[int], list[float], Literal["a"]], ids=str)
def test_a_tensor_has_no_place_among_numbers(annotation):
    with pytest.raises(ArgumentError) as caught:
        convert(annotation, torch.ones(()))
    assert caught.value.got == "a Tensor of shape ()"
    assert "pass a Python number" in caught.value.hint
    assert "wrong: f(x, torch.tensor(2.0))" in str(caught.value)


def test_a_tensor_inside_a_list_of_numbers():
    with pytest.raises(ArgumentError) as caught:
        convert(list[float], [1.0, torch.ones(2)])
    assert caught.value.got == "a Tensor of shape (2,)"


def test_choices():
    assert str(read_scalar(Literal["full", "valid"])) == "one of 'full', 'valid'"
    with pytest.raises(ArgumentError, match="is not one of the choices") as caught:
        convert(Literal["full", "valid"], "same")
    assert caught.value.expected == "one of 'full', 'valid'"
    assert caught.value.got == "'same' of type str"


def test_an_unknown_device():
    with pytest.raises(ArgumentError, match="has the wrong type") as caught:
        convert(torch.device, "nonsense")
    assert (caught.value.expected, caught.value.got) == ("device", "'nonsense' of type str")


@pytest.mark.parametrize(
    "annotation",
    [float | None, Optional[float], Union[float, None], Union[None, float]],  # noqa: UP007, UP045 - all spellings
    ids=range(4),
)
def test_optional_in_every_spelling(annotation):
    assert strip_optional(annotation) == (float, True)


@pytest.mark.parametrize("annotation", [float, int | float, int | float | None], ids=str)
def test_other_unions_stay(annotation):
    assert strip_optional(annotation) == (annotation, False)


def test_the_old_spelling_of_a_list():
    assert read_scalar(List[int]) == Scalar(int, many=True)  # noqa: UP006


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False)))
def test_conversion_is_idempotent_and_keeps_the_value(value):
    once = convert(float, value)
    assert convert(float, once) == once == float(value)
    if not isinstance(value, float):
        assert convert(int, value) == int(value)
        assert type(convert(int, value)) is int
