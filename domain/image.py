"""An image: the definition of an agent, in revisions that never change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeGuard

import msgspec

from reenact.domain.children import AgentTool, check_agent
from reenact.domain.errors import ConfigurationError, shown
from reenact.domain.guards import Guards, guards_of
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rules import MAX_REPEATS, MAX_STEPS, Rules
from reenact.domain.messages import check_text
from reenact.domain.output import OutputSpec, check_output
from reenact.domain.plain import JsonObject, UserValue, is_mapping, is_sequence, with_plain_texts
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.reading import check_names, policies_of, restricted
from reenact.domain.policy.rules import Policy
from reenact.domain.structs import Fact, Frozen, FrozenByName
from reenact.domain.tools import MCPServer, ToolSpec, check_server, check_spec, is_json, remote_prefix

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    O_co = TypeVar("O_co", covariant=True, default=object)
else:  # Before Python 3.13, type variables have no defaults.
    from typing import TypeVar

    O_co = TypeVar("O_co", covariant=True)

MAX_PROMPT_BYTES = 10 * 1024 * 1024
MAX_TOKENS = 2**31 - 1
OutputType: TypeAlias = type[object] | Mapping[str, object] | OutputSpec
"""The type of an answer: a Python type, the JSON Schema of an object, or a named `OutputSpec`."""
FILLED = 0.8
"""The share of a model's context window beyond which a conversation is summarised, unless the image sets a limit."""


class Image(UserValue, Generic[O_co], kw_only=True):
    """The definition of an agent.

    `model` is a model's name, or None for the runtime's default; `max_tokens` bounds one answer. `tools` are Python
    functions, tools made by `@tool`, other images wrapped by `agent_tool`, names of tools that the runtime was opened
    with, or mappings with a `type` for the tools that the API runs itself; the `mcp_servers` provide more tools.
    `policies` say which calls a person must approve: `Policies`, or its plain form.

    `max_steps` is how often the model may be asked in one turn, and `max_repeats` how often in a row the same calls may
    have the same results; None is without limit. `cost_limit` is for a whole session: a `CostLimit`, or an amount in
    the currency of the prices, beyond which the turn stops. A conversation of more than `compress_at` tokens is
    summarised before the model is asked again; None is four fifths of the model's context window, 0 is never. `output`
    is the type of the answers: a type, or the JSON Schema of an object. `guards` check messages, calls and answers:
    `Guards`, or a mapping with its fields.
    """

    id: str | None = None
    name: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None
    tools: tuple[object, ...] = ()
    mcp_servers: tuple[MCPServer, ...] = ()
    policies: Policies | Mapping[str, object] | None = None
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | float | None = None
    compress_at: int | None = None
    output: type[O_co] | Mapping[str, object] | OutputSpec | None = None
    guards: Guards | Mapping[str, object] | None = None


class ImageInfo(FrozenByName):
    """The newest revision of an image, as callers see it; revisions count from 1, and `tools` are the tools' names."""

    id: str
    name: str
    model: str | None
    system_prompt: str | None
    max_tokens: int | None
    revision: int
    created_at: datetime
    tools: tuple[str, ...] = ()


class Definition(Fact):
    """The content of one revision. `base` is the image that it was derived from, whose functions its tools run.

    `agents` are the tools whose calls start child sessions.
    """

    name: str
    model: str | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None
    tools: tuple[ToolSpec, ...] = ()
    api_tools: tuple[JsonObject, ...] = ()
    mcp_servers: tuple[MCPServer, ...] = ()
    policies: Policies | None = None
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | None = None
    compress_at: int | None = None
    base: str | None = None
    agents: tuple[AgentTool, ...] = ()
    output: OutputSpec | None = None
    guards: Guards | None = None


class ImageRegistered(Fact):
    """The image has a new revision."""

    image_id: str
    revision: int
    definition: Definition


ImageEvent: TypeAlias = ImageRegistered


class RegisterImage(IdempotentCommand, kw_only=False):
    """Register this definition as the newest revision of the image."""

    image_id: str
    definition: Definition


class Images(Frozen):
    """All revisions of one image, oldest first."""

    id: str | None = None
    revisions: tuple[Definition, ...] = ()


def decide(image: Images, command: RegisterImage) -> tuple[ImageEvent, ...]:
    """Return a new revision, or nothing when the newest has this content already."""
    if image.revisions and image.revisions[-1] == command.definition:
        return ()
    return (ImageRegistered(command.image_id, len(image.revisions) + 1, command.definition),)


def evolve(image: Images, event: ImageEvent) -> Images:
    """Return the image's revisions after the event."""
    return Images(event.image_id, (*image.revisions, event.definition))


def define(image: Image, image_id: str) -> Definition:
    """Return the image's definition, or raise `ConfigurationError` or `InvalidInputError` if a field is not valid."""
    image, who = with_plain_texts(image), f"image {image_id!r}"
    for field, least in (("max_tokens", 1), ("max_steps", 1), ("max_repeats", 1), ("compress_at", 0)):
        check_limit(getattr(image, field), f"{field} of {who}", least)
    check_model(image.model, image.system_prompt)
    if not is_sequence(image.tools):
        raise ConfigurationError(f"tools of {who} must be a tuple of tools, not {image.tools!r}")
    agents = tuple(_checked_agent(who, tool) for tool in image.tools if _is_agent(tool))
    tools = tuple(_checked_spec(who, tool) for tool in image.tools if not _is_api_tool(tool) and not _is_agent(tool))
    api_tools = tuple(_checked_api_tool(who, tool) for tool in image.tools if _is_api_tool(tool))
    definition = Definition(
        name=check_text("the image's name", image.name if image.name is not None else image_id),
        model=image.model,
        system_prompt=image.system_prompt,
        max_tokens=image.max_tokens,
        tools=tools,
        api_tools=api_tools,
        mcp_servers=_checked_servers(who, image.mcp_servers),
        policies=None if image.policies is None else policies_of(image.policies),
        max_steps=image.max_steps,
        max_repeats=image.max_repeats,
        cost_limit=as_cost_limit(image.cost_limit),
        compress_at=image.compress_at,
        agents=agents,
        output=_checked_output(who, image.output),
        guards=guards_of(image.guards, who),
    )
    names = tool_names(definition)
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise ConfigurationError(
            f"{who} has more than one tool named {', '.join(map(repr, twice))}; give each a name of its own"
        )
    return definition


def check_limit(value: object, what: str, least: int = 1) -> None:
    """Raise `ConfigurationError` unless the value is a whole number from `least` to `MAX_TOKENS`, or None."""
    if value is not None and not (type(value) is int and least <= value <= MAX_TOKENS):
        raise ConfigurationError(f"{what} must be a number from {least} to {MAX_TOKENS}, not {shown(value):.100}")


def as_cost_limit(limit: CostLimit | float | None) -> CostLimit | None:
    """Return the cost limit, which may be given as an amount alone."""
    return limit if limit is None or isinstance(limit, CostLimit) else CostLimit(limit)


def tool_names(content: Definition) -> tuple[str, ...]:
    """Return the names of the tools that are known before a server is connected."""
    own = (*(tool.name for tool in content.tools), *(agent.name for agent in content.agents))
    return (*own, *(str(tool.get("name", "")) for tool in content.api_tools))


def check_policy_names(content: Definition) -> None:
    """Raise `ConfigurationError` if the policies name a tool that neither the image nor its MCP servers can have."""
    if content.policies is not None:
        check_names(content.policies, tool_names(content), _prefixes(content))


def known_policies(content: Definition) -> Policies | None:
    """Return the image's policies without the names that `check_policy_names` would refuse."""
    return content.policies and restricted(content.policies, tool_names(content), _prefixes(content))


def _prefixes(content: Definition) -> list[str]:
    return [remote_prefix(server.name) for server in content.mcp_servers]


def check_model(model: str | None, system_prompt: str | None) -> None:
    """Raise `InvalidInputError` if either is blank, too long or not valid Unicode; the prompt may be empty."""
    if model is not None:
        check_text("the model", model)
    if system_prompt is not None and system_prompt != "":
        check_text("the system prompt", system_prompt, limit=MAX_PROMPT_BYTES)


def derive(image_id: str, content: Definition, *, model: str | None, system_prompt: str | None) -> Definition:
    """Return the image's definition with this model and system prompt, where given, and the same tools."""
    return msgspec.structs.replace(
        content,
        model=content.model if model is None else model,
        system_prompt=content.system_prompt if system_prompt is None else system_prompt,
        base=content.base or image_id,
    )


def describe(image_id: str, content: Definition, revision: int, created_at: datetime) -> ImageInfo:
    """Return this revision of the image as callers see it."""
    return ImageInfo(
        id=image_id,
        name=content.name,
        model=content.model,
        system_prompt=content.system_prompt,
        max_tokens=content.max_tokens,
        revision=revision,
        created_at=created_at,
        tools=tool_names(content),
    )


def own_policies(definition: Definition) -> dict[str, Policy]:
    """Return the policies that the image's tools define themselves."""
    return {tool.name: Policy(tool.intervention) for tool in definition.tools if tool.intervention is not None}


def rules_of(definition: Definition, prices: Mapping[str, Price], context_window: int) -> Rules:
    """Return the loop's rules for an agent with this definition; `context_window` is its model's, in tokens.

    A tool's own `intervention` is its policy, unless the image's policies name the tool.
    """
    given = definition.policies or Policies()
    compress_at = int(FILLED * context_window) if definition.compress_at is None else definition.compress_at
    return Rules(
        policies=given.with_own(own_policies(definition)),
        prices=dict(prices),
        costs={tool.name: tool.cost for tool in definition.tools if tool.cost is not None},
        idempotent=tuple(sorted(tool.name for tool in definition.tools if tool.idempotent)),
        max_steps=definition.max_steps,
        max_repeats=definition.max_repeats,
        cost_limit=definition.cost_limit,
        compress_at=compress_at or None,
        output=definition.output,
        guards=definition.guards,
        handovers={tool.name: tool.handover for tool in definition.tools if tool.handover is not None},
    )


def _checked_output(who: str, output: object) -> OutputSpec | None:
    if output is not None and not isinstance(output, OutputSpec):
        raise ConfigurationError(
            f"output of {who} must be a type, a JSON Schema or an OutputSpec, not {shown(output):.200}"
        )
    return output and check_output(output)


def _is_api_tool(tool: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the tool is one of the Messages API's own, which the API runs or defines: it has a `type`."""
    return is_mapping(tool) and not _is_plain_spec(tool) and not _is_agent(tool)


def _is_plain_spec(tool: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the tool is a spec given as a mapping: with an `input_schema`, and without a `type`."""
    return is_mapping(tool) and "input_schema" in tool and "type" not in tool


def _is_agent(tool: object) -> bool:
    """Return whether the tool's calls start child sessions: an `AgentTool`, or a mapping with an `image_id`."""
    return isinstance(tool, AgentTool) or (is_mapping(tool) and "image_id" in tool and "type" not in tool)


def _checked_agent(who: str, tool: object) -> AgentTool:
    try:
        return check_agent(tool if isinstance(tool, AgentTool) else msgspec.convert(tool, AgentTool))
    except msgspec.ValidationError as wrong:
        raise ConfigurationError(f"{who}: a tool with an `image_id`: {wrong}") from None


def _is_json(tool: Mapping[str, object]) -> TypeGuard[JsonObject]:
    return isinstance(tool.get("type"), str) and is_json(tool)


def _checked_api_tool(who: str, tool: Mapping[str, object]) -> JsonObject:
    plain = dict(tool)
    if _is_json(plain):
        return plain
    raise ConfigurationError(
        f"{who}: a tool that is a mapping is one of the API's own: JSON with a `type`; got {shown(plain)}"
    )


def _checked_spec(who: str, tool: object) -> ToolSpec:
    if _is_plain_spec(tool):
        return check_spec(_spec_of(who, tool))
    spec = tool if isinstance(tool, ToolSpec) else getattr(tool, "spec", None)
    if not isinstance(spec, ToolSpec):
        raise ConfigurationError(
            f"{who}: {tool!r} is not a tool; give a function, what `@tool` made of one, or a mapping with a `type`"
        )
    return check_spec(spec)


def _spec_of(who: str, tool: Mapping[str, object]) -> ToolSpec:
    fields = ToolSpec.__struct_fields__
    unknown = [name for name in tool if name not in fields]
    if unknown:
        raise ConfigurationError(f"{who}: tool {tool.get('name')!r:.80} has {unknown[0]!r:.80}, which it cannot have")
    try:
        return msgspec.convert(dict(tool), ToolSpec)
    except msgspec.ValidationError as wrong:
        raise ConfigurationError(f"{who}: tool {tool.get('name')!r:.80}: {wrong}") from None


def _checked_servers(who: str, servers: object) -> tuple[MCPServer, ...]:
    given: list[object] = [*servers] if is_sequence(servers) else [None]
    found = [server for server in given if isinstance(server, MCPServer)]
    if len(found) < len(given):
        raise ConfigurationError(
            f"mcp_servers of {who} must be a tuple of what MCPServer.stdio or MCPServer.http returned, not {servers!r}"
        )
    checked = tuple(check_server(server) for server in found)
    if len({server.name for server in checked}) < len(checked):
        raise ConfigurationError(f"{who} has two MCP servers of the same name")
    return checked
