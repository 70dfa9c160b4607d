"""Filters and correlations: values are SciPy's, derivatives are those of complex steps, and of differences."""

import importlib
import itertools

import numpy as np
import pytest
import scipy.signal
import torch

import torchgraft as tg
from torchgraft.scipy import signal

from ..default import by_default

NAMES = ["lfilter", "sosfilt", "correlate", "convolve"]


def numbers(*shape, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        return generator.integers(-4, 5, shape).astype(dtype)
    made = generator.standard_normal(shape)
    return (made + 1j * generator.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else made).astype(
        dtype
    )


def tensors(*arrays):
    return [torch.from_numpy(np.asarray(array)) for array in arrays]


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


# -- values of filters ------------------------------------------------------------------------------------------------

FILTERS = {
    "butter": scipy.signal.butter(4, 0.2),
    "sharp": scipy.signal.ellip(7, 0.1, 60, 0.1),
    "unnormalised": ([2.0, -1.0], [4.0, 1.0, -0.5, 0.25]),
    "recursive": ([1.0], [1.0, -0.9]),
    "longer b": ([0.1, 0.2, 0.3, -0.1, 0.5, 0.7], [1.0, 0.5]),
    "many taps": (numbers(40, seed=1), np.concatenate([[1.0], 0.01 * numbers(40, seed=2)])),
}
SHAPES = [((50,), 0), ((3, 70), -1), ((4, 130, 5), 1), ((13, 9), 0), ((2, 1), -1), ((0, 5), -1)]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("name", FILTERS)
def test_lfilter_has_the_values_of_scipy(name, shape, axis, dtype):
    b, a = (np.asarray(c, dtype) for c in FILTERS[name])
    x, taps = numbers(*shape, dtype=dtype), max(len(b), len(a))
    zi = numbers(*[taps - 1 if i == axis % len(shape) else size for i, size in enumerate(shape)], dtype=dtype, seed=3)
    for state in (None, zi, zi[:1]) if shape[0] != 1 and axis % len(shape) and shape[0] else (None, zi):
        wanted = as_tuple(scipy.signal.lfilter(b, a, x, axis, state))
        found = as_tuple(signal.lfilter(*tensors(b, a, x), axis, None if state is None else torch.from_numpy(state)))
        for ours, theirs in zip(found, wanted, strict=True):
            if dtype is np.float64:
                np.testing.assert_array_equal(ours.numpy(), theirs)
            else:  # SciPy divides by a[0] at every step
                np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("count", [1, 5, 33])
def test_filters_without_feedback(count):
    b, a, x = numbers(count, seed=1), np.array([2.0]), numbers(3, 20)
    wanted = scipy.signal.lfilter(b, a, x, zi=numbers(3, count - 1, seed=2))
    found = signal.lfilter(*tensors(b, a, x), zi=torch.from_numpy(numbers(3, count - 1, seed=2)))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("order", [1, 6, 9])
def test_sosfilt_has_the_values_of_scipy(order, shape, axis):
    sos, x = scipy.signal.butter(order, 0.3, output="sos"), numbers(*shape)
    zi = numbers(len(sos), *[2 if i == axis % len(shape) else size for i, size in enumerate(shape)], seed=1)
    for state in (None, zi):
        wanted = as_tuple(scipy.signal.sosfilt(sos, x, axis, state))
        found = as_tuple(signal.sosfilt(*tensors(sos, x), axis, None if state is None else torch.from_numpy(state)))
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs)


def test_single_precision_is_no_worse_than_scipys():
    for order in (2, 4, 6):
        b, a = (c.astype(np.float32) for c in scipy.signal.butter(order, 0.05))
        x = numbers(8, 2000, dtype=np.float32)
        truth = scipy.signal.lfilter(*(array.astype(np.float64) for array in (b, a, x)))
        found = signal.lfilter(*tensors(b, a, x))
        assert found.dtype is torch.float32
        ours, theirs = (np.abs(y - truth).max() for y in (found.numpy(), scipy.signal.lfilter(b, a, x)))
        assert ours <= theirs
        assert ours <= 2e-7 * np.abs(truth).max()


@pytest.mark.parametrize(("kinds", "wanted"), [("ffd", torch.float64), ("fif", torch.float64), ("fbf", torch.float32)])
def test_dtypes_are_promoted_as_numpy_does(kinds, wanted):
    b, a, x = (np.ones(2).astype(kind) for kind in kinds)
    assert signal.lfilter(*tensors(b, a, x)).dtype is wanted
    assert torch.from_numpy(scipy.signal.lfilter(b, a, x)).dtype is wanted
    assert signal.convolve(*tensors(b, a)).numpy().dtype == scipy.signal.convolve(b, a).dtype


# -- derivatives of filters -------------------------------------------------------------------------------------------


def complex_step(function, arguments, place, grad):
    """The gradient of ``sum(grad * function)`` to rounding: SciPy's filters admit complex numbers."""
    step, gradient = 1e-100, np.zeros(arguments[place].shape)
    for index in np.ndindex(gradient.shape):
        moved = [array.astype(complex) for array in arguments]
        moved[place][index] += 1j * step
        gradient[index] = (grad * function(*moved).imag).sum() / step
    return gradient


@pytest.mark.parametrize("name", FILTERS)
def test_gradients_of_lfilter(name):
    b, a = map(np.asarray, FILTERS[name])
    arguments = [b, a, numbers(9, 24), numbers(9, max(len(b), len(a)) - 1, seed=3)]
    grads = [numbers(9, 24, seed=4), numbers(*arguments[3].shape, seed=5)]

    def both(b, a, x, zi):
        return np.concatenate(scipy.signal.lfilter(b, a, x, zi=zi), -1)

    inputs = [t.requires_grad_() for t in tensors(*(array.copy() for array in arguments))]
    found = torch.autograd.grad(signal.lfilter(*inputs[:3], zi=inputs[3]), inputs, tensors(*grads))
    error = 1e-10 if name == "sharp" else 1e-13  # whose seven poles next to each other multiply rounding
    for i, gradient in enumerate(found):
        wanted = complex_step(both, arguments, i, np.concatenate(grads, -1))
        np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-12, atol=error * np.abs(wanted).max())


def test_gradients_of_a_sharp_filter_over_a_long_signal():
    """Poles at a distance of 0.01 from the unit circle, and 5000 steps."""
    b, a = scipy.signal.butter(4, 0.01)
    x, grad = numbers(5000), numbers(5000, seed=1)
    inputs = [t.requires_grad_() for t in tensors(b, a, x.copy())]
    found = torch.autograd.grad(signal.lfilter(*inputs), inputs, torch.from_numpy(grad))
    for place in (0, 1):
        wanted = complex_step(lambda *c: scipy.signal.lfilter(*c), [b, a, x], place, grad)
        np.testing.assert_allclose(found[place].numpy(), wanted, rtol=1e-8)  # the condition is 1e6
    np.testing.assert_allclose(found[2].numpy(), scipy.signal.lfilter(b, a, grad[::-1])[::-1], rtol=1e-7, atol=1e-9)


CASES = {
    "lfilter": (signal.lfilter, [[0.5, 0.2, -0.3], [1.5, -0.4], numbers(2, 7)]),
    "lfilter with zi": (
        lambda b, a, x, zi: signal.lfilter(b, a, x, 0, zi),
        [[0.5], [2.0, -0.4, 0.3], numbers(5, 2), numbers(2, 2, seed=1)],
    ),
    "lfilter without feedback": (signal.lfilter, [[0.5, 0.2, -0.3], [2.0], numbers(6)]),
    "lfilter, complex": (
        signal.lfilter,
        [[0.5 + 0.1j, 0.2], [1.5j, -0.4, 0.2 - 0.3j], numbers(5, dtype=np.complex128)],
    ),
    "sosfilt": (
        lambda sos, x, zi: signal.sosfilt(sos, x, zi=zi),
        [scipy.signal.butter(3, 0.3, output="sos"), numbers(2, 5), numbers(2, 2, 2, seed=1)],
    ),
    "correlate": (lambda a, b: signal.correlate(a, b, "same", "direct"), [numbers(3, 4), numbers(2, 5, seed=1)]),
    "correlate, complex": (
        lambda a, b: signal.correlate(a, b, "full", "direct"),
        [numbers(4, dtype=np.complex128), numbers(2, dtype=np.complex128, seed=1)],
    ),
    "convolve": (lambda a, b: signal.convolve(a, b, "valid", "direct"), [numbers(2, 2, 2), numbers(3, 2, 4, seed=1)]),
    "convolve by fft": (lambda a, b: signal.convolve(a, b, "same", "fft"), [numbers(6), numbers(3, seed=1)]),
}


@pytest.mark.parametrize("name", by_default(CASES, lambda name: name != "lfilter, complex"))
def test_derivatives_of_both_modes_and_of_second_order(name):
    function, arguments = CASES[name]
    function = fixed(function) if "sosfilt" in name else function
    inputs = [t.requires_grad_() for t in tensors(*arguments)]
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, inputs)


def fixed(function):
    """With ones in ``sos[:, 3]``, where differences would be refused."""
    one = torch.tensor([False, False, False, True, False, False])
    return lambda sos, *rest: function(torch.where(one, torch.ones_like(sos), sos), *rest)


def test_what_is_not_asked_for_is_not_computed(monkeypatch):
    called = []
    monkeypatch.setattr("torchgraft.scipy.signal.recursion.lags", lambda *_: called.append(1))
    b, a, x = tensors([0.5], [1.0, -0.5], numbers(4))
    signal.lfilter(b, a, x.requires_grad_()).sum().backward()
    assert not called


# -- correlations -----------------------------------------------------------------------------------------------------

PAIRS = [
    ((7,), (3,)), ((3,), (7,)), ((7,), (4,)), ((4,), (4,)), ((1,), (5,)), ((300,), (9,)), ((9,), (700,)),
    ((5, 6), (3, 2)), ((3, 2), (5, 6)), ((5, 6), (2, 7)), ((4, 5, 6), (2, 3, 3)), ((2, 3, 4), (4, 3, 5)),
    ((5, 1, 6), (2, 1, 3)), ((), ()),
]  # fmt: skip


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64, np.int8])
def test_correlations_have_the_values_of_scipy(name, dtype):
    for (first, second), mode, method in itertools.product(PAIRS, ("full", "valid", "same"), ("auto", "direct", "fft")):
        a, b = numbers(*first, dtype=dtype), numbers(*second, dtype=dtype, seed=1)
        try:
            wanted = getattr(scipy.signal, name)(a, b, mode, method)
        except ValueError:
            with pytest.raises(tg.TorchgraftError) as refusal:
                getattr(signal, name)(*tensors(a, b), mode, method)
            assert isinstance(refusal.value, ValueError)
            continue
        found = getattr(signal, name)(*tensors(a, b), mode, method).numpy()
        assert found.dtype == wanted.dtype
        rounding = 0 if np.issubdtype(dtype, np.integer) else 8 * np.finfo(dtype).eps
        size = np.max(getattr(scipy.signal, name)(abs(a), abs(b), mode, method="direct"))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding * size)


def test_integers_wrap_around_and_truth_values_are_joined():
    a, b = np.array([100, 100, 100], np.int8), np.array([2, 1], np.int8)
    np.testing.assert_array_equal(signal.convolve(*tensors(a, b)).numpy(), np.convolve(a, b))
    a, b = np.array([True, False, True]), np.array([True, True])
    np.testing.assert_array_equal(signal.convolve(*tensors(a, b)).numpy(), scipy.signal.convolve(a, b))


def test_what_is_infinite_stays_where_it_is():
    """No zero is padded that it could meet."""
    a, b = np.array([1.0, 2.0, 3.0]), np.array([np.inf, 1.0])
    np.testing.assert_array_equal(signal.convolve(*tensors(a, b), "full", "direct").numpy(), np.convolve(a, b))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["auto", "direct"])
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_four_and_more_axes(name, method, mode):
    for shapes in (((2, 3, 2, 4), (2, 2, 1, 3)), ((2, 1, 2, 1, 3), (3, 2, 2, 4, 3))):
        a, b = (numbers(*shape) for shape in shapes)
        found = getattr(signal, name)(*tensors(a, b), mode, method)
        np.testing.assert_allclose(found.numpy(), getattr(scipy.signal, name)(a, b, mode, method), atol=1e-14)
    a, b = np.full((2, 2, 1, 1), 2**31 + 1), np.full((2, 2, 1, 1), 2**31 + 3)  # whose sums the FFT would round
    found = getattr(signal, name)(*tensors(a, b), mode, method)
    np.testing.assert_array_equal(found.numpy(), getattr(scipy.signal, name)(a, b, mode, method))


# -- transforms and refusals ------------------------------------------------------------------------------------------

X, TAP = torch.from_numpy(numbers(3, 12)), torch.tensor([0.5, 0.1], dtype=torch.float64)
FEEDBACK = torch.tensor([2.0, -0.5], dtype=torch.float64)
SOS = torch.from_numpy(scipy.signal.butter(3, 0.3, output="sos"))
RUNS = {
    "lfilter": lambda x: signal.lfilter(TAP, FEEDBACK, x, zi=x[..., :1])[0],
    "sosfilt": lambda x: signal.sosfilt(SOS, x),
    "correlate": lambda x: signal.correlate(x, TAP, "same"),
    "convolve": lambda x: signal.convolve(x, x, method="fft"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_transforms(name):
    run, x = RUNS[name], X[0]
    wanted = run(x)
    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager")(x), wanted)
    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=True)(x), wanted)
    torch.testing.assert_close(torch.func.vmap(run)(X), torch.stack([run(row) for row in X]))
    torch.testing.assert_close(torch.func.jacfwd(run)(x), torch.func.jacrev(run)(x))

    class Model(torch.nn.Module):
        def forward(self, x):
            return run(x)

    torch.testing.assert_close(torch.export.export(Model(), (x,)).module()(x), wanted)


def test_exported_programs_take_other_sizes():
    class Model(torch.nn.Module):
        def forward(self, x):
            return signal.lfilter(TAP, FEEDBACK, x), signal.sosfilt(SOS, x)

    sizes = {"x": {0: torch.export.Dim("rows", min=2), 1: torch.export.Dim("n", min=4)}}
    exported = torch.export.export(Model(), (X,), dynamic_shapes=sizes).module()
    x = torch.from_numpy(numbers(7, 33))
    for found, wanted in zip(exported(x), Model()(x), strict=True):
        torch.testing.assert_close(found, wanted)


def test_coefficients_can_be_mapped():
    b = torch.stack([TAP, 2 * TAP])
    found = torch.func.vmap(lambda b: signal.lfilter(b, FEEDBACK, X))(b)
    torch.testing.assert_close(found, torch.stack([signal.lfilter(row, FEEDBACK, X) for row in b]))


REFUSED = {
    "a[0] = 0": (lambda s, t: s.lfilter(t([1.0]), t([0.0, 1.0]), t([1.0])), "leading coefficient"),
    "matrix": (lambda s, t: s.lfilter(t([[1.0]]), t([1.0, 1.0]), t([1.0])), "vector"),
    "no axis": (lambda s, t: s.lfilter(t([1.0]), t([1.0, 1.0]), t(1.0)), "axis"),
    "zi": (lambda s, t: s.lfilter(t([1.0]), t([1.0, 1.0]), t([1.0]), zi=t([1.0, 1.0])), "another shape"),
    "zi's axes": (lambda s, t: s.lfilter(t([1.0]), t([1.0, 1.0]), t([[1.0]]), zi=t([1.0])), "another shape"),
    "five": (lambda s, t: s.sosfilt(t([[1.0] * 5]), t([1.0])), "six coefficients"),
    "no one": (lambda s, t: s.sosfilt(t([[1.0] * 3 + [2.0] * 3]), t([1.0])), "not ones"),
    "sos zi": (lambda s, t: s.sosfilt(t([[1.0] * 6]), t([1.0]), zi=t([1.0, 1.0])), "another shape"),
    "axes": (lambda s, t: s.correlate(t([1.0]), t([[1.0]])), "number of axes"),
    "empty": (lambda s, t: s.convolve(t([1.0]), t([]), method="direct"), "is empty"),
    "mode": (lambda s, t: s.correlate(t([1.0]), t([1.0]), "some"), "no such mode"),
    "method": (lambda s, t: s.convolve(t([1.0]), t([1.0]), method="some"), "no such method"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_scipy_refuses_is_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(ValueError):  # noqa: PT011 - the words are SciPy's
        call(scipy.signal, np.array)
    with pytest.raises(ValueError, match=words) as refusal:
        call(signal, torch.tensor)
    assert isinstance(refusal.value, tg.TorchgraftError)
    assert refusal.value.operator
    assert refusal.value.argument


def test_sparse_tensors_are_refused():
    sparse = torch.ones(2, 2).to_sparse()
    for call in (lambda: signal.convolve(sparse, sparse), lambda: signal.lfilter(TAP, FEEDBACK, sparse)):
        with pytest.raises(tg.UnsupportedError, match="layout sparse_coo"):
            call()


def test_compiled_code_refuses_too():
    run = torch.compile(signal.lfilter, fullgraph=True, backend="aot_eager")
    with pytest.raises(tg.KernelError):
        run(TAP, torch.tensor([0.0, 1.0]), X)


def test_other_arguments_are_refused():
    with pytest.raises(tg.ArgumentError, match=r"torch.as_tensor\(b\)"):
        signal.lfilter([1.0], torch.tensor([1.0, 0.5]), X)
    with pytest.raises(tg.DtypeError, match="integers"):
        signal.lfilter(torch.tensor([1]), torch.tensor([1, 2]), torch.tensor([1, 2]))


@pytest.mark.parametrize("module", ["filters", "correlation"])
def test_examples_print_what_they_say(module):
    import doctest

    found = importlib.import_module(f"torchgraft.scipy.signal.{module}")
    result = doctest.testmod(found, extraglobs={"torch": torch})
    assert (result.failed, result.attempted >= 2) == (0, True)
