"""The facades: all methods of a runtime for programs. They return frozen values, never actors or rows."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeVar, overload

from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.family import FamilyStream, cursors_of
from reenact.actors.feed.handlers import Handler, Registration
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.observable import Observable
from reenact.actors.feed.retention import Compacted
from reenact.actors.feed.subscription import Subscription as Following
from reenact.actors.output import spec_of, with_spec
from reenact.domain.container import ContainerInfo
from reenact.domain.content import Content, plain_content
from reenact.domain.errors import CallNotPendingError, InvalidInputError
from reenact.domain.image import Image, ImageInfo, OutputType
from reenact.domain.messages import Message, check_text
from reenact.domain.operations import table as commands
from reenact.domain.operations.images import requested
from reenact.domain.plain import Json, JsonObject, made
from reenact.domain.session.agent import AgentInfo
from reenact.domain.session.people import PendingCall
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, UsageInfo
from reenact.domain.tools import History

R = TypeVar("R")


class Execute(Protocol):
    """Carries out operations: with the actors of this process, or of another one over a connection."""

    def __call__(self, request: commands.Request[R], /) -> R:
        """Carry out the request and return its result, or raise why it is not carried out."""
        ...


class _Facade:
    def __init__(self, execute: Execute) -> None:
        self._do = execute


class Containers(_Facade):
    """Containers: named workspaces. `runtime.containers`."""

    def create(self, name: str | None = None, *, container_id: str | None = None) -> ContainerInfo:
        """Create a container and return it.

        Names and ids must be meaningful in a list and fit into any database: at least one character that is not blank,
        at most 1,024 bytes in UTF-8, no NUL and no lone surrogate. Names need not be unique.

        Raises:
            AlreadyExistsError: a container with the supplied id exists.
            InvalidInputError: the name or the id does not meet these rules.
        """
        return self._do(commands.ContainerCreateRequest(name=name, container_id=container_id))

    def get(self, container_id: str) -> ContainerInfo | None:
        """Return the container, or None if there is none with this id."""
        return self._do(commands.ContainerGetRequest(container_id=container_id))

    def list(self) -> list[ContainerInfo]:
        """Return all containers, oldest first."""
        return self._do(commands.ContainerListRequest())


class Images(_Facade):
    """Images: definitions of agents. `runtime.images`."""

    def register(self, image: Image) -> ImageInfo:
        """Register the image and return its newest revision.

        Registering the same content again changes nothing; other content under the same id is a new revision, and
        sessions keep the one with which they were created.

        Raises:
            ConfigurationError: the definition contains something that cannot work.
            InvalidInputError: a text in it is empty, too long or not valid Unicode.
        """
        return self._do(commands.ImageRegisterRequest(image=requested(with_spec(image))))

    def get(self, image_id: str) -> ImageInfo | None:
        """Return the newest revision of the image, or None if there is none with this id."""
        return self._do(commands.ImageGetRequest(image_id=image_id))

    def list(self) -> list[ImageInfo]:
        """Return the newest revision of every image, oldest image first."""
        return self._do(commands.ImageListRequest())


class Sessions(_Facade):
    """Sessions: conversations in a container, on an image. `runtime.sessions`."""

    def create(
        self, container_id: str, image_id: str, *, session_id: str | None = None, image_revision: int | None = None
    ) -> SessionInfo:
        """Create a session on the image's newest revision and return it. The container `default` is created if needed.

        With `image_revision`, that of an `ImageInfo`, it is created on this revision, whoever has registered the image
        again since.

        Raises:
            ContainerNotFoundError: there is no such container.
            ImageNotFoundError: there is no such image, or revision.
            AlreadyExistsError: a session with the supplied id exists, or once existed.
        """
        return self._do(
            commands.SessionCreateRequest(
                container_id=container_id, image_id=image_id, session_id=session_id, image_revision=image_revision
            )
        )

    def branch(
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
        """Create a session that continues the history of another one, which stays unchanged, and return it.

        Nothing is copied. A turn that was running at that point ends in the branch as interrupted, and the effects of
        its calls are unknown there; calls that wait for people continue to wait, in both sessions; and queued messages
        are queued in the branch, too. The session may be a branch itself, and may be deleted.

        Args:
            session_id: the session to branch off from.
            at: the position of the log up to which the history is shared, 1 or more. None: now.
            edit: a user message that replaces, in the branch, the last message accepted up to `at`: the history ends
                before that message was taken up, and this one waits for the next run.
            model: a model other than that of the session's image.
            system_prompt: another system prompt. With either, the branch runs on an image that is derived from the
                session's, with the same tools.
            image_id: the branch runs on this image, in its newest revision.
            new_session_id: the branch's own id.

        Raises:
            SessionNotFoundError: there never was such a session.
            ImageNotFoundError: there is no such image.
            AlreadyExistsError: a session with the supplied id exists, or once existed.
            InvalidMessageError: the edited message cannot be accepted.
            InvalidInputError: there is no such position, the session begins after it, or there is no message to edit;
                or both an image and a model or prompt are given.
            LogUnusableError: the history from which the session itself branches off is missing from the log, or has
                changed.
        """
        return self._do(
            made(
                commands.SessionBranchRequest,
                session_id=session_id,
                at=at,
                edit=plain_content(edit),
                model=model,
                system_prompt=system_prompt,
                image_id=image_id,
                new_session_id=new_session_id,
            )
        )

    def switch(self, session_id: str, image: str, history: History = "all") -> bool:
        """Hand the session over to another image, in its newest revision; return whether it has taken effect.

        It stays the same session, with the same cursors; its agent continues with the tools, the prompt, the model and
        the policies of that image. If a turn is running, or its calls wait for people, the hand-over takes effect at
        its end: then False is returned, and the event `image_changed` is published when it has happened. A later
        hand-over replaces one that has not taken effect yet. The session can be handed back in the same way.

        Args:
            session_id: the session.
            image: the id of the new image.
            history: what the agent gets of the earlier messages: "all", "none", or a "summary", which its model makes
                before its first answer, if there is more than one message.

        Raises:
            SessionNotFoundError: there is no such session.
            ImageNotFoundError: there is no such image.
            InvalidInputError: the history is none of these.
        """
        return self._do(made(commands.SessionSwitchRequest, session_id=session_id, image=image, history=history))

    def get(self, session_id: str) -> SessionInfo | None:
        """Return the session; None if there is none with this id, or it was deleted."""
        return self._do(commands.SessionGetRequest(session_id=session_id))

    def list_by_container(self, container_id: str) -> list[SessionInfo]:
        """Return the container's sessions, oldest first.

        Raises:
            ContainerNotFoundError: there is no such container.
        """
        return self._do(commands.SessionListRequest(container_id=container_id))

    def delete(self, session_id: str) -> bool:
        """Stop the session's agent and delete the session; False if there is no such session.

        Its history stays in the log, and its id is never used again.
        """
        return self._do(commands.SessionDeleteRequest(session_id=session_id))

    def forget(self, session_id: str, *, by: str, why: str = "", family: bool = False) -> list[SessionInfo]:
        """Destroy the key of the session, so that its content cannot be read any more, here or in any later copy.

        First its agent is stopped, and the session deleted. An event in its stream records that it was forgotten, when,
        by whom and why; the chain of digests stays intact. Forgetting cannot be undone.

        Args:
            session_id: the session, which may have been deleted.
            by: who requests it; a name that may stay in the log for good, like `why`.
            why: the reason.
            family: whether to forget all sessions that depend on it in the same step: its branches, the session that
                has called it, its children, and so on.

        Returns:
            The sessions that were forgotten by this call; none if it had been forgotten before.

        Raises:
            SessionNotFoundError: there never was such a session.
            SessionInUseError: other sessions depend on it; the error names them.
            SessionNotEncryptedError: it was recorded without keys, at least in part.
        """
        return self._do(commands.SessionForgetRequest(session_id=session_id, by=by, why=why, family=family))

    def run(self, session_id: str) -> str:
        """Start the session's agent unless one is live, and return the agent's id.

        Raises:
            SessionNotFoundError: there is no such session.
            ConfigurationError: the runtime has no environment for agents.
            EnvironmentFailedError: the agent's environment could not be connected.
        """
        return self._do(commands.SessionRunRequest(session_id=session_id))

    def messages(self, session_id: str) -> list[Message]:
        """Return the session's messages: each question before its answer, in the order of the turns.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return self._do(commands.SessionMessagesRequest(session_id=session_id))

    def turns(self, session_id: str) -> list[TurnInfo]:
        """Return the session's turns in the order of their questions, each followed by the turns that continue it.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return self._do(commands.SessionTurnsRequest(session_id=session_id))

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """Return the tool calls that answers have requested, in order, with the outcome of each.

        Calls that the environment runs itself are not included.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return self._do(commands.SessionToolCallsRequest(session_id=session_id))

    def usage(self, session_id: str) -> UsageInfo:
        """Return the usage and the cost of the session, by model and by tool.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return self._do(commands.SessionUsageRequest(session_id=session_id))

    def list(
        self,
        *,
        container_id: str | None = None,
        waiting: bool | None = None,
        after: str | None = None,
        limit: int = 100,
        parent: str | None = None,
    ) -> list[SessionInfo]:
        """Return sessions, newest first: a page of at most `limit`, 1 to 1000.

        Child sessions are included; their `parent` is the session that has called them.

        Args:
            container_id: only those of this container.
            waiting: only those with a call that waits for a person; if False, only those without one.
            after: the id of the last session of the previous page, even if it was deleted since.
            limit: the maximum number to return.
            parent: only the children of this session.

        Raises:
            ContainerNotFoundError: there is no such container.
            SessionNotFoundError: there never was a session with the id `after`, or there is no such parent.
            InvalidInputError: the limit is out of range, or both a container and a parent are given.
        """
        return self._do(
            commands.SessionPageRequest(
                container_id=container_id, waiting=waiting, after=after, limit=limit, parent=parent
            )
        )


class Agents(_Facade):
    """Agents: live runs of sessions. `runtime.agents`."""

    def get(self, agent_id: str) -> AgentInfo | None:
        """Return the agent, or None unless it is live."""
        return self._do(commands.AgentGetRequest(agent_id=agent_id))

    def pending(self, agent_id: str | None = None, *, session_id: str | None = None) -> list[PendingCall]:
        """Return the calls that wait for a person, in the order in which they were requested.

        They are those of all sessions, with a live agent or without, or of one session, given by its id or its agent's,
        with its children and their children: `path` shows from where a child was called. Calls wait as long as
        necessary, also through restarts.

        Raises:
            AgentNotFoundError: no live agent has this id.
            SessionNotFoundError: there is no such session.
            InvalidInputError: both an agent and a session are given.
        """
        return self._do(commands.AgentPendingRequest(agent_id=agent_id, session_id=session_id))

    def approve(
        self,
        call_id: str | PendingCall,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        arguments: JsonObject | None = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """Let a call run, and return the id of the turn in which it does.

        A call that is given as returned by `pending`, or with its `digest`, runs only if it is still the same call,
        under the same policies. With `arguments`, a JSON object, it runs with these instead of its own, unless the
        policies deny that; then nothing runs, and None is returned if other calls still wait. An agent is started if
        the session has none. `by` records who approves.

        Args:
            call_id: the call, by its id or as returned by `pending`.
            session_id: the call's session, needed if calls of several sessions have the same id.
            agent_id: the live agent of its session, in place of `session_id`.
            arguments: arguments that replace the call's own.
            digest: the `digest` of the `PendingCall` that was reviewed.
            by: who approves.

        Raises:
            CallNotPendingError: no such call waits for approval, for example because it was already decided.
            StaleApprovalError: the call, or the policies, have changed since the digest was made.
            ToolUnavailableError: the tool's function is not available; the call continues to wait.
            InvalidInputError: calls of several sessions have this id, or the arguments are not a JSON object.
            SessionNotFoundError: there is no such session.
            AgentNotFoundError: no live agent has this id.
            ConfigurationError: the runtime has no environment for agents.
        """
        id_, where = self._call_and_session(call_id, session_id, agent_id)
        if digest is None and isinstance(call_id, PendingCall):
            digest = call_id.digest or None
        return self._do(
            commands.AgentApproveRequest(
                call_id=id_,
                session_id=where,
                agent_id=agent_id,
                arguments=arguments,
                digest=digest,
                by=by,
            )
        )

    def reject(
        self,
        call_id: str | PendingCall,
        reason: str = "",
        *,
        resume: bool = True,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """Reject a call or a question; the model is told, with the reason, once no other call waits.

        Return the id of the turn that continues, or None if there is none: because other calls still wait, or because
        `resume` is false, which gives up all calls of the answer without asking the model again.

        Raises:
            CallNotPendingError: no such call waits for a person.
            InvalidInputError: calls of several sessions have this id, or the reason is not text.
            SessionNotFoundError: there is no such session.
            AgentNotFoundError: no live agent has this id.
            ConfigurationError: the runtime has no environment for agents.
        """
        id_, where = self._call_and_session(call_id, session_id, agent_id)
        return self._do(
            commands.AgentRejectRequest(
                call_id=id_, reason=reason, resume=bool(resume), session_id=where, agent_id=agent_id, by=by
            )
        )

    def respond(
        self,
        call_id: str | PendingCall,
        value: Json,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """Answer the question of a call: with text, with one of its options, or with a list of them if `multi`.

        Options are given by value or label. Return the id of the turn that continues, or None while other calls still
        wait.

        Raises:
            CallNotPendingError: no such call asks a question.
            InvalidAnswerError: the question does not accept this answer.
            InvalidInputError: calls of several sessions have this id, or the answer is not a JSON value.
            SessionNotFoundError: there is no such session.
            AgentNotFoundError: no live agent has this id.
            ConfigurationError: the runtime has no environment for agents.
        """
        id_, where = self._call_and_session(call_id, session_id, agent_id)
        return self._do(
            commands.AgentRespondRequest(call_id=id_, value=value, session_id=where, agent_id=agent_id, by=by)
        )

    def schedule(
        self,
        session_id: str,
        content: Content,
        *,
        at: datetime | None = None,
        every: float | None = None,
        until: datetime | None = None,
    ) -> Schedule:
        """Schedule a message to a session, at a time or repeatedly, and return the schedule.

        It is in the log when this returns, and survives restarts. When the time comes, the message is accepted like any
        other, and an agent is started if the session has none. Times that are missed while no runtime is open result in
        one message, marked as `late` in the event `schedule_fired`.

        Args:
            session_id: the session.
            content: the message: text or content blocks, as for `receive`.
            at: the time of the message, with a time zone; a past time means at once.
            every: seconds between two messages, 1 or more. The first one comes `at`, or after this many seconds.
            until: no message comes after this time.

        Raises:
            SessionNotFoundError: there is no such session.
            InvalidMessageError: as for `receive`.
            InvalidInputError: neither `at` nor `every` is given, a time has no time zone, or `until` is too early.
        """
        return self._do(
            made(
                commands.AgentScheduleRequest,
                session_id=session_id,
                content=plain_content(content),
                at=at,
                every=every,
                until=until,
            )
        )

    def schedules(self, session_id: str | None = None) -> list[Schedule]:
        """Return the scheduled messages, in order of time: to all sessions, or to one.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return self._do(commands.AgentSchedulesRequest(session_id=session_id))

    def cancel_schedule(self, schedule_id: str) -> bool:
        """Cancel the schedule; return False if there is no such schedule, or no more messages are due."""
        return self._do(commands.AgentCancelScheduleRequest(schedule_id=schedule_id))

    def list(self) -> list[AgentInfo]:
        """Return the live agents in the order in which they started."""
        return self._do(commands.AgentListRequest())

    def receive(self, agent_id: str, message: Content, *, output: OutputType | None = None) -> str:
        """Accept a message for the agent and return the id of the turn that will answer it.

        It is text, or a list of texts, content blocks, such as `ImageBlock.from_bytes(…)`, or their plain mappings. The
        message is durable when this returns. A busy agent takes it up after earlier ones. `output` is what the answer
        must be: a type, or the JSON Schema of an object; None: the output of the image.

        Raises:
            AgentNotFoundError: no live agent has this id.
            ConfigurationError: answers cannot be validated against the output.
            InvalidMessageError: the message is blank, larger than 10 MiB, not valid Unicode, or has a block that the
                Messages API does not accept from users.
        """
        return self._do(
            made(
                commands.MessageSendRequest,
                agent_id=agent_id or "",
                content=plain_content(message),
                output=spec_of(output),
            )
        ).turn_id

    def interrupt(self, agent_id: str) -> None:
        """End the agent's running turn, if any, as interrupted. The part of the answer received so far is kept.

        Raises:
            AgentNotFoundError: the id is that of a session. An agent that is not live has no turn to end.
        """
        self._do(commands.AgentInterruptRequest(agent_id=agent_id))

    def destroy(self, agent_id: str) -> None:
        """End the agent, if it is live, and its turn. The session stays, and can be run again.

        Raises:
            AgentNotFoundError: the id is that of a session.
        """
        self._do(commands.AgentDestroyRequest(agent_id=agent_id))

    def _call_and_session(self, call: object, session_id: str | None, agent_id: str | None) -> tuple[str, str | None]:
        """Return the id of the call, and of its session unless the agent determines it."""
        if isinstance(call, str):
            return call, session_id
        if not isinstance(call, PendingCall):
            raise InvalidInputError(f"give the id of a call, or a PendingCall, not {type(call).__name__}")
        if agent_id is not None:
            agent = self.get(agent_id)
            where = None if agent is None else agent.session_id
        elif session_id is not None:
            where = session_id
        elif self._do(commands.SessionGetRequest(session_id=call.session_id)) is None:
            raise CallNotPendingError(call.id)
        else:
            where = call.session_id
        if where not in (None, call.session_id):
            self.pending(agent_id, session_id=session_id)  # raises if there is no such session or agent
            raise InvalidInputError(f"call {call.id!r} belongs to session {call.session_id!r}, not to {where!r}")
        return call.id, call.session_id if agent_id is None else session_id


class Events(Observable[Registration]):
    """Events, as they become durable. `runtime.events`."""

    def __init__(self, feed: Feed, sweep: Callable[[], Compacted], check: Callable[[], None]) -> None:
        self._feed = feed
        self._sweep = sweep
        self._check = check

    def register(
        self,
        type: str | None,  # noqa: A002 - as in the base class
        handler: Handler,
        session_id: str | None,
        loop: AbstractEventLoop | None = None,
    ) -> Registration:
        """See `Observable.register`. Without a loop, the handler is called on a thread."""
        self._check()
        return self._feed.handlers.add(type, handler, session_id, loop)

    def subscribe(
        self, session_id: str, client_id: str, after: int | None = None, *, auto_ack: bool = False
    ) -> Following:
        """Follow a session under a client id: its past events, then new ones, each once and in order.

        It begins after the cursor `after`; without it, after the last cursor acknowledged under this client id in this
        session, or else with the first event. Acknowledgements are durable. With `auto_ack`, events are acknowledged
        automatically, many at a time, when later ones are requested.

        Raises:
            SessionNotFoundError: no session has, or had, this id. A deleted one can be followed to its end.
            InvalidInputError: `after` is not a cursor of the session; the client id is blank or not text.
            StorageError: the log cannot be read.
            RuntimeClosedError: the runtime is closed.
        """
        self._check()
        return self._feed.subscribe(session_id, check_text("the client id", client_id), after, auto_ack=auto_ack)

    @overload
    def stream(self, session_id: str, after: int = 0) -> Following: ...
    @overload
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: Literal[True]
    ) -> FamilyStream: ...
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: bool = False
    ) -> Following | FamilyStream:
        """Follow a session after the cursor `after` without a client id, otherwise as `subscribe` does.

        With `children`, the events of its child sessions are included: of those that start after `after`, and of those
        in `after`, if it is a mapping of session ids to cursors, such as the `cursors` of an earlier stream.
        """
        self._check()
        if children:
            return FamilyStream(
                lambda id_, at: self._feed.subscribe(id_, None, at), session_id, cursors_of(session_id, after)
            )
        return self._feed.subscribe(session_id, None, check_cursor("`after`", after))

    def compact(self) -> Compacted:
        """Remove now what the runtime's `Retention` does not keep, as the runtime does from time to time.

        Raises:
            StorageError: the log cannot be read or written; what was removed until then stays removed.
            RuntimeClosedError: the runtime is closed.
        """
        self._check()
        return self._sweep()
