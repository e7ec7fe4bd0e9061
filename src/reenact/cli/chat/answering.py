"""What a session is created from: the provider, the image that the options describe, and what extensions add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory, LLMConfig
from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.actors.environment.model import ProviderEnvironmentFactory
from reenact.actors.environment.tools.tool import Tool
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.actors.environment.wire.endpoint import shown_url
from reenact.cli.chat.conversation import IMAGE, Conversation, TurnRunner
from reenact.cli.output.answers import Answer
from reenact.cli.parsing.options import ServeOptions, TalkOptions
from reenact.cli.settings.configuration import (
    KNOWN_PRICES,
    load_tools,
    own_provider,
    read_policies,
    read_prices,
    read_servers,
)
from reenact.cli.settings.environment import read_variable
from reenact.cli.settings.values import BASE_URL, CLAUDE, MOCK, OPENAI, VARIABLES, Variables, provider_of
from reenact.domain.children import AgentTool
from reenact.domain.errors import ConfigurationError
from reenact.domain.image import Image, check_policy_names, define
from reenact.domain.loop.asking import ASK_USER
from reenact.domain.loop.ledger import Price
from reenact.domain.loop.rules import MAX_STEPS
from reenact.domain.policy.reading import policies_of

_SKILL = "skill"
"""The tool that loads skills; it has a function only if there are skills."""


@dataclass
class Answerer:
    """Creates the environments of a provider, and describes the provider.

    `model` and `system_prompt` replace those that a session was created with. `model` may be changed; the change
    affects environments that are created afterwards. The system prompt does not apply to the sessions in
    `new_sessions`, which this run has created with it. In sessions that are not in `chat_sessions`, which are those of
    agents, only the model applies, and only if they have the model of the session that called them.

    `llm` says how the model is reached. `mock` is the description of the mock if the mock answers. If not, `who` names
    the provider, `variables` tell how it is reached, and `default` is the model where none is named; it is empty for a
    service with models of many kinds.
    """

    _factory: EnvironmentFactory
    llm: LLMConfig = field(default_factory=LLMConfig)
    who: str = "Claude"
    variables: Variables | None = VARIABLES[CLAUDE]
    default: str = DEFAULT_MODEL
    known_prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    mock: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    new_sessions: set[str] = field(default_factory=set[str])
    chat_sessions: set[str] = field(default_factory=set[str])
    created_with: str | None = None
    """The model of the session whose environment was created last; None if that session names no model."""
    _changed: list[str] = field(default_factory=list[str])
    _missing: list[str] = field(default_factory=list[str])

    def create(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment that is not connected yet."""
        if config.session_id not in self.chat_sessions:
            model = (self.model if config.model == self.created_with else None) or config.model
            return self._factory.create(replace(config, model=model))
        instead = {"model": self.model or config.model, "system_prompt": config.system_prompt}
        if config.session_id not in self.new_sessions:
            instead["system_prompt"] = self.system_prompt or config.system_prompt
        self.created_with = config.model
        self._changed = [
            f"the session was created with {_described(name, old)}; this run has {_described(name, new)}"
            for name, new in instead.items()
            if (old := getattr(config, name)) != new
        ]
        self._missing = [] if config.tools is None else _without_function(config.tools)
        return self._factory.create(replace(config, **instead))

    def dispose(self) -> None:
        """Release what the environments share. Idempotent."""
        dispose = getattr(self._factory, "dispose", None)
        if callable(dispose):
            dispose()

    def name(self, otherwise: str) -> str:
        """Return a sentence that says who answers, with the model `otherwise` unless this run has its own."""
        if self.mock is not None:
            return self.mock
        model = self.model or otherwise
        return f"{self.who} ({model}) answers" if model else f"{self.who} answers"

    def check_model(self, named: str | None) -> None:
        """Raise `ConfigurationError` if the provider has no default model and nobody names one."""
        if self.variables is not None and not self.model_of(named):
            raise ConfigurationError(
                f"{self.who} has more than one model: name yours, with --model, {self.variables.model} or `model` in "
                "your settings"
            )

    def model_of(self, *named: str | None) -> str:
        """Return the first model that is named, or the default one, which may be empty."""
        return next(filter(None, named), self.default)

    def prices(self, given: Sequence[str]) -> Mapping[str, Price]:
        """Return the prices of models: the known ones, and those given as `MODEL=IN,OUT`, which replace them."""
        return {**self.known_prices, **read_prices(given)}

    def differences(self, agents: Callable[[], Sequence[AgentTool]]) -> list[str]:
        """Return sentences that say how this run differs from what the session of the newest environment began with.

        The `agents` of the session, which have no function, are asked for only if a function is missing.
        """
        called = {agent.name for agent in agents()} if self._missing else frozenset[str]()
        missing = [name for name in self._missing if name not in called]
        if not missing:
            return self._changed
        names = ", ".join(missing)
        loads = "; `skill` loads skills, of which there are none now" if _SKILL in missing else ""
        return [
            *self._changed,
            f"the session was created with tools that are not here, so calls of {names} fail; see --tools{loads}",
        ]


def make_answerer(
    environ: Mapping[str, str],
    *,
    provider: str | None = None,
    base_url: str | None = None,
    usual_model: str | None = None,
) -> Answerer:
    """Return the provider that is to answer.

    For a service without a default model, `usual_model` answers in sessions that were created without a model.

    Raises:
        UnknownScenarioError: `MOCK_SCENARIO` names an unknown scenario.
        ConfigurationError: the provider is unknown, or cannot be reached with these settings.
    """
    name = provider_of(provider, environ)
    variables = VARIABLES.get(name)
    if variables is None and base_url is not None:
        apis = " or ".join(VARIABLES)
        raise ConfigurationError(f"--base-url is for an API, and {name} is none; say --provider {apis}, too")
    if name == MOCK:
        return _mock(environ)
    if variables is None:
        factory = ProviderEnvironmentFactory(own_provider(name))
        return Answerer(factory, LLMConfig(), who=name, default="", variables=None)
    llm = _llm_config_of(environ, variables, base_url)
    if base_url is not None:
        variables = replace(variables, url=BASE_URL)
    if name == OPENAI:
        return _openai(replace(llm, model=llm.model or usual_model), variables)
    from reenact.actors.environment.claude.environment import ClaudeEnvironmentFactory  # noqa: PLC0415 - only if used

    return Answerer(
        ClaudeEnvironmentFactory(llm),
        llm,
        default=llm.model or DEFAULT_MODEL,
        variables=variables,
        known_prices=KNOWN_PRICES,
    )


def _llm_config_of(environ: Mapping[str, str], variables: Variables, base_url: str | None) -> LLMConfig:
    return LLMConfig(
        api_key=read_variable(environ, variables.key),
        base_url=base_url or read_variable(environ, variables.url),
        model=read_variable(environ, variables.model),
    )


def _openai(llm: LLMConfig, variables: Variables) -> Answerer:
    from reenact.actors.environment.openai.provider import OpenAIProvider  # noqa: PLC0415 - only if used

    openai = OpenAIProvider(llm.base_url, llm.api_key, llm.model)
    return Answerer(
        ProviderEnvironmentFactory(openai),
        llm,
        who="OpenAI" if llm.base_url is None else shown_url(llm.base_url),
        default=llm.model or "",
        variables=variables,
    )


def _mock(environ: Mapping[str, str]) -> Answerer:
    from reenact.actors.environment.mock import MockEnvironmentFactory  # noqa: PLC0415 - only if used

    llm = _llm_config_of(environ, VARIABLES[CLAUDE], None)
    scenario = read_variable(environ, "MOCK_SCENARIO") or "default"
    why = "" if llm.api_key else "; set ANTHROPIC_API_KEY to talk to Claude"
    words = f"the mock answers, from its script {scenario!r}{why}"
    mock = MockEnvironmentFactory(scenario)
    return Answerer(mock, llm, default=llm.model or DEFAULT_MODEL, mock=words)


def image_of(options: TalkOptions | ServeOptions, tools: tuple[object, ...] | None = None) -> Image:
    """Return the image for a new session; of a resumed session, only the functions of the image's tools are used.

    If `tools` are given, the tools of the options are not loaded again.
    """
    if isinstance(options, TalkOptions) and options.goes_on:
        for option in ("mcp_config", "policy", "max_turns", "max_cost"):
            if getattr(options, option) is not None:
                name = f"--{option.replace('_', '-')}"
                raise ConfigurationError(
                    f"{name} is for a new session; one that goes on keeps what it was created with"
                )
    image = Image(
        id=IMAGE,
        model=options.model,
        system_prompt=options.system_prompt,
        tools=load_tools(options.tools) if tools is None else tools,
        mcp_servers=() if options.mcp_config is None else read_servers(options.mcp_config),
        policies=None if options.policy is None else read_policies(options.policy, policies_of),
        max_steps=MAX_STEPS if options.max_turns is None else options.max_turns,
        cost_limit=options.max_cost,
    )
    define(image, IMAGE)  # so that an error in it is reported at once
    return image


def check_policy(options: TalkOptions | ServeOptions, image: Image) -> None:
    """Raise `ConfigurationError` if `--policy` names a tool that the image does not have."""
    try:
        check_policy_names(define(image, IMAGE))
    except ConfigurationError as error:
        raise ConfigurationError(f"--policy {options.policy}: {error}") from None


def _without_function(tools: Toolbox) -> list[str]:
    """Return the names of the tools without a function; one that asks a person or hands over needs none."""
    names = (spec.name for spec in tools.specs() if spec.handover is None)
    return [name for name in names if name != ASK_USER and not isinstance(tools.get(name), Tool)]


def _described(name: str, value: str | None) -> str:
    what = name.replace("_", " ")
    if value is None:
        return f"no {what} of its own"
    return f"the model {value}" if name == "model" else f"another {what}"


class ChatExtensions:
    """What extensions add to a conversation; this base class adds nothing."""

    def image(self, image: Image, *, goes_on: bool) -> Image:
        """Return the image for a new session; if it `goes_on`, only the functions of the image's tools are used."""
        return image

    def environment(self, answerer: Answerer) -> EnvironmentFactory:
        """Return the factory of the environments."""
        return answerer

    def begin(self, conversation: Conversation) -> None:
        """Handle the beginning of the conversation."""

    def ask(self, runner: TurnRunner, question: str, *, as_it_is: bool) -> Answer:
        """Answer what was typed; return when there is an answer, or when a call waits for a person.

        If `as_it_is` is true, the text calls no command, even if it looks like one.
        """
        return runner.ask(question)

    def end(self) -> None:
        """Stop at once everything that runs beside the conversation. Idempotent."""

    def is_command(self, line: str) -> bool:
        """Return whether the line calls a command of an extension."""
        return False

    def commands(self) -> Mapping[str, str]:
        """Return the usage of each command that runs, with its description; neither has control characters."""
        return {}

    def agents(self) -> Mapping[str, str]:
        """Return each agent as `@name`, with its description; neither has control characters."""
        return {}

    def help(self) -> Mapping[str, str]:
        """Return further entries of the help, also commands that do not run, with the reason; no control characters."""
        return {}
