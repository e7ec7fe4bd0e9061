"""Handing off: an actor whose stream goes to another node leaves memory at the first moment at which it may."""

# The parts of the kernel call each other's private methods: what is public there is the user's.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable

from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.mailbox import HAND_OFF, Envelope, Mailbox, Occupant


class HandingOff:
    """Takes the turns of an actor that is to leave: each is followed by a look whether it may by now."""

    # It stands between the mailbox and the actor from the first look on, so that those who stay pay nothing. Used by
    # whoever holds the mailbox, but for `over`: the actor has ended then.

    __slots__ = ("_actor", "_left", "_look", "_mailbox", "_will_look")

    def __init__(self, actor: Occupant, mailbox: Mailbox) -> None:
        self._actor = actor
        self._mailbox = mailbox
        self._left: list[PooledFuture[None]] = []
        self._look = Envelope(HAND_OFF)
        self._will_look = False  # that is in the mailbox, behind all that the turn is about

    def _turn(self, envelope: Envelope | None) -> None:
        self._look_later()
        self._actor._turn(envelope)

    def looks_now(self, signal: Envelope) -> bool:
        """Return whether nothing waits any more, having taken up a signal; else it is looked again behind that."""
        if signal is self._look:
            self._will_look = False
        elif signal.reply_to is not None:  # else it is what an incarnation has left behind that was dropped
            self._left.append(signal.reply_to)
            signal.reply_to = None  # from now on it is said by `over`, whatever comes
        if self._will_look:
            return False
        if self._mailbox.empty():
            return True
        self._look_later()
        return False

    def over(self) -> None:
        """Tell whoever waits for it that the actor has ended."""
        for future in self._left:
            future.set(None)

    def _look_later(self) -> None:
        if not self._will_look:
            self._will_look = True
            self._mailbox.admit(self._look)


class Countdown:
    """Calls a function once all futures are set, and it has begun."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._lock = threading.Lock()
        self._left = 1

    def wait_for(self, future: PooledFuture[None]) -> None:
        """Wait for this one, too."""
        with self._lock:
            self._left += 1
        future.add_done_callback(lambda _: self.begin())

    def begin(self) -> None:
        """Wait for no more than what there is."""
        with self._lock:
            self._left -= 1
            is_over = not self._left
        if is_over:
            self._then()
