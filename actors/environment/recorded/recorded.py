"""The public face of recordings."""

from __future__ import annotations

import os

from reenact.actors.environment.api import EnvironmentFactory, LLMConfig, LLMProvider
from reenact.actors.environment.recorded.recording import Existing, RecordingFactory
from reenact.actors.environment.recorded.replaying import ReplayFactory
from reenact.domain.errors import ConfigurationError


class RecordedEnvironment:
    """Keeps in a JSON file what agents asked of their environment and what it said, and says it again without it."""

    @staticmethod
    def record(
        path: str | os.PathLike[str],
        of: EnvironmentFactory | LLMProvider | LLMConfig,
        *,
        existing: Existing = "replace",
    ) -> RecordingFactory:
        """Return a factory whose environments are those `of` the other one, and are recorded.

        `of` may also be a provider of drivers, or how to reach Claude. The file is there, whole, after the first answer
        and after each further one; `existing` says whether one that is there already is then replaced, or continued.
        No API key and no header is written. The other environments do all they do without it.

        Raises:
            RecordingError: there can be no file of this path; or it is to be continued, and is no recording.
            ConfigurationError: this is nothing that could be recorded.
        """
        if existing not in ("replace", "continue"):
            raise ConfigurationError(f"existing is {existing!r}; it is 'replace' or 'continue'")
        secret = of.api_key if isinstance(of, LLMConfig) else None
        return RecordingFactory(path, _factory_of(of), existing=existing, secrets=(secret,))

    @staticmethod
    def replay(
        path: str | os.PathLike[str], *, delays: float = False, run_tools: bool = False, repeat: bool = False
    ) -> ReplayFactory:
        """Return a factory whose environments answer from the file.

        A request is answered by the recorded one with the same conversation, system prompt, tools and, where both name
        one, model; alike ones in the order in which they were recorded. One that is not there fails its turn with an
        `error` of the type `recording_mismatch`, as does one more than there are, unless with `repeat` the last answer
        is given again. What was cut short by an interrupt waits for one at the same place.

        `delays` is False for none, True for those of the recorded run, or a factor of these. No tool is run: calls have
        their recorded results, unless `run_tools`.

        Raises:
            RecordingError: the file cannot be read, is no recording, is of another version, or is damaged.
            ConfigurationError: `delays` is no factor.
        """
        return ReplayFactory(path, delays=delays, run_tools=run_tools, repeat=repeat)


def _factory_of(of: object) -> EnvironmentFactory:
    if isinstance(of, LLMConfig):
        from reenact.actors.environment.claude import ClaudeEnvironmentFactory  # noqa: PLC0415 - when it is needed

        return ClaudeEnvironmentFactory(of)
    if isinstance(of, EnvironmentFactory):
        return of
    if isinstance(of, LLMProvider):
        from reenact.actors.environment.model import ProviderEnvironmentFactory  # noqa: PLC0415 - when it is needed

        return ProviderEnvironmentFactory(of)
    raise ConfigurationError(f"a {type(of).__name__} cannot be recorded: give an environment factory or a provider")
