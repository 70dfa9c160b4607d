"""Properties of axes, on generated expressions and shapes."""

import operator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchgraft import ShapeError
from torchgraft._spec.axes import Axes, Binding

SIZES = st.integers(0, 6)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
CALLS = {"min": min, "max": max}

# -- expressions: text and a Python function, built side by side ---------------------------------------------
LEAVES = st.one_of(
    st.integers(0, 9).map(lambda value: (str(value), lambda env: value)),
    st.sampled_from("nm").map(lambda name: (name, lambda env: env[name])),
    st.sampled_from("jk").map(lambda name: (f"{{{name}}}", lambda env: env[name])),
)


def _binary(sign, left, right):
    return f"({left[0]}{sign}{right[0]})", lambda env: OPERATORS[sign](left[1](env), right[1](env))


def _call(name, left, right):
    return f"{name}({left[0]},{right[0]})", lambda env: CALLS[name](left[1](env), right[1](env))


def _negative(item):
    return f"-{item[0]}", lambda env: -item[1](env)


TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(_binary, st.sampled_from(sorted(OPERATORS)), inner, inner),
        st.builds(_call, st.sampled_from(sorted(CALLS)), inner, inner),
        st.builds(_negative, inner),
    ),
    max_leaves=8,
)


def _evaluate(text, env):
    binding = Binding(
        {name: env[name] for name in "jk"}, {name: env[name] for name in "nm"}, origins={"n": "x", "m": "x"}
    )
    return Axes(f"{text}", "op", "out").evaluate(binding)[0]


@given(TREES, st.fixed_dictionaries(dict.fromkeys("nmjk", SIZES)))
def test_expressions_follow_python(tree, env):
    text, function = tree
    try:
        expected = function(env)
    except ZeroDivisionError:
        with pytest.raises(ShapeError, match="divides by zero"):
            _evaluate(text, env)
        return
    if expected < 0 and not text.isidentifier():
        with pytest.raises(ShapeError, match=f"= {expected} is negative"):
            _evaluate(text, env)
    else:
        assert _evaluate(text, env) == expected


@given(st.lists(st.tuples(st.sampled_from(sorted(OPERATORS)), st.integers(1, 9)), min_size=1, max_size=5))
def test_precedence_is_pythons(steps):
    text = "n" + "".join(f"{sign}{number}" for sign, number in steps)
    expected = eval(text, {"n": 1000})
    if expected >= 0:
        assert _evaluate(text, {"n": 1000, "m": 0, "j": 0, "k": 0}) == expected


# -- binding -------------------------------------------------------------------------------------------------
NAMES = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def annotations(draw):
    """A few annotations over shared names, at most one of them a run, and sizes for all names."""
    tokens = st.lists(NAMES, max_size=3)
    texts = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(tokens)
        if draw(st.booleans()):
            names.insert(draw(st.integers(0, len(names))), "*run")
        texts.append(names)
    return texts, {name: draw(SIZES) for name in "abcd"}, draw(SHAPES)


def _shape(names, sizes, run):
    return tuple(size for name in names for size in (run if name == "*run" else (sizes[name],)))


@given(annotations())
def test_shapes_made_from_axes_bind_back_to_them(case):
    texts, sizes, run = case
    binding = Binding({})
    for i, names in enumerate(texts):
        Axes(" ".join(names), "op", f"x{i}").bind(_shape(names, sizes, run), binding)
    used = {name for names in texts for name in names}
    assert binding.sizes == {name: sizes[name] for name in used - {"*run"}}
    assert binding.runs == ({"run": run} if "*run" in used else {})
    for names in texts:
        assert Axes(" ".join(names), "op", "out").evaluate(binding) == _shape(names, sizes, run)


@given(annotations(), st.data())
def test_one_changed_size_contradicts(case, data):
    texts, sizes, run = case
    shared = sorted(
        {n for i, names in enumerate(texts) for n in names if any(n in o for o in texts[:i]) and n != "*run"}
    )
    if not shared:
        return
    name = data.draw(st.sampled_from(shared))
    last = max(i for i, names in enumerate(texts) if name in names)
    binding = Binding({})

    def bind():
        for i, names in enumerate(texts):
            changed = {**sizes, name: sizes[name] + 1} if i == last else sizes
            Axes(" ".join(names), "op", f"x{i}").bind(_shape(names, changed, run), binding)

    with pytest.raises(ShapeError, match=f"axis {name} = {sizes[name]} from x"):
        bind()


# -- broadcasting --------------------------------------------------------------------------------------------
def _torch_broadcast(shapes):
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


@pytest.mark.parametrize("text", ["...", "*#batch", "... n", "*#batch n"])
@given(shapes=st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=3).map(tuple), min_size=1, max_size=3))
def test_runs_broadcast_as_torch_does(text, shapes):
    core = (5,) if text.endswith("n") else ()
    binding = Binding({})
    expected = _torch_broadcast(shapes)

    def bind():
        for i, shape in enumerate(shapes):
            Axes(text, "op", f"x{i}").bind(shape + core, binding)

    if expected is None:
        with pytest.raises(ShapeError, match="do not broadcast"):
            bind()
    else:
        bind()
        assert Axes(text, "op", "out").evaluate(binding) == expected + core
        for shape in shapes:
            assert Axes(text, "op", "out").full(shape + core, binding) == expected + core


@given(sizes=st.lists(st.sampled_from([0, 1, 1, 2]), min_size=1, max_size=4))
def test_single_axes_broadcast_as_torch_does(sizes):
    binding = Binding({})
    expected = _torch_broadcast([(size,) for size in sizes])

    def bind():
        for i, size in enumerate(sizes):
            Axes("#n", "op", f"x{i}").bind((size,), binding)

    if expected is None:
        with pytest.raises(ShapeError, match="axis n = "):
            bind()
    else:
        bind()
        assert Axes("#n", "op", "out").evaluate(binding) == expected
