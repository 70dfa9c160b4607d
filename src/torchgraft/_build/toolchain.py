"""The compiler: which one, how it is called, and what it says."""

from __future__ import annotations

import errno
import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._errors import BuildError, TorchgraftWarning
from . import cache
from .prototype import Prototype
from .source import Language, Source

_VARIABLES: dict[str, str] = {"c": "CC", "c++": "CXX"}
_DEFAULTS: dict[str, tuple[str, ...]] = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_INSTALL = """\
Debian, Ubuntu:  apt install build-essential
Fedora:          dnf install gcc gcc-c++
macOS:           xcode-select --install
without root:    pip install ziglang, and  export CC="python -m ziglang cc" CXX="python -m ziglang c++"
"""

HEADER = Path(__file__).with_name("shim.h")
SHIM = Path(__file__).with_name("shim.c")
SUFFIXES: dict[str, str] = {"c": ".c", "c++": ".cpp"}

_OPTIMIZED = ("-O3", "-fPIC", "-fvisibility=hidden", "-fexceptions", "-fno-math-errno")

_MISTAKES: dict[str, tuple[str, ...]] = {
    "c": tuple(
        f"-Werror={what}"
        for what in ("return-type", "implicit-function-declaration", "incompatible-pointer-types", "int-conversion")
    ),
    "c++": ("-Werror=return-type",),
}
"""What older compilers let pass with a warning, and what then computes wrong numbers."""


@dataclass(frozen=True)
class Compiler:
    """One compiler.

    Attributes:
        command: how it is called; may have arguments.
        version: what it says of itself.
    """

    command: tuple[str, ...]
    version: str

    def arguments(self, source: Source, level: str | None) -> list[str]:
        """What a library is compiled with."""
        own = ["-Wall", *_MISTAKES[source.language], *(f"-I{folder}" for folder in source.include), *source.flags]
        return [*self.command, *_OPTIMIZED, "-shared", "-Wl,-z,defs", *_march(level), *own]

    def shim(self, language: Language, level: str | None) -> Path:
        """The object file of `shim.c`, which every library contains: compiled once for a machine."""
        command = [*self.command, *_OPTIMIZED, "-O2", *_march(level), "-c"]
        key = cache.key_of(HEADER.read_text(), SHIM.read_text(), self.version, " ".join(command), language)

        def make(made: Path) -> Sequence[Path]:
            file = made.with_suffix(SUFFIXES[language])
            file.write_text(f'#include "{SHIM}"\n')
            command.extend([str(file), "-o", str(made)])
            result = _compiled(command, made)
            if result.returncode:
                raise BuildError(
                    "the compiler refused torchgraft's own source", got=result.stderr.strip(),
                    hint=f"to see it again:\n{shlex.join(command)}",
                )  # fmt: skip
            return ()

        return cache.built(key, make, ".o")

    def program_arguments(self, source: Source, *, sanitize: bool) -> list[str]:
        """What a program that is looked at while it runs is compiled with."""
        folders = [f"-I{folder}" for folder in source.include]
        return [*self._looking(sanitize=sanitize), *_MISTAKES[source.language], *folders, *source.flags]

    def _looking(self, *, sanitize: bool) -> list[str]:
        look = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-DTG_SANITIZED"]
        plain = ["-g", "-O1", "-Wall", "-fno-omit-frame-pointer", "-D_GLIBCXX_ASSERTIONS"]
        return [*self.command, *plain, *(look if sanitize else [])]

    @functools.cached_property
    def sanitizes(self) -> bool:
        """Whether it has AddressSanitizer and UndefinedBehaviorSanitizer, and their libraries are there."""
        with tempfile.TemporaryDirectory() as folder:
            file, program = Path(folder) / "empty.c", Path(folder) / "empty"
            file.write_text("int main(void) { return 0; }\n")
            if _run([*self._looking(sanitize=True), str(file), "-o", str(program)]).returncode:
                return False
            return _run([str(program)]).returncode == 0

    def build(
        self, source: Source, level: str | None, file: Path, library: Path, prototype: Prototype
    ) -> Sequence[Path]:
        """Compile `file` into `library`.

        Returns:
            The user's files that were included.

        Raises:
            BuildError: the compiler refused it; the text is the compiler's own.

        Warns:
            TorchgraftWarning: the compiler warned of something in the user's source.
        """
        command = [*self.arguments(source, level), str(self.shim(source.language, level))]
        return self._compile(command, source, file, library, prototype)

    def build_program(
        self, source: Source, file: Path, program: Path, prototype: Prototype, *, sanitize: bool
    ) -> Sequence[Path]:
        """Compile `file` into a program that is looked at while it runs; otherwise as `build`."""
        return self._compile(self.program_arguments(source, sanitize=sanitize), source, file, program, prototype)

    def _compile(
        self, arguments: Sequence[str], source: Source, file: Path, made: Path, prototype: Prototype
    ) -> Sequence[Path]:
        included = made.with_suffix(".d")
        command = [*arguments, str(file), "-o", str(made), "-MMD", "-MF", str(included), "-ldl", "-lm"]
        command += [f"-l{name}" for name in source.libraries]
        result = _compiled(command, made)
        said = "\n".join(line for line in result.stderr.splitlines() if str(file) not in line).strip()
        if result.returncode:
            raise _refusal(source, prototype, said or f"exit status {result.returncode}", command)
        if said:
            text = f"{prototype.signature.name}: the compiler warns\n{said}"
            warnings.warn(text, TorchgraftWarning, stacklevel=2)
        return [path for path in _listed(included.read_text()) if path != file]


def _march(level: str | None) -> list[str]:
    return [f"-march={level}"] if level else []


def _compiled(command: Sequence[str], made: Path) -> subprocess.CompletedProcess[str]:
    result = _run(command)
    if result.returncode and os.strerror(errno.ENOSPC) in result.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(made))
    return result


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    plain = os.environ | {"LC_ALL": "C"}  # messages that can be read by program
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL, env=plain
    )


def _listed(rule: str) -> list[Path]:
    """The files in a rule for `make`, which has backslashes before spaces and ends of lines."""
    names = re.findall(r"(?:\\[^\n]|[^\s\\])+", rule.partition(": ")[2])
    return [Path(re.sub(r"\\(.)|\$(\$)", r"\1\2", name)) for name in names]


def check_order(source: Source, prototype: Prototype) -> None:
    """Compare the names of the function's parameters: to C, one size is as good as another.

    Raises:
        BuildError: a parameter stands where the annotations have another one.
    """
    expected = prototype.names()
    for given, wanted in zip(source.parameters(prototype.symbol), expected, strict=False):
        if given != wanted and given in expected:
            raise _other_head(source, prototype)


def _other_head(source: Source, prototype: Prototype, said: str = "") -> BuildError:
    symbol = prototype.symbol
    return BuildError(
        "the function takes something else than the annotations say",
        operator=prototype.signature.name,
        expected=prototype.declaration(fails=source.fails(symbol) and not prototype.scalar, language=source.language),
        got=source.definition(symbol) or said,
        hint=f"write it so, or print({prototype.signature.name}.prototype())",
    )


def _refusal(source: Source, prototype: Prototype, said: str, command: Sequence[str]) -> BuildError:
    """What the compiler said; where it is about the function's head, both heads."""
    symbol, operator = prototype.symbol, prototype.signature.name
    if any(said_so in said for said_so in _OTHER_HEAD) and symbol in said:
        return _other_head(source, prototype, said)
    if any(text.format(symbol) in said for text in _NO_FUNCTION):
        return BuildError(
            f"the source defines no function '{symbol}'",
            operator=operator,
            expected=prototype.declaration(language=source.language),
            got="nothing so named",
        )
    return BuildError(
        "the compiler refused the kernel", operator=operator, got=said, hint=f"to see it again:\n{shlex.join(command)}"
    )


_OTHER_HEAD = (
    "conflicting types for", "static declaration of", "too few arguments", "too many arguments",
    "no matches converting function", "invalid conversion from", "cannot initialize a variable of type",
    "address of overloaded function", "unresolved overloaded function",
)  # fmt: skip
_NO_FUNCTION = (
    "undefined reference to `{}'", "undefined symbol: {}", "'{}' was not declared in this scope",
    "use of undeclared identifier '{}'",
)  # fmt: skip


def compiler(language: Language, operator: str) -> Compiler:
    """The compiler of this machine: ``$CC`` or ``$CXX``, else the usual names.

    Args:
        language: of the source.
        operator: who needs it, for the message.

    Raises:
        BuildError: there is none.
    """
    variable = _VARIABLES[language]
    named = os.environ.get(variable)
    found = _find(language, named, os.environ.get("PATH"))
    if found is None:
        raise BuildError(
            "there is no compiler",
            operator=operator,
            expected=f"${variable}, or one of {', '.join(_DEFAULTS[language])}",
            got=f"{variable}={named}" if named else "none of them",
            hint=_INSTALL.strip(),
        )
    return found


@functools.cache
def _find(language: Language, named: str | None, path: str | None) -> Compiler | None:
    candidates: Sequence[Sequence[str]] = [shlex.split(named)] if named else [[name] for name in _DEFAULTS[language]]
    for command in candidates:
        program = shutil.which(command[0]) if command else None
        version = _version(command, Path(program)) if program else ""
        if version:
            return Compiler(tuple(command), version)
    return None


def _version(command: Sequence[str], program: Path) -> str:
    """What a compiler says of itself; nothing if it does not run. A program, unlike a script, is asked once."""

    def ask() -> str:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
        return run.stdout.strip() if run.returncode == 0 else ""

    try:
        with program.open("rb") as file:
            is_program = file.read(4) == b"\x7fELF"
    except OSError:  # it may be run, and not be read
        is_program = False
    if len(command) > 1 or not is_program:
        return ask()
    status = program.stat()
    key = cache.key_of("version", str(program.resolve()), str(status.st_size), str(status.st_mtime_ns))
    return cache.known(key, ask)


@functools.cache
def processor_level() -> str | None:
    """``x86-64-v3`` where the processor has all of it: portable between such machines, and as fast as native."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    except OSError:
        return None
    return "x86-64-v3" if {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"} <= flags else None
