"""Dead letters: messages told to an actor that it did not handle, and for which no sender waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeAlias

import msgspec

_log = logging.getLogger("reenact.kernel")


class DeadLetter(msgspec.Struct, frozen=True):
    """An unhandled message, its recipient (the name of a stream, or of a plain actor), and the reason."""

    recipient: str
    message: object
    reason: BaseException


Reader: TypeAlias = Callable[[DeadLetter], object]


class DeadLetters:
    """Delivers each dead letter to all subscribed readers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: tuple[tuple[Reader], ...] = ()

    def subscribe(self, reader: Reader) -> Callable[[], None]:
        """Call the reader with each dead letter, on the thread where it arises; return a function that unsubscribes."""
        subscription = (reader,)  # a tuple of its own: a reader that is subscribed twice gets each letter twice
        with self._lock:
            self._readers = (*self._readers, subscription)

        def unsubscribe() -> None:
            with self._lock:
                self._readers = tuple(other for other in self._readers if other is not subscription)

        return unsubscribe

    def put(self, recipient: str, message: object, reason: BaseException) -> None:
        """Deliver a dead letter to all readers; an exception of a reader is logged."""
        for (reader,) in self._readers:
            try:
                reader(DeadLetter(recipient, message, reason))
            except BaseException:  # noqa: BLE001 - it must not affect the other readers or the actor
                _log.exception("a reader of dead letters failed")
