"""`module`: an `nn.Module` class from an operator."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from .._generated import compile_source
from .._op import Op
from .._spec.signature import Parameter
from .._spec.structures import Structure
from ..errors import DeclarationError
from .initial import draw
from .plan import Init, Plan

R_co = TypeVar("R_co", covariant=True)


def module(
    op: Op[..., R_co],
    /,
    parameters: Sequence[str] = (),
    buffers: Sequence[str] = (),
    *,
    name: str | None = None,
    init: Mapping[str, Init] | None = None,
) -> type[Module[R_co]]:
    """Make an `nn.Module` class of an operator, some of whose tensors are the module's own.

    The constructor takes every axis name in their annotations, in the order in which the operator's signature names
    them, then the operator's non-tensor arguments; by keyword a switch for each optional tensor (``bias=True``; off
    registers None), `device`, and `dtype`. `forward` takes the operator's other tensors. Parameters are drawn from
    U(-b, b), b = 1 / sqrt(fan-in), as those of `nn.Linear` are: the fan-in is the product of those of the parameter's
    axes that are no axes of an output; a parameter that has none, such as a bias, has the largest of the others.
    The two parts of complex parameters are drawn from U(-b / sqrt(2), b / sqrt(2)). Buffers are zero.

    Args:
        op: the operator.
        parameters: names of tensors that become parameters; floating or complex, every axis with a name or a size.
        buffers: names of tensors that become buffers; of any dtype.
        name: of the class; the operator's in capitalised words by default. Pickling finds the class by it.
        init: functions that fill a named tensor in place, instead of the default; elements that they leave are NaN.

    Returns:
        The class. Its `reset_parameters` fills the tensors anew.

    Raises:
        DeclarationError: a name is none of a tensor of the operator, or the shape of a tensor cannot be known; or, once
            a module is made, a function of `init` returns another tensor than the one that it is to fill.

    Example:
        >>> Linear = tg.module(linear, parameters=("weight", "bias"))
        >>> Linear(n=64, m=10)
        Linear(n=64, m=10, bias=True)
        >>> Linear(64, 10, bias=False)(torch.randn(5, 64)).shape
        torch.Size([5, 10])

    Source:
        He et al. 2015, "Delving deep into rectifiers", equation 10, with the gain sqrt(1/3) of `nn.Linear`.
    """
    if not isinstance(op, Op):
        raise DeclarationError(
            "a module is made of an operator",
            expected="what @tg.op or @tg.adopt made",
            got=repr(op),
            hint="@tg.op above the function; for a plain function write the class by hand",
        )
    caller = sys._getframe(1).f_globals.get("__name__", __name__)
    plan = Plan(op, parameters, buffers, init or {})
    title = name or "".join(word[:1].upper() + word[1:] for word in op._record.name.split("_"))
    body = {
        "_plan": plan,
        "_init": dict(init or {}),
        "__module__": caller,
        "__doc__": plan.describe(title),
        "__init__": _make_constructor(plan),
        "forward": _make_forward(plan, title, op),
    }
    return type(title, (Module,), body)


class Module(nn.Module, Generic[R_co]):
    """Base of the classes that `module` makes, whose calls return what the operator returns."""

    _plan: Plan
    _init: Mapping[str, Init]

    if TYPE_CHECKING:  # Each class has its own.

        def __init__(self, *sizes: Any, **options: Any) -> None: ...
        def __call__(self, *inputs: Any, **named: Any) -> R_co: ...

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Fill parameters and buffers anew."""
        plan = self._plan
        values = {name: getattr(self, name) for name in (*plan.axes, *(p.name for p in plan.scalars))}
        drawn, fans = {}, {}
        for parameter in plan.tensors:
            name = parameter.name
            tensor = getattr(self, name)
            if name in plan.parameters:
                fans[name] = plan.fan_in(parameter, values)
            if tensor is None:
                continue
            if name in self._init:
                plan.fill(name, tensor, self._init[name])
            elif name in plan.parameters:
                drawn[name] = tensor
            else:
                tensor.zero_()
        draw(drawn, fans)

    def computing(self, function: Callable[..., Any]) -> Module[Any]:
        """Return the module with a function in the place of its operator, on the same parameters and buffers."""
        made, title = copy.copy(self), getattr(function, "__name__", type(self).__name__)
        made.__class__ = type(title, (type(self),), {"forward": _make_forward(self._plan, title, function)})
        return made

    def extra_repr(self) -> str:
        """The constructor's arguments, as far as they are known."""
        plan = self._plan
        shown = {name: getattr(self, name, None) for name in (*plan.axes, *(p.name for p in plan.scalars))}
        shown |= {name: getattr(self, name, None) is not None for name in plan.switches}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _make_constructor(plan: Plan) -> Callable[..., None]:
    def __init__(self: Module[Any], *args: Any, **kwargs: Any) -> None:
        title = type(self).__name__
        values = plan.bind(title, args, kwargs)
        nn.Module.__init__(self)
        for name in (*plan.axes, *(p.name for p in plan.scalars)):
            setattr(self, name, values[name])
        for parameter in plan.tensors:
            tensor: Tensor | None = None
            if not parameter.optional or values[parameter.name]:
                dtype = plan.dtype(title, parameter, values["dtype"])
                tensor = torch.empty(plan.shape(parameter, values), dtype=dtype, device=values["device"])
            if parameter.name in plan.parameters:
                self.register_parameter(parameter.name, None if tensor is None else nn.Parameter(tensor))
            else:
                self.register_buffer(parameter.name, tensor)
        self.reset_parameters()

    __init__.__signature__ = plan.constructor  # type: ignore[attr-defined]
    return __init__


_FORWARD = """\
def forward({parameters}):
    try:
        {direct}
    except __KeyError:  # parametrized, pruned, sharded, replicated: it is an attribute of another kind
        {attributes}
    return __op({arguments})
"""


def _make_forward(plan: Plan, title: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`forward`, as one would write it; `self.weight` of an `nn.Module` costs 0.4 us, which is saved."""
    keyword = [p for p in plan.inputs if p.keyword_only]
    named = [_argument(p) for p in plan.inputs if not p.keyword_only]
    owned = {p.name: f"__{p.name}" for p in plan.tensors}
    where = {p.name: "_parameters" if p.name in plan.parameters else "_buffers" for p in plan.tensors}
    own = {**owned, **{p.name: f"self.{p.name}" for p in plan.scalars}}
    written = {p.name: own.get(p.name, p.name) for p in plan.signature.given}
    source = _FORWARD.format(
        parameters=", ".join(["self", *named, *(["*", *map(_argument, keyword)] if keyword else [])]),
        direct="; ".join(f'{local} = self.{where[name]}["{name}"]' for name, local in owned.items()) or "pass",
        attributes="; ".join(f"{local} = self.{name}" for name, local in owned.items()) or "pass",
        arguments=", ".join(
            (f"{p.name}={written[p.name]}" if p.keyword_only else written[p.name])
            + (", generator=generator" if p.is_seed else "")
            for p in plan.signature.given
        ),
    )
    defaults = {f"__default_{p.name}": p.default for p in plan.inputs}
    namespace = {"__op": function, "__KeyError": KeyError, **defaults}
    forward: Callable[..., Any] = compile_source(source, f"{title} module", namespace)["forward"]
    forward.__doc__ = f"Call the operator {plan.signature.name} with the parameters at hand."
    return forward


def _argument(parameter: Parameter | Structure) -> str:
    text = parameter.name if parameter.required else f"{parameter.name}=__default_{parameter.name}"
    return f"{text}, generator=None" if parameter.is_seed else text
