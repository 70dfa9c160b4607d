"""What the tests read in a Markdown page. It understands of Markdown what our pages use, and no more."""

from __future__ import annotations

import re
from itertools import pairwise

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^<!-- (\S+\.py) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(FILE.pattern + r"\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"^<!-- (\S+\.py) -->$", re.MULTILINE)
GENERATED = re.compile(r"^<!-- table: (\w+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)

PROGRAM = re.compile(r"^```python\n.*?^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"# .*$|/\*.*?\*/", re.MULTILINE)

HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# Asterisks beside a space or, where the other side is a letter, beside punctuation neither open nor close anything
# (CommonMark 0.31, section 6.2). Chinese, which has no spaces, runs into that: `**so.**so` stays as it is written.
BOLD = re.compile(r"(?:(?<!\w)\*\*(?=\S)|\*\*(?=\w))(.+?)(?:(?<=\S)\*\*(?!\w)|(?<=\w)\*\*)", re.DOTALL)
LEAD_IN = re.compile(r"(?:^- |(?<=\n\n))" + BOLD.pattern, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """A text without its programs and their outputs."""
    return FENCE.sub("", text)


def comments(text: str) -> list[str]:
    """The comments in the programs, in Python and in C."""
    return [comment for program in PROGRAM.findall(text) for comment in COMMENT.findall(program)]


def uncommented(text: str) -> list[tuple[str, str]]:
    """The language and the text of each program and output, with empty comments."""
    return FENCE.findall(PROGRAM.sub(lambda program: COMMENT.sub("", program[0]), text))


def tables(text: str) -> list[tuple[str, list[str]]]:
    """The title and the numbers of each generated table."""
    return [(title, numbers(body)) for title, body in GENERATED.findall(text)]


def headings(text: str) -> list[tuple[int, str]]:
    """The level and the title of each heading, in order."""
    return [(len(marks), title) for marks, title in HEADING.findall(prose(text))]


def anchors(text: str) -> list[str]:
    """What a link names each heading by, as GitHub and MyST make it."""
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for _, title in headings(text)]


def sections(text: str) -> list[str]:
    """A page cut at its headings; what stands before the first one comes first."""
    fences = [fence.span() for fence in FENCE.finditer(text)]
    starts = [heading.start() for heading in HEADING.finditer(text)]
    cuts = [0, *(start for start in starts if not any(a < start < b for a, b in fences)), len(text)]
    return [text[a:b] for a, b in pairwise(cuts)]


def code(text: str) -> list[str]:
    """The code in running text, each line break as a space."""
    return [" ".join(span.split()) for span in CODE.findall(prose(text))]


def numbers(text: str) -> list[str]:
    """The numbers in running text, without those in the targets of links."""
    return re.findall(r"\d+(?:\.\d+)*", LINK.sub(r"\1", prose(text)))


def blocks(text: str) -> list[str]:
    """What kind each block of a page is, in order, and how large where it is a list or a table."""
    return [_kind(block) for block in re.split(r"\n{2,}", FENCE.sub(r"```\1", text).strip())]


def _kind(block: str) -> str:
    first, *_ = lines = block.splitlines() or [""]
    if first.startswith(("#", "<!--", "```")):
        return first.split(" ")[0] if first[0] == "#" else first
    if first.startswith("|"):
        return "table of " + " + ".join(str(len(re.findall(r"(?<!\\)\|", line)) - 1) for line in lines)
    if first.startswith("- "):
        return f"list of {sum(line.startswith('- ') for line in lines)}"
    return "paragraph"
