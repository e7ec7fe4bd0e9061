"""Who answers: the names that `--provider` takes, and the variables of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from reenact.cli.settings.environment import given, is_on
from reenact.domain.errors import ConfigurationError

CLAUDE = "claude"
OPENAI = "openai"
MOCK = "mock"
BASE_URL = "--base-url"
SAY = "openai, claude, mock, or MODULE:NAME for one of your own"
_OWN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class Variables(msgspec.Struct, frozen=True):
    """The variables that say with which key an API is asked, where it is, and for which model."""

    key: str
    url: str
    model: str


VARIABLES: Final[Mapping[str, Variables]] = {
    CLAUDE: Variables("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
    OPENAI: Variables("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
}
"""Those of the providers that ask an API. A key goes where the options, the variables or the settings of its own
provider say, and nowhere else."""


def checked_provider(name: str) -> str:
    """Return the name.

    Raises:
        ValueError: no provider can have it.
    """
    if name not in VARIABLES and name != MOCK and not _OWN.fullmatch(name):
        raise ValueError(SAY)
    return name


def provider_of_environment(environ: Mapping[str, str]) -> str | None:
    """Return the provider that the environment names, None if it names none."""
    return MOCK if is_on(environ.get("MOCK_LLM")) else given(environ, "REENACT_PROVIDER")


def provider_of(named: str | None, environ: Mapping[str, str]) -> str:
    """Return the provider that is meant: the one that is named, that of the environment, or, with its key, Claude.

    Raises:
        ConfigurationError: there is none of that name.
    """
    name = provider_of_environment(environ) if named is None else named
    if name is None:
        return CLAUDE if given(environ, VARIABLES[CLAUDE].key) else MOCK
    try:
        return checked_provider(name)
    except ValueError as error:
        raise ConfigurationError(
            f"--provider {name}: say {error}; servers such as Ollama are --provider openai, with --base-url"
        ) from None
