"""Who answers: Claude when there is a key, else the mock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory, LLMConfig
from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.actors.environment.tools.tool import Tool
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.cli.settings.environment import given, is_on
from reenact.domain.loop.asking import ASK_USER

_SKILL: Final = "skill"
"""The tool that loads skills, which has a function only where there are any."""


@dataclass
class Answering:
    """Makes the environments of whoever answers, and can say who that is.

    What `model` and `system_prompt` name holds in the place of what the session was created with. The `model` may be
    changed, which holds for environments that are made from then on; the system prompt does not hold in sessions that
    were `begun` in this run, which were created with it. `mock` has the words for the factory if it is one of mocks.
    """

    _factory: EnvironmentFactory
    mock: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    begun: set[str] = field(default_factory=set[str])
    _created_with: str | None = None
    _changed: list[str] = field(default_factory=list[str])
    _missing: list[str] = field(default_factory=list[str])

    def create(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment, not yet connected."""
        instead = {"model": self.model or config.model, "system_prompt": config.system_prompt}
        if config.session_id not in self.begun:
            instead["system_prompt"] = self.system_prompt or config.system_prompt
        self._created_with = config.model
        self._changed = [
            f"the session was created with {_words(name, old)}; this run has {_words(name, new)}"
            for name, new in instead.items()
            if (old := getattr(config, name)) != new
        ]
        self._missing = [] if config.tools is None else _without_function(config.tools)
        return self._factory.create(msgspec.structs.replace(config, **instead))

    def create_as_it_is(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment for a session in which nothing holds but what it was created with."""
        return self._factory.create(config)

    def dispose(self) -> None:
        """Release what the environments share. Idempotent."""
        dispose = getattr(self._factory, "dispose", None)
        if callable(dispose):
            dispose()

    @property
    def created_with(self) -> str | None:
        """The model of the session for which an environment was made last, None if it names none."""
        return self._created_with

    def name(self, otherwise: str) -> str:
        """Return who answers; Claude is the model `otherwise` unless this run has another."""
        return self.mock or f"Claude ({self.model or otherwise}) answers"

    def departures(self) -> list[str]:
        """Return in words what is not as the session was created for which an environment was made last."""
        if not self._missing:
            return self._changed
        names = ", ".join(self._missing)
        loads = "; `skill` loads skills, of which there are none now" if _SKILL in self._missing else ""
        return [
            *self._changed,
            f"the session was created with tools that are not here, so calls of {names} fail; see --tools{loads}",
        ]


def model_of(environ: Mapping[str, str], *named: str | None) -> str:
    """Return the model that is meant: the first that is named, that of the environment, or the default one."""
    return next(filter(None, (*named, given(environ, "ANTHROPIC_MODEL"))), DEFAULT_MODEL)


def answering(
    environ: Mapping[str, str], *, model: str | None = None, system_prompt: str | None = None
) -> tuple[Answering, LLMConfig]:
    """Return who answers, and how Claude is reached.

    Raises:
        UnknownScenarioError: `MOCK_SCENARIO` names none that there is.
    """
    llm = LLMConfig(
        api_key=given(environ, "ANTHROPIC_API_KEY"),
        base_url=given(environ, "ANTHROPIC_BASE_URL"),
        model=given(environ, "ANTHROPIC_MODEL"),
    )
    if llm.api_key and not is_on(environ.get("MOCK_LLM")):
        from reenact.actors.environment.claude.environment import ClaudeEnvironmentFactory  # noqa: PLC0415 - when it is needed

        claude = ClaudeEnvironmentFactory(llm)
        return Answering(claude, model=model, system_prompt=system_prompt), llm
    from reenact.actors.environment.mock import MockEnvironmentFactory  # noqa: PLC0415 - when it is needed

    scenario = given(environ, "MOCK_SCENARIO") or "default"
    why = "" if llm.api_key else "; set ANTHROPIC_API_KEY to talk to Claude"
    words = f"the mock answers, from its script {scenario!r}{why}"
    return Answering(MockEnvironmentFactory(scenario), mock=words, model=model, system_prompt=system_prompt), llm


def _without_function(tools: Toolbox) -> list[str]:
    """Return the names of the tools whose functions nobody has handed in; a question to a person needs none."""
    names = (spec.name for spec in tools.specs())
    return [name for name in names if name != ASK_USER and not isinstance(tools.get(name), Tool)]


def _words(name: str, value: str | None) -> str:
    what = name.replace("_", " ")
    if value is None:
        return f"no {what} of its own"
    return f"the model {value}" if name == "model" else f"another {what}"
