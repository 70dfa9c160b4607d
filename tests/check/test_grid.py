"""Points, directions and steps whose sums are exact."""

import pytest
import torch

from torchgraft._check.numeric.vectors import GRIDS, Layout, flatten, grid_of, signed

DTYPES = list(GRIDS)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1.0, 1e-3, 40.0])
@pytest.mark.parametrize("relative", [False, True])
def test_every_step_is_exact(dtype, size, relative):
    grid = GRIDS[dtype]
    x = grid.snap((torch.randn(200, generator=seeded(), dtype=torch.float64) * size).to(dtype).double())
    u = grid.direction(x, seeded(1), relative=relative)
    for k in range(grid.first, grid.depth + 1):
        for sign in (1, -1):
            there = x + sign * 2.0**-k * u
            assert torch.equal(there.to(dtype).double(), there)
            assert torch.equal((there - x).abs(), 2.0**-k * u.abs())


@pytest.mark.parametrize("dtype", DTYPES)
def test_snapping_changes_little_and_no_sign(dtype):
    grid = GRIDS[dtype]
    x = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 0.3, -2.5, 100.0], dtype=dtype).double()
    snapped = grid.snap(x)
    assert torch.equal(snapped.sign(), x.sign())
    assert torch.equal(grid.snap(snapped), snapped)
    within = 2.0 ** -(grid.bits + grid.depth) * grid.unit(x)
    assert ((snapped - x).abs() <= within).all()


def test_small_tensors_change_by_little_and_huge_elements_by_much():
    grid = GRIDS[torch.float64]
    assert grid.unit(torch.tensor([1e-20, 3e-21], dtype=torch.float64)).max() < 2e-20
    assert grid.unit(torch.tensor([0.0, 0.0], dtype=torch.float64)).tolist() == [1, 1]
    assert grid.unit(torch.tensor([1e-20, 5.0], dtype=torch.float64)).tolist() == [1, 1]
    assert grid.unit(torch.tensor([1e30], dtype=torch.float64)) > 1e22


def test_a_direction_in_proportion_follows_each_element():
    x = torch.tensor([1e-6, 1.0, 1e3, 0.0], dtype=torch.float64)
    grid = GRIDS[torch.float64]
    u = grid.direction(grid.snap(x), seeded(), relative=True).abs()
    assert (u[:3] <= 1.5 * x[:3]).all()
    assert (u[:3] >= 0.24 * x[:3]).all()
    assert u[3] >= 0.5  # 0 has no size of its own


def test_random_weights_are_spread_over_both_signs():
    drawn = signed(4000, seeded(), bits=14)
    assert drawn.abs().min() >= 0.5
    assert drawn.abs().max() <= 1.5
    assert abs(drawn.mean()) < 0.06
    assert len(drawn.unique()) > 3000
    assert torch.equal(drawn, signed(4000, seeded(), bits=14))


def test_the_coarsest_dtype_decides():
    tensors = [torch.ones(1, dtype=d) for d in (torch.complex128, torch.float16, torch.float32)]
    assert grid_of(tensors) is GRIDS[torch.float16]
    assert grid_of(tensors[:1]) is GRIDS[torch.float64]
    assert grid_of([torch.ones(1, dtype=torch.complex64)]) is GRIDS[torch.float32]


def test_tensors_lie_in_one_vector_and_come_back():
    tensors = [
        torch.randn(2, 3, dtype=torch.float32).mT,
        torch.randn(2, dtype=torch.complex128),
        torch.randn(0, 3, dtype=torch.float64),
        torch.tensor(2.0, dtype=torch.float16),
    ]
    layout, vector = Layout(tensors), flatten(tensors)
    assert layout.size == len(vector) == 6 + 4 + 0 + 1
    assert vector[layout.slices[1]].tolist() == [p for z in tensors[1].tolist() for p in (z.real, z.imag)]
    for given, made in zip(tensors, layout.unflatten(vector), strict=True):
        assert torch.equal(given, made)
        assert given.dtype == made.dtype
        assert given.stride() == made.stride()
        assert not given.numel() or given.data_ptr() != made.data_ptr()


def test_the_plain_product_is_the_complex_inner_product():
    a, b = torch.randn(5, dtype=torch.complex128), torch.randn(5, dtype=torch.complex128)
    torch.testing.assert_close(flatten([a]) @ flatten([b]), (a.conj() * b).sum().real)
    torch.testing.assert_close(flatten([a.conj()]) @ flatten([b]), (a * b).sum().real)
