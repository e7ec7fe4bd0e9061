"""The page of settings: what options are when the command line does not give them, and who says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_page
from reenact.cli.options import OutputFormat, SettingsOptions
from reenact.cli.preferences import Preferences, read_preferences
from reenact.cli.setting_files import PassedOver
from reenact.cli.setting_keys import KEYS
from reenact.cli.settings import default_database, given
from reenact.domain.loop.rules import MAX_STEPS

_COMMAND_LINE: Final = "command line"
_ENVIRONMENT: Final = "environment"
_DEFAULT: Final = "default"


class _Effective(msgspec.Struct, frozen=True):
    """A setting: its value, whose it is, and the variable, option or file that says so.

    `place` is None for a default.
    """

    name: str
    value: Any
    source: str
    place: str | None = None


class _Settings(msgspec.Struct, frozen=True):
    """Every setting, and what is not heeded."""

    settings: tuple[_Effective, ...]
    files: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]

    def text(self) -> str:
        """Return lines for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        shown = [(one.name, _shown(one.value), one.place or one.source) for one in self.settings]
        widest = max(len(name) for name, _, _ in shown)
        for name, value, place in shown:
            yield f"{name:<{widest}}  {value}  ({place})"
        for one in self.passed_over:
            where = one.path if one.line is None else f"{one.path}:{one.line}"
            yield f"not heeded: {one.key}, {where}: {one.why}"
        if not self.files:
            yield "There is no settings.json, neither in ~/.reenact nor in .reenact here."


def settings(options: SettingsOptions, console: Console) -> int:
    """Print each setting with its value and where that comes from.

    Raises:
        ConfigurationError: a file of settings is not as it should be.
    """
    found = read_preferences(console.environ)
    effective = tuple(_effective(name, found, options, console.environ) for name in KEYS)
    as_page(_Settings(effective, found.files, found.passed_over), options.output_format, console)
    return ExitCode.SUCCESS


def _effective(name: str, found: Preferences, options: SettingsOptions, environ: Mapping[str, str]) -> _Effective:
    key = KEYS[name]
    if name == "db" and options.database:
        return _Effective(name, _without_password(options.database), _COMMAND_LINE, "--db")
    variable = None if key.variable is None else given(environ, key.variable)
    if variable is not None:
        return _Effective(name, _without_password(variable), _ENVIRONMENT, key.variable)
    if name in found.settings:
        setting = found.settings[name]
        value = _without_password(setting.value) if name == "db" else setting.value
        return _Effective(name, value, setting.source, setting.path)
    return _Effective(name, _defaults(environ).get(name), _DEFAULT)


def _defaults(environ: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "model": DEFAULT_MODEL,
        "maxTurns": MAX_STEPS,
        "outputFormat": OutputFormat.TEXT,
        "prices": (),
        "allowedTools": (),
        "tools": (),
        "db": str(default_database(environ)),
    }


def _shown(value: object) -> str:
    """Return the value as a file of settings would have it, a dash for nothing."""
    return "-" if value is None or value == () else msgspec.json.encode(value).decode()


def _without_password(database: str) -> str:
    """Return the log as it is named, but of a URL in which may be a password no more than its kind."""
    kind, is_url, _ = database.partition("://")
    return f"{kind}://…" if is_url and kind != "sqlite" else database
