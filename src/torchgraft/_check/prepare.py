"""The cases that a check begins with, and findings about how they were made."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._locate import own_line
from ..errors import ArgumentError, BuildError, KernelError, ShapeError
from .baseline import short
from .case import Case, describe
from .cause.faults import with_faults
from .children import survive
from .clock import Clock, OutOfTime
from .code import is_native
from .ended import Ended, staying
from .endless import endless
from .finding import Finding, Verdict
from .generate.inputs import Inputs, Refusal, attempt, is_deliberate, make_case
from .numeric.gradient import is_shown_wrong
from .report.result import Result
from .target import Target, copied
from .variations import admitted, unequal

CASES = 24
"""Generated cases of one target."""

STEP = 2.0**-11
"""By which given tensors are moved a little, to see whether the target takes other values."""

SHARE = 1 / 3
"""The part of the budget after which no more of them are made."""


@dataclass
class Prepared:
    """A target that is ready to be checked.

    Attributes:
        target: what was given.
        clock: which its cases keep to.
        cases: plain ones first; none where it took no arguments.
        results: what the reader should know of them.
    """

    target: Target
    clock: Clock
    cases: list[Case] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


def prepare(
    target: Target,
    inputs: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    seed: int,
    clock: Clock,
    device: str = "cpu",
) -> Prepared:
    """The case that the caller gave, or generated ones.

    Args:
        target: what is called.
        inputs: of the caller's.
        kwargs: of the caller's.
        seed: of what is generated.
        clock: of the check.
        device: that tensors are taken to, given ones and generated ones.

    Raises:
        ArgumentError: the device is not there; or there are no inputs, and no annotations that say what the target
            takes.
    """
    require_device(device, "device")
    made = Prepared(target, clock)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Warnings of a target under odd inputs are not looked for.
        try:
            with staying():  # Samples are code of the user's too.
                if inputs or kwargs:
                    _give(made, inputs, kwargs or {}, seed, device)
                else:
                    _generate(made, seed, device, apart=_may_die(made, seed, device))
        except Ended as end:
            made.results.append(end.result("samples"))
        except _torch.TooMuch as stopped:
            made.results.append(endless(stopped).result("samples"))
        except OutOfTime:
            note = f"not all was tried: the {clock.budget:.3g} s were over after {len(made.cases)} cases were made"
            made.results.append(Result("samples", SAMPLES, Verdict.INCONCLUSIVE, note=note))
        _require_surrogates(made.cases)
        _note_straight_through(made.cases)
    return made


def require_device(device: str, argument: str) -> None:
    """Raise an `ArgumentError` if there is no such device."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError("cannot be used", argument=argument, expected="cpu, cuda, ...", got=reason) from error


def _give(made: Prepared, inputs: Sequence[Any], kwargs: Mapping[str, Any], seed: int, device: str) -> None:
    """The caller's case, if the target takes it; tensors for which it refuses a gradient are left out, and named so.

    Those that it takes at no other values are left out as well, and that is no pass.
    """

    def make() -> Case:
        watched = made.clock.watch(made.target)
        return _moved(make_case(watched, inputs, kwargs, seed=seed), watched, device)

    case = make()
    refused = attempt(case, apart=is_native(case.target))
    if refused is not None:
        made.results.append(_refused(made.target, Refusal(case, case.label, refused, sample=False, deliberate=True)))
        return
    if case.target.kind == "module" and (written := _written_first(case)):
        raise ArgumentError(
            "sets parameters in its first call", argument="target", expected="a module that was called once",
            got=f"{made.target.name} with {', '.join(written)}", hint="call it once on the arguments, then check it",
        )  # fmt: skip
    given = _torch.pytree.tree_leaves((inputs, kwargs))
    marked = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in given)
    if not marked and (data := _data_among(case)):
        declared = replace(made.target.declared, left_out=(*made.target.declared.left_out, *sorted(data)))
        made.target = replace(made.target, constants=made.target.constants | data, declared=declared)
        case = make()
    if not marked and (stuck := _stuck_among(case)):
        made.target = replace(made.target, constants=made.target.constants | stuck.keys())
        made.results += [Result("samples", SAMPLES, Verdict.INCONCLUSIVE, note=note) for note in stuck.values()]
        case = make()
    made.cases += [case, *_trained(case)]


def _written_first(case: Case) -> list[str]:
    """Name the parameters that change in a module's first call, and not in its second: it initializes itself."""
    written: list[set[str]] = []
    if is_native(case.target):  # It may end the process.
        return []
    with contextlib.suppress(Exception), torch.random.fork_rng(devices=[]):  # The checks report what it raises.
        (parameters, *args), kwargs = case.arguments(case.leaves_of(case.primals))
        module = copied(case.target.origin, parameters)
        for _ in range(2):
            before = {name: value.detach().clone() for name, value in module.named_parameters()}
            module(*args, **kwargs)
            rows = module.named_parameters()
            written.append({n for n, value in rows if n in before and not torch.equal(value, before[n])})
    return sorted(written[0]) if len(written) == 2 and not written[1] else []


def _trained(case: Case) -> list[Case]:
    """The case with other parameters in the place of ones and zeros, at which no factor and no term of them shows.

    Modules begin there, and training moves them.
    """
    given = case.primals
    moved = [unequal(primal) if i in case.parameters else primal for i, primal in enumerate(given)]
    if all(a is b for a, b in zip(moved, given, strict=True)) or not admitted(case, moved):
        return []
    other = case.replaced(moved)
    other.traits |= {"unequal parameters"}
    return [other]


def _data_among(case: Case) -> set[str]:
    """Name the tensors for which the target refuses a gradient."""
    primals = range(len(case.primals))
    if len(primals) < 2 or _records(case, primals):
        return set()
    data = {i for i in primals if i not in case.parameters and not _records(case, [i])}
    rest = [i for i in primals if i not in data]
    return {case.names[i] for i in data} if rest and _records(case, rest) else set()


def _records(case: Case, wanted: Collection[int]) -> bool:
    """Return True unless the target refuses that these primals require grad; any other error is one of its own.

    Torch tells of many derivatives that it does not have in the backward only.
    """
    try:
        recorded = case.linearize(wanted=[i in wanted for i in range(len(case.primals))])
    except Exception as error:
        return not is_deliberate(case, error)
    try:
        recorded.vjp([torch.ones_like(output) for output in recorded.outputs])
    except NotImplementedError:
        return False
    except Exception:
        return True  # The checks report it.
    return True


def _stuck_among(case: Case) -> dict[str, str]:
    """Name the tensors that the target takes at no other values, such as labels, and say so of each."""
    free = [i for i in range(len(case.primals)) if i not in case.parameters]
    if len(case.primals) < 2 or _why_stuck(case, free) is None:
        return {}
    whys = {i: why for i in free if (why := _why_stuck(case, [i])) is not None}
    if len(whys) == len(case.primals) or _why_stuck(case, [i for i in free if i not in whys]) is not None:
        return {}
    step = "if it is data, let only others require grad"
    return {case.names[i]: f"`{case.names[i]}` cannot be moved, so nothing is told of its gradient: {why}; {step}"
            for i, why in whys.items()}  # fmt: skip


def _why_stuck(case: Case, moving: Collection[int]) -> str | None:
    """Return what is raised where these primals are a little larger, or smaller."""
    for step in (STEP, -STEP):
        try:
            case.values([p * (1 + step) + step if i in moving else p for i, p in enumerate(case.primals)])
        except Exception as error:
            return short(error)
    return None


def _may_die(made: Prepared, seed: int, device: str) -> bool:
    """Return True for native code, unless a child has lived through all of its cases."""
    if not is_native(made.target):
        return False
    with contextlib.suppress(Exception):
        survive(lambda: _generate(Prepared(made.target, made.clock), seed, device, apart=True), apart=True)
        return False
    return True


def _generate(made: Prepared, seed: int, device: str, *, apart: bool) -> None:
    """Cases from annotations, as many as there is time for; each is tried in a child if it may end the process."""
    watched = made.clock.watch(made.target)
    inputs = Inputs(watched if device == "cpu" else _calling_on(device, watched), seed=seed, apart=apart)
    try:
        for case in itertools.islice(inputs, CASES):
            made.cases.append(_moved(case, watched, device))
            if made.clock.spent(SHARE):
                break
    finally:
        broken = [refusal for refusal in inputs.refused if refusal.sample or not refusal.deliberate]
        made.results += [_refused(made.target, refusal) for refusal in broken[:1]]
    if not made.cases and not broken:
        note = "there was no call to try" if not inputs.refused else _none_taken(inputs.refused)
        made.results.append(Result("samples", SAMPLES, Verdict.INCONCLUSIVE, note=note))


def _none_taken(refused: Sequence[Refusal]) -> str:
    last = refused[-1]
    said = f"{type(last.error).__name__}: {last.error}".partition("\n")[0]
    return (
        f"the target took none of {len(refused)} calls; declare its domain, or samples that it takes. "
        f"With {last.label} it raised {said}"
    )


def _calling_on(device: str, target: Target) -> Target:
    """The target, which takes tensors of the CPU, where they are drawn, to a device."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _torch.pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), (args, kwargs))
        return target.function(*args, **kwargs)

    return replace(target, function=call)


def _moved(case: Case, target: Target, device: str) -> Case:
    """The case with its tensors on a device, for the target itself; the CPU means where they are."""
    if device == "cpu":
        return case
    moved = case.with_leaves([leaf.to(device) if isinstance(leaf, Tensor) else leaf for leaf in case.leaves])
    moved.target = target
    return moved


SAMPLES = "The target takes the arguments that its annotations and domain admit."


def _refused(target: Target, refusal: Refusal) -> Result:
    error, place = refusal.error, own_line(refusal.error)
    if isinstance(error, Ended):
        return replace(with_faults(refusal.case, error.result("samples")), case=refusal.label)
    hint, cause = "pass arguments that it takes", str(error).partition("\n")[0]
    if refusal.sample:
        hint = "correct its samples, or the target"
    elif isinstance(error, BuildError):
        cause += next((f": {line.strip()}" for line in str(error.got).splitlines() if "error" in line), "")
        hint = "call it once: the error shows all that the compiler says"
    elif target.operator is not None:
        expected = error.expected if isinstance(error, KernelError) else None  # What the kernel should return.
        hint = f"correct it: {expected}" if expected else f"{hint}, or declare its domain: @tg.domain"
    finding = Finding(
        "raises", Verdict.FAIL, f"The target raises {type(error).__name__}",
        where=f"{refusal.label}; {place}" if place else refusal.label, cause=cause, hint=hint,
    )  # fmt: skip
    return Result("samples", SAMPLES, Verdict.FAIL, refusal.label, findings=(finding,))


def _require_surrogates(cases: Sequence[Case]) -> None:
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
    for i, case in cases[0].surrogates().items():
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


def _note_straight_through(cases: Sequence[Case]) -> None:
    """Declare for which arguments autograd tells what is meant, since values of the surrogate tell something else.

    Raises:
        ArgumentError: a surrogate has a derivative of its own, and that proves nothing.
    """
    straight = set[str]()
    for i, case in (cases[0].surrogates() if cases else {}).items():
        own = None
        with contextlib.suppress(Exception):  # It may be a function that is not torch's.
            alone = _by_one(case, i)
            own = _torch.functions_in_graph(alone.linearize().outputs) if is_shown_wrong(alone) else None
        if own:
            raise ArgumentError(
                f"the surrogate of '{case.names[i]}' has a derivative of its own, which its values do not have",
                operator=case.target.name, argument="surrogate",
                expected="torch's operations alone, whose derivative is meant", got=own[0].__name__,
                hint="write what is meant without it: x, or x + (x.round() - x).detach()",
            )  # fmt: skip
        if own is not None:
            straight.add(case.names[i])
    for case in cases if straight else ():
        case.target = replace(case.target, declared=replace(case.target.declared, straight_through=frozenset(straight)))


def _by_one(case: Case, place: int) -> Case:
    """The case with one primal alone, which has no surrogate."""
    others = {name for i, name in enumerate(case.names) if i != place}
    declared = replace(case.target.declared, surrogates={})
    target = replace(case.target, constants=case.target.constants | others, declared=declared)
    args, kwargs = case.arguments(case.primals)
    return Case(target, args, kwargs, seed=case.seed)
