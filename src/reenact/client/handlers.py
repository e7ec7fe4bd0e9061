"""The thread on which a remote runtime's handlers are called: each event for all of them, before the next."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Self

from reenact.actors.feed.handlers import Handler, handle, handled
from reenact.client.incoming import read_envelope
from reenact.client.link import Link
from reenact.client.listening import Joining, Listening
from reenact.client.thread import NAME
from reenact.domain.errors import ProtocolError, ReenactError, RuntimeClosedError

MOST: Final = 10_000
MOST_BYTES: Final = 32 * 1024 * 1024
"""Events, and bytes of them, that wait for handlers; the server is asked for others when there is room again."""
PATIENCE: Final = 2.0
"""Seconds that closing waits for handlers."""
_log: Final = logging.getLogger("reenact.events")


class RemoteListener(Joining):
    """One handler. Call it, as often as you like, or leave its `with` block to end it."""

    def __init__(
        self,
        type: str | None,  # noqa: A002
        handler: Handler,
        session_id: str | None,
        end: Callable[[RemoteListener], int],
    ) -> None:
        super().__init__(type, session_id)
        self.handler = handler
        self._end = end
        self._ended: int | None = None
        """The number of the first event that it does not hear any more."""

    def __call__(self) -> None:
        if self._ended is None:
            self._ended = self._end(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    def hears(self, number: int, type: str, session_id: str | None) -> bool:  # noqa: A002 - the word users know it by
        """Return whether the event of this number is one for the handler."""
        if self.begin is None or number < self.begin or (self._ended is not None and self._ended <= number):
            return False
        return self.type in (None, type) and self.session_id in (None, session_id)


class Handlers:
    """The handlers of one remote runtime. Thread-safe."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._changed = threading.Condition()
        self._events: deque[tuple[str, str | None, bytes]] = deque()
        self._bytes = 0
        self._next = 0  # the number of the first event that waits
        self._listeners: tuple[RemoteListener, ...] = ()
        self._thread: threading.Thread | None = None
        self._starving = False
        self._closed = False
        self._listening = Listening(link, self)

    def add(self, type: str | None, handler: Handler, session_id: str | None) -> RemoteListener:  # noqa: A002
        """Let a handler join; it hears once its `standing` is done.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        listener = RemoteListener(type, handler, session_id, self._end)
        with self._changed:
            self._link.call(self._listening.join, listener)
            self._listeners = (*self._listeners, listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"{NAME}-handlers", daemon=True)
                self._thread.start()
        return listener

    def close(self) -> None:
        """Let the handlers hear what has come, as far as they do it soon, then end. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        thread.join(PATIENCE)
        with self._changed:
            self._events.clear()
        thread.join(PATIENCE)
        if thread.is_alive():
            _log.warning("a handler has not returned within %s s; it is left behind", 2 * PATIENCE)

    def tell(self, type: str, session_id: str | None, event: bytes) -> bool:  # noqa: A002 - the word users know it by
        """Take an event; see `Audience`."""
        with self._changed:
            if len(self._events) >= MOST or self._bytes >= MOST_BYTES:
                self._starving = True
                return False
            self._events.append((type, session_id, event))
            self._bytes += len(event)
            self._changed.notify_all()
            return True

    def admit(self, joining: Joining) -> None:
        """Let a handler hear what comes from now on; see `Audience`."""
        with self._changed:
            joining.begin = self._next + len(self._events)

    def end(self, error: ReenactError) -> None:
        """Say that nothing more comes; see `Audience`."""
        if not isinstance(error, RuntimeClosedError):
            _log.error("handlers hear nothing more: %s", error)

    def _end(self, listener: RemoteListener) -> int:
        """Let the handler go; return the number of the first event that it does not hear."""
        with self._changed:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
        with contextlib.suppress(RuntimeClosedError):
            self._link.call(self._listening.quit, listener)
        number = handled(self)
        return 0 if number is None else number + 1

    def _run(self) -> None:
        while (found := self._take()) is not None:
            number, type_, session_id, event = found
            listeners = [one for one in self._listeners if one.hears(number, type_, session_id)]
            if not listeners:
                continue
            try:
                envelope = read_envelope(event)
            except ProtocolError:
                _log.exception("an event of the type %r could not be read", type_)
                continue
            for listener in listeners:
                if listener.hears(number, type_, session_id):  # it may have ended meanwhile
                    handle(self, number, listener.handler, envelope)

    def _take(self) -> tuple[int, str, str | None, bytes] | None:
        """Wait for the next event; None when the runtime is closed and none is left."""
        with self._changed:
            while not self._events:
                if self._closed:
                    return None
                self._changed.wait()
            type_, session_id, event = self._events.popleft()
            self._bytes -= len(event)
            number = self._next
            self._next += 1
            enough = self._starving and len(self._events) <= MOST // 2 and self._bytes <= MOST_BYTES // 2
            if enough:
                self._starving = False
        if enough:
            with contextlib.suppress(RuntimeClosedError):
                self._link.call(self._listening.go_on)
        return number, type_, session_id, event
