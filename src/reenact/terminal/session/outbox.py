"""What is on its way to a program: written in its order, as soon as there is room, and never waited for."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_REPLIES: Final = 65_536
"""Bytes of replies that wait at most for a program that does not read; the terminal drops further ones."""


@dataclass(eq=False)
class Outgoing:
    """Bytes, and how many of them went."""

    data: bytes
    sent: int = 0
    is_reply: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether all of them went."""
        return self.sent == len(self.data)


class Outbox:
    """Any thread puts something in, one writes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[Outgoing] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, outgoing: Outgoing) -> None:
        """Have it written behind what waits already."""
        with self._lock:
            if outgoing.data:
                self._waiting.append(outgoing)

    def put_reply(self, reply: bytes) -> None:
        """Have a reply written, unless too many wait already: who asks without reading is not to fill the memory."""
        with self._lock:
            waiting = sum(len(each.data) for each in self._waiting if each.is_reply)
            if waiting + len(reply) <= _REPLIES:
                self.put(Outgoing(reply, is_reply=True))

    def take_back(self, outgoing: Outgoing) -> None:
        """Do not write what of it has not been written."""
        with self._lock:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)

    def write_with(self, write: Callable[[memoryview], int]) -> bytes:
        """Write what there is room for; return what went."""
        went = b""
        with self._lock:
            while self._waiting:
                first = self._waiting[0]
                count = write(memoryview(first.data)[first.sent :])
                went += first.data[first.sent : first.sent + count]
                first.sent += count
                if not first.is_sent:
                    break
                self._waiting.popleft()
        return went


class Waker:
    """Wakes a thread that waits for descriptors: `descriptor` can be read once it was called."""

    def __init__(self) -> None:
        self.descriptor, self._end = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._end, False)
        self._lock = threading.RLock()
        self._is_open = True

    def wake(self) -> None:
        """Wake the thread, now or when it waits next."""
        with self._lock:
            if self._is_open:
                try:
                    os.write(self._end, b"!")
                except BlockingIOError:
                    return  # it was called often enough

    def clear(self) -> None:
        """Take note of all calls."""
        os.read(self.descriptor, 65_536)

    def close(self) -> None:
        """Close both ends. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self.descriptor)
                os.close(self._end)
