"""The checker, and operators under transforms, on another device than the CPU, without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import cpp_extension

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not cpp_extension.is_ninja_available(), reason="torch's builder of extensions needs ninja")
def test_a_device_is_as_the_cpu():
    """A process of its own, as it can fork no more: a sixth of the zoo and of the matrix."""
    command = [sys.executable, "-m", "tests.device", "1", "6"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    said = json.loads(made.stdout.splitlines()[-1])
    assert said["bugs"] > 25
    assert said["cells"] > 250
    assert said["other"] == {}
