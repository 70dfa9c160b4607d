"""C and C++ source, as it is given to an operator or a rule: `c` and `cpp`."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..errors import DeclarationError
from .heads import heads
from .launch import Extent, Launch

Language = Literal["c", "c++", "cuda"]
_NAME = re.compile(r"(?!tg_)[A-Za-z_][A-Za-z0-9_]*")
_INT = re.compile(r"\bint\s+(\w+)\s*\(")
_SUFFIXES = {"c": (".c",), "c++": (".cpp", ".cc", ".cxx", ".C"), "cuda": (".cu",)}


@dataclass(frozen=True)
class Source:
    """Source code of a kernel, and how it is compiled.

    Attributes:
        language: of the source.
        path: the file; None where the source was given as text.
        code: the text; that of a file as it was when it was named, so that an operator is one text in a process.
        flags: for the compiler, after the default ones.
        include: folders for `#include`.
        libraries: to be linked, as ``-l`` takes them.
        folder: of the file that declares it.
        imports: functions of Python modules that it calls: the name in the source, and ``"module:name"``.
        function: the name of the function; None for that of the operator, or of the rule's stub.
        names: of its parameters that the annotations call otherwise: the name in the source, and that in Python.
        appended: functions of ours that call those of the source.
        launch: of a kernel for CUDA that is written by hand.
        per_sample: on CUDA, each sample is one thread's.
        parts: texts that make up `code` and stand in other sources too, where somebody says so; each of them closes its
            comments and conditions.
    """

    language: Language
    path: Path | None
    code: str
    flags: tuple[str, ...]
    include: tuple[Path, ...]
    libraries: tuple[str, ...]
    folder: Path
    imports: tuple[tuple[str, str], ...] = ()
    function: str | None = None
    names: tuple[tuple[str, str], ...] = ()
    appended: str = ""
    launch: Launch | None = None
    per_sample: bool = False
    parts: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[str, ...]:
        """Its parts, or the text as the only one."""
        return self.parts or (self.code,)

    def body(self, title: str) -> str:
        """Text that stands in a generated file for the source; a text given inline is called `title` in messages.

        An empty line follows, as the last line may end in a backslash.
        """
        name = title if self.path is None else str(self.path).replace("\\", "\\\\").replace('"', '\\"')
        return f'# 1 "{name}"\n{self.code}\n\n{self.appended}'

    def fails(self, symbol: str) -> bool:
        """True if the function returns an `int`, an error code."""
        return symbol in _INT.findall(self.code) and any(head.result == "int" for head in heads(self.code, symbol))


def c(
    source: str | Path,
    *,
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    libraries: Sequence[str] = (),
    imports: Mapping[str, str] | None = None,
    function: str | None = None,
    names: Mapping[str, str] | None = None,
    cuda: Literal["per_sample"] | None = None,
) -> Source:
    """A kernel or rule in C: ``@tg.op(kernel=tg.c("file.c"))``, ``@f.vjp("x", kernel=tg.c("file.c"))``.

    The function has the name of the operator, or of a rule's stub, and sees one sample: the sizes of its axes, in the
    order in which the annotations name them, then the operator's arguments, then the outputs. ``T`` is the type of the
    elements. That of an elementwise operator sees one element of each tensor, and returns the result. A tensor without
    annotated axes comes whole: its data, number of axes, sizes and strides, in elements. A function that returns a
    non-zero ``int`` raises `KernelError`. Several functions may stand in one file, which is read where `c` is called.

    To C, one size is as good as another. So where several stand in a row, the function's parameters have the names of
    the axes, or `names` says which axis each is.

    Args:
        source: the source itself, or a path that ends in ``.c``, relative to the file that declares the operator.
        flags: for the compiler, after the default ones.
        include: folders for `#include`, relative likewise.
        libraries: to be linked, as ``-l`` takes them.
        imports: C functions that Python modules made by Cython lend, by their names in the source, as
            ``{"kv": "scipy.special.cython_special:__pyx_fuse_1kv"}``. The source declares each by
            ``TG_IMPORT(double, kv, (double, double, int))``, and the library needs Python then.
        function: the name of the C function, where it has another one.
        names: what the annotations call the function's parameters, where it calls them otherwise:
            ``{"rows": "n", "columns": "m"}``.
        cuda: ``"per_sample"`` lets a function of samples run on CUDA, each sample by one thread. That pays off for many
            small samples alone. The function of an elementwise operator serves CUDA without it.

    Returns:
        What `op` takes as `kernel`.

    Raises:
        DeclarationError: there is no such file, or a name is none.

    Example:
        >>> @tg.op(kernel=tg.c("void scale(int64_t n, const T *x, double factor, T *out) {...}"))
        ... def scale(x: Float[Tensor, "*batch n"], factor: float) -> Float[Tensor, "*batch n"]: ...
    """
    return replace(
        _read("c", source, flags, include, libraries, imports or {}, function, names or {}),
        per_sample=_is_per_sample(cuda),
    )


def cpp(
    source: str | Path,
    *,
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    libraries: Sequence[str] = (),
    imports: Mapping[str, str] | None = None,
    function: str | None = None,
    names: Mapping[str, str] | None = None,
    cuda: Literal["per_sample"] | None = None,
) -> Source:
    """A kernel or rule in C++: as `c`, and an exception that it throws raises `KernelError` with its text.

    A function template serves as well. Complex elements are ``std::complex``.

    Args:
        source: the source itself, or a path that ends in ``.cpp``, ``.cc`` or ``.cxx``.
        flags: for the compiler, after the default ones; ``-std=c++20`` is one.
        include: folders for `#include`.
        libraries: to be linked, as ``-l`` takes them.
        imports: as of `c`.
        function: the name of the C++ function, where it has another one.
        names: as of `c`.
        cuda: as of `c`.

    Returns:
        What `op` takes as `kernel`.

    Raises:
        DeclarationError: there is no such file, or a name is none.

    Example:
        >>> @tg.op(kernel=tg.cpp("linear.cpp", flags=["-std=c++20"]))
        ... def linear(x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]: ...
    """
    return replace(
        _read("c++", source, flags, include, libraries, imports or {}, function, names or {}),
        per_sample=_is_per_sample(cuda),
    )


def cuda(
    source: str | Path,
    *,
    grid: Extent,
    block: Extent = 256,
    shared: Extent = 0,
    flags: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    function: str | None = None,
) -> Source:
    """A kernel in CUDA, written by hand: ``@f.kernel("cuda", tg.cuda("f.cu", grid=lambda batch: batch))``.

    NVRTC, which comes with torch, compiles it for the device at hand when a call first needs it.

    The function has the name of the operator, and sees all samples: their number, under the name of the leading run of
    axes (``*batch`` gives ``int64_t batch``, ``...`` gives ``int64_t count``), then the sizes of the other axes in the
    order in which the annotations name them, the operator's arguments, and the outputs. Tensors are contiguous; one
    without the run is the same for all samples. ``T`` is the type of the elements; those of half precision turn into
    floats where they are read, and are rounded where they are written. Several kernels may stand in one file.

    Args:
        source: the source itself, or a path that ends in ``.cu``, relative to the file that declares the operator.
        grid: how many blocks: a number, up to three, or a function that returns them. The function asks for sizes by
            the names of its parameters.
        block: how many threads a block has, likewise: 1024 at most.
        shared: bytes of dynamic shared memory, likewise.
        flags: for NVRTC.
        include: folders for `#include`, relative likewise.
        function: the name of the kernel, where it has another one.

    Returns:
        What `op` and `Op.kernel` take as a kernel.

    Raises:
        DeclarationError: there is no such file; or a number is none.

    Example:
        >>> @softmax.kernel("cuda", tg.cuda("softmax.cu", grid=lambda batch: batch, block=256))
        ... def _(x):
        ...     return tg.native
    """
    read = _read("cuda", source, flags, include, (), {}, function, {})
    return replace(read, launch=Launch(grid, block, shared))


def _is_per_sample(cuda: str | None) -> bool:
    if cuda not in (None, "per_sample"):
        raise DeclarationError("is unknown", argument="cuda", expected='"per_sample", or nothing', got=repr(cuda))
    return cuda is not None


def _read(
    language: Language,
    source: str | Path,
    flags: Sequence[str],
    include: Sequence[str | Path],
    libraries: Sequence[str],
    imports: Mapping[str, str],
    function: str | None,
    names: Mapping[str, str],
) -> Source:
    for name in (*((function,) if function is not None else ()), *names, *names.values()):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeclarationError(
                "is no name in C", argument="function" if name == function else "names", got=repr(name),
                expected="letters, digits and underscores",
            )  # fmt: skip
    caller = sys._getframe(2).f_globals.get("__file__")
    folder = Path().resolve() if caller is None else _folder_of(caller)
    path = _as_path(language, source, folder)
    return Source(
        language,
        path,
        str(source) if path is None else _text_of(path),
        tuple(flags),
        tuple(folder / item for item in include),
        tuple(libraries),
        folder,
        tuple(imports.items()),
        function,
        tuple(names.items()),
    )


@functools.cache
def _folder_of(file: str) -> Path:
    """The folder of a file that declares operators."""
    return Path(file).parent.resolve()


def _text_of(path: Path) -> str:
    """A file's text; bytes that are no UTF-8 stay what they are."""
    return path.read_bytes().decode("utf-8-sig", "surrogateescape")


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
