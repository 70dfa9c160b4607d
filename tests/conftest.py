"""Settings of the whole suite."""

import os
import sys
from collections.abc import Iterator

import pytest
import torch

# Those who mend torchgraft want to see its frames.
os.environ["TORCHGRAFT_TRACEBACK"] = "full"

# The tensors are tiny: a second thread of torch's would only take the core from the other test process.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _python_shows_errors() -> Iterator[None]:
    """Take back the hook that a process group leaves: it writes the rank before each line."""
    hook = sys.excepthook
    yield
    sys.excepthook = hook


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings as the checks give them, for tests that read no cause: to shrink and explain takes most of the time."""
    from torchgraft._check import runner

    monkeypatch.setattr(runner, "_concluded", lambda check, case, finding: finding.but(case=None))
