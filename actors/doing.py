"""What the facades need done: by the actors of this process, or by those of another, at the far end of a connection."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from reenact.domain.agent import AgentInfo
from reenact.domain.container import ContainerInfo
from reenact.domain.content import Content
from reenact.domain.history import ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.image import Image, ImageInfo
from reenact.domain.messages import Message
from reenact.domain.people import PendingCall
from reenact.domain.session import SessionInfo

Named: TypeAlias = str | PendingCall
"""A call: by its id, or as `pending` told of it."""


class Doing(Protocol):
    """Every operation on containers, images, sessions and agents. What each promises, its facade says."""

    def create_container(self, name: str | None, container_id: str | None) -> ContainerInfo: ...
    def container(self, container_id: str) -> ContainerInfo | None: ...
    def containers(self) -> list[ContainerInfo]: ...
    def register_image(self, image: Image) -> ImageInfo: ...
    def image(self, image_id: str) -> ImageInfo | None: ...
    def images(self) -> list[ImageInfo]: ...
    def create_session(self, container_id: str, image_id: str, session_id: str | None) -> SessionInfo: ...
    def branch_session(
        self,
        session_id: str,
        *,
        at: int | None = None,
        edit: Content | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        image_id: str | None = None,
        new_session_id: str | None = None,
    ) -> SessionInfo: ...
    def session(self, session_id: str) -> SessionInfo | None: ...
    def sessions_of(self, container_id: str) -> list[SessionInfo]: ...
    def list_sessions(
        self, container_id: str | None, *, waiting: bool | None, after: str | None, limit: int
    ) -> list[SessionInfo]: ...
    def delete_session(self, session_id: str) -> bool: ...
    def run_session(self, session_id: str) -> str: ...
    def messages(self, session_id: str) -> list[Message]: ...
    def turns(self, session_id: str) -> list[TurnInfo]: ...
    def locate_turn(self, turn_id: str) -> TurnLocation | None: ...
    def tool_calls(self, session_id: str) -> list[ToolCallInfo]: ...
    def usage(self, session_id: str) -> UsageInfo: ...
    def agent(self, agent_id: str) -> AgentInfo | None: ...
    def agents(self) -> list[AgentInfo]: ...
    def receive(self, agent_id: str, message: Content) -> str: ...
    def interrupt(self, agent_id: str) -> None: ...
    def destroy(self, agent_id: str) -> None: ...


class Deciding(Protocol):
    """What people do about calls that wait for them. What each promises, `Agents` says."""

    def pending(self, agent_id: str | None = None, session_id: str | None = None) -> list[PendingCall]: ...

    def approve(
        self,
        call_id: Named,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        arguments: object = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> str | None: ...

    def reject(
        self,
        call_id: Named,
        reason: str = "",
        *,
        resume: bool = True,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None: ...

    def respond(
        self,
        call_id: Named,
        value: object,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None: ...
