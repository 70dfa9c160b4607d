"""Sixty-four ranks, simulated in one process."""

import subprocess
import sys

import pytest

from .simulated import CASES


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["64", "8 8"])
def test_sixty_four_ranks(shape):
    command = [sys.executable, "-m", "tests.mesh.simulated", *shape.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(CASES), done.stdout
