"""The documentation site: what goes into it is complete, and its checks find what they are there to find."""

import importlib
import inspect
import re
import subprocess
import textwrap
from pathlib import Path
from types import FunctionType

import pytest

import torchgraft
from docs._sphinx.example import Example, run
from docs._sphinx.gather import gather, place, rewritten
from docs._sphinx.languages import language
from docs._sphinx.offline import problems

ROOT = Path(__file__).parents[1]

# -- the reference ----------------------------------------------------------------------------------------------


def documented(text):
    """The public names that a page of the reference documents, methods as `Class.method`."""
    directives = re.findall(r"^\.\. auto(?!module)\w+:: torchgraft\.(\S+)\n((?: +:.*\n)*)", text, re.M)
    for name, options in directives:
        yield name
        members = re.search(r":members:(.*)", options)
        if members:
            listed = members[1].replace(",", " ").split() or public_members(name)
            yield from (f"{name}.{member}" for member in listed)


def public_members(name):
    """The methods and properties that a class of ours defines itself."""
    members = vars(getattr(torchgraft, name)).items()
    kinds = (FunctionType, classmethod, staticmethod, property)
    return [n for n, value in members if n[0] != "_" and isinstance(value, kinds)]


SCIPY = ("special", "signal", "ndimage", "fft", "optimize")


def public_names():
    for package in SCIPY:
        module = importlib.import_module(f"torchgraft.scipy.{package}")
        names = [name for name in dir(module) if name[0] != "_" and callable(getattr(module, name))]
        yield from (f"scipy.{package}.{name}" for name in names)
    yield "scipy.errors.InvalidValueError"
    yield from torchgraft.__all__
    for name in torchgraft.__all__:
        if inspect.isclass(getattr(torchgraft, name)):
            yield from (f"{name}.{member}" for member in public_members(name))


def test_every_public_name_is_in_the_reference_once():
    pages = [path.read_text() for path in (ROOT / "docs/reference").glob("*.md")]
    names = [name for page in pages for name in documented(page) if name[0] != "_"]
    assert sorted(names) == sorted(public_names())


def test_the_reference_is_read_as_it_is_written():
    text = ".. autofunction:: torchgraft.op\n\n.. autoclass:: torchgraft.Op\n   :members: kernel, shape\n"
    assert list(documented(text)) == ["op", "Op", "Op.kernel", "Op.shape"]
    assert "Function.apply" in documented(".. autoclass:: torchgraft.Function\n   :members:\n")
    assert {"op", "Op.vjp", "Op.torch_op", "Function.apply", "scipy.special.airy"} <= set(public_names())


# -- the pages --------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path):
    """The sources of all pages, without a run of the examples."""
    gather(ROOT, tmp_path / "pages", run=lambda program: "printed\n")
    return tmp_path / "pages"


def listed(folder, page="index.md"):
    """The pages that the navigation reaches from a page."""
    yield page
    for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", (folder / page).read_text(), re.M | re.S):
        for line in tree.splitlines():
            if line and line[0] != ":":
                yield from listed(folder, (Path(page).parent / f"{line}.md").as_posix())


def markdown(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def test_every_page_is_in_the_navigation_once(site):
    pages = list(listed(site))
    assert sorted(pages) == sorted(markdown(site))
    (site / "stray.md").write_text("# Stray\n")
    assert set(markdown(site)) - set(pages) == {"stray.md"}


def test_every_document_and_example_is_a_page(site):
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    assert {place(path.relative_to(ROOT).as_posix()) for path in texts} == markdown(site) - {"examples/index.md"}


def test_links_between_pages_lead_somewhere(site):
    count = 0
    for page in markdown(site):
        text = re.sub(r"```.*?```", "", (site / page).read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in target:
                count += 1
                assert (site / page).parent.joinpath(target).is_file(), (page, target)
    assert count > 10


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("README.md", "[g](docs/guide.md#axes)", "[g](guide.md#axes)"),
        ("README.md", "[`examples/`](examples)", "[`examples/`](examples/index.md)"),
        ("README.md", "![p](docs/filters.png)", "![p](docs/filters.png)"),
        ("README.md", '<img src="docs/filters.png">', '<img src="docs/filters.png">'),
        ("docs/guide.md", "[r](../README.md)", "[r](index.md)"),
        ("docs/guide.md", "[e](../examples/dct.py)", "[e](examples/dct.md)"),
        ("docs/guide.md", '<img src="filters.png">', '<img src="docs/filters.png">'),
        ("docs/guide.md", "[c]: ../CHANGELOG.md", "[c]: changelog.md"),
        ("docs/reference/rules.md", "[g](../guide.md)", "[g](../guide.md)"),
        ("docs/guide.md", "[here](#axes)", "[here](#axes)"),
        ("docs/guide.md", "[there](https://example.org/a.md)", "[there](https://example.org/a.md)"),
        ("docs/guide.md", "`[e](../examples/dct.py)`", "`[e](../examples/dct.py)`"),
        ("docs/guide.md", "```\n[e](../nothing.py)\n```\n", "```\n[e](../nothing.py)\n```\n"),
    ],
)
def test_links_follow_their_files(path, text, expected):
    assert rewritten(text, path, ROOT)[0] == expected


@pytest.mark.parametrize("target", ["docs/nothing.md", "src", "../outside.md"])
def test_a_link_to_no_file_is_an_error(target):
    with pytest.raises(FileNotFoundError, match=f"README.md links to {re.escape(target)}"):
        rewritten(f"[x]({target})", "README.md", ROOT)


def test_pages_in_other_languages_have_a_part_of_their_own(tmp_path):
    for name in ("README.md", "README.zh.md", "docs/guide.md", "docs/extending.md", "docs/extending.zh.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# Title\n\n[home](" + ("../" if "/" in name else "") + "README.zh.md)\n")
    gather(tmp_path, tmp_path / "pages")
    home = (tmp_path / "pages/index.md").read_text()
    assert "[home](index.zh.md)" in home
    assert ":caption: 中文\n\nextending.zh\nindex.zh\n" in home
    assert ":caption: Documentation\n\nguide\nextending\nexamples/index\n" in home
    assert [language(page) for page in ("index.md", "index.zh.md", "docs/a.zh.md")] == [None, "zh", "zh"]


# -- examples ---------------------------------------------------------------------------------------------------


def test_an_example_is_shown_with_its_comment_and_what_it_prints(tmp_path):
    path = tmp_path / "examples/two.py"
    path.parent.mkdir()
    path.write_text("# Shows\n# two lines.\nimport sys\n\nprint(len(sys.argv) + 1)\n")
    page = Example(path).page(run(path))
    assert page.startswith("# two\n\nShows two lines.\n\n```python\nimport sys\n\nprint(len(sys.argv) + 1)\n```\n")
    assert page.endswith("```text\n2\n```\n")


@pytest.mark.parametrize("line", ["raise SystemExit(1)", "import warnings; warnings.warn('no')"])
def test_an_example_that_fails_fails_the_build(tmp_path, line):
    path = tmp_path / "examples/bad.py"
    path.parent.mkdir()
    path.write_text(line)
    with pytest.raises(subprocess.CalledProcessError):
        run(path)


# -- what the built site loads, and where it leads ----------------------------------------------------------------

GOOD = textwrap.dedent("""
    <html><head>
    <link rel="stylesheet" href="style.css?v=1"><link rel="canonical" href="https://example.org/">
    <link rel="next" href="https://example.org/next"><script>const space = "http://www.w3.org/2000/svg"</script>
    </head><body id="top">
    <a href="https://example.org">out</a> <a href="#top">up</a> <a href="index.html#top">here</a>
    <img src="data:image/gif;base64,R0lGOD"> <svg><use href="#top"></use></svg>
    </body></html>
    """)


def found(folder, page="", css="", js=""):
    (folder / "index.html").write_text(GOOD)
    (folder / "style.css").write_text("/* url(https://example.org/old) */ p { color: red }" + css)
    (folder / "code.js").write_text("/* see 'https://example.org' */ const path = '//';" + js)
    if page:
        (folder / "page.html").write_text(page)
    return list(problems(folder))


def test_a_site_of_its_own_has_no_problems(tmp_path):
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://example.org/x.js"></script>',
        '<SCRIPT SRC="//example.org/x.js"></SCRIPT>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img src="http://example.org/x.png">',
        '<img srcset="style.css 1x, https://example.org/x.png 2x">',
        '<iframe src="https://example.org"></iframe>',
        '<video poster="https://example.org/x.png"></video>',
        '<object data="https://example.org/x.svg"></object>',
        '<svg><use xlink:href="https://example.org/x.svg#a"/></svg>',
        '<style>@import "https://example.org/x.css";</style>',
        '<p style="background: url(https://example.org/x.png)">',
        "<script>fetch('https://example.org/x.json')</script>",
        "<script>if (1 < 2) { fetch(`//example.org/x.json`) }</script>",
    ],
)
def test_whatever_a_page_loads_from_the_network_is_found(tmp_path, page):
    (problem,) = found(tmp_path, page)
    assert re.fullmatch(r"page\.html loads (https?:)?//example\.org\S*", problem)


def test_whatever_style_sheets_and_scripts_load_from_the_network_is_found(tmp_path):
    css = "@font-face { src: url('https://example.org/x.woff2') } @import '//example.org/y.css';"
    js = 'import("https://example.org/x.js")'
    assert found(tmp_path, css=css, js=js) == [
        "style.css loads https://example.org/x.woff2",
        "style.css loads //example.org/y.css",
        "code.js loads https://example.org/x.js",
    ]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="nothing.html">x</a>', "links to nothing.html, which does not exist"),
        ('<a href="index.html#nothing">x</a>', "links to index.html#nothing, where there is no such anchor"),
        ('<a href="#nothing">x</a>', "links to #nothing, where there is no such anchor"),
        ('<img src="nothing.png">', "loads nothing.png, which does not exist"),
        ('<p style="background: url(nothing.png)">', "loads nothing.png, which does not exist"),
    ],
)
def test_links_that_lead_nowhere_are_found(tmp_path, page, problem):
    assert found(tmp_path, page) == [f"page.html {problem}"]
