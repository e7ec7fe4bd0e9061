"""The interface of the runtime that a session needs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from reenact.actors.environment.api import Environment
from reenact.actors.journal.api import Journal, Link
from reenact.actors.journal.lock import StreamLocks
from reenact.domain.guards import GuardChecked
from reenact.domain.loop.rules import Rules
from reenact.domain.operations.table import Response
from reenact.domain.session.commands import SessionCommand
from reenact.domain.session.guarding import Question
from reenact.domain.session.state import Session
from reenact.domain.stream.events import Envelope

Recovery: TypeAlias = Literal["close", "resume"]


class Nodes(Protocol):
    """Where sessions run if the log has several nodes."""

    def may_start(self, stream: str) -> bool:
        """Return whether the session may run on this node."""
        ...

    def epoch_of(self, stream: str) -> int | None:
        """Return the epoch in which to write the session; None if it does not belong to this node."""
        ...

    def was_found(self, stream: str) -> bool:
        """Return whether a crash left the session unfinished before this node started."""
        ...

    def admit(self, stream: str) -> Callable[[], None]:
        """Admit the session even while its shard is being left; call the result once the session has its message."""
        ...


class Ports(Protocol):
    """The interface of the runtime that a session needs."""

    recovery: Recovery
    journal: Journal
    locks: StreamLocks | None
    """Locks on this process's sessions, if other processes write the log, too."""
    nodes: Nodes | None
    """Which sessions run on this node, if the log has several nodes."""

    def now(self) -> int:
        """Return the time in microseconds since 1970-01-01 UTC."""
        ...

    def new_id(self, prefix: str, /) -> str:
        """Return a new id."""
        ...

    def make_environment(self, session: Session, agent_id: str) -> Environment:
        """Return a new environment for the agent, not yet connected."""
        ...

    def rules(self, session: Session) -> Rules:
        """Return the rules of the agent's loop, for an environment that runs tools."""
        ...

    def ask_guards(
        self,
        asked: Sequence[Question],
        then: Callable[[tuple[GuardChecked, ...]], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """Ask guards on other threads, and call `then` with their verdicts; or `fail` if they cannot be asked."""
        ...

    def newest_revision(self, image_id: str) -> int:
        """Return the newest revision of the image, or raise `ImageNotFoundError`."""
        ...

    def tell_kin(self, session_id: str, command: SessionCommand, back_to: str = "") -> None:
        """Send a command to a session of the same family, again while the log fails; its reply goes to `back_to`."""
        ...

    def session_at(self, session_id: str, position: int) -> tuple[Session, Link] | None:
        """Return the session at this log position, and the link of its last event; None if it had not begun."""
        ...

    def mark_of(self, session_id: str, version: int) -> tuple[int, int, str]:
        """Return the version, the last cursor of the session's feed, and the digest of the record with this version."""
        ...

    def request(self, type: str, data: Mapping[str, object], timeout: float) -> Envelope[Response]:  # noqa: A002
        """Carry out a request of the command protocol."""
        ...

    def spawn(self, work: Coroutine[object, object, None], /) -> object:
        """Run the coroutine on the runtime's event loop for external work."""
        ...

    def agent_lives(self, agent_id: str, session_id: str, responding: Callable[[], str | None]) -> None:
        """Register a live agent; `responding` returns the turn in which the text of its answer has begun."""
        ...

    def agent_is_known(self, agent_id: str) -> bool:
        """Return whether this runtime has started the agent and not stopped it since."""
        ...

    def is_closing(self) -> bool:
        """Return whether the runtime is stopping all agents, since it is being closed."""
        ...

    def log_fails(self, session_id: str, error: Exception) -> None:
        """Record that the session could not be recorded; wake it again after a delay."""
        ...

    def log_works(self, session_id: str, /) -> None:
        """Record that the session was recorded."""
        ...

    def agent_ends(self, agent_id: str, /) -> None:
        """Remove the agent, which is no longer live."""
        ...
