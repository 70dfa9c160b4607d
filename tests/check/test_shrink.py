"""Shrinking: what is left is small, plain, and still fails."""

import pytest
import torch

import torchgraft as tg
from torchgraft._check.case import Case
from torchgraft._check.shrink import shrink
from torchgraft._check.target import make_target
from torchgraft._check.variations import resized, sizes, squeezed
from torchgraft._check.work import affordable


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def case(function, *args, **kwargs):
    return Case(make_target(function), args, kwargs)


def runs(smaller):
    smaller.values()
    return True


def shapes(smaller):
    return [tuple(leaf.shape) for leaf in smaller.leaves if isinstance(leaf, torch.Tensor)]


def test_everything_shrinks_if_everything_fails():
    small = shrink(case(torch.matmul, normal(2, 4, 3), normal(3, 5)), runs)
    assert shapes(small) == [(1,), (1,)]
    assert all((p == 1).all() for p in small.primals)


def test_axes_of_one_size_shrink_together():
    small = shrink(case(torch.matmul, normal(6, 4), normal(4, 5)), lambda c: runs(c) and c.primals[1].shape[0] >= 2)
    assert shapes(small) in ([(1, 2), (2, 1)], [(2,), (2, 1)])


@pytest.mark.parametrize("least", [1, 2, 3, 5, 17, 100])
def test_the_least_size_is_found(least):
    small = shrink(case(torch.sin, normal(150)), lambda c: runs(c) and c.primals[0].numel() >= least)
    assert shapes(small) == [(least,)]


def test_the_end_is_kept_if_it_is_what_fails():
    x = torch.zeros(40, dtype=torch.float64)
    x[-1] = 7.0
    small = shrink(case(torch.sin, x), lambda c: bool((c.primals[0] >= 7).any()))
    assert small.primals[0].tolist() == [7.0]


def test_values_become_plain_and_still_fail():
    small = shrink(case(torch.sin, normal(6)), lambda c: runs(c) and bool((c.primals[0] < 0).any()))
    assert small.primals[0].tolist() == [-1.0]
    small = shrink(case(torch.sin, normal(6)), lambda c: bool((c.primals[0] > 1.2).any()))
    assert small.primals[0].tolist() == [2.0]


def test_what_belongs_together_is_not_broadcast():
    """With one label for two rows the call would be another one."""
    labels = torch.tensor([0, 1, 1, 0, 1])
    small = shrink(case(lambda x, t: (x * t[:, None]).sum(), normal(5, 4), labels), lambda c: c.leaves[0].shape[0] > 1)
    assert shapes(small) == [(2, 1), (2,)]


def test_indices_stay_within_what_is_left():
    def look_up(table, index):
        return table[index]

    small = shrink(case(look_up, normal(6, 3), torch.tensor([5, 0, 4])), runs)
    assert shapes(small) == [(1,), (1,)] or shapes(small) == [(1, 1), (1,)]
    assert small.leaves[1].tolist() == [0]


def test_numbers_that_are_sizes_change_with_them():
    def norm(x, size):
        return torch.nn.functional.layer_norm(x, (size,))

    small = shrink(case(norm, normal(4, 6), size=6), lambda c: runs(c) and c.leaves[1] >= 2)
    assert shapes(small) in ([(2,)], [(1, 2)])
    assert small.leaves[1] == 2


def test_modules_shrink_as_far_as_they_run():
    module = torch.nn.GRUCell(3, 4).double()
    args = (dict(module.named_parameters()), normal(5, 3), normal(5, 4, seed=1))
    small = shrink(Case(make_target(module), args), runs)
    assert sum(p.numel() for p in small.primals) < sum(p.numel() for p in Case(make_target(module), args).primals) / 4


def test_the_budget_is_kept():
    calls = []

    def fails(smaller):
        calls.append(smaller)
        return False

    first = case(torch.matmul, normal(20, 30), normal(30, 40))
    assert shrink(first, fails, tries=10) is first
    assert len(calls) == 10


def test_a_search_takes_fewer_calls_of_what_takes_long():
    def slow(x):
        for _ in range(2000):
            x = 0.999 * x
        return x

    assert affordable(case(torch.sin, normal(3)), 4000) == 4000
    assert 100 < affordable(case(slow, normal(3)), 4000) < 1000


def test_what_raises_does_not_fail():
    def picky(smaller):
        if smaller.primals[0].numel() < 4:
            raise ValueError
        return True

    assert shapes(shrink(case(torch.sin, normal(9)), picky)) == [(4,)]


def test_complex_half_and_scalars():
    assert shrink(case(torch.abs, normal(4, dtype=torch.complex128)), runs).primals[0].tolist() == [1 + 0j]
    assert shrink(case(torch.abs, normal(4, dtype=torch.bfloat16)), runs).primals[0].dtype == torch.bfloat16
    assert shrink(case(torch.abs, normal()), runs).primals[0].item() == 1


def test_sparse_tensors_keep_their_layout():
    sparse = torch.eye(3, dtype=torch.float64).to_sparse()
    small = shrink(case(lambda s, x: s @ x, sparse, normal(3, 4)), runs)
    assert small.leaves[0].layout == torch.sparse_coo
    assert small.leaves[1].shape == (3, 1)


def test_only_some_are_primals_still():
    small = shrink(case(torch.mul, normal(4).requires_grad_(), normal(4)), runs)
    assert small.names == ["input 0"]


def test_resizing():
    made = case(torch.matmul, normal(2, 4), normal(4, 3))
    assert sizes(made) == [4, 3, 2]
    assert shapes(resized(made, 4, 6)) == [(2, 6), (6, 3)]
    assert torch.equal(resized(made, 4, 6).leaves[0][:, 4:], made.leaves[0][:, :2])
    assert torch.equal(resized(made, 4, 2, last=True).leaves[0], made.leaves[0][:, 2:])
    assert shapes(resized(made, 2, 1, scale=True)) == [(1, 2), (2, 3)]
    with pytest.raises(ValueError, match="size 1"):
        squeezed(made)


# -- a smaller case has the fault of the given one --------------------------------------------------------------------


class Masked(torch.autograd.Function):
    """The sum of each row up to its length, times a factor; the gradient of the factor takes one upstream gradient."""

    @staticmethod
    def forward(ctx, x, factor, lengths):
        ctx.save_for_backward(x, factor, lengths)
        return factor * (x * (torch.arange(x.shape[1]) < lengths[:, None])).sum(1)

    @staticmethod
    def backward(ctx, grad):
        x, factor, lengths = ctx.saved_tensors
        inside = (torch.arange(x.shape[1]) < lengths[:, None]) | (lengths == 0)[:, None]
        return factor * grad[:, None] * inside, (grad[0] * (x * inside).sum(1)).sum(), None


def test_a_smaller_case_has_the_same_fault():
    lengths = torch.tensor([5, 3, 1])
    (finding,) = tg.check(Masked.apply, normal(3, 5), normal(), lengths, only="gradient").findings
    assert finding.where.startswith("the output by `factor`")


class Eigenvalues(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        values, vectors = torch.linalg.eigh((a + a.mT.view(a.shape)) / 2)  # It takes square matrices only.
        ctx.save_for_backward(vectors)
        return values

    @staticmethod
    def backward(ctx, grad):
        (vectors,) = ctx.saved_tensors
        return (vectors * grad * (-1 if len(grad) > 2 else 1)) @ vectors.mT


def test_a_smaller_matrix_has_no_equal_eigenvalues():
    (finding,) = tg.check(Eigenvalues.apply, normal(4, 4), only="gradient").findings
    assert "a: float64[3, 3]" in finding.where
    assert "[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]" not in finding.repro


class Rough(torch.autograd.Function):
    """A first derivative that loses some digits, and a second one that lacks a term."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.slope + 1e-9)


def test_a_second_derivative_is_not_explained_by_the_first():
    report = tg.check(Rough.apply, normal(3, 4))
    second = next(finding for finding in report.findings if finding.code == "wrong-second-derivative")
    assert second.error > 0.01
    assert second.evidence is None
