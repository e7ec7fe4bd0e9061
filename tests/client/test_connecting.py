"""Beginning, losing, taking up again and ending a connection: nothing is left behind, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from reenact import AsyncRuntime, Runtime, RuntimeClosedError
from reenact.client.dialing import Dialer, Reconnect
from reenact.client.link import Link
from reenact.client.runtime import RemoteRuntime
from reenact.domain.errors import AuthenticationError, ProtocolError, ReenactError, ServerUnreachableError
from reenact.domain.stream.frames import NOT_ALLOWED
from reenact.testing import wait_until
from tests.client.conftest import Connect, Waits
from tests.client.scripted import Beyond, Line, Scripted, event

Talk: TypeAlias = Callable[..., tuple[RemoteRuntime, Line]]


@pytest.fixture
def nobody() -> str:
    """The address of a server that is not there."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return f"http://127.0.0.1:{port}"


class Mute:
    """Accepts connections and says what it is told to, which need not be HTTP."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, name="mute")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def count(self) -> int:
        """How many connections have come."""
        return len(self._taken)

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        for taken in self._taken:
            taken.close()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._socket.accept()
            except OSError:
                return
            self._taken.append(taken)
            if self._answer is not None:
                taken.recv(65536)
                taken.sendall(self._answer)
                taken.close()


@pytest.fixture
def mute() -> Iterator[Callable[[bytes | None], Mute]]:
    made: list[Mute] = []

    def make(answer: bytes | None) -> Mute:
        made.append(Mute(answer))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def is_running() -> bool:
    """Return whether a thread of a client is."""
    return any(thread.name.startswith("reenact-client") for thread in threading.enumerate())


def test_connecting_returns_when_the_welcome_has_come(scripted: Scripted, connect: Connect, beyond: Beyond) -> None:
    connecting = beyond.call(lambda: connect(scripted.url, token="secret"))  # noqa: S106 - of this test
    line = scripted.ungreeted()

    hello = line.hear("hello")
    assert not connecting.is_over
    line.say("welcome", protocol=1, server="x", max_message_size=1000, max_subscriptions=1)

    assert connecting.result().failure is None
    assert hello["protocol"] == 1
    assert scripted.tokens == ["Bearer secret"]
    assert line.connection.subprotocol is None


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_the_server_does_not_know_is_refused_at_once(scripted: Scripted, status: int) -> None:
    scripted.statuses = [status]

    with pytest.raises(AuthenticationError, match=f"HTTP {status}"):
        Runtime.connect(scripted.url)

    assert not is_running()


def test_a_token_may_be_refused_after_the_handshake(scripted: Scripted, connect: Connect, beyond: Beyond) -> None:
    connecting = beyond.call(lambda: connect(scripted.url))
    line = scripted.ungreeted()
    line.hear("hello")

    line.close(NOT_ALLOWED, "a token is needed")

    with pytest.raises(AuthenticationError, match="a token is needed"):
        connecting.result()


def test_a_refusal_of_the_hello_is_raised(scripted: Scripted, connect: Connect, beyond: Beyond) -> None:
    connecting = beyond.call(lambda: connect(scripted.url))
    line = scripted.ungreeted()
    line.hear("hello")

    line.say("error", code="protocol", message="this server speaks protocol 2, the client 1")

    with pytest.raises(ProtocolError, match="speaks protocol 2"):
        connecting.result()


def test_a_server_of_another_version_is_refused(scripted: Scripted, connect: Connect, beyond: Beyond) -> None:
    connecting = beyond.call(lambda: connect(scripted.url))
    line = scripted.ungreeted()
    line.hear("hello")

    line.say("welcome", protocol=2, colour="green")

    with pytest.raises(ProtocolError, match="speaks version 2 of the protocol; this client speaks 1"):
        connecting.result()


@pytest.mark.parametrize(
    "greeting", ["{", "[]", '{"type": "welcome", "protocol": 1}', '{"type": "acked", "id": "1", "cursor": 1}', b"\xff"]
)
def test_what_does_not_begin_with_a_welcome_is_no_server_of_ours(
    scripted: Scripted, connect: Connect, beyond: Beyond, greeting: str | bytes
) -> None:
    connecting = beyond.call(lambda: connect(scripted.url))
    line = scripted.ungreeted()
    line.hear("hello")

    line.say_raw(greeting)

    with pytest.raises(ProtocolError, match="not a Reenact server"):
        connecting.result()


@pytest.mark.parametrize("status", [200, 404, 426])
def test_a_web_server_is_no_server_of_ours(scripted: Scripted, status: int) -> None:
    scripted.statuses = [status]

    with pytest.raises(ProtocolError, match=f"not a Reenact server: HTTP {status}"):
        Runtime.connect(scripted.url)


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.example.org ESMTP\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
    ids=["mail", "careless"],
)
def test_what_does_not_speak_as_a_websocket_does_is_no_server_of_ours(
    mute: Callable[[bytes | None], Mute], answer: bytes
) -> None:
    with pytest.raises(ProtocolError, match="not a Reenact server"):
        Runtime.connect(mute(answer).url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["https://login.example/", "ftp://example.org", "/elsewhere", None])
def test_who_sends_clients_on_is_no_server_of_ours(
    mute: Callable[[bytes | None], Mute], status: int, target: str | None
) -> None:
    location = "" if target is None else f"Location: {target}\r\n"
    relay = mute(f"HTTP/1.1 {status} Elsewhere\r\n{location}Content-Length: 0\r\n\r\n".encode())

    with pytest.raises(ServerUnreachableError, match=f"not a Reenact server: HTTP {status} redirects clients"):
        Runtime.connect(relay.url)

    assert relay.count == 1
    assert not is_running()


def test_nobody_is_followed_to_where_clients_are_sent_on_to(
    scripted: Scripted, mute: Callable[[bytes | None], Mute]
) -> None:
    target = scripted.url.replace("http", "ws") + "/ws"
    relay = mute(f"HTTP/1.1 307 Elsewhere\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())

    with pytest.raises(ServerUnreachableError):
        Runtime.connect(relay.url, token="secret")  # noqa: S106 - of this test

    assert scripted.tokens == []


def test_a_client_that_was_sent_on_once_tries_again(talk: Talk, scripted: Scripted, beyond: Beyond) -> None:
    runtime, line = talk()
    scripted.statuses = [302, 301]
    scripted.location = "https://login.example/"

    line.drop()
    line = scripted.line()

    asking = beyond.call(runtime.agents.list)
    line.answer(line.hear("request"), result=[])
    assert asking.result() == []
    assert scripted.statuses == []


@pytest.mark.parametrize("where", ["dialing", "beginning"])
def test_a_failure_that_nobody_has_thought_of_is_logged_and_tried_again(
    talk: Talk, scripted: Scripted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    runtime, line = talk()
    owner, name = (Dialer, "_open") if where == "dialing" else (Link, "_begin")
    wrapped, failures = getattr(owner, name), [ValueError("out of the blue"), LookupError("once more")]

    def fail(self: object, *given: object) -> object:
        if failures:
            raise failures.pop(0)
        return wrapped(self, *given)

    monkeypatch.setattr(owner, name, fail)
    line.drop()
    if where == "beginning":
        scripted.line()
        scripted.line()
    scripted.line()

    wait_until(lambda: runtime.failure is None)
    assert "out of the blue" in caplog.text
    assert "once more" in caplog.text


def test_waiting_that_fails_ends_nobody(
    scripted: Scripted, connect: Connect, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(seconds: float) -> None:
        raise ZeroDivisionError(seconds)

    monkeypatch.setattr("reenact.client.link._PAUSE", 0.01)
    connecting = beyond.call(lambda: connect(scripted.url, reconnect=Reconnect(wait=fail)))
    line = scripted.line()
    runtime = connecting.result()

    line.drop()
    scripted.line()

    wait_until(lambda: runtime.failure is None)


@pytest.mark.parametrize("limits", [{"max_message_size": -1}, {"max_message_size": 0}, {"max_subscriptions": -1}])
def test_a_welcome_with_limits_that_cannot_be_is_none(
    scripted: Scripted, connect: Connect, beyond: Beyond, limits: dict[str, int]
) -> None:
    connecting = beyond.call(lambda: connect(scripted.url))

    scripted.ungreeted().greet(**limits)

    with pytest.raises(ProtocolError, match="not a Reenact server"):
        connecting.result()


def test_what_speaks_no_tls_cannot_be_trusted(mute: Callable[[bytes | None], Mute]) -> None:
    with pytest.raises(ProtocolError, match="cannot be trusted"):
        Runtime.connect(mute(b"HTTP/1.1 400 Bad Request\r\n\r\n").url.replace("http", "https"))


def test_where_nobody_is_is_tried_until_the_time_is_over(nobody: str, waits: Waits, reconnect: Reconnect) -> None:
    waits.at_once = False

    with pytest.raises(ServerUnreachableError, match="cannot be reached"):
        Runtime.connect(nobody, timeout=0.2, reconnect=reconnect)

    assert waits.asked == [1.0]
    assert not is_running()


def test_who_does_not_answer_is_unreachable(mute: Callable[[bytes | None], Mute]) -> None:
    with pytest.raises(ServerUnreachableError, match=r"no server within 0\.1 s: .* has not answered"):
        Runtime.connect(mute(None).url, timeout=0.1)

    assert not is_running()


def test_who_hangs_up_is_unreachable(mute: Callable[[bytes | None], Mute], waits: Waits, reconnect: Reconnect) -> None:
    waits.at_once = False

    with pytest.raises(ServerUnreachableError):
        Runtime.connect(mute(b"").url, timeout=0.2, reconnect=reconnect)


def test_a_server_that_is_about_to_start_is_waited_for(
    scripted: Scripted, connect: Connect, beyond: Beyond, waits: Waits
) -> None:
    scripted.statuses = [503, 502, 429]
    connecting = beyond.call(lambda: connect(scripted.url))

    scripted.line()

    connecting.result()
    assert waits.asked == [1.0, 2.0, 4.0]


def test_each_failure_makes_the_next_wait_longer_and_a_connection_that_works_makes_it_short_again(
    talk: Talk, scripted: Scripted, beyond: Beyond, waits: Waits
) -> None:
    runtime, line = talk()
    scripted.statuses = [500, 500, 500, 500]

    line.drop()
    line = scripted.line()
    asking = beyond.call(runtime.agents.list)
    line.answer(line.hear("request"), result=[])
    asking.result()
    line.drop()
    scripted.line()

    assert waits.asked == [1.0, 2.0, 4.0, 8.0, 8.0, 1.0]


def test_a_connection_over_which_nothing_comes_is_a_failure_too(talk: Talk, scripted: Scripted, waits: Waits) -> None:
    _, line = talk()

    for _ in range(3):
        line.drop()
        line = scripted.line()

    assert waits.asked == [1.0, 2.0, 4.0]


def test_what_is_wrong_at_present_can_be_asked(talk: Talk, scripted: Scripted, waits: Waits) -> None:
    runtime, line = talk()
    assert runtime.failure is None
    waits.at_once = False

    line.drop()
    failure = wait_until(lambda: runtime.failure)
    assert isinstance(failure, ServerUnreachableError)
    assert "is lost" in str(failure)
    wait_until(lambda: waits.asked)
    waits.pass_()
    scripted.line()

    wait_until(lambda: runtime.failure is None)


def test_half_open_connections_end(scripted: Scripted, connect: Connect, beyond: Beyond) -> None:
    connecting = beyond.call(lambda: connect(scripted.url, heartbeat=0.05))
    line = scripted.line()
    connecting.result()

    line.connection.protocol.receive_data = lambda data: None  # type: ignore[method-assign]  # it hears nothing more

    scripted.line()


@pytest.mark.parametrize("refusal", ["status", "close"])
def test_a_token_that_is_not_known_any_more_ends_it_for_all_who_wait(
    talk: Talk, scripted: Scripted, beyond: Beyond, refusal: str
) -> None:
    runtime, line = talk(client_id="me")
    asking = [beyond.call(lambda: runtime.sessions.run("s")) for _ in range(2)]
    for _ in asking:
        line.hear("request")
    following = beyond.call(lambda: runtime.events.subscribe("s"))
    line.events(line.subscribed()["id"], event(1))
    subscription = following.result()
    waiting = beyond.call(lambda: [envelope.cursor for envelope in subscription])
    wait_until(lambda: subscription.cursor == 1)

    if refusal == "status":
        scripted.statuses = [401]
        line.drop()
    else:
        line.close(NOT_ALLOWED, "the token was withdrawn")

    for call in (*asking, waiting):
        with pytest.raises(AuthenticationError):
            call.result()
    with pytest.raises(AuthenticationError):
        runtime.containers.list()
    with pytest.raises(AuthenticationError):
        runtime.events.stream("s")
    with pytest.raises(AuthenticationError):
        runtime.events.on("text_delta", print)
    assert isinstance(runtime.failure, AuthenticationError)
    runtime.close()
    with pytest.raises(RuntimeClosedError):
        runtime.containers.list()


def test_a_server_that_comes_back_in_another_version_ends_it(talk: Talk, scripted: Scripted, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))
    line.hear("request")
    line.drop()

    line = scripted.ungreeted()
    line.hear("hello")
    line.say("welcome", protocol=2)

    with pytest.raises(ProtocolError, match="version 2"):
        call.result()


def test_what_is_no_server_for_a_while_is_tried_again(talk: Talk, scripted: Scripted, waits: Waits) -> None:
    runtime, line = talk()
    scripted.statuses = [404, 200]

    line.drop()
    scripted.line()

    wait_until(lambda: runtime.failure is None)
    assert len(waits.asked) == 3


def test_a_connecting_that_is_cancelled_ends_at_once(mute: Callable[[bytes | None], Mute]) -> None:
    silent = mute(None)

    async def change_ones_mind() -> None:
        connecting = asyncio.ensure_future(AsyncRuntime.connect(silent.url, timeout=None).__aenter__())
        await asyncio.to_thread(wait_until, lambda: silent.count)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    asyncio.run(change_ones_mind())

    wait_until(lambda: not is_running())


def test_closing_says_goodbye_and_leaves_nothing(talk: Talk) -> None:
    runtime, line = talk()
    assert is_running()

    with runtime:
        pass
    runtime.close()

    assert line.is_closed()
    assert not is_running()
    assert isinstance(runtime.failure, RuntimeClosedError)


def test_closing_while_there_is_no_connection_does_not_wait_for_one(talk: Talk, waits: Waits) -> None:
    runtime, line = talk()
    waits.at_once = False
    line.drop()
    wait_until(lambda: waits.asked)

    runtime.close()

    assert not is_running()


def test_closing_in_the_middle_of_an_attempt_ends_that(talk: Talk, scripted: Scripted) -> None:
    runtime, line = talk()
    line.drop()
    line = scripted.ungreeted()
    line.hear("hello")

    runtime.close()

    assert not is_running()
    assert line.is_closed()


def test_who_waits_for_an_answer_when_it_closes_is_told(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))
    line.hear("request")

    runtime.close()

    with pytest.raises(RuntimeClosedError, match="connect again"):
        call.result()


def test_nothing_can_be_asked_of_a_closed_runtime(talk: Talk) -> None:
    runtime, _ = talk()
    runtime.close()

    calls: list[Callable[[], object]] = [
        runtime.containers.list,
        runtime.containers.create,
        lambda: runtime.agents.interrupt("a"),
        lambda: runtime.agents.approve("c"),
        lambda: runtime.request("agent_list_request", {}),
        lambda: runtime.events.on("text_delta", print),
        lambda: runtime.events.stream("s"),
        lambda: runtime.events.subscribe("s", "me"),
    ]
    for call in calls:
        with pytest.raises(RuntimeClosedError):
            call()


def test_many_may_close_it_at_once(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()

    closing = [beyond.call(runtime.close) for _ in range(8)]

    for call in closing:
        call.result()
    assert line.is_closed()


def test_a_server_that_does_not_say_goodbye_does_not_hold_up_closing(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    line.connection.protocol.receive_data = lambda data: None  # type: ignore[method-assign]  # it hears nothing more

    closing = beyond.call(runtime.close)

    closing.result()
    assert not is_running()


def test_what_nobody_expected_is_logged_and_the_connection_made_again(
    talk: Talk, scripted: Scripted, beyond: Beyond, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, line = talk()

    def fail(*_: object) -> None:
        raise RuntimeError("nobody expected this")

    with monkeypatch.context() as patch, caplog.at_level(logging.INFO, "reenact.client"):
        patch.setattr("reenact.client.link.read_frame", fail)
        line.say("acked", id="1", cursor=1)
        line = scripted.line()
    call = beyond.call(runtime.agents.list)
    line.answer(line.hear("request"), result=[])

    assert call.result() == []
    assert "nobody expected this" in caplog.text


def test_a_frame_that_only_newer_servers_send_costs_no_connection(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()

    line.say("aurora", id="1", colour="green")
    call = beyond.call(runtime.agents.list)
    line.answer(line.hear("request"), result=[])

    assert call.result() == []


def test_connecting_from_asyncio_may_be_given_up(nobody: str) -> None:
    async def give_up() -> None:
        connecting = asyncio.ensure_future(_connected(nobody))
        while not is_running():  # noqa: ASYNC110 - there is nothing that could tell
            await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait([connecting])
        assert connecting.cancelled()

    async def _connected(url: str) -> None:
        async with AsyncRuntime.connect(url, timeout=0.3):
            raise AssertionError

    asyncio.run(give_up())

    wait_until(lambda: not is_running())


def test_errors_that_end_it_are_raised_anew_for_each(talk: Talk, scripted: Scripted) -> None:
    runtime, line = talk()
    scripted.statuses = [401]
    line.drop()
    wait_until(lambda: isinstance(runtime.failure, AuthenticationError))
    raised: list[ReenactError] = []

    for _ in range(2):
        try:
            runtime.agents.list()
        except AuthenticationError as error:
            raised.append(error)

    assert raised[0] is not raised[1]
    assert str(raised[0]) == str(raised[1])
