"""The actor kernel: actors that share a few threads, and actors whose state is a fold over their event stream.

The kernel does not depend on the application's domain.
"""

from __future__ import annotations

from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.by_type import UnhandledTypeError, by_type
from reenact.actors.kernel.classes import Mismatch
from reenact.actors.kernel.context import ActorContext, Reference
from reenact.actors.kernel.declared import Announcement
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.letters import DeadLetter
from reenact.actors.kernel.lineage import Origin
from reenact.actors.kernel.loop_actor import EventLoopActor
from reenact.actors.kernel.persistent import EventSourcedActor
from reenact.actors.kernel.pool import waiting
from reenact.actors.kernel.pooled import PooledActor
from reenact.actors.kernel.profile import Stored
from reenact.actors.kernel.step import Postponed
from reenact.actors.kernel.supervision import ActorFailedError, RestartLimitError, Supervision
from reenact.actors.kernel.system import ActorSystem
from reenact.actors.kernel.timetable import ControlledClock

__all__ = [
    "ActorContext",
    "ActorFailedError",
    "ActorSystem",
    "Announcement",
    "ControlledClock",
    "DeadLetter",
    "EventLoopActor",
    "EventSourcedActor",
    "Mismatch",
    "Origin",
    "PooledActor",
    "PooledFuture",
    "Postponed",
    "Reference",
    "RestartLimitError",
    "Stored",
    "Supervision",
    "Timer",
    "UnhandledTypeError",
    "by_type",
    "waiting",
]
