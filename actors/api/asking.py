"""Asks agents: sends a message, follows the session until the turn has ended, and assembles the answer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import NoReturn, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack, overload

import msgspec

from reenact.actors.api.facades import Agents, Containers, Execute, Images, Sessions
from reenact.actors.api.operations import DEFAULT_CONTAINER, MOST_SENDS, RuntimeOperations
from reenact.actors.api.requests import Requests
from reenact.actors.feed.handlers import Handler, check_callable, check_handler
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.subscription import EventIterator
from reenact.actors.output import Output, output_of
from reenact.domain.content import Content, check_content, plain_content
from reenact.domain.errors import (
    AgentNotFoundError,
    AgentStoppedError,
    InvalidInputError,
    RuntimeClosedError,
    SessionForgottenError,
    SessionNotFoundError,
    TurnNotFoundError,
    TurnTimeoutError,
    tied_to_process,
)
from reenact.domain.image import Image
from reenact.domain.messages import Message, StopDetails
from reenact.domain.operations.table import MessageSendRequest, TurnLocateRequest
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json, made, seconds_of
from reenact.domain.session.agent import Failure
from reenact.domain.session.people import PendingCall
from reenact.domain.session.told import Answer, TurnLocation
from reenact.domain.stream.events import (
    AgentStopped,
    AssistantMessage,
    Envelope,
    ErrorMessage,
    OutputAccepted,
    SessionDeleted,
    TurnCompleted,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
DEFAULT_IMAGE = "chat"
"""The image of new sessions for which no other is given; created when needed."""


Follow: TypeAlias = Callable[[str, int], EventIterator]
"""Follows a session after a cursor, as `Events.stream` does."""


class Waiting:
    """How an asker waits. This one blocks its thread, so its coroutines never suspend, and `run_blocking` runs them."""

    def __init__(self, agents: Agents, follow: Follow) -> None:
        self._agents = agents
        self._follow = follow

    async def call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the method, which may block, and return its result."""
        return method(*args, **kwargs)

    async def receive(self, agent_id: str, message: Content, output: OutputSpec | None) -> str:
        """Send a message as `Agents.receive` does."""
        return self._agents.receive(agent_id, message, output=output)

    async def stream(self, session_id: str, after: int) -> EventIterator:
        """Follow a session as `Events.stream` does."""
        return self._follow(session_id, after)

    async def next(self, events: EventIterator, timeout: float | None) -> Envelope | None:  # noqa: ASYNC109 - that of `next`
        """Return the next event; None if none comes within the timeout, or no more will."""
        return events.next(timeout)

    async def tell(self, handler: Handler, envelope: Envelope) -> None:
        """Call the handler, and wait until it has returned."""
        handler(envelope)

    async def within(self, timeout: float | None, turn_id: str, work: Coroutine[object, object, R]) -> R:  # noqa: ASYNC109 - `next` has it
        """Run the coroutine and return its result; raise `TurnTimeoutError` if that takes longer than the timeout."""
        return await work


def run_blocking(work: Coroutine[object, object, R]) -> R:
    """Run a coroutine that never suspends, because it waits by blocking, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    raise AssertionError("it has paused, and there is no event loop to resume it")


class AwaitedTurn:
    """The events of one turn as they arrive, and the answer they amount to.

    With an `agent_id`, the turn is expected from this agent only: if the agent stops before it, there is no answer.
    """

    def __init__(self, location: TurnLocation, agent_id: str | None = None) -> None:
        self.turn_id = location.turn_id
        self.session_id = location.session_id
        self.after = location.cursor - 1
        """The cursor before its first event."""
        self._agent_id = agent_id
        self._message: Message | None = None
        self._output: Json = None
        self._failure: Failure | None = None
        self._completed: TurnCompleted | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its last event has arrived."""
        return self._completed is not None

    @property
    def waits(self) -> bool:
        """Whether it has ended with calls that wait for a person."""
        return self._completed is not None and self._completed.outcome == "waiting"

    def hear(self, envelope: Envelope) -> bool:
        """Take the session's next event; return whether it belongs to the turn.

        Raises:
            AgentStoppedError: the agent has stopped, and the turn has not begun.
            SessionForgottenError: the session was forgotten before the end of the turn was received.
        """
        data = envelope.data
        if envelope.context.turn_id != self.turn_id:
            if isinstance(data, AgentStopped) and data.agent_id == self._agent_id:
                raise AgentStoppedError(data.agent_id, self.session_id, self.turn_id)
            if isinstance(data, SessionDeleted):  # a deletion alone ends every turn before this event
                raise SessionForgottenError(self.session_id)
            return False
        match data:
            case AssistantMessage():
                self._message = data.message
            case OutputAccepted():
                self._output = data.output
            case ErrorMessage():
                self._failure = Failure(data.type, data.message, data.retryable)
            case TurnCompleted():
                self._completed = data
            case _:
                pass
        return True

    def answer(self, pending: tuple[PendingCall, ...]) -> Answer[Json]:
        """Return the answer of the turn, which has ended."""
        end, message = self._completed, self._message
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
            output=self._output,
        )

    def over(self) -> RuntimeClosedError:
        """Return the error for a caller that gets no more events although the turn has not ended."""
        return RuntimeClosedError(f"the runtime was closed before turn {self.turn_id!r} began; its message is queued")


class Deadline:
    """A point in time that is a number of seconds away, or never comes."""

    def __init__(self, timeout: object) -> None:
        seconds = seconds_of(timeout)
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """The remaining seconds; None if there is no limit."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())


class Asker:
    """Asks the agents of a runtime, with any way of waiting: for a runtime and for its asyncio twin."""

    def __init__(self, runtime: Asking) -> None:
        self._runtime = runtime

    def limited(self, timeout: object) -> Asker:
        """Return the asker for a question with this timeout, which may limit its calls of the facades, too."""
        return self

    async def receive(self, agent_id: str, message: Content, output: OutputSpec | None) -> str | None:
        """Send a message as `Agents.receive` on an event loop without blocking; return None if that needs a thread."""
        return None

    async def ask(
        self,
        waiting: Waiting,
        content: Content,
        *,
        session: str | None,
        image: Image | str | None,
        container: str | None,
        timeout: float | None,  # noqa: ASYNC109 - that of the turn
        on_event: Handler | None,
        output: object,
    ) -> Answer[object]:
        """See `Asking.ask`."""
        deadline = Deadline(timeout)
        wanted = None if output is None else output_of(output)
        of_image = output_of(image.output) if isinstance(image, Image) and image.output is not None else None
        check_content(plain_content(content))  # refuse invalid input before anything is created for it
        if on_event is not None:
            check_callable(on_event)
        if session is not None and not (image is None and container is None):
            raise InvalidInputError(
                "a session has an image and a container already; give `session` alone, or leave it out for a new one"
            )
        session_id = await waiting.call(_new_session, self._runtime, image, container) if session is None else session
        turn, events = await self._send_message(waiting, session_id, content, None if wanted is None else wanted.spec)
        hearing = self._follow_turn(waiting, turn, events, deadline, on_event)
        answer = await waiting.within(deadline.left, turn.turn_id, hearing)
        return _with_value(answer, wanted or of_image)

    async def wait(
        self,
        waiting: Waiting,
        turn_id: str,
        timeout: float | None,  # noqa: ASYNC109 - that of the turn
        output: object,
    ) -> Answer[object]:
        """See `Turns.wait`."""
        deadline = Deadline(timeout)
        wanted = None if output is None else output_of(output)
        turn = await self._locate(waiting, turn_id, None)
        hearing = self._follow_turn(waiting, turn, None, deadline, None)
        return _with_value(await waiting.within(deadline.left, turn_id, hearing), wanted)

    async def _send_message(
        self, waiting: Waiting, session_id: str, content: Content, output: OutputSpec | None
    ) -> tuple[AwaitedTurn, EventIterator | None]:
        """Send the message to the session's agent, starting it if necessary.

        Return the turn, and the events that will include the turn's, or None if these must be read from the turn's
        first on.
        """
        agent_id, turn_id = await self._send_to_agent(waiting, session_id, content, output)
        return await self._locate(waiting, turn_id, agent_id), None

    async def _send_to_agent(
        self, waiting: Waiting, session_id: str, content: Content, output: OutputSpec | None, live: str | None = None
    ) -> tuple[str, str]:
        """Send the message to the live agent, or start one; return the ids of the agent and the turn.

        An agent that was live a moment ago may have stopped since, as that of a child does after each turn.
        """
        tries = itertools.count(1)
        while True:
            agent_id = await waiting.call(self._runtime.sessions.run, session_id) if live is None else live
            live = None
            try:
                return agent_id, await waiting.receive(agent_id, content, output)
            except AgentNotFoundError:
                if next(tries) == MOST_SENDS:
                    raise

    async def _locate(self, waiting: Waiting, turn_id: str, agent_id: str | None) -> AwaitedTurn:
        location = await waiting.call(self._runtime.turns.locate, turn_id)
        if location is None:
            raise TurnNotFoundError(turn_id)
        return AwaitedTurn(location, agent_id)

    async def _follow_turn(
        self,
        waiting: Waiting,
        turn: AwaitedTurn,
        events: EventIterator | None,
        deadline: Deadline,
        on_event: Handler | None,
    ) -> Answer[Json]:
        """Follow the turn to its end, and return its answer."""
        if events is None:
            events = await waiting.stream(turn.session_id, turn.after)
        try:
            while not turn.has_ended:
                envelope = await waiting.next(events, deadline.left)
                if envelope is None:
                    raise turn.over() if events.closed else TurnTimeoutError(turn.turn_id)
                if turn.hear(envelope) and on_event is not None:
                    await waiting.tell(on_event, envelope)
        finally:
            events.unsubscribe()
        return turn.answer(await waiting.call(_pending_of, turn, self._runtime.agents) if turn.waits else ())


class LocalAsker(Asker):
    """Asks agents in this process: it follows the session before it sends the message, so it need not read the log."""

    def __init__(self, runtime: Asking, operations: RuntimeOperations, requests: Requests, feed: Feed) -> None:
        super().__init__(runtime)
        self._operations = operations
        self._requests = requests
        self._feed = feed

    async def receive(self, agent_id: str, message: Content, output: OutputSpec | None) -> str | None:
        """Send a message as `Agents.receive` on an event loop; return None if the agent is not live."""
        sent = await self._requests.receive(
            made(MessageSendRequest, agent_id=agent_id or "", content=plain_content(message), output=output)
        )
        return None if sent is None else sent.turn_id

    async def _send_message(
        self, waiting: Waiting, session_id: str, content: Content, output: OutputSpec | None
    ) -> tuple[AwaitedTurn, EventIterator | None]:
        live = self._operations.live_agent(session_id)
        if live is None:
            live = await waiting.call(self._runtime.sessions.run, session_id)
        events = self._feed.subscribe_from_now(session_id)
        try:
            agent_id, turn_id = await self._send_to_agent(waiting, session_id, content, output, live)
        except BaseException:
            events.unsubscribe()
            raise
        return AwaitedTurn(TurnLocation(turn_id=turn_id, session_id=session_id, cursor=0), agent_id), events


class Turns:
    """Turns: the agents' work on messages. `runtime.turns`."""

    def __init__(self, execute: Execute, asker: Asker, waiting: Waiting) -> None:
        self._do = execute
        self._asker = asker
        self._waiting = waiting

    def locate(self, turn_id: str) -> TurnLocation | None:
        """Return the session of the turn and the cursor of its first event; None if there is no such turn."""
        return self._do(TurnLocateRequest(turn_id=turn_id))

    @overload
    def wait(self, turn_id: str, timeout: float | None = None, *, output: type[T]) -> Answer[T]: ...
    @overload
    def wait(
        self, turn_id: str, timeout: float | None = None, *, output: Mapping[str, object] | OutputSpec | None = None
    ) -> Answer: ...
    def wait(self, turn_id: str, timeout: float | None = None, *, output: object = None) -> Answer[object]:
        """Return the turn's answer once it has ended, which may be long ago. `timeout` is in seconds.

        It also waits for a turn whose message is queued, even while the session has no live agent. `output` is what the
        message asked for, such as a type: then `Answer.output` is a value of it, otherwise it is JSON.

        Raises:
            InvalidOutputError: the answer's output is not of the type.
            ConfigurationError: answers cannot be validated against the output.
            TurnNotFoundError: there is no such turn.
            TurnTimeoutError: the turn has not ended in time. It continues.
            SessionForgottenError: its session was forgotten meanwhile.
            RuntimeClosedError: the runtime is closed.
            StorageError: the log cannot be read.
        """
        return run_blocking(self._asker.limited(timeout).wait(self._waiting, turn_id, timeout, output))


class AskSettings(TypedDict, total=False):
    """Settings of `ask`."""

    container: str | None
    timeout: float | None
    on_event: Handler | None


class Asking:
    """The facades of a runtime, and `ask`, which combines them."""

    default_image = DEFAULT_IMAGE
    """The id of the image for sessions for which `ask` is given no other."""

    def __init__(self, execute: Execute, follow: Follow, asker: Asker) -> None:
        self.containers = Containers(execute)
        self.images = Images(execute)
        self.sessions = Sessions(execute)
        self.agents = Agents(execute)
        self.asker = asker
        """Asks agents for this runtime and for its asyncio twin."""
        self._waiting = Waiting(self.agents, follow)
        self.turns = Turns(execute, asker, self._waiting)

    def __reduce__(self) -> NoReturn:
        raise tied_to_process(self)

    @overload
    def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        output: type[T],
        **settings: Unpack[AskSettings],
    ) -> Answer[T]: ...
    @overload
    def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        output: Mapping[str, object] | OutputSpec,
        **settings: Unpack[AskSettings],
    ) -> Answer[Json]: ...
    @overload
    def ask(
        self,
        content: Content,
        *,
        session: None = None,
        image: Image[T],
        output: None = None,
        **settings: Unpack[AskSettings],
    ) -> Answer[T]: ...
    @overload
    def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        output: None = None,
        **settings: Unpack[AskSettings],
    ) -> Answer: ...
    def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        container: str | None = None,
        timeout: float | None = None,
        on_event: Handler | None = None,
        output: object = None,
    ) -> Answer[object]:
        """Send a message, and return the answer once its own turn has ended, whatever other turns end meanwhile.

        A turn that waits for people also returns, with the calls under `pending`.

        Args:
            content: text, or content blocks; see `Agents.receive`.
            session: the id of the session to continue; its agent is started if necessary. None: a new session.
            image: the new session's image, which is registered, or its id. None: the image with the id `chat`, or the
                runtime's default image.
            container: the id of the new session's container. None: `default`, which is created when needed.
            timeout: seconds until `TurnTimeoutError`, which has the turn's id; the turn continues. None: no limit.
            on_event: called with each event of this turn, in order, before this returns. It runs on the caller's own
                thread, and its exceptions are raised here; the turn continues.
            output: what the answer must be: a msgspec Struct, a dataclass, a TypedDict, a pydantic model or another
                type that JSON can represent, or the JSON Schema of an object. `Answer.output` is that value. None: the
                output of the image; as JSON, if the image is not given here.

        Raises:
            TurnTimeoutError: the turn has not ended in time.
            AgentStoppedError: the agent was stopped before it took up the message, which is queued.
            InvalidMessageError: the message cannot be accepted.
            InvalidInputError: a session is given together with an image or a container; `on_event` is not a plain
                function.
            ConfigurationError: answers cannot be validated against the output.
            InvalidOutputError: the answer fits the schema of the type, but violates a rule that only the type checks.
            ReenactError: what the facades raise when they create and run the session.
        """
        if on_event is not None:
            check_handler(on_event)
        return run_blocking(
            self.asker.limited(timeout).ask(
                self._waiting,
                content,
                session=session,
                image=image,
                container=container,
                timeout=timeout,
                on_event=on_event,
                output=output,
            )
        )


def _with_value(answer: Answer[Json], wanted: Output[object] | None) -> Answer[object]:
    """Return the answer with its output as a value of the requested type, if there is one."""
    if wanted is None or answer.output is None:
        return answer
    return msgspec.structs.replace(answer, output=wanted.value(answer.output, answer.turn_id))


def _pending_of(turn: AwaitedTurn, agents: Agents) -> tuple[PendingCall, ...]:
    """Return the pending calls of the turn's session; none if the session was deleted meanwhile."""
    try:
        return tuple(agents.pending(session_id=turn.session_id))
    except SessionNotFoundError:
        return ()


def _new_session(runtime: Asking, image: Image | str | None, container: str | None) -> str:
    """Create a session for `ask`, with its image if necessary; return its id."""
    container = DEFAULT_CONTAINER if container is None else container
    if image is None:
        image = runtime.default_image
        if runtime.images.get(image) is None:
            runtime.images.register(Image(id=image))
    if not isinstance(image, str):
        registered = runtime.images.register(image)
        return runtime.sessions.create(container, registered.id, image_revision=registered.revision).id
    return runtime.sessions.create(container, image).id
