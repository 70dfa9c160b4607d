"""The promise to a mesh: an operator that is applied to the parts of a call gives the parts of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..._kernels.kernel import positional
from ..._mesh.cuts import Cut, batch_inputs, find_cuts, linear_inputs, promised_axes
from ..._op import Op
from ..._record import Record
from ..._spec.outputs import leaf_names, spread
from ..._spec.plan import owners_of, seeded
from ..baseline import baseline
from ..case import Case
from ..finding import Finding, Skip
from ..options import options
from ..target import differentiable
from ..variations import admitted, elsewhere, nearby, values_of, within
from .ways import Words, compared, made, require_dense, require_fixed, tensors

Parts = tuple[list[Tensor], list[Tensor]]


def parts(case: Case) -> Iterator[Finding]:
    """Cut each axis that a mesh may cut in two, apply the operator to both parts, put together, and compare."""
    op = case.target.operator
    if op is None:
        raise Skip("only an operator of torchgraft promises anything to a mesh")
    require_fixed(baseline(case), ", and each part has its own")
    require_dense(case, "a mesh cuts no sparse tensors")
    if not any(promised_axes(op._record).values()) and not op._record.rules["adjoint"]:
        raise Skip("no axis may be cut, and no sum goes through")
    cuts = _cuts(op._record, case)
    found = list(_along_axes(op, case, cuts))
    yield from found
    if not found:
        yield from _with_options(op, case)
    if not any(cut.kind == "batch" for cut in cuts) and promised_axes(op._record)["batch"]:
        batch = _batch(op._record, case)
        yield from _along_axes(op, batch, [cut for cut in _cuts(op._record, batch) if cut.kind == "batch"])
    yield from _through_sums(op, case)


def _values(record: Record, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call as a mesh takes them: before it cuts, each sample has a seed of its own."""
    values = record.promoted(values_of(record, args, kwargs))
    return list(seeded(record.signature, values, record.plan(values)))


def _cuts(record: Record, case: Case) -> list[Cut]:
    values = _values(record, *case.arguments(case.primals))
    return find_cuts(record, values, record.plan(values))


def _along_axes(op: Op[..., Any], case: Case, cuts: Sequence[Cut]) -> Iterator[Finding]:
    for cut in cuts:
        base = baseline(case)
        divided = case.calling(partial(_divided, op, partial(_cut, cut), partial(_joined, op._record, cut)))
        words, how, run = _words(cut), f"{cut.name} cut in two", partial(made, divided, base)
        found = list(compared(base, how, run, raises=words, output=words, gradient=words))
        yield from found or _whole_numbers(op, case, divided, words, how)


def _whole_numbers(op: Op[..., Any], case: Case, divided: Case, words: Words, how: str) -> Iterator[Finding]:
    """Compare the outputs that have no derivative, such as counts, indices and masks, at several points."""
    outputs = op._record.signature.visible
    if all(output.floating for output in outputs):
        return
    negative = [-primal for primal in case.primals]
    for primals in (case.primals, elsewhere(case), *([negative] if admitted(case, negative) else [])):
        got_all, expected_all = tensors(divided.call(primals)), tensors(case.call(primals))
        names = leaf_names(outputs, len(expected_all))
        for name, got, expected in zip(names, got_all, expected_all, strict=True):
            if not differentiable(expected) and not torch.equal(got, expected):
                name = name if len(names) > 1 else "the output"
                yield replace(words, title=words.title.replace("{}", name)).at(f"{name}; {how}; {case.label}")
                return


def _with_options(op: Op[..., Any], case: Case) -> Iterator[Finding]:
    """Cut the same call with one option changed, where the operator takes it: axes are promised for all of them."""
    for what, other in options(case):
        try:
            if not within(other):
                continue
            baseline(other)
            cuts = _cuts(op._record, other)
        except Exception:  # The option is none that the operator takes, which other checks look at.
            continue
        for found in _along_axes(op, other, cuts):
            cause = "; ".join(filter(None, [f"with {what}", found.cause]))
            yield found.but(where=f"{what}; {found.where}", cause=cause, case=other)
            return


def _batch(record: Record, case: Case) -> Case:
    """The case with an axis in front of all batch axes: its own sample, and two nearby."""
    with_batch = batch_inputs(record.signature)
    samples = [case.replaced(primals).leaves for primals in (case.primals, nearby(case), nearby(case, salt=1))]
    return case.with_leaves(
        [
            torch.stack(column) if isinstance(column[0], Tensor) and name.partition("[")[0] in with_batch else column[0]
            for name, column in zip(case.leaf_names, zip(*samples, strict=True), strict=True)
        ]
    )


def _through_sums(op: Op[..., Any], case: Case) -> Iterator[Finding]:
    record, base = op._record, baseline(case)
    values = _values(record, *case.arguments(case.primals))
    owners = owners_of(record.signature, values)
    for i in linear_inputs(record, values):
        divided = case.calling(partial(_divided, op, partial(_terms, i), _summed))
        how, run = f"{owners[i].name} as a sum of two", partial(made, divided, base)
        yield from compared(base, how, run, output=_sum_words(owners[i].name))


def _divided(
    op: Op[..., Any],
    divide: Callable[[list[Tensor]], Parts],
    join: Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call the operator on each of two parts, and put the results together."""
    record = op._record
    values = _values(record, args, kwargs)
    one, other = (_outputs(op, record.replace(values, part)) for part in divide(record.leaves(values)))
    return record.signature.pack_shown(join(one, other))


def _outputs(op: Op[..., Any], values: Sequence[Any]) -> Sequence[Tensor]:
    leaves: Sequence[Tensor] = _torch.pytree.tree_leaves(positional(op._record.signature, op)(*values))
    return leaves


# -- along an axis ----------------------------------------------------------------------------------------------------


def _cut(cut: Cut, leaves: list[Tensor]) -> Parts:
    """The two parts of the tensors; the second of two terms has zeros for what counts once."""
    middle = (cut.size + 1) // 2
    first, second = list(leaves), list(leaves)
    for i, (leaf, axis, once) in enumerate(zip(leaves, cut.inputs, cut.once, strict=True)):
        if axis is not None:
            first[i], second[i] = leaf.split([middle, cut.size - middle], axis)
        elif once:
            second[i] = torch.zeros_like(leaf)
    return first, second


def _joined(record: Record, cut: Cut, one: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]:
    owners = spread(record.signature.outputs, len(cut.outputs))
    shown = [axis for axis, output in zip(cut.outputs, owners, strict=True) if not output.saved]
    return [a + b if axis is None else torch.cat((a, b), axis) for a, b, axis in zip(one, other, shown, strict=True)]


def _words(cut: Cut) -> Words:
    title = f"{{}} is another where {cut.name} is cut in two, as a mesh may cut it"
    if cut.kind == "batch":
        return Words(
            "mesh-batch", title, f"what the kernel computes along {cut.name} depends on other samples",
            "*batch or ... in front promises that samples are independent: give the axis a name of its own instead",
        )  # fmt: skip
    if cut.kind == "parallel":
        return Words(
            "mesh-parallel", title, f"the slices along {cut.name} are not computed each by itself",
            f'take {cut.axis} out of parallel="{cut.axis}"',
        )  # fmt: skip
    return Words(
        "mesh-reduction", title,
        f"the outputs are not sums over the slices of {cut.name}, or an input without it is not added to the sum once",
        f'take {cut.axis} out of reduction="{cut.axis}", or add the other input outside of the operator',
    )  # fmt: skip


# -- through what is linear -------------------------------------------------------------------------------------------


def _terms(place: int, leaves: list[Tensor]) -> Parts:
    """The tensors with one of them in two terms, which are exact."""
    first, second = list(leaves), list(leaves)
    first[place] = leaves[place] * 0.75
    second[place] = leaves[place] - first[place]
    return first, second


def _summed(one: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _sum_words(name: str) -> Words:
    return Words(
        "mesh-sum", f"{{}} is another where {name} is the sum of two, as a mesh may hand it over",
        f"{name} has an adjoint, but the operator is not linear in it: it is not zero at zero",
        f'give the derivative with vjp("{name}") instead',
    )  # fmt: skip
