"""The site for language models: a twin of each page in Markdown, and `llms.txt`, which lists them."""

from __future__ import annotations

import re

from tests.docs.site import pages
from tests.docs.site.navigation import FRONT, SECTIONS

SUMMARY = "Event-sourced actors for AI agents, in Python: everything an agent knows is a fold over its log."


def twin(name: str) -> str:
    """Return a page in Markdown whose links lead to twins."""
    return pages.linked(pages.text(name), lambda link: re.sub(r"\.md$", ".html.md", link))


def llms_txt() -> str:
    """Return the list of the pages, in the form that llmstxt.org describes."""
    head = f"# Reenact\n\n> {SUMMARY}\n\n{_entry(FRONT)}"
    sections = (f"\n## {heading}\n\n{''.join(map(_entry, names))}" for heading, names in SECTIONS.items())
    return head + "".join(sections)


def _entry(name: str) -> str:
    return f"- [{pages.title(name)}]({name}.html.md): {pages.first_sentence(name)}\n"
