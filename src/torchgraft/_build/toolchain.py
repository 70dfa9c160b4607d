"""The compiler: which one, how it is called, and what it says."""

from __future__ import annotations

import difflib
import errno
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BuildError, TorchgraftWarning
from . import cache
from .heads import Head, has_conditions, heads
from .inputs import ENVIRONMENT, Inputs, Search, environment, folders_in, inputs_of
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
INCLUDE = Path(__file__).parents[1] / "include"
"""Headers for users: ``torchgraft/random.h``."""
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
    """A compiler of C or C++.

    Attributes:
        command: how it is called; may have arguments.
        version: what it says of itself.
        program: the file that is run, with its size and age: a script may be edited.
    """

    command: tuple[str, ...]
    version: str
    program: str

    def arguments(self, source: Source, level: str | None, prototype: Prototype) -> list[str]:
        """The arguments with which a library is compiled."""
        own = ["-Wall", *_MISTAKES[source.language], *_plain_names(prototype), *_folders(source), *source.flags]
        return [*self.command, *_OPTIMIZED, "-shared", "-Wl,-z,defs", *self._march(level), *own]

    def key(self, source: Source, text: str, arguments: Sequence[str]) -> str:
        """The name of what is built from a text: with what `Inputs` are, all that it depends on.

        Args:
            arguments: that it is compiled with.
        """
        return cache.key_of(
            text, HEADER.read_text(), SHIM.read_text(), self.version, self.program,
            repr([list(arguments), source.libraries, source.imports, source.names, environment()]),
        )  # fmt: skip

    def shim(self, language: Language, level: str | None) -> Path:
        """The object file of `shim.c`, which every library contains: compiled once for a machine."""
        command = [*self.command, *_OPTIMIZED, "-O2", *self._march(level), "-c"]
        key = cache.key_of(
            HEADER.read_text(), SHIM.read_text(), self.version, self.program, repr([command, language, environment()])
        )

        def make(made: Path) -> Inputs:
            file = made.with_suffix(SUFFIXES[language])
            file.write_text(f'#include "{SHIM}"\n')
            run = [*command, str(file), "-o", str(made)]
            result = _compiled(run, made)
            if result.returncode:
                raise BuildError(
                    "the compiler refused torchgraft's own source",
                    got=result.stderr.strip(),
                    hint=see_again(run, made.parent),
                )
            if not made.is_file():
                raise _no_compiler(language, "shim", "the compiler does not fail, and makes nothing")
            return Inputs()

        return cache.built(key, make, ".o").path

    def build_own(self, file: Path, library: Path, options: Sequence[str]) -> None:
        """Compile a file of our own, in C, into a library; `shim.c` is a part of it.

        Raises:
            BuildError: the compiler refused it.
        """
        run = [*self.own_arguments(), "-shared", *options, str(file), str(self.shim("c", None))]
        result = _compiled([*run, "-o", str(library)], library)
        if result.returncode:
            raise BuildError("the compiler refused torchgraft's own source", got=result.stderr.strip())

    def own_arguments(self) -> list[str]:
        """The arguments with which a file of our own is compiled, for any processor."""
        return [*self.command, *_OPTIMIZED]

    def program_arguments(self, source: Source, prototype: Prototype, *, sanitize: bool) -> list[str]:
        """The arguments with which a debugged program is compiled."""
        own = [*_MISTAKES[source.language], *_plain_names(prototype), *_folders(source), *source.flags]
        return [*self._looking(sanitize=sanitize), *own]

    def _looking(self, *, sanitize: bool) -> list[str]:
        look = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-DTG_SANITIZED"]
        plain = ["-g", "-O1", "-Wall", "-fno-omit-frame-pointer", "-D_GLIBCXX_ASSERTIONS"]
        return [*self.command, *plain, *(look if sanitize else [])]

    def _march(self, level: str | None) -> list[str]:
        """The option for a level of the processor, whose name zig spells in its own way."""
        is_zig = "zig" in " ".join([*self.command, self.version])
        return [f"-march={level.replace('-', '_') if is_zig else level}"] if level else []

    @functools.cached_property
    def sanitizes(self) -> bool:
        """True if it has AddressSanitizer and UndefinedBehaviorSanitizer, and their libraries are there."""
        with tempfile.TemporaryDirectory() as folder:
            file, program = Path(folder) / "empty.c", Path(folder) / "empty"
            file.write_text("int main(void) { return 0; }\n")
            if _run([*self._looking(sanitize=True), str(file), "-o", str(program)]).returncode:
                return False
            return _run([str(program)]).returncode == 0

    def build(self, source: Source, level: str | None, file: Path, library: Path, prototype: Prototype) -> Inputs:
        """Compile `file` into `library`.

        Returns:
            What was read.

        Raises:
            BuildError: the compiler refused it; the text is the compiler's own.

        Warns:
            TorchgraftWarning: the compiler warned of something in the user's source.
        """
        objects = [str(self.shim(source.language, level))]
        return self._compile(self.arguments(source, level, prototype), objects, source, file, library, prototype)

    def build_program(
        self, source: Source, file: Path, program: Path, prototype: Prototype, *, sanitize: bool
    ) -> Inputs:
        """Compile `file` into a program that is looked at while it runs; otherwise as `build`."""
        return self._compile(
            self.program_arguments(source, prototype, sanitize=sanitize), [], source, file, program, prototype
        )

    def _compile(
        self,
        arguments: Sequence[str],
        objects: Sequence[str],
        source: Source,
        file: Path,
        made: Path,
        prototype: Prototype,
    ) -> Inputs:
        included = made.with_suffix(".d")
        seen = check_head(source, prototype, lambda: _run([*arguments, "-E", "-P", str(file)]).stdout)
        libraries = ["-ldl", "-lm", *(f"-l{name}" for name in source.libraries)]
        command = [*arguments, str(file), *objects, "-o", str(made), "-MD", "-MF", str(included), *libraries]
        result = _compiled(command, made)
        said = "\n".join(line for line in result.stderr.splitlines() if str(file) not in line).strip()
        if result.returncode:
            raise _refusal(
                source, prototype, said or f"exit status {result.returncode}", see_again(command, made.parent)
            )
        if not made.is_file() or not included.is_file():
            raise _no_compiler(
                source.language, prototype.signature.name, "the compiler does not fail, and makes nothing"
            )
        if not seen and prototype.users.ambiguous:
            raise other_head(source, prototype, "a head that cannot be read without a compiler")
        if said:
            text = f"{prototype.signature.name}: the compiler warns\n{said}"
            warnings.warn(text, TorchgraftWarning, stacklevel=2)
        rule = included.read_bytes().decode("utf-8", "surrogateescape")
        listed = [name for name in _listed(rule) if name != str(file)]
        return inputs_of(listed, source.code, source.flags, source.libraries, self._search(source))

    def _search(self, source: Source) -> Search:
        """Folders in which it looks for headers and libraries."""
        headers = self._folders_of(source.language, [*_folders(source), *source.flags])
        builtin = self._folders_of(source.language, [], without=ENVIRONMENT)
        libraries: Sequence[str] = ()
        if source.libraries or any("-l" in flag for flag in source.flags):
            libraries = [*_paths("LIBRARY_PATH"), *self._folders_of(source.language, None)]
        return Search(tuple(headers or map(str, source.include)), frozenset(builtin), tuple(libraries))

    def _folders_of(self, language: Language, flags: Sequence[str] | None, *, without: Sequence[str] = ()) -> list[str]:
        """Folders of headers, or without flags those of libraries, as it names them; it is asked once on a machine."""
        asks = ["-print-search-dirs"] if flags is None else [*flags, "-E", "-v", "-x", language, os.devnull]
        variables = [] if without else environment()
        key = cache.key_of("folders", self.version, self.program, repr([self.command, asks, variables]))

        def ask() -> str:
            run = _run([*self.command, *asks], without=without)
            return json.dumps(_library_folders(run.stdout) if flags is None else folders_in(run.stderr))

        found: list[str] = json.loads(cache.known(key, ask))
        return found


def _plain_names(prototype: Prototype) -> list[str]:
    """Flags after which a function is the source's own, also where C has one of its name that compilers know."""
    return [f"-fno-builtin-{name}" for name in dict.fromkeys((prototype.symbol, prototype.users.symbol))]


def _folders(source: Source) -> list[str]:
    """Folders in which `#include` looks, first beside the source, whose text is compiled in another place."""
    beside = [] if source.path is None else ["-iquote", str(source.path.parent)]
    return [*beside, *(f"-I{folder}" for folder in (*source.include, INCLUDE))]


def _paths(variable: str) -> list[str]:
    return [path for path in os.environ.get(variable, "").split(os.pathsep) if path]


def _library_folders(said: str) -> list[str]:
    found = re.search(r"^libraries: =?(.*)$", said, re.M)
    return [os.path.normpath(path) for path in found[1].split(os.pathsep)] if found else []


def see_again(command: Sequence[str], scratch: Path) -> str:
    """The command, on copies of what was made for it, which stay."""
    kept = cache.keep(scratch)
    text = shlex.join(command)
    return f"to see it again:\n{text if kept is None else text.replace(str(scratch), str(kept))}"


def _compiled(command: Sequence[str], made: Path) -> subprocess.CompletedProcess[str]:
    result = _run(command)
    if result.returncode and os.strerror(errno.ENOSPC) in result.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(made))
    return result


def _run(command: Sequence[str], *, without: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command with messages that can be read by program, without some variables of the environment."""
    plain = {name: value for name, value in os.environ.items() if name not in without} | {"LC_ALL": "C"}
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL, env=plain
    )


def _listed(rule: str) -> list[str]:
    """The files in a rule for `make`, which has backslashes before spaces and ends of lines."""
    names = re.findall(r"(?:\\[^\n]|[^\s\\])+", rule.partition(": ")[2])
    return [re.sub(r"\\(.)|\$(\$)", r"\1\2", name) for name in names]


def check_head(source: Source, prototype: Prototype, preprocessed: Callable[[], str]) -> bool:
    """Compare the names of the function's parameters: to C, one size is as good as another.

    Args:
        preprocessed: the source as the preprocessor leaves it, for where the text does not tell the head.

    Returns:
        Whether there is a head that can be read.

    Raises:
        BuildError: a parameter stands where the annotations have another one, or may do so.
    """
    users = prototype.users
    found = heads(source.code, users.symbol)
    if len(_of_length(found, users)) != 1 or len(found) != 1 or has_conditions(source.code):
        found = heads(preprocessed(), users.symbol) or found
    fitting = _of_length(found, users)
    for head in fitting:
        _check_names(source, prototype, head)
    return bool(fitting)


def _of_length(found: Sequence[Head], prototype: Prototype) -> list[Head]:
    return [head for head in found if len(head.parameters) == len(prototype.parameters())]


def _check_names(source: Source, prototype: Prototype, head: Head) -> None:
    users, known = prototype.users, dict(source.names)
    expected = users.names()
    given = [known.get(name, name) for name in head.parameters]
    pairs = list(zip(given, expected, strict=True))
    if any(name != wanted and (name in expected or name in known.values()) for name, wanted in pairs):
        raise other_head(source, prototype, head.text)
    foreign = {name: wanted for name, wanted in pairs if name and name != wanted and wanted in users.ambiguous}
    if foreign:
        raise BuildError(
            "the function has other names for its sizes, so that nobody knows whether they stand in this order",
            operator=prototype.signature.name, argument=next(iter(foreign.values())), expected=_declared(source, users),
            got=head.text, hint=f"write these names, or say which is which:\ntg.c(..., names={foreign})",
        )  # fmt: skip


def _declared(source: Source, prototype: Prototype) -> str:
    fails = source.fails(prototype.symbol) and not prototype.scalar
    return prototype.declaration(fails=fails, language=source.language)


def other_head(source: Source, prototype: Prototype, got: str = "") -> BuildError:
    """The error for a function that takes something else than the annotations say."""
    users = prototype.users
    return BuildError(
        "the function takes something else than the annotations say", operator=prototype.signature.name,
        expected=_declared(source, users),
        got=got or next((head.text for head in heads(source.code, users.symbol)), "another head"),
        hint=f"write it so, or print({prototype.signature.name.partition('.')[0]}.prototype())",
    )  # fmt: skip


def _refusal(source: Source, prototype: Prototype, said: str, again: str) -> BuildError:
    """The error of a compiler: its words, and both heads where they are about the function's head."""
    symbol, operator = prototype.users.symbol, prototype.signature.name
    given = [head.text for head in heads(source.code, symbol)]
    if (
        _is_about_head(said.replace(f"source of {operator}", ""), symbol)
        and _declared(source, prototype.users) not in given
    ):
        return other_head(source, prototype, "" if given else said)
    if any(text.format(symbol) in said for text in _NO_FUNCTION):
        others = [head for head in heads(source.code) if head.name != symbol]
        defined = [head.name for head in others if not head.text.startswith("static ")]
        # Of a rule, the function of the kernel is the last that is meant.
        meant = [name for name in defined if name != operator.partition(".")[0]] or defined
        near = difflib.get_close_matches(symbol, meant, n=1, cutoff=0.0)
        example = f'tg.{"c" if source.language == "c" else "cpp"}(..., function="{near[0]}")' if near else None
        return BuildError(
            f"the source defines no function '{symbol}'", operator=operator,
            expected=prototype.users.declaration(language=source.language),
            got=f"it defines {', '.join(dict.fromkeys(defined))}" if defined else "no function at all",
            hint=example and f"call the function so, or say which it is:\n{example}",
        )  # fmt: skip
    return BuildError("the compiler refused the kernel", operator=operator, got=said, hint=again)


def _is_about_head(said: str, symbol: str) -> bool:
    """Tell whether a compiler speaks of the types of a function, in a line of `_OTHER_HEAD` or just below."""
    lines = said.splitlines()
    about = ("\n".join(lines[i : i + 3]) for i, line in enumerate(lines) if any(words in line for words in _OTHER_HEAD))
    return any(re.search(rf"\b{symbol}\b", text) for text in about)


_OTHER_HEAD = (
    "conflicting types for", "static declaration of", "too few arguments", "too many arguments",
    "no matches converting function", "invalid conversion from", "cannot initialize a variable of type",
    "address of overloaded function", "unresolved overloaded function",
)  # fmt: skip
_NO_FUNCTION = (
    "aliased to undefined symbol '{}'", "alias must point to a defined variable or function",
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
    found = _find(language, os.environ.get(_VARIABLES[language]), os.environ.get("PATH"))
    if found is None:
        raise _no_compiler(language, operator, "there is no compiler")
    return found


def _no_compiler(language: Language, operator: str, problem: str) -> BuildError:
    variable = _VARIABLES[language]
    named = os.environ.get(variable)
    return BuildError(
        problem,
        operator=operator,
        expected=f"${variable}, or one of {', '.join(_DEFAULTS[language])}",
        got=f"{variable}={named}" if named else "none of them",
        hint=_INSTALL.strip(),
    )


@functools.cache
def _find(language: Language, named: str | None, path: str | None) -> Compiler | None:
    candidates: Sequence[Sequence[str]] = [_words(named)] if named else [[name] for name in _DEFAULTS[language]]
    for command in candidates:
        program = shutil.which(command[0]) if command else None
        look = _look_of(program) if program else ""
        version = _version(command, program, look) if program else ""
        if version:
            return Compiler(tuple(command), version, look)
    return None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # A quote is not closed.
        return []


def _look_of(program: str) -> str:
    status = os.stat(program)
    return repr([os.path.realpath(program), status.st_size, status.st_mtime_ns])


def _version(command: Sequence[str], program: str, look: str) -> str:
    """Ask a compiler for its version; nothing if it does not run. A program, unlike a script, is asked once."""

    def ask() -> str:
        try:
            run = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace", check=False)
        except OSError:  # It is no program.
            return ""
        return run.stdout.strip() if run.returncode == 0 else ""

    try:
        with open(program, "rb") as file:
            is_program = file.read(4) == b"\x7fELF"
    except OSError:  # It may be run, and not be read.
        is_program = False
    if len(command) > 1 or not is_program:
        return ask()
    return cache.known(cache.key_of("version", look), ask)


@functools.cache
def processor_level() -> str | None:
    """``x86-64-v3`` where the processor has all of it: portable between such machines, and as fast as native."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    except OSError:
        return None
    return "x86-64-v3" if {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"} <= flags else None
