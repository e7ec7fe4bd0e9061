"""An identity: the mailbox that outlives its incarnations, and the rule that there is one at most."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from reenact.actors.journal.api import Journal
from reenact.actors.kernel.mailbox import Envelope, Mailbox
from reenact.actors.kernel.persistent import ActorContext, Clock, EventSourcedActor, fail_all
from reenact.actors.kernel.pool import WorkerPool

AnyActor: TypeAlias = EventSourcedActor[Any, Any, Any]
Key: TypeAlias = tuple[type[AnyActor], str]
Factory: TypeAlias = Callable[[ActorContext], AnyActor]

_log = logging.getLogger("reenact.kernel")


class Directory(Protocol):
    """Where cells stand; it knows how their actors are made."""

    def make(self, key: Key, context: ActorContext) -> AnyActor:
        """Return a new incarnation."""
        ...

    def retire(self, key: Key, cell: Cell) -> bool:
        """Strike the cell out if nothing waits in it, and return whether that is so."""
        ...


class Cell:
    """Starts an incarnation when there is a message and none is live, and lets it go when it has ended.

    Since the mailbox is the identity's, not the incarnation's, a message cannot get lost between two of them.
    """

    __slots__ = ("_context", "_directory", "_key", "_pool", "mailbox")

    def __init__(self, key: Key, directory: Directory, *, journal: Journal, clock: Clock, pool: WorkerPool) -> None:
        actor_class, id_ = key
        self.mailbox = Mailbox()
        self._context = ActorContext(id_, actor_class.stream(id_), journal, clock, pool, self.mailbox, self._ended)
        self._key = key
        self._directory = directory
        self._pool = pool
        self.mailbox.open(pool, self._turn)
        self.mailbox.let_go()

    def _turn(self, envelope: Envelope | None) -> None:
        if envelope is not None:
            self.mailbox.offer(envelope)
        while True:
            first = self.mailbox.first()
            if first is None:
                if self._directory.retire(self._key, self):
                    return
            elif first.stops:  # nobody is live: it has been done
                self.mailbox.get()
                if first.reply_to is not None:
                    first.reply_to.set(None)
            else:
                actor = self._incarnation()
                if actor is not None:
                    actor.begin()
                    return

    def _incarnation(self) -> AnyActor | None:
        try:
            return self._directory.make(self._key, self._context)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            _log.error("%s cannot be made", self._context.id, exc_info=error)
            fail_all(self.mailbox, error)
            return None

    def _ended(self) -> None:
        self.mailbox.open(self._pool, self._turn)
        if self.mailbox.first() is not None or not self._directory.retire(self._key, self):
            self.mailbox.again()
