"""Agents as tools of a session, and turns that begin with the call of an agent because a person typed its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from reenact._runtime import Runtime
from reenact.actors.environment.api import (
    ConsumerProxy,
    Effector,
    Environment,
    EnvironmentConfig,
    EnvironmentProxy,
    Handler,
    Receptor,
    SystemBusConsumer,
    SystemBusProducer,
)
from reenact.cli.chat.conversation import IMAGE, ExtraBlocks
from reenact.cli.output.failures import AGENT_FAILED
from reenact.cli.settings.configuration import check_price
from reenact.domain.children import AgentTool, agent_tool
from reenact.domain.errors import ConfigurationError, InvalidInputError, ReenactError
from reenact.domain.image import Definition, Image, define, tool_names
from reenact.domain.legible import display_safe
from reenact.domain.loop.ledger import Price
from reenact.domain.messages import Said, TextBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.session.turns import TOOL_USE
from reenact.domain.stream.events import (
    Envelope,
    MessageStart,
    MessageStop,
    StepStarted,
    StreamData,
    StreamError,
    TextDelta,
    ToolCall,
    TurnStarted,
)
from reenact.extensions.kinds import Agent, called_agent, image_of
from reenact.extensions.loading import Extensions

_SCHEMA = agent_tool("any", description="").spec_for_model().input_schema
"""The input schema that marks a tool as an agent."""
_BEGINNINGS = frozenset({TurnStarted.event_type, StepStarted.event_type})


class AgentTools:
    """Adds the agents of extensions as tools to new sessions."""

    def __init__(self, extensions: Extensions, warn: Callable[[str], object]) -> None:
        self._agents = extensions.agents
        self._skills = tuple(extensions.skills.values())
        self._warn = warn
        self._images: dict[str, Image] = {}

    def added_to(self, image: Image, prices: Mapping[str, Price] | None) -> Image:
        """Return the image with the agents among its tools; warn of each agent that cannot be added.

        If `prices` are given and the session has a cost limit, the model of each agent must have a price.
        """
        session, tools = define(image, IMAGE), [*image.tools]
        for name, agent in self._agents.items():
            try:
                if name in tool_names(session):
                    raise ConfigurationError("the session has a tool of this name")
                if session.cost_limit is not None and agent.model and prices is not None:
                    check_price(agent.model, prices, "what its session costs has a limit (--max-cost)")
                called = self.image_of(agent, session)
                tool = agent_tool(name, called.id, description=agent.description)
            except ReenactError as error:
                self._warn(f"@{name} cannot be asked: {display_safe(str(error))}")
            else:
                tools.append(tool)
                self._images[tool.image_id] = called
        return msgspec.structs.replace(image, tools=tuple(tools))

    def register(self, runtime: Runtime) -> None:
        """Register the images of the agents that were added."""
        for image in self._images.values():
            runtime.images.register(image)

    def image_of(self, agent: Agent, session: Definition) -> Image:
        """Return the image that the agent would get if the session were created now."""
        return image_of(agent, session, self._skills)

    def tool_for(self, agent: Agent, session: Definition, extra: ExtraBlocks) -> AgentTool:
        """Return the session's tool that calls the agent.

        Raises:
            ConfigurationError: the session has no tool for the agent.
            InvalidInputError: the message has attachments that are not text.
        """
        who = f"@{agent.name} is not asked"
        tool = next((known for known in session.agents if known.name == agent.name), None)
        if tool is None:
            raise ConfigurationError(f"{who}: the session was created without it; a new one may have it")
        if not all(isinstance(block, TextBlock) for block in extra.after):
            raise InvalidInputError(f"{who}: agents are told text alone, no images and no PDF")
        return tool


class AgentRequest(NamedTuple):
    """A person's request to an agent, with the result of the call once it exists."""

    name: str
    prompt: str
    result: ToolResultBlock | None = None


def agent_request_in(conversation: Sequence[Said], names: Collection[str]) -> AgentRequest | None:
    """Return the request to an agent if the conversation ends with one, or with the call and result of one."""
    match conversation[-3:]:
        case [asking, Said(content=(ToolUseBlock() as call,)), Said(content=(ToolResultBlock() as result,))]:
            asked = _request_in(asking, names)
            is_its_call = asked is not None and (call.name, call.id) == (asked.name, result.tool_use_id)
            return asked._replace(result=result) if asked is not None and is_its_call else None
        case [*_, last]:
            return _request_in(last, names)
        case _:
            return None


def _request_in(said: Said, names: Collection[str]) -> AgentRequest | None:
    """Return the message's request to an agent: the text after the agent's name, together with other text blocks."""
    texts = [block.text for block in said.content if isinstance(block, TextBlock) and said.role == "user"]
    for place, text in enumerate(texts):
        called = called_agent(text)
        if called is not None and called[0] in names:
            return AgentRequest(called[0], "".join((*texts[:place], called[1], *texts[place + 1 :])))
    return None


def with_agents(inner: Environment, config: EnvironmentConfig, names: Collection[str]) -> Environment:
    """Return an environment that calls the agents named by a person, and leaves everything else to the inner one.

    The agent's answer becomes the answer of the turn. The decision depends on the given conversation alone, so a turn
    continues after a crash like any other.
    """
    tools = () if config.tools is None else config.tools.specs()
    agents = [spec.name for spec in tools if spec.name in names and spec.input_schema == _SCHEMA]
    receptor = _Receptor(inner.receptor)
    return EnvironmentProxy(inner, receptor, _Effector(inner.effector, receptor, agents, config.new_id))


def _stream_of(asked: AgentRequest, call_id: str) -> tuple[StreamData, ...]:
    """Return what is emitted in place of the model's output: the call of the agent, or the answer from its result."""
    start, result = MessageStart(model=f"@{asked.name}"), asked.result
    if result is None:
        call = ToolCall(id=call_id, name=asked.name, input={"prompt": asked.prompt})
        return (start, call, MessageStop(stop_reason=TOOL_USE))
    told = str(result.content)
    if result.is_error:
        return (StreamError(type=AGENT_FAILED, message=told),)
    return (start, TextDelta(text=told), MessageStop())


@dataclass
class _Receptor:
    """Wraps the inner receptor and keeps its producer, so that events can be emitted in place of the model."""

    _inner: Receptor
    producer: SystemBusProducer | None = None

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit events to this producer from now on."""
        self.producer = producer
        self._inner.connect(producer)


@dataclass
class _Effector:
    """Wraps the inner effector and hides from it the steps in which an agent is called or has answered."""

    _inner: Effector
    _receptor: _Receptor
    _names: Collection[str]
    _new_id: Callable[[str], str]

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Act on the events of this consumer."""

        def asked() -> AgentRequest | None:
            return agent_request_in(consumer.conversation(), self._names)

        def act(event: Envelope) -> None:
            found, producer = asked(), self._receptor.producer
            if found is not None and producer is not None:
                producer.emit_all(_stream_of(found, self._new_id("call")), turn_id=str(event.data["turn_id"]))

        def without_beginnings(handler: Handler) -> Handler:
            return lambda event: None if event.type in _BEGINNINGS and asked() else handler(event)

        for beginning in _BEGINNINGS:
            consumer.on(beginning, act)
        self._inner.connect(ConsumerProxy(consumer, without_beginnings))
