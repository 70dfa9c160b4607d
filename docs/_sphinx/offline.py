"""What is wrong with a built site: links that lead nowhere, and anything that a browser would load from the network."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# `link` elements that a browser does not fetch.
UNFETCHED = {"author", "canonical", "help", "index", "license", "next", "prev", "search"}
LOADING = {"src", "srcset", "poster", "data", "background", "xlink:href"}
IN_STYLE = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")
IN_SCRIPT = re.compile(r"""['"`]((?:https?:)?//[\w.-]+\.\w[^'"`\s]*)""")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAMESPACE = "http://www.w3.org/"  # the names of XML vocabularies, which nothing loads


class Page(HTMLParser):
    """One page, read for its links.

    Attributes:
        names: the anchors that links can lead to.
        links: where the reader can go.
        loads: what the browser fetches to show the page.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        values = {name: value or "" for name, value in attributes}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        if tag in ("a", "area") and "href" in values:
            self.links.append(values["href"])
        elif "href" in values and not set(values.get("rel", "").split()) & UNFETCHED:
            self.loads.append(values["href"])
        for name in LOADING & set(values):
            separated = values[name].split(",") if name == "srcset" else [values[name]]
            self.loads += [part.split()[0] for part in separated if part.strip()]
        self.loads += in_style(values.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.loads += in_style(data)
        elif self._inside == "script":
            self.loads += in_script(data)


def in_style(text: str) -> list[str]:
    """What a style sheet loads."""
    return [url or imported for url, imported in IN_STYLE.findall(COMMENT.sub("", text))]


def in_script(text: str) -> list[str]:
    """The addresses on the network that a script names, and so may load."""
    return [url for url in IN_SCRIPT.findall(COMMENT.sub("", text)) if not url.startswith(NAMESPACE)]


def problems(site: Path) -> Iterator[str]:
    """A line for each link that leads nowhere and each resource from outside the site."""
    pages = {file: Page(file.read_text()) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        for url in page.loads:
            yield from _loaded(site, file, url)
        for url in page.links:
            yield from _linked(site, file, url, pages)
    for file in sorted(site.rglob("*.css")) + sorted(site.rglob("*.svg")):
        for url in in_style(file.read_text()):
            yield from _loaded(site, file, url)
    for file in sorted(site.rglob("*.js")):
        for url in in_script(file.read_text()):
            yield from _loaded(site, file, url)


def _loaded(site: Path, file: Path, url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.netloc or parts.scheme not in ("", "data"):
        yield f"{file.relative_to(site)} loads {url}"
    elif parts.path and not parts.scheme and not (file.parent / unquote(parts.path)).is_file():
        yield f"{file.relative_to(site)} loads {url}, which does not exist"


def _linked(site: Path, file: Path, url: str, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file():
        yield f"{file.relative_to(site)} links to {url}, which does not exist"
    elif parts.fragment and unquote(parts.fragment) not in pages[target].names:
        yield f"{file.relative_to(site)} links to {url}, where there is no such anchor"
