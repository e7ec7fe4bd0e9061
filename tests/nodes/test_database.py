"""The statements of ownership on a server: leases, locks, claims and the check of epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import psycopg
import pytest
from psycopg import errors

from reenact.actors.journal.opening import open_journal
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import Connection, connect
from reenact.actors.nodes.database import Database
from reenact.actors.nodes.protocol import Claim, GiveBack, Peer, Renewal, Timing, View
from reenact.domain.shards import SHARDS
from tests.journal.server import Server
from tests.journal.support import CODEC

TIMING = Timing(lease=60.0, tick=0.05)
ALL = dict.fromkeys(range(SHARDS), 0)


class Nodes:
    """Nodes without a protocol: they send what the test says."""

    def __init__(self, url: str) -> None:
        self.address = address_of(url)
        self.by_name: dict[str, Database] = {}

    def send(self, name: str, message: Renewal | Claim | GiveBack) -> object:
        if name not in self.by_name:
            self.by_name[name] = Database(self.address, name, f"{name}:1", TIMING)
        return self.by_name[name].send(message)

    def view(self, name: str) -> View:
        view = self.send(name, Renewal(drains=False))
        assert isinstance(view, View)
        return view

    def execute(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """Execute a statement in a transaction of its own; `{schema}` is that of the log."""
        with connect(self.address) as connection:
            return execute(connection, self, statement, *parameters)

    def wait_until_gone(self, name: str, as_seen_by: str) -> None:
        """Wait for the server to let go of what a connection held: it does so a moment after its end."""
        while self.view(as_seen_by).nodes[name].status != "gone":
            threading.Event().wait(0.01)


def execute(connection: Connection, nodes: Nodes, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    cursor = connection.execute(statement.replace("{schema}", nodes.address.schema).encode(), parameters)
    return cursor.fetchall() if cursor.description else []


CHECK = "SELECT {schema}.check_epochs(%s, %s, %s)"


@pytest.fixture
def nodes(url: str) -> Generator[Nodes]:
    nodes = Nodes(url)
    yield nodes
    for database in nodes.by_name.values():
        database.close()


def test_a_log_has_256_shards_without_owners_from_the_start(nodes: Nodes) -> None:
    view = nodes.view("a")

    assert view == View({}, dict.fromkeys(range(SHARDS), (0, None)))
    assert nodes.by_name["a"].count() == SHARDS == 256
    assert nodes.view("b").nodes == {"a": Peer("a", "a:1", "live", drains=False)}


def test_the_number_of_shards_is_the_log_s(nodes: Nodes) -> None:
    nodes.execute("DELETE FROM {schema}.shards WHERE shard >= 16")

    assert len(nodes.view("a").shards) == nodes.by_name["a"].count() == 16


def test_the_tables_are_made_once_by_however_many_begin_the_log_at_once(server: Server) -> None:
    url = server.new_log()
    barrier = threading.Barrier(4)
    failures: list[Exception] = []

    def begin() -> None:
        barrier.wait()
        try:
            open_journal(url, CODEC).close()
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    with Database(address_of(url), "a", "a:1", TIMING) as database:
        assert database.count() == SHARDS


def test_a_claim_makes_the_next_epoch_and_nobody_else_claims_with_what_was_before(nodes: Nodes) -> None:
    nodes.view("a")
    nodes.view("b")

    assert nodes.send("a", Claim({3: 0, 4: 0})) == {3: 1, 4: 1}
    assert nodes.send("b", Claim({3: 0, 5: 0})) == {5: 1}
    assert nodes.send("b", Claim({3: 1})) == {}
    assert [nodes.view("b").shards[shard] for shard in (3, 4, 5, 6)] == [(1, "a"), (1, "a"), (1, "b"), (0, None)]


def test_what_is_given_back_can_be_claimed_unless_it_was_not_in_that_epoch(nodes: Nodes) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0, 4: 0}))

    assert nodes.send("a", GiveBack({3: 1, 4: 0})) == {3: 1}
    assert nodes.send("b", GiveBack({4: 1})) == {}

    assert nodes.send("b", Claim({3: 1, 4: 1})) == {3: 2}


def test_a_node_that_has_lost_its_connection_is_gone_though_its_lease_is_not_over(nodes: Nodes) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0}))
    nodes.by_name["a"].close()

    nodes.wait_until_gone("a", as_seen_by="b")

    assert nodes.send("b", Claim({3: 1})) == {3: 2}


def test_a_node_with_a_new_connection_lives_whatever_the_server_thinks_of_the_old_one(nodes: Nodes) -> None:
    nodes.view("a")
    first = nodes.by_name.pop("a")

    nodes.view("a")
    first.close()
    nodes.execute("SELECT 1")

    assert nodes.view("b").nodes["a"].status == "live"


@pytest.mark.parametrize("off", ["- interval '1 s'", "+ interval '1 hour'"])
def test_a_node_is_late_when_its_lease_is_over_or_was_written_before_the_clock_was_set_back(
    nodes: Nodes, off: str
) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0}))

    nodes.execute(f"UPDATE {{schema}}.nodes SET expires = clock_timestamp() {off}")  # noqa: S608 - the test's

    assert nodes.view("b").nodes["a"].status == "late"
    assert nodes.send("b", Claim({3: 1})) == {3: 2}
    nodes.view("a")
    assert nodes.view("b").nodes["a"].status == "live"


def test_what_ended_long_ago_is_forgotten_by_whoever_ends_next(nodes: Nodes) -> None:
    for name in "abc":
        nodes.view(name)
    nodes.send("b", Claim({3: 0}))
    nodes.execute("UPDATE {schema}.nodes SET expires = clock_timestamp() - interval '25 hours'")
    nodes.view("a")

    nodes.by_name["a"].forget()

    assert nodes.execute("SELECT id FROM {schema}.nodes") == [("b",)]


# The check of epochs


def test_the_owner_may_write_in_its_epoch(nodes: Nodes) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0, 4: 0}))

    nodes.execute(CHECK, "a", [4, 3], [1, 1])
    nodes.execute(CHECK, "a", [], [])


@pytest.mark.parametrize(
    ("owner", "shards", "epochs"),
    [
        pytest.param("a", [3], [0], id="a past epoch"),
        pytest.param("a", [3], [2], id="an epoch that was not yet"),
        pytest.param("b", [3], [1], id="another node"),
        pytest.param("a", [3, 5], [1, 1], id="one of two"),
        pytest.param("a", [999], [1], id="no shard"),
    ],
)
def test_nobody_else_may_write(nodes: Nodes, owner: str, shards: list[int], epochs: list[int]) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0}))

    with pytest.raises(errors.CheckViolation) as refusal:
        nodes.execute(CHECK, owner, shards, epochs)

    assert refusal.value.sqlstate == "23514"
    assert refusal.value.diag.constraint_name == "epoch"


def test_what_is_just_written_is_not_given_back(nodes: Nodes) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0, 4: 0}))

    with connect(nodes.address) as writer, writer.transaction():
        execute(writer, nodes, CHECK, "a", [3], [1])
        assert nodes.send("a", GiveBack({3: 1, 4: 1})) == {4: 1}

    assert nodes.send("a", GiveBack({3: 1, 4: 1})) == {3: 1}


def test_a_claim_leaves_alone_what_is_just_written_and_a_write_waits_for_a_claim(nodes: Nodes) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0, 4: 0}))
    nodes.by_name["a"].close()
    nodes.wait_until_gone("a", as_seen_by="b")

    with connect(nodes.address) as writer, writer.transaction():
        execute(writer, nodes, CHECK, "a", [3], [1])
        assert nodes.send("b", Claim({3: 1, 4: 1})) == {4: 2}

    assert nodes.send("b", Claim({3: 1})) == {3: 2}


def test_a_write_that_has_waited_for_a_claim_is_refused(nodes: Nodes, server: Server) -> None:
    nodes.view("a")
    nodes.send("a", Claim({3: 0}))
    refusals: list[psycopg.Error] = []

    def write() -> None:
        try:
            nodes.execute(CHECK, "a", [3], [1])
        except psycopg.Error as error:
            refusals.append(error)

    with connect(nodes.address) as claimer, claimer.transaction():
        execute(claimer, nodes, "UPDATE {schema}.shards SET epoch = 2, owner = 'b' WHERE shard = 3")
        writer = threading.Thread(target=write)
        writer.start()
        wait_for(lambda: server.execute("SELECT FROM pg_locks WHERE NOT granted") == 1)
    writer.join()

    assert [type(error) for error in refusals] == [errors.CheckViolation]


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; the test's timeout ends what never does."""
    while not condition():
        threading.Event().wait(0.01)


def test_a_connection_that_cannot_be_prepared_is_not_left_open(
    nodes: Nodes, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.actors.nodes.database._LOCK", "SELECT no_such_function(%s)")

    with pytest.raises(errors.UndefinedFunction):
        nodes.view("a")

    server.wait_for_none(
        "SELECT FROM pg_stat_activity WHERE query LIKE '%no_such_function%' AND pid <> pg_backend_pid()"
    )
