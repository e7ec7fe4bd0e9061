"""Answers that come piece by piece, when the test lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

from reenact.testing import FakeReply

PATIENCE: Final = 60.0
"""Seconds after which a piece comes that nobody has asked for, so that a test that fails does not hang."""
_DELTA: Final = b"event: content_block_delta"
_STOP: Final = b"event: content_block_stop"


class Pace:
    """An answer of so many pieces, and who says when each of them comes. The API does nothing else meanwhile."""

    def __init__(self, *pieces: str) -> None:
        self.text = "".join(pieces)
        self.reply: FakeReply = _Paced(deltas=pieces, wait=self._wait)
        self._seconds_left = list(pieces)
        self._may = threading.Semaphore(0)

    def say(self, count: int = 1) -> str:
        """Let so many more pieces come, and return them."""
        said, self._seconds_left = self._seconds_left[:count], self._seconds_left[count:]
        for _ in said:
            self._may.release()
        return "".join(said)

    def end(self) -> str:
        """Let all the rest come, and the end; return the rest."""
        rest = self.say(len(self._seconds_left))
        self._may.release()
        return rest

    def _wait(self) -> None:
        self._may.acquire(timeout=PATIENCE)


class _Paced(FakeReply, frozen=True, kw_only=True):
    """Waits before each piece of the text, and before its end."""

    wait: Callable[[], None]

    def events(self, model: str) -> list[bytes]:
        """Return the events, which wait when they are gone through."""
        return _Waiting(super().events(model), self.wait)


class _Waiting(list[bytes]):
    def __init__(self, events: list[bytes], wait: Callable[[], None]) -> None:
        super().__init__(events)
        self._wait = wait

    def __iter__(self) -> Iterator[bytes]:
        for event in super().__iter__():
            if event.startswith((_DELTA, _STOP)):
                self._wait()
            yield event
