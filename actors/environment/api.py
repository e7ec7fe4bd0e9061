"""The interfaces of environments: the pair of actors, the two views of the bus, factories, drivers and providers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, Self, TypeAlias, get_args, runtime_checkable

import msgspec

from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import Said
from reenact.domain.operations.table import Response
from reenact.domain.output import OutputSpec
from reenact.domain.plain import SuggestsFields, is_sequence
from reenact.domain.stream.events import Envelope, StreamData
from reenact.domain.tools import MCPServer

Handler: TypeAlias = Callable[[Envelope], object]
OnEvent: TypeAlias = Callable[[StreamData | Mapping[str, object]], None]


class Unsubscribe(Protocol):
    """Ends a subscription, when it is called or when its `with` block is left. Idempotent."""

    def __call__(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class SystemBusProducer(Protocol):
    """A view of the bus that can only emit."""

    def emit(self, event: StreamData | Mapping[str, object], *, turn_id: str | None = None) -> bool | None:
        """Emit an event in the agent's turn `turn_id`, or in its current turn.

        A mapping has `type` and `data`. An event for a turn that is over is dropped, and False is returned.

        Raises:
            UnknownEventTypeError: the type is not a stream event.
            InvalidInputError: the data does not fit the type.
        """
        ...

    def emit_all(
        self, events: Iterable[StreamData | Mapping[str, object]], *, turn_id: str | None = None
    ) -> bool | None:
        """Emit several events at once, in order; this is cheaper than one call per event."""
        ...


class SystemBusConsumer(Protocol):
    """A view of the bus that can only subscribe and request; an effector receives only its agent's events."""

    def on(self, type: str, handler: Handler) -> Unsubscribe:  # noqa: A002 - the word users know it by
        """Call the handler with each event of the type, in order, once it is durable; it must return soon."""
        ...

    def on_all(self, handler: Handler) -> Unsubscribe:
        """Call the handler with every event, in order."""
        ...

    def request(self, type: str, data: Mapping[str, object], timeout: float = 30) -> Envelope[Response]:  # noqa: A002
        """Send a request of the command protocol and return its response."""
        ...

    def conversation(self) -> Sequence[Said]:
        """Return the conversation, up to and including the next message to the model, or the calls it has made."""
        ...

    def must_compress(self) -> bool:
        """Return whether the conversation is to be summarised by a `context_compressed` before the model is asked."""
        ...

    def output(self) -> OutputSpec | None:
        """Return the schema that the model's next answer must fit; None if it may be any text."""
        ...


@runtime_checkable
class Receptor(Protocol):
    """The only way in: turns data from the outside world into events."""

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        ...


@runtime_checkable
class Effector(Protocol):
    """The only way out: receives events of the bus and acts on the outside world."""

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Act on the consumer's events: a `turn_started` begins a turn, a `turn_completed` ends the work for it."""
        ...


@runtime_checkable
class Environment(Protocol):
    """A pair of actors; one environment serves one agent."""

    @property
    def name(self) -> str:
        """The kind of environment, such as `claude` or `mock`."""
        ...

    @property
    def receptor(self) -> Receptor:
        """The receptor, which emits the environment's events."""
        ...

    @property
    def effector(self) -> Effector:
        """The effector, which receives the agent's events."""
        ...

    def dispose(self) -> None:
        """End all running work and release all resources. Idempotent."""
        ...


@runtime_checkable
class ChecksTools(Protocol):
    """An environment that can tell, before a call is approved, whether it can run it. Implementing this is optional."""

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if the tool's function is not available."""
        ...


Cache: TypeAlias = Literal["off", "5m", "1h"]
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Thinking: TypeAlias = Literal["adaptive", "disabled"]


class LLMConfig(msgspec.Struct, metaclass=SuggestsFields, frozen=True, kw_only=True):
    """How to reach the model, and how it is to answer. Times are in seconds. The key is never logged and never stored.

    `thinking_budget` is how many of the `max_tokens` the model may use to think before it answers; models that decide
    themselves how much they think take `effort` instead, and accept `thinking="adaptive"` or `"disabled"`. `cache`
    marks the beginning that requests have in common, so that the API reads it at a tenth of the price within that time.
    `tool_choice` is the API's. `betas` are features to enable with a header. `context_window` is in tokens; None is the
    model's. `extra` is added to each request unchanged: `metadata`, `service_tier`, `mcp_servers` and the like.
    `temperature`, and `top_p` and `top_k` in `extra`, are sent only to models that take them, and to no Claude after
    4.6.

    Raises:
        ConfigurationError: a value is out of its range, or excludes another.
    """

    api_key: str | None = None
    base_url: str | None = None
    model: str | None = None
    max_tokens: int = 8192
    timeout: float = 600.0
    max_retries: int = 4
    thinking_budget: int | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    tool_choice: Mapping[str, object] | None = None
    cache: Cache = "5m"
    betas: tuple[str, ...] = ()
    context_window: int | None = None
    extra: Mapping[str, object] = {}

    def __post_init__(self) -> None:
        """Reject values that the API would refuse in every request."""
        for complaint in _complaints(self):
            raise ConfigurationError(complaint)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"LLMConfig({told})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Return the fields that may be shown: neither the key nor `extra`, which may hold secrets."""
        return [("base_url", self.base_url), ("model", self.model), ("max_tokens", self.max_tokens)]


RESERVED = frozenset(
    {"model", "messages", "system", "tools", "stream", *(f for f in LLMConfig.__struct_fields__ if f != "extra")}
)
"""The names that `LLMConfig.extra` may not hold, because they are set elsewhere or have a field of their own."""
LEAST_BUDGET = 1024
"""The least thinking budget that the API takes, in tokens."""


def _complaints(config: LLMConfig) -> Iterator[str]:
    """Yield what is wrong with a configuration, by the names of its arguments."""
    if type(config.max_tokens) is not int or config.max_tokens < 1:
        yield f"max_tokens is {config.max_tokens!r}; give a number of 1 or more"
    if config.context_window is not None and config.context_window < 1:
        yield f"context_window is {config.context_window!r}; give a number of tokens, 1 or more, or None"
    if config.thinking_budget is not None and config.thinking_budget < LEAST_BUDGET:
        yield f"thinking_budget is {config.thinking_budget!r}; give {LEAST_BUDGET} tokens or more, or None"
    for name, value, known in (
        ("cache", config.cache, get_args(Cache)),
        ("thinking", config.thinking, (None, *get_args(Thinking))),
        ("effort", config.effort, (None, *get_args(Effort))),
    ):
        if value not in known:
            yield f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}"
    for name, texts in (("stop_sequences", config.stop_sequences), ("betas", config.betas)):
        if not _are_texts(texts):
            yield f"{name} must be a tuple of texts, none of them blank, not {texts!r}"
    if config.thinking_budget is not None and config.thinking is not None:
        yield f"thinking={config.thinking!r} and a thinking_budget exclude each other; give one of them"
    thinks = config.thinking_budget is not None or config.thinking == "adaptive"
    if thinks and config.temperature not in {None, 1}:
        yield f"temperature={config.temperature} and thinking exclude each other; leave one of them out"
    if thinks and (config.tool_choice or {}).get("type") in {"any", "tool"}:
        yield "a tool_choice that forces a call and thinking exclude each other; leave one of them out"
    for name in config.extra.keys() & RESERVED:
        yield f"extra[{name!r}] is not accepted; LLMConfig has an argument for it, or it cannot be chosen"


def _are_texts(value: object) -> bool:
    return is_sequence(value) and all(isinstance(text, str) and text.strip() for text in value)


class EnvironmentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The agent for which a factory makes an environment, and the resources for it.

    `resume_session_id` and `on_session_id_captured` are for environments whose service stores conversations itself; a
    factory that wraps another one and makes such environments sets them. The runtime does not set them: it sends the
    whole conversation with each request, so there is nothing to resume at the service.
    """

    agent_id: str
    session_id: str
    llm: LLMConfig
    system: ActorSystem
    outside: EventLoopThread
    """The asyncio loop on which all work runs that waits for the outside world."""
    new_id: Callable[[str], str]
    model: str | None = None
    max_tokens: int | None = None
    system_prompt: str | None = None
    cwd: str | None = None
    resume_session_id: str | None = None
    mcp_servers: tuple[MCPServer, ...] = ()
    tools: Toolbox | None = None
    api_tools: tuple[Mapping[str, object], ...] = ()
    on_session_id_captured: Callable[[str], None] | None = None
    may_compress: bool = True
    """Whether a conversation that the model finds too long may be sent again in a shorter form."""


@runtime_checkable
class EnvironmentFactory(Protocol):
    """Makes an environment for each agent that starts."""

    def create(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment, not yet connected."""
        ...


@runtime_checkable
class LLMDriver(Protocol):
    """Talks to one model; the standard environment is built around it."""

    def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, object]],
        on_event: OnEvent,
    ) -> Awaitable[None] | None:
        """Send the conversation, report the answer through `on_event`, and return when the answer has ended.

        May be a coroutine function, which runs on the outside loop, or a plain function, which runs on a thread of its
        own. An exception becomes an `error` event.
        """
        ...

    def interrupt(self) -> None:
        """Stop `send_message`; called in addition to the cancellation of its task."""
        ...


@runtime_checkable
class OutputDriver(LLMDriver, Protocol):
    """A driver whose model can be held to a schema by its API; for other drivers, an answer tool is used instead.

    The answer is reported as text that is JSON, with the stop reason of any other answer. The driver does not check
    that it fits.
    """

    def takes_output(self, output: OutputSpec, model: str | None) -> bool:
        """Return whether the API can hold the model, or the driver's own model if it is None, to this schema."""
        ...

    def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, object]],
        on_event: OnEvent,
        output: OutputSpec | None = None,
    ) -> Awaitable[None] | None:
        """Do the same as `LLMDriver.send_message`; the answer is to fit `output`, which `takes_output` has accepted."""
        ...


@runtime_checkable
class LLMProvider(Protocol):
    """Provides a driver for each agent."""

    @property
    def name(self) -> str:
        """The kind of model, such as `openai` or `mock`."""
        ...

    def provide(self) -> LLMDriver | Awaitable[LLMDriver]:
        """Return a driver, at once or asynchronously."""
        ...


@runtime_checkable
class ConfiguredProvider(LLMProvider, Protocol):
    """A provider that knows the settings of its model, so that the runtime needs no `LLMConfig` besides."""

    @property
    def llm(self) -> LLMConfig:
        """The settings that apply where the runtime is given none: the model's name, and how many tokens it takes."""
        ...


class Interruptible:
    """A driver whose `send_message` does its work within a `working` block, which `interrupt` cancels."""

    _at_work: tuple[asyncio.AbstractEventLoop, asyncio.Task[object] | None] | None = None

    @contextlib.contextmanager
    def working(self) -> Generator[None]:
        """Let `interrupt` cancel the task that runs this block."""
        self._at_work = asyncio.get_running_loop(), asyncio.current_task()
        try:
            yield
        finally:
            self._at_work = None

    def interrupt(self) -> None:
        """Cancel `send_message`, wherever it waits. May be called from any thread."""
        if self._at_work is not None:
            loop, task = self._at_work
            with contextlib.suppress(RuntimeError):  # the loop has ended, and has ended its tasks
                loop.call_soon_threadsafe(_cancel_once, task)


def _cancel_once(task: asyncio.Task[object] | None) -> None:
    """Cancel the task unless it is being cancelled already: a second time would interrupt its clean-up."""
    if task is not None and not task.cancelling():
        task.cancel()


class EnvironmentProxy:
    """Another environment with a different receptor and effector."""

    def __init__(self, environment: Environment, receptor: Receptor, effector: Effector) -> None:
        self._environment = environment
        self.name = environment.name
        self.receptor = receptor
        self.effector = effector

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if the other environment does."""
        if isinstance(self._environment, ChecksTools):
            self._environment.check_tool(name)

    def dispose(self) -> None:
        """Dispose of the other environment. Idempotent."""
        self._environment.dispose()


class ConsumerProxy:
    """Another consumer with its handlers replaced: each handler is passed through `wrap` before it is subscribed."""

    def __init__(self, consumer: SystemBusConsumer, wrap: Callable[[Handler], Handler]) -> None:
        self._consumer = consumer
        self._wrap = wrap
        self.request = consumer.request
        self.conversation = consumer.conversation
        self.must_compress = consumer.must_compress
        self.output = consumer.output

    def on(self, type: str, handler: Handler) -> Unsubscribe:  # noqa: A002 - the word users know it by
        """Call the wrapped handler with each event of the type."""
        return self._consumer.on(type, self._wrap(handler))

    def on_all(self, handler: Handler) -> Unsubscribe:
        """Call the wrapped handler with every event."""
        return self._consumer.on_all(self._wrap(handler))
