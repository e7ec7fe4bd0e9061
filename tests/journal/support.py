"""Small events and short ways to talk to a journal."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import msgspec

from reenact.actors.journal.api import (
    Append,
    Committed,
    Derived,
    Done,
    Entry,
    FeedJournal,
    Journal,
    Listener,
    Mark,
    Outcome,
    Segment,
    Synchronous,
)
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.fence import Fence
from reenact.actors.journal.lock import StreamLocks
from reenact.actors.journal.opening import is_postgres, open_journal
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect, spelled
from reenact.actors.journal.requests import Request, Step
from reenact.actors.journal.seeking import unpack
from reenact.actors.journal.sqlite_store import SqliteStore
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import Finding, verify
from reenact.domain.errors import LogTooNewError
from reenact.domain.stream.feed import FeedPart
from tests.jsons import at

Values: TypeAlias = str | int | bytes


class Added(msgspec.Struct, frozen=True, array_like=True):
    amount: int
    note: str = ""


class Cleared(msgspec.Struct, frozen=True, array_like=True):
    pass


class Unregistered(msgspec.Struct, frozen=True, array_like=True):
    pass


def derived(part: FeedPart, stream: str, at: int, events: Sequence[Any], row: str) -> tuple[Segment, ...]:
    """Derive an entry of each event; the needs are its context."""
    if part.version != 1:
        raise LogTooNewError(f"{row} was announced by version {part.version}")
    entries = (Entry(type(event).__name__, at, {"of": stream}) for event in events)
    return (Segment(msgspec.msgpack.decode(part.needs, type=dict[str, str]), tuple(entries)),)


def announced(stream: str, at: int, *events: object, version: int = 1, agent: str = "a1") -> Derived:
    """Return what a step announces that is derived from its events."""
    needs = msgspec.msgpack.encode({"agent": agent})
    part: FeedPart = FeedPart((), 1, msgspec.Raw(needs))
    return Derived(version, needs, derived(part, stream, at, events, ""))


CODEC = EventCodec([StoredForm("added", Added), StoredForm("cleared", Cleared)], derived)


class Log(msgspec.Struct, frozen=True):
    """Where a log is, whatever keeps it."""

    url: str

    def open(
        self,
        codec: EventCodec = CODEC,
        *,
        listener: Listener | None = None,
        synchronous: Synchronous = "FULL",
        read_only: bool = False,
        closed: bool = False,
        shared: bool | None = None,
        locks: StreamLocks | None = None,
        fence: Fence | None = None,
    ) -> StoredJournal:
        return open_journal(
            self.url,
            codec,
            listener=listener,
            synchronous=synchronous,
            read_only=read_only,
            closed=closed,
            shared=shared,
            locks=locks,
            fence=fence,
        )

    def verify(self) -> list[Finding]:
        return verify(self.url)

    def tamper(self, statement: str, *parameters: Values) -> int:
        """Change the tables behind the journal's back and return how many rows were changed."""
        if not is_postgres(self.url):
            return tamper(Path(self.url), statement, *parameters)
        address = address_of(self.url)
        with connect(address) as connection:
            return connection.execute(spelled(statement, address.schema), parameters).rowcount


def step(stream: str, after: int | None, *events: object, kept: Iterable[Segment] = ()) -> Append:
    """Make a step whose time is the number of its events, so that tests need no clock."""
    return Append(stream, after, len(events), events, tuple(kept))


def said(*words: str, agent: str = "a1") -> Segment:
    """Make a segment with an entry for each word."""
    return Segment({"agent": agent}, tuple(Entry("said", at, {"word": word}) for at, word in enumerate(words)))


def settle(journal: Journal, *steps: Append) -> list[Outcome]:
    """Append the steps one behind the other and wait for all outcomes."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    for each in steps:
        journal.append(each, outcomes.put)
    return [outcomes.get(timeout=60) for _ in steps]


def commit(journal: Journal, *steps: Append) -> Committed:
    """Append the steps, which must all become durable, and return the last outcome."""
    outcomes = settle(journal, *steps)
    for outcome in outcomes:
        assert isinstance(outcome, Committed), outcome
    last = outcomes[-1]
    assert isinstance(last, Committed)
    return last


def acknowledge(journal: FeedJournal, *marks: Mark) -> None:
    """Record the marks, which must become durable."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    journal.acknowledge(marks, outcomes.put)
    outcome = outcomes.get(timeout=60)
    assert isinstance(outcome, Committed), outcome


def settle_together(journal: StoredJournal, *makers: Callable[[Done], Request]) -> list[Outcome]:
    """Have the writer take in the requests, made for a `done` each, with one transaction; return their outcomes."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    def hand_over(_: Outcome) -> None:
        # On the thread that writes: it takes nothing before all of them are there.
        for make in makers:
            journal.writer.submit(make(outcomes.put))

    journal.append(Append("nobody", None, 0), hand_over)
    return [outcomes.get(timeout=60) for _ in makers]


def commit_together(journal: StoredJournal, *steps: Append) -> None:
    """Have the writer commit the steps with one transaction."""
    for outcome in settle_together(journal, *(partial(Step, each) for each in steps)):
        assert isinstance(outcome, Committed), outcome


def never(outcome: Outcome) -> None:
    """Stand in for a `done` that must not be called."""
    raise AssertionError(outcome)


def words_of(journal: Journal, topic: str, *, after: int = 0) -> dict[int, str]:
    """Return the words of a topic's feed by their cursors."""
    found: dict[int, str] = {}
    for row in journal.read_feed(topic, after=after, limit=1_000_000):
        entries = [entry for segment in row.segments for entry in segment.entries]
        found.update({row.first_cursor + offset: at(str, entry.data, "word") for offset, entry in enumerate(entries)})
    return found


def copy_files(log: Path, target: Path) -> Path:
    """Copy a log as a crash would leave it: the file and its write-ahead log, and nothing that was only in memory."""
    target.mkdir()
    copy = target / log.name
    shutil.copy(log, copy)
    wal = Path(f"{log}-wal")
    if wal.exists():
        shutil.copy(wal, f"{copy}-wal")
    return copy


def tamper(log: Path, statement: str, *parameters: Values) -> int:
    """Change the file behind the journal's back and return how many rows were changed."""
    with closing(sqlite3.connect(log)) as connection, connection:
        return connection.execute(statement, parameters).rowcount


def repack(log: Path, number: int, change: Callable[[list[tuple[str, bytes]]], object]) -> None:
    """Change the events of the row with this number behind the journal's back, each its topic and its state."""
    with closing(sqlite3.connect(log)) as connection, connection:
        ((packed,),) = connection.execute("SELECT events FROM steps WHERE number = ?", (number,)).fetchall()
        events = unpack(packed)
        change(events)
        connection.execute("UPDATE steps SET events = ? WHERE number = ?", (msgspec.msgpack.encode(events), number))


def connection_of(journal: StoredJournal) -> sqlite3.Connection:
    """Return the connection that the journal writes over; touch it only while nothing is under way."""
    store = journal.writer._store
    assert isinstance(store, SqliteStore)
    return store.connection
