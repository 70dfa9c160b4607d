"""Sparse inputs: a gradient for each stored value, at its place."""

import torch

from .bug import Bug, function, normal

GRADIENT = {"gradient"}
ROWS, COLUMNS = [0, 0, 1, 2, 2], [0, 2, 1, 0, 2]


def sparse():
    values, dense = normal((5,), (3, 4))()
    return torch.sparse_coo_tensor([ROWS, COLUMNS], values, (3, 3), is_coalesced=True, check_invariants=False), dense


def product(matrix, x):
    return torch.sparse.mm(matrix, x)


def stored(matrix, values):
    """A sparse tensor with the places of another."""
    return torch.sparse_coo_tensor(matrix.indices(), values, matrix.shape, is_coalesced=True, check_invariants=False)


def sampled(grad, x, at):
    rows, columns = at
    return (grad[rows] * x[columns]).sum(-1)


def gradient(*, transposed=True, exchanged=False, factor=1):
    def backward(grad, matrix, x):
        matrix = matrix.coalesce()
        places = matrix.indices().flip(0) if exchanged else matrix.indices()
        of_x = torch.sparse.mm(matrix.t() if transposed else matrix, grad)
        return stored(matrix, factor * sampled(grad, x, places)), of_x

    return function("SparseProduct", product, backward, once=True)


BUGS = [
    Bug(
        name="sparse_not_transposed",
        wrong=gradient(transposed=False),
        right=gradient(),
        truth=product,
        inputs=sparse,
        expects=GRADIENT,
        cause=("transpos", "permut", "entries"),
        source="message passing along edges in the direction of the forward pass",
        smooth=False,
    ),
    Bug(
        name="sparse_rows_for_columns",
        wrong=gradient(exchanged=True),
        right=gradient(),
        truth=product,
        inputs=sparse,
        expects=GRADIENT,
        cause=("transpos", "permut", "entries", "element", "row", "swap"),
        source="(source, target) and (row, column) taken for each other in graph code",
        smooth=False,
    ),
    Bug(
        name="sparse_values_twice",
        wrong=gradient(factor=2),
        right=gradient(),
        truth=product,
        inputs=sparse,
        expects=GRADIENT,
        cause=("factor 2", "factor of 2", "twice", "2 times", "double"),
        source="both triangles of a symmetric matrix counted",
        smooth=False,
    ),
]
