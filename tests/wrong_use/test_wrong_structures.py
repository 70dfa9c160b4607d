"""Structures that cannot be taken apart, and values that are none: each refused by name, with the next step."""

import collections
import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

if TYPE_CHECKING:
    from torch import Tensor as Hidden

T = TypeVar("T")
Vector = Float[Tensor, "n"]


@dataclass
class State:
    position: Float[Tensor, "n"]
    velocity: Float[Tensor, "n"]
    mass: float = 1.0


class Pair(NamedTuple):
    position: Float[Tensor, "n"]
    velocity: Float[Tensor, "n"]


def declared(annotation):
    """Declare an operator with a structure, whatever that may be."""

    def function(state, x):
        return x

    function.__annotations__ = {"state": annotation, "x": Vector, "return": Vector}
    return tg.op(function)


# -- classes ----------------------------------------------------------------------------------------------------------


def unannotated_attribute():
    @dataclass
    class Settings:
        x: Vector
        scale = 2.0  # It looks like a field, and an instance's own would be lost.

    return Settings


def missing_type():
    @dataclass
    class Broken:
        x: "Hidden"

    return Broken


def of_object():
    @dataclass
    class Anything:
        x: Vector
        more: Any

    return Anything


def of_dict():
    @dataclass
    class Tree:
        params: dict[str, Tensor]

    return Tree


def empty():
    return dataclasses.make_dataclass("Empty", [])


def generic():
    @dataclass
    class Box(Generic[T]):
        x: T

    return Box


def abstract():
    @dataclass
    class Shape(ABC):
        x: Vector

        @abstractmethod
        def area(self): ...

    return Shape


def of_mapping():
    @dataclass
    class Output(collections.OrderedDict):
        x: Vector

    return Output


def of_itself():
    made = dataclasses.make_dataclass("Chain", [("x", Vector)])
    made.__annotations__["inner"] = made
    return dataclass(made)


def mixed():
    @dataclass
    class Mixed:
        x: Float[np.ndarray, "n"]

    return Mixed


CLASSES = {
    "an attribute without annotation": (unannotated_attribute, "state.scale", "'scale' has no annotation"),
    "a NamedTuple without annotations": (
        lambda: collections.namedtuple("Point", "x y"), "state.x", "has no annotation",
    ),
    "a name that is not there": (missing_type, "state", "annotations of Broken cannot be read"),
    "a type of anything": (of_object, "state.more", "has a type that an operator cannot take"),
    "a dictionary in a field": (of_dict, "state.params", "has a type that an operator cannot take"),
    "no fields": (empty, "state", "Empty has no fields"),
    "a generic class": (generic, "state.x", "has a type that an operator cannot take"),
    "a generic class of something": (lambda: generic()[Tensor], "state", "takes Box in another way"),
    "an optional structure": (lambda: State | None, "state", "takes State in another way"),
    "a list of structures": (lambda: list[State], "state", "takes State in another way"),
    "a tuple of structures": (lambda: tuple[Pair, ...], "state", "takes Pair in another way"),
    "an abstract class": (abstract, "state", "cannot be put together from its fields"),
    "a dictionary with fields": (of_mapping, "state", "cannot be put together from its fields"),
    "a class that holds itself": (of_itself, "state.inner", "Chain holds itself"),
    "arrays beside tensors": (mixed, "annotations", "mixes Tensor and np.ndarray"),
    "a dictionary": (lambda: dict[str, Tensor], "state", "has a type that an operator cannot take"),
}  # fmt: skip


@pytest.mark.parametrize("what", CLASSES)
def test_classes(what):
    make, argument, problem = CLASSES[what]
    with pytest.raises(tg.DeclarationError) as caught:
        declared(make())
    assert caught.value.argument == argument
    assert problem in caught.value.problem
    assert caught.value.operator == "function"
    assert caught.value.expected
    assert caught.value.got


def test_a_dictionary_has_a_hint():
    for make in (lambda: dict[str, Tensor], of_dict):
        with pytest.raises(tg.DeclarationError, match="a NamedTuple or a dataclass of the leaves"):
            declared(make())


def test_class_variables_and_methods_are_no_fields():
    @dataclass
    class Settings:
        x: Vector
        scale: ClassVar[float] = 2.0

        @property
        def twice(self):
            return self.scale * self.x

        @staticmethod
        def three():
            return 3.0

    @tg.op
    def function(settings: Settings) -> Vector:
        return settings.three() * settings.twice

    assert torch.equal(function(Settings(torch.ones(2))), torch.full((2,), 6.0))


def test_an_error_in_axes_names_the_field():
    @dataclass
    class Bad:
        x: Float[Tensor, "n n+"]

    with pytest.raises(tg.DeclarationError) as caught:
        declared(Bad)
    assert caught.value.argument == "state.x"


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_that_meet():
    @dataclass
    class Inner:
        b: Vector

    @dataclass
    class Outer:
        a: Inner
        a_b: Vector

    @dataclass
    class Tangent:
        x: Vector
        tangent: Vector

    def beside(state: State, state_mass: float) -> Vector: ...
    def within(outer: Outer) -> Vector: ...
    def whole(state: State, state_tangent: Vector) -> Vector: ...
    def of_field(state: Tangent) -> Vector: ...
    def inner(outer: Outer, outer_a: Vector) -> Vector: ...

    for function in (beside, within, whole, of_field, inner):
        with pytest.raises(tg.DeclarationError, match="is already that of"):
            tg.op(function)


def test_names_that_are_not_there():
    op = declared(State)
    with pytest.raises(tg.DeclarationError, match=r"there is no input 'state\.speed'") as caught:
        op.vjp("state.speed")(lambda grad: grad)
    assert "state.velocity" in caught.value.expected
    with pytest.raises(tg.DeclarationError, match="is not a tensor"):
        op.vjp("state.mass")(lambda grad: grad)
    with pytest.raises(tg.DeclarationError, match="asks for 'velocity'"):
        op.vjp("state.position")(lambda grad, velocity: grad)
    with pytest.raises(tg.DeclarationError, match="asks for 'state_tangent'"):
        op.jvp("state.position")(lambda state_tangent: state_tangent)
    with pytest.raises(tg.DeclarationError, match="there is no argument and no axis 'state'"):
        tg.domain(state="positive")(op)
    op.vjp("state.position")(lambda grad: grad)
    with pytest.raises(tg.DeclarationError, match=r"input 'state\.position' already has the rule"):
        op.vjp("state")(lambda grad: grad)
    with pytest.raises(tg.DeclarationError, match="shape"):

        @op.shape
        def _(state):
            return state.position


def test_a_structure_without_tensors_has_no_derivative():
    @dataclass
    class Options:
        power: int = 2

    op = declared(Options)
    with pytest.raises(tg.DeclarationError, match="there is no input 'state'"):
        op.vjp("state")(lambda grad: grad)


def test_a_default_of_another_class():
    with pytest.raises(tg.DeclarationError, match="has a default of another class"):

        @tg.op
        def function(x: Vector, state: State = 3) -> Vector: ...

    with pytest.raises(tg.DeclarationError, match="only None can be the default of a tensor") as caught:

        @tg.op
        def other(state: Pair = Pair(torch.ones(2), torch.ones(2))) -> Vector: ...  # noqa: B008

    assert caught.value.argument == "state.position"


def test_a_kernel_with_other_fields():
    @dataclass
    class Fewer:
        position: Float[np.ndarray, "n"]
        velocity: Float[np.ndarray, "n"]

    @dataclass
    class Numbers:
        position: float
        velocity: float
        mass: float

    op = declared(State)
    for cls in (Fewer, Numbers):

        def kernel(state, x):
            return x

        kernel.__annotations__ = {"state": cls}
        with pytest.raises(tg.DeclarationError, match="has other fields than State") as caught:
            op.kernel("cpu")(kernel)
        assert caught.value.argument == "state"
        with pytest.raises(tg.DeclarationError, match="has other fields than State"):
            op.reference(kernel)
    with pytest.raises(tg.DeclarationError, match="has other parameters"):
        op.kernel("cpu")(lambda state_position, state_velocity, state_mass, x: x)


# -- values -----------------------------------------------------------------------------------------------------------

op = declared(State)
of_pair = declared(Pair)
x = torch.ones(2)


@dataclass
class More(State):
    spin: float = 0.0


@dataclass
class Other:
    position: Float[Tensor, "n"]
    velocity: Float[Tensor, "n"]
    mass: float = 1.0


VALUES = {
    "a dictionary": (op, {"position": x, "velocity": x}, r"pass State\(\*\*state\)"),
    "a tuple": (of_pair, (x, x), r"pass Pair\(\*state\)"),
    "another class": (op, Other(x, x), None),
    "a NamedTuple for a dataclass": (op, Pair(x, x), r"pass State\(\*state\)"),
    "a subclass": (op, More(x, x), "what More adds would be lost"),
    "a tensor": (op, x, None),
    "None": (op, None, None),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("what", VALUES)
def test_values_of_another_class(what, compiled):
    of, value, hint = VALUES[what]
    if compiled:
        torch._dynamo.reset()
        with pytest.raises(Exception, match=r"is not a|ArgumentError"):
            torch.compile(lambda state, x: of(state, x), fullgraph=True, backend="eager")(value, x)
        return
    with pytest.raises(tg.ArgumentError, match=hint) as caught:
        of(value, x)
    assert caught.value.argument == "state"
    assert caught.value.expected == ("Pair" if of is of_pair else "State")
    assert caught.value.got == type(value).__name__


def test_a_class_that_was_defined_again():
    def make():
        @dataclass
        class Cell:
            x: Float[Tensor, "n"]

        return Cell

    first, again = make(), make()
    with pytest.raises(tg.ArgumentError, match="was defined again after the operator"):
        declared(first)(again(x), x)


def test_fields_of_wrong_types():
    for value, argument, kind in [
        (State(1.0, x), "state.position", tg.ArgumentError),
        (State(x.numpy(), x), "state.position", tg.ArgumentError),
        (State(x, x, torch.ones(())), "state.mass", tg.ArgumentError),
        (State(x, x, "heavy"), "state.mass", tg.ArgumentError),
        (State(x, torch.ones(3)), "state.velocity", tg.ShapeError),
        (State(x, x.int()), "state.velocity", tg.DtypeError),
        (State(x, x.to_sparse()), "state.velocity", tg.UnsupportedError),
        (State(None, x), "state.position", tg.ArgumentError),
    ]:
        with pytest.raises(kind) as caught:
            op(value, x)
        assert argument in str(caught.value)


def test_inner_values_are_looked_at():
    @dataclass
    class Outer:
        inner: State

    with pytest.raises(tg.ArgumentError) as caught:
        declared(Outer)(Outer({"position": x}), x)
    assert caught.value.argument == "state.inner"


# -- results of rules -------------------------------------------------------------------------------------------------


def test_a_rule_of_a_structure_that_returns_something_else():
    for returned in (lambda grad: grad, lambda grad: (grad, grad), lambda grad: Pair(grad, grad)):
        op = declared(State)

        @op.vjp("state")
        def _(grad):
            return returned(grad)  # noqa: B023

        state = State(x.clone().requires_grad_(), x)
        with pytest.raises(tg.RuleError, match="a State with the gradients in its fields"):
            op(state, x).sum().backward()


def test_a_field_of_a_returned_structure_is_named():
    op = declared(State)

    @op.vjp("state")
    def _(grad):
        return State(grad.sum(), grad)

    with pytest.raises(tg.RuleError, match="another shape than its input") as caught:
        op(State(x.clone().requires_grad_(), x), x).sum().backward()
    assert caught.value.argument == "state.position"


def test_no_rule_names_the_field():
    with pytest.raises(tg.DerivativeError, match=r"@function\.vjp\(\"state\.position\"\)"):
        op(State(x.clone().requires_grad_(), x), x).sum().backward()


def test_a_field_that_is_written_into_is_named():
    @tg.op
    def function(state: State) -> Vector:
        return state.position.add_(1.0).clone()

    with pytest.raises(tg.KernelError) as caught:
        function(State(x.clone(), x))
    assert caught.value.argument == "state.position" or "state.position" in str(caught.value)
