"""The bus: what has become durable is heard by every subscriber, in one order, each at its own pace.

Publishing appends one node to a linked list. Each subscription has a place in that list and a thread that walks on from
it, so a handler that is slow, or stuck, or raises, holds up nobody else, and what all have passed is garbage.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.commands import CATALOGUE, Request, Response
from reenact.domain.errors import RuntimeClosedError, UnknownEventTypeError
from reenact.domain.events import Context, Envelope, EventData
from reenact.domain.messages import instant

logger = logging.getLogger("reenact.events")
Handler = Callable[[Envelope], object]
_PATIENCE: Final = 5.0
"""How long, in seconds, closing waits for a handler that does not return."""


class _Node:
    """Publications of one commit, and those of the next."""

    __slots__ = ("_envelopes", "_lock", "_new_id", "_publications", "next")

    def __init__(self, publications: tuple[Publication, ...], new_id: Callable[[str], str]) -> None:
        self._publications = publications
        self._new_id = new_id
        self._envelopes: tuple[Envelope, ...] | None = None
        self._lock = threading.Lock()
        self.next: _Node | None = None

    def envelopes(self) -> tuple[Envelope, ...]:
        """Return what is heard; made when somebody first listens, and then the same for all."""
        with self._lock:
            if self._envelopes is None:
                self._envelopes = tuple(
                    envelope for publication in self._publications for envelope in open_up(publication, self._new_id)
                )
                self._publications = ()
            return self._envelopes


class Subscription:
    """One handler's place in what is heard. Call it, or leave its `with` block, to unsubscribe; both are idempotent."""

    def __init__(self, bus: SystemBus, node: _Node, skip: int, type: str | None, handler: Handler) -> None:  # noqa: A002
        self._bus = bus
        self._node = node
        self._skip = skip
        self._type = type
        self._handler = handler
        self._active = True
        self.thread = threading.Thread(target=self._run, name="reenact-subscriber", daemon=True)

    def __call__(self) -> None:
        self._active = False
        self._bus.forget(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    def _run(self) -> None:
        _here.subscription = self
        skip = self._skip
        while True:
            _here.node, _here.index = self._node, skip
            for index, envelope in enumerate(self._node.envelopes()[skip:], skip + 1):
                if not self._active:
                    return
                _here.index = index
                if self._type is None or envelope.type == self._type:
                    self._handle(envelope)
            following = self._bus.after(self, self._node)
            if following is None:
                return
            self._node, skip = following, 0

    def _handle(self, envelope: Envelope) -> None:
        try:
            self._handler(envelope)
        except BaseException:  # a handler is a stranger's code: nothing that it raises may harm anybody else
            logger.exception("a handler of %r raised; the event was %s", envelope.type, envelope.id)

    @property
    def active(self) -> bool:
        """Whether it still wants to hear anything."""
        return self._active


class _Here(threading.local):
    """Where the subscription that runs on this thread stands."""

    subscription: Subscription | None = None
    node: _Node | None = None
    index: int = 0


_here = _Here()


class SystemBus:
    """Tells subscribers what happened. Thread-safe; `publish` never blocks on a handler."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self._new_id = new_id
        self._tail = _Node((), new_id)
        self._changed = threading.Condition()
        self._subscriptions: set[Subscription] = set()
        self._closed = False

    def publish(self, publications: Iterable[Publication]) -> None:
        """Let this be heard after all that was published before. Nothing is heard after `close`."""
        node = _Node(tuple(publications), self._new_id)
        with self._changed:
            if self._closed:
                return
            self._tail.next = node
            self._tail = node
            if self._subscriptions:
                self._changed.notify_all()

    def say(self, at: int, data: EventData, context: Mapping[str, str]) -> None:
        """Publish one event that no session's feed keeps; `at` is microseconds since 1970-01-01 UTC."""
        segment = Segment(dict(context), (Entry(data.type, at, data),))
        self.publish((Publication(None, None, segment),))

    def subscribe(self, type: str | None, handler: Handler) -> Subscription:  # noqa: A002 - the word users know it by
        """Call the handler with each event of the type (with all, if None) that is published from now on.

        Subscribing inside a handler begins with the event after the one being handled.

        Raises:
            UnknownEventTypeError: the type is not in the catalogue.
            RuntimeClosedError: the runtime is closed.
        """
        if type is not None and type not in CATALOGUE:
            raise UnknownEventTypeError(type)
        with self._changed:
            if self._closed:
                msg = "the runtime is closed; nothing more will be heard"
                raise RuntimeClosedError(msg)
            node, skip = self._place()
            subscription = Subscription(self, node, skip, type, handler)
            self._subscriptions.add(subscription)
        subscription.thread.start()
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Wake the subscription so that its thread ends."""
        with self._changed:
            self._subscriptions.discard(subscription)
            self._changed.notify_all()

    def after(self, subscription: Subscription, node: _Node) -> _Node | None:
        """Wait for what comes after the node; None when the subscription is over."""
        with self._changed:
            while node.next is None and subscription.active and not self._closed:
                self._changed.wait()
            return node.next if subscription.active else None

    def close(self) -> None:
        """Wait until every handler has heard what was published, then end. Idempotent."""
        with self._changed:
            self._closed = True
            waiting = tuple(self._subscriptions)
            self._changed.notify_all()
        for subscription in waiting:
            if subscription.thread is not threading.current_thread():
                subscription.thread.join(_PATIENCE)
            if subscription.thread.is_alive() and subscription.thread is not threading.current_thread():
                logger.warning("a handler has not returned within %s s; it is left behind", _PATIENCE)

    def _place(self) -> tuple[_Node, int]:
        here = _here.subscription
        if here is not None and here._bus is self and _here.node is not None:  # noqa: SLF001 - one module, one thought
            return _here.node, _here.index
        return self._tail, len(self._tail.envelopes())


def open_up(publication: Publication, new_id: Callable[[str], str]) -> Iterator[Envelope]:
    """Yield the envelopes of a publication; ids of what a feed keeps are made of its topic and cursor."""
    context = Context(**publication.segment.context)
    cursor = publication.first_cursor
    for entry in publication.segment.entries:
        kind = CATALOGUE[entry.type]
        yield Envelope(
            id=_passing_id(entry, new_id) if cursor is None else f"{publication.topic}:{cursor}",
            type=entry.type,
            timestamp=instant(entry.at),
            source=kind.source,
            category=kind.category,
            intent=kind.intent,
            context=context,
            cursor=cursor,
            data=typed(kind, entry.data),
        )
        if cursor is not None:
            cursor += 1


def _passing_id(entry: Entry, new_id: Callable[[str], str]) -> str:
    data = entry.data
    if isinstance(data, Request | Response):
        return f"{data.request_id}:{data.intent}"
    return new_id("evt")


def typed(kind: type[EventData], data: Any) -> EventData:  # noqa: ANN401 - builtins as they come out of the log
    """Return the data of an event in its own type; what comes fresh from a publisher has it already."""
    return data if isinstance(data, EventData) else msgspec.convert(data, kind)


def flat(context: Context) -> dict[str, str]:
    """Return the context as a feed keeps it: only what is set."""
    names = Context.__struct_fields__
    values = ((name, getattr(context, name)) for name in names)
    return {name: value for name, value in values if value is not None}
