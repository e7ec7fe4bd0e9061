"""A log in a private directory and a watched system on it, to be restarted, crashed, and asked whether all is well."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.opening import open_journal, private_directory
from reenact.actors.journal.verify import verify
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.lineage import state_before
from reenact.actors.kernel.reference import Reference
from reenact.domain.errors import ConflictError, StorageError, StorageFullError
from reenact.testing.checks import live_is_replayed, log_is, snapshot_is_replayed, snapshot_keeps, timers_are_pure
from reenact.testing.clock import ManualClock
from reenact.testing.examiner import Examiner, Note
from reenact.testing.faulty_journal import PATIENCE, CrashedError, FaultyJournal
from reenact.testing.findings import ReplayError, finding
from reenact.testing.portrait import Portrait, differences, portrait
from reenact.testing.stepped import SteppedSystem
from reenact.testing.torn import torn_copy
from reenact.testing.watch import AnyActor, Watch

_NAME: Final = "log.db"
_QUESTIONS: Final = 6
"""How many questions are asked again after a restart."""

_REPLY: Final = "a reply says what is durable: take it from the state, or from the events"


_PLANNED: Final = frozenset({CrashedError, StorageFullError, ConflictError, StorageError})
"""What a faulty journal raises when it was told to."""

_kernel_log: Final = logging.getLogger("reenact.kernel")


def _is_unplanned(record: logging.LogRecord) -> bool:
    """Keep failures that were brought about on purpose out of the log."""
    return not (record.exc_info and record.exc_info[0] in _PLANNED)


class _Question(NamedTuple):
    id: str
    command: Any
    version: int
    at: int
    looks: Portrait


class Stage:
    """Where one class of actors lives, and what it lives in: `journal`, `system`, `clock`.

    `snapshot_every` has snapshots taken more often than the class says, if it has them taken at all.
    """

    def __init__(
        self,
        actor_class: type[AnyActor],
        factory: Callable[[ActorContext], AnyActor],
        *,
        clock: ManualClock,
        effects: Callable[[], object] | None = None,
        snapshot_every: int | None = None,
    ) -> None:
        self.watch = Watch(effects)
        self.clock = clock
        self._class = actor_class
        self._factory = factory
        self._every = snapshot_every
        self._profile = actor_class.profile()
        self._expected: dict[str, list[Any]] = {}
        self._crashes = 0
        self._questions: deque[_Question] = deque(maxlen=_QUESTIONS)
        with ExitStack() as undo:
            _kernel_log.addFilter(_is_unplanned)
            undo.callback(_kernel_log.removeFilter, _is_unplanned)
            self._directory = private_directory(undo)
            self._open(self._directory / _NAME)
            self._undo = undo.pop_all()

    def reference(self, id: str) -> Reference[Any]:  # noqa: A002 - the word users know it by
        """Return a reference to the actor."""
        return self.system.actor(self._class, id)

    def live(self, id: str) -> AnyActor | None:  # noqa: A002 - likewise
        """Return the actor, if it is in memory."""
        stream = self._class.stream(id)
        return next((actor for actor in self.watch.live() if actor.context.stream == stream), None)

    def version(self, id: str) -> int:  # noqa: A002 - likewise
        """Return the version of the actor's stream."""
        history = self.journal.read(self._class.stream(id))
        return history[-1].version if history else 0

    def remember(self, id: str, command: Any, reply: Any, version: int) -> None:  # noqa: A002, ANN401 - likewise
        """Take note of a reply to a command that was sent at this version of the stream."""
        live = self.live(id)
        if live is None or not version == live.version == self.version(id):
            return  # it was no mere question, or the actor has not seen yet what somebody else has recorded
        if any(
            step.remembered and (step.stream, step.after) == (live.context.stream, version)
            for step in self.journal.written
        ):
            return  # it was, or may have been, a request that is carried out once
        looks = portrait(reply, "the reply")
        if not any(" at 0x" in part for part in looks.values()):  # that is another one next time, and may be
            self._questions.append(_Question(id, command, version, self.clock(), looks))

    def ask_again(self) -> None:
        """Ask again what was asked lately and recorded nothing: the answer depends on the log, so it is the same.

        Raises:
            ReplayError: it is not.
        """
        questions, self._questions = list(self._questions), deque(maxlen=_QUESTIONS)
        for asked in questions:
            if asked.version != self.version(asked.id) or asked.at != self.clock():
                continue
            reply = self.reference(asked.id).ask(asked.command, timeout=PATIENCE)
            wrong = differences(asked.looks, portrait(reply, "the reply"), verb="before the restart, after it")
            if wrong:
                what = f"{self._class.stream(asked.id)} answers {asked.command!r} differently after a restart"
                raise ReplayError([finding(what, wrong, _REPLY)])

    def overtake(self, id: str, command: Any) -> None:  # noqa: A002, ANN401 - likewise
        """Have another writer decide on the command and record what follows, while nobody of ours looks."""
        stream = self._class.stream(id)
        examiner = self.examiner(self.watch.note)
        try:
            history = self.journal.read(stream)
            if history:
                state = self._class.replay(history, self.journal)
            else:
                state = state_before(self._class.folding(), self.journal, stream, command)
            events = examiner.decide(state, command)
            reduce(examiner.evolve, events, state)
        except Exception:  # noqa: BLE001 - refused, or not to be decided without the actor, or noted
            return
        if events:
            self.journal.overtake(stream, *events)

    def examiner(self, note: Note) -> Examiner:
        """Return what calls the functions of the class and notes what is wrong with them."""
        return Examiner(
            decide=self._class.decide,
            evolve=self._class.evolve,
            codec=EventCodec(self._profile.forms),
            world=self.watch.effects,
            note=note,
        )

    def restart(self) -> None:
        """End the system in good order, and begin again with the same log."""
        self.journal.calm()
        self.system.close()
        self._close_journal()
        self._open(self._path)

    def crash(self) -> None:
        """End the system in the middle of what it does, and begin again with what a crash leaves of the log."""
        self.journal.crash()
        self.system.close()
        self.journal.wait_until_settled()
        self._crashes += 1
        left = torn_copy(self._path, self._directory / f"crash-{self._crashes}")
        self._close_journal()
        self._open(left)

    def check(self) -> None:
        """Check everything, once the system has come to rest.

        Raises:
            ReplayError: something is not as it should be.
        """
        found = [*self.watch.findings(), *self._problems()]
        if found:
            raise ReplayError(found)

    def verify(self) -> None:
        """Check the chain of the log, too.

        Raises:
            ReplayError: something is not as it should be.
        """
        self.check()
        broken = [f"{one.kind} {one.name} at {one.at}: {one.problem}" for one in verify(self._path)]
        if broken:
            raise ReplayError([finding("the log is damaged", broken)])

    def close(self) -> None:
        """End the system, and remove the log. Idempotent."""
        with self._undo:
            self.journal.calm()
            self.system.close()
            self.journal.close()

    def _open(self, path: Path) -> None:
        codec = EventCodec(())
        self._path = path
        self.journal = FaultyJournal(open_journal(path, codec, synchronous="OFF"))
        self.system = SteppedSystem(self.journal, codec, self.clock)
        self.system.register(self._class, self._made)

    def _made(self, context: ActorContext) -> AnyActor:
        actor = self._factory(context)
        form = context.profile.snapshots
        if form is not None and self._every is not None:
            form.every = min(form.every, self._every)
        return self.watch.attach(actor, self.journal)

    def _close_journal(self) -> None:
        self.journal.close()
        self._expected = self._written()

    def _written(self) -> dict[str, list[Any]]:
        """Return what must stand in the log: all that became durable, since the beginning."""
        expected = {stream: list(events) for stream, events in self._expected.items()}
        for step in self.journal.written:
            if step.events:
                expected.setdefault(step.stream, []).extend(step.events)
        return expected

    def _problems(self) -> Iterator[str]:
        for actor in self.watch.live():
            history = self.journal.read(actor.context.stream)
            yield from live_is_replayed(actor, history)
            yield from snapshot_keeps(actor)
            yield from timers_are_pure(actor)
        for snapshot in self.journal.snapshots():
            history = self.journal.read(snapshot.stream)
            yield from snapshot_is_replayed(self._class, self._profile, self.journal, snapshot.stream, history)
        yield from log_is(self.journal, self._written(), self.watch.acknowledged())
