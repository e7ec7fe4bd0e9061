"""Journals and systems that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.actors.kernel import ActorSystem
from tests.kernel.account import Diary, WatchedAccount
from tests.kernel.memory import MemoryJournal


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
def diary() -> Diary:
    return Diary()


@pytest.fixture
def system(journal: MemoryJournal, diary: Diary) -> Iterator[ActorSystem]:
    with ActorSystem(journal, clock=lambda: 1_000_000) as system:
        system.register(WatchedAccount, lambda context: WatchedAccount(context, diary))
        yield system
