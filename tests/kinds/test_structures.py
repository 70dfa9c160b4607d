"""NamedTuples and dataclasses as arguments: every transform against the same function in plain torch."""

import contextlib
import copy
import dataclasses
import io
import math
import pickle
import threading
from dataclasses import InitVar, dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import torchgraft as tg
from torchgraft._check.finding import Verdict

from ..simulated import simulated


@dataclass
class State:
    position: Float[Tensor, "n"]
    velocity: Float[Tensor, "n"]
    mass: Float[Tensor, "n"]
    strength: float = 2.0

    def weighed(self):
        return self.strength * self.mass


class Pair(NamedTuple):
    position: Float[Tensor, "n"]
    velocity: Float[Tensor, "n"]
    mass: Float[Tensor, "n"]
    strength: float = 2.0

    def weighed(self):
        return self.strength * self.mass


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    position: Float[Tensor, "n"]
    velocity: Float[Tensor, "n"]
    mass: Float[Tensor, "n"]
    strength: float = 2.0

    def weighed(self):
        return self.strength * self.mass


@dataclass
class Arrays:
    position: Float[np.ndarray, "n"]
    velocity: Float[np.ndarray, "n"]
    mass: Float[np.ndarray, "n"]
    strength: float = 2.0

    def weighed(self):
        return self.strength * self.mass


def plain(state, scale):
    return scale * (state.weighed() * state.velocity**2 + state.position**3)


def pulled(state, grad):
    """The gradient of `plain` by hand, as a structure."""
    part = grad * state.strength * state.velocity
    return type(state)(
        position=3 * grad * state.position**2, velocity=2 * part * state.mass, mass=part * state.velocity, strength=0.0
    )


def with_rules(op):
    """The rules of the function above: of a field, by a field's name, and reading all of the structure."""

    @op.vjp("state.position")
    def _(grad, state_position, scale):
        return 3 * grad * scale * state_position**2

    @op.vjp("state.velocity", "state.mass")
    def _(grad, state, scale):
        part = grad * scale * state.strength * state.velocity
        return 2 * part * state.mass, part * state.velocity

    return op


@with_rules
@tg.op
def in_torch(state: State, scale: float = 1.0) -> Float[Tensor, "n"]:
    assert type(state) is State
    return plain(state, scale)


@with_rules
@tg.op
def of_pair(state: Pair, scale: float = 1.0) -> Float[Tensor, "n"]:
    assert type(state) is Pair
    return plain(state, scale)


@with_rules
@tg.op
def of_frozen(state: Frozen, scale: float = 1.0) -> Float[Tensor, "n"]:
    assert type(state) is Frozen
    return plain(state, scale)


@with_rules
@tg.op
def in_numpy(state: Arrays, scale: float = 1.0) -> Float[np.ndarray, "n"]:
    assert type(state) is Arrays
    assert all(type(array) is np.ndarray for array in (state.position, state.velocity, state.mass))
    return plain(state, scale)


@with_rules
@tg.op(
    kernel=tg.c("""
    void in_c(int64_t n, const T *state_position, const T *state_velocity, const T *state_mass, double state_strength,
              double scale, T *out) {
        for (int64_t i = 0; i < n; i++) {
            T x = state_position[i], v = state_velocity[i];
            out[i] = scale * (state_strength * state_mass[i] * v * v + x * x * x);
        }
    }
    """)
)
def in_c(state: State, scale: float = 1.0) -> Float[Tensor, "n"]:
    return tg.native


OPS = {"torch": in_torch, "NamedTuple": of_pair, "frozen": of_frozen, "NumPy": in_numpy, "C": in_c}
CLASSES = {"torch": State, "NamedTuple": Pair, "frozen": Frozen, "NumPy": Arrays, "C": State}
each = pytest.mark.parametrize("name", OPS)
each_dataclass = pytest.mark.parametrize("name", [name for name in OPS if name != "NamedTuple"])


def state_of(name, *shape, requires_grad=False, strength=1.5, dtype=torch.float64):
    tensors = [torch.randn(*(shape or (3,)), dtype=dtype, requires_grad=requires_grad) for _ in range(3)]
    return CLASSES[name](**dict(zip(("position", "velocity", "mass"), tensors, strict=True)), strength=strength)


def tensors(state):
    return [state.position, state.velocity, state.mass]


def put(state, position, velocity, mass):
    changed = {"position": position, "velocity": velocity, "mass": mass}
    return state._replace(**changed) if isinstance(state, tuple) else replace(state, **changed)


def same(made, expected, tolerance=1e-10):
    torch.testing.assert_close(made, expected, rtol=tolerance, atol=tolerance)


def same_state(made, expected):
    assert type(made) is type(expected)
    same(tensors(made), tensors(expected))
    assert made.strength == expected.strength


@pytest.fixture(autouse=True)
def nothing_compiled():
    """Dynamo gives up on a function that was compiled for many operators."""
    torch._dynamo.reset()


# -- eager ------------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("surroundings", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_values(name, surroundings):
    state = state_of(name)
    for _ in range(3):  # The first call takes the slow path, the others what was installed.
        with surroundings():
            same(OPS[name](state, 0.5), plain(state, 0.5))
            same(OPS[name](scale=2, state=state), plain(state, 2.0))
            same(OPS[name](state), plain(state, 1.0))


@each
@pytest.mark.parametrize("leaves", [(0,), (1,), (0, 2), (0, 1, 2)], ids=str)
def test_gradients(name, leaves):
    for _ in range(2):
        state = state_of(name)
        for i in leaves:
            tensors(state)[i].requires_grad_()
        wanted = [tensors(state)[i] for i in leaves]
        made = torch.autograd.grad(OPS[name](state, 0.5).sin().sum(), wanted)
        same(made, torch.autograd.grad(plain(state, 0.5).sin().sum(), wanted))


@each
def test_double_backward(name):
    state = state_of(name, requires_grad=True)

    def penalty(function):
        first = torch.autograd.grad(function(state, 0.5).sin().sum(), tensors(state), create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), tensors(state))

    same(penalty(OPS[name]), penalty(plain))


@each
def test_shapes_of_all_kinds(name):
    for tensor in (torch.randn(0), torch.randn(6)[::2], torch.randn(1).expand(4)):
        state = put(state_of(name, len(tensor)), *[tensor.double()] * 3)  # One tensor may stand in several fields.
        same(OPS[name](state), plain(state, 1.0))
        taken = put(state, *[t.detach().clone().requires_grad_() for t in tensors(state)])
        made = torch.autograd.grad(OPS[name](taken).sum(), tensors(taken))
        same(made, torch.autograd.grad(plain(taken, 1.0).sum(), tensors(taken)))


def test_tensors_without_axes():
    @dataclass
    class Point:
        x: Float[Tensor, "..."]
        weight: Float[Tensor, "..."]

    @tg.op
    def product(point: Point) -> Float[Tensor, "..."]:
        return point.x * point.weight

    @product.partial("point.x")
    def _(point_weight):
        return point_weight

    @product.partial("point.weight")
    def _(point):
        return point.x

    for shapes in [((), ()), ((3,), ()), ((2, 1), (3,))]:
        point = Point(*(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes))
        same(product(point), point.x * point.weight)
        made = torch.autograd.grad(product(point).sum(), [point.x, point.weight])
        same(made, torch.autograd.grad((point.x * point.weight).sum(), [point.x, point.weight]))
    same(product(Point(torch.ones(3), 2.0)), 2 * torch.ones(3))  # A number for a tensor of an elementwise operator.
    mixed = product(Point(torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)))
    assert mixed.dtype is torch.float64


@each
def test_tangents(name):
    state, moved = state_of(name), state_of(name)
    with forward_ad.dual_level():
        duals = put(state, *[forward_ad.make_dual(p, t) for p, t in zip(tensors(state), tensors(moved), strict=True)])
        made = [forward_ad.unpack_dual(f(duals, 0.5)).tangent for f in (OPS[name], plain)]
    same(*made)


@each
def test_threads(name):
    state, made = state_of(name, 50), []

    def work():
        made.extend(OPS[name](state, 0.5) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 200
    for value in made:
        same(value, plain(state, 0.5))


def test_the_operator_is_copied_and_pickled():
    assert copy.deepcopy(in_torch) is copy.copy(in_torch) is pickle.loads(pickle.dumps(in_torch)) is in_torch


# -- torch.func -------------------------------------------------------------------------------------------------------


def loss(function):
    return lambda state: function(state, 0.5).sin().sum()


@each_dataclass
def test_func_grad_gives_the_structure_back(name):
    state = state_of(name)
    made = torch.func.grad(loss(OPS[name]))(state)
    leaf = put(state, *[t.clone().requires_grad_() for t in tensors(state)])
    expected = torch.autograd.grad(loss(plain)(leaf), tensors(leaf))
    same_state(made, put(state, *expected))
    assert made.strength == 1.5


@each_dataclass
@pytest.mark.parametrize("transform", ["vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize", "grad of grad"])
def test_other_transforms_of_func(name, transform):
    state, moved = state_of(name), state_of(name)

    def made(f):
        match transform:
            case "vjp":
                out, pull = torch.func.vjp(lambda s: f(s, 0.5), state)
                return out, pull(torch.ones_like(out))
            case "jvp":
                return torch.func.jvp(lambda s: f(s, 0.5), (state,), (moved,))
            case "linearize":
                out, push = torch.func.linearize(lambda s: f(s, 0.5), state)
                return out, push(moved)
            case "grad of grad":
                return torch.func.grad(lambda s: torch.func.grad(loss(f))(s).position.sum())(state)
        return getattr(torch.func, transform)(lambda s: f(s, 0.5).sin())(state)

    ours, theirs = (pytree.tree_flatten(made(f)) for f in (OPS[name], plain))
    assert ours[1] == theirs[1]
    same(ours[0], theirs[0])


@each
@pytest.mark.parametrize("mapped", [(0, 0, 0), (0, None, None), (None, 1, 0)], ids=str)
def test_vmap(name, mapped):
    state = state_of(name)
    batched = [t if d is None else torch.randn((4, 3) if d == 0 else (3, 4), dtype=t.dtype)
               for t, d in zip(tensors(state), mapped, strict=True)]  # fmt: skip
    if isinstance(state, tuple):
        state, dims = put(state, *batched), Pair(*mapped, None)
    else:
        state, dims = put(state, *batched), put(state, *mapped)
    same(torch.vmap(lambda s: OPS[name](s, 0.5), (dims,))(state), torch.vmap(lambda s: plain(s, 0.5), (dims,))(state))


@each_dataclass
def test_gradients_of_samples(name):
    state = state_of(name, 5, 3)
    dims = put(state, 0, 0, 0)
    made, expected = (torch.vmap(torch.func.grad(loss(f)), (dims,))(state) for f in (OPS[name], plain))
    same_state(made, expected)
    nested = state_of(name, 2, 5, 3)
    made, expected = (torch.vmap(torch.vmap(torch.func.grad(loss(f)), (dims,)), (dims,))(nested)
                      for f in (OPS[name], plain))  # fmt: skip
    same_state(made, expected)


def test_numbers_of_a_namedtuple_are_leaves_to_torch():
    with pytest.raises(ValueError, match="float"):
        torch.func.grad(loss(of_pair))(state_of("NamedTuple"))


# -- tracers ----------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled(name, backend):
    compiled = torch.compile(lambda s: OPS[name](s, 0.5).sin(), fullgraph=True, backend=backend, dynamic=True)
    for n in (3, 5):
        state = state_of(name, n, requires_grad=True)
        made, expected = compiled(state), plain(state, 0.5).sin()
        same(made, expected)
        same(torch.autograd.grad(made.sum(), tensors(state)), torch.autograd.grad(expected.sum(), tensors(state)))
    other = state_of(name, 5, strength=-3.0)  # Another number is not taken for the first one.
    same(compiled(other), plain(other, 0.5).sin())


@pytest.mark.slow
@each_dataclass
def test_compiled_gradients_are_structures(name):
    state = state_of(name)
    compiled = torch.compile(lambda s: torch.func.grad(loss(OPS[name]))(s), fullgraph=True, backend="aot_eager")
    same_state(compiled(state), torch.func.grad(loss(plain))(state))


def test_compiled_code_makes_and_returns_structures():
    def move(state):
        return replace(state, position=in_torch(state, 0.5), strength=3.0)

    state = state_of("torch")
    same_state(torch.compile(move, fullgraph=True, backend="aot_eager")(state), move(state))


@each
@pytest.mark.parametrize("strict", [False, True])
def test_export(name, strict):
    class Model(torch.nn.Module):
        def forward(self, state):
            return OPS[name](state, 0.5)

    state = state_of(name)
    program = torch.export.export(Model(), (state,), strict=strict)
    same(program.module()(state), plain(state, 0.5))


def test_an_exported_program_knows_the_number_that_it_was_made_for(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, state):
            return in_torch(state, 0.5)

    state = state_of("torch")
    program = torch.export.export(Model(), (state,))
    torch.export.save(program, tmp_path / "model.pt2")
    with torch.serialization.safe_globals([State]):
        loaded = torch.export.load(tmp_path / "model.pt2")
    same(loaded.module()(state), plain(state, 0.5))
    with pytest.raises(ValueError, match="tree spec"):
        program.module()(replace(state, strength=7.0))


@each
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(name, mode):
    state, other = state_of(name), state_of(name)

    def flat(position, velocity, mass):
        return OPS[name](put(state, position, velocity, mass), 0.5)

    graph = make_fx(flat, tracing_mode=mode)(*tensors(state))
    same(graph(*tensors(other)), plain(other, 0.5))


@each
def test_fake_and_meta_tensors(name):
    state = state_of(name)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = put(state, *[mode.from_tensor(t) for t in tensors(state)])
        assert OPS[name](fake).shape == (3,)
    meta = put(state, *[t.to("meta") for t in tensors(state)])
    assert OPS[name](meta).is_meta


@each
def test_functionalize_checkpoint_and_profiler(name):
    state = state_of(name, requires_grad=True)
    same(torch.func.functionalize(lambda p: OPS[name](put(state, p, *tensors(state)[1:]), 0.5))(state.position),
         plain(state, 0.5))  # fmt: skip
    made = checkpoint(lambda s: OPS[name](s, 0.5).sin(), state, use_reentrant=False)
    same(torch.autograd.grad(made.sum(), tensors(state)),
         torch.autograd.grad(plain(state, 0.5).sin().sum(), tensors(state)))  # fmt: skip
    with torch.profiler.profile():
        same(OPS[name](state, 0.5), plain(state, 0.5))


@each
def test_autocast(name):
    state = state_of(name, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(OPS[name](state, 0.5), plain(state, 0.5), 1e-5)
    mixed = put(state, state.position.bfloat16(), *tensors(state)[1:])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert OPS[name](mixed, 0.5).dtype is torch.float32
    with pytest.raises(tg.DtypeError, match=r"state\."):
        OPS[name](mixed, 0.5)


# -- rules ------------------------------------------------------------------------------------------------------------


def declared(vjp=None, **options):
    """An operator in torch without rules."""

    @tg.op(**options)
    def energy(state: State, scale: float = 1.0) -> Float[Tensor, "n"]:
        return plain(state, scale)

    return energy


def compare_gradients(op):
    state = state_of("torch", requires_grad=True)
    made = torch.autograd.grad(op(state, 0.5).sin().sum(), tensors(state))
    same(made, torch.autograd.grad(plain(state, 0.5).sin().sum(), tensors(state)))


@pytest.mark.slow
def test_a_rule_of_the_structure_returns_one():
    op = declared()

    @op.vjp("state")
    def _(grad, state, scale):
        part = grad * scale * state.strength * state.velocity
        return State(3 * grad * scale * state.position**2, 2 * part * state.mass, part * state.velocity)

    compare_gradients(op)
    state = state_of("torch", requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda *t: op(put(state, *t), 0.5), tensors(state))
    assert tg.check(op).verdict is Verdict.PASS


@pytest.mark.slow
def test_a_rule_of_the_structure_and_of_a_tensor():
    @tg.op
    def shifted(state: State, shift: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return plain(state, 1.0) * shift

    @shifted.vjp("state", "shift")
    def _(grad, state, shift):
        return pulled(state, grad * shift), grad * plain(state, 1.0)

    assert tg.check(shifted).verdict is Verdict.PASS


def test_a_rule_on_arrays_takes_structures():
    for annotated in (True, False):
        op = declared()

        if annotated:  # by a class of its own

            @op.vjp("state")
            def _(grad, state: Arrays, scale):
                assert type(state) is Arrays
                assert type(grad) is type(state.mass) is np.ndarray
                part = grad * scale * state.strength * state.velocity
                return Arrays(3 * grad * scale * state.position**2, 2 * part * state.mass, part * state.velocity)

        else:

            @op.vjp("state")
            def _(grad: np.ndarray, state, scale):
                assert type(state) is State
                assert type(grad) is type(state.mass) is np.ndarray
                part = grad * scale * state.strength * state.velocity
                return State(3 * grad * scale * state.position**2, 2 * part * state.mass, part * state.velocity)

        compare_gradients(op)


def test_a_rule_in_c_takes_fields():
    op = declared()

    @op.vjp("state.position", kernel=tg.c("""
        void pull(int64_t n, const T *grad, const T *state_position, double scale, T *grad_state_position) {
            for (int64_t i = 0; i < n; i++)
                grad_state_position[i] = 3 * grad[i] * scale * state_position[i] * state_position[i];
        }
    """))  # fmt: skip
    def pull(grad, state_position, scale): ...

    @op.vjp("state.velocity", "state.mass", kernel=tg.c("""
        void both(int64_t n, const T *grad, const T *state_position, const T *state_velocity, const T *state_mass,
                  double state_strength, double scale, T *grad_state_velocity, T *grad_state_mass) {
            for (int64_t i = 0; i < n; i++) {
                T part = grad[i] * scale * state_strength * state_velocity[i];
                grad_state_velocity[i] = 2 * part * state_mass[i];
                grad_state_mass[i] = part * state_velocity[i];
            }
        }
    """))  # fmt: skip
    def both(grad, state, scale): ...

    compare_gradients(op)
    assert "state_position" in op.prototype()


def test_a_tangent_is_a_structure():
    op = declared()

    @op.jvp("state")
    def _(state, state_tangent, scale):
        assert type(state_tangent) is State
        assert state_tangent.strength == state.strength
        gradient = pulled(state, torch.ones_like(state.mass) * scale)
        return sum(g * t for g, t in zip(tensors(gradient), tensors(state_tangent), strict=True))

    state, moved = state_of("torch"), state_of("torch")
    made = torch.func.jvp(lambda s: op(s, 0.5), (state,), (moved,))
    same(made, torch.func.jvp(lambda s: plain(s, 0.5), (state,), (moved,)))


def test_an_adjoint_of_a_field():
    @tg.op
    def scaled(state: Pair) -> Float[Tensor, "n"]:
        return state.strength * state.mass * state.position + 0 * state.velocity

    @scaled.adjoint("state.position")
    def _(grad, state_mass, state_strength):
        return state_strength * state_mass * grad

    with pytest.raises(tg.DeclarationError, match="asks for 'state'"):

        @scaled.adjoint("state.mass")
        def _(grad, state):
            return state.strength * state.position * grad


@pytest.mark.slow
def test_surrogate_nondifferentiable_reference_and_domain():
    op = declared()
    op.nondifferentiable("state.mass", reason="it is measured")
    op = tg.domain(**{"state.velocity": "positive", "state_strength": "(0, 1)"})(op)

    @op.surrogate("state.position", of=lambda state, scale: plain(replace(state, position=2 * state.position), scale))
    def _(grad, state, scale):
        return 3 * 8 * grad * scale * state.position**2

    @op.vjp("state.velocity")
    def _(grad, state, scale):
        return 2 * grad * scale * state.strength * state.velocity * state.mass

    @op.reference
    def _(state: Arrays, scale):
        assert type(state) is Arrays
        return plain(state, scale)

    @op.samples
    def _(generator):
        yield (state_of("torch"),)
        yield {"state": state_of("torch"), "scale": 0.25}

    report = tg.check(op)
    assert report.verdict is Verdict.PASS, report
    assert "state.mass" in str(report)
    state = state_of("torch", requires_grad=True)
    with pytest.raises(tg.DerivativeError, match=r"state\.mass' is declared nondifferentiable: it is measured"):
        op(state).sum().backward()


def test_kernels_for_a_device():
    op = declared()
    seen = []

    @op.kernel("cpu")
    def _(state: Arrays, scale):
        seen.append(type(state))
        assert type(state.mass) is np.ndarray
        return plain(state, scale)

    state = state_of("torch")
    same(op(state, 0.5), plain(state, 0.5))
    assert seen == [Arrays] * len(seen)

    @op.kernel("cpu", tg.c("""
        void half(int64_t n, const T *state_position, const T *state_velocity, const T *state_mass,
                  double state_strength, double scale, T *out) {
            for (int64_t i = 0; i < n; i++) out[i] = 0.5;
        }
    """))  # fmt: skip
    def half(state, scale): ...

    # The function in C has the operator's name unless another is said.
    with pytest.raises(tg.BuildError, match="energy"):
        op(state, 0.5)


def test_a_shape_rule_takes_structures():
    @dataclass
    class Grid:
        values: Float[Tensor, "n"]
        times: int

    @tg.op
    def repeated(grid: Grid) -> Float[Tensor, "m"] if False else Tensor:
        return grid.values.repeat(grid.times)

    @repeated.shape
    def _(grid, grid_times):
        return (grid.values[0] * grid_times,)

    same(repeated(Grid(torch.ones(2), 3)), torch.ones(6))
    with torch._subclasses.FakeTensorMode() as mode:
        assert repeated(Grid(mode.from_tensor(torch.ones(2)), 3)).shape == (6,)


# -- classes ----------------------------------------------------------------------------------------------------------


@dataclass
class Inner:
    x: Float[Tensor, "n"]
    power: int = 2


class Middle(NamedTuple):
    inner: Inner
    terms: list[Float[Tensor, "n"]]


@dataclass
class Outer:
    middle: Middle
    first: Inner
    shift: Float[Tensor, "n"] | None = None
    weights: tuple[float, ...] = (1.0, 2.0)
    mode: str = "sum"


def plain_outer(outer, index):
    x = outer.middle.inner.x**outer.middle.inner.power * outer.weights[0] + outer.first.x * outer.weights[1]
    for term in outer.middle.terms:
        x = x * term
    x = x if outer.shift is None else x + outer.shift
    return (x if outer.mode == "sum" else -x)[index]


@tg.op
def nested(outer: Outer, *, index: Int64[Tensor, "m"]) -> Float[Tensor, "m"]:
    assert (type(outer), type(outer.middle), type(outer.middle.inner)) == (Outer, Middle, Inner)
    return plain_outer(outer, index)


@nested.vjp("outer")
def _(grad, outer, index):
    inner, terms = outer.middle.inner, outer.middle.terms
    grad = torch.zeros_like(inner.x).index_add(0, index, grad) * (1 if outer.mode == "sum" else -1)
    base = inner.x**inner.power * outer.weights[0] + outer.first.x * outer.weights[1]
    product = math.prod(terms) * torch.ones_like(base)
    others = [math.prod(terms[:i] + terms[i + 1 :]) * base * grad for i in range(len(terms))]
    slope = inner.power * inner.x ** (inner.power - 1) if inner.power else 0.0  # 0 / 0 is no number.
    x = grad * product * outer.weights[0] * slope
    return Outer(Middle(Inner(x), others), Inner(grad * product * outer.weights[1]), grad)


def outer_of(terms, shift, mode, n=3, requires_grad=False):
    def tensor():
        return torch.randn(n, dtype=torch.float64, requires_grad=requires_grad)

    middle = Middle(Inner(tensor(), 3), [tensor() for _ in range(terms)])
    return Outer(middle, Inner(tensor()), tensor() if shift else None, (0.5, -1.0), mode)


@pytest.mark.parametrize("terms", [0, 2])
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("mode", ["sum", "other"])
def test_nested(terms, shift, mode):
    index = torch.tensor([2, 0])
    outer = outer_of(terms, shift, mode, requires_grad=True)
    leaves = [leaf for leaf in pytree.tree_leaves(outer) if isinstance(leaf, Tensor)]
    assert len(leaves) == 2 + terms + shift
    same(nested(outer, index=index), plain_outer(outer, index))
    made = torch.autograd.grad(nested(outer, index=index).sin().sum(), leaves, allow_unused=True)
    expected = torch.autograd.grad(plain_outer(outer, index).sin().sum(), leaves, allow_unused=True)
    same([m for m in made if m is not None], [e for e in expected if e is not None])
    with torch.no_grad():
        same(torch.compile(nested, fullgraph=True, backend="aot_eager")(outer, index=index), plain_outer(outer, index))


@pytest.mark.slow
def test_nested_is_checked():
    op = tg.domain(index="[0, n)")(nested)
    report = tg.check(op)
    assert report.verdict is Verdict.PASS, report


@pytest.mark.slow
def test_an_absent_field_is_none_in_gradients():
    @dataclass
    class Params:
        weight: Float[Tensor, "n"]
        bias: Float[Tensor, "n"] | None
        scale: float

    @tg.op
    def affine(params: Params, x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        made = params.scale * params.weight * x
        return made if params.bias is None else made + params.bias

    @affine.vjp("params", "x")
    def _(grad, params, x):
        return Params(params.scale * grad * x, grad, 0.0), params.scale * grad * params.weight

    x = torch.randn(3, dtype=torch.float64)
    for bias in (None, torch.randn(3, dtype=torch.float64)):
        made = torch.func.grad(lambda p: affine(p, x).sum())(Params(x, bias, 2.0))
        same(made.weight, 2 * x)
        assert made.scale == 2.0
        assert made.bias is None if bias is None else torch.equal(made.bias, torch.ones_like(x))
    assert tg.check(affine).verdict is Verdict.PASS


def test_post_init_has_run_where_the_caller_made_it():
    ran = []

    @dataclass
    class Unit:
        direction: Float[Tensor, "n"]
        given: InitVar[float]
        length: float = field(init=False)
        axes: ClassVar[int] = 3

        def __post_init__(self, given):
            ran.append(given)
            self.length = 2 * given
            self.direction = self.direction / 2

    @tg.op
    def scaled(unit: Unit) -> Float[Tensor, "n"]:
        return unit.axes * unit.length * unit.direction

    @scaled.vjp("unit.direction")
    def _(grad, unit):
        return unit.axes * unit.length * grad

    unit = Unit(torch.ones(2), 5.0)
    same(scaled(unit), torch.full((2,), 15.0))
    made = torch.func.grad(lambda u: scaled(u).sum())(unit)
    same(made.direction, torch.full((2,), 30.0))
    assert made.length == 10.0
    same(torch.vmap(scaled, (replace_fields(unit, direction=0),))(replace_fields(unit, direction=torch.ones(4, 2))),
         torch.full((4, 2), 30.0))  # fmt: skip
    same(torch.compile(scaled, fullgraph=True, backend="aot_eager")(unit), torch.full((2,), 15.0))
    assert ran == [5.0]
    lacking = copy.copy(unit)
    del lacking.length
    with pytest.raises(tg.ArgumentError, match="has no value for its field 'length'"):
        scaled(lacking)


def replace_fields(value, **fields):
    """A copy with other fields, without `__init__`."""
    made = copy.copy(value)
    vars(made).update(fields)
    return made


def test_inherited_fields_and_defaults():
    @dataclass
    class Base:
        x: Float[Tensor, "n"]

    @dataclass
    class Derived(Base):
        factor: float = 3.0

    class Options(NamedTuple):
        power: int = 2
        negative: bool = False

    @tg.op
    def powers(given: Derived, options: Options = Options(power=1)) -> Float[Tensor, "n"]:  # noqa: B008
        made = given.factor * given.x**options.power
        return -made if options.negative else made

    x = torch.tensor([1.0, 2.0])
    same(powers(Derived(x)), 3 * x)
    same(powers(Derived(x, 1.0), Options(3, True)), -(x**3))
    same(torch.compile(powers, fullgraph=True, backend="aot_eager")(Derived(x)), 3 * x)
    same(powers.torch_op(x, 3.0), 3 * x)
    with pytest.raises(tg.ArgumentError, match="is not a Derived"):
        powers(Base(x))


def test_the_users_registration_wins():
    @dataclass
    class Own:
        x: Float[Tensor, "n"]
        k: float

    pytree.register_pytree_node(Own, lambda v: ([v.x], ("mine", v.k)), lambda leaves, c: Own(*leaves, c[1]))

    @tg.op
    def times(own: Own) -> Float[Tensor, "n"]:
        return own.x * own.k

    @times.vjp("own.x")
    def _(grad, own_k):
        return grad * own_k

    own = Own(torch.ones(2), 3.0)
    assert pytree.tree_flatten(own)[1].context == ("mine", 3.0)
    same(torch.func.grad(lambda o: times(o).sum())(own).x, torch.full((2,), 3.0))


def test_a_context_of_any_numbers_is_written_into_files():
    @dataclass
    class Many:
        x: Float[Tensor, "n"]
        z: complex
        dtype: torch.dtype
        device: torch.device
        sizes: list[int]
        name: str | None
        big: float

    @tg.op
    def first(many: Many) -> Float[Tensor, "n"]:
        return many.x

    many = Many(torch.ones(2), 1 - 2j, torch.float16, torch.device("cpu"), [1, 2], None, float("inf"))
    leaves, spec = pytree.tree_flatten(many)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert pytree.tree_unflatten(leaves, spec).sizes == [1, 2]


# -- meshes, modules, words -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dtensors_in_fields():
    @dataclass
    class Layer:
        x: Float[Tensor, "*batch n"]
        weight: Float[Tensor, "m n"]
        scale: float

    @tg.op(parallel="m", reduction="n")
    def layer(given: Layer) -> Float[Tensor, "*batch m"]:
        return given.scale * given.x @ given.weight.mT

    @layer.vjp("given")
    def _(grad, given):
        rows, columns = grad.unsqueeze(0).flatten(0, -2), given.x.unsqueeze(0).flatten(0, -2)
        return Layer(given.scale * grad @ given.weight, given.scale * rows.mT @ columns, 0.0)

    report = tg.check(layer)
    assert report.verdict is Verdict.PASS, str(report)
    with simulated(2) as mesh:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        x, weight = torch.randn(4, 6), torch.randn(8, 6)
        for lay in ([Shard(0), Replicate()], [Replicate(), Shard(0)], [Shard(1), Shard(1)]):
            given = Layer(*(distribute_tensor(t, mesh, [p]).requires_grad_()
                            for t, p in zip((x, weight), lay, strict=True)), 0.5)  # fmt: skip
            out = layer(given)
            made = torch.autograd.grad(out.sum(), [given.x, given.weight])
            ones = torch.ones(4, 8)
            torch.testing.assert_close(out.full_tensor().reconcile(), 0.5 * x @ weight.mT)
            torch.testing.assert_close(made[0].full_tensor().reconcile(), 0.5 * ones @ weight)
            torch.testing.assert_close(made[1].full_tensor().reconcile(), 0.5 * ones.mT @ x)
        with pytest.raises(tg.ArgumentError, match=r"given\.weight': is a plain tensor beside a DTensor"):
            layer(Layer(distribute_tensor(x, mesh, [Shard(0)]), weight, 0.5))


def test_a_module_passes_structures_on():
    @tg.op
    def mixed(state: State, weight: Float[Tensor, "n"], scale: float) -> Float[Tensor, "n"]:
        return plain(state, scale) * weight

    @mixed.vjp("weight")
    def _(grad, state, scale):
        return grad * plain(state, scale)

    module = tg.module(mixed, parameters=("weight",))(n=3, scale=0.5).double()
    state = state_of("torch")
    out = module(state)
    same(out, plain(state, 0.5) * module.weight)
    out.sum().backward()
    same(module.weight.grad, plain(state, 0.5))
    for name in ("state", "state.mass", "state_mass"):
        with pytest.raises(tg.DeclarationError, match="owns no structure"):
            tg.module(mixed, parameters=(name,))


def test_words():
    text = str(in_torch)
    assert "(state.position: " in text
    assert "takes    state: State, a dataclass of state.position, state.velocity, state.mass, state.strength" in text
    assert "of_pair.vjp[state.velocity,state.mass] on tensors" in str(of_pair)
    assert "a NamedTuple of state.position" in str(of_pair)
    assert in_c.prototype().startswith("void in_c(int64_t n, const T *state_position, const T *state_velocity")
    assert [a.name for a in in_torch.torch_op._schema.arguments] == [
        "state_position", "state_velocity", "state_mass", "state_strength", "scale",
    ]  # fmt: skip
    assert 'add @energy.vjp("state.position")' in str(declared().capabilities()["reverse"])


# -- checking ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@each
def test_a_right_operator_passes(name):
    report = tg.check(OPS[name])
    assert report.verdict is Verdict.PASS, report


@pytest.mark.slow
def test_a_wrong_rule_is_found_in_its_field():
    op = declared()

    @op.vjp("state")
    def _(grad, state, scale):
        part = grad * scale * state.strength * state.velocity
        return State(3 * grad * scale * state.position**2, part * state.mass, part * state.velocity)

    for report in (tg.check(op), tg.check(op, state_of("torch"), 0.5)):
        assert report.verdict is Verdict.FAIL
        assert "The gradient of `state.velocity` is wrong" in str(report)


def test_a_kernel_that_differs_from_its_reference_is_found():
    op = with_rules(declared())

    @op.reference
    def _(state, scale):
        assert type(state) is State
        return plain(state, scale) + 1e-3

    assert "not that of the reference" in str(tg.check(op, state_of("torch")))


@pytest.mark.slow
def test_a_repro_makes_the_structure():
    ones = torch.ones(1, dtype=torch.float64)
    text = str(tg.check(WRONG, State(ones, ones, 2 * ones)))
    assert "import State" in text
    assert "State(position=state_position, velocity=state_velocity, mass=state_mass, strength=2.0)" in text
    lines = text.partition("  repro ")[2].partition("\n\n2. ")[0].splitlines()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(line.strip() for line in lines), {})
    assert "The gradient of `state.mass` is wrong" in printed.getvalue()


@tg.op
def WRONG(state: State, scale: float = 1.0) -> Float[Tensor, "n"]:
    return plain(state, scale)


@WRONG.vjp("state")
def _(grad, state, scale):
    part = grad * scale * state.strength * state.velocity
    return State(3 * grad * scale * state.position**2, 2 * part * state.mass, part)


def test_arguments_that_do_not_fit_are_refused_by_check():
    with pytest.raises(tg.ArgumentError, match="missing a required argument: 'state'"):
        tg.check(in_torch, kwargs={"scale": 1.0})
    with pytest.raises(tg.ArgumentError, match="is not a State"):
        tg.check(in_torch, state_of("NamedTuple"))


def test_fields_are_those_of_the_dataclass():
    assert [f.name for f in dataclasses.fields(State)] == ["position", "velocity", "mass", "strength"]


def test_tangents_of_samples_that_share_a_field():
    @dataclass
    class Layer:
        weight: Float[Tensor, "m n"]
        x: Float[Tensor, "n"]

    @tg.op(batch="loop")
    def layer(given: Layer) -> Float[Tensor, "m"]:
        return given.weight @ given.x

    @layer.jvp("given")
    def _(given, given_tangent):
        return given_tangent.weight @ given.x + given.weight @ given_tangent.x

    given, moved = (Layer(torch.randn(2, 3).double(), torch.randn(5, 3).double()) for _ in range(2))
    made = torch.func.jvp(layer, (given,), (moved,))
    same(made, torch.func.jvp(lambda g: g.x @ g.weight.mT, (given,), (moved,)))
