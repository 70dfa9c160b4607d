"""The checks: what each is called, what holds when it passes, and on how many cases it runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ...errors import ArgumentError
from ..case import Case
from ..finding import Finding
from ..numeric.gradient import gradient
from .backward import freed, linearity, outputs, returned, subsets
from .caches import caches
from .calls import captures, determinism, modes, randomness
from .combinations import combinations
from .compilers import compiled, exported, fake, opcheck, traced
from .layouts import autocast, gradients, inputs
from .leaks import leaks
from .memory import aliasing, mutation
from .mesh import parts
from .options import other_options
from .orders import second_order, tangents
from .reference import reference
from .sizes import other_sizes, ties
from .state import state
from .switches import switches
from .threads import threads
from .unwritten import unwritten
from .values import values
from .vmap import mapped
from .writing import writing

Look = Callable[[Case], Iterator[Finding]]


@dataclass(frozen=True)
class Check:
    """One check of a derivative.

    Attributes:
        name: stable, for options and reports, such as ``"vmap"``.
        title: what holds when it passes, one sentence.
        look: yields what is wrong; raises `Skip` or `Inconclusive` with the reason.
        cost: ``every`` runs on all cases, ``cheap`` on a few, ``once`` on one.
        probes: what it does that has ended processes: it passes ``batches`` of cotangents to a backward that may not
            know of them, differentiates at ``sizes`` that nobody gave, or calls ``forwards`` at such sizes. One that
            does so in ``children`` of its own needs no other.
        needs: the option without which it does not run: a compiler takes a second, Inductor several.
        despite_noise: what it finds is wrong also where the same call differs from itself; others compare calls.
    """

    name: str
    title: str
    look: Look
    cost: Literal["every", "cheap", "once"] = "cheap"
    needs: Literal["", "compilers", "inductor"] = ""
    probes: Literal["", "batches", "sizes", "forwards", "children"] = ""
    despite_noise: bool = False


CHECKS = (
    Check(
        "gradient", "The backward pass gives the derivative of the forward pass.", gradient, "every", despite_noise=True
    ),
    Check(
        "aliasing",
        "Results lie in memory of their own, and what is overwritten later does not become a wrong gradient.", aliasing,
    ),
    Check("autocast", "Under autocast the backward runs, and gradients are right to bfloat16's digits.", autocast),
    Check("captures", "What requires grad and is used is an argument.", captures),
    Check(
        "determinism", "The same call gives the same bits again, forward and backward.", determinism, despite_noise=True
    ),
    Check("layouts of inputs", "Results do not depend on how the inputs lie in memory.", inputs),
    Check("layouts of gradients", "Gradients do not depend on how the upstream gradients lie in memory.", gradients),
    Check("freed", "A second backward over the same graph gives the same, or raises once the graph was freed.", freed),
    Check("linearity", "The backward is linear in the upstream gradient.", linearity),
    Check("forward mode", "The tangent is the derivative along a direction: <v, J u> = <v J, u>.", tangents),
    Check(
        "vmap", "Mapped over samples it gives what a loop gives, and so do its derivatives.", mapped, probes="batches"
    ),
    Check(
        "mesh", "Applied to the parts into which a mesh may cut a call, it gives the parts of the result.", parts,
        probes="forwards",
    ),
    Check(
        "modes", "Values do not depend on whether anything is recorded, and a checkpointed call has the same gradient.",
        modes,
    ),
    Check(
        "mutation", "Inputs, saved tensors and upstream gradients stay as they were.", mutation, despite_noise=True
    ),
    Check("writing", "In place, an operator that writes gives what it gives on copies.", writing, probes="forwards"),
    Check("outputs", "Each output alone gives the gradient that it gives with zeros for the others.", outputs),
    Check(
        "randomness",
        "No backward seeds torch's generator, no operator draws from it unsaid, and another seed draws other numbers.",
        randomness, despite_noise=True,
    ),
    Check("reference", "Values are those of the reference, and of the kernel for other devices.", reference),
    Check("returned", "A backward returns gradients of the inputs' own shapes and dtypes.", returned),
    Check("second order", "The backward can be differentiated, or refuses to be.", second_order, despite_noise=True),
    Check("state", "A call is not changed by the calls around it.", state, probes="forwards"),
    Check(
        "switches", "Calls leave the switches of torch, NumPy and the processor as they were.", switches, "once",
        probes="forwards",
    ),
    Check("subsets", "Gradients do not depend on which other inputs require grad.", subsets),
    Check(
        "unwritten", "No result depends on memory that nobody has written.", unwritten, probes="forwards",
        despite_noise=True,
    ),
    Check("values", "The values have the digits of their dtype, or those that are declared.", values),
    Check("options", "The gradient is right with other options too.", other_options, "once", probes="forwards"),
    Check("sizes", "The gradient is right at other sizes too.", other_sizes, "once", probes="sizes"),
    Check(
        "combinations",
        "Gradients are right for other values, sizes, precisions and ways to call, and for pairs of them.",
        combinations, "once", probes="forwards",
    ),
    Check(
        "caches", "What is kept between calls, such as a table, is of the same options and dtypes.",
        caches, "once", probes="children",
    ),
    Check(
        "fake", "Fake and meta tensors have the shape, strides and dtype of the real result.",
        fake, "once", probes="forwards",
    ),
    Check("leaks", "Memory is given back when the last result is dropped.", leaks, "once"),
    Check("threads", "Calls in several threads do not disturb each other.", threads, "once"),
    Check("ties", "The gradient is right where elements are equal.", ties, "once"),
    Check("trace", "Traced forward and backward, without a compiler, an operator gives the same.", traced, "once"),
    Check(
        "compile", "Traced for a compiler it gives what it gives in eager code.",
        partial(compiled, backend="aot_eager"), "once", "compilers", "forwards",
    ),
    Check("export", "Exported, saved and loaded it gives the same values.", exported, "once", "compilers"),
    Check("opcheck", "torch.library.opcheck passes.", opcheck, "once", "compilers"),
    Check(
        "inductor", "Compiled by Inductor it gives what it gives in eager code.",
        partial(compiled, backend="inductor"), "once", "inductor", "forwards",
    ),
)  # fmt: skip
"""All checks, in the order in which they run: the cheap ones first."""

NAMED = {check.name: check for check in CHECKS}


def chosen(
    only: str | Iterable[str] = (), skip: str | Iterable[str] = (), *, compilers: bool = False, inductor: bool = False
) -> list[Check]:
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
    given = {"": True, "compilers": compilers, "inductor": inductor}
    return [
        check for check in CHECKS if check.name not in skip and (check.name in only if only else given[check.needs])
    ]
