"""Many messages, many clients, many connections that come and go: all get the same, and nothing stays behind."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from reenact import Runtime
from reenact.events import Envelope
from reenact.server import Server, transports
from reenact.testing import wait_until
from tests.domain.stream.grammar import Heard
from tests.examples import chance_of, examples
from tests.reliability.tap import Tap, chunks
from tests.reliability.truth import deltas_of, kept, received, taken
from tests.reliability.wire import PATIENCE, Wire
from tests.runtime.witness import journal_of

SESSIONS = 20
MESSAGES = SESSIONS * examples(50)


def test_many_messages_to_one_session_are_answered_once_each(
    runtime: Runtime, agent: str, server: Server, tap: Tap
) -> None:
    tap.open()

    with Wire(server.url) as wire, Wire(server.url) as another:
        for one in (wire, another):
            one.subscribe("s", after=0)
        _say_all(another, [("s", f"message {number}") for number in range(MESSAGES)])
        for one in (wire, another):
            one.read("turn_completed", MESSAGES)
        heard = received(wire.heard())

    assert heard == kept(runtime)
    assert received(another.heard()) == heard
    assert [event.cursor for event in heard] == list(range(1, len(heard) + 1))
    said = [event.data["message"]["content"][0]["text"] for event in heard if event.type == "user_message"]
    assert sorted(said) == sorted(f"message {number}" for number in range(MESSAGES))
    assert len([event for event in heard if event.type == "assistant_message"]) == MESSAGES


def test_many_messages_to_many_sessions_are_answered_once_each(runtime: Runtime, server: Server, tap: Tap) -> None:
    names = [f"s{number}" for number in range(SESSIONS)]
    for name in names:
        runtime.sessions.create("c", "i", session_id=name)
    tap.open()

    with Wire(server.url) as wire:
        for name in names:
            wire.subscribe(name, after=0, name=name)
        _say_all(wire, [(names[number % SESSIONS], f"message {number}") for number in range(MESSAGES)])
        for name in names:
            wire.read("turn_completed", MESSAGES // SESSIONS, name=name)

    for number, name in enumerate(names):
        heard = received(wire.heard(name))
        assert heard == kept(runtime, name)
        said = [event.data["message"]["content"][0]["text"] for event in heard if event.type == "user_message"]
        assert sorted(said) == sorted(f"message {each}" for each in range(number, MESSAGES, SESSIONS))


def test_twenty_clients_of_one_session_get_the_same(runtime: Runtime, agent: str, server: Server, tap: Tap) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.url)) for _ in range(20)]
        for number, wire in enumerate(wires):
            wire.subscribe("s", client_id=f"client-{number}", after=0)
        runtime.agents.receive(agent, "500 deltas")
        tap.open()
        for wire in wires:
            wire.read("turn_completed")

    expected = kept(runtime)
    assert deltas_of(expected) == chunks(500)
    assert [received(wire.heard()) for wire in wires] == [expected] * 20


def test_connections_that_come_and_go_leave_nothing_behind(
    runtime: Runtime, agent: str, server: Server, tap: Tap
) -> None:
    chance = chance_of("come and go")
    with Wire(server.url) as staying:
        staying.subscribe("s", client_id="staying", after=0)
        runtime.agents.receive(agent, "2000 deltas")
        for number in range(200):
            tap.allow(10)
            wire = Wire(server.url)
            wire.subscribe("s", client_id=f"going-{number % 7}", after=chance.choice([0, None]))
            if chance.random() < 0.5:
                wire.read("text_delta")
            if chance.random() < 0.05:
                wire.close()
            else:
                wire.drop()
        staying.read("turn_completed")

    assert received(staying.heard()) == kept(runtime)
    wait_until(lambda: not runtime.feed.topics and not runtime.feed.consumers.here(), PATIENCE)
    wait_until(lambda: not server._service.counts.connected, PATIENCE)


def test_a_client_that_says_no_more_and_reads_no_more_is_let_go(
    runtime: Runtime, agent: str, server: Server, tap: Tap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "FLUSH", 0.1)
    tap.open()
    wire = Wire(server.url)
    wire.subscribe("s", after=0)
    runtime.agents.receive(agent, "30000 deltas")
    journal = journal_of(runtime)
    wait_until(lambda: journal.feed_end("session/s") >= 30_000, PATIENCE)
    assert server._uvicorn is not None
    (transport,) = server._uvicorn._transports._open
    below: Any = transport.get_protocol()
    wait_until(lambda: not below.writable.is_set(), PATIENCE)

    wire._connection.socket.shutdown(socket.SHUT_WR)

    wait_until(lambda: not server._service.counts.connected, PATIENCE)
    wire.drop()


@pytest.mark.parametrize("seed", range(3))
def test_whoever_subscribes_while_it_streams_misses_nothing_and_hears_nothing_twice(
    runtime: Runtime, agent: str, tap: Tap, seed: int
) -> None:
    chance = chance_of(f"while it streams {seed}")
    journal = journal_of(runtime)
    begin = journal.feed_end("session/s")
    moments = [(chance.randrange(begin, 3_000), chance.randrange(begin + 1)) for _ in range(12)]

    def follow(moment: int, after: int) -> list[Heard]:
        wait_until(lambda: journal.feed_end("session/s") >= moment, timeout=PATIENCE)
        heard: list[Envelope] = []
        with runtime.events.stream("s", after=after) as events:
            for event in events:
                heard.append(event)
                if event.type == "turn_completed":
                    break
        return taken(heard)

    with ThreadPoolExecutor(len(moments)) as threads:
        following = [threads.submit(follow, *moment) for moment in moments]
        runtime.agents.receive(agent, "3000 deltas")
        while journal.feed_end("session/s") < 3_000:
            tap.allow(chance.randrange(100))
        tap.open()

    expected = kept(runtime)
    for (_, after), one in zip(moments, following, strict=True):
        assert one.result() == expected[after:]


def _say_all(wire: Wire, messages: list[tuple[str, str]]) -> None:
    """Send all messages, then wait until each is accepted."""
    sent = {
        wire.request("message_send_request", {"session_id": session_id, "content": text})
        for session_id, text in messages
    }
    wire.until(lambda: wire.answers.keys() >= sent)
    assert all(wire.answers[each]["data"].get("error") is None for each in sent)
