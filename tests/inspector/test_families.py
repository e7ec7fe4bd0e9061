"""Pages of sessions that call each other: the list marks children, and a session's page shows the tree below it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.inspector import Source
from tests.inspector.browsing import Browser, browsing, texts
from tests.logs import log_at
from tests.runtime.families import Plan, factory, furnish

PLAN: Plan = [[("agent", [[("agent", ["deep"])], "middle"])], "top"]

WAITS: Plan = [[("agent", [[("send", {"to": "ann"})], "sent"])], "top"]


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[Browser, list[str]]]:
    """A browser at the pages of a family, and its sessions from the deepest on."""
    log = log_at(tmp_path / "log.db")
    with Runtime.open(log, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.ask(json.dumps(PLAN), session="root", timeout=60)
        sessions = [session.id for session in runtime.sessions.list()]
    with Source.open(log) as source, browsing(source) as browser:
        yield browser, sessions


def test_the_list_says_whose_children_sessions_are(family: tuple[Browser, list[str]]) -> None:
    browser, (_, child, _) = family

    page = browser.page("/")

    chips = [texts(cell, ".chip") for cell in page.select("td.what")]
    assert [one[0].split(" of ")[0] for one in chips[:2]] == ["child", "child"]
    assert "child of root" in texts(page, "td.what .chip")
    assert chips[2] == []
    assert child


def test_the_page_of_a_session_shows_the_tree_below_it(family: tuple[Browser, list[str]]) -> None:
    browser, (leaf, child, root) = family

    page = browser.page(f"/session?id={root}")

    assert texts(page, "details.facts summary") == ["1 child session"]
    assert texts(page, "details.facts > ul > li > a") == [child]
    assert texts(page, "details.facts > ul > li > ul > li > a") == [leaf]


def test_the_page_of_a_child_leads_to_who_has_called_it(family: tuple[Browser, list[str]]) -> None:
    browser, (leaf, child, root) = family

    for session, parent in ((child, root), (leaf, child)):
        page = browser.page(f"/session?id={session}")
        assert [link.get_text() for link in page.select(".crumb a")][-1] == parent
    assert "child session" not in " ".join(texts(browser.page(f"/session?id={leaf}"), "summary"))


def test_the_pages_of_a_branch_show_the_branches_of_children_below_it(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log.db")
    with Runtime.open(log, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.ask(json.dumps(WAITS), session="root", timeout=60)
        runtime.sessions.branch("root", new_session_id="b")
        (child,) = runtime.sessions.list(parent="b")
    with Source.open(log) as source, browsing(source) as browser:
        assert texts(browser.page("/session?id=b"), "details.facts > ul > li > a") == [child.id]
        assert [link.get_text() for link in browser.page(f"/session?id={child.id}").select(".crumb a")][-1] == "b"
        assert browser.page("/branches")
