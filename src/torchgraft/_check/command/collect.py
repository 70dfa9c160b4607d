"""What a module declares that can be checked."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from ... import _torch
from ..._errors import ArgumentError, DeclarationError
from ..._locate import attribute, expand, load, split
from ..._op import Op
from ..._rules.kinds import differentiable_outputs
from ..generate.arguments import signature_of
from ..target import FUNCTIONS, Target, make_target
from .contain import staying


@dataclass(frozen=True)
class Entry:
    """A target by its place, which finds it again in any process.

    Attributes:
        place: ``"package.module:name"`` or ``"file.py:name"``.
        kind: what it is, as in `Target`.
        why_not: why it cannot be checked; empty if it can.
    """

    place: str
    kind: str
    why_not: str = ""

    def target(self) -> Target:
        """The target, whose name is its place.

        Raises:
            DeclarationError: there is none, any more.
        """
        where, name = split(self.place)
        return _target(_load(where), name, self.place)


def collect(place: str) -> list[Entry]:
    """What can be checked of a module, a file, or all of a package or folder; or the one thing that a place names.

    Of a module these are its own operators, not those it imports; the subclasses of `autograd.Function` and the
    operators of `torch.library` that it declares; and the modules and functions that have ``samples``. Where a package
    exports some operators of a module, the others are that module's own affair, as those with an underscore are: they
    may rely on how they are called.

    Raises:
        DeclarationError: there is no such place, or it cannot be imported; or it names what cannot be checked.
    """
    where, name = split(place)
    if not name:
        return [entry for each in expand(where) for entry in _declared(each, where)]
    target = _target(_load(where), name, place)
    entry = _entry(place, target)
    if entry.why_not:
        raise DeclarationError("cannot be checked from here", argument=place, got=entry.why_not, hint=_HINT)
    return [entry]


def _load(where: str) -> ModuleType:
    with _seeded(), staying():
        return load(where)


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Within, what is drawn is the same in each process: the parameters of modules are."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


def _target(module: ModuleType, name: str, place: str) -> Target:
    found = attribute(module, name)
    if found is None:
        known = [name for name, _ in _checkable(module)]
        raise DeclarationError(
            "does not exist", argument=place, expected=", ".join(known) or "something that can be checked",
            got=f"no '{name}' in {module.__name__}",
        )  # fmt: skip
    if isinstance(found, type) and issubclass(found, nn.Module):
        with _seeded():
            found = found()
    try:
        return make_target(found, name=place)
    except ArgumentError as error:
        raise DeclarationError("cannot be checked", argument=place, expected=error.expected, got=error.got) from None


def _declared(where: str, root: str) -> Iterator[Entry]:
    module = _load(where)
    packages = _packages(module.__name__) if where != root else ()
    exported = {id(value) for package in packages for value in vars(package).values()}
    operators = {name: id(value) for name, value in _checkable(module) if isinstance(value, Op)}
    hidden = {name for name, number in operators.items() if number not in exported}
    if len(hidden) == len(operators):  # no package says what is public, but names do
        hidden = {name for name in operators if name.startswith("_") and where != root}
    for name, _ in _checkable(module):
        place = f"{where}:{name}"
        if name in hidden:
            yield Entry(place, "operator", PRIVATE)
            continue
        try:
            yield _entry(place, _target(module, name, place))
        except Exception as error:  # a module's constructor may raise anything
            yield Entry(place, "module", f"it cannot be made: {type(error).__name__}: {error}".partition("\n")[0])


def _packages(module: str) -> Iterator[ModuleType]:
    """The packages that a module is in."""
    while "." in module:
        module = module.rpartition(".")[0]
        if module in sys.modules:
            yield sys.modules[module]


def _checkable(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Names and values, each value once, in the order of the file."""
    seen = set[int]()
    for name, value in vars(module).items():
        if id(value) not in seen and _is_declared(value, module.__name__):
            seen.add(id(value))
            yield name, value


def _is_declared(value: Any, module: str) -> bool:
    """Whether a module declares this target, rather than importing it."""
    if isinstance(value, Op):
        return type(value).__module__ == module
    if isinstance(value, type) and issubclass(value, FUNCTIONS):
        return value.__module__ == module and _has_forward(value)
    if _torch.overload_of(value) is not None:
        return _torch.module_of(value) == module or _has_samples(value)
    if isinstance(value, type):
        return issubclass(value, nn.Module) and value.__module__ == module and _has_samples(value)
    if isinstance(value, nn.Module):
        return _has_samples(value)
    return isinstance(value, FunctionType) and value.__module__ == module and _has_samples(value)


def _has_forward(function: type) -> bool:
    """Whether it is more than a base of others."""
    roots = {root for base in FUNCTIONS for root in base.__mro__}
    return any("forward" in vars(cls) for cls in function.__mro__ if cls not in roots)


def _has_samples(value: Any) -> bool:
    return callable(getattr(value, "samples", None))


def _entry(place: str, target: Target) -> Entry:
    known = target.samples or signature_of(target) is not None
    constant = target.operator is not None and not differentiable_outputs(target.operator._record.signature)
    return Entry(place, target.kind, NO_DERIVATIVE if constant else "" if known else NOTHING_SAYS)


NOTHING = (
    "nothing is declared there that can be checked: no operator, no autograd.Function, no torch.library operator, "
    "nothing with samples"
)
NO_DERIVATIVE = "its outputs have no derivative"
NOTHING_SAYS = "nothing says what it takes"
PRIVATE = "it is private to its package; name its module to have it checked"
_HINT = """annotate it with jaxtyping, or give it samples:
    def samples(generator):
        yield torch.randn(3, 4, dtype=torch.float64, generator=generator), 2.0
    NAME.samples = samples   # in a class: a static method"""
