"""What layers are made of: statistics, losses, quantisers, tables, spectra, recurrences, and what they keep."""

import torch
from torch.autograd import Function
from torch.nn import functional

from .bug import Bug, function, normal
from .observe import backward_twice

GRADIENT = {"gradient"}
ROWS = torch.tensor([1, 0, 1, 3, 1])


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def unit_gradient(grad, x):
    size, y = x.norm(dim=-1, keepdim=True), unit(x)
    return (grad - y * (grad * y).sum(-1, keepdim=True)) / size


def standardised(x):
    return (x - x.mean(0)) / (x.var(0) + 1e-3).sqrt()


def standardised_gradient(lost):
    def gradient(grad, x):
        size = (x.var(0) + 1e-3).sqrt()
        y = (x - x.mean(0)) / size
        return (grad - grad.mean(0) - y * (grad * y).sum(0) / (len(x) - lost)) / size

    return gradient


def huber(x, y):
    return functional.huber_loss(x, y, reduction="sum", delta=0.5)


def huber_gradient(delta):
    def gradient(grad, x, y):
        error = grad * (x - y).clamp(-delta, delta)
        return error, -error

    return gradient


def fake_quantised(x):
    return (8 * x).round() / 8


def looked_up(table):
    return table[ROWS]


def written(grad, table):
    out = torch.zeros_like(table)
    out[ROWS] = grad
    return out


def added(grad, table):
    return torch.zeros_like(table).index_add(0, ROWS, grad)


def padded(x):
    return functional.pad(x, (2, 1))


def spectrum(x):
    return torch.fft.rfft(x)


def spectrum_gradient(once):
    """The adjoint of rfft: frequencies that stand for negative ones count once, as they are given once."""

    def gradient(grad, x):
        n, k = x.shape[-1], torch.arange(grad.shape[-1])
        twice = (k > 0) & (2 * k < n)
        return torch.fft.irfft(torch.where(twice, grad / 2, grad) if once else grad, n=n) * n

    return gradient


def eigenvalues(x):
    return torch.linalg.eigvalsh(x)


def eigenvalues_gradient(grad, x):
    vectors = torch.linalg.eigh(x)[1]
    return vectors @ torch.diag_embed(grad) @ vectors.mT


def halves(x):
    return (x + x.mT) / 2


def eigenvalues_of_halves(x):
    return eigenvalues(halves(x))


def halves_gradient(grad, x):
    return eigenvalues_gradient(grad, halves(x))


def cell(x, weight):
    return torch.tanh(x @ weight)


def cell_gradient(through):
    def gradient(grad, x, weight):
        inner = grad * (1 - cell(x, weight) ** 2)
        return (inner if through else grad) @ weight.mT, x.mT @ inner

    return gradient


class Keeps(Function):
    """Keeps its input for as many backwards as there are."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()


class GivesAway(Keeps):
    """Frees what it kept, which another backward needs."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = [x.clone()]
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.kept.pop().cos()


BUGS = [
    Bug(
        name="length_held_constant",
        wrong=function("Unit", unit, lambda grad, x: grad / x.norm(dim=-1, keepdim=True)),
        right=function("Unit", unit, unit_gradient),
        truth=unit,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("element by element",),
        source="normalisation by a length that is detached",
    ),
    Bug(
        name="variance_of_another_kind",
        wrong=function("Standardised", standardised, standardised_gradient(0)),
        right=function("Standardised", standardised, standardised_gradient(1)),
        truth=standardised,
        inputs=normal((5, 3)),
        expects=GRADIENT,
        cause=("share", "n/(n - 1)"),
        source="batch norms that divide by n in backward and by n - 1 in forward",
    ),
    Bug(
        name="another_delta",
        wrong=function("Huber", huber, huber_gradient(1.0)),
        right=function("Huber", huber, huber_gradient(0.5)),
        truth=huber,
        inputs=normal((9,), (9,)),
        expects=GRADIENT,
        cause=("|input 0 - input 1| > 0.5", "|x - y| > 0.5"),
        source="a default that forward and backward do not share",
    ),
    Bug(
        name="straight_through",
        wrong=function("FakeQuantised", fake_quantised, lambda grad, x: grad.clone()),
        right=function("FakeQuantised", fake_quantised, lambda grad, x: torch.zeros_like(grad)),
        truth=fake_quantised,
        inputs=normal((6,)),
        expects=GRADIENT,
        cause=("flat",),
        source="straight-through estimators, which are meant, and are no derivatives",
    ),
    Bug(
        name="clamped_but_passed_on",
        wrong=function("Clamp", lambda x: x.clamp(-0.5, 0.5), lambda grad, x: grad.clone()),
        right=function("Clamp", lambda x: x.clamp(-0.5, 0.5), lambda grad, x: grad * (x.abs() < 0.5)),
        truth=lambda x: x.clamp(-0.5, 0.5),
        inputs=normal((9,)),
        expects=GRADIENT,
        cause=("where |input 0| > 0.5", "where |x| > 0.5"),
        source="quantisers that pass gradients on outside of their range too",
    ),
    Bug(
        name="rows_overwritten",
        wrong=function("LookedUp", looked_up, written),
        right=function("LookedUp", looked_up, added),
        truth=looked_up,
        inputs=normal((4, 2)),
        expects=GRADIENT,
        cause=("overwritten",),
        source="embeddings whose backward writes by index, where rows occur several times",
    ),
    Bug(
        name="padding_of_the_other_side",
        wrong=function("Padded", padded, lambda grad, x: grad[..., 1:-2]),
        right=function("Padded", padded, lambda grad, x: grad[..., 2:-1]),
        truth=padded,
        inputs=normal((2, 5)),
        expects=GRADIENT,
        cause=("shifted",),
        source="asymmetric padding, cut off the other way round",
    ),
    Bug(
        name="half_a_spectrum",
        wrong=function("Rfft", spectrum, spectrum_gradient(once=False)),
        right=function("Rfft", spectrum, spectrum_gradient(once=True)),
        truth=spectrum,
        inputs=normal((2, 8)),
        expects=GRADIENT,
        cause=("negative ones",),
        source="irfft as the backward of rfft",
    ),
    Bug(
        name="one_half_of_a_matrix",
        wrong=function("Eigenvalues", eigenvalues, eigenvalues_gradient),
        right=function("Eigenvalues", eigenvalues_of_halves, halves_gradient),
        truth=eigenvalues_of_halves,
        inputs=lambda: (halves(torch.arange(9.0, dtype=torch.float64).reshape(3, 3).sin()),),
        probe=normal((3, 3)),
        expects=GRADIENT,
        cause=("halves",),
        source="functions of symmetric matrices that read one triangle",
    ),
    Bug(
        name="saturating_factor",
        wrong=function("Cell", cell, cell_gradient(through=False)),
        right=function("Cell", cell, cell_gradient(through=True)),
        truth=cell,
        inputs=normal((3, 4), (4, 2)),
        expects=GRADIENT,
        cause=("(1 - output^2)",),
        source="recurrent cells, of whose four gradients one skips the activation",
    ),
    Bug(
        name="gives_away_what_it_keeps",
        wrong=GivesAway.apply,
        right=Keeps.apply,
        truth=torch.sin,
        inputs=normal((4,)),
        shown_by=backward_twice,
        expects={"freed"},
        cause=("gives away",),
        source="memory that is saved by hand: del ctx.x, pop()",
    ),
]
