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
from typing import NamedTuple, TypeAlias

from reenact.actors.journal.api import Append, Journal, Recorded
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

Versions: TypeAlias = dict[str, dict[int, object]]
"""The events of streams by their versions."""

_EVOLVE_ONLY = (
    "a state comes from evolve and nothing else, once for each event, and evolve depends on nothing but its arguments"
)
_SNAPSHOT = "what to_snapshot returns must hold everything, and come back as snapshot_type or as the state's type"
_EQUAL = "a timer is known by its value: give its command an __eq__, such as that of a frozen dataclass"


def live_is_replayed(actor: AnyActor, history: Sequence[Recorded]) -> Iterator[str]:
    """Check that the state of a live actor is the one that its log gives."""
    who, kind = actor.context.stream, type(actor)
    believed = [recorded for recorded in history if recorded.version <= actor.version]
    if (believed[-1].version if believed else 0) != actor.version:
        yield finding(f"{who} believes to be at version {actor.version}, and its log has {len(believed)} events")
        return
    try:
        replayed = kind.replay(believed, actor.context.journal)
    except Exception as error:  # noqa: BLE001 - it is the user's function
        yield finding(f"the history of {who} cannot be replayed", [str(error)])
        return
    wrong = differences(portrait(actor.state, "state"), portrait(replayed, "state"), verb="live, replayed")
    if wrong:
        yield finding(f"the live {who} is not what its log says", wrong, _EVOLVE_ONLY)


def snapshot_keeps(actor: AnyActor) -> Iterator[str]:
    """Check that a snapshot preserves the state."""
    form = actor.context.profile.snapshots
    if form is None:
        return
    who, state = actor.context.stream, actor.state
    before = portrait(state, "state")
    acts: list[str] = []
    try:
        with witness(acts):
            restored = form.restored(form.taken(who, actor.version, state))
    except Exception as error:  # noqa: BLE001 - it is the user's function
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
    """Check that the snapshot in the log, if there is one, is the result of the events before it."""
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
    """Check that the actor's timers depend on its state alone."""
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


class LogCheck:
    """Compares the log with what was written to it and with what was acknowledged: each time what is new."""

    def __init__(self, journal: FaultyJournal, before: Versions) -> None:
        """Set the journal, and the events that were written to the log before it was opened."""
        self._journal = journal
        self._unread = before
        self._recorded: Versions = {}
        self._position = self._steps = self._acts = 0

    def problems(self, acknowledged: Sequence[tuple[str, int, object]]) -> Iterator[str]:
        """Check that the log holds what became durable, in order, and what was acknowledged, each exactly once."""
        steps = self._journal.written
        written = written_by(steps[self._steps :], self._unread)
        found: Versions = {}
        read = self._journal.read_all(after=self._position, limit=1_000_000_000)
        for recorded in read:
            for events in (found, self._recorded):
                events.setdefault(recorded.stream, {})[recorded.version] = recorded.event
        if wrong := differences(portrait(written, "log"), portrait(found, "log"), verb="was written, read is"):
            yield finding("the log does not hold what was written to it", wrong)
            return
        for stream, version, event in acknowledged[self._acts :]:
            durable = self._recorded.get(stream, {}).get(version)
            if lost := differences(
                portrait(event, "event"), portrait(durable, "event"), verb="was acknowledged, recorded is"
            ):
                yield finding(f"version {version} of {stream} is not the event that was acknowledged", lost)
                return
        self._unread, self._steps, self._acts = {}, len(steps), len(acknowledged)
        self._position = read[-1].position if read else self._position


def written_by(steps: Iterable[Append], before: Versions) -> Versions:
    """Return the events of the steps behind those that were written before."""
    written = {stream: dict(events) for stream, events in before.items()}
    for step in steps:
        if step.events and step.after is not None:
            written.setdefault(step.stream, {}).update(enumerate(step.events, step.after + 1))
    return written


_TURNS = 10
"""After this many turns without progress, actors that are not idle are taken to wait for an action of the test."""

_PAUSE = 0.001


class _Turn:
    """Work for a worker thread that only signals that its turn has come."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.never = threading.Event()

    def run(self) -> None:
        self.over.set()


class SteppedSystem(ActorSystem):
    """A system with one worker thread, a manual clock and a journal that can be held, so all happens in order."""

    def __init__(self, journal: FaultyJournal, codec: EventCodec, clock: ManualClock) -> None:
        super().__init__(journal, codec=codec, workers=1, clock=clock)
        self._faulty = journal
        self._backing_off: frozenset[str] = frozenset()
        self._backing_off_at = 0

    def _ask_to_stop(self, key: Key) -> PooledFuture[None]:
        """Ask the actor to stop; one that waits to be restarted waits no longer."""
        self._backing_off = frozenset()
        return super()._ask_to_stop(key)

    def dismiss(self, key: Key) -> None:
        """Ask the actor to stop, without waiting for it."""
        self._ask_to_stop(key)

    def settle(self) -> None:
        """Wait until every actor is idle, or waits for an append that the journal holds.

        An actor that waits for another action of the test (for an actor that is itself suspended, or for the time of
        its restart) is left alone.

        Raises:
            AssertionError: the actors do not settle.
        """
        if self.timetable.elapsed() != self._backing_off_at:
            self._backing_off = frozenset()
        deadline = time.monotonic() + PATIENCE
        signs, still = self._signs(), 0
        while not self._is_quiet():
            turn = _Turn()
            self.pool.submit(turn)
            turn.over.wait(PATIENCE)  # all work that was queued before has had its turn
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
        """Return values that change when there is progress."""
        return self._faulty.handed_over, self.live()

    def _is_quiet(self) -> bool:
        """Return whether all mailboxes are idle; it holds them all at once, so that no actor runs meanwhile."""
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
        """Return the streams that should have an actor, and have none."""
        live = {actor.context.stream for actor in self.pool.live() if isinstance(actor, EventSourcedActor)}
        with self._lock:
            return frozenset({cell.context.stream for cell in self._cells.values()} - live)


_NAME = "log.db"
_QUESTIONS = 6
"""How many questions are asked again after a restart."""

_REPLY = "a reply says what is durable: take it from the state, or from the events"


_PLANNED = frozenset({CrashedError, StorageFullError, ConflictError, StorageError})
"""The exceptions of a faulty journal that was told to fail."""

_kernel_log = logging.getLogger("reenact.kernel")


def _is_unplanned(record: logging.LogRecord) -> bool:
    """Return whether a log record is about something else than an intended failure."""
    failure = record.exc_info[1] if record.exc_info else getattr(record, "failure", None)
    return type(failure) not in _PLANNED


class _Question(NamedTuple):
    id: str
    command: object
    version: int
    at: int
    looks: Portrait


def check_class(kind: object, what: str) -> type[AnyActor]:
    """Return the class if it is one of event-sourced actors; `what` names the argument in the message.

    Raises:
        TypeError: it is something else.
    """
    if not (isinstance(kind, type) and issubclass(kind, EventSourcedActor)):
        raise TypeError(f"{what} must be a subclass of EventSourcedActor, not {kind!r:.100}")
    return kind  # pyright: ignore[reportUnknownVariableType]  # of any state, command and event


class Stage:
    """The environment of one class of actors: its `journal`, `system` and `clock`.

    With `snapshot_every`, snapshots are taken more often than the class says, if it has snapshots.
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
        self._before: Versions = {}
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
        """Store a reply to a command that was sent at this version of the stream, to ask it again later."""
        live = self.live(id)
        if live is None or not version == live.version == self.version(id):
            return  # it recorded something, or the actor has not seen the latest events yet
        if any(
            step.remembered and (step.stream, step.after) == (live.context.stream, version)
            for step in self.journal.written
        ):
            return  # it was, or may have been, a request that is carried out only once
        looks = portrait(reply, "the reply")
        if not any(" at 0x" in part for part in looks.values()):  # an address differs each time
            self._questions.append(_Question(id, command, version, self.clock(), looks))

    def ask_again(self) -> None:
        """Ask the latest questions again, which recorded nothing: the answers depend on the log, so they are the same.

        Raises:
            ReplayError: an answer differs.
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
        """Let another writer decide on the command and record its events, unseen by the actor."""
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
        except Exception:  # noqa: BLE001 - refused, or not decidable without the actor, or noted
            return
        if events:
            self.journal.overtake(stream, *events)

    def examiner(self, note: Note) -> Examiner:
        """Return an examiner, which calls the functions of the class and notes what is wrong with them."""
        return Examiner(
            decide=self._class.decide,
            evolve=self._class.evolve,
            codec=EventCodec(self._profile.forms),
            world=self.watch.effects,
            note=note,
        )

    def restart(self) -> None:
        """Close the system properly, and start it again on the same log."""
        self.journal.calm()
        self.system.close()
        self._close_journal()
        self._open(self._path)

    def crash(self) -> None:
        """Crash the system, and start it again on what a crash leaves of the log."""
        self.journal.crash()
        self.system.close()
        self.journal.wait_until_settled()
        self._crashes += 1
        left = torn_copy(self._path, self._directory / f"crash-{self._crashes}")
        self._close_journal()
        self._open(left)

    def check(self) -> None:
        """Check everything, after the system has settled; of the log, what is new since the last time.

        Raises:
            ReplayError: something is wrong.
        """
        found = [*self.watch.findings(), *self._problems()]
        if found:
            raise ReplayError(found)

    def verify(self) -> None:
        """Check everything, with all of the log and its hash chain.

        Raises:
            ReplayError: something is wrong.
        """
        self._log_check = LogCheck(self.journal, self._before)
        self.check()
        broken = [f"{one.kind} {one.name} at {one.at}: {one.problem}" for one in verify(self._path)]
        if broken:
            raise ReplayError([finding("the log is damaged", broken)])

    def close(self) -> None:
        """Close the system, and delete the log. Idempotent."""
        with self._undo:
            self.journal.calm()
            self.system.close()
            self.journal.close()

    def _open(self, path: Path) -> None:
        codec = EventCodec(())
        self._path = path
        self.journal = FaultyJournal(open_journal(path, codec, synchronous="OFF"))
        self._log_check = LogCheck(self.journal, self._before)
        self.system = SteppedSystem(self.journal, codec, self.clock)
        self.system.register(self._class, self._made)

    def _made(self, context: ActorContext) -> AnyActor:
        actor = self._factory(context)
        if not isinstance(actor, self._class):
            return actor  # which the kernel refuses
        form = context.profile.snapshots
        if form is not None and self._every is not None:
            form.every = min(form.every, self._every)
        return self.watch.attach(actor, self.journal)

    def _close_journal(self) -> None:
        self.journal.close()
        self._before = written_by(self.journal.written, self._before)

    def _problems(self) -> Iterator[str]:
        for actor in self.watch.live():
            history = self.journal.read(actor.context.stream)
            yield from live_is_replayed(actor, history)
            yield from snapshot_keeps(actor)
            yield from timers_are_pure(actor)
        for snapshot in self.journal.snapshots():
            history = self.journal.read(snapshot.stream)
            yield from snapshot_is_replayed(self._class, self._profile, self.journal, snapshot.stream, history)
        yield from self._log_check.problems(self.watch.acknowledged())
