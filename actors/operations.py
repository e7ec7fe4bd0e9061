"""What the facades and the command protocol have in common: each operation once, on actors, log and read model."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from reenact.actors.branching import begun, derived_id, point_at, point_before_last_message
from reenact.actors.container import ContainerActor, ImageActor
from reenact.actors.environment.tools.shelf import ToolShelf
from reenact.actors.feed.replay import cursor_of_turn, stream_of
from reenact.actors.journal.api import ChainedJournal, FeedJournal, Journal, Remembered, Segment
from reenact.actors.kernel import ActorSystem, Reference
from reenact.actors.once import Attempt
from reenact.actors.reading import Follower, ReadModel
from reenact.actors.session import SessionActor
from reenact.domain.agent import AgentInfo
from reenact.domain.branching import check_branch
from reenact.domain.container import ContainerInfo, CreateContainer
from reenact.domain.content import Content, check_content
from reenact.domain.errors import (
    AgentNotFoundError,
    ContainerNotFoundError,
    ImageNotFoundError,
    InvalidInputError,
    ReenactError,
    RuntimeClosedError,
    SessionLockedError,
    SessionNotFoundError,
)
from reenact.domain.events import TurnStarted, UserMessage
from reenact.domain.history import ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.image import (
    Definition,
    Image,
    ImageInfo,
    RegisterImage,
    check_policy_names,
    define,
    derive,
    describe,
)
from reenact.domain.messages import Message, check_text
from reenact.domain.once import Asked
from reenact.domain.plain import check_page, is_sayable
from reenact.domain.session import (
    Approve,
    BranchSession,
    CreateSession,
    Delete,
    Interrupt,
    Receive,
    Reject,
    Respond,
    Run,
    SessionCommand,
    SessionInfo,
    Stop,
)

Found = TypeVar("Found")
PATIENCE: Final = 60.0
"""How long, in seconds, a get or list waits for the tables to reach what the log held when it was called."""


class Log(Journal, FeedJournal, ChainedJournal, Protocol):
    """The journal of a runtime."""


class LiveAgents:
    """The live agents of this runtime: in which session each is, and whether its answer has begun."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._responding: dict[str, Callable[[], str | None]] = {}

    def add(self, agent_id: str, session_id: str, responding: Callable[[], str | None]) -> None:
        """Take note of an agent."""
        self._responding[agent_id] = responding
        self._sessions[agent_id] = session_id
        self._agents[session_id] = agent_id

    def remove(self, agent_id: str) -> None:
        """Forget an agent."""
        session_id = self._sessions.pop(agent_id, None)
        if session_id is not None and self._agents.get(session_id) == agent_id:
            del self._agents[session_id]
        self._responding.pop(agent_id, None)

    def session_of(self, agent_id: str) -> str | None:
        """Return the session that the agent runs, or None."""
        return self._sessions.get(agent_id)

    def agent_of(self, session_id: str) -> str | None:
        """Return the agent that runs the session, or None."""
        return self._agents.get(session_id)

    def responding(self, agent_id: str) -> str | None:
        """Return the turn in which the agent's answer has begun, or None."""
        tell = self._responding.get(agent_id)
        return None if tell is None else tell()

    def items(self) -> tuple[tuple[str, str], ...]:
        """Return the agents and their sessions."""
        return tuple(self._sessions.items())


class Operations:
    """Every operation, with the checks that come before it. `timeout` is in seconds; None waits as long as it takes."""

    def __init__(
        self,
        *,
        system: ActorSystem,
        journal: Log,
        model: ReadModel,
        follower: Follower,
        live: LiveAgents,
        shelf: ToolShelf,
        now: Callable[[], int],
        new_id: Callable[[str], str],
    ) -> None:
        self._system = system
        self._shelf = shelf
        self._journal = journal
        self._model = model
        self._follower = follower
        self._live = live
        self.now = now
        self.new_id = new_id
        self._containers: set[str] = set()
        self._definitions: dict[tuple[str, int], Definition] = {}
        self._newest: dict[str, int] = {}
        self._newest_lock = threading.Lock()
        self.closing = False
        self.closed = False

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the runtime has begun to close."""
        if self.closing:
            raise _closed()

    def create_container(
        self,
        name: str | None,
        container_id: str | None,
        *,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> ContainerInfo:
        """See `Containers.create`."""
        self.check_open()
        id_ = self.new_id("cnt") if container_id is None else check_text("the container's id", container_id)
        named = None if name is None else check_text("the container's name", name)
        _ask(self._system.actor(ContainerActor, id_), CreateContainer(id_, named), timeout, attempt)
        self._containers.add(id_)
        return self._found(self.container(id_), ContainerNotFoundError(id_))

    def container(self, container_id: str) -> ContainerInfo | None:
        """See `Containers.get`."""
        return self.read().container(container_id) if is_sayable(container_id) else None

    def containers(self) -> list[ContainerInfo]:
        """See `Containers.list`."""
        return self.read().containers()

    def register_image(
        self, image: Image, *, timeout: float | None = None, attempt: Attempt | None = None
    ) -> ImageInfo:
        """See `Images.register`."""
        self.check_open()
        _must_be_image(image)
        image = self._shelf.with_specs(image)
        id_ = self.new_id("img") if image.id is None else check_text("the image's id", image.id)
        definition = define(image, id_)
        check_policy_names(definition)
        registered = _ask(self._system.actor(ImageActor, id_), RegisterImage(id_, definition), timeout, attempt)
        self._shelf.put(id_, image)
        revision = len(registered.revisions)
        self._saw_revision(id_, revision)
        return self.image_at(id_, revision)

    def image_at(self, image_id: str, revision: int) -> ImageInfo:
        """Return the image in this revision, or raise `ImageNotFoundError`."""
        newest = self._found(self.image(image_id), ImageNotFoundError(image_id))
        if newest.revision == revision:
            return newest
        return describe(image_id, self.definition(image_id, revision), revision, newest.created_at)

    def image(self, image_id: str) -> ImageInfo | None:
        """See `Images.get`."""
        return self.read().image(image_id) if is_sayable(image_id) else None

    def images(self) -> list[ImageInfo]:
        """See `Images.list`."""
        return self.read().images()

    def definition(self, image_id: str, revision: int) -> Definition:
        """Return the content of an image's revision, or raise `ImageNotFoundError`."""
        known = self._definitions.get((image_id, revision))
        if known is None:
            found = self.read().image_revision(image_id, revision)
            known = self._definitions[image_id, revision] = self._found(found, ImageNotFoundError(image_id))
        return known

    def create_session(
        self,
        container_id: str,
        image_id: str,
        session_id: str | None,
        *,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> SessionInfo:
        """See `Sessions.create`."""
        self.check_open()
        id_ = self.new_id("ses") if session_id is None else check_text("the session's id", session_id)
        self._must_contain(container_id)
        revision = self._newest_revision(image_id)
        command = CreateSession(session_id=id_, container_id=container_id, image_id=image_id, image_revision=revision)
        created: SessionInfo = _ask(self.actor_of(id_), command, timeout, attempt)
        return created

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
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> SessionInfo:
        """See `Sessions.branch`."""
        self.check_open()
        content = check_branch(
            session_id,
            at=at,
            edit=edit,
            model=model,
            system_prompt=system_prompt,
            image_id=image_id,
            new_session_id=new_session_id,
        )
        id_ = new_session_id or self.new_id("ses")
        session = begun(self._journal, session_id)
        point = point_at(self._journal, session_id, at)
        if content is not None:
            point = point_before_last_message(self._journal, point)
        image, revision = session.image_id, session.image_revision
        if model is not None or system_prompt is not None:
            image, revision = self._derived(image, revision, model, system_prompt, timeout)
        elif image_id is not None:
            image, revision = image_id, self._newest_revision(image_id)
        command = BranchSession(
            session_id=id_,
            container_id=session.container_id,
            image_id=image,
            image_revision=revision,
            origin=point.session_id,
            version=point.link.version,
            digest=point.link.digest.hex(),
            position=point.link.position,
            at=self.now(),
            left_at=point.link.recorded_at,
            edit=content,
        )
        branched: SessionInfo = _ask(self.actor_of(id_), command, timeout, attempt)
        return branched

    def _derived(
        self, image_id: str, revision: int, model: str | None, system_prompt: str | None, timeout: float | None
    ) -> tuple[str, int]:
        """Register the image that is like another one but for its model and its prompt; return its id and revision."""
        content = derive(image_id, self.definition(image_id, revision), model=model, system_prompt=system_prompt)
        id_ = derived_id(image_id, revision, model, system_prompt)
        registered = _ask(self._system.actor(ImageActor, id_), RegisterImage(id_, content), timeout, None)
        self._saw_revision(id_, len(registered.revisions))
        return id_, len(registered.revisions)

    def session(self, session_id: str) -> SessionInfo | None:
        """See `Sessions.get`."""
        return self.read().session(session_id) if is_sayable(session_id) else None

    def sessions_of(self, container_id: str) -> list[SessionInfo]:
        """See `Sessions.list_by_container`."""
        self._must_contain(container_id)
        return self.read().sessions_of(container_id)

    def list_sessions(
        self, container_id: str | None, *, waiting: bool | None, after: str | None, limit: int
    ) -> list[SessionInfo]:
        """See `Sessions.list`."""
        check_page(waiting, limit)
        if container_id is not None:
            self._must_contain(container_id)
        if after is not None and not is_sayable(after):
            raise SessionNotFoundError(after)
        return self.read().sessions(limit, after=after, container_id=container_id, waiting=waiting)

    def delete_session(self, session_id: str, *, timeout: float | None = None, attempt: Attempt | None = None) -> bool:
        """See `Sessions.delete`."""
        self.check_open()
        if self.session(session_id) is None:
            return False
        try:
            _ask(self.actor_of(session_id), Delete(session_id=session_id, at=self.now()), timeout, attempt)
        except SessionNotFoundError:  # somebody else was quicker
            return False
        return True

    def run_session(self, session_id: str, *, timeout: float | None = None, attempt: Attempt | None = None) -> str:
        """See `Sessions.run`."""
        self.check_open()
        self._must_exist(session_id)  # so that nobody can fill the memory with actors of what is not there
        command = Run(session_id=session_id, agent_id=self.new_id("agt"), at=self.now())
        agent_id: str = _ask(self.actor_of(session_id), command, timeout, attempt)
        return agent_id

    def messages(self, session_id: str) -> list[Message]:
        """See `Sessions.messages`."""
        self._must_exist(session_id)
        return self.read().messages(session_id)

    def turns(self, session_id: str) -> list[TurnInfo]:
        """See `Sessions.turns`."""
        self._must_exist(session_id)
        return self.read().turns_of(session_id)

    def locate_turn(self, turn_id: str) -> TurnLocation | None:
        """See `Turns.locate`."""
        began = self.read().turn_began(turn_id) if is_sayable(turn_id) else None
        if began is None:
            return None
        session_id, with_message = began
        first = UserMessage if with_message else TurnStarted
        cursor = cursor_of_turn(self._journal, stream_of(session_id), turn_id, first.event_type)
        return None if cursor is None else TurnLocation(turn_id=turn_id, session_id=session_id, cursor=cursor)

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """See `Sessions.tool_calls`."""
        self._must_exist(session_id)
        return self.read().tool_calls(session_id)

    def usage(self, session_id: str) -> UsageInfo:
        """See `Sessions.usage`."""
        self._must_exist(session_id)
        return self.read().usage(session_id)

    def agent(self, agent_id: str) -> AgentInfo | None:
        """See `Agents.get`."""
        found = self.read().agent(agent_id) if is_sayable(agent_id) else None
        return None if found is None else self._as_it_is(found)

    def agents(self) -> list[AgentInfo]:
        """See `Agents.list`."""
        return [self._as_it_is(agent) for agent in self.read().agents()]

    def check_image(self, image_id: str) -> None:
        """Raise `ImageNotFoundError` unless there is such an image."""
        self._newest_revision(image_id)

    def receive(self, agent_id: str, message: Content, *, timeout: float | None = None) -> str:
        """See `Agents.receive`."""
        command = self._receive(agent_id, message, None)
        self.actor_of(self.session_of(agent_id)).ask(command, timeout)
        return command.turn_id

    async def receive_async(self, agent_id: str, message: Content) -> str | None:
        """Do the same without blocking the event loop, or return None if the agent is not live."""
        command = self._receive(agent_id, message, None)
        session_id = self._running(agent_id)
        if session_id is None:
            return None
        await self.actor_of(session_id).ask_async(command)
        return command.turn_id

    def live_agent(self, session_id: str) -> str | None:
        """Return the live agent of the session, if it has one."""
        return self._live.agent_of(session_id) if is_sayable(session_id) else None

    def receive_and_answer(
        self,
        agent_id: str,
        message: Content,
        request_id: str,
        *,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> Segment:
        """Do the same, and return the response to the request, which is published with the message."""
        command = self._receive(agent_id, message, request_id)
        response: Segment = _ask(self.actor_of(self.session_of(agent_id)), command, timeout, attempt)
        return response

    def _receive(self, agent_id: str, message: Content, request_id: str | None) -> Receive:
        self.check_open()
        content = check_content(message)
        return Receive(
            agent_id=agent_id,
            turn_id=self.new_id("trn"),
            message_id=self.new_id("msg"),
            content=content,
            at=self.now(),
            request_id=request_id,
        )

    def session_of(self, agent_id: str) -> str:
        """Return the session that a live agent runs, or raise `AgentNotFoundError`."""
        session_id = self._running(agent_id)
        if session_id is None:
            is_session = self.session(agent_id) is not None
            hint = f"it is a session: sessions.run({agent_id!r}) returns the id of its agent" if is_session else ""
            raise AgentNotFoundError(agent_id, hint)
        return session_id

    def interrupt(self, agent_id: str, *, timeout: float | None = None, attempt: Attempt | None = None) -> None:
        """See `Agents.interrupt`."""
        self.check_open()
        session_id = self._running(agent_id)
        if session_id is not None:
            command = Interrupt(agent_id=agent_id, reason="user", at=self.now())
            _ask(self.actor_of(session_id), command, timeout, attempt)

    def destroy(self, agent_id: str, *, timeout: float | None = None, attempt: Attempt | None = None) -> None:
        """See `Agents.destroy`."""
        self.check_open()
        session_id = self._running(agent_id)
        if session_id is not None:
            command = Stop(agent_id=agent_id, reason="destroyed", at=self.now())
            _ask(self.actor_of(session_id), command, timeout, attempt)

    def decide(
        self,
        session_id: str,
        command: Approve | Reject | Respond,
        *,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> str | None:
        """Have the session decide what follows from what a person has decided; return the turn that goes on."""
        turn_id: str | None = _ask(self.actor_of(session_id), command, timeout, attempt)
        return turn_id

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if it has been carried out, and is not forgotten."""
        return self._journal.remembered(request_id)

    def recover(self) -> None:
        """End, or take up again, what a crash has left unfinished; each session's actor knows which."""
        recovering = [self.actor_of(id_).ask_future(WAKE) for id_ in self.read().unfinished()]
        for future in recovering:
            with contextlib.suppress(SessionLockedError):  # it goes on in another process
                future.get()

    def shut_down(self) -> None:
        """Stop every agent, also one whose start was under way; running turns end as interrupted."""
        tried: set[str] = set()
        while live := [(agent_id, session_id) for agent_id, session_id in self._live.items() if agent_id not in tried]:
            stopping = [
                self.actor_of(session_id).ask_future(Stop(agent_id=agent_id, reason="shutdown", at=self.now()))
                for agent_id, session_id in live
            ]
            tried.update(agent_id for agent_id, _ in live)
            for future in stopping:
                with contextlib.suppress(ReenactError):  # the log fails: the next start finds the agent and ends it
                    future.get()

    def read(self) -> ReadModel:
        """Return the tables, once they have reached what the log holds now."""
        if self.closed:
            raise _closed()
        self._follower.wait_for(self._journal.head(), PATIENCE)
        return self._model

    def actor_of(self, session_id: str) -> Reference[SessionCommand]:
        """Return a reference to the session's actor."""
        return self._system.actor(SessionActor, session_id)

    def _running(self, agent_id: str) -> str | None:
        return self._live.session_of(agent_id) if is_sayable(agent_id) else None

    def _must_exist(self, session_id: str) -> None:
        if self.session(session_id) is None:
            running = self._running(session_id)
            hint = "" if running is None else f"it is an agent: its session is {running!r}"
            raise SessionNotFoundError(session_id, hint)

    def _must_contain(self, container_id: str) -> None:
        if is_sayable(container_id) and container_id in self._containers:
            return
        if self.container(container_id) is None:
            raise ContainerNotFoundError(container_id)
        self._containers.add(container_id)

    def _newest_revision(self, image_id: str) -> int:
        revision = self._newest.get(image_id) if is_sayable(image_id) else None
        if revision is None:
            revision = self._found(self.image(image_id), ImageNotFoundError(image_id)).revision
            self._saw_revision(image_id, revision)
        return revision

    def _saw_revision(self, image_id: str, revision: int) -> None:
        with self._newest_lock:  # of two who register at once, the later revision is the newest, whoever comes last
            self._newest[image_id] = max(revision, self._newest.get(image_id, 0))

    def _as_it_is(self, agent: AgentInfo) -> AgentInfo:
        if agent.state == "thinking" and agent.turn_id == self._live.responding(agent.id):
            return msgspec.structs.replace(agent, state="responding")
        return agent

    @staticmethod
    def _found(value: Found | None, error: ReenactError) -> Found:
        if value is None:
            raise error
        return value


WAKE = Stop(agent_id="", reason="crash", at=0)
"""Stops nobody, for there is no such agent; but the session's actor reads its log, and sees to what it finds there."""


def _ask(actor: Reference[Any], command: Asked, timeout: float | None, attempt: Attempt | None) -> Any:  # noqa: ANN401 - the actor's to say
    return actor.ask(command, timeout) if attempt is None else attempt.ask(actor, command, timeout)


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the runtime is closed; open it again to go on")


def _must_be_image(image: object) -> None:
    if not isinstance(image, Image):
        msg = f"an image is an Image, not {type(image).__name__}"
        raise InvalidInputError(msg)
