"""A feed holds what follows from the events, in their order, and between it only what an environment may say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reenact.actors.envelopes import flat
from reenact.domain.chain import Passed
from reenact.domain.session.agent import AgentStarted, StepStarted, TurnStarted
from reenact.domain.session.announce import TODAY, VERSIONS, about, announce, needed, of_turn
from reenact.domain.session.state import Session, SessionBranched, SessionCreated, evolve
from reenact.domain.stream.events import DeltasCompacted, EventData
from reenact.domain.stream.feed import Entry, pack_feed, pack_segments
from reenact.projections.verification.feed_check import Conversations, Deviation
from tests.examples import examples
from tests.projections.histories import ListLog, Recorded, Step, lineage, play, steps, steps_of
from tests.projections.said import GOES_ON, said_in

Told = tuple[dict[str, str], tuple[str, int, Any]]


class Packed(msgspec.Struct, frozen=True):
    """A row as it passes, with so many events from this version on."""

    cursor: int
    heard: int
    feed: bytes
    is_sealed: bool = False
    version: int = 1
    count: int = 0


class Announced(msgspec.Struct, frozen=True):
    """What is announced of a step: so many events from this version on."""

    version: int
    events: int
    count: int
    needs: bytes
    by: int = TODAY


class Records:
    """What a branch looks up; every record has the digest that branches of these histories name."""

    def __init__(self, log: ListLog) -> None:
        self._log = log

    def records(self, stream: str, *, after: int = 0) -> Iterator[Recorded]:
        yield from self._log.read(stream, after=after)

    def digest_at(self, stream: str, version: int) -> bytes | None:
        return bytes.fromhex("d1") if any(row.version == version for row in self._log.read(stream)) else None


def feed_of(log: ListLog, session_id: str) -> list[tuple[Told, bool]]:
    """Return what is told of a session, and whether it follows from events; then that is the `Announced` of a step.

    The type of that is the one of the first of its announcements.
    """
    told: list[tuple[Told, bool]] = []
    state = Session()
    said: list[EventData] = []
    rows = lineage(log.rows, session_id)
    for step in steps_of(rows):
        events: list[Any] = [row.event for row in step]
        is_own = step[0].stream == f"session/{session_id}"
        if said and not all(isinstance(event, GOES_ON) for event in events):  # it comes in until then
            context = flat(of_turn(state))
            told += [((context, (data.event_type, step[0].recorded_at - 1, data)), False) for data in said]
            said = []
        if is_own:
            needs = needed(state, events)
            heard = list(announce(session_id, needs, events))
            if heard:
                announced = Announced(step[0].version, len(step), len(heard), needs.stored())
                told.append((({}, (heard[0][1].event_type, step[0].recorded_at, announced)), True))
        for row in step:
            state = evolve(state, row.event)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # of a session
            if isinstance(row.event, TurnStarted | StepStarted) and is_own:
                said = list(said_in([other.event for other in rows[rows.index(row) + 1 :]]))
    return told


def packed(told: Sequence[Told], sizes: Sequence[int] = (), *, is_sealed: bool = False) -> list[Packed]:
    """Return rows: of deltas, as many as these sizes say, and of each step, with the deltas right before it."""
    rows: list[Packed] = []
    waiting: list[Told] = []
    cursor, version = 1, 1
    left = list(sizes)

    def add(announced: Announced | None) -> None:
        nonlocal cursor, waiting, version
        segments = pack_segments([(context, [Entry(*entry)]) for context, entry in waiting], "s")
        version = version if announced is None else announced.version
        by, needs, more, events = (0, b"", 0, 0)
        if announced is not None:
            by, needs, more, events = announced.by, announced.needs, announced.count, announced.events
        count = sum(map(cursors_of, waiting)) + more
        rows.append(Packed(cursor, count, pack_feed(segments, by, needs), is_sealed, version, events))
        cursor, version, waiting = cursor + count, version + events, []

    for context, (kind, when, data) in told:
        if isinstance(data, Announced):
            add(data)
        else:
            waiting.append((context, (kind, when, data)))
            if left and len(waiting) == left[0]:
                left.pop(0)
                add(None)
    if waiting:
        add(None)
    return rows


def cursors_of(told: Told) -> int:
    """Return how many cursors an entry has."""
    _, (kind, _, data) = told
    if kind != DeltasCompacted.event_type:
        return 1
    gap = msgspec.convert(data, DeltasCompacted)
    return gap.last_cursor - gap.first_cursor + 1


def passing(events: Sequence[Recorded], rows: Sequence[Packed]) -> Iterator[Passed[Recorded]]:
    """Yield the rows with their events; those of which nothing is heard come one by one."""
    left = list(events)
    for row in rows:
        while left and left[0].version < row.version:
            yield Passed([left.pop(0)], 0, 0, None, None, is_sealed=False)
        yield Passed(left[: row.count], row.cursor, row.heard, row.feed, None, row.is_sealed)
        del left[: row.count]
    for event in left:
        yield Passed([event], 0, 0, None, None, is_sealed=False)


def deviations(log: ListLog, session_id: str, rows: Sequence[Packed]) -> list[Deviation]:
    return list(inspected(Conversations(Records(log)), log, session_id, rows))


def inspected(
    by: Conversations, log: ListLog, session_id: str, rows: Sequence[Packed], due: int | None = None
) -> Iterator[Deviation]:
    stream = f"session/{session_id}"
    return by.inspect(stream, passing(log.read(stream), rows), iter(()), due)


def due_in(log: ListLog, session_id: str) -> int | None:
    """Return when the next message comes to the session by itself."""
    session = Session()
    for row in lineage(log.rows, session_id):
        session = evolve(session, row.event)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # of a session
    return min((message.due for message in session.schedules), default=None)


sessions = st.sampled_from("abcd")
sizes = st.lists(st.integers(1, 9), max_size=4)


@given(steps, sizes)
@settings(max_examples=examples(30))
def test_what_was_told_agrees_with_what_was_decided(chosen: list[Step], sizes: list[int]) -> None:
    log = play(chosen).log

    for session_id in "abcd":
        told = [one for one, _ in feed_of(log, session_id)]
        if log.read(f"session/{session_id}"):
            rows, due = packed(told, sizes), due_in(log, session_id)
            assert list(inspected(Conversations(Records(log)), log, session_id, rows, due)) == []


@given(steps, sizes, st.data())
@settings(max_examples=examples(60))
def test_whatever_is_told_otherwise_is_found(chosen: list[Step], sizes: list[int], data: st.DataObject) -> None:
    log = play(chosen).log
    session_id = data.draw(sessions)
    feed = feed_of(log, session_id)
    assume(feed)
    told = [one for one, _ in feed]
    at = data.draw(st.sampled_from([number for number, (_, follows) in enumerate(feed) if follows]))
    context, (kind, when, announced) = told[at]

    def says(**changes: Any) -> Told:  # noqa: ANN401 - of any field
        return context, (kind, when, msgspec.structs.replace(announced, **changes))

    needs = VERSIONS[TODAY].read(announced.needs)
    match data.draw(st.sampled_from(["remove", "fewer", "more", "version", "needs", "put in"])):
        case "remove":
            del told[at]
        case "fewer":
            told[at] = says(count=announced.count - 1)
        case "more":
            told[at] = says(count=announced.count + 1)
        case "version":
            told[at] = says(by=TODAY + 1)
        case "needs":
            field = data.draw(
                st.sampled_from(["agent_id", "container_id", "message_id", "turn_id", "in_round", "begun"])
            )
            other = {"in_round": not needs.in_round, "begun": (*needs.begun, "m")}.get(field, "other")
            told[at] = says(needs=msgspec.structs.replace(needs, **{field: other}).stored())
        case _:
            told.insert(at, (flat(about(Session())), ("tool_started", when, {"id": "1"})))

    found = Conversations(Records(log))
    rows = packed(told, sizes)
    deviating = list(inspected(found, log, session_id, rows, due_in(log, session_id)))

    # What is gone from the beginning on has perhaps never been there.
    assert [about for about, _, _, _ in deviating] == ["feed"] or found.begun_later == 1
    assert deviating or not any(follows for _, follows in feed[:at])


ROWS: list[tuple[Any, int, bool, str]] = [
    (b"\xc1", 1, False, "cannot be decoded"),
    ([], 1, False, "holds 0 cursors"),
    ([({}, [("deltas_compacted", 1, {"first_cursor": 1, "last_cursor": 2})])], 2, False, "follows from no event"),
    ([({}, [("deltas_compacted", 1, {"first_cursor": 2, "last_cursor": 3})])], 3, True, "is not in its place"),
    ([({}, [("text_delta", 1, {"text": "a"})])], 1, False, "follows from no event"),
]


@pytest.mark.parametrize(("segments", "count", "is_sealed", "problem"), ROWS)
def test_a_feed_without_events_is_named(segments: Any, count: int, is_sealed: bool, problem: str) -> None:  # noqa: ANN401, FBT001 - anything
    encoded = segments
    if not isinstance(segments, bytes):
        encoded = pack_feed(
            pack_segments([(context, [Entry(*one) for one in entries]) for context, entries in segments], "s")
        )

    ((about, cursor, said, _),) = deviations(ListLog(), "s", [Packed(1, count, encoded, is_sealed)])

    assert (about, cursor) == ("feed", 1)
    assert problem in said


def test_a_row_that_an_unknown_version_has_announced_is_named() -> None:
    log = play([]).log
    log.append("session/s", *_created("s"))
    ((context, (kind, when, announced)), _), *_ = feed_of(log, "s")
    newer = msgspec.structs.replace(announced, by=TODAY + 1)

    ((about, cursor, said, _),) = deviations(log, "s", packed([(context, (kind, when, newer))]))

    assert (about, cursor) == ("feed", 1)
    assert said == "row 1 of the feed of 'session/s' was announced by version 2, newer than 1; upgrade to read it"


def test_events_that_cannot_follow_each_other_are_named() -> None:
    foreign, alien, nobody = ListLog(), ListLog(), ListLog()
    foreign.append("session/s", *_created("s"), TurnStarted("t", 1))  # nothing waits for its turn
    alien.append("container/c", *_created("c"))
    nobody.append("session/s", *_created("other"))

    found = [
        deviations(foreign, "s", packed([one for one, _ in feed_of(_first(foreign), "s")], [])),
        list(Conversations(Records(alien)).inspect("container/c", passing(alien.rows, ()), iter(()), None)),
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
        assert list(inspected(found, log, "s", rows)) == []

    assert found.begun_later == 2
