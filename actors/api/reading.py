"""The interfaces of the log, and of the read model that is built from it, as the operations need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from reenact.actors.journal.api import Append, ChainedJournal, FeedJournal, Journal, Remembered
from reenact.domain.container import ContainerInfo
from reenact.domain.image import Definition, ImageInfo
from reenact.domain.messages import Message
from reenact.domain.session.agent import AgentInfo
from reenact.domain.session.people import PendingCall
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import KnownSession, SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, UsageInfo


class Log(Journal, FeedJournal, ChainedJournal, Protocol):
    """The journal of a runtime, which may have a key for each session, and can destroy it."""

    def is_encrypted(self, stream: str) -> bool:
        """Return whether all rows of the stream are encrypted, so that it can be forgotten."""
        ...

    def forget(self, steps: Sequence[Append], remembered: Remembered | None = None) -> int:
        """Record the last steps of streams and destroy their data keys, together; return the log's position."""
        ...


class Follower(Protocol):
    """Keeps the tables of the read model up to date with the log."""

    @property
    def lag(self) -> int:
        """The number of events in the log that are known but not in the tables yet."""
        ...

    def wait_for(self, position: int, timeout: float) -> None:
        """Wait until everything up to the position can be read; raise if that takes longer than `timeout` seconds."""
        ...

    def close(self) -> None:
        """Stop following. Idempotent."""
        ...


class ReadModel(Protocol):
    """Answers all gets and lists from tables that follow the log."""

    def container(self, container_id: str) -> ContainerInfo | None:
        """Return the container, or None."""
        ...

    def containers(self) -> list[ContainerInfo]:
        """Return all containers, oldest first."""
        ...

    def image(self, image_id: str) -> ImageInfo | None:
        """Return the newest revision of the image, or None."""
        ...

    def images(self) -> list[ImageInfo]:
        """Return the newest revision of every image, oldest image first."""
        ...

    def schedules(self, session_id: str | None = None) -> list[Schedule]:
        """Return the scheduled messages, in order of time: to all sessions, or to one."""
        ...

    def image_revision(self, image_id: str, revision: int) -> Definition | None:
        """Return the content of this revision, or None."""
        ...

    def session(self, session_id: str) -> SessionInfo | None:
        """Return the session; None if it never existed, or is deleted."""
        ...

    def known_session(self, session_id: str) -> KnownSession | None:
        """Return the basic data of a session, even if it is deleted or forgotten; None if it never existed."""
        ...

    def dependent_sessions(self, session_id: str) -> list[str]:
        """Return the sessions that depend on this one and were not forgotten themselves.

        They are its branches, its children, and the session that has called it.
        """
        ...

    def sessions_of(self, container_id: str) -> list[SessionInfo]:
        """Return the sessions of the container, oldest first."""
        ...

    def sessions(
        self,
        limit: int | None = None,
        *,
        after: str | None = None,
        container_id: str | None = None,
        waiting: bool | None = None,
        parent: str | None = None,
    ) -> list[SessionInfo]:
        """Return sessions, newest first: of one container, or with or without a call that waits for a person.

        With a `parent`, its children are returned, and no container may be given.
        """
        ...

    def messages(self, session_id: str) -> list[Message]:
        """Return the session's messages in the order of their turns."""
        ...

    def turns_of(self, session_id: str) -> list[TurnInfo]:
        """Return the session's turns in the order of their questions, each followed by the turns that continue it."""
        ...

    def turn_began(self, turn_id: str) -> tuple[str, bool] | None:
        """Return the turn's session, even if it is deleted, and whether the turn began with a message, or None."""
        ...

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """Return the tool calls of the session, in the order in which the model requested them."""
        ...

    def usage(self, session_id: str) -> UsageInfo:
        """Return the usage of the session, by model and by tool."""
        ...

    def pending(self, session_id: str | None = None) -> list[PendingCall]:
        """Return the calls that wait for a person, in the order in which they were requested.

        They are those of all sessions, or of one session and its descendants.
        """
        ...

    def pending_of_id(self, call_id: str) -> list[PendingCall]:
        """Return the calls with this id that wait for a person."""
        ...

    def agent(self, agent_id: str) -> AgentInfo | None:
        """Return the agent, or None unless it is live."""
        ...

    def agents(self) -> list[AgentInfo]:
        """Return the live agents in the order in which they started."""
        ...

    def unfinished(self) -> list[str]:
        """Return the ids of the sessions with a live agent, a running turn, or a child that has yet to branch off."""
        ...
