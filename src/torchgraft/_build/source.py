"""C and C++ source, as it is given to an operator or a rule: `c` and `cpp`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .._errors import DeclarationError

Language = Literal["c", "c++"]
_SUFFIXES = {"c": (".c",), "c++": (".cpp", ".cc", ".cxx", ".C")}

_HEAD = re.compile(r"^[^\S\n]*([\w \t*]*\b(\w+)\s*\([^)]*\))", re.M)
_INT = re.compile(r"\bint\s+(\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


@dataclass(frozen=True)
class Source:
    """Source code of a kernel, and how it is compiled.

    Attributes:
        language: of the source.
        path: the file; None where the source was given as text.
        code: the text; empty where there is a file, which is read when it is compiled.
        flags: for the compiler, after the default ones.
        include: folders for `#include`.
        libraries: to be linked, as ``-l`` takes them.
        folder: of the file that declares it.
        imports: functions of Python modules that it calls: the name in the source, and ``"module:name"``.
        appended: functions of ours that call those of the source.
    """

    language: Language
    path: Path | None
    code: str
    flags: tuple[str, ...]
    include: tuple[Path, ...]
    libraries: tuple[str, ...]
    folder: Path
    imports: tuple[tuple[str, str], ...] = ()
    appended: str = ""

    def text(self) -> str:
        """The source as it is now."""
        return self.code if self.path is None else self.path.read_text()

    def body(self, title: str) -> str:
        """What a generated file has in the place of the source; a text given inline is called `title` in messages."""
        written = f'# 1 "{title}"\n{self.code}' if self.path is None else f'#include "{self.path}"'
        return f"{written}\n{self.appended}"

    def definition(self, symbol: str) -> str | None:
        """The function's head as it is written, for messages; None where there is none."""
        heads = (" ".join(head.split()) for head, name in _HEAD.findall(self.bare()) if name == symbol)
        return next(heads, None)

    def parameters(self, symbol: str) -> list[str]:
        """The names of the function's parameters, as far as they can be read."""
        head = self.definition(symbol) or "()"
        written = head[head.index("(") + 1 : -1].split(",")
        return [found[0] if (found := re.findall(r"(\w+)\W*$", text)) else "" for text in written]

    def fails(self, symbol: str) -> bool:
        """Whether the function returns an `int`: an error code."""
        return symbol in _INT.findall(self.bare())

    def bare(self) -> str:
        """The text without comments."""
        return _COMMENT.sub(" ", self.text())


def c(
    source: str | Path,
    *,
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    libraries: Sequence[str] = (),
    imports: Mapping[str, str] | None = None,
) -> Source:
    """A kernel or rule in C: ``@tg.op(kernel=tg.c("file.c"))``, ``@f.vjp("x", kernel=tg.c("file.c"))``.

    The function has the operator's name and sees one sample: the sizes of its axes, in the order in which the
    annotations name them, then the operator's arguments, then the outputs. ``T`` is the type of the elements.
    That of an elementwise operator sees one element of each tensor, and returns the result. A tensor without annotated
    axes comes whole: its data, number of axes, sizes and strides, in elements. A function that returns a non-zero
    ``int`` raises `KernelError`. Several functions may stand in one file.

    Args:
        source: the source itself, or a path that ends in ``.c``, relative to the file that declares the operator.
        flags: for the compiler, after the default ones.
        include: folders for `#include`, relative likewise.
        libraries: to be linked, as ``-l`` takes them.
        imports: C functions that Python modules made by Cython lend, by their names in the source, as
            ``{"kv": "scipy.special.cython_special:__pyx_fuse_1kv"}``. The source declares each by
            ``TG_IMPORT(double, kv, (double, double, int))``, and the library needs Python then.

    Returns:
        What `op` takes as `kernel`.

    Raises:
        DeclarationError: there is no such file.

    Example:
        >>> @tg.op(kernel=tg.c("void scale(int64_t n, const T *x, double factor, T *out) {...}"))
        ... def scale(x: Float[Tensor, "*batch n"], factor: float) -> Float[Tensor, "*batch n"]: ...
    """
    return _read("c", source, flags, include, libraries, imports or {})


def cpp(
    source: str | Path,
    *,
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    libraries: Sequence[str] = (),
    imports: Mapping[str, str] | None = None,
) -> Source:
    """A kernel or rule in C++: as `c`, and an exception that it throws raises `KernelError` with its text.

    A function template serves as well. Complex elements are ``std::complex``.

    Args:
        source: the source itself, or a path that ends in ``.cpp``, ``.cc`` or ``.cxx``.
        flags: for the compiler, after the default ones; ``-std=c++20`` is one.
        include: folders for `#include`.
        libraries: to be linked, as ``-l`` takes them.
        imports: as of `c`.

    Returns:
        What `op` takes as `kernel`.

    Raises:
        DeclarationError: there is no such file.

    Example:
        >>> @tg.op(kernel=tg.cpp("linear.cpp", flags=["-std=c++20"]))
        ... def linear(x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]: ...
    """
    return _read("c++", source, flags, include, libraries, imports or {})


def _read(
    language: Language,
    source: str | Path,
    flags: Sequence[str],
    include: Sequence[str | Path],
    libraries: Sequence[str],
    imports: Mapping[str, str],
) -> Source:
    caller = Path(sys._getframe(2).f_globals.get("__file__", "."))
    folder = (caller.parent if caller.suffix else Path()).resolve()
    path = _as_path(language, source, folder)
    return Source(
        language,
        path,
        "" if path is not None else str(source),
        tuple(flags),
        tuple(folder / item for item in include),
        tuple(libraries),
        folder,
        tuple(imports.items()),
    )


def _as_path(language: Language, source: str | Path, folder: Path) -> Path | None:
    suffixes = _SUFFIXES[language]
    if isinstance(source, str) and ("\n" in source or "{" in source or not source.endswith(suffixes)):
        return None
    path = folder / source
    if not path.is_file():
        raise DeclarationError(
            "there is no such source file", expected=f"a file, or source code in {language}", got=str(path)
        )
    return path
