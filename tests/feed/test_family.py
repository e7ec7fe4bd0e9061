"""A session is followed with its child sessions: each event once, those of a child between its start and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reenact import AsyncRuntime, InvalidInputError, Runtime, RuntimeClosedError, SessionNotFoundError
from reenact.actors.feed.family import FamilyStream
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.stream.events import ChildEnded, ChildStarted
from tests.runtime.families import HELD, Plan, factory, furnish
from tests.runtime.gated import GatedFactory

PLAN: Plan = [[("agent", [[("agent", ["deep"])], "middle"]), ("agent", ["two"])], "top"]
SENDS: Plan = [[("agent", [[("send", {"to": "ann"})], "sent"])], "done"]


@pytest.fixture
def mock() -> GatedFactory:
    return factory()


@pytest.fixture
def runtime(tmp_path: Path, mock: GatedFactory) -> Iterator[Runtime]:
    with Runtime.open(tmp_path / "log.db", environment=mock, synchronous="OFF") as runtime:
        furnish(runtime)
        yield runtime


def until_the_top_is_done(stream: FamilyStream) -> list[RuntimeEvent]:
    return until(stream, lambda one: one.type == "turn_completed" and one.context.session_id == "root")


def until(stream: FamilyStream, is_last: Callable[[RuntimeEvent], bool]) -> list[RuntimeEvent]:
    heard: list[RuntimeEvent] = []
    while not heard or not is_last(heard[-1]):
        event = stream.next(60)
        assert event is not None
        heard.append(event)
    return heard


def of(events: list[RuntimeEvent], session_id: str) -> list[int | None]:
    return [event.cursor for event in events if event.context.session_id == session_id]


def check(events: list[RuntimeEvent], begun: Mapping[str, int], *, remote: bool = False) -> None:
    """Each session's events are whole and in order; a child's stand between its start and its end."""
    at = dict(begun)
    for event in events:
        session_id = event.context.session_id or ""
        assert event.cursor == at[session_id] + 1
        at[session_id] += 1
        match event.data:
            case ChildStarted() as started:
                assert started.child_id not in at
                at[started.child_id] = 0
            case ChildEnded() as ended if not remote:
                assert at[ended.child_id] >= ended.cursor
            case _:
                pass


def test_the_events_of_children_come_between_those_of_their_parents(runtime: Runtime) -> None:
    with runtime.events.stream("root", children=True) as live:
        runtime.ask(json.dumps(PLAN), session="root", timeout=60)
        heard = until_the_top_is_done(live)
    with runtime.events.stream("root", children=True) as again:
        replayed = until_the_top_is_done(again)

    sessions = {session.id for session in runtime.sessions.list()}
    assert {event.context.session_id for event in heard} == sessions
    for events in (heard, replayed):
        check(events, {"root": 0})
    assert live.cursors == again.cursors == {"root": heard[-1].cursor}
    assert {one: of(heard, one) for one in sessions} == {one: of(replayed, one) for one in sessions}
    inner = [event.type for event in replayed if event.context.session_id != "root"]
    assert inner.index("child_started") < inner.index("child_ended")


def test_whoever_goes_on_from_the_cursors_hears_each_event_once(runtime: Runtime) -> None:
    runtime.ask(json.dumps(PLAN), session="root", timeout=60)
    with runtime.events.stream("root", children=True) as whole:
        expected = until_the_top_is_done(whole)

    after: dict[str, int] = {"root": 0}
    heard: list[RuntimeEvent] = []
    while len(heard) < len(expected):
        with runtime.events.stream("root", after, children=True) as stream:
            heard += stream.take(2)
            after = stream.cursors

    check(heard, {"root": 0})
    assert sorted((event.context.session_id or "", event.cursor or 0) for event in heard) == sorted(
        (event.context.session_id or "", event.cursor or 0) for event in expected
    )


def test_a_child_that_waits_is_followed_until_it_has_ended(runtime: Runtime) -> None:
    with runtime.events.stream("root", children=True) as stream:
        runtime.ask(json.dumps(SENDS), session="root", timeout=60)
        waits = until_the_top_is_done(stream)
        (call,) = runtime.agents.pending(session_id="root")
        assert call.session_id in stream.cursors
        runtime.agents.approve(call)
        rest = until_the_top_is_done(stream)

    check([*waits, *rest], {"root": 0})
    assert "tool_approved" in [event.type for event in rest if event.context.session_id == call.session_id]
    assert list(stream.cursors) == ["root"]


def test_what_there_is_can_be_taken_without_waiting(runtime: Runtime) -> None:
    runtime.ask(json.dumps(PLAN), session="root", timeout=60)

    with runtime.events.stream("root", children=True) as stream:
        first, rest = stream.take(5), stream.take()
        assert stream.take() == []
        assert stream.next(0) is None

    assert len(first) == 5
    check([*first, *rest], {"root": 0})


def test_it_ends_with_the_runtime_or_with_the_session(runtime: Runtime, mock: GatedFactory) -> None:
    agent = runtime.sessions.run("root")
    deleted, closed = (runtime.events.stream("root", children=True) for _ in range(2))
    other = runtime.events.stream("root", children=True)
    with runtime.events.stream("root", children=True) as live:
        runtime.agents.receive(agent, json.dumps([[("aside", [HELD])], "top"]))
        until_the_top_is_done(live)
    mock.gate.open()

    runtime.sessions.delete("root")

    assert [event.type for event in deleted if event.context.session_id == "root"][-1] == "session_deleted"
    assert deleted.closed
    until(closed, lambda one: one.type == "child_started")
    runtime.close()
    assert [event.type for event in closed if event.context.session_id == "root"][-1] == "session_deleted"
    assert closed.next() is None
    with pytest.raises(RuntimeClosedError):  # there is more, of a child
        list(other)


def test_cursors_name_the_session_and_are_cursors(runtime: Runtime) -> None:
    with pytest.raises(InvalidInputError, match="that of 'root' is missing"):
        runtime.events.stream("root", {}, children=True)
    with pytest.raises(InvalidInputError):
        runtime.events.stream("root", {"root": 0, "ses_1": -1}, children=True)
    with pytest.raises(SessionNotFoundError):
        runtime.events.stream("other", children=True)


def test_a_family_is_followed_on_an_event_loop(tmp_path: Path, mock: GatedFactory) -> None:
    async def story() -> list[RuntimeEvent]:
        async with AsyncRuntime.open(tmp_path / "log.db", environment=mock, synchronous="OFF") as runtime:
            heard: list[RuntimeEvent] = []
            async with runtime.events.stream("root", children=True) as stream:
                asking = asyncio.ensure_future(runtime.ask(json.dumps(PLAN), session="root", timeout=60))
                async for event in stream:
                    heard.append(event)
                    if event.type == "turn_completed" and event.context.session_id == "root":
                        break
                await asking
            return heard

    with Runtime.open(tmp_path / "log.db", environment=mock, synchronous="OFF") as runtime:
        furnish(runtime)

    check(asyncio.run(story()), {"root": 0})
