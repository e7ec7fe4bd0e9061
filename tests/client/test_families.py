"""A session is followed with its child sessions over a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import AsyncRuntime, Runtime, SessionNotFoundError
from reenact.actors.feed.family import FamilyStream
from reenact.client.runtime import RemoteRuntime
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.stream.events import ChildEnded
from reenact.server import Server
from tests.client.conftest import TOKEN, Connect
from tests.feed.test_family import PLAN, check, of, until_the_top_is_done
from tests.runtime.families import factory, furnish


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime.open(tmp_path / "log.db", environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        yield runtime


@pytest.fixture
def remote(local: Runtime, connect: Connect) -> Iterator[RemoteRuntime]:
    with Server(local, tokens=[TOKEN]) as server:
        yield connect(server.url, token=TOKEN)


def all_of(stream: FamilyStream) -> list[RuntimeEvent]:
    """Return what comes until the turn of the root is over, and the children are followed to their ends."""
    heard = until_the_top_is_done(stream)
    while list(stream.cursors) != ["root"]:
        event = stream.next(60)
        assert event is not None
        heard.append(event)
    return heard


def test_a_family_is_followed_over_a_connection_and_again(remote: RemoteRuntime) -> None:
    with remote.events.stream("root", children=True) as live:
        remote.ask(json.dumps(PLAN), session="root", timeout=60)
        heard = all_of(live)
    with remote.events.stream("root", {"root": 0}, children=True) as again:
        replayed = all_of(again)
        assert again.next(0) is None

    for events in (heard, replayed):
        check(events, {"root": 0}, remote=True)
    ends = {event.data.child_id: event.data.cursor for event in heard if isinstance(event.data, ChildEnded)}
    for events in (heard, replayed):
        assert all(of(events, child)[-1:] == [end] for child, end in ends.items())
    assert {event.context.session_id for event in heard} == {session.id for session in remote.sessions.list()}
    with pytest.raises(SessionNotFoundError):
        remote.events.stream("other", children=True)


def test_a_family_is_followed_on_an_event_loop(local: Runtime) -> None:
    async def story(url: str) -> list[RuntimeEvent]:
        heard: list[RuntimeEvent] = []
        async with await AsyncRuntime.connect(url, token=TOKEN) as runtime:
            async with runtime.events.stream("root", children=True) as stream:
                asking = asyncio.ensure_future(runtime.ask(json.dumps(PLAN), session="root", timeout=60))
                async for event in stream:
                    heard.append(event)
                    if event.type == "turn_completed" and event.context.session_id == "root":
                        break
                await asking
            with pytest.raises(SessionNotFoundError):
                await runtime.events.stream("other", children=True)
        return heard

    with Server(local, tokens=[TOKEN]) as server:
        check(asyncio.run(story(server.url)), {"root": 0}, remote=True)


def test_a_family_is_taken_at_once(local: Runtime, remote: RemoteRuntime) -> None:
    local.ask(json.dumps(PLAN), session="root", timeout=60)
    ours = local.events.stream("root", children=True).take()

    for _ in range(5):
        assert remote.events.stream("root", children=True).take() == ours
