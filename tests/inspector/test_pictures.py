"""The pictures in docs/inspector.md are of pages as they are: with `PICTURES=1` this draws them anew."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browsers import Tab
from tests.inspector.browsing import Browser
from tests.inspector.marking import all_known

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PICTURES = {
    "sessions.jpeg": ("/", "light"),
    "session.jpeg": ("/session?id=mail-2026-11-21", "dark"),
    "state.jpeg": ("/state?id=mail-2026-11-21&at=98&left=84", "light"),
}
MOST = 150_000
"""Bytes of a picture."""


def drawn(page: Page, address: str, scheme: str) -> bytes:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(address)
    return page.screenshot(type="jpeg", quality=70)


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_can_be_drawn(night: Browser, tab: Tab, name: str) -> None:
    path, scheme = PICTURES[name]
    all_known(night.source)
    night.page("/")
    tab(lambda page: page.goto(night.inspector.address))
    picture = tab(partial(drawn, address=night.inspector.url + path, scheme=scheme))

    assert len(picture) < MOST
    if os.environ.get("PICTURES"):
        (DOCS / "images" / name).write_bytes(picture)


def test_the_pages_show_the_pictures_that_are_drawn_here() -> None:
    shown = re.findall(r"\]\(images/(\S+)\)", (DOCS / "inspector.md").read_text(encoding="utf-8"))

    assert sorted(shown) == sorted(PICTURES) == sorted(one.name for one in (DOCS / "images").iterdir())
