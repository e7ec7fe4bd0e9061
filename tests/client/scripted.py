"""A server that does what a test tells it to, frame by frame: the test is the server."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Self

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from reenact.domain.stream.frames import PROTOCOL

PATIENCE = 60.0


class Line:
    """One connection, as the server has it."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.over = threading.Event()

    def hear(self, type_: str | None = None) -> dict[str, Any]:
        """Return the client's next frame, which is of this type."""
        frame: dict[str, Any] = json.loads(self.connection.recv(PATIENCE))
        assert type_ in (None, frame["type"]), frame
        return frame

    def is_silent(self, seconds: float = 0.1) -> bool:
        """Return whether the client says nothing for so long."""
        try:
            self.connection.recv(seconds)
        except TimeoutError:
            return True
        return False

    def say(self, type_: str, **fields: object) -> None:
        self.connection.send(json.dumps({"type": type_, **fields}))

    def say_raw(self, text: str | bytes) -> None:
        self.connection.send(text)

    def greet(self, **fields: object) -> Self:
        """Hear the hello and say the welcome."""
        self.hear("hello")
        known = {"protocol": PROTOCOL, "server": "scripted", "max_message_size": 100_000, "max_subscriptions": 100}
        self.say("welcome", **{**known, **fields})
        return self

    def subscribed(self, after: int | None = None) -> dict[str, Any]:
        """Hear a subscription and let it stand."""
        frame = self.hear("subscribe")
        begins = frame["after"] if frame["after"] is not None else 0
        self.say("subscribed", id=frame["id"], after=begins if after is None else after)
        return frame

    def listened(self) -> dict[str, Any]:
        """Hear what is to be listened to and let it stand."""
        frame = self.hear("listen")
        self.say("subscribed", id=frame["id"])
        return frame

    def events(self, id_: str, *events: Mapping[str, Any]) -> None:
        self.say("events", batches=[{"id": id_, "events": events}])

    def answer(self, asked: Mapping[str, Any], result: object = None, error: object = None) -> None:
        """Answer the request."""
        data = {"request_id": asked["id"], "result": result, "error": error}
        response = event(None, type_=asked["request"].replace("_request", "_response"), data=data, category="command")
        self.say("response", id=asked["id"], response=response)

    def drop(self) -> None:
        """Break the connection, without a word."""
        self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.over.set()

    def close(self, code: int = 1001, reason: str = "") -> None:
        """Close the connection."""
        self.connection.close(code, reason)
        self.over.set()

    def is_closed(self) -> bool:
        """Wait for the client to close the connection, and return whether it has."""
        try:
            while True:
                self.connection.recv(PATIENCE)
        except ConnectionClosed:
            return True
        except TimeoutError:
            return False


class Scripted:
    """Listens. `line` gives the next connection, or the one after it; `statuses` are answered before any is taken.

    With them goes a `location`, if there is one.
    """

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self.statuses: list[int] = []
        self.location = ""
        self.tokens: list[str | None] = []
        self._all: list[Line] = []
        self._server = serve(self._take, "127.0.0.1", 0, process_request=self._look, compression=None)
        self._thread = threading.Thread(target=self._server.serve_forever, name="scripted")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def line(self) -> Line:
        """Return the next connection, greeted."""
        return self.ungreeted().greet()

    def ungreeted(self) -> Line:
        """Return the next connection, which has yet to be greeted."""
        return self.lines.get(timeout=PATIENCE)

    def stop(self) -> None:
        for line in self._all:
            line.over.set()
        self._server.shutdown()
        self._thread.join()

    def _take(self, connection: ServerConnection) -> None:
        line = Line(connection)
        self._all.append(line)
        self.lines.put(line)
        line.over.wait()

    def _look(self, connection: ServerConnection, request: Request) -> Response | None:
        self.tokens.append(request.headers.get("Authorization"))
        if not self.statuses:
            return None
        status = HTTPStatus(self.statuses.pop(0))
        headers = Headers({"Content-Length": "0", "Connection": "close"})
        if self.location:
            headers["Location"] = self.location
        return Response(status.value, status.phrase, headers)


def event(
    cursor: int | None,
    *,
    type_: str = "text_delta",
    session_id: str | None = "s",
    data: Mapping[str, Any] | None = None,
    id_: str | None = None,
    category: str = "stream",
) -> dict[str, Any]:
    """Return an envelope as it travels."""
    return {
        "id": id_ or f"{session_id}:{cursor}",
        "type": type_,
        "timestamp": "2026-01-01T00:00:00Z",
        "source": "environment",
        "category": category,
        "intent": "notification",
        "context": {} if session_id is None else {"session_id": session_id},
        "cursor": cursor,
        "data": {"text": str(cursor)} if data is None else data,
    }


def events(first: int, last: int) -> list[dict[str, Any]]:
    """Return envelopes with all cursors from the first to the last."""
    return [event(cursor) for cursor in range(first, last + 1)]


class Beyond:
    """Calls made on threads of their own, for the test is busy being the server."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def call(self, work: Callable[[], Any]) -> Called:
        called = Called(work)
        self._threads.append(called.thread)
        called.thread.start()
        return called

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)


class Called:
    """One such call."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._work = work
        self.thread = threading.Thread(target=self._run, name="beyond", daemon=True)

    @property
    def is_over(self) -> bool:
        return not self.thread.is_alive()

    def result(self) -> Any:  # noqa: ANN401 - whatever the call returns
        """Return what it returned, or raise what it raised."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the call has not come to its end"
        if self._error is not None:
            raise self._error
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = self._work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._error = error
