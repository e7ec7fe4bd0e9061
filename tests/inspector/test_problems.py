"""Pages that cannot be made, or not yet, say so, and what to do; the others are there."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

from reenact.actors.journal.deadline import reading_for
from reenact.domain.errors import ReadTooLongError
from reenact.domain.plain import made
from reenact.inspector import Source, app
from reenact.inspector import source as source_module
from reenact.projections.errors import QueryTooLongError
from reenact.projections.log import OnProgress, Progress
from reenact.projections.read_model.reader_tables import ReaderTables
from tests.inspector.browsing import Browser, browsing, words
from tests.inspector.marking import all_known, change, known


def test_while_tables_are_made_pages_say_how_far_and_sessions_are_there(
    night_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def slow(*given: object, progress: OnProgress, **others: object) -> ReaderTables:
        progress(Progress("read model", 40, None))
        assert may_go_on.wait(30)
        return made(ReaderTables, *given, progress=progress, **others)

    monkeypatch.setattr(source_module, "ReaderTables", slow)
    monkeypatch.setattr(source_module, "PATIENCE", 0.01)
    with Source.open(night_log) as source, browsing(source) as browser:
        page = browser.page("/", 503)
        assert "40 of 165 events are in them" in words(page.main)
        assert page.select_one("meta[http-equiv=refresh][content='2']")
        assert browser.page("/session?id=poem").select("#rail > li")

        may_go_on.set()
        monkeypatch.setattr(source_module, "PATIENCE", 30.0)

        assert browser.page("/").select("tbody tr")
        assert "private tables" in words(browser.page("/").footer)


def test_an_inspector_can_be_ended_while_tables_are_made(night_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_made = threading.Event()

    def endless(*_: object, progress: OnProgress, **_others: object) -> NoReturn:
        is_made.set()
        while True:
            progress(Progress("read model", 40, None))
            time.sleep(0.001)

    monkeypatch.setattr(source_module, "ReaderTables", endless)
    with Source.open(night_log):
        assert is_made.wait(30)


def test_of_a_damaged_log_is_shown_what_can_be(night_copy: Path) -> None:
    change(night_copy, "UPDATE steps SET events = x'00' WHERE count > 0 AND number > 8 AND number < 20")

    with Source.open(night_copy) as source, browsing(source) as browser:
        known(source, lambda now: now.chain.findings)
        page = browser.page("/", 503)

        assert "The tables of this log cannot be read" in words(page.main)
        assert page.select_one(".seals .bad")
        assert browser.page("/session?id=mail-2026-11-21").select("#rail > li")
        assert browser.page("/chain").select("tbody tr")


def test_tables_that_could_not_be_made_are_tried_again(night_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "RETRY_AFTER", 0.0)
    failing = [OSError("no space left")]

    def fail_once(*given: object, progress: OnProgress, **others: object) -> ReaderTables:
        if failing:
            raise failing.pop()
        return made(ReaderTables, *given, progress=progress, **others)

    monkeypatch.setattr(source_module, "ReaderTables", fail_once)
    with Source.open(night_log) as source, browsing(source) as browser:
        while failing:
            time.sleep(0.001)

        assert browser.page("/").select("tbody tr")


@pytest.mark.parametrize("error", [QueryTooLongError(5), ReadTooLongError(10)])
def test_a_page_that_takes_too_long_says_so(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(browser.source.log, "find", fail)
    monkeypatch.setattr(browser.source.log, "select", fail)

    page = browser.page("/session?id=greeting", 503)

    assert "This page would take too long" in words(page.main)
    assert "ask for less" in words(page.main)


def test_a_mistake_of_a_page_becomes_a_page_as_well(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def find(**_: object) -> list[int]:
        return [1]

    monkeypatch.setattr(browser.source.log, "find", find)

    assert "This page cannot be shown" in words(browser.page("/session?id=greeting", 500).main)
    assert "AttributeError" in caplog.text


def test_a_page_reads_the_log_for_so_long_and_no_longer(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SECONDS", 0.0)

    assert "would take too long" in words(browser.page("/session?id=greeting", 503).main)


def test_who_has_time_reads_on(browser: Browser) -> None:
    with reading_for(30):
        assert browser.source.log.head()
    with reading_for(0), pytest.raises(ReadTooLongError, match="0 seconds"):
        browser.source.log.head()
    assert browser.source.log.head()


def test_what_is_not_in_the_log_is_said_plainly(browser: Browser) -> None:
    assert "there is no page /nowhere" in browser.page("/nowhere", 404).text
    page = browser.page("/session?id=nobody", 404)

    assert "There is nothing like that in this log" in words(page.main)


@pytest.mark.parametrize("name", ["path", "self"])
@pytest.mark.parametrize("page", ["/", "/rows", "/session", "/costs"])
def test_parameters_that_no_page_knows_are_left_alone(browser: Browser, page: str, name: str) -> None:
    browser.page(f"{page}?id=greeting&{name}=1")


def test_tables_that_are_behind_say_so(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    all_known(browser.source)
    tables = browser.source.tables
    monkeypatch.setattr(tables, "lag", lambda: 12)
    monkeypatch.setattr(ReaderTables, "is_private", False)

    assert "12 events behind the log" in words(browser.page("/").select_one("main > .note"))
    assert browser.page("/chain").select_one("main > .note") is None


def test_a_rail_is_dashed_where_nobody_has_looked(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    all_known(browser.source)
    assert not browser.page("/session?id=greeting").select(".rail .unverified")

    known = browser.source.marks.now()
    known = type(known)(type(known.chain)(position=4))
    monkeypatch.setattr(browser.source.marks, "now", lambda: known)

    dashed = [int(one.text) for one in browser.page("/session?id=greeting").select(".rail .unverified > .pos")]
    assert dashed
    assert min(dashed) > 4
