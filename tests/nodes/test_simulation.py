"""The protocol in simulated time: whatever fails, no past owner writes, and all is owned again when all is well."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tests.nodes.schedules import run
from tests.nodes.world import SHARDS, Entry, Process, SimulatedDatabase, World

PARTS = 4
SCHEDULES = 10_000 if os.environ.get("SOAK_SEED") else examples(240)
"""How many schedules are run: for each seed of `make soak` ten thousand."""


@pytest.mark.parametrize("part", range(PARTS))
def test_in_a_random_schedule_no_past_owner_writes_and_everything_is_owned_in_the_end(part: int) -> None:
    for number in range(part, SCHEDULES, PARTS):
        run(f"{os.environ.get('SOAK_SEED', '')}-{number}")


class OwnershipMachine(RuleBasedStateMachine):
    """The same moves in an order that is made shorter when it fails."""

    @initialize(seed=st.integers(0, 999), nodes=st.integers(1, 5))
    def begin(self, seed: int, nodes: int) -> None:
        self.world = World(Random(seed))
        for _ in range(nodes):
            self.world.start()

    def process(self, number: int) -> Process:
        return self.world.present[number % len(self.world.present)]

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 4.0]))
    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)

    @precondition(lambda self: self.world.present)
    @rule(number=st.integers(0, 4), shard=st.integers(0, SHARDS - 1), lingers=st.sampled_from([0.0, 0.0, 2.0, 6.0]))
    def write(self, number: int, shard: int, lingers: float) -> None:
        if self.process(number).runs:
            self.process(number).write(shard, lingers=lingers)

    @precondition(lambda self: len(self.world.present) < 5)
    @rule()
    def start(self) -> None:
        self.world.start()

    @precondition(lambda self: self.world.present)
    @rule(number=st.integers(0, 4))
    def kill(self, number: int) -> None:
        self.world.kill(self.process(number))

    @precondition(lambda self: self.world.present)
    @rule(number=st.integers(0, 4), freezes=st.booleans())
    def stop_or_go_on(self, number: int, *, freezes: bool) -> None:
        process = self.process(number)
        if process.stopped is None:
            self.world.stop(process, freezes=freezes)
        else:
            self.world.go_on(process)

    @precondition(lambda self: self.world.present)
    @rule(number=st.integers(0, 4))
    def cut_or_heal(self, number: int) -> None:
        process = self.process(number)
        if process.is_cut_off:
            self.world.heal(process)
        else:
            self.world.cut_off(process)

    @precondition(lambda self: self.world.present)
    @rule(number=st.integers(0, 4))
    def drain(self, number: int) -> None:
        self.world.drain(self.process(number))

    @rule()
    def stop_or_start_the_database(self) -> None:
        if self.world.is_up:
            self.world.take_down()
        else:
            self.world.bring_up()

    @rule()
    def fail_over(self) -> None:
        self.world.fail_over()

    @rule(seconds=st.sampled_from([-3600.0, -2.0, 2.0, 3600.0]))
    def set_the_clock_of_the_database(self, seconds: float) -> None:
        self.world.database.clock += seconds

    @precondition(lambda self: self.world.present)
    @rule(number=st.integers(0, 4), seconds=st.sampled_from([0.5, 60.0]))
    def set_the_clock_of_a_node(self, number: int, seconds: float) -> None:
        self.process(number).offset += seconds

    @invariant()
    def no_event_stands_behind_one_of_a_later_epoch(self) -> None:
        self.world.check_order()
        self.world.check_acknowledged()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()


TestOwnershipMachine = OwnershipMachine.TestCase
TestOwnershipMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)


# What it takes


@pytest.fixture
def world() -> World:
    """Three nodes that own everything."""
    world = World(Random(1))
    for _ in range(3):
        world.start()
    world.settle()
    return world


def owners(world: World) -> list[tuple[str | None, int]]:
    return list(zip(world.database.stored.owners, world.database.stored.epochs, strict=True))


def test_the_shards_of_a_process_that_is_killed_are_owned_again_within_a_second(world: World) -> None:
    world.kill(world.present[0])

    world.advance(1.0)

    assert world.unsettled() is None


def test_the_shards_of_one_that_is_stopped_are_owned_again_within_two_leases(world: World) -> None:
    stopped = world.present[0]
    world.stop(stopped, freezes=False)

    world.advance(2 * world.timing.lease)

    assert stopped.node.id not in world.database.stored.owners
    assert not any(stopped.node.takes_commands(shard) for shard in range(SHARDS))
    world.go_on(stopped)
    world.settle()
    assert stopped.node.id in world.database.stored.owners


def test_one_whose_clock_stood_still_writes_nothing_when_it_goes_on(world: World) -> None:
    stopped = world.present[0]
    shard = next(iter(stopped.node.held))
    world.stop(stopped, freezes=True)
    world.advance(2 * world.timing.lease)
    world.go_on(stopped)

    assert stopped.node.takes_commands(shard)
    stopped.write(shard, lingers=0.0)
    world.advance(0.2)

    assert world.database.stored.log == []


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 4.0, -4.0])
def test_no_shard_changes_its_owner_when_the_clock_of_the_database_jumps(world: World, seconds: float) -> None:
    before = owners(world)

    world.database.clock += seconds
    world.advance(2 * world.timing.lease)

    assert owners(world) == before


@pytest.mark.parametrize("seconds", [0.1, 1.0, 60.0])
def test_no_shard_changes_its_owner_when_the_database_restarts(world: World, seconds: float) -> None:
    before = owners(world)

    world.take_down()
    world.advance(seconds)
    world.bring_up()
    world.advance(2 * world.timing.lease)

    assert owners(world) == before


def test_one_that_drains_owns_nothing_in_the_end_and_the_others_everything(world: World) -> None:
    drained = world.present[0]

    world.drain(drained)
    world.settle()

    assert drained.node.owns_nothing
    assert drained.node.id not in world.database.stored.owners


# That it would be found


def run_all(seed: str, count: int) -> None:
    for number in range(count):
        run(f"{seed} {number}")


def test_the_schedules_find_out_when_past_owners_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(database: SimulatedDatabase, entry: Entry, *, after: int) -> bool:
        return database.append_unchecked(entry, after=after)

    monkeypatch.setattr(SimulatedDatabase, "append", append)

    with pytest.raises(AssertionError):
        run_all("without a fence", 200)


def test_the_schedules_find_out_when_only_the_epoch_is_checked_and_not_the_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def append(database: SimulatedDatabase, entry: Entry, *, after: int) -> bool:
        return database.stored.epochs[entry.shard] == entry.epoch and database.append_unchecked(entry, after=after)

    monkeypatch.setattr(SimulatedDatabase, "append", append)

    with pytest.raises(AssertionError):
        run_all("without the owner", 1000)
