"""Requests that are carried out once: those under way, and what is recorded of those that have taken effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import pykka

from reenact.actors.journal.api import Remembered
from reenact.actors.kernel import PooledFuture, Reference
from reenact.domain.errors import RequestReusedError, RequestTimeoutError
from reenact.domain.once import Asked, Once

A = TypeVar("A", bound=Asked)


class Attempt:
    """One go at a request. Nobody else is at it until it has ended, which may be after its asker's time is up."""

    def __init__(self, once: Once, timeout: float | None) -> None:
        self.once = once
        self.timeout = timeout
        self.ended: PooledFuture[None] = PooledFuture()
        self._reply: PooledFuture[Any] | None = None

    def ask(self, actor: Reference[A], command: A, timeout: float | None) -> Any:  # noqa: ANN401 - the actor's to say
        """Send the command that carries the request out, and return the reply. Raises as `Reference.ask` does."""
        reply = self._reply = actor.ask_future(msgspec.structs.replace(command, once=self.once))
        try:
            return reply.get(timeout=timeout)
        except pykka.Timeout:
            if reply.done():
                raise
            raise RequestTimeoutError(f"{actor} has not replied within {timeout} seconds") from None

    def end(self, forget: Callable[[], object]) -> None:
        """End it, at the latest when the command that was sent has been handled."""

        def end(_: object) -> None:
            forget()
            self.ended.set(None)

        if self._reply is None:
            end(None)
        else:
            self._reply.add_done_callback(end)


class UnderWay:
    """The requests that are under way, by their ids. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}

    @contextmanager
    def attempt(self, once: Once, timeout: float | None) -> Generator[Attempt]:
        """Wait until the request is not under way, then let nobody else be at it.

        Yields the attempt, with what is left of the `timeout`, in seconds.

        Raises:
            RequestReusedError: another request of this id is under way.
            RequestTimeoutError: the same request was under way for all this time.
        """
        attempt = Attempt(once, timeout)
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while (other := self._begin(attempt)) is not attempt:
                if other.once != once:
                    raise RequestReusedError(once.id)
                try:
                    other.ended.get(timeout=attempt.timeout)
                except pykka.Timeout:
                    msg = f"request {once.id!r} was under way already, and has not ended within {timeout} seconds"
                    raise RequestTimeoutError(msg) from None
                if until is not None:
                    attempt.timeout = max(0.0, until - time.monotonic())
            yield attempt
        finally:
            if self._attempts.get(once.id) is attempt:
                attempt.end(lambda: self._attempts.pop(once.id, None))

    def _begin(self, attempt: Attempt) -> Attempt:
        with self._lock:
            return self._attempts.setdefault(attempt.once.id, attempt)


def remembered(command: Asked, answer: object, at: int) -> Remembered | None:
    """Return what is recorded of the request, if it is one, that the command carries out with this answer."""
    once = command.once
    return None if once is None else Remembered(once.id, once.digest, msgspec.msgpack.encode(answer), at)
