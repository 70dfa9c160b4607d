"""Sixty-four ranks in one process: four operators, forward and backward, beside plain tensors.

A program, since the process becomes a rank of a world that there is not: ``python -m tests.mesh.simulated 8 8``.
"""

import sys

import torch
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from examples.correlate2d_c import correlate2d
from examples.dct import dct

from ..simulated import simulated
from . import operators as ops
from .table import EXACT, real

R, S0, S1 = Replicate(), Shard(0), Shard(1)

CASES = {
    "linear, data": (ops.linear, lambda: (real(65, 6), real(4, 6), real(4)), (S0, R, R)),
    "linear, rows": (ops.linear, lambda: (real(3, 128), real(4, 128), real(4)), (S1, S1, R)),
    "linear in NumPy, columns": (ops.linear_np, lambda: (real(3, 6), real(128, 6), real(128)), (R, S0, S0)),
    "dct": (dct, lambda: (real(70, 5),), (S0,)),
    "correlate2d in C": (correlate2d, lambda: (real(64, 4, 5), real(2, 3)), (S0, R)),
}


def check(name, mesh):
    function, make, places = CASES[name]
    plain = [tensor.requires_grad_() for tensor in make()]
    expected = function(*plain)
    seed = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, plain, seed)
    laid = [
        distribute_tensor(tensor.detach(), mesh, [place] * mesh.ndim).requires_grad_()
        for tensor, place in zip(plain, places, strict=True)
    ]
    made = function(*laid)
    found = torch.autograd.grad(made, laid, distribute_tensor(seed, mesh, [R] * mesh.ndim))
    for number, (one, other) in enumerate(zip((made, *found), (expected, *gradients), strict=True)):
        whole = one.detach().full_tensor().reconcile()
        torch.testing.assert_close(
            whole, other.detach(), **EXACT, msg=lambda text, number=number: f"{name}, result {number}: {text}"
        )
    print(name, made.placements)


def main(shape):
    torch.manual_seed(0)
    with simulated(*shape) as mesh:
        for name in CASES:
            check(name, mesh)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])))
