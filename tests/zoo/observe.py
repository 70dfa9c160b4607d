"""Observations: what a target shows from one side, as plain data that can be compared.

They are how the zoo itself is proved, and know nothing of the checker: a wrong bug has to look other than its
right version, and the right one the same as torch's own function.
"""

from __future__ import annotations

import copy
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from ..simulated import simulated

Observation = Callable[[Any, tuple[Any, ...]], Any]


def differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


class Call:
    """A target with its arguments flat; a module's parameters come first."""

    def __init__(self, target: Any, inputs: tuple[Any, ...]) -> None:
        self.function, parameters = target, {}
        if isinstance(target, nn.Module):
            target = copy.deepcopy(target)
            parameters = dict(target.named_parameters())
            self.function = lambda given, *args: torch.func.functional_call(target, given, args)
            inputs = (parameters, *inputs)
        self.flat, self.tree = pytree.tree_flatten(inputs)
        found = [i for i, value in enumerate(self.flat) if differentiable(value)]
        self.primals = [i for i in found if self.flat[i].requires_grad] or found
        if parameters:
            self.primals = found

    def __call__(self, *primals: Tensor) -> Any:
        flat = [v.detach().clone() if isinstance(v, Tensor) else v for v in self.flat]
        for i, primal in zip(self.primals, primals, strict=True):
            flat[i] = primal
        return self.function(*pytree.tree_unflatten(flat, self.tree))

    def outputs(self, *primals: Tensor) -> list[Tensor]:
        """The differentiable outputs."""
        return [leaf for leaf in pytree.tree_leaves(self(*primals)) if differentiable(leaf)]

    def leaves(self, wanted: Sequence[bool] | None = None) -> list[Tensor]:
        """Fresh copies of the primals, with their strides."""
        fresh = [self.flat[i].detach().clone() for i in self.primals]
        return [x.requires_grad_(want) for x, want in zip(fresh, wanted or [True] * len(fresh), strict=True)]

    def plain(self) -> list[Tensor]:
        """The same without requiring a gradient."""
        return self.leaves([False] * len(self.primals))


def drawn(like: Sequence[Tensor], seed: int = 1) -> list[Tensor]:
    """Random tensors of these shapes and dtypes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(x.shape, dtype=x.dtype, generator=generator) for x in like]


def vjp_of(outputs: Sequence[Tensor], leaves: Sequence[Tensor], cotangents: Sequence[Tensor], **options: Any) -> Any:
    """Gradients by autograd, dense; zeros where there is none."""
    wanted = [x for x in leaves if x.requires_grad]
    pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
    if not pairs or not wanted:
        return ["nothing requires grad"]
    roots, given = zip(*pairs, strict=True)
    made = torch.autograd.grad(roots, wanted, given, allow_unused=True, **options)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, made, strict=True)]


def attempted(look: Observation) -> Observation:
    """An error is an observation too."""

    def look_or_fail(target: Any, inputs: tuple[Any, ...]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return look(target, inputs)
            except Exception as error:
                return type(error).__name__

    return look_or_fail


@attempted
def gradients(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Values and gradients."""
    call = Call(target, inputs)
    leaves = call.leaves()
    outputs = call.outputs(*leaves)
    return [o.detach() for o in outputs], vjp_of(outputs, leaves, drawn(outputs))


@attempted
def values(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Values, with grad mode and without."""
    call = Call(target, inputs)
    with torch.no_grad():
        without = pytree.tree_leaves(call(*call.plain()))
    return [x.detach() for x in pytree.tree_leaves(call(*call.leaves()))], without


def scaled(factor: float) -> Observation:
    """Gradients for cotangents of this size, divided by it."""

    @attempted
    def look(target: Any, inputs: tuple[Any, ...]) -> Any:
        call = Call(target, inputs)
        leaves = call.leaves()
        outputs = call.outputs(*leaves)
        return [g / factor for g in vjp_of(outputs, leaves, [factor * c for c in drawn(outputs)])]

    return look


@attempted
def raw(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Shapes and dtypes of what backward returns, before the engine makes them fit."""
    call = Call(target, inputs)
    leaves = call.leaves()
    outputs = call.outputs(*leaves)
    backward = getattr(outputs[0].grad_fn, "apply", None)  # torch's own functions have none: nothing is raw there
    made = backward(*drawn(outputs)) if backward else vjp_of(outputs, leaves, drawn(outputs))
    return [(tuple(g.shape), str(g.dtype)) for g in (made if isinstance(made, (list, tuple)) else [made])]


@attempted
def each_output_alone(target: Any, inputs: tuple[Any, ...]) -> Any:
    call = Call(target, inputs)
    leaves = call.leaves()
    outputs = call.outputs(*leaves)
    return [vjp_of([o], leaves, [c], retain_graph=True) for o, c in zip(outputs, drawn(outputs), strict=True)]


@attempted
def each_input_alone(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Gradients where just one input requires grad."""
    call, found = Call(target, inputs), []
    for i in range(len(call.primals)):
        leaves = call.leaves([i == j for j in range(len(call.primals))])
        outputs = call.outputs(*leaves)
        found.append(vjp_of(outputs, leaves, drawn(outputs)))
    return found


@attempted
def second(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Gradients of the gradients; "refused" where they are said not to exist."""
    call = Call(target, inputs)
    leaves = call.leaves()
    outputs = call.outputs(*leaves)
    cotangents = [c.requires_grad_() for c in drawn(outputs)]
    first = vjp_of(outputs, leaves, cotangents, create_graph=True)
    try:
        return vjp_of(first, [*leaves, *cotangents], drawn(first, 2))
    except RuntimeError as error:
        return "refused" if "once_differentiable" in str(error) else f"RuntimeError: {error}"


def mixed(first: int, then: int) -> Observation:
    """The gradient of one input, differentiated in another alone."""

    @attempted
    def observation(target: Any, inputs: tuple[Any, ...]) -> Any:
        call = Call(target, inputs)
        leaves = call.leaves()
        outputs = call.outputs(*leaves)
        gradient = vjp_of(outputs, [leaves[first]], drawn(outputs), create_graph=True)
        return vjp_of(gradient, [leaves[then]], drawn(gradient, 2))

    return observation


@attempted
def tangents(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Forward mode: for all inputs, and for each alone."""
    call, found = Call(target, inputs), []
    with forward_ad.dual_level():
        for alone in (None, *range(len(call.primals))):
            primals = call.plain()
            directions = drawn(primals)
            chosen = [i for i in range(len(primals)) if alone in (None, i)]
            for i in chosen:
                primals[i] = forward_ad.make_dual(primals[i], directions[i])
            made = [forward_ad.unpack_dual(o) for o in call.outputs(*primals)]
            found.append([torch.zeros_like(m.primal) if m.tangent is None else m.tangent for m in made])
    return found


@attempted
def on_new_memory(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Values and gradients where torch fills the memory of `torch.empty` with NaN."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        return gradients(target, inputs)
    finally:
        torch.set_deterministic_debug_mode(before)


def mapped(in_dims: Any, out_dims: int = 0) -> Observation:
    """Under vmap, of inputs stacked from three samples."""

    @attempted
    def look(target: Any, inputs: tuple[Any, ...]) -> Any:
        def stack(x: Any, dim: int | None) -> Any:
            return x if dim is None else torch.stack([x, 2 * x + 1, 3 - x], dim)

        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(inputs)
        stacked = [stack(x, dim) for x, dim in zip(inputs, dims, strict=True)]
        return torch.vmap(target, in_dims=dims, out_dims=out_dims)(*stacked)

    return look


@attempted
def fake(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Shapes, strides and dtypes of the outputs for fake tensors and for real ones, at two sizes."""

    def metadata(out: Any) -> Any:
        return [(tuple(x.shape), x.stride(), str(x.dtype)) for x in pytree.tree_leaves(out)]

    found = []
    with torch.no_grad():
        for change in (lambda x: x, lambda x: torch.cat([x, x])):
            real = pytree.tree_map_only(Tensor, change, inputs)
            found.append(metadata(target(*real)))
            with torch._subclasses.FakeTensorMode() as mode:
                found.append(metadata(target(*pytree.tree_map_only(Tensor, mode.from_tensor, real))))
    return found


@attempted
def in_place(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Inputs and cotangents after forward and backward, whether outputs share the inputs' memory, the gradients."""
    call = Call(target, inputs)
    leaves = call.leaves()
    before = [x + 0 for x in leaves]
    outputs = call.outputs(*before)
    shared = [o.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for o in outputs for x in before]
    cotangents = drawn(outputs)
    after = [x.detach().clone() for x in before]
    made = vjp_of(outputs, leaves, cotangents)
    return after, [x.detach().clone() for x in before], cotangents, shared, made


@attempted
def interleaved(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Two calls, the second with other inputs, before the first one's backward."""
    call = Call(target, inputs)
    first, second = call.leaves(), [x.detach().mul(-1.5).add(0.25).requires_grad_() for x in call.leaves()]
    outputs, others = call.outputs(*first), call.outputs(*second)
    found = [o.detach().clone() for o in (*outputs, *others)]
    made = vjp_of(outputs, first, drawn(outputs))
    made_of_others = vjp_of(others, second, drawn(others))
    return found, made, made_of_others, [o.detach() for o in outputs]


@attempted
def backward_twice(target: Any, inputs: tuple[Any, ...]) -> Any:
    call = Call(target, inputs)
    leaves = call.leaves()
    outputs = call.outputs(*leaves)
    first = vjp_of(outputs, leaves, drawn(outputs), retain_graph=True)
    kept = [g.clone() for g in first]
    return kept, vjp_of(outputs, leaves, drawn(outputs, 2)), first


@attempted
def repeated(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Whether values and gradients are the same to the last bit in three calls."""
    made = []
    for _ in range(3):
        call = Call(target, inputs)
        leaves = call.leaves()
        torch.manual_seed(0)
        outputs = call.outputs(*leaves)
        made.append([*(o.detach() for o in outputs), *vjp_of(outputs, leaves, drawn(outputs))])
    return [all(torch.equal(a, b) for a, b in zip(made[0], other, strict=True)) for other in made[1:]]


@attempted
def freed(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Whether the inputs and outputs of three calls are freed once nobody holds them, without the garbage collector."""
    gc.disable()
    try:
        watched = []
        for _ in range(3):
            call = Call(target, inputs)
            leaves = call.leaves()
            middle = [x + 0 for x in leaves]
            outputs = call.outputs(*middle)
            watched += [weakref.ref(x) for x in (*middle, *outputs)]
            del call, leaves, middle, outputs
        return [ref() is None for ref in watched]
    finally:
        gc.enable()


@attempted
def laid_out(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Gradients for inputs and cotangents that are transposed, or begin within their memory, or are expanded."""

    def transposed(x: Tensor) -> Tensor:
        axes = (0, x.dim() - 1)
        return x.transpose(*axes).contiguous().transpose(*axes) if x.dim() > 1 else x

    def within(x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x.reshape(-1)[:3]), x.reshape(-1)])[3:].view(x.shape) if x.numel() else x

    def last(x: Tensor) -> Tensor:
        return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x

    def expanded(x: Tensor) -> Tensor:
        return torch.ones((), dtype=x.dtype).expand(x.shape)

    def expanded_once(x: Tensor) -> Tensor:
        return x[:1].expand(x.shape)

    def kept(x: Tensor) -> Tensor:
        return x

    found = []
    pairs = [(transposed, kept), (kept, transposed), (within, within), (last, last), (kept, expanded)]
    for of_inputs, of_cotangents in [*pairs, (kept, expanded_once)]:
        call = Call(target, inputs)
        leaves = call.leaves()
        outputs = call.outputs(*(of_inputs(x) for x in leaves))
        made = vjp_of(outputs, leaves, [of_cotangents(c) for c in drawn(outputs)])
        found.append(([o.detach() for o in outputs], made))
    return found


@attempted
def in_threads(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Values of four calls at once, each with inputs of its own."""
    calls = [Call(target, pytree.tree_map_only(Tensor, lambda x, k=k: x + k, inputs)) for k in range(4)]
    found: list[Any] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(k: int) -> None:
        barrier.wait()
        found[k] = [o.detach().clone() for o in calls[k].outputs(*calls[k].plain())]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@attempted
def in_autocast(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Within autocast: dtypes, and whether values and gradients are within a few per cent of those without."""
    call, cast = Call(target, inputs), Call(target, inputs)
    leaves, wide = call.leaves(), cast.leaves()
    with torch.autocast("cpu", torch.bfloat16):
        outputs = call.outputs(*leaves)
    made = vjp_of(outputs, leaves, drawn(outputs))
    precise = cast.outputs(*wide)
    expected = vjp_of(precise, wide, [c.to(wide[0].dtype) for c in drawn(outputs)])
    pairs = zip([*outputs, *made], [*precise, *expected], strict=True)
    close = [bool((g - e).norm() < 0.05 * e.norm()) for g, e in pairs]
    return [str(o.dtype) for o in outputs], [str(g.dtype) for g in made], close


@attempted
def registered(target: Any, inputs: tuple[Any, ...]) -> Any:
    """What torch.library.opcheck says, test by test."""
    call = Call(target, inputs)
    flat = list(call.flat)
    for i, leaf in zip(call.primals, call.leaves(), strict=True):
        flat[i] = leaf
    found = torch.library.opcheck(target, pytree.tree_unflatten(flat, call.tree), raise_exception=False)
    return {name: str(result) == "SUCCESS" for name, result in found.items()}


_TOLERANCE = {torch.float64: 1e-10, torch.complex128: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3}


def meshed(*axes: int | None) -> Observation:
    """Values and gradients on two ranks, simulated in this process: of each input the axis that is cut, or None."""

    @attempted
    def look(target: Any, inputs: tuple[Any, ...]) -> Any:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # They take a second to import.

        with simulated(2) as mesh:
            placements = [Replicate() if axis is None else Shard(axis) for axis in axes]
            pairs = zip(inputs, placements, strict=True)
            leaves = [distribute_tensor(x.clone(), mesh, [place]).requires_grad_() for x, place in pairs]
            out = target(*leaves)
            return [whole.full_tensor().reconcile() for whole in (out, *torch.autograd.grad(out.sum(), leaves))]

    return look


def same(one: Any, other: Any) -> bool:
    """Whether two observations are the same, numbers up to rounding."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        one, other = (x.to_dense() if x.layout != torch.strided else x for x in (one, other))
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        bound = _TOLERANCE.get(one.dtype, 3e-2)
        return torch.allclose(one, other, rtol=bound, atol=bound / 100, equal_nan=True)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)
