"""Eager code against compiled code, forward and backward."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Value, baseline
from ..case import Case, differentiable
from ..claims import Refused, attempt, refusal, unclaimed
from ..finding import Finding, Skip
from ..points import nearby
from ..resize import resized


def aot_eager(case: Case) -> Iterator[Finding]:
    """Compile with ``backend="aot_eager"``, which traces forward and backward and generates no code."""
    yield from _compiled(case, "aot_eager")


def inductor(case: Case) -> Iterator[Finding]:
    """Compile with the default backend."""
    yield from _compiled(case, "inductor")


def _compiled(case: Case, backend: str) -> Iterator[Finding]:
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers, and compiled code draws others")
    with quiet_compiler():
        function = torch.compile(case.target.function, backend=backend)
        try:
            found = attempt(lambda: _run(case, function, base.cotangents))
        except Refused as why:
            yield from refusal(case, "compile", why)
            return
        yield from unclaimed(case, "compile")
        wrong = list(_compare(base, *found, f"backend={backend!r}"))
        yield from wrong
        if not wrong:
            yield from _again(case, function, backend)


def _again(case: Case, function: Callable[..., Any], backend: str) -> Iterator[Finding]:
    """The same compiled function at another size, for which it is compiled with dynamic ones."""
    other = _other_size(case)
    if other is None:
        return
    base = baseline(other)
    with contextlib.suppress(Refused):
        found = attempt(lambda: _run(other, function, base.cotangents))
        yield from _compare(base, *found, f"backend={backend!r}, at a second size")


def _other_size(case: Case) -> Case | None:
    """A case with the largest axis longer by two, if the target takes it."""
    if case.target.kind == "module" or not case.primals:
        return None
    size = max((n for primal in case.primals for n in primal.shape), default=0)
    if not size:
        return None
    larger = resized(case, size, size + 2)
    try:
        larger = larger.replaced(nearby(larger, spread=2.0**-3))
        baseline(larger)
    except Exception:
        return None
    return larger


def _run(case: Case, function: Callable[..., Any], cotangents: Sequence[Value]) -> tuple[list[Tensor], list[Value]]:
    """Outputs and gradients; the arguments are made outside of what is compiled."""
    leaves = [primal.clone().requires_grad_() for primal in case.primals]
    args, kwargs = case.arguments(leaves)
    made = [leaf for leaf in _torch.pytree.tree_leaves(function(*args, **kwargs)) if differentiable(leaf)]
    outputs = [leaf if leaf.layout == torch.strided else leaf.to_dense() for leaf in made]
    pairs = [(o, c.clone()) for o, c in zip(outputs, cotangents, strict=True) if c is not None and o.requires_grad]
    if not pairs:
        return [output.detach() for output in outputs], [None] * len(leaves)
    found = torch.autograd.grad([o for o, _ in pairs], leaves, [c for _, c in pairs], allow_unused=True)
    return [output.detach() for output in outputs], list(found)


def _compare(base: Baseline, outputs: list[Tensor], gradients: list[Value], how: str) -> Iterator[Finding]:
    where = f"torch.compile, {how}; {base.case.label}"
    for difference in base.differing_outputs(outputs):
        yield difference.finding(
            "compiled-output", "An output of compiled code is another than in eager code", where,
            cause="the fake kernel, or something that was traced once and stays as it was", hint=HINT,
        )  # fmt: skip
    for difference in base.differing_gradients(gradients):
        yield difference.finding(
            "compiled-gradient", "A gradient of compiled code is another than in eager code", where,
            cause="the backward depends on numbers or sizes that tracing took for constants", hint=HINT,
        )  # fmt: skip


HINT = "compute with tensors only, and keep numbers that depend on them out of ctx"


@contextlib.contextmanager
def quiet_compiler() -> Iterator[None]:
    """Within, compilers begin without a memory of what they compiled, and say nothing; nor do they keep any."""
    torch.compiler.reset()
    try:
        with _torch.quiet_compilers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.compiler.reset()
