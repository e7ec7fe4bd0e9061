"""Idempotent requests: those in flight, and the records of those that were carried out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import msgspec
import pykka

from reenact.actors.journal.api import Remembered
from reenact.actors.kernel import PooledFuture
from reenact.domain.errors import RequestReusedError, RequestTimeoutError
from reenact.domain.idempotency import IdempotencyKey, IdempotentCommand

R = TypeVar("R")


class Askable(Protocol):
    """A reference to an actor, on this node or on another one."""

    def ask(self, command: Any, timeout: float | None = None) -> Any:  # noqa: ANN401 - depends on the actor
        """Send the command and return the reply; see `Reference.ask`."""
        ...

    def ask_future(self, command: Any) -> PooledFuture[Any]:  # noqa: ANN401 - likewise
        """Send the command and return the future of the reply."""
        ...


def wait_for_reply(actor: object, reply: PooledFuture[R], timeout: float | None) -> R:
    """Return the actor's reply.

    Raises:
        RequestTimeoutError: it has not come within `timeout` seconds.
        ReenactError: the actor refused the command.
    """
    try:
        return reply.get(timeout=timeout)
    except pykka.Timeout:
        if reply.done():  # it came at this very moment, or the timeout is what the actor raised
            return reply.get()
        raise RequestTimeoutError(f"{actor} has not replied within {timeout} seconds") from None


class Attempt:
    """One execution of an operation, which takes at most `timeout` seconds; None means no limit."""

    def __init__(self, timeout: float | None = None) -> None:
        self.timeout = timeout

    def ask(self, actor: Askable, command: IdempotentCommand) -> Any:  # noqa: ANN401 - depends on the actor
        """Send the command that carries out the operation and return the reply. Raises as `Reference.ask` does."""
        return actor.ask(command, self.timeout)

    def remembered(self, answer: object, at: int) -> Remembered | None:
        """Return the record of a request that is not carried out by a single actor; None if it is not a request."""
        return None


class InFlightRequest(Attempt):
    """The attempt of a request that must be carried out once.

    No other attempt of it runs until this one has ended, which may be after its caller's timeout.
    """

    def __init__(self, key: IdempotencyKey, timeout: float | None) -> None:
        super().__init__(timeout)
        self.key = key
        self.ended: PooledFuture[None] = PooledFuture()
        self._reply: PooledFuture[Any] | None = None

    def ask(self, actor: Askable, command: IdempotentCommand) -> Any:  # noqa: ANN401 - depends on the actor
        """Send the command with the request's key, so that the events are recorded together with the request's id."""
        self._reply = actor.ask_future(msgspec.structs.replace(command, once=self.key))
        return wait_for_reply(actor, self._reply, self.timeout)

    def remembered(self, answer: object, at: int) -> Remembered | None:
        """Return the record of the request with its response."""
        return _remembered(self.key, answer, at)

    def end(self, forget: Callable[[], object]) -> None:
        """End the attempt, once the command that was sent, if any, has been handled."""

        def end(_: object) -> None:
            forget()
            self.ended.set(None)

        if self._reply is None:
            end(None)
        else:
            self._reply.add_done_callback(end)


class InFlightRequests:
    """The requests in flight, by their ids. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, InFlightRequest] = {}

    @contextmanager
    def attempt(self, key: IdempotencyKey, timeout: float | None) -> Generator[InFlightRequest]:
        """Wait until the request is not in flight, then exclude other attempts of it.

        Yields the attempt, with the rest of the `timeout`, in seconds.

        Raises:
            RequestReusedError: another request with this id is in flight.
            RequestTimeoutError: the same request was in flight for all this time.
        """
        attempt = InFlightRequest(key, timeout)
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while (other := self._begin(attempt)) is not attempt:
                if other.key != key:
                    raise RequestReusedError(key.id)
                try:
                    other.ended.get(timeout=attempt.timeout)
                except pykka.Timeout:
                    raise RequestTimeoutError(
                        f"request {key.id!r} was under way already, and has not ended within {timeout} seconds"
                    ) from None
                if until is not None:
                    attempt.timeout = max(0.0, until - time.monotonic())
            yield attempt
        finally:
            if self._requests.get(key.id) is attempt:
                attempt.end(lambda: self._requests.pop(key.id, None))

    # Of two threads with the same id, `setdefault` admits one; the other waits for its `ended` and tries again: it may
    # find a third one there, or the response that was recorded meanwhile. No thread waits while it holds the lock.
    def _begin(self, attempt: InFlightRequest) -> InFlightRequest:
        with self._lock:
            return self._requests.setdefault(attempt.key.id, attempt)


def remembered(command: IdempotentCommand, answer: object, at: int) -> Remembered | None:
    """Return the record of the request, if any, that the command carries out with this response."""
    return None if command.once is None else _remembered(command.once, answer, at)


def _remembered(key: IdempotencyKey, answer: object, at: int) -> Remembered:
    return Remembered(key.id, key.digest, msgspec.msgpack.encode(answer), at)
