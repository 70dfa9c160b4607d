"""PyTorch's own operators and modules with the arguments of its tests, and wrong versions of their backwards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils import _pytree as pytree

LARGEST = 128
"""Elements that the arguments of a sample may have together: slow gradcheck takes two calls for each."""


@dataclass(frozen=True)
class Sample:
    """One operator and one set of its arguments.

    Attributes:
        name: of the operator and its variant, and which of its samples this is.
        function: takes `tensors`, and returns the outputs that have a gradient.
        tensors: of which some require grad.
    """

    name: str
    function: Callable[..., Any]
    tensors: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        return sum(t.numel() for t in self.tensors)


def samples(dtype: torch.dtype, each: int, tried: int = 8) -> Iterator[Sample]:
    """Up to `each` samples of each operator that has a gradient, the largest that are not too large."""
    for op in op_db:
        if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu") or _skipped(op):
            continue
        found: list[Sample] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i, given in zip(range(tried), op.sample_inputs("cpu", dtype, requires_grad=True), strict=False):
                sample = _sample(f"{op.formatted_name}#{i}", op, given)
                if 0 < sample.size <= LARGEST and any(t.requires_grad for t in sample.tensors) and _runs(sample):
                    found.append(sample)
        yield from sorted(found, key=lambda s: -s.size)[:each]


@dataclass(frozen=True)
class Module:
    """One module, and one set of its arguments."""

    name: str
    module: nn.Module
    args: Sequence[Any]
    kwargs: dict[str, Any]


def modules(dtype: torch.dtype, each: int) -> Iterator[Module]:
    """Up to `each` samples of each module of torch's, as a user calls it: none of the arguments requires grad."""
    for info in module_db:
        given = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=True)
        for i, sample in enumerate(given[:each]):
            call = sample.forward_input
            made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).to(dtype)
            if any(map(nn.parameter.is_lazy, made.parameters())):
                continue
            yield Module(f"{info.name}#{i}", made, call.args, call.kwargs)


def _skipped(op: Any) -> bool:
    """Whether PyTorch's own tests of the gradient leave an operator out, or expect them to fail."""
    return any(
        isinstance(info, DecorateInfo)
        and info.cls_name == "TestBwdGradients"
        and info.test_name in (None, "test_fn_grad")
        and info.is_active("TestBwdGradients", "test_fn_grad", "cpu", torch.float64, {})
        for info in op.decorators
    )


def _sample(name: str, op: Any, given: Any) -> Sample:
    leaves, tree = pytree.tree_flatten(((given.input, *given.args), given.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def function(*tensors: Tensor) -> Any:
        filled = list(leaves)
        for i, tensor in zip(places, tensors, strict=True):
            filled[i] = tensor
        args, kwargs = pytree.tree_unflatten(filled, tree)
        return given.output_process_fn_grad(op.gradcheck_wrapper(op.get_op(), *args, **kwargs))

    return Sample(name, function, tuple(leaves[i].detach().requires_grad_(leaves[i].requires_grad) for i in places))


def _runs(sample: Sample) -> bool:
    """Whether it gives a gradient at all; some samples call for what a build of torch does not have."""
    try:
        outputs = [o for o in pytree.tree_leaves(sample.function(*sample.tensors)) if isinstance(o, Tensor)]
        outputs = [o for o in outputs if o.requires_grad]
        wanted = [t for t in sample.tensors if t.requires_grad]
        torch.autograd.grad(outputs, wanted, [torch.ones_like(o) for o in outputs], allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return False
    return True


# -- wrong backwards --------------------------------------------------------------------------------------------


def _entry(gradient: Tensor, factor: float, place: int = 0) -> Tensor:
    scaled = gradient.clone()
    scaled.view(-1)[_places(gradient)[place]] *= factor
    return scaled


def _swapped(gradient: Tensor) -> Tensor:
    swapped, (a, b) = gradient.clone(), _places(gradient)
    flat = swapped.view(-1)
    flat[[a, b]] = flat[[b, a]]
    return swapped


def _places(gradient: Tensor) -> tuple[int, int]:
    """Two elements, whichever they are the same in every call."""
    return gradient.numel() * 2 // 3, gradient.numel() // 3


def _mean(gradient: Tensor) -> Tensor:
    sizes = [size for size in gradient.shape if size > 1]
    return gradient / (sizes[-1] if sizes else 2)


MUTATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sign": torch.neg,
    "mean for sum": _mean,
    "one entry zeroed": lambda g: _entry(g, 0.0),
    "two entries swapped": _swapped,
    "transposed": lambda g: g.mT.reshape(g.shape) if g.ndim > 1 else g,
    "flipped": lambda g: g.reshape(-1).flip(0).view(g.shape),
    "one entry +1 %": lambda g: _entry(g, 1.01),
    "all +1 %": lambda g: g * 1.01,
    "one entry +1e-4": lambda g: _entry(g, 1 + 1e-4),
    "one entry +1e-6": lambda g: _entry(g, 1 + 1e-6),
    "all +5e-4": lambda g: g * (1 + 5e-4),
    "all +1e-6": lambda g: g * (1 + 1e-6),
}


def mutants(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The sample with each mutation of the gradient of its largest tensor, as far as it changes the gradient."""
    victim = max((i for i, t in enumerate(sample.tensors) if t.requires_grad), key=lambda i: sample.tensors[i].numel())
    gradients = [_gradient(sample, victim, seed) for seed in (0, 1)]
    for kind, mutation in MUTATIONS.items():
        if any(_differs(gradient, mutation, size) for gradient, size in gradients):
            yield kind, Sample(f"{sample.name} {kind}", _mutant(sample.function, victim, mutation), sample.tensors)


def _gradient(sample: Sample, victim: int, seed: int) -> tuple[Tensor, float]:
    """The gradient for random upstream gradients, and the size of what it is the derivative of."""
    torch.manual_seed(0)
    outputs = [o for o in _tensors(sample.function(*sample.tensors)) if o.requires_grad]
    generator = torch.Generator().manual_seed(seed)
    given = [torch.rand(o.shape, generator=generator, dtype=torch.float64).to(o.dtype) + 0.5 for o in outputs]
    (gradient,) = torch.autograd.grad(outputs, sample.tensors[victim], given, allow_unused=True)
    size = max(float(o.detach().abs().nan_to_num(posinf=0).max()) if o.numel() else 0.0 for o in outputs)
    return torch.zeros_like(sample.tensors[victim]) if gradient is None else gradient.contiguous(), size


def _differs(gradient: Tensor, mutation: Callable[[Tensor], Tensor], size: float) -> bool:
    """Whether a mutation changes more than the rounding of the gradient, or of the values behind it."""
    change = (mutation(gradient) - gradient).abs().nan_to_num(posinf=0).max()
    return float(change) > 1e-12 * max(float(gradient.abs().nan_to_num(posinf=0).max()), size)


def _mutant(function: Callable[..., Any], victim: int, mutation: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """The same function with a backward whose gradient of one tensor is mutated."""

    class Mutant(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Any:
            recorded = any(ctx.needs_input_grad)
            ctx.inputs = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
            with torch.set_grad_enabled(recorded):
                made = function(*ctx.inputs)
            ctx.outputs, tree = pytree.tree_flatten(made)
            ctx.set_materialize_grads(False)
            returned = [o.detach().clone() if isinstance(o, Tensor) else o for o in ctx.outputs]
            pairs = [(r, o) for r, o in zip(returned, ctx.outputs, strict=True) if isinstance(o, Tensor)]
            ctx.mark_non_differentiable(*[r for r, o in pairs if recorded and not o.requires_grad])
            Mutant.tree = tree
            return tuple(returned)

        @staticmethod
        def backward(ctx: Any, *given: Tensor | None) -> Any:
            pairs = [(o, g) for o, g in zip(ctx.outputs, given, strict=True) if g is not None]
            wanted = [i for i, need in enumerate(ctx.needs_input_grad) if need]
            gradients: list[Tensor | None] = [None] * len(ctx.inputs)
            if pairs:
                outputs, upstream = zip(*pairs, strict=True)
                found = torch.autograd.grad(
                    outputs, [ctx.inputs[i] for i in wanted], upstream, retain_graph=True, allow_unused=True
                )
                for i, gradient in zip(wanted, found, strict=True):
                    gradients[i] = gradient
            if gradients[victim] is not None:
                gradients[victim] = mutation(gradients[victim].contiguous())
            return tuple(gradients)

    return lambda *tensors: pytree.tree_unflatten(list(Mutant.apply(*tensors)), Mutant.tree)


def _tensors(made: Any) -> Sequence[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, Tensor)]
