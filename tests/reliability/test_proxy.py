"""The relay does what it is told to, and otherwise nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from reenact.testing import wait_until
from tests.reliability.proxy import Proxy
from tests.reliability.splitter import Piece, Splitter

LONG = "x" * 70_000


class Echo:
    """A WebSocket server that says everything again, and keeps what it was told."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[str | bytes] = SimpleQueue()
        self._server = serve(self._talk, "127.0.0.1", 0, compression="deflate")
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def _talk(self, connection: ServerConnection) -> None:
        for message in connection:
            self.heard.put(message)
            connection.send(message)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.url) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[ClientConnection]:
    with connected(proxy) as client:
        yield client


def connected(proxy: Proxy) -> ClientConnection:
    return connect(proxy.url.replace("http", "ws"), proxy=None, ping_interval=None, close_timeout=1)


@pytest.mark.parametrize("message", ["", "short", "x" * 125, "x" * 126, LONG])
def test_what_is_said_arrives_as_it_was_said(client: ClientConnection, echo: Echo, message: str) -> None:
    client.send(message)

    assert client.recv(timeout=60) == message
    assert echo.heard.get(timeout=60) == message


def test_it_relays_what_is_no_websocket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Proxy(f"http://127.0.0.1:{_port(server)}") as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nand a body")
            client.shutdown(socket.SHUT_WR)
            accepted, _ = server.accept()
            with accepted:
                assert _all_of(accepted) == b"GET / HTTP/1.1\r\nHost: x\r\n\r\nand a body"
                accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\nyes")
            assert _all_of(client) == b"HTTP/1.1 200 OK\r\n\r\nyes"
        wait_until(lambda: proxy.open == 0)


@pytest.mark.parametrize("count", [1, 4, 5, 6])
def test_it_cuts_behind_a_byte(proxy: Proxy, echo: Echo, count: int) -> None:
    with connected(proxy) as client:
        proxy.cut_after(count, "client")
        client.send("four")  # comes back as a frame of six bytes

        if count == 6:
            assert client.recv(timeout=60) == "four"
        with pytest.raises(ConnectionClosedError):
            client.recv(timeout=60)
    assert echo.heard.get(timeout=60) == "four"


def test_it_cuts_in_the_middle_of_a_frame(proxy: Proxy, echo: Echo) -> None:
    with connected(proxy) as client:
        proxy.cut_inside("server", b"second")

        client.send("first")
        assert client.recv(timeout=60) == "first"
        client.send("second")

        with pytest.raises(ConnectionClosedError):
            client.recv(timeout=60)
    with connected(proxy) as again:
        again.send("second")
        assert again.recv(timeout=60) == "second"
    assert [echo.heard.get(timeout=60) for _ in range(2)] == ["first", "second"]


def test_it_cuts_every_connection(proxy: Proxy) -> None:
    with connected(proxy) as one, connected(proxy) as another:
        wait_until(lambda: proxy.open == 2)

        assert proxy.cut() == 2

        for client in (one, another):
            with pytest.raises(ConnectionClosedError):
                client.recv(timeout=60)
    wait_until(lambda: proxy.open == 0)


def test_it_sends_a_frame_twice(proxy: Proxy, client: ClientConnection) -> None:
    proxy.duplicate(b"pay", times=2)

    for message in ("look", "pay 1", "pay 2", "pay 3", "end"):
        client.send(message)

    heard = [client.recv(timeout=60) for _ in range(7)]
    assert heard == ["look", "pay 1", "pay 1", "pay 2", "pay 2", "pay 3", "end"]
    assert proxy.duplicated == 2


def test_it_keeps_connections_open_and_relays_nothing(proxy: Proxy, client: ClientConnection, echo: Echo) -> None:
    proxy.hold()
    client.send("into the dark")

    with pytest.raises(TimeoutError):
        client.recv(timeout=0.05)
    assert echo.heard.empty()
    assert proxy.open == 1

    proxy.let_go()
    assert client.recv(timeout=60) == "into the dark"


def test_it_refuses_and_then_accepts_on_the_same_port(proxy: Proxy, client: ClientConnection) -> None:
    proxy.refuse()

    with pytest.raises(ConnectionRefusedError), connected(proxy):
        pass
    client.send("still here")
    assert client.recv(timeout=60) == "still here"

    proxy.accept()
    with connected(proxy) as another:
        another.send("hello")
        assert another.recv(timeout=60) == "hello"


def test_it_delays_both_ways_and_keeps_the_order(proxy: Proxy, client: ClientConnection) -> None:
    proxy.delay(0.05)
    begun = time.monotonic()

    for number in range(20):
        client.send(str(number))

    assert [client.recv(timeout=60) for _ in range(20)] == [str(number) for number in range(20)]
    assert time.monotonic() - begun >= 0.1


def test_it_trickles(proxy: Proxy, client: ClientConnection) -> None:
    proxy.trickle(3, 0.001)

    client.send("a few words")

    assert client.recv(timeout=60) == "a few words"


def test_a_target_that_is_not_there_is_a_connection_that_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = _port(nobody)
    with Proxy(f"http://127.0.0.1:{port}") as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.settimeout(60)
        assert _all_of(client) == b""


@given(messages=st.lists(st.binary(max_size=300), max_size=6), cuts=st.lists(st.integers(1, 40), max_size=60))
def test_however_it_arrives_it_is_cut_into_the_same_frames(messages: list[bytes], cuts: list[int]) -> None:
    head = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: a; b\r\nHost: x\r\n\r\n"
    said = head + b"".join(_masked(message) for message in messages) + b"\x81"
    splitter, pieces = Splitter(), list[Piece]()

    for cut in [*cuts, len(said)]:
        arrived, said = said[:cut], said[cut:]
        pieces += splitter.split(arrived)

    assert pieces[0].data == b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nHost: x\r\n\r\n"
    assert [piece.payload for piece in pieces[1:]] == messages
    assert [piece.data for piece in pieces[1:]] == [_masked(message) for message in messages]
    assert [piece.data for piece in splitter.rest()] == [b"\x81"]


def _masked(payload: bytes) -> bytes:
    """Return a client's frame: the mask is an involution, so that it is written here the slow way."""
    mask = b"\x12\x34\x56\x78"
    length = len(payload)
    size = bytes([0x80 | length]) if length < 126 else bytes([0x80 | 126]) + length.to_bytes(2)
    return b"\x82" + size + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


def _port(listener: socket.socket) -> int:
    address: tuple[str, int] = listener.getsockname()
    return address[1]


def _all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1000), b""))
