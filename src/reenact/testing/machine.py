"""A Hypothesis state machine that sends actors commands, causes faults around them, and checks for losses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from typing import Any, ClassVar, NamedTuple

from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.persistent import AnyActor
from reenact.domain.errors import MailboxFullError, ReenactError, StorageError, StorageFullError, needing_extra
from reenact.testing.clock import ManualClock
from reenact.testing.stage import Stage, check_class

with needing_extra("testing", "ReplayMachine"):
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


def _commands(machine: ReplayMachine) -> st.SearchStrategy[object]:
    return machine.commands


def _ids(machine: ReplayMachine) -> st.SearchStrategy[str]:
    return st.sampled_from(tuple(machine.ids))


def _pauses(machine: ReplayMachine) -> st.SearchStrategy[float]:
    return machine.pauses


# The subclass's strategies are known only when its machine runs.
_some_command: st.SearchStrategy[object] = st.runner().flatmap(_commands)
_some_id: st.SearchStrategy[str] = st.runner().flatmap(_ids)
_some_time: st.SearchStrategy[float] = st.runner().flatmap(_pauses)


class ReplayMachine(RuleBasedStateMachine):
    """A state machine for an actor: subclass it, and run its `TestCase`.

        class AccountMachine(ReplayMachine):
            actor = Account
            commands = st.builds(Deposit, st.integers(1, 5)) | st.builds(Withdraw, st.integers(1, 9))

        TestAccount = AccountMachine.TestCase

    Actors are asked and told commands in any order, passivated, restarted and crashed, even between a commit and its
    report; the journal is slow, full, broken, or overtaken by another writer; snapshots are taken and deleted, and time
    passes. After each step, every actor is checked as by `EventSourcedTestKit`, and the log is checked to hold what was
    written to it and what was acknowledged, in order, each exactly once. The hash chain of the log is verified after
    each restart and at the end. The machine itself has no randomness: a failure that Hypothesis finds is reproducible.
    """

    actor: ClassVar[type[AnyActor]]
    """The class of the actors."""

    commands: ClassVar[st.SearchStrategy[object]]
    """The commands that are sent to them."""

    ids: ClassVar[Sequence[str]] = ("a", "b")
    """Their ids: few, so that commands meet."""

    pauses: ClassVar[st.SearchStrategy[float]] = st.sampled_from((0.0, 0.5, 1.0, 60.0, 3600.0, 86400.0))
    """How long to let time pass, in seconds: include what your timers wait for."""

    snapshot_every: ClassVar[int] = 2
    """How often snapshots are taken, if the actor has snapshots; few examples reach a version of 100."""

    def __init__(self) -> None:
        super().__init__()
        self._check_declared()
        # An `evolve` that mutates its state may have changed the class's: each example begins with a copy of the
        # original.
        type(self).actor.initial = _copy(_initial(type(self)))  # pyright: ignore[reportGeneralTypeIssues] - its own type's
        self.clock = ManualClock()
        self.stage = Stage(
            type(self).actor, self.make, clock=self.clock, effects=self.effects, snapshot_every=self.snapshot_every
        )
        self._asked: list[_Asked] = []
        self._failed = False

    def make(self, context: ActorContext) -> AnyActor:
        """Return a new actor; override it if the class alone does not make one."""
        return type(self).actor(context)

    def effects(self) -> object:
        """Return a value that shows the effects so far, such as a list of sent mails; by default there is none."""
        return None

    def answered(self, id: str, command: Any, reply: Any) -> None:  # noqa: A002, ANN401 - an override names the types
        """Called with each reply; override it to check replies against a simpler model of the actor."""

    def teardown(self) -> None:
        """Check everything for the last time, and clean up."""
        try:
            if not self._failed:
                self.stage.journal.calm()
                self.all_is_well()
                self.stage.verify()
        finally:
            self.stage.close()

    @invariant()
    def all_is_well(self) -> None:
        """Check everything, after the consequences of the last step have settled."""
        self._failed = True
        self.stage.system.settle()
        if self.stage.journal.crashed:
            self._crash()
        self.stage.check()
        self._collect_replies()
        self._failed = False

    # Commands.

    @rule(id=_some_id, command=_some_command)
    def ask(self, id: str, command: object) -> None:  # noqa: A002 - the words users know them by
        """Ask an actor."""
        self._ask(id, command)

    @rule(id=_some_id, some_commands=st.lists(_some_command, min_size=2, max_size=4))
    def ask_at_once(self, id: str, some_commands: list[object]) -> None:  # noqa: A002 - likewise
        """Ask an actor several commands without waiting for an answer."""
        for command in some_commands:
            self._ask(id, command)

    @rule(id=_some_id, command=_some_command)
    def tell(self, id: str, command: object) -> None:  # noqa: A002 - likewise
        """Tell an actor a command."""
        with suppress(MailboxFullError):
            self.stage.reference(id).tell(command)

    @precondition(lambda self: not self.stage.journal.planned)
    @rule(id=_some_id, command=_some_command, after=st.booleans())
    def ask_before_a_crash(self, id: str, command: object, after: bool) -> None:  # noqa: A002, FBT001 - likewise
        """Ask an actor, and crash at the next append: before it is written, or after that and before it is reported."""
        if after:
            self.stage.journal.crash_after_next_append()
        else:
            self.stage.journal.crash_before_next_append()
        self._ask(id, command)

    @precondition(lambda self: not self.stage.journal.planned)
    @rule(id=_some_id, command=_some_command, fault=st.sampled_from(("broken", "full", "conflict")))
    def ask_before_a_fault(self, id: str, command: object, fault: str) -> None:  # noqa: A002 - likewise
        """Ask an actor, and let the next append fail."""
        match fault:
            case "broken":
                self.stage.journal.fail_next(StorageError("the journal was told to fail"))
            case "full":
                self.stage.journal.fail_next(StorageFullError("the journal was told to be full"))
            case _:
                self.stage.journal.conflict_next()
        self._ask(id, command)

    @rule(id=_some_id, some_commands=st.lists(_some_command, min_size=1, max_size=3))
    def ask_while_disk_is_full(self, id: str, some_commands: list[object]) -> None:  # noqa: A002 - likewise
        """Ask an actor several commands while nothing can be recorded."""
        self.stage.journal.disk_full()
        for command in some_commands:
            self._ask(id, command)
        self.stage.system.settle()
        self.stage.journal.space_again()

    @rule(id=_some_id, other=_some_command, command=_some_command)
    def ask_when_overtaken(self, id: str, other: object, command: object) -> None:  # noqa: A002 - likewise
        """Let another writer decide on a command and record its events, then ask the actor, which has not seen them."""
        self.stage.overtake(id, other)
        self._ask(id, command)

    # Stopping and starting.

    @rule(id=_some_id)
    def passivate(self, id: str) -> None:  # noqa: A002 - likewise
        """Passivate an actor."""
        self.stage.system.dismiss((type(self).actor, id))

    @rule()
    def restart(self) -> None:
        """Close the system properly, and start it again."""
        self.stage.restart()
        self.stage.ask_again()

    @rule()
    def crash(self) -> None:
        """Crash the system, and start it again."""
        self._crash()

    # The journal and the clock.

    @rule()
    def hold(self) -> None:
        """Let the journal be slow: nothing becomes durable until it is released."""
        self.stage.journal.hold()

    @precondition(lambda self: bool(self.stage.journal.held))
    @rule()
    def commit(self) -> None:
        """Release the oldest held append."""
        self.stage.journal.release(1)

    @precondition(lambda self: self.stage.journal.holds)
    @rule()
    def release(self) -> None:
        """Let the journal be fast again."""
        self.stage.journal.release()

    @rule()
    def delete_snapshots(self) -> None:
        """Delete all snapshots."""
        self.stage.journal.delete_snapshots()

    @rule(seconds=_some_time)
    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.clock.advance(seconds)

    def _check_declared(self) -> None:
        name = type(self).__name__
        check_class(getattr(type(self), "actor", None), f"{name}.actor")
        commands: object = getattr(self, "commands", None)
        if not isinstance(commands, st.SearchStrategy):
            raise TypeError(
                f"{name}.commands must be a strategy of Hypothesis, such as st.integers(), not {commands!r}"
            )

    def _ask(self, id: str, command: object) -> None:  # noqa: A002 - likewise
        version = self.stage.version(id)
        with suppress(MailboxFullError):
            self._asked.append(_Asked(id, command, version, self.stage.reference(id).ask_future(command)))

    def _collect_replies(self) -> None:
        """Take the answers that have arrived; those to mere questions are stored, to be asked again."""
        waiting: list[_Asked] = []
        for asked in self._asked:
            if not asked.future.done():
                waiting.append(asked)
                continue
            try:
                reply = asked.future.get()
            except ReenactError:
                continue
            self.answered(asked.id, asked.command, reply)
            self.stage.remember(asked.id, asked.command, reply, asked.version)
        self._asked = waiting

    def _crash(self) -> None:
        self.stage.crash()
        self.stage.system.settle()


@cache
def _initial(machine: type[ReplayMachine]) -> object:
    return _copy(machine.actor.initial)  # pyright: ignore[reportGeneralTypeIssues] - as above


def _copy(value: object) -> object:
    """Return a copy, or the value itself if it cannot be copied, such as one that holds a `MappingProxyType`."""
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a `__deepcopy__` may raise anything; the checks detect mutation
        return value


class _Asked(NamedTuple):
    id: str
    command: object
    version: int
    future: PooledFuture[object]
