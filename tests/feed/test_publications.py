"""Listeners at the same place share what they are given; each is given everything that it wants once, in order."""

from __future__ import annotations

import gc
import weakref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.feed import publications
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.publications import Listener
from reenact.domain.stream.events import Envelope, MessageStop, TextDelta
from tests.feed.book import Book, created

WANTED = (None, frozenset({"text_delta"}), frozenset({"message_stop"}))
TOPICS = (None, frozenset({"session/s"}))


def listening(feed: Feed, types: frozenset[str] | None = None, topics: frozenset[str] | None = None) -> Listener:
    """Return a listener that has joined."""
    listener = Listener(feed.publications, types, feed.replay, topics)
    feed.publications.join(listener)
    return listener


def read(lines: list[bytes]) -> list[tuple[str | None, object]]:
    """Return the session and the text, or the type, of each event."""
    events = [msgspec.json.decode(line, type=Envelope) for line in lines]
    return [(one.context.session_id, one.data.get("text", one.type)) for one in events]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.sampled_from("st"), st.integers(0, 3)),
            st.tuples(st.integers(0, 11), st.sampled_from([1, 300, 1_000, 1_000_000])),
        ),
        max_size=60,
    ),
    most=st.sampled_from([1, 2, publications.MOST_RUNS]),
)
def test_each_listener_has_all_that_it_wants_once_and_in_order(steps: list[tuple[str | int, int]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publications, "MOST_RUNS", most)
        book = Book()
        for session in "st":
            book.write(session, created(session))
        feed = book.feed()
        book.publish(feed)
        kinds = [(types, topics) for _ in range(2) for types in WANTED for topics in TOPICS]
        listeners = [listening(feed, *kind) for kind in kinds]
        had: list[list[bytes]] = [[] for _ in kinds]
        said: list[tuple[str, str]] = []
        for number, (which, how) in enumerate(steps):
            if isinstance(which, str):
                texts = [f"{number}.{each}" for each in range(how)]
                book.write(which, *(TextDelta(text=text) for text in texts), MessageStop())
                book.publish(feed)
                said += [(which, text) for text in (*texts, "message_stop")]
            else:
                had[which] += listeners[which].give(how)[0]
        for place, listener in enumerate(listeners):
            more, has_all = listener.give(1_000_000)
            had[place] += more
            assert has_all

        for (types, topics), lines in zip(kinds, had, strict=True):
            assert read(lines) == [
                (session, text)
                for session, text in said
                if (topics is None or session == "s")
                and (types is None or ("message_stop" in types) == (text == "message_stop"))
            ]
        feed.close()


def test_listeners_at_the_same_place_share_what_they_are_given(book: Book, feed: Feed) -> None:
    first, second, other = listening(feed), listening(feed), listening(feed, frozenset({"text_delta"}))
    begin = first.node
    book.write("s", TextDelta(text="a"), MessageStop())
    book.publish(feed)

    found = [feed.publications.run_after(begin, one.types, one.topics, 1_000) for one in (first, second, other)]

    assert found[0][1] is found[1][1]
    assert len(found[2][1]) == 1


def test_what_listeners_were_given_keeps_nothing_that_was_published_since(book: Book, feed: Feed) -> None:
    listener = listening(feed)
    book.write("s", TextDelta(text="a"))
    book.publish(feed)
    listener.give(1_000)
    book.write("s", TextDelta(text="b"))
    book.publish(feed)
    node = weakref.ref(feed.publications.tail)
    listener.give(1_000)
    book.write("s", TextDelta(text="c"))
    book.publish(feed)
    listener.give(1_000)

    gc.collect()
    assert node() is None
