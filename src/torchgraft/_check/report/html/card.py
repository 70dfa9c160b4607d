"""One finding on the page: the paragraph, the numbers, the pictures."""

from __future__ import annotations

from collections.abc import Iterator

from ...finding import Finding, Verdict
from ...numerals import typeset
from ..picture import maps
from ..trace import trace
from ..words import numbers
from .heat import heat_maps
from .ladder import ladder
from .markup import Markup, markup, prose, tag

GLYPHS = {
    Verdict.FAIL: "\N{MULTIPLICATION X}",
    Verdict.LOSES_DIGITS: "\N{ALMOST EQUAL TO}",
    Verdict.INCONCLUSIVE: "?",
    Verdict.PASS: "\N{CHECK MARK}",
    Verdict.SKIPPED: "\N{EN DASH}",
}


def badge(verdict: Verdict, text: str | None = None) -> Markup:
    """A verdict: sign, word and colour, of which each is enough."""
    sign = tag("span", GLYPHS[verdict], aria_hidden="true")
    return tag("span", sign, text or verdict.replace("_", " ").lower(), class_=f"badge {kind(verdict)}")


def kind(verdict: Verdict) -> str:
    """The class of what has a verdict's colour."""
    return verdict.lower().replace("_", "-")


def card(finding: Finding, number: int) -> Markup:
    """A finding."""
    label = "notice" if finding.severity is Verdict.PASS else None
    severity = Verdict.SKIPPED if label else finding.severity
    return tag(
        "article",
        tag("header", tag("p", badge(severity, label), tag("code", finding.code), class_="kind"),
            tag("h3", f"{number}. ", prose(finding.title))),
        tag("p", prose(finding.cause), class_="cause") if finding.cause else None,
        _facts(finding), _pictures(finding), _further(finding), class_=f"finding {kind(severity)}",
    )  # fmt: skip


def _facts(finding: Finding) -> Markup | None:
    pairs = [("where", finding.where)] if finding.where else []
    pairs += list(numbers(finding))
    if not pairs:
        return None
    return tag("dl", (tag("div", tag("dt", name), _value(name, value)) for name, value in pairs))


def _value(name: str, value: str) -> Markup:
    if name in ("analytic", "numeric"):  # as Python writes them, to be copied
        return tag("dd", value, class_="number")
    return tag("dd", typeset(value) if name == "error" else prose(value))


def _pictures(finding: Finding) -> Markup | None:
    if finding.evidence is None:
        return None
    jacobians, steps = maps(finding.evidence), trace(finding.evidence)
    return markup(heat_maps(jacobians) if jacobians else None, ladder(steps) if steps else None)


def _further(finding: Finding) -> Iterator[Markup]:
    for title, text, code in (("next step", finding.hint, False), ("see it again", finding.repro, True)):
        if text:
            yield tag("h4", title)
            yield tag("pre", text) if code or "\n" in text else tag("p", prose(text))
