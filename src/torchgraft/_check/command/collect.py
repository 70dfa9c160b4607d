"""Find what a module declares that can be checked."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from ... import _torch
from ..._errors import ArgumentError, DeclarationError
from ..._locate import attribute, expand, load, split
from ..._op import Op
from ..._rules.kinds import differentiable_outputs
from ..._spec.accuracy import read_accuracy
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
class Said:
    """Declarations that the command's options make, in the place of those of the targets.

    Attributes:
        accuracy: of the values.
        surrogates: for arguments, the places of functions whose derivative is meant: ``"x=package.module:smooth"``.
    """

    accuracy: float | None = None
    surrogates: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Return them as keyword arguments of `make_target`.

        Raises:
            DeclarationError: there is no function in such a place, or the accuracy is not between 0 and 1.
        """
        accuracy = read_accuracy(self.accuracy, DeclarationError)
        return {"accuracy": accuracy, "surrogate": dict(map(_surrogate, self.surrogates))}

    def words(self) -> list[str]:
        """Return them as options of the command."""
        accuracy = [] if self.accuracy is None else ["--accuracy", f"{self.accuracy:g}"]
        return [*accuracy, *(word for text in self.surrogates for word in ("--surrogate", text))]


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
    """A target by its place, which finds it again in any process.

    Attributes:
        place: ``"package.module:name"`` or ``"file.py:name"``.
        kind: what it is, as in `Target`.
        why_not: why it cannot be checked; empty if it can.
        declared: what qualifies its verdict, in words.
        said: by options.
    """

    place: str
    kind: str
    why_not: str = ""
    declared: tuple[str, ...] = ()
    said: Said = field(default_factory=Said)

    def target(self) -> Target:
        """Return the target, whose name is its place.

        Raises:
            DeclarationError: there is none, any more.
        """
        return _named(self.place, self.said)


def collect(place: str, said: Said | None = None) -> list[Entry]:
    """Find what can be checked of a module, a file, a package or a folder; or the one thing that a place names.

    Of a module these are its own operators, not those it imports; the subclasses of `autograd.Function` and the
    operators of `torch.library` that it declares; and the modules and functions that have ``samples``. Where a package
    exports some operators of a module, the others are that module's own affair, as those with an underscore are: they
    may rely on how they are called.

    Raises:
        DeclarationError: there is no such place, or it cannot be imported; or it names what cannot be checked.
    """
    where, name = split(place)
    said = said or Said()
    said.options()  # refuses them once, and not at each target
    if not name:
        return [entry for each in expand(where) for entry in _declared(each, where, said)]
    entry = _entry(place, _named(place, said), said)
    if entry.why_not:
        raise DeclarationError("cannot be checked from here", argument=place, got=entry.why_not, hint=_HINT)
    return [entry]


def _load(where: str) -> ModuleType:
    with _seeded(), staying():
        return load(where)


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Draw the same in each process: parameters of modules, for example."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


def _named(place: str, said: Said) -> Target:
    where, name = split(place)
    module = _load(where)
    found = attribute(module, name)
    if found is None:
        known = ", ".join(name for name, _ in _checkable(module))
        raise DeclarationError(
            "does not exist", argument=place, expected=known or "something that can be checked",
            got=f"no '{name}' in {module.__name__}",
        )  # fmt: skip
    return _target(found, place, said)


def _target(found: Any, place: str, said: Said) -> Target:
    if isinstance(found, type) and issubclass(found, nn.Module):
        with _seeded():
            found = found()
    try:
        return make_target(found, name=place, **said.options())
    except ArgumentError as error:
        raise DeclarationError("cannot be checked", argument=place, expected=error.expected, got=error.got) from None


def _entry(place: str, target: Target, said: Said) -> Entry:
    why_not = ""
    if not target.samples and signature_of(target) is None:
        why_not = "nothing says what it takes"
    if target.operator is not None and not differentiable_outputs(target.operator._record.signature):
        why_not = "its outputs have no derivative"
    return Entry(place, target.kind, why_not, target.declared.words, said)


def _declared(where: str, root: str, said: Said) -> Iterator[Entry]:
    module = _load(where)
    private = _private(module) if where != root else set()
    for name, value in _checkable(module):
        place = f"{where}:{name}"
        try:
            if name in private:
                yield Entry(place, "operator", "it is private to its package; name its module to have it checked")
            else:
                yield _entry(place, _target(value, place, said), said)
        except Exception as error:  # a module's constructor may raise anything
            yield Entry(place, "module", f"it cannot be made: {type(error).__name__}: {error}".partition("\n")[0])


def _private(module: ModuleType) -> set[str]:
    """Return the names of operators that no package above exports; if it exports none, those with an underscore."""
    parts = module.__name__.split(".")
    above = [sys.modules.get(".".join(parts[:count])) for count in range(1, len(parts))]
    exported = {id(value) for package in above if package is not None for value in vars(package).values()}
    operators = {name: value for name, value in _checkable(module) if isinstance(value, Op)}
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
    if isinstance(value, nn.Module):
        return _has_samples(value)
    own = isinstance(value, FunctionType) or (isinstance(value, type) and issubclass(value, nn.Module))
    return own and value.__module__ == module and _has_samples(value)


def _has_samples(value: Any) -> bool:
    return callable(getattr(value, "samples", None))


def _has_forward(function: type) -> bool:
    """Return True if a Function is more than a base of others."""
    roots = {root for base in FUNCTIONS for root in base.__mro__}
    return any("forward" in vars(cls) for cls in function.__mro__ if cls not in roots)
