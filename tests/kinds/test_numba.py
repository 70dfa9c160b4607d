"""Functions that Numba compiles, inside of kernels and rules: the page about them says what is true."""

import types

import numpy as np
import pytest
import torch
from jaxtyping import Float

import torchgraft as tg


class Compiled:
    """Like a function of Numba's: it keeps what was written, and draws where nobody sees it."""

    def __init__(self, function, generator):
        self.py_func = function
        self._generator = generator

    def __call__(self, x):
        return x + self._generator.random()


def draws(x):
    return x + np.random.rand()


def test_a_draw_that_nobody_sees_is_refused():
    compiled = Compiled(draws, np.random.default_rng(0))

    @tg.op
    def noisy(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return compiled(x)

    with pytest.raises(tg.KernelError, match="draws random numbers"):
        noisy(torch.ones(3, dtype=torch.float64))


def test_what_does_not_draw_is_called_once():
    called = []
    compiled = types.SimpleNamespace(py_func=np.add)  # It keeps no function of Python.

    @tg.op
    def double(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        called.append(compiled)
        return 2 * x

    double(torch.ones(3))
    assert len(called) == 1


@pytest.mark.slow
def test_with_numba_itself():
    numba = pytest.importorskip("numba")

    @numba.njit
    def noisy(x):
        return x + np.random.rand()

    @numba.njit
    def writes(x):
        x[0] = 1.0
        return x

    @numba.njit
    def cubed(x):
        out = np.empty_like(x)
        for i in range(len(x)):
            out[i] = x[i] ** 3
        return out

    def operator(function):
        @tg.op
        def made(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
            return function(x)

        return made

    x = torch.arange(6.0)[::2]
    with pytest.raises(tg.KernelError, match="draws random numbers"):
        operator(noisy)(x)
    with pytest.raises(numba.TypingError, match="readonly"):
        operator(writes)(x)
    op = operator(cubed)

    @op.vjp("x")
    def _(grad: np.ndarray, x: np.ndarray):
        return 3 * grad * cubed(x) / x

    torch.testing.assert_close(op(x), x**3)
    y = (x + 1).requires_grad_()
    op(y).sum().backward()
    torch.testing.assert_close(y.grad, 3 * y.detach() ** 2)
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), x**3)
    with pytest.raises(numba.TypingError):
        numba.njit(lambda x: op(x))(np.ones(3))
