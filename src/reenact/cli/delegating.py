"""Answers that were given elsewhere, brought back as answers of a session's own turns, without asking its model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from reenact.actors.environment.api import (
    Effector,
    Environment,
    Handler,
    Receptor,
    SystemBusConsumer,
    SystemBusProducer,
    Unsubscribe,
)
from reenact.domain.events import Envelope, MessageStart, MessageStop, StreamData, TextDelta, TurnStarted
from reenact.domain.messages import Said, text_of

AGENTS: Final = "agents"
"""The container of the sessions in which agents answer."""


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has answered to what was asked, in a session of its own."""

    asked: str
    name: str
    text: str
    session: str


class Desk:
    """Where answers lie until the turn begins that asks for them; at most one for a session. Thread-safe."""

    def __init__(self) -> None:
        self.children: set[str] = set()
        """The sessions in which agents answer."""
        self._lock = threading.Lock()
        self._brought: dict[str, Brought] = {}

    def put(self, session_id: str, brought: Brought) -> None:
        """Lay down the answer to what this session is asked next."""
        with self._lock:
            self._brought[session_id] = brought

    def take(self, session_id: str, conversation: Sequence[Said]) -> Brought | None:
        """Return the answer to what the conversation ends with, if it is here."""
        with self._lock:
            brought = self._brought.get(session_id)
            if brought is None or not conversation or text_of(conversation[-1].content) != brought.asked:
                return None
            return self._brought.pop(session_id)


class DelegatingEnvironment:
    """An environment that answers what lies on the desk itself, and leaves all else to another one."""

    def __init__(self, inner: Environment, session_id: str, desk: Desk) -> None:
        self._inner = inner
        self._receptor = _WayIn(inner.receptor)
        self._effector = _WayOut(inner.effector, self._receptor, session_id, desk)

    @property
    def name(self) -> str:
        """What kind of environment the other one is."""
        return self._inner.name

    @property
    def receptor(self) -> Receptor:
        """The way in."""
        return self._receptor

    @property
    def effector(self) -> Effector:
        """The way out."""
        return self._effector

    def dispose(self) -> None:
        """Release everything. Idempotent."""
        self._inner.dispose()


class _WayIn:
    """The other's way in, and what is brought."""

    def __init__(self, inner: Receptor) -> None:
        self._inner = inner
        self._producer: SystemBusProducer | None = None

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        self._producer = producer
        self._inner.connect(producer)

    def bring(self, brought: Brought, turn_id: str) -> None:
        """Say what the agent has answered; the message has the id of the session in which it did."""
        text = (TextDelta(text=brought.text),) if brought.text else ()
        start = MessageStart(message_id=brought.session, model=f"@{brought.name}")
        events: tuple[StreamData, ...] = (start, *text, MessageStop())
        if self._producer is not None:
            self._producer.emit_all(events, turn_id=turn_id)


class _WayOut:
    """The other's way out, which does not hear of turns whose answer is there."""

    def __init__(self, inner: Effector, way_in: _WayIn, session_id: str, desk: Desk) -> None:
        self._inner = inner
        self._way_in = way_in
        self._session_id = session_id
        self._desk = desk

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Act on what this consumer hears."""

        def brings(event: Envelope) -> bool:
            if event.type != TurnStarted.event_type:
                return False
            brought = self._desk.take(self._session_id, consumer.conversation())
            if brought is not None:
                self._way_in.bring(brought, event.data["turn_id"])
            return brought is not None

        self._inner.connect(_Sieve(consumer, brings))


class _Sieve:
    """A consumer whose handlers do not hear of what is done already."""

    def __init__(self, inner: SystemBusConsumer, is_done: Callable[[Envelope], bool]) -> None:
        self._inner = inner
        self._is_done = is_done

    def on(self, type: str, handler: Handler) -> Unsubscribe:  # noqa: A002 - the word users know it by
        """Call the handler with each event of the type that is left."""
        return self._inner.on(type, self._sieved(handler) if type == TurnStarted.event_type else handler)

    def on_all(self, handler: Handler) -> Unsubscribe:
        """Call the handler with every event that is left."""
        return self._inner.on_all(self._sieved(handler))

    def request(self, type: str, data: Mapping[str, Any], timeout: float = 30) -> Envelope:  # noqa: A002 - likewise
        """Send a request."""
        return self._inner.request(type, data, timeout)

    def conversation(self) -> Sequence[Said]:
        """Return what was said."""
        return self._inner.conversation()

    def must_compress(self) -> bool:
        """Return whether the conversation is to be summarised first."""
        return self._inner.must_compress()

    def _sieved(self, handler: Handler) -> Handler:
        return lambda event: None if self._is_done(event) else handler(event)
