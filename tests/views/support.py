"""Words that are said, projections that count them, and what a naive count over the log says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select, update

from reenact.actors.journal.codec import Event
from reenact.projections import Projection, Projections, Row, on
from reenact.projections.views.transactions import PROGRESS
from tests.projections.histories import FaultyLog, ListLog, Recorded


class Said(Event, frozen=True):
    """A word was said."""

    word: str


class Forgot(Event, frozen=True):
    """What was said of a word is forgotten."""

    word: str


class Sneezed(Event, frozen=True):
    """Nobody counts that."""


class Words(Projection):
    """How often each word was said, but for what was forgotten."""

    name = "words"
    tables = MetaData()
    words = Table("words", tables, Column("word", Text, primary_key=True), Column("times", Integer, nullable=False))
    per_word: ClassVar[int] = 1

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        known = update(self.words).where(self.words.c.word == event.word)
        if not write.execute(known.values(times=self.words.c.times + self.per_word)).rowcount:
            write.execute(insert(self.words).values(word=event.word, times=self.per_word))

    @on(Forgot)
    def forget(self, write: Connection, event: Forgot, row: Row) -> None:
        write.execute(self.words.delete().where(self.words.c.word == event.word))


class DoubleWords(Words):
    """The next version, which counts twice; its tables are of the same form."""

    version = 2
    per_word = 2


class LastWords(Projection):
    """The third version, with another table: where each word was said last."""

    name = "words"
    version = 3
    tables = MetaData()
    words = Table("last", tables, Column("word", Text, primary_key=True), Column("times", Integer, nullable=False))

    @on(Said)
    def note(self, write: Connection, event: Said, row: Row) -> None:
        write.execute(self.words.delete().where(self.words.c.word == event.word))
        write.execute(insert(self.words).values(word=event.word, times=row.position))


class WatchedLog(FaultyLog):
    """A log that tells of what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.watchers: list[Callable[[int], None]] = []

    def append(self, stream: str, *events: object, cause: bytes | None = None) -> int:
        position = super().append(stream, *events, cause=cause)
        for watcher in self.watchers:
            watcher(position)
        return position

    def watch(self, watcher: Callable[[int], None]) -> None:
        self.watchers.append(watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        self.watchers.remove(watcher)


def say(log: ListLog, *words: str) -> int:
    """Append the words, and return the position of the last."""
    return log.append("talk", *map(Said, words))


@contextmanager
def caught_up(place: str | Path, log: ListLog, *projections: Projection) -> Generator[Projections]:
    """Open projections, and have them catch up with the log."""
    with Projections.open(place, log, projections) as opened:
        opened.wait_for(timeout=60)
        yield opened


def project(place: str | Path, log: ListLog, *projections: Projection) -> None:
    """Have projections catch up with the log, and close them."""
    with caught_up(place, log, *projections):
        pass


def counted(rows: Sequence[Recorded], per_word: int = 1) -> dict[str, int]:
    """Return how often each word was said in these rows."""
    times: Counter[str] = Counter()
    for row in rows:
        match row.event:
            case Said(word):
                times[word] += per_word
            case Forgot(word):
                del times[word]
            case _:
                pass
    return dict(times)


def last_said(rows: Sequence[Recorded]) -> dict[str, int]:
    """Return where each word was said last."""
    return {row.event.word: row.position for row in rows if isinstance(row.event, Said)}


def expected(kind: type[Projection], rows: Sequence[Recorded]) -> dict[str, int]:
    """Return what the projection's table holds when it has come to the last of these rows."""
    if issubclass(kind, LastWords):
        return last_said(rows)
    assert issubclass(kind, Words)
    return counted(rows, kind.per_word)


def found(projections: Projections, kind: type[Words | LastWords]) -> tuple[int, dict[str, int]]:
    """Return how far the tables that are read are, and what is in them."""
    with projections.read(kind) as connection:
        position = connection.execute(select(PROGRESS.c.position)).scalar_one()
        return position, dict(connection.execute(select(kind.words)).all())
