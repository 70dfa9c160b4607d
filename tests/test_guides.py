"""Pages in two languages say the same, and a page that shows files shows all of them as they are.

NAME.zh.md is the Chinese of NAME.md. What can be compared without reading either is compared section by section:
programs without their comments, numbers in tables, links, code, numbers, and the form. Each comparison returns the
differences it finds.
"""

# ruff: noqa: RUF001 - Chinese has commas of its own

from __future__ import annotations

import posixpath
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

from . import markdown as md

ROOT = Path(__file__).parents[1]


def relative(path):
    return path.relative_to(ROOT).as_posix()


def chinese(page):
    return page.removesuffix(".md") + ".zh.md"


PAGES = {relative(path): path.read_text() for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md")}
TRANSLATED = [page for page in sorted(PAGES) if chinese(page) in PAGES]
PROGRAMS = {relative(path): path.read_text() for path in sorted((ROOT / "docs/extending").glob("*.py"))}
OUTPUTS = {path: output for path, _, output in md.OUTPUT.findall(PAGES["docs/extending.md"])}


# -- one page in two languages ----------------------------------------------------------------------------------


def differences(page, pages):
    """Where the Chinese of a page does not say what the page says.

    Args:
        page: the name of the English page.
        pages: the text of each page in either language, by its path from the root.
    """
    texts = pages[page], pages[chinese(page)]
    found = [*different_switches(page, *texts), *different_links(page, pages), *different_lead_ins(*texts)]
    ours, theirs = map(md.headings, texts)
    if [level for level, _ in ours] != [level for level, _ in theirs]:
        return [*found, f"headings: {ours} and {theirs}"]  # without the same sections there is nothing to compare
    for (_, title), (_, other) in zip(ours, theirs, strict=True):
        if md.code(title) != md.code(other):
            found.append(f"code in a heading: {title} and {other}")
    for name, one, two in zip(["the beginning", *md.anchors(texts[0])], *map(md.sections, texts), strict=True):
        found += [f"{name}: {difference}" for difference in different_sections(one, two)]
    return found


def different_switches(page, english, translation):
    """The line below the title leads to the other language."""
    name, other = Path(page).name, Path(chinese(page)).name
    for text, expected in ((english, f"English · [中文]({other})"), (translation, f"[English]({name}) · 中文")):
        if text.splitlines()[2:3] != [expected]:
            yield f"the third line is not {expected}"


def without_switch(text):
    """The rest of a page: this one line is not a translation of the other."""
    title, blank, _, *rest = text.split("\n")
    return "\n".join([title, blank, "", *rest])


def different_sections(one, two):
    """What both languages must have alike, or equally often."""
    if md.blocks(one) != md.blocks(two):
        yield f"blocks: {md.blocks(one)} and {md.blocks(two)}"
    for what, read in {"block": md.uncommented, "table": md.tables}.items():
        if read(one) != read(two):
            yield f"another {what}: {read(one)} and {read(two)}"
    for what, read in {"code": md.code, "numbers": md.numbers}.items():
        ours, theirs = Counter(read(one)), Counter(read(two))
        if ours != theirs:
            yield f"{what}: only in English {[*ours - theirs]}, only in Chinese {[*theirs - ours]}"
    for what, pattern in {"bold": md.BOLD, "lead-ins": md.LEAD_IN}.items():
        ours, theirs = pattern.findall(md.prose(one)), pattern.findall(md.prose(two))
        if len(ours) != len(theirs):
            yield f"{what}: {ours} and {theirs}"


def different_links(page, pages):
    """Links lead to the same places: to the Chinese of a page, where there is one, and to its heading there."""
    ours, theirs = ([t for _, t in md.LINK.findall(md.prose(without_switch(pages[p])))] for p in (page, chinese(page)))
    expected = [translated(target, page, pages) for target in ours]
    if expected != theirs:
        yield f"links: expected {expected}, got {theirs}"


def translated(target, page, pages):
    """Where a link of an English page leads in the Chinese one."""
    path, _, anchor = target.partition("#")
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if chinese(goal) not in pages:
        return target
    if anchor:
        there = dict(zip(md.anchors(pages[goal]), md.anchors(pages[chinese(goal)]), strict=False))
        anchor = "#" + there.get(anchor, f"({anchor}, which is no heading)")
    return (chinese(path) if path else "") + anchor


def different_lead_ins(english, translation):
    """The fixed words that open a paragraph in many sections are translated alike in all of them."""
    words = {}
    for one, two in zip(md.LEAD_IN.findall(md.prose(english)), md.LEAD_IN.findall(md.prose(translation)), strict=False):
        one, two = one.strip(".,:"), two.strip("，。：")
        if words.setdefault(one, two) != two:
            yield f"lead-in: {one} is {words[one]} and {two}"


# Chinese characters, the commas and stops of Chinese among them, and what stands between them without a space.
HAN, STOP = "[\u4e00-\u9fff]", "[，。：；、？！（）]"
UNTIDY = {
    "no space between Chinese and Latin": f"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}",
    "a space beside a Chinese stop": f" {STOP}|{STOP} ",
    "a Latin stop in Chinese": rf"{HAN} ?[,.;:?!()]|[,;:?!()] ?{HAN}",
    "a line break in Chinese, which is shown as a space": rf"(?:{HAN}|{STOP})\n(?:{HAN}|{STOP})",
}


def untidy(text):
    """What is not written as Chinese text is set."""
    plain = md.LINK.sub(r"\1", md.CODE.sub("C", md.prose(without_switch(text)))).replace("*", "")
    for fault, pattern in UNTIDY.items():
        yield from (f"{fault}: {found}" for found in re.findall(pattern, plain))
    for comment in md.comments(text):
        if not re.search(HAN, comment):
            yield f"a comment that is not Chinese: {comment}"


@pytest.mark.parametrize("page", TRANSLATED)
def test_the_chinese_says_what_the_english_says(page):
    assert differences(page, PAGES) == []
    assert list(untidy(PAGES[chinese(page)])) == []


def test_what_is_translated():
    assert set(TRANSLATED) >= {"README.md", "docs/extending.md"}


ENGLISH = """# Tool

English · [中文](README.zh.md)

Make `f` from 3 [parts](docs/extending.md#one), [see](#use-of-f), [guide](docs/guide.md#one).

## Use of `f`

**There.** One.

**Here.** Two `f`.

| a | b |
|---|---|
| c | `d` |

<!-- docs/f.py -->
```python
# ## no heading
print(1)  /* one */
```

```text
1
```

## Cost

**There.** Three.

- one
- two, of 4.5

<!-- table: cost -->
| x | 1 us |
<!-- end -->
"""

CHINESE = """# 工具

[English](README.md) · 中文

由 3 个 [部分](docs/extending.zh.md#壹) 组成 `f`，[参见](#f-的用法)，[指南](docs/guide.md#one)。

## `f` 的用法

**原来**：一。

**现在**：`f` 二。

| 甲 | 乙 |
|---|---|
| 丙 | `d` |

<!-- docs/f.py -->
```python
# ## 不是标题
print(1)  /* 一 */
```

```text
1
```

## 开销

**原来**：三。

- 一
- 二，共 4.5

<!-- table: cost -->
| 甲 | 1 us |
<!-- end -->
"""

OTHERS = {
    "docs/guide.md": "# One\n",
    "docs/extending.md": "# Zero\n\n# One\n",
    "docs/extending.zh.md": "# 零\n\n# 壹\n",
}


def planted(translation):
    return differences("README.md", {"README.md": ENGLISH, "README.zh.md": translation, **OTHERS})


def test_a_translation_has_no_differences():
    assert planted(CHINESE) == list(untidy(CHINESE)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[English](README.md) · 中文", "中文", "the third line"),
        ("## 开销", "### 开销", "headings"),
        ("## 开销\n\n", "", "headings"),
        ("## `f` 的用法", "## f 的用法", "code in a heading"),
        ("print(1)", "print(2)", "use-of-f: another block"),
        ("text\n1", "text\n2", "use-of-f: another block"),
        ("```python", "```py", "use-of-f: another block"),
        ("<!-- docs/f.py -->\n", "", "use-of-f: blocks"),
        ("| 丙 | `d` |\n", "| 丙 | `d` |\n| 丁 | |\n", "use-of-f: blocks"),
        ("| 丙 | `d` |", "| 丙 | `d` | |", "use-of-f: blocks"),
        ("- 一\n", "", "cost: blocks"),
        ("一。\n\n", "一。\n", "use-of-f: blocks"),
        ("| 1 us |", "| 2 us |", "cost: another table"),
        ("docs/extending.zh.md#壹", "docs/extending.zh.md#零", "links"),
        ("docs/extending.zh.md#壹", "docs/extending.md#one", "links"),
        ("(#f-的用法)", "(#开销)", "links"),
        ("docs/guide.md#one", "docs/guide.md", "links"),
        ("，[指南](docs/guide.md#one)", "", "links"),
        ("`f` 二", "`g` 二", "use-of-f: code: only in English ['f'], only in Chinese ['g']"),
        ("`f` 二", "`f` `f` 二", "use-of-f: code"),
        ("4.5", "4", "cost: numbers: only in English ['4.5'], only in Chinese ['4']"),
        ("**现在**：", "", "use-of-f: bold"),
        ("**现在**：`f`", "`f` **现在**：", "use-of-f: lead-ins"),
        ("**原来**：一", "**原来：**一", "use-of-f: bold"),  # asterisks that close nothing
        ("**原来**：三", "**从前**：三", "lead-in: There is 原来 and 从前"),
    ],
)
def test_a_difference_is_found(old, new, expected):
    assert old in CHINESE
    assert any(difference.startswith(expected) for difference in planted(CHINESE.replace(old, new)))


def test_a_link_to_no_heading_is_found():
    pages = {"README.md": ENGLISH, "README.zh.md": CHINESE, **OTHERS, "docs/extending.md": "# Zero\n"}
    (difference,) = differences("README.md", pages)
    assert "(one, which is no heading)" in difference


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("由 3", "由3", "no space"),
        ("`f` 二", "`f`二", "no space"),
        ("：一", "： 一", "a space"),
        ("二，", "二, ", "a Latin stop"),
        ("组成 `f`，", "组成 (`f`)，", "a Latin stop"),
        ("一。", "一，\n一。", "a line break"),
        ("## 不是标题", "## no heading", "a comment that is not Chinese"),
        ("/* 一 */", "/* one */", "a comment that is not Chinese"),
    ],
)
def test_untidy_chinese_is_found(old, new, expected):
    assert old in CHINESE
    assert any(fault.startswith(expected) for fault in untidy(CHINESE.replace(old, new)))


# -- the files that a page shows --------------------------------------------------------------------------------


def misshown(text, files):
    """Where a page does not show each of the files once and in full."""
    shown = dict(md.FILE.findall(text))
    for path, count in Counter(md.MARKER.findall(text)).items():
        if path not in files:
            yield f"{path} is no file"
        elif count > 1:
            yield f"{path} is shown {count} times"
    for path, program in files.items():
        if path not in shown:
            yield f"{path} is not shown"
        elif shown[path] != program:
            yield f"{path} is shown otherwise"


def test_the_guide_shows_every_program():
    assert PROGRAMS
    assert [*misshown(PAGES["docs/extending.md"], PROGRAMS)] == []


SHOWN = "<!-- docs/f.py -->\n```python\nprint(1)\n```\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHOWN, []),
        ("", ["docs/f.py is not shown"]),
        (SHOWN.replace("1", "2"), ["docs/f.py is shown otherwise"]),
        (SHOWN.replace("-->", "-->\n\nA text."), ["docs/f.py is not shown"]),
        (SHOWN.replace("python", "text"), ["docs/f.py is not shown"]),
        (SHOWN + SHOWN, ["docs/f.py is shown 2 times"]),
        (SHOWN + SHOWN.replace("f.py", "g.py"), ["docs/g.py is no file"]),
        (SHOWN + "<!-- docs/g.py -->\n", ["docs/g.py is no file"]),
    ],
)
def test_a_file_shown_otherwise_is_found(text, expected):
    assert [*misshown(text, {"docs/f.py": "print(1)\n"})] == expected


@pytest.mark.parametrize("path", PROGRAMS)
def test_every_program_runs_alone(path, capsys):
    runpy.run_path(str(ROOT / path), run_name="__main__")
    assert capsys.readouterr().out.strip() == OUTPUTS[path].strip()
