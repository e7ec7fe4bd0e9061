"""The keys of settings.json, and a reader for these files that reports errors with their line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from reenact.cli.settings.configuration import split_place
from reenact.cli.settings.values import AMOUNT, SAY, SECONDS, TURNS, Amount, OutputFormat, checked_provider
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_array, is_object
from reenact.extensions.files import MalformedError, read_bytes, read_json, text_of

_SQLITE = "sqlite:///"

_RUNS_CODE = "a project may not name what runs"
_LETS_RUN = "a project may not say which calls run"
_SENDS_KEYS = "a project may not say who answers, or where keys are sent"


Value: TypeAlias = str | float | tuple[str, ...]
"""The value of a setting."""


class Place(msgspec.Struct, frozen=True):
    """The folder of a settings file and the user's home directory, which paths in the file are relative to."""

    folder: Path
    home: Path

    def path(self, text: str) -> str:
        """Return the absolute path for a path in the file."""
        if text == "~" or text.startswith("~/"):
            return str(self.home / text[2:])
        return os.path.normpath(self.folder / text)


def _as_it_is(value: Value, _: Place) -> Value:
    return value


class Key(msgspec.Struct, frozen=True):
    """A setting: the field of `TalkOptions` that it sets, its type, and a description of valid values.

    `placed` converts a value of that type. An environment `variable` takes precedence over the file; the variables of
    providers are in `VARIABLES`. `withheld` says why a project may not set it. `is_of_new` marks settings that a
    session keeps from its creation.
    """

    option: str
    kind: object
    what: str
    placed: Callable[..., Value] = _as_it_is
    variable: str | None = None
    withheld: str | None = None
    is_of_new: bool = False

    def read(self, value: object, place: Place) -> Value:
        """Return the converted value; raise `ValueError` with a description of valid values."""
        try:
            return self.placed(msgspec.convert(value, self.kind), place)
        except (msgspec.ValidationError, OverflowError):
            raise ValueError(self.what) from None


def _prices(value: Mapping[str, tuple[float, float]], _: Place) -> tuple[str, ...]:
    """Return the prices in the format of `--price`."""
    return tuple(f"{model}={given!r},{received!r}" for model, (given, received) in value.items())


def _tools(value: Sequence[str], place: Place) -> tuple[str, ...]:
    """Return the places of tools; modules that are not ours are refused: the current directory might provide them."""
    places: list[str] = []
    for text in value:
        where, name = split_place(text)
        if where.endswith(".py"):
            where = place.path(where)
        elif where.partition(".")[0] != "reenact":
            raise ValueError(f"{_TOOLS}; a module is named on the command line alone, with --tools")
        places.append(f"{where}:{name}" if name else where)
    return tuple(places)


def _provider(value: str, _: Place) -> str:
    return checked_provider(value)


def _file(value: str, place: Place) -> str:
    return place.path(value)


def _database(value: str, place: Place) -> str:
    if value.startswith(_SQLITE):
        return place.path(value.removeprefix(_SQLITE))
    return value if "://" in value else place.path(value)


_Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
_PATH = "the path of a file"
_TOOLS = 'a list of files with tools, as ["tools.py", "tools.py:send_mail"]'

KEYS: Final[Mapping[str, Key]] = {
    "provider": Key("provider", _Text, SAY, _provider, variable="REENACT_PROVIDER", withheld=_SENDS_KEYS),
    "baseUrl": Key("base_url", _Text, "the URL of an API", withheld=_SENDS_KEYS),
    "model": Key("model", _Text, "a text that is not blank", is_of_new=True),
    "systemPrompt": Key("system_prompt", str, "a text", is_of_new=True),
    "maxTurns": Key("max_turns", *TURNS, is_of_new=True),
    "maxCost": Key("max_cost", *AMOUNT, is_of_new=True),
    "prices": Key(
        "prices",
        dict[_Text, tuple[Amount, Amount]],
        '{"MODEL": [IN, OUT]}, with what a million tokens cost, 0 or more',
        _prices,
    ),
    "timeout": Key("timeout", *SECONDS),
    "outputFormat": Key(
        "output_format",
        OutputFormat,
        " or ".join(f'"{form}"' for form in get_args(OutputFormat)),
        withheld="a project may not say what programs read",
    ),
    "allowedTools": Key(
        "allowed_tools",
        tuple[_Text, ...],
        'a list of names of tools, as ["send_mail", "mcp__files__*"]',
        withheld=_LETS_RUN,
    ),
    "tools": Key("tools", tuple[_Text, ...], _TOOLS, _tools, withheld=_RUNS_CODE),
    "policy": Key("policy", _Text, _PATH, _file, withheld=_LETS_RUN, is_of_new=True),
    "mcpConfig": Key("mcp_config", _Text, _PATH, _file, withheld=_RUNS_CODE, is_of_new=True),
    "db": Key(
        "database",
        _Text,
        "the path of a log, or a URL",
        _database,
        variable="REENACT_DB",
        withheld="a project may not say where the log is",
    ),
}
"""Every setting by its key in the file."""


Source: TypeAlias = Literal["project", "user"]

_OWN = "; your own settings and the command line may"
_SCHEMA = "$schema"
"""A key for editors, which is ignored."""
_OF_CLAUDE_CODE = frozenset(
    {
        "alwaysThinkingEnabled",
        "apiKeyHelper",
        "attribution",
        "autoUpdatesChannel",
        "availableModels",
        "awsAuthRefresh",
        "awsCredentialExport",
        "cleanupPeriodDays",
        "companyAnnouncements",
        "disableAllHooks",
        "disabledMcpjsonServers",
        "effortLevel",
        "enableAllProjectMcpServers",
        "enabledMcpjsonServers",
        "enabledPlugins",
        "env",
        "extraKnownMarketplaces",
        "fileSuggestion",
        "forceLoginMethod",
        "forceLoginOrgUUID",
        "hooks",
        "includeCoAuthoredBy",
        "language",
        "otelHeadersHelper",
        "outputStyle",
        "permissions",
        "plansDirectory",
        "respectGitignore",
        "sandbox",
        "showTurnDuration",
        "spinnerTipsEnabled",
        "spinnerVerbs",
        "statusLine",
        "theme",
    }
)


class Setting(msgspec.Struct, frozen=True):
    """The value of a setting, and the file that sets it."""

    value: Value
    source: Source
    path: str


class Ignored(msgspec.Struct, frozen=True):
    """A key that is ignored, and why; `line` counts from 1 and is None if it is unknown."""

    path: str
    line: int | None
    key: str
    why: str
    is_quiet: bool = False
    """Whether to omit a warning."""


def read_file(path: Path, source: Source, *, home: Path) -> tuple[dict[str, Setting], list[Ignored]]:
    """Return the settings in the file by their keys, and the keys that are ignored.

    For a project's file, a link that leads out of the project is not followed, and settings are ignored that run code,
    allow calls, or say where anything is sent.

    Raises:
        ConfigurationError: the file is invalid; the message has the path, the line, the key and the valid values.
        FileNotFoundError: the file does not exist.
    """
    within = None if source == "user" else path.parent.parent.resolve()
    try:
        text = text_of(read_bytes(path, within))
        return _read(text, path, source, Place(path.parent, home))
    except MalformedError as error:
        where = str(path) if error.line is None else f"{path}:{error.line}"
        raise ConfigurationError(f"{where}: {error.message}") from None


def _read(text: str, path: Path, source: Source, place: Place) -> tuple[dict[str, Setting], list[Ignored]]:
    settings: dict[str, Setting] = {}
    ignored: list[Ignored] = []
    content, lines = read_json(text)
    if not is_object(content):
        raise MalformedError('it must be an object, as {"model": "claude-x"}', 1)
    for name, value in content.items():
        line = lines.get((name,))
        key = KEYS.get(name)
        if key is None or (source == "project" and key.withheld is not None):
            why = _why_not(name) if key is None else f"{key.withheld}{_OWN}"
            ignored.append(Ignored(str(path), line, name, why, is_quiet=name == _SCHEMA))
            continue
        try:
            _check_texts(value)
            settings[name] = Setting(key.read(value, place), source, str(path))
        except ValueError as error:
            raise MalformedError(f"{name} must be {error}", line) from None
    if "baseUrl" in settings and "provider" not in settings:
        raise MalformedError(
            "baseUrl needs a provider beside it, which says whose address it is", lines.get(("baseUrl",))
        )
    return settings, ignored


def _why_not(name: str) -> str:
    if name == _SCHEMA:
        return "it is for editors"
    if name in _OF_CLAUDE_CODE:
        return "it is a setting of Claude Code, and means nothing here"
    meant = difflib.get_close_matches(name, KEYS, 1)
    return f"there is no such setting; is `{meant[0]}` meant?" if meant else "there is no such setting"


def _check_texts(value: object) -> None:
    """Raise `ValueError` for a text that is not Unicode, or has a NUL, which no path or name can have."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("without a NUL")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("Unicode, without a lone surrogate") from None
    elif is_array(value):
        for item in value:
            _check_texts(item)
    elif is_object(value):
        for name, item in value.items():
            _check_texts(name)
            _check_texts(item)
