"""A client that knows several servers: it uses one that answers, and goes on to another one when that is gone."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from reenact import ConfigurationError, Runtime
from reenact.client.dialing import Dialer, Reconnect, ServerAddress
from reenact.domain.errors import AuthenticationError, ProtocolError, ServerUnreachableError
from reenact.testing import wait_until
from tests.client.conftest import Connect, Waits
from tests.client.scripted import Beyond, Line, Scripted, event


@pytest.fixture
def other() -> Iterator[Scripted]:
    other = Scripted()
    yield other
    other.stop()


@pytest.fixture
def nobody() -> str:
    """The address of a server that is not there."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def welcomed(beyond: Beyond, connecting: Callable[[], object], server: Scripted) -> Line:
    """Begin to connect on another thread, and return the connection that comes to this server."""
    called = beyond.call(connecting)
    line = server.line()
    called.result()
    return line


def test_a_server_that_is_not_there_is_passed_over_without_a_pause(
    nobody: str, scripted: Scripted, connect: Connect, beyond: Beyond, waits: Waits
) -> None:
    welcomed(beyond, lambda: connect([nobody, scripted.url]), scripted)

    assert waits.asked == []


def test_so_is_one_that_has_become_something_else(
    scripted: Scripted, other: Scripted, connect: Connect, beyond: Beyond
) -> None:
    scripted.statuses = [404]

    welcomed(beyond, lambda: connect([scripted.url, other.url]), other)

    assert scripted.statuses == []


def test_a_client_whose_server_is_gone_goes_on_with_the_next_one(
    scripted: Scripted, other: Scripted, connect: Connect, beyond: Beyond
) -> None:
    connecting = beyond.call(lambda: connect([scripted.url, other.url], client_id="me"))
    line = scripted.line()
    runtime = connecting.result()
    asking = beyond.call(lambda: runtime.sessions.run("s"))
    asked = line.hear("request")
    following = beyond.call(lambda: runtime.events.subscribe("s", auto_ack=False))
    line.events(line.subscribed()["id"], event(1), event(2))
    subscription = following.result()
    assert [next(subscription).cursor for _ in range(2)] == [1, 2]

    line.close()
    line = other.line()

    again = [line.hear(), line.hear()]
    request = next(frame for frame in again if frame["type"] == "request")
    subscribe = next(frame for frame in again if frame["type"] == "subscribe")
    assert (request["id"], request["data"]) == (asked["id"], asked["data"])
    assert subscribe["after"] == 2
    line.answer(request, result="agt_1")
    assert asking.result() == "agt_1"


def test_it_comes_back_to_the_first_one_when_the_second_is_gone(
    scripted: Scripted, other: Scripted, connect: Connect, beyond: Beyond
) -> None:
    line = welcomed(beyond, lambda: connect([scripted.url, other.url]), scripted)

    line.close()
    other.line().close()

    scripted.line()


def test_it_waits_only_after_it_has_tried_all(
    nobody: str, scripted: Scripted, connect: Connect, beyond: Beyond, waits: Waits
) -> None:
    scripted.statuses = [503, 503]

    welcomed(beyond, lambda: connect([nobody, scripted.url, nobody]), scripted)

    assert waits.asked == [1.0, 2.0]


def test_when_none_answers_all_are_named(nobody: str, scripted: Scripted, waits: Waits, reconnect: Reconnect) -> None:
    waits.at_once = False
    scripted.statuses = [503]

    with pytest.raises(ServerUnreachableError, match=r"within 0\.2 s: .*cannot be reached.*; .*HTTP 503"):
        Runtime.connect([nobody, scripted.url], timeout=0.2, reconnect=reconnect)


def test_what_is_no_server_of_ours_is_said_at_once_when_no_other_answers(nobody: str, scripted: Scripted) -> None:
    scripted.statuses = [404]

    with pytest.raises(ProtocolError, match="not a Reenact server: HTTP 404"):
        Runtime.connect([scripted.url, nobody])


def test_a_token_that_one_does_not_know_is_refused(scripted: Scripted, other: Scripted, reconnect: Reconnect) -> None:
    scripted.statuses = [401]

    with pytest.raises(AuthenticationError):
        Runtime.connect([scripted.url, other.url], reconnect=reconnect)


def test_what_is_wrong_names_the_server_that_it_is_about(
    nobody: str, scripted: Scripted, connect: Connect, beyond: Beyond, waits: Waits
) -> None:
    connecting = beyond.call(lambda: connect([nobody, scripted.url]))
    line = scripted.line()
    runtime = connecting.result()
    waits.at_once = False

    line.close()

    failure = wait_until(lambda: runtime.failure)
    assert scripted.url.removeprefix("http://") in str(failure)


@pytest.mark.parametrize(("chance", "first"), [(0.0, "a"), (0.4, "a"), (0.6, "b"), (1.0, "a")])
def test_chance_says_with_which_it_begins(chance: float, first: str) -> None:
    places = [ServerAddress("a", None), ServerAddress("b", None)]

    assert Dialer(places, 10.0, lambda: chance).address == first


@pytest.mark.parametrize("urls", [[], (), ["http://localhost", "nowhere"], [None]])
def test_each_of_them_has_to_be_an_address_and_one_there_has_to_be(urls: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="address of a server"):
        Runtime.connect(urls)
