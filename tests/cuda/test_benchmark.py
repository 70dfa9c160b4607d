"""The rows of `benchmarks/on_cuda.py`, on what stands in for a device: minutes on a real one are few."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _cuda import cost, right  # noqa: F401 - each puts its rows into the table
from _cuda.place import MEASUREMENTS, Place

from torchgraft._build.cuda import nvrtc

from ..default import by_default
from .standin import emulated

HERE = Place(torch.device("cpu"), elements=4096, cases=5, calls=20)


ROWS = by_default(
    [m for m in MEASUREMENTS if not m.needs_gpu],
    lambda m: "random shapes" not in m.what,  # Those compile a hundred kernels.
    lambda m: m.what,
)


@pytest.mark.slow
@pytest.mark.parametrize("measurement", ROWS)
def test_a_row(measurement):
    if "NVRTC" in measurement.what and not nvrtc.is_there():
        pytest.skip("NVRTC is not installed")
    with emulated() as driver:
        row = measurement.row(HERE)
        assert driver.launches or "NVRTC" in measurement.what
    assert row.result
    assert "WRONG" not in row.result
    assert "FAILED" not in row.result


def test_a_row_says_what_fails():
    (first,) = [m for m in MEASUREMENTS if m.what.startswith("a stream that is behind")]
    assert first.row(HERE).result.startswith("FAILED: ")
    assert first.row(None).result == "not run"
