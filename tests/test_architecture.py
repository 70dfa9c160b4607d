"""The page about the architecture shows the floors that the tests enforce, and names files that exist.

`python -m tests.test_architecture` writes the floors into the page.
"""

import ast
import re
from pathlib import Path

from .test_imports import LAYERS, SOURCES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
FLOORS = re.compile(r"(?<=<!-- floors -->\n```\n).*?(?=```)", re.DOTALL)


def floors():
    """A line for each unit, those of one floor together, with the first sentence of its docstring."""
    found = []
    for number, units in enumerate(LAYERS, 1):
        for unit in units:
            path = f"{unit}.py" if f"{unit}.py" in SOURCES else f"{unit}/__init__.py"
            first = ast.get_docstring(ast.parse(SOURCES[path])).partition("\n")[0]
            head = str(number) if unit == units[0] else ""
            found.append(f"{head:>2}  {unit:14}  {first}\n")
    return "".join(found)


def test_the_page_shows_the_floors():
    assert FLOORS.search(PAGE.read_text())[0] == floors(), "python -m tests.test_architecture"


def test_the_page_names_files_that_exist():
    named = set(re.findall(r"`([\w./]+(?:\.py|\.json)|_[a-z]\w*(?:/\w+)*)`", PAGE.read_text()))
    places = [ROOT / "src/torchgraft", ROOT, ROOT / "src/torchgraft/_check/cause"]
    assert named
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


if __name__ == "__main__":
    PAGE.write_text(FLOORS.sub(lambda _: floors(), PAGE.read_text()))
