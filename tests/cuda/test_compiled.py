"""The text of elementwise functions, compiled by NVRTC for devices that are not there."""

import ctypes
from types import SimpleNamespace

import pytest
import torch
from jaxtyping import Float, Float64
from torch import Tensor

import torchgraft as tg
from torchgraft._build.cuda import device, nvrtc, text
from torchgraft._build.cuda.doubles import count, dtypes_of
from torchgraft._build.cuda.headers import headers
from torchgraft._rules.weighed import weighed

from .operators import EXAMPLES, FLOATS, make
from .test_samples import make_correlate, make_scaled

pytestmark = pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
OPERATORS = {op.__name__: op for op in (*EXAMPLES, *make().values(), make_correlate(), make_scaled())}


def functions(op):
    """The C functions of an operator: its kernel, its rules, and those that are made of them."""
    record = op._record
    yield from record.natives()
    for rule in record.rules["partial"].values():
        together = weighed(record.signature, rule)
        if together is not None:
            yield together


def code(native, dtype, architecture, entry="tg_flat32", flags=()):
    written = text.emit(native.prototype, dtypes_of(native, dtype), native.source, entry)
    return nvrtc.compiled(written, architecture, headers(), native.label, flags, 60.0)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", OPERATORS)
def test_it_compiles_for_every_architecture(name, architecture):
    for native in functions(OPERATORS[name]):
        halves = native.prototype.scalar or native.source.launch
        for dtype in FLOATS if halves else (torch.float32, torch.float64):
            assert code(native, dtype, architecture).startswith(b"\x7fELF")


@pytest.mark.parametrize("entry", text.ENTRIES)
def test_every_entry_has_its_name(entry):
    native = next(functions(OPERATORS["soft"]))
    image = code(native, torch.float32, "sm_90", entry)
    assert [name.encode() in image for name in text.ENTRIES] == [name == entry for name in text.ENTRIES]


def test_functions_that_call_themselves_are_refused():
    """The stack of a thread has a size that the compiler finds out; a table of functions is no circle."""
    circle = """
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
T odd(T x) { return (T)fib((int)x); }
"""
    table = """
static double one(double x) { return x * x; }
static double two(double x) { return x + 1; }
static double (*const table[2])(double) = {one, two};
T odd(T x) { return (T)table[x > 0](x); }
"""
    refused, served = (
        tg.op(kernel=tg.c(text), name="odd")(_odd)._record.kernels[None].native for text in (circle, table)
    )
    with pytest.raises(tg.BuildError, match="stack of a GPU") as caught:
        code(refused, torch.float32, "sm_90")
    assert caught.value.operator == "odd"
    assert "calls itself" in caught.value.expected
    assert code(served, torch.float32, "sm_90").startswith(b"\x7fELF")


def test_what_nvrtc_refuses_is_told_with_the_users_line():
    source = tg.c("\nT odd(T x) {\n    return nothing(x);\n}\n")
    native = tg.op(kernel=source, name="odd")(_odd)._record.kernels[None].native
    with pytest.raises(tg.BuildError) as caught:
        code(native, torch.float32, "sm_90")
    error = caught.value
    assert error.operator == "odd"
    assert "source of odd(3)" in error.got
    assert "nothing" in error.got


def _odd(x):
    return tg.native


_odd.__annotations__ = OPERATORS["root"].__annotations__


def test_machine_code_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHGRAFT_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    native = next(functions(OPERATORS["soft"]))
    written = text.emit(native.prototype, dtypes_of(native, torch.float32), native.source, "tg_flat32")
    first = device.machine_code(written, "sm_90", "soft")
    monkeypatch.setattr(nvrtc, "compiled", None)
    assert device.machine_code(written, "sm_90", "soft") == first
    with pytest.raises(TypeError):
        device.machine_code(written, "sm_80", "soft")


def test_without_nvrtc_the_error_names_the_wheel(monkeypatch):
    monkeypatch.setattr(nvrtc, "_library", lambda: None)
    with pytest.raises(tg.BuildError, match="cannot be loaded") as caught:
        nvrtc.compiled("", "sm_90", {}, "soft", (), 60.0)
    assert "nvidia-cuda-nvrtc" in caught.value.hint


def nested(depth):
    """A text that grows by a factor of three a level where its functions are copied into their callers."""
    calls = (f"f{i}(x) + f{i}(x + 1) + f{i}(f{i}(x))" for i in range(depth))
    levels = (f"static double f{i}(double x) {{ return {call}; }}" for i, call in enumerate(calls, 1))
    base = "static double f0(double x) { return x > 0 ? sin(x) / (1 + exp(x)) : x < -1 ? pow(x, 3) : log(2 + x); }"
    return "\n".join([base, *levels, f'extern "C" __global__ void f(double *x) {{ *x = f{depth}(*x); }}'])


def test_a_source_that_takes_long_is_compiled_with_less_inlining(monkeypatch):
    monkeypatch.setattr(device, "QUICK", 0.2)
    assert device.machine_code(nested(5), "sm_90", "deep").startswith(b"\x7fELF")


def test_a_source_that_takes_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(device, "QUICK", 0.01)
    monkeypatch.setattr(device, "PATIENT", 0.02)
    with pytest.raises(tg.BuildError, match="takes too long to compile for CUDA") as caught:
        device.machine_code(nested(6), "sm_90", "deep")
    assert caught.value.operator == "deep"
    assert "kernel of its own" in caught.value.hint


@pytest.mark.parametrize(
    "body",
    [
        "{ long double y = x; return y * y; }", "{ return (double long)x; }", "{ return (long\ndouble)x; }",
        "{ long const double y = x; return y; }", "{ return x / 3.0L; }", "{ return x / 1e3l; }", "{ return x + .5L; }",
        "{ return x + 0x1p-3L; }", "{ __float80 y = x; return y; }",
    ],
)  # fmt: skip
def test_long_double_is_refused(body):
    @tg.op(kernel=tg.c(f"double wide(double x) {body}"))
    def wide(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    (native,) = functions(wide)
    assert "long double" in native.unfit[1]


@pytest.mark.parametrize(
    ("conditions", "is_refused"),
    [
        ("#ifndef __CUDACC__\n{}\n#endif", False),
        ("#ifndef __CUDACC__\n#if 1\n{}\n#endif\n#else\n#endif", False),
        ("#  ifdef __CUDACC__\n#else\n{}\n#endif", False),
        ("#ifndef __CUDACC__\n#else\n{}\n#endif", True),
        ("#ifdef __CUDACC__\n{}\n#endif", True),
        ("#ifndef __CUDACC__\n#elif 1\n{}\n#else\n#endif", True),
        ("#ifndef __CUDACC__\n#elif 0\n#else\n{}\n#endif", True),
        ("#ifndef __CUDACC__\n#endif\n{}", True),
        ("#ifndef OTHER\n{}\n#endif", True),
        ("#if !defined(__CUDACC__)\n{}\n#endif", False),
        ("#if defined __CUDACC__\n#else\n{}\n#endif", False),
        ("#if !__CUDACC__\n{}\n#endif", True),
        ("#ifndef __CUDACC__\n%:endif\n{}", True),
        ("/*\n#ifndef __CUDACC__\n*/\n{}", True),
    ],
)
def test_long_double_is_allowed_where_a_device_does_not_see_it(conditions, is_refused):
    head = conditions.format("typedef long double most;")

    @tg.op(kernel=tg.c(f"{head}\ndouble one(double x) {{ return x; }}"))
    def one(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    (native,) = functions(one)
    assert bool(native.unfit) == is_refused


@pytest.mark.parametrize(("directive", "is_refused"), [("ifndef", False), ("ifdef", True)])
def test_functions_of_modules_are_allowed_where_a_device_does_not_see_them(directive, is_refused):
    lent = "TG_IMPORT(double, lent, (double))\ndouble at(double x) { return lent(x); }"
    code = f"#{directive} __CUDACC__\n{lent}\n#else\ndouble at(double x) {{ return x; }}\n#endif"

    @tg.op(kernel=tg.c(code, imports={"lent": "scipy.special.cython_special:cbrt"}))
    def at(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    (native,) = functions(at)
    assert bool(native.unfit) == is_refused


def test_digits_may_be_apart_in_cpp():
    @tg.op(kernel=tg.cpp("double apart(double x) { int n = 1'000; long double y = x / 3; int m = 2'000; return y; }"))
    def apart(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    (native,) = functions(apart)
    assert "long double" in native.unfit[1]


def test_long_double_in_a_header_is_refused(tmp_path):
    (tmp_path / "one.h").write_text('#include "deep/two.h"')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "two.h").write_text("static double two(long double x) { return (double)(x * x); }")

    @tg.op(kernel=tg.c('#include "one.h"\ndouble wide(double x) { return two(x); }', include=[tmp_path]))
    def wide(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    (native,) = functions(wide)
    assert "long double" in native.unfit[1]


def test_an_edited_header_is_compiled_anew(tmp_path):
    lines = '#include "factor.h"\nextern "C" __global__ void f(double *x) { *x = FACTOR; }'
    images = []
    for value in (1, 2, 1):
        (tmp_path / "factor.h").write_text(f"#define FACTOR {value}")
        images.append(device.machine_code(lines, "sm_90", "scale", [f"-I{tmp_path}"]))
    assert images[0] == images[2] != images[1]


DOUBLE = {
    "#include <math.h>\nT f(T x) { return exp(x); }": True,
    "#include <tgmath.h>\nT f(T x) { return exp(x); }": False,
    "T f(T x) { return x * 0.1; }": True,
    "T f(T x) { return x * (T)0.1; }": False,
    "T f(T x) { return x * x + 1; }": False,
}


@pytest.mark.parametrize("source", DOUBLE)
def test_double_precision_in_float32_is_counted(source):
    @tg.op(kernel=tg.c(source))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return tg.native

    @f.partial("x", kernel=tg.c(source.replace("f(T x)", "f_partial_x(T x)")))
    def _(x):
        return tg.native

    assert [count(native) > 0 for native in f._record.natives()] == [DOUBLE[source]] * 2
    lines = [line for line in str(f).splitlines() if line.startswith("  cuda")]
    assert len(lines) == DOUBLE[source]
    assert all("f.partial[x] (" in line and "<tgmath.h>" in line for line in lines)


def test_a_double_by_declaration_is_not_counted():
    @tg.op(kernel=tg.c("#include <math.h>\ndouble f(double x) { return exp(x); }"))
    def f(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    assert "in double" not in str(f)


def test_what_nvrtc_refuses_is_said():
    @tg.op(kernel=tg.c("T f(T x) { T new = x; return new; }"))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return tg.native

    assert "  cuda     f does not compile: source of f(1): error" in str(f)


def by_hand(source):
    @tg.op(kernel=tg.cuda(source, grid=1))
    def f(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return tg.native

    (native,) = functions(f)
    return native


def test_what_a_kernel_by_hand_may_use():
    source = """
#include <math.h>

template <typename S> __device__ S twice(S x) { return x + x; }

template <typename S> __global__ void f(int64_t batch, int64_t n, const S *x, S *out) {
    extern __shared__ float row[];
    row[threadIdx.x] = max((float)x[blockIdx.x * n + threadIdx.x], -INFINITY);
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = twice((float)row[threadIdx.x] + __shfl_down_sync(0xffffffff, row[0], 1));
}
"""
    for dtype in FLOATS:
        assert code(by_hand(source), dtype, "sm_75").startswith(b"\x7fELF")


def test_a_kernel_by_hand_has_the_functions_of_cuda():
    """`exp` of a float is a float, as everyone who writes CUDA expects, with or without <math.h>."""
    for head in ("", "#include <math.h>\n"):
        native = by_hand(head + "__global__ void f(int64_t batch, int64_t n, const T *x, T *out) { *out = exp(*x); }")
        assert count(native) == 0


def test_sizes_of_a_kernel_by_hand_are_not_narrowed():
    native = by_hand("__global__ void f(int batch, int n, const T *x, T *out) {}")
    with pytest.raises(tg.BuildError, match="cannot be used to initialize an entity of type"):
        code(native, torch.float32, "sm_90")


@pytest.mark.slow
def test_cpp_as_far_as_nvrtc_goes():
    source = """
#include <cmath>
#include <cstdint>

namespace {
template <typename S> S squared(S x) { return x * x; }
} // namespace

template <typename S> S f(S x) { return std::isnan(x) ? S(0) : squared(std::exp(x)) + (S)std::int64_t(1); }
"""

    @tg.op(kernel=tg.cpp(source))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return tg.native

    (native,) = functions(f)
    for architecture in ARCHITECTURES:
        for dtype in FLOATS:
            assert code(native, dtype, architecture).startswith(b"\x7fELF")
    assert count(native) == 0

    @tg.op(kernel=tg.cpp("#include <vector>\ndouble g(double x) { return std::vector<double>{x}[0]; }"))
    def g(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tg.native

    with pytest.raises(tg.BuildError, match=r"source of g\(1\): .*vector"):
        code(next(functions(g)), torch.float64, "sm_90")


def test_torchs_own_launcher_cuts_integers(monkeypatch):
    """So it is not used: sizes are int64 here."""
    seen = []

    def launch(*arguments):
        seen.append(ctypes.cast(arguments[9][0], ctypes.POINTER(ctypes.c_int32)).contents.value)
        return 0

    driver = SimpleNamespace(cuLaunchKernel=launch)
    monkeypatch.setattr(torch.cuda._utils, "_get_gpu_runtime_library", lambda: driver)
    kernel = torch.cuda._utils._CudaKernel(ctypes.c_void_p(), ctypes.c_void_p())
    kernel(args=[2**32 + 5], stream=SimpleNamespace(_as_parameter_=None))
    assert seen == [5]
