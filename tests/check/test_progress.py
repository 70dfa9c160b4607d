"""The line that shows how far the checks are: where it is shown, what it says, and that it is erased."""

import io
import re
import sys
import threading
import time

import pytest
import torch

import torchgraft as tg
from torchgraft._check import progress
from torchgraft._check.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal():
    return Terminal()


@pytest.fixture
def check(terminal, monkeypatch):
    """Run one check, with the standard error on the terminal."""

    def check(**options):
        with monkeypatch.context() as patch:  # here, for pytest puts its own in place before a test begins
            patch.setattr(sys, "stderr", terminal)
            return tg.check(torch.sin, torch.ones(2, dtype=torch.float64), only="gradient", **options)

    return check


def shown(sent):
    """Return the line that a terminal shows after all that it was sent: a carriage return goes back to its begin."""
    screen = []
    for part in sent.split("\r"):
        screen[: len(part)] = part
    return "".join(screen).rstrip()


def test_the_line_says_number_count_name_and_time(terminal):
    with ProgressLine(terminal) as line:
        line.show(7, 28, "second order")
        assert re.fullmatch(r"\[7/28\] second order  \d\.\d s", shown(terminal.getvalue()))
        line.show(8, 28, "vmap")
        assert re.fullmatch(r"\[8/28\] vmap  \d\.\d s", shown(terminal.getvalue()))
    assert shown(terminal.getvalue()) == ""


@pytest.mark.slow
def test_time_moves_while_a_check_runs(terminal):
    with ProgressLine(terminal) as line:
        line.show(1, 1, "gradient")
        time.sleep(3 * progress.TICK)
    assert len(set(re.findall(r"gradient  (\d\.\d) s", terminal.getvalue()))) > 1
    assert not [thread for thread in threading.enumerate() if thread.name == progress.THREAD]


@pytest.mark.slow
def test_quick_checks_show_nothing(terminal):
    with ProgressLine(terminal, delay=60) as line:
        line.show(1, 2, "gradient")
        time.sleep(2 * progress.TICK)
    assert terminal.getvalue() == ""


def test_the_line_is_away_while_something_else_is_printed(terminal):
    with ProgressLine(terminal) as line:
        line.show(1, 2, "gradient")
        with line.hidden():
            assert shown(terminal.getvalue()) == ""
            time.sleep(2 * progress.TICK)  # nor does it come back
            assert shown(terminal.getvalue()) == ""


def test_the_line_is_no_longer_than_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with ProgressLine(terminal) as line:
        line.show(1, 2, "a name that is much longer than that")
        assert re.fullmatch(r"\[1/2\] a name  \d\.\d s", shown(terminal.getvalue()))


def test_nothing_is_written_where_nobody_looks():
    stream = io.StringIO()
    for here in (stream, None):
        with ProgressLine(here) as line:
            line.show(1, 2, "gradient")
    assert stream.getvalue() == ""


def test_a_notebook_shows_the_line():
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    with ProgressLine(stream) as line:
        line.show(1, 2, "gradient")
    assert "[1/2] gradient" in stream.getvalue()


@pytest.mark.parametrize(("wanted", "visible"), [(True, True), (None, False), (False, False)])
def test_when_check_shows_the_line(terminal, check, wanted, visible):
    assert check(progress=wanted).ok
    assert ("[1/1] gradient" in terminal.getvalue()) is visible
    assert shown(terminal.getvalue()) == ""


def test_slow_checks_show_the_line_by_themselves(terminal, check, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    check()
    assert "[1/1] gradient" in terminal.getvalue()


def test_a_function_gets_names_and_no_line_is_shown(terminal, check):
    heard = []
    assert check(progress=heard.append).ok
    assert heard == ["gradient"]
    assert terminal.getvalue() == ""
