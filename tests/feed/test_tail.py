"""What several nodes write is published at each of them, in the order of the log."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

from reenact._runtime import codec
from reenact.actors.feed import tail as tails
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.publications import Listener
from reenact.actors.feed.tail import Tail
from reenact.actors.journal.api import Append, Entry, FeedRow, Recorded, Segment, WrittenRow
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.domain.container import ContainerCreated
from reenact.domain.errors import InvalidInputError, LogUnusableError, StorageError
from reenact.domain.image import Definition, ImageRegistered
from reenact.domain.stream import events as heard
from reenact.domain.stream.events import Envelope, EventData
from tests.feed.book import HOUR, completed, created, deltas, started, stopped
from tests.feed.shared_book import SharedBook, SharedNode
from tests.journal.server import Server
from tests.journal.support import commit
from tests.threads import at_once

PATIENCE = 60.0


@pytest.fixture
def book() -> SharedBook:
    """Return a log with the session `s`."""
    made = SharedBook()
    made.write("s", created("s"))
    made.unheard.clear()
    return made


@pytest.fixture
def here(book: SharedBook) -> Iterator[SharedNode]:
    with closing(book) as node:
        yield node


@pytest.fixture
def there(book: SharedBook, here: SharedNode) -> Iterator[SharedNode]:
    assert here.tail.position == 1
    with closing(book) as node:
        yield node


@contextmanager
def closing(book: SharedBook) -> Generator[SharedNode]:
    node = book.node()
    try:
        yield node
    finally:
        node.close()


def listening(feed: Feed, topics: frozenset[str] | None = None) -> Callable[[], list[Envelope]]:
    """Listen to these topics, or to everything, from now on; return what gives what was heard since."""
    listener = Listener(feed.publications, None, feed.replay, topics)
    feed.publications.join(listener)
    return lambda: [msgspec.json.decode(line, type=Envelope) for line in listener.give(10**9)[0]]


def asking(node: SharedNode) -> list[object]:
    """Return what takes up the streams of which rows are read from now on."""
    asked: list[object] = []
    read = node.read_rows

    def read_rows(**words: Any) -> list[WrittenRow]:  # noqa: ANN401 - as they come
        asked.append(words["streams"])
        return read(**words)

    vars(node)["read_rows"] = read_rows
    return asked


def ids(envelopes: list[Envelope]) -> list[str]:
    return [envelope.id for envelope in envelopes]


# One after the other


def test_what_another_node_writes_is_heard_once_it_is_known(here: SharedNode, there: SharedNode) -> None:
    subscription, given = here.feed.subscribe("s", None, 1), listening(here.feed)
    there.write("s", *deltas("a", "b"), turn_id="t")

    assert subscription.take(10) == []
    here.notify()
    here.tail.advance(looks=False)

    assert [(each.cursor, each.data) for each in subscription.take(10)] == [(2, deltas("a")[0]), (3, deltas("b")[0])]
    assert [(each.id, each.context.turn_id) for each in given()] == [("session/s:2", "t"), ("session/s:3", "t")]


def test_what_nobody_was_notified_of_is_found_by_a_look(here: SharedNode, there: SharedNode) -> None:
    given = listening(here.feed)
    there.write("s", *deltas("a"))

    here.tail.advance(looks=False)
    assert given() == []
    here.tail.advance(looks=True)

    assert ids(given()) == ["session/s:2"]


def test_who_writes_alone_reads_nothing(here: SharedNode) -> None:
    given = listening(here.feed)
    for text in "abc":
        here.write("s", *deltas(text))
        here.answer()

    assert ids(given()) == ["session/s:2", "session/s:3", "session/s:4"]
    here.tail.advance(looks=True)
    assert here.reads == 0


def test_a_session_that_moves_here_is_heard_in_order(here: SharedNode, there: SharedNode) -> None:
    given = listening(here.feed)
    there.write("s", *deltas("a"))
    here.write("s", *deltas("b"))

    here.answer()  # before it is known that the other one has written

    assert given() == []
    here.tail.advance(looks=False)
    assert ids(given()) == ["session/s:2", "session/s:3"]


def test_a_session_that_moves_away_is_heard_in_order_although_its_last_answer_is_late(
    here: SharedNode, there: SharedNode
) -> None:
    given = listening(here.feed)
    here.write("s", *deltas("a"))
    there.write("s", *deltas("b"))
    here.notify()
    here.tail.advance(looks=False)
    assert ids(given()) == ["session/s:2", "session/s:3"]

    here.answer()

    assert given() == []


def test_what_was_committed_and_never_answered_is_heard(here: SharedNode) -> None:
    given = listening(here.feed)
    here.write("s", *deltas("a"))
    here.under_way = None
    here.write("s", *deltas("b"))
    here.answer()

    here.tail.advance(looks=False)

    assert ids(given()) == ["session/s:2", "session/s:3"]


def test_what_waits_in_memory_is_bounded(here: SharedNode, there: SharedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "MOST_EVENTS", 2)
    given = listening(here.feed)
    there.write("s", *deltas("a"))
    for text in "bcdef":
        here.write("s", *deltas(text))
        here.answer()

    here.tail.advance(looks=False)

    assert ids(given()) == [f"session/s:{cursor}" for cursor in range(2, 8)]


# What is read


def test_nothing_is_read_that_nobody_follows(here: SharedNode, there: SharedNode) -> None:
    there.write("s", *deltas("a"))
    here.notify()
    there.answer()
    there.write("s", *deltas("b"))
    here.write("s", *deltas("c"))
    here.answer()
    assert here.tail.position == 4

    there.answer()
    there.write("s", *deltas("d"))
    here.tail.advance(looks=True)

    assert here.tail.position == 5
    assert here.reads == 0


def test_who_comes_later_hears_nothing_of_before_and_everything_of_after(here: SharedNode, there: SharedNode) -> None:
    there.write("s", *deltas("a"))
    here.notify()
    subscription, given = here.feed.subscribe("s", None, 1), listening(here.feed)
    assert [each.cursor for each in subscription.take(10)] == [2]

    there.answer()
    there.write("s", *deltas("b"))
    here.tail.advance(looks=True)

    assert [each.cursor for each in subscription.take(10)] == [3]
    assert ids(given()) == ["session/s:3"]


def test_of_few_topics_only_their_rows_are_read(here: SharedNode, there: SharedNode, book: SharedBook) -> None:
    subscription = here.feed.subscribe("s", None, 1)

    def write() -> None:
        book.write("other", created("other"))
        book.write("s", *deltas("a"))

    there.commit(write)
    asked = asking(here)
    here.tail.advance(looks=True)

    assert asked == [{"session/s"}]
    assert [each.cursor for each in subscription.take(10)] == [2]


def test_of_sessions_that_are_heard_alone_only_their_rows_are_read(
    here: SharedNode, there: SharedNode, book: SharedBook
) -> None:
    book.write("handled", created("handled"))
    called: SimpleQueue[Envelope] = SimpleQueue()
    here.feed.handlers.add("text_delta", called.put, "handled")
    given = listening(here.feed, frozenset({"session/s"}))
    here.tail.advance(looks=True)
    asked = asking(here)

    def write() -> None:
        for session in ("handled", "other", "s"):
            book.write(session, *deltas("a"))

    there.commit(write)
    here.tail.advance(looks=True)

    assert asked == [{"session/handled", "session/s"}]
    assert called.get(timeout=PATIENCE).id == "session/handled:2"
    assert ids(given()) == ["session/s:2"]


def test_everything_is_read_for_whoever_hears_all_sessions_beside_one(
    here: SharedNode, there: SharedNode, book: SharedBook
) -> None:
    called: SimpleQueue[Envelope] = SimpleQueue()
    here.feed.handlers.add("text_delta", called.put, "s")
    with here.feed.handlers.add("container_created", called.put):
        there.commit(
            lambda: book.add("container/c", events=(Recorded("container/c", 1, 1, HOUR, ContainerCreated("c", "c")),))
        )
        here.tail.advance(looks=True)
        assert called.get(timeout=PATIENCE).id == "container/c:1"
    asked = asking(here)
    there.answer()
    there.write("s", *deltas("a"))
    here.tail.advance(looks=True)

    assert asked == [{"session/s"}]
    assert called.get(timeout=PATIENCE).id == "session/s:2"


def test_a_handler_that_subscribes_to_a_session_of_another_node_hears_what_comes_from_then_on(
    here: SharedNode, there: SharedNode, book: SharedBook
) -> None:
    book.write("other", created("other"))
    called: SimpleQueue[Envelope] = SimpleQueue()
    subscribed = threading.Event()

    def subscribe(_event: Envelope) -> None:
        here.feed.handlers.add("text_delta", called.put, "other")
        subscribed.set()

    here.feed.handlers.add("text_delta", subscribe, "s")
    there.write("s", *deltas("a"))
    here.tail.advance(looks=True)
    assert subscribed.wait(PATIENCE)

    there.answer()
    there.write("other", *deltas("b"))
    here.tail.advance(looks=True)

    assert called.get(timeout=PATIENCE).id == "session/other:2"


def test_a_long_gap_is_read_in_pages(here: SharedNode, there: SharedNode) -> None:
    given = listening(here.feed)
    there.write("s", *deltas(*map(str, range(1000))), rows=1000)

    here.tail.advance(looks=True)

    assert ids(given()) == [f"session/s:{cursor}" for cursor in range(2, 1002)]
    assert here.reads == 1000 // tails.STEP + 1


def test_news_of_a_session_are_those_that_come_later(here: SharedNode, there: SharedNode) -> None:
    there.write("s", *deltas("a"))
    here.tail.advance(looks=True)
    subscribe_from_now = here.feed.subscribe_from_now("s")

    there.answer()
    there.write("s", *deltas("b"))
    here.tail.advance(looks=True)

    assert [each.cursor for each in subscribe_from_now.take(10)] == [3]


# What belongs to no session


def test_containers_and_images_of_other_nodes_are_heard(here: SharedNode, book: SharedBook) -> None:
    given = listening(here.feed)
    book.add("container/c", events=(Recorded("container/c", 1, 1, HOUR, ContainerCreated("c", "name")),))
    book.add("image/i", events=(Recorded("image/i", 3, 2, HOUR, ImageRegistered("i", 3, Definition("i"))),))
    book.add("counter/x", events=(Recorded("counter/x", 1, 3, HOUR, "of a user's own actor"),))

    here.tail.advance(looks=True)

    first, second = given()
    assert (first.id, first.cursor, first.context.container_id) == ("container/c:1", None, "c")
    assert msgspec.convert(first.data, heard.ContainerCreated) == heard.ContainerCreated(container_id="c", name="name")
    assert (second.id, second.timestamp.hour, second.context.image_id) == ("image/i:3", 1, "i")
    assert here.tail.position == 4


def test_an_event_that_no_container_has_is_told_of_and_left_out(
    here: SharedNode, book: SharedBook, caplog: pytest.LogCaptureFixture
) -> None:
    given = listening(here.feed)
    book.add("container/c", events=(Recorded("container/c", 1, 1, HOUR, "what"),))
    book.write("s", *deltas("a"))

    here.tail.advance(looks=True)

    assert ids(given()) == ["session/s:2"]
    assert "event 1 of 'container/c' is a str" in caplog.text


# What is not as it was written


def test_a_compacted_row_is_heard_as_it_is_read(here: SharedNode, there: SharedNode, book: SharedBook) -> None:
    follower, given = here.feed.subscribe("s", None, 1), listening(here.feed)
    there.write("s", started("t"), *deltas("a", "b"), stopped(), completed("t"), turn_id="t")
    late = here.feed.subscribe("s", None, 4)
    gap = heard.DeltasCompacted(first_cursor=3, last_cursor=4)
    data: list[EventData] = [started("t"), gap, stopped(), completed("t")]
    book.replace_feed("session/s", 2, 6, [Segment({}, tuple(Entry(one.event_type, 0, one) for one in data))])

    here.tail.advance(looks=True)

    assert [each.cursor for each in given()] == [2, 4, 5, 6]
    assert [(each.cursor, each.type) for each in follower.take(10)] == [
        (2, "turn_started"),
        (4, "deltas_compacted"),
        (5, "message_stop"),
        (6, "turn_completed"),
    ]
    assert [each.cursor for each in late.take(10)] == [5, 6]


@pytest.mark.parametrize(
    "row",
    [
        {"error": LogUnusableError("the row is damaged")},
        {"feed": FeedRow("session/s", 2, (Segment({}, (Entry("what", 0, {}),)),))},
        {"feed": FeedRow("session/s", 2, (Segment({}, (Entry("text_delta", 0, {"text": 1}),)),))},
        {"feed": FeedRow("session/s", 2, (Segment({"what": "?"}, (Entry("text_delta", 0, {"text": ""}),)),))},
        {"feed": FeedRow("session/s", 2, (Segment({}, (Entry("text_delta", 0, {"text": ""}),) * 2),))},
        {"feed": FeedRow("session/s", 2, ())},
    ],
    ids=["unreadable", "unknown type", "no such event", "no such context", "too long", "empty"],
)
def test_a_damaged_row_is_told_of_and_who_follows_finds_it_in_the_log(
    here: SharedNode, book: SharedBook, caplog: pytest.LogCaptureFixture, row: dict[str, Any]
) -> None:
    subscription, subscribe_from_now, given = (
        here.feed.subscribe("s", None, 1),
        here.feed.subscribe_from_now("s"),
        listening(here.feed),
    )
    book.write("t", created("t"))
    book.add("session/s", first_cursor=2, heard=1, **row)
    book.feeds["session/s"].append(FeedRow("session/s", 3, ()))
    book.add("session/s", first_cursor=3, heard=1, error=LogUnusableError("likewise"))
    book.write("t", *deltas("a"))

    here.tail.advance(looks=True)

    assert ids(given()) == ["session/t:1", "session/t:2"]
    for follower in (subscription, subscribe_from_now):
        with pytest.raises(LogUnusableError):
            follower.next(0)
    assert caplog.text.count("of the log cannot be published") == 1


# Failures, and the end


def test_a_failure_leaves_nothing_out(here: SharedNode, there: SharedNode) -> None:
    given, count = listening(here.feed), 3 * tails.STEP
    there.write("s", *deltas(*map(str, range(count))), rows=count)
    here.reads_until_failure = 2
    with pytest.raises(StorageError):
        here.tail.advance(looks=True)
    before = given()

    here.tail.advance(looks=False)

    assert len(before) == 2 * tails.STEP
    assert ids(before + given()) == [f"session/s:{cursor}" for cursor in range(2, count + 2)]


def test_a_log_that_has_lost_its_end_is_followed_from_there(
    here: SharedNode, there: SharedNode, book: SharedBook
) -> None:
    given = listening(here.feed)
    there.write("s", *deltas("a"))
    here.tail.advance(looks=True)
    del book.rows[-1], book.feeds["session/s"][-1]
    book.end -= 1
    here.tail.advance(looks=True)

    book.write("t", created("t"))
    here.tail.advance(looks=True)

    assert ids(given()) == ["session/s:2", "session/t:1"]


def test_a_thread_reads_again_after_failures_and_tells_once(
    here: SharedNode, there: SharedNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tails, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(tails, "LAST_PAUSE", 0.002)
    fails = iter([StorageError("gone"), ValueError("a mistake"), StorageError("gone")])
    read = here.read_rows

    def failing(**words: Any) -> list[WrittenRow]:  # noqa: ANN401 - as they come
        for error in fails:
            raise error
        return read(**words)

    vars(here)["read_rows"] = failing
    subscription = here.feed.subscribe("s", None, 1)
    there.write("s", *deltas("a"))

    with caplog.at_level(logging.WARNING):
        here.tail.start()
        here.notify()
        envelope = subscription.next(PATIENCE)

    assert envelope is not None
    assert envelope.cursor == 2
    assert caplog.text.count("cannot be read now") == 1
    assert "Traceback" not in caplog.text


def test_a_closed_tail_reads_nothing_and_publishes_what_is_handed_over(here: SharedNode, there: SharedNode) -> None:
    given = listening(here.feed)
    there.write("t", created("t"))
    here.write("s", *deltas("a"))
    here.answer()

    here.tail.close()
    here.tail.close()

    assert ids(given()) == ["session/s:2"]
    here.write("s", *deltas("b"))
    here.answer()
    assert ids(given()) == ["session/s:3"]
    assert here.reads == 0


# On a server


class ServerNode:
    """A journal, a feed and a tail of one of several nodes."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.journal = stack.enter_context(PostgresJournal.open(url, codec(), shared=True))
        self.feed = Feed(self.journal, new_id=str, now=lambda: time.time_ns() // 1000)
        stack.callback(self.feed.close)
        self.tail = Tail(self.journal, self.feed)
        stack.callback(self.tail.close)
        self.tail.start()

    def write(self, session_id: str, *data: EventData) -> None:
        commit(self.journal, step(session_id, *data))


def step(session_id: str, *data: EventData) -> Append:
    entries = tuple(Entry(one.event_type, 0, one) for one in data)
    return Append(f"session/{session_id}", None, 0, kept=(Segment({"session_id": session_id}, entries),))


@pytest.fixture
def pair(server: Server) -> Generator[tuple[ServerNode, ServerNode]]:
    """Two nodes on a log with the session `s`."""
    url = server.new_log()
    with ExitStack() as stack:
        first = ServerNode(url, stack)
        first.write("s", created("s"))
        yield first, ServerNode(url, stack)


def test_a_session_that_goes_to_and_fro_is_heard_at_both_nodes(pair: tuple[ServerNode, ServerNode]) -> None:
    given: list[SimpleQueue[Envelope]] = [SimpleQueue(), SimpleQueue()]
    subscriptions = [node.feed.subscribe("s", None, 1) for node in pair]
    for node, queue in zip(pair, given, strict=True):
        node.feed.handlers.add(None, queue.put)

    for number in range(100):
        pair[number % 2].write("s", *deltas(f"{number}a", f"{number}b"))

    for queue, subscription in zip(given, subscriptions, strict=True):
        assert [queue.get(timeout=PATIENCE).cursor for _ in range(200)] == list(range(2, 202))
        cursors: list[int | None] = []
        while len(cursors) < 200:
            envelope = subscription.next(PATIENCE)
            assert envelope is not None
            cursors.append(envelope.cursor)
        assert cursors == list(range(2, 202))


def test_two_nodes_that_write_at_once_hear_each_other(pair: tuple[ServerNode, ServerNode]) -> None:
    given: list[SimpleQueue[Envelope]] = [SimpleQueue(), SimpleQueue()]
    for node, queue in zip(pair, given, strict=True):
        node.feed.handlers.add(None, queue.put)

    def write(thread: int) -> None:
        for number in range(100):
            pair[thread].write("ab"[thread], *deltas(str(number)))

    at_once(write, threads=2)

    for queue in given:
        heard_ids = [queue.get(timeout=PATIENCE).id for _ in range(200)]
        for name in "ab":
            expected = [f"session/{name}:{cursor}" for cursor in range(1, 101)]
            assert [id_ for id_ in heard_ids if id_.startswith(f"session/{name}:")] == expected
        assert queue.empty()


def test_whoever_goes_from_node_to_node_has_everything_once_while_all_write_everywhere(
    pair: tuple[ServerNode, ServerNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, size in ((tails, "STEP", 3), (tails, "MOST_EVENTS", 9), (tails, "MOST_TOPICS", 1)):
        monkeypatch.setattr(module, name, size)
    steps, sessions = 60, "abc"
    for session in sessions:
        pair[0].write(session, created(session))
    total = 1 + 2 * steps
    given: list[SimpleQueue[Envelope]] = [SimpleQueue(), SimpleQueue()]
    for node, queue in zip(pair, given, strict=True):
        node.feed.handlers.add("text_delta", queue.put)
    followed: dict[str, list[int]] = {session: [] for session in sessions}

    def write(node: ServerNode) -> None:
        for number in range(steps):
            for session in sessions:
                node.write(session, *deltas(str(number)))

    def wander(session: str) -> None:
        cursors = followed[session]
        for node in cycle(pair):
            with node.feed.subscribe(session, None, len(cursors)) as subscription:
                for _ in range(min(7, total - len(cursors))):
                    envelope = subscription.next(PATIENCE)
                    assert envelope is not None
                    cursors.append(envelope.cursor or 0)
            if len(cursors) == total:
                return

    threads = [threading.Thread(target=write, args=(node,)) for node in pair]
    threads += [threading.Thread(target=wander, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(cursors == list(range(1, total + 1)) for cursors in followed.values())
    for queue in given:
        heard_at: dict[str | None, list[int | None]] = defaultdict(list)
        for _ in range(len(sessions) * (total - 1)):
            envelope = queue.get(timeout=PATIENCE)
            heard_at[envelope.context.session_id].append(envelope.cursor)
        assert heard_at == {session: list(range(2, total + 1)) for session in sessions}


def test_a_container_of_another_node_is_heard(pair: tuple[ServerNode, ServerNode]) -> None:
    here, there = pair
    given: SimpleQueue[Envelope] = SimpleQueue()
    here.feed.handlers.add("container_created", given.put)

    commit(there.journal, Append("container/c", 0, HOUR, (ContainerCreated("c", "name"),)))

    assert given.get(timeout=PATIENCE).data == heard.ContainerCreated(container_id="c", name="name")


def test_a_tail_outlives_its_connections(pair: tuple[ServerNode, ServerNode], server: Server) -> None:
    here, there = pair
    subscription = here.feed.subscribe("s", None, 1)
    for number in range(3):
        there.write("s", *deltas(str(number)))
        envelope = subscription.next(PATIENCE)
        assert envelope is not None
        assert envelope.cursor == number + 2
        server.terminate()


def test_a_client_goes_on_at_another_node_where_it_was(pair: tuple[ServerNode, ServerNode]) -> None:
    here, there = pair
    here.write("s", *deltas("a", "b", "c"))
    first, other = here.feed.subscribe("s", "client"), there.feed.subscribe("s", "client")
    assert (len(first.take(10)), len(other.take(2))) == (4, 2)

    first.ack(3)
    other.ack(2)

    with there.feed.subscribe("s", "client") as again:
        assert again.cursor == 3
        with pytest.raises(InvalidInputError, match="up to 3, not 4"):
            again.ack(4)
    other.unsubscribe()
    first.unsubscribe()
    assert [mark.cursor for mark in here.journal.marks("session/s")] == [3]
    with here.feed.subscribe("s", "client") as last:
        assert last.next(0) is not None
        last.ack(4)
    with there.feed.subscribe("s", "client") as last:
        assert last.cursor == 4
