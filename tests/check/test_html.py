"""The page: self-contained, well-formed, safe with any name, and with pictures of the numbers."""

import base64
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser

import pytest

from docs._sphinx.offline import Page
from torchgraft._check.finding import Verdict
from torchgraft._check.report.report import Report, html_page, prose
from torchgraft._check.report.result import Result

from . import made

VOID = {"meta", "img"}
FINDINGS = (made.sign(), made.constant(), made.conjugate().but(code="complex"), made.leak(), made.notice())
INSTALL = "pip install 'torchgraft[report]'"


class Outline(HTMLParser):
    """The elements of a page with their attributes' names, and its text; refuses what is not nested."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.ids, self.pictures, self._open = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, *sorted(name for name, _ in attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag == "img":
            self.pictures.append(dict(attributes))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def drawings(page):
    """The pictures, as trees of SVG."""
    sources = [picture["src"].split("base64,") for picture in Outline(page).pictures]
    assert {kind for kind, _ in sources} <= {"data:image/svg+xml;"}
    return [ElementTree.fromstring(base64.b64decode(data)) for _, data in sources]


# -- the page ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page():
    """The page of many findings, whose pictures take a while to draw."""
    return html_page([made.report(*FINDINGS)])


@pytest.mark.slow
def test_the_page_is_well_formed(page):
    assert page.startswith('<!doctype html>\n<html lang="en">')
    outline = Outline(page)
    assert ("meta", "content", "name") in outline.elements
    assert [element[0] for element in outline.elements].count("article") == len(FINDINGS)


@pytest.mark.slow
@pytest.mark.parametrize("unsure", [False, True])
def test_the_page_loads_nothing(page, unsure):
    text = html_page([made.unsure()]) if unsure else page
    assert [address for address in Page(text).loads if not address.startswith("data:")] == []
    assert "://" not in text
    assert not {"script", "link", "iframe"} & {element[0] for element in Outline(text).elements}


@pytest.mark.slow
def test_it_is_written(tmp_path):
    path = made.report(made.sign(), target="größe").to_html(tmp_path / "new" / "report.html")
    assert path == tmp_path / "new" / "report.html"
    assert "größe" in path.read_text(encoding="utf-8")
    assert made.report().to_html(str(path)) == path


@pytest.mark.slow
def test_the_same_report_gives_the_same_page():
    one, other = (html_page([made.report(made.sign(), made.leak(), made.notice())]) for _ in range(2))
    assert one == other


def test_everything_is_said(page):
    texts = "\n".join(Outline(page).texts)
    for finding in FINDINGS:
        for text in (finding.title, finding.code, finding.cause, finding.hint, finding.repro):
            assert text is None or text in texts
    assert "1 check failed, 2 passed, 1 skipped" in texts
    assert "the Function has no vmap staticmethod" in texts
    assert "0.1666666716" in texts
    assert "4 of 16 entries deviate by more than numerics explain (framed)." in texts
    assert "differences with the step 2⁻" in texts


def test_what_was_not_tried_is_no_pass():
    assert "that is no pass" in html_page([made.unsure()])
    assert "no output requires grad" in html_page([made.unsure()])
    assert "Nothing was checked, which is no pass." in html_page([Report("f", "callable", [])])


def test_no_reports():
    page = html_page([])
    assert "nothing was checked" in page
    Outline(page)


EVIL = "<script>alert(1)</script>\"' onload=x() </style></title></svg>]]>&amp;{{ 7*7 }}\x00\x1b\ud800<!--"


@pytest.mark.slow
def test_names_are_only_text():
    def report(name):
        evidence = made.sign().evidence
        fields = ("code", "title", "where", "cause", "hint", "repro")
        evil = made.sign().but(**dict.fromkeys(fields, name), analytic=name, numeric=name)
        shape = ((name, (4,)),)
        evil = evil.but(evidence=type(evidence)(**{**vars(evidence), "outputs": shape, "inputs": shape}))
        result = Result(name, name, Verdict.FAIL, name, name, (evil,))
        return Report(name, name, [result, Result(name * 2, name, Verdict.PASS)])

    harmless, page = html_page([report("x" * 80), made.report()]), html_page([report(EVIL), made.report()])
    assert Outline(page).elements == Outline(harmless).elements
    page.encode()
    assert not re.search(r"[\x00\x1b]", page)
    tags = [[element.tag for element in tree.iter()] for tree in drawings(page)]
    assert len(tags) == len(drawings(harmless))
    assert not [tag for tree in tags for tag in tree if tag.endswith("script")]


def test_names_between_backticks_are_code():
    assert prose("of `x<y` and `") == "of <code>x&lt;y</code> and `"
    assert prose("``") == "``"


# -- several targets --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_targets_have_an_overview():
    good = made.report(target="good")
    page = html_page([good, made.unsure(), made.report(made.sign(), target="bad"), good])
    outline, links = Outline(page), Page(page).links
    assert links == ["#target-1", "#target-2", "#target-3", "#target-4"]
    assert {link[1:] for link in links} <= set(outline.ids)
    assert "1 fail, 1 inconclusive, 2 pass" in re.sub(r"\s+", " ", page).replace(" ,", ",")
    assert page.index(">bad<") < page.index(">detached<") < page.index(">good<")
    assert Counter(element[0] for element in outline.elements)["h1"] == 1


def test_one_target_has_none():
    assert Page(html_page([made.report()])).links == []


@pytest.mark.slow
def test_a_target_that_was_skipped_says_why():
    why = "nothing says what it takes"
    skipped = Report("ops.py:f", "function", [Result("samples", "It takes them.", Verdict.SKIPPED, note=why)])
    page = Outline(html_page([made.report(made.sign()), skipped]))
    assert page.texts.count(why) == 2  # in the overview, and with the target, where it is not folded away
    assert "1 check skipped" not in page.texts[: page.texts.index(why)]
    assert ("details", "open") in page.elements


# -- the pictures -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_side_the_ratio_and_the_ladder_are_drawn():
    pytest.importorskip("matplotlib")
    page = html_page([made.report(made.sign())])
    words = [picture["alt"].partition(":")[0] for picture in Outline(page).pictures]
    assert words == [
        "analytic",
        "numeric",
        "ratio",
        "distance from the numeric derivative, for each step of the differences",
    ]
    texts = ["".join(tree.itertext()) for tree in drawings(page)]
    assert "\N{MINUS SIGN}0.878" in texts[0]
    assert "out[3]" in texts[0]
    assert "0/0" in texts[2]
    assert INSTALL not in page


@pytest.mark.slow
def test_large_maps_stay_small_files():
    assert len(html_page([made.report(made.one_entry())])) < 200_000


def test_without_evidence_there_is_no_picture():
    assert drawings(html_page([made.report(made.leak())])) == []


def test_without_matplotlib_the_page_says_how_to_get_pictures(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outline = Outline(html_page([made.report(made.sign())]))
    assert outline.pictures == []
    assert INSTALL in outline.texts
    assert any(text.strip().startswith("4 of 16 entries") for text in outline.texts)  # the captions stay
    assert INSTALL not in Outline(html_page([made.report(made.leak())])).texts
