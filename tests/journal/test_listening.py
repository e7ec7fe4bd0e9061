"""What a process hears of the commits of all, whatever they have written."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import KEEPALIVE, channel_of
from reenact.actors.journal.postgres.journal import PostgresJournal, PostgresReader
from tests.journal.server import Server
from tests.journal.support import CODEC, Added, commit, said, step


@pytest.fixture
def url(server: Server) -> str:
    return server.new_log()


@pytest.fixture
def pair(url: str) -> Generator[tuple[PostgresJournal, PostgresJournal]]:
    """Two that write the same log."""
    with ExitStack() as stack:
        first = stack.enter_context(PostgresJournal.open(url, CODEC, shared=True))
        yield first, stack.enter_context(PostgresJournal.open(url, CODEC, shared=True))


def watched(journal: PostgresJournal) -> tuple[SimpleQueue[int], SimpleQueue[int]]:
    """Return the positions and the numbers of rows that watchers of the journal hear, from now on."""
    positions: SimpleQueue[int] = SimpleQueue()
    numbers: SimpleQueue[int] = SimpleQueue()
    journal.watch(positions.put)
    assert positions.get(timeout=60) == 0  # it listens
    journal.watch_rows(numbers.put)
    return positions, numbers


def test_a_commit_without_events_moves_no_position(pair: tuple[PostgresJournal, PostgresJournal]) -> None:
    here, there = pair
    positions, numbers = watched(here)

    commit(there, step("s1", None, kept=[said("a")]))
    commit(there, step("s1", 0, Added(1), Added(2)))
    commit(there, step("s2", None, kept=[said("b")]))

    assert [numbers.get(timeout=60) for _ in range(3)] == [1, 2, 3]
    assert positions.get(timeout=60) == 2
    assert positions.empty()


def test_row_watchers_hear_nothing_of_their_own_process(pair: tuple[PostgresJournal, PostgresJournal]) -> None:
    here, there = pair
    positions, numbers = watched(here)

    commit(here, step("s1", 0, Added(1), kept=[said("a")]))
    commit(there, step("s2", 0, Added(2), kept=[said("b")]))

    assert [positions.get(timeout=60) for _ in range(2)] == [1, 2]
    assert numbers.get(timeout=60) == 2
    assert numbers.empty()


def test_who_watches_no_more_hears_nothing_more(pair: tuple[PostgresJournal, PostgresJournal]) -> None:
    here, there = pair
    positions, numbers = watched(here)
    here.unwatch_rows(numbers.put)
    here.unwatch_rows(numbers.put)

    commit(there, step("s1", 0, Added(1)))
    commit(there, step("s1", 1, Added(2)))

    assert [positions.get(timeout=60) for _ in range(2)] == [1, 2]
    assert numbers.empty()


def test_a_notice_of_somebody_else_says_only_that_something_may_be_missed(
    pair: tuple[PostgresJournal, PostgresJournal], url: str, server: Server
) -> None:
    here, there = pair
    positions, numbers = watched(here)

    server.execute(f"NOTIFY {channel_of(address_of(url))}, 'hello'")
    commit(there, step("s1", 0, Added(1)))

    assert [positions.get(timeout=60) for _ in range(2)] == [0, 1]
    assert [numbers.get(timeout=60) for _ in range(2)] == [0, 1]


def test_a_connection_that_reads_ends_soon_after_its_server_is_silent(url: str) -> None:
    with PostgresReader(address_of(url)).connection() as connection:
        settings = connection.info.get_parameters()
        connection.close()

    assert {name: int(settings[name]) for name in KEEPALIVE} == KEEPALIVE
