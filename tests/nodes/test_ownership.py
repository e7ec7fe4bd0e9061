"""Nodes with threads of their own on a server that goes, comes back and falls silent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack
from functools import partial

import pytest

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect
from reenact.actors.nodes.ownership import Ownership
from reenact.actors.nodes.protocol import Epochs, Timing
from reenact.domain.errors import ConfigurationError, LogUnusableError, StorageError
from reenact.domain.shards import SHARDS
from tests.journal.server import Server
from tests.nodes.proxy import Proxy
from tests.nodes.test_database import wait_for

# No lease is over while a test runs, however busy the machine is.
TIMING = Timing(lease=600.0, tick=0.05)


class Tenant:
    """Remembers what it was told; it has left when the test says so, or at once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.owns: dict[int, int] = {}
        self.left: list[Callable[[], None]] = []
        self.lingers = False
        self.failures = 0

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        self.told.append("claimed")
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.owns |= epochs

    def leaving(self, shards: Collection[int], left: Callable[[int], None]) -> None:
        self.told.append("leaving")
        for shard in shards:
            del self.owns[shard]
            self.left.append(partial(left, shard))
            if not self.lingers:
                left(shard)

    def lost(self, shards: Collection[int]) -> None:
        self.told.append("lost")
        for shard in shards:
            self.owns.pop(shard, None)


class Cluster:
    """Nodes of one log."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url = url
        self.nodes: list[tuple[Ownership, Tenant]] = []
        self._stack = stack

    def start(self, url: str | None = None, timing: Timing = TIMING) -> tuple[Ownership, Tenant]:
        tenant = Tenant()
        node = Ownership(url or self.url, tenant, address=f"here:{len(self.nodes)}", timing=timing)
        self._stack.callback(node.close)
        self.nodes.append((node, tenant))
        return node, tenant

    def rows(self) -> list[tuple[int, int, str | None]]:
        address = address_of(self.url)
        with connect(address) as connection:
            query = f"SELECT shard, epoch, owner FROM {address.schema}.shards ORDER BY shard"  # noqa: S608 - ours
            return connection.execute(query.encode()).fetchall()

    def wait_for_share(self, *shares: int) -> None:
        """Wait until nodes own so many shards each, as they and the database say."""

        def is_so() -> bool:
            owned = [
                [(shard, epoch) for shard, epoch, owner in self.rows() if owner == node.node.id]
                for node, _ in self.nodes
            ]
            held = [sorted(tenant.owns.items()) for _, tenant in self.nodes]
            return owned == held and sorted(map(len, owned)) == sorted(shares)

        wait_for(is_so)


@pytest.fixture
def cluster(url: str) -> Generator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(url, stack)


def test_nodes_that_come_later_get_their_share(cluster: Cluster) -> None:
    cluster.start()
    cluster.wait_for_share(256)
    cluster.start()
    cluster.wait_for_share(128, 128)
    cluster.start()
    cluster.wait_for_share(86, 85, 85)


def test_what_a_node_says_of_a_shard(cluster: Cluster) -> None:
    node, tenant = cluster.start()
    cluster.wait_for_share(256)
    other, _ = cluster.start()
    cluster.wait_for_share(128, 128)
    shard = next(iter(tenant.owns))

    wait_for(lambda: node.node.takes_commands(shard))
    assert node.node.epoch_of(shard) == node.node.held[shard] == tenant.owns[shard]
    assert other.node.epoch_of(shard) is None
    assert not other.node.takes_commands(shard)
    wait_for(lambda: (owner := other.node.owner_of(shard)) is not None and owner.address == "here:0")
    assert node.count == SHARDS


def test_a_node_that_drains_has_nothing_left_once_it_has_left_everything(cluster: Cluster) -> None:
    node, tenant = cluster.start()
    cluster.wait_for_share(256)
    cluster.start()
    cluster.wait_for_share(128, 128)

    tenant.lingers = True
    assert not node.drain(timeout=0.2)
    assert not any(node.node.takes_commands(shard) for shard in range(SHARDS))
    wait_for(lambda: len(tenant.left) == SHARDS)  # half of them when the other node came
    for left in tenant.left:
        left()
    assert node.drain(timeout=60)
    cluster.wait_for_share(0, 256)
    assert "lost" not in tenant.told


def test_a_node_that_is_closed_gives_back_what_it_has_and_is_forgotten(cluster: Cluster) -> None:
    node, tenant = cluster.start()
    cluster.wait_for_share(256)

    node.close()
    node.close()

    assert {owner for _, _, owner in cluster.rows()} == {None}
    assert tenant.told == ["claimed", "lost"]
    address = address_of(cluster.url)
    with connect(address) as connection:
        assert connection.execute(f"SELECT FROM {address.schema}.nodes".encode()).rowcount == 0


def test_everybody_keeps_what_it_has_when_the_server_restarts(cluster: Cluster, server: Server) -> None:
    for _ in range(3):
        cluster.start()
    cluster.wait_for_share(86, 85, 85)
    before = cluster.rows()

    server.stop()
    server.start()

    wait_for(lambda: all(node.node.takes_commands(shard) for node, tenant in cluster.nodes for shard in tenant.owns))
    assert cluster.rows() == before


def test_a_server_that_restarts_while_shards_are_claimed_leaves_nothing_without_an_owner(
    cluster: Cluster, server: Server
) -> None:
    cluster.start()
    cluster.wait_for_share(256)
    cluster.start()
    cluster.start()
    pause = threading.Event()
    for _ in range(10):
        server.terminate()
        pause.wait(0.05)
    server.stop()
    server.start()

    cluster.wait_for_share(86, 85, 85)


def test_a_connection_that_falls_silent_is_given_up_and_others_take_over(
    cluster: Cluster, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(server.url) as proxy:
        node, tenant = cluster.start(proxy.url(cluster.url), Timing(lease=3.0, tick=0.05))
        cluster.wait_for_share(256)
        cluster.start(timing=Timing(lease=3.0, tick=0.05))
        cluster.wait_for_share(128, 128)
        shard = next(iter(tenant.owns))

        proxy.hold()
        wait_for(lambda: not node.node.takes_commands(shard))
        wait_for(lambda: len(cluster.nodes[1][1].owns) == SHARDS)
        proxy.go_on()

        cluster.wait_for_share(128, 128)
    assert "the lease cannot be renewed now" in caplog.text
    assert "lost" in tenant.told


def test_a_server_that_is_too_busy_costs_nobody_the_connection(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    node, _ = cluster.start(timing=Timing(lease=2.0, tick=0.05))
    cluster.wait_for_share(256)
    database, before = node._database, cluster.rows()
    assert database is not None
    database._connection.limit = None  # it is the server that is to lose its patience
    address = address_of(cluster.url)

    with connect(address) as intruder, intruder.transaction():
        intruder.execute(f"SELECT FROM {address.schema}.nodes FOR UPDATE".encode())
        wait_for(lambda: "the lease cannot be renewed now" in caplog.text)
    wait_for(lambda: "the lease is renewed again" in caplog.text)

    assert node._database is database
    assert cluster.rows() == before


def test_what_a_tenant_cannot_take_up_is_tried_again(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    tenant = Tenant()
    tenant.failures = 2
    node = Ownership(cluster.url, tenant, address="here", timing=TIMING)
    cluster.nodes.append((node, tenant))

    cluster.wait_for_share(256)
    node.close()

    assert tenant.told == ["claimed", "claimed", "claimed", "lost"]
    assert caplog.text.count("the next tick tries again") == 2


def test_a_tenant_that_fails_at_the_end_keeps_nothing_from_ending(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(shards: Collection[int]) -> None:
        raise RuntimeError("not now")

    node, tenant = cluster.start()
    cluster.wait_for_share(256)
    monkeypatch.setattr(tenant, "lost", fail)

    node.close()

    assert "could not be dropped" in caplog.text
    assert {owner for _, _, owner in cluster.rows()} == {None}


def test_a_node_that_cannot_be_deleted_ends_all_the_same(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = cluster.start()
    cluster.wait_for_share(256)
    monkeypatch.setattr("reenact.actors.nodes.database._FORGET", "SELECT no_such_function()")

    node.close()

    assert "could not be deleted" in caplog.text
    assert {owner for _, _, owner in cluster.rows()} == {None}


def test_a_node_ends_while_the_server_is_away(cluster: Cluster, server: Server) -> None:
    node, _ = cluster.start()
    cluster.wait_for_share(256)

    server.stop()
    try:
        node.close()
    finally:
        server.start()

    assert {owner for _, _, owner in cluster.rows()} == {node.node.id}
    cluster.nodes.clear()
    cluster.start()
    cluster.wait_for_share(256)


def test_no_node_begins_where_it_could_not_go_on(server: Server) -> None:
    with pytest.raises(ConfigurationError):
        Ownership("postgresql://a:b@c:d@e/f", Tenant(), address="here")
    with pytest.raises(StorageError):
        Ownership("postgresql://127.0.0.1:1/nowhere", Tenant(), address="here")
    with pytest.raises(LogUnusableError):
        Ownership(server.new_log(), Tenant(), address="here")
