"""Surroundings that an operator cannot live in: refused in words that name it."""

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
import torchgraft.scipy.optimize


@tg.op
def doubled(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return 2 * x * w


def test_symbolic_tracing_is_refused():
    with pytest.raises(tg.UnsupportedError, match=r"doubled': torch\.fx\.symbolic_trace") as caught:
        torch.fx.symbolic_trace(lambda x: doubled(x, x))
    assert "torch.export.export" in str(caught.value)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is")
def test_scripting_is_refused():
    with pytest.raises(tg.UnsupportedError, match=r"doubled': torch\.jit\.script") as caught:
        torch.jit.script(doubled)
    assert "torch.export.export" in str(caught.value)


def test_arguments_that_are_missing_are_missed_by_the_operators_name():
    for call in (lambda: doubled(torch.ones(2)), lambda: doubled(torch.ones(2), torch.ones(2), v=1)):
        with pytest.raises(TypeError, match=r"^doubled\(\)"):
            call()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_size_that_hangs_on_values_is_refused(compiled):
    @tg.op
    def positive(x: Float[np.ndarray, "n"]) -> np.ndarray:
        return x[x > 0].copy()

    @positive.shape
    def _(x):
        return (torch.library.get_ctx().new_dynamic_size(),)

    torch._dynamo.reset()
    call = torch.compile(positive, backend="aot_eager", fullgraph=True) if compiled else positive
    with pytest.raises(Exception, match=r"(?s)positive\.shape'.*new_dynamic_size.*pad the output"):
        call(torch.ones(3))


def test_a_solver_says_why_it_breaks_the_graph():
    def solve(a):
        return torchgraft.scipy.optimize.root(lambda x: x**3 - a, torch.ones_like(a)).x

    a = torch.tensor([8.0], dtype=torch.float64)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"torchgraft\.scipy\.optimize\.root calls back into Python"):
        torch.compile(solve, backend="eager", fullgraph=True)(a)
    torch.testing.assert_close(torch.compile(solve, backend="eager")(a), solve(a))


def test_compilers_show_errors_whole_and_nothing_is_called_nothing():
    error = tg.ShapeError("is empty", operator="f", argument="x", expected="", got="")
    assert repr(error) == f"ShapeError: {error}"
    assert "expected: nothing" in str(error)
    assert "got:      nothing" in str(error)
