"""Our own client behind a network that fails in every way: nothing is lost, nothing happens twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reenact import Runtime
from reenact.client.runtime import RemoteRuntime
from reenact.client.subscription import RemoteSubscription as Subscription
from reenact.server import Server
from reenact.testing import wait_until
from tests.domain.stream.grammar import Heard
from tests.examples import chance_of
from tests.reliability.proxy import Proxy
from tests.reliability.tap import Tap, chunks
from tests.reliability.truth import deltas_of, kept, taken
from tests.reliability.wire import PATIENCE, Wire


@pytest.fixture
def heartbeat() -> float:
    """Return the seconds without an answer after which the client takes the server for gone."""
    return PATIENCE


@pytest.fixture
def remote(proxy: Proxy, heartbeat: float) -> Iterator[RemoteRuntime]:
    """A client of the server, behind the relay."""
    with Runtime.connect(proxy.url, heartbeat=heartbeat) as remote:
        yield remote


def test_a_cut_in_the_middle_of_events_loses_none(
    runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap
) -> None:
    with remote.events.subscribe("s", "client") as subscription:
        proxy.cut_inside("client", b"chunk-50 ")
        runtime.agents.receive(agent, "100 deltas")
        tap.open()
        heard = to_the_end(subscription)

    assert heard == kept(runtime)
    assert deltas_of(heard) == chunks(100)
    assert proxy.accepted == 2


def test_cuts_behind_any_byte_lose_no_event(
    runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap
) -> None:
    chance = chance_of("any byte")
    with remote.events.subscribe("s", "client") as subscription:
        runtime.agents.receive(agent, "2000 deltas")
        heard: list[Heard] = []
        for connections in range(2, 17):
            proxy.cut_after(chance.randrange(1, 3_000), "client")
            while proxy.accepted < connections:
                tap.allow(1)
                heard += taken(filter(None, [subscription.next(0.01)]))
        tap.open()
        heard += to_the_end(subscription)

    assert heard == kept(runtime)
    assert deltas_of(heard) == chunks(2000)


@pytest.mark.parametrize(
    ("towards", "containing"), [("server", b"message_send_request"), ("client", b"message_send_response")]
)
def test_a_request_that_is_cut_off_is_carried_out_once(
    *, runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap, towards: str, containing: bytes
) -> None:
    tap.open()
    proxy.cut_inside("server" if towards == "server" else "client", containing)

    turn_id = remote.agents.receive(agent, "Hello")

    assert proxy.accepted == 2
    assert [message.turn_id for message in runtime.sessions.messages("s") if message.role == "user"] == [turn_id]


def test_a_request_that_is_delivered_twice_is_carried_out_once(
    runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap
) -> None:
    tap.open()
    proxy.duplicate(b"message_send_request", times=20)

    turns = [remote.agents.receive(agent, f"message {number}") for number in range(20)]

    assert proxy.duplicated == 20
    asked = [message for message in runtime.sessions.messages("s") if message.role == "user"]
    assert [(message.turn_id, message.text) for message in asked] == [
        (turn_id, f"message {number}") for number, turn_id in enumerate(turns)
    ]


def test_a_request_that_many_connections_send_at_once_is_carried_out_once(
    runtime: Runtime, server: Server, agent: str, tap: Tap
) -> None:
    def ask(_number: int) -> str:
        with Wire(server.url) as wire:
            answer = wire.ask("message_send_request", {"agent_id": agent, "content": "Hello"}, request_id="the same")
            return str(answer["result"]["turn_id"])

    with ThreadPoolExecutor(8) as threads:
        turns = set(threads.map(ask, range(8)))

    assert turns == {message.turn_id for message in runtime.sessions.messages("s")}
    assert len(turns) == 1


@pytest.mark.parametrize("heartbeat", [0.25])
def test_a_server_that_is_silent_is_left_for_a_new_connection(
    runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap
) -> None:
    with remote.events.subscribe("s", "client") as subscription:
        runtime.agents.receive(agent, "100 deltas")
        tap.allow(50)
        heard = read(subscription, 50)

        proxy.hold()
        tap.allow(25)
        wait_until(lambda: proxy.accepted >= 2, timeout=PATIENCE)
        proxy.let_go()
        tap.open()
        heard += to_the_end(subscription)

    assert heard == kept(runtime)
    assert deltas_of(heard) == chunks(100)


def test_a_request_waits_for_a_server_that_refuses_connections(
    runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap
) -> None:
    tap.open()
    proxy.refuse()
    proxy.cut()

    with ThreadPoolExecutor(1) as aside:
        sent = aside.submit(remote.agents.receive, agent, "Hello")
        assert runtime.sessions.messages("s") == []
        proxy.accept()
        turn_id = sent.result(PATIENCE)

    assert [message.turn_id for message in runtime.sessions.messages("s") if message.role == "user"] == [turn_id]


@pytest.mark.parametrize("fault", ["delay", "trickle"])
def test_a_slow_network_changes_nothing(
    *, runtime: Runtime, remote: RemoteRuntime, proxy: Proxy, agent: str, tap: Tap, fault: str
) -> None:
    tap.open()
    if fault == "delay":
        proxy.delay(0.05)
    else:
        proxy.trickle(700, 0.001)

    with remote.events.subscribe("s", "client") as subscription:
        remote.agents.receive(agent, "100 deltas")
        heard = to_the_end(subscription)
        subscription.ack()

    assert heard == kept(runtime)
    with runtime.events.subscribe("s", "client") as again:
        assert again.cursor == heard[-1].cursor


def read(subscription: Subscription, deltas: int) -> list[Heard]:
    """Return what the subscription hands out, up to and with so many deltas."""
    heard: list[Heard] = []
    while len(deltas_of(heard)) < deltas:
        event = subscription.next(PATIENCE)
        assert event is not None
        heard += taken([event])
    return heard


def to_the_end(subscription: Subscription) -> list[Heard]:
    """Return what the subscription hands out, up to and with the end of a turn."""
    heard: list[Heard] = []
    while not heard or heard[-1].type != "turn_completed":
        event = subscription.next(PATIENCE)
        assert event is not None
        heard += taken([event])
    return heard
