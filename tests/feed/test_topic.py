"""A topic keeps its newest events, bounded, and knows what is only in the log."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from reenact.actors.feed import topic as topics
from reenact.actors.feed.replay import Pages, Replay
from reenact.actors.feed.topic import Budget, Chunk, FollowerPosition, Topic
from reenact.actors.feed.waking import ANY_THREAD
from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.stream.events import TextDelta
from tests.feed.book import Book


def followed(topic: Topic, ahead: int) -> FollowerPosition:
    """Return the position of a new follower of the topic."""
    position = FollowerPosition(topic, "s", Pages(Replay(Book()), topic.name), topic.part, topic.part)
    position.ahead = ahead
    topic.join(position)
    return position


def chunk(first: int, count: int = 1, text: str = "x") -> Chunk:
    entries = (Entry("text_delta", 0, TextDelta(text=text)),) * count
    return Chunk(Publication("t", first, Segment({"session_id": "s"}, entries)), lambda prefix: prefix)


def filled(*chunks: Chunk) -> Topic:
    topic = Topic("t", Budget())
    topic.ends_at(chunks[0].first - 1)
    for one in chunks:
        topic.append(one)
    return topic


def test_the_envelopes_of_an_event_are_made_once_for_all() -> None:
    one = chunk(5, 2)

    first, second = one.envelopes(), one.envelopes()

    assert first is second
    assert [(envelope.id, envelope.cursor) for envelope in first] == [("t:5", 5), ("t:6", 6)]
    assert one.encoded() is one.encoded()
    assert [msgspec.json.decode(line)["cursor"] for line in one.encoded()] == [5, 6]


@pytest.mark.parametrize(
    ("cursor", "firsts"),
    [(0, None), (1, [2]), (2, [2]), (3, [2]), (4, [5]), (5, [6]), (8, []), (9, [])],
    ids=str,
)
def test_it_gives_the_chunk_behind_a_cursor_or_says_that_the_log_has_it(cursor: int, firsts: list[int] | None) -> None:
    topic = filled(chunk(2, 3), chunk(5), chunk(6, 3))

    found = topic.since(cursor, 1)

    assert firsts == (None if found is None else [one.first for one in found])


def test_it_gives_about_as_many_events_as_are_asked_for() -> None:
    topic = filled(*(chunk(cursor) for cursor in range(1, 9)))

    found = topic.since(2, 3)

    assert found is not None
    assert [one.first for one in found] == [3, 4, 5]


def test_what_is_durable_and_was_not_published_yet_is_in_the_log() -> None:
    topic = filled(chunk(1))

    topic.ends_at(3)

    assert topic.since(1, 1) is None
    topic.append(chunk(2, 2))
    found = topic.since(1, 1)
    assert found is not None
    assert [one.first for one in found] == [2]


def test_what_another_writer_has_written_between_is_in_the_log() -> None:
    topic = filled(chunk(1), chunk(2))

    topic.append(chunk(5))

    assert topic.since(1, 1) is None
    assert topic.since(3, 1) is None
    assert topic.kept[0] == 1


def test_what_all_have_had_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "FEW_EVENTS", 2)
    monkeypatch.setattr(topics, "AT_ONCE", 2)
    topic = filled(chunk(1))
    followed(topic, 3)
    followed(topic, 2)

    for cursor in range(2, 6):
        topic.append(chunk(cursor))

    assert topic.kept[0] == 3
    assert topic.since(1, 1) is None
    assert topic.since(2, 1) is not None


def test_what_all_have_had_is_dropped_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "FEW_EVENTS", 10)
    monkeypatch.setattr(topics, "AT_ONCE", 4)
    topic = filled(chunk(1))
    follower = followed(topic, 0)
    for cursor in range(2, 101):
        topic.append(chunk(cursor))
    follower.ahead = 100

    kept: list[int] = []
    for cursor in range(101, 141):
        topic.append(chunk(cursor))
        follower.ahead = cursor
        kept.append(topic.kept[0])

    assert all(before - after <= 4 for before, after in pairwise(kept))
    assert 10 <= kept[-1] <= 12


def test_a_follower_that_stands_still_keeps_only_so_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MOST_EVENTS", 10)
    monkeypatch.setattr(topics, "FEW_EVENTS", 3)
    monkeypatch.setattr(topics, "AT_ONCE", 2)
    topic = filled(chunk(1))
    followed(topic, 0)

    for cursor in range(2, 1000):
        topic.append(chunk(cursor))
        assert topic.kept[0] <= 10 + 1

    assert topic.since(0, 1) is None


def test_a_follower_that_stands_still_keeps_only_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ENVELOPE", 0)
    monkeypatch.setattr(topics, "MOST_BYTES", 5000)
    monkeypatch.setattr(topics, "FEW_BYTES", 100)
    topic = filled(chunk(1))
    followed(topic, 0)

    for cursor in range(2, 100):
        topic.append(chunk(cursor, text="x" * 1000))

    assert 1000 < topic.kept[1] < 7000


def test_one_that_is_larger_than_all_that_may_be_kept_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MOST_BYTES", 50)
    monkeypatch.setattr(topics, "FEW_BYTES", 10)
    topic = filled(chunk(1))
    followed(topic, 0)

    topic.append(chunk(2, text="x" * 1000))

    assert topic.kept[0] == 1
    assert topic.since(1, 1) is not None


def test_who_has_left_follows_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "FEW_EVENTS", 1)
    monkeypatch.setattr(topics, "AT_ONCE", 2)
    topic = filled(chunk(1))
    followed(topic, 0).leave()

    topic.append(chunk(2))
    topic.append(chunk(3))

    assert not topic.is_followed
    assert topic.kept[0] == 1


def test_who_waits_is_called_once_and_only_for_what_is_behind_its_cursor() -> None:
    topic = filled(chunk(1))
    calls: list[str] = []

    def waiter() -> None:
        calls.append("called")

    assert not topic.wait(ANY_THREAD, waiter, 0)
    assert topic.wait(ANY_THREAD, waiter, 1)
    for cursor in (2, 3):
        for waker, waiters in topic.append(chunk(cursor)):
            waker.wake(waiters)

    assert calls == ["called"]


def test_who_waits_no_more_is_not_called() -> None:
    topic = filled(chunk(1))

    def waiter() -> None:
        raise AssertionError

    assert topic.wait(ANY_THREAD, waiter, 1)
    topic.forget(ANY_THREAD, waiter)
    topic.forget(ANY_THREAD, waiter)

    assert list(topic.append(chunk(2))) == []


def test_closing_wakes_who_waits_and_nobody_waits_after_it() -> None:
    topic = filled(chunk(1))
    calls: list[str] = []

    def waiter() -> None:
        calls.append("called")

    assert topic.wait(ANY_THREAD, waiter, 1)
    for waker, waiters in topic.finish():
        waker.wake(waiters)

    assert calls == ["called"]
    assert not topic.wait(ANY_THREAD, waiter, 1)


def test_all_topics_together_keep_only_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ENVELOPE", 0)
    monkeypatch.setattr(topics, "ALL_BYTES", 20_000)
    budget = Budget()
    many = [Topic(f"t{number}", budget) for number in range(10)]
    for topic in many:
        followed(topic, 0)

    for cursor in range(1, 100):
        for topic in many:
            topic.append(chunk(cursor, text="x" * 1000))

    assert budget.bytes == sum(topic.kept[1] for topic in many)
    assert budget.bytes < 20_000 + 10 * 1100
    for topic in many:
        assert topic.since(98, 1)
        topic.clear()
    assert budget.bytes == 0
