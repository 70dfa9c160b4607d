"""Arguments of a call, from the annotations of a signature and from declared domains."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..._errors import ArgumentError, DeclarationError
from ..._spec.domain import Domain, Range, check_domains, declared_domains
from ..._spec.dtypes import COMPLEXES, FLOATS, HALVES, complex_twin, real_twin
from ..._spec.reading import read_signature, resolve_hints
from ..._spec.signature import Parameter, Signature
from ..target import Target, contexts, function_of
from . import values
from .sizes import Draw, Shape, SizePlan, Sizes, integers
from .values import layouts

# -- arguments of a call, from the annotations of a signature and from declared domains ------------------------------


PRECISIONS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""Of floating tensors, plain first."""

_PLAIN = frozenset({"plain", "normal", "contiguous"})
_LENGTHS = (2, 1, 3)
_INTEGERS = (torch.int64, torch.int32)
_NUMBERS: dict[type, tuple[Any, ...]] = {
    int: (2, 1, 3),
    float: (0.625, 2.0, -1.5, 1.0, 0.0),
    complex: (0.625 - 0.5j, 1.0, 2j),
    bool: (False, True),
    str: ("",),
    torch.dtype: (torch.float64, torch.float32),
    torch.device: (torch.device("cpu"),),
}


@dataclass(frozen=True)
class Drawn:
    """One call.

    Attributes:
        args: positional arguments.
        kwargs: keyword arguments.
        traits: what is odd about it, such as ``"ties"``, ``"float32"``, ``"empty"``.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    traits: frozenset[str]


class Arguments:
    """Makes arguments for a signature.

    Args:
        signature: of what is called.
        domains: of its arguments and axes.
        precisions: that floating tensors may have, plain ones first.
        constants: parameters that are no one's to differentiate by.
    """

    def __init__(
        self,
        signature: Signature,
        domains: Mapping[str, Domain] | None = None,
        precisions: Sequence[torch.dtype] = PRECISIONS,
        constants: Collection[str] = (),
    ) -> None:
        self._signature = signature
        self._domains = domains or {}
        able = (p.name for _, p in signature.tensors if p.tensor.dtypes.differentiable and p.name not in constants)
        self._floating = next(able, None)
        self._sizes = SizePlan(signature, self._domains)
        self._precisions = [precision for precision in precisions if self._may_have(precision)] or PRECISIONS[:1]

    def _may_have(self, precision: torch.dtype) -> bool:
        """Whether a call's tensors can have this precision."""
        kinds = [p.tensor.dtypes for _, p in self._signature.tensors] + [o.type.dtypes for o in self._signature.outputs]
        if precision in HALVES and any(kind.kind == "Complex" for kind in kinds):
            return False  # there are no complex halves
        for _, parameter in self._signature.tensors:
            domain = self._domains.get(parameter.name)
            if domain is not None and not domain.reads and not values.fits(domain.at({}), precision):
                return False
        numeric = (p.tensor.dtypes for _, p in self._signature.tensors if p.tensor.dtypes.numeric)
        return all(kind.admits(precision) or kind.admits(complex_twin(precision)) for kind in numeric)

    def draw(self, draw: Draw) -> Drawn:
        """The arguments of one call.

        Raises:
            Impossible: what was chosen admits none.
        """
        precision = draw.choose("dtype", self._precisions)
        sizes = self._sizes.draw(draw, long=precision not in HALVES)  # which lose all their digits on the way
        call = _Call(self._signature, self._domains, self._sizes, sizes, precision, self._floating, draw)
        made = [(p, call.argument(p)) for p in self._signature.parameters]
        args = tuple(value for parameter, value in made if not parameter.keyword_only)
        kwargs = {parameter.name: value for parameter, value in made if parameter.keyword_only}
        return Drawn(args, kwargs, frozenset(call.traits))


class _Call:
    """The arguments of one call, while they are made."""

    def __init__(
        self,
        signature: Signature,
        domains: Mapping[str, Domain],
        plan: SizePlan,
        sizes: Sizes,
        precision: torch.dtype,
        floating: str | None,
        draw: Draw,
    ) -> None:
        self._signature, self._domains, self._plan = signature, domains, plan
        self._sizes, self._precision, self._always_floating, self._draw = sizes, precision, floating, draw
        self._generator = torch.Generator().manual_seed(draw.seed())
        self.traits: set[str] = set()
        self._odd(str(precision).removeprefix("torch.") if precision is not PRECISIONS[0] else "plain")

    def _odd(self, trait: str) -> None:
        if trait not in _PLAIN:
            self.traits.add(trait)

    def argument(self, parameter: Parameter) -> Any:
        """The value of one parameter."""
        if not parameter.is_tensor:
            chosen = self._sizes.names.get(parameter.name)
            return self._scalar(parameter) if chosen is None else chosen
        if parameter.optional and not self._draw.choose(f"{parameter.name} is there", (True, False)):
            self._odd(f"without {parameter.name}")
            return None
        if parameter.many:
            return [self._tensor(parameter) for _ in range(self._length(parameter))]
        return self._tensor(parameter)

    def _length(self, parameter: Parameter) -> int:
        domain = self._domains.get(parameter.name)
        if domain is not None and domain.length is not None:
            return domain.length_at(self._sizes.names)
        lengths = _LENGTHS if parameter.required else (len(parameter.default or ()),)
        return self._draw.choose(f"length of {parameter.name}", lengths)

    def _range(self, name: str) -> Range:
        domain = self._domains.get(name)
        return Range() if domain is None else domain.at(self._sizes.names)

    # -- scalars --------------------------------------------------------------------------------------------------

    def _scalar(self, parameter: Parameter) -> Any:
        if not parameter.scalar.many:
            default = () if parameter.required else (parameter.default,)
            found = [*default, *self._options(parameter), *((None,) if parameter.optional else ())]
            return self._draw.choose(parameter.name, list(dict.fromkeys(found)))
        options = self._options(parameter)
        made = [self._draw.choose(parameter.name, options) for _ in range(self._length(parameter))]
        if parameter.required:
            return made
        return self._draw.choose(f"{parameter.name} is given", (parameter.default, made))

    def _options(self, parameter: Parameter) -> Sequence[Any]:
        """What a scalar, or an element of a list of them, may be."""
        kind, allowed = parameter.scalar, self._range(parameter.name)
        if allowed.members or kind.choices:
            return allowed.members or kind.choices
        if kind.type is int:
            return integers(allowed, _NUMBERS[int])
        if kind.type is float:
            more = values.plain(allowed, 2, self._generator).tolist()
            return [*(number for number in _NUMBERS[float] if allowed.has(number)), *more]
        return _NUMBERS[kind.type]

    # -- tensors --------------------------------------------------------------------------------------------------

    def _tensor(self, parameter: Parameter) -> Tensor:
        shape = self._plan.shape(parameter, self._sizes, self._draw)
        dtype = self._dtype(parameter)
        if 0 in shape:
            self._odd("empty")
        if dtype is torch.bool:
            made = torch.rand(shape, generator=self._generator) < 0.5
        elif dtype in FLOATS or dtype in COMPLEXES:
            made = self._floating(parameter.name, shape, dtype)
        else:
            made = self._integral(parameter.name, shape, dtype)
        found = layouts(made)
        name = self._draw.choose(f"layout of {parameter.name} with {made.dim()} axes", list(found))
        self._odd(name)
        return found[name](made)

    def _dtype(self, parameter: Parameter) -> torch.dtype:
        dtypes = parameter.tensor.dtypes
        if dtypes.exact is not None:
            return dtypes.exact
        if not dtypes.numeric and not dtypes.admits(self._precision):
            # Indices: torch takes no other integers for them, and what an annotation admits is more than is used.
            options = [d for d in _INTEGERS if dtypes.admits(d)] or sorted(dtypes.admitted or (), key=str)
            return self._draw.choose(f"dtype of {parameter.name}", options)
        kinds = [d for d in (self._precision, complex_twin(self._precision)) if dtypes.admits(d)]
        if self._precision in HALVES or not dtypes.numeric:
            kinds = kinds[:1]
        if dtypes.promotes and parameter.name != self._always_floating and self._precision not in HALVES:
            kinds.append(torch.int64)  # one stays floating: a case without a derivative shows nothing
        return self._draw.choose(f"dtype of {parameter.name}", kinds)

    def _floating(self, name: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        allowed = self._range(name)
        found = values.profiles(allowed, real_twin(dtype))
        profile = self._draw.choose(f"values of {name}", list(found))
        self._odd(profile)
        return values.make(found[profile], allowed, shape, dtype, self._generator)

    def _integral(self, name: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        """Integers; where no domain says more, they may be indices into any named axis."""
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        if name in self._domains:
            options = integers(self._range(name), tuple(range(-2 if dtype.is_signed else 0, 5)))
        else:
            axes = [size for axis, size in self._sizes.names.items() if axis not in self._signature.names and size]
            options = tuple(range(min(axes, default=3)))
        picked = torch.randint(len(options), (math.prod(shape),), generator=self._generator)
        return torch.tensor(options, dtype=dtype)[picked].reshape(shape)


# -- the signature of a target: an operator's own, or that of a function with jaxtyping annotations ------------------


def signature_of(target: Target) -> tuple[Signature, Mapping[str, Domain]] | None:
    """The signature and the domains of a target; None where annotations do not say what it takes."""
    if target.operator is not None:
        record = target.operator._record
        return record.signature, record.domains
    function, bound = _annotated(target.origin)
    if function is None:
        return None
    try:
        signature = _read(function, target.name, bound)
        domains = declared_domains(function)
        check_domains(signature, domains)
    except DeclarationError:
        return None
    shaped = all(parameter.tensor.axes is not None for _, parameter in signature.tensors)
    return (signature, domains) if shaped else None


def needed(target: Target) -> tuple[Signature, Mapping[str, Domain]]:
    """The same where there is no other way to arguments.

    Raises:
        ArgumentError: annotations do not say what the target takes.
    """
    found = signature_of(target)
    if found is None:
        raise ArgumentError(
            f"nothing says what {target.name} takes", argument="inputs",
            expected="inputs, or a jaxtyping annotation of each parameter", got="neither",
            hint="pass tensors to check it with",
        )  # fmt: skip
    return found


def _annotated(origin: Any) -> tuple[Callable[..., Any] | None, int]:
    """The Python function that a user wrote, and how many of its first parameters callers do not pass."""
    if isinstance(origin, nn.Module):
        return type(origin).forward, 1
    owner = function_of(origin)
    if owner is not None:
        return getattr(owner, "forward", None), contexts(owner)
    function = inspect.unwrap(origin) if callable(origin) else None
    return (function if isinstance(function, types.FunctionType) else None), 0


def _read(function: Callable[..., Any], name: str, bound: int) -> Signature:
    """The signature without the first parameters; a return annotation that is no tensor says nothing about shapes."""
    hints = resolve_hints(function, name, None)
    parameters = list(inspect.signature(function).parameters.values())[bound:]
    if any(p.name not in hints for p in parameters):
        raise DeclarationError("has parameters without annotations", operator=name)
    kept = {p.name: hints[p.name] for p in parameters}
    given = hints.get("return")
    for returned in (given, Tensor):

        def stub() -> None: ...

        stub.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        stub.__annotations__ = {**kept, "return": returned}
        try:
            return read_signature(stub, name, loop=False, frames=0)
        except DeclarationError:
            if returned is Tensor:
                raise
    raise AssertionError  # pragma: no cover
