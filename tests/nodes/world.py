"""A world in simulated time: nodes that run the real protocol, a network and a database that fail in every way."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import NamedTuple

from reenact.actors.nodes.protocol import (
    Answer,
    Claim,
    Epochs,
    GiveBack,
    Message,
    Node,
    Peer,
    Renewal,
    Status,
    Timing,
    View,
)

SHARDS = 8
KEEPALIVE = 4.0
"""Seconds after which the server lets go of a connection whose other end is cut off."""


class Entry(NamedTuple):
    """An event in the log."""

    shard: int
    epoch: int
    owner: str
    number: int


@dataclass(frozen=True)
class Lease:
    """A row of `nodes`."""

    lock: int
    drains: bool
    expires: float


@dataclass
class Stored:
    """What is in the database; what a replica has may be older."""

    epochs: list[int] = field(default_factory=lambda: [0] * SHARDS)
    owners: list[str | None] = field(default_factory=lambda: [None] * SHARDS)
    nodes: dict[str, Lease] = field(default_factory=dict[str, Lease])
    log: list[Entry] = field(default_factory=list[Entry])

    def copy(self) -> Stored:
        return Stored([*self.epochs], [*self.owners], {**self.nodes}, [*self.log])


class SimulatedDatabase:
    """What the statements of `database` and the check of epochs do; each is one step."""

    def __init__(self, timing: Timing) -> None:
        self.stored = Stored()
        self.replica = Stored()
        self.clock = 0.0
        self.locks: set[int] = set()
        self._lease = timing.lease

    def status(self, id_: str) -> Status:
        row = self.stored.nodes[id_]
        if row.lock not in self.locks:
            return "gone"
        return "live" if self.clock <= row.expires <= self.clock + self._lease else "late"

    def carry_out(self, message: Message, id_: str, lock: int) -> Answer:
        stored = self.stored
        match message:
            case Renewal(drains=drains):
                view = self._view()
                stored.nodes[id_] = Lease(lock, drains, self.clock + self._lease)
                return view
            case Claim(seen=seen):
                claimed: dict[int, int] = {}
                for shard, epoch in seen.items():
                    owner = stored.owners[shard]
                    is_owned = owner is not None and owner in stored.nodes and self.status(owner) == "live"
                    if stored.epochs[shard] == epoch and not is_owned:
                        stored.epochs[shard], stored.owners[shard] = epoch + 1, id_
                        claimed[shard] = epoch + 1
                return claimed
            case GiveBack(held=held):
                given_back: dict[int, int] = {}
                for shard, epoch in held.items():
                    if (stored.epochs[shard], stored.owners[shard]) == (epoch, id_):
                        stored.owners[shard] = None
                        given_back[shard] = epoch
                return given_back

    def append(self, entry: Entry, *, after: int) -> bool:
        """Append if the writer owns the shard in its epoch, and knows all that was written to it."""
        is_owner = (self.stored.epochs[entry.shard], self.stored.owners[entry.shard]) == (entry.epoch, entry.owner)
        return is_owner and self.append_unchecked(entry, after=after)

    def append_unchecked(self, entry: Entry, *, after: int) -> bool:
        """Append if the writer knows all that was written to the shard, as the log sees to in any case."""
        if self.length_of(entry.shard) != after:
            return False
        self.stored.log.append(entry)
        return True

    def length_of(self, shard: int) -> int:
        return sum(entry.shard == shard for entry in self.stored.log)

    def _view(self) -> View:
        nodes = {id_: Peer(id_, id_, self.status(id_), row.drains) for id_, row in self.stored.nodes.items()}
        return View(nodes, dict(enumerate(zip(self.stored.epochs, self.stored.owners, strict=True))))


class Connection:
    """Between a process and the database: the two ends learn of its end each by itself."""

    def __init__(self, lock: int) -> None:
        self.lock = lock
        self.is_open_here = True
        self.is_open_there = True


class Process:
    """A process that is a node, with a tenant that writes."""

    def __init__(self, world: World, name: str, *, rate: float) -> None:
        self.world = world
        self.node = Node(name, world.timing, self, self.clock)
        self.rate = rate
        self.offset = 0.0
        self.is_killed = False
        self.stopped: list[Callable[[], None]] | None = None
        self.is_cut_off = False
        self.undelivered: list[Callable[[], None]] = []
        self.connection: Connection | None = None
        self.known: dict[int, int] = {}
        self.finishing: set[int] = set()
        self.writing: set[int] = set()
        self.is_freezing_at: float | None = None
        self.turn = 0

    @property
    def runs(self) -> bool:
        return not self.is_killed and self.stopped is None

    def clock(self) -> float:
        now = self.world.now if self.is_freezing_at is None else self.is_freezing_at
        return now * self.rate + self.offset

    # As a tenant

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        self.finishing -= set(epochs)
        for shard in epochs:
            self.known[shard] = self.world.database.length_of(shard)

    def leaving(self, shards: Collection[int], left: Callable[[int], None]) -> None:
        def leave(shard: int) -> None:
            self.known.pop(shard, None)
            left(shard)

        self.finishing |= set(shards)
        for shard in shards:
            self.world.after(self.world.random.choice([0.0, 0.1, 2.0]), self, partial(leave, shard))

    def lost(self, shards: Collection[int]) -> None:
        for shard in shards:
            self.known.pop(shard, None)

    # As a node

    def tick_after(self, seconds: float) -> None:
        """Begin a tick then, and no other one before."""
        self.turn += 1
        turn = self.turn
        self.world.after(seconds, self, lambda: self._tick() if turn == self.turn else None)

    def _tick(self) -> None:
        """Begin a tick, over a new connection if there is none."""
        world = self.world
        if self.connection is None:
            if self.is_cut_off or not world.is_up:
                self.tick_after(world.timing.tick)
                return
            self.connection = Connection(next(world.locks))
            world.connections.append((self, self.connection))
            world.database.locks.add(self.connection.lock)
        tick = self.node.tick()
        self._send(next(tick), tick, self.connection)

    def _send(self, message: Message, tick: Generator[Message, Answer, None], connection: Connection) -> None:
        """Send a message, and go on with the answer, or without a connection if none comes in time."""
        world = self.world
        is_answered = False

        def arrive() -> None:
            if not (connection.is_open_there and world.is_up):
                return
            answer = world.database.carry_out(message, self.node.id, connection.lock)
            world.travel(self, lambda: world.at_process(self, lambda: receive(answer)))

        def receive(answer: Answer) -> None:
            nonlocal is_answered
            if not connection.is_open_here or is_answered:
                return
            is_answered = True
            try:
                following = tick.send(answer)
            except StopIteration:
                self.tick_after(world.timing.tick)
            else:
                self._send(following, tick, connection)

        def give_up() -> None:
            if is_answered or not connection.is_open_here:
                return
            self.disconnect(connection)
            tick.close()
            self.tick_after(0.0)

        world.travel(self, arrive)
        world.after(world.timing.answer, self, give_up)

    def disconnect(self, connection: Connection) -> None:
        """Let go of the connection at this end; the other end learns of it, unless the way is cut."""
        connection.is_open_here = False
        self.connection = None
        self.node.disconnected()
        self.world.travel(self, lambda: self.world.close_there(connection))

    # As a writer

    def write(self, shard: int, *, lingers: float) -> None:
        """Write one event for a command, or for what is under way in a shard that is left.

        It may linger between the look whether it is to be written and the write.
        """
        if not (self.node.takes_commands(shard) or shard in self.finishing):
            return
        epoch = self.node.epoch_of(shard)
        if epoch is None or shard not in self.known or shard in self.writing:
            return
        world = self.world
        entry = Entry(shard, epoch, self.node.id, next(world.numbers))
        after = self.known[shard]
        self.writing.add(shard)

        def arrive() -> None:
            if world.is_up:
                is_written = world.database.append(entry, after=after)
                world.check_order()
                world.travel(self, lambda: world.at_process(self, lambda: heard(is_written=is_written)))

        def heard(*, is_written: bool) -> None:
            self.writing.discard(shard)
            if is_written:
                if entry not in world.forgotten:
                    world.acknowledged.add(entry)
                if self.known.get(shard) == after:
                    self.known[shard] = after + 1
            elif shard in self.known:
                # As an actor that meets a conflict: it starts again from the log.
                self.known[shard] = world.database.length_of(shard)

        world.at(lingers, lambda: world.travel(self, arrive))
        world.after(lingers + 2.0, self, lambda: self.writing.discard(shard))


class World:
    """Simulated time, and what happens in it."""

    def __init__(self, random: Random, timing: Timing | None = None) -> None:
        self.random = random
        self.timing = timing or Timing()
        self.database = SimulatedDatabase(self.timing)
        self.is_up = True
        self.now = 0.0
        self.processes: list[Process] = []
        self.connections: list[tuple[Process, Connection]] = []
        self.locks = count(1)
        self.numbers = count(1)
        self.acknowledged: set[Entry] = set()
        self.forgotten: set[Entry] = set()
        self.slowness = 0.01
        self._names = count(1)
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._checked = 0
        self._ends: dict[int, Entry] = {}
        self._replicate()

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            at, _, act = heapq.heappop(self._events)
            self._go_to(at)
            act()
        self._go_to(end)

    def _go_to(self, at: float) -> None:
        self.database.clock += at - self.now
        self.now = at

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), act))

    def after(self, seconds: float, process: Process, act: Callable[[], None]) -> None:
        """Have the process do something later, by its own clock; one that is stopped does it when it goes on."""
        self.at(seconds / process.rate, lambda: self.at_process(process, act))

    def at_process(self, process: Process, act: Callable[[], None]) -> None:
        if process.stopped is not None:
            process.stopped.append(act)
        elif not process.is_killed:
            act()

    def travel(self, process: Process, act: Callable[[], None]) -> None:
        """Have something arrive at the other end of the network; when it is cut, it may get lost or arrive later."""
        delay = self.random.expovariate(1 / self.slowness)

        def arrive() -> None:
            if not process.is_cut_off:
                act()
            elif self.random.random() < 0.5:
                process.undelivered.append(act)

        self.at(delay, arrive)

    # What happens

    @property
    def present(self) -> list[Process]:
        return [process for process in self.processes if not process.is_killed]

    def start(self) -> Process:
        """Start a process; its clock goes a little wrong."""
        process = Process(self, f"n{next(self._names)}", rate=self.random.uniform(0.95, 1.05))
        self.processes.append(process)
        process.tick_after(0.0)
        return process

    def kill(self, process: Process) -> None:
        process.is_killed = True
        for owner, connection in self.connections:
            if owner is process:
                connection.is_open_here = False
                self.travel(process, lambda connection=connection: self.close_there(connection))  # type: ignore[misc]

    def stop(self, process: Process, *, freezes: bool) -> None:
        """Stop it; with `freezes` its clock, too, as that of a virtual machine that is moved."""
        process.stopped = []
        if freezes:
            process.is_freezing_at = self.now

    def go_on(self, process: Process) -> None:
        acts, process.stopped = process.stopped or [], None
        if process.is_freezing_at is not None:
            process.offset -= (self.now - process.is_freezing_at) * process.rate
            process.is_freezing_at = None
        for act in acts:
            self.at(0.0, lambda act=act: self.at_process(process, act))  # type: ignore[misc]

    def cut_off(self, process: Process) -> None:
        process.is_cut_off = True
        for owner, connection in self.connections:
            if owner is process and connection.is_open_there:
                self.at(KEEPALIVE, lambda connection=connection: self._miss(process, connection))  # type: ignore[misc]

    def _miss(self, process: Process, connection: Connection) -> None:
        if process.is_cut_off:
            self.close_there(connection)

    def heal(self, process: Process) -> None:
        process.is_cut_off = False
        acts, process.undelivered = process.undelivered, []
        for act in acts:
            self.travel(process, act)
        # What was closed at one end only is told now.
        for owner, connection in self.connections:
            if owner is process and not connection.is_open_here:
                self.travel(process, lambda connection=connection: self.close_there(connection))  # type: ignore[misc]
            elif owner is process and not connection.is_open_there:
                self._tell(process, connection)

    def close_there(self, connection: Connection) -> None:
        connection.is_open_there = False
        self.database.locks.discard(connection.lock)

    def take_down(self) -> None:
        """Stop the database: all connections end, and so do what they carry and the locks."""
        self.is_up = False
        for process, connection in self.connections:
            if connection.is_open_there:
                self.close_there(connection)
                self._tell(process, connection)

    def bring_up(self) -> None:
        self.is_up = True

    def fail_over(self) -> None:
        """Have the replica go on in place of the database; what had not reached it yet never was."""
        self.take_down()
        lost = set(self.database.stored.log) - set(self.database.replica.log)
        self.forgotten |= lost
        self.acknowledged -= lost
        self.database.stored = self.database.replica.copy()
        self._checked, self._ends = 0, {}
        self.is_up = True

    def drain(self, process: Process) -> None:
        process.node.drains = True

    def _tell(self, process: Process, connection: Connection) -> None:
        def hear() -> None:
            if connection.is_open_here:
                process.disconnect(connection)
                process.tick_after(0.0)

        self.travel(process, lambda: self.at_process(process, hear))

    def _replicate(self) -> None:
        self.database.replica = self.database.stored.copy()
        self.at(self.random.choice([0.05, 0.5, 2.0]), self._replicate)

    # What must hold

    def check_order(self) -> None:
        """No event of a past epoch stands behind one of a later epoch, and an epoch has one owner."""
        log = self.database.stored.log
        for entry in log[self._checked :]:
            last = self._ends.get(entry.shard, entry)
            assert last.epoch <= entry.epoch, (last, entry)
            assert last.epoch < entry.epoch or last.owner == entry.owner, (last, entry)
            self._ends[entry.shard] = entry
        self._checked = len(log)

    def check_acknowledged(self) -> None:
        missing = self.acknowledged - set(self.database.stored.log)
        assert not missing, missing

    def unsettled(self) -> str | None:
        """Return what is not yet as it is to be when all is well; None if nothing."""
        stored = self.database.stored
        living = [process.node for process in self.present]
        active = {node.id: node for node in living if not node.drains}
        owned = Counter(stored.owners)
        for node in living:
            if node.drains and (owned[node.id] or not node.owns_nothing):
                return f"{node.id} drains and owns {owned[node.id]}"
        if not active:
            return None
        for shard, (epoch, owner) in enumerate(zip(stored.epochs, stored.owners, strict=True)):
            if owner not in active:
                return f"{shard} is owned by {owner}"
            if not active[owner].takes_commands(shard) or active[owner].epoch_of(shard) != epoch:
                return f"{owner} takes no commands for {shard} in epoch {epoch}"
        counts = [owned[id_] for id_ in active]
        return f"{counts} are not spread evenly" if max(counts) - min(counts) > 1 else None

    def settle(self) -> float:
        """Make all well, and return how many seconds it takes until everything is as it is to be, and stays so."""
        self.slowness = 0.01
        if not self.is_up:
            self.bring_up()
        for process in self.present:
            if process.is_cut_off:
                self.heal(process)
            if process.stopped is not None:
                self.go_on(process)
        began = since = self.now
        while self.now - since < self.timing.lease:
            self.advance(self.timing.tick)
            trouble = self.unsettled()
            if trouble is not None:
                since = self.now
                assert since - began < 2 * self.timing.lease, trouble
        took = since - began
        self.check_order()
        self.check_acknowledged()
        return took
