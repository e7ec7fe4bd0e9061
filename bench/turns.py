"""A conversation's turn as a step of an event-sourced actor: two events, and the deltas in the feed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.measure import must
from bench.workload import deltas, question
from bench.written import Written
from reenact.actors.journal.api import Entry, Segment
from reenact.actors.journal.codec import Event, EventCodec, StoredForm
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel import ActorSystem, EventSourcedActor

_CONTEXT: Final = {"session": "bench"}


class Asked(Event, frozen=True):
    """A question was asked."""

    text: str


class Answered(Event, frozen=True):
    """The question was answered."""

    text: str


class Take(msgspec.Struct, frozen=True):
    """Answer the question in these deltas."""

    question: str
    deltas: tuple[str, ...]


def take(number: int) -> Take:
    """Return the turn with this number: a question of 120 characters, answered in 20 deltas of 24."""
    return Take(question(number), tuple(deltas(number)))


def decide(_turns: int, command: Take) -> tuple[Asked | Answered, ...]:
    """Return the question and the answer as events."""
    return Asked(command.question), Answered("".join(command.deltas))


def evolve(turns: int, event: Asked | Answered) -> int:
    """Count the turns."""
    return turns + isinstance(event, Answered)


class Talk(EventSourcedActor[int, Take, Asked | Answered]):
    """A conversation; the reply is the number of its turns."""

    category = "talk"
    initial = 0
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)

    def announce(
        self, command: Take, before: int, events: Sequence[Asked | Answered], after: int, recorded_at: int
    ) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        said = tuple(Entry("delta", recorded_at, delta) for delta in command.deltas)
        return (Segment(_CONTEXT, said),), ()

    def reply(self, command: Take, events: Sequence[Asked | Answered]) -> int:
        return self.state


def run_turns(directory: Path, actors: int, turns: int) -> tuple[float, Written]:
    """Run the turns of each actor, all actors at once; return the seconds and the rows."""
    path = directory / "ours.db"
    codec = EventCodec([StoredForm("asked", Asked), StoredForm("answered", Answered)])
    takes = [take(number) for number in range(turns)]
    commits: list[int] = []
    with SqliteJournal.open(path, codec) as journal, ActorSystem(journal) as system:
        references = [system.actor(Talk, f"{number:06d}") for number in range(actors)]
        for warm in [reference.ask_future(take(0)) for reference in references]:
            warm.get()
        before = journal.head()
        journal.watch(commits.append)
        begun = time.perf_counter()
        for one in takes:
            waiting = [reference.ask_future(one) for reference in references]
            must(len({future.get() for future in waiting}) == 1, "every actor has had as many turns")
        took = time.perf_counter() - begun
    return took, Written.found_in(path, before=before, commits=commits)
