"""Twenty wrong functions, each with a right version, of kinds that no check was written for.

They were written before anything was looked for in them: they tell how much is found of what nobody thought of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function


@dataclass(frozen=True)
class Pair:
    """A wrong target, its right version, and arguments of which most show no difference."""

    name: str
    wrong: Any
    right: Any
    inputs: Callable[[], tuple[Any, ...]]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def function(forward: Callable[..., Tensor], backward: Callable[..., Any], name: str = "Made") -> Any:
    """A Function that saves its tensors, and keeps its other arguments on ctx."""

    def forwards(ctx: Any, *args: Any) -> Tensor:
        out = forward(*args)
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = list(args)
        ctx.save_for_backward(*(args[i] for i in ctx.places), out)
        for i in ctx.places:
            ctx.others[i] = None
        return out

    def backwards(ctx: Any, grad: Tensor) -> Any:
        *tensors, out = ctx.saved_tensors
        args = list(ctx.others)
        for i, tensor in zip(ctx.places, tensors, strict=True):
            args[i] = tensor
        return backward(grad, *args, out)

    made = type(name, (Function,), {"forward": staticmethod(forwards), "backward": staticmethod(backwards)})
    return made.apply


def sine(backward: Callable[[Tensor, Tensor], Tensor]) -> Any:
    return function(torch.sin, lambda grad, x, out: backward(grad, x))


RIGHT_SINE = sine(lambda grad, x: grad * x.cos())


# 1: a cache by the address of the input
_BY_ADDRESS: dict[int, Tensor] = {}


def _remembered(grad: Tensor, x: Tensor) -> Tensor:
    slope = _BY_ADDRESS.setdefault(x.data_ptr(), x.cos().detach())
    return grad * slope if slope.shape == x.shape else grad * x.cos()


# 2: normalised by the largest upstream gradient, which may be zero
def _normalised(grad: Tensor, x: Tensor) -> Tensor:
    largest = grad.abs().max() if grad.numel() else grad.sum()
    return grad / largest * x.cos() * largest


# 3: zeros of the upstream gradient are left out, and what follows moves up
def _compacted(grad: Tensor, x: Tensor) -> Tensor:
    kept = grad[grad != 0]
    out = torch.zeros_like(grad).flatten()
    out[: kept.numel()] = kept * x.flatten()[: kept.numel()].cos()
    return out.reshape(x.shape)


# 4: an input kept in eight bits where that loses nothing for small numbers
def _bytes(grad: Tensor, x: Tensor) -> Tensor:
    whole = x.round().to(torch.int8).to(x.dtype)
    return grad * (whole + (x - x.round())).cos()


# 5: half precision for large inputs, to save memory
def _halved(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (x.half().to(x.dtype) if x.numel() > 1000 else x).cos()


# 6: an option that is a word
def _reduced(x: Tensor, how: str) -> Tensor:
    return x.square().sum() if how == "sum" else x.square().mean()


def _reduced_wrong(grad: Tensor, x: Tensor, how: str, out: Tensor) -> Any:
    return grad * 2 * x, None


def _reduced_right(grad: Tensor, x: Tensor, how: str, out: Tensor) -> Any:
    return grad * 2 * x / (1 if how == "sum" else x.numel()), None


# 7: an option that is a flag
def _flagged(x: Tensor, exact: bool) -> Tensor:
    return x.tanh() if exact else x / (1 + x.abs())


def _flagged_wrong(grad: Tensor, x: Tensor, exact: bool, out: Tensor) -> Any:
    return grad * (1 - x.tanh() ** 2), None


def _flagged_right(grad: Tensor, x: Tensor, exact: bool, out: Tensor) -> Any:
    return grad * ((1 - x.tanh() ** 2) if exact else 1 / (1 + x.abs()) ** 2), None


# 8: a bias that may be None
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight.T if bias is None else x @ weight.T + bias


def _linear_wrong(grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Any:
    if bias is None:
        return grad @ weight, grad.T @ x * 0.5, None
    return grad @ weight, grad.T @ x, grad.sum(0)


def _linear_right(grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Any:
    return grad @ weight, grad.T @ x, None if bias is None else grad.sum(0)


# 9: right for leaves, wrong for views of something
class Viewed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.view = x._is_view()
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.cos() * (2 if ctx.view else 1)


# 10: another first derivative where the graph of the backward is wanted
def _graphed(grad: Tensor, x: Tensor) -> Tensor:
    return grad * (1 - x * x / 2 + x**4 / 24) if torch.is_grad_enabled() else grad * x.cos()


# 11: a Hessian that is wrong off its diagonal
def _product(x: Tensor) -> Tensor:
    return x.prod(-1)


def _product_wrong(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    rest = torch.stack([torch.cat([x[..., :i], x[..., i + 1 :]], -1).prod(-1) for i in range(x.shape[-1])], -1)
    return grad.unsqueeze(-1) * rest.detach() + 0 * x


def _product_right(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    rest = torch.stack([torch.cat([x[..., :i], x[..., i + 1 :]], -1).prod(-1) for i in range(x.shape[-1])], -1)
    return grad.unsqueeze(-1) * rest


# 12: chunks by the number of threads, the rest is lost
def _by_threads(grad: Tensor, x: Tensor) -> Tensor:
    threads, out = torch.get_num_threads(), torch.zeros_like(x).flatten()
    size = x.numel() // threads
    for i in range(threads):
        part = slice(i * size, (i + 1) * size)
        out[part] = (grad * x.cos()).flatten()[part]
    return out.reshape(x.shape)


# 13: places counted in sixteen bits
def _short_places(grad: Tensor, x: Tensor) -> Tensor:
    places = torch.arange(x.numel()).to(torch.int16).long() % max(x.numel(), 1)
    return (grad.flatten() * x.flatten()[places].cos()).reshape(x.shape)


# 14: four axes are taken for three
def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _centred_wrong(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad - grad.mean(-2 if x.ndim == 4 else -1, keepdim=True)


def _centred_right(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad - grad.mean(-1, keepdim=True)


# 15: a weight without axes
def _scaled(x: Tensor, weight: Tensor) -> Tensor:
    return x * weight


def _scaled_wrong(grad: Tensor, x: Tensor, weight: Tensor, out: Tensor) -> Any:
    total = (grad * x).sum() if weight.ndim else (grad * x).mean()
    return grad * weight, total.reshape(weight.shape) if weight.numel() == 1 else (grad * x).sum_to_size(weight.shape)


def _scaled_right(grad: Tensor, x: Tensor, weight: Tensor, out: Tensor) -> Any:
    return grad * weight, (grad * x).sum_to_size(weight.shape)


# 16: places counted from the end
def _picked(x: Tensor, places: Tensor) -> Tensor:
    return x[places]


def _picked_wrong(grad: Tensor, x: Tensor, places: Tensor, out: Tensor) -> Any:
    return torch.zeros_like(x).index_add_(0, places.clamp(min=0), grad), None


def _picked_right(grad: Tensor, x: Tensor, places: Tensor, out: Tensor) -> Any:
    return torch.zeros_like(x).index_add_(0, places % len(x), grad), None


# 17: an input that happens to be sorted
def _sorted(x: Tensor) -> Tensor:
    return x.sort(-1).values


def _sorted_wrong(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    order = x.argsort(-1, descending=bool((x[..., 1:] >= x[..., :-1]).all()))
    return torch.zeros_like(x).scatter(-1, order, grad)


def _sorted_right(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return torch.zeros_like(x).scatter(-1, x.argsort(-1), grad)


# 18: what is masked with minus infinity
def _total(x: Tensor) -> Tensor:
    return x.logsumexp(-1)


def _total_wrong(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    peak = x.max(-1, keepdim=True).values
    low = x.min(-1, keepdim=True).values
    weight = (x - low).exp() * (low - peak).exp()
    return grad.unsqueeze(-1) * weight / weight.sum(-1, keepdim=True)


def _total_right(grad: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return grad.unsqueeze(-1) * x.softmax(-1)


# 19: a list of tensors
def _joined(*parts: Tensor) -> Tensor:
    return torch.cat([(i + 1) * part for i, part in enumerate(parts)])


def _joined_wrong(grad: Tensor, *rest: Tensor) -> Any:
    *parts, _ = rest
    pieces = list(grad.split([len(part) for part in parts]))
    if len(pieces) > 2:
        pieces[1], pieces[2] = pieces[2], pieces[1]
    return tuple((i + 1) * piece for i, piece in enumerate(pieces))


def _joined_right(grad: Tensor, *rest: Tensor) -> Any:
    *parts, _ = rest
    return tuple((i + 1) * piece for i, piece in enumerate(grad.split([len(part) for part in parts])))


def joined(apply: Any) -> Callable[[list[Tensor]], Tensor]:
    return lambda parts: apply(*parts)


# 20: a module that is evaluated
class Gate(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(normal(4, seed=7))
        self.gate = sine(lambda grad, z: grad * z.cos() * (0.9 if wrong and not self.training else 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(x * self.weight)


TWENTY = [
    Pair("address", sine(_remembered), RIGHT_SINE, lambda: (normal(4),)),
    Pair("zero cotangent", sine(_normalised), RIGHT_SINE, lambda: (normal(4),)),
    Pair("zeros in the cotangent", sine(_compacted), RIGHT_SINE, lambda: (normal(4),)),
    Pair("eight bits", sine(_bytes), RIGHT_SINE, lambda: (normal(4),)),
    Pair("half of many", sine(_halved), RIGHT_SINE, lambda: (normal(4),)),
    Pair("a word", function(_reduced, _reduced_wrong), function(_reduced, _reduced_right), lambda: (normal(4), "sum")),
    Pair("a flag", function(_flagged, _flagged_wrong), function(_flagged, _flagged_right), lambda: (normal(4), True)),
    Pair(
        "no bias",
        function(_linear, _linear_wrong),
        function(_linear, _linear_right),
        lambda: (normal(3, 4), normal(2, 4, seed=1), normal(2, seed=2)),
    ),
    Pair("a view", Viewed.apply, RIGHT_SINE, lambda: (normal(4),)),
    Pair("the graph is wanted", sine(_graphed), RIGHT_SINE, lambda: (normal(4) / 8,)),
    Pair(
        "off the diagonal",
        function(_product, _product_wrong),
        function(_product, _product_right),
        lambda: (normal(3),),
    ),
    Pair("threads", sine(_by_threads), RIGHT_SINE, lambda: (normal(4),)),
    Pair("sixteen bits", sine(_short_places), RIGHT_SINE, lambda: (normal(4),)),
    Pair("four axes", function(_centred, _centred_wrong), function(_centred, _centred_right), lambda: (normal(2, 3),)),
    Pair(
        "no axes",
        function(_scaled, _scaled_wrong),
        function(_scaled, _scaled_right),
        lambda: (normal(3), normal(1, seed=1)),
    ),
    Pair(
        "from the end",
        function(_picked, _picked_wrong),
        function(_picked, _picked_right),
        lambda: (normal(4), torch.tensor([0, 2, 2])),
    ),
    Pair("sorted", function(_sorted, _sorted_wrong), function(_sorted, _sorted_right), lambda: (normal(4),)),
    Pair("masked", function(_total, _total_wrong), function(_total, _total_right), lambda: (normal(4),)),
    Pair(
        "a list",
        joined(function(_joined, _joined_wrong)),
        joined(function(_joined, _joined_right)),
        lambda: ([normal(2), normal(2, seed=1)],),
    ),
    Pair("evaluated", Gate(True), Gate(False), lambda: (normal(3, 4),)),
]
