"""A client that takes nothing holds nothing, disturbs nobody, and is sent away in the end."""

from __future__ import annotations

import contextlib
import gc
import json
import select
import socket
import tracemalloc
from collections.abc import Generator, Mapping

import httpx2
import pytest

from reenact import Runtime
from reenact.server import Server
from reenact.server.service import LARGE_AT_ONCE
from reenact.testing import MockEnvironmentFactory, MockEvent, MockScenario, wait_until
from tests.examples import takes_long
from tests.server.conftest import Serve
from tests.server.talk import (
    PATIENCE,
    all_of,
    client_frame,
    greeted,
    handshake,
    has_turned,
    metric,
    plain,
    request_head,
)
from tests.server.test_frames import cursors

PIECES = 200
PIECE = "x" * 20_000
MIB = 1024 * 1024


@pytest.fixture
def mock() -> MockEnvironmentFactory:
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("flood", flood())
    mock.set_scenario("flood")
    return mock


def flood() -> MockScenario:
    return MockScenario(
        "flood",
        (
            MockEvent("message_start", data={}),
            *(MockEvent("text_delta", data={"text": PIECE}) for _ in range(PIECES)),
            MockEvent("message_stop", data={"stop_reason": "end_turn"}),
        ),
    )


@contextlib.contextmanager
def stalled(server: Server, *frames: Mapping[str, object]) -> Generator[socket.socket]:
    """Connect with little room for what comes, say the frames, and read nothing any more."""
    with plain(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(handshake(server))
        connection.recv(65536)
        for frame in ({"type": "hello"}, *frames):
            connection.sendall(client_frame(0x81, json.dumps(frame).encode()))
        yield connection


def flooded(runtime: Runtime, session_id: str) -> None:
    before = len(runtime.sessions.turns(session_id))
    runtime.request("message_send_request", {"session_id": session_id, "content": "go"})
    wait_until(lambda: _ended(runtime, session_id) > before, PATIENCE, "the turn")


def test_others_are_served_beside_a_client_that_takes_nothing(
    server: Server, runtime: Runtime, session_id: str
) -> None:
    subscribe = {"type": "subscribe", "id": "s", "topic": session_id}
    with stalled(server, subscribe), stalled(server, subscribe), greeted(server) as other:
        other.subscribe("s", session_id)
        flooded(runtime, session_id)

        events = other.follow("s", has_turned)

    assert cursors(events) == list(range(1, len(events) + 1))
    assert len(events) > PIECES


def held_at_rest() -> int:
    """Return how many bytes are held once nobody is at work with what was said."""
    held: list[int] = []

    def is_still() -> bool:
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
        return len(held) > 3 and max(held[-4:]) - min(held[-4:]) < MIB // 8

    wait_until(is_still, PATIENCE, "memory that does not change any more")
    return held[-1]


@takes_long()
def test_a_client_that_takes_nothing_costs_no_more_memory_however_much_is_said(
    server: Server, runtime: Runtime, session_id: str
) -> None:
    def growth() -> int:
        before = held_at_rest()
        for _ in range(4):
            flooded(runtime, session_id)
        return held_at_rest() - before

    flooded(runtime, session_id)
    tracemalloc.start()
    try:
        alone = growth()  # what the agent itself remembers of the conversation
        with stalled(server, {"type": "subscribe", "id": "s", "topic": session_id}):
            wait_until(lambda: metric(server, "reenact_events_sent_total") > 0, PATIENCE, "the first events")
            for _ in range(4):  # as much as the rooms of a connection could ever hold
                flooded(runtime, session_id)

            beside = growth()
    finally:
        tracemalloc.stop()
    assert 4 * PIECES * len(PIECE) > 15 * MIB
    assert beside < alone + MIB


def test_a_client_that_takes_nothing_is_sent_away_in_the_end(serve: Serve, runtime: Runtime, session_id: str) -> None:
    server = serve(stall_timeout=0.3)
    flooded(runtime, session_id)
    with stalled(server, {"type": "subscribe", "id": "s", "topic": session_id}) as connection:
        wait_until(lambda: metric(server, "reenact_events_sent_total") > 0, PATIENCE, "the first events")

        wait_until(lambda: metric(server, "reenact_connections") == 0, PATIENCE, "the connection to be gone")

        assert len(all_of(connection)) < 3 * MIB
    assert metric(server, "reenact_subscriptions") == 0


def test_a_client_that_goes_on_reading_is_not_sent_away(serve: Serve, runtime: Runtime, session_id: str) -> None:
    server = serve(stall_timeout=30, ping_interval=30)
    flooded(runtime, session_id)

    with greeted(server, max_queue=1) as talk:
        talk.subscribe("s", session_id)
        events = talk.follow("s", has_turned)

    assert cursors(events) == list(range(1, len(events) + 1))


def test_a_connection_whose_other_end_is_gone_ends(serve: Serve) -> None:
    server = serve(ping_interval=0.1)
    with stalled(server) as connection:  # it reads nothing, so it answers no ping
        wait_until(lambda: metric(server, "reenact_connections_total") == 1, PATIENCE, "the connection")

        wait_until(lambda: metric(server, "reenact_connections") == 0, PATIENCE, "its end")
        assert all_of(connection)


def test_answers_that_nobody_takes_are_not_made(server: Server, runtime: Runtime, session_id: str) -> None:
    runtime.request("message_send_request", {"session_id": session_id, "content": "x" * MIB})
    wait_until(lambda: _ended(runtime, session_id), PATIENCE, "the turn")
    asks = [
        {"type": "request", "id": f"r{n}", "request": "session_messages_request", "data": {"session_id": session_id}}
        for n in range(32)
    ]
    with stalled(server) as connection, greeted(server) as other:
        for ask in asks:
            connection.sendall(client_frame(0x81, json.dumps(ask).encode()))
        wait_until(lambda: _carried_out(server) >= 1, PATIENCE, "the first answer, which may fill the room alone")
        for _ in range(20):
            other.ask("container_list_request")
        made = _carried_out(server)

    assert made <= 12


@pytest.mark.parametrize("over", ["ws", "http"])
def test_answers_that_nobody_takes_are_few_and_others_are_served(
    server: Server, runtime: Runtime, session_id: str, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4 * MIB
    monkeypatch.setattr(server._service.unread, "_most", most)
    runtime.request("message_send_request", {"session_id": session_id, "content": "x" * 2 * MIB})
    wait_until(lambda: _ended(runtime, session_id), PATIENCE, "the turn")
    unread: list[float] = []
    with contextlib.ExitStack() as clients:
        for number in range(8):
            if over == "ws":
                connection = clients.enter_context(stalled(server))
                for n in range(4):
                    data = {"session_id": session_id}
                    ask = {"id": f"{number}-{n}", "request": "session_messages_request", "data": data}
                    connection.sendall(client_frame(0x81, json.dumps({"type": "request", **ask}).encode()))
            else:
                connection = clients.enter_context(plain(server))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(request_head(server, f"GET /v1/sessions/{session_id}/messages"))
        wait_until(lambda: metric(server, "reenact_unread_bytes") >= most, PATIENCE, "answers that nobody takes")
        made = _carried_out(server)
        with greeted(server) as other:
            for _ in range(3):
                assert other.ask("session_messages_request", session_id=session_id)["error"] is None
                unread.append(metric(server, "reenact_unread_bytes"))

    assert max(unread) < most + (LARGE_AT_ONCE + 1) * 2.1 * MIB
    assert made <= most // (2 * MIB) + LARGE_AT_ONCE + 1, "of 8 clients' answers"


def test_a_large_answer_is_taken_in_pieces(server: Server, runtime: Runtime, session_id: str) -> None:
    content = "ж" * 3 * MIB  # pieces end within characters
    runtime.request("message_send_request", {"session_id": session_id, "content": content})
    with greeted(server) as talk:
        answer = talk.ask("session_messages_request", session_id=session_id)

    assert answer["result"][0]["content"][0]["text"] == content
    answer = httpx2.get(f"{server.url}/v1/sessions/{session_id}/messages").json()
    assert answer["result"][0]["content"][0]["text"] == content


@takes_long()
def test_pings_of_a_client_that_takes_no_answer_cost_no_memory(serve: Serve) -> None:
    server = serve(rate=1e6, burst=10**6)
    pings = client_frame(0x89, bytes(125)) * 1000
    with stalled(server) as connection:
        wait_until(lambda: metric(server, "reenact_connections") == 1, PATIENCE, "the connection")
        tracemalloc.start()
        try:
            for _ in range(60):
                connection.sendall(pings)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert 60 * len(pings) > 7 * MIB
    assert most < 4 * MIB


def test_the_latest_ping_of_a_client_that_took_nothing_is_answered(serve: Serve) -> None:
    server = serve(rate=1e6, burst=10**6)
    pings = client_frame(0x89, bytes(125)) * 12_000
    ask = client_frame(0x81, b'{"type": "request", "id": "r", "request": "container_list_request"}')
    with stalled(server) as connection:
        connection.sendall(pings + client_frame(0x89, b"last") + ask)
        wait_until(
            lambda: "container_list_request" in httpx2.get(f"{server.url}/metrics").text, PATIENCE, "the request"
        )

        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)  # now it takes what comes, and in large pieces
        received = b""
        while b"\x8a\x04last" not in received[-4096:]:
            piece = connection.recv(65536)
            assert piece
            received += piece

    assert len(received) < 0.8 * len(pings)


def test_a_page_of_events_that_nobody_reads_is_cut(serve: Serve, runtime: Runtime, session_id: str) -> None:
    server = serve(stall_timeout=0.3)
    flooded(runtime, session_id)
    with plain(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request_head(server, f"GET /v1/sessions/{session_id}/events?limit=1000"))
        head = connection.recv(100)

        wait_until(lambda: _is_cut(connection), PATIENCE, "the connection to be cut")

    assert b"200" in head.partition(b"\r\n")[0]


def _ended(runtime: Runtime, session_id: str) -> int:
    return sum(turn.outcome is not None for turn in runtime.sessions.turns(session_id))


def _carried_out(server: Server) -> int:
    """Return how many requests for messages have been carried out."""
    lines = httpx2.get(f"{server.url}/metrics").text.splitlines()
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if "session_messages_request" in line)


def _is_cut(connection: socket.socket) -> bool:
    """Return whether the other side has ended it, without reading anything."""
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))
