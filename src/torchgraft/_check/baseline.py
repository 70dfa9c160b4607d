"""A case in the plainest of calls, and how far another right way to compute the same may be from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .case import Case, Linearization
from .finding import Finding, Inconclusive, Skip, Verdict
from .late import alike

Value = Tensor | None

ROUNDED = 2.0**-10
"""A part of results that rounding what torch computes may change; where it changes more, it has chosen a branch."""


HALVES, FEW_ULPS = (torch.bfloat16, torch.float16), 4
"""Dtypes of few digits, the fewest first; and the accuracy of what is computed in them, in units of the last place."""


@dataclass(frozen=True)
class Baseline:
    """Outputs and gradients of the plain call: contiguous tensors, all of which require grad.

    Attributes:
        case: the case.
        outputs: its differentiable outputs.
        cotangents: one for each output, none of whose entries is near 0; None where the output does not require grad.
        gradients: one for each primal; None where none flows.
        output_slack: for each output, how far apart two right evaluations may be.
        gradient_slack: the same for each gradient.
        gradient_scale: for each gradient the size of the numbers that it may be computed from.
        random: whether the target draws from torch's global generator.
        narrow: the dtype of few digits that it computes in, where its arguments and outputs have more.
    """

    case: Case
    outputs: list[Tensor]
    cotangents: list[Value]
    gradients: list[Value]
    output_slack: list[float]
    gradient_slack: list[float]
    gradient_scale: list[float]
    random: bool
    narrow: torch.dtype | None

    @property
    def conditioned(self) -> bool:
        """True if rounding the arguments leaves most digits of the values."""
        epsilon = max(torch.finfo(primal.dtype).eps for primal in self.case.primals)
        sizes = [float(output.abs().max()) for output in self.outputs if output.numel()]
        return bool(max(self.output_slack, default=0.0) <= epsilon**0.375 * max(sizes, default=0.0))

    def output_name(self, index: int) -> str:
        """Return the name of an output in reports."""
        return self.case.target.output_names(len(self.outputs))[index]

    def gradient_name(self, index: int) -> str:
        """Return the name of a gradient in reports."""
        return f"the gradient of {self.case.names[index]}"

    def differing_outputs(self, found: Sequence[Value], expected: Sequence[Value] | None = None) -> list[Difference]:
        """List outputs that differ from those expected by more than rounding can, the worst first."""
        return _differing(found, self.outputs if expected is None else expected, self.output_slack, self.output_name)

    def differing_gradients(
        self,
        found: Sequence[Value],
        expected: Sequence[Value] | None = None,
        *,
        times: float = 1.0,
    ) -> list[Difference]:
        """List gradients that differ; `times` the slack where several are added."""
        expected, slack = self.gradients if expected is None else expected, [times * s for s in self.gradient_slack]
        return _differing(found, expected, slack, self.gradient_name)


@dataclass(frozen=True)
class Difference:
    """A result that is not what the plain call gave.

    Attributes:
        name: as reports call it.
        found: what the other call gave.
        expected: what the plain call gave.
        error: the largest deviation of an entry; infinite where shapes differ.
        slack: the deviation that rounding explains.
    """

    name: str
    found: Value
    expected: Value
    error: float
    slack: float

    def finding(self, code: str, title: str, where: str, **rest: Any) -> Finding:
        """The finding that this is."""
        return Finding(
            code,
            Verdict.FAIL,
            title,
            f"{self.name}; {where}",
            self.found,
            self.expected,
            self.error,
            self.slack,
            **rest,
        )


def _differing(
    found: Sequence[Value], expected: Sequence[Value], slack: Sequence[float], name: Callable[[int], str]
) -> list[Difference]:
    if len(found) != len(expected):
        return [Difference(f"{len(found)} results instead of {len(expected)}", None, None, float("inf"), 0.0)]
    rows = enumerate(zip(found, expected, slack, strict=True))
    measured = [Difference(name(i), a, b, distance(a, b), s) for i, (a, b, s) in rows]
    wrong = [difference for difference in measured if not difference.error <= difference.slack]
    return sorted(wrong, key=lambda d: d.slack - d.error)


def distance(found: Value, expected: Value) -> float:
    """The largest deviation of an entry, where None stands for zeros.

    Where something expected is NaN, no NaN is compared: 0 times infinity is one way to compute right, and to leave it
    out another.
    """
    if found is None and expected is None:
        return 0.0
    if found is None or expected is None:
        given = found if expected is None else expected
        assert given is not None
        found, expected = (torch.zeros_like(given) if t is None else t for t in (found, expected))
    found, expected = found.detach(), expected.detach()
    if found.shape != expected.shape or _torch.is_freed(found) or _torch.is_freed(expected):
        return float("inf")
    if found.dtype == expected.dtype and found.device == expected.device and torch.equal(found, expected):
        return 0.0  # Mostly they are the same, and to widen them takes ten times as long.
    wide = torch.complex128 if found.is_complex() or expected.is_complex() else torch.float64
    a, b = found.to(wide), expected.to(wide)
    same = a == b
    if b.isnan().any():
        same |= a.isnan() | b.isnan()
    gap = (a - b).abs().masked_fill(same, 0.0)
    return float(gap.nan_to_num(nan=float("inf"), posinf=float("inf")).max()) if gap.numel() else 0.0


def generator(case: Case, *salt: int) -> torch.Generator:
    """Random numbers of a case's own; the salt tells one use from another."""
    seed = case.seed
    for number in salt:
        seed = (seed * 1_000_003 + number + 1) % 2**63
    return torch.Generator().manual_seed(seed)


def signed(like: Tensor, source: torch.Generator) -> Tensor:
    """Random numbers of a tensor's shape and dtype with absolute values (of both parts) between 1/2 and 3/2."""
    real = like.real if like.is_complex() else like

    def draw() -> Tensor:
        drawn = torch.empty(like.shape, dtype=torch.float64).uniform_(-1, 1, generator=source)
        return drawn.add_(drawn.sign(), alpha=0.5).to(device=like.device, dtype=real.dtype)

    return torch.complex(draw(), draw()) if like.is_complex() else draw()


def cotangents_for(case: Case, outputs: Sequence[Tensor], salt: int = 0) -> list[Value]:
    """A random cotangent for each output that requires grad."""
    source = generator(case, 17, salt)
    return [signed(output.detach(), source) if output.requires_grad else None for output in outputs]


def baseline(case: Case) -> Baseline:
    """The baseline of a case; computed once.

    Raises:
        Inconclusive: no output requires grad, or the target raises for this case.
        Skip: no argument can have a derivative.
    """
    if "baseline" not in case.memo:
        case.memo["baseline"] = _measured(case)
    kept: Baseline | Exception = case.memo["baseline"]
    if isinstance(kept, Exception):
        raise kept.with_traceback(None)
    return kept


def _measured(case: Case) -> Baseline | Exception:
    try:
        return _measure(case)
    except (Skip, Inconclusive) as why:
        return why
    except Exception as error:
        return Inconclusive(f"the target raises: {short(error)}")


def _measure(case: Case) -> Baseline:
    if not case.primals:
        raise case.nothing_to_differentiate() or Skip("no argument can have a derivative")
    recorded = case.linearize()
    if not any(output.requires_grad for output in recorded.outputs):
        raise Inconclusive("no output requires grad")
    cotangents = cotangents_for(case, recorded.outputs)
    outputs = [output.detach().clone() for output in recorded.outputs]
    gradients = copies(recorded.vjp(cotangents))
    moved = [_moved(case, cotangents, sample) for sample in range(2)]
    scales = [scale_of(primal, outputs, cotangents) for primal in case.primals]
    moved += _rounded_on_the_way(case, cotangents, outputs, [*zip(gradients, scales, strict=True)])
    narrow = _narrow(case, outputs)
    accuracy = max(case.target.declared.error, 0.0 if narrow is None else FEW_ULPS * torch.finfo(narrow).eps)
    output_slack = [slack(value, [outs[i] for outs, _ in moved], accuracy) for i, value in enumerate(outputs)]
    gradient_slack = [
        slack(value, [grads[i] for _, grads in moved], accuracy)
        + (16 * torch.finfo(case.primals[i].dtype).eps + accuracy) * scales[i]
        for i, value in enumerate(gradients)
    ]
    return Baseline(case, outputs, cotangents, gradients, output_slack, gradient_slack, scales, draws(case), narrow)


def _rounded_on_the_way(
    case: Case, cotangents: Sequence[Value], outputs: Sequence[Tensor], scaled: Sequence[tuple[Value, float]]
) -> list[tuple[list[Tensor], list[Value]]]:
    """Outputs and gradients, where each result of an operation is rounded; nothing where that decides something.

    Args:
        scaled: gradients, each with the size of the numbers that it may be computed from.
    """
    try:
        with _torch.Rounding(generator(case, 31)):
            outs, gradients = _moved(case, cotangents, 2)
    except (Exception, _torch.TooMuch):
        return []
    gaps = [distance(a, b) / (_largest(b) or 1.0) for a, b in zip(outs, outputs, strict=True)]
    rows = zip(gradients, scaled, strict=True)
    gaps += [distance(a, b) / (max(_largest(b), scale) or 1.0) for a, (b, scale) in rows]
    return [(outs, gradients)] if max(gaps) <= ROUNDED else []


def _narrow(case: Case, outputs: Sequence[Tensor]) -> torch.dtype | None:
    """The dtype of few digits that values are computed in, where arguments and outputs have more; mostly None."""
    with contextlib.suppress(Exception, _torch.TooMuch), _torch.Rounding(generator(case, 31)) as rounding:
        case.values()
        if not any(value.dtype in HALVES for value in (*case.primals, *outputs)):
            return next((dtype for dtype in HALVES if dtype in rounding.dtypes), None)
    return None


def scale_of(primal: Tensor, outputs: Sequence[Tensor], cotangents: Sequence[Value]) -> float:
    """Return the size that a gradient has where the function is not flat: of <v, f(x)>, by that of x.

    What saturates is computed from numbers of this size, whose rounding stays when they cancel.
    """
    terms = [(o * c).flatten() for o, c in zip(outputs, cotangents, strict=True) if c is not None]
    products = torch.cat([term.abs().double() for term in terms])
    numbers = primal.abs()[primal.isfinite()]
    size = float(numbers.max()) if numbers.numel() else 1.0
    return float(torch.linalg.vector_norm(products[products.isfinite()])) / min(max(size, 2.0**-10), 1.0)


def draws(case: Case) -> bool:
    """Return True if a call draws from torch's global generator."""
    args, kwargs = case.arguments([primal.clone() for primal in case.primals])
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        case.target.function(*args, **kwargs)
        return not torch.equal(before, torch.get_rng_state())


def _moved(case: Case, cotangents: Sequence[Value], sample: int) -> tuple[list[Tensor], list[Value]]:
    """Outputs and gradients of numbers that were rounded otherwise, towards zero if the target refuses larger ones."""
    try:
        recorded = case.linearize(nudged(case, case.primals, sample))
    except Exception:
        recorded = case.linearize(nudged(case, case.primals, sample, inward=True))
    others = iter(nudged(case, [c for c in cotangents if c is not None], sample))
    outputs = [output.detach().clone() for output in recorded.outputs]  # Reversible blocks free them in the backward.
    return outputs, recorded.vjp([None if c is None else next(others) for c in cotangents])


def nudged(case: Case, tensors: Sequence[Tensor], sample: int, *, inward: bool = False) -> list[Tensor]:
    """Tensors whose numbers are moved by one or two units in the last place.

    Sample 0 moves neighbours apart, for what depends on their difference; the others move all at random.

    Args:
        case: with its target, whose sizes may hang on values.
        tensors: to be moved.
        sample: tells one move from another.
        inward: move all of them towards zero.
    """
    source = generator(case, 29, sample)
    return [_nudged(case, tensor, sample, source, inward) for tensor in tensors]


def _nudged(case: Case, tensor: Tensor, sample: int, source: torch.Generator, inward: bool) -> Tensor:
    if sample:
        steps = torch.randint(1, 3, tensor.shape, generator=source) * (
            torch.randint(0, 2, tensor.shape, generator=source) * 2 - 1
        )
    else:
        steps = (torch.arange(tensor.numel()) % 2 * 4 - 2).reshape(tensor.shape)
    steps = alike(case.target, -steps.abs() if inward else steps, tensor)
    units = steps.to(torch.float64) * torch.finfo(tensor.dtype).eps
    return (tensor * (1 + units)).to(tensor.dtype)


def slack(value: Value, moved: Sequence[Value], accuracy: float = 0.0, units: int = 64) -> float:
    """Return the error of a result by rounding, and by the accuracy that is declared of both that are compared.

    A backward stable algorithm's error is that of inputs rounded otherwise, and 16 times what two such samples show
    covers its constants; so many units of the result's largest entry cover what is rounded on the way.
    """
    if value is None or not value.numel() or not (value.is_floating_point() or value.is_complex()):
        return 0.0
    largest = _largest(value)
    observed = [d for d in (distance(other, value) for other in moved) if d != float("inf")]
    return 16 * max(observed, default=0.0) + (units * torch.finfo(value.dtype).eps + 2 * accuracy) * largest


def _largest(value: Value) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    finite = torch.zeros(0) if value is None else value.abs()[value.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def copies(values: Sequence[Value]) -> list[Value]:
    """Copies that are detached from any graph."""
    return [None if value is None else value.detach().clone() for value in values]


def vjp_of(recorded: Linearization, base: Baseline) -> list[Value]:
    """The gradients of a recorded call for copies of the baseline's cotangents."""
    return recorded.vjp(base.cotangents)


def short(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 160 else text[:157] + '...'}"
