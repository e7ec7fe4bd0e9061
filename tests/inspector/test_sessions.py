"""The list of sessions: which are there, how they are, and which of them a filter or some words ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag

from reenact import Runtime
from reenact.inspector import Source
from reenact.inspector.pages import sessions as list_page
from reenact.testing import wait_until
from tests.browsers import Tab
from tests.inspector.browsing import Browser, browsing, words

STATES = {"refunds": "idle", "newsletter": "failed", "q4-forecast": "waits", "returns-november": "cut off"}


def ids(page: BeautifulSoup) -> list[str]:
    return [one.get_text() for one in page.select(".sessions .name")]


def row(page: BeautifulSoup, id_: str) -> Tag:
    return next(one for one in page.select(".sessions tbody tr") if words(one.select_one(".name")) == id_)


def test_all_sessions_are_listed_the_newest_first_with_what_they_have_used(night: Browser) -> None:
    page = night.page("/")

    named = [id_ for id_ in ids(page) if not id_.startswith("ses_")]
    assert named == [
        "returns-november",
        "q4-forecast",
        "refund-report",
        "newsletter",
        "mail-2026-11-21",
        "refunds",
        "poem",
    ]
    assert len(ids(page)) == 11
    assert "11 sessions" in words(page.select_one("#facts"))
    assert [words(cell) for cell in row(page, "poem").select(".num")][:3] == ["11", "1 280 → 88", "0.0017"]
    assert words(page.select_one(".segs")) == "All 11 Waits 3 Live 1 Failed 1 Idle 5 New 1"


def test_a_session_says_how_it_is(night: Browser) -> None:
    page = night.page("/")

    said = {
        id_: words(row(page, id_).select_one(".state"))
        for id_ in ("refunds", "newsletter", "q4-forecast", "returns-november")
    }
    assert said == STATES
    assert "ask_user for " in words(row(page, "q4-forecast"))
    assert "overloaded_error" in words(row(page, "newsletter"))
    assert any("of refunds at " in words(one) for one in page.select(".sessions .chip"))


def test_what_strangers_have_written_is_text(night: Browser) -> None:
    page = night.page("/")

    assert "</textarea><script>alert('newsletter')</script>" in words(row(page, "newsletter"))
    assert not page.select("main script, main img")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=waits", {"q4-forecast", "refund-report", "mail-2026-11-21"}),
        ("state=failed", {"newsletter"}),
        ("image=mail-desk", {"newsletter", "mail-2026-11-21"}),
        ("image=mail-desk&state=waits", {"mail-2026-11-21"}),
        ("outcome=failed", {"newsletter"}),
        ("text=NEWSLETTER", {"newsletter"}),
        ("text=fourth+quarter", {"q4-forecast"}),
        ("text=group+by+day", {"refund-report"}),
        ("text=tool_use", set[str]()),
        ("state=failed&text=quarter", set[str]()),
        ("since=1h&state=failed", set[str]()),
    ],
)
def test_filters_and_words_say_which_sessions_are_listed(night: Browser, query: str, expected: set[str]) -> None:
    page = night.page(f"/?{query}")

    assert set(ids(page)) == expected
    assert page.select_one(".empty") is None or not expected


def test_a_search_says_how_many_sessions_it_has_looked_through(night: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "11 of 11 sessions were looked through" in words(night.page("/?text=quarter").select_one(".pages"))

    monkeypatch.setattr(list_page, "SECONDS", 0.0)
    page, looked, found = night.page("/?text=quarter"), 0, set[str]()
    while True:
        looked += 1
        found |= set(ids(page))
        assert "1 of 11 sessions was looked through" in words(page.select_one(".pages"))
        further = page.select_one("a[rel=next]")
        if further is None or looked == 11:
            break
        page = night.page(str(further["href"]))

    assert found == {"q4-forecast"}


@pytest.mark.parametrize("query", ["state=odd", "before=x", "outcome=odd", "since=2h", "before=1&before=-1"])
def test_a_filter_that_makes_no_sense_is_said(night: Browser, query: str) -> None:
    page = night.page(f"/?{query}", 400)

    assert "This page cannot be shown" in words(page)


def test_there_is_no_list_of_an_image_that_is_not_there(night: Browser) -> None:
    night.page("/?image=nobody", 404)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/", "Nothing has happened yet"), ("/branches", "Nothing has branched off"), ("/costs", "Nothing was used")],
)
@pytest.mark.usefixtures("runtime")
def test_an_empty_log_says_so(log: str, path: str, said: str) -> None:
    with Source.open(log) as source, browsing(source) as browser:
        assert said in words(browser.page(path))


@pytest.fixture
def source(runtime: Runtime, log: str) -> Iterator[Source]:
    runtime.containers.create(container_id="default")
    for number in range(120):
        runtime.sessions.create("default", "chat", session_id=f"number-{number:03}")
    with Source.open(log) as source:
        wait_until(lambda: source.tables.lag() == 0)
        yield source


@pytest.fixture
def many(source: Source) -> Iterator[Browser]:
    with browsing(source) as browser:
        yield browser


def test_more_than_fifty_sessions_are_read_page_by_page_there_and_back(many: Browser) -> None:
    pages = [many.page("/")]
    while further := pages[-1].select_one("a[rel=next]"):
        pages.append(many.page(str(further["href"])))

    assert [len(ids(page)) for page in pages] == [50, 50, 20]
    assert [id_ for page in pages for id_ in ids(page)] == [f"number-{number:03}" for number in reversed(range(120))]
    back = pages[2].select_one("a[rel=prev]")
    assert back is not None
    assert ids(many.page(str(back["href"]))) == ids(pages[1])


def test_what_has_changed_is_told_of_the_sessions_that_are_shown(
    many: Browser, source: Source, runtime: Runtime
) -> None:
    table = many.page("/").select_one("#list")
    assert table is not None
    runtime.ask("Hello", session="number-100")
    runtime.sessions.create("default", "chat", session_id="later")
    wait_until(lambda: source.tables.lag() == 0)

    changed = many.page(str(table["hx-get"]))

    assert ids(changed) == [f"number-{number:03}" for number in reversed(range(70, 120))]
    assert "idle" in words(row(changed, "number-100"))
    assert "1 new session: show it" in words(changed.select_one("hx-partial #news"))
    assert "All 121" in words(changed.select_one("hx-partial #segs"))


def test_rows_change_where_they_stand_while_the_list_is_looked_at(many: Browser, runtime: Runtime, tab: Tab) -> None:
    tab(lambda page: page.goto(many.inspector.address))
    tab(lambda page: page.wait_for_selector("#following .live"))

    runtime.ask("What is new?", session="number-100")
    runtime.sessions.create("default", "chat", session_id="later")

    tab(lambda page: page.wait_for_selector("tr:has-text('number-100'):has-text('What is new?'):has-text('idle')"))
    tab(lambda page: page.wait_for_selector("#news:has-text('1 new session')"))
    assert tab(lambda page: page.locator(".sessions tbody tr").first.inner_text()).split()[1] == "number-119"
    tab(lambda page: page.keyboard.press("f"))
    tab(lambda page: page.wait_for_selector("#following:has-text('held')"))
