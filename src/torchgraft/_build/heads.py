"""Heads of functions in C and C++ source: names and parameters, read as far as they can be without a compiler."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|\bR\"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""
    r"|(?<=\d)'(?=[\da-fA-F])"
    r"|(?P<quote>[\"'])(?:\\.|(?!(?P=quote))[^\\\n])*(?P=quote)",
    re.S,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:)[^\n]*", re.M)
_CONDITION = re.compile(r"^[^\S\n]*(?:#|%:)\s*(?:if|else|elif)", re.M)
_DECORATION = re.compile(
    r"\b(?:__attribute__|__attribute|__declspec|_Alignas|alignas|__asm__|noexcept)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    r"|\[\[[^\]]*\]\]"
)
_IDENTIFIER = r"[^\W\d]\w*"
_SCOPE = r"(?P<scope>(?:\bnamespace\b[\w\s:]*|\bextern\s*\"\"\s*)\{)|(?P<brace>[{}])"
_SIZED = r"u?int\d+_t"

_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "catch"}
_TYPES = {
    "T", "bool", "char", "double", "float", "int", "long", "short", "signed", "size_t", "unsigned", "void", "const",
    "restrict", "__restrict", "__restrict__", "volatile", "_Complex",
}  # fmt: skip


@dataclass(frozen=True)
class Head:
    """The head of a function that is defined.

    Attributes:
        text: as it is written, on one line.
        name: of the function.
        parameters: their names; empty for one without a name.
        result: the last word before the name.
    """

    text: str
    name: str
    parameters: tuple[str, ...]
    result: str


def bare(code: str) -> str:
    """Source without comments, and with nothing in its strings."""
    spliced = re.sub(r"\\[^\S\n]*\n", "", code)
    return _SKIPPED.sub(
        lambda found: (found["quote"] or '"') * 2 if found["quote"] or found[0][0] == "R" else " ", spliced
    )


def has_conditions(code: str) -> bool:
    """Tell whether the preprocessor may leave out a part of the source."""
    return _CONDITION.search(bare(code)) is not None


@functools.lru_cache(maxsize=256)
def heads(code: str, name: str | None = None) -> tuple[Head, ...]:
    """The functions that are defined, those in namespaces too.

    Args:
        name: of the functions that are asked for; all by default.
    """
    return tuple(_heads(_DECORATION.sub(" ", _DIRECTIVE.sub(";", bare(code))), name))


def _heads(code: str, name: str | None) -> Iterator[Head]:
    pattern = re.compile(rf"{_SCOPE}|\b(?P<name>{_IDENTIFIER if name is None else re.escape(name)})\s*\(")
    scopes: list[bool] = []  # One entry for each open brace: may functions be defined within?
    for found in pattern.finditer(code):
        if found["scope"]:
            scopes.append(True)
        elif found["brace"] == "{":
            scopes.append(False)
        elif found["brace"]:
            del scopes[-1:]
        elif all(scopes) and found["name"] not in _KEYWORDS:
            yield from _read(code, found)


def _read(code: str, found: re.Match[str]) -> Iterator[Head]:
    """The head whose name and parenthesis are there, if a body follows."""
    end = _closing(code, found.end())
    inner = _split(code[found.end() : end - 1])
    # In K&R style, types follow the names.
    old = bool(inner) and all(re.fullmatch(_IDENTIFIER, text) for text in inner)
    if not re.match(r"[^;{}=()]*\{" if not old else r"[^{}=()]*\{", code[end:]):
        return
    start = re.search(r"[^;{})]*\Z", code[: found.start()])
    assert start is not None
    words = re.findall(_IDENTIFIER, start[0])
    inner = [] if inner == ["void"] else inner
    names = tuple(inner) if old else tuple(map(_name, inner))
    text = " ".join((start[0] + code[found.start() : end]).split()).replace(" ,", ",").replace(" )", ")")
    yield Head(text, found["name"], names, words[-1] if words else "")


def _closing(code: str, start: int) -> int:
    """The end of what is in a parenthesis."""
    depth = 1
    for found in re.compile(r"[()]").finditer(code, start):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return len(code)


def _split(inner: str) -> list[str]:
    """Parameters, at the commas between them."""
    parts, depth = [""], 0
    for character in inner:
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if inner.strip() else []


def _name(parameter: str) -> str:
    """The name in a declaration such as ``const T x[3]``."""
    declared = re.sub(r"\[[^\]]*\]", "", parameter.partition("=")[0]).strip()
    words = re.findall(_IDENTIFIER, declared)
    last = re.search(rf"{_IDENTIFIER}\Z", declared)
    named = last is not None and len(words) > 1 and last[0] not in _TYPES and not re.fullmatch(_SIZED, last[0])
    return last[0] if last is not None and named else ""
