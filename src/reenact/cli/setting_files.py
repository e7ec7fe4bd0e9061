"""Reading a file of settings: as carefully as extensions are read, and with the line of whatever is wrong in it."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from reenact.cli.setting_keys import KEYS, Place
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_array, is_object
from reenact.extensions.files import read_bytes, text_of
from reenact.extensions.json_lines import read_json
from reenact.extensions.problems import MalformedError

Source: TypeAlias = Literal["project", "user"]

_OWN: Final = "; your own settings and the command line may"
_SCHEMA: Final = "$schema"
"""What editors look for; it asks nothing of us."""
_ELSEWHERE: Final = "it is a setting of Claude Code, and means nothing here"
_OF_CLAUDE_CODE: Final = frozenset(
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
    """What a setting stands for, and the file that says so."""

    value: Any
    source: Source
    path: str


class PassedOver(msgspec.Struct, frozen=True):
    """A key that is not heeded, and why; `line` counts from 1 and is None where it is not known."""

    path: str
    line: int | None
    key: str
    why: str
    is_quiet: bool = False
    """Whether nobody need be warned."""


def read_file(path: Path, source: Source, *, home: Path) -> tuple[dict[str, Setting], list[PassedOver]]:
    """Return the settings in the file by their keys, and what in it is not heeded.

    Of a project's file a link that leads out of the project is not followed, and only that is heeded which neither runs
    code nor lets calls run, nor says where things go.

    Raises:
        ConfigurationError: it is not as it should be; the message has path, line and key, and what it is to be.
        FileNotFoundError: there is none.
    """
    within = None if source == "user" else path.parent.parent.resolve()
    try:
        text = text_of(read_bytes(path, within))
        return _read(text, path, source, Place(path.parent, home))
    except MalformedError as error:
        where = str(path) if error.line is None else f"{path}:{error.line}"
        raise ConfigurationError(f"{where}: {error.message}") from None


def _read(text: str, path: Path, source: Source, place: Place) -> tuple[dict[str, Setting], list[PassedOver]]:
    settings: dict[str, Setting] = {}
    passed_over: list[PassedOver] = []
    content, lines = read_json(text)
    if not is_object(content):
        raise MalformedError('it is to be an object, as {"model": "claude-x"}', 1)
    for name, value in content.items():
        line = lines.get((name,))
        key = KEYS.get(name)
        if key is None or (source == "project" and key.withheld is not None):
            why = _why_not(name) if key is None else f"{key.withheld}{_OWN}"
            passed_over.append(PassedOver(str(path), line, name, why, is_quiet=name == _SCHEMA))
            continue
        try:
            _check_texts(value)
            settings[name] = Setting(key.read(value, place), source, str(path))
        except ValueError as error:
            raise MalformedError(f"{name} is to be {error}", line) from None
    return settings, passed_over


def _why_not(name: str) -> str:
    if name == _SCHEMA:
        return "it is for editors"
    if name in _OF_CLAUDE_CODE:
        return _ELSEWHERE
    meant = difflib.get_close_matches(name, KEYS, 1)
    return f"there is no such setting; is `{meant[0]}` meant?" if meant else "there is no such setting"


def _check_texts(value: object) -> None:
    """Refuse a text that is no Unicode, or that no path and no name can be."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("without a NUL")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("Unicode, without a lone surrogate") from None
    elif is_array(value):
        for one in value:
            _check_texts(one)
    elif is_object(value):
        for name, one in value.items():
            _check_texts(name)
            _check_texts(one)
