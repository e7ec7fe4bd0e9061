"""Folds streams into states, including streams that continue the history of another stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from reenact.actors.journal.api import Chain, Journal, Recorded
from reenact.actors.kernel.supervision import shown
from reenact.domain.errors import LogUnusableError

State = TypeVar("State")
Command = TypeVar("Command")
Event = TypeVar("Event")


class Origin(msgspec.Struct, frozen=True):
    """The history that a stream continues: that of the actor with this id, up to this version of its stream.

    `digest` is the digest of the record at this version, in hexadecimal digits.
    """

    id: str
    version: int
    digest: str


class Folding(msgspec.Struct, Generic[State, Command, Event], frozen=True, eq=False):
    """The stream names of an actor class, and the functions that compute its states."""

    stream: Callable[[str], str]
    initial: State
    evolve: Callable[[State, Event], State]
    origin: Callable[[Command | Event], Origin | None] | None

    def state_before(
        self, journal: Journal | Chain, stream: str, first: Command | Event, position: int | None = None
    ) -> State:
        """Return the state before the first command, or the first event, of a stream.

        It is the initial state, unless the stream continues the history of another one, which may itself continue that
        of a third. `position` is the event's position in the log, if it is recorded: the history must come before it.

        Raises:
            LogUnusableError: the history that the stream continues is missing from the log, or has changed; the error
                names it.
            TypeError: the journal keeps no hash chain.
        """
        shared: list[list[Recorded]] = []
        origin_of = self.origin
        origin = None if origin_of is None else origin_of(first)
        while origin is not None and origin_of is not None:
            history = _history(journal, stream, self.stream(origin.id), origin, position)
            shared.append(history)
            stream, position = history[0].stream, history[0].position
            origin = origin_of(history[0].event)
        state = self.initial
        while shared:
            state = fold(self.evolve, state, shared.pop())
        return state

    def replay(self, history: Sequence[Recorded], journal: Journal | None) -> State:
        """Return the state after the given events, from the stream's first one on; raises as `state_before` does."""
        state = self.initial
        if history and journal is not None and self.origin is not None:
            first = history[0]
            state = self.state_before(journal, first.stream, first.event, first.position)
        return fold(self.evolve, state, history)


def fold(evolve: Callable[[State, Event], State], state: State, history: Iterable[Recorded]) -> State:
    """Return the state after the events.

    Raises:
        LogUnusableError: `evolve` raises; the error names the position.
    """
    for recorded in history:
        try:
            state = evolve(state, recorded.event)
        except Exception as error:
            raise LogUnusableError(
                f"stream {recorded.stream!r} cannot be replayed: version {recorded.version} at position "
                f"{recorded.position} ({type(recorded.event).__name__}) raised {shown(error)}"
            ) from error
    return state


def _history(
    journal: Journal | Chain, branch: str, stream: str, origin: Origin, position: int | None
) -> list[Recorded]:
    if not isinstance(journal, Chain):
        raise TypeError(
            f"{type(journal).__name__} keeps no chain, so that no stream can branch off; see ChainedJournal"
        )
    where = f"stream {branch!r} branches off from {stream!r} at version {origin.version}"
    link = journal.link(stream, origin.version)
    if link is None or (position is not None and link.position >= position):
        raise LogUnusableError(f"{where}, which is not there; verify the log")
    if link.digest.hex() != origin.digest:
        raise LogUnusableError(f"{where}, which is not what it was when the branch began; verify the log")
    history = journal.read_until(stream, origin.version)
    first, last = (history[0].version, history[-1].version) if history else (1, 0)
    # A stream that another library has written may start at 0.
    if last != origin.version or first > 1 or last - first + 1 != len(history):
        raise LogUnusableError(f"{where}, and {stream!r} has holes before it; verify the log")
    return history
