"""Handing off a stream: its actor leaves memory as soon as it can, so that another node can take over."""

# Modules of the kernel call each other's private methods: the public names of an actor belong to the user.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable

from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.mailbox import HAND_OFF, Envelope, Mailbox, Occupant


class HandingOff:
    """Wraps an actor that must leave, and checks after each turn whether it can leave now."""

    # Inserted between mailbox and actor at the first check, so that actors that stay pay nothing. The holder of the
    # mailbox uses it, except for `over`, which is called when the actor has ended.

    __slots__ = ("_actor", "_check_signal", "_is_check_queued", "_left", "_mailbox")

    def __init__(self, actor: Occupant, mailbox: Mailbox) -> None:
        self._actor = actor
        self._mailbox = mailbox
        self._left: list[PooledFuture[None]] = []
        self._check_signal = Envelope(HAND_OFF)
        self._is_check_queued = False  # whether `_check_signal` is in the mailbox, behind the messages of this turn

    def _turn(self, envelope: Envelope | None) -> None:
        self._queue_check()
        self._actor._turn(envelope)

    def looks_now(self, signal: Envelope) -> bool:
        """Process a signal and return whether the mailbox is empty; if not, check again after the waiting messages."""
        if signal is self._check_signal:
            self._is_check_queued = False
        elif signal.reply_to is not None:  # otherwise the signal comes from an incarnation that was dropped
            self._left.append(signal.reply_to)
            signal.reply_to = None  # from now on `over` sets the future, whatever happens
        if self._is_check_queued:
            return False
        if self._mailbox.empty():
            return True
        self._queue_check()
        return False

    def over(self) -> None:
        """Set the futures of those waiting for the actor to end."""
        for future in self._left:
            future.set(None)

    def _queue_check(self) -> None:
        if not self._is_check_queued:
            self._is_check_queued = True
            self._mailbox.admit(self._check_signal)


class Countdown:
    """Calls a function once `begin` has been called and all futures are set."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._lock = threading.Lock()
        self._left = 1

    def wait_for(self, future: PooledFuture[None]) -> None:
        """Wait for this future as well."""
        with self._lock:
            self._left += 1
        future.add_done_callback(lambda _: self.begin())

    def begin(self) -> None:
        """Call the function once the futures added so far are set."""
        with self._lock:
            self._left -= 1
            is_over = not self._left
        if is_over:
            self._then()
