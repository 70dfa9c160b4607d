"""What kernels in C and C++ cost to build, and to call.

Each row is measured against its rival in one run: the two in turn, many rounds, medians. One thread where nothing else
is said. Builds are timed in processes of their own that have imported torch, and without Python's garbage collector,
as `timeit` does it: to look through all of torch's objects takes 80 ms, wherever that falls. Run it as

    python benchmarks/native.py              # prints the table
    python benchmarks/native.py call         # the calls alone, on whichever torch is installed
    python benchmarks/native.py --write      # and puts it into the READMEs

The rows of `load_inline` need ninja, those of apache-tvm-ffi that package.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from _timing import Row, interleave, ms, ratio, run, us
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

HERE = Path(__file__).parent
PROCESSES = 9

# -- building -------------------------------------------------------------------------------------------------------

_BUILD = """\
import gc, sys, time
import torch
import torchgraft as tg
from jaxtyping import Float
from torch import Tensor

x = torch.randn(8)
gc.disable()
start = time.perf_counter()

@tg.op(kernel=tg.{language}("T scale(T x, double factor) {{ return x * factor; }} /* {number} */"))
def scale(x: Float[Tensor, "..."], factor: float) -> Float[Tensor, "..."]: ...

made = scale(x, 2.0)
print(time.perf_counter() - start)
assert torch.equal(made, 2 * x)
"""

_LOAD_INLINE = """\
import gc, time
import torch
from torch.utils.cpp_extension import load_inline

x = torch.randn(8)
gc.disable()
start = time.perf_counter()
module = load_inline(
    name="scale_{number}",
    cpp_sources="torch::Tensor scale(torch::Tensor x, double factor) {{ return x * factor; }}",
    functions=["scale"],
)
made = module.scale(x, 2.0)
print(time.perf_counter() - start)
assert torch.equal(made, 2 * x)
"""

_TVM_FFI = """\
import gc, time
import torch
from tvm_ffi import cpp

x = torch.randn(8)
gc.disable()
start = time.perf_counter()
module = cpp.load_inline(
    name="scale_{number}",
    cpp_sources='''void scale(tvm::ffi::TensorView x, double factor, tvm::ffi::TensorView out) {{
        for (int64_t i = 0; i < x.size(0); i++)
            static_cast<float *>(out.data_ptr())[i] = static_cast<const float *>(x.data_ptr())[i] * factor;
    }}''',
    functions=["scale"],
)
made = torch.empty_like(x)
module.scale(x, 2.0, made)
print(time.perf_counter() - start)
assert torch.equal(made, 2 * x)
"""


def seconds_of(code: str, cache: Path, number: int = 0, **names: object) -> float:
    """What a program says that it took."""
    folders = {"XDG_CACHE_HOME": cache, "TORCH_EXTENSIONS_DIR": cache / "torch", "TVM_FFI_CACHE_DIR": cache / "tvm"}
    unset = ("PYTHONDONTWRITEBYTECODE", "TORCHGRAFT_CACHE")
    installed = {name: value for name, value in os.environ.items() if name not in unset}
    environment = installed | {name: str(folder) for name, folder in folders.items()}
    program = code.format(number=number, **names)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def building() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        seconds_of(_BUILD, cache, -2, language="c")  # Python compiles what is imported, once after an installation
        first = [seconds_of(_BUILD, cache / f"first{number}", -1, language="c") for number in range(3)]
        seconds_of(_BUILD, cache, -1, language="cpp")
        slow = [seconds_of(_LOAD_INLINE, cache, number) for number in range(2)]  # which needs ninja
        c, cpp, cached, tvm = [], [], [], []
        for number in range(PROCESSES):
            c.append(seconds_of(_BUILD, cache, number, language="c"))
            cpp.append(seconds_of(_BUILD, cache, number, language="cpp"))
            cached.append(seconds_of(_BUILD, cache, number, language="c"))
            if importlib.util.find_spec("tvm_ffi") and number < 3:
                tvm.append(seconds_of(_TVM_FFI, cache, number))
    inline = f"load_inline {statistics.median(slow):.1f} s"
    rows = [
        Row("C source to first result", ms(c), inline, ms(c), "120 ms"),
        Row("", ms(c), inline, f"{statistics.median(slow) / statistics.median(c):.0f} x faster", "150 x faster"),
        Row("the first kernel on a machine, with the shim", ms(first), inline, ms(first), ""),
        Row("C++ source to first result", ms(cpp), inline, ms(cpp), "600 ms"),
        Row("cached library to first result", ms(cached), "", ms(cached), "5 ms"),
    ]
    if tvm:
        rows.append(
            Row("C source, beside apache-tvm-ffi", ms(c), f"its load_inline {ms(tvm)}",
                f"{statistics.median(tvm) / statistics.median(c):.0f} x faster", "")
        )  # fmt: skip
    return rows


_PROCESS = """\
import torch
import torchgraft as tg
from jaxtyping import Float
from torch import Tensor

@tg.op(kernel=tg.c("T scale(T x, double factor) { return x * factor; } /* many */"))
def scale(x: Float[Tensor, "..."], factor: float) -> Float[Tensor, "..."]: ...

x = torch.randn(8)
assert torch.equal(scale(x, 2.0), 2 * x)
print("right")
"""


def processes(count: int = 8) -> list[Row]:
    """Processes that ask for the same kernel at once.

    A compiler that counts the libraries that it makes stands before the real one; the shim, an object file, is apart.
    """
    with tempfile.TemporaryDirectory() as folder:
        compiler, log = Path(folder) / "cc", Path(folder) / "log"
        compiler.write_text(
            f'#!/bin/sh\ncase "$*" in *--version* | *" -c "*) ;; *) echo compiled >> {log} ;; esac\nexec cc "$@"\n'
        )
        compiler.chmod(0o755)
        environment = os.environ | {"TORCHGRAFT_CACHE": f"{folder}/cache", "CC": str(compiler)}
        command = [sys.executable, "-c", _PROCESS]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        right = sum(process.communicate()[0] == "right\n" for process in running)
        compiles = len(log.read_text().splitlines())
    result = f"{compiles} compile{'s' if compiles > 1 else ''}, {right} right"
    return [Row(f"{count} processes, the same uncached kernel", result, "", result, "1 compile, all right")]


# -- calling --------------------------------------------------------------------------------------------------------

KERNEL = tg.c("""
T scale(T x, double factor) { return x * factor; }
T scale_vjp_x(T grad, double factor) { return grad * factor; }
""")


@tg.op(kernel=KERNEL)
def scale(x: Float[Tensor, "..."], factor: float) -> Float[Tensor, "..."]: ...


@scale.vjp("x", kernel=KERNEL)
def _(grad, factor): ...


def calls() -> list[Row]:
    x, leaf, seed = torch.randn(8), torch.randn(8, requires_grad=True), torch.ones(8)
    with torch.no_grad():
        alone = interleave({"op": lambda: scale(x, 1.5), "torch": lambda: torch.mul(x, 1.5)}, 3000)

    def both(function):
        def step():
            leaf.grad = None
            function(leaf).backward(seed)

        return step

    gradient = interleave({"op": both(lambda x: scale(x, 1.5)), "torch": both(lambda x: x * 1.5)}, 500)
    version = torch.__version__.partition("+")[0]
    bar = "0.75 x" if torch.__version__ < "2.14" else "0.35 x"
    rows = [
        Row(f"no-grad call, 8 elements, torch {version}", us(alone["op"]), f"torch.mul(x, c) {us(alone['torch'])}",
            f"{ratio(alone['op'], alone['torch']):.2f} x", bar),
        Row(f"forward + backward, 8 elements, torch {version}", us(gradient["op"]), f"x * c {us(gradient['torch'])}",
            f"{ratio(gradient['op'], gradient['torch']):.2f} x", "1.2 x"),
    ]  # fmt: skip
    return rows + beside_tvm_ffi(x)


def beside_tvm_ffi(x: Tensor) -> list[Row]:
    """The same kernel by apache-tvm-ffi, whose callers make the output themselves."""
    if not importlib.util.find_spec("tvm_ffi"):
        return []
    from tvm_ffi import cpp

    module = cpp.load_inline(
        name="scale_called",
        cpp_sources="""void scale(tvm::ffi::TensorView x, double factor, tvm::ffi::TensorView out) {
            for (int64_t i = 0; i < x.size(0); i++)
                static_cast<float *>(out.data_ptr())[i] = static_cast<const float *>(x.data_ptr())[i] * factor;
        }""",
        functions=["scale"],
    )
    function, out = module.scale, torch.empty_like(x)

    def call():
        made = torch.empty_like(x)
        function(x, 1.5, made)
        return made

    with torch.no_grad():
        times = interleave({"op": lambda: scale(x, 1.5), "tvm": call, "tvm into": lambda: function(x, 1.5, out)}, 3000)
    return [
        Row("no-grad call, beside apache-tvm-ffi", us(times["op"]), f"with empty_like {us(times['tvm'])}",
            f"{ratio(times['op'], times['tvm']):.2f} x", ""),
        Row("", us(times["op"]), f"into memory that is there {us(times['tvm into'])}",
            f"{ratio(times['op'], times['tvm into']):.2f} x", ""),
    ]  # fmt: skip


# -- much to do -----------------------------------------------------------------------------------------------------


def keep_freed_memory() -> None:
    """Let the C library keep what is freed, as most allocators do: fresh pages cost more than the multiplication."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def bandwidth() -> list[Row]:
    x = torch.randn(10_000_000)
    out = torch.empty_like(x)
    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            functions = {
                "op": lambda: scale(x, 1.5),
                "torch": lambda: torch.mul(x, 1.5),
                "into": lambda: torch.mul(x, 1.5, out=out),
            }
            fresh = interleave(functions, 3, 30)
            keep_freed_memory()
            kept = interleave(functions, 3, 30)
    finally:
        torch.set_num_threads(1)
    return [
        Row("scalar function, 1e7 floats, 2 threads", ms(kept["op"]), f"torch.mul(x, c, out=) {ms(kept['into'])}",
            f"{ratio(kept['into'], kept['op']):.2f} x the bandwidth", "0.95 x"),
        Row("the same, memory fresh from the system", ms(fresh["op"]), f"torch.mul(x, c) {ms(fresh['torch'])}",
            f"{ratio(fresh['torch'], fresh['op']):.2f} x the bandwidth", ""),
    ]  # fmt: skip


def correlation() -> list[Row]:
    sys.path.insert(0, str(HERE.parent))
    from scipy import signal

    from examples.correlate2d_c import correlate2d

    x, kernel = torch.randn(256, 28, 28), torch.randn(5, 5)

    def loop():
        images, weights = x.numpy(), kernel.numpy()
        return [signal.correlate2d(image, weights, mode="valid") for image in images]

    def convolution():
        return torch.nn.functional.conv2d(x[:, None], kernel[None, None])

    torch.testing.assert_close(correlate2d(x, kernel), convolution()[:, 0], rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        times = interleave({"op": lambda: correlate2d(x, kernel), "conv2d": convolution}, 20, 30)
        slow = interleave({"op": lambda: correlate2d(x, kernel), "scipy": loop}, 1, 30)
    what = "correlate2d, 256 of 28x28, 5x5"
    return [
        Row(what, ms(slow["op"]), f"SciPy in a loop {ms(slow['scipy'])}",
            f"{ratio(slow['scipy'], slow['op']):.0f} x faster", "20 x faster"),
        Row("", ms(times["op"]), f"conv2d {ms(times['conv2d'])}",
            f"{ratio(times['op'], times['conv2d']):.2f} x", "1.0 x"),
    ]  # fmt: skip


BENCHMARKS = {
    "build": building,
    "processes": processes,
    "call": calls,
    "bandwidth": bandwidth,
    "correlate": correlation,
}

if __name__ == "__main__":
    run("native", __doc__, BENCHMARKS)
