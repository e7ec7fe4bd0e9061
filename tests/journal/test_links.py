"""Where a record stands in its stream and in the chain, and what went before it."""

from __future__ import annotations

import pytest

from reenact.actors.journal.api import ChainedJournal
from reenact.actors.journal.stored import StoredJournal
from tests.journal.support import Added, commit, step


@pytest.fixture
def written(journal: StoredJournal) -> StoredJournal:
    """Two streams, whose events stand at the positions 1, 2, 5 and 3, 4."""
    commit(journal, step("a", 0, Added(1), Added(2)))
    commit(journal, step("b", 0, Added(10), Added(20)))
    commit(journal, step("a", 2, Added(3)))
    return journal


def test_a_record_is_found_by_its_version(written: StoredJournal) -> None:
    link = written.link("a", 3)

    assert link is not None
    assert (link.version, link.position, len(link.digest)) == (3, 5, 32)
    assert link.recorded_at == written.read("a")[-1].recorded_at
    assert written.link("a", 4) is None
    assert written.link("c", 1) is None


@pytest.mark.parametrize(("position", "version"), [(1, 1), (2, 2), (4, 2), (5, 3), (99, 3)])
def test_the_last_record_up_to_a_position_is_found(written: StoredJournal, position: int, version: int) -> None:
    assert written.link_at("a", position) == written.link("a", version)


def test_before_a_stream_begins_there_is_no_record_of_it(written: StoredJournal) -> None:
    assert written.link_at("b", 2) is None


def test_a_stream_is_read_up_to_a_version(written: StoredJournal) -> None:
    assert isinstance(written, ChainedJournal)
    assert [row.event for row in written.read_until("a", 2)] == [Added(1), Added(2)]
    assert [row.event for row in written.read_until("a", 3, after=1)] == [Added(2), Added(3)]
    assert written.read_until("c", 9) == []
