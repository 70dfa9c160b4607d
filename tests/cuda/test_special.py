"""The functions of `torchgraft.scipy.special` that run on CUDA, with all that their derivatives call."""

import math
import re
import sys
from pathlib import Path

import pytest
import torch

from torchgraft._build.cuda import nvrtc
from torchgraft._op import Op
from torchgraft.scipy import special
from torchgraft.scipy.special import distributions, elliptic, gamma, lambert, logarithms, normal, owens

from ..default import by_default
from ..scipy.test_ends import FUNCTIONS, MEASURED, is_close
from .standin import emulated
from .test_compiled import code

PUBLIC = {name: op for name, op in vars(special).items() if isinstance(op, Op)}
ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_120"]
BY_TORCH = ("log_ndtr", "ndtri", "xlog1py", "xlogy")
BY_C = (
    "boxcox", "chdtr", "chdtrc", "ellipe", "ellipk", "ellipkm1", "gammainc", "gammaincc", "inv_boxcox", "owens_t",
    "pdtr",
)  # fmt: skip
"""Functions whose values on the CPU are SciPy's, on CUDA our own."""


def line(low, high):
    return torch.linspace(low, high, 1013, dtype=torch.float64)


def pairs():
    """Two positive numbers, the second one left and right of the first."""
    first = torch.logspace(-3, 4, 29, dtype=torch.float64).repeat_interleave(35)
    return first, first * torch.logspace(-2, 1, 35, dtype=torch.float64).repeat(29)


OURS = {
    "lambertw": (lambert.lambertw, lambda: (line(-0.36, 5),)),
    "lambertw, the other branch": (lambert.lambertw, lambda: (line(-0.36, -1e-6), -1)),
    "lambertw'": (lambert.lambertw_nth, lambda: (line(-0.36, 5), 0, 1)),
    "lambertw''": (lambert.lambertw_nth, lambda: (line(-0.36, 5), 0, 2)),
    "log_ndtr'": (normal.log_ndtr_by_x, lambda: (line(-40, 9),)),
    "ndtri'": (normal.ndtri_by_y, lambda: (line(-9, 9), torch.special.ndtr(line(-9, 9)))),
    "quotient": (logarithms.quotient, lambda: (line(-2, 2), torch.tensor(0.3))),
    "gammainc, by a": (gamma.gammainc_by_a, pairs),
    "gammainc, by x": (gamma.gamma_density, pairs),
    "digamma": (gamma.psi_of, lambda: (line(0.1, 30),)),
    "chdtr, by v": (distributions.chdtr_by_v, pairs),
    "chdtr, by x": (distributions.chi_pdf, pairs),
    "pdtr, by m": (distributions.poisson_mass, pairs),
    "ellipk'": (elliptic.ellipk_nth, lambda: (line(-9, 0.999), 1)),
    "ellipkm1''": (elliptic.ellipkm1_nth, lambda: (line(0.001, 9), 2)),
    "ellipe'": (elliptic.ellipe_nth, lambda: (line(-9, 0.999), 1)),
    "boxcox, by x": (logarithms.boxcox_by_x, lambda: (line(0.1, 9), line(-2, 2), 0)),
    "boxcox, by lmbda": (logarithms.boxcox_by_lmbda, lambda: (line(0.1, 9), line(-2, 2), 1)),
    "owens_t, by h": (owens.owens_t_nth, lambda: (line(-5, 5), line(-3, 9), 1, 0)),
    "owens_t, by a": (owens.owens_t_nth, lambda: (line(-5, 5), line(-3, 9), 0, 1)),
    "inv_boxcox, by y": (logarithms.inv_boxcox_by_y, lambda: (line(-0.4, 2), line(-0.4, 1))),
    "inv_boxcox, by lmbda": (logarithms.inv_boxcox_by_lmbda, lambda: (line(-0.4, 2), line(-0.4, 1))),
}
"""Functions in C, with arguments."""


def test_which_functions_run_on_cuda():
    served = {name for name, op in PUBLIC.items() if "cuda" in op._record.devices()}
    assert served == {"lambertw", *BY_TORCH, *BY_C}
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


def on_cuda(name):
    """The function in C of the values on CUDA."""
    return PUBLIC[name]._record.kernels["cuda"].native


@pytest.mark.parametrize("name", BY_C)
def test_values_of_our_own_are_right_wherever_those_of_the_cpu_are(name):
    """At the points of `test_ends.py`, where references are in many digits."""
    points, sources, exact = zip(*FUNCTIONS[name]["rows"], strict=True)
    inputs = [torch.tensor(column, dtype=torch.float64) for column in zip(*points, strict=True)]
    with emulated() as driver:
        results = [((len(points),), torch.float64)]
        (made,) = on_cuda(name).run(inputs, [0] * len(inputs), 0, results, {})
        assert driver.launches
    most = min(max(2 * MEASURED[name], 1e-14), 1e-11)
    on_cpu = PUBLIC[name](*inputs).tolist()
    for point, source, found, rows, other in zip(points, sources, made.tolist(), exact, on_cpu, strict=True):
        known = rows is not None and rows[0][0] is not None and not (source == "scipy" and math.isnan(rows[0][0]))
        is_normal = abs(found) >= sys.float_info.min  # SciPy's are 0 instead.
        if known or (source == "number" and is_normal):  # Of others it is not known that there is a value.
            assert is_close(found, rows[0][0] if known else other, most), point


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_values_of_our_own_are_those_of_scipy(name):
    a, x = pairs()
    with emulated():
        (made,) = on_cuda(name).run([a, x], [0, 0], 0, [(a.shape, torch.float64)], {})
    torch.testing.assert_close(made, PUBLIC[name](a, x), rtol=2e-13, atol=1e-300)


@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", by_default(ARCHITECTURES, lambda one: one == "sm_90"))
@pytest.mark.parametrize("name", [*OURS, *BY_C])
def test_functions_in_c_compile_for_every_architecture(name, architecture):
    native = on_cuda(name) if name in BY_C else OURS[name][0]._record.natives()[0]
    assert code(native, torch.float64, architecture).startswith(b"\x7fELF")
