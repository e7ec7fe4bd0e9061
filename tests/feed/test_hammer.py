"""All kinds of followers at once, on a real log with real threads, while everything that is kept is tiny."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from reenact._runtime import codec
from reenact.actors.feed import handlers, publications, replay, topic
from reenact.actors.feed.group import Group
from reenact.actors.feed.hub import Feed
from reenact.actors.journal.api import Append, Entry, Outcome, Publication, Segment
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.stream.events import Envelope
from tests.feed.book import created, deltas
from tests.feed.test_async_subscription import run

SESSIONS = ("a", "b", "c")
WRITERS = 3
STEPS = 120
PER_STEP = 3
TOTAL = 1 + WRITERS * STEPS * PER_STEP


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "GRACE", 0.002)
    for module, name, size in (
        (topic, "MOST_EVENTS", 20),
        (topic, "FEW_EVENTS", 5),
        (topic, "AT_ONCE", 2),
        (publications, "MOST_EVENTS", 40),
        (replay, "FIRST_ROWS", 2),
        (replay, "MOST_ROWS", 5),
    ):
        monkeypatch.setattr(module, name, size)


def step(session: str, number: int) -> Append:
    data = deltas(*(f"{number}-{index}" for index in range(PER_STEP)))
    entries = tuple(Entry(one.event_type, 0, one) for one in data)
    return Append(f"session/{session}", None, 0, kept=(Segment({"session_id": session}, entries),))


def begin(journal: SqliteJournal) -> None:
    for session in SESSIONS:
        first = created(session)
        segment = Segment({"session_id": session}, (Entry(first.event_type, 0, first),))
        journal.append(Append(f"session/{session}", None, 0, kept=(segment,)), lambda _: None)
        journal.recover(f"session/{session}")


def write(journal: SqliteJournal) -> list[threading.Thread]:
    """Let several threads write to all sessions, a few steps ahead of the log each."""

    def work() -> None:
        under_way = threading.Semaphore(8)

        def done(_: Outcome) -> None:
            under_way.release()

        for number in range(STEPS):
            for session in SESSIONS:
                under_way.acquire()
                journal.append(step(session, number), done)

    threads = [threading.Thread(target=work) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    return threads


async def by_subscription(feed: Feed, session: str, got: list[int | None]) -> None:
    async with feed.subscribe(session) as subscription:
        async for envelope in subscription:
            got.append(envelope.cursor)
            if len(got) == TOTAL:
                return


async def by_group(feed: Feed, got: dict[str, list[int | None]], limit: int) -> None:
    group = Group(feed, asyncio.get_running_loop())
    for session in SESSIONS:
        await group.add(session, session, None, None)
    while any(len(got[session]) < TOTAL for session in SESSIONS):
        for batch in await group.take(limit):
            got[batch.id] += [msgspec.json.decode(line, type=Envelope).cursor for line in batch.events]
    group.close()


async def by_listener(feed: Feed, got: dict[str, list[int | None]], listens: asyncio.Event) -> None:
    group = Group(feed, asyncio.get_running_loop())
    await group.add_listener("all", None, dict.fromkeys(SESSIONS, 0))
    listens.set()
    while sum(map(len, got.values())) < TOTAL * len(SESSIONS):
        for batch in await group.take(2000):
            assert batch.ended is None
            for line in batch.events:
                envelope = msgspec.json.decode(line, type=Envelope)
                got[envelope.context.session_id or ""].append(envelope.cursor)
    group.close()


def by_thread(feed: Feed, session: str, got: list[int | None]) -> None:
    with feed.subscribe(session) as subscription:
        while len(got) < TOTAL:
            if len(got) % 2:
                got += [envelope.cursor for envelope in subscription.take(7)]
            else:
                envelope = subscription.next(60)
                assert envelope is not None
                got.append(envelope.cursor)


def by_handler(feed: Feed, got: dict[str, list[int | None]], every: int) -> None:
    """Let a handler hear everything; each so many events it takes longer than the others wait for it."""

    def handle(envelope: Envelope) -> None:
        of_session = got[envelope.context.session_id or ""]
        of_session.append(envelope.cursor)
        if len(of_session) % every == 0:
            threading.Event().wait(0.01)

    feed.handlers.add(None, handle)


def test_everybody_has_everything_once_and_in_order(tmp_path: Path) -> None:
    feeds: list[Feed] = []

    def publish(publications: Iterable[Publication]) -> None:
        for feed in feeds:
            feed.publish(publications)

    journal = SqliteJournal.open(tmp_path / "log.db", codec(), listener=publish, synchronous="OFF")
    begin(journal)
    feed = Feed(journal, new_id=lambda prefix: prefix, now=lambda: 0)
    feeds.append(feed)
    got: list[list[int | None]] = []
    given: list[dict[str, list[int | None]]] = []
    heard: list[dict[str, list[int | None]]] = []

    async def story() -> None:
        listens = asyncio.Event()
        following: list[asyncio.Task[None]] = []
        for limit in (1, 500, 65536):
            given.append(defaultdict(list))
            following.append(asyncio.create_task(by_group(feed, given[-1], limit)))
        given.append(defaultdict(list))
        following.append(asyncio.create_task(by_listener(feed, given[-1], listens)))
        for session in SESSIONS * 2:
            got.append([])
            following.append(asyncio.create_task(by_subscription(feed, session, got[-1])))
        threads: list[threading.Thread] = []
        for session in SESSIONS:
            got.append([])
            threads.append(threading.Thread(target=by_thread, args=(feed, session, got[-1])))
            threads[-1].start()
        for every in (50, 83, 2 * TOTAL):
            heard.append(defaultdict(list))
            by_handler(feed, heard[-1], every)
        await listens.wait()
        threads += write(journal)
        await asyncio.gather(*following)
        for thread in threads:
            await asyncio.to_thread(thread.join)

    try:
        run(story)
    finally:
        feed.close()
        journal.close()

    whole = list(range(1, TOTAL + 1))
    assert all(cursors == whole for cursors in got)
    assert all(cursors == whole for by_session in given for cursors in by_session.values())
    assert all(by_session == dict.fromkeys(SESSIONS, whole[1:]) for by_session in heard)
    assert feed.topics == ()
