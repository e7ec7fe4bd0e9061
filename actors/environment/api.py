"""What an environment is: a pair of actors, and the two views of the bus that they are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.kernel import ActorSystem
from reenact.domain.events import Envelope, StreamData
from reenact.domain.messages import Said
from reenact.domain.tools import MCPServer, ToolSpec

Handler: TypeAlias = Callable[[Envelope], object]
OnEvent: TypeAlias = Callable[[StreamData | Mapping[str, Any]], None]


class Unsubscribe(Protocol):
    """Ends a subscription: call it, as often as you like, or leave the `with` block."""

    def __call__(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class SystemBusProducer(Protocol):
    """The view that can only emit."""

    def emit(self, event: StreamData | Mapping[str, Any], *, turn_id: str | None = None) -> None:
        """Say something in the agent's turn `turn_id`, or in its current one.

        A mapping has `type` and `data`. What is said for a turn that is over is dropped.

        Raises:
            UnknownEventTypeError: the type is no stream event.
            InvalidInputError: the data does not fit the type.
        """
        ...

    def emit_all(self, events: Iterable[StreamData | Mapping[str, Any]], *, turn_id: str | None = None) -> None:
        """Say several things at once, in order; cheaper than one after the other."""
        ...


class SystemBusConsumer(Protocol):
    """The view that can only subscribe and request; an agent's effector hears its agent's events only."""

    def on(self, type: str, handler: Handler) -> Unsubscribe:  # noqa: A002 - the word users know it by
        """Call the handler with each event of the type, in order, once it is durable; it must return soon."""
        ...

    def on_all(self, handler: Handler) -> Unsubscribe:
        """Call the handler with every event, in order."""
        ...

    def request(self, type: str, data: Mapping[str, Any], timeout: float = 30) -> Envelope:  # noqa: A002
        """Send a request of the command protocol and return its response."""
        ...

    def conversation(self) -> Sequence[Said]:
        """Return what was said, up to and including what the model is asked next."""
        ...

    def must_compress(self) -> bool:
        """Return whether the conversation is to be summarised, by a `context_compressed`, before the model is asked."""
        ...


@runtime_checkable
class Receptor(Protocol):
    """The only way in: turns what the outside says into events."""

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        ...


@runtime_checkable
class Effector(Protocol):
    """The only way out: hears the bus and acts on the outside world."""

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Act on what this consumer hears: a `turn_started` begins, a `turn_completed` ends what is under way."""
        ...


@runtime_checkable
class Environment(Protocol):
    """A pair of actors; one environment serves one agent."""

    @property
    def name(self) -> str:
        """What kind of environment this is, such as `claude` or `mock`."""
        ...

    @property
    def receptor(self) -> Receptor:
        """The way in."""
        ...

    @property
    def effector(self) -> Effector:
        """The way out."""
        ...

    def dispose(self) -> None:
        """End what is under way and release everything. Idempotent."""
        ...


class Outside(Protocol):
    """The one asyncio loop on which everything that waits for the outside world runs, on a thread of its own."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Run the coroutine as a task; cancelling the future cancels the task. May be called from any thread."""
        ...


class Toolset(Protocol):
    """The tools of one agent. Everything here happens on the outside loop."""

    async def specs(self) -> Sequence[ToolSpec]:
        """Return what the model is told of the tools, in the same order each time."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Run a tool; whatever goes wrong with it is an outcome too."""
        ...

    async def aclose(self) -> None:
        """Let go of what the tools hold. Idempotent."""
        ...


class LLMConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the model. Times are in seconds. The key is never logged and never stored."""

    api_key: str | None = None
    base_url: str | None = None
    model: str | None = None
    max_tokens: int = 8192
    timeout: float = 600.0
    max_retries: int = 4
    thinking_budget: int | None = None

    def __repr__(self) -> str:
        return f"LLMConfig(base_url={self.base_url!r}, model={self.model!r}, max_tokens={self.max_tokens})"


class EnvironmentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a factory is told about the agent that the environment is for."""

    agent_id: str
    session_id: str
    llm: LLMConfig
    system: ActorSystem
    outside: Outside
    new_id: Callable[[str], str]
    model: str | None = None
    max_tokens: int | None = None
    system_prompt: str | None = None
    cwd: str | None = None
    resume_session_id: str | None = None
    mcp_servers: tuple[MCPServer, ...] = ()
    tools: Toolset | None = None
    api_tools: tuple[Mapping[str, Any], ...] = ()
    on_session_id_captured: Callable[[str], None] | None = None


@runtime_checkable
class EnvironmentFactory(Protocol):
    """Makes an environment for each agent that starts."""

    def create(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment, not yet connected."""
        ...


@runtime_checkable
class LLMDriver(Protocol):
    """Talks to one model; the standard environment stands around it."""

    def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> Awaitable[None] | None:
        """Send the conversation, report what comes back through `on_event`, and return when it has ended.

        May be a coroutine function, run on the outside loop, or a plain one, run on a thread of its own. What it
        raises becomes an `error` event.
        """
        ...

    def interrupt(self) -> None:
        """Stop what `send_message` is doing; called besides the cancellation of its task."""
        ...


@runtime_checkable
class LLMProvider(Protocol):
    """Provides a driver for each agent."""

    @property
    def name(self) -> str:
        """What kind of model this is."""
        ...

    def provide(self) -> LLMDriver | Awaitable[LLMDriver]:
        """Return a driver, at once or asynchronously."""
        ...
