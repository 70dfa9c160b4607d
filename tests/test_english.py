"""The first line of a docstring is a verb or a noun phrase, which a reader understands outside of its file."""

import ast

import pytest

from .test_imports import SOURCES

CLAUSES = {"What", "Whether", "Where", "Which", "That", "Those", "How", "As"}
FEW = 4
"""Words of the shortest first line."""

OWNERS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def unclear(sources):
    """First lines that are clauses without a subject, or too short to be understood."""
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            first = (ast.get_docstring(node) or "").partition("\n")[0] if isinstance(node, OWNERS) else ""
            words = first.split()
            if words and (words[0] in CLAUSES or words[:2] == ["The", "same"] or len(words) < FEW):
                yield f"{path}: {first}"


def test_first_lines_of_docstrings():
    assert list(unclear(SOURCES)) == []


@pytest.mark.parametrize(
    "line", ["What a kernel returned.", "Whether it is one of ours.", "The same for rules.", "Run it."]
)
def test_unclear_first_lines_are_found(line):
    assert list(unclear({"a.py": f'"""{line}"""'})) == [f"a.py: {line}"]
    assert list(unclear({"a.py": f'def f():\n    """{line}\n\n    More.\n    """'})) == [f"a.py: {line}"]
