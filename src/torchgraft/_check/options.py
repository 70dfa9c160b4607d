"""Other options for the same target: arguments that are no tensors, tensors that are data, and optional ones."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import torch
from torch import Tensor

from .._spec.domain import Range
from .case import Case
from .code import is_native, words_in_code
from .target import State, can_be_copied, differentiable
from .variations import MANY, counts, domains, shape_of, sizes, unequal, with_sizes, within
from .work import tried

FAMILIES = (
    ("none", "mean", "sum"),
    ("full", "same", "valid"),
    ("constant", "reflect", "replicate", "circular"),
    ("nearest", "linear", "bilinear", "bicubic"),
    ("reflect", "mirror", "nearest", "constant", "wrap"),
    ("zeros", "border", "reflection"),
    ("zeros", "reflect", "replicate", "circular"),
    ("relu", "tanh", "gelu", "silu"),
    ("l1", "l2"),
    ("forward", "backward", "ortho"),
    ("none", "tanh"),
)
"""Words that stand for options of the same kind."""

WORDS, PAIRED_WORDS = 16, 3
"""Words that are tried in the place of one; and beside another option."""

LEAVING_OUT = re.compile("ignore|pad")
"""Names of numbers that may leave out a part of the gradient on purpose, and no part of the values."""

AXES = {"dim", "axis", "dims", "axes"}
"""Names of whole numbers that a smaller one may be put in the place of, or the same axis counted from the other end."""

MOST_AXES = 6
"""Axes that are tried in the place of one."""

NORMS = {"p", "ord", "norm"}
"""Names of numbers that may be infinite."""


def options(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases with one option changed, of those that the target takes."""
    if "options" not in case.memo:
        case.memo["options"] = list(_taken(case))
    yield from case.memo["options"]


def _taken(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases that the target takes; of words that give one result, as all that it does not know, the first."""
    given = functools.cache(lambda: _outputs(case))  # It may be that nothing is to be called before the others.
    known = defaultdict[str, list[list[Tensor]]](list)
    for what, other in _candidates(case):
        recorded = tried(other, given=case)
        if recorded is None:
            continue
        name, _, word = what.partition("=")
        is_word, outputs = word[:1] in ("'", '"'), recorded.outputs
        others = known[name] if is_word else [given()] if LEAVING_OUT.search(name) else []
        if any(len(outputs) == len(old) and all(map(torch.equal, outputs, old)) for old in others):
            continue
        if is_word:
            known[name].append(outputs)
        yield what, other


def _outputs(case: Case) -> list[Tensor]:
    """The outputs; nothing where the target refuses the call, as with an option that nobody gave."""
    with contextlib.suppress(Exception):
        return case.outputs()
    return []


def _candidates(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases with a flag turned, a number that is larger, negative or 0, another word, a list one longer."""
    hints = _hints(case)
    for name, option, given in _options_of(case):
        for other in _others(option, name, case.target.signature.get(name), hints):
            yield f"{name}={other!r}", given(other)
    yield from _other_data(case)
    for name, argument, given in _arguments(case):
        declared = case.target.signature.get(name)
        grows = isinstance(argument, list | tuple) and not hasattr(argument, "_fields")
        if grows and argument and all(isinstance(part, Tensor) for part in argument):
            last = argument[-1]
            longer = type(argument)(
                [*argument, (last.detach() * 0.75).to(last.dtype).requires_grad_(last.requires_grad)]
            )
            yield f"{name} of length {len(longer)}", given(longer)
        if isinstance(argument, Tensor) and declared is not None and _may_be_none(declared):
            yield f"{name}=None", given(None)


def _hints(case: Case) -> _Hints:
    words = words_in_code(case.target) if any(isinstance(option, str) for option in _numbers(case).values()) else []
    return _Hints(words, sorted({leaf.dim() for leaf in case.leaves if isinstance(leaf, Tensor)}))


FACTORS = (1.2, 0.7, 2.6, 2, 5)
"""Numbers are multiplied by these, where a look at the gradient is all that is wanted; whole ones by whole ones."""


def further(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases with one number changed: what is decided by a number, such as the length of a filter, is decided anew.

    Where a domain is declared, its ends and its members are tried too.
    """
    ranges = domains(case)[1]
    for name, option, given in _options_of(case):
        if type(option) not in (int, float) or name.startswith("_") or name in AXES:
            continue
        numbers = [factor * option for factor in FACTORS] + _points(ranges.get(name.partition("[")[0], Range()))
        for number in dict.fromkeys(n for n in numbers if type(n) is type(option) and n != option):
            other = given(number)
            if tried(other, given=case) is not None:
                yield f"{name}={number!r}", other


def pairs(case: Case) -> Iterator[tuple[str, Case, tuple[str, ...]]]:
    """Cases with two options changed that are no axes, flags first: each may be right where the other is as given.

    Each has the values that the target takes alone, several words and one of anything else.
    """
    taken = {what for what, _ in options(case)}
    hints = _hints(case)
    rows = list[tuple[str, list[Any]]]()
    for name, option, _ in sorted(_options_of(case), key=lambda row: not isinstance(row[1], bool)):
        values = [] if name in AXES else _others(option, name, case.target.signature.get(name), hints)
        fitting = [value for value in values if f"{name}={value!r}" in taken]
        rows.append((name, fitting[: PAIRED_WORDS if isinstance(option, str) else 1]))
    for (one, firsts), (other, seconds) in itertools.combinations(rows, 2):
        for first, second in itertools.product(firsts, seconds):
            changed, words = case, list[str]()
            for name, value in ((one, first), (other, second)):
                changed = next(given(value) for known, _, given in _options_of(changed) if known == name)
                words.append(f"{name}={value!r}")
            if tried(changed, given=case) is not None:
                yield " and ".join(words), changed, (one, other)


def untried(case: Case) -> Iterator[Case]:
    """Cases with one number changed to a value that no other look tries; whether the target takes it is not tried."""
    for name, option, given in _options_of(case):
        if type(option) is int and name not in AXES:
            yield from (given(option + more) for more in (-1, 3, 7))
        elif type(option) is float:
            yield given(1.37 * option)


def nearly(case: Case) -> Iterator[Case]:
    """Cases with one number changed so little that a key of a few digits is the same."""
    for _, option, given in _options_of(case):
        if type(option) is float and option:
            yield given(option * (1 + 2.0**-16))


def _points(domain: Range) -> list[Any]:
    """Numbers of a domain, whole ones and others: its members, or its ends and its middle."""
    if domain.members:
        return list(domain.members)[:WORDS]
    ends = [end for end in (domain.low, domain.high) if math.isfinite(end)]
    points = [*ends, sum(ends) / 2] if len(ends) == 2 else ends
    return [number for point in points for number in (float(point), round(point))]


def _options_of(case: Case) -> Iterator[tuple[str, Any, Callable[[Any], Case]]]:
    """Yield the arguments that are no tensors, those left out too, and functions that put others in their place."""

    def at(place: int, option: Any) -> Case:
        leaves = case.leaves
        leaves[place] = option
        return case.with_leaves(leaves)

    for i, (name, leaf) in enumerate(zip(case.leaf_names, case.leaves, strict=True)):
        if not isinstance(leaf, Tensor):
            yield name, leaf, partial(at, i)
    for name, argument, given in _arguments(case):
        if argument is inspect.Parameter.empty and name in case.target.signature:
            yield name, case.target.signature[name].default, given


def left_out(case: Case) -> Iterator[tuple[str, Iterator[Case]]]:
    """Yield each argument that is None, and cases with a tensor in its place: constant, unless its annotation says so.

    Their sizes are those of the other tensors, of their parts, and of their axes. What is called a mask may be one.
    """
    shapes = [shape_of(primal) for primal in case.primals]
    parts = [part for s in shapes for part in (s, s[1:], s[:-1], s[-1:], s[:1], s[1:2], (*s[:-1], *s[-2:-1])) if part]
    for name, argument, given in _arguments(case):
        option = case.target.signature.get(name)
        value = option.default if option is not None and argument is option.empty else argument
        said = "" if option is None or option.annotation is option.empty else str(option.annotation)
        if value is None and case.primals and (not said or "Tensor" in said):
            wanted = bool(said)
            numbers = (_like(case.primals[0], shape).requires_grad_(wanted) for shape in dict.fromkeys(parts))
            squares = [(size, size) for size in sizes(case)]
            shapes_of_masks = dict.fromkeys([*squares, *parts] if "mask" in name else [])
            masks = (_mask(shape, case.primals[0].device) for shape in shapes_of_masks)
            yield name, map(given, itertools.chain(numbers, masks))


def _like(primal: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Positive numbers about 1, which scales, weights and initial states may be."""
    values = torch.linspace(0.625, 1.375, math.prod(shape), dtype=torch.float64, device=primal.device)
    return values.view(shape).to(primal.dtype)


def _mask(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """True and False in turn along each axis, so that no row is without one or the other."""
    places = torch.meshgrid(*(torch.arange(size, device=device) for size in shape), indexing="ij")
    return torch.stack(places).sum(0) % 2 == 0


def _other_data(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases with other masks, small integers, and labels: those that an option such as ``ignore_index`` names."""
    named = {n: number for n, number in _numbers(case).items() if LEAVING_OUT.search(n) and type(number) is int}
    for i, (name, leaf) in enumerate(zip(case.leaf_names, case.leaves, strict=True)):
        if not isinstance(leaf, Tensor) or differentiable(leaf) or not leaf.numel() or leaf.layout != torch.strided:
            continue
        others: dict[str, Tensor] = {}
        if leaf.dtype == torch.bool:
            others = {"all False": torch.zeros_like(leaf), "all True": torch.ones_like(leaf)}
            if leaf.all() or not leaf.any():
                others["True in turn"] = (torch.arange(leaf.numel(), device=leaf.device) % 2).bool().view(leaf.shape)
        elif leaf.dtype in SMALL:
            ends = torch.iinfo(leaf.dtype)
            odd = (torch.arange(leaf.numel(), device=leaf.device) % 2).bool().view(leaf.shape)
            others = {f"of ends of {leaf.dtype}": torch.where(odd, ends.max, ends.min).to(leaf.dtype)}
        elif leaf.dtype.is_signed:
            # A wrapper may leave to torch what is ignored by default; an operator names what it ignores.
            default = {} if case.target.operator or not _ignores(case, i, IGNORED) else {"ignore_index": IGNORED}
            for option, number in {**default, **named}.items():
                others[f"with an element {option}={number}"] = _marked(leaf, number)
        for what, other in others.items():
            leaves = case.leaves
            leaves[i] = other
            yield f"{name} {what}", case.with_leaves(leaves)


def narrowed(case: Case) -> Iterator[tuple[str, Case]]:
    """A case with its integers in int8, as large as the target takes them in tensors as long: products wrap around."""
    wide = [i for i, leaf in enumerate(case.leaves) if counts(leaf) and leaf.dtype not in SMALL]

    def taken(other: Case, i: int, times: int) -> Case:
        leaves = other.leaves
        leaves[i] = times * leaves[i]
        made = other.with_leaves(leaves)
        return made if within(made) and tried(made, given=case) is not None else other

    for larger in (MANY, None) if wide else ():
        with contextlib.suppress(Exception):  # It may take no other sizes, or no integers of this dtype.
            other = with_sizes(case, larger, free=True) if larger else case
            leaves = [leaf.to(torch.int8) if i in wide else leaf for i, leaf in enumerate(other.leaves)]
            if any(not torch.equal(leaves[i], other.leaves[i]) for i in wide):
                continue
            other = other.with_leaves(leaves)
            for i in wide:
                other = taken(other, i, 127 // max(int(leaves[i].abs().max()), 1))
            if within(other) and tried(other, given=case) is not None:
                yield "integers in int8", other
                return


def merged(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases with one of their indices in the place of another: one comes twice, and a segment may be empty."""
    for i, (name, leaf) in enumerate(zip(case.leaf_names, case.leaves, strict=True)):
        kinds = leaf.unique() if counts(leaf) and leaf.layout == torch.strided and leaf.dtype not in SMALL else ()
        if len(kinds) > 1:
            kept, gone = kinds[len(kinds) // 2 - 1], kinds[len(kinds) // 2]
            leaves = case.leaves
            leaves[i] = torch.where(leaf == gone, kept, leaf)
            other = case.with_leaves(leaves)
            if tried(other, given=case) is not None:
                yield f"{name} with {int(kept)} in the place of {int(gone)}", other


def from_the_end(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases with one row named twice, by both of its indices, where some are given that count from the end."""
    for i, (name, leaf) in enumerate(zip(case.leaf_names, case.leaves, strict=True)):
        # Where none comes twice, none may. Native code may read beyond an end where nobody asked for it.
        if not counts(leaf) or len(leaf.unique()) == leaf.numel() or leaf.min() >= 0 or is_native(case.target):
            continue
        counted = int(leaf.min())

        def named(first: int, second: int, leaf: Tensor = leaf, i: int = i) -> Case:
            leaves, flat = case.leaves, leaf.flatten()
            leaves[i] = torch.cat([flat.new_tensor([first, second]), flat[2:]]).view(leaf.shape)
            return case.with_leaves(leaves)

        for size in sizes(case):
            with contextlib.suppress(Exception):  # It is another axis that is indexed.
                same, other = named(counted, counted), named(counted, counted + size)
                if within(other) and all(map(torch.equal, same.values(), other.values())):
                    yield f"{name} with {counted} and {counted + size} for one row", other
                    break


def states(case: Case) -> Iterator[tuple[str, Case, State]]:
    """Yield cases of a module in its other mode, in both with other buffers, and with other numbers.

    Those that may hide something are changed: buffers whose elements are all equal, and attributes of 0.0 or 1.0.
    """
    module = case.target.origin
    if case.target.kind != "module" or not can_be_copied(module):
        return
    buffers = {name: buffer for name, buffer in module.named_buffers() if differentiable(buffer)}
    unlike = {name: other for name, buffer in buffers.items() if (other := unequal(buffer)) is not buffer}
    parts = ((f"{path}." * bool(path), part) for path, part in module.named_modules())
    found = ((path + name, n) for path, part in parts for name, n in vars(part).items() if type(n) is float)
    numbers = {name: HIDING[n] for name, n in found if n in HIDING}
    other_mode = not module.training
    rows = {f"training={other_mode}": State(other_mode)}
    for training in (other_mode, module.training) if unlike else ():
        rows[f"training={training} and other buffers"] = State(training, buffers=unlike)
    if numbers:
        words = ", ".join(f"{name}={number}" for name, number in numbers.items())
        rows[words] = State(module.training, numbers=numbers)
    for what, state in rows.items():
        yield what, case.of(case.target.in_state(state)), state


HIDING = {0.0: 0.25, 1.0: 0.75}
"""Numbers that hide what is multiplied with them, or not, and others in their place; probabilities may be both."""


IGNORED = -100
"""The label that torch's losses ignore by default."""


def _ignores(case: Case, place: int, number: int) -> bool:
    """Return True if a number in a tensor of integers is told from the next one: lengths may be any negative ones."""

    def values(number: int) -> list[Tensor] | None:
        leaves = case.leaves
        leaves[place] = _marked(leaves[place], number)
        with contextlib.suppress(Exception):
            return case.with_leaves(leaves).values()
        return None

    found, other = values(number), values(number - 1)
    return found is not None and (other is None or not all(map(torch.equal, found, other)))


def _marked(integers: Tensor, number: int) -> Tensor:
    """Integers of which the first is another number."""
    marked = integers.clone()
    marked[(0,) * marked.dim()] = number
    return marked


SMALL = (torch.int8, torch.uint8, torch.int16)
"""Dtypes of integers that are data, since indices have more digits; they wrap around at small numbers."""


def _numbers(case: Case) -> dict[str, Any]:
    """The arguments that are no tensors, those that were left out too."""
    left = {name: option.default for name, option in case.target.signature.items()}
    return left | {n: v for n, v in zip(case.leaf_names, case.leaves, strict=True) if not isinstance(v, Tensor)}


def _may_be_none(option: inspect.Parameter) -> bool:
    return option.default is None or NoneType in get_args(option.annotation)


def _arguments(case: Case) -> Iterator[tuple[str, Any, Callable[[Any], Case]]]:
    """Yield each argument's name, the argument, and a function that puts another one in its place.

    It is `inspect.Parameter.empty` where the caller left it out.
    """
    target, (args, kwargs) = case.target, case.arguments([p.clone().requires_grad_() for p in case.primals])
    names = [target.parameters[i] if i < len(target.parameters) else f"input {i}" for i in range(len(args))]

    def called(args: Sequence[Any], **named: Any) -> Case:
        return Case(target, args, {**kwargs, **named}, seed=case.seed, traits=case.traits)

    def at(place: int, argument: Any) -> Case:
        return called((*args[:place], argument, *args[place + 1 :]))

    def named(name: str, argument: Any) -> Case:
        return called(args, **{name: argument})

    for i, (name, argument) in enumerate(zip(names, args, strict=True)):
        yield name, argument, partial(at, i)
    for name, argument in kwargs.items():
        yield name, argument, partial(named, name)
    filled: list[Any] = []
    for name, option in target.signature.items():
        if name not in names and name not in kwargs and option.default is not option.empty:
            by_place = lambda other, before=tuple(filled): called((*args, *before, other))  # noqa: E731
            # A Function's `apply` takes no names.
            yield name, option.empty, by_place if target.kind == "function" else partial(named, name)
            filled.append(option.default)


IN_THE_PLACE_OF_NONE: dict[type, tuple[Any, ...]] = {float: (0.5, 1.5, 0.0), int: (1, 2, 0), bool: (True, False)}
"""Numbers for an argument that may be None; one that is 0 is easily taken for it."""

_PLAIN = str | int | float | complex | Enum


class _Hints(NamedTuple):
    """Words in the target's code, and numbers of axes of its tensors: other values of options are made of them."""

    words: list[str]
    axes: list[int]


def _others(value: Any, name: str, option: inspect.Parameter | None, hints: _Hints) -> list[Any]:
    """Other values of an option, its default among them."""
    found = list(_of_its_kind(value, name, option, hints))
    default = None if option is None else option.default
    plain = option is not None and isinstance(value, _PLAIN) and isinstance(default, _PLAIN | None)
    return [*found, default] if plain and default not in (value, *found) else found


def _of_its_kind(value: Any, name: str, option: inspect.Parameter | None, hints: _Hints) -> Sequence[Any]:
    if name.startswith("_"):
        return []
    if option is not None and get_origin(option.annotation) is Literal:
        return [other for other in get_args(option.annotation) if other != value]
    infinite = [math.inf] if name in NORMS else []
    match value:
        case bool():
            return [not value]
        case Enum():
            return [other for other in type(value) if other is not value]
        case int() if name in AXES:
            from_the_other_end = [value - n if value >= 0 else value + n for n in hints.axes]
            every = (axis for n in hints.axes for axis in range(-n, n) if axis != value)
            return list(dict.fromkeys([value + 1, value - 1, *from_the_other_end, *every]))[:MOST_AXES]
        case int():
            return [other for other in (value + 1, -value or -1, 0, *infinite) if other != value]
        case float():
            return [value * 1.5, value / 8, -value, 0.0, *infinite] if 0 < abs(value) < math.inf else [0.5, -0.5]
        case str():
            known = (word for family in FAMILIES if value in family for word in family)
            return [word for word in dict.fromkeys([*known, *hints.words]) if word != value][:WORDS]
        case tuple() if value and all(type(number) is int for number in value):
            return [tuple(number + 1 for number in value)]
        case None if option is not None and option.annotation is option.empty:
            return IN_THE_PLACE_OF_NONE[int][:2]  # It may be a stride or a width; 0 is nobody's.
        case None if option is not None:
            kinds = get_args(option.annotation)
            return next((numbers for kind, numbers in IN_THE_PLACE_OF_NONE.items() if kind in kinds), ())
    return []
