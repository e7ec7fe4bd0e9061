"""The subscriptions of a group: of a session, and to everything. Each gives encoded events when it is its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from reenact.actors.feed.line import Line
from reenact.actors.feed.place import Need, Place
from reenact.actors.feed.replay import Page, Pages
from reenact.actors.feed.topic import Chunk
from reenact.actors.feed.waking import Waiter, Waker
from reenact.domain.commands import CATALOGUE
from reenact.domain.events import SessionDeleted

AT_ONCE: Final = 64
"""About how many events a member looks at, when it gives from those just published."""

HEARD: Final = frozenset(type_ for type_, kind in CATALOGUE.items() if kind.category != "command")
"""What listeners may hear: commands are between two."""

_LAST: Final = SessionDeleted.event_type


class Member(Protocol):
    """One subscription of a group. All but `load` is called on the group's loop, and not while it loads."""

    @property
    def holds_page(self) -> bool:
        """Whether it has events in memory that it has read from the log."""
        ...

    def give(self, room: int) -> list[bytes]:
        """Return its next events, about so many bytes, but one at least if there is one in reach.

        The list is not to be changed: others are given the same.
        """
        ...

    def need(self) -> Need:
        """Return what it needs to give more."""
        ...

    def load(self) -> None:
        """Read a page of the log. Called on one of the feed's threads.

        Raises:
            StorageError: the log cannot be read.
            RuntimeClosedError: it is closed.
        """
        ...

    def wait(self, waker: Waker, waiter: Waiter) -> bool:
        """Have the waiter called when there is more; False if there is already, or nothing is to be waited for."""
        ...

    def forget(self, waker: Waker, waiter: Waiter) -> None:
        """Do not call the waiter any more."""
        ...

    def reason(self) -> str:
        """Return why it is over: `deleted`, `closed` or `lagging`."""
        ...

    def cut_short(self) -> None:
        """Let it be over: the log is closed, and what it needs is there."""
        ...

    def leave(self) -> None:
        """Follow nothing any more. Idempotent."""
        ...


class Follower:
    """A subscription to a session."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._page: Page | None = None
        self._given = 0
        self._is_deleted = place.is_over
        self._is_cut_short = False

    @property
    def holds_page(self) -> bool:
        return self._page is not None

    def give(self, room: int) -> list[bytes]:
        if self._page is not None:
            return self._from_page(self._page, room)
        if self._is_deleted:
            return []
        place = self.place
        newest = place.topic.newest
        if newest is not None and newest.first == place.ahead + 1:  # as it is for all who keep up
            lines = newest.encoded()
            if newest.length <= room:
                place.ahead = newest.end
                self._is_deleted = newest.is_last
                return lines
        return self._from_topic(room)

    def need(self) -> Need:
        if self._is_deleted or self._is_cut_short:
            return Need.OVER
        if self.holds_page:
            return Need.NOTHING
        return self.place.look(1)[0]

    def load(self) -> None:
        page, start = self.place.read(self.place.ahead)
        page.encoded()  # here, and not on the loop
        self._page, self._given = page, start

    def wait(self, waker: Waker, waiter: Waiter) -> bool:
        is_over = self._is_deleted or self._is_cut_short
        return not is_over and self.place.topic.wait(waker, waiter, self.place.ahead)

    def forget(self, waker: Waker, waiter: Waiter) -> None:
        self.place.topic.forget(waker, waiter)

    def reason(self) -> str:
        return "deleted" if self._is_deleted else "closed"

    def cut_short(self) -> None:
        self._is_cut_short = True

    def leave(self) -> None:
        self._page = None
        self.place.leave()

    def _from_page(self, page: Page, room: int) -> list[bytes]:
        given = _fitting(page.encoded(), self._given, room)
        self._given += len(given)
        last = page.envelopes[self._given - 1]
        self.place.ahead = last.cursor or 0
        if self._given == len(page.envelopes):
            self._page = None
            self._is_deleted = last.type == _LAST
        return given

    def _from_topic(self, room: int) -> list[bytes]:
        given: list[bytes] = []
        place = self.place
        for chunk in place.topic.since(place.ahead, AT_ONCE) or ():
            lines, had = chunk.encoded(), place.ahead + 1 - chunk.first
            if had or chunk.length > room:
                lines = _fitting(lines, had, room)
            given += lines
            room -= chunk.length
            place.ahead += len(lines)
            self._is_deleted = place.ahead == place.topic.end and chunk.is_last
            if place.ahead < chunk.end or room <= 0:
                break
        return given


class Listener:
    """A subscription to everything: events of these types, or all, of these topics, or of all and of none.

    If it lags so far behind that what it was to be given is kept no more, it reads the log: then each session's events
    come in their order, but sessions no longer in the order between them. What belongs to no session is in no log; one
    that has lost such an event is over, because it is `lagging`.
    """

    def __init__(
        self,
        line: Line,
        types: frozenset[str] | None,
        pages: Callable[[str], Pages],
        topics: frozenset[str] | None = None,
    ) -> None:
        self.place = line.tail
        self.types = HEARD if types is None else HEARD & types
        self._topics = topics
        self._line = line
        self._pages = pages
        self._lock = threading.Lock()
        self._behind: dict[str, tuple[int, int]] = {}
        self._had: dict[str, int] = {}
        self._has_lost = False
        self._is_cut_short = False
        self._reading: tuple[str, Pages] | None = None
        self._page: list[bytes] = []
        self._given = 0

    def begin(self, behind: dict[str, tuple[int, int]]) -> None:
        """Give first what these topics have between two cursors, the second included; it listens already."""
        with self._lock:
            self._had = {topic: end for topic, (_, end) in behind.items()}
            for topic, (after, end) in behind.items():
                if not self._follows(topic):
                    continue
                _, until = self._behind.get(topic, (0, 0))
                if max(end, until) > after:
                    self._behind[topic] = (after, max(end, until))

    def misses(self, chunk: Chunk) -> None:
        """Take note that this will not be given: it has to be read from the log."""
        topic = chunk.publication.topic
        if not self._follows(topic):
            return
        with self._lock:
            if topic is None:
                self._has_lost = self._has_lost or not self.types.isdisjoint(chunk.types)
                return
            had = self._had.get(topic, 0)
            if chunk.end > had:
                after, _ = self._behind.get(topic, (max(chunk.first - 1, had), 0))
                self._behind[topic] = (after, chunk.end)

    @property
    def is_behind(self) -> bool:
        """Whether something has to be read from the log first, or is lost."""
        return bool(self._behind) or self._has_lost

    @property
    def holds_page(self) -> bool:
        return self._given < len(self._page)

    def give(self, room: int) -> list[bytes]:
        given: list[bytes] = []
        while room > 0:
            lines = self._from_page(room) if self.holds_page else self._next_published()
            if lines is None:
                break
            given += lines
            room -= sum(map(len, lines))
        return given

    def need(self) -> Need:
        if self.holds_page:
            return Need.NOTHING
        closed = self._line.closed
        if self._has_lost or self._is_cut_short:
            return Need.OVER
        if self._behind:
            return Need.LOG
        if self.place.next is not None:
            return Need.NOTHING
        return Need.OVER if closed else Need.NEWS

    def load(self) -> None:
        with self._lock:
            topic = next(iter(self._behind))
            after, until = self._behind[topic]
        if self._reading is None or self._reading[0] != topic:
            self._reading = (topic, self._pages(topic))
        page, start = self._reading[1].read(after)
        of_page = islice(zip(page.envelopes, page.encoded(), strict=True), start, page.behind(until))
        self._page = [line for envelope, line in of_page if envelope.type in self.types]
        self._given = 0
        end = min(page.last, until)
        with self._lock:
            _, until = self._behind.pop(topic)  # it may have missed more meanwhile
            if end < until:
                self._behind[topic] = (end, until)

    def wait(self, waker: Waker, waiter: Waiter) -> bool:
        has_other_things_to_do = self.holds_page or self.is_behind or self._is_cut_short
        return not has_other_things_to_do and self._line.wait(waker, waiter, self.place)

    def forget(self, waker: Waker, waiter: Waiter) -> None:
        self._line.forget(waker, waiter)

    def reason(self) -> str:
        return "lagging" if self._has_lost else "closed"

    def cut_short(self) -> None:
        self._is_cut_short = True

    def leave(self) -> None:
        self._page = []
        self._given = 0
        self._line.part(self)

    def _follows(self, topic: str | None) -> bool:
        return self._topics is None or topic in self._topics

    def _from_page(self, room: int) -> list[bytes]:
        given = _fitting(self._page, self._given, room)
        self._given += len(given)
        if not self.holds_page:
            self._page, self._given = [], 0
        return given

    def _next_published(self) -> list[bytes] | None:
        """Return what is wanted of the next publication, unless something comes before it that is in the log."""
        chunk = self._line.take(self)
        if chunk is None:
            return None
        topic = chunk.publication.topic
        if self.types.isdisjoint(chunk.types) or not self._follows(topic):
            return []
        had = max(0, self._had.get(topic, 0) + 1 - chunk.first) if topic else 0
        return [
            line
            for type_, line in islice(zip(chunk.types, chunk.encoded(), strict=True), had, None)
            if type_ in self.types
        ]


def _fitting(lines: list[bytes], begin: int, room: int) -> list[bytes]:
    """Return those from an index on, about so many bytes, but one at least."""
    end = begin
    while end < len(lines) and (room > 0 or end == begin):
        room -= len(lines[end])
        end += 1
    return lines[begin:end]
