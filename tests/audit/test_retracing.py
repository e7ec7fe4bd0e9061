"""The histories of logs, decided once more: as they were recorded, or it is said where not; and nothing is touched."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given, settings

from reenact import SessionNotFoundError
from reenact._runtime import codec
from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.audit import Audit, Retraced, UnrecordedRules
from reenact.domain.agent import AgentStarted, ResultsRecorded, RulesRecorded, SoFar, TurnCompleted, TurnStarted
from reenact.domain.container import ContainerCreated
from reenact.domain.image import Definition, ImageRegistered
from reenact.domain.messages import TextBlock
from reenact.domain.session import SessionBranched, SessionCreated
from reenact.domain.stored import STORED
from reenact.projections.audit import retrace as retracing
from reenact.projections.audit.api import Progress
from reenact.projections.audit.retrace import retrace
from tests.projections.audited import AuditedList
from tests.projections.histories import RULES, Step, World, play
from tests.projections.histories import Recorded as Listed
from tests.projections.histories import steps as doings


class Foreign(msgspec.Struct, frozen=True, array_like=True):
    amount: int


CREATED = SessionCreated("s", "c", "i", 1)
FORMS = [StoredForm(name, kind) for name, kind in STORED.items()]
_NOTHING = SoFar()
_ANSWER = SoFar(
    message_id="m", content=(TextBlock("Hi"),), stop_reason="end_turn", usage={"input_tokens": 7}, model="small"
)
SHARED = EventCodec([*FORMS, StoredForm("counted", Foreign)])
"""What reads and writes a log that somebody else's actors write, too."""


class Together(AuditedList):
    """A log that knows what was recorded together."""

    def append(self, stream: str, *events: object) -> int:
        begun = len(self.rows)
        head = super().append(stream, *events)
        at = self.first + 1000 * begun
        self.rows[begun:] = [msgspec.structs.replace(row, recorded_at=at) for row in self.rows[begun:]]
        return head


def written(path: Path, steps: Sequence[tuple[str, Sequence[object]]], events: EventCodec = SHARED) -> Path:
    """Write a log of these steps, each at a time of its own, as if a runtime had."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    versions: dict[str, int] = {}
    with SqliteJournal.open(str(path), events, synchronous="OFF") as journal:
        for number, (stream, together) in enumerate(steps):
            step = Append(stream, versions.get(stream, 0), number, tuple(together))
            journal.append(step, outcomes.put)
            assert isinstance(outcomes.get(timeout=10), Committed)
            versions[stream] = versions.get(stream, 0) + len(together)
    return path


def steps_of(path: Path) -> list[tuple[str, list[Any]]]:
    """Return what was recorded together, and where."""
    with SqliteJournal.open(str(path), codec(), read_only=True) as journal:
        rows = journal.read_all(limit=100_000)
    together = groupby(rows, lambda row: (row.stream, row.recorded_at))
    return [(stream, [row.event for row in rows]) for (stream, _), rows in together]


def replayed(path: Path, session_id: str | None = None, rules: UnrecordedRules | None = None) -> dict[str, Retraced]:
    with Audit.open(path) as audit:
        return {one.stream: one for one in audit.replay(session_id, rules=rules)}


def test_every_history_of_a_log_is_decided_again(log: Path) -> None:
    found = replayed(log)

    assert [one for one in found.values() if one.divergence is not None] == []
    assert {one.session_id for one in found.values() if one.session_id} == {"a", "b", "z"}
    assert found["session/b"].events == sum(len(events) for stream, events in steps_of(log) if stream == "session/b")
    assert found["session/b"].steps == sum(stream == "session/b" for stream, _ in steps_of(log))
    assert found["image/i"].steps == found["container/c"].events == 1


def test_one_session_alone_is_decided_again_a_branch_from_what_it_shares(log: Path) -> None:
    branch = replayed(log, "z")

    assert list(branch) == ["session/z"]
    assert branch["session/z"].divergence is None
    assert branch["session/z"].steps > 1


def test_a_session_that_is_not_there_is_an_error(log: Path) -> None:
    with Audit.open(log) as audit, pytest.raises(SessionNotFoundError):
        list(audit.replay("nobody"))


@settings(max_examples=25)
@given(doings)
def test_random_histories_are_decided_again_and_what_others_have_recorded_is_told(chosen: list[Step]) -> None:
    log = Together()
    world = World(log)
    world.create("a", "x")
    world.create("b", "y")
    play(chosen, world)

    found = {one.stream: one for one in retrace(log)}

    assert set(found) == {row.stream for row in log.rows}
    for stream, one in found.items():
        assert (one.divergence is None) == (stream != "counter"), one
    assert sum(one.events for one in found.values()) == sum(row.stream != "counter" for row in log.rows)


def test_a_history_in_which_an_event_was_changed_parts_there(log: Path, tmp_path: Path) -> None:
    steps = steps_of(log)
    place, number = next(
        (place, number)
        for place, (stream, events) in enumerate(steps)
        for number, event in enumerate(events)
        if stream == "session/a" and isinstance(event, ResultsRecorded)
    )
    stream, events = steps[place]
    told = msgspec.structs.replace(events[number].content[0], content="7")
    changed = [*events[:number], msgspec.structs.replace(events[number], content=(told,)), *events[number + 1 :]]
    forged = written(tmp_path / "forged.db", [*steps[:place], (stream, changed), *steps[place + 1 :]])

    found = replayed(forged)
    parting = found["session/a"].divergence

    assert [one.stream for one in found.values() if one.divergence is not None] == ["session/a"]
    assert parting is not None
    assert parting.field == "content.0.content"
    assert parting.command == "Report"
    assert parting.recorded is not None
    assert parting.decided is not None
    assert (parting.recorded.type, parting.recorded.data["content"][0]["content"]) == ("results-recorded", "7")
    assert parting.decided.data["content"][0]["content"] == "3"
    with SqliteJournal.open(str(forged), codec(), read_only=True) as journal:
        (row,) = journal.find(after=(parting.position or 0) - 1, until=parting.position)
    assert (row.stream, row.version) == ("session/a", parting.version)
    assert found["session/a"].events == parting.version - 1


def test_a_history_that_ends_too_early_parts_at_its_end(tmp_path: Path) -> None:
    steps: list[tuple[str, list[object]]] = [
        ("session/s", [CREATED]),
        ("session/s", [AgentStarted("a"), TurnStarted("t", 1)]),
    ]

    parting = replayed(written(tmp_path / "log.db", steps))["session/s"].divergence

    assert parting is not None
    assert (parting.position, parting.version) == (3, 3)


def test_what_more_todays_code_decides_is_told(log: Path, tmp_path: Path) -> None:
    def cut(events: list[Any]) -> list[Any]:
        return events[:-1] if isinstance(events[-1], TurnCompleted) else events

    steps = [(stream, cut(events)) for stream, events in steps_of(log)]

    parting = replayed(written(tmp_path / "log.db", [step for step in steps if step[1]]))["session/a"].divergence

    assert parting is not None
    assert parting.decided is not None
    assert parting.decided.type == "turn-completed"
    assert (parting.position, parting.recorded) == (None, None)


def test_an_event_of_a_foreign_type_is_found_where_it_stands(log: Path, tmp_path: Path) -> None:
    steps = [*steps_of(log), ("session/b", [Foreign(1)]), ("counter", [Foreign(2)])]
    before = sum(len(events) for stream, events in steps[:-2] if stream == "session/b")
    last = sum(len(events) for _, events in steps)

    found = replayed(written(tmp_path / "log.db", steps))

    within, at_the_beginning = found["session/b"].divergence, found[""].divergence
    assert within is not None
    assert (within.version, found["session/b"].events) == (before + 1, before)
    assert "unknown type" in within.problem
    assert at_the_beginning is not None
    assert at_the_beginning.position == last
    assert found["session/a"].divergence is None


@pytest.mark.parametrize(
    ("stream", "events", "problem"),
    [
        ("container/c", [ContainerCreated("c", None), ContainerCreated("c", None)], "AlreadyExistsError"),
        ("container/c", [ImageRegistered("i", 1, Definition("i"))], "decides something else"),
        ("image/i", [ImageRegistered("i", 2, Definition("i"))], "decides something else"),
        (
            "image/i",
            [ImageRegistered("i", 1, Definition("i")), ImageRegistered("i", 2, Definition("i"))],
            "something else",
        ),
        ("session/s", [AgentStarted("a")], "SessionNotFoundError"),
        ("session/s", [SessionBranched("s", "c", "i", 1, "lost", 7, "d")], "branches off"),
        ("elsewhere", [CREATED], "decides something else"),
    ],
)
def test_what_no_code_of_ours_has_decided_is_a_finding(
    stream: str, events: list[object], problem: str, tmp_path: Path
) -> None:
    (found,) = replayed(written(tmp_path / "log.db", [(stream, [event]) for event in events])).values()

    assert found.divergence is not None
    assert problem in found.divergence.problem


def test_a_branch_of_what_cannot_be_taken_in_is_a_finding(tmp_path: Path) -> None:
    steps: list[tuple[str, list[object]]] = [
        ("session/s", [CREATED]),
        ("session/s", [TurnStarted("t", 1)]),
        ("session/z", [SessionBranched("z", "c", "i", 1, "s", 2, "d")]),
    ]

    found = replayed(written(tmp_path / "log.db", steps))["session/z"].divergence

    assert found is not None
    assert "cannot take in the history" in found.problem


def test_a_log_from_before_rules_were_recorded_needs_only_what_the_runtime_was_opened_with(
    log: Path, tmp_path: Path
) -> None:
    def old(stream: str, events: Sequence[object]) -> tuple[str, list[object]]:
        return stream, [event for event in events if not isinstance(event, RulesRecorded)]

    originals = [step for step in steps_of(log) if step[0] != "session/z"]  # whose branch counts on versions
    path = written(tmp_path / "old.db", [old(*step) for step in originals])

    assert [one for one in replayed(path).values() if one.divergence is not None] == []


def test_rules_that_are_told_hold_where_none_were_recorded(tmp_path: Path) -> None:
    world = World(Together())
    rules = RULES["x"]
    world.create("a")
    world.run("a")
    for doing in ("say", "answer"):
        play([(doing, "a", "x", _ANSWER)], world)
    definition = Definition(
        "i", max_steps=rules.max_steps, max_repeats=rules.max_repeats, cost_limit=rules.cost_limit, policies=None
    )
    together = groupby(world.log.rows, attrgetter("recorded_at"))
    steps: list[tuple[str, list[object]]] = [("image/i", [ImageRegistered("i", 1, definition)])]
    for _, rows in together:
        told = list(rows)
        steps.append((told[0].stream, [row.event for row in told if not isinstance(row.event, RulesRecorded)]))
    path = written(tmp_path / "old.db", steps)

    untold = replayed(path)["session/a"].divergence
    told_of = replayed(path, rules=UnrecordedRules(policies=rules.policies, prices=rules.prices))["session/a"]

    assert untold is not None
    assert untold.field == "cost"
    assert told_of.divergence is None


REACHING = (
    (socket, "socket"),
    (socket, "create_connection"),
    (subprocess, "Popen"),
    (threading.Thread, "start"),
    (time, "time"),
    (time, "time_ns"),
    (time, "sleep"),
)
"""What leads out of here."""


def test_nothing_is_reached_but_the_log(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("reached")

    with Audit.open(log) as audit, monkeypatch.context() as patch:
        for owner, name in REACHING:
            patch.setattr(owner, name, refuse)
        found = list(audit.replay())

    assert found
    assert all(one.divergence is None for one in found)


def test_deciding_again_loads_nothing_that_acts() -> None:
    code = "import sys, reenact.projections.audit.retrace; print(*sys.modules)"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # it loads sqlite3
    run = subprocess.run([sys.executable, "-P", "-c", code], env=environ, capture_output=True, text=True, check=True)

    loaded = set(run.stdout.split())

    assert "reenact.domain.retracing" in loaded
    assert [name for name in loaded if name.startswith(("reenact.actors", "anthropic", "sqlite3"))] == []


class Pages(Together):
    """A log that takes note of how much is read at once."""

    most = 0

    def find(self, **conditions: Any) -> Sequence[Listed]:  # noqa: ANN401 - passed on
        found = super().find(**conditions)
        self.most = max(self.most, len(found))
        return found


def test_a_long_history_is_read_page_by_page_and_progress_is_told() -> None:
    log = Pages()
    world = World(log)
    world.create("a")
    for _ in range(1500):
        world.run("a")
        world.stop("a", _NOTHING)
    told: list[Progress] = []

    found = list(retrace(log, progress=told.append))

    assert [(one.divergence, one.events) for one in found] == [(None, 3002)]
    assert log.most <= 1000
    assert [one.done for one in told] == [1000, 2000, 3000, 3002]
    assert {(one.phase, one.total) for one in told} == {("replay", 3002)}


def test_definitions_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retracing, "_DEFINITIONS", 2)
    log = Together()
    world = World(log)
    for number in range(4):
        world.register_image(f"i{number}", Definition(f"i{number}"))
        world.create(f"s{number}", image_id=f"i{number}")

    assert [one for one in retrace(log) if one.divergence is not None] == []
