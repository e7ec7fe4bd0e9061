"""Event-sourced actors: each step is made durable before the state changes, and no thread waits meanwhile."""

# Modules of the kernel call each other's private methods: the public names of an actor belong to the user.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Generic, TypeAlias

import pykka

from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.declared import Declared, is_sequence
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.handing_off import HandingOff
from reenact.actors.kernel.lineage import Command, Event, State
from reenact.actors.kernel.mailbox import (
    DUE,
    PASSIVATE,
    SIGNALS,
    ChildFailed,
    Drop,
    Due,
    Envelope,
    Escalated,
    HandOff,
    Passivate,
)
from reenact.actors.kernel.pooled import SLICE
from reenact.actors.kernel.recovery import recover
from reenact.actors.kernel.step import RETRIES, Postponed, Step, events_of, step_of
from reenact.actors.kernel.supervision import shown
from reenact.actors.kernel.timers import First, Own, Waiting, earliest
from reenact.domain.errors import (
    ConflictError,
    ReenactError,
    RequestReusedError,
    ShardMovedError,
    StorageError,
    UnstorableError,
)

_log = logging.getLogger("reenact.kernel")


class EventSourcedActor(Declared[State, Command, Event]):
    """An actor that records the events of a command before it changes its state, acts or replies.

    A subclass declares `events`, `initial`, `decide` and `evolve`, and overrides the hooks it needs. Hooks run one at a
    time, on a worker, and must not block for long. An `ActorSystem` starts the actor; a `Reference` sends it commands.
    """

    # The thread that holds the mailbox runs the actor: a worker, or the thread that asks. While the journal writes a
    # step, no thread runs the actor and the mailbox stays held, so that no other message is handled in between;
    # `_handle_append_outcome` continues from there (see `_Reported` for the thread). So these fields need no lock.

    touched: int = 0
    _own_envelopes: deque[Envelope] | None = None
    _reported_step: tuple[Step[State, Command, Event], Outcome] | None = None
    _failure: tuple[Exception | None, bool] | None = None
    _waiting: Waiting[State, Command] | None = None
    _snapshot_at: int = 0
    _handing_off: HandingOff | None = None

    def __init__(self, context: ActorContext) -> None:
        self._assemble(context.mailbox)
        self.context = context
        self.state = self.initial
        self.version = 0
        if context.profile.timers is not None:
            self._waiting = Waiting(context, context.profile.timers)

    # Life cycle: recover, handle one command at a time, end.

    def begin(self) -> None:
        """Become the occupant of the mailbox, which is held, and run on the current thread."""
        pool = self._mailbox.pool
        pool.enter(self)
        self._mailbox.open(pool, self)
        self._turn(None)

    def ask_to_leave(self) -> None:
        """Ask the actor to leave memory as soon as it has nothing to do; an idle one may do so on this thread."""
        if not self._over:
            envelope = Envelope(PASSIVATE)
            # A thread that starts many actors is slowed down by those that leave: the workers alone might not keep up.
            if not self._mailbox.handled_here(envelope):
                self._mailbox.offer(envelope)

    def _stop_handling_messages(self) -> None:
        """Make the actor handle no more messages; called from any thread, with a `Drop` in its mailbox."""
        self._over = True  # the holder of the mailbox sees that the actor has not left yet, and makes it leave

    def _begin(self) -> None:
        self._begun = True
        self.context.system.residents.enter(self)
        try:
            self.on_start()
            self._recover()
            commands = self.on_recovered()
            if not is_sequence(commands):
                name = type(self).__name__
                raise TypeError(  # noqa: TRY301 - reported as any other mistake in a hook
                    f"{name}.on_recovered returned {commands!r:.100}; it returns a sequence of commands, () for none"
                )
            own_envelopes: list[Envelope] = [First(command) for command in commands]
            if self._waiting is not None:
                own_envelopes += self._waiting.first(self.state, is_new=not self.version)
            if own_envelopes:
                self._own_envelopes = deque(own_envelopes)
        except Exception as error:  # noqa: BLE001 - the waiting senders get the error
            if isinstance(error, ReenactError) and not isinstance(error, StorageError):
                _log.debug("%s cannot start", self.context.stream, exc_info=error)
            else:
                self.context._log_cannot("start", error)
            self._failure = error, True
            self._leave()
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._failure = None, True
            self._end(error)

    def _leave(self) -> None:
        self.context.system.residents.leave(self)
        self._depart()  # the mailbox stays open for the next incarnation

    def _recover(self) -> None:
        self.state, self.version, self._snapshot_at = recover(self)
        if self._waiting is not None:
            self._waiting.forget_due()

    def _turn(self, envelope: Envelope | None) -> None:
        elapsed = self.context.system.residents.elapsed
        if elapsed is not None:
            self.touched = elapsed()
        if not self._begun:
            self._begin()
        elif self._reported_step is not None:
            step, outcome = self._reported_step
            self._reported_step = None
            if self._handle_append_outcome(step, outcome):
                return
        left = SLICE if envelope is None else 1
        while left and not self._over:
            if self._own_envelopes:
                envelope = self._own_envelopes.popleft()
            elif envelope is None:
                envelope = self._mailbox.next()
                if envelope is None:
                    return
                if elapsed is not None:
                    self.touched = elapsed()
            if self._process_envelope(envelope):
                return
            envelope = None
            left -= 1
        if self._over:
            if not self._departed:
                self._end_dropped_incarnation(envelope)
            self._report_incarnation_end()
        elif self._own_envelopes:
            self._mailbox.again()
        else:
            self._mailbox.let_go()

    def _report_incarnation_end(self) -> None:
        error, never_began = self._failure or (None, False)
        self.context.home.ended(error, never_began)
        if self._handing_off is not None:
            self._handing_off.over()

    def _process_envelope(self, envelope: Envelope, retries: int = RETRIES) -> bool:
        """Handle the message; return True if the journal has been asked and a worker will continue from there.

        From then on another worker may be running this actor: the caller must not touch it.
        """
        if type(envelope.message) in SIGNALS:
            try:
                return self._handle_kernel_signal(envelope)
            except Exception as error:  # noqa: BLE001 - a user's hook; it counts as this actor's failure
                _fail_quietly(envelope, error)
                self._fail_incarnation(error)
            except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
                _fail_quietly(envelope, error)
                self._end(error)
            return False
        try:
            if type(envelope) is not Envelope and self._is_of_past_timer(envelope):
                return False
            command, events, recorded = self._decide_on_envelope(envelope, retries)
            if recorded is None:
                envelope.answer(self.reply(command, events) if envelope.reply_to else None)
                return self._mark_timer_fired(envelope)
            step, append = recorded
        except Postponed as postponed:
            self._postpone(envelope, postponed)
            return self._mark_timer_fired(envelope)
        except ReenactError as refusal:
            self._refuse(envelope, refusal)
            return self._mark_timer_fired(envelope)
        except Exception as error:  # noqa: BLE001 - the sender's error, or this actor's failure; the state is unchanged
            self._fail_command(envelope, error)
            return self._mark_timer_fired(envelope)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            if isinstance(envelope, First):
                self._failure = None, True
            self._end(error)
            self.context._fail(envelope, pykka.ActorDeadError(f"{self} stopped before it could reply: {shown(error)}"))
        else:
            return self._journal_step(step, append)
        return False

    def _decide_on_envelope(
        self, envelope: Envelope, retries: int
    ) -> tuple[Command, tuple[Event, ...], tuple[Step[State, Command, Event], Append] | None]:
        """Decide on the message; return the command, its events and, if any, the step to record with its append."""
        profile = self.context.profile
        is_branch = profile.folding.origin is not None and not self.version
        if is_branch:  # the stream has no events yet, and may continue the history of another one
            journal, stream = self.context.journal, self.context.stream
            self.state = profile.folding.state_before(journal, stream, envelope.message)
        try:
            command = self.prepare(envelope.message)
            if command is None and envelope.message is not None:
                told = type(envelope.message).__name__
                raise TypeError(f"{type(self).__name__}.prepare returned None for {told}; it returns the command")
            events = events_of(self, command)
            if not events and not profile.remembers:
                return command, events, None
            at = self._snapshot_at
            return command, events, step_of(self, self._waiting, at, envelope, command, events=events, retries=retries)
        finally:
            if is_branch:
                self.state = self.initial  # the state changes only when the events are durable

    def _postpone(self, envelope: Envelope, postponed: Postponed) -> None:
        """Let the command be sent again later, with the same reply future, from the thread that `begin` chooses."""
        context, reply_to = self.context, envelope.reply_to

        def fail(error: Exception) -> None:
            if reply_to is not None:
                reply_to.fail(error)
            else:
                context.dead_letter(envelope.message, error)

        def again(command: object) -> None:
            try:
                context.system._deliver(context._key, Envelope(command, reply_to))
            except ReenactError as error:
                fail(error)

        try:
            postponed.begin(again, fail)
        except Exception as error:  # noqa: BLE001 - whatever it is, the command will not be sent again
            self._fail_command(envelope, error)

    def _journal_step(self, step: Step[State, Command, Event], append: Append) -> bool:
        """Let the journal record the step; return True if its outcome is still pending."""
        reported = _Reported(self, step)
        try:
            self.context.system.append(append, reported)
        except Exception as error:  # noqa: BLE001 - the journal did not take the step
            self._end_after_lost_step(step.envelope, error)
            return False
        outcome = reported.heard()
        return True if outcome is None else self._handle_append_outcome(step, outcome)

    def _handle_kernel_signal(self, envelope: Envelope) -> bool:
        """Handle a signal of the kernel; return True if the journal has been asked."""
        match envelope.message:
            case Passivate():
                if self._mailbox.empty() and not self.context.has_children and self.can_passivate():
                    self._stop()
            case HandOff():
                return self._handle_hand_off_signal(envelope)
            case Drop():
                self._end_elsewhere(ShardMovedError(self.context.stream))
            case Due():
                is_pending = self._queue_due_timers(envelope)
                envelope.answer(None)
                return is_pending
            case ChildFailed(child=child, error=error):
                self.on_child_failed(child, error)
            case Escalated(error=error):
                self._fail_incarnation(error)
            case _:
                self._stop()
                envelope.answer(None)
        return False

    def _handle_hand_off_signal(self, signal: Envelope) -> bool:
        """Leave for another node if there is nothing to do; return True if the actor stays and its turn is over."""
        handing_off = self._handing_off
        if handing_off is None:
            if signal.reply_to is None:
                return False  # an earlier incarnation was to leave, and was dropped
            handing_off = self._handing_off = HandingOff(self, self._mailbox)
            self._mailbox.open(self._mailbox.pool, handing_off)
        if not handing_off.looks_now(signal):
            return False
        if self.can_leave():
            self._stop()
            return False
        self._mailbox.let_go()  # the next message starts a new turn, and with it a new check
        return True

    def _end_dropped_incarnation(self, unhandled: Envelope | None) -> None:
        """End because another node has the stream; refuse the messages that were waiting before the `Drop`."""
        error = ShardMovedError(self.context.stream)
        self._end_elsewhere(error)
        if unhandled is not None:
            self.context._fail(unhandled, error)
        self.context._fail_until_drop(error)

    def _end_after_shard_moved(self, envelope: Envelope, error: ShardMovedError) -> None:
        """Handle the journal's error that another node has the stream, which this node may not know yet."""
        if self._over:  # it does know, and the turn ends with that
            self.context._fail(envelope, error)
            return
        self._end_elsewhere(error)
        self.context._fail(envelope, error)
        if isinstance(envelope, First):
            self.context._fail_all(error)  # the following incarnations would fail in the same way

    def _end_elsewhere(self, error: ShardMovedError) -> None:
        self._over = True
        self._call_notification_hook(partial(self.on_lost, error), "on_lost")
        self._stop()

    def _refuse(self, envelope: Envelope, refusal: ReenactError) -> None:
        if envelope.reply_to is not None:
            envelope.reply_to.fail(refusal)
            return
        _log.debug("%s refused %s: %s", self.context.stream, type(envelope.message).__qualname__, refusal)
        self.context.dead_letter(envelope.message, refusal)
        self._call_notification_hook(partial(self.on_dead_letter, envelope.message, refusal), "on_dead_letter")

    def _fail_command(self, envelope: Envelope, error: Exception) -> None:
        self.context._fail(envelope, error)
        if envelope.reply_to is None and self.context.is_supervised:
            self._fail_incarnation(error)

    def _fail_incarnation(self, error: Exception) -> None:
        """End this incarnation with a failure."""
        _log.error("%s has failed", self.context.stream, exc_info=error)
        self._end_failed_incarnation(error, never_began=False)

    def _end_failed_incarnation(self, error: Exception, never_began: bool) -> None:  # noqa: FBT001 - a fact, not a switch
        self._failure = error, never_began
        self._leave()
        self._call_notification_hook(partial(self.on_failure, type(error), error, error.__traceback__), "on_failure")

    def _call_notification_hook(self, hook: Callable[[], object], what: str) -> None:
        """Call a notification hook and log what it raises; an exception that is not an `Exception` ends the actor."""
        try:
            hook()
        except Exception:  # noqa: BLE001 - no sender waits for it
            _log.exception("%s: the hook %s raised", self.context.stream, what)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            if not self._over:
                self._end(error)

    # Timers.

    def _is_of_past_timer(self, envelope: Envelope) -> bool:
        """Return whether the message comes from a timer that the state no longer waits for."""
        waiting = self._waiting
        return waiting is not None and isinstance(envelope, Own) and waiting.is_past(envelope.timer, self.state)

    def _queue_due_timers(self, envelope: Envelope) -> bool:
        """Queue the commands of the due timers; if none is due, the log is out of date or the clock was set back."""
        waiting = self._waiting
        due_timers = None if waiting is None else waiting.due_timers(self.state)
        if due_timers:
            self._own_envelopes = deque(Own(timer.command, None, timer) for timer in due_timers)
            return False
        return self._record_next_due(envelope, waiting)

    def _mark_timer_fired(self, envelope: Envelope) -> bool:
        """Do not wake this incarnation again for a timer whose command had no effect; the next one retries it."""
        waiting = self._waiting
        if self._over or waiting is None or not isinstance(envelope, Own) or envelope.timer is None:
            return False
        try:
            waiting.fired = waiting.after(envelope)
            return self._record_next_due(envelope, waiting)
        except Exception as error:  # noqa: BLE001 - `timers`, or a comparison of commands, raises: it must not end the turn
            self._end_failed_incarnation(error, isinstance(envelope, First))
            return False

    def _record_next_due(self, cause: Envelope, waiting: Waiting[State, Command] | None) -> bool:
        """Record in the log when to wake the actor next; return True if the journal has been asked."""
        context = self.context
        fired, due = ((), None) if waiting is None else (waiting.fired, earliest(waiting.left(self.state)))
        if waiting is not None and due == waiting.due:
            if due is not None:
                context.system.alarms.hint(context.stream, due)
            return False
        kind = First if isinstance(cause, First) else Envelope
        envelope = kind(DUE, PooledFuture())  # no sender waits, and `cause` has been answered
        step: Step[State, Command, Event] = Step(envelope, cause.message, (), self.state, 0, fired, due)
        # Expect this version: if another writer has appended since, another time is due.
        return self._journal_step(step, Append(context.stream, self.version, context.clock(), due=due))

    # Outcomes of steps.

    def _handle_append_outcome(self, step: Step[State, Command, Event], outcome: Outcome) -> bool:
        """Handle the outcome that the journal reports; return True if the journal has been asked again."""
        if isinstance(outcome, Committed):
            self._apply_committed_step(step, outcome)
            return False
        if isinstance(outcome, ConflictError):
            if self._over:  # another node has appended something already
                self.context._fail(step.envelope, ShardMovedError(self.context.stream))
                return False
            return self._retry_step_after_conflict(step, outcome)
        if isinstance(outcome, UnstorableError) and self._recover_after_refusal(step.envelope):
            self._fail_command(step.envelope, outcome)
            return self._mark_timer_fired(step.envelope)
        if isinstance(outcome, RequestReusedError):
            self._refuse(step.envelope, outcome)
            return self._mark_timer_fired(step.envelope)
        if not self._departed:
            self._end_after_lost_step(step.envelope, outcome)
        return False

    def _recover_after_refusal(self, envelope: Envelope) -> bool:
        """Recover after a step that was refused for its content: neither the log nor the actor is at fault."""
        try:
            self._recover()
        except Exception as error:  # noqa: BLE001 - without its history the actor cannot continue
            self._end_after_lost_step(envelope, error)
            return False
        return True

    def _apply_committed_step(self, step: Step[State, Command, Event], committed: Committed) -> None:
        self.state, self.version = step.state, committed.version
        if step.has_snapshot:
            self._snapshot_at = committed.version
        if self._waiting is not None:
            self._waiting.noted(step.envelope, step.fired, step.due)
        if step.envelope.message is DUE:
            return  # only the due time was recorded
        failure: Exception | None = None
        try:
            if step.events and not self._over:  # else there are no events, or the stream's next owner acts on them
                self.on_committed(step.command, step.events)
        except Exception as error:  # noqa: BLE001 - what is recorded stays recorded
            names = ", ".join(type(event).__qualname__ for event in step.events)
            _log.exception("%s recorded %s and failed to act on it", self.context.stream, names)
            failure = error
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._end(error)
        if step.envelope.reply_to is not None:
            try:
                reply = self.reply(step.command, step.events)
            except Exception as error:  # noqa: BLE001 - the sender gets the error
                self.context._fail(step.envelope, error)
            except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
                if not self._over:
                    self._end(error)
                _fail_quietly(step.envelope, error)
            else:
                step.envelope.answer(reply)
        if failure is not None and self.context.is_supervised:
            self._fail_incarnation(failure)

    def _retry_step_after_conflict(self, step: Step[State, Command, Event], conflict: ConflictError) -> bool:
        try:
            self._recover()
        except Exception as error:  # noqa: BLE001 - without its history the actor cannot continue
            self._end_after_lost_step(step.envelope, error)
            return False
        if step.retries:
            return self._process_envelope(step.envelope, step.retries - 1)
        if isinstance(step.envelope, First):
            self._end_after_lost_step(step.envelope, conflict)
        else:
            self.context._fail(step.envelope, conflict)
            self._request_later_alarm()
        return False

    def _end_after_lost_step(self, envelope: Envelope, error: Exception) -> None:
        if isinstance(error, ShardMovedError):
            self._end_after_shard_moved(envelope, error)
            return
        # If it is the actor's own first command, the actor has not reached its first message.
        self._failure = error, isinstance(envelope, First)
        self._leave()
        self._call_notification_hook(partial(self.on_lost, error), "on_lost")
        self.context._fail(envelope, error)
        self._request_later_alarm()

    def _request_later_alarm(self) -> None:
        if self._waiting is not None:
            self.context.system.alarms.later(self.context.stream)


class _Reported(Generic[State, Command, Event]):
    """Receives the outcome of an append: directly on the thread that asked, on any other thread by way of a worker."""

    # The journal calls this once, perhaps before the append returns, on the thread that writes. If that is the asking
    # thread, the actor is further up its stack, and reads the outcome from here when the append has returned. Otherwise
    # the actor may be anywhere: a worker gets the mailbox, which is still held for this step. No lock is needed: only
    # the asking thread sets `_asking_thread` to 0, and only it can find its own identifier there before.

    __slots__ = ("_actor", "_asking_thread", "_outcome", "_step")

    def __init__(self, actor: EventSourcedActor[State, Command, Event], step: Step[State, Command, Event]) -> None:
        self._actor = actor
        self._step = step
        self._asking_thread = get_ident()
        self._outcome: Outcome | None = None

    def __call__(self, outcome: Outcome) -> None:
        """Receive the outcome; called once, on the thread that writes."""
        if self._asking_thread == get_ident():
            self._outcome = outcome
        else:
            self._actor._reported_step = self._step, outcome
            self._actor._mailbox.again()

    def heard(self) -> Outcome | None:
        """Return the outcome if it has come; if not, a worker will handle it, whichever thread writes."""
        self._asking_thread = 0
        return self._outcome


def _fail_quietly(envelope: Envelope, error: BaseException) -> None:
    """Reply with the error if a sender waits; log nothing and report no dead letter."""
    if envelope.reply_to is not None:
        if not isinstance(error, Exception):
            error = pykka.ActorDeadError(f"the actor stopped before it could reply: {shown(error)}")
        envelope.reply_to.fail(error)


AnyActor: TypeAlias = EventSourcedActor[Any, Any, Any]
"""An actor with any types of state, commands and events."""
