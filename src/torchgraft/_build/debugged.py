"""A function in C in a program of its own: built, called, and looked at from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._spec.conversion import check_ranges
from .._spec.outputs import grouped
from ..errors import BuildError, TorchgraftError, TorchgraftWarning
from . import cache
from .debug import Mode
from .debug_call import Call
from .debug_report import Finding, Report
from .harness import Harness
from .inputs import Inputs
from .library import warn_of_changes, write_source
from .prototype import Prototype
from .source import Source
from .toolchain import compiler

HEADER = Path(__file__).with_name("harness.h")

_POISONS = (0xA5, 0x5B)
"""Bytes that memory holds which nobody has written, in one run and in the next: as numbers far apart, of both signs."""


class DebugFunction:
    """A C function as `Library.function` is, in a program of its own.

    Args:
        dtypes: of each tensor that is there, outputs too, by name.
        label: of the kernel or rule.
        error: what its failures raise.
        seen: the files that other functions of the operator were built from.

    Raises:
        BuildError: the compiler refused it, there is none, or sanitizers are asked for that it does not have.
    """

    def __init__(
        self,
        source: Source,
        prototype: Prototype,
        dtypes: Mapping[str, torch.dtype],
        mode: Mode,
        label: str,
        error: type[TorchgraftError],
        seen: dict[str, str],
    ) -> None:
        self.source = source
        self.prototype = prototype
        self.dtypes = dict(dtypes)
        self.mode = mode
        self.label = label
        self.error = error
        self.seen = seen
        self.passed = [argument for argument in prototype.arguments if argument.schema]
        self.program = self._build()

    # -- building -----------------------------------------------------------------------------------------------

    def _build(self) -> Path:
        source, prototype = self.source, self.prototype
        tools = compiler(source.language, self.label)
        self.sanitized = tools.sanitizes if self.mode.sanitize is None else self.mode.sanitize
        if self.sanitized and not tools.sanitizes:
            raise BuildError(
                "the compiler has no sanitizers", operator=self.label, expected="-fsanitize=address,undefined",
                got=" ".join(tools.command), hint="install libasan and libubsan, or say tg.debug(sanitize=False)",
            )  # fmt: skip
        self.could_tell = tools.sanitizes and not self.sanitized
        fails = source.fails(prototype.symbol) and not prototype.scalar
        harness = Harness(prototype, self.dtypes, source.language, fails=fails)
        text = harness.source(str(HEADER), source.body(f"source of {prototype.signature.name}"))
        key = tools.key(
            source, HEADER.read_text() + text, tools.program_arguments(source, prototype, sanitize=self.sanitized)
        )

        def make(program: Path) -> Inputs:
            file = write_source(program, source, text)
            return tools.build_program(source, file, program, prototype, sanitize=self.sanitized)

        built = cache.built(key, make)
        warn_of_changes(source, built.files, self.seen, prototype.signature.name)
        return built.path

    # -- calling ------------------------------------------------------------------------------------------------

    def __call__(self, *values: Any) -> Any:
        """The outputs, as the library's function returns them."""
        check_ranges(self.prototype.signature, values[: len(self.prototype.signature.parameters)])
        arguments = [a.convert(v) for a, v in zip(self.passed, values, strict=False)]
        call = Call(self.prototype, self.dtypes, self.passed, arguments, list(values[len(self.passed) :]))
        if not self.program.exists():  # The cache was emptied.
            self.program = self._build()
        with tempfile.TemporaryDirectory(prefix="torchgraft-debug-") as folder:
            (Path(folder) / "in").write_bytes(call.file())
            first, second = (self._run(Path(folder), call, poison, show=poison == _POISONS[0]) for poison in _POISONS)
            finding = self._compared(call.names, first, second)
            if finding is not None:
                again = [self._run(Path(folder), call, poison) for poison in _POISONS]
                self._judge(finding, repeats=_same(first, again[0]) and _same(second, again[1]))
        outputs = self.prototype.signature.outputs
        made = grouped(outputs, [call.settle(i, output) for i, output in enumerate(first)])
        return made[0] if len(made) == 1 else tuple(made)

    def _run(self, folder: Path, call: Call, poison: int, *, show: bool = False) -> list[Tensor]:
        """One run of the program; what it prints is shown."""
        command = [str(self.program), str(folder / "in"), str(folder / "out"), str(poison)]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=self.mode.timeout,
                env=_environment(poison), stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired as expired:
            sys.stdout.write((expired.stdout or b"").decode(errors="replace"))
            finding = Finding(
                "the function did not return", f"at most {self.mode.timeout} s", "stopped",
                hint="a loop that does not end, or tg.debug(timeout=...)",
            )  # fmt: skip
            raise self._failure(finding) from None
        if show:
            sys.stdout.write(result.stdout)
        report = Report(result.returncode, result.stderr, self.program, call.sample, could_tell=self.could_tell)
        found = report.finding()
        if found is not None:
            raise self._failure(found)
        if show:
            sys.stderr.write(result.stderr)
        data = (folder / "out").read_bytes()
        for late, size, bound in call.said(data) or ():
            if not 0 <= size <= bound:
                raise self._failure(Finding(
                    f"the function did not say how large {late.name} is" if size == -1
                    else f"the function says a size that its memory does not hold: {late.name} = {size}",
                    f"0 <= {late.name} <= {bound}", "nothing written" if size == -1 else str(size), late.name,
                ))  # fmt: skip
        outputs = call.outputs(data)
        if outputs is None:
            raise self._failure(Finding("the function ended the program", "a return", "exit status 0"))
        return outputs

    def _judge(self, finding: Finding, *, repeats: bool) -> None:
        """A function may depend on chance, time or the order of threads, which is no fault."""
        if repeats or "never wrote" in finding.problem:
            raise self._failure(finding)
        warnings.warn(
            f"{self.label}: {finding.argument} is another one in every run, and so was not compared: chance, time, "
            "threads, or memory that is not its own",
            TorchgraftWarning, stacklevel=4,
        )  # fmt: skip

    def _failure(self, found: Finding) -> TorchgraftError:
        return self.error(
            found.problem, operator=self.label, argument=found.argument, expected=found.expected, got=found.got,
            hint=found.hint,
        )  # fmt: skip

    def _compared(self, names: Sequence[str], first: Sequence[Tensor], second: Sequence[Tensor]) -> Finding | None:
        """Compare two runs: bytes with the poison of each were never written; other differences come from reading."""
        for name, *pair in zip(names, first, second, strict=True):
            if pair[0].shape != pair[1].shape:
                return Finding(
                    f"the size of {name} depends on memory that was not written, or that is not the function's own",
                    "the same size in every run", f"{tuple(pair[0].shape)} and {tuple(pair[1].shape)}", name,
                )  # fmt: skip
            bits = [_bits(output) for output in pair]
            left = [(data == poison).all(-1) for data, poison in zip(bits, _POISONS, strict=True)]
            unwritten, other = left[0] & left[1], (bits[0] != bits[1]).any(-1)
            if unwritten.any():
                return Finding(
                    f"the function never wrote {name}{_first(unwritten)}", "every element written",
                    f"{int(unwritten.sum())} of {unwritten.numel()} elements were not", name,
                )  # fmt: skip
            if other.any():
                return Finding(
                    f"{name}{_first(other)} depends on memory that was not written, or that is not the function's own",
                    "the same result in every run", f"{int(other.sum())} of {other.numel()} elements differ", name,
                    "outputs and workspaces are not zero at first\n"
                    "wrong: *out += x[i];\n"
                    "right: *out = 0; ... *out += x[i];",
                )  # fmt: skip
        return None


def _environment(poison: int) -> dict[str, str]:
    """The environment of a run: options of the sanitizers, and memory of `malloc` that is filled."""
    asan = {
        "exitcode": 77, "allocator_may_return_null": 1, "handle_abort": 1,
        "malloc_fill_byte": poison ^ 60, "max_malloc_fill_size": 1 << 30, "detect_leaks": 1, "leak_check_at_exit": 0,
        "detect_stack_use_after_return": 1,
    }  # fmt: skip
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return plain | {
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in asan.items()),
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "MALLOC_PERTURB_": str(255 - poison),  # The C library writes the complement.
        "LC_ALL": "C",
    }


def _bits(output: Tensor) -> Tensor:
    """The bytes of each element: NaNs are equal to themselves here."""
    return output.reshape(-1).view(torch.uint8).reshape(*output.shape, output.dtype.itemsize)


def _same(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return all(a.shape == b.shape and torch.equal(_bits(a), _bits(b)) for a, b in zip(first, second, strict=True))


def _first(where: Tensor) -> str:
    index = where.nonzero()[0].tolist()
    return f"[{', '.join(map(str, index))}]" if index else ""
