"""Who an actor is, and what it may ask of the system around it."""

# The parts of the kernel call each other's private methods: what is public there is the user's.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pykka

from reenact.actors.journal.api import Journal
from reenact.actors.kernel.family import Key
from reenact.actors.kernel.mailbox import Mailbox
from reenact.actors.kernel.profile import Profile
from reenact.actors.kernel.reference import Reference, Surroundings
from reenact.actors.kernel.supervision import Supervision
from reenact.actors.kernel.timetable import Clock
from reenact.domain.errors import MailboxFullError

if TYPE_CHECKING:
    from reenact.actors.kernel.persistent import EventSourcedActor

Command = TypeVar("Command")
PlainActor = TypeVar("PlainActor", bound=pykka.Actor)


class Home(Protocol):
    """Where the incarnations of an actor follow each other."""

    def ended(self, failure: Exception | None, never_began: bool) -> None:  # noqa: FBT001 - a fact, not a switch
        """Go on without the incarnation; `never_began` if not one message of others was handled."""
        ...


class ActorContext:
    """Who an actor is and what it stands on; its system makes it, and the constructor hands it on."""

    __slots__ = ("_key", "home", "id", "is_supervised", "mailbox", "profile", "stream", "system")

    def __init__(
        self,
        key: Key,
        system: Surroundings,
        profile: Profile[Any],
        mailbox: Mailbox,
        home: Home,
        *,
        is_supervised: bool,
    ) -> None:
        self.id = key[1]
        self.stream = key[0].stream(key[1])
        self.profile = profile
        self.mailbox = mailbox
        self.home = home
        self.is_supervised = is_supervised
        self._key = key
        self.system = system

    @property
    def journal(self) -> Journal:
        """What makes its events durable."""
        return self.system.journal

    @property
    def clock(self) -> Clock:
        """Tells the time: microseconds since 1970-01-01 UTC. For `prepare` and effects, never for decide or evolve."""
        return self.system.clock

    @property
    def me(self) -> Reference[Any]:
        """A reference to the actor itself, to be handed to others or told something by its own effects."""
        return self.system.actor(*self._key)

    @property
    def parent(self) -> Reference[Any] | None:
        """A reference to the actor whose child this one is, if it is one."""
        parent = self.system._family.parent(self._key)
        return None if parent is None else Reference(self.system, parent)

    @property
    def has_children(self) -> bool:
        """Whether a child of the actor lives."""
        return self.system._has_children(self._key)

    def child(
        self,
        actor_class: type[EventSourcedActor[Any, Command, Any]],
        name: str,
        supervision: Supervision | None = None,
    ) -> Reference[Command]:
        """Return a reference to an actor that ends when this one does, and is cared for as `supervision` says.

        Its id is `<id of this actor>/<name>`. Who its children are, an actor knows only while it lives: a parent that
        starts again calls this again, in `on_recovered` or when it needs them. None stands for the care that the class
        of the child declares.
        """
        child = self.system.actor(actor_class, f"{self.id}/{name}")
        self.system._family.add(self._key, (actor_class, child.id), supervision)
        return child

    def spawn(
        self,
        actor_class: type[PlainActor],
        *args: Any,  # noqa: ANN401 - the constructor's
        **kwargs: Any,  # noqa: ANN401
    ) -> pykka.ActorRef[PlainActor]:
        """Start an actor without a log that ends when this one does; the other arguments are the constructor's."""
        return self.system._start(self._key, actor_class, *args, **kwargs)

    def schedule(self, seconds: float, command: Any) -> Callable[[], bool]:  # noqa: ANN401 - the actor's own
        """Tell this actor the command in so many seconds; what is returned calls that off, and returns False if late.

        It is kept in memory only: what must come even after a restart belongs into `timers`.
        """
        me = self.me

        def remind() -> None:
            try:
                me.tell(command)
            except MailboxFullError as refusal:
                self.dead_letter(command, refusal)

        return self.system.timetable.after(seconds, remind).cancel

    def dead_letter(self, message: object, reason: BaseException) -> None:
        """Report that a message which was told to this actor came to nothing."""
        self.system.letters.put(self.stream, message, reason)
