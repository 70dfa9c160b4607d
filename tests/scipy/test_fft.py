"""The cosine and sine transforms: values are SciPy's to the last bit, derivatives the transposes of its matrices."""

import doctest
import itertools

import numpy as np
import pytest
import scipy.fft
import torch

import torchgraft as tg
from torchgraft.scipy import fft
from torchgraft.scipy.fft import realtransforms

NAMES = ["dct", "idct", "dst", "idst"]
TYPES = (1, 2, 3, 4)
NORMS = (None, "backward", "ortho", "forward")


def both(name):
    return getattr(fft, name), getattr(scipy.fft, name)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "i8", "i2", "?"])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_scipy(name, dtype):
    ours, theirs = both(name)
    x = (5 * numbers(3, 6, 2) + (1j * numbers(3, 6, 2) if dtype[0] == "c" else 0)).astype(dtype)
    scaled = (None,) if dtype[0] == "c" else (None, True, False)
    for type, norm, orthogonalize, n, axis in itertools.product(TYPES, NORMS, scaled, (None, 4, 9), (-1, 1)):
        arguments = {"type": type, "n": n, "axis": axis, "norm": norm, "orthogonalize": orthogonalize}
        wanted, found = theirs(x, **arguments), ours(torch.from_numpy(x), **arguments).numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_complex_numbers_are_orthogonalized_where_that_is_said():
    """Which SciPy passes over."""
    x = numbers(5) + 1j * numbers(5)[::-1]
    found = fft.dct(torch.from_numpy(x), orthogonalize=True).numpy()
    wanted = scipy.fft.dct(x.real, orthogonalize=True) + 1j * scipy.fft.dct(x.imag, orthogonalize=True)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_transposes(name):
    ours, theirs = both(name)
    for type, norm, orthogonalize, n, count in itertools.product(
        TYPES, NORMS, (None, True, False), (None, 3, 7), (2, 5)
    ):
        arguments = {"type": type, "n": n, "norm": norm, "orthogonalize": orthogonalize}
        x = torch.from_numpy(numbers(count)).requires_grad_()
        matrix = torch.from_numpy(theirs(np.eye(count), **arguments))  # row i is the transform of unit vector i
        grad = torch.from_numpy(numbers(matrix.shape[1]))
        (found,) = torch.autograd.grad(ours(x, **arguments), x, grad)
        torch.testing.assert_close(found, matrix @ grad, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_both_modes_and_second_order(name):
    function = both(name)[0]
    x = torch.from_numpy(numbers(2, 4) + 1j).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: function(x, 3, 5, 0), x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: function(x, 1) ** 2, x)


@pytest.mark.parametrize("name", NAMES)
def test_transforms(name):
    def run(x):
        return both(name)[0](x, 1, 7, norm="ortho")

    x = torch.from_numpy(numbers(3, 5))
    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager")(x), run(x))
    torch.testing.assert_close(torch.func.vmap(run, 1)(x), run(x.T))
    torch.testing.assert_close(torch.func.jacfwd(run)(x), torch.func.jacrev(run)(x))

    class Model(torch.nn.Module):
        def forward(self, x):
            return run(x)

    torch.testing.assert_close(torch.export.export(Model(), (x,)).module()(x), run(x))


def test_arguments_that_change_no_value():
    x = torch.from_numpy(numbers(4, 5))
    before = x.clone()
    torch.testing.assert_close(fft.dct(x, overwrite_x=True, workers=-1), fft.dct(x), rtol=0, atol=0)
    torch.testing.assert_close(x, before, rtol=0, atol=0)


REFUSED = {
    "type": (torch.ones(3), {"type": 5}), "norm": (torch.ones(3), {"norm": "some"}), "n": (torch.ones(3), {"n": 0}),
    "workers": (torch.ones(3), {"workers": 0}), "x": (torch.ones(2, 0), {}), "axis": (torch.ones(3), {"axis": 1}),
}  # fmt: skip


@pytest.mark.parametrize("argument", REFUSED)
@pytest.mark.parametrize("name", NAMES)
def test_what_scipy_refuses_is_refused(name, argument):
    x, arguments = REFUSED[argument]
    ours, theirs = both(name)
    with pytest.raises((ValueError, IndexError)):
        theirs(x.numpy(), **arguments)
    with pytest.raises(ValueError, match="there is no such") as refusal:
        ours(x, **arguments)
    assert isinstance(refusal.value, tg.TorchgraftError)
    assert refusal.value.argument == argument


def test_one_number_has_no_cosine_transform_of_the_first_type():
    with pytest.raises(ValueError, match="2 numbers at least"):
        fft.dct(torch.ones(1), 1)
    with pytest.raises(tg.ArgumentError, match="as_tensor"):
        fft.dct([1.0, 2.0])
    with pytest.raises(tg.ArgumentError, match="is no integer"):
        fft.dct(torch.ones(2), n=2.0)
    with pytest.raises(ValueError, match="no such axis"):
        fft.dct(torch.ones(2), axis=0.0)


def test_no_complex_numbers_have_a_transform():
    assert fft.dct(torch.zeros(0, 3, dtype=torch.complex64)).shape == (0, 3)


def test_examples_print_what_they_say():
    result = doctest.testmod(realtransforms, extraglobs={"torch": torch})
    assert (result.failed, result.attempted) == (0, 4)
