"""A log as a list, a feed on it, and one session that some follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.actors.feed import replay, topic
from reenact.actors.feed.hub import Feed
from tests.feed.book import Book, created


@pytest.fixture
def book() -> Book:
    """Return a log with the session `s`, of which nobody has heard yet."""
    made = Book()
    made.write("s", created("s"))
    return made


@pytest.fixture
def feed(book: Book) -> Iterator[Feed]:
    """Return a feed that has heard of what stands in the log."""
    made = book.feed()
    book.publish(made)
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a topic keep 4 events, and a page have one row."""
    monkeypatch.setattr(topic, "MOST_EVENTS", 4)
    monkeypatch.setattr(topic, "FEW_EVENTS", 2)
    monkeypatch.setattr(topic, "AT_ONCE", 2)
    monkeypatch.setattr(replay, "FIRST_ROWS", 1)
    monkeypatch.setattr(replay, "MOST_ROWS", 1)
