"""Pages in several languages: NAME.zh.md is the Chinese of NAME.md, and each links to the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests read names of pages without Sphinx
    from sphinx.application import Sphinx

LANGUAGES = {"zh": "中文"}


def language(page: str) -> str | None:
    """The language in a page's name; none in that of an English one."""
    match = re.search(r"\.([a-z]{2})\.md$", page)
    return match.group(1) if match else None


def tell_template(app: Sphinx, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Tell the template in which language a page is, and where it is in others."""
    code = language(f"{page}.md")
    base = page.removesuffix(f".{code}")
    context["language"] = code or "en"
    context["translations"] = {
        caption: context["pathto"](name)
        for name, caption in {base: "English", **{f"{base}.{code}": LANGUAGES[code] for code in LANGUAGES}}.items()
        if name != page and name in app.env.found_docs
    }


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("html-page-context", tell_template)
    return {"parallel_read_safe": True}
