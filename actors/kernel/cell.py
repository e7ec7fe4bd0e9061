"""An actor's identity: a mailbox that outlives the actor's incarnations, of which at most one exists at a time."""

# Modules of the kernel call each other's private methods: the public names of an actor belong to the user.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import msgspec
import pykka

from reenact.actors.kernel.context import ActorContext, ActorHost, Key
from reenact.actors.kernel.mailbox import SIGNALS, Due, Envelope, Mailbox
from reenact.actors.kernel.pool import WorkerPool
from reenact.actors.kernel.profile import AnyProfile
from reenact.actors.kernel.supervision import ActorFailedError, Restarts, Supervision
from reenact.actors.kernel.timetable import Entry
from reenact.domain.errors import ReenactError, ShardMovedError


class RestartState(msgspec.Struct):
    """The restart state of a supervised actor."""

    within: float
    restarts: Restarts
    restarting: bool = False
    memory: Entry | None = None


class Cell:
    """Starts an incarnation of an actor when a message arrives and none is live, and drops it when it has ended.

    The mailbox belongs to the cell, not to the incarnation, so no message is lost between two incarnations.
    """

    # The thread that holds the mailbox runs the cell, or the incarnation that the cell has started: the incarnation
    # calls `ended` while it still holds the mailbox. The system removes the cell from its directory under the system's
    # lock (`_remove_cell`), so that no thread finds a cell there whose mailbox is closed for good.

    __slots__ = ("_care", "_directory", "_has_quit", "_key", "_pool", "context", "mailbox")

    def __init__(
        self,
        key: Key,
        directory: ActorHost,
        profile: AnyProfile,
        supervision: Supervision | None,
        pool: WorkerPool,
    ) -> None:
        self.mailbox = Mailbox(profile.mailbox_limit)
        self.context = ActorContext(key, directory, profile, self.mailbox, self, is_supervised=supervision is not None)
        self._key = key
        self._directory = directory
        self._pool = pool
        self._has_quit = False
        self._care = (
            None
            if supervision is None
            else RestartState(supervision.within, Restarts(supervision, self.context.stream))
        )
        self.mailbox.open(pool, self)
        self.mailbox.let_go()

    def restart_now(self) -> None:
        """Cut the backoff short if the actor is waiting to be restarted."""
        if self._care is not None:
            self._care.restarts.restart_now()

    def _turn(self, envelope: Envelope | None) -> None:
        if envelope is not None:
            self.mailbox.admit(envelope)
        care = self._care
        while True:
            first = self.mailbox.first()
            if first is not None and type(first.message) in SIGNALS and not isinstance(first.message, Due):
                self.mailbox.get()  # no incarnation is live: the signal is already fulfilled, or has no recipient
                if first.stops and care is not None:
                    care.restarting = False
                    care.restarts.forget()
                first.answer(None)
            elif first is not None or (care is not None and care.restarting):
                if care is not None:
                    care.restarting = False
                try:
                    begin = self._directory._make(self._key, self.context)
                except BaseException as error:  # noqa: BLE001 - a user's factory; the senders get the error
                    if self._handle_creation_failure(error):
                        return
                else:
                    begin()
                    return
            elif care is not None and self._is_kept(care):
                self.mailbox.let_go()
                return
            elif self._directory._remove_cell(self._key, self.mailbox):
                return

    def _handle_creation_failure(self, error: BaseException) -> bool:
        """Handle the failure to create an incarnation; return True if the mailbox stays held until the next start."""
        if isinstance(error, ShardMovedError):
            if self._care is not None:
                self._care.restarts.forget()
            self.context._fail_all(error)
            return False
        self.context._log_cannot("be made", error)
        failure = error if isinstance(error, Exception) else self._early_stop_error(error)
        if self._care is not None:
            return self._schedule_restart(self._care, failure)
        self.context._fail_all(failure)
        return False

    def ended(self, failure: Exception | None, never_began: bool) -> None:  # noqa: FBT001 - a fact, not a switch
        """Continue after the incarnation has ended; `never_began` is true if it handled no message from outside."""
        self._directory._stop_children(self._key)
        self.mailbox.open(self._pool, self)
        quits_again, self._has_quit = self._has_quit, never_began and failure is None
        care = self._care
        if failure is not None:
            if care is not None:
                if self._schedule_restart(care, failure):
                    return
            elif never_began:
                # The next incarnation would fail in the same way at once, so the waiting senders get the error; the
                # incarnation that the next message starts tries again.
                self.context._fail_all(failure)
        else:
            if never_began and quits_again:
                self.context._fail_all(self._early_stop_error())
            if care is not None:
                care.restarts.forget()
        stays = self.mailbox.first() is not None or (care is not None and self._is_kept(care))
        if stays or not self._directory._remove_cell(self._key, self.mailbox):
            self.mailbox.again()

    def _early_stop_error(self, reason: BaseException | None = None) -> pykka.ActorDeadError:
        error = pykka.ActorDeadError(f"{self.context.stream} stops before it takes its first message")
        error.__cause__ = reason
        return error

    def _schedule_restart(self, care: RestartState, failure: Exception) -> bool:
        """Apply the supervision strategy; return True if the mailbox stays held until the next start."""
        directory, context = self._directory, self.context
        end = care.restarts.again(
            failure,
            context.stream,
            directory.timetable,
            self._start_again,
            rests=directory._may_restart,
            awaits_stop=self.mailbox.awaits_stop,
        )
        if end is None:
            return True
        # The waiting messages did not cause the failure.
        error = end.error
        context._fail_all(error if isinstance(error, ReenactError) else ActorFailedError(context.stream, error))
        directory._report_ended(directory._family.parent(self._key), self._key, error, escalates=end.escalates)
        return False

    def _start_again(self) -> None:
        if self._care is not None:
            self._care.restarting = True
        self.mailbox.again()

    def _is_kept(self, care: RestartState) -> bool:
        """Return whether to keep the cell, with no incarnation live, because the actor has failed too often recently.

        Otherwise the next message would find a cell without a failure history, and go through all the backoffs again.
        """
        timetable = self._directory.timetable
        if not care.restarts.are_spent(timetable.elapsed()) or not self._directory._may_restart():
            return False
        if care.memory is None:
            care.memory = timetable.after(care.within, self._recheck)
        return True

    def _recheck(self) -> None:
        if self._care is not None:
            self._care.memory = None
        if self.mailbox.hold():
            self.mailbox.again()
