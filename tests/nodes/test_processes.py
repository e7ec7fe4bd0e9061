"""Processes that own a log together and are killed, stopped and cut from the server: the order of epochs holds."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL

import pytest

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect
from reenact.domain.shards import SHARDS
from tests.journal.server import Server
from tests.nodes.test_database import wait_for
from tests.started.forked import Forked

NEVER = 600.0
"""A lease that is not over while a test runs."""


class Nodes:
    """Programs that write the same log."""

    def __init__(self, url: str, directory: Path, stack: ExitStack) -> None:
        self.url = url
        self.address = address_of(url)
        self._directory = directory
        self._stack = stack
        self._programs: dict[str, Forked] = {}
        self.execute(
            "CREATE TABLE {schema}.written (number bigserial, shard integer NOT NULL, epoch bigint, owner text)"
        )

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with connect(self.address) as connection:
            cursor = connection.execute(statement.replace("{schema}", self.address.schema).encode())
            return cursor.fetchall() if cursor.description else []

    def start(self, name: str, lease: float) -> None:
        said = self._stack.enter_context((self._directory / name).open("wb"))
        program = Forked(["tests.nodes.node_program", self.url, name, str(lease)], stdout=said, stderr=DEVNULL)
        self._stack.enter_context(program)
        self._stack.callback(program.kill)
        self._programs[name] = program

    def signal(self, name: str, number: signal.Signals) -> None:
        self._programs[name].send_signal(number)

    def owned(self) -> dict[str, int]:
        """Return how many shards each program owns, by its name."""
        query = "SELECT address FROM {schema}.shards JOIN {schema}.nodes ON owner = id"
        return dict(Counter(str(address) for (address,) in self.execute(query)))

    def wait_for_share(self, **shares: int) -> None:
        wait_for(lambda: self.owned() == shares)

    def wait_for_writes_to_all(self) -> None:
        """Wait until each shard was written by its present owner."""
        query = "SELECT DISTINCT shard FROM {schema}.shards JOIN {schema}.written USING (shard, epoch, owner)"
        wait_for(lambda: len(self.execute(query)) == SHARDS)

    def audit(self) -> None:
        """Check that no event stands behind one of a later epoch, and that none is missing that was acknowledged."""
        # First what was acknowledged, for the programs go on.
        said = {name: (self._directory / name).read_text().split("\n")[:-1] for name in self._programs}
        written = self.execute("SELECT shard, epoch, owner FROM {schema}.written ORDER BY number")
        last: dict[object, tuple[int, object]] = {}
        for shard, epoch, owner in written:
            assert isinstance(epoch, int)
            past, past_owner = last.get(shard, (epoch, owner))
            assert past < epoch or (past, past_owner) == (epoch, owner), (shard, past, past_owner, epoch, owner)
            last[shard] = (epoch, owner)
        there = Counter(" ".join(map(str, row)) for row in written)
        for lines in said.values():
            assert lines
            assert Counter(lines) <= there
        assert len(last) == SHARDS


@pytest.fixture
def nodes(url: str, tmp_path: Path) -> Generator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(url, tmp_path, stack)


def test_what_a_killed_process_owned_is_taken_over_before_its_lease_is_over(nodes: Nodes) -> None:
    for name in "abc":
        nodes.start(name, NEVER)
    wait_for(lambda: sorted(nodes.owned().values()) == [85, 85, 86])
    nodes.wait_for_writes_to_all()

    nodes.signal("a", signal.SIGKILL)
    nodes.wait_for_share(b=128, c=128)
    nodes.wait_for_writes_to_all()

    nodes.audit()


def test_what_a_stopped_process_owned_is_taken_over_and_it_writes_nothing_late(nodes: Nodes) -> None:
    nodes.start("a", 3.0)
    nodes.start("b", NEVER)
    nodes.start("c", NEVER)
    wait_for(lambda: sorted(nodes.owned().values()) == [85, 85, 86])
    nodes.wait_for_writes_to_all()

    nodes.signal("a", signal.SIGSTOP)
    nodes.wait_for_share(b=128, c=128)
    nodes.wait_for_writes_to_all()
    nodes.signal("a", signal.SIGCONT)
    wait_for(lambda: sorted(nodes.owned().values()) == [85, 85, 86])
    nodes.wait_for_writes_to_all()

    nodes.audit()


def test_a_server_that_restarts_after_a_kill_has_everything_owned_again(nodes: Nodes, server: Server) -> None:
    for name in "abc":
        nodes.start(name, 3.0)
    wait_for(lambda: sorted(nodes.owned().values()) == [85, 85, 86])
    nodes.wait_for_writes_to_all()

    nodes.signal("a", signal.SIGKILL)
    server.stop()
    server.start()
    nodes.wait_for_share(b=128, c=128)
    nodes.wait_for_writes_to_all()

    nodes.audit()
