"""What became of many cases: counts, failures told apart, and a table."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .excused import EXCUSES, excuse
from .judge import Result, normal
from .needs import lacking
from .program import Case

FAILURES = ("wrong", "unnamed", "undeclared", "state", "crash", "hang")


@dataclass(frozen=True)
class Failure:
    """A failing case.

    Attributes:
        kind: wrong, unnamed, undeclared, crash or hang.
        text: what is wrong, without what differs from case to case.
        layers: the transforms.
        rules: kinds and languages of rules.
        program: a program that shows it.
    """

    kind: str
    text: str
    layers: tuple[str, ...]
    rules: tuple[str, ...]
    program: str

    def covers(self, other: Failure) -> bool:
        """Whether another failure is, by all signs, the same: it shows the same under more transforms and rules."""
        if (self.kind, self.text) != (other.kind, other.text):
            return False
        if self.text.startswith("accepted"):
            return True
        fewer = not Counter(_classes(self.layers)) - Counter(_classes(other.layers))
        return (fewer or self.kind == "unnamed") and set(self.rules) <= set(other.rules)

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.text} | {' > '.join(self.layers)} | {', '.join(self.rules)}"

    @property
    def file(self) -> str:
        words = re.sub(r"[^a-z0-9]+", "_", f"{self.kind} {' '.join(self.layers)} {self.text}".lower())
        return words.strip("_")[:90] + ".py"


_CLASSES = {
    "grad": "R", "vjp": "R", "vjp of zeros": "R", "jacrev": "R", "autograd.grad": "R", "backward": "R",
    "is_grads_batched": "R",
    "jvp": "F", "jacfwd": "F", "dual level": "F", "linearize": "F", "hessian": "RF", "gradient of linearize": "FR",
}  # fmt: skip


_WRONG = {
    "detached": "detached", "too many": "a derivative too many", "None": "None for a derivative, or the reverse",
    r"\) torch\.": "shape or dtype", "results in": "number of results",
}  # fmt: skip
"""What is wrong, by a pattern in the verdict."""


def _classes(layers: Iterable[str]) -> list[str]:
    """Transforms, where those of one mode count as one."""
    return [part for layer in layers for part in (_CLASSES.get(layer) or [layer])]


def failure(case: Case, result: Result) -> Failure:
    text = result.text
    if result.kind == "wrong":
        text = next((word for pattern, word in _WRONG.items() if re.search(pattern, text)), "values")
    else:
        text = normal(text)
    d = case.declaration
    if d.flaw:
        draws = [draw for draw in ("torch.rand", "np.random", "random.random") if draw in d.source]
        flaw = " ".join([d.flaw, *draws[:1]])
        text = f"accepted: {flaw}" if result.kind == "wrong" else f"{d.flaw}: {text}"
    rules = sorted({rule.label for rule in d.rules if set(rule.inputs) & case.inputs})
    program = f"# {result.kind}: {result.text.splitlines()[0]}\n{case.program()}"
    return Failure(result.kind, text, case.stack.names, tuple(rules), program)


@dataclass
class Report:
    """Counts of everything.

    Attributes:
        kinds: right, refused, expected (refused since a rule lacks), skipped, excused, and failures.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    layers: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    repeats: Counter[str] = field(default_factory=Counter)

    def take(self, case: Case, result: Result) -> Failure | None:
        """Count a case; the failure, if it is one that is not known."""
        kind = result.kind
        why = lacking(case)
        if kind == "refused":
            kind = "expected" if why else "refused"
            (self.expected if why else self.refused)[why or normal(result.text)] += 1
        elif kind == "skipped":
            self.skipped[normal(result.text)] += 1
        elif kind in FAILURES:
            name = excuse(case, result)
            if name is not None:
                kind = "excused"
                self.excused[name] += 1
        self.kinds[kind] += 1
        self.layers.update(set(case.stack.names))
        if kind not in FAILURES:
            return None
        found = failure(case, result)
        known = self.known(found)
        if known is not None:
            self.repeats[known.title] += 1
        return None if known is not None else found

    def known(self, found: Failure) -> Failure | None:
        return next((f for f in self.failures if f.covers(found)), None)

    def add(self, found: Failure) -> None:
        if self.known(found) is None:
            self.failures = [f for f in self.failures if not found.covers(f)] + [found]

    @property
    def share_refused(self) -> float:
        """Of the cases that torch can do and the rules suffice for."""
        possible = self.kinds["right"] + self.kinds["refused"]
        return self.kinds["refused"] / possible if possible else 0.0

    def merge(self, other: Report) -> None:
        for name in ("kinds", "refused", "expected", "skipped", "excused", "layers", "repeats"):
            getattr(self, name).update(getattr(other, name))
        for found in other.failures:
            self.add(found)

    def to_json(self) -> str:
        counters = ("kinds", "refused", "expected", "skipped", "excused", "layers", "repeats")
        made: dict[str, Any] = {name: dict(getattr(self, name)) for name in counters}
        return json.dumps({**made, "failures": [vars(f) for f in self.failures]})

    @staticmethod
    def from_json(text: str) -> Report:
        made = json.loads(text)
        failures = [
            Failure(**{k: tuple(v) if isinstance(v, list) else v for k, v in f.items()}) for f in made.pop("failures")
        ]
        return Report(**{name: Counter(values) for name, values in made.items()}, failures=failures)

    def table(self) -> str:
        total = sum(self.kinds.values())
        lines = [f"cases {total}", f"  right      {self.kinds['right']}"]
        lines.append(
            f"  refused    {self.kinds['refused']}  "
            f"({100 * self.share_refused:.1f} % of what torch and the rules can do)"
        )
        lines += _rows(self.refused)
        lines.append(f"  expected   {self.kinds['expected']}  refused: the declaration lacks something")
        lines += _rows(self.expected)
        lines.append(f"  skipped    {self.kinds['skipped']}  the plain expression fails too")
        lines += _rows(self.skipped)
        lines.append(f"  excused    {self.kinds['excused']}")
        lines += [f"    {self.excused[entry.name]:6} {entry.name}: {entry.reason}" for entry in EXCUSES]
        failed = sum(self.kinds[kind] for kind in FAILURES)
        lines.append(f"  failures   {failed}, {len(self.failures)} that differ")
        lines += [f"    {1 + self.repeats[f.title]:6} {f.title}" for f in self.failures]
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Write all counts, and a program for each failure."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.py"):
            old.unlink()
        (folder / "report.json").write_text(self.to_json())
        for found in self.failures:
            (folder / found.file).write_text(found.program)


def _rows(counts: Iterable[Any]) -> list[str]:
    return [f"    {number:6} {text[:160]}" for text, number in Counter(counts).most_common()]
