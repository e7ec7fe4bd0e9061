"""Readers share a few connections: who comes when all are lent waits until one is given back."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from reenact.actors.journal import pool as pool_module
from reenact.actors.journal.deadline import reading_for
from reenact.actors.journal.pool import AT_ONCE, ReadPool
from reenact.domain.errors import ReadTooLongError, RuntimeClosedError

PATIENCE = 60


class Opened:
    """A connection that says whether it is open."""

    is_open = True

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def opened() -> list[Opened]:
    return []


@pytest.fixture
def pool(opened: list[Opened]) -> ReadPool[Opened]:
    def connect() -> Opened:
        opened.append(Opened())
        return opened[-1]

    return ReadPool(connect, "the log", translated=lambda _: nullcontext())


@pytest.fixture
def threads() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3 * AT_ONCE) as executor:
        yield executor


def test_more_readers_than_connections_take_turns(
    pool: ReadPool[Opened], opened: list[Opened], threads: ThreadPoolExecutor
) -> None:
    together = threading.Barrier(AT_ONCE)

    def read() -> None:
        with pool.connection():
            together.wait(PATIENCE)

    for one in [threads.submit(read) for _ in range(3 * AT_ONCE)]:
        one.result(PATIENCE)
    assert len(opened) == AT_ONCE
    pool.close()
    assert not any(one.is_open for one in opened)


def test_who_waits_for_a_connection_waits_no_longer_than_it_may_read(pool: ReadPool[Opened]) -> None:
    lent = [pool.borrow() for _ in range(AT_ONCE)]

    with reading_for(0.01), pytest.raises(ReadTooLongError):
        pool.borrow()

    pool.give_back(lent.pop())
    with reading_for(PATIENCE), pool.connection():
        pass


def test_who_waits_for_a_connection_hears_that_the_log_is_closed(
    pool: ReadPool[Opened], opened: list[Opened], threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, wait = threading.Semaphore(0), pool._returned.wait

    def note(timeout: float | None = None) -> bool:
        begun.release()
        return wait(timeout)

    monkeypatch.setattr(pool._returned, "wait", note)
    lent = [pool.borrow() for _ in range(AT_ONCE)]
    waiting: list[Future[Opened]] = [threads.submit(pool.borrow) for _ in range(2)]
    assert all(begun.acquire(timeout=PATIENCE) for _ in waiting)
    closing = [threads.submit(pool.close) for _ in range(2)]
    for one in waiting:
        with pytest.raises(RuntimeClosedError):
            one.result(PATIENCE)

    for connection in lent:
        pool.give_back(connection)

    for closed in closing:
        closed.result(PATIENCE)
    assert not any(one.is_open for one in opened)


def test_a_connection_that_nobody_gives_back_does_not_keep_the_pool_open(
    pool: ReadPool[Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_PATIENCE", 0.01)
    lent = pool.borrow()

    pool.close()

    assert lent.is_open
    pool.give_back(lent)
    assert not lent.is_open


class Interrupted(list[Opened]):
    """Idle connections; Ctrl+C comes when one of them is taken."""

    def pop(self, _: object = -1) -> Opened:
        raise KeyboardInterrupt


def test_a_connection_that_is_taken_when_ctrl_c_comes_does_not_count_as_lent(pool: ReadPool[Opened]) -> None:
    pool._idle = Interrupted([Opened()])

    with pytest.raises(KeyboardInterrupt):
        pool.borrow()

    assert pool._borrowed_count == 0


def test_a_forked_child_has_connections_of_its_own(
    pool: ReadPool[Opened], opened: list[Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, _lent_to_a_thread_of_the_parent = pool.borrow(), pool.borrow()
    pool.give_back(idle)

    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pool.connection() as own:
        assert own is opened[2]
    pool.close()

    assert [each.is_open for each in opened] == [True, True, False]
