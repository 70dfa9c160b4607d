"""`save_library(cuda=...)`: operators on CUDA in a process that has never heard of torchgraft."""

import os
import subprocess
import sys

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from .operators import make
from .standin import driver, emulated

PROGRAM = """
import ctypes, sys, torch
path, name, driver = sys.argv[1:]
torch.ops.load_library(path)
shifted = getattr(torch.ops.tests, name)
x = torch.arange(6).reshape(2, 3)
for dtype in (torch.float32, torch.float64, torch.float16):
    one = x.to(dtype)
    for by, down, factor in ((3, True, 0.5), (1, False, None)):
        made, wanted = shifted(one.T, by, down, factor), (one.T - by if down else one.T + by) * (factor or 1)
        assert made.dtype == dtype and torch.equal(made, wanted), (made, wanted)
try:
    shifted(x, 1, False, None)
except RuntimeError as error:
    print(str(error).partition("\\n")[0])
print(ctypes.c_int64.in_dll(ctypes.CDLL(driver), "stand_in").value, "launches")
assert "torchgraft" not in sys.modules
"""


def printed(op, path, environment=None, **options):
    """What a program prints that calls the operator, which is in a library for the stand-in of a device."""
    with emulated():
        op.save_library(path, dtypes=[torch.float32, torch.float64, torch.float16], **options)
    name = op.torch_op.name().partition("::")[2]
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, name, driver()], capture_output=True, text=True, check=False,
        env=os.environ | ({"LD_LIBRARY_PATH": str(driver().parent)} if environment is None else environment),
    )  # fmt: skip
    return process.stdout.splitlines(), process.stderr


@pytest.mark.slow
def test_a_kernel_serves_a_program_without_python(tmp_path):
    lines, said = printed(make()["shifted"], tmp_path / "shifted.so", cuda=["90", "80"])
    assert lines == ["argument 'x' has dtype 4, this kernel was built for 6", "6 launches"], said


def test_a_device_of_another_generation_is_refused(tmp_path):
    lines, said = printed(make()["shifted"], tmp_path / "shifted.so", cuda=["75", "90"])
    assert not lines
    assert "shifted: the library is for sm_75, sm_90, the device is sm_86" in said


@pytest.mark.slow
def test_a_program_without_cuda_is_told(tmp_path):
    lines, said = printed(make()["shifted"], tmp_path / "shifted.so", {}, cuda=["80"])
    assert not lines
    assert f"shifted: there is no {driver().name}, which calls on CUDA need" in said


def test_what_is_refused(tmp_path):
    @tg.op(kernel=tg.c("void row(int64_t n, const T *x, T *out) { *out = n ? *x : 0; }", cuda="per_sample"))
    def row(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]: ...

    @tg.op(kernel=tg.c("T wide(T x) { return (T)(long double)x; }"))
    def wide(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @tg.op(kernel=tg.c("T step(T x) { return x + 1; }"))
    def step(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @step.kernel("cuda")
    def _(x):
        return x + 1

    with pytest.raises(tg.UnsupportedError, match="the kernel for CUDA is written in Python"):
        step.save_library(tmp_path / "refused.so", cuda=["80"])
    for op, message in [(row, "Python tells a kernel its sizes"), (wide, "computes in long double")]:
        with pytest.raises(tg.UnsupportedError, match=message):
            op.save_library(tmp_path / "refused.so", cuda=["80"])
    with pytest.raises(tg.BuildError, match=r"'cuda'.*\n  expected: a list of capabilities without a point"):
        make()["root"].save_library(tmp_path / "refused.so", cuda=["8.0"])
    with pytest.raises(tg.UnsupportedError, match="Python rounds halves"):
        make()["root"].save_library(tmp_path / "refused.so", dtypes=[torch.float16])
    assert not (tmp_path / "refused.so").exists()


REFUSED = """
import sys, torch
torch.ops.load_library(sys.argv[1])
op = getattr(torch.ops.tests, sys.argv[2])
x = torch.ones(3)
users = torch._C._storage_Use_Count(x.untyped_storage()._cdata)
for _ in range(3):
    try:
        op(x, 1, False, None)
    except RuntimeError as error:
        print(torch._C._storage_Use_Count(x.untyped_storage()._cdata) - users)
"""


@pytest.mark.slow
def test_a_refused_call_keeps_no_tensor(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.cuda.test_standalone.PROGRAM", REFUSED)
    lines, said = printed(make()["shifted"], tmp_path / "shifted.so", cuda=["75"])
    assert lines == ["0", "0", "0"], said
