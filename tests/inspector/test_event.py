"""The page of an event: why it happened, what came of it, and whether it can be believed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reenact._location import location_of
from reenact._runtime import codec
from reenact.domain.session.agent import AgentStarted, AgentStopped
from reenact.inspector import Source
from reenact.inspector.decision_marks import SessionMark
from reenact.inspector.pages.event import link_of
from reenact.projections.log import name_of
from tests.inspector.browsing import Browser, attribute, browsing, texts
from tests.inspector.marking import all_known, change
from tests.journal.support import commit, step


@pytest.fixture
def paid(night: Browser) -> int:
    """Return the position at which the second refund returned."""
    boxes = [box for box in night.page("/session?id=refunds").select("#rail .box") if "A-18" in box.get_text()]
    line = boxes[-1].find_parent("li")
    assert line is not None
    return int(str(line["id"]).removeprefix("p"))


def test_an_event_stands_between_its_causes_and_its_effects(night: Browser, paid: int) -> None:
    page = night.page(f"/event?at={paid}")

    causes, effects = (texts(page, f"section[aria-labelledby={side}] .rail .what > p:first-child") for side in "bt")
    assert texts(page, "h1, h2") == [f"Position {paid}", "Because", "refund returned", "Therefore"]
    assert causes[0] == 'A message came in: "Please refund order A-18".'
    assert causes[-1].endswith("of refund was started.")
    assert effects[0] == "1 result went back to the model."
    assert 'The model answered: "Order A-18: paid back 900 for A-18".' in effects
    assert texts(page, "section[aria-labelledby=b] .direct .pos") == [str(paid - 1)]


def test_it_says_who_allowed_a_call_and_after_how_long(night: Browser, paid: int) -> None:
    page = night.page(f"/event?at={paid}")

    pairs = dict(zip(texts(page, "dl.pairs dt"), texts(page, "dl.pairs dd"), strict=True))
    assert pairs["approved by"].startswith("night shift at ")
    assert pairs["approved by"].endswith("after 45 min 13 s")
    assert pairs["follows from"] == f"{paid - 1} and the tool refund"
    assert pairs["record"].endswith("of session/refunds")
    assert pairs["agent"].startswith("agt_")


def test_a_call_is_shown_with_what_it_was_given_and_what_it_returned(night: Browser, paid: int) -> None:
    page = night.page(f"/event?at={paid}")

    assert texts(page, ".self dl.io dt") == ["in", "out"]
    assert texts(page, ".self dl.io pre") == ["order: A-18 amount: 900", "paid back 900 for A-18"]


def test_the_record_agrees_with_its_digest_and_its_step_is_decided_the_same(night: Browser, paid: int) -> None:
    all_known(night.source)
    page = night.page(f"/event?at={paid}")

    assert texts(page, ".chain .k-good") == ["agrees", "agrees"]
    assert "Decided anew: the same" in page.get_text()
    assert '"type": "tool-result"' in texts(page, "details pre")[0]


def test_a_record_that_was_changed_afterwards_is_named(night_copy: Path) -> None:
    change(night_copy, "UPDATE steps SET recorded_at = recorded_at + 1 WHERE stream = 'session/poem' AND version = 1")
    with Source.open(night_copy) as source, browsing(source) as browser:
        first = source.log.find(stream="session/poem", limit=1)[0].position

        page = browser.page(f"/event?at={first}")

    assert texts(page, ".chain .k-fail") == ["changed afterwards"]
    assert page.select_one(".note.bad") is not None


def test_events_of_all_kinds_have_pages(night: Browser) -> None:
    kinds = {name_of(row.event): row.position for row in night.source.log.read_all()}

    assert len(kinds) > 20
    for name, position in kinds.items():
        page = night.page(f"/event?at={position}")
        assert texts(page, ".title .chip") == [name]
        assert not texts(page, ".chain .k-fail")


def test_an_event_of_a_container_belongs_to_no_session(night: Browser) -> None:
    page = night.page("/event?at=1")

    assert texts(page, ".big") == ["Container shop was created."]
    assert texts(page, ".crumb") == ["Sessions"]


def test_a_position_that_has_no_event_is_refused(night: Browser) -> None:
    assert "there is no event at position 9999" in night.page("/event?at=9999", 400).get_text()
    assert "invalid_input" in night.page("/event", 400).get_text()


def test_a_step_that_today_s_code_decides_otherwise_is_named(night_copy: Path) -> None:
    with location_of(night_copy).open(codec()) as journal:
        end = journal.stream_end("session/poem")
        assert end is not None
        at = commit(journal, step("session/poem", end[0], AgentStarted("nobody"))).position
        after = commit(journal, step("session/poem", end[0] + 1, AgentStopped("nobody", "stop"))).position
    with Source.open(night_copy) as source, browsing(source) as browser:
        all_known(source)
        first = source.log.find(stream="session/poem", limit=1)[0].position
        page, earlier, later = (browser.page(f"/event?at={one}") for one in (at, first, after))

    assert texts(page, ".chain .k-fail") == ["decided otherwise"]
    assert texts(earlier, ".chain .k-good") == ["agrees", "agrees"]
    assert "Not decided anew after what today's code decides otherwise" in later.get_text()


def test_a_damaged_row_keeps_no_other_session_from_being_decided_anew(night_copy: Path) -> None:
    change(night_copy, "UPDATE steps SET events = x'c1c1' WHERE stream = 'session/refunds' AND version = 1")
    with Source.open(night_copy) as source, browsing(source) as browser:
        all_known(source)
        first = source.log.find(stream="session/poem", limit=1)[0].position
        page = browser.page(f"/event?at={first}")

    assert texts(page, ".chain .k-good") == ["agrees", "agrees"]


def test_nothing_is_said_of_a_step_before_it_was_decided_anew(night: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_session: str) -> None:
        return None

    monkeypatch.setattr(night.source.marks, "session", unknown)

    assert "Not decided anew so far" in night.page("/event?at=60").get_text()


def test_nothing_is_said_of_a_step_in_a_session_of_which_something_was_taken_out(
    night: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mark_of(session_id: str) -> SessionMark:
        return SessionMark(session_id, 165, 165, 10, 5, 1, None, datetime.now(UTC))

    monkeypatch.setattr(night.source.marks, "session", mark_of)

    assert "Not decided anew because something was taken out" in night.page("/event?at=60").get_text()


def test_a_record_whose_cells_are_none_of_ours_is_no_link(night_copy: Path) -> None:
    change(night_copy, "UPDATE steps SET digest = 7 WHERE stream = 'session/poem' AND version = 1")
    with Source.open(night_copy) as source:
        assert link_of(source.log, "session/poem", 1) is None
        assert link_of(source.log, "session/nobody", 1) is None


def test_what_followed_in_a_branch_stands_with_the_event_that_both_share(night: Browser) -> None:
    branched, *_ = night.source.log.find(names=["session-branched"])
    shared = night.source.log.find(stream="session/poem", until_version=7, backwards=True, limit=1)[0]

    page = night.page(f"/event?at={shared.position}")

    branch = branched.stream.removeprefix("session/")
    assert texts(page, ".of-branch") == [f"in the branch {branch}"]
    assert attribute(page.select_one(".of-branch a"), "href") == f"/session?id={branch}"
    assert texts(page, ".of-branch + .rail .direct .pos") == [str(branched.position)]


def test_a_person_s_decision_in_a_branch_follows_from_what_was_asked_before_it(night: Browser) -> None:
    *_, asked = night.source.log.find(stream="session/refunds", names=["human-approve-required"])
    (rejected,) = night.source.log.find(names=["tool-rejected"])

    page = night.page(f"/event?at={asked.position}")

    assert str(rejected.position) in texts(page, ".of-branch + .rail .direct .pos")
    assert "Nothing has followed" not in page.get_text()
    assert not texts(night.page(f"/event?at={rejected.position}"), ".of-branch")
