"""The bus: what has become durable is heard by every subscriber, in one order.

Publishing appends one node to a linked list, which costs the publisher the same however many listen. One thread, the
dispatcher, walks that list and calls the handlers of each event before it goes on to the next, so that an effect is
never handled anywhere before its cause. A handler that does not return within `GRACE` loses its place in the walk: its
thread goes on for that subscription alone, another one dispatches to all others, and when the straggler has caught up
it joins them again. What all have passed is garbage.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Self

import msgspec

from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.commands import CATALOGUE, Request, Response
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, UnknownEventTypeError
from reenact.domain.events import ContainerCreated, Context, Envelope, EventData, ImageRegistered
from reenact.domain.messages import check_text, instant

logger = logging.getLogger("reenact.events")
Handler = Callable[[Envelope], object]
GRACE: Final = 0.25
"""How long, in seconds, a handler may hold up the handlers of others."""
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

    def session(self, index: int) -> str | None:
        """Return the session that an event is of, or None."""
        return self._entries[index][0].segment.context.get("session_id")

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

    def __init__(
        self,
        end: Callable[[Subscription], int],
        type: str | None,  # noqa: A002
        handler: Handler,
        session_id: str | None,
        begin: int,
    ) -> None:
        self._end = end
        self.handler = handler
        self.type = type
        self.session_id = session_id
        self.begin = begin
        self.end: float = math.inf
        """The number of the first event that it does not hear any more."""
        self.alone = False

    def __call__(self) -> None:
        self.end = min(self.end, self._end(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    @property
    def active(self) -> bool:
        """Whether nobody has ended it."""
        return self.end == math.inf

    def listens_to(self, type: str) -> bool:  # noqa: A002 - the word users know it by
        """Return whether the handler is for events of this type."""
        return self.type is None or self.type == type

    def hears(self, node: _Node, index: int) -> bool:
        """Return whether the handler is for this event, provided that it is for events of its type."""
        within = self.begin <= node.start + index < self.end
        return within and (self.session_id is None or self.session_id == node.session(index))


class _Walk:
    """Where a dispatching thread stands: the event it is at, and the subscription whose handler it is calling."""

    def __init__(self, node: _Node, begin: int, passed: set[Subscription]) -> None:
        self.node = node
        self.begin = self.index = begin
        self.passed = passed
        """Who has had the event at `index`."""
        self.listeners: tuple[Subscription, ...] | None = None
        """Who is for events of its type; one that a handler ends meanwhile still has this event."""
        self.calling: Subscription | None = None
        self.since = 0.0
        self.taken_over = False
        """Whether another thread goes on with the walk, and this one only with the subscription it is calling."""


class _Handling:
    """A call of a handler: which event it is about; None when it is over."""

    def __init__(self, source: object, number: int) -> None:
        self.source = source
        self.number: int | None = number


_handling: ContextVar[_Handling | None] = ContextVar("_handling", default=None)
"""The present call, also in a coroutine: it is scheduled from the handlers' thread, and has a copy of its context."""


def handle(source: object, number: int, handler: Handler, envelope: Envelope) -> None:
    """Call the handler with the event of this number of the source; what it raises is logged."""
    handling = _Handling(source, number)
    _handling.set(handling)
    try:
        handler(envelope)
    except BaseException:  # a handler is a stranger's code: nothing that it raises may harm anybody else
        logger.exception("a handler of %r raised; the event was %s", envelope.type, envelope.id)
    finally:
        handling.number = None


def handled(source: object) -> int | None:
    """Return the number of the source's event that is being handled, if this is called in a handler."""
    handling = _handling.get()
    return handling.number if handling is not None and handling.source is source else None


class SystemBus:
    """Tells subscribers what happened. Thread-safe; `publish` never waits for a handler."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self._new_id = new_id
        self._tail = _Node((), 0, new_id)
        self._changed = threading.Condition()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._by_type: dict[str, tuple[Subscription, ...]] = {}
        self._wanted: frozenset[str] | None = frozenset()
        self._idle = True
        """Whether all that was published has been handled."""
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
            # Waking the dispatcher costs more than all the rest, and keeping the event for it may cost much memory. As
            # long as it is at work, a handler may still subscribe to what comes behind the event that it handles.
            if self._idle and self._wanted is not None and self._wanted.isdisjoint(node.types()):
                return
            self._idle = False
            self._tail.next = node
            self._tail = node
            self._changed.notify_all()

    def say(self, at: int, data: EventData, context: Mapping[str, str]) -> None:
        """Publish one event that no session's feed keeps; `at` is microseconds since 1970-01-01 UTC."""
        segment = Segment(dict(context), (Entry(data.event_type, at, data),))
        self.publish((Publication(None, None, segment),))

    def subscribe(
        self,
        type: str | None,  # noqa: A002 - the word users know it by
        handler: Handler,
        session_id: str | None = None,
    ) -> Subscription:
        """Call the handler with each event of the type (all, if None), of the session (any, if None), from now on.

        Subscribing and unsubscribing inside a handler takes effect with the event after the one being handled.

        Raises:
            UnknownEventTypeError: the type is not in the catalogue.
            RuntimeClosedError: the runtime is closed.
        """
        if type is not None:
            check_type(type)
        with self._changed:
            if self._closed:
                msg = "the runtime is closed; nothing more will be heard"
                raise RuntimeClosedError(msg)
            number = handled(self)
            begin = self._tail.end if number is None else number + 1
            subscription = Subscription(self._end, type, handler, session_id, begin)
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
        if threading.current_thread() in self._threads:  # in a handler: what is left is heard when it returns
            return
        deadline = time.monotonic() + PATIENCE
        while alive := [thread for thread in tuple(self._threads) if thread.is_alive()]:  # one may bring on another
            alive[0].join(max(0.0, deadline - time.monotonic()))
            if time.monotonic() < deadline:
                continue
            logger.warning("a handler has not returned within %s s; it is left behind", PATIENCE)
            return

    def _end(self, subscription: Subscription) -> int:
        """Serve the subscription no more; return the number of the first event that it does not hear."""
        with self._changed:
            self._serve(tuple(other for other in self._subscriptions if other is not subscription))
        number = handled(self)
        return 0 if number is None else number + 1

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
        while True:
            for index, type_ in enumerate(walk.node.types()):
                if index < walk.begin:
                    continue
                walk.index = index
                wanted = self._wanted is None or type_ in self._wanted or walk.listeners is not None
                if wanted and not self._tell_all(walk, type_):
                    return
                walk.passed.clear()
                walk.listeners = None
            following = self._after(walk.node)
            if following is None:
                return
            walk.node, walk.begin = following, 0

    def _tell_all(self, walk: _Walk, type_: str) -> bool:
        """Call the handlers that want the event; return False if this thread has lost its place meanwhile."""
        if walk.listeners is None:
            walk.listeners = self._listeners(type_)
        for subscription in walk.listeners:
            if subscription.alone or subscription in walk.passed or not subscription.hears(walk.node, walk.index):
                continue
            walk.since, walk.calling = time.monotonic(), subscription
            if not self._busy.is_set():
                self._busy.set()
            handle(self, walk.node.start + walk.index, subscription.handler, walk.node.envelope(walk.index))
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
                self._idle = True
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
            self._walk.listeners = walk.listeners
            self._start(self._dispatch, self._walk)

    def _go_on_alone(self, subscription: Subscription, node: _Node, index: int) -> None:
        """Catch up with the others on this thread, then let the dispatcher serve the subscription again."""
        while True:
            for place, type_ in enumerate(node.types()):
                if place >= index and subscription.listens_to(type_) and subscription.hears(node, place):
                    handle(self, node.start + place, subscription.handler, node.envelope(place))
            with self._changed:
                if node.next is None or subscription.end <= node.end:
                    subscription.begin = max(subscription.begin, node.end)
                    subscription.alone = False
                    return
                node, index = node.next, 0


def check_type(type_: object) -> str:
    """Return the name of a type of events, or raise `UnknownEventTypeError`."""
    if isinstance(type_, str) and type_ in CATALOGUE:
        return type_
    raise UnknownEventTypeError(type_, CATALOGUE)


def check_handler(handler: object) -> Handler:
    """Return what can be called with events, or raise `InvalidInputError`."""
    if callable(handler):
        return handler
    msg = f"a handler is called with each event; {type(handler).__name__} cannot be called"
    raise InvalidInputError(msg)


def check_session(session_id: object) -> str | None:
    """Return the id of the session whose events are to be heard, None for all; or raise `InvalidInputError`."""
    return None if session_id is None else check_text("the session's id", session_id)


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
