"""Asks agents: sends a message, follows the session until its turn has ended, and puts the answer together."""

from __future__ import annotations

import contextlib
import time
from typing import Final, Protocol, Self

from reenact.actors.doing import Doing
from reenact.actors.facades import Agents, Containers, Images, Sessions
from reenact.actors.feed.handlers import Handler, check_handler
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.subscription import Subscription
from reenact.actors.operations import Operations
from reenact.domain.agent import Failure
from reenact.domain.content import Content, check_content
from reenact.domain.errors import (
    AgentStoppedError,
    AlreadyExistsError,
    InvalidInputError,
    RuntimeClosedError,
    SessionNotFoundError,
    TurnNotFoundError,
    TurnTimeoutError,
)
from reenact.domain.events import AgentStopped, AssistantMessage, Envelope, ErrorMessage, TurnCompleted
from reenact.domain.history import Answer, TurnLocation
from reenact.domain.image import Image
from reenact.domain.messages import Message, StopDetails
from reenact.domain.people import PendingCall
from reenact.domain.plain import seconds_of

DEFAULT_CONTAINER: Final = "default"
DEFAULT_IMAGE: Final = "chat"
"""Where a message goes for which nobody has named a container, or an image; made when they are needed."""


class Following(Protocol):
    """The events of a session, from behind a cursor on."""

    @property
    def closed(self) -> bool: ...
    def next(self, timeout: float | None = None) -> Envelope | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class Streams(Protocol):
    """What is needed of `runtime.events`."""

    def stream(self, session_id: str, after: int = 0) -> Following: ...


class AwaitedTurn:
    """The events of one turn, as they are heard, and the answer that they add up to.

    With an `agent_id` the turn is awaited from this agent alone: if it stops before, there will be no answer.
    """

    def __init__(self, location: TurnLocation, agent_id: str | None = None) -> None:
        self.turn_id = location.turn_id
        self.session_id = location.session_id
        self.after = location.cursor - 1
        """The cursor in front of its first event."""
        self._agent_id = agent_id
        self._message: Message | None = None
        self._failure: Failure | None = None
        self._end: TurnCompleted | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its last event has been heard."""
        return self._end is not None

    @property
    def waits(self) -> bool:
        """Whether it has ended with calls that wait for a person."""
        return self._end is not None and self._end.outcome == "waiting"

    def hear(self, envelope: Envelope) -> bool:
        """Take the session's next event; return whether it is one of the turn.

        Raises:
            AgentStoppedError: the agent has stopped, and the turn has not begun.
        """
        data = envelope.data
        if envelope.context.turn_id != self.turn_id:
            if isinstance(data, AgentStopped) and data.agent_id == self._agent_id:
                raise AgentStoppedError(data.agent_id, self.session_id, self.turn_id)
            return False
        match data:
            case AssistantMessage():
                self._message = data.message
            case ErrorMessage():
                self._failure = Failure(data.type, data.message, data.retryable)
            case TurnCompleted():
                self._end = data
            case _:
                pass
        return True

    def answer(self, pending: tuple[PendingCall, ...]) -> Answer:
        """Return the answer; the turn has ended."""
        end, message = self._end, self._message
        assert end is not None
        return Answer(
            text="" if message is None else message.text,
            message=message,
            outcome=end.outcome,
            stop_reason=end.stop_reason,
            refusal=(end.stop_details or StopDetails()) if end.stop_reason == "refusal" else None,
            pending=pending,
            usage=end.usage,
            cost=end.cost,
            session_id=self.session_id,
            turn_id=self.turn_id,
            failure=self._failure,
        )

    def over(self) -> RuntimeClosedError:
        """Return the error for who is told nothing more although the turn has not ended."""
        return RuntimeClosedError(f"the runtime was closed before turn {self.turn_id!r} began; its message is queued")


class Deadline:
    """A time that is so many seconds away, or never comes."""

    def __init__(self, timeout: object) -> None:
        seconds = seconds_of(timeout)
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """The seconds until then; None if it never comes."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())


class Turns:
    """Turns: what agents do about messages. `runtime.turns`."""

    def __init__(self, operations: Doing, agents: Agents, events: Streams) -> None:
        self._do = operations
        self._agents = agents
        self._events = events

    def locate(self, turn_id: str) -> TurnLocation | None:
        """Return which session the turn is of, and the cursor of its first event; None if there is no such turn."""
        return self._do.locate_turn(turn_id)

    def wait(self, turn_id: str, timeout: float | None = None) -> Answer:
        """Return the turn's answer once it has ended, which may be long ago. `timeout` is in seconds.

        A turn whose message is queued is waited for too, also while the session has no live agent.

        Raises:
            TurnNotFoundError: there is no such turn.
            TurnTimeoutError: it has not ended in time. It goes on.
            RuntimeClosedError: the runtime is closed.
            StorageError: the log cannot be read.
        """
        deadline = Deadline(timeout)
        turn = AwaitedTurn(located(turn_id, self.locate(turn_id)))
        return self._follow(turn, self._events.stream(turn.session_id, turn.after), deadline, None)

    def _send(self, session_id: str, content: Content) -> AwaitedTurn:
        """Send the message to the session's agent, which is started if need be; return its turn."""
        agent_id = self._do.run_session(session_id)
        turn_id = self._do.receive(agent_id, content)
        return AwaitedTurn(located(turn_id, self.locate(turn_id)), agent_id)

    def _begin(self, session_id: str, content: Content) -> tuple[AwaitedTurn, Following]:
        """Do the same, and return the events that those of the turn are among, too."""
        turn = self._send(session_id, content)
        return turn, self._events.stream(turn.session_id, turn.after)

    def _follow(self, turn: AwaitedTurn, following: Following, deadline: Deadline, on_event: Handler | None) -> Answer:
        with following as events:
            while not turn.has_ended:
                envelope = events.next(deadline.left)
                if envelope is None:
                    raise turn.over() if events.closed else TurnTimeoutError(turn.turn_id)
                if turn.hear(envelope) and on_event is not None:
                    on_event(envelope)
        return turn.answer(pending_of(turn, self._agents) if turn.waits else ())


class LocalTurns(Turns):
    """Turns of agents in this process: what they say is followed from before the message is sent, and never read."""

    def __init__(self, operations: Operations, agents: Agents, events: Streams, feed: Feed) -> None:
        super().__init__(operations, agents, events)
        self._operations = operations
        self._feed = feed

    def _begin(self, session_id: str, content: Content) -> tuple[AwaitedTurn, Following]:
        agent_id = self._operations.live_agent(session_id) or self._operations.run_session(session_id)
        events = self._feed.news(session_id)
        try:
            turn_id = self._operations.receive(agent_id, content)
        except BaseException:
            events.unsubscribe()
            raise
        return _sent(turn_id, session_id, agent_id), events

    async def _receive_async(self, agent_id: str, content: Content) -> str | None:
        """Do as `Agents.receive` on an event loop, which is never blocked; return None unless the agent is live."""
        return await self._operations.receive_async(agent_id, content)

    async def _begin_async(self, session_id: str, content: Content) -> tuple[AwaitedTurn, Subscription] | None:
        """Do the same on an event loop, which is never blocked; return None unless the session has a live agent."""
        agent_id = self._operations.live_agent(session_id)
        if agent_id is None:
            return None
        events = self._feed.news(session_id)
        try:
            turn_id = await self._operations.receive_async(agent_id, content)
        except BaseException:
            events.unsubscribe()
            raise
        if turn_id is None:
            events.unsubscribe()
            return None
        return _sent(turn_id, session_id, agent_id), events


class Asking:
    """A runtime's facades, and the short way through them."""

    containers: Containers
    images: Images
    sessions: Sessions
    agents: Agents
    turns: Turns
    default_image = DEFAULT_IMAGE
    """The id of the image of those sessions for which `ask` is given no other."""

    def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        container: str | None = None,
        timeout: float | None = None,
        on_event: Handler | None = None,
    ) -> Answer:
        """Send a message, and return the answer once its own turn has ended, whatever other turns end meanwhile.

        A turn that waits for people returns, too, with the calls under `pending`.

        Args:
            content: text, or content blocks; see `Agents.receive`.
            session: the id of the session that goes on; its agent is started if need be. None: a new session.
            image: the new session's image, which is registered, or its id. None: that of the id `chat`, or the
                runtime's default image.
            container: the id of the new session's container. None: `default`, which is created when needed.
            timeout: seconds until `TurnTimeoutError`, which has the turn's id; the turn goes on. None: no limit.
            on_event: called with each event of this turn, in order, before this returns. It runs on the caller's own
                thread, and what it raises is raised here; the turn goes on.

        Raises:
            TurnTimeoutError: the turn has not ended in time.
            AgentStoppedError: the agent was stopped before it took up the message, which is queued.
            InvalidMessageError: the message cannot be accepted.
            InvalidInputError: a session is given together with an image or a container.
            ReenactError: what the facades raise that create and run the session.
        """
        deadline = Deadline(timeout)
        check_asked(content, session, image, container, on_event)
        session_id = new_session(self, image, container) if session is None else session
        turn, events = self.turns._begin(session_id, content)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # of this module
        return self.turns._follow(turn, events, deadline, on_event)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # likewise


def check_asked(
    content: Content,
    session: str | None,
    image: Image | str | None,
    container: str | None,
    on_event: Handler | None,
) -> None:
    """Refuse what `ask` cannot do, before anything is created for it."""
    check_content(content)
    if on_event is not None:
        check_handler(on_event)
    if session is not None and not (image is None and container is None):
        raise InvalidInputError("a session that goes on has its image and its container; give the session alone")


def _sent(turn_id: str, session_id: str, agent_id: str) -> AwaitedTurn:
    """Return the turn of a session that is followed already."""
    return AwaitedTurn(TurnLocation(turn_id=turn_id, session_id=session_id, cursor=0), agent_id)


def located(turn_id: str, location: TurnLocation | None) -> TurnLocation:
    """Return the location, or raise `TurnNotFoundError`."""
    if location is None:
        raise TurnNotFoundError(turn_id)
    return location


def pending_of(turn: AwaitedTurn, agents: Agents) -> tuple[PendingCall, ...]:
    """Return what waits for people in the turn's session; nothing if the session was deleted meanwhile."""
    try:
        return tuple(agents.pending(session_id=turn.session_id))
    except SessionNotFoundError:
        return ()


def new_session(runtime: Asking, image: Image | str | None, container: str | None) -> str:
    """Create a session for `ask`, with what it needs; return its id."""
    if container is None:
        container = DEFAULT_CONTAINER
        if runtime.containers.get(container) is None:
            with contextlib.suppress(AlreadyExistsError):  # somebody else was as quick
                runtime.containers.create(container_id=container)
    if image is None:
        image = runtime.default_image
        if runtime.images.get(image) is None:
            runtime.images.register(Image(id=image))
    elif isinstance(image, Image):
        image = runtime.images.register(image).id
    return runtime.sessions.create(container, image).id
