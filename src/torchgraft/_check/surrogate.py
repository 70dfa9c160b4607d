"""Surrogates of a case: the same arguments, for the functions whose derivative is meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from .._errors import ArgumentError, ShapeError
from .case import Case, describe
from .target import Target, make_target


def surrogates(case: Case) -> dict[int, Case]:
    """The case of a surrogate for each primal that has one."""
    declared = case.target.declared.surrogates.items()
    return {
        i: case.calling(_on_the_same(case.target, of))
        for i, name in enumerate(case.names)
        for argument, of in declared
        if name == argument or name.startswith(f"{argument}[")
    }


def require_surrogates(cases: Sequence[Case]) -> None:
    """Make sure that surrogates are of arguments that there are, and return what the target returns.

    Raises:
        ArgumentError: a name is of no argument that may have a derivative, or a surrogate raises.
        ShapeError: a surrogate returns other shapes.
    """
    if not cases or not cases[0].target.declared.surrogates:
        return
    known = dict.fromkeys(name for case in cases for name in case.names)
    for argument in cases[0].target.declared.surrogates:
        if not any(name == argument or name.startswith(f"{argument}[") for name in known):
            raise ArgumentError(
                "there is no argument of this name that may have a derivative", operator=cases[0].target.name,
                argument="surrogate", expected=", ".join(known), got=argument,
            )  # fmt: skip
    wanted = [describe(value) for value in cases[0].values()]
    for i, case in surrogates(cases[0]).items():
        try:
            found = [describe(value) for value in case.values()]
        except Exception as error:
            raise ArgumentError(
                f"the surrogate of '{case.names[i]}' raises", operator=case.target.name, argument="surrogate",
                expected="a function on the same arguments", got=f"{type(error).__name__}: {error}",
            ) from error  # fmt: skip
        if found != wanted:
            raise ShapeError(
                f"the surrogate of '{case.names[i]}' returns something else", operator=case.target.name,
                argument="surrogate", expected=", ".join(wanted), got=", ".join(found),
            )  # fmt: skip


def _on_the_same(target: Target, of: Callable[..., Any]) -> Callable[..., Any]:
    """A surrogate as a function of what the target's function takes: a module's takes the parameters first."""
    if target.kind != "module":
        return of if isinstance(of, nn.Module) else make_target(of).function
    made = make_target(of)
    if made.kind == "module":
        return made.function

    def call(parameters: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        asked = {name: value for name, value in parameters.items() if name in made.parameters}
        return made.function(*args, **kwargs, **asked)

    return call
