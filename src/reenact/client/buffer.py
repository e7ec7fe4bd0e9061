"""Buffers the events of a subscription between the link's thread and the consumer's."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import Final

from reenact.domain.errors import ReenactError, RuntimeClosedError

MOST: Final = 5000
"""Events that a subscription holds until they are asked for; the server keeps the others."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of JSON that it holds, and one event more."""


class Buffer:
    """Holds the events of one subscription, and knows nothing of who asks for them. Thread-safe."""

    # The link's thread offers and ends; the consumer's thread, or a task of its loop, looks and waits. `_changed`
    # protects the events and the waiters. `dealt_with` is written by the consumer alone and only grows: the link's
    # thread reads it without the lock, and at worst acknowledges a little less.

    def __init__(self, *, auto_ack: bool) -> None:
        self.error: ReenactError | None = None
        """Why nothing more comes, if that is an error."""
        self.dealt_with = 0
        """The cursor of the last event with which the consumer is done."""
        self._auto_ack = auto_ack
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._starving = False
        self._over = False
        self._changed = threading.Condition()
        self._waiters: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    @property
    def is_done(self) -> bool:
        """Whether nothing is there, and nothing more comes."""
        with self._changed:
            return self._over and not self._events

    def offer(self, cursor: int, event: bytes) -> bool:
        """Take an event, or return False if there is no room for it: see `look`. On the link's thread."""
        with self._changed:
            if len(self._events) >= MOST or self._bytes >= MOST_BYTES:
                self._starving = True
                return False
            if not self._over:
                self._events.append((cursor, event))
                self._bytes += len(event)
                self._wake()
            return True

    def end(self, error: ReenactError | None) -> None:
        """Take note that no more events come, and why, if that is an error. On the link's thread."""
        with self._changed:
            if not self._over:
                self._over = True
                self.error = None if isinstance(error, RuntimeClosedError) else error
            self._wake()

    def done(self) -> int:
        """Return up to which cursor all may be acknowledged without being asked for. On the link's thread."""
        return self.dealt_with if self._auto_ack else 0

    def close(self) -> None:
        """Drop what is there, take no more, and wake who waits."""
        with self._changed:
            self._over = True
            self.error = None
            self._events.clear()
            self._bytes = 0
            self._wake()

    def look(self) -> tuple[tuple[int, bytes] | None, bool]:
        """Take the next event, if it is there; and say whether there is room again for whom there was none."""
        with self._changed:
            if not self._events:
                return None, False
            event = self._events.popleft()
            self._bytes -= len(event[1])
            is_enough = self._starving and len(self._events) <= MOST // 2 and self._bytes <= MOST_BYTES // 2
            if is_enough:
                self._starving = False
            return event, is_enough

    def come(self, seconds: float | None) -> bool:
        """Wait for what is next, or for the end; return False if there was neither in time."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._events or self._over, seconds))

    async def arrive(self) -> None:
        """Do the same for asyncio."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        with self._changed:
            if self._events or self._over:
                return
            self._waiters[waiter] = loop
        try:
            await waiter
        finally:
            with self._changed:
                self._waiters.pop(waiter, None)

    def _wake(self) -> None:
        self._changed.notify_all()
        waiters, self._waiters = self._waiters, {}
        for waiter, loop in waiters.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_call_off, waiter)


def _call_off(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
