"""`check`: prove a derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .report.report import Report


def check(
    target: Any,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    seed: int = 0,
    budget: float | None = None,
    only: str | Iterable[str] = (),
    skip: str | Iterable[str] = (),
    inductor: bool = False,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Prove that a derivative is right, or say what is wrong with it.

    The backward pass is compared with differences of the forward pass, whose errors are estimated, so that there is
    no tolerance to choose; then come the contracts that PyTorch expects everyone to keep: layouts, subsets of inputs
    that require grad, mutation, aliasing, forward mode, second order, `vmap`, compilers, threads, leaks, and more.

    Args:
        target: an operator, a Function or its ``apply``, an operator of `torch.library`, a module, or a function on
            tensors.
        inputs: its positional arguments, of any types. Tensors that require grad are differentiated; if none does,
            all floating and complex ones. Parameters of a module always are. Without inputs they are generated from
            the annotations of an operator, in its declared domain; and any target may have samples: a function
            ``samples`` that yields calls, as that of `Op.samples`.
        kwargs: its keyword arguments.
        name: for the report.
        seed: of all random numbers.
        budget: seconds; what was not tried then is listed in the report. A call that has begun is not interrupted.
        only: the check to run, such as ``"gradient"``, or several; all by default.
        skip: those to leave out.
        inductor: run the checks that need `torch.compile`'s default backend too, which take seconds each.
        progress: is told the name of each check before it begins.

    Returns:
        What was tried, and what was found.

    Raises:
        ArgumentError: the target cannot be checked, or is no operator and has no inputs, or a check does not exist.

    Example:
        >>> report = tg.check(linear)
        >>> report.ok
        True
        >>> print(tg.check(Sin.apply, torch.randn(4, dtype=torch.float64)))
    """
    # Imported here, since most programs check nothing.
    from .checks.table import chosen
    from .clock import Clock
    from .prepare import prepare
    from .runner import run
    from .target import make_target

    checks = chosen(only, skip, inductor=inductor)
    prepared = prepare(make_target(target, name=name), inputs, kwargs, seed=seed, clock=Clock(budget))
    ran = run(checks, prepared.cases, prepared.clock, progress) if prepared.cases else ()
    return Report(prepared.target.name, prepared.target.kind, [*prepared.results, *ran], seed)
