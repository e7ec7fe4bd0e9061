"""The operations of a runtime, on actors, log and read model: for the facades and the command protocol."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from reenact.actors.api.branching import begun, children_of, derived_id, image_at, point_at, point_before_last_message
from reenact.actors.api.forgetting import Branching, forget
from reenact.actors.api.reading import Follower, Log, ReadModel
from reenact.actors.container import ContainerActor, ImageActor
from reenact.actors.environment.tools.toolbox import ToolRegistry
from reenact.actors.feed.replay import cursor_of_turn, is_responding, stream_of
from reenact.actors.idempotency import Askable, Attempt
from reenact.actors.journal.api import Remembered, Segment
from reenact.actors.journal.codec import KeyDestroyedError
from reenact.actors.kernel import ActorSystem, EventSourcedActor
from reenact.actors.session.actor import SessionActor
from reenact.domain.container import ContainerInfo, CreateContainer
from reenact.domain.content import check_content
from reenact.domain.errors import (
    AgentNotFoundError,
    AlreadyExistsError,
    ContainerNotFoundError,
    ImageNotFoundError,
    ReenactError,
    RuntimeClosedError,
    SessionForgottenError,
    SessionLockedError,
    SessionNotFoundError,
    ShardMovedError,
    opened_before_fork,
)
from reenact.domain.image import Definition, ImageInfo, RegisterImage, check_policy_names, define, derive, describe
from reenact.domain.messages import Message, check_text
from reenact.domain.operations import table as commands
from reenact.domain.operations.images import image_of
from reenact.domain.operations.table import Sent
from reenact.domain.plain import can_be_id
from reenact.domain.session.agent import AgentInfo
from reenact.domain.session.child_turns import WAKE
from reenact.domain.session.commands import (
    BranchSession,
    CancelSchedule,
    CreateSession,
    Delete,
    Interrupt,
    Receive,
    Run,
    ScheduleMessage,
    Stop,
    Switch,
)
from reenact.domain.session.schedules import Schedule, times_of
from reenact.domain.session.state import SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.stream.events import TurnStarted, UserMessage

Found = TypeVar("Found")
PATIENCE = 60.0
"""Seconds that a get or list waits for the read model to reach the log's position at the time of the call."""
DEFAULT_CONTAINER = "default"
"""The container of messages for which no other is given; created when needed."""


Kind: TypeAlias = type[EventSourcedActor[Any, Any, Any]]
MOST_SENDS = 3
"""How often an agent is looked up or started for a message to a session before the message is given up."""
MOST_DEFINITIONS = 1_000
"""How many definitions of images are cached at most: a program may register an image for each session."""
_MOST_IDS_TRIED = 64
"""How many session ids are tried to find one of a shard of this node: even with a tenth of the shards, one is found."""


class Nodes(Protocol):
    """The actors of all nodes that write the log."""

    def actor(self, kind: Kind, id_: str) -> Askable:
        """Return a reference to an actor, on whatever node it is."""
        ...

    def is_here(self, stream: str) -> bool:
        """Return whether the actor of the stream is on this node."""
        ...


class LiveAgents:
    """The live agents of this runtime: the session of each, and whether its answer has begun."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._responding: dict[str, Callable[[], str | None]] = {}

    def add(self, agent_id: str, session_id: str, responding: Callable[[], str | None]) -> None:
        """Add an agent."""
        self._responding[agent_id] = responding
        self._sessions[agent_id] = session_id
        self._agents[session_id] = agent_id

    def remove(self, agent_id: str) -> None:
        """Remove an agent."""
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
        """Return the turn in which the text of the agent's answer has begun, or None."""
        tell = self._responding.get(agent_id)
        return None if tell is None else tell()

    def items(self) -> tuple[tuple[str, str], ...]:
        """Return the agents and their sessions."""
        return tuple(self._sessions.items())


class RuntimeOperations:
    """All operations except those on pending calls, named by their requests, which have been validated.

    Those that change something get the attempt they belong to. `agents.receive` is `message_send`.
    """

    def __init__(
        self,
        *,
        system: ActorSystem,
        journal: Log,
        model: ReadModel,
        follower: Follower,
        live: LiveAgents,
        registry: ToolRegistry,
        now: Callable[[], int],
        new_id: Callable[[str], str],
        nodes: Nodes | None,
    ) -> None:
        self._system = system
        self._nodes = nodes
        self._registry = registry
        self._journal = journal
        self.branching = Branching()
        self._model = model
        self._follower = follower
        self._live = live
        self.now = now
        self.new_id = new_id
        self._containers: set[str] = set()
        self._definitions: dict[tuple[str, int], Definition] = {}
        self._newest: dict[str, int] = {}
        self._newest_lock = threading.Lock()
        self._process = os.getpid()
        self.closing = False
        self.stops_agents = False
        self.closed = False

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the runtime has begun to close, and in a forked process."""
        self._check_process()
        if self.closing:
            raise _closed()

    def _check_process(self) -> None:
        if self._process != os.getpid():  # the threads that do the work do not exist here
            raise opened_before_fork("runtime")

    def container_create(self, request: commands.ContainerCreateRequest, attempt: Attempt) -> ContainerInfo:
        """See `Containers.create`."""
        id_ = request.container_id or self.new_id("cnt")
        attempt.ask(self._actor(ContainerActor, id_), CreateContainer(id_, request.name))
        self._containers.add(id_)
        return _require(self.read().container(id_), ContainerNotFoundError(id_))

    def container_get(self, request: commands.ContainerGetRequest) -> ContainerInfo | None:
        """See `Containers.get`."""
        return self.read().container(request.container_id)

    def container_list(self, _: commands.ContainerListRequest) -> list[ContainerInfo]:
        """See `Containers.list`."""
        return self.read().containers()

    def image_register(self, request: commands.ImageRegisterRequest, attempt: Attempt) -> ImageInfo:
        """See `Images.register`."""
        image = self._registry.with_specs(image_of(request.image))
        id_ = self.new_id("img") if image.id is None else check_text("the image's id", image.id)
        definition = define(image, id_)
        check_policy_names(definition)
        for agent in definition.agents:
            if agent.image_id != id_:
                self.newest_revision(agent.image_id)
        revision = self._register(id_, definition, attempt)
        self._registry.add(id_, image)
        return self.image_at(id_, revision)

    def _register(self, image_id: str, definition: Definition, attempt: Attempt) -> int:
        """Register the content of an image; return its revision."""
        revision: int = attempt.ask(self._actor(ImageActor, image_id), RegisterImage(image_id, definition))
        self._cache_revision(image_id, revision)
        return revision

    def image_at(self, image_id: str, revision: int) -> ImageInfo:
        """Return the image in this revision, or raise `ImageNotFoundError`."""
        newest = _require(self.read().image(image_id), ImageNotFoundError(image_id))
        if newest.revision == revision:
            return newest
        return describe(image_id, self.definition(image_id, revision), revision, newest.created_at)

    def image_get(self, request: commands.ImageGetRequest) -> ImageInfo | None:
        """See `Images.get`."""
        return self.read().image(request.image_id)

    def image_list(self, _: commands.ImageListRequest) -> list[ImageInfo]:
        """See `Images.list`."""
        return self.read().images()

    def definition(self, image_id: str, revision: int) -> Definition:
        """Return the content of an image's revision, or raise `ImageNotFoundError`."""
        known = self._definitions.get((image_id, revision))
        if known is None:
            known = _require(self.read().image_revision(image_id, revision), ImageNotFoundError(image_id))
            if len(self._definitions) >= MOST_DEFINITIONS:
                self._definitions.clear()
            self._definitions[image_id, revision] = known
        return known

    def session_create(self, request: commands.SessionCreateRequest, attempt: Attempt) -> SessionInfo:
        """See `Sessions.create`."""
        id_ = request.session_id or self._new_session_id()
        self._find_container(request.container_id, attempt.timeout)
        command = CreateSession(
            session_id=id_,
            container_id=request.container_id,
            image_id=request.image_id,
            image_revision=self._revision(request.image_id, request.image_revision),
        )
        created: SessionInfo = attempt.ask(self.actor_of(id_), command)
        return created

    def session_branch(self, request: commands.SessionBranchRequest, attempt: Attempt) -> SessionInfo:
        """See `Sessions.branch`."""
        with self.branching.branching():
            return self._branch(request, attempt)

    def _branch(self, request: commands.SessionBranchRequest, attempt: Attempt) -> SessionInfo:
        id_ = request.new_session_id or self._new_session_id()
        session = begun(self._journal, request.session_id)
        at = self._journal.head() if request.at is None else request.at
        point = point_at(self._journal, request.session_id, at)
        content = None if request.edit is None else check_content(request.edit)
        if content is not None:
            point = point_before_last_message(self._journal, point)
        image, revision = "", 0  # the image of the session at that point
        if request.model is not None or request.system_prompt is not None:
            image, revision = image_at(self._journal, point)
            definition = derive(
                image, self.definition(image, revision), model=request.model, system_prompt=request.system_prompt
            )
            image = derived_id(image, revision, request.model, request.system_prompt)
            revision = self._register(image, definition, Attempt(attempt.timeout))
        elif request.image_id is not None:
            image, revision = request.image_id, self.newest_revision(request.image_id)
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
            until=at,
        )
        branched: SessionInfo = attempt.ask(self.actor_of(id_), command)
        self._wait_for_children(branched.id, attempt.timeout)
        return branched

    def _wait_for_children(self, session_id: str, timeout: float | None) -> None:
        """Wait until the children of a new branch have begun, and theirs, and until it knows which wait."""
        children = children_of(self._journal, session_id)
        for child_id in children:
            self.actor_of(child_id).ask(WAKE, timeout)
            self._wait_for_children(child_id, timeout)
        if children:
            self.actor_of(session_id).ask(WAKE, timeout)

    def session_switch(self, request: commands.SessionSwitchRequest, attempt: Attempt) -> bool:
        """See `Sessions.switch`."""
        self.must_exist(request.session_id)
        command = Switch(
            session_id=request.session_id,
            image_id=request.image,
            image_revision=self.newest_revision(request.image),
            history=request.history,
        )
        is_there: bool = attempt.ask(self.actor_of(request.session_id), command)
        return is_there

    def session_get(self, request: commands.SessionGetRequest) -> SessionInfo | None:
        """See `Sessions.get`."""
        return self.read().session(request.session_id)

    def session_list(self, request: commands.SessionListRequest) -> list[SessionInfo]:
        """See `Sessions.list_by_container`."""
        self._check_container(request.container_id)
        return self.read().sessions_of(request.container_id)

    def session_page(self, request: commands.SessionPageRequest) -> list[SessionInfo]:
        """See `Sessions.list`."""
        if request.container_id is not None:
            self._check_container(request.container_id)
        if request.parent is not None:
            self.must_exist(request.parent)
        return self.read().sessions(
            request.limit,
            after=request.after,
            container_id=request.container_id,
            waiting=request.waiting,
            parent=request.parent,
        )

    def session_delete(self, request: commands.SessionDeleteRequest, attempt: Attempt) -> bool:
        """See `Sessions.delete`."""
        session_id = request.session_id
        if self.read().session(session_id) is None:
            return False
        try:
            attempt.ask(self.actor_of(session_id), Delete(session_id=session_id, at=self.now()))
        except SessionNotFoundError:  # another caller was faster
            return False
        return True

    def session_forget(self, request: commands.SessionForgetRequest, attempt: Attempt) -> list[SessionInfo]:
        """See `Sessions.forget`."""
        return forget(self, self._journal, request, attempt)

    def session_run(self, request: commands.SessionRunRequest, attempt: Attempt) -> str:
        """See `Sessions.run`."""
        session_id = request.session_id
        if not self._system.resident(SessionActor.stream(session_id)):
            self.must_exist(session_id)  # so that requests for missing sessions do not fill the memory with actors
        command = Run(session_id=session_id, agent_id=self.new_id("agt"), at=self.now())
        try:
            agent_id: str = attempt.ask(self.actor_of(session_id), command)
        except SessionNotFoundError:
            self.must_exist(session_id)  # it tells whether the session was forgotten
            raise
        return agent_id

    def session_messages(self, request: commands.SessionMessagesRequest) -> list[Message]:
        """See `Sessions.messages`."""
        self.must_exist(request.session_id)
        return self.read().messages(request.session_id)

    def session_turns(self, request: commands.SessionTurnsRequest) -> list[TurnInfo]:
        """See `Sessions.turns`."""
        self.must_exist(request.session_id)
        return self.read().turns_of(request.session_id)

    def session_tool_calls(self, request: commands.SessionToolCallsRequest) -> list[ToolCallInfo]:
        """See `Sessions.tool_calls`."""
        self.must_exist(request.session_id)
        return self.read().tool_calls(request.session_id)

    def session_usage(self, request: commands.SessionUsageRequest) -> UsageInfo:
        """See `Sessions.usage`."""
        self.must_exist(request.session_id)
        return self.read().usage(request.session_id)

    def turn_locate(self, request: commands.TurnLocateRequest) -> TurnLocation | None:
        """See `Turns.locate`."""
        began = self.read().turn_began(request.turn_id)
        if began is None:
            return None
        session_id, with_message = began
        first = UserMessage if with_message else TurnStarted
        cursor = cursor_of_turn(self._journal, stream_of(session_id), request.turn_id, first.event_type)
        if cursor is None:
            return None
        return TurnLocation(turn_id=request.turn_id, session_id=session_id, cursor=cursor)

    def agent_schedule(self, request: commands.AgentScheduleRequest, attempt: Attempt) -> Schedule:
        """See `Agents.schedule`."""
        due, every, until = times_of(self.now(), request.at, request.every, request.until)
        self.must_exist(request.session_id)
        command = ScheduleMessage(
            session_id=request.session_id,
            schedule_id=self.new_id("sch"),
            content=check_content(request.content),
            due=due,
            every=every,
            until=until,
        )
        scheduled: Schedule = attempt.ask(self.actor_of(request.session_id), command)
        return scheduled

    def agent_schedules(self, request: commands.AgentSchedulesRequest) -> list[Schedule]:
        """See `Agents.schedules`."""
        if request.session_id is not None:
            self.must_exist(request.session_id)
        return self.read().schedules(request.session_id)

    def agent_cancel_schedule(self, request: commands.AgentCancelScheduleRequest, attempt: Attempt) -> bool:
        """See `Agents.cancel_schedule`."""
        found = next((one for one in self.read().schedules() if one.id == request.schedule_id), None)
        if found is None:
            return False
        is_cancelled: bool = attempt.ask(self.actor_of(found.session_id), CancelSchedule(schedule_id=found.id))
        return is_cancelled

    def agent_get(self, request: commands.AgentGetRequest) -> AgentInfo | None:
        """See `Agents.get`."""
        found = self.read().agent(request.agent_id)
        return None if found is None else self._with_current_state(found)

    def agent_list(self, _: commands.AgentListRequest) -> list[AgentInfo]:
        """See `Agents.list`."""
        return [self._with_current_state(agent) for agent in self.read().agents()]

    def agent_interrupt(self, request: commands.AgentInterruptRequest, attempt: Attempt) -> None:
        """See `Agents.interrupt`."""
        session_id = self._session_if_live(request.agent_id)
        if session_id is not None:
            command = Interrupt(agent_id=request.agent_id, reason="user", at=self.now())
            attempt.ask(self.actor_of(session_id), command)

    def agent_destroy(self, request: commands.AgentDestroyRequest, attempt: Attempt) -> None:
        """See `Agents.destroy`."""
        session_id = self._session_if_live(request.agent_id)
        if session_id is not None:
            command = Stop(agent_id=request.agent_id, reason="destroyed", at=self.now())
            attempt.ask(self.actor_of(session_id), command)

    def message_send(self, request: commands.MessageSendRequest, attempt: Attempt) -> Sent:
        """See `Agents.receive`; the agent of a session, or of an image's default session, is started if necessary."""
        sent, _ = self._send(request, attempt, None)
        return sent

    def answer(self, request: commands.MessageSendRequest, attempt: Attempt) -> Segment | Sent:
        """Send like `message_send`, and return the response to the request, which is published with the message.

        For an agent on another node, `Sent` is returned: the response is still to be published.
        """
        sent, response = self._send(request, attempt, request.request_id)
        return response if isinstance(response, Segment) else sent

    def _send(
        self, request: commands.MessageSendRequest, attempt: Attempt, request_id: str | None
    ) -> tuple[Sent, Segment | str]:
        """Send the message to the given agent, or to the live one; return also the reply of its actor."""
        tries = itertools.count(1)
        while True:
            command = self._receive_command(request, attempt, request_id)
            try:
                session_id = self.session_of(command.agent_id)
                reply: Segment | str = attempt.ask(self.actor_of(session_id), command)
            except AgentNotFoundError:  # it was live a moment ago; its node may have ended
                if request.agent_id is not None or next(tries) == MOST_SENDS:
                    raise
            else:
                turn_id = reply if isinstance(reply, str) else command.turn_id
                return Sent(agent_id=command.agent_id, session_id=session_id, turn_id=turn_id), reply

    async def receive(self, request: commands.MessageSendRequest) -> Sent | None:
        """Send like `message_send` without blocking the event loop, or return None if the agent is not live."""
        session_id = self._live.session_of(request.agent_id or "")
        if session_id is None:
            return None
        command = self._receive_command(request, Attempt(), None)
        await self.actor_of(session_id).ask_future(command)
        return Sent(agent_id=command.agent_id, session_id=session_id, turn_id=command.turn_id)

    def _receive_command(
        self, request: commands.MessageSendRequest, attempt: Attempt, request_id: str | None
    ) -> Receive:
        content = check_content(request.content)
        return Receive(
            agent_id=self._agent_for(request, Attempt(attempt.timeout)),
            turn_id=self.new_id("trn"),
            message_id=self.new_id("msg"),
            content=content,
            at=self.now(),
            request_id=request_id,
            output=request.output,
        )

    def _agent_for(self, request: commands.MessageSendRequest, attempt: Attempt) -> str:
        if request.agent_id is not None:
            return request.agent_id
        session_id = request.session_id
        if session_id is None:
            session_id = self._default_session(request.image_id or "", request.container_id, attempt)
        return self.session_run(commands.SessionRunRequest(session_id=session_id), attempt)

    def _default_session(self, image_id: str, container_id: str | None, attempt: Attempt) -> str:
        self.newest_revision(image_id)
        container_id = DEFAULT_CONTAINER if container_id is None else container_id
        self._find_container(container_id, attempt.timeout)
        for number in itertools.count(1):
            session_id = _default_id(container_id, image_id, number)
            if self.read().known_session(session_id) is None:
                with contextlib.suppress(AlreadyExistsError):  # another caller was as fast
                    self.session_create(
                        commands.SessionCreateRequest(
                            container_id=container_id, image_id=image_id, session_id=session_id
                        ),
                        attempt,
                    )
            found = self.read().session(session_id)
            # It may have been deleted or forgotten.
            if found is not None and found.container_id == container_id and found.forgotten is None:
                return session_id
        raise AssertionError  # there is always a next number

    def live_agent(self, session_id: str) -> str | None:
        """Return the live agent of the session, or None."""
        return self._live.agent_of(session_id) if can_be_id(session_id) else None

    def session_of(self, agent_id: str) -> str:
        """Return the session that a live agent runs, or raise `AgentNotFoundError`."""
        session_id = self._session_if_live(agent_id)
        if session_id is None:
            raise AgentNotFoundError(agent_id)
        return session_id

    def _session_if_live(self, agent_id: str) -> str | None:
        """Return the session that the agent runs, None if it is not live; raise `AgentNotFoundError` for a session."""
        session_id = self._session_of(agent_id)
        if session_id is None and self.read().session(agent_id) is not None:
            hint = f"it is a session: sessions.run({agent_id!r}) returns the id of its agent"
            raise AgentNotFoundError(agent_id, hint)
        return session_id

    def must_exist(self, session_id: str) -> None:
        """Raise `SessionNotFoundError` if the session does not exist, `SessionForgottenError` if it was forgotten."""
        found = self.read().session(session_id)
        if found is not None and found.forgotten is not None:
            raise SessionForgottenError(session_id)
        if found is None:
            running = self._session_of(session_id)
            raise SessionNotFoundError(
                session_id, "" if running is None else f"it is an agent: its session is {running!r}"
            )

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if it has been carried out.

        Raises:
            SessionForgottenError: it was carried out for a session that was forgotten.
        """
        try:
            return self._journal.remembered(request_id)
        except KeyDestroyedError as destroyed:
            _, _, session_id = destroyed.stream.partition("/")
            raise SessionForgottenError(session_id) from None

    def recover(self, has_come: Callable[[str], bool] = lambda _: True) -> None:
        """Resume or end the unfinished work in these streams; the session actors decide which."""
        unfinished = [id_ for id_ in self.read().unfinished() if has_come(SessionActor.stream(id_))]
        recovering = [self._system.actor(SessionActor, id_).ask_future(WAKE) for id_ in unfinished]
        for future in recovering:
            with contextlib.suppress(SessionLockedError, ShardMovedError):  # it continues in another process
                future.get()

    def shut_down(self) -> None:
        """Stop every agent, including those being started; running turns end as interrupted."""
        self.stops_agents = True
        tried: set[str] = set()
        while live := [(agent_id, session_id) for agent_id, session_id in self._live.items() if agent_id not in tried]:
            stopping = [
                self._system.actor(SessionActor, session_id).ask_future(
                    Stop(agent_id=agent_id, reason="shutdown", at=self.now())
                )
                for agent_id, session_id in live
            ]
            tried.update(agent_id for agent_id, _ in live)
            for future in stopping:
                with contextlib.suppress(ReenactError):  # the log fails: the next start finds the agent and ends it
                    future.get()

    def read(self) -> ReadModel:
        """Return the read model, once it has caught up with the log."""
        self._check_process()
        if self.closed:
            raise _closed()
        self._follower.wait_for(self._journal.head(), PATIENCE)
        return self._model

    def actor_of(self, session_id: str) -> Askable:
        """Return a reference to the session's actor."""
        return self._actor(SessionActor, session_id)

    def _actor(self, kind: Kind, id_: str) -> Askable:
        return (self._nodes or self._system).actor(kind, id_)

    def _session_of(self, agent_id: str) -> str | None:
        """Return the session that a live agent runs, on whatever node it is."""
        session_id = self._live.session_of(agent_id)
        if session_id is None and self._nodes is not None:
            found = self.read().agent(agent_id)
            return None if found is None else found.session_id
        return session_id

    def _new_session_id(self) -> str:
        """Return an id for a new session, of a shard of this node if possible."""
        id_, nodes = self.new_id("ses"), self._nodes
        for _ in range(_MOST_IDS_TRIED):
            if nodes is None or nodes.is_here(SessionActor.stream(id_)):
                break
            id_ = self.new_id("ses")
        return id_

    def _find_container(self, container_id: str, timeout: float | None) -> None:
        """Check that the container exists, or create it if it is `default`."""
        if container_id in self._containers:
            return
        if container_id == DEFAULT_CONTAINER and self.read().container(container_id) is None:
            with contextlib.suppress(AlreadyExistsError):  # another caller was as fast
                create = commands.ContainerCreateRequest(container_id=container_id)
                self.container_create(create, Attempt(timeout))
        self._check_container(container_id)

    def _check_container(self, container_id: str) -> None:
        if container_id not in self._containers:
            _require(self.read().container(container_id), ContainerNotFoundError(container_id))
            self._containers.add(container_id)

    def _revision(self, image_id: str, revision: int | None) -> int:
        """Return the image's revision, by default the newest one, or raise `ImageNotFoundError`."""
        newest = self.newest_revision(image_id)
        if revision is not None and not 1 <= revision <= newest:
            raise ImageNotFoundError(image_id)
        return newest if revision is None else revision

    def newest_revision(self, image_id: str) -> int:
        """Return the newest revision of the image, or raise `ImageNotFoundError`."""
        revision = self._newest.get(image_id)
        if revision is None or self._nodes is not None:  # another node may have registered the next one
            revision = _require(self.read().image(image_id), ImageNotFoundError(image_id)).revision
            self._cache_revision(image_id, revision)
        return revision

    def _cache_revision(self, image_id: str, revision: int) -> None:
        with self._newest_lock:  # of concurrent registrations, the later revision counts, in any order
            self._newest[image_id] = max(revision, self._newest.get(image_id, 0))

    def _with_current_state(self, agent: AgentInfo) -> AgentInfo:
        if agent.state == "thinking" and agent.turn_id is not None and self._is_responding(agent, agent.turn_id):
            return msgspec.structs.replace(agent, state="responding")
        return agent

    def _is_responding(self, agent: AgentInfo, turn_id: str) -> bool:
        """Return whether the text of the agent's answer has begun; for an agent on another node, the log tells."""
        if self._nodes is not None and self._live.session_of(agent.id) is None:
            return is_responding(self._journal, stream_of(agent.session_id), turn_id)
        return turn_id == self._live.responding(agent.id)


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the runtime is closed; open it again to go on")


def _require(value: Found | None, error: ReenactError) -> Found:
    if value is None:
        raise error
    return value


def _default_id(container_id: str, image_id: str, number: int) -> str:
    """Return the id of the image's `number`-th default session in the container; a deleted one gets a successor."""
    both = f"{len(container_id)} {container_id} {image_id}"
    return f"ses_default_{hashlib.blake2b(both.encode(), digest_size=10).hexdigest()}_{number}"
