"""The limit on what a call computes."""

import contextlib
import inspect
import sys
import types

import pytest
import torch

from examples.cube import cube
from torchgraft import _torch

MUCH = 1_000_000


def step():
    pass


def steps(count):
    for _ in range(count):
        step()


@pytest.mark.parametrize(
    "work", [lambda: steps(200), lambda: [torch.zeros(3) for _ in range(20)]], ids=["Python", "torch"]
)
def test_what_takes_too_much_is_stopped(work):
    with pytest.raises(_torch.TooMuch), _torch.Effort(10_000, 100):
        work()
    with _torch.Effort(MUCH, 10_000):
        work()
    assert sys.gettrace() is None


@pytest.mark.parametrize("tracer", [None, lambda frame, event, argument: None], ids=["alone", "beside a tracer"])
def test_a_loop_without_calls_is_stopped(tracer):
    def endless():
        while True:
            pass

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with pytest.raises(_torch.TooMuch), _torch.Effort(MUCH, lines=1000):
            endless()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_what_is_counted_within_counts_outside_too():
    with _torch.Effort(MUCH, lines=MUCH) as outer:
        with _torch.Effort(MUCH, lines=MUCH) as inner:
            steps(50)
        steps(20)
    assert inner.lines > 100
    assert outer.lines > inner.lines + 40
    assert outer.calls > inner.calls + 20


def test_lines_of_libraries_are_not_counted():
    with _torch.Effort(MUCH, lines=50) as effort:
        inspect.signature(inspect.signature)
        torch.nn.Linear(2, 2)
    assert effort.calls > 1
    with pytest.raises(_torch.TooMuch), _torch.Effort(MUCH, lines=50):
        steps(60)


def test_lines_of_an_operator_are_those_of_its_kernel():
    x = torch.ones(3, dtype=torch.float64)
    cube(x)  # The first call of all makes imports.
    for given in (x, x[None], x.float()):  # The first call with its kind of tensor plans the shapes.
        with _torch.Effort(MUCH, lines=MUCH) as effort:
            cube(given)
        assert effort.lines == 1


def test_what_gives_back_is_not_stopped():
    @contextlib.contextmanager
    def changed():
        done.append("changed")
        try:
            yield
        finally:
            steps(300)
            done.append("given back")

    def work():
        with changed():
            steps(50)
        step()

    done = []
    with pytest.raises(_torch.TooMuch), _torch.Effort(MUCH, 100):
        work()
    assert done == ["changed", "given back"]


@pytest.mark.parametrize("most", range(40, 48))
def test_no_stop_is_lost_in_a_generator_that_is_thrown_away(most):
    """Python swallows what is raised while it closes one, and the count would end there."""

    def closes_early():
        return any(i for i in range(5))

    def work():
        for _ in range(30):
            closes_early()

    with pytest.raises(_torch.TooMuch), _torch.Effort(MUCH, most):
        work()


def test_an_import_is_not_stopped(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("def f(): pass\nfor _ in range(500): f()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with _torch.Effort(MUCH, 300):
        import slow_to_import
    assert isinstance(slow_to_import, types.ModuleType)
    with pytest.raises(_torch.TooMuch), _torch.Effort(MUCH, 300):
        steps(500)


def test_another_profiler_stays():
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        with pytest.raises(_torch.TooMuch), _torch.Effort(MUCH, 30):
            steps(50)
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert seen.count("call") >= 30
