"""What must be true after a process was killed, whatever it was doing: what it was promised, and what its log says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import Runtime, SessionNotFoundError, ToolResultBlock
from reenact.actors.journal.verify import verify
from reenact.actors.session.ports import Recovery
from reenact.domain.loop.events import ToolResult, ToolStarted
from reenact.events import DeltasCompacted
from reenact.testing import CrashReport
from tests.crashes.workloads import as_json, sessions_in, settle
from tests.crashes.world import IDEMPOTENT, Effect, World
from tests.domain.stream.grammar import Heard
from tests.logs import read_log
from tests.runtime.witness import Ears, check, check_rows, fold, heard_of, journal_of, plain

UNKNOWN = "it is not known whether it took effect"
STREAM = "session/s"
QUESTIONS = {"one": 1, "two": 1, "three": 1, "hold": 1, "once": 1, "and now?": 1}
"""How often each message was sent, at the most."""


class Promises:
    """What the processes so far have said that they were promised, and what they heard."""

    def __init__(self, reports: Iterable[CrashReport]) -> None:
        self.accepted: dict[str, str] = {}
        self.heard: dict[int, Heard] = {}
        self.interrupted: set[str] = set()
        self.approved: set[str] = set()
        self.deleted = False
        self.compacted = False
        self.branched = False
        self.acknowledged = 0
        self.asked: dict[str, tuple[str, dict[str, Any]]] = {}
        self.answered: dict[str, Any] = {}
        for report in reports:
            for kind, *words in report.said:
                self._take(kind, words)

    def _take(self, kind: str, words: list[Any]) -> None:
        match kind:
            case "accepted":
                self.accepted[words[0]] = words[1]
            case "heard":
                event = msgspec.convert(words[0], Heard)
                assert self.heard.setdefault(event.cursor, event) == event
            case "interrupted":
                self.interrupted.add(words[0])
            case "approved":
                self.approved.add(words[0])
            case "deleted":
                self.deleted = True
            case "branched":
                self.branched = True
            case "compacted":
                self.compacted = True
            case "acknowledged":
                self.acknowledged = words[0]
            case "asked":
                self.asked[words[0]] = words[1], words[2]
            case "answered":
                self.answered[words[0]] = words[1]
            case _:
                assert kind in {"ran", "open"}


class Left(msgspec.Struct, frozen=True):
    """What a killed process has left: its log, before anybody recovers, and its effects."""

    head: int
    turn: str | None
    under_way: frozenset[str]
    queue: tuple[str, ...]
    waiting: frozenset[str]
    deleted: bool
    started: Counter[str]
    names: dict[str, str]
    results: dict[str, ToolResult]
    ran: Counter[str]


def left(home: Path) -> Left:
    """Read what the process has left, and find the log whole."""
    with World(home) as world, read_log(world.log, world.keys) as journal:
        assert verify(world.log) == []
        state = fold(journal, "s")
        events = [one.event for one in journal.read(STREAM)]
        starts = [event for event in events if isinstance(event, ToolStarted)]
        return Left(
            head=journal.head(),
            turn=None if state.turn is None else state.turn.id,
            under_way=frozenset(one for one in sessions_in(journal) if fold(journal, one).turn is not None),
            queue=tuple(queued.turn_id for queued in state.queue),
            waiting=frozenset(call.id for call in state.round.at("waiting"))
            if state.round is not None
            else frozenset(),
            deleted=state.deleted,
            started=Counter(event.id for event in starts),
            names={event.id: event.name for event in starts},
            results={event.id: event for event in events if isinstance(event, ToolResult)},
            ran=Counter(effect.call_id for effect in world.effects),
        )


def examine(
    home: Path,
    recovery: Recovery,
    reports: Iterable[CrashReport],
    before: Sequence[Left],
    earlier: Sequence[Recovery] = (),
) -> None:
    """Recover, hold everything against what was promised, and go on.

    `before` is what each killed process has left, `earlier` how those were opened that were killed as they recovered.
    """
    promises, last = Promises(reports), before[-1]
    how = zip(before, (*earlier, recovery), strict=True)
    resumed = {one.turn for one, recovery in how if recovery == "resume" and one.turn is not None}
    with World(home, holds=False) as world:
        with world.opened(recovery) as runtime:
            _nothing_is_left_open(runtime, recovery, last)
            settle(runtime)
            _what_was_heard_is_there(runtime, promises)
            _what_was_promised_is_kept(runtime, promises, last)
            if last.deleted:
                _it_stays_deleted(runtime)
            else:
                _what_waits_goes_on_waiting(runtime, recovery, last)
                _requests_are_carried_out_once(runtime, promises)
                _the_session_goes_on(runtime, "s")
                _messages_are_whole(runtime, promises)
                _calls_are_answered_truly(runtime, recovery, world.effects, last)
            _the_branch_goes_on(runtime, promises)
            _turns_ended_once(runtime, recovery, promises, resumed, last)
        head = left(home).head
        with world.opened(recovery) as runtime:
            assert runtime.position == head
            assert runtime.agents.list() == []


def _nothing_is_left_open(runtime: Runtime, recovery: Recovery, last: Left) -> None:
    """Once a log is open, its tables are what it says; unfinished turns are over, or go on."""
    journal = journal_of(runtime)
    states = {session_id: fold(journal, session_id) for session_id in sessions_in(journal)}
    live = {agent.session_id for agent in runtime.agents.list()}
    assert live == (set() if recovery == "close" else last.under_way)
    assert {session_id for session_id, state in states.items() if state.agent is not None} == live
    if not live:
        assert all(state.turn is None for state in states.values())
        check_rows(runtime, states)


def _what_was_heard_is_there(runtime: Runtime, promises: Promises) -> None:
    if not promises.compacted:
        kept = {event.cursor: event for event in heard_of(journal_of(runtime), "s")}
        if not any(event.type == "deltas_compacted" for event in kept.values()):
            assert {cursor: kept.get(cursor) for cursor in promises.heard} == promises.heard
            return
    there = {event.cursor: event for event in runtime.events.subscribe("s", "examiner", 0).take(10_000)}
    gone: set[int] = set()
    for envelope in there.values():
        data: object = envelope.data
        if isinstance(data, DeltasCompacted):
            gone |= set(range(data.first_cursor, data.last_cursor + 1))
    assert all(cursor in gone or plain(there[cursor]) == heard for cursor, heard in promises.heard.items())
    assert {promises.heard[cursor].type for cursor in gone & promises.heard.keys()} <= {
        "text_delta",
        "input_json_delta",
        "thinking_delta",
    }


def _what_was_promised_is_kept(runtime: Runtime, promises: Promises, last: Left) -> None:
    mark = journal_of(runtime).mark(STREAM, "client")
    assert promises.acknowledged <= (0 if mark is None else mark.cursor)
    assert not promises.deleted or last.deleted
    for request_id, answer in promises.answered.items():
        type_, data = promises.asked[request_id]
        assert as_json(runtime.request(type_, {**data, "request_id": request_id}).data) == answer


def _it_stays_deleted(runtime: Runtime) -> None:
    assert runtime.sessions.get("s") is None
    with pytest.raises(SessionNotFoundError):
        runtime.sessions.run("s")


def _what_waits_goes_on_waiting(runtime: Runtime, recovery: Recovery, last: Left) -> None:
    pending = runtime.agents.pending()
    assert last.waiting <= {call.id for call in pending}
    assert recovery == "resume" or last.waiting == {call.id for call in pending}
    ears = Ears(runtime)
    for call in pending:
        assert call.name == "buy"
        ears.wait("turn_completed", turn_id=runtime.agents.approve(call))


def _requests_are_carried_out_once(runtime: Runtime, promises: Promises) -> None:
    """What was sent again is answered; what was not carried out is now, and then once only."""
    for request_id, (type_, data) in promises.asked.items():
        answers = [runtime.request(type_, {**data, "request_id": request_id}).data for _ in range(2)]
        assert answers[0] == answers[1]
    if promises.asked:
        names = [container.name for container in runtime.containers.list()]
        assert names.count("once") == 1
        asked = promises.asked.keys()
        said = [message.text for message in runtime.sessions.messages("s") if message.role == "user"]
        assert said.count("once") == ("r2" in asked)
        assert len(runtime.sessions.list_by_container("c")) == 1 + ("r3" in asked)


def _the_session_goes_on(runtime: Runtime, session_id: str) -> None:
    ears = Ears(runtime)
    turn_id = runtime.agents.receive(runtime.sessions.run(session_id), "and now?")
    ears.wait("turn_completed", turn_id=turn_id)
    assert runtime.sessions.messages(session_id)[-1].text == "you said and now?."


def _the_branch_goes_on(runtime: Runtime, promises: Promises) -> None:
    """A branch that was promised is there, with all that it shares, and with what waited."""
    there = runtime.sessions.get("b")
    assert there is not None or not promises.branched
    if there is None:
        return
    assert there.origin is not None
    assert there.origin.session_id == "s"
    _the_session_goes_on(runtime, "b")
    messages = runtime.sessions.messages("b")
    assert [message.text for message in messages if message.role == "user"] == ["hold", "two", "and now?"]
    answers = [message for message in messages[:-1] if message.role == "assistant"]
    assert [answer for answer in answers if not answer.partial and answer.text != "you said two."] == []
    assert all("you said two.".startswith(answer.text) for answer in answers)


def _messages_are_whole(runtime: Runtime, promises: Promises) -> None:
    messages = runtime.sessions.messages("s")
    asked = {message.turn_id or "": message.text for message in messages if message.role == "user" and message.text}
    assert promises.accepted.items() <= asked.items()
    times = Counter(asked.values())
    assert all(times[question] <= QUESTIONS.get(question, 1) for question in times)
    assert all(question in QUESTIONS or question.startswith("use ") for question in times)
    for message in messages:
        if message.role == "assistant" and message.text:
            whole = f"you said {asked.get(message.turn_id or '', '')}."
            assert message.text == whole or asked.get(message.turn_id or "") not in QUESTIONS or message.partial
            assert not message.partial or whole.startswith(message.text)


def _calls_are_answered_truly(runtime: Runtime, recovery: Recovery, effects: list[Effect], last: Left) -> None:
    """Nobody is lied to about a tool, and none runs more often than it may."""
    blocks = [block for one in runtime.sessions.messages("s") for block in one.content]
    results = {block.tool_use_id: block for block in blocks if isinstance(block, ToolResultBlock)}
    starts = Counter(one.event.id for one in journal_of(runtime).read(STREAM) if isinstance(one.event, ToolStarted))
    runs = Counter(effect.call_id for effect in effects)
    assert starts.keys() <= results.keys()
    assert all(runs[call_id] <= starts[call_id] for call_id in runs)
    assert all(times == 1 or call_id.partition("-")[0] in IDEMPOTENT for call_id, times in runs.items())
    assert len({(effect.call_id, effect.key) for effect in effects}) == len(runs)
    for call_id, name in last.names.items():
        result = results[call_id]
        if call_id in last.results:
            assert runs[call_id] == last.ran[call_id]
            assert (str(result.content), result.is_error) == (
                str(last.results[call_id].result),
                last.results[call_id].is_error,
            )
        elif recovery == "resume" and name in IDEMPOTENT:
            assert runs[call_id] == last.ran[call_id] + 1
            assert not result.is_error
        else:
            assert runs[call_id] == last.ran[call_id]
            assert result.is_error
            assert UNKNOWN in str(result.content)
    for call_id, result in results.items():
        if not result.is_error:
            assert runs[call_id] >= 1
        elif call_id not in last.names and call_id not in last.results:
            assert "was not run" in str(result.content)
            assert runs[call_id] == 0


def _turns_ended_once(runtime: Runtime, recovery: Recovery, promises: Promises, resumed: set[str], last: Left) -> None:
    feed = heard_of(journal_of(runtime), "s")
    settle(runtime)
    ends = [(event.turn_id or "", event.data["outcome"]) for event in feed if event.type == "turn_completed"]
    outcomes = dict(ends)
    assert len(ends) == len(outcomes)
    assert promises.accepted.keys() <= outcomes.keys()
    assert {outcomes[turn_id] for turn_id in promises.interrupted} <= {"interrupted"}
    if last.turn is not None and not last.deleted:
        allowed = {"interrupted", "completed", "waiting"} if recovery == "close" else {"completed", "waiting"}
        assert outcomes[last.turn] in allowed
    if not any(event.type == "deltas_compacted" for event in feed):
        check(runtime, resumed=resumed)
