"""Second derivatives, mixed ones too, against differences of the first."""

import doctest
import importlib
import itertools

import pytest
import torch

import torchgraft as tg
from torchgraft.scipy import special

from ..default import by_default

POINTS = {
    "gammainc": (2.5, 1.3), "gammaincc": (30.0, 25.0), "gammaincinv": (2.5, 0.3), "gammainccinv": (3.0, 0.99),
    "betainc": (0.7, 4.0, 0.9), "betaincc": (2.0, 3.0, 0.4), "betaincinv": (2.0, 0.5, 0.7),
    "betainccinv": (2.0, 3.0, 0.3), "jv": (0.0, 2.0), "yv": (1.5, 3.0), "iv": (0.0, 2.0), "kv": (1.5, 3.0),
    "kve": (0.25, 2.0),
}  # fmt: skip
STEP = 1e-5


def first(name, point, by, *, create_graph=False):
    arguments = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    (slope,) = torch.autograd.grad(getattr(special, name)(*arguments), arguments[by], create_graph=create_graph)
    return slope, arguments


@pytest.mark.parametrize("name", POINTS)
def test_what_is_not_refused_is_right(name):
    point, right = POINTS[name], 0
    for i, j in itertools.product(range(len(point)), repeat=2):
        slope, arguments = first(name, point, i, create_graph=True)
        try:
            (found,) = torch.autograd.grad(slope, arguments[j])
        except tg.DerivativeError:
            assert i < len(point) - 1  # of a parameter
            continue
        ends = [[x + sign * STEP * (k == j) for k, x in enumerate(point)] for sign in (1, -1)]
        above, below = (first(name, end, i)[0] for end in ends)
        torch.testing.assert_close(found, (above - below) / (2 * STEP), rtol=1e-6, atol=1e-7)
        right += 1
    assert right >= len(point)  # all of the slope in the argument


@pytest.mark.parametrize("name", by_default(dict.fromkeys(special._FAMILY.values()), {"log_gamma"}.__contains__))
def test_examples_print_what_they_say(name):
    module = importlib.import_module(f"torchgraft.scipy.special.{name}")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    operators = [op for op in vars(module).values() if isinstance(op, tg.Op) and ">>>" in (op.__doc__ or "")]
    assert operators
    for op in operators:
        names = {"torch": torch} | vars(module)
        assert runner.run(parser.get_doctest(op.__doc__, names, op.__name__, None, 0)).failed == 0
