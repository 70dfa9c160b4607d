"""Values of tensors: plain ones, and those at which derivatives go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..._spec.domain import Points, Range
from ..._spec.dtypes import HALVES
from ..._spec.plan import convert
from ..case import Case
from .sizes import Impossible

# -- values of tensors: plain ones, and those at which derivatives go wrong ------------------------------------------


Profile = Callable[[Range, int, torch.Generator], Tensor]

_FAR = 2.0  # how far plain values are from the end of an open domain
_SPECIAL = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, math.pi / 2, math.pi)
_CLOSEST = 12  # to an end, as a power of 1/2: within half of single precision's digits


def plain(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Different numbers with few digits, none of them an integer, a half or a quarter, where functions have kinks.

    Raises:
        Impossible: the domain is empty.
    """
    low, high = _window(allowed)
    if low >= high:
        if not all(allowed.closed) or low > high:
            raise Impossible
        return torch.full((count,), float(low), dtype=torch.float64)
    step = 2.0 ** math.floor(math.log2(min(0.125, (high - low) / (4 * count + 4))))
    first, last = math.floor(low / (2 * step)) + 1, math.floor(high / (2 * step)) - 1
    places = torch.randperm(last - first + 1, generator=generator)[:count]
    return (2 * (first + places.double()) + 1) * step


def normal(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Normally distributed numbers, mapped into the domain."""
    values = torch.randn(count, generator=generator, dtype=torch.float64)
    low, high = allowed.low, allowed.high
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * torch.sigmoid(1.5 * values)
    if math.isfinite(low):
        return low + values.exp()
    return high - values.exp() if math.isfinite(high) else values


def positive(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Positive numbers."""
    return normal(allowed, count, generator).abs()


def negative(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Negative numbers."""
    return -normal(allowed, count, generator).abs()


def ties(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Two numbers, again and again."""
    return plain(allowed, 2, generator)[torch.randint(2, (count,), generator=generator)]


def small(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Numbers between 1e-6 and 1e-2 in magnitude."""
    return _magnitudes(allowed, count, generator, -6, -2)


def large(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """Numbers between 4 and 40 in magnitude: more, and exponentials are infinite in single precision."""
    return _magnitudes(allowed, count, generator, math.log10(4), math.log10(40))


def special(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """0, 1, -1, 2 and the like, every second number another one."""
    named = torch.tensor(_SPECIAL, dtype=torch.float64)
    named = named if allowed.everything else named[allowed.admits(named)]
    return _every_second(named, normal(allowed, count, generator), generator)


def edges(allowed: Range, count: int, generator: torch.Generator) -> Tensor:
    """The ends that belong to the domain, numbers close to any end and to points that are left out."""
    width = min(1.0, allowed.high - allowed.low)
    distances = width * 2.0 ** -torch.arange(3, _CLOSEST + 1, dtype=torch.float64)
    near: list[Tensor] = []
    for end, closed, inward in ((allowed.low, allowed.closed[0], 1), (allowed.high, allowed.closed[1], -1)):
        if math.isfinite(end):
            near += [end + inward * distances, torch.tensor([end] * (4 if closed else 0), dtype=torch.float64)]
    for pole in allowed.poles:
        near += [(pole.around_zero()[:, None] + sign * distances).reshape(-1) for sign in (1, -1)]
    found = torch.cat(near) if near else torch.empty(0, dtype=torch.float64)
    return _every_second(found[allowed.admits(found)], normal(allowed, count, generator), generator)


def profiles(allowed: Range, dtype: torch.dtype) -> dict[str, Profile]:
    """The profiles that a domain and a dtype have, plain ones first."""
    found: dict[str, Profile] = {"plain": plain, "normal": normal}
    if not allowed.members:
        if allowed.low < 0 < allowed.high:
            found |= {"positive": positive, "negative": negative}
        found["ties"] = ties
        if dtype not in HALVES:
            finite = math.isfinite(allowed.low), math.isfinite(allowed.high)
            if allowed.low <= 0 <= allowed.high:
                found["small"] = small
            if not all(finite):
                found["large"] = large
            found["special"] = special
            if allowed.poles or any(finite):
                found["edges"] = edges
    return found


def fits(allowed: Range, dtype: torch.dtype) -> bool:
    """Whether numbers of a dtype can lie in a domain: those of float16 end at 65504."""
    generator = torch.Generator().manual_seed(0)
    return bool(allowed.admits(_inside(plain, allowed, 8, dtype, generator)).all())


def make(
    profile: Profile, allowed: Range, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator
) -> Tensor:
    """A floating or complex tensor whose values lie in the domain, also after rounding to its dtype."""
    count = math.prod(shape)
    real = dtype.to_real()
    values = _inside(profile, allowed, count, real, generator)
    if dtype.is_complex:
        values = torch.complex(values, _inside(profile, Range(), count, real, generator))
    return values.reshape(shape)


def _inside(profile: Profile, allowed: Range, count: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    if count == 0:
        return torch.empty(0, dtype=dtype)
    if allowed.members:
        named = torch.tensor(allowed.members, dtype=dtype)
        return named[torch.randint(len(named), (count,), generator=generator)]
    values = _away(profile(allowed, count, generator), allowed.poles, profile is edges).to(dtype)
    if allowed.everything:
        return values
    inside = allowed.admits(values)
    if bool(inside.all()):
        return values
    others = plain(allowed, 8, generator).to(dtype)
    others = others[allowed.admits(others)] if allowed.admits(others).any() else others
    return torch.where(inside, values, others[torch.randint(len(others), (count,), generator=generator)])


def _away(values: Tensor, poles: tuple[Points, ...], close: bool) -> Tensor:
    """The values, at some distance from the points that are left out: an eighth of the way to the next, or 1/8."""
    for pole in poles if not close else ():
        nearest = pole.nearest(values)
        distance, least = values - nearest, 0.125 * min(1.0, pole.step or 1.0)
        pushed = nearest + torch.where(distance < 0, -least, least)
        values = torch.where(distance.abs() < least, pushed, values)
    return values


def _window(allowed: Range) -> tuple[float, float]:
    """Where plain values lie: in the domain, or in four units of it."""
    low, high = allowed.low, allowed.high
    if not math.isfinite(low) and not math.isfinite(high):
        return -_FAR, _FAR
    if not math.isfinite(low):
        return high - 2 * _FAR, high
    return (low, high) if math.isfinite(high) else (low, low + 2 * _FAR)


def _magnitudes(allowed: Range, count: int, generator: torch.Generator, low: float, high: float) -> Tensor:
    powers = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
    signs = 2.0 * torch.randint(2, (count,), generator=generator) - 1
    values = signs * 10**powers
    if allowed.everything:
        return values
    return torch.where(allowed.admits(values), values, values.abs() if allowed.high > 0 else -values.abs())


def _every_second(named: Tensor, others: Tensor, generator: torch.Generator) -> Tensor:
    if len(named) == 0:
        return others
    chosen = named[torch.randint(len(named), others.shape, generator=generator)]
    return torch.where(torch.rand(others.shape, generator=generator) < 0.5, chosen, others)


# -- layouts in memory: the same values, with other strides ----------------------------------------------------------


Layout = Callable[[Tensor], Tensor]


def contiguous(values: Tensor) -> Tensor:
    """One element after the other."""
    return values


def transposed(values: Tensor) -> Tensor:
    """The first axis is the fastest."""
    axes = tuple(reversed(range(values.dim())))
    return values.permute(axes).contiguous().permute(axes)


def channels_last(values: Tensor) -> Tensor:
    """The second axis is the fastest."""
    return values.movedim(1, -1).contiguous().movedim(-1, 1)


def strided(values: Tensor) -> Tensor:
    """Every second element of a larger tensor."""
    larger = values.new_zeros((*values.shape[:-1], 2 * values.shape[-1]))[..., ::2]
    return larger.copy_(values)


def offset(values: Tensor) -> Tensor:
    """Not at the beginning of its memory."""
    return values.new_zeros(values.numel() + 3)[3:].view(values.shape).copy_(values)


def expanded(values: Tensor) -> Tensor:
    """The first element of one axis, repeated without memory of its own."""
    axis = next(i for i, size in enumerate(values.shape) if size > 1)
    return values.narrow(axis, 0, 1).expand(values.shape)


def conjugated(values: Tensor) -> Tensor:
    """A complex tensor whose conjugation is not carried out yet."""
    return values.conj_physical().conj()


def layouts(values: Tensor) -> dict[str, Layout]:
    """The layouts that a tensor can have, contiguous first."""
    found: dict[str, Layout] = {"contiguous": contiguous}
    if values.dim() >= 1:
        found |= {"strided": strided, "offset": offset}
    if any(size > 1 for size in values.shape):
        found["expanded"] = expanded
    if values.dim() >= 2:
        found["transposed"] = transposed
    if values.dim() >= 3:
        found["channels last"] = channels_last
    if values.is_complex():
        found["conjugated"] = conjugated
    return found


# -- whether arguments lie where they were declared to lie -----------------------------------------------------------


def within(case: Case) -> bool:
    """Whether a case lies in the declared domain of its operator; it does where none is declared.

    Raises:
        TorchgraftError: the operator does not take these arguments at all.
    """
    op = case.target.operator
    if op is None or not op._record.domains:
        return True
    record = op._record
    args, kwargs = case.arguments(case.primals)
    given = {**dict(zip(record.signature.names, args, strict=False)), **kwargs}
    values = convert(record.signature, [given.get(p.name, p.default) for p in record.signature.parameters])
    arguments = dict(zip(record.signature.names, values, strict=True))
    names = {**record.plan(record.promoted(values)).sizes, **arguments}
    return all(_admits(domain.at(names), names.get(name)) for name, domain in record.domains.items())


def _admits(range_: Range, value: Any) -> bool:
    match value:
        case Tensor():
            return bool(range_.admits(value).all())
        case list() | tuple():
            return all(_admits(range_, item) for item in value)
        case int() | float():
            return range_.has(value)
    return True
