"""Findings from the last words of a debugged program: its own, and those of the sanitizers."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PROBLEMS = (
    (r"attempting|alloc-dealloc", "the function frees what it may not free", "one free for each malloc"),
    (r"memory leaks", "the function does not free its memory", "one free for each malloc"),
    (r"ABRT|FPE|ILL|TRAP|stack-overflow", "the function crashed", "a return"),
    (r"param-overlap", "the function does what C does not define", "ranges that do not overlap"),
    (r"", "the function stepped out of its memory", "accesses within one sample"),
)
"""What AddressSanitizer's names of faults mean, and what is right."""

OWN = 78
"""The exit status after words of its own."""


@dataclass(frozen=True)
class Finding:
    """A mistake that a debugged function made.

    Attributes:
        problem, expected, got, argument, hint: of the error.
    """

    problem: str
    expected: str | None = None
    got: str | None = None
    argument: str | None = None
    hint: str | None = None


class Report:
    """The end of a program.

    Args:
        status: its exit status; negative for a signal.
        said: its error output.
        program: the file.
        sample: the index of a sample, by its number.
        could_tell: with sanitizers it could have said more.
    """

    def __init__(
        self, status: int, said: str, program: Path, sample: Callable[[int], list[int]], *, could_tell: bool
    ) -> None:
        self.status = status
        self.said = said
        self.program = program
        self.sample = sample
        self.could_tell = could_tell
        found = re.search(r"^torchgraft: (\w+) (\S+) (-?\d+) (-?\d+) (-?\d+)\n", said, re.M)
        self.what, self.name = (found[1], found[2]) if found else ("", "")
        self.number, self.at, self.bytes = (int(found[i]) for i in (3, 4, 5)) if found else (-1, 0, 0)
        self.text = said[found.end() :] if found else ""

    def finding(self) -> Finding | None:
        """The mistake that a program reports; None where there is none."""
        if self.status == 0:
            return self._leak()
        if self.status == OWN:
            return self._own()
        if "runtime error: " in self.said:
            return self._undefined()
        if "ERROR: AddressSanitizer: " in self.said:
            return self._fault()
        return self._crash()

    # -- kinds of ends ----------------------------------------------------------------------------------------------

    def _own(self) -> Finding:
        match self.what:
            case "threw":
                return Finding(self.text)
            case "returned":
                return Finding(f"the function returned {self.at}")
            case "past" | "before":
                return Finding(
                    f"the function wrote {self.what} the memory of '{self.name}'", "writes within one sample",
                    f"a write {self._place()}{self._in_sample()}", self.name,
                )  # fmt: skip
            case "changed":
                return Finding(
                    "the function wrote into its input", "a const argument left as it is",
                    "other contents after the call", self.name,
                )  # fmt: skip
            case "memory":
                return Finding("there is no memory for an array", "memory", f"{self.bytes} bytes", self.name)
        return self._crash()

    def _undefined(self) -> Finding:
        """UndefinedBehaviorSanitizer begins with the place."""
        place, what = re.findall(r"^(?:(.*?:\d+(?::\d+)?): )?runtime error: (.*)$", self.said, re.M)[0]
        at = f", at {_short(place)}" if place else ""
        return Finding("the function does what C does not define", "no undefined behaviour", f"{what}{at}")

    def _fault(self) -> Finding:
        found = re.search(r"ERROR: AddressSanitizer: (SEGV on .*? 0x\w+|.*?)(?: on |: | \(|$)", self.said, re.M)
        kind = found[1] if found else "a fault"
        problem, expected = next((problem, expected) for name, problem, expected in _PROBLEMS if re.search(name, kind))
        access = re.search(r"^(READ|WRITE) of size (\d+)", self.said, re.M)
        parts = [f"{kind}: {access[1]} of size {access[2]}" if access else kind]
        if self.what == "touched":
            parts.append(self._place() + self._in_sample())
            parts[0] = parts[0].replace("use-after-poison", "out of bounds")  # The gap is ours.
        parts += self._frame()
        return Finding(problem, expected, ", ".join(parts) + self._last_words(), self.name or None)

    def _leak(self) -> Finding | None:
        """Memory that nothing points to; not accused where a library has allocated it that has no lines."""
        found = re.search(r"leak of (\d+) byte\(s\)", self.said)
        if found is None or not self._frame():
            return None
        problem, expected = next((problem, expected) for name, problem, expected in _PROBLEMS if "leaks" in name)
        return Finding(problem, expected, ", ".join([f"{found[1]} bytes are lost", *self._frame()]))

    def _crash(self) -> Finding:
        got = signal.Signals(-self.status).name if self.status < 0 else f"exit status {self.status}"
        return Finding(
            "the function crashed" if self.status < 0 else "the function ended the program", "a return",
            got + self._last_words(), hint="tg.debug(sanitize=True) tells the line" if self.could_tell else None,
        )  # fmt: skip

    # -- parts ----------------------------------------------------------------------------------------------------

    def _place(self) -> str:
        if self.at < 0:
            return f"{-self.at} bytes before '{self.name}'"
        if self.at >= self.bytes:
            return f"{self.at - self.bytes} bytes after '{self.name}'"
        return f"inside of '{self.name}'"

    def _in_sample(self) -> str:
        index = self.sample(self.number) if self.number >= 0 else []
        return f", at sample {index}" if index else ""

    def _frame(self) -> list[str]:
        """The innermost place that is the user's: no sanitizer's, no standard library's, not ours."""
        for function, place in re.findall(r"#\d+ \S+ in (.+?) ((?:/|source of ).*?:\d+(?::\d+)?)$", self.said, re.M):
            if not re.match(r"/usr/(include|lib)|.*/include/c\+\+/|.*<torchgraft ", place):
                return [f"in {function.partition('(')[0]} ({_short(place)})"]
        return []

    def _last_words(self) -> str:
        """Return the last words of `assert` or of the C++ runtime."""
        before = re.split(r"^(?:=====|torchgraft: |\w+Sanitizer|==\d+==)", self.said, maxsplit=1, flags=re.M)[0]
        lines = [line.removeprefix(f"{self.program.name}: ").strip() for line in before.splitlines() if line.strip()]
        return f"; {' '.join(lines[-2:])}" if lines else ""


def _short(place: str) -> str:
    """A source that was given as text stands in no folder."""
    return re.sub(r"^.*/(?=source of )", "", place)
