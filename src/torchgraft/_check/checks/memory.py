"""Memory: results lie in their own, and nobody writes into what belongs to another."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, distance, vjp_of
from ..case import Case, Linearization
from ..finding import Finding
from ..target import borrowed, can_be_copied, copied, differentiable
from ..variations import nearby
from .layouts import transposed
from .ways import Made, Words, compared, on_one_module, results_of, used, with_saved

# -- results lie in memory of their own, and what is changed in place later is noticed -------------------------------

SAVE = "keep tensors with ctx.save_for_backward, which notices that they were changed"
OVERWRITTEN = Words(
    "result-overwritten", "The next call overwrites {} of the one before",
    "all calls write into one buffer", "return memory of its own in each call",
)  # fmt: skip
OUTPUT_OVERWRITTEN = Words(
    "output-overwritten", "The gradient is wrong after the output was changed in place",
    "an output was kept outside of save_for_backward", SAVE,
)  # fmt: skip
INPUT_OVERWRITTEN = Words(
    "input-overwritten", "The gradient is wrong after an input was changed in place",
    "an input was kept outside of save_for_backward", SAVE,
)  # fmt: skip

ACCUMULATED = Words(
    "gradients-overlap", "Two backwards add up wrongly in {}",
    "two gradients are views of one memory",
    "return memory of its own for each input",
)  # fmt: skip


def aliasing(case: Case) -> Iterator[Finding]:
    """Look at memory, call again, and write into outputs and inputs."""
    base = baseline(case)
    yield from _shared_parameters(case)
    yield from _parameters_of_the_original(base)
    yield from _kept_results(base)
    yield from _shared_gradients(base)
    yield from _shared_outputs(base)
    yield from _written_data(base)
    for i in used(base):
        yield from _written_output(base, i)
    if all(leaf.layout == torch.strided for leaf in case.leaves if isinstance(leaf, Tensor)):
        yield from _written_inputs(base)  # Sparse tensors do not count what is written into them.
    yield from _changed_numbers(base)


def _shared_parameters(case: Case) -> Iterator[Finding]:
    """Two parameters in one memory: each gets a part of the gradient, and an optimizer changes both for each."""
    named = [*case.target.origin.named_parameters()] if case.target.kind == "module" else []
    for (name, parameter), (other, second) in itertools.combinations(named, 2):
        if parameter.numel() and parameter.data_ptr() == second.data_ptr():
            yield Words(
                "parameters-overlap", f"The parameters {name} and {other} are two in one memory",
                "one is made of the other by .data, .detach() or a view",
                "tie them as one parameter: decoder.weight = encoder.weight",
            ).at(f"the parameters {name} and {other}; {case.label}")  # fmt: skip


def _parameters_of_the_original(base: Baseline) -> Iterator[Finding]:
    """A copy of a module, such as an average of its weights, computes with its own parameters.

    Calls are made with copies: what has no effect in them may have one in the module itself.
    """
    case, gradients = base.case, base.gradients
    idle = [i for i in sorted(case.parameters) if (g := gradients[i]) is None or not bool(g.any())]
    others = nearby(case)
    for i in idle:
        moved = [others[k] if k == i else primal for k, primal in enumerate(case.primals)]
        with contextlib.suppress(Exception):  # The module is made for no other parameters.
            with _attributes_kept(case.target.origin):
                found = case.calling(borrowed(case.target.origin)).values(moved)
            if base.differing_outputs(found) and not base.differing_outputs(case.values(moved)):
                yield Words(
                    "copy-reads-original", f"A copy of the module computes with the original's {case.names[i]}",
                    "copy.deepcopy keeps a lambda, or a function in a function, that reads the original",
                    "make it a method of the module",
                ).at(f"copy.deepcopy(module); {case.label}")  # fmt: skip


@contextlib.contextmanager
def _attributes_kept(module: nn.Module) -> Iterator[None]:
    """Within, a call may leave something in a module, such as a weight that it keeps; afterwards it is gone."""
    before = [(part, dict(vars(part))) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes in before:
            vars(part).clear()
            vars(part).update(attributes)


def _kept_results(base: Baseline) -> Iterator[Finding]:
    """Results of one call must survive the next."""
    results = results_of(base, base.case.linearize())
    before = {name: value.detach().clone() for name, value in results.items()}
    vjp_of(base.case.linearize(nearby(base.case)), base)
    yield from _changed(OVERWRITTEN, base.case, [(name, value, before[name]) for name, value in results.items()])


def _shared_gradients(base: Baseline) -> Iterator[Finding]:
    """A leaf keeps the gradient that it is given as its `.grad`, and optimisers write into that."""
    recorded = base.case.linearize()
    owners = [*zip(base.case.names, recorded.primals, strict=True)]
    owners += [(base.output_name(i), output) for i, output in enumerate(recorded.outputs)]
    gradients = vjp_of(recorded, base)
    for i, gradient in enumerate(gradients):
        shared = (name for name, owner in owners if gradient is not None and _torch.shares_memory(gradient, owner))
        name, what = next(shared, None), base.gradient_name(i)
        if name is not None:
            title = f"{what.capitalize()} is memory of {name}"
            cause = "the backward returns a saved tensor, or a view of one"
            yield Words("gradient-aliases", title, cause, "return a copy").at(f"{what}; {base.case.label}")
    pairs = itertools.combinations((g for g in gradients if g is not None), 2)
    if not base.random and any(_torch.shares_memory(one, other) for one, other in pairs):
        with contextlib.suppress(Exception):  # Other checks tell what raises.
            yield from _accumulated(base)


def _accumulated(base: Baseline) -> Iterator[Finding]:
    """Two backwards add up in the `.grad` of each leaf, which keeps the memory that the first one gave."""

    def accumulate() -> Made:
        leaves = base.case.leaves_of(base.case.primals)
        for _ in range(2):
            recorded = base.case.record(leaves)
            outputs = [recorded.outputs[i] for i in used(base)]
            torch.autograd.backward(outputs, [c.clone() for c in base.cotangents if c is not None], inputs=leaves)
        return (), [None if leaf.grad is None else leaf.grad / 2 for leaf in leaves]

    return compared(base, "two backwards that add up in .grad", accumulate, gradient=ACCUMULATED)


def _shared_outputs(base: Baseline) -> Iterator[Finding]:
    """Outputs in the memory of inputs: a schema says so, and a view shares its version with what it is a view of."""
    case, recorded = base.case, base.case.linearize()
    primals = [primal.clone() for primal in case.primals]
    plain = case.outputs(primals) if case.target.kind == "library" else []
    if plain and any(r.alias_info is not None for r in _torch.overload_of(case.target.origin)._schema.returns):
        plain = []
    for (i, output), (name, primal) in itertools.product(enumerate(plain), zip(case.names, primals, strict=True)):
        if _torch.shares_memory(output, primal):
            title, hint = f"{base.output_name(i).capitalize()} is memory of {name}", "return a copy: x.clone()"
            words = Words("undeclared-alias", title, "the schema says that it is not a view", hint)
            yield words.at(f"{base.output_name(i)}; {case.label}")
    inputs = zip(case.names, recorded.primals, strict=True)
    for (i, output), (name, primal) in itertools.product(enumerate(recorded.outputs), inputs):
        if output is primal or not _torch.shares_memory(output, primal):
            continue
        version = primal._version
        torch.autograd.graph.increment_version(output.detach())
        if primal._version == version:
            yield Words(
                "unknown-alias", f"{base.output_name(i).capitalize()} shares the memory of {name}",
                "one is overwritten with the other, and autograd does not know: a NumPy view, or .data",
                "return memory of its own: .clone(), or .copy() of an array",
            ).at(f"{base.output_name(i)}; {case.label}")  # fmt: skip


def _written_data(base: Baseline) -> Iterator[Finding]:
    """An output that is written into a tensor without a gradient: whoever reads that tensor loses the gradient."""
    case = base.case
    args, kwargs = case.arguments(case.leaves_of(case.primals))
    leaves = _torch.pytree.tree_leaves((args, kwargs))
    data = [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and not leaf.requires_grad]
    if not data or case.target.kind in ("operator", "library"):  # They declare what they write into.
        return
    before = [leaf._version for _, leaf in data]
    with contextlib.suppress(Exception), torch.enable_grad():
        outputs = case.target.differentiable(case.call_with(args, kwargs))
        for (i, leaf), version in zip(data, before, strict=True):
            shared = any(o.requires_grad and _torch.shares_memory(o, leaf) for o in outputs)
            if shared and leaf._version != version and not leaf.requires_grad:
                yield Words(
                    "written-without-gradient", f"What is written into `{case.leaf_names[i]}` has no gradient there",
                    "the output lies in an argument, and autograd does not know that it was written",
                    f"ctx.mark_dirty({case.leaf_names[i]})",
                ).at(f"`{case.leaf_names[i]}`; {case.label}")  # fmt: skip


def _written_output(base: Baseline, index: int) -> Iterator[Finding]:
    """Twice the output has twice the gradient; to refuse is right as well."""
    half = [c / 2 if c is not None and i == index else None for i, c in enumerate(base.cotangents)]
    whole = [c if i == index else None for i, c in enumerate(base.cotangents)]

    def write() -> Made:
        recorded = base.case.linearize()
        recorded.outputs[index].mul_(2)
        return (), recorded.vjp(half)

    expected = (), base.case.linearize().vjp(whole)
    if base.outputs[index].numel():
        with contextlib.suppress(RuntimeError):  # It counts its versions, or is a view that nobody may write to.
            how = f"{base.output_name(index)}.mul_(2)"
            yield from compared(base, how, write, gradient=OUTPUT_OVERWRITTEN, expected=expected)


def _written_inputs(base: Baseline) -> Iterator[Finding]:
    """A gradient belongs to the values that the input had in the call; to refuse is right as well."""
    case = on_one_module(base.case, lasting=False)  # What a backward runs again reads parameters again.
    if case is not base.case:
        case.linearize()
    expected = (), vjp_of(case.linearize(), base)
    if base.differing_gradients(expected[1]):
        return  # What a call leaves changes the next one: the check of determinism tells it.
    for i, name in enumerate(case.names):
        leaves = [primal.detach().clone().requires_grad_() for primal in case.primals]
        given = [leaf.clone() for leaf in leaves]
        recorded = Linearization(leaves, case.record(given).outputs)
        if given[i]._version or any(_torch.shares_memory(output, given[i]) for output in recorded.outputs):
            continue  # It is changed on purpose, or an output is its view.

        def write(changed: Tensor = given[i], recorded: Linearization = recorded) -> Made:
            changed.mul_(2)
            return (), recorded.vjp(base.cotangents)

        with contextlib.suppress(RuntimeError):
            how = f"{name}.mul_(2) between forward and backward"
            yield from compared(base, how, write, gradient=INPUT_OVERWRITTEN, expected=expected)
    for i, (name, leaf) in enumerate(zip(case.leaf_names, case.leaves, strict=True)):
        if isinstance(leaf, Tensor) and not differentiable(leaf):
            with contextlib.suppress(RuntimeError):
                how = f"{name}.zero_() between forward and backward"
                refilled = partial(_refilled, base, case, i)
                yield from compared(base, how, refilled, gradient=INPUT_OVERWRITTEN, expected=expected)


def _refilled(base: Baseline, case: Case, place: int) -> Made:
    """The gradients of a call, one of whose tensors of integers is overwritten before the backward."""
    leaves = case.leaves_of(case.primals)
    args, kwargs = case.arguments(leaves)
    with torch.enable_grad():
        recorded = Linearization(leaves, case.target.differentiable(case.call_with(args, kwargs)))
    _torch.pytree.tree_leaves((args, kwargs))[place].zero_()
    return (), recorded.vjp(base.cotangents)


NUMBER_CHANGED = Words(
    "number-read-late", "The gradient is wrong after a number of the module was changed",
    "the backward reads an attribute of the module when it runs", "keep the number on ctx in the forward",
)  # fmt: skip


def _changed_numbers(base: Baseline) -> Iterator[Finding]:
    """A gradient belongs to the numbers that a module had in the call, such as a temperature that falls.

    What torch runs again in a backward reads them again: only derivatives that are not torch's own are looked at.
    """
    case, module = base.case, base.case.target.origin
    if case.target.kind != "module" or not can_be_copied(module):
        return
    (parameters, *_), _ = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    own = copied(module, parameters)
    numbers = [(part, name) for part in own.modules() for name, value in vars(part).items() if type(value) is float]
    recorded = case.calling(borrowed(own, lasting=True)).linearize()
    if not numbers or not _torch.functions_in_graph(recorded.outputs):
        return

    def change() -> Made:
        for part, name in numbers:
            setattr(part, name, 1.5 * getattr(part, name) + 0.125)
        return (), recorded.vjp(base.cotangents)

    names = ", ".join(sorted({name for _, name in numbers}))
    with contextlib.suppress(Exception):  # To refuse is right.
        yield from compared(base, f"{names} changed between forward and backward", change, gradient=NUMBER_CHANGED)


# -- what a call must leave as it was: inputs, saved tensors, upstream gradients -------------------------------------

Watched = Sequence[tuple[str, Value, Value]]
"""Names of tensors, the tensors, and copies that were made of them."""


def mutation(case: Case) -> Iterator[Finding]:
    """Compare bits before and after, also of arguments in another order of memory: ``x.contiguous()`` is no copy then.

    Version counters do not see what is written through `.data` or NumPy.
    """
    found = list(_changes(case))
    yield from found
    orders = [transposed(p) if p.is_contiguous() else p.contiguous() for p in case.primals]
    if found or all(order is None for order in orders):
        return
    other = case.replaced([p if order is None else order for p, order in zip(case.primals, orders, strict=True)])
    with contextlib.suppress(Exception):  # The checks of layouts tell what it raises.
        how = "with arguments in another order of memory"
        yield from (f.but(where=f"{f.where}; {how}", cause=f"{f.cause}; only {how}") for f in _changes(other))


def _changes(case: Case) -> Iterator[Finding]:
    base = baseline(case)
    primals = [primal.detach().clone().requires_grad_() for primal in case.primals]
    before = [primal.detach().clone() for primal in primals]
    recorded, saved = with_saved(lambda: case.record(primals))
    kept = [("a saved tensor", tensor, tensor.clone()) for tensor in saved]
    inputs = [row for row in zip(case.names, primals, before, strict=True) if not _declared(case, recorded, *row[:2])]
    say = "annotate it as tg.Mutated[...]" if case.target.kind == "operator" else "ctx.mark_dirty(x)"
    hint = f"{say}, if it is meant; else work on x.clone()"
    words = Words("input-changed", "The forward writes into {}", "the forward changes its input in place", hint)
    found = list(_changed(words, case, inputs))
    yield from found
    if found:
        return
    yield from _overwritten(base)
    names = [base.output_name(i) for i in range(len(base.outputs))]
    cotangents = [None if c is None else c.clone() for c in base.cotangents]
    outputs = [(name, o, o.detach().clone()) for name, o in zip(names, recorded.outputs, strict=True)]
    recorded.vjp(cotangents, as_given=True)
    yield from _changed(INPUT_CHANGED, case, inputs)
    yield from _changed(GRADIENT_CHANGED, case, list(zip(names, cotangents, base.cotangents, strict=True)))
    yield from _changed(OUTPUT_CHANGED, case, outputs)
    yield from itertools.islice(_changed(SAVED_CHANGED, case, kept), 1)


def _overwritten(base: Baseline) -> Iterator[Finding]:
    """Look for an argument without gradient that a call overwrites, so that the next call gives something else.

    What is only kept up to date, such as a running mean, does not change what calls return.
    """
    case, plain = base.case, set(base.case.names)
    args, kwargs = case.arguments([primal.clone() for primal in case.primals])
    named = zip(case.leaf_names, _torch.pytree.tree_leaves((args, kwargs)), strict=True)
    others = [(name, leaf, leaf.clone()) for name, leaf in named if isinstance(leaf, Tensor) and name not in plain]
    if not others:
        return
    with torch.no_grad():
        case.call_with(args, kwargs)
        changed = [row for row in others if distance(*row[1:])]
        if changed and base.differing_outputs(case.target.differentiable(case.call_with(args, kwargs))):
            yield from _changed(ARGUMENT_CHANGED, case, changed)


ARGUMENT_CHANGED = Words(
    "input-changed", "The forward writes into {}, and the same call then gives another output",
    "the forward changes an argument that needs no gradient", "work on a copy",
)  # fmt: skip
INPUT_CHANGED = Words(
    "input-changed", "The backward writes into {}",
    "the backward overwrites a saved input, which is the caller's own memory", "work on a copy",
)  # fmt: skip
GRADIENT_CHANGED = Words(
    "gradient-changed", "The backward writes into the upstream gradient",
    "the upstream gradient is changed in place, and others use the same tensor",
    "grad = grad.clone(), or operations that are not in place",
)  # fmt: skip
OUTPUT_CHANGED = Words(
    "output-changed", "The backward writes into an output",
    "the backward overwrites an output, which the caller holds", "work on a copy",
)  # fmt: skip
SAVED_CHANGED = Words(
    "saved-changed", "The backward writes into a saved tensor",
    "a saved tensor is overwritten, and a second backward would see it", "work on a copy",
)  # fmt: skip


def _changed(words: Words, case: Case, watched: Watched) -> Iterator[Finding]:
    """A finding for each tensor whose numbers are others now."""
    for name, now, then in watched:
        if now is not None and distance(now, then):
            yield from words.of([Difference(name, now.detach(), then, distance(now, then), 0.0)], case.label)


def _declared(case: Case, recorded: Linearization, name: str, primal: Tensor) -> bool:
    """Return True if a primal is changed on purpose: it is an output too, or the schema says so."""
    written: set[str] = set()
    if case.target.kind == "library":
        schema = _torch.overload_of(case.target.origin)._schema
        written = {a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    return name in written or any(output is primal for output in recorded.outputs)
