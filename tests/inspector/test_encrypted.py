"""Pages of an encrypted log: as ever with its keys, nothing that was said without, and nothing that was forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from bs4 import BeautifulSoup

from reenact import KeyRing, Runtime, SessionForgottenError
from reenact._location import location_of
from reenact._runtime import codec
from reenact.inspector import Source
from reenact.inspector.exporting import page_of
from reenact.testing import wait_until
from tests.inspector.browsing import Browser, browsing, texts, words
from tests.inspector.marking import all_known, known
from tests.journal.test_encryption import Service
from tests.logs import log_at
from tests.runtime.families import PRICES, factory, furnish

SECRET = "pineapple"  # noqa: S105 - of a story
HARM: Final = "<script>alert(1)</script>\u202e\x1b[2J"
PAGES: Final = (
    "/",
    f"/?text={SECRET}",
    "/waiting",
    "/costs",
    "/branches",
    "/branches?id=other",
    "/chain",
    "/keys",
    "/session?id=other",
    "/session?id=waits",
    "/session?id=talk",
    "/session?id=root",
    "/state?id=other&at=40",
    "/interrupt?id=other",
    "/branch?id=other&at=40",
    *(f"/event?at={position}" for position in range(1, 62, 4)),
    *(f"/value?at={position}" for position in (3, 20, 40)),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a log and its ring; in it are a session, one that waits, and a family and a branch forgotten."""
    directory = tmp_path_factory.mktemp("encrypted")
    ring = KeyRing.generate(directory / "ring.keys")
    with Runtime.open(
        log_at(directory / "log.db"), environment=factory(), keys=ring, prices=PRICES, synchronous="OFF"
    ) as runtime:
        furnish(runtime)
        runtime.ask(json.dumps([[("agent", [f"the {SECRET}"])], f"done, {SECRET}"]), session="root")
        for session_id in ("talk", "other", "waits"):
            runtime.sessions.create("c", "agent", session_id=session_id)
        runtime.ask(json.dumps([f"{SECRET}, forgotten"]), session="talk")
        runtime.sessions.branch("talk", new_session_id="branch")
        runtime.ask(json.dumps([f"{SECRET}, kept"]), session="other")
        runtime.agents.receive(runtime.sessions.run("waits"), json.dumps([[("send", {"to": SECRET})], "x"]))
        wait_until(runtime.agents.pending, what="a call waits")
        runtime.sessions.forget("root", by=HARM, why=HARM, family=True)
        runtime.sessions.forget("talk", by="ada", why="asked for", family=True)
    return directory


@pytest.fixture
def keys(directory: Path) -> KeyRing | None:
    return KeyRing.file(directory / "ring.keys")


@pytest.fixture
def browser(directory: Path, keys: KeyRing | None) -> Iterator[Browser]:
    location = location_of(log_at(directory / "log.db"), keys)
    with Source.open(location) as source, browsing(source) as browser:
        yield browser


def test_with_its_keys_a_log_is_shown_as_ever_but_for_what_was_forgotten(browser: Browser) -> None:
    all_known(browser.source)
    page = browser.page("/")
    shown = {one.get_text().strip() for one in page.select("a[href^='/session?']")}
    states = " ".join(texts(page, "body"))

    assert {"other", "waits", "talk", "root", "branch"} <= {word for text in shown for word in text.split()}
    assert states.count("forgotten") >= 4
    assert f"{SECRET}, kept" in browser.page("/session?id=other").get_text()
    assert SECRET in browser.page("/waiting").get_text()
    assert texts(page, ".seals .seal")[1] == "Decides the same, 2 of 2"
    assert "but for 4 that were forgotten" in str(page.select(".seals .seal")[1]["title"])
    assert "2 of 2 sessions; 4 were forgotten" in " ".join(texts(browser.page("/chain"), "body"))


@pytest.mark.parametrize("session_id", ["talk", "branch", "root"])
def test_the_page_of_a_session_that_was_forgotten_is_gone(browser: Browser, session_id: str) -> None:
    for address in (f"/session?id={session_id}", f"/state?id={session_id}&at=61"):
        page = browser.page(address, 410)

        assert "This session was forgotten" in words(page.select_one("main") or page.body)
        assert SECRET not in page.get_text()
    all_known(browser.source)
    seal = browser.page(f"/session?id={session_id}", 410).select(".seals .seal")[1]
    assert seal.get_text().strip() == "Not decided anew"


def test_branches_that_were_forgotten_are_named_and_say_nothing(browser: Browser) -> None:
    page = browser.page("/branches?id=talk")

    assert "Nobody can read what was said" in page.get_text()
    assert SECRET not in page.get_text()
    assert not page.select("a[href^='/session?id=talk']")


def test_who_has_forgotten_it_and_why_stands_there_as_text(browser: Browser) -> None:
    for address in ("/", "/branches"):
        response = browser.client.get(address)
        assert "<script>alert" not in response.text
        assert "\u202e" not in response.text
        assert "\x1b" not in response.text


def test_nothing_of_what_was_forgotten_is_on_any_page(browser: Browser) -> None:
    for address in PAGES:
        response = browser.client.get(address)
        assert f"{SECRET}, forgotten" not in response.text, address
        assert f"the {SECRET}" not in response.text, address


def test_a_session_is_exported_as_a_page_with_the_keys_and_one_that_was_forgotten_never(
    directory: Path, keys: KeyRing
) -> None:
    now = datetime.now(UTC)
    with location_of(log_at(directory / "log.db"), keys).open(codec(), read_only=True) as log:
        page = page_of(log, "log.db", "other", now)
        assert f"{SECRET}, kept" in BeautifulSoup(page, "html.parser").get_text()
        for session_id in ("talk", "branch", "root"):
            with pytest.raises(SessionForgottenError):
                page_of(log, "log.db", session_id, now)


class TestWithoutKeys:
    """Nothing was said wrong, and nothing can be read."""

    @pytest.fixture(params=["none", "another"])
    def keys(self, request: pytest.FixtureRequest, tmp_path: Path) -> KeyRing | None:
        return None if request.param == "none" else KeyRing.generate(tmp_path / "another.keys")

    def test_no_page_has_anything_that_was_said(self, browser: Browser) -> None:
        for address in PAGES:
            response = browser.client.get(address)
            assert response.status_code in (200, 400, 410, 503), address
            assert SECRET not in response.text.replace(f"text={SECRET}", "").replace(f'value="{SECRET}"', ""), address
            assert "<script>alert" not in response.text

    def test_a_page_says_that_the_log_is_encrypted_and_what_to_do(self, browser: Browser) -> None:
        for address in ("/", "/session?id=other", "/event?at=50"):
            page = words(browser.page(address, 503).body)
            assert "This log is encrypted" in page
            assert "--keys FILE" in page or "has no key" in page

    def test_it_is_not_claimed_that_anything_was_decided_anew(self, browser: Browser) -> None:
        now = known(browser.source, lambda now: now.decisions.problem and now.chain.ended)
        page = browser.page("/chain")

        assert (now.decisions.same, now.chain.findings, now.problem) == (0, (), "")
        chain, decisions = texts(page, ".seals .seal")
        assert chain.startswith("Chain whole up to ")
        assert decisions == "Not decided anew"
        assert "Not decided anew" in texts(browser.page("/session?id=other", 503), ".seals .seal")


def test_while_the_keys_cannot_be_had_nothing_is_claimed_and_afterwards_all_is_looked_at(tmp_path: Path) -> None:
    service = Service()
    keys = KeyRing.custom(service.wrap, service.unwrap)
    log = log_at(tmp_path / "log.db")
    with Runtime.open(log, environment=factory(), keys=keys, prices=PRICES, synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.ask(json.dumps([f"the {SECRET}"]), session="root")

    service.is_down = True
    with Source.open(location_of(log, keys)) as source, browsing(source) as browser:
        down = known(source, lambda now: now.decisions.problem)
        service.is_down = False
        up = all_known(source)

        assert "nobody answers" in down.decisions.problem
        assert (down.decisions.same, up.decisions.same, up.decisions.known, up.decisions.problem) == (0, 1, 1, "")
        assert "This log is encrypted" not in words(browser.page("/session?id=root").body)
