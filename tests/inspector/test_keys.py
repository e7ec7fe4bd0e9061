"""Keys: what they do, and that they do nothing while somebody types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from reenact.inspector import Inspector, Source
from tests.browsers import Tab
from tests.inspector.browsing import Browser
from tests.inspector.demo import write_demo
from tests.inspector.marking import all_known


@pytest.fixture
def press(night: Browser, tab: Tab) -> Callable[..., str]:
    """Return what opens a page, presses keys, and returns the address then."""
    inspector = night.inspector
    tab(lambda page: page.goto(inspector.address))

    def pressed(path: str, *keys: str, until: str = "") -> str:
        def steps(page: Page) -> str:
            page.goto(inspector.url + path)
            for key in keys:
                page.keyboard.press(key)
            if until:
                page.wait_for_url(inspector.url + until)
            return page.url.removeprefix(inspector.url)

        return tab(steps)

    return pressed


def test_keys_lead_to_pages(press: Callable[..., str]) -> None:
    press("/", "?", until="/keys")
    press("/", "g", "b", until="/branches")
    press("/keys", "g", "v", until="/chain")
    press("/keys", "g", "s", until="/")
    press("/chain", "/", until="/#q")


def test_what_is_listed_is_gone_through_and_opened(press: Callable[..., str], tab: Tab) -> None:
    press("/", "j", "j", "j", "k")
    second = tab(lambda page: page.locator("tbody tr").nth(1).locator("a.name").get_attribute("href"))

    assert tab(lambda page: page.evaluate("document.activeElement.getAttribute('href')")) == second
    tab(lambda page: page.keyboard.press("Enter"))
    tab(lambda page: page.wait_for_url(f"**{second}"))


def test_nothing_happens_while_somebody_types(press: Callable[..., str], tab: Tab) -> None:
    press("/", "/", "j", "?", "g", "s", "w")

    assert tab(lambda page: page.input_value("#q")) == "j?gsw"
    tab(lambda page: page.keyboard.press("Escape"))
    tab(lambda page: page.keyboard.press("?"))
    tab(lambda page: page.wait_for_url("**/keys"))


def test_nothing_happens_with_control(press: Callable[..., str]) -> None:
    assert press("/chain", "Control+/", "Alt+w") == "/chain"


def test_an_event_leads_to_its_neighbours_and_to_the_state(press: Callable[..., str]) -> None:
    press("/event?at=80", "ArrowRight", until="/event?at=81")
    press("/event?at=80", "ArrowLeft", until="/event?at=79")
    press("/event?at=80", "s", until="/state?id=mail-2026-11-21&at=80")


def test_the_address_is_copied_and_that_is_said(press: Callable[..., str], tab: Tab) -> None:
    tab(lambda page: page.context.grant_permissions(["clipboard-read", "clipboard-write"]))
    press("/event?at=80", "y")

    tab(lambda page: expect(page.get_by_role("status").filter(has_text="copied")).to_be_visible())
    assert tab(lambda page: page.evaluate("navigator.clipboard.readText()")).endswith("/event?at=80")


def test_the_page_of_keys_names_what_pages_name_at_their_feet(browser: Browser) -> None:
    known = {one.text for one in browser.page("/keys").select("dl kbd")}

    for path in ("/", "/session?id=greeting", "/state?id=greeting", "/event?at=2", "/branches"):
        assert {one.text for one in browser.page(path).select("footer kbd")} <= known, path


def test_seals_are_kept_as_new_as_the_page(tmp_path: Path, tab: Tab) -> None:
    path = tmp_path / "night.db"
    write_demo(path)
    with Source.open(path) as source, Inspector(source) as inspector:
        tab(lambda page: page.goto(inspector.address))
        all_known(source)

        tab(lambda page: expect(page.locator(".seals")).to_contain_text("Chain whole up to 165"))
        tab(lambda page: expect(page.locator(".seals")).to_contain_text("Decides the same, 11 of 11"))
