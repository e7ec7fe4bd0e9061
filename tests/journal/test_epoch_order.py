"""A row of a past epoch that stands behind one of a later epoch is named; nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.journal.epoch_order import EpochOrder
from reenact.actors.journal.verify import Finding
from reenact.actors.journal.walk import Kind
from reenact.domain.chain import Row
from reenact.domain.shards import shard_of
from tests.journal.server import Server
from tests.journal.support import Added, Log, commit, said, step
from tests.journal.test_fence import Node, Shards

SHARDS = 3
STREAMS = [f"s{number}" for number in range(8)]


def row(number: int, stream: str, epoch: int) -> Row:
    return Row(number, stream, 0, 1, number, number % 2, 1, 1, None, epoch, b"", None, None, None, None, None)


def misplaced(rows: Sequence[tuple[str, int]]) -> set[int]:
    """Return the numbers of the rows that are the last of their epoch in their shard, and stand behind a later one."""
    placed = [(shard_of(stream, count=SHARDS), epoch) for stream, epoch in rows]
    lasts = {place: number for number, place in enumerate(placed, 1)}
    return {
        number
        for (shard, epoch), number in lasts.items()
        if any(other == shard and later > epoch for other, later in placed[: number - 1])
    }


@given(st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 4)), max_size=30))
def test_the_last_row_of_each_epoch_that_does_not_end_in_time_is_named(written: list[tuple[str, int]]) -> None:
    order = EpochOrder(SHARDS)
    rows = [row(number, *each) for number, each in enumerate(written, 1)]
    for each in sorted(rows, key=lambda each: each.stream):
        order.add(each)

    found = list(order.findings())

    named = {(each.stream, each.position if each.count else None) for each in rows if each.number in misplaced(written)}
    assert {(each.name, each.position) for each in found} == named
    assert len(found) == len(misplaced(written))


@pytest.fixture
def log(server: Server) -> Log:
    """A log that two nodes have written in turn: two streams of one shard, and rows of whoever is not a node."""
    log = Log(server.new_log())
    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1)))
    shards = Shards(log)
    for turn, node in enumerate((Node("node_1"), Node("node_2")), 1):
        shards.claim(node, "s1")
        with log.open(fence=node) as journal:
            commit(journal, step("s1", turn, Added(turn)), step(neighbour(), None, kept=[said("a")]))
        with log.open() as journal:
            commit(journal, step(neighbour(), None, kept=[said("by no node")]))
    assert [epoch for _, epoch in shards.rows()] == [0, 1, 1, 0, 2, 2, 0]
    return log


def neighbour(count: int = 256) -> str:
    """Return a stream in the shard of `s1`."""
    shard = shard_of("s1", count=count)
    return next(name for name in map(str, range(100_000)) if shard_of(name, count=count) == shard)


def test_the_epochs_of_a_shard_rise_whoever_is_no_node_writes_in_between(log: Log) -> None:
    assert log.verify() == []


@pytest.mark.parametrize(
    ("tampering", "where"),
    [
        (
            "UPDATE steps SET epoch = (7 - number) / 2 WHERE number IN (3, 5)",
            ("stream", "s1", 3, 3),
        ),
        ("UPDATE steps SET epoch = 1 WHERE number = 6", ("feed", neighbour(), 3, None)),
    ],
    ids=["event", "feed"],
)
def test_a_row_of_a_past_epoch_behind_one_of_a_later_epoch_is_named(
    log: Log, tampering: str, where: tuple[Kind, str, int, int | None]
) -> None:
    log.tamper(tampering)

    kind, name, at, position = where
    problem = f"the row is of epoch 1 of shard {shard_of('s1')}, and follows a row of epoch 2"
    assert log.verify() == [Finding(kind, name, at, problem, position)]


def test_the_number_of_shards_is_the_log_s(server: Server) -> None:
    log = Log(server.new_log())
    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1)), step(neighbour(2), 0, Added(1)))
    log.tamper("UPDATE steps SET epoch = 3 - number")
    assert log.verify() == []

    log.tamper("DELETE FROM shards WHERE shard > 1")

    assert [(found.name, found.at) for found in log.verify()] == [(neighbour(2), 1)]


def test_where_no_node_can_have_written_there_is_no_epoch(server: Server) -> None:
    log = Log(server.new_log())
    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1)), step("s1", 1, Added(1)))
    log.tamper("UPDATE steps SET epoch = -1 WHERE number = 2")
    assert log.verify() == [Finding("stream", "s1", 2, "no node can have written it in epoch -1", 2)]

    log.tamper("UPDATE steps SET epoch = 1 WHERE number = 2")
    assert log.verify() == []
    log.tamper("DROP TABLE shards")
    assert log.verify() == [Finding("stream", "s1", 2, "no node can have written it in epoch 1", 2)]
