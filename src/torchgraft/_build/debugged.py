"""A function in C in a process of its own, and what it is found to have done wrong there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._errors import BuildError, TorchgraftError
from . import cache
from .debug import Mode
from .debug_call import Call
from .harness import Harness
from .prototype import Prototype
from .source import Source
from .toolchain import Compiler, compiler

HEADER = Path(__file__).with_name("harness.h")

_POISONS = (0xA5, 0x5B)  # bytes; no number of any type is made of the one in one pass and of the other in the next


class DebugFunction:
    """A C function as `Library.function` is, in a process of its own.

    Args:
        dtypes: of each tensor that is there, outputs too, by name.
        label: of the kernel or rule.
        error: what its failures raise.
    """

    def __init__(
        self,
        source: Source,
        prototype: Prototype,
        dtypes: Mapping[str, torch.dtype],
        mode: Mode,
        label: str,
        error: type[TorchgraftError],
    ) -> None:
        self.source = source
        self.prototype = prototype
        self.dtypes = dict(dtypes)
        self.mode = mode
        self.label = label
        self.error = error
        self.passed = [argument for argument in prototype.arguments if argument.schema]
        self.program = self._build()

    # -- building -----------------------------------------------------------------------------------------------

    def _build(self) -> Path:
        tools = compiler(self.source.language, self.label)
        self.sanitized = tools.sanitizes if self.mode.sanitize is None else self.mode.sanitize
        if self.sanitized and not tools.sanitizes:
            raise BuildError(
                "the compiler has no sanitizers", operator=self.label, expected="-fsanitize=address,undefined",
                got=" ".join(tools.command), hint="install libasan and libubsan, or say tg.debug(sanitize=False)",
            )  # fmt: skip
        fails = self.source.fails(self.prototype.symbol) and not self.prototype.scalar
        harness = Harness(self.prototype, self.dtypes, self.source.language, fails=fails)
        text = harness.source(str(HEADER), self.source.body(f"source of {self.prototype.signature.name}"))
        key = cache.key_of(
            "debug", text, self.source.text(), HEADER.read_text(), tools.version, " ".join(tools.arguments(self.source, None)),
            " ".join(self.source.libraries), str(self.sanitized),
        )  # fmt: skip
        return cache.library(key, lambda program: self._compile(tools, text, program))

    def _compile(self, tools: Compiler, text: str, program: Path) -> Sequence[Path]:
        file = program.with_suffix(".c" if self.source.language == "c" else ".cpp")
        file.write_text(text)
        tools.build_program(self.source, file, program, sanitize=self.sanitized)
        return []

    # -- calling ------------------------------------------------------------------------------------------------

    def __call__(self, *values: Any) -> Any:
        """The outputs, as the library's function returns them."""
        arguments = [a.convert(v) for a, v in zip(self.passed, values, strict=False)]
        call = Call(self.prototype, self.dtypes, self.passed, arguments, list(values[len(self.passed) :]))
        with tempfile.TemporaryDirectory(prefix="torchgraft-debug-") as folder:
            file = Path(folder) / "in"
            file.write_bytes(call.file())
            runs = [self._run(Path(folder), file, poison) for poison in _POISONS]
        outputs = [call.outputs(made) for made in runs]
        for name, first, second in zip(call.names, *outputs, strict=True):
            self._check_written(name, first, second)
        made = [call.settle(i, output) for i, output in enumerate(outputs[0])]
        return made[0] if len(made) == 1 else tuple(made)

    def _run(self, folder: Path, file: Path, poison: int) -> bytes:
        command = [str(self.program), str(file), str(folder / "out"), str(poison)]
        environment = os.environ | {
            "ASAN_OPTIONS": "detect_leaks=0:exitcode=77:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=77",
        }
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=self.mode.timeout,
                env=environment, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._failure(
                "the function did not return", expected=f"at most {self.mode.timeout} s", got="stopped",
                hint="a loop that does not end, or tg.debug(timeout=...)",
            ) from None  # fmt: skip
        if result.returncode:
            raise self._explained(result.returncode, result.stderr)
        return (folder / "out").read_bytes()

    def _failure(self, problem: str, **fields: Any) -> TorchgraftError:
        return self.error(problem, operator=self.label, **fields)

    def _check_written(self, name: str, first: Tensor, second: Tensor) -> None:
        """What holds the poison of each pass was never written; what differs hangs on what was not."""
        shape = (*first.shape, first.dtype.itemsize)
        pair = [output.reshape(-1).view(torch.uint8).reshape(shape) for output in (first, second)]
        left = [(data == poison).all(-1) for data, poison in zip(pair, _POISONS, strict=True)]
        unwritten, other = left[0] & left[1], (pair[0] != pair[1]).any(-1)
        if unwritten.any():
            raise self._failure(
                f"the function never wrote {name}{_first(unwritten)}", argument=name, expected="every element written",
                got=f"{int(unwritten.sum())} of {unwritten.numel()} elements were not",
            )  # fmt: skip
        if other.any():
            raise self._failure(
                f"{name}{_first(other)} depends on memory that the function has not written, or that is not its own",
                argument=name, expected="the same result in every run",
                got=f"{int(other.sum())} of {other.numel()} elements differ",
                hint="outputs and workspaces are not zero at first\nwrong: *out += x[i];\nright: *out = 0; ... *out += x[i];",
            )  # fmt: skip

    # -- what the program said ------------------------------------------------------------------------------------

    def _explained(self, status: int, said: str) -> TorchgraftError:
        line = next((line for line in said.splitlines() if line.startswith("torchgraft: ")), "")
        _, what, rest = (*line.split(" ", 2), "", "", "")[:3]
        name = rest.rpartition(" ")[0]
        if what == "threw":
            return self._failure(line.removeprefix("torchgraft: threw "))
        if what == "returned":
            return self._failure(f"the function returned {rest.rpartition(' ')[2]}")
        if what in ("past", "before"):
            return self._failure(
                f"the function wrote {what} the memory of '{name}'", argument=name, expected="writes within one sample",
                got=f"a fence {'behind' if what == 'past' else 'before'} it was overwritten",
            )  # fmt: skip
        if what == "changed":
            return self._failure(
                "the function wrote into its input", argument=name, expected="a const argument left as it is",
                got="other contents after the call",
            )  # fmt: skip
        if "Sanitizer" in said or "runtime error:" in said:
            return self._sanitizer(said)
        crash = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return self._failure("the function crashed", expected="a return", got=f"{crash} {line}".strip())

    def _sanitizer(self, said: str) -> TorchgraftError:
        undefined = re.search(r"^(.*?:\d+(?::\d+)?): runtime error: (.*)$", said, re.M)
        if undefined:
            return self._failure(
                "the function does what C does not define", expected="no undefined behaviour",
                got=f"{undefined[2]}, at {_short(undefined[1])}",
            )  # fmt: skip
        kind = re.search(r"AddressSanitizer: (\S+)", said)
        access = re.search(r"^(READ|WRITE) of size (\d+)", said, re.M)
        place = next(
            (f"{f} ({_short(where)})" for f, where in re.findall(r"#\d+ \S+ in (\S+) (.*:\d+(?::\d+)?)$", said, re.M) if f != "main"),
            "an unknown place",
        )  # fmt: skip
        region = re.search(r"is located (.*? region \[(0x[0-9a-f]+))", said)
        name = _piece_at(said, int(region[2], 16)) if region else None
        got = f"{kind[1] if kind else 'a fault'}"
        got += f", {access[1]} of {access[2]} bytes" if access else ""
        got += f", {region[1].partition(' region')[0]} region of '{name}'" if region and name else ""
        return self._failure(
            "the function stepped out of its memory", argument=name, expected="accesses within one sample",
            got=f"{got}, in {place}",
        )  # fmt: skip


def _short(place: str) -> str:
    """A source that was given as text stands in no folder."""
    return re.sub(r"^.*/(?=source of )", "", place)


def _piece_at(said: str, address: int) -> str | None:
    """Which array a piece of memory belongs to, by what the program listed; the last one had it last."""
    pieces = re.findall(r"^piece (0x[0-9a-f]+) \d+ (.*)$", said, re.M)
    return next((name for start, name in reversed(pieces) if int(start, 16) == address), None)


def _first(where: Tensor) -> str:
    index = where.nonzero()[0].tolist()
    return f"[{', '.join(map(str, index))}]" if index else ""
