"""The signature: what is read from annotations, and which declarations are refused."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Optional

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Complex, Float, Float64, Int, Int64, Real
from torch import Tensor

import torchgraft as tg
from torchgraft._spec.reading import read_signature

from . import _strings as strings

N = Float[Tensor, "n"]


def read(function, *, loop=False):
    return read_signature(function, function.__name__, loop=loop, frames=0)


def refused(function, match, *, loop=False):
    with pytest.raises(tg.DeclarationError, match=match) as caught:
        read(function, loop=loop)
    assert caught.value.operator == function.__name__
    return caught.value


# -- parameters ----------------------------------------------------------------------------------------------
def test_every_kind_of_parameter():
    def f(
        x: N,
        xs: list[N],
        y: N | None,
        raw: Tensor,
        flag: bool,
        sizes: Sequence[int],
        mode: Literal["a", "b"] = "a",
        *,
        z: Optional[N] = None,  # noqa: UP045
        dtype: torch.dtype = torch.float32,
        level: float | None = None,
    ) -> N: ...

    signature = read(f)
    tensors = {p.name: (p.optional, p.many) for _, p in signature.tensors}
    assert tensors == {
        "x": (False, False),
        "xs": (False, True),
        "y": (True, False),
        "raw": (False, False),
        "z": (True, False),
    }
    assert [p.name for p in signature.parameters if p.keyword_only] == ["z", "dtype", "level"]
    assert [p.name for p in signature.parameters if p.required] == ["x", "xs", "y", "raw", "flag", "sizes"]
    assert signature.names["raw"].tensor.axes is None
    assert signature.schema() == (
        "(Tensor x, Tensor[] xs, Tensor? y, Tensor raw, bool flag, SymInt[] sizes, str mode, Tensor? z, "
        "ScalarType dtype, float? level=None) -> Tensor"
    )


def test_arrays_make_a_numpy_operator():
    def f(x: Float[np.ndarray, "n"], raw: np.ndarray) -> Float[np.ndarray, "n"]: ...

    assert read(f).numpy
    assert not read(f).elementwise


@pytest.mark.parametrize("kind", [list, Sequence])
def test_lists_of_tensors(kind):
    def f(xs: kind[N]) -> N: ...

    assert read(f).parameters[0].many


def test_numbers_beside_tensors_are_for_elementwise_operators():
    Dots = Float[Tensor, "..."]

    def plain(x: Dots, y: Dots) -> Dots: ...
    def number(x: Dots | float, y: Dots | float | None = None) -> Dots: ...
    def sizes(x: N, y: N | float) -> N: ...

    assert read(number).elementwise
    assert str(read(number).parameters[0].type) == str(read(plain).parameters[0].type)
    assert read(number).parameters[1].optional
    assert refused(sizes, "only an elementwise operator takes a number for a tensor").argument == "y"


def test_elementwise_means_dots_everywhere():
    def yes(x: Float[Tensor, "..."], y: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]: ...
    def no(x: Float[Tensor, "..."], y: Float[Tensor, "n"]) -> Float[Tensor, "..."]: ...

    assert read(yes).elementwise
    assert not read(no).elementwise


@pytest.mark.parametrize(
    ("annotation", "default", "schema"),
    [
        (float, 1e-5, "float a"),
        (float, 1, "float a=1.0"),
        (float, float("inf"), "float a"),
        (float, float("nan"), "float a"),
        (int, -3, "SymInt a=-3"),
        (bool, True, "bool a=True"),
        (complex, 1j, "complex a"),
        (str, "plain", 'str a="plain"'),
        (str, 'with " quote', "str a"),
        (str, "two\nlines", "str a"),
        (str, "back\\slash", "str a"),
        (list[int], (1, 2), "SymInt[] a=[1, 2]"),
        (tuple[float, ...], (0.5,), "float[] a=[0.5]"),
        (torch.device, "cpu", "Device a"),
        (float | None, None, "float? a=None"),
        (int | None, 2, "SymInt? a=2"),
    ],
    ids=str,
)
def test_defaults_reach_the_kernel_on_every_path(annotation, default, schema):
    seen = []

    def f(x: N, a: annotation = default) -> N:
        seen.append(a)
        return x.clone()

    operator = tg.op(name="default_of")(f)
    operator.vjp("x")(lambda grad, a: (seen.append(a), grad)[1])
    assert operator._record.signature.schema().startswith(f"(Tensor x, {schema}")
    operator(torch.ones(2))
    operator(torch.ones(2, requires_grad=True)).sum().backward()
    torch.func.grad(lambda x: operator(x).sum())(torch.ones(2))
    operator.torch_op(torch.ones(2), *([] if "=" in schema else [operator._record.signature.parameters[1].default]))
    expected = operator._record.signature.parameters[1].default
    assert len(seen) == 6
    assert all(value == expected or value != value for value in seen), seen
    assert {type(value) for value in seen} == {type(expected)}


def test_a_default_without_a_literal_before_one_with_a_literal():
    @tg.op
    def mixed(x: N, a: int = 1, b: complex = 1j, c: int = 3, *, d: int = 4, e: complex = 2j) -> N:
        return x * a * abs(b) * c * d * abs(e)

    assert mixed(torch.ones(1)).item() == 24
    assert torch.func.vmap(mixed)(torch.ones(2, 1)).tolist() == [[24], [24]]


# -- outputs -------------------------------------------------------------------------------------------------
def test_tuples_and_named_tuples():
    class Result(NamedTuple):
        low: N
        index: Int64[Tensor, ""]

    def one(x: N) -> tuple[N]: ...
    def two(x: N) -> tuple[N, Int64[Tensor, ""]]: ...
    def named(x: N) -> Result: ...
    def saved(x: N) -> tuple[N, tg.Saved[Int64[Tensor, ""], "index"]]: ...
    def typed(x: N) -> tuple[N, tg.Saved[Int64[Tensor, ""], Literal["index"]]]: ...
    def several(x: N) -> tuple[N, N, tg.Saved[Int64[Tensor, ""], "index"]]: ...

    assert [(o.name, o.saved) for o in read(one).outputs] == [("out", False)]
    assert [(o.name, o.saved) for o in read(two).outputs] == [("out0", False), ("out1", False)]
    assert [(o.name, o.saved) for o in read(named).outputs] == [("low", False), ("index", False)]
    assert [(o.name, o.saved) for o in read(saved).outputs] == [("out", False), ("index", True)]
    assert [(o.name, o.saved, str(o.type)) for o in read(typed).outputs][1] == ("index", True, 'Int64[Tensor, ""]')
    assert [o.name for o in read(several).visible] == ["out0", "out1"]
    assert [read(f).structure for f in (one, two, named, saved, several)] == [tuple, tuple, Result, None, tuple]
    assert read(two).schema() == "(Tensor x) -> (Tensor, Tensor)"


def test_packing():
    class Result(NamedTuple):
        low: N
        high: N

    def named(x: N) -> Result: ...
    def saved(x: N) -> tuple[N, tg.Saved[N, "extra"]]: ...

    assert read(named).pack([1, 2]) == Result(1, 2)
    assert type(read(named).pack([1, 2])) is Result
    assert read(saved).pack([1, 2]) == 1


# -- strings -------------------------------------------------------------------------------------------------
def test_annotations_that_are_strings():
    assert strings.scale(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    assert strings.scale._record.rules["vjp"]["x"].array
    result = strings.extrema(torch.tensor([3.0, 1.0]))
    assert type(result) is strings.Extrema
    assert result == (1.0, 3.0)
    x = torch.tensor([1.0, 5.0, 2.0], requires_grad=True)
    strings.maximum(x).backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_annotations_with_local_names():
    pair = strings.with_local_names()
    assert [value.tolist() for value in pair(torch.ones(1))] == [[4.0], [-2.0]]


def test_a_closure_that_is_filled_later():
    assert strings.defined_later()(torch.ones(1)).tolist() == [2.0]


def test_annotations_that_cannot_be_read():
    with pytest.raises(tg.DeclarationError, match="annotations cannot be read: name 'Real' is not defined") as caught:
        strings.hidden_at_runtime()
    assert caught.value.operator == "hidden"
    assert "x: " in caught.value.got
    assert "TYPE_CHECKING" in caught.value.hint


def test_a_string_that_is_no_expression():
    def f(x: "Float[Tensor") -> N: ...  # type: ignore[syntax]

    refused(f, "annotations cannot be read")


# -- refusals: parameters ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "annotation",
    [dict[str, Tensor], tuple[Tensor, Tensor], dict, list, tuple, list[list[Tensor]], list[dict[str, Tensor]]],
    ids=str,
)
def test_pytrees(annotation):
    def f(x: N, params: annotation) -> N: ...

    error = refused(f, "has a type that an operator cannot take")
    assert error.argument == "params"
    assert "give each leaf of the pytree its own parameter" in error.hint


@pytest.mark.parametrize(
    "annotation", [object, Any, bytes, int | str, Tensor | int, "Tensor | list[Tensor]", Float], ids=str
)
def test_other_types(annotation):
    def f(x: N, y: annotation) -> N: ...

    error = refused(f, "has a type that an operator cannot take")
    assert error.argument == "y"
    assert "a list of tensors" in error.expected


def test_missing_annotations():
    def no_parameter(x: N, y) -> N: ...
    def no_return(x: N): ...

    assert refused(no_parameter, "has no annotation").argument == "y"
    assert refused(no_return, "has no return annotation").argument == "return"


def test_variable_numbers_of_arguments():
    def stars(x: N, *xs: N) -> N: ...
    def doubles(x: N, **xs: N) -> N: ...

    assert "list of tensors" in refused(stars, "variable number").hint
    assert refused(doubles, "variable number").argument == "xs"


def test_defaults():
    def tensor(x: N, y: N = torch.ones(2)) -> N: ...  # noqa: B008
    def not_optional(x: N, y: float = None) -> N: ...  # noqa: RUF013
    def wrong(x: N, y: int = 2.5) -> N: ...

    assert refused(tensor, "only None can be the default of a tensor").argument == "y"
    assert refused(not_optional, "the default None but no None in its type").argument == "y"
    with pytest.raises(tg.ArgumentError, match="argument 'y': has the wrong type"):
        read(wrong)


def test_an_optional_list():
    def f(xs: list[N] | None) -> N: ...

    assert "empty list" in refused(f, "an optional list of tensors").hint


def test_no_tensor_at_all():
    def f(k: int) -> Float64[Tensor, ""]: ...

    assert refused(f, "at least one tensor argument").got == "k"


def test_mixed_kinds():
    def inputs(x: N, y: Float[np.ndarray, "n"]) -> N: ...
    def output(x: N) -> Float[np.ndarray, "n"]: ...

    assert "np.ndarray" in refused(inputs, "mixes Tensor and np.ndarray").got
    refused(output, "mixes Tensor and np.ndarray")


# -- refusals: names -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "what"),
    [("grad", "a cotangent"), ("grad_out", "a cotangent"), ("x_tangent", "a tangent"), ("out", "a parameter")],
)
def test_names_that_rules_could_not_tell_apart(name, what):
    namespace = {"N": N}
    exec(f"def f(x: N, {name}: N) -> N: ...", namespace)
    error = refused(namespace["f"], f"the name '{name}' is already that of {what}")
    assert error.argument == name
    assert "rename" in error.hint


def test_output_names_that_collide():
    class Result(NamedTuple):
        x: N
        grad: N

    class Cotangent(NamedTuple):
        low: N
        grad_low: N

    def parameter(x: N) -> Result: ...
    def cotangent(y: N) -> Result: ...
    def other(y: N) -> Cotangent: ...
    def saved(y: N) -> tuple[N, tg.Saved[N, "out"]]: ...
    def numbered(out0: N) -> tuple[N, N]: ...

    assert refused(parameter, "the name 'x' is already that of a parameter").argument == "x"
    assert refused(cotangent, "the name 'grad' is already that of a cotangent").argument == "grad"
    assert refused(other, "the name 'grad_low' is already").argument == "grad_low"
    assert refused(saved, "the name 'out' is already that of an output").argument == "out"
    assert refused(numbered, "the name 'out0' is already that of a parameter").argument == "out0"


def test_names_that_are_none():
    def f(x: N) -> tuple[N, tg.Saved[N, "not a name"]]: ...
    def g(x: N) -> tuple[N, tg.Saved[N, "class"]]: ...
    def h(x: N, __y: N) -> N: ...

    for function in (f, g, h):
        refused(function, "is not a name")


# -- refusals: outputs ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "annotation",
    [None, int, N | None, list[N | None], list[list[N]], Sequence[N], dict[str, N], tuple[N, int], tuple[N, ...]],
    ids=str,
)
def test_outputs_are_tensors(annotation):
    def f(x: N) -> annotation: ...

    error = refused(f, "is not a tensor")
    assert error.argument in ("out", "out1")


def test_saved_alone():
    def bare(x: N) -> tg.Saved[N, "extra"]: ...
    def tuple_(x: N) -> tuple[tg.Saved[N, "extra"]]: ...

    class Result(NamedTuple):
        low: N
        extra: tg.Saved[N, "extra"]

    def field(x: N) -> Result: ...

    refused(bare, "no output that the caller sees")
    refused(tuple_, "no output that the caller sees")
    assert refused(field, "a field of a NamedTuple cannot be Saved").argument == "extra"


@pytest.mark.parametrize("item", [N, (N,), (N, 3), (N, "a", "b")], ids=range(4))
def test_saved_needs_a_name(item):
    with pytest.raises(tg.DeclarationError, match="Saved takes an annotation and a name"):
        tg.Saved[item]


# -- refusals: axes and dtypes -------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["m", "n+m", "*batch", "_", "_n", "{k}", "n-{flag}", "min(n,m)"])
def test_output_axes_that_nothing_binds(text):
    def f(x: N, flag: bool, maybe: int | None = None) -> Float[Tensor, text]: ...

    error = refused(f, "is never bound")
    assert (error.argument, error.got) == ("out", text)


def test_input_axes_that_nothing_binds():
    def f(x: N, y: Float[Tensor, "m+1"]) -> N: ...
    def g(x: N, k: int | None = None) -> Float[Tensor, "n+{k}"]: ...
    def h(x: Float[Tensor, "*n m"]) -> Float[Tensor, "n"]: ...

    assert refused(f, "axis m is never bound").argument == "y"
    assert refused(g, r"axis \{k\} is never bound").argument == "out"
    refused(h, "axis n is never bound")


def test_one_name_for_an_axis_and_a_run():
    def f(x: Float[Tensor, "*n m"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    assert refused(f, "'n' names a single axis and a run of axes").got == "n and *n"


@pytest.mark.parametrize("text", ["*batch n", "... n"])
def test_loop_adds_the_leading_axes_itself(text):
    def f(x: Float[Tensor, text]) -> Float[Tensor, text]: ...

    assert refused(f, "adds the leading axes itself", loop=True).argument == "x"


def test_loop_needs_axes():
    def bare_input(x: Tensor) -> N: ...
    def bare_output(x: N) -> Tensor: ...

    assert refused(bare_input, "needs to know the core axes", loop=True).argument == "x"
    assert refused(bare_output, "needs to know the output's axes", loop=True).argument == "out"


def test_a_float_output_needs_a_float_input():
    def f(x: Int[Tensor, "n"]) -> Float[Tensor, "n"]: ...
    def g(x: Bool[Tensor, "n"]) -> tuple[Int64[Tensor, "n"], Complex[Tensor, "n"]]: ...
    def fine(x: Int[Tensor, "n"]) -> Float64[Tensor, "n"]: ...
    def promoted(x: Real[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    assert refused(f, "a Float output takes its dtype from a floating input").argument == "out"
    assert refused(g, "a Complex output").argument == "out1"
    assert read(fine).outputs[0].type.dtypes.exact is torch.float64
    assert read(promoted).outputs[0].type.dtypes.kind == "Float"
