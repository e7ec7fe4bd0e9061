"""Protocols of the read model, which is on the other side of the log, as the operations need it."""

from __future__ import annotations

from typing import Protocol

from reenact.domain.container import ContainerInfo
from reenact.domain.image import Definition, ImageInfo
from reenact.domain.messages import Message
from reenact.domain.session.agent import AgentInfo
from reenact.domain.session.people import PendingCall
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import KnownSession, SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, UsageInfo


class Follower(Protocol):
    """Keeps the tables behind the log."""

    @property
    def lag(self) -> int:
        """How many events of the log are not in the tables yet, as far as was heard."""
        ...

    def wait_for(self, position: int, timeout: float) -> None:
        """Return when everything up to the position can be read; raise if that takes longer than `timeout` seconds."""
        ...

    def close(self) -> None:
        """Stop following. Idempotent."""
        ...


class ReadModel(Protocol):
    """Answers every get and list out of tables that follow the log."""

    def container(self, container_id: str) -> ContainerInfo | None:
        """Return the container, or None."""
        ...

    def containers(self) -> list[ContainerInfo]:
        """Return all containers, the oldest first."""
        ...

    def image(self, image_id: str) -> ImageInfo | None:
        """Return the newest revision of the image, or None."""
        ...

    def images(self) -> list[ImageInfo]:
        """Return the newest revision of every image, the oldest image first."""
        ...

    def schedules(self, session_id: str | None = None) -> list[Schedule]:
        """Return the messages that are to come, those first that come first: to all sessions, or to one."""
        ...

    def image_revision(self, image_id: str, revision: int) -> Definition | None:
        """Return that revision's content, or None."""
        ...

    def session(self, session_id: str) -> SessionInfo | None:
        """Return the session; None if it never was, or is deleted."""
        ...

    def known_session(self, session_id: str) -> KnownSession | None:
        """Return what every session is known by, also one that is deleted, or was forgotten; None if it never was."""
        ...

    def kin(self, session_id: str) -> list[str]:
        """Return the sessions that would miss this one and were not forgotten themselves.

        Branches of it, its children, and the one that has called it.
        """
        ...

    def sessions_of(self, container_id: str) -> list[SessionInfo]:
        """Return the sessions of the container, the oldest first."""
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
        """Return sessions, the newest first: of one container, or with or without a call that waits for a person.

        With a `parent`, they are its children, and no container is named.
        """
        ...

    def messages(self, session_id: str) -> list[Message]:
        """Return the session's messages in the order of their turns."""
        ...

    def turns_of(self, session_id: str) -> list[TurnInfo]:
        """Return the session's turns in the order of their questions, each followed by those that go on with it."""
        ...

    def turn_began(self, turn_id: str) -> tuple[str, bool] | None:
        """Return the session of the turn, also of one that is deleted, and whether it began with a message, or None."""
        ...

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """Return the calls of tools in the session, in the order in which the model asked for them."""
        ...

    def usage(self, session_id: str) -> UsageInfo:
        """Return what the session has used, by model and by tool."""
        ...

    def pending(self, session_id: str | None = None) -> list[PendingCall]:
        """Return the calls that wait for a person, those first that were asked for first.

        Those of all sessions, or of one and of all below it.
        """
        ...

    def pending_of_id(self, call_id: str) -> list[PendingCall]:
        """Return the calls of this id that wait for a person."""
        ...

    def agent(self, agent_id: str) -> AgentInfo | None:
        """Return the agent; None unless it is live."""
        ...

    def agents(self) -> list[AgentInfo]:
        """Return the live agents in the order in which they started."""
        ...

    def unfinished(self) -> list[str]:
        """Return the ids of the sessions that have a live agent or a turn under way."""
        ...
