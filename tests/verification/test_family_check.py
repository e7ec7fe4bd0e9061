"""What a parent and a child session say of each other is checked from both sides."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from reenact import Audit, Runtime
from reenact._runtime import codec
from reenact.actors.journal.evidence import EvidenceLog
from reenact.actors.journal.verify import evidence_of
from reenact.audit import Filter, verify_log
from reenact.domain.children import ChildEnded, ChildStarted
from reenact.domain.session.state import Session, SessionBranched, SessionCreated, SessionEvent, evolve
from reenact.projections.log import InMemoryRow, Row
from reenact.projections.verification.family_check import Links
from tests.runtime.families import Plan, factory, furnish
from tests.verification.forging import leave_out

PLAN: Plan = [[("agent", [[("agent", ["deep"])], "middle"]), ("agent", ["two"])], "top"]
Change: TypeAlias = Callable[[SessionEvent], SessionEvent]
"""Makes of an event what is told instead."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a root, two children and a grandchild."""
    path = tmp_path_factory.mktemp("family") / "log.db"
    with Runtime.open(path, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        assert runtime.ask(json.dumps(PLAN), session="root", timeout=60).text == "top"
        (child, *_) = runtime.sessions.list(parent="root")
        runtime.ask("And what else?", session=child.id, timeout=60)
    return path


class Held:
    """The rows of a log, which a test can change."""

    def __init__(self, log: Path) -> None:
        with evidence_of(str(log)) as evidence:
            read = EvidenceLog(evidence, codec())
            self.rows: list[Row] = list(read.read_all())
            self._digests = {
                (row.stream, row.version): read.digest_at(row.stream, row.version) for row in read.read_all()
            }

    def records(self, stream: str, *, after: int = 0) -> Iterator[Row]:
        return (row for row in self.rows if row.stream == stream and row.version > after)

    def digest_at(self, stream: str, version: int) -> bytes | None:
        return self._digests.get((stream, version))

    def change(self, kind: type[SessionEvent], change: Change) -> None:
        """Have the first event of the kind say something else."""
        events = ((n, row.event) for n, row in enumerate(self.rows) if isinstance(row.event, kind))
        place, event = next((n, event) for n, event in events if _is_linked(event))
        row = self.rows[place]
        cells = row.stream, row.version, row.position, row.recorded_at
        self.rows[place] = InMemoryRow(*cells, change(event), row.cause)

    def leave_out(self, stream: str) -> None:
        self.rows = [row for row in self.rows if row.stream != stream]

    def problems(self, *streams: str) -> tuple[list[str], int]:
        """Return what is wrong with the links of all sessions, or of some, and how many lead nowhere."""
        found: list[str] = []
        missing = 0
        every = dict.fromkeys(row.stream for row in self.rows if row.stream.startswith("session/"))
        for stream in streams or every:
            links, session = Links(self, lambda _: Session()), Session()
            for row in self.records(stream):
                event: Any = row.event
                after = evolve(session, event)
                found += filter(None, [links.problem_of(row, session, after)])
                session = after
            missing += links.missing
        return found, missing


def _is_linked(event: object) -> bool:
    return not isinstance(event, SessionCreated | SessionBranched) or event.parent is not None


def test_a_family_that_was_not_touched_is_whole(log: Path) -> None:
    verdict = verify_log(log)

    assert verdict.is_whole, verdict.text()
    assert verdict.kin_missing == 0
    assert Held(log).problems() == ([], 0)


def _adopted(**changes: object) -> Change:
    """Say something else of the parent of a session that was created."""

    def adopted(event: SessionEvent) -> SessionEvent:
        assert isinstance(event, SessionCreated)
        assert event.parent is not None
        return replace(event, parent=replace(event.parent, **changes))

    return adopted


def _told(**changes: object) -> Change:
    return lambda event: replace(event, **changes)


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        (SessionCreated, _adopted(version=1), "does not start this child session"),
        (SessionCreated, _adopted(version=9999), "does not start this child session"),
        (SessionCreated, _adopted(call_id="other"), "has called another session"),
        (SessionCreated, _adopted(root="other"), "does not begin with this call"),
        (SessionCreated, _told(parent=None), "does not begin with this call"),
        (SessionCreated, _told(image_revision=7), "has called another session"),
        (ChildStarted, _told(call_id="other"), "does not begin with this call"),
        (ChildStarted, _told(depth=2), "has called another session"),
        (ChildEnded, _told(outcome="failed"), "the child session has ended otherwise: completed"),
        (ChildEnded, _told(steps=7), "the child session has used"),
        (ChildEnded, _told(cost=0.5), "the child session has used"),
        (ChildEnded, _told(digest="ab"), "which is another one"),
        (ChildEnded, _told(version=999), "which is not there"),
        (ChildEnded, _told(version=4), "which is another one"),
    ],
)
def test_a_link_that_one_side_tells_otherwise_is_found(
    log: Path, kind: type[SessionEvent], change: Change, problem: str
) -> None:
    held = Held(log)

    held.change(kind, change)

    found, _ = held.problems()
    assert any(problem in one for one in found), found


def test_a_child_that_cannot_have_happened_is_found(log: Path) -> None:
    held = Held(log)
    child = next(row for row in held.rows if isinstance(row.event, SessionCreated) and row.event.parent is not None)

    held.rows = [row for row in held.rows if not (row.stream == child.stream and row.version == 3)]

    found, _ = held.problems("session/root")
    assert any("the child session cannot be read" in one for one in found), found


def test_the_end_of_a_child_that_another_session_has_started_is_found(log: Path) -> None:
    held = Held(log)
    ends = [(row.stream, row.event) for row in held.rows if isinstance(row.event, ChildEnded)]
    (other,) = {event.child_id: event for stream, event in ends if stream != "session/root"}.values()

    first = next(row for row in held.rows if isinstance(row.event, ChildEnded) and row.stream == "session/root")
    place = held.rows.index(first)
    cells = first.stream, first.version, first.position, first.recorded_at
    held.rows[place] = InMemoryRow(*cells, other, first.cause)

    found, _ = held.problems("session/root")
    assert any("this session has not started that child" in one for one in found), found


def test_links_to_sessions_that_are_not_in_the_log_are_counted(log: Path, tmp_path: Path) -> None:
    held = Held(log)
    (child, *_) = [row.event.child_id for row in held.rows if isinstance(row.event, ChildEnded)]
    parts = tmp_path / "part.db"
    with closing(sqlite3.connect(log)) as source, closing(sqlite3.connect(parts)) as target:
        source.backup(target)
        leave_out(target, f"session/{child}")
        target.commit()

    held.leave_out("session/root")
    verdict = verify_log(parts)

    assert held.problems() == ([], 2)
    assert verdict.is_whole, verdict.text()
    assert verdict.kin_missing > 0
    assert "sessions that are not in the log" in verdict.text()


def test_a_child_that_has_not_begun_yet_is_not_missed(log: Path) -> None:
    held = Held(log)
    started = next(row for row in held.rows if isinstance(row.event, ChildStarted))
    held.rows = [row for row in held.rows if row.position <= started.position]

    assert held.problems() == ([], 0)


def test_a_branch_shares_the_children_that_were_there_and_has_new_ones_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with Runtime.open(path, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        plan: Plan = [[("agent", ["one"])], "first", [("agent", ["two"])], "second"]
        assert runtime.ask(json.dumps(plan), session="root", timeout=60).text == "first"
        (shared,) = runtime.sessions.list(parent="root")
        runtime.sessions.branch("root", new_session_id="other")

        for session in ("root", "other"):
            assert runtime.ask("Go on", session=session, timeout=60).text == "second"

        (own,) = runtime.sessions.list(parent="other")
        _, first = runtime.sessions.list(parent="root")
        calls = {one: [call.result for call in runtime.sessions.tool_calls(one)] for one in ("root", "other")}
    with Audit.open(path) as audit:
        difference = audit.diff("root", right="other")
        own_begins = next(audit.entries(Filter(session="other"))).position
        verdict = audit.verify()

    assert first.id == shared.id
    assert own.parent is not None
    assert (own.parent.root, own.parent.depth) == ("other", 1)
    assert calls == {"root": ["one", "two"], "other": ["one", "two"]}
    assert (verdict.findings, verdict.kin_missing) == ((), 0)
    assert difference.common is not None
    assert difference.common.position < own_begins


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"digest": "ab"}, "has called another session"),
        ({"version": 1}, "has called another session"),
        ({"origin": "other"}, "has called another session"),
        ({"budget": None}, "has called another session"),
        ({"parent": None}, "does not begin with this call"),
    ],
)
def test_a_branch_of_a_child_that_says_something_else_than_its_parent_is_found(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = tmp_path / "log.db"
    with Runtime.open(path, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.ask(json.dumps([[("agent", [[("send", {"to": "ann"})], "sent"])], "top"]), session="root", timeout=60)
        runtime.sessions.branch("root", new_session_id="b")
        (child,) = runtime.sessions.list(parent="b")
    held = Held(path)

    held.change(SessionBranched, lambda event: replace(event, **change))

    found, _ = held.problems("session/b", f"session/{child.id}")
    assert any(problem in one for one in found), found
