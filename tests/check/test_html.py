"""The page: self-contained, well-formed, safe with any name, and its pictures show the numbers."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser

import pytest

from docs._sphinx.offline import Page
from torchgraft._check.colors import contrast
from torchgraft._check.finding import Verdict
from torchgraft._check.report.html import html_page
from torchgraft._check.report.html.markup import Markup, markup, prose, tag
from torchgraft._check.report.report import Report, Result

from . import made

VOID = {"meta", "br", "rect", "line", "path", "circle"}
FINDINGS = (made.sign(), made.constant(), made.conjugate().but(code="complex"), made.leak(), made.notice())


class Outline(HTMLParser):
    """The elements of a page with their attributes' names, and its text; refuses what is not nested."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.ids, self._open = [], [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, *sorted(name for name, _ in attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def pictures(page):
    """The drawings, as trees: they are XML too."""
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.S)]


def of_class(tree, name):
    return [element for element in tree.iter() if name in element.get("class", "").split()]


def rule(css, selector, prop):
    return re.search(rf"{re.escape(selector)} {{[^}}]*?{prop}: ([^;}}]+?) ?[;}}]", css)[1]


# -- the page ---------------------------------------------------------------------------------------------------


def test_the_page_is_well_formed():
    page = html_page([made.report(*FINDINGS)])
    assert page.startswith('<!doctype html>\n<html lang="en">')
    outline = Outline(page)
    assert ("meta", "content", "name") in outline.elements
    assert [element[0] for element in outline.elements].count("article") == len(FINDINGS)


def test_the_page_loads_nothing():
    text = html_page([made.report(*FINDINGS), made.unsure()])
    page = Page(text)
    assert page.loads == []
    assert "://" not in text
    assert not {"script", "link", "img", "iframe"} & {element[0] for element in Outline(text).elements}


def test_it_is_written(tmp_path):
    path = made.report(made.sign(), target="größe").to_html(tmp_path / "new" / "report.html")
    assert path == tmp_path / "new" / "report.html"
    assert "größe" in path.read_text(encoding="utf-8")
    assert made.report().to_html(str(path)) == path


def test_everything_is_said():
    texts = "\n".join(Outline(html_page([made.report(*FINDINGS)])).texts)
    for finding in FINDINGS:
        for text in (finding.title, finding.code, finding.cause, finding.hint, finding.repro):
            assert text is None or text in texts
    assert "1 check failed, 2 passed, 1 skipped" in texts
    assert "the Function has no vmap staticmethod" in texts
    assert "0.1666666716" in texts


def test_what_was_not_tried_is_no_pass():
    assert "that is no pass" in html_page([made.unsure()])
    assert "no output requires grad" in html_page([made.unsure()])
    assert "Nothing was checked, which is no pass." in html_page([Report("f", "callable", [])])


def test_no_reports():
    assert "nothing was checked" in html_page([])
    Outline(html_page([]))


EVIL = "<script>alert(1)</script>\"' onload=x() </style></title></svg>]]>&amp;\x00\x1b\ud800<!--"


def test_names_are_only_text():
    def report(name):
        evidence = made.sign().evidence
        fields = ("code", "title", "where", "cause", "hint", "repro")
        evil = made.sign().but(**dict.fromkeys(fields, name), analytic=name, numeric=name)
        shape = ((name, (4,)),)
        evil = evil.but(evidence=type(evidence)(**{**vars(evidence), "outputs": shape, "inputs": shape}))
        result = Result(name, name, Verdict.FAIL, name, name, (evil,))
        return Report(name, name, [result, Result(name * 2, name, Verdict.PASS)])

    harmless, page = html_page([report("x" * 80), report("b")]), html_page([report(EVIL), report("b")])
    assert Outline(page).elements == Outline(harmless).elements
    page.encode()
    assert not re.search(r"[\x00\x1b]", page)
    assert len(pictures(page)) == len(pictures(harmless))


def test_matplotlib_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert len(pictures(html_page([made.report(made.sign())]))) > 3


# -- several targets --------------------------------------------------------------------------------------------


def test_several_targets_have_an_overview():
    good = made.report(target="good")
    page = html_page([good, made.unsure(), made.report(made.sign(), target="bad"), good])
    outline, links = Outline(page), Page(page).links
    assert links == ["#target-1", "#target-2", "#target-3", "#target-4"]
    assert {link[1:] for link in links} <= set(outline.ids)
    assert "1 fail, 1 inconclusive, 2 pass" in page
    assert page.index(">bad<") < page.index(">detached<") < page.index(">good<")
    assert Counter(element[0] for element in outline.elements)["h1"] == 1


def test_one_target_has_none():
    assert Page(html_page([made.report()])).links == []


# -- the pictures -----------------------------------------------------------------------------------------------


def heat_maps(finding):
    return pictures(html_page([made.report(finding)]))[:3]


def texts(tree):
    return [text.text for group in tree.iter("g") for text in group.iter("text")]


def test_the_maps_show_the_numbers():
    analytic, numeric, ratio = heat_maps(made.sign())
    assert texts(numeric)[:5] == ["0.878", "0", "0", "0", "0"]
    assert texts(analytic)[:2] == ["\N{MINUS SIGN}0.878", "0"]
    assert Counter(texts(ratio)) == {"\N{MINUS SIGN}1": 4, "0/0": 12}
    classes = [group.get("class") for group in numeric.iter("g")][:16]
    assert classes[0] == "c13"
    assert next(group.get("class") for group in analytic.iter("g")) == "c-13"
    assert classes[1] == "c0"
    assert [group.get("class") for group in ratio.iter("g")][:2] == ["c-15", "c0"]


def test_what_is_wrong_is_framed():
    maps = heat_maps(made.sign())
    assert [len(of_class(tree, "wrong")) for tree in maps] == [0, 0, 4]


def test_frames_of_many_small_cells_are_thin():
    assert len(of_class(heat_maps(made.transposed(25))[2], "thin")) == 25 * 24
    assert len(of_class(heat_maps(made.one_entry())[2], "thin")) == 0


def test_large_maps_have_no_numbers():
    maps = heat_maps(made.one_entry())
    assert [texts(tree) for tree in maps] == [[], [], []]
    assert len(of_class(maps[2], "wrong")) == 1
    assert len(html_page([made.report(made.one_entry())])) < 400_000


def test_cells_are_where_the_picture_is():
    for finding in (made.sign(), made.constant(), made.one_entry(), made.conjugate(), made.transposed(1)):
        for tree in heat_maps(finding):
            width, height = map(float, tree.get("viewBox").split()[2:])
            for box in tree.iter("rect"):
                x, y, w, h = (float(box.get(name)) for name in ("x", "y", "width", "height"))
                assert min(x, y) >= 0
                assert min(w, h) > 0
                assert x + w <= width
                assert y + h <= height


def test_entries_without_a_number_are_marked():
    evidence = made.sign().evidence
    analytic = evidence.analytic.clone()
    analytic[0, 0] = float("nan")
    broken = made.sign().but(evidence=type(evidence)(**{**vars(evidence), "analytic": analytic}))
    first = heat_maps(broken)[0]
    assert [text.text for group in of_class(first, "void") for text in group.iter("text")] == ["nan"]


def test_the_ladder():
    tree = pictures(html_page([made.report(made.sign())]))[3]
    points, (chosen,), (under,), (zero,) = (of_class(tree, name) for name in ("point", "chosen", "under", "zero"))
    assert len(points) == len(of_class(tree, "bar")) == len(made.STEPS)
    place = made.sign().evidence.chosen
    assert (chosen.get("cx"), chosen.get("cy")) == (points[place].get("cx"), points[place].get("cy"))
    assert float(chosen.get("cy")) == float(zero.get("y1"))
    assert float(under.get("y1")) > float(zero.get("y1"))  # the wrong sign is far below
    across = [float(point.get("cx")) for point in points]
    assert across == sorted(across)


def test_a_target_that_was_skipped_says_why():
    why = "nothing says what it takes"
    skipped = Report("ops.py:f", "function", [Result("samples", "It takes them.", Verdict.SKIPPED, note=why)])
    page = Outline(html_page([made.report(made.sign()), skipped]))
    assert page.texts.count(why) == 2  # in the overview, and with the target, where it is not folded away
    assert "1 check skipped" not in page.texts[: page.texts.index(why)]
    assert ("details", "open") in page.elements


def test_without_evidence_there_is_no_picture():
    assert pictures(html_page([made.report(made.leak())])) == []


# -- the style --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_is_legible(dark):
    css = html_page([])
    start = css.index("prefers-color-scheme: dark") if dark else 0
    colors = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css[start : css.index("}", start)]))
    assert contrast(colors["text"], colors["page"]) > 10
    for name in ("soft", "fail", "loses-digits", "inconclusive", "pass", "skipped"):
        assert min(contrast(colors[name], colors[back]) for back in ("page", "card")) >= 4.5, name
    for name in ("under", "point"):
        assert contrast(colors[name], colors["card"]) >= 3, name


def test_cells_have_colours_in_both_themes():
    css = html_page([])
    light, dark = css.split("@media (prefers-color-scheme: dark)")[-2:]
    assert rule(light, ".c15 rect", "fill") == "#8f3f08"
    assert rule(dark, ".c15 rect", "fill") == "#ffdcb4"


# -- markup -----------------------------------------------------------------------------------------------------


def test_names_between_backticks_are_code():
    assert prose("of `x<y` and `") == "of <code>x&lt;y</code> and `"
    assert prose("``") == "``"


def test_markup_is_escaped_once():
    inner = tag("b", "a < b")
    assert inner == "<b>a &lt; b</b>"
    assert tag("p", inner, None, ["x", inner], class_="n", aria_label='"') == (
        '<p class="n" aria-label="&quot;"><b>a &lt; b</b>x<b>a &lt; b</b></p>'
    )
    assert isinstance(markup("&"), Markup)
    assert tag("rect", x=1.0, y=2.345, width=None) == '<rect x="1" y="2.35"/>'
