"""Axes: what their text means, what it binds, what it computes, and how it refuses."""

import pytest
import torch

from torchgraft import DeclarationError, ShapeError
from torchgraft._spec.axes import Axes, Binding


def axes(text, where="x"):
    return Axes(text, "op", where)


def bind(*pairs, values=None):
    """The binding of annotations and shapes, given as ``("n m", (2, 3))``; arguments are called x0, x1, ..."""
    binding = Binding(values or {})
    annotations = [axes(text, f"x{i}") for i, (text, _) in enumerate(pairs)]
    for annotation, (_, shape) in zip(annotations, pairs, strict=True):
        annotation.bind(shape, binding)
    for annotation, (_, shape) in zip(annotations, pairs, strict=True):
        annotation.check_expressions(shape, binding)
    return binding


# -- what a token means --------------------------------------------------------------------------------------
def test_names_bind_to_one_size():
    assert bind(("n m", (2, 3)), ("m k", (3, 5))).sizes == {"n": 2, "m": 3, "k": 5}


def test_a_run_binds_to_any_number_of_sizes():
    for shape in [(4,), (2, 4), (3, 2, 4)]:
        assert bind(("*batch n", shape)).runs == {"batch": shape[:-1]}


@pytest.mark.parametrize("text", ["*batch n m", "n *batch m", "n m *batch"])
def test_a_run_stands_anywhere(text):
    position = text.split().index("*batch")
    shape = [5, 6]
    shape[position:position] = [2, 3]
    binding = bind((text, tuple(shape)))
    assert binding.runs == {"batch": (2, 3)}
    assert binding.sizes == {"n": 5, "m": 6}


def test_an_anonymous_axis_takes_any_size():
    binding = bind(("_ n", (2, 3)), ("_ n", (5, 3)), ("_rows n", (6, 3)), ("_rows n", (7, 3)))
    assert binding.sizes == {"n": 3}


def test_fixed_sizes_with_and_without_a_name():
    assert bind(("3 rows=2", (3, 2))).sizes == {}
    with pytest.raises(ShapeError, match="axis rows=2 is 2, but x0 has 4") as caught:
        bind(("3 rows=2", (3, 4)))
    assert (caught.value.argument, caught.value.operator) == ("x0", "op")
    assert caught.value.got == "shape (3, 4), annotated '3 rows=2'"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("n+1", 8), ("n-1", 6), ("2*n", 14), ("n//2", 3), ("n%4", 3), ("-n+9", 2), ("(n-1)//2", 3),
        ("min(n,5)", 5), ("max(n,9)", 9), ("{k}", 4), ("n-{k}+1", 4), ("max({k},n)", 7), ("(n)", 7), ("0x10", 16),
    ],
)  # fmt: skip
def test_expressions_are_computed(text, size):
    assert axes(text).evaluate(Binding({"k": 4}, {"n": 7}, origins={"n": "x (7,)"})) == (size,)


def test_a_computed_size_is_compared_with_the_shape():
    bind(("n", (4,)), ("n+1 {k}", (5, 2)), values={"k": 2})
    with pytest.raises(ShapeError, match=r"axis n\+1 is 5, but x1 has 4") as caught:
        bind(("n", (4,)), ("n+1", (4,)))
    assert caught.value.expected == "n+1 = 5 (n = 4 from x0 (4,))"
    with pytest.raises(ShapeError, match=r"axis \{k\} is 3, but x1 has 2"):
        bind(("n", (4,)), ("n {k}", (4, 2)), values={"k": 3})


def test_an_expression_may_stand_before_the_name_that_it_reads():
    assert bind(("n+1", (5,)), ("n", (4,))).sizes == {"n": 4}


# -- broadcasting --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shapes", [[(1,), (5,)], [(5,), (1,)], [(5,), (5,)], [(1,), (5,), (1,)]])
def test_size_one_broadcasts(shapes):
    assert bind(*(("#n", shape) for shape in shapes)).sizes == {"n": 5}


def test_broadcasting_sizes_must_agree_otherwise():
    with pytest.raises(ShapeError, match=r"axis n = 4 from x0 \(4,\), but x1 has 5"):
        bind(("#n", (4,)), ("#n", (5,)))


def test_a_plain_axis_does_not_broadcast():
    assert bind(("#n", (1,)), ("n", (5,))).sizes == {"n": 5}
    for pairs in [(("n", (1,)), ("#n", (5,))), (("#n", (5,)), ("n", (1,)))]:
        with pytest.raises(ShapeError, match="axis n"):
            bind(*pairs)


def test_broadcasting_runs():
    binding = bind(("*#batch n", (3, 1, 4)), ("*#batch n", (2, 4)))
    assert binding.runs == {"batch": (3, 2)}
    with pytest.raises(ShapeError, match=r"axes \*batch do not broadcast") as caught:
        bind(("*#batch n", (3, 4)), ("*#batch n", (2, 4)))
    assert (caught.value.argument, caught.value.got) == ("x1", "(2,) from x1 (2, 4)")


def test_a_plain_run_does_not_broadcast_whatever_the_order():
    assert bind(("*#batch n", (1, 4)), ("*batch n", (3, 4))).runs == {"batch": (3,)}
    assert bind(("*batch n", (3, 4)), ("*#batch n", (4,))).runs == {"batch": (3,)}
    for pairs in [(("*batch n", (1, 4)), ("*#batch n", (3, 4))), (("*#batch n", (3, 4)), ("*batch n", (1, 4)))]:
        with pytest.raises(ShapeError, match=r"axis \*batch = "):
            bind(*pairs)
    with pytest.raises(ShapeError, match=r"axis \*batch = \(2,\) from x0 \(2, 4\), but x1 has \(3,\)"):
        bind(("*batch n", (2, 4)), ("*batch n", (3, 4)))


def test_dots_broadcast_between_all_arguments():
    binding = bind(("...", (3, 1)), ("... n", (4, 7)), ("...", ()))
    assert binding.dots == (3, 4)
    assert axes("...").evaluate(binding) == (3, 4)
    with pytest.raises(ShapeError, match=r"the broadcasting axes '\.\.\.' do not broadcast"):
        bind(("...", (3,)), ("...", (4,)))


def test_full_shape_is_the_broadcast_one():
    binding = bind(("*#batch #n", (1, 1)), ("*#batch #n", (3, 4)), ("m", (2,)))
    assert axes("*#batch #n").full((1, 1), binding) == (3, 4)
    assert axes("*#batch m").full((2,), binding) == (3, 2)
    assert axes("m").full((2,), binding) == (2,)


# -- refusals at a call --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("n m", (2,), "2 axes, 'n m'"),
        ("n", (2, 3), "1 axes, 'n'"),
        ("", (1,), "0 axes, ''"),
        ("*batch n m", (2,), "at least 2 axes, '*batch n m'"),
        ("... n", (), "at least 1 axes, '... n'"),
    ],
)
def test_rank(text, shape, expected):
    with pytest.raises(ShapeError, match=f"has {len(shape)} axes") as caught:
        bind((text, shape))
    assert caught.value.expected == expected
    assert (caught.value.operator, caught.value.argument) == ("op", "x0")


def test_a_contradiction_names_both_arguments():
    with pytest.raises(ShapeError, match=r"axis m = 3 from x0 \(3, 4\), but x2 has 5") as caught:
        bind(("m n", (3, 4)), ("n", (4,)), ("m", (5,)))
    assert (caught.value.argument, caught.value.expected) == ("x2", "m = 3")
    assert caught.value.got == "5 in x2 (5,), annotated 'm'"


def test_a_computed_axis_below_zero():
    binding = bind(("h", (3,)), ("k", (5,)))
    with pytest.raises(ShapeError, match=r"axis h-k\+1 = -1 is negative") as caught:
        axes("h-k+1", "out").evaluate(binding)
    assert (caught.value.argument, caught.value.expected) == ("out", "h-k+1 >= 0")
    assert caught.value.got == "h = 3 from x0 (3,), k = 5 from x1 (5,)"


@pytest.mark.parametrize("text", ["n//{k}", "n%{k}"])
def test_division_by_zero(text):
    with pytest.raises(ShapeError, match=f"axis {text} divides by zero") as caught:
        axes(text, "out").evaluate(bind(("n", (3,)), values={"k": 0}))
    assert caught.value.got == "n = 3 from x0 (3,), k = 0"


def test_an_axis_of_an_absent_argument():
    with pytest.raises(ShapeError, match="axis m has no size in this call"):
        axes("n m", "out").evaluate(bind(("n", (3,))))


# -- refusals at declaration ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n/2", "something else than sizes"),
        ("n**2", "something else than sizes"),
        ("+n", "something else than sizes"),
        ("3.5", "something else than sizes"),
        ("n+True", "something else than sizes"),
        ("{k+1}", "something else than sizes"),
        ("{1}", "something else than sizes"),
        ("abs(n)", "something else than sizes"),
        ("min(n,2,3)", "something else than sizes"),
        ("min(n,key=2)", "not an expression"),
        ("n.size", "something else than sizes"),
        ("n[0]", "something else than sizes"),
        ("__import__('os')", "something else than sizes"),
        ("True", "something else than sizes"),
        ("n==3", "not an expression"),
        ("{k", "not an expression"),
        ("n;m", "not an expression"),
        ("if", "not an expression"),
        ("*", "must be followed by a name"),
        ("*n+1", "must be followed by a name"),
        ("?n", "pytrees"),
        ("*_", "write '...'"),
        ("#_n", "write '...'"),
    ],
)
def test_what_cannot_be_read(text, why):
    with pytest.raises(DeclarationError, match=r"cannot be read: .*" + why) as caught:
        axes(f"m {text}")
    assert (caught.value.operator, caught.value.argument, caught.value.got) == ("op", "x", text)


def test_a_spaced_expression_is_several_tokens():
    with pytest.raises(DeclarationError, match=r"axis '\+' cannot be read"):
        axes("n + 1")


@pytest.mark.parametrize("text", ["*a *b", "... *a", "... n ..."])
def test_two_runs(text):
    with pytest.raises(DeclarationError, match="only one run of axes"):
        axes(text)


# -- symbolic sizes ------------------------------------------------------------------------------------------
def test_sizes_may_be_symbolic():
    def function(x):
        binding = bind(("*batch h", tuple(x.shape)))
        return x.new_empty(axes("*batch h-2 min(h,3) 2*h").evaluate(binding))

    exported = torch.export.export(
        _Module(function),
        (torch.ones(2, 5),),
        dynamic_shapes={"x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}},
    )
    assert exported.module()(torch.ones(4, 9)).shape == (4, 7, 3, 18)


class _Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
