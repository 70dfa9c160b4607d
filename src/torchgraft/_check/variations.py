"""Other tensors for the same target: other points, sizes, values and dtypes.

Only what the caller gave is known to be admitted: a matrix may have to be positive, a table sorted. Therefore other
arguments are made of those that are given, and those that the target refuses are not taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._record import Record
from .._spec.conversion import convert
from .._spec.domain import Range
from .baseline import generator, signed
from .case import Case
from .late import alike
from .target import differentiable, operands

# -- other points ------------------------------------------------------------------------------------------------------


def nearby(case: Case, salt: int = 0, spread: float = 2.0**-10) -> list[Tensor]:
    """Other primals, so near that the target takes them as well: each number is larger or smaller by about `spread`."""
    source = generator(case, 41, salt)
    changes = [alike(case.target, signed(x.real, source), x) for x in case.primals]
    return [(x * (1 + change * spread)).to(x.dtype) for x, change in zip(case.primals, changes, strict=True)]


def untied(case: Case) -> list[Tensor]:
    """Other primals nearby, of which none that were equal are: with few digits they have to go further apart."""
    source = generator(case, 43)
    return [_untied(primal, source) for primal in case.primals]


def _untied(x: Tensor, source: torch.Generator) -> Tensor:
    if x.is_complex():
        return torch.view_as_complex(_untied(torch.view_as_real(x), source))
    flat = x.flatten()
    _, group, counts = flat.unique(return_inverse=True, return_counts=True)
    shuffled = torch.randperm(len(flat), generator=source).to(x.device)
    order = shuffled[group[shuffled].argsort(stable=True)]  # Groups of equal elements follow one another.
    rank = torch.empty_like(group)
    rank[order] = torch.arange(len(flat), device=x.device) - (counts.cumsum(0) - counts)[group[order]]
    count, epsilon = counts[group].double(), torch.finfo(x.dtype).eps
    step = (2.0**-3 / count).clamp(max=32 * epsilon).maximum(2.0**-10 / count).clamp(min=epsilon)
    change = step * (rank - (count - 1) / 2)
    moved: Tensor = torch.where(flat == 0, change, flat * (1 + change))
    return moved.to(x.dtype).reshape(x.shape)


def elsewhere(case: Case) -> list[Tensor]:
    """Primals far away, of which other elements are positive or largest; nearby ones where the target takes none."""
    rolled = [primal.roll(1) for primal in case.primals]
    return rolled if admitted(case, rolled) else nearby(case)


def paired(case: Case) -> list[Tensor]:
    """Primals with equal elements: along each axis every second is the one before it, and across tensors of a shape."""
    first = dict[tuple[torch.Size, bool], Tensor]()
    for primal in case.primals:
        first.setdefault((primal.shape, primal.is_complex()), primal)
    return [_doubled(first[primal.shape, primal.is_complex()]).to(primal.dtype) for primal in case.primals]


def uniform(case: Case) -> list[Tensor]:
    """Primals all of whose elements are equal: each its own first one."""
    return [primal.flatten()[:1].expand(primal.numel()).view(primal.shape).clone() for primal in case.primals]


def _doubled(x: Tensor) -> Tensor:
    for axis, size in enumerate(x.shape):
        x = x.index_select(axis, torch.arange(size, device=x.device) // 2 * 2)
    return x


def within(case: Case) -> bool:
    """Tell whether a case lies in the declared domain of its operator; it does where none is declared.

    Raises:
        TorchgraftError: the operator does not take these arguments at all.
    """
    names, ranges = domains(case)
    return all(_admits(range_, names.get(name)) for name, range_ in ranges.items())


def domains(case: Case) -> tuple[dict[str, Any], dict[str, Range]]:
    """The sizes and arguments of a case by name, and the declared domains of some of them."""
    found = operands(case.target, *case.arguments(case.primals))
    if found is None or not found[0].domains:
        return {}, {}
    record, args, kwargs = found
    values = values_of(record, args, kwargs)
    arguments = dict(zip(record.signature.names, values, strict=True))
    names = {**record.plan(record.promoted(values)).sizes, **arguments}
    return names, {name: domain.at(names) for name, domain in record.domains.items()}


def values_of(record: Record, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of an operator in the order of its parameters, converted, with defaults."""
    given = {**dict(zip(record.signature.names, args, strict=False)), **kwargs}
    return convert(record.signature, [given.get(p.name, p.default) for p in record.signature.parameters])


def _admits(range_: Range, value: Any) -> bool:
    match value:
        case Tensor():
            return bool(range_.admits(value).all())
        case list() | tuple():
            return all(_admits(range_, item) for item in value)
        case int() | float():
            return range_.has(value)
    return True


def admitted(case: Case, primals: Sequence[Tensor]) -> bool:
    """Tell whether the target gives as many finite values there as at the given point."""
    try:
        other = case.replaced(list(primals))
        found, given = other.values(), case.values()
        return within(other) and all(
            a.shape == b.shape and bool((a.isfinite() | ~b.isfinite()).all()) for a, b in zip(found, given, strict=True)
        )
    except Exception:
        return False


# -- other sizes: an axis shortened or lengthened in every argument that has one of its size ---------------------------


def sizes(case: Case) -> list[int]:
    """The sizes of the axes of all tensors, each once, the largest first."""
    return sorted({size for leaf in case.leaves for size in shape_of(leaf)}, reverse=True)


def resized(case: Case, old: int, new: int, *, last: bool = False, numbers: bool = False, scale: bool = False) -> Case:
    """All axes of size `old` have size `new` instead: cut, or lengthened by what is there already.

    Permutations stay what they are: an index that comes twice may be what the target is not made for.

    Args:
        last: keep the last elements, not the first.
        numbers: whole numbers that are `old` become `new` as well, such as a number of groups or a normalized shape.
        scale: sizes that are multiples of `old` remain so, as the gates of a recurrent layer.
    """

    def size_of(size: int) -> int:
        if size == old or (scale and old > 1 and size % old == 0):
            return size // old * new if old else new
        return size

    def change(leaf: Any) -> Any:
        if numbers and type(leaf) is int and leaf == old:
            return new
        permutes = _permutes(leaf, old)
        for axis, size in enumerate(shape_of(leaf)):
            leaf = _cut(leaf, axis, size_of(size), last)
        if counts(leaf) and leaf.numel() and old > new > 0:
            # Indices point into what was cut; none is as large as its size, but a length may be.
            inside = torch.where(leaf.ge(new) & leaf.lt(old), leaf % new, leaf)
            leaf = leaf.clamp(max=new) if int(leaf.max()) == old else inside
        return leaf.argsort(stable=True).argsort().to(leaf.dtype) if permutes else leaf

    return case.with_leaves([change(leaf) for leaf in case.leaves])


def _permutes(leaf: Any, size: int) -> bool:
    """Return True if each row of whole numbers is a permutation of as many."""
    rows = counts(leaf) and leaf.dim() > 0 and leaf.shape[-1] == size > 1 and leaf.numel() > 0
    return bool(rows and leaf.sort().values.eq(torch.arange(size, device=leaf.device)).all())


def resized_axis(case: Case, leaf: int, axis: int, new: int) -> Case:
    """Return the case with an axis of an argument cut, or lengthened."""
    leaves = case.leaves
    leaves[leaf] = _cut(leaves[leaf], axis, new, last=False)
    return case.with_leaves(leaves)


def squeezed(case: Case) -> Case:
    """Without the first axis of all tensors where that has size 1 and others follow; ValueError if none has."""
    leaves = [leaf[0] if len(shape_of(leaf)) > 1 and shape_of(leaf)[0] == 1 else leaf for leaf in case.leaves]
    if all(a is b for a, b in zip(leaves, case.leaves, strict=True)):
        raise ValueError("no tensor has a first axis of size 1")
    return case.with_leaves(leaves)


def shape_of(leaf: Any) -> tuple[int, ...]:
    """The shape of a dense tensor; of anything else none."""
    return tuple(leaf.shape) if isinstance(leaf, Tensor) and leaf.layout == torch.strided else ()


def counts(leaf: Any) -> bool:
    """Return True for a tensor of whole numbers, which may be indices."""
    return isinstance(leaf, Tensor) and not differentiable(leaf) and leaf.dtype != torch.bool


def has_indices(case: Case) -> bool:
    """Return True if tensors of whole numbers are among the arguments, which may point out of what has another size."""
    return any(map(counts, case.leaves))


def _cut(leaf: Tensor, axis: int, new: int, last: bool) -> Tensor:
    size = leaf.shape[axis]
    if new <= size:
        return leaf.narrow(axis, size - new if last else 0, new) if new < size else leaf
    if size:
        return leaf.index_select(axis, torch.arange(new, device=leaf.device) % size)
    return leaf.new_zeros((*leaf.shape[:axis], new, *leaf.shape[axis + 1 :]))


# -- other values: structure that the given ones have is kept, such as symmetry ----------------------------------------

Change = Callable[[Tensor], Tensor]


def _large(x: Tensor) -> Tensor:
    """The largest becomes 300: what saturates does; squares in float16 and exponentials of float32 overflow."""
    largest = x.abs().max()
    return x * (300 / largest) if largest > 0 else x + 300


def _whole(x: Tensor) -> Tensor:
    """Whole numbers, among them zeros of both signs; rounded up where all are positive."""
    if not x.is_complex() and bool((x > 0).all()):
        return x.ceil()
    return torch.view_as_complex(torch.view_as_real(x).round()) if x.is_complex() else x.round()


def _nearly_tied(x: Tensor) -> Tensor:
    """Pairs of elements a thousandth apart, which the steps of differences can still tell from each other."""
    odd = (torch.arange(x.numel(), device=x.device) % 2).view(x.shape)
    return _doubled(x) * (1 + 2.0**-10 * odd).to(x.real.dtype)


def _masked(x: Tensor) -> Tensor:
    """Every third element, but the first, is what masks put into logits."""
    at = torch.arange(x.numel(), device=x.device).view(x.shape)
    return x if x.is_complex() else torch.where(at % 3 == 1, -torch.inf, x)


def _swept(x: Tensor, far: int = 4) -> Tensor:
    """Values in order, and as many between -4 and 4 as there are elements, or between the ends of those given.

    Where there is room they keep away from multiples of 1/512, at which functions have kinks.

    Args:
        x: the given values.
        far: the end in the place of 4.
    """
    if x.is_complex() or not x.numel():
        return x
    low, high = float(x.min()), float(x.max())
    low, high = low / 16 - far if low < 0 else low, high / 16 + far if high > 1 else high
    values = torch.linspace(low, high, x.numel(), dtype=torch.float64, device=x.device)
    apart = ((values * 512).floor() * 2 + 1) / 1024
    room = (high - low) / x.numel() > 1 / 520
    return (apart if room else values).view(x.shape)


def _alternating(x: Tensor) -> Tensor:
    """The given sizes, of which every second is negative."""
    odd = (torch.arange(x.numel(), device=x.device) % 2).view(x.shape)
    return x.abs() * (1 - 2 * odd).to(x.real.dtype)


def _identity(x: Tensor) -> Tensor:
    """Equal eigenvalues of square matrices."""
    if x.dim() < 2 or x.shape[-1] != x.shape[-2]:
        return x
    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device) * x.abs().amax((-2, -1), keepdim=True)


def _unlike(x: Tensor) -> Tensor:
    """Slices along the first axis of three sizes: what holds for some of them may be decided for all."""
    if not x.dim():
        return x
    parts = torch.tensor([1.0, 2.0**-7, 4.0], dtype=x.real.dtype, device=x.device)
    return x * parts[torch.arange(len(x), device=x.device) % 3].view(-1, *(1,) * (x.dim() - 1))


def _alike(x: Tensor) -> Tensor:
    """Slices along the first axis that are the same: they go one way where each was on its own, as experts do."""
    return x[:1].expand_as(x) if x.dim() > 1 and len(x) else x


def _shifted(x: Tensor) -> Tensor:
    """A mean far from zero, except in square matrices, which become nearly singular."""
    return x if x.dim() > 1 and x.shape[-1] == x.shape[-2] else x + 8192


GOLDEN = 0.6180339887498949
"""The part by which steps fill a unit evenly."""


def unequal(x: Tensor) -> Tensor:
    """Elements that were all equal, such as a bias of zeros, an eighth apart at most; zeros not as ones are."""
    if not x.numel() or bool((x != x.flatten()[0]).any()):
        return x
    size = float(x.abs().max())
    place = torch.arange(1, 1 + x.numel(), dtype=torch.float64, device=x.device)
    part = (place * GOLDEN + size / 8).frac() - 0.5
    return x + (min(size, 1.0) or 1.0) / 8 * part.view(x.shape)


def _is_narrow(x: Tensor) -> bool:
    """Return True for real numbers that are all about the same, as those are that `unequal` has moved."""
    return bool(x.numel()) and not x.is_complex() and bool(x.max() - x.min() <= x.abs().max() / 4)


LARGE, MASKED, SWEPT, SIGNS = "large values", "minus infinity", "values in order, from end to end", "signs in turn"
SHIFTED, ENDS = "a mean far from zero", "ends of the domain"
ALL_SIGNS = "signs in turn, of what was positive too"
WIDE_SWEPT = "values in order, from -12 to 12"
UNEQUAL, BOTH_SIGNS = "equal elements made unequal", "equal parameters of both signs"

VALUES: dict[str, Change] = {
    LARGE: _large,
    "whole numbers": _whole,
    "tiny values": lambda x: x * 2.0**-30,
    "nearly equal values": _nearly_tied,
    "zeros": torch.zeros_like,
    MASKED: _masked,
    SWEPT: _swept,
    SIGNS: _alternating,
    "multiples of the identity": _identity,
    "slices of unlike sizes": _unlike,
    SHIFTED: _shifted,
    "slices that are alike": _alike,
    UNEQUAL: unequal,
    BOTH_SIGNS: lambda x: _alternating(unequal(x)) if _is_narrow(x) else x,
    ALL_SIGNS: _alternating,
    WIDE_SWEPT: lambda x: _swept(x, 12),
}
"""Values at which derivatives go wrong."""

TRAINED = (UNEQUAL, BOTH_SIGNS)
"""Values that are given to the parameters of a module as well, since training changes them so."""


def with_values(case: Case, name: str) -> Case:
    """The case with other values of its primals; symmetric where they are, since a function may rely on it.

    Args:
        case: to change.
        name: of `VALUES`, or `ENDS`, for arguments with a declared domain.

    Raises:
        ValueError: it has these values already, or is not meant to have them.
    """
    if name == MASKED and len(case.primals) > 1:
        raise ValueError("0 times infinity is right in a product of several tensors")

    if name == ALL_SIGNS and not (len(case.primals) > 1 and any(map(_is_positive, case.primals))):
        raise ValueError("other values have these signs")

    def changed(x: Tensor) -> Tensor:
        if name == SIGNS and len(case.primals) > 1 and _is_positive(x):
            return x  # Beside others it may be a scale, or an eccentricity.
        made = VALUES[name](x).to(x.dtype).clone()
        square = x.dim() > 1 and x.shape[-1] == x.shape[-2] > 1
        return (made + made.mT) / 2 if square and bool((x == x.mT).all()) else made

    free = case.parameters if name == BOTH_SIGNS else range(0 if name == ENDS else len(case.primals))
    given = _at_ends(case) if name == ENDS else case.primals
    primals = [changed(primal) if i in free else primal for i, primal in enumerate(given)]
    if all(map(torch.equal, primals, case.primals)):
        raise ValueError("it has these values already")
    return case.replaced(primals)


def _is_positive(x: Tensor) -> bool:
    return not x.is_complex() and bool((x >= 0).all())


def _at_ends(case: Case) -> list[Tensor]:
    """Primals next to both ends of their domains, and anywhere between; those without a domain as they are."""
    ranges, primals = domains(case)[1], case.primals
    for i, (name, x) in enumerate(zip(case.names, primals, strict=True)):
        range_ = ranges.get(name.partition("[")[0], Range())
        if x.numel() and not x.is_complex() and not range_.everything and not range_.members:
            low = range_.low if math.isfinite(range_.low) else float(x.min())
            high = range_.high if math.isfinite(range_.high) else float(x.max())
            place = torch.arange(x.numel(), dtype=torch.float64, device=x.device) + i
            part = (place * (GOLDEN + i / 8)).frac()  # No two arguments go together.
            part = (1.5 * part - 0.25).clamp(2.0**-9, 1 - 2.0**-9)  # Every sixth number is next to one end.
            primals[i] = (low + (high - low) * part).to(x.dtype).view(x.shape)
    return primals


WIDE = 257
"""The first whole number that bfloat16 does not hold."""


def with_wide_integers(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield each tensor of integers whose domain has such as bfloat16 does not hold, and the case with some of them."""
    ranges = domains(case)[1]
    for i, (name, leaf) in enumerate(zip(case.leaf_names, case.leaves, strict=True)):
        range_ = ranges.get(name.partition("[")[0], Range())
        if not counts(leaf) or range_.members or not WIDE < range_.high < math.inf or not leaf.numel():
            continue
        low, high = max(WIDE, math.ceil(range_.low)), min(math.ceil(range_.high) - 1, 2**20)
        part = ((1 + torch.arange(leaf.numel(), dtype=torch.float64, device=leaf.device)) * GOLDEN).frac()
        leaves = case.leaves
        leaves[i] = ((low + part * (high - low)).long() | 1).clamp(max=high).to(leaf.dtype).view(leaf.shape)
        yield name, case.with_leaves(leaves)


# -- other sizes and dtypes -------------------------------------------------------------------------------------------


def _each(change: Change) -> Callable[[Case], Case]:
    return lambda case: case.replaced([change(primal) for primal in case.primals])


def _more_axes(x: Tensor, count: int, lead: tuple[int, ...] = (2, 1, 3, 1, 1)) -> Tensor:
    """Axes in front, as many as make so many; their slices have different values."""
    lead = lead[: max(0, count - x.dim())]
    factors = 1 + torch.arange(math.prod(lead), dtype=torch.float64, device=x.device).view(*lead, *(1,) * x.dim()) / 16
    return (x * factors.to(x.real.dtype)).to(x.dtype)


def _many(case: Case) -> Case:
    """More than 4096 elements: kernels share them out among threads and blocks."""
    size = max(sizes(case))
    largest = max((shape_of(leaf) for leaf in case.leaves), key=math.prod)  # A mask may be larger than all primals.
    equal = largest.count(size) or 1
    larger = resized(case, size, math.ceil((4200 * size**equal / max(math.prod(largest), 1)) ** (1 / equal)))
    return larger.replaced(nearby(larger, spread=2.0**-3))


def _batched(case: Case) -> Case:
    """Two of each tensor that has the most axes, as of images beside a filter, or of rows beside a weight."""
    most = max(primal.dim() for primal in case.primals)
    return case.replaced([_more_axes(x, most + 1, lead=(2,)) if x.dim() == most else x for x in case.primals])


def _batch_alone(case: Case) -> Case:
    """Two of the first tensor alone, as of rows beside a weight that all of a batch share."""
    first, *others = case.primals
    if any(other.shape == first.shape for other in others):
        raise ValueError("they belong together, as a target does to what is compared with it")
    return case.replaced([_more_axes(first, first.dim() + 1, lead=(2,)), *others])


def _lengthened(case: Case) -> Case:
    """Two of each number of the tensors that have the most axes, along an axis behind: places beside channels."""
    most = max(primal.dim() for primal in case.primals)
    pairs = [torch.stack([x, x * 1.25], -1) if x.dim() == most else x for x in case.primals]
    return case.replaced([pair.to(x.dtype) for pair, x in zip(pairs, case.primals, strict=True)])


MANY, BATCH = "thousands of elements", "an axis in front of the first alone"

SHAPES: dict[str, Callable[[Case], Case]] = {
    "an axis of 1": lambda case: resized(case, max(sizes(case)), 1),
    "no axes": _each(lambda x: x.flatten()[:1].reshape(())),
    "single elements without axes": _each(lambda x: x.reshape(()) if x.numel() == 1 else x),
    "four axes": _each(partial(_more_axes, count=4)),
    "five axes": _each(partial(_more_axes, count=5)),
    MANY: _many,
    "an axis in front of the largest": _batched,
    "an axis behind the largest": _lengthened,
    BATCH: _batch_alone,
}


def with_sizes(case: Case, name: str, *, free: bool) -> Case:
    """The case with other sizes.

    Args:
        case: to change.
        name: of `SHAPES`.
        free: tensors that need no gradient may have other sizes as well.

    Raises:
        ValueError: they would have.
    """
    if not free and has_indices(case):
        raise ValueError("indices belong to the sizes that were given, and kernels crash where they do not fit")
    changed = SHAPES[name](case)
    rows = zip(case.leaf_names, case.leaves, changed.leaves, strict=True)
    if not free and any(name not in case.names and shape_of(a) != shape_of(b) for name, a, b in rows):
        raise ValueError("a tensor that needs no gradient would have another size")
    return changed


def fit_parameters(case: Case, changed: Case) -> bool:
    """Return False if an axis as long as one of a module's parameters was made 1: the parameter would be broadcast.

    A first axis in front of others is a batch, which may have any length.
    """
    own = {case.names[i] for i in case.parameters}
    rows = list(zip(case.leaf_names, map(shape_of, case.leaves), map(shape_of, changed.leaves), strict=True))
    lengths = {size for name, shape, _ in rows if name in own for size in shape if size != 1}

    def is_cut(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        if len(before) != len(after):
            return len(before) > len(after) and before[-1] in lengths
        pairs = list(zip(before, after, strict=True))[len(before) > 1 :]
        return any(old in lengths and new == 1 for old, new in pairs)

    return not any(is_cut(before, after) for name, before, after in rows if name not in own)


def with_precision(case: Case, name: str) -> Case:
    """The case with all real floating tensors in sixteen bits, in ``"another precision"``, or as complex ones."""
    single, double = torch.float32, torch.float64
    other = {
        "another precision": {double: single, single: double},
        "bfloat16": dict.fromkeys((double, single), torch.bfloat16),
        "float16": dict.fromkeys((double, single), torch.float16),
        "complex numbers": dict.fromkeys((double, single), torch.complex128),
    }[name]
    leaves = [leaf.to(other.get(leaf.dtype, leaf.dtype)) if differentiable(leaf) else leaf for leaf in case.leaves]
    if name == "complex numbers":
        leaves = [leaf * (1 + 0.5j) if differentiable(leaf) else leaf for leaf in leaves]
    return case.with_leaves(leaves)
