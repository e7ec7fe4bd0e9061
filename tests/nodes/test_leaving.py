"""What goes on at a node while its shards go to another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from reenact import Image, Runtime, agent_tool, tool
from reenact.actors.journal.postgres.address import address_of
from reenact.domain.messages import Said
from reenact.domain.plain import JsonObject
from reenact.domain.shards import SHARDS, shard_of
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until

PATIENCE = 60.0
LONG = 3_600_000.0
"""Milliseconds that nobody waits."""


class Machine:
    """A node whose model answers at once, never, or by what a child says after a tool has returned."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.waits = threading.Event()
        self.goes_on = threading.Event()

        @tool
        def wait() -> str:
            """Wait until the test says so."""
            self.waits.set()
            assert self.goes_on.wait(PATIENCE)
            return "now"

        self.wait = wait
        self.runtime = stack.enter_context(
            Runtime.open(url, environment=MockEnvironmentFactory("says", {"says": says}), tools=[wait])
        )


def says(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Answer as the last message wants it."""
    last = conversation[-1]
    call: JsonObject | None = None
    if last.text == "never":
        yield MockEvent("text_delta", LONG, {"text": "never"})
    elif last.text == "ask a child":
        call = {"id": "c1", "name": "wait", "input": {}}
    elif not last.text and len(conversation) == 3:
        call = {"id": "c2", "name": "child", "input": {"prompt": "Say something."}}
    else:
        yield MockEvent("text_delta", 0, {"text": "said"})
    if call is not None:
        yield MockEvent("tool_call", data=call)
    yield MockEvent("message_stop", data={"stop_reason": "end_turn" if call is None else "tool_use"})


def session_that_leaves(runtime: Runtime, image: str) -> str:
    """Return a new session, of the half of the shards that the first node leaves to the second."""
    ids = (f"s-{number}-{image}" for number in count())
    id_ = next(id_ for id_ in ids if shard_of(f"session/{id_}") >= SHARDS // 2 and runtime.sessions.get(id_) is None)
    return runtime.sessions.create("c", image, session_id=id_).id


def owned(url: str) -> list[int]:
    """Return how many shards each node owns."""
    place = address_of(url)
    query = SQL("SELECT count(*) FROM {} WHERE owner IS NOT NULL GROUP BY owner ORDER BY 1")
    with psycopg.connect(place.conninfo) as connection:
        return [number for (number,) in connection.execute(query.format(Identifier(place.schema, "shards")))]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_session_goes_to_another_node_whatever_is_under_way_in_others(url: str, stack: ExitStack) -> None:
    first = Machine(url, stack).runtime
    first.containers.create(container_id="c")
    first.images.register(Image(id="i"))
    busy, idle = (session_that_leaves(first, "i") for _ in range(2))
    first.ask("Hello", session=idle)
    agent = first.sessions.run(busy)
    turn_id = first.agents.receive(agent, "never")

    second = Machine(url, stack).runtime
    answer = second.ask("Hello", session=idle, timeout=PATIENCE)

    assert answer.text == "said"
    info = second.agents.get(agent)
    assert info is not None
    assert (info.turn_id, info.state) == (turn_id, "thinking")
    second.agents.interrupt(agent)
    assert second.turns.wait(turn_id, timeout=PATIENCE).outcome == "interrupted"
    assert second.ask("Hello", session=busy, timeout=PATIENCE).text == "said"


def test_an_agent_that_calls_another_one_while_its_shard_is_left_gets_an_answer(url: str, stack: ExitStack) -> None:
    machine = Machine(url, stack)
    first = machine.runtime
    first.containers.create(container_id="c")
    first.images.register(Image(id="i"))
    first.images.register(Image(id="parent", tools=(machine.wait, agent_tool("child", "i", description="Says it."))))
    session = session_that_leaves(first, "parent")
    turn_id = first.agents.receive(first.sessions.run(session), "ask a child")
    assert machine.waits.wait(PATIENCE)

    second = Machine(url, stack).runtime
    wait_until(lambda: owned(url) == [127, 129], PATIENCE, "the second node to lack one shard")
    machine.goes_on.set()

    assert second.turns.wait(turn_id, timeout=PATIENCE).text == "said"
    (child,) = second.sessions.list(parent=session)
    assert [message.text for message in second.sessions.messages(child.id)] == ["Say something.", "said"]
    for each in (session, child.id):  # all of the family has left
        assert second.ask("Hello", session=each, timeout=PATIENCE).text == "said"


def test_an_agent_that_calls_another_one_while_its_node_ends_gets_an_answer(url: str, stack: ExitStack) -> None:
    machine = Machine(url, stack)
    first, second = machine.runtime, Machine(url, stack).runtime
    first.containers.create(container_id="c")
    first.images.register(Image(id="i"))
    agent = agent_tool("child", "i", description="Says it.")
    first.images.register(Image(id="parent", tools=(machine.wait, agent)))
    wait_until(lambda: owned(url) == [128, 128], PATIENCE, "each node to have its share")
    session = first.sessions.create("c", "parent").id
    started = first.sessions.run(session)
    turn_id = first.agents.receive(started, "ask a child")
    assert machine.waits.wait(PATIENCE)

    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(first.close)
        wait_until(lambda: owned(url) == [1, 255], PATIENCE, "the second node to lack one shard")
        machine.goes_on.set()
        closing.result(PATIENCE)

    assert second.turns.wait(turn_id, timeout=PATIENCE).text == "said"
    (child,) = second.sessions.list(parent=session)
    assert [turn.outcome for turn in second.sessions.turns(child.id)] == ["completed"]
    assert [agent.id for agent in second.agents.list()] == [started]  # it lives on
