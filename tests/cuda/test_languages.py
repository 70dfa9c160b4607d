"""Kernels in Triton and Helion: interpreted on the CPU, compiled without a device, and seen by a compiler.

Each in a process of its own, which alone finds the packages: torch imports Triton where it is installed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".venv-languages"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PACKAGES / "triton").is_dir(), reason="make test-all installs Triton and Helion"),
]

DECLARED = """
import sys

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


def declared(function):
    @tg.op
    def rows(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return function(x)

    @rows.vjp("x")
    def _(grad, out):
        return out * (grad - (grad * out).sum(-1, keepdim=True))

    return rows
"""

DRIVER = """
import triton
from triton.backends.compiler import GPUTarget


class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


triton.runtime.driver.set_active(Driver())
"""


def run(code, **environment):
    """Run a program that finds the packages."""
    paths = os.pathsep.join(map(str, (PACKAGES, ROOT / "src", ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", DECLARED + code], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CHECKED = """
rows = declared({function})
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for shape in ((5,), (2, 3, 4), (0, 3), (2, 0)):
        x = torch.randn(shape).to(dtype)
        tolerance = 1e-6 if dtype is torch.float32 else 2e-2
        torch.testing.assert_close(rows(x), torch.softmax(x, -1), rtol=tolerance, atol=tolerance)
strided = torch.randn(4, 3).T
torch.testing.assert_close(rows(strided), torch.softmax(strided, -1))
report = tg.check(rows, torch.randn(2, 3, dtype=torch.float64), only={checks})
assert report.ok and len(report.results) == len({checks}), report
"""


# The interpreter of Helion cannot map.
CHECKS = {"triton": ("gradient", "vmap", "second order"), "helion": ("gradient", "second order")}


@pytest.mark.parametrize("language", CHECKS)
def test_it_is_right_where_it_is_interpreted(language):
    code = f"from examples.gpu.softmax_{language} import by_{language}\n"
    run(
        code + CHECKED.format(function=f"by_{language}", checks=CHECKS[language]),
        **{f"{language.upper()}_INTERPRET": "1"},
    )


def test_triton_is_compiled_without_a_device():
    run("""
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from examples.gpu.softmax_triton import softmax_rows

types = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
source = ASTSource(fn=softmax_rows, signature=types, constexprs={"BLOCK": 128})
assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"].startswith(b"\\x7fELF")
""")


def test_a_compiler_sees_the_triton_kernel():
    """It stands in the graph itself, so that what is around it is fused; it is not run, as there is no device."""
    out = run(
        DRIVER
        + """
from torch._dynamo.backends.common import aot_autograd

from examples.gpu.softmax_triton import by_triton

rows = declared(by_triton)


class Seen(Exception):
    pass


def look(graph, inputs):
    print(graph.code)
    raise Seen


try:
    torch.compile(lambda x: rows(x) * 2, backend=aot_autograd(fw_compiler=look))(torch.randn(3, 5, requires_grad=True))
except Exception as error:
    print(type(error.__cause__ or error).__name__)
"""
    )
    assert "triton_kernel_wrapper_functional" in out
    assert "rows" not in out


@pytest.mark.parametrize("language", CHECKS)
def test_the_example_is_a_program(language):
    out = run(
        f"import runpy\nrunpy.run_path('examples/gpu/softmax_{language}.py', run_name='__main__')",
        **{f"{language.upper()}_INTERPRET": "1"},
    )
    ours, torchs, *_ = (line.split()[1:] for line in out.splitlines())
    assert ours == torchs
