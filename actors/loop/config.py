"""The inputs of an `AgentRuntime`: an agent and a configuration, in any of their forms."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeGuard

import msgspec

from reenact.actors.ids import TimeOrderedIds
from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.instructions import snake
from reenact.domain.loop.ledger import prices_of
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.values import is_mapping
from reenact.domain.messages import EPOCH
from reenact.domain.plain import is_sequence
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.reading import check_names, policies_of
from reenact.domain.tools import ToolSpec, is_amount

OnToolError: TypeAlias = Literal["fail", "feedback"]


class DescribedTool(Protocol):
    """A tool that describes itself in more detail than a function can."""

    @property
    def spec(self) -> ToolSpec: ...
    def run(self, arguments: dict[str, object]) -> object: ...  # a result, or an awaitable for one


Function: TypeAlias = Callable[..., object]
Tool: TypeAlias = Function | DescribedTool
"""A function of the decoded arguments, async or not, or a `DescribedTool`."""


def is_described(tool: object) -> TypeGuard[DescribedTool]:
    """Return whether a tool describes itself; mock objects that have every attribute do not count."""
    return isinstance(getattr(getattr(tool, "spec", None), "name", None), str) and callable(getattr(tool, "run", None))


def function_of(tool: Tool) -> Function:
    """Return the function to call with the decoded arguments."""
    if is_described(tool):
        return tool.run
    assert callable(tool)  # the agent has been checked
    return tool


def tool_cost(tool: object) -> float | None:
    """Return the cost of a call of the tool, from its spec or an attribute of its own, or None if neither has one."""
    cost = tool.spec.cost if is_described(tool) else getattr(tool, "cost", None)
    return cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def _microseconds() -> int:
    return int((utc_now() - EPOCH).total_seconds() * 1_000_000)


new_id = TimeOrderedIds(_microseconds)


@dataclass(frozen=True)
class AgentRuntimeConfig:
    """The configuration of an `AgentRuntime`.

    `executors` override the built-in ones; `model_runtime` is called if the agent has none. `policies` are given by
    tool, as a `Policy` or a mode, or as a whole as `Policies`; `allow` and `deny` are the lists that belong to them.
    `prices` are those of models, by name. `on_tool_error` determines what happens when a single call fails: `"fail"` is
    an error of the step, `"feedback"` an answer for the model. With `append_assistant_message` the answers of the model
    become messages of the conversation. `clock` returns the time, with a time zone.

    Raises:
        ConfigurationError: an option has an invalid value.
    """

    executors: Mapping[str, Function] = field(default_factory=dict[str, Function])
    model_runtime: Function | None = None
    policies: object = None
    allow: Iterable[object] | None = None
    deny: Iterable[object] | None = None
    prices: Mapping[str, object] = field(default_factory=dict[str, object])
    on_tool_error: OnToolError = "fail"
    append_assistant_message: bool = False
    clock: Callable[[], datetime] = utc_now

    def __post_init__(self) -> None:
        """Check what can be checked before the first step."""
        _check_table("config", self.executors)
        _function("model_runtime", self.model_runtime)
        _function("clock", self.clock)
        if self.on_tool_error not in ("fail", "feedback"):
            raise ConfigurationError(f"on_tool_error must be 'fail' or 'feedback', not {self.on_tool_error!r}")
        appends: object = vars(self)["append_assistant_message"]
        if not isinstance(appends, bool):
            raise ConfigurationError(f"append_assistant_message must be true or false, not {appends!r}")
        object.__setattr__(self, "prices", prices_of(self.prices))


def config_of(value: object) -> AgentRuntimeConfig:
    """Return the configuration given as a mapping; names may be those of the specification (`modelRuntime`) or ours.

    Raises:
        ConfigurationError: an option is unknown or has an invalid value.
    """
    if isinstance(value, AgentRuntimeConfig):
        return value
    if value is None:
        return AgentRuntimeConfig()
    if not is_mapping(value):
        raise ConfigurationError(f"config must be an `AgentRuntimeConfig` or a mapping, not {value!r}")
    known = [each.name for each in fields(AgentRuntimeConfig)]
    given = {snake(str(name)): each for name, each in value.items() if each is not None}
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise ConfigurationError(f"config has no option {unknown!r}; there are: {', '.join(known)}")
    made: Callable[..., AgentRuntimeConfig] = AgentRuntimeConfig
    return made(**given)  # pyright: ignore[reportArgumentType]  # the class checks them itself


class AgentView:
    """Access to an agent, an object or a mapping, read again each time: it may change between two steps.

    Raises:
        ConfigurationError: it has no `runner`, or one of its parts is invalid; or the configuration has an invalid
            policy, or one for a tool that the agent does not have.
    """

    def __init__(self, agent: object, config: AgentRuntimeConfig) -> None:
        self._agent = agent
        given = policies_of(config.policies)
        allow = given.allow if config.allow is None else config.allow
        deny = given.deny if config.deny is None else config.deny
        self._given = self._policies = policies_of({"tools": given.tools, "allow": allow, "deny": deny})
        self._own: Mapping[str, object] = {}
        _ = self.runner, self.executors, self.model_runtime
        if self.tools:  # an agent without tools may have executors that run tools of their own
            check_names(self._given, self.tools)
        _ = self.policies

    @property
    def runner(self) -> Function:
        """The function that decides on the next instructions."""
        if callable(runner := self._part("runner")):
            return runner
        raise ConfigurationError(f"an agent has a `runner(context, state)`; {self._agent!r} has {runner!r}")

    @property
    def executors(self) -> Mapping[str, Function]:
        """The agent's own executors, by the types of instructions."""
        return _check_table("agent", self._part("executors") or {})

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The agent's tools by name."""
        tools: object = self._part("tools") or {}
        if is_sequence(tools) and len(described := [tool for tool in tools if is_described(tool)]) == len(tools):
            tools = {tool.spec.name: tool for tool in described}
        if not is_mapping(tools):
            raise ConfigurationError(f"the agent's tools must be a mapping of names, not {tools!r}")
        table: dict[str, Tool] = {}
        for name, tool in tools.items():
            if not callable(tool) and not is_described(tool):
                raise ConfigurationError(f"tool {name!r} can be called, or has `run` and `spec`; {tool!r} has neither")
            table[name] = tool
            cost = tool_cost(tool)
            if cost is not None and not is_amount(cost):
                raise ConfigurationError(f"the cost of tool {name!r} must be an amount of 0 or more, not {cost!r:.80}")
        return table

    @property
    def model_runtime(self) -> Function | None:
        """The agent's own model."""
        return _function("model_runtime", self._part("model_runtime", "modelRuntime"))

    @property
    def policies(self) -> Policies:
        """The policies in effect: the tools' own, overridden by those of the configuration."""
        own = {
            name: tool.spec.intervention
            for name, tool in self.tools.items()
            if is_described(tool) and tool.spec.intervention is not None
        }
        if own != self._own:
            self._policies = self._given.with_own(policies_of({"tools": own}).tools)
            self._own = own
        return self._policies

    def _part(self, *names: str) -> object:
        for name in names:
            agent = self._agent
            part: object = agent.get(name) if is_mapping(agent) else getattr(agent, name, None)
            if part is not None:
                return part
        return None


def _check_table(whose: str, table: object) -> Mapping[str, Function]:
    if not is_mapping(table):
        raise ConfigurationError(f"executors of the {whose} must be a mapping of instruction types, not {table!r}")
    functions: dict[str, Function] = {}
    for kind, executor in table.items():
        if not callable(executor):
            raise ConfigurationError(f"executor {kind!r} of the {whose} cannot be called: {executor!r}")
        functions[kind] = executor
    return functions


def _function(name: str, value: object) -> Function | None:
    if value is None or callable(value):
        return value
    raise ConfigurationError(f"{name} must be a function, not {value!r}")


def rules_here(rules: Rules, cwd: str | None = None) -> Rules:
    """Return the rules for this process; relative paths are resolved from `cwd`, or its working directory."""
    try:
        where = cwd or str(Path.cwd())
    except OSError:  # the directory has been removed
        where = None
    return msgspec.structs.replace(rules, cwd=where, home=os.environ.get("HOME"), resolve=os.path.realpath)
