"""Settings of the whole suite."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

# Those who mend torchgraft want to see its frames.
os.environ["TORCHGRAFT_TRACEBACK"] = "full"

# The tensors are tiny: a second thread of torch's would only take the core from the other test process.
torch.set_num_threads(1)

# A process of the suite holds millions of objects: to look through them for cycles takes a twelfth of its time.
gc.set_threshold(20_000, 50, 50)

# A machine may be busy: no test is timed. A failure comes again in each run; `make fuzz` looks for new ones.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out slow tests, unless files are named, or marks."""
    files = [Path(argument.partition("::")[0]) for argument in config.args]
    if not config.option.markexpr and not all(file.suffix == ".py" for file in files):
        config.option.markexpr = "not slow"


@pytest.hookimpl(trylast=True)  # Other choices are made before.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests whose rows a longer test runs as well, as their mark `unless` names it."""
    chosen, kept, left = {item.nodeid for item in items}, [], []
    for item in items:
        marks, name = item.iter_markers("unless"), getattr(item, "originalname", "")
        longer = [item.nodeid.replace(f"::{name}", f"::{mark.args[0]}") for mark in marks]
        (left if chosen.intersection(longer) else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture(autouse=True)
def _python_shows_errors() -> Iterator[None]:
    """Take back the hook that a process group leaves: it writes the rank before each line."""
    hook = sys.excepthook
    yield
    sys.excepthook = hook


@pytest.fixture(autouse=True, scope="module")
def _export_looks_at_one_file() -> None:
    """Forget the names of operators that other files declared: torch looks at each whenever it decomposes a program.

    It always sees those of the examples, whose names are in another namespace.
    """
    torch.ops.tests._dir.clear()


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings as the checks give them, for tests that read no cause: to shrink and explain takes most of the time."""
    from torchgraft._check import runner

    monkeypatch.setattr(runner, "_concluded", lambda check, case, finding: finding.but(case=None))
