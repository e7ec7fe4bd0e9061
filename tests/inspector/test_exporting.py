"""A session as one page for a mail: it has all that there is, runs nothing and asks nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from reenact import Image, Runtime
from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.inspector import Source, exporting
from reenact.inspector.exporting import page_of
from reenact.testing import MockEnvironmentFactory
from tests.browsers import Tab
from tests.inspector.browsing import Browser, texts
from tests.inspector.marking import change

NOW = datetime(2026, 11, 21, 4, 22, 21, tzinfo=UTC)


def page(browser: Browser, session_id: str) -> BeautifulSoup:
    return BeautifulSoup(page_of(browser.source.log, "night.db", session_id, NOW), "html.parser")


def test_the_page_has_what_the_inspector_shows_of_the_session(night: Browser) -> None:
    exported, shown = page(night, "mail-2026-11-21"), night.page("/session?id=mail-2026-11-21")

    assert texts(exported, ".talk .text") == texts(shown, "#talk .text")
    assert texts(exported, ".rail .box pre") == texts(shown, "#rail .box pre")
    assert texts(exported, ".title .chip") == ["waits for a person"]
    assert texts(exported, ".seal") == ["Every record agreed with its digest"]
    assert "25 min 46 s so far" in texts(exported, ".rail .idle")[-1]


def test_it_needs_nothing_else_and_all_its_links_are_in_it(night: Browser) -> None:
    exported = page(night, "mail-2026-11-21")

    ids = [str(one["id"]) for one in exported.select("[id]")]
    assert not exported.select("script, link, img, iframe, form, [style], [onclick]")
    assert len(ids) == len(set(ids))
    links = [str(link["href"]) for link in exported.select("a")]
    assert {link[0] for link in links} == {"#"}
    assert {link[1:] for link in links} <= set(ids)


def test_hostile_content_is_text_in_it(night: Browser) -> None:
    exported = page(night, "mail-2026-11-21")

    assert "<script>alert('approve all')</script>" in exported.get_text()
    assert "\u202e" not in exported.get_text()


def test_a_browser_shows_it_without_running_or_asking_anything(night: Browser, tab: Tab) -> None:
    exported = page_of(night.source.log, "night.db", "mail-2026-11-21", NOW)

    tab(lambda page: page.set_content(exported))

    assert tab(lambda page: page.locator(".rail .box").count()) == 5
    assert tab.violations() == []
    assert tab.requested == []
    assert tab.said == []


def test_it_says_where_the_log_was_changed_afterwards(night_copy: Path) -> None:
    change(night_copy, "UPDATE steps SET recorded_at = recorded_at + 1 WHERE stream = 'session/poem' AND version = 1")
    with Source.open(night_copy) as source:
        exported = BeautifulSoup(page_of(source.log, "night.db", "poem", NOW), "html.parser")
        position = source.log.find(stream="session/poem", limit=1)[0].position

    assert texts(exported, ".seal.bad") == [f"Changed afterwards, at position {position}"]


def test_a_session_that_is_not_there_or_too_long_has_no_page(long: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "MOST", 3000)

    with pytest.raises(SessionNotFoundError):
        page(long, "nobody")
    with pytest.raises(InvalidInputError, match="and a page at most 3,000"):
        page(long, "long")


def test_it_is_written_where_the_locale_knows_ascii_alone(tmp_path: Path) -> None:
    with Runtime.open(tmp_path / "log.db", environment=MockEnvironmentFactory(delays=False)) as runtime:
        session_id = runtime.ask("Hello", image=Image(id="chat")).session_id
    ascii_alone = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "HOME": str(tmp_path)}
    words = ["export", "page.html", "--html", session_id, "--db", "log.db"]

    done = subprocess.run(
        [sys.executable, "-m", "reenact", *words],
        env={**os.environ, **ascii_alone},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert 'content: "▸"' in (tmp_path / "page.html").read_text("utf-8")
