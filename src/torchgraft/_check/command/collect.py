"""Find what a module declares that can be checked, and with which options."""

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
from ..._locate import attribute, expand, load, split
from ..._op import Op
from ..._rules.kinds import differentiable_outputs
from ..._spec.accuracy import read_accuracy
from ...errors import ArgumentError, DeclarationError
from ..checks.table import Check, chosen
from ..ended import staying
from ..generate.inputs import signature_of
from ..target import FUNCTIONS, Target, make_target

NOTHING = (
    "nothing is declared there that can be checked: no operator, no autograd.Function, no torch.library operator, "
    "nothing with samples"
)
_HINT = """annotate it with jaxtyping, or give it samples:
    def samples(generator):
        yield torch.randn(3, 4, dtype=torch.float64, generator=generator), 2.0
    NAME.samples = samples   # in a class: a static method"""


@dataclass(frozen=True)
class Settings:
    """Options of the checks, each as the command names it."""

    seed: int = 0
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    compilers: bool = False
    inductor: bool = False
    device: str = "cpu"
    isolate: bool = False
    accuracy: float | None = None
    surrogate: tuple[str, ...] = ()

    def checks(self) -> list[Check]:
        """Return the checks to run; an `ArgumentError` names those that do not exist."""
        return chosen(self.only, self.skip, compilers=self.compilers, inductor=self.inductor)

    def declarations(self) -> dict[str, Any]:
        """Return what `make_target` takes in the place of what the targets declare."""
        accuracy = read_accuracy(self.accuracy, DeclarationError)
        return {"accuracy": accuracy, "surrogate": dict(map(_surrogate, self.surrogate))}

    def words(self) -> list[str]:
        """Return what a command needs to see the same again."""
        words = ["--seed", str(self.seed)] if self.seed else []
        words += ["--device", self.device] if self.device != "cpu" else []
        words += ["--isolate"] if self.isolate else []
        words += ["--accuracy", f"{self.accuracy:g}"] if self.accuracy is not None else []
        return [*words, *(word for text in self.surrogate for word in ("--surrogate", text))]


def _surrogate(text: str) -> tuple[str, Any]:
    argument, _, place = text.partition("=")
    where, name = split(place)
    found = attribute(_load(where), name) if name else None
    if found is None:
        expected = "an argument, and where its function is: x=package.module:smooth"
        raise DeclarationError("does not exist", argument="--surrogate", expected=expected, got=text)
    return argument, found


@dataclass(frozen=True)
class Entry:
    """A target by its place, which finds it again in any process."""

    place: str  # "package.module:name" or "file.py:name"
    kind: str  # The kind of the `Target`.
    settings: Settings
    why_not: str = ""  # The reason where it cannot be checked.
    declared: tuple[str, ...] = ()  # Words that qualify its verdict.

    def target(self) -> Target:
        """Return the target, whose name is its place."""
        return _target(_found(self.place), self.place, self.settings)


def collect(place: str, settings: Settings | None = None) -> list[Entry]:
    """Find what can be checked of a module, a file, a package or a folder; or the one thing that a place names.

    Of a module these are its own operators, not those it imports; the subclasses of `autograd.Function` and the
    operators of `torch.library` that it declares; and the modules and functions that have ``samples``. Where a package
    exports some operators of a module, the others are that module's own affair, as those with an underscore are: they
    may rely on how they are called.

    Raises:
        DeclarationError: there is no such place, or it cannot be imported; or it names what cannot be checked.
    """
    where, name = split(place)
    settings = settings or Settings()
    settings.declarations()  # Wrong declarations are refused once, and not at each target.
    if not name:
        return [entry for each in expand(where) for entry in _declared(each, where, settings)]
    entry = _entry(place, _found(place), settings)
    if entry.why_not:
        raise DeclarationError("cannot be checked from here", argument=place, got=entry.why_not, hint=_HINT)
    return [entry]


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Draw the same in each process: parameters of modules, for example."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


_load = _seeded()(staying()(load))


def _found(place: str) -> Any:
    where, name = split(place)
    module = _load(where)
    found = attribute(module, name)
    if found is None:
        expected = ", ".join(name for name, _ in _checkable(module)) or "something that can be checked"
        got = f"no '{name}' in {module.__name__}"
        raise DeclarationError("does not exist", argument=place, expected=expected, got=got)
    return found


def _target(found: Any, place: str, settings: Settings) -> Target:
    if isinstance(found, type) and issubclass(found, nn.Module):
        with _seeded():
            found = found()
    try:
        return make_target(found, name=place, **settings.declarations())
    except ArgumentError as error:
        raise DeclarationError("cannot be checked", argument=place, expected=error.expected, got=error.got) from None


def _entry(place: str, found: Any, settings: Settings) -> Entry:
    target, why_not = _target(found, place, settings), ""
    if not target.samples and signature_of(target) is None:
        why_not = "nothing says what it takes"
    if target.operator is not None and not differentiable_outputs(target.operator._record.signature):
        why_not = "its outputs have no derivative"
    return Entry(place, target.kind, settings, why_not, target.declared.words)


def _declared(where: str, root: str, settings: Settings) -> Iterator[Entry]:
    module = _load(where)
    private = _private(module) if where != root else set()
    for name, value in _checkable(module):
        place = f"{where}:{name}"
        if name in private:
            why_not = "it is private to its package; name its module to have it checked"
            yield Entry(place, "operator", settings, why_not)
            continue
        try:
            yield _entry(place, value, settings)
        except Exception as error:  # A module's constructor may raise anything.
            why_not = f"it cannot be made: {type(error).__name__}: {error}".partition("\n")[0]
            yield Entry(place, "module", settings, why_not)


def _private(module: ModuleType) -> set[str]:
    """Return the names of operators that no package above exports; if it exports none, those with an underscore."""
    parts = module.__name__.split(".")
    above = [sys.modules.get(".".join(parts[:count])) for count in range(1, len(parts))]
    operators = {name: value for name, value in _checkable(module) if isinstance(value, Op)}
    exported = {id(value) for package in above if package is not None for value in vars(package).values()}
    # A package may import what it exports when it is asked for it.
    exported |= {id(getattr(p, name)) for p in above if p is not None for name in operators.keys() & set(dir(p))}
    hidden = {name for name, value in operators.items() if id(value) not in exported}
    return hidden if len(hidden) < len(operators) else {name for name in operators if name.startswith("_")}


def _checkable(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield names and values, each value once, in the order of the file."""
    seen = set[int]()
    for name, value in vars(module).items():
        if id(value) not in seen and _is_declared(value, module.__name__):
            seen.add(id(value))
            yield name, value


def _is_declared(value: Any, module: str) -> bool:
    """Return True if a module declares this target, rather than importing it."""
    if isinstance(value, Op):
        return type(value).__module__ == module
    if isinstance(value, type) and issubclass(value, FUNCTIONS):
        return value.__module__ == module and _has_forward(value)
    if _torch.overload_of(value) is not None:
        return _torch.module_of(value) == module or _has_samples(value)
    if isinstance(value, FunctionType) or (isinstance(value, type) and issubclass(value, nn.Module)):
        return value.__module__ == module and _has_samples(value)
    return isinstance(value, nn.Module) and _has_samples(value)


def _has_samples(value: Any) -> bool:
    return callable(getattr(value, "samples", None))


def _has_forward(function: type) -> bool:
    """Return True if a Function is more than a base of others."""
    roots = {root for base in FUNCTIONS for root in base.__mro__}
    return any("forward" in vars(cls) for cls in function.__mro__ if cls not in roots)
