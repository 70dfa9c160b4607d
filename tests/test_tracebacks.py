"""Errors end a traceback in the user's line, wherever it is shown."""

import sys
import threading
import traceback
from pathlib import Path

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._frames import install, is_own

pytest_plugins = ["pytester"]


@tg.op
def double(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return 2 * x


@double.vjp("x")
def _(grad):
    return double(grad[None])


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.delenv("TORCHGRAFT_TRACEBACK")


def raised(function):
    """The error of a function, with the frames that it has come through."""
    with pytest.raises((tg.TorchgraftError, ValueError)) as caught:
        function()
    return caught.value


def printed(error, capsys):
    """The lines that Python prints of an error that nobody catches, without the first frame, which is this test's."""
    sys.excepthook(type(error), error, error.__traceback__)
    return capsys.readouterr().err


def files(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_a_call_is_the_last_line(capsys):
    error = raised(lambda: double(torch.ones(2, 2)))
    assert "eager_call.py" in str(files(error))
    lines = printed(error, capsys).splitlines()
    place = max(i for i, line in enumerate(lines) if line.startswith("  File "))
    assert __file__ in lines[place]
    assert "double(torch.ones(2, 2))" in lines[place + 1]
    assert "torchgraft/_" not in "\n".join(lines[:place])


def test_arguments_that_python_refuses_end_in_the_line_of_a_first_call(capsys):
    """The first call makes the function that refuses them."""

    @tg.op
    def halved(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x / 2

    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            halved()
        shown = printed(caught.value, capsys)
        assert "halved() missing 1 required positional argument" in shown
        assert "torchgraft/_op.py" not in shown


def test_a_full_traceback_is_shown_where_the_environment_asks_for_it(capsys, monkeypatch):
    monkeypatch.setenv("TORCHGRAFT_TRACEBACK", "full")
    assert "eager_call.py" in printed(raised(lambda: double(torch.ones(2, 2))), capsys)


def test_a_rule_is_the_last_line_and_torch_leads_to_it(capsys):
    x = torch.ones(2, requires_grad=True)
    error = raised(lambda: double(x).sum().backward())
    shown = printed(error, capsys)
    assert "double(grad[None])" in shown
    assert "_engine_run_backward" in shown
    assert [file for file in files(error) if "torchgraft/_" in file] == []
    assert files(error)[-1] == __file__


def test_causes_are_shortened_too(capsys):
    def outer():
        try:
            double(torch.ones(2, 2))
        except tg.ShapeError as error:
            raise tg.KernelError("came of another one") from error

    shown = printed(raised(outer), capsys)
    assert "came of another one" in shown
    assert "has 2 axes" in shown
    assert "torchgraft/_" not in shown.replace("torchgraft.errors", "")


def test_an_error_in_a_thread_is_shortened(capsys):
    """Pytest has a hook of its own there."""
    error = raised(lambda: double(torch.ones(2, 2)))
    hooks = sys.excepthook, threading.excepthook
    threading.excepthook = threading.__excepthook__
    try:
        install(tg.TorchgraftError)
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
    finally:
        sys.excepthook, threading.excepthook = hooks
    shown = capsys.readouterr().err
    assert "has 2 axes" in shown
    assert "torchgraft/_" not in shown


def test_an_error_of_ours_is_shortened_where_another_one_came_of_it(capsys):
    def outer():
        try:
            double(torch.ones(2, 2))
        except tg.ShapeError as error:
            raise ValueError("of the user's own") from error

    shown = printed(raised(outer), capsys)
    assert "of the user's own" in shown
    assert "torchgraft/_" not in shown.replace("torchgraft.errors", "")


def test_a_traceback_without_a_frame_of_the_user_stays():
    error = raised(lambda: double(torch.ones(2, 2)))
    ours = error.__traceback__
    while ours.tb_frame.f_code.co_filename == __file__ or "_pytest" in ours.tb_frame.f_code.co_filename:
        ours = ours.tb_next
    error.__traceback__ = ours
    assert error._render_traceback_()
    assert error.__traceback__ is ours


def test_errors_of_others_keep_their_frames(capsys):
    @tg.op
    def failing(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        raise ValueError("of the user's own")

    assert "eager_call.py" in printed(raised(lambda: failing(torch.ones(2))), capsys)


def test_examples_in_a_wheel_are_not_own_code():
    package = Path(tg.__file__).parent
    assert is_own(str(package / "_op.py"))
    assert not is_own(str(package / "_examples" / "linear.py"))


def test_a_notebook_shows_the_cell_alone(capsys):
    shell = InteractiveShell.instance()
    shell.push({"double": double, "torch": torch})
    shell.run_cell("double(torch.ones(2, 2))")
    shown = capsys.readouterr().out
    assert "has 2 axes" in shown
    assert "torchgraft/_" not in shown
    assert "/torch/" not in shown


def test_pytest_shows_the_test_alone(pytester):
    pytester.makepyfile("""
        import torch
        from tests.test_tracebacks import double

        def test_it():
            double(torch.ones(2, 2))
    """)
    shown = pytester.runpytest_inprocess().stdout.str()
    assert "has 2 axes" in shown
    assert "torchgraft/_" not in shown
