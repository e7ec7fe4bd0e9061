"""Many subscriptions of one task: what each is given is whole and in order, and none waits for the others."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from reenact import InvalidInputError, RuntimeClosedError, SessionNotFoundError, StorageError
from reenact.actors.feed import group as groups
from reenact.actors.feed import publications, replay
from reenact.actors.feed.group import Batch, Group
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.topic import FollowerPosition
from reenact.domain.operations.table import ContainerListRequest
from reenact.domain.stream.events import ContainerCreated, Envelope
from tests.feed.book import Book, created, deleted, deltas, started
from tests.feed.test_async_subscription import PATIENCE, SlowLog, run, until


def say(book: Book, feed: Feed, session: str, *texts: str) -> None:
    book.write(session, *deltas(*texts))
    book.publish(feed)


def tell(book: Book, feed: Feed, container_id: str) -> None:
    book.say(ContainerCreated(container_id=container_id))
    book.publish(feed)


class Given:
    """What a group has given so far."""

    def __init__(self, group: Group, limit: int = 65536) -> None:
        self._group = group
        self._limit = limit
        self.events: dict[str, list[Envelope]] = defaultdict(list)
        self.ended: dict[str, str] = {}
        self.batches: list[Batch] = []

    async def take(self) -> None:
        for batch in await self._group.take(self._limit):
            self.batches.append(batch)
            self.events[batch.id] += [msgspec.json.decode(line, type=Envelope) for line in batch.events]
            if batch.ended is not None:
                self.ended[batch.id] = batch.ended

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.take()

    def cursors(self, id_: str) -> list[int | None]:
        return [envelope.cursor for envelope in self.events[id_]]


def opened(feed: Feed) -> Group:
    return Group(feed, asyncio.get_running_loop())


def with_group(feed: Feed, story: Callable[[Group], Awaitable[None]]) -> None:
    """Run the story with a group, which is closed in the end."""

    async def bounded() -> None:
        group = opened(feed)
        await story(group)
        group.close()

    run(bounded)


def test_it_gives_what_was_and_what_comes(book: Book, feed: Feed) -> None:
    say(book, feed, "s", "a", "b")

    async def story(group: Group) -> None:
        given = Given(group)
        assert await group.add("1", "s", None, 1) == (1, 3)
        await given.until(lambda: len(given.events["1"]) == 2)
        taking = asyncio.create_task(given.take())
        await until(lambda: group._taking is not None)
        await asyncio.to_thread(say, book, feed, "s", "c", "d")
        await taking

        assert given.cursors("1") == [2, 3, 4, 5]
        assert [envelope.data["text"] for envelope in given.events["1"]] == [*"abcd"]

    with_group(feed, story)


def test_the_json_of_an_event_is_made_once_for_all(book: Book, feed: Feed) -> None:
    async def story() -> None:
        many = [opened(feed) for _ in range(3)]
        for group in many:
            await group.add("1", "s", None, 1)
            await group.add("2", "s", None, 1)
        say(book, feed, "s", "a")
        lines = [batch.events[0] for group in many for batch in await group.take()]

        assert len(lines) == 6
        assert all(line is lines[0] for line in lines)
        late = [opened(feed) for _ in range(2)]
        for group in late:
            await group.add("1", "s", None, 0)
        first, second = [(await group.take())[0].events for group in late]
        assert [one is other for one, other in zip(first, second, strict=True)] == [True, True]
        for group in (*many, *late):
            group.close()

    run(story)


def test_a_small_session_does_not_wait_for_a_large_one(book: Book, feed: Feed) -> None:
    book.write("large", created("large"), *deltas(*["x" * 100] * 500), rows=20)
    book.write("small", created("small"))
    book.publish(feed)

    async def story(group: Group) -> None:
        await group.add("large", "large", None, None)
        await group.add("small", "small", None, 1)
        given = Given(group, limit=8000)
        await given.until(lambda: bool(given.events["large"]))
        say(book, feed, "small", "a")
        await given.take()
        assert given.cursors("small") == [2]
        assert len(given.events["large"]) < 100
        await given.until(lambda: len(given.events["large"]) == 501)

    with_group(feed, story)


def test_all_that_are_ready_have_their_share_of_a_batch(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        sessions = [f"s{number}" for number in range(5)]
        for session in sessions:
            book.write(session, created(session))
            book.publish(feed)
            await group.add(session, session, None, 1)
        for session in sessions:
            say(book, feed, session, *["x" * 50] * 100)

        first = await group.take(8000)

        assert sorted(batch.id for batch in first) == sessions
        assert {len(batch.events) > 2 for batch in first} == {True}
        assert sum(len(line) for batch in first for line in batch.events) < 8000 + 500
        given = Given(group, limit=1000)
        given.events |= {batch.id: [] for batch in first}
        left = 500 - sum(len(batch.events) for batch in first)
        await given.until(lambda: sum(map(len, given.events.values())) == left)

    with_group(feed, story)


def test_an_event_that_is_larger_than_a_batch_is_given_all_the_same(book: Book, feed: Feed) -> None:
    say(book, feed, "s", "x" * 10_000)
    say(book, feed, "s", "y" * 10_000)

    async def story(group: Group) -> None:
        await group.add("1", "s", None, 1)
        sizes = [[len(batch.events) for batch in await group.take(100)] for _ in range(2)]
        assert sizes == [[1], [1]]

    with_group(feed, story)


@pytest.mark.usefixtures("small")
def test_who_does_not_take_holds_nothing(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        await group.add("1", "s", None, 1)
        for number in range(200):
            say(book, feed, "s", str(number))

        assert all(topic.kept[0] <= 5 for topic in feed.topics)
        given = Given(group)
        await given.until(lambda: len(given.events["1"]) == 200)
        assert given.cursors("1") == list(range(2, 202))

    with_group(feed, story)


def test_only_so_many_hold_a_page_of_the_log(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "PAGES", 2)
    sessions = [f"s{number}" for number in range(6)]
    for session in sessions:
        book.write(session, created(session), *deltas(*"abcdefgh"))
    book.publish(feed)

    async def story(group: Group) -> None:
        for session in sessions:
            await group.add(session, session, None, None)
        given = Given(group, limit=1)
        while any(len(given.events[session]) < 9 for session in sessions):
            await given.take()
            assert sum(one.member.holds_page for one in group._states.values()) <= 2
        assert all(given.cursors(session) == list(range(1, 10)) for session in sessions)

    with_group(feed, story)


def test_the_loop_goes_on_while_the_log_is_read(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SlowLog(monkeypatch)

    async def story(group: Group) -> None:
        await group.add("1", "s", None, None)
        taking = asyncio.create_task(group.take())
        await until(lambda: log.begun == 1)
        group.remove("1")
        log.go_on.set()
        await group.add("2", "s", None, None)
        assert [batch.id for batch in await taking] == ["2"]

    with_group(feed, story)


@pytest.mark.parametrize(
    ("topic", "client", "after", "error"),
    [
        ("nobody", None, None, SessionNotFoundError),
        ("s", "", None, InvalidInputError),
        ("s", None, -1, InvalidInputError),
        ("s", None, 7, InvalidInputError),
    ],
)
def test_what_cannot_be_followed_is_refused(
    feed: Feed, topic: str, client: str | None, after: int | None, error: type[Exception]
) -> None:
    async def story() -> None:
        group = opened(feed)
        with pytest.raises(error):
            await group.add("1", topic, client, after)
        assert feed.topics == ()
        await group.add("1", "s", None, None)
        with pytest.raises(InvalidInputError, match="already"):
            await group.add("1", "s", None, None)
        with pytest.raises(InvalidInputError, match="already"):
            await group.add_listener("1", None, {})
        group.close()
        assert feed.topics == ()
        with pytest.raises(RuntimeClosedError):
            await group.add("1", "s", None, None)

    run(story)


def test_who_gives_up_adding_has_added_nothing(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = threading.Event()

    def following(session_id: str, client_id: str | None, after: int | None) -> FollowerPosition:
        position = follow(session_id, client_id, after)
        given_up.wait(PATIENCE)
        return position

    follow = feed.follow
    monkeypatch.setattr(feed, "follow", following)

    async def story(group: Group) -> None:
        adding = asyncio.create_task(group.add("1", "s", "me", None))
        await until(lambda: bool(feed.topics))
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        given_up.set()
        await until(lambda: not feed.topics)
        assert feed.consumers.here() == []

    with_group(feed, story)


def test_what_was_given_can_be_acknowledged(book: Book, feed: Feed) -> None:
    say(book, feed, "s", "a", "b")

    async def story() -> None:
        group = opened(feed)
        await group.add("1", "s", "me", None)
        with pytest.raises(InvalidInputError, match="only delivered events"):
            await group.ack("1", 1)
        await group.take()
        await group.add("2", "s", None, None)
        await group.add_listener("3", None, {})
        await group.ack("1", 2)
        await group.ack("1", 1)
        for id_ in ("2", "3", "4"):
            with pytest.raises(InvalidInputError):
                await group.ack(id_, 1)
        group.close()
        again = opened(feed)
        assert await again.add("1", "s", "me", None) == (2, 3)
        again.close()

    run(story)


def test_the_end_of_a_deleted_session_is_told_and_can_be_acknowledged(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        await group.add("live", "s", "me", 1)
        book.write("s", deleted("s"))
        book.publish(feed)
        await group.add("late", "s", None, 0)
        await group.add("nothing", "s", None, 2)
        given = Given(group)
        await given.until(lambda: len(given.ended) == 3)

        assert set(given.ended.values()) == {"deleted"}
        assert {id_: given.cursors(id_) for id_ in given.ended} == {"live": [2], "late": [1, 2], "nothing": []}
        await group.ack("live", 2)
        assert await group.add("live", "s", "me", None) == (2, 2)

    with_group(feed, story)


def test_all_end_when_the_feed_closes_and_have_what_was_published(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        given = Given(group)
        await group.add("1", "s", None, 1)
        await group.add_listener("2", None, {})
        taking = asyncio.create_task(given.until(lambda: len(given.ended) == 2))
        await until(lambda: group._taking is not None)
        say(book, feed, "s", "a")
        feed.close()
        await taking

        assert given.ended == {"1": "closed", "2": "closed"}
        assert (given.cursors("1"), given.cursors("2")) == ([2], [2])
        with pytest.raises(RuntimeClosedError):
            await group.take()
        with pytest.raises(RuntimeClosedError):
            await group.add_listener("3", None, {})

    with_group(feed, story)


def test_one_who_listens_to_some_sessions_is_given_no_other_s_events_and_misses_none_elsewhere(
    book: Book, feed: Feed
) -> None:
    for session_id in ("s", "other"):
        say(book, feed, session_id, "before")

    async def story() -> None:
        group = opened(feed)
        given = Given(group)
        await group.add_listener("1", None, {"s": 1, "other": 0}, ("s",))
        for words in ("a", "b"):
            say(book, feed, "other", words)
            tell(book, feed, words)
            say(book, feed, "s", words)
        await given.until(lambda: given.cursors("1")[-1:] == [4])
        with pytest.raises(SessionNotFoundError):
            await group.add_listener("2", None, {}, ("",))
        group.close()

        assert {event.context.session_id for event in given.events["1"]} == {"s"}
        assert given.cursors("1") == [2, 3, 4]
        assert given.ended == {}

    run(story)


def test_one_without_subscriptions_hears_that_the_feed_closes(feed: Feed) -> None:
    async def story(group: Group) -> None:
        taking = asyncio.create_task(group.take())
        await until(lambda: group._taking is not None)
        feed.close()
        with pytest.raises(RuntimeClosedError):
            await taking

    with_group(feed, story)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("closes", ["feed", "log"])
def test_who_needs_a_log_that_is_closed_has_ended(book: Book, feed: Feed, closes: str) -> None:
    for number in range(9):
        say(book, feed, "s", str(number))

    async def story(group: Group) -> None:
        given = Given(group)
        await group.add("1", "s", None, None)
        await group.add_listener("2", None, {"s": 1})
        if closes == "feed":
            feed.close()
        book.closed = True
        await given.until(lambda: len(given.ended) == 2)
        assert given.ended == {"1": "closed", "2": "closed"}

    with_group(feed, story)


def test_one_that_is_closed_gives_nothing_more(feed: Feed) -> None:
    async def story() -> None:
        group = opened(feed)
        await group.add("1", "s", None, 1)
        taking = asyncio.create_task(group.take())
        await until(lambda: group._taking is not None)
        group.close()
        group.close()
        assert await taking == []
        assert await group.take() == []
        assert feed.topics == ()

    run(story)


def test_who_gives_up_taking_loses_nothing(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        given = Given(group)
        await group.add("1", "s", None, 1)
        taking = asyncio.create_task(group.take())
        await until(lambda: group._taking is not None)
        say(book, feed, "s", "a")
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        say(book, feed, "s", "b")
        await given.take()
        assert given.cursors("1") == [2, 3]

    with_group(feed, story)


def test_a_log_that_cannot_be_read_is_an_error_and_no_loss(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        given = Given(group)
        await group.add("1", "s", None, None)
        book.failing = StorageError("the disk is gone")
        for _ in range(2):
            with pytest.raises(StorageError, match="gone"):
                await group.take()
        book.failing = None
        await given.take()
        assert given.cursors("1") == [1]

    with_group(feed, story)


# Listeners.


def test_a_listener_hears_all_sessions_and_what_belongs_to_none_but_no_commands(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        given = Given(group)
        await group.add_listener("all", None, {})
        say(book, feed, "s", "a")
        book.say(ContainerListRequest(request_id="r"))
        tell(book, feed, "home")
        book.write("t", created("t"))
        book.publish(feed)
        await given.until(lambda: len(given.events["all"]) == 3)

        heard = [(envelope.type, envelope.context.session_id, envelope.cursor) for envelope in given.events["all"]]
        assert heard == [("text_delta", "s", 2), ("container_created", None, None), ("session_created", "t", 1)]
        group.remove("all")
        assert not feed.publications._listeners

    with_group(feed, story)


def test_a_listener_hears_the_types_that_it_wants(book: Book, feed: Feed) -> None:
    async def story(group: Group) -> None:
        given = Given(group)
        await group.add_listener("some", ("turn_started", "container_created"), {"s": 0})
        book.write("s", *deltas("a"), started("t"), *deltas("b"))
        tell(book, feed, "home")
        await given.until(lambda: len(given.events["some"]) == 2)

        assert [envelope.type for envelope in given.events["some"]] == ["turn_started", "container_created"]

    with_group(feed, story)


def test_a_listener_that_comes_back_has_first_what_it_missed(book: Book, feed: Feed) -> None:
    book.write("t", created("t"), *deltas("x", "y"))
    say(book, feed, "s", "a", "b")

    async def story(group: Group) -> None:
        given = Given(group)
        await group.add_listener("all", None, {"s": 2, "t": 0})
        say(book, feed, "s", "c")
        await given.until(lambda: len(given.events["all"]) == 5)

        heard = [(envelope.context.session_id, envelope.cursor) for envelope in given.events["all"]]
        assert sorted(heard, key=str) == sorted([("s", 3), ("s", 4), ("t", 1), ("t", 2), ("t", 3)], key=str)
        assert [cursor for session, cursor in heard if session == "s"] == [3, 4]
        for after, error in (({"nobody": 0}, SessionNotFoundError), ({"s": 9}, InvalidInputError)):
            with pytest.raises(error):
                await group.add_listener("other", None, after)
        assert len(feed.publications._listeners) == 1

    with_group(feed, story)


def test_what_is_published_while_a_listener_comes_back_is_heard_once(
    book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(book, feed, "s", "a")

    async def story(group: Group) -> None:
        given = Given(group)
        span = feed.span

        def late(session_id: str, after: object) -> tuple[str, tuple[int, int]]:
            say(book, feed, "s", "b")
            return span(session_id, after)

        monkeypatch.setattr(feed, "span", late)
        await group.add_listener("all", None, {"s": 1})
        say(book, feed, "s", "c")
        await given.until(lambda: len(given.events["all"]) >= 3)

        assert given.cursors("all") == [2, 3, 4]

    with_group(feed, story)


def test_a_listener_that_lags_reads_the_log(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "MOST_EVENTS", 5)
    monkeypatch.setattr(replay, "MOST_ROWS", 2)
    for session in "tu":
        book.write(session, created(session))
    book.publish(feed)

    async def story(group: Group) -> None:
        given = Given(group, limit=1)
        await group.add_listener("all", None, {})
        for number in range(30):
            for session in "stu":
                say(book, feed, session, str(number))
            (listener,) = feed.publications._listeners
            assert feed.publications.tail.end - listener.node.end <= 5
            if number in (10, 11, 12, 20):
                await given.take()
        await given.until(lambda: len(given.events["all"]) == 90)

        for session in "stu":
            of_session = [one.cursor for one in given.events["all"] if one.context.session_id == session]
            assert of_session == list(range(2, 32))

    with_group(feed, story)


def test_a_listener_that_has_lost_what_no_log_keeps_is_told_so(
    book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "MOST_BYTES", 200)

    async def story(group: Group) -> None:
        given = Given(group)
        await group.add_listener("all", None, {})
        await group.add_listener("deltas", ("text_delta",), {})
        tell(book, feed, "home")
        for _ in range(20):
            say(book, feed, "s", "x" * 20)
        await given.until(lambda: bool(given.ended) and len(given.events["deltas"]) == 20)

        assert given.ended == {"all": "lagging"}

    with_group(feed, story)
