"""The bus: what has become durable is heard by every subscriber, in one order.

Publishing appends one node to a linked list, which costs the publisher the same however many listen. One thread, the
dispatcher, walks that list and calls the handlers of each event before it goes on to the next, so that an effect is
never handled anywhere before its cause. A handler that does not return within `GRACE` loses its place in the walk: its
thread goes on for that subscription alone, another one dispatches to all others, and when the straggler has caught up
it joins them again. What all have passed is garbage.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.commands import CATALOGUE, Request, Response
from reenact.domain.errors import RuntimeClosedError, UnknownEventTypeError
from reenact.domain.events import ContainerCreated, Context, Envelope, EventData, ImageRegistered
from reenact.domain.messages import instant

logger = logging.getLogger("reenact.events")
Handler = Callable[[Envelope], object]
GRACE: Final = 0.25
"""How long, in seconds, a handler may hold up the handlers of others."""
UNHEARD: Final = 256
"""So many commits that nobody wants to hear of may be kept before the dispatcher passes over them."""
PATIENCE: Final = 5.0
"""How long, in seconds, closing waits for handlers that do not return."""


class _Node:
    """Publications of one commit, and those of the next. Events are numbered from 0 since the bus began."""

    __slots__ = ("_contexts", "_entries", "_envelopes", "_lock", "_new_id", "end", "next", "start")

    def __init__(self, publications: Iterable[Publication], start: int, new_id: Callable[[str], str]) -> None:
        self._entries = tuple(
            (publication, offset, entry)
            for publication in publications
            for offset, entry in enumerate(publication.segment.entries)
        )
        self._envelopes: dict[int, Envelope] = {}
        self._contexts: dict[int, Context] = {}
        self._new_id = new_id
        self._lock = threading.Lock()
        self.start = start
        self.end = start + len(self._entries)
        self.next: _Node | None = None

    def types(self) -> Iterator[str]:
        """Yield the type of each event."""
        return (entry.type for _, _, entry in self._entries)

    def envelope(self, index: int) -> Envelope:
        """Return what is heard of an event; made when somebody first listens, and then the same for all."""
        with self._lock:
            made = self._envelopes.get(index)
            if made is None:
                publication, offset, entry = self._entries[index]
                context = self._contexts.get(id(publication))
                if context is None:
                    context = self._contexts[id(publication)] = Context(**publication.segment.context)
                first = publication.first_cursor
                cursor = None if first is None else first + offset
                made = enveloped(entry, context, publication.topic, cursor, self._new_id)
                self._envelopes[index] = made
            return made


class Subscription:
    """One handler and what it has yet to hear. Call it, as often as you like, or leave its `with` block to end it."""

    def __init__(self, forget: Callable[[Subscription], None], type: str | None, handler: Handler, begin: int) -> None:  # noqa: A002
        self._forget = forget
        self._handler = handler
        self.type = type
        self.begin = begin
        self.active = True
        self.alone = False

    def __call__(self) -> None:
        self.active = False
        self._forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    def listens_to(self, type: str) -> bool:  # noqa: A002 - the word users know it by
        """Return whether the handler is for events of this type."""
        return self.type is None or self.type == type

    def handle(self, envelope: Envelope) -> None:
        """Call the handler; what it raises is logged."""
        try:
            self._handler(envelope)
        except BaseException:  # a handler is a stranger's code: nothing that it raises may harm anybody else
            logger.exception("a handler of %r raised; the event was %s", envelope.type, envelope.id)


class _Walk:
    """Where a dispatching thread stands: the event it is at, and the subscription whose handler it is calling."""

    def __init__(self, node: _Node, begin: int, passed: set[Subscription]) -> None:
        self.node = node
        self.begin = self.index = begin
        self.passed = passed
        """Who has had the event at `index`."""
        self.calling: Subscription | None = None
        self.since = 0.0
        self.taken_over = False
        """Whether another thread goes on with the walk, and this one only with the subscription it is calling."""


class _Here(threading.local):
    """The bus and the event that the present thread is dispatching, if it is."""

    bus: SystemBus | None = None
    number: int = 0


_here = _Here()


class SystemBus:
    """Tells subscribers what happened. Thread-safe; `publish` never waits for a handler."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self._new_id = new_id
        self._tail = _Node((), 0, new_id)
        self._changed = threading.Condition()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._by_type: dict[str, tuple[Subscription, ...]] = {}
        self._wanted: frozenset[str] | None = frozenset()
        self._unheard = 0
        self._walk: _Walk | None = None
        self._threads: set[threading.Thread] = set()
        self._relieving = threading.Lock()
        self._busy = threading.Event()
        self._ended = threading.Event()
        self._closed = False

    def publish(self, publications: Iterable[Publication]) -> None:
        """Let this be heard after all that was published before. Nothing is heard after `close`."""
        with self._changed:
            if self._closed:
                return
            node = _Node(publications, self._tail.end, self._new_id)
            self._tail.next = node
            self._tail = node
            if self._walk is None:
                return
            # Waking a thread costs more than all the rest: it can wait until there is something that somebody wants.
            self._unheard += 1
            wanted = self._wanted
            if wanted is None or self._unheard > UNHEARD or not wanted.isdisjoint(node.types()):
                self._unheard = 0
                self._changed.notify_all()

    def say(self, at: int, data: EventData, context: Mapping[str, str]) -> None:
        """Publish one event that no session's feed keeps; `at` is microseconds since 1970-01-01 UTC."""
        segment = Segment(dict(context), (Entry(data.event_type, at, data),))
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
            begin = _here.number + 1 if _here.bus is self else self._tail.end
            subscription = Subscription(self._forget, type, handler, begin)
            self._serve((*self._subscriptions, subscription))
            if self._walk is None:
                tail = self._tail
                self._walk = _Walk(tail, tail.end - tail.start, set())
                self._start(self._dispatch, self._walk)
                self._start(self._watch)
        return subscription

    def close(self) -> None:
        """Wait until the handlers have heard what was published, then end. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._busy.set()
        self._ended.set()
        if _here.bus is self:  # closed inside a handler: what is left is heard when it returns
            return
        deadline = time.monotonic() + PATIENCE
        while alive := [thread for thread in tuple(self._threads) if thread.is_alive()]:  # one may bring on another
            alive[0].join(max(0.0, deadline - time.monotonic()))
            if time.monotonic() < deadline:
                continue
            logger.warning("a handler has not returned within %s s; it is left behind", PATIENCE)
            return

    def _forget(self, subscription: Subscription) -> None:
        with self._changed:
            self._serve(tuple(other for other in self._subscriptions if other is not subscription))

    def _serve(self, subscriptions: tuple[Subscription, ...]) -> None:
        self._subscriptions = subscriptions
        self._by_type = {}
        types = [subscription.type for subscription in subscriptions]
        self._wanted = None if None in types else frozenset(type_ for type_ in types if type_ is not None)

    def _listeners(self, type_: str) -> tuple[Subscription, ...]:
        by_type = self._by_type
        found = by_type.get(type_)
        if found is None:  # kept with the subscriptions it was found among: `_serve` puts a new table in its place
            found = by_type[type_] = tuple(one for one in self._subscriptions if one.listens_to(type_))
        return found

    def _start(self, work: Callable[..., None], *given: object) -> None:
        def run() -> None:
            try:
                work(*given)
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="reenact-subscribers", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _dispatch(self, walk: _Walk) -> None:
        """Call the handlers of one event after the other, until the bus is closed and all is heard."""
        _here.bus = self
        while True:
            for index, type_ in enumerate(walk.node.types()):
                if index < walk.begin:
                    continue
                walk.index = index
                if (self._wanted is None or type_ in self._wanted) and not self._tell_all(walk, type_):
                    return
                walk.passed.clear()
            following = self._after(walk.node)
            if following is None:
                return
            walk.node, walk.begin = following, 0

    def _tell_all(self, walk: _Walk, type_: str) -> bool:
        """Call the handlers that want the event; return False if this thread has lost its place meanwhile."""
        number = walk.node.start + walk.index
        for subscription in self._listeners(type_):
            if subscription.alone or not subscription.active or number < subscription.begin:
                continue
            if subscription in walk.passed:
                continue
            _here.number = number
            walk.since, walk.calling = time.monotonic(), subscription
            if not self._busy.is_set():
                self._busy.set()
            subscription.handle(walk.node.envelope(walk.index))
            with self._relieving:
                walk.calling = None
            if walk.taken_over:
                self._go_on_alone(subscription, walk.node, walk.index + 1)
                return False
            walk.passed.add(subscription)
        return True

    def _after(self, node: _Node) -> _Node | None:
        with self._changed:
            if node.next is None and not self._closed:
                self._busy.clear()
            while node.next is None and not self._closed:
                self._changed.wait()
            return node.next

    def _watch(self) -> None:
        """Have another thread take over from a dispatcher that one handler holds up."""
        while not self._ended.is_set():
            self._busy.wait()
            self._ended.wait(GRACE / 2)
            self._relieve()
        while others := [thread for thread in tuple(self._threads) if thread is not threading.current_thread()]:
            others[0].join(GRACE / 2)
            self._relieve()

    def _relieve(self) -> None:
        with self._relieving:
            walk = self._walk
            if walk is None or walk.calling is None or time.monotonic() - walk.since < GRACE:
                return
            walk.taken_over = True
            walk.calling.alone = True
            self._walk = _Walk(walk.node, walk.index, walk.passed | {walk.calling})
            self._start(self._dispatch, self._walk)

    def _go_on_alone(self, subscription: Subscription, node: _Node, index: int) -> None:
        """Catch up with the others on this thread, then let the dispatcher serve the subscription again."""
        while True:
            for place, type_ in enumerate(node.types()):
                number = node.start + place
                if place < index or number < subscription.begin or not subscription.active:
                    continue
                if subscription.listens_to(type_):
                    _here.number = number
                    subscription.handle(node.envelope(place))
            with self._changed:
                if node.next is None or not subscription.active:
                    subscription.begin = max(subscription.begin, node.end)
                    subscription.alone = False
                    return
                node, index = node.next, 0


def open_up(segment: Segment, new_id: Callable[[str], str]) -> Iterator[Envelope]:
    """Yield the envelopes of a segment that no feed keeps."""
    context = Context(**segment.context)
    for entry in segment.entries:
        yield enveloped(entry, context, None, None, new_id)


def enveloped(
    entry: Entry, context: Context, topic: str | None, cursor: int | None, new_id: Callable[[str], str]
) -> Envelope:
    """Return the envelope of an entry; the id of one that a feed keeps is made of its topic and cursor."""
    kind = CATALOGUE[entry.type]
    return Envelope(
        id=_passing_id(entry, new_id) if cursor is None else f"{topic}:{cursor}",
        type=entry.type,
        timestamp=instant(entry.at),
        source=kind.source,
        category=kind.category,
        intent=kind.intent,
        context=context,
        cursor=cursor,
        data=typed(kind, entry.data),
    )


def _passing_id(entry: Entry, new_id: Callable[[str], str]) -> str:
    """Return the same id to all who tell of the event, wherever what it is about says which one it is."""
    match entry.data:
        case Request() | Response() as said:
            return f"{said.request_id}:{said.intent}"
        case ContainerCreated() as created:
            return f"container/{created.container_id}:1"
        case ImageRegistered() as registered:
            return f"image/{registered.image_id}:{registered.revision}"
        case _:
            return new_id("evt")


def typed(kind: type[EventData], data: Any) -> EventData:  # noqa: ANN401 - builtins as they come out of the log
    """Return the data of an event in its own type; what comes fresh from a publisher has it already."""
    return data if isinstance(data, EventData) else msgspec.convert(data, kind)


def flat(context: Context) -> dict[str, str]:
    """Return the context as a feed keeps it: only what is set."""
    names = Context.__struct_fields__
    values = ((name, getattr(context, name)) for name in names)
    return {name: value for name, value in values if value is not None}
