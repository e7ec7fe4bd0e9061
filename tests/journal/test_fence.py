"""An append is in the present epochs of its shards, or refused; who was away reads first what others have written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest
from psycopg.conninfo import conninfo_to_dict

from reenact.actors.journal.api import Append, Committed, Done, Mark, Outcome, Remembered, Snapshot
from reenact.actors.journal.fence import Claims, Epochs
from reenact.actors.journal.postgres.address import Address, address_of
from reenact.actors.journal.postgres.connecting import Connection, connect, spelled
from reenact.actors.journal.postgres.store import PostgresStore
from reenact.actors.journal.records import open_records
from reenact.actors.journal.requests import (
    Deletion,
    Encoded,
    Foreign,
    Marking,
    Purge,
    Replacement,
    Request,
    RowImport,
    Step,
)
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import End, Timer
from reenact.domain.errors import ConflictError, ShardMovedError, StorageError, UnstorableError
from reenact.domain.shards import shard_of
from reenact.testing import wait_until
from tests.examples import some
from tests.journal.server import Server
from tests.journal.support import CODEC, Added, Log, commit, said, settle, settle_together, step, words_of
from tests.journal.valve import Direction, places_in, valve_before

TABLES = ("steps", "stored_snapshots", "timers", "tracking")
# In shards of their own.
A, B, C = "s1", "s2", "s3"


class Node:
    """A node that owns what it has claimed, as far as it has heard."""

    def __init__(self, owner: str) -> None:
        self.name = owner
        self.epochs: dict[int, int] = {}

    @property
    def owner(self) -> str:
        assert self.epochs, "whoever owns nothing may have no id yet"
        return self.name

    def shard_of(self, stream: str) -> int:
        return shard_of(stream)

    def epoch_of(self, stream: str) -> int | None:
        return self.epochs.get(shard_of(stream))


class Shards:
    """The table of shards, in which a node claims one without asking whether its owner lives."""

    def __init__(self, log: Log) -> None:
        self._address = address_of(log.url)

    def connect(self) -> Connection:
        return connect(self._address)

    def claim(self, node: Node, *streams: str, connection: Connection | None = None) -> None:
        with ExitStack() as stack:
            connection = connection or stack.enter_context(self.connect())
            for stream in streams:
                claim = "UPDATE shards SET epoch = epoch + 1, owner = %s WHERE shard = %s RETURNING epoch"
                ((epoch,),) = self._execute(connection, claim, node.name, shard_of(stream))
                assert isinstance(epoch, int)
                node.epochs[shard_of(stream)] = epoch

    def rows(self) -> list[tuple[object, ...]]:
        """Return the streams of the rows, with the epochs, in their order."""
        return self._read("SELECT stream, epoch FROM steps ORDER BY number")

    def waits(self) -> int:
        """Return how many connections wait for a lock."""
        ((count,),) = self._read("SELECT count(*) FROM pg_locks WHERE NOT granted")
        assert isinstance(count, int)
        return count

    def lock_steps(self, connection: Connection) -> None:
        """Have others read the rows alone until the transaction ends."""
        connection.execute(spelled("LOCK TABLE steps IN EXCLUSIVE MODE", self._address.schema))

    def dump(self) -> list[list[tuple[object, ...]]]:
        """Return all that is kept of streams."""
        return [self._read(f"SELECT * FROM {table} ORDER BY 1") for table in TABLES]  # noqa: S608 - ours

    def _read(self, statement: str) -> list[tuple[object, ...]]:
        with self.connect() as connection:
            return self._execute(connection, statement)

    def _execute(self, connection: Connection, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        return connection.execute(spelled(statement, self._address.schema), parameters).fetchall()


@pytest.fixture
def log(server: Server) -> Log:
    log = Log(server.new_log())
    log.open().close()
    return log


@pytest.fixture
def shards(log: Log) -> Shards:
    return Shards(log)


@pytest.fixture
def node(shards: Shards) -> Node:
    node = Node("node_1")
    shards.claim(node, A, B, C)
    return node


@pytest.fixture
def journal(log: Log, node: Node) -> Generator[StoredJournal]:
    with log.open(fence=node) as journal:
        yield journal


@pytest.fixture
def elsewhere(shards: Shards) -> Node:
    """A node that has claimed nothing yet."""
    assert shards.rows() == []
    return Node("node_2")


@pytest.fixture
def other(log: Log, journal: StoredJournal, elsewhere: Node) -> Generator[StoredJournal]:
    """The journal of that node."""
    assert journal.head() == 0
    with log.open(fence=elsewhere) as other:
        yield other


def moved(outcome: Outcome, stream: str) -> bool:
    return isinstance(outcome, ShardMovedError) and outcome.stream == stream


def test_rows_say_in_which_epoch_they_were_written(
    log: Log, journal: StoredJournal, shards: Shards, node: Node
) -> None:
    commit(journal, step(A, 0, Added(1), kept=[said("a")]))
    shards.claim(node, A)
    journal.recover(A)
    commit(journal, step(A, 1, Added(2)), step(B, 0, Added(3)), step(A, None, kept=[said("b")]))

    assert shards.rows() == [(A, 1), (A, 2), (B, 1), (A, 2)]
    assert log.verify() == []


def test_without_a_fence_the_epoch_is_0(log: Log, journal: StoredJournal, shards: Shards) -> None:
    commit(journal, step(A, 0, Added(1)))
    with log.open() as unfenced:
        commit(unfenced, step(A, 1, Added(2)), step("nobody's", 0, Added(1)))

    assert shards.rows() == [(A, 1), (A, 0), ("nobody's", 0)]
    assert log.verify() == []


def test_a_node_whose_epoch_is_past_appends_nothing_and_all_the_rest_of_a_batch_is_accepted(
    log: Log, journal: StoredJournal, shards: Shards, elsewhere: Node
) -> None:
    commit(journal, *(step(stream, 0, Added(1)) for stream in (A, B, C)))
    shards.claim(elsewhere, A, C)

    steps = [step(A, 1, Added(2)), step(B, 1, Added(2)), step(C, 1, Added(2)), step(A, 2, Added(3))]
    outcomes = settle_together(journal, *(partial(Step, each) for each in steps))

    assert outcomes[1] == Committed(2, 4)
    assert [moved(outcome, stream) for outcome, stream in zip(outcomes, (A, B, C, A), strict=True)] == [
        True,
        False,
        True,
        True,
    ]
    assert "another node has taken over 's1'; send the command again" in str(outcomes[0])
    assert shards.rows() == [(A, 1), (B, 1), (C, 1), (B, 1)]
    assert log.verify() == []


def test_a_stream_that_is_another_node_s_is_refused_before_anything_is_sent(
    journal: StoredJournal, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.epochs.clear()
    asked: list[str] = []

    def ask(_: PostgresStore, streams: Sequence[str]) -> list[tuple[str, End]]:
        asked.extend(streams)
        return []

    monkeypatch.setattr(PostgresStore, "stream_ends", ask)

    (outcome,) = settle(journal, Append(A, 0, 1, (Added(1),), remembered=Remembered("r1", b"", b"", 1)))

    assert moved(outcome, A)
    assert asked == []
    assert journal.remembered("r1") is None


def test_whoever_owns_a_shard_in_another_epoch_than_it_knows_of_is_refused(
    journal: StoredJournal, shards: Shards, node: Node
) -> None:
    commit(journal, step(A, 0, Added(1)))
    shards.claim(Node(node.name), A)

    (outcome,) = settle(journal, step(A, 1, Added(2)))

    assert moved(outcome, A)


def test_behind_a_refusal_nothing_of_the_stream_is_accepted_until_it_was_recovered(
    journal: StoredJournal, other: StoredJournal, shards: Shards, node: Node, elsewhere: Node
) -> None:
    commit(journal, step(A, 0, Added(1), kept=[said("a")]))
    shards.claim(elsewhere, A)
    commit(other, step(A, 1, Added(2), kept=[said("other")]))
    (refused,) = settle(journal, step(A, None, kept=[said("b")]))
    shards.claim(node, A)

    (behind, elsewhere_) = settle(journal, step(A, None, kept=[said("c")]), step(B, 0, Added(1)))
    assert moved(refused, A)
    assert moved(behind, A)
    assert isinstance(elsewhere_, Committed)

    assert [each.event for each in journal.recover(A)] == [Added(1), Added(2)]
    commit(journal, step(A, None, kept=[said("d")]))
    assert list(words_of(journal, A).values()) == ["a", "other", "d"]


def test_whoever_has_read_a_stream_in_an_earlier_epoch_must_read_it_again(
    journal: StoredJournal, other: StoredJournal, shards: Shards, node: Node, elsewhere: Node
) -> None:
    """The node was stopped, or its appends were under way, while another one had the shard: nothing was refused."""
    commit(journal, step(A, 0, Added(1), kept=[said("a")]))
    shards.claim(elsewhere, A)
    commit(other, step(A, None, kept=[said("other")]))
    shards.claim(node, A)

    (outcome,) = settle(journal, step(A, None, kept=[said("b")]))

    assert moved(outcome, A)
    journal.recover(A)
    commit(journal, step(A, None, kept=[said("c")]))
    assert list(words_of(journal, A).values()) == ["a", "other", "c"]


def test_a_stream_that_was_read_before_its_shard_was_claimed_must_be_read_again(
    journal: StoredJournal, other: StoredJournal, shards: Shards, node: Node, elsewhere: Node
) -> None:
    shards.claim(elsewhere, A)
    node.epochs.clear()
    assert journal.recover(A) == []
    commit(other, step(A, None, kept=[said("other")]))
    shards.claim(node, A)

    (outcome,) = settle(journal, step(A, None, kept=[said("a")]))

    assert moved(outcome, A)


def test_behind_a_refusal_a_stream_is_recovered_also_if_the_node_turns_out_to_own_it(
    journal: StoredJournal, node: Node
) -> None:
    commit(journal, step(A, None, kept=[said("a")]))
    epochs = dict(node.epochs)
    node.epochs.clear()
    (refused,) = settle(journal, step(A, None, kept=[said("b")]))
    node.epochs |= epochs

    (behind,) = settle(journal, step(A, None, kept=[said("c")]))

    assert moved(refused, A)
    assert moved(behind, A)
    journal.recover(A)
    commit(journal, step(A, None, kept=[said("d")]))
    assert list(words_of(journal, A).values()) == ["a", "d"]


def test_a_stream_is_recovered_behind_what_is_under_way(
    journal: StoredJournal, shards: Shards, node: Node, elsewhere: Node
) -> None:
    commit(journal, step(A, 0, Added(1)))
    shards.claim(elsewhere, A)
    shards.claim(node, A)
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    journal.append_with_next(step(A, None, kept=[said("late")]), outcomes.put)
    journal.recover(A)

    assert moved(outcomes.get(timeout=60), A)
    commit(journal, step(A, 1, Added(2)))
    assert words_of(journal, A) == {}


def test_what_belongs_to_no_stream_needs_no_epoch(journal: StoredJournal, node: Node) -> None:
    node.epochs.clear()
    makers: list[Callable[[Done], Request]] = [
        lambda done: Marking((Mark(A, "phone", 0, 1),), done),
        lambda done: Deletion("consumers", [(A, "phone")], 5, done),
        lambda done: Deletion("requests", [("r1",)], 5, done),
        lambda done: Foreign(done, tracking=("reader", 5)),
        Purge,
    ]

    for make in makers:
        assert isinstance(journal.writer.wait(make), Committed)


def test_whatever_writes_rows_of_a_stream_needs_its_epoch(
    log: Log, journal: StoredJournal, shards: Shards, elsewhere: Node, path: Path
) -> None:
    with Log(str(path)).open() as source:
        commit(source, step("taken", 0, Added(1)))
    with open_records(str(path)) as records:
        rows = tuple(msgspec.structs.replace(row, stream="s1") for row in records.rows())
    commit(journal, step(A, None, kept=[said("a")]), step(A, None, kept=[said("b")]))
    less = msgspec.Raw(msgspec.msgpack.encode([said("less")]))
    makers: list[Callable[[Done], Request]] = [
        partial(Replacement, A, 1, 2, less),
        lambda done: Foreign(done, events=(Encoded(A, 1, *CODEC.encode(Added(1), 0)),)),
        lambda done: Foreign(done, snapshots=(Encoded(A, 1, "sum:1", b""),)),
        lambda done: RowImport(done, rows),
        lambda done: RowImport(done, timers=(Timer(A, 5),)),
        partial(Step, Append(A, None, 0, snapshot=Snapshot(A, 1, "sum:1", b""))),
        partial(Step, Append(A, None, 0, due=5)),
    ]
    shards.claim(elsewhere, A)
    before = shards.dump()

    for make in makers:
        assert moved(journal.writer.wait(make), A), make

    assert shards.dump() == before
    assert log.verify() == []


def test_rows_of_another_log_are_in_the_epoch_of_whoever_takes_them_in(
    log: Log, journal: StoredJournal, shards: Shards, server: Server, node: Node
) -> None:
    target = Log(server.new_log())
    shards.claim(node, A)
    commit(journal, step(A, 0, Added(1)), step(B, 0, Added(2)))
    with open_records(log.url) as records:
        rows = tuple(records.rows())
    assert [row.epoch for row in rows] == [2, 1]

    target.open().close()
    node = Node("node_3")
    Shards(target).claim(node, A, B)
    with target.open(fence=node) as taking:
        steps = settle_together(
            taking,
            partial(Step, step(C, None)),
            lambda done: RowImport(done, rows),
            partial(Step, step(A, 1, Added(3))),
        )

    assert [type(outcome) for outcome in steps] == [ShardMovedError, Committed, Committed]
    assert Shards(target).rows() == [(A, 1), (B, 1), (A, 1)]
    assert target.verify() == []
    unfenced = Log(server.new_log())
    with unfenced.open() as taking:
        taking.import_rows(rows=rows)
    assert Shards(unfenced).rows() == [(A, 0), (B, 0)]
    assert unfenced.verify() == []


# An append and a claim at the same time


def test_an_append_waits_for_a_claim_under_way_and_sees_it(
    journal: StoredJournal, shards: Shards, elsewhere: Node
) -> None:
    commit(journal, step(A, 0, Added(1)))
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    with shards.connect() as connection:
        with connection.transaction():
            shards.claim(elsewhere, A, connection=connection)
            journal.append(step(A, 1, Added(2)), outcomes.put)
            wait_until(shards.waits)
        assert moved(outcomes.get(timeout=60), A)

        with connection.transaction(force_rollback=True):
            shards.claim(elsewhere, B, connection=connection)
            journal.append(step(B, 0, Added(1)), outcomes.put)
            wait_until(shards.waits)
        assert isinstance(outcomes.get(timeout=60), Committed)


def test_a_claim_waits_for_an_append_under_way_and_whoever_has_claimed_reads_it(
    log: Log, journal: StoredJournal, other: StoredJournal, shards: Shards, elsewhere: Node
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    claim = threading.Thread(target=shards.claim, args=(elsewhere, A))

    with shards.connect() as intruder:
        with intruder.transaction():
            # The append comes no further than to its rows, behind the check of its epochs.
            shards.lock_steps(intruder)
            journal.append(step(A, 0, Added(1)), outcomes.put)
            wait_until(shards.waits)
            claim.start()
            wait_until(lambda: shards.waits() == 2)
        assert isinstance(outcomes.get(timeout=60), Committed)
        claim.join()

    assert [each.event for each in other.recover(A)] == [Added(1)]
    commit(other, step(A, 1, Added(2)))
    assert shards.rows() == [(A, 1), (A, 2)]
    assert log.verify() == []


@pytest.mark.parametrize("is_cut", [False, True], ids=["goes on", "is killed"])
def test_whoever_is_stopped_at_any_point_of_an_append_has_appended_before_the_claim_or_not_at_all(
    log: Log, server: Server, shards: Shards, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool
) -> None:
    stopped, going = Node("stopped"), Node("going")
    shards.claim(stopped, A)
    with ExitStack() as stack:
        other = stack.enter_context(log.open(fence=going))
        valve = stack.enter_context(valve_before(str(conninfo_to_dict(server.url)["host"])))
        through = partial(connect_through, valve.directory)
        monkeypatch.setattr("reenact.actors.journal.postgres.store.connect", through)
        journal = stack.enter_context(log.open(fence=stopped))
        stack.callback(valve.open)
        outcomes: SimpleQueue[Outcome] = SimpleQueue()

        def append() -> None:
            version = len(journal.recover(A))
            journal.append(step(A, version, Added(version), kept=[said("mine")]), outcomes.put)

        def take_over() -> None:
            shards.claim(going, A)
            version = len(other.recover(A))
            commit(other, step(A, version, Added(version), kept=[said("other")]))
            shards.claim(stopped, A)

        asked = answered = b""
        for _ in range(7):  # until the driver has prepared what it sends
            valve.watch()
            append()
            assert isinstance(outcomes.get(timeout=60), Committed)
            asked, answered = valve.passed("to_server"), valve.passed("to_client")
            take_over()
        places: list[tuple[Direction, int]] = [("to_server", place) for place in some(places_in(asked))]
        places.extend(("to_client", place) for place in {0, 1, len(answered) // 2, len(answered) - 1})
        for direction, place in places:
            journal.recover(A)
            commit(journal, step(A, None))
            there = len(other.read(A))
            valve.watch(direction, place)
            append()
            valve.wait(direction, place, lambda: not outcomes.empty())
            take_over()
            valve.cut() if is_cut else valve.open()
            outcome = outcomes.get(timeout=60)
            assert isinstance(outcome, Committed | StorageError), outcome
            if isinstance(outcome, Committed):
                assert len(other.read(A)) - there == 2
            elif not is_cut:
                assert moved(outcome, A)
                assert len(other.read(A)) - there == 1

        assert [each.event for each in other.read(A)] == [Added(number) for number in range(len(other.read(A)))]
    assert log.verify() == []


def connect_through(directory: Path, address: Address) -> Connection:
    conninfo = address.conninfo.replace(str(conninfo_to_dict(address.conninfo)["host"]), str(directory))
    return connect(Address(address.name, address.schema, conninfo))


def test_nodes_that_take_shards_from_each_other_leave_each_stream_whole(log: Log, shards: Shards) -> None:
    streams = [f"s{number}" for number in range(6)]
    nodes = [Node("node_1"), Node("node_2")]
    acknowledged: list[tuple[str, int, str]] = []
    ended = threading.Event()

    def write(node: Node) -> None:
        with log.open(fence=node) as journal:
            versions = dict.fromkeys(streams, -1)
            while not ended.is_set():
                for stream in streams:
                    if versions[stream] < 0:
                        versions[stream] = len(journal.recover(stream))
                    version = versions[stream]
                    word = f"{node.name} {version}"
                    (outcome,) = settle(journal, step(stream, version, Added(version), kept=[said(word)]))
                    if isinstance(outcome, Committed):
                        acknowledged.append((stream, outcome.version, word))
                        versions[stream] += 1
                    else:
                        assert isinstance(outcome, ShardMovedError | ConflictError), outcome
                        versions[stream] = -1

    writers = [threading.Thread(target=write, args=(node,)) for node in nodes]
    for writer in writers:
        writer.start()
    for number in range(60):
        shards.claim(nodes[number % 2], *streams[number % 3 :: 3])
        enough = len(acknowledged) + 4
        wait_until(partial(_are_at_least, acknowledged, enough))
    ended.set()
    for writer in writers:
        writer.join()

    with log.open(read_only=True) as reader:
        for stream in streams:
            words = list(words_of(reader, stream).values())
            assert [each.event for each in reader.read(stream)] == [Added(version) for version in range(len(words))]
            for name, version, word in acknowledged:
                assert name != stream or words[version - 1] == word
    assert log.verify() == []


def _are_at_least(acknowledged: Sequence[object], enough: int) -> bool:
    return len(acknowledged) >= enough


# What has nothing to do with it, and what hardly happens


def test_another_constraint_that_is_violated_says_nothing_of_shards(log: Log, journal: StoredJournal) -> None:
    log.tamper("ALTER TABLE steps ADD CONSTRAINT short CHECK (stream <> 's2')")

    good, bad = settle(journal, step(A, 0, Added(1)), step(B, 0, Added(1)))

    assert isinstance(good, Committed)
    assert isinstance(bad, UnstorableError)


def test_shards_that_are_taken_again_and_again_are_given_up_in_the_end(
    journal: StoredJournal, shards: Shards, elsewhere: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses an epoch, and says that it is the present one, each time."""
    monkeypatch.setattr("reenact.actors.journal.postgres.store._TRIES", 5)

    def past(*_: object) -> frozenset[tuple[int, int]]:
        return frozenset()

    monkeypatch.setattr(PostgresStore, "_find_lost_shards", past)
    shards.claim(elsewhere, A)

    (outcome,) = settle(journal, step(A, 0, Added(1)))

    assert isinstance(outcome, StorageError)
    assert "again and again" in str(outcome)


def test_a_shard_that_is_claimed_again_while_a_batch_is_decided_is_refused_in_the_batch() -> None:
    node = Node("node_1")
    node.epochs[shard_of(A)] = 1
    claims = Claims(node)
    epochs = Epochs(claims)
    assert epochs.take_step(A)

    node.epochs[shard_of(A)] = 2
    claims.trust(A)

    assert not epochs.take_step(A)
    assert epochs.of(A) == 1
    assert Epochs(claims).take_step(A)


def test_what_was_recovered_while_an_earlier_epoch_is_found_past_is_accepted() -> None:
    node = Node("node_1")
    node.epochs[shard_of(A)] = 1
    claims = Claims(node)
    assert Epochs(claims).take_step(A)
    node.epochs[shard_of(A)] = 2
    claims.trust(A)

    claims.lose(A, 1)

    assert Epochs(claims).take_step(A)


def test_what_is_recovered_in_a_batch_that_fails_is_not_recovered() -> None:
    node = Node("node_1")
    claims = Claims(node)
    claims.lose(A, None)
    node.epochs[shard_of(A)] = 1

    failing = Epochs(claims)
    failing.recover(A)
    assert failing.take_step(A)
    assert not Epochs(claims).take_step(A)

    failing.commit()
    assert Epochs(claims).take_step(A)
