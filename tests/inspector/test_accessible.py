"""All pages can be used by everybody: axe finds nothing, in the light and in the dark, wide and narrow, offline."""

from __future__ import annotations

from functools import partial

import pytest
from playwright.sync_api import Page

from tests.browsers import Tab
from tests.inspector.browsing import Browser
from tests.inspector.marking import all_known

PAGES = (
    *("/", "/waiting", "/costs", "/branches", "/chain", "/keys", "/event?at=87", "/session?id=nobody"),
    *("/session?id=mail-2026-11-21", "/state?id=mail-2026-11-21&at=98&left=84"),
)
WIDTHS = (1440, 900, 390)


def look_at(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out(night: Browser, tab: Tab, scheme: str) -> None:
    all_known(night.source)
    night.page("/")
    tab(lambda page: page.emulate_media(color_scheme="dark" if scheme == "dark" else "light"))
    tab(lambda page: page.goto(night.inspector.address))
    found: list[str] = []
    for number, path in enumerate(PAGES):
        width = WIDTHS[(number + (scheme == "dark")) % len(WIDTHS)]
        tab(partial(look_at, address=night.inspector.url + path, width=width))
        found += [f"{path} {width} {scheme}: {one}" for one in tab.violations()]

    assert found == []
    assert [said for said in tab.said if "404" not in said] == []
