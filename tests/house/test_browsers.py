"""The browser of the tests: it reaches this machine alone, and leaves threads and event loops as they were."""

from __future__ import annotations

import asyncio
import socket

import pytest
from playwright.sync_api import Page

from tests.browsers import Tab


@pytest.fixture
def address() -> str:
    """Where a page could be, and nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/"


def test_a_page_that_asks_somebody_elsewhere_gets_no_answer_and_fails_its_test(tab: Tab) -> None:
    answer = tab(lambda page: str(page.evaluate("fetch('http://reenact.example/').catch(String)")))

    with pytest.raises(AssertionError, match=r"http://reenact\.example/"):
        tab.close()
    assert "Failed to fetch" in answer
    tab.requested.clear()


def test_what_a_page_says_and_asks_for_is_kept(tab: Tab, address: str) -> None:
    def visit(page: Page) -> None:
        with page.expect_websocket(), page.expect_event("pageerror"):
            page.set_content(f"<script>console.log('Hello'); new WebSocket('{address}'); throw 7</script>")

    tab(visit)

    assert {"log: Hello", "exception: 7"} <= set(tab.said)
    assert address.replace("http", "ws") in tab.requested


def test_axe_names_the_elements_that_are_inaccessible(tab: Tab) -> None:
    tab(lambda page: page.set_content("<html lang=en><title>One</title><main><h1>One</h1><img></main></html>"))

    assert tab.violations() == ["image-alt: img"]


def test_an_event_loop_runs_beside_a_page(tab: Tab) -> None:
    tab(lambda page: page.set_content("<title>One</title>"))

    assert asyncio.run(asyncio.sleep(0, "ran")) == "ran"
