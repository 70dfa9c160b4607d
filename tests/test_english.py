"""Docstrings and comments are understood where they stand.

The first line of a docstring is a verb or a noun phrase, and a comment does not begin in the middle of a sentence.
"""

import ast
import io
import re
import tokenize

import pytest

from .test_imports import SOURCES

CLAUSES = {"What", "Whether", "Where", "Which", "That", "Those", "How", "As"}
FEW = 4
"""Words of the shortest first line."""

OWNERS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(sources):
    """The file and the first line of each docstring."""
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            docstring = ast.get_docstring(node) if isinstance(node, OWNERS) else None
            if docstring:
                yield path, docstring.partition("\n")[0]


def unclear(sources):
    """First lines that are clauses without a subject, or too short to be understood."""
    for path, first in docstrings(sources):
        words = first.split()
        if words[0] in CLAUSES or words[:2] == ["The", "same"] or len(words) < FEW:
            yield f"{path}: {first}"


@pytest.mark.slow
def test_first_lines_of_docstrings():
    assert list(unclear(SOURCES)) == []


@pytest.mark.parametrize(
    "line", ["What a kernel returned.", "Whether it is one of ours.", "The same for rules.", "Run it."]
)
def test_unclear_first_lines_are_found(line):
    assert list(unclear({"a.py": f'"""{line}"""'})) == [f"a.py: {line}"]
    assert list(unclear({"a.py": f'def f():\n    """{line}\n\n    More.\n    """'})) == [f"a.py: {line}"]


DIRECTIVE = re.compile(r"^(?:(?:noqa|ruff|type|fmt|pragma)\b.*?(?: - |# |$)|-- .*)")
"""Comments for tools, behind which a reason may stand, and the titles of a file's parts."""

TAILS = {"And", "Because", "Else", "Or", "Than", "Which", "Whose"}


def comments(text):
    """Each comment, those on lines of their own that follow one another as one."""
    end = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone, row = not token.line[: token.start[1]].strip(), token.start[0]
            if not (alone and row - 1 == end):
                yield token.string.lstrip("# ")
            end = row if alone else None


def fragments(sources):
    """Comments that begin in the middle of a sentence."""
    for path, text in sources.items():
        for comment in comments(text):
            word = DIRECTIVE.sub("", comment, count=1).partition(" ")[0]
            if word[:1].islower() or word in TAILS:
                yield f"{path}: {comment}"


@pytest.mark.slow
def test_comments_begin_as_sentences():
    assert list(fragments(SOURCES)) == []


@pytest.mark.parametrize("comment", ["which adds them", "as does this", "Because of that.", "noqa: E731 - it is so"])
def test_fragments_are_found(comment):
    assert list(fragments({"a.py": f"x = 1  # {comment}\n"})) == [f"a.py: {comment}"]
    assert list(fragments({"a.py": f"# {comment}\n# More.\nx = 1\n"})) == [f"a.py: {comment}"]
    assert list(fragments({"a.py": f"x = 1  # One.\n# {comment}\n"})) == [f"a.py: {comment}"]


@pytest.mark.parametrize("comment", ["Torch adds\n# them.", "noqa: E731", "noqa: E731 - It is so.", "-- parts ---"])
def test_sentences_and_directives_are_no_fragments(comment):
    assert list(fragments({"a.py": f"# {comment}\nx = 1\n"})) == []


def nameless(sources):
    """Tuples of many parts in the annotations of functions, in place of a class whose attributes have names."""
    for path, text in sources.items():
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef):
                given = [arg.annotation for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]
                for part in (part for hint in [function.returns, *given] if hint for part in ast.walk(hint)):
                    match part:  # Four parts and more: a reader would have to count their places.
                        case ast.Subscript(ast.Name("tuple"), ast.Tuple([_, _, _, _, *_])):
                            yield f"{path}: {function.name}: {ast.unparse(part)}"


def test_tuples_of_many_parts_have_names():
    assert list(nameless(SOURCES)) == []


@pytest.mark.parametrize(
    "line", ["def f() -> tuple[int, str, int, str]: pass", "def f(x: list[tuple[int, str, int, str]]): pass"]
)
def test_nameless_tuples_are_found(line):
    assert list(nameless({"a.py": line})) == ["a.py: f: tuple[int, str, int, str]"]
