"""How well the checker tells right derivatives from wrong ones, beside `torch.autograd.gradcheck`.

The operators and their arguments are those of PyTorch's own tests; each wrong backward is a right one with a mutation.
Everything runs on one thread, the three checkers in turn on the same sample; times are CPU times, so that whoever else
uses the machine matters little. The whole takes half an hour. Run it as

    python benchmarks/check.py                      # prints the table
    python benchmarks/check.py --write              # and puts it into docs/benchmarks.md
    python benchmarks/check.py mutants --part 1/20  # every twentieth sample of one benchmark, and what was missed
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from _defects import LOST, lost
from _opinfo import MUTATIONS, Sample, mutants, samples
from _timing import Row, machine, write
from torch import Tensor
from torch.autograd import gradcheck

from torchgraft import check
from torchgraft._check.case import Case
from torchgraft._check.command.collect import collect
from torchgraft._check.finding import Inconclusive, Skip, Verdict
from torchgraft._check.numeric.gradient import gradient
from torchgraft._check.target import make_target

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.zoo import ZOO  # noqa: E402
from tests.zoo.judge import alarms, causes, found, named, words  # noqa: E402

# -- three checkers ---------------------------------------------------------------------------------------------


def core(sample: Sample) -> str:
    """What the gradient check says."""
    try:
        found = list(gradient(Case(make_target(sample.function), sample.tensors)))
    except (Inconclusive, Skip) as why:
        return f"inconclusive: {why}"
    for finding in found:
        if finding.severity is not Verdict.INCONCLUSIVE:
            return f"found: {finding.code}, {finding.error} > {finding.estimate}"
    return f"inconclusive: {found[0].title}" if found else "pass"


def torch_gradcheck(sample: Sample, *, fast: bool) -> str:
    """What gradcheck says with its default tolerances, and the same random numbers in each call."""

    def seeded(*tensors: Tensor) -> Any:
        torch.manual_seed(0)
        return sample.function(*tensors)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that float32 is not precise enough
        try:
            return "pass" if gradcheck(seeded, sample.tensors, fast_mode=fast, raise_exception=False) else "found"
        except Exception as error:
            return f"found: {type(error).__name__}"


CHECKERS: dict[str, Callable[[Sample], str]] = {
    "core": core,
    "slow": functools.partial(torch_gradcheck, fast=False),
    "fast": functools.partial(torch_gradcheck, fast=True),
}


@dataclass
class Score:
    """What a checker said of many samples, and how long it took."""

    said: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def count(self, verdict: str) -> int:
        return sum(said.startswith(verdict) for said in self.said.values())

    def share(self, verdict: str) -> str:
        return f"{100 * self.count(verdict) / max(1, len(self.said)):.2f} %"


def judge(found: Iterable[Sample]) -> dict[str, Score]:
    """What each checker says of each sample."""
    scores = {name: Score() for name in CHECKERS}
    for sample in found:
        for name, checker in CHECKERS.items():
            start = time.process_time()
            scores[name].said[sample.name] = checker(sample)
            scores[name].seconds += time.process_time() - start
    return scores


# -- benchmarks -------------------------------------------------------------------------------------------------


def mutated(part: Part) -> list[Row]:
    kinds: dict[str, str] = {}
    operators = set()

    def every() -> Iterator[Sample]:
        for sample in part.of(samples(torch.float64, each=1)):
            for kind, mutant in mutants(sample):
                operators.add(sample.name.partition("#")[0])
                kinds[mutant.name] = kind
                yield mutant

    scores = judge(every())
    ours, slow, fast = scores["core"], scores["slow"], scores["fast"]
    part.show("missed", {name: said for name, said in ours.said.items() if not said.startswith("found")})
    for kind in MUTATIONS:
        of_kind = [name for name in kinds if kinds[name] == kind]
        counts = Counter({n: sum(s.said[m].startswith("found") for m in of_kind) for n, s in scores.items()})
        part.note(f"{kind}: {len(of_kind)} mutants, " + ", ".join(f"{n} {counts[n]}" for n in scores))
    found = ours.share("found")
    return [
        Row(f"{len(kinds)} mutants of the backwards of {len(operators)} operators, float64, found",
            found, f"`gradcheck` slow {slow.share('found')}, fast {fast.share('found')}", found, "99 %"),
        Row("time for those", f"{ours.seconds:.1f} s", f"slow {slow.seconds:.1f} s, fast {fast.seconds:.1f} s",
            f"{ours.seconds / slow.seconds:.2f} x slow", "0.33 x"),
    ]  # fmt: skip


def false_alarms(part: Part, dtype: torch.dtype, bar: str, *, alone: bool = False) -> list[Row]:
    tried = list(part.of(samples(dtype, each=2)))
    scores = judge(map(float32_only, tried) if alone else tried)
    ours, slow, fast = scores["core"], scores["slow"], scores["fast"]
    alarmed = {sample.name: sample for sample in tried if ours.said[sample.name].startswith("found")}
    rivals = {name: f"slow {slow.said[name]}, fast {fast.said[name]}" for name in slow.said}
    for verdict in ("found", "inconclusive"):
        said = {name: f"{said} ({rivals[name]})" for name, said in ours.said.items() if said.startswith(verdict)}
        part.show(verdict, said)
    title = f"alarms on {len(ours.said)} samples, {str(dtype).removeprefix('torch.')}"
    title += ", of operators that take nothing else" if alone else ""
    real = {name: lost(sample) for name, sample in alarmed.items() if lost(sample) > LOST}
    part.show("real: roundings of the dtype that are lost", {name: f"{size:.3g}" for name, size in real.items()})
    false = f"{100 * (len(alarmed) - len(real)) / max(1, len(ours.said)):.2f} %"
    found, unsure = ours.share("found"), ours.share("inconclusive")
    return [
        Row(title, f"{found}, {len(real)} of {len(alarmed)} real losses of digits",
            f"slow {slow.share('found')}, fast {fast.share('found')}", f"{false} false", bar),
        Row("inconclusive", unsure, "", unsure, "2 %"),
        Row("time for those", f"{ours.seconds:.1f} s", f"slow {slow.seconds:.1f} s, fast {fast.seconds:.1f} s",
            f"{ours.seconds / slow.seconds:.2f} x slow", ""),
    ]  # fmt: skip


def float32_only(sample: Sample) -> Sample:
    """The same as if its kernel took no float64."""

    def function(*tensors: Tensor) -> Any:
        if any(t.dtype in (torch.float64, torch.complex128) for t in tensors):
            raise TypeError("float32 only")
        return sample.function(*tensors)

    return Sample(sample.name, function, sample.tensors)


LARGE: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "conv2d, 492 inputs": (torch.nn.functional.conv2d, ((2, 3, 8, 8), (4, 3, 3, 3))),
    "softmax, 32 x 32": (lambda x: x.softmax(-1), ((32, 32),)),
    "mse_loss, 2000 inputs": (torch.nn.functional.mse_loss, ((1000,), (1000,))),
}


def large(part: Part) -> list[Row]:
    return [row for name, (function, shapes) in part.of(LARGE.items()) for row in _large(name, function, shapes)]


def _large(name: str, function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...]) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    tensors = tuple(torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes)
    calls = itertools.count()

    def counted(*given: Tensor) -> Tensor:
        next(calls)
        return function(*given)

    sample = Sample(name, counted, tensors)
    times: dict[str, list[float]] = {"core": [], "slow": []}
    forwards = {}
    for _ in range(3):
        for checker, taken in times.items():
            before, start = next(calls), time.process_time()
            if (said := CHECKERS[checker](sample)) != "pass":
                raise AssertionError(f"{checker} on {name}: {said}")
            taken.append(time.process_time() - start)
            forwards[checker] = next(calls) - before - 1
    ours, slow = (statistics.median(taken) for taken in times.values())
    return [
        Row(f"{name}: forward calls", str(forwards["core"]), f"slow {forwards['slow']}",
            f"{forwards['slow'] / forwards['core']:.0f} x fewer", "20 x"),
        Row("time", f"{ours * 1e3:.1f} ms", f"slow {slow * 1e3:.0f} ms", f"{slow / ours:.0f} x faster", "15 x"),
    ]  # fmt: skip


def zoo(part: Part) -> list[Row]:
    """The wrong ones and their right versions, by all checks."""
    bugs = list(part.of(ZOO))
    scores = Counter[str]()
    for bug in bugs:
        inputs = bug.inputs or tuple
        wrong, right = (check(target, *inputs()) for target in (bug.wrong, bug.right))
        said = {"found": found(bug, wrong), "named": named(bug, wrong), "silent": not alarms(right)}
        scores.update(said)
        if not all(said.values()):
            part.note(f"zoo: {bug.name}: {said}; {words(wrong)}; {causes(wrong)}; {words(right)}")
    total = len(bugs)
    return [
        Row("planted bugs of the project's zoo, found", f"{scores['found']} of {total}", "",
            f"{100 * scores['found'] / total:.0f} %", "100 %"),
        Row("their cause named", f"{scores['named']} of {total}", "", f"{100 * scores['named'] / total:.0f} %", "80 %"),
        Row("alarms on their right versions", f"{total - scores['silent']} of {total}", "",
            f"{total - scores['silent']}", "0"),
    ]  # fmt: skip


def gallery(part: Part) -> list[Row]:
    """All checks of each operator of the gallery."""
    entries = [entry for path in sorted((ROOT / "examples").glob("*.py")) for entry in collect(str(path))]
    operators = [(e.target().origin,) for e in entries if e.kind == "operator" and not e.why_not]
    times = _seconds("gallery", part, operators)
    within = sum(seconds <= 2 for seconds in times)
    return [
        Row(f"all checks, each of the gallery's {len(times)} operators, median", f"{statistics.median(times):.2f} s",
            "", f"{within} of {len(times)} within 2 s", "0.5 s"),
        Row("the slowest", f"{max(times):.2f} s", "", f"{max(times):.2f} s", ""),
    ]  # fmt: skip


def functions(part: Part) -> list[Row]:
    """All checks of each right Function of the zoo, and of one with many outputs."""
    times = _seconds("functions", part, [(b.right, *b.inputs()) for b in ZOO if b.inputs and _is_bare(b.right)])
    many = torch.randn(300_000, dtype=torch.float64, requires_grad=True)
    long = statistics.median(_seconds("functions", part, [(Sine.apply, many)] * 3))
    return [
        Row(f"all checks, each of the zoo's {len(times)} right Functions, median",
            f"{statistics.median(times):.2f} s", "", f"{max(times):.1f} s at most", "0.25 s"),
        Row("all checks, a Function with 300,000 outputs", f"{long:.1f} s", "", f"{long:.1f} s", "5 s"),
    ]  # fmt: skip


def _is_bare(target: Any) -> bool:
    return make_target(target).kind == "function"


class Sine(torch.autograd.Function):
    """The sine, as people write it."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.cos()


def _seconds(what: str, part: Part, calls: Sequence[tuple[Any, ...]]) -> list[float]:
    """The CPU time of each check, its child processes' too, in a process that has its imports behind it."""
    check(*calls[0])
    times = []
    for call in part.of(calls):
        start = _cpu_time()
        report = check(*call)
        times.append(_cpu_time() - start)
        report.raise_if_failed()
        part.note(f"{what}: {report.target}: {times[-1]:.2f} s")
    return times


def _cpu_time() -> float:
    return sum(os.times()[:4])


BENCHMARKS: dict[str, Callable[[Part], list[Row]]] = {
    "mutants": mutated,
    "float64": functools.partial(false_alarms, dtype=torch.float64, bar="0.2 %"),
    "float32": functools.partial(false_alarms, dtype=torch.float32, bar="0.5 %"),
    "float32-alone": functools.partial(false_alarms, dtype=torch.float32, bar="", alone=True),
    "large": large,
    "gallery": gallery,
    "functions": functions,
    "zoo": zoo,
}


# -- the command line -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part of all samples, and whether single ones are to be told of."""

    number: int
    parts: int

    def of(self, found: Iterable[Any]) -> Iterator[Any]:
        return itertools.islice(found, self.number - 1, None, self.parts) if self.parts > 1 else iter(found)

    def show(self, what: str, said: dict[str, str]) -> None:
        for name, text in said.items():
            self.note(f"{what}: {name}: {text}")

    def note(self, text: str) -> None:
        print(text, flush=True)

    @staticmethod
    def parse(text: str) -> Part:
        number, _, parts = text.partition("/")
        return Part(int(number), int(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument(
        "--part", type=Part.parse, default=Part(1, 1), metavar="I/N", help="every N-th sample from the I-th"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [row for name in options.names or BENCHMARKS for row in BENCHMARKS[name](options.part)]
    lines = ["| | torchgraft | `gradcheck` | result | bar |", "|---|---|---|---|---|"]
    lines += [f"| {row.what} | {row.ours} | {row.rival} | **{row.result}** | {row.bar} |" for row in rows]
    text = "\n".join([*lines, "", f"PyTorch's OpInfo samples; {machine()}."])
    print(text)
    if options.write:
        write("check", text)


if __name__ == "__main__":
    main()
