"""Imports are light and point one way, private names of torch stay in one package, public names are documented."""

import ast
import graphlib
import importlib
import importlib.metadata
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import Float

import torchgraft
from torchgraft._torch import names

PACKAGE = Path(torchgraft.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

# -- light ------------------------------------------------------------------------------------------------------

HEAVY = (
    "scipy", "matplotlib", "sklearn", "rich", "sympy", "numpy.random", "torch._dynamo", "torch._inductor",
    "torchgraft._demo", "torchgraft._build.prototype", "torchgraft._capabilities", "torchgraft._check.check",
    "torchgraft._function.adopt", "torchgraft._nn.module",
)  # fmt: skip


# Each statement has a process of its own, forked from one that has imported torch.
ASKED = """
import json, os, sys, torch
before = set(sys.modules)
for line in sys.stdin:
    if os.fork() == 0:
        exec(json.loads(line), {"__name__": "__main__", "torch": torch})
        print(*set(sys.modules) - before, flush=True)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(1)
"""


@pytest.fixture(scope="module")
def imported_by():
    """Ask which heavy modules a statement imports that `import torch` does not."""
    quiet = ["-W", "error", "-W", "ignore:Guards may run slower:RuntimeWarning"]  # of Dynamo, on Python 3.13.0
    command = [sys.executable, *quiet, "-c", ASKED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:

        def imported_by(statement):
            process.stdin.write(json.dumps(statement) + "\n")
            line = process.stdout.readline()
            assert line, "it raised"
            return set(HEAVY) & set(line.split())

        yield imported_by


@pytest.mark.slow
def test_import_is_light(imported_by):
    assert imported_by("import torchgraft, torchgraft.cli") == set()


DECLARED = """
import torchgraft as tg
from jaxtyping import Float
from torch import Tensor

@tg.op
def double(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return 2 * x

@double.vjp("x")
def _(grad):
    return 2 * grad

double(torch.ones(3, requires_grad=True)).sum().backward()
"""


@pytest.mark.slow
def test_operators_work_without_what_compilers_need(imported_by):
    assert imported_by(DECLARED) == {"numpy.random"}  # First calls look whether its generator moves.
    compiled = f"{DECLARED}\nassert torch.compile(double, backend='eager', fullgraph=True)(torch.ones(2)).sum() == 4"
    assert imported_by(compiled) >= {"sympy", "torch._dynamo"}


@pytest.mark.slow
def test_an_import_under_fake_tensors(imported_by):
    fake = "from torch._subclasses import FakeTensorMode\nwith FakeTensorMode():\n    import torchgraft\n"
    assert "sympy" in imported_by(fake + DECLARED)  # Fake tensors need it.


FIRST_CALL = """
@tg.op
def triple(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return 3 * x

def broken(x):
    y = triple(x)
    torch._dynamo.graph_break()
    return triple(y)

assert "__call__" not in vars(type(triple))
assert torch.compile(broken, backend="eager")(torch.ones(2)).tolist() == [9, 9]
"""


@pytest.mark.slow
def test_a_first_call_in_a_graph_that_breaks(imported_by):
    assert imported_by(DECLARED + FIRST_CALL) >= {"torch._dynamo"}


@pytest.mark.slow
def test_heavy_imports_are_found(imported_by):
    assert imported_by("import torchgraft, rich") == {"rich"}


# -- one way ----------------------------------------------------------------------------------------------------

LAYERS = (
    ("_frames",),
    ("_torch",),
    ("errors", "_generated"),
    ("_captures", "_draws"),
    ("_spec", "_randomness"),
    ("_build",),
    ("_kernels", "_rules"),
    ("_record",),
    ("_mesh",),
    ("_lower",),
    ("_capabilities",),
    ("_op",),
    ("_declare",),
    ("_locate",),
    ("_function", "_nn"),
    ("_check",),
    ("__init__",),
    ("scipy",),
    ("build",),
    ("_examples",),
    ("_demo",),
    ("cli",),
    ("__main__",),
)
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}


def unit_of(path):
    """The part of the package that a file or a dotted name belongs to."""
    return re.split(r"[/.]", path)[0]


def imported_units(path, source):
    """The parts of torchgraft that a file imports, wherever in the file it does."""
    package = ["torchgraft", *path.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" if module == "torchgraft" else module for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "torchgraft":
                unit = unit_of(rest)
                yield unit if unit in LEVEL else "__init__"


def wrong_way(sources):
    """Imports of something that is not below."""
    return [
        f"{path} imports {unit}"
        for path, source in sources.items()
        for unit in imported_units(path, source)
        if unit != unit_of(path.removesuffix(".py")) and LEVEL[unit] >= LEVEL[unit_of(path.removesuffix(".py"))]
    ]


def test_every_file_has_a_layer():
    assert {unit_of(path.removesuffix(".py")) for path in SOURCES} == set(LEVEL)


@pytest.mark.slow
def test_imports_point_one_way():
    assert wrong_way(SOURCES) == []


@pytest.mark.parametrize(
    ("path", "source", "unit"),
    [
        ("_spec/axes.py", "from .._record import Record", "_record"),
        ("_kernels/kernel.py", "from .._rules.rule import Rule", "_rules"),
        ("errors.py", "def f():\n    from . import _op", "_op"),
        ("_lower/node.py", "import torchgraft._op", "_op"),
        ("_record.py", "from torchgraft import op", "__init__"),
        ("_lower/node.py", "from .. import __version__", "__init__"),
    ],
)
def test_imports_the_wrong_way_are_found(path, source, unit):
    assert wrong_way({path: source}) == [f"{path} imports {unit}"]


def imported_files(path, sources, *, late=False):
    """The files that are imported when a file is; where `late`, also by its functions and for type checkers."""
    folder = path.split("/")[:-1]
    tree = ast.parse(sources[path])
    for node in ast.walk(tree) if late else tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*folder[: len(folder) - node.level + 1], *filter(None, (node.module or "").split("."))]
            for alias in node.names:
                name = "/".join([*base, alias.name])
                places = [f"{name}.py", f"{name}/__init__.py", f"{'/'.join(base)}.py", "/".join([*base, "__init__.py"])]
                yield from [place for place in places if place in sources][:1]


def circle(sources, *, late=False):
    """Files that import each other in a circle; empty where there is none."""
    graph = {path: set(imported_files(path, sources, late=late)) - {path} for path in sources}
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_no_files_import_each_other(late):
    assert circle(SOURCES, late=late) == []


def test_late_circles_are_found():
    sources = {"_a/x.py": "def f():\n    from .y import g", "_a/y.py": "from .x import f"}
    assert circle(sources) == []
    assert set(circle(sources, late=True)) == set(sources)


@pytest.mark.parametrize(
    "sources",
    [
        {"_a/x.py": "from .y import f", "_a/y.py": "from . import x"},
        {"_a/x.py": "from ..b import f", "b.py": "from ._a.x import g"},
        {"_a/__init__.py": "from .x import f as f", "_a/x.py": "from .. import _a"},
    ],
)
def test_files_that_import_each_other_are_found(sources):
    assert set(circle(sources)) == set(sources)


# -- private names of torch -------------------------------------------------------------------------------------

ALLOWED = {
    "_version",  # documented in "Autograd mechanics"
    "_base",  # documented in "Tensor Views"
    "_current_level",  # a number that the hot path must read where it is: a call to fetch it costs more than the test
    "_is_profiler_enabled",  # likewise
}


def private(name):
    return name.startswith("_") and not name.startswith("__")


def chain(node):
    """The names of ``a.b.c``, the first one empty where it is no name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*names, node.id if isinstance(node, ast.Name) else ""][::-1]


def torch_names(tree):
    """The names in a module that are bound to something of torch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.asname or "torch" for alias in node.names if alias.name.split(".")[0] == "torch")
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "torch":
            yield from (alias.asname or alias.name for alias in node.names)


def private_torch_names(source):
    """Names of torch with an underscore in front, in code and in the text of generated code."""
    tree = ast.parse(source)
    roots = {*torch_names(tree), "_torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "torch":
            yield from filter(private, [*node.module.split("."), *(alias.name for alias in node.names)])
        elif isinstance(node, ast.Attribute) and private(node.attr):
            root = chain(node)[0]
            if root in roots or (root != "self" and hasattr(torch.Tensor, node.attr)):
                yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for text in re.findall(r"\b(?:torch|forward_ad|profiler)(?:\.\w+)+", node.value):
                yield from filter(private, text.split("."))


@pytest.mark.parametrize("path", [path for path in SOURCES if unit_of(path) != "_torch"])
def test_private_names_of_torch_stay_in_one_package(path):
    assert set(private_torch_names(SOURCES[path])) <= ALLOWED


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch._C.DispatchKey", "_C"),
        ("from torch import _C", "_C"),
        ("from torch._C import _functorch", "_functorch"),
        ("from torch.autograd import forward_ad as f\nf._set_fwd_grad_enabled(True)", "_set_fwd_grad_enabled"),
        ("from .. import _torch\n_torch.forward_ad._unpack_dual(x)", "_unpack_dual"),
        ("def f(x):\n    return x._is_view()", "_is_view"),
        ("TEMPLATE = 'if torch._C._is_tracing(): pass'", "_C"),
    ],
)
def test_private_names_of_torch_are_found(source, name):
    assert name in set(private_torch_names(source)) - ALLOWED


def names_in_the_room(sources):
    """Dotted private names of torch that code uses, of which none leads on to another."""
    found = set()
    for tree in map(ast.parse, sources.values()):
        alias = {"torch": "torch"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "torch":
                alias |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        used = {".".join([alias[first], *rest]) for first, *rest in map(chain, ast.walk(tree)) if first in alias}
        found |= {name for name in used | set(alias.values()) if any(map(private, name.split(".")))}
    return {name.partition(".__")[0] for name in found if not any(other.startswith(f"{name}.") for other in found)}


SUBSTITUTED = {
    "torch._library.simple_registry.singleton.find",
    "torch.autograd.Function._compiled_autograd_key",
    "torch._dynamo.symbolic_convert.InstructionTranslator.current_tx",
}
"""The room does without these where torch lacks them."""


def test_private_names_are_in_the_table():
    room = {path: text for path, text in SOURCES.items() if path.startswith("_torch/") and "names.py" not in path}
    listed = {name.replace(":", ".") for name in names.NAMES}
    assert {n for n in listed if not n.startswith("torch._C._dynamo.eval_frame.")} == {
        n for n in names_in_the_room(room) - SUBSTITUTED if not n.startswith("torch._C._dynamo.eval_frame")
    }


def test_this_torch_has_the_private_names():
    for name in names.NAMES:
        importlib.import_module(name.partition(":")[0])
    assert list(names.absent_names(names.NAMES)) == []


def test_a_torch_without_a_private_name_is_refused_by_its_version():
    with pytest.raises(ImportError, match=re.escape(f"torch {torch.__version__}, which has no torch._C._gone.way")):
        names.require(["torch._C:_gone.way", "torch._not_loaded:name", "torch._C:_is_tracing"])


# -- documented -------------------------------------------------------------------------------------------------


def undocumented(namespace, names):
    """Names without a docstring of their own, methods included."""
    for name in names:
        thing = namespace[name]
        if isinstance(thing, str):
            continue
        own = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
        if not own or own == inspect.getdoc(type(thing)):
            yield name
        if isinstance(thing, type):
            members = {n: value for n, value in vars(thing).items() if n[0] != "_"}
            inner = [n for n, value in members.items() if callable(value) or isinstance(value, property)]
            yield from (f"{name}.{n}" for n in undocumented(vars(thing), inner))


def test_public_names_are_documented():
    names = {name: getattr(torchgraft, name) for name in torchgraft.__all__}
    assert list(undocumented(names, torchgraft.__all__)) == []


@pytest.mark.parametrize("package", ["special", "signal", "ndimage", "fft", "optimize"])
def test_functions_of_scipy_are_documented(package):
    names = vars(importlib.import_module(f"torchgraft.scipy.{package}"))
    assert list(undocumented(names, [n for n, value in names.items() if n[0] != "_" and callable(value)])) == []


def test_missing_docstrings_are_found():
    class Bare:
        def method(self):
            pass

    @torchgraft.op
    def double(x: Float[torch.Tensor, "..."]) -> Float[torch.Tensor, "..."]:
        return 2 * x

    assert list(undocumented({"Bare": Bare}, ["Bare"])) == ["Bare", "Bare.method"]
    assert list(undocumented({"double": double}, ["double"])) == ["double"]


LATE = {"ShardAxis"}
"""Names that are imported when they are first asked for."""


@pytest.mark.slow
def test_everything_public_is_listed():
    public = {name for name, value in vars(torchgraft).items() if name[0] != "_" and not inspect.ismodule(value)}
    assert public | LATE == set(torchgraft.__all__)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["benchmarks", "docs", "docs/extending", "examples", "examples/gpu"])
def test_no_script_hides_a_package(folder):
    """Python looks into a script's folder first; torch looks for a package `cuda` wherever it is imported."""
    hidden = {"cuda", *sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    names = {path.stem for path in (Path(__file__).parents[1] / folder).glob("*.py")}
    assert names
    assert names.isdisjoint(hidden), names & hidden
