"""Operators of this package with wrong rules and kernels: claims that only a check can hold against them."""

import mpmath
import numpy as np
import scipy.fft
import scipy.special
import torch
from jaxtyping import Complex128, Float, Int, Int64
from torch import Tensor

import torchgraft as tg

from .bug import Bug, given, normal
from .observe import laid_out, mapped, mixed, repeated, tangents, values

GRADIENT = {"gradient"}


def cube(rule):
    @tg.op
    def cube(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return x**3

    cube.partial("x")(rule)
    return cube


def root(rule):
    @tg.op
    @tg.domain(x="positive")
    def root(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.sqrt()

    root.partial("x")(rule)
    return root


def power(rule):
    @tg.op
    @tg.domain(exponent={2, 3, 4})
    def power(x: Float[Tensor, "..."], exponent: int = 3) -> Float[Tensor, "..."]:
        return x**exponent

    power.partial("x")(rule)
    return power


def powers(by_p, by_x):
    """x**p, whose derivative in p has one in x, and refuses one in p."""

    @tg.op
    @tg.domain(x="positive")
    def slope(x: Float[Tensor, "..."], p: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x**p * x.log()

    @tg.op
    @tg.domain(x="positive")
    def powers(x: Float[Tensor, "..."], p: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x**p

    slope.partial("x")(by_p)
    slope.nondifferentiable("p")
    powers.partial("x")(by_x)
    powers.partial("p")(lambda x, p: slope(x, p))
    return powers


def slope_by_x(x, p):
    return x ** (p - 1) * (1 + p * x.log())


def zero_power(rule):
    @tg.op
    @tg.domain(x="nonnegative", p="nonnegative")
    def zero_power(x: Float[Tensor, "..."], p: float = 2.0) -> Float[Tensor, "..."]:
        return x**p

    zero_power.partial("x")(rule)
    return zero_power


def cumulative(reversed_):
    """A cumulative sum, whose adjoint runs from the end of the axis."""

    @tg.op
    @tg.domain(dim={0, 1, -1, -2})
    def cumulative(x: Float[np.ndarray, "m n"], dim: int = 0) -> Float[np.ndarray, "m n"]:
        return np.cumsum(x, axis=dim, dtype=x.dtype)

    @cumulative.adjoint("x")
    def _(grad: np.ndarray, dim: int):
        return reversed_(np.cumsum(reversed_(grad, dim), axis=dim, dtype=grad.dtype), dim)

    return cumulative


def reversed_by_places(x, dim):
    return x[(slice(None),) * dim + (slice(None, None, -1),)]


def numbered(rows_of):
    """Each row is multiplied by its number; the kernel reads the rows as `rows_of` gives them."""

    @tg.op
    def numbered(x: Float[np.ndarray, "m *rest"]) -> Float[np.ndarray, "m *rest"]:
        number = np.arange(1, 1 + len(x), dtype=x.dtype)[:, None]
        return (number * rows_of(x)).reshape(x.shape)

    @numbered.adjoint("x")
    def _(grad: np.ndarray):
        return grad * np.arange(1, 1 + len(grad), dtype=grad.dtype).reshape(-1, *(1,) * (grad.ndim - 1))

    return numbered


def rows_by_the_first_stride(x):
    size = int(np.prod(x.shape[1:]))
    return np.lib.stride_tricks.as_strided(x, (len(x), size), (x.strides[0], x.itemsize))


def picked(place):
    """Elements at rows and columns, by their places in memory."""

    @tg.op
    @tg.domain(row="[0, m)", column="[0, n)", m="[1, inf)", n="[1, inf)")
    def picked(x: Float[Tensor, "m n"], row: Int[Tensor, "k"], column: Int[Tensor, "k"]) -> Float[Tensor, "k"]:
        return x.reshape(-1)[place(row, column, x.shape[1]).long()]

    @picked.vjp("x")
    def _(grad, x, row, column):
        places = row.long() * x.shape[1] + column.long()
        return torch.zeros_like(x).reshape(-1).index_add(0, places, grad).reshape(x.shape)

    return picked


def far_places():
    return (*normal((20, 20))(), torch.tensor([15], dtype=torch.int8), torch.tensor([2], dtype=torch.int8))


def elu(rule):
    @tg.op
    def elu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return torch.where(x > 0, x, x.clamp(max=0).expm1())

    elu.partial("x")(rule)
    return elu


def linear(rule):
    @tg.op
    def linear(x: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]:
        return x @ weight.mT

    @linear.vjp("x")
    def _(grad, weight):
        return grad @ weight

    linear.vjp("weight")(rule)
    return linear


def dct(rule):
    @tg.op
    def dct(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
        return scipy.fft.dct(x)

    dct.adjoint("x")(rule)
    return dct


def dct_inverse(grad: np.ndarray):
    return scipy.fft.idct(grad)


def dct_adjoint(grad: np.ndarray):
    """Of y_k = 2 sum of x_i cos(pi k (2i + 1) / 2n): DCT-III counts the first term once, the others twice."""
    doubled = grad.copy()
    doubled[..., :1] *= 2
    return scipy.fft.dct(doubled, type=3)


def dct_matrix(x):
    n = x.shape[-1]
    k, i = torch.arange(n, dtype=x.dtype)[:, None], torch.arange(n, dtype=x.dtype)
    return x @ (2 * torch.cos(torch.pi * k * (2 * i + 1) / (2 * n))).mT


def turned(rule):
    @tg.op
    def turned(z: Complex128[Tensor, "..."]) -> Complex128[Tensor, "..."]:
        return z * (1 + 2j)

    turned.adjoint("z")(rule)
    return turned


def shifted(kind, rule):
    @tg.op
    def shifted(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x + 1

    getattr(shifted, kind)("x")(rule)
    return shifted


def sine(rule):
    @tg.op
    def sine(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x.sin()

    @sine.vjp("x")
    def _(grad, x):
        return grad * x.cos()

    sine.jvp("x")(rule)
    return sine


def centered(kernel):
    @tg.op
    def centered(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return kernel(x)

    @centered.vjp("x")
    def _(grad):
        return kernel(grad)

    return centered


def correlate(rule):
    @tg.op(batch="loop")
    @tg.domain(k="[1, inf)")
    def correlate(x: Float[np.ndarray, "n"], kernel: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n-k+1"]:
        return np.correlate(x, kernel, "valid")

    @correlate.vjp("x")
    def _(grad: np.ndarray, kernel: np.ndarray):
        return np.convolve(grad, kernel, "full")

    correlate.vjp("kernel")(rule)
    return correlate


def taps(grad: np.ndarray, x: np.ndarray):
    return np.correlate(x, grad, "valid")


def taps_flipped(grad: np.ndarray, x: np.ndarray):
    return np.convolve(x, grad, "valid")


def correlated(x, kernel):
    return x.unfold(0, kernel.shape[0], 1) @ kernel


def erf(kernel):
    @tg.op
    def erf(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return kernel(x)

    @erf.partial("x")
    def _(x):
        return 2 / torch.pi**0.5 * (-x * x).exp()

    @erf.reference
    def _(x: mpmath.mpf):
        return mpmath.erf(x)

    return erf


def erf_of_handbook(x):
    """Abramowitz and Stegun 7.1.26: |error| < 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return (np.sign(x) * (1 - tail * np.exp(-x * x))).astype(x.dtype)


def noisy(x):
    return scipy.special.erf(x) + (1e-9 * np.random.default_rng().standard_normal(x.shape)).astype(x.dtype)


def swish(slope):
    source = tg.c(f"""
    #include <math.h>
    T swish(T x) {{ return x / (1 + exp(-x)); }}
    T swish_partial_x(T x) {{ T gate = 1 / (1 + exp(-x)); return {slope}; }}
    """)

    @tg.op(kernel=source)
    def swish(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @swish.partial("x", kernel=source)
    def _(x): ...

    return swish


def norm(stop, number="T"):
    source = tg.c(f"""
    #include <stdint.h>
    void squares(int64_t n, const T *x, T *out) {{
        {number} sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
        *out = sum;
    }}
    void squares_vjp_x(int64_t n, const T *grad, const T *x, T *grad_x) {{
        for (int64_t i = 0; i < n; i++) grad_x[i] = 0;
        for (int64_t i = 0; i < {stop}; i++) grad_x[i] = 2 * *grad * x[i];
    }}
    """)

    @tg.op(kernel=source)
    def squares(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]: ...

    @squares.vjp("x", kernel=source)
    def _(grad, x): ...

    return squares


def difference(kernel):
    @tg.op
    def difference(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
        return kernel(x)

    @difference.adjoint("x")
    def _(grad):
        return grad - torch.nn.functional.pad(grad, (0, 1))[..., 1:]

    return difference


def backwards(x):
    return np.diff(x, prepend=np.zeros((), x.dtype))


def cyclic(x):
    return x - np.roll(x, 1, axis=-1)


def by_rows(grad, x):
    return torch.einsum("...m,...n->mn", grad, x)


def rotary(angles_of):
    """Rotary position embedding."""

    def turn(x, positions, sign):
        frequencies = 100.0 ** -torch.linspace(0, 1, x.shape[-1], dtype=torch.float64)
        angles = sign * angles_of(positions, x.dtype).double()[:, None] * frequencies
        first, second = x.double().unbind(-2)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([first * cos - second * sin, first * sin + second * cos], -2).to(x.dtype)

    @tg.op
    @tg.domain(positions="[0, 100000]")
    def rotary(x: Float[Tensor, "*batch n 2 d"], positions: Int64[Tensor, "n"]) -> Float[Tensor, "*batch n 2 d"]:
        return turn(x, positions, 1)

    @rotary.adjoint("x")
    def _(grad, positions):
        return turn(grad, positions, -1)

    return rotary


def rotated(x, positions):
    frequencies = 100.0 ** -torch.linspace(0, 1, x.shape[-1], dtype=torch.float64)
    turns = torch.polar(torch.ones((), dtype=torch.float64), positions.double()[:, None] * frequencies)
    pairs = torch.complex(*x.double().unbind(-2)) * turns
    return torch.stack([pairs.real, pairs.imag], -2).to(x.dtype)


def far_on():
    return torch.eye(3, dtype=torch.bfloat16)[:, :2, None].clone(), torch.tensor([511, 513, 77])


def midpoints(following):
    """The means of neighbours in a batch that is read as one array; the last element of a sample stays."""

    @tg.op
    @tg.domain(n="positive")
    def midpoints(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
        n, flat = x.shape[-1], np.append(x.ravel(), x.dtype.type(0))
        at = np.arange(x.size)
        part = np.where(at % n == n - 1, 0, 0.5).astype(x.dtype)
        return ((1 - part) * flat[at] + part * flat[following(at, n)]).reshape(x.shape)

    @midpoints.adjoint("x")
    def _(grad):
        halves = torch.cat([grad[..., :-1] / 2, grad[..., -1:]], -1)
        return halves + torch.nn.functional.pad(grad[..., :-1] / 2, (1, 0))

    return midpoints


def beside_nan(target, inputs):
    """The first of two samples, of which the second is not a number."""
    (x,) = inputs
    return target(torch.stack([x, x * torch.nan]))[0]


BUGS = [
    Bug(
        name="partial_without_its_square",
        wrong=cube(lambda x: 3 * x),
        right=cube(lambda x: 3 * x * x),
        truth=lambda x: x**3,
        inputs=None,
        probe=normal((4,)),
        expects=GRADIENT,
        cause=("factor", "1/x", "~ x", "chain"),
        source="an exponent typed wrong",
    ),
    Bug(
        name="partial_within_a_domain",
        wrong=root(lambda out: 1 / out),
        right=root(lambda out: 0.5 / out),
        truth=torch.sqrt,
        inputs=None,
        probe=lambda: (normal((4,))()[0].abs() + 0.5,),
        expects=GRADIENT,
        cause=("factor 2", "factor of 2", "twice", "2 times", "double"),
        source="1 / sqrt(x) for 1 / (2 sqrt(x))",
    ),
    Bug(
        name="partial_of_an_option",
        wrong=power(lambda x, exponent: 3 * x ** (exponent - 1)),
        right=power(lambda x, exponent: exponent * x ** (exponent - 1)),
        truth=lambda x, exponent: x**exponent,
        inputs=None,
        probe=lambda: (*normal((4,))(), 2),
        expects=GRADIENT,
        cause=("factor", "3/2", "1.5", "exponent", "option"),
        source="the default value of an argument, written into the rule",
    ),
    Bug(
        name="partial_of_negatives",
        wrong=elu(lambda x: torch.where(x > 0, torch.ones_like(x), -x.exp())),
        right=elu(lambda x: torch.where(x > 0, torch.ones_like(x), x.exp())),
        truth=torch.nn.functional.elu,
        inputs=None,
        probe=normal((6,)),
        expects=GRADIENT,
        cause=("< 0", "negative", "sign"),
        source="one branch of two",
    ),
    Bug(
        name="vjp_twice",
        wrong=linear(lambda grad, x: 2 * by_rows(grad, x)),
        right=linear(by_rows),
        truth=torch.nn.functional.linear,
        inputs=None,
        probe=normal((2, 3), (4, 3)),
        expects=GRADIENT,
        cause=("factor 2", "factor of 2", "twice", "2 times", "double"),
        source="a factor moved from one rule to another",
    ),
    Bug(
        name="adjoint_is_the_inverse",
        wrong=dct(dct_inverse),
        right=dct(dct_adjoint),
        truth=dct_matrix,
        inputs=None,
        probe=normal((5,)),
        expects=GRADIENT | {"adjoint"},
        cause=("factor", "1/", "row", "column", "entries"),
        source="the inverse is the transpose of orthonormal transforms alone",
    ),
    Bug(
        name="adjoint_unconjugated",
        wrong=turned(lambda grad: grad * (1 + 2j)),
        right=turned(lambda grad: grad * (1 - 2j)),
        truth=lambda z: z * (1 + 2j),
        inputs=None,
        probe=normal((4,), dtype=torch.complex128),
        expects=GRADIENT | {"adjoint"},
        cause=("conj",),
        source="transpose for conjugate transpose",
    ),
    Bug(
        name="adjoint_of_an_affine_map",
        wrong=shifted("adjoint", lambda grad: grad),
        right=shifted("vjp", lambda grad: grad),
        truth=lambda x: x + 1,
        inputs=None,
        probe=normal((4,)),
        shown_by=tangents,
        expects={"jvp", "forward", "tangent", "adjoint", "linear", "claim"},
        cause=("linear", "adjoint", "constant", "f(0)", "zero"),
        source="linear, but for an offset: forward mode then runs the operator on the tangent",
    ),
    Bug(
        name="jvp_by_hand",
        wrong=sine(lambda x, x_tangent: x_tangent * x.sin()),
        right=sine(lambda x, x_tangent: x_tangent * x.cos()),
        truth=torch.sin,
        inputs=None,
        probe=normal((4,)),
        shown_by=tangents,
        expects={"jvp", "forward", "tangent"},
        cause=("factor", "sin", "tan", "element", "entries", "jvp"),
        source="a second rule beside a right one",
    ),
    Bug(
        name="samples_mixed",
        wrong=centered(lambda x: x - (x.mean() if x.numel() else 0)),
        right=centered(lambda x: x - x.mean(-1, keepdim=True)),
        truth=lambda x: x - x.mean(-1, keepdim=True),
        inputs=None,
        probe=normal((4,)),
        shown_by=mapped(0),
        expects={"vmap", "batch", "claim"},
        cause=("mix", "batch", "sample", "vmap", "axis"),
        source="*batch in the annotation of a kernel that knows no batch",
    ),
    Bug(
        name="numpy_rule_flipped",
        wrong=correlate(taps_flipped),
        right=correlate(taps),
        truth=correlated,
        inputs=None,
        probe=normal((6,), (3,)),
        expects=GRADIENT,
        cause=("flip", "revers", "permut"),
        source="np.convolve for np.correlate",
    ),
    Bug(
        name="kernel_of_seven_digits",
        wrong=erf(erf_of_handbook),
        right=erf(scipy.special.erf),
        truth=torch.erf,
        inputs=None,
        probe=normal((4,)),
        shown_by=values,
        expects=GRADIENT | {"value", "reference", "digits"},
        cause=("value", "reference", "digits", "precision", "kernel", "factor"),
        source="approximations for single precision",
    ),
    Bug(
        name="kernel_with_noise",
        wrong=erf(noisy),
        right=erf(scipy.special.erf),
        truth=torch.erf,
        inputs=None,
        probe=normal((4,)),
        shown_by=repeated,
        expects={"determin", "random", "repeat", "reference", "inconclusive", "raises"},
        cause=("no argument", "random", "determin", "noise", "differ"),
        source="Monte Carlo kernels without a seed among their arguments",
    ),
    Bug(
        name="partial_in_c",
        wrong=swish("gate"),
        right=swish("gate * (1 + x * (1 - gate))"),
        truth=torch.nn.functional.silu,
        inputs=None,
        probe=normal((4,)),
        expects=GRADIENT,
        cause=("term", "product", "element", "output"),
        source="the product rule, one half of it, in C",
    ),
    Bug(
        name="mixed_derivative_of_the_slope",
        wrong=powers(lambda x, p: p * x ** (p - 1) * x.log(), lambda x, p: p * x ** (p - 1)),
        right=powers(slope_by_x, lambda x, p: p * x ** (p - 1)),
        truth=torch.pow,
        inputs=None,
        probe=given([0.5, 1.5, 2.0, 3.0], [1.5, -0.5, 2.0, 0.25]),
        shown_by=mixed(1, 0),
        expects={"second"},
        cause=("term", "second", "missing", "product"),
        source="the derivative in a parameter by hand, the product rule forgotten in the mixed one",
    ),
    Bug(
        name="mixed_derivative_of_a_special_case",
        wrong=powers(slope_by_x, lambda x, p: torch.where(p == 2, 2 * x, p * x ** (p - 1))),
        right=powers(slope_by_x, lambda x, p: p * x ** (p - 1)),
        truth=torch.pow,
        inputs=given([0.5, 1.5, 2.0, 3.0], [1.5, -0.5, 2.0, 0.25]),
        shown_by=mixed(0, 1),
        expects={"second"},
        cause=("only", "element", "missing", "one entry"),
        source="torch.where for a value of the parameter where the formula is simple, which makes a constant of it",
    ),
    Bug(
        name="tail_in_c",
        wrong=norm("n / 4 * 4"),
        right=norm("n"),
        truth=lambda x: x.square().sum(-1),
        inputs=None,
        probe=normal((6,)),
        expects=GRADIENT,
        cause=("last", "tail", "zero", "element", "index"),
        source="a loop unrolled by four without its remainder",
    ),
    Bug(
        name="accumulator_in_c",
        wrong=norm("n", "float"),
        right=norm("n"),
        truth=lambda x: x.square().sum(-1),
        inputs=None,
        probe=normal((6,)),
        shown_by=values,
        expects=GRADIENT | {"values"},
        cause=("float32", "accumulator"),
        source="a sum in a C float, written for single precision, then called for doubles",
    ),
    Bug(
        name="kernel_is_another_map",
        wrong=difference(cyclic),
        right=difference(backwards),
        truth=lambda x: torch.diff(x, prepend=x.new_zeros(1)),
        inputs=None,
        probe=normal((5,)),
        expects=GRADIENT | {"adjoint"},
        cause=("last", "first", "element", "entries", "missing", "zero"),
        source="boundary conditions of kernel and adjoint that differ",
    ),
    Bug(
        name="positions_in_bfloat16",
        wrong=rotary(lambda positions, dtype: positions.to(dtype)),
        right=rotary(lambda positions, dtype: positions.double()),
        truth=rotated,
        inputs=None,
        probe=far_on,
        shown_by=values,
        smooth=False,
        expects={"values"},
        cause=("511 becomes 512",),
        source="rotary embeddings in bfloat16, whose positions above 256 are rounded",
    ),
    Bug(
        name="zero_to_the_power_of_zero",
        wrong=zero_power(lambda x, p: p * x ** (p - 1)),
        right=zero_power(lambda x, p: p * x ** (p - 1) if p else torch.zeros_like(x)),
        truth=torch.pow,
        inputs=None,
        probe=given([0.0, 1.0], 0.0),
        expects=GRADIENT | {"options"},
        cause=("p=0", "0 times infinity"),
        source="powers at the end of both domains",
    ),
    Bug(
        name="axis_from_the_end_in_an_adjoint",
        wrong=cumulative(reversed_by_places),
        right=cumulative(lambda x, dim: np.flip(x, dim)),
        truth=torch.cumsum,
        inputs=None,
        probe=lambda: (*normal((2, 3))(), -1),
        expects=GRADIENT | {"options"},
        cause=("transposed", "dim=-1", "triangle", "diagonal"),
        source="(slice(None),) * dim for an axis from the end, which is the first one",
    ),
    Bug(
        name="rows_by_the_first_stride",
        wrong=numbered(rows_by_the_first_stride),
        right=numbered(lambda x: x.reshape(len(x), int(np.prod(x.shape[1:])))),
        truth=lambda x: x * torch.arange(1, 1 + len(x), dtype=x.dtype).view(-1, *(1,) * (x.dim() - 1)),
        inputs=None,
        probe=normal((2, 3)),
        shown_by=laid_out,
        expects={"layouts"},
        cause=("contiguous",),
        source="kernels for whole arrays that read only the first stride",
    ),
    Bug(
        name="places_in_int8",
        wrong=picked(lambda row, column, n: row * n + column),
        right=picked(lambda row, column, n: row.long() * n + column),
        truth=lambda x, row, column: x[row.long(), column.long()],
        inputs=None,
        probe=far_places,
        shown_by=values,
        expects={"options"},
        cause=("wrap", "int8"),
        source="flat indices in the dtype of the rows",
    ),
    Bug(
        name="reads_the_next_sample",
        wrong=midpoints(lambda at, n: at + 1),
        right=midpoints(lambda at, n: np.where(at % n == n - 1, at, at + 1)),
        truth=lambda x: torch.cat([(x[..., :-1] + x[..., 1:]) / 2, x[..., -1:]], -1),
        inputs=None,
        probe=normal((4,)),
        shown_by=beside_nan,
        expects={"vmap"},
        cause=("the next one",),
        source="interpolation that reads x[i + 1] at the end, times 0",
    ),
]
