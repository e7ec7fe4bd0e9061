"""One follower: from where it begins to where it ends, in threads; nothing twice, nothing left out."""

from __future__ import annotations

import _thread
import asyncio
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from reenact import InvalidInputError, RuntimeClosedError, SessionNotFoundError, StorageError
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.subscription import Subscription
from reenact.actors.feed.topic import Chunk, Topic
from reenact.actors.feed.waking import Woken
from reenact.domain.stream.events import Envelope
from reenact.testing import wait_until
from tests.feed.book import HOUR, Book, deleted, deltas

PATIENCE = 60.0


def say(book: Book, feed: Feed, *texts: str) -> None:
    book.write("s", *deltas(*texts))
    book.publish(feed)


def cursors(envelopes: Iterable[Envelope]) -> list[int]:
    return [envelope.cursor or 0 for envelope in envelopes]


def texts(envelopes: Iterable[Envelope]) -> list[str]:
    return [str(envelope.data["text"]) for envelope in envelopes]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def is_waited_on(subscription: Subscription, count: int = 1) -> Callable[[], bool]:
    return lambda: len(subscription._waiters) == count


def test_it_begins_with_what_was_and_goes_on_with_what_comes(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b")
    subscription = feed.subscribe("s")
    assert subscription.cursor == 0

    say(book, feed, "c")
    taken = subscription.take()

    assert cursors(taken) == [1, 2, 3, 4]
    assert (subscription.topic, subscription.client_id, subscription.cursor) == ("s", None, 4)
    assert subscription.take() == []
    assert subscription.next(0) is None


def test_what_was_read_and_what_was_published_are_the_same(book: Book, feed: Feed) -> None:
    with feed.subscribe("s", after=1) as live, feed.subscribe("s") as late:
        say(book, feed, "a", "b")

        assert live.take() == late.take()[1:]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_it_begins_behind_the_cursor_that_is_named(book: Book, feed: Feed, after: int) -> None:
    say(book, feed, "a", "b")

    subscription = feed.subscribe("s", "me", after)

    assert subscription.cursor == after
    assert cursors(subscription.take()) == list(range(after + 1, 4))


def test_take_takes_no_more_than_it_is_asked_for(book: Book, feed: Feed) -> None:
    say(book, feed, *"abcdef")
    subscription = feed.subscribe("s")

    parts = [cursors(subscription.take(3)) for _ in range(4)]

    assert parts == [[1, 2, 3], [4, 5, 6], [7], []]


def test_take_takes_all_there_is_also_what_came_since_one_was_asked_for(book: Book, feed: Feed) -> None:
    with feed.subscribe("s", after=1) as subscription:
        say(book, feed, "a", "b", "c")
        next(subscription)
        say(book, feed, "d")
        say(book, feed, "e")

        assert texts(subscription.take()) == [*"bcde"]


def test_nothing_is_told_that_is_not_published_unless_it_is_durable(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)
    book.write("s", *deltas("a"))

    assert subscription.next(0) is None
    book.publish(feed)
    assert cursors(subscription.take()) == [2]


def test_who_asks_for_news_alone_is_told_nothing_that_was_and_reads_no_log(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b")
    with feed.subscribe_from_now("s") as first:
        assert first.next(0) is None
        say(book, feed, "c", "d")
        with feed.subscribe_from_now("s") as second:
            say(book, feed, "e")

            assert texts(first.take()) == ["c", "d", "e"]
            assert texts(second.take()) == ["e"]
    assert book.reads == 0


def test_who_asks_for_news_beside_one_that_follows_is_told_of_news_alone(book: Book, feed: Feed) -> None:
    say(book, feed, "a")
    with feed.subscribe("s"), feed.subscribe_from_now("s") as subscribe_from_now:
        assert subscribe_from_now.next(0) is None
        say(book, feed, "b")

        assert texts(subscribe_from_now.take()) == ["b"]


@pytest.mark.usefixtures("small")
def test_who_asks_for_news_and_is_slow_reads_them_in_the_log(book: Book, feed: Feed) -> None:
    say(book, feed, "before")
    with feed.subscribe_from_now("s") as subscribe_from_now:
        for number in range(50):
            say(book, feed, str(number))

        assert texts(subscribe_from_now.take(100)) == [str(number) for number in range(50)]


def test_who_waits_for_news_is_woken_by_them_and_by_the_end(book: Book, feed: Feed) -> None:
    heard: list[Envelope] = []
    with feed.subscribe_from_now("s") as subscribe_from_now:
        thread = in_thread(lambda: heard.extend(subscribe_from_now))
        wait_until(is_waited_on(subscribe_from_now))
        say(book, feed, "a")
        wait_until(lambda: len(heard) == 1)
        wait_until(is_waited_on(subscribe_from_now))
        feed.close()
        thread.join(PATIENCE)

    assert texts(heard) == ["a"]


def test_news_that_never_came_end_with_the_feed(feed: Feed) -> None:
    subscribe_from_now = feed.subscribe_from_now("s")
    feed.close()

    assert list(subscribe_from_now) == []


@pytest.mark.usefixtures("small")
def test_who_is_slow_reads_the_log_and_misses_nothing(book: Book, feed: Feed) -> None:
    slow = feed.subscribe("s")
    for number in range(50):
        say(book, feed, str(number))
    (kept,) = feed.topics

    assert kept.kept[0] <= 5
    assert texts(slow.take()[1:]) == [str(number) for number in range(50)]


def test_several_who_come_to_the_same_place_read_it_once(book: Book, feed: Feed) -> None:
    say(book, feed, *"abc")
    before = book.reads

    taken = [feed.subscribe("s").take() for _ in range(20)]

    assert book.reads == before + 1
    assert all(one == taken[0] for one in taken)


@pytest.mark.parametrize(
    ("session", "client", "after", "error"),
    [
        ("nobody", None, None, SessionNotFoundError),
        ("", None, None, SessionNotFoundError),
        (7, None, None, SessionNotFoundError),
        ("s\ud800", None, None, SessionNotFoundError),
        ("s", "", None, InvalidInputError),
        ("s", " ", None, InvalidInputError),
        ("s", 7, None, InvalidInputError),
        ("s", None, -1, InvalidInputError),
        ("s", None, 2, InvalidInputError),
        ("s", None, True, InvalidInputError),
        ("s", None, 1.0, InvalidInputError),
        ("s", None, "1", InvalidInputError),
    ],
)
def test_what_cannot_be_followed_is_refused_and_leaves_nothing_behind(
    feed: Feed, session: str, client: str | None, after: int | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        feed.subscribe(session, client, after)

    assert feed.topics == ()
    assert feed.consumers.here() == []


def test_a_session_that_cannot_be_read_cannot_be_subscribed_to(book: Book, feed: Feed) -> None:
    book.failing = StorageError("the disk is gone")
    with pytest.raises(StorageError):
        feed.subscribe("s", "me")
    book.failing = None

    assert feed.topics == ()
    assert cursors(feed.subscribe("s", "me").take()) == [1]


def test_a_deleted_session_is_followed_to_its_end(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s")
    book.write("s", *deltas("a"), deleted("s"))
    book.publish(feed)

    assert [envelope.type for envelope in subscription] == ["session_created", "text_delta", "session_deleted"]
    assert subscription.closed
    assert subscription.next() is None
    assert feed.topics == ()
    late = feed.subscribe("s", after=2)
    assert [envelope.type for envelope in late.take()] == ["session_deleted"]
    assert late.closed
    nothing = feed.subscribe("s", after=3)
    assert nothing.closed
    assert list(nothing) == []
    nothing.unsubscribe()
    assert feed.topics == ()


def test_one_that_has_closed_hands_out_what_was_published_before(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s")
    say(book, feed, "a")
    feed.close()

    states = [subscription.closed, cursors(list(subscription)), subscription.closed]

    assert states == [False, [1, 2], True]
    with pytest.raises(RuntimeClosedError):
        feed.subscribe("s")


@pytest.mark.usefixtures("small")
def test_who_is_far_behind_when_the_log_closes_hears_that_there_is_more(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s")
    say(book, feed, "a", "b")
    for number in range(9):
        say(book, feed, str(number))
    assert subscription.next() is not None
    feed.close()
    book.closed = True

    with pytest.raises(RuntimeClosedError):
        list(subscription)


def test_what_is_published_while_the_last_follower_leaves_is_not_kept(
    book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription = feed.subscribe("s")
    (topic,) = feed.topics
    append = Topic.append

    def late(topic: Topic, chunk: Chunk) -> Woken:
        subscription.unsubscribe()
        return append(topic, chunk)

    monkeypatch.setattr(Topic, "append", late)
    say(book, feed, "a")

    assert topic.kept == (0, 0)


def test_leaving_the_block_ends_it(book: Book, feed: Feed) -> None:
    with feed.subscribe("s") as subscription:
        assert subscription.next() is not None
    say(book, feed, "a")

    assert subscription.closed
    assert list(subscription) == []
    assert subscription.take() == []
    subscription.unsubscribe()
    assert feed.topics == ()


def test_a_wait_ends_when_something_comes(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)
    got: list[Envelope] = []
    thread = in_thread(lambda: got.extend([next(subscription)]))
    wait_until(is_waited_on(subscription))

    say(book, feed, "a")
    thread.join(PATIENCE)

    assert texts(got) == ["a"]
    assert is_waited_on(subscription, 0)()


def test_a_wait_ends_when_somebody_unsubscribes(feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)
    got: list[Envelope | None] = []
    thread = in_thread(lambda: got.extend([*subscription, subscription.next()]))
    wait_until(is_waited_on(subscription))

    subscription.unsubscribe()
    thread.join(PATIENCE)

    assert got == [None]


def test_a_wait_ends_when_the_feed_closes(feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)
    got: list[Envelope | None] = []
    thread = in_thread(lambda: got.extend(subscription))
    wait_until(is_waited_on(subscription))

    feed.close()
    thread.join(PATIENCE)

    assert (got, subscription.closed) == ([], True)


def test_a_wait_is_as_long_as_it_may_be_and_no_longer(feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)

    begin = time.monotonic()
    assert subscription.next(0.05) is None
    took = time.monotonic() - begin

    assert took >= 0.05
    assert subscription.next(-1) is None
    assert is_waited_on(subscription, 0)()


def test_a_wait_without_end_may_be_written_as_infinity(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s")

    envelope = subscription.next(float("inf"))

    assert envelope is not None
    thread = in_thread(lambda: subscription.next(float("inf")))
    wait_until(is_waited_on(subscription))
    subscription.unsubscribe()
    thread.join(PATIENCE)


@pytest.mark.parametrize("timeout", ["1", float("nan"), True])
def test_a_timeout_is_in_seconds(feed: Feed, timeout: float) -> None:
    subscription = feed.subscribe("s")

    with pytest.raises(InvalidInputError, match="seconds"):
        subscription.next(timeout)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", True, None])
def test_a_limit_is_a_number_of_events(feed: Feed, limit: int) -> None:
    subscription = feed.subscribe("s")

    with pytest.raises(InvalidInputError, match="1 or more"):
        subscription.take(limit)


def interrupted_while_blocked(main: int) -> None:
    signal.pthread_kill(main, signal.SIGINT)


def interrupted_right_before_that(_main: int) -> None:
    _thread.interrupt_main()  # what it is blocked in does not end by itself, as with a signal that comes then


@pytest.mark.parametrize("interrupt", [interrupted_while_blocked, interrupted_right_before_that])
def test_the_main_thread_can_be_interrupted_while_it_waits(
    book: Book, feed: Feed, interrupt: Callable[[int], None]
) -> None:
    subscription = feed.subscribe("s", after=1)
    main = threading.get_ident()
    assert main == threading.main_thread().ident

    def wait_and_interrupt() -> None:
        wait_until(is_waited_on(subscription))
        interrupt(main)

    thread = in_thread(wait_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(subscription)
    thread.join(PATIENCE)

    say(book, feed, "a")
    assert texts(subscription.take()) == ["a"]


def test_two_threads_on_the_same_one_share_its_events(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)
    got: list[list[Envelope]] = [[], []]
    threads = [in_thread(lambda part=part: part.extend(subscription)) for part in got]  # type: ignore[misc]

    for number in range(200):
        say(book, feed, str(number), str(number))
    feed.close()
    for thread in threads:
        thread.join(PATIENCE)

    assert sorted(cursors(got[0]) + cursors(got[1])) == list(range(2, 402))
    assert all(part == sorted(part, key=lambda envelope: envelope.cursor or 0) for part in got)


@pytest.mark.usefixtures("small")
def test_a_log_that_cannot_be_read_is_an_error_and_no_loss(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b")
    say(book, feed, "c")
    subscription = feed.subscribe("s")
    first = subscription.next()

    book.failing = StorageError("the disk is gone")
    for ask in (subscription.next, subscription.take, lambda: next(subscription)):
        with pytest.raises(StorageError, match="gone"):
            ask()
    book.failing = None

    assert first is not None
    assert cursors(subscription.take()) == [2, 3, 4]


@pytest.mark.usefixtures("small")
def test_what_was_taken_before_the_log_failed_is_handed_out(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b")
    say(book, feed, "c")
    subscription = feed.subscribe("s", after=1)
    assert cursors(subscription.take(1)) == [2]

    book.failing = StorageError("the disk is gone")
    taken = subscription.take()
    with pytest.raises(StorageError):
        subscription.take()
    book.failing = None

    assert cursors(taken + subscription.take()) == [3, 4]


def test_a_log_that_lacks_events_is_named_and_they_are_not_passed_over(book: Book, feed: Feed) -> None:
    say(book, feed, "a")
    say(book, feed, "b")
    rows = book.feeds["session/s"]
    between = rows.pop(1)

    with pytest.raises(StorageError, match="lacks event 2"):
        feed.subscribe("s").take()
    subscription = feed.subscribe("s")
    end = rows.pop()
    assert cursors(subscription.take()) == [1]
    with pytest.raises(StorageError, match="ends at 1, and had more"):
        subscription.take()
    rows += [between, end]

    assert cursors(subscription.take()) == [2, 3]


# Acknowledgements.


def test_who_comes_back_goes_on_behind_what_it_acknowledged(book: Book, feed: Feed) -> None:
    say(book, feed, *"abcd")
    with feed.subscribe("s", "me") as subscription:
        subscription.take(3)
        subscription.ack(2)

    again = feed.subscribe("s", "me")

    assert (again.cursor, again.client_id) == (2, "me")
    assert cursors(again.take()) == [3, 4, 5]
    assert feed.subscribe("s", "other").cursor == 0


def test_without_a_cursor_all_that_was_handed_out_is_acknowledged(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", "me")
    subscription.ack()
    assert feed.subscribe("s", "me").cursor == 0

    say(book, feed, "a")
    next(subscription)
    next(subscription)
    subscription.ack()

    assert feed.subscribe("s", "me").cursor == 2


def test_an_older_acknowledgement_is_ignored(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b")
    subscription = feed.subscribe("s", "me")
    subscription.take()

    subscription.ack(3)
    subscription.ack(1)

    assert feed.subscribe("s", "me").cursor == 3


@pytest.mark.parametrize("cursor", [3, -1, True, 1.0, "1"])
def test_only_what_was_handed_out_can_be_acknowledged(book: Book, feed: Feed, cursor: int) -> None:
    say(book, feed, "a", "b")
    subscription = feed.subscribe("s", "me")
    subscription.take(2)

    with pytest.raises(InvalidInputError):
        subscription.ack(cursor)

    assert feed.subscribe("s", "me").cursor == 0


def test_nothing_is_acknowledged_without_a_name(feed: Feed) -> None:
    subscription = feed.subscribe("s")
    subscription.take()

    with pytest.raises(InvalidInputError, match="client id"):
        subscription.ack()


def test_an_acknowledgement_that_is_not_durable_is_an_error(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", "me")
    subscription.take()

    book.failing = StorageError("the disk is full")
    with pytest.raises(StorageError, match="full"):
        subscription.ack()
    book.failing = None
    subscription.ack()

    assert feed.subscribe("s", "me").cursor == 1


def test_an_acknowledgement_of_one_subscription_counts_for_the_others_of_its_client(book: Book, feed: Feed) -> None:
    first, second = feed.subscribe("s", "me"), feed.subscribe("s", "me")
    first.take()
    first.ack()

    second.ack(1)

    assert book.told["session/s", "me"].cursor == 1


def test_what_is_acknowledged_is_kept_when_the_feed_closes(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", "me")
    subscription.take()
    feed.close()
    subscription.ack()

    assert book.feed().subscribe("s", "me").cursor == 1


def test_who_is_here_is_not_forgotten_and_who_has_gone_is_after_a_while(book: Book, feed: Feed) -> None:
    here, gone = feed.subscribe("s", "here"), feed.subscribe("s", "gone")
    for subscription in (here, gone):
        subscription.take()
        subscription.ack()
    book.now += 30 * HOUR
    gone.unsubscribe()

    assert feed.consumers.forget(before=book.now - 24 * HOUR) == 0
    book.now += 25 * HOUR
    assert feed.consumers.forget(before=book.now - 24 * HOUR) == 1

    assert feed.subscribe("s", "here").cursor == 1
    assert feed.subscribe("s", "gone").cursor == 0


def test_that_a_client_was_here_need_not_be_recorded(book: Book, feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    subscription = feed.subscribe("s", "me")

    book.failing = StorageError("the disk is full")
    subscription.unsubscribe()

    assert "the disk is full" in caplog.text
    assert feed.consumers.here() == []


def test_who_subscribes_between_a_deletion_and_its_publication_hears_of_it(book: Book, feed: Feed) -> None:
    follower = feed.subscribe("s")
    book.write("s", deleted("s"))

    late = feed.subscribe("s", after=1)
    before = late.take(), late.closed
    book.publish(feed)

    assert before == ([], False)
    assert [event.type for event in late] == ["session_deleted"]
    assert len(follower.take()) == 2


def test_a_subscription_that_is_forgotten_leaves_nothing_behind(book: Book, feed: Feed) -> None:
    ended, forgotten = feed.subscribe("s", "ended"), feed.subscribe("s", "forgotten")
    other = feed.subscribe("s", "forgotten")
    ended.unsubscribe()

    del forgotten
    gc.collect()
    with_one = [topic.name for topic in feed.topics], feed.consumers.here()
    del other, ended
    gc.collect()
    with_none = feed.topics, feed.consumers.here()

    assert with_one == (["session/s"], [("session/s", "forgotten")])
    assert with_none == ((), [])


# Acknowledging by itself.


@pytest.fixture
def itself(feed: Feed) -> Subscription:
    return feed.subscribe("s", "me", auto_ack=True)


def test_what_was_handed_out_is_acknowledged_when_there_is_nothing_else_to_do(
    book: Book, feed: Feed, itself: Subscription
) -> None:
    say(book, feed, "a", "b")

    assert [itself.next(0), itself.next(0)] != [None, None]
    before = feed.subscribe("s", "me").cursor
    itself.next(0)
    assert itself.next(0) is None

    assert (before, feed.subscribe("s", "me").cursor) == (0, 3)


def test_many_are_acknowledged_together_but_for_the_last_of_which_nobody_knows_how_it_went(
    book: Book, feed: Feed, itself: Subscription
) -> None:
    say(book, feed, *["more"] * 300)

    for _ in range(250):
        next(itself)
    gathered = feed.subscribe("s", "me").cursor
    itself.unsubscribe()

    assert 100 < gathered < 250
    assert feed.subscribe("s", "me").cursor == 249


def test_who_takes_has_dealt_with_what_it_took_before(book: Book, feed: Feed, itself: Subscription) -> None:
    say(book, feed, "a", "b")

    itself.take(2)
    itself.take(1)
    itself.take(1)

    assert feed.subscribe("s", "me").cursor == 3


def test_an_acknowledgement_by_itself_that_fails_is_made_up_for_later(
    book: Book, feed: Feed, itself: Subscription, caplog: pytest.LogCaptureFixture
) -> None:
    itself.take()
    book.failing = StorageError("the disk is full")
    itself.take()
    book.failing = None
    said = caplog.text
    say(book, feed, "a")

    itself.take()
    itself.take()

    assert "the disk is full" in said
    assert feed.subscribe("s", "me").cursor == 2


def taken_from(book: Book, feed: Feed, subscription: Subscription) -> None:
    """Ask for the next event until the third is in hand, so that two are dealt with."""
    say(book, feed, "a", "b", "c")
    for _ in range(3):
        next(subscription)


def test_whoever_unsubscribes_has_what_was_dealt_with_acknowledged_durably(
    book: Book, feed: Feed, itself: Subscription
) -> None:
    taken_from(book, feed, itself)
    book.is_slow = True

    leaving = in_thread(itself.unsubscribe)
    wait_until(lambda: book.unsettled)
    assert leaving.is_alive()
    assert itself.closed
    book.is_slow = False
    book.settle()
    leaving.join(PATIENCE)

    assert not leaving.is_alive()
    assert book.acknowledged("s", "me") == 2


def test_the_end_of_a_block_is_unsubscribing(book: Book, feed: Feed, itself: Subscription) -> None:
    say(book, feed, "a", "b", "c")

    with itself:
        for envelope in itself:
            if envelope.cursor == 3:
                break

    assert book.acknowledged("s", "me") == 2


def test_who_has_dealt_with_nothing_waits_for_nothing_when_unsubscribing(
    book: Book, feed: Feed, itself: Subscription
) -> None:
    other = feed.subscribe("s", "other", after=1, auto_ack=True)
    next(itself)
    assert other.next(0) is None
    book.is_slow = True

    itself.unsubscribe()
    other.unsubscribe()

    book.settle()
    assert (book.acknowledged("s", "me"), book.acknowledged("s", "other")) == (0, 0)


def test_who_comes_goes_on_behind_what_is_being_acknowledged(book: Book, feed: Feed, itself: Subscription) -> None:
    taken_from(book, feed, itself)
    book.is_slow = True

    async def leave() -> None:
        itself.unsubscribe()  # which does not wait on an event loop

    asyncio.run(leave())

    assert book.acknowledged("s", "me") == 0
    assert feed.subscribe("s", "me").cursor == 2
    book.settle()
    assert book.acknowledged("s", "me") == 2


def test_who_comes_goes_on_behind_nothing_that_could_not_be_acknowledged(
    book: Book, feed: Feed, itself: Subscription, caplog: pytest.LogCaptureFixture
) -> None:
    taken_from(book, feed, itself)
    book.failing = StorageError("the disk is full")

    itself.unsubscribe()

    book.failing = None
    assert "could not be acknowledged: the disk is full" in caplog.text
    assert feed.subscribe("s", "me").cursor == 0


def test_who_lets_go_of_a_subscription_has_acknowledged_what_was_dealt_with(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b", "c")
    for envelope in feed.subscribe("s", "me", auto_ack=True):
        if envelope.cursor == 3:
            break
    gc.collect()

    assert feed.subscribe("s", "me").cursor == 2


def test_what_was_dealt_with_is_acknowledged_when_the_runtime_closes(
    book: Book, feed: Feed, itself: Subscription
) -> None:
    taken_from(book, feed, itself)

    feed.close()
    book.closed = True
    itself.unsubscribe()

    assert book.acknowledged("s", "me") == 2
