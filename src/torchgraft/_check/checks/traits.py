"""The traits that a call may have, the rows of a covering array of them, and how a call with some of them is made."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ... import _torch
from ..baseline import Value, baseline, generator, signed
from ..case import Case, Linearization
from ..children import threads
from ..finding import Finding, Skip, Verdict
from ..numeric.line import CLOSE, Line, largest, near, products
from ..numeric.probe import Probe
from ..numeric.vectors import flatten
from ..target import OWN
from ..variations import ENDS, LARGE, MANY, SHAPES, SHIFTED, SWEPT, VALUES, WIDE_SWEPT, nearby, within
from .layouts import lazy, strided, transposed
from .orders import backward_case, push, second_order, tangents
from .vmap import mapped

# -- the dimensions and their traits; the first of each is the plain one -----------------------------------------------

TWICE, BESIDE = "one tensor twice", "another use of the arguments"
DETACHED = "one tensor twice, once detached"
STRICT, THREADS = "deterministic algorithms and anomaly detection", "another number of threads"
GRAPH, LAYOUT = "the graph of the backward", "another layout"

TRAITS: dict[str, tuple[str, ...]] = {
    "values": ("", *VALUES, ENDS),
    "cotangents": ("", "that sum to zero", "that are tiny", "with one element", "of ones", "of zeros"),
    "sizes": ("", *SHAPES),
    "precision": ("", "another precision", "bfloat16", "float16", "complex numbers"),
    "arguments": ("", TWICE, "views", "parameters", LAYOUT, BESIDE, DETACHED),
    "mode": ("", STRICT, "autocast in the backward", THREADS, GRAPH, "a checkpoint"),
    "order": ("", "second order", "third order", "forward mode", "vmap", "vmap of vmap", "forward over reverse"),
}
_APART = {"values": 10, "cotangents": 1, "sizes": 3, "precision": 2, "arguments": 1}
ARRAY = [len(traits) - _APART.get(dimension, 0) for dimension, traits in TRAITS.items()]
"""Traits of each dimension of which each pair is in some row. The last ones of some are looked at alone."""
COMPLEX = TRAITS["precision"].index("complex numbers")
HOW = {
    TWICE: "it treats arguments that are one tensor in another way, and autograd adds up both gradients",
    DETACHED: "it takes arguments at one address for one argument, and gives the gradient of both to one of them",
    BESIDE: "a hook on an argument changes the gradients of all its uses: put it on a copy, such as x.view_as(x)",
    "views": "it reads or writes beyond its argument, or takes it for the owner of its memory",
    "parameters": "it asks for the class of its arguments, or whether they are leaves",
    LAYOUT: "it reads the memory of its arguments, or of what it saved, as if it were contiguous",
    STRICT: "it asks for torch.are_deterministic_algorithms_enabled() or torch.is_anomaly_enabled()",
    "autocast in the backward": "the backward computes in the precision of an autocast that is around it",
    THREADS: "it depends on the number of threads: they share a buffer, or leave something out at their borders",
    GRAPH: "the backward computes something else where a graph of it is wanted",
    "a checkpoint": "the forward does not do the same when it is run again in the backward",
}
"""Probable causes where a gradient is another in some way to pass arguments, or in a mode."""
SHARED = (STRICT, THREADS)
"""Modes in which derivatives of other orders are taken as well."""

_STORED = """
0000000 4451520 5221016 3260531 6232353 2031145 1012421 7150212 2442034 3311204 4340456 0322542 7101433 7462106
6120124 5410345 0141351 1402255 4062314 1241102 5162440 1330330 2360223 6301111 3432412 3052153 0252444 2110556
6020236 4130001 5042503 2202322 6352005 4212132 7241240 6061052 2421401 3142025 0410013 7030554 0131226 5350231
3202346 1121043 1260515 7321335 6411150 5202554 2150310 3220350 0060135 7112021 4201245 6241415 5332122 1050306
6020541 4421453 1421324
"""
ROWS = tuple(tuple(map(int, row)) for row in _STORED.split())
"""Calls that have each pair of traits, made by `benchmarks/covering.py`; the first is plain."""


def row_of(**names: str) -> tuple[int, ...]:
    """The row with these traits, by their dimensions."""
    return tuple(traits.index(names.get(dimension, "")) for dimension, traits in TRAITS.items())


_SINGLE = tuple(
    tuple(place * (dimension == other) for other in range(len(TRAITS)))
    for dimension in range(4)
    for place in range(1, len(list(TRAITS.values())[dimension]))
    if (dimension, place) != (3, COMPLEX)
)
FIRST = (
    *_SINGLE,
    row_of(values=SWEPT, sizes=MANY),
    row_of(values=WIDE_SWEPT, sizes=MANY),
    row_of(values=ENDS, sizes=MANY),
    row_of(values=LARGE, cotangents="of zeros"),
    row_of(values=LARGE, precision="another precision"),
    row_of(values=LARGE, precision="float16"),
    row_of(values="tiny values", precision="another precision"),
    row_of(values=SHIFTED, precision="another precision"),
    row_of(arguments=DETACHED),
    row_of(arguments=LAYOUT, order="second order"),
)
"""Calls with one trait: beside others it may not show. Long sweeps of values and domains need two, so do 0 times
infinity, what overflows in few digits, what cancels in float32, and a copy that is saved in the place of an argument.
"""


# -- the same numbers in other ways ------------------------------------------------------------------------------------


def passed(line: Line, arguments: str, mode: str) -> list[Value]:
    """The gradients where arguments are passed in a way, in a mode; of what is passed twice, the line is `twice`."""
    case = line.case
    leaves, given = _given(case, arguments)
    function = _recomputed(case) if mode == "a checkpoint" else case.outputs
    others = _other_gradients(line, leaves) if arguments == BESIDE else []
    with forward_mode(mode), torch.enable_grad():
        uses = [leaf * 1 for leaf in leaves] if others else []
        recorded = Linearization(leaves, [*function(given), *uses])
    with _backward_mode(mode, case.device_type):
        found = recorded.vjp([*line.cotangents, *others], create_graph=mode == GRAPH)
    found = [None if g is None else g.detach() for g in found]
    if others:  # Each use has its own gradient, and these are added up.
        return [None if g is None else g - other for g, other in zip(found, others, strict=True)]
    if arguments == "views":
        return [None if g is None else g[1] for g in found]
    if arguments == DETACHED:
        found[_alike(case)[1]] = line.gradients[_alike(case)[1]]  # Nobody asked for it.
    if arguments == TWICE:
        i, j = _alike(case)
        second = line.gradients[j]
        found[i] = found[i] if second is None or found[i] is None else found[i] - second  # type: ignore[operator]
        found[j] = second
    return found


def _other_gradients(line: Line, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Upstream gradients of another use, no larger than the gradients: in their sum digits would be lost."""
    size, source = largest(line.gradients) or 1.0, generator(line.case, 95)
    return [size * signed(leaf.detach(), source) for leaf in leaves]


def twice(case: Case) -> Case:
    """The case with the first of two alike primals in both places.

    Raises:
        Skip: no two have the same number of axes.
    """
    i, j = _alike(case)
    return case.replaced([case.primals[i] if k == j else primal for k, primal in enumerate(case.primals)])


def fits(case: Case, arguments: str) -> bool:
    """Return True if all that is passed has the sizes that were given: one tensor for another may have other ones."""
    if arguments not in (TWICE, DETACHED):
        return True
    i, j = _alike(case)
    return case.primals[i].shape == case.primals[j].shape


def _alike(case: Case) -> tuple[int, int]:
    """Places of two primals of one kind, which are no parameters of a module."""
    primals, fixed = case.primals, case.parameters
    for i, j in itertools.combinations([i for i in range(len(primals)) if i not in fixed], 2):
        if primals[i].dim() == primals[j].dim() and primals[i].dtype == primals[j].dtype:
            return i, j
    raise Skip("no two arguments are alike")


def turned(line: Line) -> Line:
    """Return the line with its primals in another order of memory, where they have two axes."""
    case = line.case
    others = [None if i in case.parameters else transposed(p) for i, p in enumerate(case.primals)]
    if not any(isinstance(other, Tensor) for other in others):
        raise Skip("no argument has two axes")
    pairs = zip(case.primals, others, strict=True)
    try:
        return Line(case.replaced([primal if other is None else other for primal, other in pairs]), line.kind)
    except Exception as error:
        raise Skip("it refuses another layout, or writes into its arguments") from error


def _given(case: Case, arguments: str) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves, and what is passed of them."""
    primals = [primal.detach().clone() for primal in case.primals]
    match arguments:
        case "views":
            leaves = [torch.stack([torch.zeros_like(p), p]).requires_grad_() for p in primals]
            return leaves, [leaf[1] for leaf in leaves]
        case "parameters":
            leaves = [nn.Parameter(p) for p in primals]
            return leaves, leaves
        case _ if arguments == LAYOUT:
            fixed = case.parameters
            ways = [lazy if p.is_complex() else transposed if p.dim() > 1 else strided for p in primals]
            made = [None if i in fixed else way(p) for i, (way, p) in enumerate(zip(ways, primals, strict=True))]
            primals = [p if other is None else other for p, other in zip(primals, made, strict=True)]
    leaves = [p.requires_grad_() for p in primals]
    if arguments in (TWICE, DETACHED):
        i, j = _alike(case)
        other = leaves[i] if arguments == TWICE else leaves[i].detach()
        return leaves, [other if k == j else leaf for k, leaf in enumerate(leaves)]
    return leaves, leaves


def _recomputed(case: Case) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
    """The call as in a checkpoint that is not reentrant: nothing is kept, and the backward calls again.

    That of torch would import its compiler, which takes a second.
    """

    def call(primals: Sequence[Tensor]) -> Sequence[Tensor]:
        count, kept = itertools.count(), list[Tensor]()

        def again(index: int) -> Tensor:
            if not kept:
                copies = [primal.detach().requires_grad_() for primal in primals]
                with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                    case.outputs(copies)
            return kept[index]

        def keep(tensor: Tensor) -> Tensor:
            kept.append(tensor.detach())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: next(count), again):
            return case.outputs(primals)

    return call


@contextlib.contextmanager
def forward_mode(mode: str, *, anomaly: bool = False) -> Iterator[None]:
    """Within, forwards run in a mode; `anomaly` detection belongs to it, which writes down each node's traceback."""
    match mode:
        case _ if mode == STRICT:
            before = torch.get_deterministic_debug_mode()
            torch.set_deterministic_debug_mode("warn")
            try:
                with torch.autograd.set_detect_anomaly(anomaly, check_nan=False):
                    yield
            finally:
                torch.set_deterministic_debug_mode(before)
        case _ if mode == THREADS:
            with threads(3):
                yield
        case _:
            yield


@contextlib.contextmanager
def _backward_mode(mode: str, device_type: str) -> Iterator[None]:
    if mode == "autocast in the backward":
        with torch.autocast(device_type, torch.bfloat16):
            yield
    else:
        with forward_mode(mode, anomaly=True):
            yield


# -- derivatives of other orders ---------------------------------------------------------------------------------------


def _second(line: Line) -> Iterator[Finding]:
    """The derivative of the backward, by differences of the backward."""
    if line.double and not line.agrees_at(2):
        yield from second_order(line.case)


def _third(line: Line) -> Iterator[Finding]:
    if line.double and line.case.target.kind in OWN and not line.agrees_at(3):
        for finding in second_order(backward_case(baseline(line.case))):
            yield finding.but(code=f"third-{finding.code}", title=f"{finding.title}, of the backward (third order)")


def _forward(line: Line) -> Iterator[Finding]:
    """<v, J u> by the tangent, and <v J, u>."""
    try:
        forward = float(products(push(line.case, line.direction), line.cotangents).sum())
    except Exception:
        return
    terms = products(line.gradients, line.direction)
    if not abs(forward - float(terms.sum())) <= 64 * line.epsilon**0.75 * float(torch.linalg.vector_norm(terms)):
        yield from tangents(line.case)


def _mapped(line: Line) -> Iterator[Finding]:
    """The gradients of a vmapped call beside those of a loop, for more samples than other checks take."""
    if not _same_as_loop(line, (5,)):
        yield from mapped(line.case)


def _mapped_twice(line: Line) -> Iterator[Finding]:
    if _same_as_loop(line, (2, 3)):
        return
    found = list(mapped(line.case))
    yield from found
    if not found:
        yield Finding(
            "vmap-of-vmap", Verdict.FAIL, "The gradient of a vmap in a vmap is another than in a loop", "two levels",
            cause="the vmap rule takes the axis of the other level for its own", hint="move the axis by in_dims",
        )  # fmt: skip


def _same_as_loop(line: Line, sizes: tuple[int, ...]) -> bool:
    """Return True if a vmapped call of many samples has the gradients that a loop has, or if either refuses them."""
    case, count = line.case, torch.Size(sizes).numel()
    samples = [case.primals, *(nearby(case, salt=i) for i in range(1, count))]
    stacked = [torch.stack(column).view(*sizes, *column[0].shape) for column in zip(*samples, strict=True)]
    leaves = [primal.detach().clone().requires_grad_() for primal in stacked]
    used = [i for i, c in enumerate(line.cotangents) if c is not None]

    def outputs(*primals: Tensor) -> tuple[Tensor, ...]:
        made = case.outputs(primals)
        return tuple(made[i] for i in used)

    function: Callable[..., Any] = outputs
    for _ in sizes:
        function = torch.vmap(function)
    try:
        with torch.enable_grad(), _torch.quiet_vmap():
            made = function(*leaves)
        shapes = [(*sizes, *line.outputs[i].shape) for i in used]
        if [tuple(output.shape) for output in made] != shapes:
            return False
        weights = [line.cotangents[i].expand(o.shape) for i, o in zip(used, made, strict=True)]  # type: ignore[union-attr]
        found = torch.autograd.grad(made, leaves, weights, allow_unused=True)
        loop = [case.linearize(sample).vjp(line.cotangents) for sample in samples if within(case.replaced(sample))]
    except Exception:
        return True
    if len(loop) < count or not all(bool(g.isfinite().all()) for row in loop for g in row if g is not None):
        return True
    columns = [[row[i] for row in loop] for i in range(len(leaves))]
    dense = [
        None if any(g is None for g in column) else torch.stack([g for g in column if g is not None]).view(*leaf.shape)
        for column, leaf in zip(columns, leaves, strict=True)
    ]
    close = 4096 * line.epsilon
    if near(found, dense, close):
        return True
    return near(found, dense, close * max(1.0, line.scale / (largest(dense) or 1.0)))


def _forward_over_reverse(line: Line) -> Iterator[Finding]:
    """Tangents of the gradients, by inputs and upstream gradients together: of all outputs, then of each alone.

    Each alone is looked at beside the usual upstream gradients, for it takes as long as all together.
    """
    used = [i for i, c in enumerate(line.cotangents) if c is not None]
    alone = [line.alone(i) for i in used if len(used) > 1 and not line.kind]
    for one in [line, *alone] if line.double else ():
        found = list(_pushed_back(one))
        yield from found
        if found:
            return


def _pushed_back(line: Line) -> Iterator[Finding]:
    case, count = line.case, len(line.primals)
    given = [c for c in line.cotangents if c is not None]

    def gradients(*tensors: Tensor) -> tuple[Tensor, ...]:
        def outputs(*primals: Tensor) -> tuple[Tensor, ...]:
            made = zip(case.outputs(primals), line.cotangents, strict=True)
            return tuple(output for output, cotangent in made if cotangent is not None)

        back = torch.func.vjp(outputs, *tensors[:count])[1]
        return back(tuple(tensors[count:]))  # type: ignore[no-any-return]

    def pushed(at: Sequence[Tensor], moves: Sequence[Tensor]) -> Sequence[Tensor]:
        return torch.func.jvp(gradients, tuple(at), tuple(moves))[1]  # type: ignore[no-any-return]

    try:
        if line.tangents_agree(lambda moves: pushed([*line.primals, *given], moves)):
            return
    except Exception:  # To refuse is right.
        return
    base = baseline(case)
    pairs = zip(base.cotangents, line.cotangents, strict=True)
    base = replace(base, cotangents=[None if c is None else usual for usual, c in pairs])
    probe = Probe(backward_case(base))
    direction = probe.direction(generator(case, 97))
    made = pushed(probe.inputs.unflatten(probe.point), probe.inputs.unflatten(direction))
    found = flatten([t for t, g in zip(made, base.gradients, strict=True) if g is not None])
    ladder = probe.climb(direction)
    gap = torch.where(ladder.known, found - ladder.derivative, 0).abs()
    if bool((gap > 8 * ladder.error + CLOSE * ladder.scale).any()):
        worst = int(gap.argmax())
        yield Finding(
            "forward-over-reverse", Verdict.FAIL, "The tangent of the gradient is not its derivative",
            "torch.func.jvp of torch.func.vjp", float(found[worst]), float(ladder.derivative[worst]),
            float(gap[worst]), float(8 * ladder.error[worst]),
            hint="compute `jvp` and `backward` by torch functions of the inputs",
        )  # fmt: skip


ORDERS: dict[str, Callable[[Line], Iterator[Finding]]] = {
    "second order": _second,
    "third order": _third,
    "forward mode": _forward,
    "vmap": _mapped,
    "vmap of vmap": _mapped_twice,
    "forward over reverse": _forward_over_reverse,
}
"""Looks at other derivatives of a line."""
