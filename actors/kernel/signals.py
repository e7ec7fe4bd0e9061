"""What actors are told by the kernel itself, between the messages of others; a full mailbox takes these too."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from pykka.messages import _ActorStop  # pyright: ignore[reportPrivateUsage]  # pykka's stop has no public name

STOP: Final = _ActorStop()


class Signal(msgspec.Struct, frozen=True):
    """A message of the kernel."""


class Passivate(Signal, frozen=True):
    """Leave memory, if there is nothing to do."""


class Due(Signal, frozen=True):
    """A time has come that the actor's timers wait for."""


class ChildFailed(Signal, frozen=True):
    """A child has ended for good; its parent may do something about it."""

    child: Any
    error: Exception


class Escalated(Signal, frozen=True):
    """A child has failed, and the parent is to fail with it."""

    error: Exception


PASSIVATE: Final = Passivate()
DUE: Final = Due()
SIGNALS: Final = frozenset({_ActorStop, Passivate, Due, ChildFailed, Escalated})
"""The types of all of them."""
