"""Reading a file of settings: as carefully as extensions are read, and with the line of whatever is wrong in it."""

from __future__ import annotations

import contextlib
import difflib
import json
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeAlias

import msgspec

from reenact.cli.setting_keys import KEYS, Place
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_array, is_object
from reenact.extensions.files import read_bytes, text_of
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
_QUICKLY_READ: Final = 8_000
"""Characters of a file in which each line is worth being found."""
_DIGITS: Final = 1_000


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
    for name, value in _object(text).items():
        key = KEYS.get(name)
        if key is None or (source == "project" and key.withheld is not None):
            why = _why_not(name) if key is None else f"{key.withheld}{_OWN}"
            passed_over.append(PassedOver(str(path), _line_of(text, name), name, why, is_quiet=name == _SCHEMA))
            continue
        try:
            _check_texts(value)
            settings[name] = Setting(key.read(value, place), source, str(path))
        except ValueError as error:
            raise MalformedError(f"{name} is to be {error}", _line_of(text, name)) from None
        except RecursionError:
            raise MalformedError(f"{name} is nested too deeply", _line_of(text, name)) from None
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


def _object(text: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise MalformedError(f"{name!r} stands twice in an object", _line_of_second(text, name))
            found[name] = value
        return found

    def refuse(constant: str) -> NoReturn:
        raise MalformedError(f"it is no JSON: {constant} is none of its values", _line(text, text.find(constant)))

    def whole(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise MalformedError(f"a number has {len(digits):,} digits", _line(text, text.find(digits)))
        return int(digits)

    try:
        content = json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_int=whole)
    except json.JSONDecodeError as error:
        raise MalformedError(f"it is no JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise MalformedError("it is no JSON that is read here: it is nested too deeply") from None
    if not is_object(content):
        raise MalformedError('it is to be an object, as {"model": "claude-x"}', 1)
    return dict(content)


def _line_of(text: str, name: str) -> int | None:
    """Return the line of a key at the top, by a reader of YAML, which JSON is too; that of JSON knows no lines."""
    from reenact._yaml import InvalidYAMLError, read_yaml_with_places  # noqa: PLC0415 - when something is wrong

    if len(text) <= _QUICKLY_READ:
        with contextlib.suppress(InvalidYAMLError):  # JSON has numbers and characters that YAML has not
            found = read_yaml_with_places(text)[1].get((name,))
            if found is not None:
                return found[0]
    return _line(text, text.find(json.dumps(name)))


def _line_of_second(text: str, name: str) -> int | None:
    written = json.dumps(name)
    return _line(text, text.find(written, text.find(written) + 1))


def _line(text: str, start: int) -> int | None:
    return None if start < 0 else text.count("\n", 0, start) + 1
