"""Dead letters: messages that were told to an actor and came to nothing, so that nobody waits for the answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeAlias

import msgspec

_log = logging.getLogger("reenact.kernel")


class DeadLetter(msgspec.Struct, frozen=True):
    """A message, who it was sent to (the name of a stream, or a plain actor's), and why nothing came of it."""

    recipient: str
    message: object
    reason: BaseException


Reader: TypeAlias = Callable[[DeadLetter], object]


class DeadLetters:
    """Hands each dead letter to whoever asked for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: tuple[tuple[Reader], ...] = ()

    def subscribe(self, reader: Reader) -> Callable[[], None]:
        """Call the reader with each, on the thread where it becomes one; what is returned ends that."""
        subscription = (reader,)  # who subscribes twice hears everything twice
        with self._lock:
            self._readers = (*self._readers, subscription)

        def unsubscribe() -> None:
            with self._lock:
                self._readers = tuple(other for other in self._readers if other is not subscription)

        return unsubscribe

    def put(self, recipient: str, message: object, reason: BaseException) -> None:
        """Hand it on; a reader that raises is logged and harms nobody."""
        for (reader,) in self._readers:
            try:
                reader(DeadLetter(recipient, message, reason))
            except BaseException:  # noqa: BLE001 - the others, and the actor, are not to blame
                _log.exception("a reader of dead letters failed")
