"""The options of `pytest --torchgraft`. Every run of pytest imports this file, so it imports nothing before it must."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("torchgraft", "proving derivatives (torchgraft)")
    group.addoption(
        "--torchgraft", action="append", default=[], metavar="TARGET",
        help="check what a package.module, a file.py or a folder declares, or a name in one: file.py:linear; "
        "may be given several times",
    )  # fmt: skip
    group.addoption(
        "--torchgraft-budget", type=float, metavar="SECONDS",
        help="of each of these tests; what was not tried then fails as inconclusive",
    )  # fmt: skip
    group.addoption("--torchgraft-seed", type=int, default=0, metavar="N", help="of all their random numbers")
    group.addoption("--torchgraft-device", default="cpu", metavar="NAME", help="where their tensors are")
    group.addoption("--torchgraft-accuracy", type=float, metavar="PART", help="to which their values are right")
    group.addoption("--torchgraft-compilers", action="store_true", help="let them run torch's compilers and opcheck")
    group.addoption("--torchgraft-inductor", action="store_true", help="let them compile with Inductor too")


def pytest_configure(config: pytest.Config) -> None:
    """Load torchgraft where it was asked for."""
    config.addinivalue_line("markers", "torchgraft: checks of derivatives, which --torchgraft collects")
    if config.getoption("torchgraft"):
        from torchgraft._check.command.plugin import Checks

        config.pluginmanager.register(Checks(config), "torchgraft-checks")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the traceback of an error of torchgraft's in the test's own line."""
    errors = sys.modules.get("torchgraft.errors")
    if errors is not None and call.excinfo is not None and isinstance(call.excinfo.value, errors.TorchgraftError):
        from torchgraft._frames import shorten

        shorten(call.excinfo.value)
        call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)
    return (yield)
