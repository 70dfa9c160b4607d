"""What every operator of the tests is given, must equal and cannot do: the table that matrix and laws run over."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import torchgraft as tg
from examples.adopted import swish
from examples.correlate2d import correlate2d
from examples.correlate2d_c import correlate2d as correlate2d_c
from examples.cube import cube, cube_keeping_square
from examples.dct import dct
from examples.exp_saved import exp
from examples.fft_magnitude import rfft2, rfft2_adjoint
from examples.gelu_scalar import gelu
from examples.global_max_pool import global_max_pool
from examples.global_max_pool_c import global_max_pool as global_max_pool_c
from examples.lfilter_c import lfilter
from examples.linear import linear
from examples.linear_cpp import linear as linear_cpp
from examples.mul_constant import mul_constant
from examples.scipy_layer import filter2d
from examples.softplus import softplus
from examples.split import split, to_unit
from examples.state import State, leapfrog
from examples.top_two import top_two

from . import operators as ops
from .kinds import lists

REVERSE, FORWARD = "reverse", "forward"
REVERSE_AGAIN, FORWARD_AGAIN = "derivatives of the reverse rule", "derivatives of the forward rule"
ONE_LEVEL = "both modes at one level of autograd, where a rule reads an output"


@dataclass(frozen=True)
class Case:
    """One operator with arguments, float64 or complex128, whose sizes all differ.

    Attributes:
        name: of the operator; several cases of one operator are numbered.
        op: the operator.
        reference: the same in plain torch.
        make: makes the positional arguments.
        keywords: of the call.
        constant: positions of floating arguments that are not differentiable.
        cannot: what must be refused, of the five names above.
        in_matrix: whether the matrix has a column for it; laws run over all cases.
    """

    name: str
    op: tg.Op
    reference: Callable[..., Any]
    make: Callable[[], tuple[Any, ...]]
    keywords: dict[str, Any] = field(default_factory=dict)
    constant: tuple[int, ...] = ()
    cannot: frozenset[str] = frozenset()
    in_matrix: bool = True

    def arguments(self, dtype: torch.dtype = torch.float64) -> list[Any]:
        """The positional arguments: fresh tensors with the same values at each call, in any thread."""
        return [to_dtype(argument, dtype) for argument in copy.deepcopy(self._made)]

    @cached_property
    def _made(self) -> tuple[Any, ...]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(len(self.name))
            return self.make()

    @property
    def writes(self) -> bool:
        """True if the operator writes into its first argument, which keeps its dtype whatever the others are."""
        return self.op.functional is not self.op

    @property
    def call(self) -> Callable[..., Any]:
        """The operator as a function of its positional arguments: a copy of what it writes first, its seed last."""
        if self.op._record.signature.seed is not None:
            return lambda *values, **keywords: self.op(*values[:-1], seed=values[-1], **keywords)
        if not self.writes:
            return self.op

        def call(y: Tensor, *others: Any, **keywords: Any) -> Any:
            written = y + torch.zeros_like(others[0])  # Mapped where any is: it has a place for every sample.
            made = self.op(written, *others, **keywords)
            return written if made is None else (written, made)

        return call

    @property
    def torch_kernel(self) -> bool:
        return not self.op._record.opaque

    def leaves(self, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        """All tensors of the call, lists flattened."""
        return [leaf for _, leaf in self._leaves(dtype)]

    def primals(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
        """The tensors with respect to which it is differentiated."""
        return tuple(leaf for position, leaf in self._leaves(dtype) if self._differentiable(position, leaf))

    def _leaves(self, dtype: torch.dtype) -> list[tuple[int, Tensor]]:
        flat = []
        for position, argument in enumerate(self.arguments(dtype)):
            flat += [(position, item) for item in pytree.tree_leaves(argument) if isinstance(item, Tensor)]
        return flat

    def _differentiable(self, position: int, leaf: Tensor) -> bool:
        return (leaf.is_floating_point() or leaf.is_complex()) and position not in self.constant

    def raw(self, op: Callable[..., Any], dtype: torch.dtype = torch.float64) -> Callable[..., tuple[Tensor, ...]]:
        """`op` as a function of all tensors of the call, returning a tuple of all outputs."""
        template = self.arguments(dtype)

        def call(*leaves: Tensor) -> tuple[Tensor, ...]:
            rest = iter(leaves)
            made = op(*[_fill(argument, rest) for argument in template], **self.keywords)
            leaves: list[Tensor] = torch.utils._pytree.tree_leaves(made)
            return tuple(leaves)

        return call

    def smooth(self, op: Callable[..., Any], dtype: torch.dtype = torch.float64) -> Callable[..., Tensor]:
        """`op` as a function of `primals` that returns one vector, curved where the operator is linear."""
        raw = self.raw(op, dtype)
        pairs = self._leaves(dtype)
        template = [None if self._differentiable(position, leaf) else leaf for position, leaf in pairs]

        def call(*primals: Tensor) -> Tensor:
            rest = iter(primals)
            outputs = raw(*[next(rest) if leaf is None else leaf for leaf in template])
            curved = [o.sin().reshape(-1) for o in outputs if o.is_floating_point() or o.is_complex()]
            return torch.cat(curved)

        return call


def _fill(argument: Any, leaves: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda _: next(leaves), argument)


def to_dtype(value: Any, dtype: torch.dtype) -> Any:
    """Floating tensors in `dtype`, complex ones in its complex twin."""
    if not isinstance(value, Tensor):
        return pytree.tree_map_only(Tensor, lambda item: to_dtype(item, dtype), value)
    if value.is_floating_point() or value.is_complex():
        return value.to(dtype.to_complex() if value.is_complex() else dtype)
    return value


def real(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def complex_(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex128)


def conv2d(x: Tensor, kernel: Tensor) -> Tensor:
    """Cross-correlation with batches that broadcast, as `correlate2d` does it."""
    kh, kw = kernel.shape[-2:]
    rows, columns = x.shape[-2] - kh + 1, x.shape[-1] - kw + 1
    return sum(
        kernel[..., i : i + 1, j : j + 1] * x[..., i : i + rows, j : j + columns] for i in range(kh) for j in range(kw)
    )


def _summary(x: Tensor) -> Any:
    return x**3, (x * x).sum(), x.argmax()


def _powers(x: Tensor, k: int) -> Tensor:
    return torch.stack([x ** (i + 1) for i in range(k)], -1)


def _mixture(terms: list[Tensor], weights: Tensor) -> Tensor:
    return sum(term**2 for term in terms) * weights


def _normalize(x: Tensor, *, eps: float) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True) + eps).sqrt()


def _layer(weight: Tensor, x: Tensor) -> Tensor:
    return torch.tanh((weight * x.unsqueeze(-2)).sum(-1))


def _leapfrog(state: State, time: float) -> tuple[Tensor, Tensor]:
    half = state.velocity - time / 2 * state.strength * state.position.sin() / state.mass
    position = state.position + time * half
    return position, half - time / 2 * state.strength * position.sin() / state.mass


def _pendulums() -> tuple[State, float]:
    return State(real(3), real(3), 2 + real(3).sin(), 1.5), 0.25


def dct_matrix(n: int) -> Tensor:
    """The orthonormal DCT-II: rows sqrt(2/n) cos(pi k (2i + 1) / 2n), the first over sqrt(2).

    Source: G. Strang, The Discrete Cosine Transform, SIAM Review 41 (1999), 135-147, DCT-2.
    """
    k, i = torch.arange(n, dtype=torch.float64)[:, None], torch.arange(n, dtype=torch.float64)
    rows = (torch.pi * k * (2 * i + 1) / (2 * n)).cos() * (2 / n) ** 0.5
    return torch.cat([rows[:1] / 2**0.5, rows[1:]])


def _dct(x: Tensor) -> Tensor:
    return x @ dct_matrix(x.shape[-1]).to(x.dtype).mT


def _rfft2_adjoint(spectrum: Tensor, width: int) -> Tensor:
    """As PyTorch does it: a complex transform of the spectrum filled with zeros."""
    filled = torch.nn.functional.pad(spectrum, (0, width - spectrum.shape[-1]))
    return torch.fft.ifft2(filled, norm="forward").real


def _global_max(images: Tensor) -> Tensor:
    return images.amax((-2, -1))


def _filter2d(x: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
    out = conv2d(x.unsqueeze(-3), kernel)
    return out if bias is None else out + bias[..., None, None]


def _top_two(scores: Tensor, *, weights: list[float], order: str) -> Any:
    values, index = scores.sort(descending=order == "largest")
    return values[..., :2], index[..., :2], weights[0] * values[..., 0] + weights[1] * values[..., 1]


def plain_lfilter(x: Tensor, b: Tensor, a: Tensor) -> Tensor:
    """The recurrence, step by step."""
    made: list[Tensor] = []
    for i in range(x.shape[-1]):
        terms = [b[..., j] * x[..., i - j] for j in range(b.shape[-1]) if j <= i]
        terms += [-a[..., j] * made[i - j] for j in range(1, a.shape[-1]) if j <= i]
        made.append(sum(terms) / a[..., 0])
    return torch.stack(made, -1)


def _damped(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    made = y * torch.sin(x)
    return made, made.sum()


def _jittered(x: Tensor, seed: Tensor) -> Tensor:
    return x**3 * tg.random_uniform(seed, x.shape[-1], dtype=torch.float64).to(x.dtype)


def _split(x: Tensor, *, lengths: list[int]) -> Any:
    return [part.clone() for part in x.split(lengths, -1)]


def _to_unit(xs: list[Tensor]) -> list[Tensor]:
    norm = torch.cat(xs).square().sum().sqrt()
    return [x / norm for x in xs]


def _coefficients(count: int) -> Tensor:
    """Of a stable filter."""
    return torch.cat([torch.ones(1, dtype=torch.float64), 0.2 * real(count - 1)])


_ONCE = frozenset({REVERSE_AGAIN, FORWARD_AGAIN})
_READS_OUTPUT = frozenset({ONE_LEVEL})
_LENGTHS = {"lengths": [1, 2, 3]}
_SMALLEST = {"weights": [0.75, 0.25], "order": "smallest"}

CASES = [
    Case("linear", linear, torch.nn.functional.linear, lambda: (real(2, 4), real(3, 4), real(3))),
    Case("linear 2", linear, torch.nn.functional.linear, lambda: (real(4), real(3, 4)), in_matrix=False),
    Case("linear 3", linear, torch.nn.functional.linear, lambda: (real(5, 2, 4), real(1, 4), real(1)), in_matrix=False),
    Case("correlate2d", correlate2d, conv2d, lambda: (real(4, 5), real(2, 3))),
    Case("correlate2d 2", correlate2d, conv2d, lambda: (real(6, 4, 5), real(2, 3)), in_matrix=False),
    Case("correlate2d 3", correlate2d, conv2d, lambda: (real(3, 1, 4, 5), real(2, 2, 3)), in_matrix=False),
    Case("softplus", softplus, torch.nn.functional.softplus, lambda: (real(3, 2),)),
    Case("softplus 2", softplus, torch.nn.functional.softplus, lambda: (real(),), in_matrix=False),
    Case("mul_constant", mul_constant, torch.mul, lambda: (real(3, 2), -1.5)),
    Case("global_max_pool", global_max_pool, _global_max, lambda: (real(2, 3, 4),), cannot=_READS_OUTPUT),
    Case("rfft2", rfft2, torch.fft.rfft2, lambda: (real(3, 4),)),
    Case("rfft2 2", rfft2, torch.fft.rfft2, lambda: (real(2, 4, 5),), in_matrix=False),
    Case("rfft2_adjoint", rfft2_adjoint, _rfft2_adjoint, lambda: (complex_(3, 3), 5)),
    Case("rfft2_adjoint 2", rfft2_adjoint, _rfft2_adjoint, lambda: (complex_(2, 3, 3), 4), in_matrix=False),
    Case("dct", dct, _dct, lambda: (real(2, 4),)),
    Case("top_two", top_two, _top_two, lambda: (real(3, 4),), _SMALLEST, cannot=_READS_OUTPUT),
    Case("split", split, _split, lambda: (real(6),), _LENGTHS),
    Case("to_unit", to_unit, _to_unit, lambda: ([real(2), real(3)],)),
    Case("split_c", lists.split_c, _split, lambda: (real(2, 6),), _LENGTHS),
    Case(
        "squares_np",
        lists.squares_np,
        lambda x, lengths: _split(x.square(), lengths=lengths),
        lambda: (real(6),),
        _LENGTHS,
        cannot=_ONCE,
    ),
    Case("clipped", lists.clipped, lists.plain_clipped, lambda: (real(6),), _LENGTHS, in_matrix=False),
    Case("exp", exp, torch.exp, lambda: (real(3),), cannot=_READS_OUTPUT),
    Case("cube_keeping_square", cube_keeping_square, lambda x: x**3, lambda: (real(3),), cannot=_ONCE),
    Case("cube 2", cube, lambda x: x**3, lambda: (real(3, 2),), in_matrix=False),
    Case("filter2d", filter2d, _filter2d, lambda: (real(3, 4), real(2, 2, 3), real(2))),
    Case("filter2d 2", filter2d, _filter2d, lambda: (real(2, 4, 3), real(2, 1, 2)), in_matrix=False),
    Case("swish", swish, lambda x: x * x.sigmoid(), lambda: (real(3, 2),), cannot=_READS_OUTPUT),
    Case("correlate2d_c", correlate2d_c, conv2d, lambda: (real(4, 5), real(2, 3))),
    Case("correlate2d_c 2", correlate2d_c, conv2d, lambda: (real(6, 4, 5), real(2, 3)), in_matrix=False),
    Case("gelu", gelu, torch.nn.functional.gelu, lambda: (real(3, 2),), cannot=_ONCE),
    Case("lfilter", lfilter, plain_lfilter, lambda: (real(5), real(2), _coefficients(3)), cannot=_READS_OUTPUT),
    Case(
        "lfilter 2",
        lfilter,
        plain_lfilter,
        lambda: (real(2, 5), real(3), _coefficients(2)),
        cannot=_READS_OUTPUT,
        in_matrix=False,
    ),
    Case(
        "linear_cpp",
        linear_cpp,
        torch.nn.functional.linear,
        lambda: (real(2, 4), real(3, 4), real(3)),
        cannot=_ONCE | {FORWARD},
    ),
    Case("global_max_pool_c", global_max_pool_c, _global_max, lambda: (real(2, 3, 4),), cannot=_ONCE | {FORWARD}),
    Case("summary", ops.summary, _summary, lambda: (real(3),)),
    Case("global_max", ops.global_max, lambda x: x.max(-1).values, lambda: (real(3, 4),), cannot=_READS_OUTPUT),
    Case("logsumexp", ops.logsumexp, lambda x: x.exp().sum().log(), lambda: (real(4),), cannot=_ONCE),
    Case("mixture", ops.mixture, _mixture, lambda: ([real(3), real(3)], real(3))),
    Case("powers", ops.powers, _powers, lambda: (real(3), 2)),
    Case("scale_rows", ops.scale_rows, torch.mul, lambda: (real(3, 2), real(3, 1))),
    Case("normalize", ops.normalize, _normalize, lambda: (real(2, 3),), {"eps": 0.25}),
    Case("upsample", ops.upsample, lambda x, k: x.repeat_interleave(k, -1), lambda: (real(3, 2), 4)),
    Case("hypotenuse", ops.hypotenuse, torch.hypot, lambda: (real(3, 1), real(2)), cannot=_READS_OUTPUT),
    Case("expm1", ops.expm1, torch.expm1, lambda: (real(3),), cannot=_ONCE),
    Case("complex_exp", ops.complex_exp, torch.exp, lambda: (complex_(3),), cannot=_READS_OUTPUT),
    Case("modulate", ops.modulate, lambda x, f: torch.fft.fft(x) * f, lambda: (complex_(3), complex_(3))),
    Case("spectrum", ops.spectrum, torch.fft.fft, lambda: (real(4),)),
    Case("cube", ops.cube, lambda x: x**3, lambda: (real(3),), cannot=frozenset({REVERSE})),
    Case("fourth", ops.fourth, lambda x: x**4, lambda: (real(3),)),
    Case("damp_", ops.damp_, _damped, lambda: (real(3), real(3))),
    Case("jittered", ops.jittered, _jittered, lambda: (real(3), torch.tensor(7))),
    Case("bilinear", ops.bilinear, lambda x, w: (x.square()[:, None] * w).sum(0), lambda: (real(3), real(3, 2))),
    Case("select", ops.select, lambda x, i: x.index_select(0, i).sin(), lambda: (real(3), torch.tensor([2, 0, 2, 1]))),
    Case("layer", ops.layer, _layer, lambda: (real(2, 3), real(3)), cannot=_READS_OUTPUT),
    Case("layer 2", ops.layer, _layer, lambda: (real(5, 1, 2, 3), real(4, 3)), cannot=_READS_OUTPUT, in_matrix=False),
    Case("arctangent", ops.arctangent, torch.arctan, lambda: (real(3),), cannot=_ONCE | {FORWARD}),
    Case("hyperbolic", ops.hyperbolic, torch.tanh, lambda: (real(3),), cannot=_ONCE),
    Case("chosen", ops.chosen, lambda x: x[x > 0] ** 3, lambda: (real(5),), cannot=_READS_OUTPUT),
    Case("leapfrog", leapfrog, _leapfrog, _pendulums, cannot=_READS_OUTPUT),
    Case("leapfrog_c", ops.leapfrog_c, _leapfrog, _pendulums, cannot=_READS_OUTPUT),
    Case("blur", ops.blur, lambda x, w: x.square() / (1 + w.square()), lambda: (real(3), real()), constant=(1,)),
]

ONE_OF_EACH = frozenset({"softplus", "linear", "correlate2d", "top_two", "summary", "mixture", "linear_cpp"})
"""One of each kind of kernel, with several outputs and with a list: where all take seconds, others are slow tests."""
