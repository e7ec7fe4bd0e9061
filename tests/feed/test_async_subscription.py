"""The same follower on event loops: none is ever blocked, and whoever gives up waiting loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from reenact import InvalidInputError, RuntimeClosedError, StorageError
from reenact.actors.feed import subscription as subscriptions
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.replay import Replay
from reenact.actors.feed.subscription import Subscription
from reenact.actors.feed.waking import LoopWaker
from reenact.domain.stream.events import Envelope
from tests.feed.book import Book, deleted
from tests.feed.test_subscription import cursors, is_waited_on, say

PATIENCE = 60.0
T = TypeVar("T")


def run(story: Callable[[], Awaitable[T]]) -> T:
    """Run the story to its end, within the patience of a test."""

    async def bounded() -> T:
        return await asyncio.wait_for(story(), PATIENCE)

    return asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go on until it has come so far."""
    while not condition():  # noqa: ASYNC110 - what is looked at tells nobody
        await asyncio.sleep(0)


async def anext_of(subscription: Subscription) -> Envelope:
    return await anext(subscription)


class SlowLog:
    """Makes the reading of a log wait until it is let go on; counts what was begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.go_on = threading.Event()
        read = Replay.read

        def slow(replay: Replay, topic: str, after: int, rows: int) -> object:
            self.begun += 1
            assert self.go_on.wait(PATIENCE)
            return read(replay, topic, after, rows)

        monkeypatch.setattr(Replay, "read", slow)


def test_it_begins_with_what_was_and_ends_when_the_feed_closes(book: Book, feed: Feed) -> None:
    say(book, feed, "a")

    async def story() -> list[Envelope]:
        got: list[Envelope] = []
        async with feed.subscribe("s") as subscription:
            async for envelope in subscription:
                got.append(envelope)
                if envelope.cursor == 2:
                    say(book, feed, "b")
                if envelope.cursor == 3:
                    feed.close()
            assert subscription.closed
        return got

    assert cursors(run(story)) == [1, 2, 3]


def test_a_deleted_session_is_followed_to_its_end(book: Book, feed: Feed) -> None:
    book.write("s", deleted("s"))
    book.publish(feed)

    async def story() -> list[str]:
        return [envelope.type async for envelope in feed.subscribe("s")]

    assert run(story) == ["session_created", "session_deleted"]


def test_a_wait_ends_when_something_comes_from_another_thread(book: Book, feed: Feed) -> None:
    async def story() -> Envelope:
        subscription = feed.subscribe("s", after=1)
        waiting = asyncio.create_task(anext_of(subscription))
        await until(is_waited_on(subscription))
        await asyncio.to_thread(say, book, feed, "a")
        return await waiting

    assert run(story).cursor == 2


def test_a_wait_for_the_log_ends_when_somebody_unsubscribes(
    book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(book, feed, "a")
    log = SlowLog(monkeypatch)

    async def story() -> None:
        subscription = feed.subscribe("s")
        waiting = asyncio.create_task(anext(subscription, None))
        await until(lambda: log.begun == 1 and is_waited_on(subscription)())
        await asyncio.to_thread(subscription.unsubscribe)
        assert await waiting is None

    run(story)
    log.go_on.set()


def test_a_wait_ends_when_somebody_unsubscribes(feed: Feed) -> None:
    async def story() -> None:
        subscription = feed.subscribe("s", after=1)
        waiting = asyncio.create_task(anext(subscription, None))
        await until(is_waited_on(subscription))
        await asyncio.to_thread(subscription.unsubscribe)
        assert await waiting is None

    run(story)


def test_who_gives_up_waiting_has_the_event_next_time(book: Book, feed: Feed) -> None:
    async def story() -> list[Envelope]:
        subscription = feed.subscribe("s", after=1)
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(subscription), 0.001)
        assert is_waited_on(subscription, 0)()
        (topic,) = feed.topics
        assert not topic._waiting
        say(book, feed, "a", "b")
        return [await asyncio.wait_for(anext(subscription), PATIENCE) for _ in range(2)]

    assert cursors(run(story)) == [2, 3]


def test_one_that_is_cancelled_as_the_event_comes_loses_nothing(book: Book, feed: Feed) -> None:
    async def story() -> Envelope:
        subscription = feed.subscribe("s", after=1)
        waiting = asyncio.create_task(anext_of(subscription))
        await until(is_waited_on(subscription))
        say(book, feed, "a")
        await asyncio.sleep(0)  # woken, and not there yet
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await anext(subscription)

    assert run(story).cursor == 2


def test_who_gives_up_while_the_log_is_read_finds_it_read(
    book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SlowLog(monkeypatch)

    async def story() -> Envelope:
        subscription = feed.subscribe("s")
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(subscription), 0.001)
        log.go_on.set()
        return await anext(subscription)

    assert run(story).cursor == 1
    assert log.begun == 1


def test_the_loop_goes_on_while_the_log_is_read(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SlowLog(monkeypatch)

    async def story() -> Envelope:
        waiting = asyncio.create_task(anext_of(feed.subscribe("s")))
        await until(lambda: log.begun == 1)
        log.go_on.set()
        return await waiting

    assert run(story).cursor == 1


def test_a_log_that_cannot_be_read_is_an_error_and_no_loss(book: Book, feed: Feed) -> None:
    async def story() -> list[int]:
        subscription = feed.subscribe("s")
        book.failing = StorageError("the disk is gone")
        for _ in range(2):
            with pytest.raises(StorageError, match="gone"):
                await anext(subscription)
        book.failing = None
        return [(await anext(subscription)).cursor or 0]

    assert run(story) == [1]


@pytest.mark.usefixtures("small")
def test_who_is_far_behind_when_the_feed_closes_hears_that_there_is_more(book: Book, feed: Feed) -> None:
    for number in range(9):
        say(book, feed, str(number))

    async def story() -> None:
        subscription = feed.subscribe("s")
        feed.close()
        with pytest.raises(RuntimeClosedError):
            await anext(subscription)
        assert subscription.next() is not None  # the log is still there

    run(story)


def test_it_can_be_awaited_on_one_loop_after_the_other(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", after=1)
    stopped = asyncio.new_event_loop()
    waiting = stopped.create_task(anext_of(subscription))
    stopped.run_until_complete(until(is_waited_on(subscription)))

    say(book, feed, "a")

    async def story() -> Envelope:
        return await anext(subscription)

    assert run(story).cursor == 2
    say(book, feed, "b")
    assert stopped.run_until_complete(waiting).cursor == 3
    stopped.close()


def test_a_loop_that_is_closed_is_not_woken(book: Book, feed: Feed) -> None:
    loop = asyncio.new_event_loop()
    waker = LoopWaker(loop)
    loop.close()

    waker.wake((lambda: None,))
    waker.wake((lambda: None,))

    assert feed.loops.waker(loop) is feed.loops.waker(loop)
    other = asyncio.new_event_loop()
    assert feed.loops.waker(other) is not feed.loops.waker(loop)
    other.close()


def test_a_loop_is_woken_once_however_many_wait(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> int:
        loop = asyncio.get_running_loop()
        many = [feed.subscribe("s", after=1) for _ in range(50)]
        waiting = [asyncio.create_task(anext_of(one)) for one in many]
        await until(lambda: all(is_waited_on(one)() for one in many))
        wakes: list[object] = []
        call = loop.call_soon_threadsafe

        def counted(callback: Callable[..., object], *given: object, context: object = None) -> asyncio.Handle:
            wakes.append(callback)
            return call(callback, *given)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        for text in "abc":
            say(book, feed, text)
        assert cursors(await asyncio.gather(*waiting)) == [2] * 50
        return len(wakes)

    assert run(story) == 1


def test_one_with_much_to_hand_out_lets_others_go_on(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "REST", 20)
    monkeypatch.setattr(subscriptions, "AT_ONCE", 8)

    async def story() -> int:
        subscription = feed.subscribe("s", after=1)
        for number in range(100):
            say(book, feed, str(number))
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        going_on = asyncio.create_task(other())
        async for envelope in subscription:
            if envelope.cursor == 101:
                break
        going_on.cancel()
        return others

    assert run(story) >= 3


def test_an_acknowledgement_can_be_awaited(book: Book, feed: Feed) -> None:
    async def story() -> None:
        subscription = feed.subscribe("s", "me")
        await anext(subscription)
        await subscription.aack()
        await subscription.aack(0)
        with pytest.raises(InvalidInputError):
            await subscription.aack(2)
        say(book, feed, "a")
        await anext(subscription)
        book.failing = StorageError("the disk is full")
        with pytest.raises(StorageError, match="full"):
            await subscription.aack()
        book.failing = None

    run(story)
    assert feed.subscribe("s", "me").cursor == 1


def test_two_tasks_on_the_same_one_share_its_events(book: Book, feed: Feed) -> None:
    async def story() -> list[list[Envelope]]:
        subscription = feed.subscribe("s", after=1)

        async def follow() -> list[Envelope]:
            return [envelope async for envelope in subscription]

        tasks = [asyncio.create_task(follow()) for _ in range(2)]
        for number in range(50):
            say(book, feed, str(number))
            await asyncio.sleep(0)
        feed.close()
        return list(await asyncio.gather(*tasks))

    first, second = run(story)
    assert sorted(cursors(first) + cursors(second)) == list(range(2, 52))


def test_the_end_of_a_block_awaits_that_what_was_dealt_with_is_acknowledged(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b", "c")

    async def follow() -> None:
        async with feed.subscribe("s", "me", auto_ack=True) as subscription:
            async for envelope in subscription:
                if envelope.cursor == 3:
                    book.is_slow = True
                    return

    async def story() -> bool:
        following = asyncio.ensure_future(follow())
        await until(lambda: bool(book.unsettled))
        had_ended = following.done()
        book.is_slow = False
        book.settle()
        await following
        return had_ended

    assert not run(story)
    assert book.acknowledged("s", "me") == 2


def test_who_is_cancelled_at_the_end_of_a_block_has_left_all_the_same(book: Book, feed: Feed) -> None:
    say(book, feed, "a", "b")

    async def follow() -> None:
        async with feed.subscribe("s", "me", auto_ack=True) as subscription:
            await anext(subscription)
            await anext(subscription)
            book.is_slow = True

    async def story() -> None:
        following = asyncio.ensure_future(follow())
        await until(lambda: bool(book.unsettled))
        following.cancel()
        await asyncio.wait([following])

    run(story)
    book.settle()

    assert feed.consumers.here() == []
    assert book.acknowledged("s", "me") == 1
