"""The functions of `torchgraft.scipy.special` that run on CUDA, with all that their derivatives call."""

import re
from pathlib import Path

import pytest
import torch

from torchgraft._build.cuda import nvrtc
from torchgraft._op import Op
from torchgraft.scipy import special
from torchgraft.scipy.special import lambert, logarithms, normal

from .standin import emulated
from .test_compiled import code

PUBLIC = {name: op for name, op in vars(special).items() if isinstance(op, Op)}
BY_TORCH = ("log_ndtr", "ndtri", "xlog1py", "xlogy")


def line(low, high):
    return torch.linspace(low, high, 1013, dtype=torch.float64)


OURS = {
    "lambertw": (lambert.lambertw, lambda: (line(-0.36, 5),)),
    "lambertw, the other branch": (lambert.lambertw, lambda: (line(-0.36, -1e-6), -1)),
    "lambertw'": (lambert.lambertw_nth, lambda: (line(-0.36, 5), 0, 1)),
    "lambertw''": (lambert.lambertw_nth, lambda: (line(-0.36, 5), 0, 2)),
    "log_ndtr'": (normal.log_ndtr_by_x, lambda: (line(-40, 9),)),
    "ndtri'": (normal.ndtri_by_y, lambda: (line(-9, 9), torch.special.ndtr(line(-9, 9)))),
    "quotient": (logarithms.quotient, lambda: (line(-2, 2), torch.tensor(0.3))),
}
"""Functions in C, with arguments."""


def test_which_functions_run_on_cuda():
    served = {name for name, op in PUBLIC.items() if "cuda" in op._record.devices()}
    assert served == {"lambertw", *BY_TORCH}
    page = (Path(__file__).parents[2] / "docs/scipy.md").read_text()
    (named,) = re.findall(r"\*\*On CUDA\*\*, (.*?) are", page, re.S)
    assert set(re.findall(r"`(\w+)`", named)) == served


@pytest.mark.parametrize("name", BY_TORCH)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_values_of_torch_are_those_of_scipy(name, dtype):
    """The kernel for CUDA, run on the CPU: torch has one text for both."""
    op = PUBLIC[name]
    x = torch.linspace(-30, 9, 997, dtype=torch.float64)
    y = torch.linspace(0.01, 0.99, 997, dtype=torch.float64)
    args = [a.to(dtype) for a in {"log_ndtr": (x,), "ndtri": (y,)}.get(name, (x, y))]
    made, expected = op._record.kernels["cuda"].call(*args), op(*args)
    assert made.dtype == expected.dtype
    tolerance = 1e-14 if made.dtype is torch.float64 else torch.finfo(made.dtype).eps
    torch.testing.assert_close(made, expected, rtol=tolerance, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", OURS)
def test_functions_in_c_give_what_the_cpu_gives(name):
    op, make = OURS[name]
    with emulated() as driver:
        made = op(*make())
        assert driver.launches
    # Of another size: an operator remembers by sizes and devices what a call needs.
    expected = op(*(a[:-1] if isinstance(a, torch.Tensor) and a.dim() else a for a in make()))
    torch.testing.assert_close(made[:-1], expected, rtol=1e-14, atol=0, equal_nan=True)


@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("op", dict.fromkeys(op for op, _ in OURS.values()), ids=lambda op: op.__name__)
def test_functions_in_c_compile_for_every_architecture(op, architecture):
    (native,) = op._record.natives()
    assert code(native, torch.float64, architecture).startswith(b"\x7fELF")
