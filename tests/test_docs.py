"""README and docs: every program in them runs and prints what they show; what they claim is what the files say."""

import contextlib
import io
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest
import torch
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import torchgraft
from benchmarks._timing import in_chinese

from .default import by_default
from .markdown import FENCE, FILE, GENERATED

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def run_page(text, name="page"):
    """Run the python blocks of a page as one program; yield what is shown below them and what they printed."""
    module = types.ModuleType(name)
    sys.modules[module.__name__] = module
    printed = io.StringIO()
    for fence in FENCE.finditer(text):
        language, body = fence.groups()
        if language == "python":
            line = text.count("\n", 0, fence.start(2))  # so that a traceback points into the page
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + body, f"{name}.md", "exec"), vars(module))
        elif language == "text":
            yield body.strip(), printed.getvalue().strip()
            printed = io.StringIO()
    yield "", printed.getvalue()


LONG = ("extending", "guide", "lists", "mutated", "numba", "random", "scipy", "sizes", "structures")
"""Pages whose programs take seconds."""


# Programs of a page in Chinese are those of the page in English, as `test_guides.py` looks at.
@pytest.mark.parametrize(
    "page",
    by_default(PAGES, lambda page: not page.stem.endswith(".zh") and page.stem not in LONG, lambda page: page.name),
)
def test_programs_print_what_is_shown(page):
    torch.compiler.reset()  # A program begins without what other tests have compiled, and the limits of that.
    hidden = ("scipy", "numba", "random")  # A module of this name would hide the library.
    name = "page" if page.stem in hidden else page.stem
    if page.stem == "numba":
        pytest.importorskip("numba")
    for shown, printed in run_page(page.read_text(), name):
        assert printed == shown


@pytest.mark.parametrize(
    "text",
    ["```python\nprint(1)\n```\n\n```text\n2\n```\n", "```python\nprint(1)\n```\n", "```text\n1\n```\n"],
    ids=["wrong", "not shown", "not printed"],
)
def test_wrong_outputs_are_found(text):
    assert any(shown != printed for shown, printed in run_page(text))


def test_the_readme_shows_whole_files():
    files = FILE.findall((ROOT / "README.md").read_text())
    assert files
    for path, text in files:
        assert text == (ROOT / path).read_text()


@each_page
def test_links_lead_somewhere(page):
    text = re.sub(FENCE, "", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors
        elif "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), target


@each_page
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)\b(?=[`\s;]*(?:[#A-Z`]|$))", page.read_text(), re.M)) <= targets


def test_requirements_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python, torch = project["requires-python"].removeprefix(">="), project["dependencies"][0].removeprefix("torch>=")
    readme = (ROOT / "README.md").read_text()
    assert f"Python {python} or newer" in readme
    assert f"PyTorch {torch} or newer" in readme


def test_the_version_is_written_once():
    assert ProjectMetadata(str(ROOT), PluginManager()).version == torchgraft.__version__
    written = re.compile(rf"(?<![\d.]){re.escape(torchgraft.__version__)}(?![\d.])")
    pages = {page for page in PAGES if page.name != "CHANGELOG.md"}
    assert [path for path in (ROOT / "pyproject.toml", *pages) if written.search(path.read_text())] == []


def test_the_figures_of_the_readme_are_rows_of_the_benchmarks():
    rows = (ROOT / "docs/benchmarks.md").read_text().splitlines()
    tables = [dict(GENERATED.findall((ROOT / page).read_text())) for page in ("README.md", "README.zh.md")]
    english, chinese = (table["summary"] for table in tables)
    figures = english.strip().splitlines()[2:]
    assert len(figures) == 6
    assert set(figures) <= set(rows)
    assert chinese == in_chinese(english)


def test_what_the_readme_says_of_custom_op():
    """Where PyTorch mends this, the table in the README has to change."""

    @torch.library.custom_op("torchgraft_readme::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    def save(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    square.register_autograd(lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad, setup_context=save)
    x = torch.ones(3)
    assert torch.func.jvp(square, (x,), (x,))[1].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda x: square(x).sum())(x)
