"""The protocol spoken by hand: frames over a WebSocket, without anything of our own client."""

from __future__ import annotations

import logging
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any, Final, Self, TypeAlias

import msgspec
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from reenact.domain.stream import frames
from tests.jsons import object_at

PATIENCE: Final = 60.0
"""Seconds without a frame, after which what was waited for is not going to come."""

Event: TypeAlias = dict[str, Any]
_DECODER: Final = msgspec.json.Decoder(frames.FromServer)
_numbers = count(1)
_SILENT: Final = logging.getLogger("tests.reliability.wire")
_SILENT.setLevel(
    logging.CRITICAL + 1
)  # the library takes what still arrives at a connection that was dropped for an error


class RefusedByServer(Exception):
    """The server did not accept a frame."""

    def __init__(self, refused: frames.Refused) -> None:
        super().__init__(f"{refused.code}: {refused.message}")
        self.code = refused.code


class Wire:
    """One connection. It reads only while a method of it waits for something, so that a test can be a slow client."""

    def __init__(self, url: str, *, token: str | None = None, read_ahead: int = 1) -> None:
        self._stack = ExitStack()
        self._connection: ClientConnection = self._stack.enter_context(
            connect(
                f"{url.replace('http', 'ws', 1)}/ws",
                proxy=None,
                compression=None,
                subprotocols=[Subprotocol(frames.SUBPROTOCOL)],
                additional_headers={"Authorization": f"Bearer {token}"} if token else None,
                open_timeout=PATIENCE,
                close_timeout=0.2,
                ping_interval=None,
                max_queue=read_ahead,
                max_size=None,
                logger=_SILENT,
            )
        )
        self.events: defaultdict[str, list[Event]] = defaultdict(list)
        """What each subscription has received."""
        self.subscribed: dict[str, int | None] = {}
        self.answers: dict[str, Event] = {}
        self.acked: dict[str, int] = {}
        self.ended: dict[str, str] = {}
        self.refused: list[frames.Refused] = []
        self.welcome: frames.Welcome | None = None
        self.send(frames.Hello())
        self.until(lambda: self.welcome is not None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Say goodbye."""
        self._stack.close()

    def drop(self) -> None:
        """Be gone, without a goodbye: the connection ends, and what is under way is lost."""
        with suppress(OSError):  # the other side was faster
            self._connection.socket.shutdown(socket.SHUT_RDWR)
        self._connection.close_socket()
        self._connection.recv_events_thread.join(PATIENCE)

    def send(self, frame: frames.FromClient) -> None:
        """Send a frame."""
        self._connection.send(msgspec.json.encode(frame).decode())

    def subscribe(
        self, topic: str, *, client_id: str | None = None, after: int | None = None, name: str = "sub"
    ) -> int:
        """Subscribe, and return the cursor that it begins behind."""
        self.send(frames.Subscribe(id=name, topic=topic, client_id=client_id, after=after))
        self.until(lambda: name in self.subscribed)
        begun = self.subscribed[name]
        assert begun is not None
        return begun

    def request(self, type_: str, data: Mapping[str, Any], *, request_id: str | None = None) -> str:
        """Send a request without waiting for its answer; return its id."""
        id_ = request_id or f"request-{next(_numbers)}"
        self.send(frames.Ask(id=id_, request=type_, data=dict(data)))
        return id_

    def ask(self, type_: str, data: Mapping[str, Any], *, request_id: str | None = None) -> Event:
        """Send a request, and return the data of its response."""
        id_ = self.request(type_, data, request_id=request_id)
        self.until(lambda: id_ in self.answers)
        answer: Event = self.answers.pop(id_)["data"]
        return answer

    def ack(self, cursor: int, *, name: str = "sub") -> None:
        """Acknowledge; return when that is durable."""
        self.send(frames.Ack(id=name, cursor=cursor))
        self.until(lambda: self.acked.get(name, -1) >= cursor)

    def heard(self, name: str = "sub") -> list[Event]:
        """Return what the subscription has received."""
        return self.events[name]

    def deltas(self, name: str = "sub") -> list[str]:
        """Return the text of the deltas that the subscription has received."""
        return [event["data"]["text"] for event in self.events[name] if event["type"] == "text_delta"]

    def read(self, type_: str, count: int = 1, *, name: str = "sub") -> list[Event]:
        """Read until the subscription has received so many events of a type; return all that it has received."""
        seen = found = 0

        def enough() -> bool:
            nonlocal seen, found
            events = self.events[name]
            found += sum(str(event["type"]) == type_ for event in events[seen:])
            seen = len(events)
            return found >= count

        self.until(enough)
        return self.events[name]

    def read_on(self, count: int, *, name: str = "sub") -> None:
        """Read until the subscription has received so many more events, or some too many."""
        enough = len(self.events[name]) + count
        self.until(lambda: len(self.events[name]) >= enough)

    def until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Read frames until the condition is true.

        Raises:
            RefusedByServer: the server does not accept something that was sent.
            TimeoutError: it is not true, and no frame has come for `timeout` seconds.
        """
        while not condition():
            self._take(_DECODER.decode(self._connection.recv(timeout=timeout)))

    def _take(self, frame: frames.FromServer) -> None:
        match frame:
            case frames.Events(batches=batches):
                for batch in batches:
                    self.events[batch.id] += map(_event, batch.events)
            case frames.Answered(id=id_, response=response):
                self.answers[id_] = _event(response)
            case frames.Subscribed(id=id_, after=after):
                self.subscribed[id_] = after
            case frames.Acked(id=id_, cursor=cursor):
                self.acked[id_] = cursor
            case frames.Ended(id=id_, reason=reason):
                self.ended[id_] = reason
            case frames.Welcome():
                self.welcome = frame
            case frames.Refused():
                self.refused.append(frame)
                raise RefusedByServer(frame)


def cursors(events: list[Event]) -> list[int]:
    """Return where the events stand."""
    return [event["cursor"] for event in events]


def _event(told: object) -> Event:
    return object_at(told)
