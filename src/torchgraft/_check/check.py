"""`check`: prove a derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _torch
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
    compilers: bool = False,
    inductor: bool = False,
    accuracy: float | None = None,
    surrogate: Mapping[str, Callable[..., Any]] | None = None,
    device: str = "cpu",
    progress: Callable[[str], None] | bool | None = None,
) -> Report:
    """Prove that a derivative is right, or say what is wrong with it.

    The backward pass is compared with differences of the forward pass, whose errors are estimated, so that there is
    no tolerance to choose; then come checks of what PyTorch expects everyone to keep: layouts, subsets of inputs
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
        compilers: run `torch.compile`, `torch.export` and `torch.library.opcheck` too, which take a second each; by
            default operators are only traced, with fake tensors.
        inductor: run `torch.compile` with its default backend too, which takes seconds.
        accuracy: to which the values are right, relative to the largest element of each output, where the target has a
            tolerance of its own: an adaptive solver, a quadrature, an iteration. Everything is compared at it, and the
            headline says so. That of an operator by default, else the dtype's.
        surrogate: for arguments, by their names in the report, functions whose derivative is meant in the place of the
            target's own: ``{"x": smooth}``, with the same arguments and outputs. The rule is proved against it, and the
            headline says so. A module's may be a module with the same parameters, or name those that it asks for.
        device: that the tensors of the calls are taken to, as ``"cuda"``, those given and those generated; on the
            CPU, given ones stay where they are. Parameters of a module stay where they are, too.
        progress: a function that is told the name of each check before it begins. Without one, a terminal or a
            notebook shows a line while the checks run, if they take more than a second: True shows it at once, False
            never.

    Returns:
        What was tried, and what was found.

    Raises:
        ArgumentError: the target cannot be checked, or is no operator and has no inputs; a check does not exist;
            `accuracy` is not between 0 and 1, a surrogate is of no argument, or the device is not there.
        ShapeError: a surrogate returns something else than the target.

    Example:
        >>> report = tg.check(linear)
        >>> report.ok
        True
        >>> print(tg.check(Sin.apply, torch.randn(4, dtype=torch.float64)))
    """
    # Imported here, since most programs check nothing.
    from .checks.table import chosen
    from .clock import Clock
    from .endless import GUARD
    from .prepare import prepare
    from .progress import reporting
    from .runner import run
    from .target import make_target

    checks = chosen(only, skip, compilers=compilers, inductor=inductor)
    with reporting(progress) as tell, _torch.without_onlookers(), GUARD.installed(first=not inputs and not kwargs):
        prepared = prepare(
            make_target(target, name=name, accuracy=accuracy, surrogate=surrogate),
            inputs,
            kwargs,
            seed=seed,
            clock=Clock(budget),
            device=device,
        )
        ran = list(run(checks, prepared.cases, prepared.clock, tell)) if prepared.cases else []
    return Report(
        prepared.target.name, prepared.target.kind, [*prepared.results, *ran], seed, prepared.target.declared.words
    )
