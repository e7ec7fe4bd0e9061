"""What options, settings and environment variables can name: output formats, limits, and providers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from reenact.cli.settings.environment import is_on, read_variable
from reenact.domain.errors import ConfigurationError

LARGEST_NUMBER = 1_000_000_000
LONGEST_TIMEOUT = 1_000_000
"""Seconds, more than 11 days: the system waits no longer than 24 days for a stream."""
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
TURNS = Annotated[int, Meta(ge=1, le=LARGEST_NUMBER)], f"a whole number from 1 on, at most {LARGEST_NUMBER:,}"
AMOUNT = Amount, "an amount of 0 or more"
SECONDS = Annotated[float, Meta(gt=0, le=LONGEST_TIMEOUT)], f"a number of seconds above 0, at most {LONGEST_TIMEOUT:,}"
"""Numbers that options and settings take: their type, and what they are in words."""


OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""The formats in which the answer to a prompt is printed."""

CLAUDE = "claude"
OPENAI = "openai"
MOCK = "mock"
BASE_URL = "--base-url"
SAY = "openai, claude, mock, or MODULE:NAME for one of your own"
_OWN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class Variables(msgspec.Struct, frozen=True):
    """The environment variables with the key, the address and the model of an API."""

    key: str
    url: str
    model: str


VARIABLES: Final[Mapping[str, Variables]] = {
    CLAUDE: Variables("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
    OPENAI: Variables("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
}
"""The variables of the providers that use an API. A key is sent only to the address that the options, the variables or
the settings of its own provider give.
"""


def checked_provider(name: str) -> str:
    """Return the name if it is valid.

    Raises:
        ValueError: no provider can have this name.
    """
    if name not in VARIABLES and name != MOCK and not _OWN.fullmatch(name):
        raise ValueError(SAY)
    return name


def provider_of_environment(environ: Mapping[str, str]) -> str | None:
    """Return the provider that the environment names; None if it names none."""
    return MOCK if is_on(environ.get("MOCK_LLM")) else read_variable(environ, "REENACT_PROVIDER")


def provider_of(named: str | None, environ: Mapping[str, str]) -> str:
    """Return the named provider, or else that of the environment, or else Claude if there is a key for it, or the mock.

    Raises:
        ConfigurationError: there is no provider of that name.
    """
    name = provider_of_environment(environ) if named is None else named
    if name is None:
        return CLAUDE if read_variable(environ, VARIABLES[CLAUDE].key) else MOCK
    try:
        return checked_provider(name)
    except ValueError as error:
        raise ConfigurationError(
            f"--provider {name}: say {error}; servers such as Ollama are --provider openai, with --base-url"
        ) from None
