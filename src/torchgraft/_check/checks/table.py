"""The checks: what each is called, what holds when it passes, and on how many cases it runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ..._errors import ArgumentError
from ..case import Case
from ..finding import Finding
from ..numeric.gradient import gradient
from .aliasing import aliasing, mutation
from .autocast import autocast
from .backward import freed, linearity, outputs, returned, subsets
from .compilers import aot_eager, exported, fake, inductor, opcheck
from .layouts import gradients, inputs
from .memory import leaks, threads
from .orders import second_order, tangents
from .repetition import captures, determinism, modes, randomness, state
from .sizes import other_sizes, reference, ties
from .vmap import mapped

Look = Callable[[Case], Iterator[Finding]]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: stable, for options and reports, such as ``"vmap"``.
        title: what holds when it passes, one sentence.
        look: yields what is wrong; raises `Skip` or `Inconclusive` with the reason.
        cost: ``every`` runs on all cases, ``cheap`` on a few, ``once`` on one, ``inductor`` on one when asked for.
    """

    name: str
    title: str
    look: Look
    cost: Literal["every", "cheap", "once", "inductor"] = "cheap"


CHECKS = (
    Check("gradient", "The backward pass gives the derivative of the forward pass.", gradient, "every"),
    Check(
        "aliasing",
        "Results lie in memory of their own, and what is overwritten later does not become a wrong gradient.",
        aliasing,
    ),
    Check("autocast", "Under autocast the backward runs, and gradients are right to bfloat16's digits.", autocast),
    Check("captures", "What requires grad and is used is an argument.", captures),
    Check("determinism", "The same call gives the same bits again, forward and backward.", determinism),
    Check("layouts of inputs", "Results do not depend on how the inputs lie in memory.", inputs),
    Check("layouts of gradients", "Gradients do not depend on how the upstream gradients lie in memory.", gradients),
    Check("freed", "A second backward over the same graph gives the same, or raises once the graph was freed.", freed),
    Check("linearity", "The backward is linear in the upstream gradient.", linearity),
    Check("forward mode", "The tangent is the derivative along a direction: <v, J u> = <v J, u>.", tangents),
    Check("vmap", "Mapped over samples it gives what a loop gives, and so do its derivatives.", mapped),
    Check(
        "modes",
        "Values do not depend on whether anything is recorded, and a checkpointed call has the same gradient.",
        modes,
    ),
    Check("mutation", "Inputs, saved tensors and upstream gradients stay as they were.", mutation),
    Check("outputs", "Each output alone gives the gradient that it gives with zeros for the others.", outputs),
    Check("randomness", "An operator draws no random numbers behind the back of compilers.", randomness),
    Check("reference", "The operator's values are those of its reference.", reference),
    Check("returned", "A backward returns gradients of the inputs' own shapes and dtypes.", returned),
    Check("second order", "The backward can be differentiated, or refuses to be.", second_order),
    Check("state", "A call is not changed by the calls around it.", state),
    Check("subsets", "Gradients do not depend on which other inputs require grad.", subsets),
    Check("compile", "Traced for a compiler it gives what it gives in eager code.", aot_eager, "once"),
    Check("export", "Exported, saved and loaded it gives the same values.", exported, "once"),
    Check("sizes", "The gradient is right at other sizes too.", other_sizes, "once"),
    Check("fake", "Fake and meta tensors have the shape, strides and dtype of the real result.", fake, "once"),
    Check("leaks", "Memory is given back when the last result is dropped.", leaks, "once"),
    Check("opcheck", "torch.library.opcheck passes.", opcheck, "once"),
    Check("threads", "Calls in several threads do not disturb each other.", threads, "once"),
    Check("ties", "The gradient is right where elements are equal.", ties, "once"),
    Check("inductor", "Compiled by Inductor it gives what it gives in eager code.", inductor, "inductor"),
)
"""All checks, in the order in which they run: the cheap ones first."""

NAMED = {check.name: check for check in CHECKS}


def chosen(only: str | Iterable[str] = (), skip: str | Iterable[str] = (), *, inductor: bool = False) -> list[Check]:
    """Choose the checks to run: all or those that are named, without those that cost a compiler unless asked for.

    Raises:
        ArgumentError: there is no check of a name.
    """
    only, skip = ({names} if isinstance(names, str) else set(names) for names in (only, skip))
    for name in sorted((only | skip) - set(NAMED)):
        near = difflib.get_close_matches(name, NAMED, n=3, cutoff=0.4)
        raise ArgumentError(
            "there is no such check",
            argument="only, skip",
            expected=", ".join(NAMED),
            got=name,
            hint=f"perhaps {' or '.join(near)}" if near else None,
        )
    found = [check for check in CHECKS if (not only or check.name in only) and check.name not in skip]
    return [check for check in found if check.cost != "inductor" or inductor or check.name in only]
