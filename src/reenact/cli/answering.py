"""Who answers: Claude when there is a key, else the mock."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory, LLMConfig
from reenact.cli.settings import given, is_on


class Answering:
    """Makes the environments of whoever answers, and can say who that is.

    What `model` and `system_prompt` name holds in the place of what the session was created with.
    """

    def __init__(
        self, factory: EnvironmentFactory, words: str, *, model: str | None = None, system_prompt: str | None = None
    ) -> None:
        self.words = words
        self.created_with: str | None = None
        self._factory = factory
        self._instead: dict[str, str] = {}
        if model is not None:
            self._instead["model"] = model
        if system_prompt is not None:
            self._instead["system_prompt"] = system_prompt

    def create(self, config: EnvironmentConfig) -> Environment:
        """Return a new environment, not yet connected."""
        self.created_with = config.model
        return self._factory.create(msgspec.structs.replace(config, **self._instead))

    def dispose(self) -> None:
        """Release what the environments share. Idempotent."""
        dispose = getattr(self._factory, "dispose", None)
        if callable(dispose):
            dispose()

    def name(self, model: str | None) -> str:
        """Return who answers, with the model that was asked for."""
        return self.words.format(model=self._instead.get("model") or self.created_with or model)


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
        from reenact.actors.environment.claude import ClaudeEnvironmentFactory  # noqa: PLC0415 - when it is needed

        claude = ClaudeEnvironmentFactory(llm)
        return Answering(claude, "Claude ({model}) answers", model=model, system_prompt=system_prompt), llm
    from reenact.actors.environment.mock import MockEnvironmentFactory  # noqa: PLC0415 - when it is needed

    scenario = given(environ, "MOCK_SCENARIO") or "default"
    why = "" if llm.api_key else "; set ANTHROPIC_API_KEY to talk to Claude"
    words = f"the mock answers, from its script {scenario!r}{why}"
    return Answering(MockEnvironmentFactory(scenario), words, model=model, system_prompt=system_prompt), llm
