"""Durable appends and turns: ours, raw sqlite3 with the same rows in the same transactions, and the stock library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bench.account import Account, Busy, Deposit, Deposited, Latch, Look, open_log
from bench.measure import Line, Workload, must, ratio_of_at_least, versus
from bench.ours import Ours
from bench.product import at_once
from bench.stock import stock_deposits
from bench.turns import run_turns
from bench.written import Rewritten, Written
from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.timetable import microseconds

EVENTS_OF_A_TURN: Final = 4
"""What a turn of the runtime adds to the log: accepted, started, answered, completed."""

_TARGETS: Final = {1: 0.75, 100: 0.75, 1_000: 0.55, 10_000: 0.55}


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    return [
        *(_actors(actors, max(2, _appends(actors) // scale // actors)) for actors in _TARGETS),
        *(_streams(streams, max(2, _appends(streams) // scale // streams)) for streams in (1, 100)),
        *(_turns(actors, max(2, turns // scale)) for actors, turns in ((1, 1_000), (100, 100), (1_000, 20))),
        _against_stock(1_000, max(2, 50 // scale)),
        *(_conversations(sessions, max(2, turns // scale)) for sessions, turns in ((1, 500), (100, 20))),
    ]


def _appends(streams: int) -> int:
    return 3_000 if streams == 1 else 100_000


def _actors(actors: int, each: int) -> Workload:
    line = Line(f"append, {_of(actors, 'actor')}", "events/s", "sqlite3", ratio_of_at_least(_TARGETS[actors]))
    return Workload((line,), Rewritten(lambda directory: by_actors(directory, actors, each)))


def _streams(streams: int, each: int) -> Workload:
    line = Line(f"append, {_of(streams, 'stream')}, without actors", "events/s", "sqlite3")
    return Workload((line,), Rewritten(lambda directory: _without_actors(directory, streams, each)))


def _turns(actors: int, turns: int) -> Workload:
    line = Line(f"durable turns, {_of(actors, 'actor')}", "turns/s", "sqlite3", ratio_of_at_least(0.4))
    return Workload((line,), Rewritten(lambda directory: run_turns(directory, actors, turns), events_each=2))


def _against_stock(actors: int, each: int) -> Workload:
    line = Line(f"durable asks, {_of(actors, 'actor')}", "asks/s", "stock Application", ratio_of_at_least(25))
    # One of them is enough for the other side: it takes long, and its rate is the same from the first to the last.
    return Workload(
        (line,),
        versus(
            lambda directory: by_asking(directory, actors, each), lambda directory: stock_deposits(directory, actors, 1)
        ),
    )


def _conversations(sessions: int, turns: int) -> Workload:
    line = Line(
        f"durable turns of the runtime, {_of(sessions, 'session')}", "turns/s", "sqlite3", ratio_of_at_least(0.4)
    )

    def ours(directory: Path) -> tuple[float, Written]:
        path = directory / "bench.db"
        rate = at_once(sessions, turns)(Ours, path, "FULL")
        written = Written.guessed_from(path)
        # It holds the sessions' creation, too, which the other side writes as well.
        return written.events / EVENTS_OF_A_TURN / rate, written

    return Workload((line,), Rewritten(ours, events_each=EVENTS_OF_A_TURN))


def by_asking(directory: Path, actors: int, each: int) -> float:
    """Ask all actors at once, and again when all have replied; return the durable replies per second."""
    with open_log(directory / "ours.db") as journal, ActorSystem(journal) as system:
        references = [system.actor(Account, f"{number:06d}") for number in range(actors)]
        for warm in [reference.ask_future(Look()) for reference in references]:
            warm.get()
        begun = time.perf_counter()
        for number in range(each):
            waiting = [reference.ask_future(Deposit(1)) for reference in references]
            must({future.get() for future in waiting} == {number + 1}, "every account has had as many deposits")
        return actors * each / (time.perf_counter() - begun)


def by_actors(directory: Path, actors: int, each: int) -> tuple[float, Written]:
    """Let each actor append events, one at a time; return the seconds and the rows."""
    path = directory / "ours.db"
    commits: list[int] = []
    latch = Latch(actors)
    with open_log(path) as journal, ActorSystem(journal) as system:
        system.register(Busy, lambda context: Busy(context, latch))
        references = [system.actor(Busy, f"{number:06d}") for number in range(actors)]
        for warm in [reference.ask_future(Look()) for reference in references]:
            warm.get()
        journal.watch(commits.append)
        begun = time.perf_counter()
        for reference in references:
            reference.tell(Deposit(1, each - 1))
        latch.wait()
        took = time.perf_counter() - begun
    return took, Written.found_in(path, before=0, commits=commits)


def _without_actors(directory: Path, streams: int, each: int) -> tuple[float, Written]:
    """Append events to each stream, one at a time; return the seconds and the rows."""
    path = directory / "ours.db"
    commits: list[int] = []
    latch = Latch(streams)
    with open_log(path) as journal:
        journal.watch(commits.append)
        begun = time.perf_counter()
        for number in range(streams):
            append_on(journal, f"account/{number:06d}", each, latch)
        latch.wait()
        took = time.perf_counter() - begun
    return took, Written.found_in(path, before=0, commits=commits)


def append_on(journal: StoredJournal, stream: str, last: int, latch: Latch) -> None:
    """Append events to the stream, each once the last one is durable; then count down the latch."""

    def step(after: int) -> Append:
        return Append(stream, after, microseconds(), (Deposited(1),))

    def go_on(outcome: Outcome) -> None:
        must(isinstance(outcome, Committed), "every append is committed")
        version = outcome.version if isinstance(outcome, Committed) else last
        if version < last:
            journal.append(step(version), go_on)
        else:
            latch.count_down()

    journal.append(step(0), go_on)


def _of(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
