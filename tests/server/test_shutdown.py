"""A server ends within two seconds, whatever its clients do."""

from __future__ import annotations

import math
import socket
import threading
import time
from typing import Any

import httpx2
import pytest

from reenact import ConfigurationError, InvalidInputError, Runtime, RuntimeClosedError
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, MockEvent, MockScenario, wait_until
from tests.server.conftest import Serve
from tests.server.talk import PATIENCE, greeted, handshake, has_turned, metric, plain, talking
from tests.server.test_stalled import flood, flooded, stalled

STUCK = 60.0
"""Seconds that a server waits for what is stuck."""
LONGEST = 30.0
"""Seconds that it may take to stop: less than that, and more than a busy machine needs."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is stuck take much longer than all else that may take a while."""
    for module in ("sockets", "transports"):
        monkeypatch.setattr(f"reenact.server.{module}.FLUSH", STUCK)


@pytest.fixture
def mock() -> MockEnvironmentFactory:
    return MockEnvironmentFactory()


def seconds_to_stop(server: Server) -> float:
    begun = time.monotonic()
    server.stop()
    return time.monotonic() - begun


def test_clients_are_told_that_the_server_goes(server: Server) -> None:
    with greeted(server) as one, greeted(server) as two, talking(server) as silent:
        took = seconds_to_stop(server)

        assert [talk.closing()[0] for talk in (one, two, silent)] == [1001, 1001, 1001]
    assert took < LONGEST


def test_a_stream_that_is_under_way_does_not_put_it_off(
    server: Server, runtime: Runtime, mock: MockEnvironmentFactory, session_id: str
) -> None:
    slowly = tuple(MockEvent("text_delta", delay=5, data={"text": "x"}) for _ in range(10_000))
    mock.define_scenario("slowly", MockScenario("slowly", slowly))
    mock.set_scenario("slowly")
    with greeted(server) as talk:
        talk.subscribe("s", session_id)
        talk.ask("message_send_request", session_id=session_id, content="go")
        talk.follow("s", lambda events: len(events) > 20)

        took = seconds_to_stop(server)

        assert talk.closing()[0] == 1001
    assert took < LONGEST
    assert not has_turned(talk.events["s"])
    assert [turn.outcome for turn in runtime.sessions.turns(session_id)] == [None], "the runtime goes on"


def test_clients_that_take_nothing_do_not_put_it_off(
    server: Server, runtime: Runtime, mock: MockEnvironmentFactory, session_id: str
) -> None:
    mock.define_scenario("flood", flood())
    mock.set_scenario("flood")
    flooded(runtime, session_id)
    subscribe = {"type": "subscribe", "id": "s", "topic": session_id}
    with stalled(server, subscribe), stalled(server, subscribe), plain(server), plain(server) as shy:
        shy.sendall(handshake(server)[:50])
        wait_until(lambda: metric(server, "reenact_events_sent_total") > 0, PATIENCE, "the first events")

        assert seconds_to_stop(server) < LONGEST


@pytest.fixture
def slow_requests(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Have requests say when they are under way, and wait until they may go on."""
    under_way, go_on = threading.Event(), threading.Event()
    carry_out = runtime.request

    def slowly(*given: Any) -> Any:  # noqa: ANN401 - those of `request`
        under_way.set()
        go_on.wait(PATIENCE)
        return carry_out(*given)

    monkeypatch.setattr(runtime, "request", slowly)
    return under_way, go_on


def test_requests_that_are_under_way_do_not_put_it_off(
    server: Server, runtime: Runtime, slow_requests: tuple[threading.Event, threading.Event]
) -> None:
    under_way, go_on = slow_requests
    with greeted(server) as talk:
        talk.say("request", id="r", request="container_create_request", data={"container_id": "room"})
        assert under_way.wait(PATIENCE)

        took = seconds_to_stop(server)
        code = talk.closing()[0]
        go_on.set()

    assert took < LONGEST
    assert code == 1001
    wait_until(lambda: runtime.containers.get("room"), PATIENCE, "what was under way")


def test_a_request_over_http_is_answered_before_it_ends(
    server: Server, slow_requests: tuple[threading.Event, threading.Event]
) -> None:
    under_way, go_on = slow_requests
    answers: list[httpx2.Response] = []
    asking = threading.Thread(target=lambda: answers.append(httpx2.get(f"{server.url}/v1/containers")))
    asking.start()
    assert under_way.wait(PATIENCE)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    wait_until(lambda: not _accepts(server), PATIENCE, "the server to end")
    go_on.set()
    stopping.join()
    asking.join()

    assert [answer.status_code for answer in answers] == [200]


@pytest.mark.parametrize("timeout", ["1", math.nan, True])
def test_waiting_for_the_end_for_what_is_no_time_is_refused(server: Server, timeout: float) -> None:
    with pytest.raises(InvalidInputError, match="a timeout must be a number of seconds"):
        server.wait(timeout)


def test_a_time_that_is_over_is_not_waited_for(server: Server) -> None:
    assert not server.wait(-1)


def test_stopping_twice_or_at_once_is_fine(server: Server) -> None:
    with greeted(server):
        threads = [threading.Thread(target=server.stop) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONGEST)
        server.stop()

    assert not any(thread.is_alive() for thread in threads)
    assert server.wait(0)
    assert not _accepts(server)


def test_a_server_that_was_never_started_can_be_stopped(runtime: Runtime) -> None:
    server = Server(runtime)

    server.stop()

    with pytest.raises(ConfigurationError, match="once"):
        server.start()


def test_a_server_is_started_once(server: Server) -> None:
    with pytest.raises(ConfigurationError, match="once"):
        server.start()


def test_the_runtime_goes_on_without_its_server_and_can_have_another(serve: Serve, runtime: Runtime) -> None:
    first = serve()
    first.stop()

    second = serve(port=first.port)

    with greeted(second) as talk:
        assert talk.ask("container_create_request", container_id="room")["error"] is None
    assert runtime.containers.get("room")


def test_a_runtime_can_have_two_servers(serve: Serve, session_id: str) -> None:
    with greeted(serve()) as one, greeted(serve()) as two:
        one.subscribe("s", session_id)
        two.ask("message_send_request", session_id=session_id, content="Hello")

        assert has_turned(one.follow("s", has_turned))


def test_a_runtime_may_close_before_its_server(server: Server, runtime: Runtime) -> None:
    with greeted(server) as talk:
        runtime.close()

        assert httpx2.get(f"{server.url}/health").status_code == 200
        assert httpx2.get(f"{server.url}/ready").status_code == 503
        assert httpx2.get(f"{server.url}/v1/containers").status_code == 503
        assert talk.ask("container_list_request")["error"]["code"] == RuntimeClosedError.code
        assert seconds_to_stop(server) < LONGEST


def test_a_port_in_use_is_a_clear_error(server: Server, runtime: Runtime) -> None:
    with pytest.raises(ConfigurationError, match=f"port {server.port} of 127.0.0.1"):
        Server(runtime, port=server.port).start()


@pytest.mark.parametrize("port", [-1, 65536, 10**10])
def test_a_port_that_cannot_be_one_is_a_clear_error(runtime: Runtime, port: int) -> None:
    with pytest.raises(ConfigurationError):
        Server(runtime, port=port).start()


@pytest.mark.parametrize("host", ["nowhere.invalid", "300.1.1.1", "\x00", "x" * 300])
def test_an_address_that_is_none_is_a_clear_error(runtime: Runtime, host: str) -> None:
    with pytest.raises(ConfigurationError, match="address"):
        Server(runtime, host, tokens=["a-token-of-this-test"])


def test_a_server_that_cannot_begin_ends(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("uvicorn.Server.startup", fail)

    with Server(runtime) as server:
        assert server.wait(PATIENCE)


def _accepts(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), PATIENCE).close()
    except OSError:
        return False
    return True
