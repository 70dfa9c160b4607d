"""Arguments of a call, from the annotations of a signature and from declared domains."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._kernels.kernel import positional
from ..._spec.domain import Domain, Range
from ..._spec.dtypes import COMPLEXES, FLOATS, HALVES, complex_twin, real_twin
from ..._spec.signature import Parameter, Signature
from .sizes import Draw, Impossible, Shape, SizePlan, integers

PRECISIONS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""Of floating tensors, plain first."""

_UNREMARKABLE = {"float64", "plain", "normal", "contiguous"}
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
        domains: Mapping[str, Domain],
        precisions: Sequence[torch.dtype],
        constants: Collection[str],
    ) -> None:
        self.signature = signature
        self.domains = domains
        able = (p.name for _, p in signature.tensors if p.tensor.dtypes.differentiable and p.shown not in constants)
        self.floating = next(able, None)
        self._given = positional(signature, lambda *args, **kwargs: (args, kwargs))
        self.sizes = SizePlan(signature, self.domains)
        self.precisions = [precision for precision in precisions if self._may_have(precision)] or PRECISIONS[:1]

    def _may_have(self, precision: torch.dtype) -> bool:
        """Tell whether a call's tensors can have this precision."""
        kinds = [p.tensor.dtypes for _, p in self.signature.tensors] + [o.type.dtypes for o in self.signature.outputs]
        if precision in HALVES and any(kind.kind == "Complex" for kind in kinds):
            return False  # There are no complex halves.
        for _, parameter in self.signature.tensors:
            domain = self.domains.get(parameter.name)
            if domain is not None and not domain.reads and not _fits(domain.at({}), precision):
                return False
        numeric = (p.tensor.dtypes for _, p in self.signature.tensors if p.tensor.dtypes.numeric)
        return all(kind.admits(precision) or kind.admits(complex_twin(precision)) for kind in numeric)

    def draw(self, draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any], frozenset[str]]:
        """Positional and keyword arguments of one call; and what is odd about it, such as ``"ties"`` or ``"empty"``.

        Raises:
            Impossible: what was chosen admits none.
        """
        call = _Call(self, draw)
        parameters = self.signature.parameters
        args, kwargs = self._given(*(None if p.is_seed else call.argument(p) for p in parameters))
        if self.signature.seed is not None:
            del kwargs[parameters[self.signature.seed].name]  # The call draws it.
        return args, kwargs, frozenset(call.traits - _UNREMARKABLE)


class _Call:
    """The arguments of one call, while they are made."""

    def __init__(self, of: Arguments, draw: Draw) -> None:
        self._of, self._domains, self._draw = of, of.domains, draw
        self._precision = precision = draw.choose("dtype", of.precisions)
        self._sizes = of.sizes.draw(draw, long=precision not in HALVES)  # Halves lose all digits along a long axis.
        self._generator = torch.Generator().manual_seed(draw.seed())
        self.traits = {str(precision).removeprefix("torch.")}

    def argument(self, parameter: Parameter) -> Any:
        """The value of one parameter."""
        if not parameter.is_tensor:
            chosen = self._sizes.names.get(parameter.name)
            return self._scalar(parameter) if chosen is None else chosen
        if parameter.optional and not self._draw.choose(f"{parameter.name} is there", (True, False)):
            self.traits.add(f"without {parameter.shown}")
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
        """The values that a scalar, or an element of a list of them, may have."""
        kind, allowed = parameter.scalar, self._range(parameter.name)
        if allowed.members or kind.choices:
            return allowed.members or kind.choices
        if kind.type is int:
            return integers(allowed, _NUMBERS[int])
        if kind.type is float:
            more = _plain(allowed, 2, self._generator).tolist()
            return [*(number for number in _NUMBERS[float] if allowed.has(number)), *more]
        return _NUMBERS[kind.type]

    def _tensor(self, parameter: Parameter) -> Tensor:
        shape = self._of.sizes.shape(parameter, self._sizes, self._draw)
        dtype = self._dtype(parameter)
        if 0 in shape:
            self.traits.add("empty")
        if dtype is torch.bool:
            made = torch.rand(shape, generator=self._generator) < 0.5
        elif dtype in FLOATS or dtype in COMPLEXES:
            made = self._floating(parameter.name, shape, dtype)
        else:
            made = self._integral(parameter.name, shape, dtype)
        found = _layouts(made)
        name = self._draw.choose(f"layout of {parameter.name} with {made.dim()} axes", list(found))
        self.traits.add(name)
        return found[name]()

    def _dtype(self, parameter: Parameter) -> torch.dtype:
        dtypes = parameter.tensor.dtypes
        if dtypes.exact is not None:
            return dtypes.exact
        if not dtypes.numeric and not dtypes.admits(self._precision):
            # They are indices: torch takes few integers for them, whatever an annotation admits.
            options = [d for d in _INTEGERS if dtypes.admits(d)] or sorted(dtypes.admitted or (), key=str)
            return self._draw.choose(f"dtype of {parameter.name}", options)
        kinds = [d for d in (self._precision, complex_twin(self._precision)) if dtypes.admits(d)]
        if self._precision in HALVES or not dtypes.numeric:
            kinds = kinds[:1]
        if dtypes.promotes and parameter.name != self._of.floating and self._precision not in HALVES:
            kinds.append(torch.int64)  # One stays floating: a case without a derivative shows nothing.
        return self._draw.choose(f"dtype of {parameter.name}", kinds)

    def _floating(self, name: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        """Floating or complex numbers, of which the real part lies in the domain."""
        allowed, real = self._range(name), real_twin(dtype)
        found = _profiles(allowed, real)
        profile = self._draw.choose(f"values of {name}", list(found))
        self.traits.add(profile)
        values = _inside(found[profile], allowed, math.prod(shape), real, self._generator)
        if dtype.is_complex:
            imaginary = _inside(found[profile], Range(), math.prod(shape), real, self._generator)
            values = torch.complex(values, imaginary)
        return values.reshape(shape)

    def _integral(self, name: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        """Integers; where no domain says more, they may be indices into any named axis."""
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        if name in self._domains:
            options = integers(self._range(name), tuple(range(-2 if dtype.is_signed else 0, 5)))
        else:
            axes = [size for axis, size in self._sizes.names.items() if axis not in self._of.signature.names and size]
            options = tuple(range(min(axes, default=3)))
        picked = torch.randint(len(options), (math.prod(shape),), generator=self._generator)
        return torch.tensor(options, dtype=dtype)[picked].reshape(shape)


# -- values of tensors: plain ones, and those at which derivatives go wrong ------------------------------------------

Profile = Callable[[Range, int, torch.Generator], Tensor]

_FAR = 2.0  # Plain values are so far from the end of an open domain.
_SPECIAL = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, math.pi / 2, math.pi)
MANY = 1 << 16
"""So many numbers are shuffled at most: a domain may be wider than the memory, as that of times in milliseconds."""
_CLOSEST = 12  # The power of 1/2 nearest to an end: half of single precision's digits.


def _plain(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Different numbers with few digits, none of them an integer, a half or a quarter, where functions have kinks.

    They lie in the domain, or in four units of it.

    Raises:
        Impossible: the domain is empty.
    """
    low, high = allowed.low, allowed.high
    if not math.isfinite(low):
        low = high - 2 * _FAR if math.isfinite(high) else -_FAR
    if not math.isfinite(high):
        high = low + 2 * _FAR
    if low >= high:
        if not all(allowed.closed) or low > high:
            raise Impossible
        return torch.full((count,), float(low), dtype=torch.float64)
    step = 2.0 ** math.floor(math.log2(min(0.125, (high - low) / (4 * count + 4))))
    first, last = math.floor(low / (2 * step)) + 1, math.floor(high / (2 * step)) - 1
    places = _different(last - first + 1, count, generator)
    return (2 * (first + places.double()) + 1) * step


def _different(total: int, count: int, generator: torch.Generator) -> Tensor:
    """Return different numbers below a total, in any order; of a large one, each from a part of its own."""
    if total <= MANY:
        return torch.randperm(total, generator=generator)[:count]
    part = total // count
    places = torch.arange(count) * part + torch.randint(part, (count,), generator=generator)
    return places[torch.randperm(count, generator=generator)]


def _normal(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Normally distributed numbers, mapped into the domain."""
    values = torch.randn(count, generator=generator, dtype=torch.float64)
    low, high = allowed.low, allowed.high
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * torch.sigmoid(1.5 * values)
    if math.isfinite(low):
        return low + values.exp()
    return high - values.exp() if math.isfinite(high) else values


def _ties(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Two numbers, again and again."""
    return _plain(allowed, 2, generator)[torch.randint(2, (count,), generator=generator)]


def _magnitudes(allowed: Range, count: int, generator: torch.Generator, low: float, high: float) -> Tensor:
    powers = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
    signs = 2.0 * torch.randint(2, (count,), generator=generator) - 1
    values = signs * 10**powers
    return torch.where(allowed.admits(values), values, values.abs() if allowed.high > 0 else -values.abs())


def _special(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """0, 1, -1, 2 and the like."""
    return _every_second(torch.tensor(_SPECIAL, dtype=torch.float64), allowed, count, generator)


def _edges(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """The ends that belong to the domain, numbers close to any end and to points that are left out."""
    distances = min(1.0, allowed.high - allowed.low) * 2.0 ** -torch.arange(3, _CLOSEST + 1, dtype=torch.float64)
    near = [torch.empty(0, dtype=torch.float64)]
    for end, closed, inward in ((allowed.low, allowed.closed[0], 1), (allowed.high, allowed.closed[1], -1)):
        if math.isfinite(end):
            near += [end + inward * distances, torch.tensor([end] * (4 if closed else 0), dtype=torch.float64)]
    for pole in allowed.poles:
        near += [(pole.around_zero()[:, None] + sign * distances).reshape(-1) for sign in (1, -1)]
    return _every_second(torch.cat(near), allowed, count, generator)


def _every_second(named: Tensor, allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """About every second number is one of those named, if the domain has any."""
    named, others = named[allowed.admits(named)], _normal(allowed, count, generator)
    if len(named) == 0:
        return others
    chosen = named[torch.randint(len(named), (count,), generator=generator)]
    return torch.where(torch.rand(count, generator=generator) < 0.5, chosen, others)


def _profiles(allowed: Range, dtype: torch.dtype) -> dict[str, Profile]:
    """The profiles that a domain and a dtype have, plain ones first."""
    found: dict[str, Profile] = {"plain": _plain, "normal": _normal}
    if allowed.members:
        return found
    if allowed.low < 0 < allowed.high:
        found["positive"] = lambda *drawn: _normal(*drawn).abs()
        found["negative"] = lambda *drawn: -_normal(*drawn).abs()
    found["ties"] = _ties
    if dtype in HALVES:
        return found
    finite = math.isfinite(allowed.low), math.isfinite(allowed.high)
    if allowed.low <= 0 <= allowed.high:
        found["small"] = partial(_magnitudes, low=-6, high=-2)
    if not all(finite):  # Larger ones have exponentials that are infinite in single precision.
        found["large"] = partial(_magnitudes, low=math.log10(4), high=math.log10(40))
    found["special"] = _special
    if allowed.poles or any(finite):
        found["edges"] = _edges
    return found


def _fits(allowed: Range, dtype: torch.dtype) -> bool:
    """Tell whether numbers of a dtype can lie in a domain: those of float16 end at 65504."""
    generator = torch.Generator().manual_seed(0)
    return bool(allowed.admits(_inside(_plain, allowed, 8, dtype, generator)).all())


def _inside(profile: Profile, allowed: Range, count: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Values that lie in the domain, also after rounding to a real dtype."""
    if count == 0:
        return torch.empty(0, dtype=dtype)
    if allowed.members:
        named = torch.tensor(allowed.members, dtype=dtype)
        return named[torch.randint(len(named), (count,), generator=generator)]
    values = profile(allowed, count, generator)
    # Values stay 1/8 away, or an eighth of the way to the next pole.
    for pole in allowed.poles if profile is not _edges else ():
        nearest = pole.nearest(values)
        distance, least = values - nearest, 0.125 * min(1.0, pole.step or 1.0)
        pushed = nearest + torch.where(distance < 0, -least, least)
        values = torch.where(distance.abs() < least, pushed, values)
    values = values.to(dtype)
    inside = allowed.admits(values)
    if bool(inside.all()):
        return values
    others = _plain(allowed, 8, generator).to(dtype)
    others = others[allowed.admits(others)] if allowed.admits(others).any() else others
    return torch.where(inside, values, others[torch.randint(len(others), (count,), generator=generator)])


def _layouts(x: Tensor) -> dict[str, Callable[[], Tensor]]:
    """The layouts in memory that a tensor can have, contiguous first: the same values, with other strides."""
    back = tuple(reversed(range(x.dim())))
    found: dict[str, Callable[[], Tensor]] = {"contiguous": lambda: x}
    if x.dim() >= 1:
        found["strided"] = lambda: x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))[..., ::2].copy_(x)
        found["offset"] = lambda: x.new_zeros(x.numel() + 3)[3:].view(x.shape).copy_(x)
    if any(size > 1 for size in x.shape):
        axis = next(i for i, size in enumerate(x.shape) if size > 1)
        found["expanded"] = lambda: x.narrow(axis, 0, 1).expand(x.shape)
    if x.dim() >= 2:
        found["transposed"] = lambda: x.permute(back).contiguous().permute(back)
    if x.dim() >= 3:
        found["channels last"] = lambda: x.movedim(1, -1).contiguous().movedim(-1, 1)
    if x.is_complex():
        found["conjugated"] = lambda: x.conj_physical().conj()
    return found
