"""A request in flight: sent again under the same id over every new connection, until it is answered."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Final

import msgspec

from reenact.client.incoming import Outcome, read_outcome
from reenact.client.thread import reject, resolve
from reenact.domain.errors import (
    InvalidInputError,
    ProtocolError,
    ReenactError,
    RequestReusedError,
    RuntimeClosedError,
    from_wire,
)
from reenact.domain.frames import Frame, Refused, Welcome
from reenact.domain.structs import Frozen

BROKEN: Final = 3
"""So many connections a server may end over a frame, before it is not sent again."""


class _Ask(Frame, tag="request"):
    """`frames.Ask`, the data as JSON."""

    id: str
    request: str
    data: msgspec.Raw
    timeout: float | None


class Answer(Frozen):
    """What came: the whole envelope of the response, as JSON, and what is in it."""

    response: msgspec.Raw
    outcome: Outcome


class Asked:
    """A request. `data` is JSON; `timeout` is in seconds from now on, None waits as long as it takes."""

    def __init__(self, id: str, request: str, data: bytes, timeout: float | None) -> None:  # noqa: A002 - the frame's word
        self.id = id
        self.request = request
        self.data = data
        self.answer: Future[Answer] = Future()
        self.queued = False
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._sent = False
        self._broke = 0

    def begin(self) -> None:
        """Take note of a new connection."""
        self._sent = False

    def say(self, welcome: Welcome) -> bytes | None:
        """Return the frame, unless this connection has had it."""
        if self._sent or self.answer.done():
            return None
        self._sent = True
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        frame = msgspec.json.encode(_Ask(id=self.id, request=self.request, data=msgspec.Raw(self.data), timeout=left))
        if len(frame) > welcome.max_message_size:
            msg = f"the request has {len(frame)} bytes; the server takes at most {welcome.max_message_size}"
            self.fail(InvalidInputError(msg))
            return None
        return frame

    def lose(self, *, blamed: bool) -> None:
        """Take note that the connection is gone; `blamed` if the server ended it over something that was sent."""
        self._broke += blamed and self._sent
        if self._broke >= BROKEN:
            self.fail(
                ProtocolError(f"the server ended {self._broke} connections over what was sent, perhaps over this")
            )

    def hear(self, response: msgspec.Raw) -> None:
        """Take the response."""
        try:
            outcome = read_outcome(response)
        except ProtocolError as error:
            self.fail(error)
            return
        if outcome.error is None or outcome.error.code != RuntimeClosedError.code:
            resolve(self.answer, Answer(response, outcome))

    def refuse(self, refused: Refused) -> None:
        """Take the refusal. A server that is closing refuses what its successor will answer."""
        if refused.code != RuntimeClosedError.code:
            details: dict[str, object] = {"request_id": self.id} if refused.code == RequestReusedError.code else {}
            self.fail(from_wire(refused.code, refused.message, details))

    def fail(self, error: ReenactError) -> None:
        """Give up."""
        reject(self.answer, error)
