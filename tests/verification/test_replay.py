"""The histories of logs, decided once more: as they were recorded, or it is said where not; and nothing is touched."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn

import msgspec
import pytest
from hypothesis import given, settings

from reenact import Image, Runtime, SessionNotFoundError, tool
from reenact._runtime import codec
from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.audit import Audit, Retraced, verify_log
from reenact.domain.container import ContainerCreated, CreateContainer
from reenact.domain.history.causes import AnyCommand, cause_of
from reenact.domain.history.stored import STORED
from reenact.domain.image import Definition, ImageRegistered, RegisterImage
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import AgentStarted, ReceivedAnswer, ResultsRecorded, TurnCompleted, TurnStarted
from reenact.domain.session.commands import CreateSession, Run
from reenact.domain.session.state import SessionBranched, SessionCreated
from reenact.projections.log import Progress
from reenact.projections.verification.replay import HistoryReplay, retrace
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.examples import examples
from tests.projections.audited import AuditedList
from tests.projections.histories import Recorded as Listed
from tests.projections.histories import Step, World, play
from tests.projections.histories import steps as doings


class Foreign(msgspec.Struct, frozen=True, array_like=True):
    amount: int


CREATED = SessionCreated("s", "c", "i", 1)
CREATE = CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1)
FORMS = [StoredForm(name, kind) for name, kind in STORED.items()]
_NOTHING = ReceivedAnswer()
_ANSWER = ReceivedAnswer(
    message_id="m", content=(TextBlock("Hi"),), stop_reason="end_turn", usage={"input_tokens": 7}, model="small"
)
SHARED = EventCodec([*FORMS, StoredForm("counted", Foreign)])
"""What reads and writes a log that somebody else's actors write, too."""


class Kept(NamedTuple):
    """A step of a stream: its events, and its command as it is stored."""

    stream: str
    events: Sequence[Any]
    cause: bytes | None = None


ASKS = MockEvent("tool_call", data={"id": "p", "name": "pay", "input": {"amount": float("nan")}})
STOPS = MockEvent("message_stop", data={"stop_reason": "tool_use"})


@tool(intervention="required")
def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount}"


def written(path: Path, steps: Sequence[Kept], events: EventCodec = SHARED) -> Path:
    """Write a log of these steps, each at a time of its own, as if a runtime had."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    versions: dict[str, int] = {}
    with SqliteJournal.open(str(path), events, synchronous="OFF") as journal:
        for number, (stream, together, cause) in enumerate(steps):
            step = Append(stream, versions.get(stream, 0), number, tuple(together), cause=cause)
            journal.append(step, outcomes.put)
            assert isinstance(outcomes.get(timeout=60), Committed)
            versions[stream] = versions.get(stream, 0) + len(together)
    return path


def steps_of(path: Path) -> list[Kept]:
    """Return what was recorded together, and where."""
    steps: list[Kept] = []
    with SqliteJournal.open(str(path), codec(), read_only=True) as journal:
        for row in journal.read_all(limit=100_000):
            if row.cause is not None:
                steps.append(Kept(row.stream, [], row.cause))
            steps[-1] = Kept(steps[-1].stream, [*steps[-1].events, row.event], steps[-1].cause)
    return steps


def replayed(path: Path, session_id: str | None = None) -> dict[str, Retraced]:
    with Audit.open(path) as audit:
        return {one.stream: one for one in audit.replay(session_id)}


def test_every_history_of_a_log_is_decided_again(log: Path) -> None:
    found = replayed(log)

    assert [one for one in found.values() if one.divergence is not None] == []
    assert {one.session_id for one in found.values() if one.session_id} == {"a", "b", "z"}
    assert found["session/b"].events == sum(len(step.events) for step in steps_of(log) if step.stream == "session/b")
    assert found["session/b"].steps == sum(step.stream == "session/b" for step in steps_of(log))
    assert found["image/i"].steps == found["container/c"].events == 1


def test_one_session_alone_is_decided_again_a_branch_from_what_it_shares(log: Path) -> None:
    branch = replayed(log, "z")

    assert list(branch) == ["session/z"]
    assert branch["session/z"].divergence is None
    assert branch["session/z"].steps > 1


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_a_history_is_followed_as_it_grows(log: Path, page: int) -> None:
    with SqliteJournal.open(str(log), codec(), read_only=True) as journal:
        ends = journal.select("SELECT position + count - 1 FROM steps WHERE count > 0 ORDER BY number", ())
        for whole in retrace(journal):
            replay = HistoryReplay(journal, whole.stream)
            for (position,) in ends:
                for _ in replay.go_on(position, page):
                    break  # whoever has little time goes on behind that step later
            deque(replay.go_on(journal.head(), page), maxlen=0)

            assert replay.result() == whole
            assert replay.position == journal.find(stream=whole.stream, backwards=True, limit=1)[0].position


def test_a_call_about_something_that_is_no_number_is_decided_and_announced_as_it_was(tmp_path: Path) -> None:
    factory = MockEnvironmentFactory(delays=False)
    factory.define_scenario("pay", lambda said: iter([ASKS, STOPS] if said[-1].text else [MockEvent("message_stop")]))
    factory.set_scenario("pay")
    with Runtime.open(tmp_path / "log.db", environment=factory, synchronous="OFF") as runtime:
        asked = runtime.ask("Pay", image=Image(id="i", tools=(pay,)))
        turn_id = runtime.agents.approve(asked.pending[0])
        assert turn_id is not None
        runtime.turns.wait(turn_id)

    assert verify_log(tmp_path / "log.db").findings == ()
    assert [one.divergence for one in replayed(tmp_path / "log.db").values()] == [None] * 3


def test_a_session_that_is_not_there_is_an_error(log: Path) -> None:
    with Audit.open(log) as audit, pytest.raises(SessionNotFoundError):
        list(audit.replay("nobody"))


@settings(max_examples=examples(25))
@given(doings)
def test_random_histories_are_decided_again_and_what_others_have_recorded_is_told(chosen: list[Step]) -> None:
    log = AuditedList()
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
        for place, step in enumerate(steps)
        for number, event in enumerate(step.events)
        if step.stream == "session/a" and isinstance(event, ResultsRecorded)
    )
    stream, events, cause = steps[place]
    told = msgspec.structs.replace(events[number].content[0], content="7")
    changed = [*events[:number], msgspec.structs.replace(events[number], content=(told,)), *events[number + 1 :]]
    forged = written(tmp_path / "forged.db", [*steps[:place], Kept(stream, changed, cause), *steps[place + 1 :]])

    found = replayed(forged)
    parting = found["session/a"].divergence

    assert [one.stream for one in found.values() if one.divergence is not None] == ["session/a"]
    assert parting is not None
    assert parting.field == "content.0.content"
    assert parting.command == "Report"
    assert parting.recorded is not None
    assert parting.decided is not None
    recorded, decided = (json.loads(msgspec.json.encode(one)) for one in (parting.recorded, parting.decided))
    assert (recorded["type"], recorded["data"]["content"][0]["content"]) == ("results-recorded", "7")
    assert decided["data"]["content"][0]["content"] == "3"
    with SqliteJournal.open(str(forged), codec(), read_only=True) as journal:
        (row,) = journal.find(after=(parting.position or 0) - 1, until=parting.position)
    assert (row.stream, row.version) == ("session/a", parting.version)
    assert found["session/a"].events == parting.version - 1


def test_a_step_without_a_command_parts_where_it_begins(tmp_path: Path) -> None:
    begun = Kept("session/s", [CREATED], stored(CREATE, CREATED))

    found = replayed(written(tmp_path / "log.db", [begun, Kept("session/t", [AgentStarted("a")])]))

    assert found["session/s"].divergence is None
    parting = found["session/t"].divergence
    assert parting is not None
    assert (parting.position, parting.version) == (2, 1)
    assert parting.problem == "no command was recorded with it"


def test_what_more_todays_code_decides_is_told(log: Path, tmp_path: Path) -> None:
    def cut(step: Kept) -> Kept:
        return step._replace(events=step.events[:-1]) if isinstance(step.events[-1], TurnCompleted) else step

    steps = map(cut, steps_of(log))

    parting = replayed(written(tmp_path / "log.db", [step for step in steps if step.events]))["session/a"].divergence

    assert parting is not None
    assert parting.decided is not None
    assert parting.decided.type == "turn-completed"
    assert (parting.position, parting.recorded) == (None, None)


def test_an_event_of_a_foreign_type_is_found_where_it_stands(log: Path, tmp_path: Path) -> None:
    steps = [*steps_of(log), Kept("session/b", [Foreign(1)], b"x"), Kept("counter", [Foreign(2)])]
    before = sum(len(step.events) for step in steps[:-2] if step.stream == "session/b")
    last = sum(len(step.events) for step in steps)

    found = replayed(written(tmp_path / "log.db", steps))

    within, at_the_beginning = found["session/b"].divergence, found[""].divergence
    assert within is not None
    assert (within.version, found["session/b"].events) == (before + 1, before)
    assert "unknown type" in within.problem
    assert at_the_beginning is not None
    assert at_the_beginning.position == last
    assert found["session/a"].divergence is None


def stored(command: AnyCommand, *events: object) -> bytes:
    return cause_of(command, events)


ADDED, ADD = ContainerCreated("c", None), CreateContainer(container_id="c", name=None)
REGISTER = RegisterImage(image_id="i", definition=Definition("i"))
RUN = Run(session_id="s", agent_id="a", at=1)


@pytest.mark.parametrize(
    ("stream", "steps", "problem"),
    [
        ("container/c", [(ADDED, ADD), (ADDED, ADD)], "AlreadyExistsError"),
        ("container/c", [(ADDED, REGISTER)], "RegisterImage is not a command of a stream 'container'"),
        ("image/i", [(ImageRegistered("i", 2, Definition("i")), REGISTER)], "another revision of image-registered"),
        (
            "image/i",
            [
                (ImageRegistered("i", 1, Definition("i")), REGISTER),
                (ImageRegistered("i", 2, Definition("i")), REGISTER),
            ],
            "decides nothing more",
        ),
        ("session/s", [(AgentStarted("a"), RUN)], "SessionNotFoundError"),
        ("session/s", [(SessionBranched("s", "c", "i", 1, "lost", 7, "d"), RUN)], "branches off"),
        (
            "session/s",
            [(CREATED, CREATE), (ADDED, ADD)],
            "event 2 of 'session/s' is a ContainerCreated, which no session has",
        ),
        ("elsewhere", [(CREATED, CREATE)], "CreateSession is not a command of a stream 'elsewhere'"),
        ("elsewhere", [(ADDED, ADD)], "CreateContainer is not a command of a stream 'elsewhere'"),
    ],
)
def test_what_no_code_of_ours_has_decided_is_a_finding(
    stream: str, steps: list[tuple[object, AnyCommand]], problem: str, tmp_path: Path
) -> None:
    kept = [Kept(stream, [event], stored(command, event)) for event, command in steps]

    (found,) = replayed(written(tmp_path / "log.db", kept)).values()

    assert found.divergence is not None
    assert problem in found.divergence.problem


def test_a_branch_of_what_cannot_be_taken_in_is_a_finding(tmp_path: Path) -> None:
    steps = [
        Kept("session/s", [CREATED]),
        Kept("session/s", [TurnStarted("t", 1)]),
        Kept("session/z", [SessionBranched("z", "c", "i", 1, "s", 2, "d")]),
    ]

    found = replayed(written(tmp_path / "log.db", steps))["session/z"].divergence

    assert found is not None
    assert "cannot take in the history" in found.problem


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
    code = "import sys, reenact.projections.verification.replay; print(*sys.modules)"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # it loads sqlite3
    run = subprocess.run([sys.executable, "-P", "-c", code], env=environ, capture_output=True, text=True, check=True)

    loaded = set(run.stdout.split())

    assert "reenact.domain.history.decision_replay" in loaded
    assert [name for name in loaded if name.startswith(("reenact.actors", "anthropic", "sqlite3"))] == []


class Pages(AuditedList):
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
