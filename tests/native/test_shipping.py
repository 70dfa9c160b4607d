"""Kernels that are compiled ahead of time: what the build hook makes, and that it serves without a compiler."""

import ctypes
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import torch
from hatchling.plugin.manager import PluginManager
from jaxtyping import Complex, Float, Inexact, Int, Real
from torch import Tensor

import torchgraft as tg
from torchgraft import build
from torchgraft._build import library, shipped
from torchgraft._build.combinations import combinations
from torchgraft._build.cuda import launcher, nvrtc
from torchgraft._build.cuda.text import ENTRIES
from torchgraft.errors import BuildError

from ..cuda.standin import emulated

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples/package"


# -- a package's way from its source to a machine without a compiler --------------------------------------------------


class Environment:
    """A virtual environment that sees torch where the tests see it."""

    def __init__(self, folder):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin/python"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        (self.packages / "torch.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
        self.cache = folder / "cache"
        (folder / "empty").mkdir()
        self.bare = {"PATH": str(folder / "empty"), "CC": "/nonexistent", "CXX": "/nonexistent"}

    def run(self, *command, check=True, **environment):
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("PYTEST")}
        inherited |= {"TORCHGRAFT_CACHE": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [self.python, "-m", *command], env=inherited | environment, capture_output=True, text=True, check=check
        )

    def pip(self, *command):
        self.run("pip", *command, "--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--no-cache-dir")


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("builder"))
    environment.pip("install", "--ignore-installed", str(ROOT))
    return environment


@pytest.fixture(scope="module")
def wheel(builder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    before = sorted((folder / "source").rglob("*"))
    builder.pip("wheel", "--wheel-dir", str(folder), str(folder / "source"))
    assert sorted((folder / "source").rglob("*")) == before
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture
def user(builder, wheel, tmp_path):
    environment = Environment(tmp_path / "user")
    with zipfile.ZipFile(wheel) as archive:  # as pip does, which is not there
        archive.extractall(environment.packages)
    with zipfile.ZipFile(wheel) as archive:
        assert "Root-Is-Purelib: false" in archive.read("sequences-0.1.0.dist-info/WHEEL").decode()
    (environment.packages / "torchgraft.pth").write_text(str(builder.packages))
    environment.libraries = environment.packages / "sequences/_torchgraft"
    return environment


@pytest.mark.slow
def test_what_is_in_the_wheel(wheel):
    assert re.fullmatch(r"sequences-0\.1\.0-py3-none-\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"sequences/smooth.c", "sequences/isotonic.cpp", "sequences/ops.py"} <= set(names)
    libraries = [Path(name).name for name in names if name.startswith("sequences/_torchgraft/")]
    levels = 2 if os.uname().machine == "x86_64" else 1
    found = sorted(re.sub(r"-[0-9a-f]{32}.*", "", name) for name in libraries)
    functions = ["isotonic", "isotonic_vjp_x", "smooth", "smooth_vjp_x_decay"]
    assert found == sorted(functions * 2 * levels)


@pytest.mark.slow
def test_it_needs_no_compiler(user):
    result = user.run("pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE / "tests"), check=False, **user.bare)
    assert "8 passed" in result.stdout, result.stdout + result.stderr
    assert not user.cache.exists()


CALL = (
    "import torch, sequences; print(sequences.smooth(torch.ones(2, dtype=torch.{}), torch.tensor(1, dtype=torch.{})))"
)


def called(user, dtype="float32", **environment):
    script = user.packages / "call_it.py"
    script.write_text(CALL.replace("{}", dtype))
    result = user.run("call_it", check=False, **environment)
    return result.stdout + result.stderr


@pytest.mark.slow
def test_a_library_that_was_not_shipped_is_missed(user):
    for path in user.libraries.glob("smooth-*"):
        path.unlink()
    said = called(user, **user.bare)
    assert (
        "BuildError: operator 'smooth': its package ships no library for x: float32, decay: float32, out: float32"
        in said
    )
    assert "there is no compiler" in said
    assert "tensor([1., 2.])" in called(user)
    assert list(user.cache.glob("*.so"))


@pytest.mark.slow
def test_a_library_that_is_damaged_is_no_matter_of_silence(user):
    for path in user.libraries.glob("smooth-*"):
        path.write_bytes(b"\x7fELF")
    said = called(user)
    assert "BuildError: operator 'smooth': the library that was shipped with its package cannot be loaded" in said
    assert "file too short" in said


@pytest.mark.slow
def test_another_source_is_another_library(user):
    source = user.packages / "sequences/smooth.c"
    source.write_text(source.read_text().replace("+ x[i]", "+ 10 * x[i]"))
    assert "tensor([10., 20.])" in called(user)
    assert "its package ships no library" in called(user, **user.bare)


# -- packages that are made for one test ------------------------------------------------------------------------------

OPS = """
import torchgraft as tg
from jaxtyping import Float
from torch import Tensor

SOURCE = '#include "factor.h"\\nvoid f(int64_t n, const T *x, T *out) { while (n--) out[n] = FACTOR * x[n]; }'

@tg.op(kernel=tg.c(SOURCE, include=["."]))
def f(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...

@tg.op(kernel=tg.c("T g(T x) { return x * x * x; }"))
def g(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

@g.partial("x", kernel=tg.c("T dg(T x) { return 3 * x * x; }"))
def dg(x): ...
"""


@pytest.fixture
def package(tmp_path, request):
    """A package that nobody has imported."""
    name = "shipped_" + re.sub(r"\W", "_", request.node.name)
    folder = tmp_path / "project/src" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "ops.py").write_text(OPS)
    (folder / "factor.h").write_text("#define FACTOR 7\n")
    return folder


def initialized(package, config=None, version="standard", target="wheel"):
    """What the hook tells hatchling."""
    project = package.parents[1]
    config = {"modules": [f"{package.name}.ops"], "dtypes": ["float32"]} | (config or {})
    hook = build.NativeBuildHook(str(project), config, None, None, str(project), target)
    data = {"force_include": {}}
    hook.initialize(version, data)
    for path, place in data["force_include"].items():
        (package.parent / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, package.parent / place)
    hook.finalize(version, data, "")
    assert not any(Path(path).exists() for path in data["force_include"])
    return data


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "/nonexistent")


@pytest.fixture
def installed(package, monkeypatch):
    """The package as another process would import it, after the hook."""
    data = initialized(package)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(library, "_loaded", {})
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module(f"{package.name}.ops"), data


@pytest.mark.slow
def test_what_the_hook_tells_hatchling(package):
    data = initialized(package)
    assert data["tag"].startswith("py3-none-")
    assert data["pure_python"] is False
    places = {str(Path(place).parent) for place in data["force_include"].values()}
    assert places == {f"{package.name}/_torchgraft"}


def test_hatchling_finds_the_hook():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["hatch"] == {"torchgraft": build.__name__}
    manager = PluginManager()
    manager.manager.register(build)
    assert manager.manager.hook.hatch_register_build_hook() == [build.NativeBuildHook]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["baseline", "x86-64-v3"])
def test_the_library_of_the_processor_is_loaded(installed, no_compiler, monkeypatch, level):
    ops, _ = installed
    if level != "baseline" and shipped.processor_level() != level:
        pytest.skip(f"this processor is not {level}")
    monkeypatch.setattr(shipped, "processor_level", lambda: None if level == "baseline" else level)
    assert ops.f(torch.ones(2)).tolist() == [7, 7]
    (path,) = library._loaded
    assert path.parent.name == "_torchgraft"
    assert path.stem.endswith(level) == (level != "baseline")


@pytest.mark.slow
def test_gradients_by_a_partial_derivative_are_shipped(installed, no_compiler):
    ops, _ = installed
    x = torch.tensor([2.0], requires_grad=True)
    assert torch.autograd.grad(ops.g(x), x)[0].item() == 12
    assert torch.func.jvp(ops.g, (torch.tensor([2.0]),), (torch.ones(1),))[1].item() == 12
    assert all(path.parent.name == "_torchgraft" for path in library._loaded)


def test_a_library_that_is_not_there_is_missed(installed, no_compiler, own_cache):
    ops, _ = installed
    for path in Path(ops.__file__).parent.glob("_torchgraft/*"):
        path.unlink()
    with pytest.raises(BuildError, match="its package ships no library for x: float32, out: float32"):
        ops.f(torch.ones(2))


def test_a_damaged_library_is_no_matter_of_silence(installed, no_compiler):
    ops, _ = installed
    for path in Path(ops.__file__).parent.glob("_torchgraft/*"):
        path.write_bytes(b"\x7fELF")
    with pytest.raises(BuildError, match="the library that was shipped with its package cannot be loaded"):
        ops.f(torch.ones(2))


@pytest.mark.slow
def test_halves_are_those_of_float32(installed, no_compiler):
    ops, _ = installed
    assert ops.f(torch.ones(1, dtype=torch.bfloat16)).item() == 7


def test_nothing_is_compiled_for_other_targets(package):
    assert initialized(package, version="editable") == {"force_include": {}}
    assert initialized(package, target="sdist") == {"force_include": {}}


ON_CUDA = (
    OPS
    + """
@tg.op(kernel=tg.c("void h(int64_t n, const T *x, T *out) { *out = n ? *x : 0; }", cuda="per_sample"))
def h(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]: ...

@tg.op(kernel=tg.cuda("__global__ void k(int64_t count, const T *x, T *out) { *out = *x; }", grid=1))
def k(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

@tg.op(kernel=tg.c("T odd(T x) { T new = x; return new; }"))
def odd(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...
"""
)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")
def test_machine_code_for_cuda_is_shipped(package, monkeypatch, capsys):
    (package / "ops.py").write_text(ON_CUDA)
    data = initialized(package, {"cuda": ["80", "86", "90"]})
    assert re.search(r"not compiled for CUDA: operator 'odd'", "".join(capsys.readouterr()))
    places = [Path(place) for place in data["force_include"].values()]
    cubins = sorted(re.sub(r"-[0-9a-f]{32}", "", place.name) for place in places if place.suffix == ".cubin")
    kernels = ["dg", "dg", "g", "g", "h", "k", "tg_weighed_dg", "tg_weighed_dg"]  # Two, over flat memory and strides.
    assert cubins == sorted(f"{kernel}-sm_{one}.cubin" for kernel in kernels for one in ("80", "86", "90"))

    monkeypatch.syspath_prepend(str(package.parent))
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        monkeypatch.delitem(sys.modules, name)
    ops = importlib.import_module(f"{package.name}.ops")
    (native,) = ops.h._record.natives()
    recipe = native.source, native.prototype, {"x": torch.float32, "out": torch.float32}, ENTRIES[1]
    for architecture, there in {"sm_75": None, "sm_80": "sm_80", "sm_89": "sm_86", "sm_90": "sm_90"}.items():
        found = shipped.find_on_cuda(*recipe, architecture)
        paths = [place for place in (package / "_torchgraft").iterdir() if place.read_bytes() == found]
        assert [path.stem.rpartition("-")[2] for path in paths] == ([there] if there else [])
    with emulated(), pytest.raises(tg.KernelError, match="refused the kernel"):
        ops.h(torch.ones(2))  # It gets what was shipped, which the stand-in cannot run.


@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")
def test_halves_are_shipped_for_cuda_as_they_are_and_complex_elements_left_out(package):
    (package / "ops.py").write_text("""
import torchgraft as tg
from jaxtyping import Inexact
from torch import Tensor

@tg.op(kernel=tg.c("T g(T x) { return x * x; }"))
def g(x: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]: ...
""")
    data = initialized(package, {"cuda": ["80"], "dtypes": ["float16", "float32"]})
    cubins = [place for place in data["force_include"].values() if place.endswith(".cubin")]
    assert len(cubins) == 4  # Two dtypes, over flat memory and strides.


def test_the_wheel_of_torchgraft_has_the_launcher(tmp_path):
    path = build._launcher(tmp_path)
    assert [path] == list(tmp_path.iterdir())
    ctypes.CDLL(str(path))
    assert path.name == launcher.shipped_name()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modules": []}, r"argument 'modules'.*cannot be read\n  expected: a list of names\n  got:      \[\]"),
        ({"modules": ["nowhere.ops"]}, "expected: packages in .*src or .*project\n  got:      nowhere.ops"),
        ({"dtypes": ["float8"]}, "there is no such dtype in C\n  expected: float32, .*\n  got:      float8"),
        ({"dtypes": ["int32"]}, "'f': the annotations admit none of the dtypes\n|argument 'dtypes'"),
        ({"dtype": ["float32"]}, "argument 'dtype'.*\n  expected: one of cuda, dtypes, modules, platform"),
        ({"platform": 3}, "argument 'platform'"),
        ({"cuda": ["8.0"]}, "argument 'cuda'.*\n  expected: a list of capabilities without a point"),
        (
            {"platform": "manylinux_2_5_x86_64"},
            r"need a newer glibc.*\n  expected: at most 2\.5, as manylinux_2_5_x86_64",
        ),
    ],
)
def test_configurations_that_are_refused(package, change, message):
    with pytest.raises(BuildError, match=message):
        initialized(package, change)


def test_a_module_without_kernels_is_refused(package):
    (package / "ops.py").write_text("import torchgraft\n")
    with pytest.raises(BuildError, match=r"there is nothing to compile\n.*\n  got:      no operator"):
        initialized(package)


@pytest.mark.slow
def test_a_kernel_that_is_wrong_makes_no_wheel(package):
    (package / "factor.h").write_text("#define FACTOR nothing\n")
    with pytest.raises(BuildError, match=r"(?s)'f': the compiler refused the kernel.*nothing"):
        initialized(package)


def test_another_package_of_that_name_is_not_taken(package, tmp_path, monkeypatch):
    other = tmp_path / "other" / package.name
    shutil.copytree(package, other)
    monkeypatch.syspath_prepend(str(other.parent))
    importlib.import_module(f"{package.name}.ops")
    with pytest.raises(BuildError, match="another package has this name"):
        initialized(package)


@pytest.mark.parametrize(
    ("tag", "glibc"),
    [("manylinux_2_28_x86_64", (2, 28)), ("manylinux2014_x86_64", (2, 17)), ("linux_x86_64", None), ("any", None)],
)
def test_what_a_platform_promises(tag, glibc):
    assert build._glibc_of(tag) == glibc


# -- names ------------------------------------------------------------------------------------------------------------


@tg.op(kernel=tg.c("void f(int64_t n, const T *x, T *out) { while (n--) out[n] = x[n]; }"))
def f(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...


def name_of(op, dtype=torch.float32, level=None):
    native = op._record.kernel_for(torch.device("cpu")).native
    return shipped.name(native.source, native.prototype, {"x": dtype, "out": dtype}, level)


def test_names_are_the_same_for_ever():
    """Libraries are out there under these names: a change of the recipe loses them all, and must be meant."""
    assert name_of(f) == "f-5aafe1f0c52e21069a63161e43fd78d2.so"
    assert name_of(f, level="x86-64-v3") == "f-5aafe1f0c52e21069a63161e43fd78d2-x86-64-v3.so"


def test_names_tell_one_recipe_from_another(monkeypatch):
    code = "void f(int64_t n, const T *x, T *out) { while (n--) out[n] = x[n]; }"
    names = {name_of(f), name_of(f, torch.float64)}
    for source in (
        tg.c(code + "\n"),
        tg.c(code, flags=["-O1"]),
        tg.c(code, libraries=["m"]),
        tg.c(code, names={"k": "n"}),
        tg.cpp(code),
    ):

        @tg.op(kernel=source, name="f")
        def other(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...

        names.add(name_of(other))

    @tg.op(kernel=tg.c(code), name="f")
    def wider(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n+1"]: ...

    names.add(name_of(wider))
    monkeypatch.setattr(shipped, "INTERFACE", shipped.INTERFACE + 1)
    assert len(names | {name_of(f)}) == 9


def test_names_do_not_depend_on_where_they_are_used(monkeypatch):
    before = name_of(f)
    monkeypatch.setenv("CC", "/nonexistent")
    monkeypatch.setattr(tg, "__version__", "9.9")
    monkeypatch.setattr(torch, "__version__", "9.9")
    assert name_of(f) == before


# -- combinations of dtypes -------------------------------------------------------------------------------------------

FLOAT, DOUBLE = torch.float32, torch.float64


def listed(op, *dtypes):
    prototype = op._record.prototypes()[0]
    order = [p.name for _, p in prototype.signature.tensors] + [o.name for o in prototype.signature.outputs]
    return [tuple(c.get(name) for name in order) for c in combinations(prototype, dtypes)]


def test_combinations():
    @tg.op
    def same(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @tg.op
    def optional(x: Float[Tensor, "n"], y: Float[Tensor, "n"] | None) -> Float[Tensor, "n"]: ...

    @tg.op
    def twins(x: Complex[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @tg.op
    def either(x: Inexact[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @tg.op
    def index(x: Float[Tensor, "n"], i: Int[Tensor, "n"]) -> Int[Tensor, "n"]: ...

    @tg.op
    def real(x: Real[Tensor, "n"], y: Real[Tensor, "n"]) -> Real[Tensor, "n"]: ...

    assert listed(same, FLOAT, DOUBLE) == [(FLOAT,) * 3, (DOUBLE,) * 3]
    assert listed(same, torch.float16, torch.bfloat16) == [(FLOAT,) * 3]
    assert listed(same, torch.int64) == []
    assert listed(optional, FLOAT) == [(FLOAT,) * 3, (FLOAT, None, FLOAT)]
    assert listed(twins, FLOAT) == [(torch.complex64, FLOAT, FLOAT)]
    assert listed(either, FLOAT) == [(FLOAT, FLOAT), (torch.complex64, FLOAT)]
    assert listed(index, FLOAT) == [(FLOAT, torch.int64, torch.int64)]
    assert listed(index, FLOAT, torch.int32) == [(FLOAT, torch.int32, torch.int32)]
    assert listed(real, FLOAT, torch.int64) == [(FLOAT,) * 3, (torch.int64,) * 3]


@pytest.mark.slow
def test_calls_ask_for_nothing_else(monkeypatch):
    """What calls, gradients and tangents of the test operators build is among what the hook would ship."""
    asked = []
    plain = library.build

    def watched(source, prototype, dtypes, seen):
        asked.append((prototype, dict(dtypes)))
        return plain(source, prototype, dtypes, seen)

    monkeypatch.setattr(library, "build", watched)
    of_norm = tg.c("""
    void norm(int64_t n, const T_complex *x, const T_real *w, T_real *out) {
        *out = 0;
        for (int64_t i = 0; i < n; i++)
            *out += (w ? w[i] : 1) * (__real__ x[i] * __real__ x[i] + __imag__ x[i] * __imag__ x[i]);
    }
    void norm_vjp_x(int64_t n, const T_real *grad, const T_complex *x, const T_real *w, T_complex *grad_x) {
        for (int64_t i = 0; i < n; i++) grad_x[i] = 2 * *grad * (w ? w[i] : 1) * x[i];
    }
    """)
    of_cube = tg.c("T cube(T x) { return x * x * x; } T slope(T x) { return 3 * x * x; }")

    @tg.op(kernel=of_norm)
    def norm(x: Complex[Tensor, "*batch n"], w: Float[Tensor, "n"] | None) -> Float[Tensor, "*batch"]: ...

    @norm.vjp("x", kernel=of_norm)
    def _(grad, x, w): ...

    @tg.op(kernel=of_cube)
    def cube(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @cube.partial("x", kernel=of_cube)
    def slope(x): ...

    for real, twin in ((FLOAT, torch.complex64), (DOUBLE, torch.complex128)):
        x = torch.ones(2, 3, dtype=twin, requires_grad=True)
        for w in (None, torch.ones(3, dtype=real)):
            torch.autograd.grad(norm(x, w).sum(), x)
        y = torch.ones(3, dtype=real, requires_grad=True)
        torch.autograd.grad(cube(y), y, y)
        torch.func.jvp(cube, (y.detach(),), (y.detach(),))
    assert {prototype.symbol for prototype, _ in asked} == {"norm", "norm_vjp_x", "cube", "slope", "tg_weighed_slope"}
    for prototype, dtypes in asked:
        assert dtypes in list(combinations(prototype, [FLOAT, DOUBLE]))
    natives = [native for op in (norm, cube) for native in build._natives(op)]
    assert {native.prototype.symbol for native in natives} == {prototype.symbol for prototype, _ in asked}
