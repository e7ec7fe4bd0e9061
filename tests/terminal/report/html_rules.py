"""What a page must be to be valid HTML, of what we write, to be read by everybody, and to need nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

_VOID: Final = {"meta"}
_WITHIN: Final[dict[str, set[str | None]]] = {
    "html": {None},
    "head": {"html"},
    "body": {"html"},
    "meta": {"head"},
    "title": {"head"},
    "style": {"head"},
    "header": {"body"},
    "main": {"body"},
    "section": {"main"},
    "article": {"section"},
    "h1": {"header"},
    "h2": {"section"},
    "h3": {"section", "article"},
    "h4": {"article"},
    "p": {"header", "section", "article"},
    "time": {"p"},
    "pre": {"article"},
    "ul": {"article"},
    "li": {"ul"},
    "table": {"section"},
    "thead": {"table"},
    "tbody": {"table"},
    "tr": {"thead", "tbody"},
    "th": {"tr"},
    "td": {"tr"},
    "a": {"td", "li"},
    "span": {"p", "pre"},
}
"""Which element may stand in which."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]|\r(?!\n)")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


class Page(HTMLParser):
    """Reads a page, and notes what is wrong with it, and what it says."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.classes: set[str] = set()
        self.style = ""
        self._open: list[str] = []
        self._headings: list[int] = []
        if _CONTROL.search(document):
            self.wrong.append("there are control characters")
        if not document.startswith("<!DOCTYPE html>\n"):
            self.wrong.append("there is no DOCTYPE")
        self.feed(document)
        self.close()
        self._check_the_whole()

    def text(self, tag: str) -> str:
        """Return all that stands directly in elements of this name, each on its line."""
        return "\n".join(self.texts.get(tag, []))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.wrong.append(f"{tag} has an attribute twice: {names}")
        parent = self._open[-1] if self._open else None
        if parent not in _WITHIN.get(tag, set()):
            self.wrong.append(f"{tag} stands in {parent}")
        self._note(tag, {name: value or "" for name, value in attrs})
        if tag not in _VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.wrong.append(f"<{tag}/> is not HTML")

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"there is a comment: {data}")

    def handle_data(self, data: str) -> None:
        if not self._open:
            if data.strip():
                self.wrong.append(f"there is text outside: {data}")
            return
        # What stands in a span stands in the text around it.
        for tag in {self._open[-1], *self._open} & {"pre", "style", "title", *self._open[-1:]}:
            self.texts[tag][-1] += data
        if self._open[-1] in {"table", "tr", "thead", "tbody", "ul", "main", "html", "head"} and data.strip():
            self.wrong.append(f"there is text in {self._open[-1]}: {data}")

    def _note(self, tag: str, attributes: dict[str, str]) -> None:
        self.classes.update(attributes.get("class", "").split())
        if re.fullmatch("h[1-6]", tag):
            self._headings.append(int(tag[1]))
        if "id" in attributes:
            if not attributes["id"] or attributes["id"] in self.ids or re.search(r"\s", attributes["id"]):
                self.wrong.append(f"the id {attributes['id']!r} is there twice, or none")
            self.ids.add(attributes["id"])
        if "href" in attributes:
            self.links.append(attributes["href"])
            if _SCHEME.match(attributes["href"]):
                self.wrong.append(f"there is a link elsewhere: {attributes['href']}")
        if not attributes.keys().isdisjoint({"src", "onclick", "onload", "background", "action"}):
            self.wrong.append(f"{tag} has {attributes}")
        if not re.fullmatch(r"([a-z-]+: [a-z0-9#. -]+(; |$))*", attributes.get("style", "")):
            self.wrong.append(f"{tag} has the style {attributes['style']}")
        if tag == "html" and not attributes.get("lang"):
            self.wrong.append("the language is not said")

    def _check_the_whole(self) -> None:
        self.style = self.text("style")
        if self._open:
            self.wrong.append(f"{self._open} are not closed")
        if not self.text("title").strip() or len(self.texts.get("title", [])) != 1:
            self.wrong.append("there is no title")
        if self._headings.count(1) != 1 or any(
            b > a + 1 for a, b in zip(self._headings, self._headings[1:], strict=False)
        ):
            self.wrong.append(f"the headings are of levels {self._headings}")
        for link in self.links:
            if link.startswith("#") and link[1:] not in self.ids:
                self.wrong.append(f"{link} leads nowhere")
        if re.search(r"@import|url\(|expression", self.style) or self.style.count("{") != self.style.count("}"):
            self.wrong.append("the style sheet needs something else, or is not whole")
