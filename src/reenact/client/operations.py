"""Every operation of the facades, carried out by a server. What can be refused without it, is refused as locally."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from reenact.client.caller import Caller
from reenact.domain.agent import AgentInfo
from reenact.domain.branching import check_branch
from reenact.domain.container import ContainerInfo
from reenact.domain.content import Content, check_content, plain_content
from reenact.domain.errors import (
    AgentNotFoundError,
    ContainerNotFoundError,
    ImageNotFoundError,
    SessionNotFoundError,
)
from reenact.domain.history import ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.image import Image, ImageInfo
from reenact.domain.image_travel import content_of
from reenact.domain.messages import Message, check_text
from reenact.domain.plain import check_page, is_sayable
from reenact.domain.session import SessionInfo

T = TypeVar("T")


class _Sent(msgspec.Struct, frozen=True, gc=False):
    turn_id: str


class RemoteOperations:
    """`Doing`, at the far end of a connection."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create_container(self, name: str | None, container_id: str | None) -> ContainerInfo:
        """See `Containers.create`."""
        self._caller.check_open()
        id_ = None if container_id is None else check_text("the container's id", container_id)
        named = None if name is None else check_text("the container's name", name)
        return self._caller.result("container_create_request", ContainerInfo, container_id=id_, name=named)

    def container(self, container_id: str) -> ContainerInfo | None:
        """See `Containers.get`."""
        if not is_sayable(container_id):
            return None
        return self._caller.optional("container_get_request", ContainerInfo, container_id=container_id)

    def containers(self) -> list[ContainerInfo]:
        """See `Containers.list`."""
        return self._caller.result("container_list_request", list[ContainerInfo])

    def register_image(self, image: Image) -> ImageInfo:
        """See `Images.register`."""
        self._caller.check_open()
        return self._caller.result("image_register_request", ImageInfo, image=content_of(image))

    def image(self, image_id: str) -> ImageInfo | None:
        """See `Images.get`."""
        if not is_sayable(image_id):
            return None
        return self._caller.optional("image_get_request", ImageInfo, image_id=image_id)

    def images(self) -> list[ImageInfo]:
        """See `Images.list`."""
        return self._caller.result("image_list_request", list[ImageInfo])

    def create_session(self, container_id: str, image_id: str, session_id: str | None) -> SessionInfo:
        """See `Sessions.create`."""
        self._caller.check_open()
        id_ = None if session_id is None else check_text("the session's id", session_id)
        if not is_sayable(container_id) or (not is_sayable(image_id) and self.container(container_id) is None):
            raise ContainerNotFoundError(container_id)
        if not is_sayable(image_id):
            raise ImageNotFoundError(image_id)
        return self._caller.result(
            "session_create_request", SessionInfo, container_id=container_id, image_id=image_id, session_id=id_
        )

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
    ) -> SessionInfo:
        """See `Sessions.branch`."""
        self._caller.check_open()
        check_branch(
            session_id,
            at=at,
            edit=edit,
            model=model,
            system_prompt=system_prompt,
            image_id=image_id,
            new_session_id=new_session_id,
        )
        return self._caller.result(
            "session_branch_request",
            SessionInfo,
            session_id=session_id,
            at=at,
            edit=None if edit is None else _travelling(edit),
            model=model,
            system_prompt=system_prompt,
            image_id=image_id,
            new_session_id=new_session_id,
        )

    def session(self, session_id: str) -> SessionInfo | None:
        """See `Sessions.get`."""
        if not is_sayable(session_id):
            return None
        return self._caller.optional("session_get_request", SessionInfo, session_id=session_id)

    def sessions_of(self, container_id: str) -> list[SessionInfo]:
        """See `Sessions.list_by_container`."""
        if not is_sayable(container_id):
            raise ContainerNotFoundError(container_id)
        return self._caller.result("session_list_request", list[SessionInfo], container_id=container_id)

    def list_sessions(
        self, container_id: str | None, *, waiting: bool | None, after: str | None, limit: int
    ) -> list[SessionInfo]:
        """See `Sessions.list`."""
        check_page(waiting, limit)
        if container_id is not None and not is_sayable(container_id):
            raise ContainerNotFoundError(container_id)
        if after is not None and not is_sayable(after):
            raise SessionNotFoundError(after)
        return self._caller.result(
            "session_page_request",
            list[SessionInfo],
            container_id=container_id,
            waiting=waiting,
            after=after,
            limit=limit,
        )

    def delete_session(self, session_id: str) -> bool:
        """See `Sessions.delete`."""
        self._caller.check_open()
        if not is_sayable(session_id):
            return False
        return self._caller.result("session_delete_request", bool, session_id=session_id)

    def run_session(self, session_id: str) -> str:
        """See `Sessions.run`."""
        return self._of_session("session_run_request", str, session_id)

    def messages(self, session_id: str) -> list[Message]:
        """See `Sessions.messages`."""
        return self._of_session("session_messages_request", list[Message], session_id)

    def turns(self, session_id: str) -> list[TurnInfo]:
        """See `Sessions.turns`."""
        return self._of_session("session_turns_request", list[TurnInfo], session_id)

    def locate_turn(self, turn_id: str) -> TurnLocation | None:
        """See `Turns.locate`."""
        if not is_sayable(turn_id):
            return None
        return self._caller.optional("turn_locate_request", TurnLocation, turn_id=turn_id)

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """See `Sessions.tool_calls`."""
        return self._of_session("session_tool_calls_request", list[ToolCallInfo], session_id)

    def usage(self, session_id: str) -> UsageInfo:
        """See `Sessions.usage`."""
        return self._of_session("session_usage_request", UsageInfo, session_id)

    def agent(self, agent_id: str) -> AgentInfo | None:
        """See `Agents.get`."""
        return (
            self._caller.optional("agent_get_request", AgentInfo, agent_id=agent_id) if is_sayable(agent_id) else None
        )

    def agents(self) -> list[AgentInfo]:
        """See `Agents.list`."""
        return self._caller.result("agent_list_request", list[AgentInfo])

    def receive(self, agent_id: str, message: Content) -> str:
        """See `Agents.receive`."""
        self._caller.check_open()
        content = _travelling(message)
        if not is_sayable(agent_id):
            raise AgentNotFoundError(agent_id)
        return self._caller.result("message_send_request", _Sent, agent_id=agent_id, content=content).turn_id

    def interrupt(self, agent_id: str) -> None:
        """See `Agents.interrupt`."""
        self._caller.check_open()
        if is_sayable(agent_id):
            self._caller.done("agent_interrupt_request", agent_id=agent_id)

    def destroy(self, agent_id: str) -> None:
        """See `Agents.destroy`."""
        self._caller.check_open()
        if is_sayable(agent_id):
            self._caller.done("agent_destroy_request", agent_id=agent_id)

    def _of_session(self, request: str, kind: type[T], session_id: str) -> T:
        if not is_sayable(session_id):
            raise SessionNotFoundError(session_id)
        return self._caller.result(request, kind, session_id=session_id)


def _travelling(message: Content) -> object:
    """Return the message as it travels, or raise what is wrong with it."""
    blocks = check_content(message)
    return message if isinstance(message, str) else plain_content(blocks)
