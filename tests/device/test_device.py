"""The checker on another device than the CPU, without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import cpp_extension

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not cpp_extension.is_ninja_available(), reason="torch's builder of extensions needs ninja")
def test_the_checker_says_on_a_device_what_it_says_on_the_cpu():
    """A process of its own, as it can fork no more: a sixth of the zoo takes a minute, `0 1` would be all of it."""
    command = [sys.executable, "-m", "tests.device.zoo", "1", "6"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    said = json.loads(made.stdout.splitlines()[-1])
    assert said["count"] > 25
    assert said["other"] == {}
