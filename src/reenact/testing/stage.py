"""A watched actor system on a private log, which can be restarted, crashed and checked."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from reenact.actors.journal.api import Journal, Recorded
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.opening import open_journal, private_directory
from reenact.actors.journal.verify import verify
from reenact.actors.kernel.context import ActorContext, Key, Reference
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.mailbox import Mailbox
from reenact.actors.kernel.persistent import AnyActor, EventSourcedActor
from reenact.actors.kernel.profile import AnyProfile
from reenact.actors.kernel.system import ActorSystem
from reenact.domain.errors import ConflictError, StorageError, StorageFullError
from reenact.testing.clock import ManualClock
from reenact.testing.faulty_journal import PATIENCE, CrashedError, FaultyJournal, torn_copy
from reenact.testing.portrait import Portrait, ReplayError, differences, finding, portrait
from reenact.testing.watch import IN_PLACE, PURE, Examiner, Note, Watch, examined
from reenact.testing.witness import witness

_EVOLVE_ONLY = (
    "a state comes from evolve and nothing else, once for each event, and evolve depends on nothing but its arguments"
)
_SNAPSHOT = "what to_snapshot returns must hold everything, and come back as snapshot_type or as the state's type"
_EQUAL = "a timer is known by its value: give its command an __eq__, such as that of a frozen dataclass"


def live_is_replayed(actor: AnyActor, history: Sequence[Recorded]) -> Iterator[str]:
    """Check that the log says what the live actor believes."""
    who, kind = actor.context.stream, type(actor)
    believed = [recorded for recorded in history if recorded.version <= actor.version]
    if (believed[-1].version if believed else 0) != actor.version:
        yield finding(f"{who} believes to be at version {actor.version}, and its log has {len(believed)} events")
        return
    try:
        replayed = kind.replay(believed, actor.context.journal)
    except Exception as error:  # noqa: BLE001 - a function of the user's
        yield finding(f"the history of {who} cannot be replayed", [str(error)])
        return
    wrong = differences(portrait(actor.state, "state"), portrait(replayed, "state"), verb="live, replayed")
    if wrong:
        yield finding(f"the live {who} is not what its log says", wrong, _EVOLVE_ONLY)


def snapshot_keeps(actor: AnyActor) -> Iterator[str]:
    """Check that the state comes back from a snapshot as it went in."""
    form = actor.context.profile.snapshots
    if form is None:
        return
    who, state = actor.context.stream, actor.state
    before = portrait(state, "state")
    acts: list[str] = []
    try:
        with witness(acts):
            restored = form.restored(form.taken(who, actor.version, state))
    except Exception as error:  # noqa: BLE001 - a function of the user's
        yield finding(f"no snapshot can be taken of {state!r}", [repr(error)], _SNAPSHOT)
        return
    if restored is None:
        yield finding(f"the snapshot of {state!r} cannot be read again", advice=_SNAPSHOT)
    elif lost := differences(before, portrait(restored[0], "state")):
        yield finding(f"a snapshot of {who} does not keep its state", lost, _SNAPSHOT)
    if acts:
        yield finding("to_snapshot or from_snapshot does more than return", [f"it {act}" for act in acts], PURE)
    if changed := differences(before, portrait(state, "state")):
        yield finding("to_snapshot changes the state that it is given", changed, IN_PLACE)


def snapshot_is_replayed(
    kind: type[AnyActor], profile: AnyProfile, journal: Journal, stream: str, history: Sequence[Recorded]
) -> Iterator[str]:
    """Check that the snapshot in the log, if there is one, is what the events before it add up to."""
    snapshot = journal.snapshot(stream)
    restored = None if snapshot is None or profile.snapshots is None else profile.snapshots.restored(snapshot)
    if snapshot is None or restored is None:
        return
    before = [recorded for recorded in history if recorded.version <= snapshot.version]
    replayed = kind.replay(before, journal)
    wrong = differences(portrait(restored[0], "state"), portrait(replayed, "state"), verb="in the snapshot, replayed")
    if wrong:
        yield finding(f"the snapshot of {stream} at version {snapshot.version} is not what the events say", wrong)


def timers_are_pure(actor: AnyActor) -> Iterator[str]:
    """Check that what the actor waits for is said by its state alone."""
    timers = actor.context.profile.timers
    if timers is None:
        return
    state, shown = actor.state, f"for {actor.state!r}"
    found: list[str] = []
    first = examined("timers", lambda: tuple(timers(state)), {"the state": state}, shown, note=found.append)
    if isinstance(first, Exception):
        raise first
    if not found and first != tuple(timers(state)):
        found.append(finding(f"timers are not equal when they are made again, {shown}", advice=_EQUAL))
    yield from found


def log_is(
    journal: Journal, expected: dict[str, list[object]], acknowledged: Iterable[tuple[str, int, object]]
) -> Iterator[str]:
    """Check that the log holds what became durable, in its order, and what was acknowledged, each exactly once."""
    found: dict[str, list[object]] = {}
    for recorded in journal.read_all(limit=1_000_000_000):
        found.setdefault(recorded.stream, []).append(recorded.event)
    if wrong := differences(portrait(expected, "log"), portrait(found, "log"), verb="was written, read is"):
        yield finding("the log does not hold what was written to it", wrong)
    for stream, version, event in acknowledged:
        history = found.get(stream, [])
        durable = history[version - 1] if version <= len(history) else None
        if lost := differences(
            portrait(event, "event"), portrait(durable, "event"), verb="was acknowledged, recorded is"
        ):
            yield finding(f"version {version} of {stream} is not the event that was acknowledged", lost)


_TURNS = 10
"""After so many turns without a sign of life, whoever is not idle waits for what only the test can bring about."""

_PAUSE = 0.001


class _Turn:
    """Work for a worker that only shows that its turn has come."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.never = threading.Event()

    def run(self) -> None:
        self.over.set()


class SteppedSystem(ActorSystem):
    """One worker, a clock that stands still, and a journal that a test can hold: whatever happens, happens in order."""

    def __init__(self, journal: FaultyJournal, codec: EventCodec, clock: ManualClock) -> None:
        super().__init__(journal, codec=codec, workers=1, clock=clock)
        self._faulty = journal
        self._backing_off: frozenset[str] = frozenset()
        self._backing_off_at = 0

    def _dismiss(self, key: Key) -> PooledFuture[None]:
        """Ask the actor to stop; one that waits for the time to be started again waits no longer."""
        self._backing_off = frozenset()
        return super()._dismiss(key)

    def dismiss(self, key: Key) -> None:
        """Ask the actor to stop, without waiting for it."""
        self._dismiss(key)

    def settle(self) -> None:
        """Wait until every actor is idle, or waits for an append that the journal holds.

        An actor that waits for something else that only the test can bring about (for one that is itself suspended,
        or for the time to be started again) is left alone.

        Raises:
            AssertionError: there is no end of it.
        """
        if self.timetable.elapsed() != self._backing_off_at:
            self._backing_off = frozenset()
        deadline = time.monotonic() + PATIENCE
        signs, still = self._signs(), 0
        while not self._is_quiet():
            turn = _Turn()
            self.pool.submit(turn)
            turn.over.wait(PATIENCE)  # then whatever was waiting for a worker has had its turn, too
            before, signs = signs, self._signs()
            still = still + 1 if signs == before and not self._faulty.under_way else 0
            if still == _TURNS:
                backing_off = self._without_actors()
                if backing_off or self._faulty.held:
                    self._backing_off, self._backing_off_at = backing_off, self.timetable.elapsed()
                    return
            if time.monotonic() > deadline:
                raise AssertionError(f"the actors have not come to rest after {PATIENCE:g} seconds")
            turn.never.wait(_PAUSE * still)

    def _signs(self) -> tuple[int, int]:
        """Return what shows that something has moved."""
        return self._faulty.handed_over, self.live()

    def _is_quiet(self) -> bool:
        """Hold all mailboxes at once: then nobody runs, and what is empty stays empty."""
        with self._lock:
            mailboxes = [(cell.context.stream, cell.mailbox) for cell in self._cells.values()]
            cells = len(mailboxes)
        for actor in self.pool.live():
            inbox: object = getattr(actor, "actor_inbox", None)
            if isinstance(inbox, Mailbox) and not isinstance(actor, EventSourcedActor):
                mailboxes.append(("", inbox))
        suspended = self._backing_off | {step.stream for step in self._faulty.held}
        with ExitStack() as letting_go:
            holding: list[Mailbox] = []
            for stream, mailbox in mailboxes:
                if mailbox.hold():
                    letting_go.callback(mailbox.let_go)
                    holding.append(mailbox)
                elif stream not in suspended:
                    return False
            with self._lock:
                same = cells == len(self._cells)
            return same and not self._faulty.under_way and all(mailbox.empty() for mailbox in holding)

    def _without_actors(self) -> frozenset[str]:
        """Return the streams for which there should be an actor, and is none."""
        live = {actor.context.stream for actor in self.pool.live() if isinstance(actor, EventSourcedActor)}
        with self._lock:
            return frozenset({cell.context.stream for cell in self._cells.values()} - live)


_NAME = "log.db"
_QUESTIONS = 6
"""How many questions are asked again after a restart."""

_REPLY = "a reply says what is durable: take it from the state, or from the events"


_PLANNED = frozenset({CrashedError, StorageFullError, ConflictError, StorageError})
"""What a faulty journal raises when it was told to."""

_kernel_log = logging.getLogger("reenact.kernel")


def _is_unplanned(record: logging.LogRecord) -> bool:
    """Keep failures that were brought about on purpose out of the log."""
    failure = record.exc_info[1] if record.exc_info else getattr(record, "failure", None)
    return type(failure) not in _PLANNED


class _Question(NamedTuple):
    id: str
    command: object
    version: int
    at: int
    looks: Portrait


def check_class(kind: object, what: str) -> None:
    """Refuse what is not a class of event-sourced actors; `what` names where it was given.

    Raises:
        TypeError: it is something else.
    """
    if not (isinstance(kind, type) and issubclass(kind, EventSourcedActor)):
        raise TypeError(f"{what} must be a subclass of EventSourcedActor, not {kind!r:.100}")


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
        self._expected: dict[str, list[object]] = {}
        self._crashes = 0
        self._questions: deque[_Question] = deque(maxlen=_QUESTIONS)
        with ExitStack() as undo:
            _kernel_log.addFilter(_is_unplanned)
            undo.callback(_kernel_log.removeFilter, _is_unplanned)
            self._directory = private_directory(undo)
            self._open(self._directory / _NAME)
            self._undo = undo.pop_all()

    def reference(self, id: str) -> Reference[object]:  # noqa: A002 - the word users know it by
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

    def remember(self, id: str, command: object, reply: object, version: int) -> None:  # noqa: A002 - likewise
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

    def overtake(self, id: str, command: object) -> None:  # noqa: A002 - likewise
        """Have another writer decide on the command and record what follows, while nobody of ours looks."""
        stream = self._class.stream(id)
        examiner = self.examiner(self.watch.note)
        try:
            history = self.journal.read(stream)
            if history:
                state = self._class.replay(history, self.journal)
            else:
                state = self._profile.folding.state_before(self.journal, stream, command)
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

    def _written(self) -> dict[str, list[object]]:
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
