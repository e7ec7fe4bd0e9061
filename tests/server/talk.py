"""A client that says what a test wants it to say, and nothing by itself."""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from reenact.server import Server

Json: TypeAlias = dict[str, Any]
PATIENCE = 60.0
"""Seconds after which what has not come will not come."""


class Talk:
    """One connection; frames are mappings. Events of subscriptions are gathered by the subscriptions' ids."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: deque[Json] = deque()
        self.events: dict[str, list[Json]] = {}

    def say(self, type_: str, **fields: object) -> None:
        """Send a frame."""
        self.connection.send(json.dumps({"type": type_, **fields}))

    def hear(self, type_: str | None = None) -> Json:
        """Return the next frame that is not events, which has to be of that type."""
        frame = self._next()
        while frame["type"] == "events":
            self._gather(frame)
            frame = self._next()
        assert type_ in (None, frame["type"]), frame
        return frame

    def hello(self, **fields: object) -> Json:
        """Say hello; return the welcome."""
        self.say("hello", **fields)
        return self.hear("welcome")

    def ask(self, request: str, **data: object) -> Json:
        """Have a request carried out; return the data of its response."""
        return self.ask_as(f"{request}-{id(data)}-{len(self.events)}", request, **data)

    def ask_as(self, id_: str, request: str, **data: object) -> Json:
        """Do the same under a given id."""
        self.say("request", id=id_, request=request, data=data)
        frame = self.hear("response")
        assert frame["id"] == id_
        answer: Json = frame["response"]["data"]
        return answer

    def subscribe(self, id_: str, topic: str, **fields: object) -> Json:
        """Subscribe; return the frame that says so."""
        self.say("subscribe", id=id_, topic=topic, **fields)
        return self.hear("subscribed")

    def follow(self, id_: str, until: Callable[[list[Json]], bool]) -> list[Json]:
        """Return the events of a subscription as soon as there are enough."""
        while not until(self.events.setdefault(id_, [])):
            frame = self._next()
            assert frame["type"] == "events", frame
            self._gather(frame)
        return self.events[id_]

    def closing(self) -> tuple[int, str]:
        """Return the code and the reason with which the server closes, whatever comes before."""
        with pytest.raises(ConnectionClosed) as closed:
            self._read_on()
        received = closed.value.rcvd
        assert received is not None, "it was cut, not closed"
        return received.code, received.reason

    def _read_on(self) -> None:
        while True:
            self.connection.recv(timeout=PATIENCE)

    def _next(self) -> Json:
        frame: Json = json.loads(self.connection.recv(timeout=PATIENCE))
        return frame

    def _gather(self, frame: Json) -> None:
        for batch in frame["batches"]:
            self.events.setdefault(batch["id"], []).extend(batch["events"])


@contextmanager
def talking(
    server: Server, *, additional_headers: Mapping[str, str] | None = None, max_queue: int = 16
) -> Generator[Talk]:
    """Connect, without saying anything."""
    url = f"{server.url.replace('http', 'ws', 1)}/ws"
    with connect(
        url, additional_headers=additional_headers, compression=None, max_size=None, max_queue=max_queue
    ) as connection:
        yield Talk(connection)


@contextmanager
def greeted(
    server: Server, *, additional_headers: Mapping[str, str] | None = None, max_queue: int = 16
) -> Generator[Talk]:
    """Connect and say hello."""
    with talking(server, additional_headers=additional_headers, max_queue=max_queue) as talk:
        talk.hello()
        yield talk


@contextmanager
def plain(server: Server) -> Generator[socket.socket]:
    """Connect, and speak whatever the test does."""
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname or "", where.port or 0), PATIENCE) as connection:
        yield connection


def handshake(server: Server, *headers: str) -> bytes:
    """Return the bytes of a WebSocket's handshake."""
    return request_head(
        server,
        "GET /ws",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *headers,
    )


def client_frame(first: int, payload: bytes) -> bytes:
    """Return a frame of a client that begins with this byte, masked with zeros."""
    size = len(payload)
    head = struct.pack(">BB", first, 0x80 | size) if size < 126 else struct.pack(">BBH", first, 0xFE, size)
    return head + bytes(4) + payload


def request_head(server: Server, line: str, *headers: str) -> bytes:
    """Return the head of a request of HTTP: `request_head(server, "GET /health", "X-Mine: 1")`."""
    host = urlsplit(server.url).netloc
    return "\r\n".join((f"{line} HTTP/1.1", f"Host: {host}", *headers, "", "")).encode()


def metric(server: Server, name: str) -> float:
    """Return the number of this name among the metrics of the server, or 0."""
    lines = httpx2.get(f"{server.url}/metrics").text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


def has_turned(events: list[Json]) -> bool:
    """Return whether a turn has ended."""
    return any(event["type"] == "turn_completed" for event in events)


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the other side ends it."""
    received = bytearray()
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)
