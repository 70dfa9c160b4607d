"""Random operators: whether values and rules draw what the seed says."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from .bug import Bug, normal

P = 0.25


def drop(x, seed):
    return torch.where(tg.random_uniform(seed, x.shape[-1:]) < P, 0, x / (1 - P))


def dropout(kernel=drop, rule=None):
    """Declare dropout with a kernel, and with another function in the backward where one is given."""
    again = rule or kernel

    @tg.op
    def dropout(x: Float[Tensor, "*batch n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
        return kernel(x, seed)

    @dropout.vjp("x")
    def _(grad, seed):
        return again(grad, seed)

    return dropout


def constant(x, seed):
    return drop(x, torch.zeros_like(seed))


def one_mask_for_the_batch(x, seed):
    """The samples share one stream, and each draws at its place in the batch."""
    first = seed.flatten().sum() if seed.numel() == 1 else seed.flatten()[:1].sum()
    return torch.where(tg.random_uniform(first, x.shape) < P, 0, x / (1 - P))


def other_draws(x, seed):
    return drop(x, tg.random_fold(seed, 1))


def unscaled(x, seed):
    return drop(x, seed) * (1 - P)


def by_magnitude(x, seed):
    """The mask hangs on the numbers as well, and those of a gradient are others."""
    return torch.where(tg.random_uniform(seed, x.shape[-1:]) < P + 0.5 * (x > 0.5), 0, x / (1 - P))


def truth(x, *, seed):
    seeds = tg.random_fold(torch.tensor(seed), torch.arange(x.shape[:-1].numel()).reshape(x.shape[:-1]))
    return drop(x, seeds if x.dim() > 1 else torch.tensor(seed))


def seeded(target: Any, inputs: tuple[Any, ...]) -> Any:
    """Values and gradients of a batch, by several seeds."""
    x, cotangent = inputs
    shown = []
    for seed in (1, 2, 3):
        x = x.detach().clone().requires_grad_()
        out = target(x, seed=seed)
        shown += [out.detach(), *torch.autograd.grad(out, x, cotangent)]
    return shown


def bug(name, wrong, expects, cause, source):
    return Bug(
        name=name, wrong=wrong, right=dropout(), truth=truth, inputs=None, probe=normal((3, 5), (3, 5)),
        shown_by=seeded, expects=expects, cause=cause, source=source, smooth=False,
    )  # fmt: skip


BUGS = [
    bug("draws_without_its_seed", dropout(constant), {"randomness"}, ("seed",), "a generator made anew in each call"),
    bug(
        "samples_share_their_draws", dropout(one_mask_for_the_batch), {"vmap", "mesh"}, ("sample", "batch", "axis"),
        "one generator for a whole batch",
    ),
    bug("backward_draws_anew", dropout(rule=other_draws), {"gradient"}, ("x",), "a mask that is not saved"),
    bug("backward_forgets_the_scale", dropout(rule=unscaled), {"gradient"}, ("x",), "dropout by hand"),
    bug("mask_hangs_on_the_numbers", dropout(by_magnitude), {"gradient"}, ("x",), "thinning by size, masked again"),
]  # fmt: skip
