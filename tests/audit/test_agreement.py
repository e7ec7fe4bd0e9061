"""A feed holds what follows from the events, in their order, and between it only what an environment may say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reenact.actors.envelopes import flat
from reenact.domain.agent import (
    AgentStarted,
    StepStarted,
    TurnStarted,
)
from reenact.domain.announce import announce, of_turn
from reenact.domain.events import (
    EventData,
)
from reenact.domain.session import Session, SessionBranched, SessionCreated, evolve
from reenact.projections.audit.agreement import Conversations
from reenact.projections.audit.heard import Deviation
from tests.projections.histories import ListLog, Recorded, Step, lineage, play, steps
from tests.projections.said import GOES_ON, said_in

Told = tuple[dict[str, str], tuple[str, int, Any]]


class Packed(msgspec.Struct, frozen=True):
    first_cursor: int
    count: int
    segments: bytes
    is_sealed: bool = False


class Records:
    """What a branch looks up; every record has the digest that branches of these histories name."""

    def __init__(self, log: ListLog) -> None:
        self._log = log

    def records(self, stream: str) -> Iterator[Recorded]:
        yield from self._log.read(stream)

    def digest_at(self, stream: str, version: int) -> bytes | None:
        return bytes.fromhex("d1") if any(row.version == version for row in self._log.read(stream)) else None


def feed_of(log: ListLog, session_id: str) -> list[tuple[Told, bool]]:
    """Return what is told of a session, and whether it follows from an event."""
    told: list[tuple[Told, bool]] = []
    state = Session()
    said: list[EventData] = []
    rows = lineage(log.rows, session_id)
    for number, row in enumerate(rows):
        event: Any = row.event
        is_own = row.stream == f"session/{session_id}"
        if said and not isinstance(event, GOES_ON):  # it comes in until then
            context = flat(of_turn(state))
            told += [((context, (data.event_type, row.recorded_at - 1, data)), False) for data in said]
            said = []
        if is_own:
            told += [
                ((flat(context), (data.event_type, row.recorded_at, data)), True)
                for context, data in announce(state, (event,))
            ]
        state = evolve(state, event)
        if isinstance(event, TurnStarted | StepStarted) and is_own:
            said = list(said_in([row.event for row in rows[number + 1 :]]))
    return told


def packed(told: Sequence[Told], sizes: Sequence[int]) -> list[Packed]:
    rows: list[Packed] = []
    first = 0
    for size in (*sizes, len(told)):
        if part := told[first : first + size]:
            segments = [(context, [entry]) for context, entry in part]
            rows.append(Packed(first + 1, len(part), msgspec.msgpack.encode(segments)))
        first += size
    return rows


def deviations(log: ListLog, session_id: str, rows: Sequence[Packed]) -> list[Deviation]:
    stream = f"session/{session_id}"
    return list(Conversations(Records(log)).inspect(stream, iter(log.read(stream)), iter(rows), iter(()), None))


sessions = st.sampled_from("abcd")
sizes = st.lists(st.integers(1, 9), max_size=4)


@given(steps, sizes)
@settings(max_examples=30)
def test_what_was_told_agrees_with_what_was_decided(chosen: list[Step], sizes: list[int]) -> None:
    log = play(chosen).log

    for session_id in "abcd":
        told = [one for one, _ in feed_of(log, session_id)]
        if log.read(f"session/{session_id}"):
            assert deviations(log, session_id, packed(told, sizes)) == []


@given(steps, sizes, st.data())
@settings(max_examples=40)
def test_whatever_is_told_otherwise_is_found(chosen: list[Step], sizes: list[int], data: st.DataObject) -> None:
    log = play(chosen).log
    session_id = data.draw(sessions)
    feed = feed_of(log, session_id)
    assume(feed)
    told = [one for one, _ in feed]
    at = data.draw(st.sampled_from([number for number, (_, follows) in enumerate(feed) if follows]))
    context, (kind, when, said) = told[at]
    match data.draw(st.sampled_from(["remove", "repeat", "time", "context", "type", "put in"])):
        case "remove":
            del told[at]
        case "repeat":
            told.insert(at, told[at])
        case "time":
            told[at] = context, (kind, when + 1, said)
        case "context":
            told[at] = {**context, "turn_id": "other"}, (kind, when, said)
        case "type":
            told[at] = context, ("other", when, said)
        case _:
            told.insert(at, (context, ("tool_started", when, {"id": "1"})))

    found = Conversations(Records(log))
    rows = packed(told, sizes)
    deviating = list(
        found.inspect(f"session/{session_id}", iter(log.read(f"session/{session_id}")), iter(rows), iter(()), None)
    )

    # What is gone from the beginning on has perhaps never been there.
    assert [about for about, _, _, _ in deviating] == ["feed"] or found.begun_later == 1
    assert deviating or not any(follows for _, follows in feed[:at])


ROWS: list[tuple[Any, int, bool, str]] = [
    (b"\xc1", 1, False, "cannot be decoded"),
    ([], 1, False, "holds 0 cursors"),
    ([({}, [("deltas_compacted", 1, {"first_cursor": 1, "last_cursor": 2})])], 2, False, "follows from no event"),
    ([({}, [("deltas_compacted", 1, {"first_cursor": 2, "last_cursor": 3})])], 3, True, "does not stand in"),
    ([({}, [("text_delta", 1, {"text": "a"})])], 1, False, "follows from no event"),
]


@pytest.mark.parametrize(("segments", "count", "is_sealed", "problem"), ROWS)
def test_a_feed_without_events_is_named(segments: Any, count: int, is_sealed: bool, problem: str) -> None:  # noqa: ANN401, FBT001 - anything
    encoded = segments if isinstance(segments, bytes) else msgspec.msgpack.encode(segments)

    ((about, cursor, said, _),) = deviations(ListLog(), "s", [Packed(1, count, encoded, is_sealed)])

    assert (about, cursor) == ("feed", 1)
    assert problem in said


def test_what_was_written_before_a_field_was_added_says_the_same() -> None:
    log = play([]).log
    log.append("session/s", *_created("s"))
    ((context, (kind, when, data)), _), *_ = feed_of(log, "s")
    earlier = {name: value for name, value in msgspec.to_builtins(data).items() if name != "origin"}

    assert deviations(log, "s", packed([(context, (kind, when, earlier))], [])) == []


def test_events_that_cannot_follow_each_other_are_named() -> None:
    foreign, alien, nobody = ListLog(), ListLog(), ListLog()
    foreign.append("session/s", *_created("s"), TurnStarted("t", 1))  # nothing waits for its turn
    alien.append("container/c", *_created("c"))
    nobody.append("session/s", *_created("other"))

    found = [
        deviations(foreign, "s", packed([one for one, _ in feed_of(_first(foreign), "s")], [])),
        list(Conversations(Records(alien)).inspect("container/c", iter(alien.rows), iter(()), iter(()), None)),
        deviations(nobody, "s", []),
    ]

    assert [(kind, at) for ((kind, at, _, _),) in found] == [("stream", 2), ("stream", 1), ("stream", 1)]
    assert ["follow" in found[0][0][2], "holds no" in found[1][0][2], "begins" in found[2][0][2]] == [True] * 3


@pytest.mark.parametrize(("origin", "problem"), [("a", "another one"), ("q", "not there")])
def test_a_branch_of_what_is_not_there_is_named(origin: str, problem: str) -> None:
    log = ListLog()
    log.append("session/a", *_created("a"))
    log.append("session/z", SessionBranched("z", "c", "i", 1, origin, 1, "d2"))

    ((kind, at, said, position),) = deviations(log, "z", [])

    assert (kind, at, position) == ("stream", 1, 2)
    assert problem in said


def _created(session_id: str) -> tuple[object, ...]:
    return (SessionCreated(session_id, "c", "i", 1),)


def _first(log: ListLog) -> ListLog:
    return log.until(1)


def test_a_feed_may_begin_later_or_not_at_all_and_that_is_counted() -> None:
    log = ListLog()
    log.append("session/s", *_created("s"), AgentStarted("a"))
    (_, (told, _)) = feed_of(log, "s")
    found = Conversations(Records(log))

    for rows in (packed([told], []), []):
        assert list(found.inspect("session/s", iter(log.rows), iter(rows), iter(()), None)) == []

    assert found.begun_later == 2
