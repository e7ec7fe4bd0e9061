"""Journals and systems that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.actors.kernel import ActorSystem
from reenact.testing.clock import ManualClock
from tests.kernel.account import Diary, WatchedAccount
from tests.kernel.ledger import NOON, CountingJournal
from tests.kernel.memory import MemoryJournal
from tests.kernel.nursery import Nursery


@pytest.fixture
def journal() -> Iterator[MemoryJournal]:
    with MemoryJournal() as journal:
        yield journal


@pytest.fixture
def held() -> Iterator[MemoryJournal]:
    """A journal that commits when the test says so."""
    with MemoryJournal(stepwise=True) as journal:
        yield journal


@pytest.fixture
def counting() -> Iterator[CountingJournal]:
    with CountingJournal() as journal:
        yield journal


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def home() -> Iterator[Nursery]:
    with Nursery() as home:
        yield home


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def system(journal: MemoryJournal, diary: Diary) -> Iterator[ActorSystem]:
    with ActorSystem(journal, clock=lambda: 1_000_000) as system:
        system.register(WatchedAccount, lambda context: WatchedAccount(context, diary))
        yield system
