"""The pages of the site, gathered from the files of the repository.

Nothing is copied by hand: README, guide, changelog and examples stay where GitHub shows them, and the links between
them are written for that place. Here each goes to its place in the site, and its links follow.
"""

import posixpath
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from .example import Example, run
from .languages import LANGUAGES, language

# The order of pages in the navigation; those not named here follow, by name.
ORDER = [
    "guide.md",
    "extending.md",
    "mutated.md",
    "cuda.md",
    "structures.md",
    "numba.md",
    "lists.md",
    "mesh.md",
    "sizes.md",
    "random.md",
    "cpp.md",
    "scipy.md",
    "benchmarks.md",
    "limits.md",
    "architecture.md",
    "reference/operators.md",
    "reference/rules.md",
    "reference/native.md",
    "reference/check.md",
    "reference/functions.md",
    "reference/modules.md",
    "reference/scipy.md",
    "reference/errors.md",
]

# Code is matched first, so that what looks like a link in it stays as it is.
LINK = re.compile(
    r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence)[`~]*$|(?P<ticks>`+)[^`].*?(?<!`)(?P=ticks)(?!`)|"
    r'(?P<before>\]\(|^\[[^\]]+\]: +|(?:src|href)=")(?P<target>[^\s)"]+)',
    re.MULTILINE | re.DOTALL,
)


def place(path: str) -> str:
    """Where a file of the repository is in the site; what is no page keeps its place."""
    folder, name = posixpath.split(path)
    if path == "examples" or (folder == "examples" and name.endswith(".py")):
        return f"{path.removesuffix('.py')}.md" if folder else "examples/index.md"
    if name.endswith(".md"):
        return name.lower().replace("readme", "index") if not folder else path.removeprefix("docs/")
    return path


def documents(root: Path) -> list[str]:
    """The Markdown files that become pages."""
    files = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return sorted(file.relative_to(root).as_posix() for file in files)


def examples(root: Path) -> list[str]:
    """The programs that become pages."""
    return sorted(file.relative_to(root).as_posix() for file in (root / "examples").glob("[!_]*.py"))


def gather(root: Path, into: Path, run: Callable[[Path], str] = run) -> None:
    """Write the sources of all pages.

    Args:
        root: of the repository.
        into: a folder, emptied first.
        run: gives what an example prints.

    Raises:
        FileNotFoundError: a link leads to no file.
    """
    shutil.rmtree(into, ignore_errors=True)
    pages = {place(path): (root / path).read_text() for path in documents(root)}
    linked = set()
    for path in documents(root):
        pages[place(path)], targets = rewritten(pages[place(path)], path, root)
        linked |= targets
    programs = [Example(root / path) for path in examples(root)]
    pages.update((f"examples/{program.name}.md", program.page(run(program.path))) for program in programs)
    pages["examples/index.md"] = overview(programs)
    pages["index.md"] += navigation(pages)
    for page, text in pages.items():
        (into / page).parent.mkdir(parents=True, exist_ok=True)
        (into / page).write_text(text)
    for path in linked - {path for path in linked if place(path) in pages}:
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, into / path)


def rewritten(text: str, path: str, root: Path) -> tuple[str, set[str]]:
    """A document with its links as the site needs them, and the files of the repository that these lead to."""
    here, linked = posixpath.dirname(path), set()

    def rewrite(match: re.Match[str]) -> str:
        target, hash, anchor = (match["target"] or "").partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        file = posixpath.normpath(posixpath.join(here, target))
        if file != "examples" and not (root / file).is_file():
            raise FileNotFoundError(f"{path} links to {target}: there is no file {file}")
        linked.add(file)
        return match["before"] + posixpath.relpath(place(file), posixpath.dirname(place(path)) or ".") + hash + anchor

    return LINK.sub(rewrite, text), linked


def overview(programs: list[Example]) -> str:
    """The page that lists the examples."""
    lines = [
        "# Examples",
        "",
        "Each is one complete program. Below it stands what it printed when these pages were built.",
        "",
        *(f"- [{program.name}]({program.name}.md): {program.comment}" for program in programs),
    ]
    return "\n".join(lines) + "\n" + toctree([program.name for program in programs])


def navigation(pages: Iterable[str]) -> str:
    """What stands beside every page: all pages but the home page and the single examples, other languages last."""
    pages = sorted(pages, key=lambda page: (ORDER.index(page) if page in ORDER else len(ORDER), page))
    captions = ("Documentation", "Reference", "Project", *LANGUAGES.values())
    return "".join(
        toctree([page.removesuffix(".md") for page in pages if section(page) == caption], caption)
        for caption in captions
    )


def section(page: str) -> str | None:
    """Under which caption a page stands in the navigation; none for the home page and for what another page lists."""
    folder, name = posixpath.split(page)
    if code := language(page):
        return LANGUAGES[code]
    if name in ("changelog.md", "contributing.md"):
        return "Project"
    if folder == "examples":
        return "Documentation" if name == "index.md" else None
    if folder == "reference":
        return "Reference"
    return "Documentation" if name != "index.md" else None


def toctree(pages: list[str], caption: str | None = None) -> str:
    """A hidden table of contents, which puts pages into the navigation."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""]) if pages else ""
