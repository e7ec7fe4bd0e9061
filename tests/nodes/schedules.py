"""Random schedules of what may happen to nodes, network, clocks and database; `python -m tests.nodes.schedules`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.nodes.world import Process, World


@dataclass
class Result:
    """What a schedule came to."""

    took: float
    done: Counter[str] = field(default_factory=Counter[str])
    written: int = 0
    epochs: int = 0


def run(seed: object, *, length: int = 40) -> Result:
    """Run the schedule of a seed; an invariant that does not hold raises an AssertionError."""
    random = Random(f"{seed}")
    world = World(random)
    for _ in range(random.randint(1, 5)):
        world.start()
    done: Counter[str] = Counter()
    for _ in range(length):
        name, act = random.choice(_moves(world, random))
        done[name] += 1
        act()
        _write_meanwhile(world, random, random.choice([0.02, 0.2, 1.0, 4.0]))
        world.check_order()
    for _ in range(random.randint(0, 2) or all(process.node.drains for process in world.present)):
        world.start()
    took = world.settle()
    stored = world.database.stored
    return Result(took, done, written=len(stored.log), epochs=sum(stored.epochs))


def _write_meanwhile(world: World, random: Random, seconds: float) -> None:
    for _ in range(8):
        world.advance(seconds / 8)
        for process in world.present:
            if process.runs and process.known:
                process.write(random.choice(list(process.known)), lingers=random.choice([0.0, 0.0, 0.0, 1.0, 5.0]))


def _moves(world: World, random: Random) -> list[tuple[str, Callable[[], None]]]:
    """Return what may happen now."""
    moves: list[tuple[str, Callable[[], None]]] = [
        ("slow network", lambda: setattr(world, "slowness", random.choice([0.001, 0.01, 0.1, 0.5]))),
        ("clock of the database", lambda: _set_database_clock(world, random)),
        ("failover", world.fail_over),
        ("stop of the database", world.take_down) if world.is_up else ("start of the database", world.bring_up),
    ]
    if not world.is_up:
        moves += [("start of the database", world.bring_up)] * 3
    if len(world.present) < 5:
        moves.append(("start", lambda: _start(world)))
    for process in world.present:
        moves += _moves_of(world, process, random)
    return moves


def _moves_of(world: World, process: Process, random: Random) -> list[tuple[str, Callable[[], None]]]:
    moves: list[tuple[str, Callable[[], None]]] = [("kill", lambda: world.kill(process))]
    if process.stopped is None:
        moves.append(("stop", lambda: world.stop(process, freezes=random.random() < 0.3)))
        moves.append(("clock of a node", lambda: setattr(process, "offset", process.offset + random.choice([0.5, 60]))))
    else:
        moves.append(("going on", lambda: world.go_on(process)))
    if process.is_cut_off:
        moves.append(("heal", lambda: world.heal(process)))
    else:
        moves.append(("cut", lambda: world.cut_off(process)))
    if not process.node.drains:
        moves.append(("drain", lambda: world.drain(process)))
    return moves


def _start(world: World) -> None:
    world.start()


def _set_database_clock(world: World, random: Random) -> None:
    world.database.clock += random.choice([-3600.0, -2.0, 2.0, 3600.0])


def main() -> None:
    """Run many schedules and say what they came to."""
    parser = argparse.ArgumentParser(description="Run random schedules of the protocol of ownership.")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", default="0", help="what the schedules are drawn from")
    parser.add_argument("--only", type=int, help="run the schedule with this number, and no other")
    given = parser.parse_args()
    began = time.monotonic()
    done: Counter[str] = Counter()
    took: list[float] = []
    written = epochs = 0
    numbers = range(given.schedules) if given.only is None else [given.only]
    for number in numbers:
        try:
            result = run(f"{given.seed}-{number}")
        except Exception:
            print(f"--seed {given.seed} --only {number} failed")  # noqa: T201
            raise
        done += result.done
        took.append(result.took)
        written += result.written
        epochs += result.epochs
    took.sort()
    print(f"{len(took)} schedules of seed {given.seed} in {time.monotonic() - began:.0f} s: all held")  # noqa: T201
    print(f"{written} events, {epochs} claims, {dict(done.most_common())}")  # noqa: T201
    print(f"settled after {took[len(took) // 2]:.2f} s (median), {took[-1]:.2f} s (at most)")  # noqa: T201


if __name__ == "__main__":
    main()
