"""Whether a log can be believed: each page says so, how far, and as of when."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime
from reenact._location import location_of
from reenact._runtime import codec
from reenact.actors.journal.walk import Finding
from reenact.domain.session.agent import AgentStarted
from reenact.inspector import Source, chain_marks, decision_marks
from reenact.inspector.chain_marks import ChainMark
from reenact.inspector.marks import CheckResults
from reenact.inspector.pages.chain import seals_of
from reenact.inspector.rendering import Address
from tests.inspector.browsing import browsing
from tests.inspector.marking import all_known, change, known
from tests.journal.support import commit, step

ROOT = Address("", "/", {})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at all of the log again as soon as that was done."""
    monkeypatch.setattr(chain_marks, "REST", 0.0)
    monkeypatch.setattr(chain_marks, "SHARE", 0)


def flip(log: Path, position: int) -> None:
    """Change a byte of what was recorded at a position."""
    change(
        log,
        "UPDATE steps SET events = CAST(substr(events, 1, length(events) - 1) || x'00' AS BLOB) "
        "WHERE count > 0 AND position <= ? AND position + count > ?",
        position,
        position,
    )


def test_a_log_that_nobody_touched_gets_both_seals_with_its_position(night_log: Path) -> None:
    with Source.open(night_log) as source, browsing(source) as browser:
        now = all_known(source)
        page = browser.page("/")

        assert (now.chain.position, now.chain.findings) == (165, ())
        assert (now.decisions.same, now.decisions.known, now.decisions.parted) == (11, 11, ())
        chain, decisions = page.select(".seals .seal")
        assert (chain["class"], chain.text.strip()) == (["seal"], "Chain whole up to 165")
        assert f"{now.chain.ended and now.chain.ended.astimezone():%H:%M:%S}" in str(chain["title"])
        assert (decisions["class"], decisions.text.strip()) == (["seal"], "Decides the same, 11 of 11")
        assert "Every record is as it was written" in browser.page("/chain").text


def test_a_byte_that_was_changed_is_a_red_mark_with_its_position(night_copy: Path) -> None:
    flip(night_copy, 43)

    with Source.open(night_copy) as source, browsing(source) as browser:
        (finding,) = known(source, lambda now: now.chain.ended).chain.findings
        page = browser.page("/chain")
        seal = page.select_one(".seals .seal.bad")

        assert finding.position is not None
        assert finding.position <= 43
        assert finding.name.startswith("session/")
        assert seal is not None
        assert seal.text.strip() == f"Changed at {finding.position}"
        (row,) = page.select("#chain ~ table tbody tr, section[aria-labelledby=chain] tbody tr")
        assert finding.problem in row.text
        assert row.select_one(f"a.pos[href='/event?at={finding.position}']")
        assert "proves nothing" in page.text
        assert source.marks.now().chain.verified_up_to(finding.name) == finding.position - 1
        assert source.marks.now().chain.verified_up_to("session/other") == 165


@pytest.mark.usefixtures("impatient")
def test_a_change_of_what_was_looked_at_already_is_found_the_next_time(night_copy: Path) -> None:
    with Source.open(night_copy) as source:
        assert not all_known(source).chain.findings

        flip(night_copy, 43)

        assert known(source, lambda now: now.chain.findings).chain.findings


def test_rows_that_are_gone_at_the_end_are_missed(night_copy: Path) -> None:
    with Source.open(night_copy) as source:
        all_known(source)

        change(night_copy, "DELETE FROM steps WHERE position >= 160")

        now = known(source, lambda now: now.chain.findings and now.chain.ended)
        assert now.chain.findings[0].problem.startswith("the log ended at position 165 when it was looked at, and now ")


@pytest.mark.usefixtures("impatient")
def test_a_file_that_is_no_database_any_more_is_no_green_seal(night_copy: Path) -> None:
    with Source.open(night_copy) as source:
        all_known(source)

        size = night_copy.stat().st_size
        night_copy.write_bytes(b"nothing " * (size // 8))

        now = known(source, lambda now: now.problem)
        assert seals_of(source, ROOT).chain.kind == "bad"
        assert now.problem


@pytest.fixture
def talked(runtime: Runtime) -> Runtime:
    """Return a runtime that writes a log in which there are three sessions."""
    runtime.containers.create(container_id="default")
    for session_id in ("first", "second", "third"):
        runtime.sessions.create("default", "chat", session_id=session_id)
        runtime.ask("Hello", session=session_id)
    return runtime


def test_what_is_written_meanwhile_is_looked_at_as_it_comes(talked: Runtime, log: str) -> None:
    with Source.open(log) as source:
        before = all_known(source)

        talked.ask("And now?", session="second")
        talked.sessions.create("default", "chat", session_id="fourth")
        after = all_known(source)

        assert after.chain.position > before.chain.position
        assert not after.chain.findings
        assert (after.decisions.same, after.decisions.known) == (4, 4)
        mark = source.marks.session("second")
        assert mark is not None
        assert mark.position <= after.chain.position
        assert seals_of(source, Address("", "/session", {"id": "second"})).decisions.kind == "good"


def test_a_seal_is_not_green_before_all_that_is_shown_was_looked_at(
    night_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Source.open(night_log) as source:
        now = all_known(source)
        monkeypatch.setattr(source.log, "head", lambda: 170)

        seals = seals_of(source, ROOT)
        session = seals_of(source, Address("", "/session", {"id": "poem"}))

        assert (seals.chain.kind, seals.chain.label) == ("busy", "whole up to 165 of 170")
        assert seals.decisions.kind == session.decisions.kind == "busy"
        assert now.chain.position == seals.verified == 165


def unknown(_session: str) -> None:
    return None


def test_nothing_is_green_that_nobody_has_looked_at(night_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Source.open(night_log) as source:
        monkeypatch.setattr(source.marks, "now", lambda: CheckResults(ChainMark(position=40)))
        monkeypatch.setattr(source.marks, "session", unknown)

        seals = seals_of(source, ROOT)

        assert (seals.chain.kind, seals.chain.label) == ("busy", "verified up to 40 of 165")
        assert seals.decisions.kind == "busy"
        assert seals_of(source, Address("", "/state", {"id": "poem"})).decisions.label == "Not decided anew yet"
        with browsing(source) as browser:
            assert browser.page("/chain").select_one("svg.meter[aria-label='24 percent']")


def test_a_session_that_todays_code_decides_otherwise_is_named_with_its_position(night_copy: Path) -> None:
    with location_of(night_copy).open(codec()) as journal:
        end = journal.stream_end("session/poem")
        assert end is not None
        at = commit(journal, step("session/poem", end[0], AgentStarted("nobody"))).position

    with Source.open(night_copy) as source, browsing(source) as browser:
        (parted,) = all_known(source).decisions.parted
        page = browser.page("/chain")

        assert parted.session_id == "poem"
        assert parted.parting is not None
        assert parted.parting.position == at
        assert [one.text.strip() for one in page.select(".seals .bad")] == ["1 decided otherwise"]
        assert page.select_one(f"a[href='/session?id=poem&at={at}']")
        assert seals_of(source, Address("", "/session", {"id": "poem"})).decisions.label == f"Decided otherwise at {at}"


def test_no_more_sessions_are_known_than_so_many(night_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_marks, "KEPT", 3)

    with Source.open(night_copy) as source:
        now = known(source, lambda now: now.decisions.is_all and now.chain.ended)
        old = source.marks.session("poem")

        assert now.decisions.known <= 11
        assert now.decisions.same == now.decisions.known
        assert old is None or old.session_id == "poem"


def test_a_long_session_is_not_decided_anew_from_its_beginning_at_each_event(
    talked: Runtime, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_marks, "LONG", 1)
    monkeypatch.setattr(decision_marks, "PATIENCE", 10_000)
    with Source.open(log) as source:
        all_known(source)
        mark = source.marks.session("third")

        talked.ask("And now?", session="third")
        head = source.log.head()
        now = known(source, lambda now: now.chain.position >= head)

        assert source.marks.session("third") == mark
        assert not now.decisions.is_all
        assert seals_of(source, Address("", "/session", {"id": "third"})).decisions.kind == "busy"


def test_findings_without_a_session_are_shown_as_well(night_copy: Path) -> None:
    change(night_copy, "DELETE FROM steps WHERE number = (SELECT max(number) - 3 FROM steps)")

    with Source.open(night_copy) as source, browsing(source) as browser:
        findings = known(source, lambda now: now.chain.ended).chain.findings

        assert any(finding.kind == "log" for finding in findings)
        assert len(browser.page("/chain").select("section[aria-labelledby=chain] tbody tr")) == len(findings)


def test_where_a_finding_says_nothing_of_a_position_no_rail_is_verified() -> None:
    mark = ChainMark(position=9, findings=(Finding("file", "", 0, "it is none"),))

    assert mark.verified_up_to("session/any") == 0
