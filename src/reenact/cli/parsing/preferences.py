"""Applies settings to options that are not on the command line, and prints them: environment, then project, then user.

A project can only tighten limits: its limits apply where they are lower than the user's, and a cost limit of the user
is never computed with the project's prices.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.actors.environment.wire.endpoint import shown_url
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import ServeOptions, SettingsOptions, TalkOptions
from reenact.cli.settings.configuration import KNOWN_PRICES, read_prices
from reenact.cli.settings.environment import default_database, home_directory, is_on, read_variable, settings_files
from reenact.cli.settings.files import KEYS, Ignored, Setting, Value, read_file
from reenact.cli.settings.values import (
    CLAUDE,
    MOCK,
    VARIABLES,
    Variables,
    provider_of,
    provider_of_environment,
)
from reenact.domain.loop.ledger import price_of
from reenact.domain.loop.rules import MAX_STEPS

_OF_PROVIDERS: Final[Mapping[str, Callable[[Variables], str]]] = {
    "baseUrl": attrgetter("url"),
    "model": attrgetter("model"),
}
"""The settings that belong to the provider named in the same file, with the provider's variable for each."""
_WHO = frozenset({"provider", *_OF_PROVIDERS})
_LIMITS: Final[Mapping[str, float]] = {"maxTurns": MAX_STEPS, "maxCost": math.inf, "timeout": math.inf}
"""The settings that are limits, with their defaults."""


class Preferences(msgspec.Struct, frozen=True):
    """The settings from the files by their keys, the keys that are ignored, and the `files` that exist.

    `provider` is the one that answers; None if the command line, the environment and the files name none.
    """

    settings: Mapping[str, Setting]
    ignored: tuple[Ignored, ...]
    files: tuple[str, ...]
    provider: str | None

    def variable(self, name: str) -> str | None:
        """Return the environment variable that takes precedence over the setting, if there is one."""
        of_provider = VARIABLES.get(CLAUDE if self.provider in {None, MOCK} else str(self.provider))
        if name in _OF_PROVIDERS:
            return None if of_provider is None else _OF_PROVIDERS[name](of_provider)
        return KEYS[name].variable


def preferred(options: TalkOptions, on_command_line: frozenset[str], console: Console) -> TalkOptions:
    """Return the options of a conversation, with settings for what neither command line nor environment give.

    `on_command_line` are the fields that the command line gives. A warning is logged for each setting that is ignored.
    A session that is continued keeps what it was created with: those settings then apply to the sessions begun beside
    it, as `of_new` of the options.

    Raises:
        ConfigurationError: a settings file is invalid.
    """
    found = read_preferences(
        console.environ,
        prices=options.prices,
        is_limited=options.max_cost is not None and not options.goes_on,
        provider=options.provider,
    )
    for line in _warnings(found.ignored):
        console.warn(line)
    of_new = _with_settings(found, options, on_command_line, console)
    if not options.goes_on:
        return of_new
    kept = [key.option for key in KEYS.values() if key.is_of_new]
    keeps = replace(of_new, **{field: getattr(options, field) for field in kept})
    return replace(keeps, of_new=replace(of_new, continue_latest=False, resume=None))


def _with_settings(
    found: Preferences, options: TalkOptions, on_command_line: frozenset[str], console: Console
) -> TalkOptions:
    """Return the options with all settings that apply to a new session."""
    changed: dict[str, object] = {}
    for name, setting in found.settings.items():
        key = KEYS[name]
        if name == "prices":
            changed[key.option] = (*_prices(found.settings), *options.prices)  # the last price for a model applies
        elif _is_wanted(name, found, options, on_command_line, console):
            changed[key.option] = setting.value
    return replace(options, **changed, allowed_by_settings="allowed_tools" in changed)


def with_provider_settings(options: ServeOptions, environ: Mapping[str, str]) -> ServeOptions:
    """Return the options of a server with provider, address and model from the user's settings.

    Raises:
        ConfigurationError: the user's settings file is invalid.
    """
    user, _ = settings_files(environ)
    if not os.path.lexists(user):
        return options
    found = _read_user_settings(user, environ, options.provider)
    said = {
        KEYS[name].option: setting.value
        for name, setting in found.settings.items()
        if name in _WHO and getattr(options, KEYS[name].option) is None and not _is_in_environment(name, found, environ)
    }
    return replace(options, **said)


def _read_user_settings(path: Path, environ: Mapping[str, str], provider: str | None) -> Preferences:
    """Read the user's settings; those for a provider are dropped if another provider answers."""
    settings, ignored = read_file(path, "user", home=home_directory(environ))
    named = provider or provider_of_environment(environ)
    own = settings.get("provider")
    if own is not None and named is not None and named != own.value:
        why = f"it is for the provider {own.value}, and {named} is named elsewhere"
        ignored += [_ignore(settings, name, why, is_quiet=True) for name in _OF_PROVIDERS if name in settings]
    answers = named or (None if own is None else str(own.value))
    return Preferences(settings, tuple(ignored), (str(path),), answers)


def read_preferences(
    environ: Mapping[str, str],
    *,
    prices: tuple[str, ...] = (),
    is_limited: bool = False,
    provider: str | None = None,
) -> Preferences:
    """Return the settings of the user and of the project; where both have one, the project's applies if it may.

    `prices` and `provider` are those of the command line; `is_limited` says that the command line has a cost limit.

    Raises:
        ConfigurationError: a file is invalid; the message has the path, the line, the key, and what the value must be.
    """
    user, project = settings_files(environ)
    own = Preferences({}, (), (), provider or provider_of_environment(environ))
    if os.path.lexists(user):
        own = _read_user_settings(user, environ, provider)
    settings, ignored, files = dict(own.settings), [*own.ignored], [*own.files]
    if os.path.lexists(project) and os.path.realpath(user) != os.path.realpath(project):
        of_project, more = read_file(project, "project", home=home_directory(environ))
        ignored += [*more, *_remove_loosening(of_project, settings, prices, is_limited=is_limited)]
        if "model" in of_project and own.provider not in {None, CLAUDE, MOCK}:
            why = f"{own.provider} answers, and a project does not know its models"
            ignored.append(_ignore(of_project, "model", why, is_quiet=True))
        both = (*_prices(settings), *_prices(of_project))
        settings |= of_project
        if "prices" in of_project:
            settings["prices"] = replace(of_project["prices"], value=both)
        files.append(str(project))
    return Preferences(settings, tuple(ignored), tuple(files), own.provider)


def _remove_loosening(
    of_project: dict[str, Setting], of_user: Mapping[str, Setting], prices: tuple[str, ...], *, is_limited: bool
) -> Iterator[Ignored]:
    """Remove from the project's settings what would loosen a limit of the user's, and yield what was removed."""
    for name in _LIMITS:
        own = _limit(of_user, name)
        if name in of_project and _limit(of_project, name) > own:
            yield _ignore(of_project, name, f"a project may only lower it, and it is {own:g}", is_quiet=True)
    known = read_prices((*_prices(of_user), *prices))
    is_limited = is_limited or "maxCost" in of_user
    if (
        is_limited
        and "model" in of_project
        and price_of({**KNOWN_PRICES, **known}, str(of_project["model"].value)) is None
    ):
        yield _ignore(
            of_project, "model", "a limit of yours holds for what costs, and you have no price for this model"
        )
    if "prices" not in of_project:
        return
    if is_limited:
        yield _ignore(of_project, "prices", "a limit of yours is not counted with a project's prices")
        return
    theirs = _prices(of_project)
    added = tuple(price for price in theirs if price_of(known, price.rpartition("=")[0]) is None)
    if not added:
        del of_project["prices"]
    elif len(added) < len(theirs):
        of_project["prices"] = replace(of_project["prices"], value=added)


def _ignore(settings: dict[str, Setting], name: str, why: str, *, is_quiet: bool = False) -> Ignored:
    return Ignored(settings.pop(name).path, None, name, why, is_quiet=is_quiet)


def _prices(settings: Mapping[str, Setting]) -> tuple[str, ...]:
    prices = settings["prices"].value if "prices" in settings else ()
    return prices if isinstance(prices, tuple) else ()


def _limit(settings: Mapping[str, Setting], name: str) -> float:
    limit = settings[name].value if name in settings else _LIMITS[name]
    return limit if isinstance(limit, int | float) else math.inf


def _is_wanted(
    name: str, found: Preferences, options: TalkOptions, on_command_line: frozenset[str], console: Console
) -> bool:
    """Return whether the setting applies to this conversation, and neither command line nor environment override it."""
    key = KEYS[name]
    if key.option in on_command_line or _is_in_environment(name, found, console.environ):
        return False
    return key.option != "output_format" or not options.is_chat(console)


def _is_in_environment(name: str, found: Preferences, environ: Mapping[str, str]) -> bool:
    if name == "provider":
        return provider_of_environment(environ) is not None
    variable = found.variable(name)
    return variable is not None and read_variable(environ, variable) is not None


def _warnings(ignored: Iterable[Ignored]) -> Iterator[str]:
    """Yield warnings, one for all keys that are ignored in the same file for the same reason."""
    together: dict[tuple[str, str], list[Ignored]] = {}
    for one in ignored:
        if not one.is_quiet:
            together.setdefault((one.path, one.why), []).append(one)
    for (path, why), ones in together.items():
        where = path if ones[0].line is None else f"{path}:{ones[0].line}"
        yield f"{where}: ignored: {', '.join(one.key for one in ones)}: {why}"


class _Effective(msgspec.Struct, frozen=True):
    """A setting: its value, its source, and the variable, option or file that sets it.

    `place` is None for a default.
    """

    name: str
    value: object
    source: str
    place: str | None = None


class _Settings(msgspec.Struct, frozen=True):
    """Every setting, and the keys that are ignored."""

    settings: tuple[_Effective, ...]
    files: tuple[str, ...]
    ignored: tuple[Ignored, ...] = msgspec.field(name="passed_over")
    """In JSON they keep the name under which programs know them."""

    def lines(self) -> Iterator[str]:
        """Yield the page as lines of text."""
        shown = [(setting.name, _shown(setting.value), setting.place or setting.source) for setting in self.settings]
        widest = max(len(name) for name, _, _ in shown)
        for name, value, place in shown:
            yield f"{name:<{widest}}  {value}  ({place})"
        for ignored in self.ignored:
            where = ignored.path if ignored.line is None else f"{ignored.path}:{ignored.line}"
            yield f"ignored: {ignored.key}, {where}: {ignored.why}"
        if not self.files:
            yield "There is no settings.json, neither in ~/.reenact nor in .reenact here."


def settings(options: SettingsOptions, console: Console) -> None:
    """Print each setting with its value and its source.

    Raises:
        ConfigurationError: a settings file is invalid.
    """
    found = read_preferences(console.environ)
    effective = tuple(_effective(name, found, options, console.environ) for name in KEYS)
    page = _Settings(effective, found.files, found.ignored)
    console.show(page, options.output_format, *page.lines())


def _effective(name: str, found: Preferences, options: SettingsOptions, environ: Mapping[str, str]) -> _Effective:
    if name == "db" and options.database:
        return _Effective(name, _without_password(options.database), "command line", "--db")
    if name == "provider" and is_on(environ.get("MOCK_LLM")):
        return _Effective(name, MOCK, "environment", "MOCK_LLM")
    variable = found.variable(name)
    value = None if variable is None else read_variable(environ, variable)
    if value is not None:
        return _Effective(name, _shown_place(name, value), "environment", variable)
    if name in found.settings:
        setting = found.settings[name]
        place = _shown_place(name, setting.value)
        return _Effective(name, place, setting.source, setting.path)
    return _Effective(name, _defaults(environ, found.provider).get(name), "default")


def _defaults(environ: Mapping[str, str], provider: str | None) -> Mapping[str, object]:
    return {
        "provider": provider_of(provider, environ),
        "model": DEFAULT_MODEL if provider in {None, CLAUDE, MOCK} else None,
        "maxTurns": MAX_STEPS,
        "outputFormat": "text",
        "prices": (),
        "allowedTools": (),
        "tools": (),
        "db": str(default_database(environ)),
    }


def _shown(value: object) -> str:
    """Return the value as a settings file has it, or a dash if there is none."""
    return "-" if value is None or value == () else msgspec.json.encode(value).decode()


def _shown_place(name: str, value: Value) -> Value:
    """Return the value, without a password if it is a URL that may have one."""
    if name == "baseUrl":
        return shown_url(str(value))
    return _without_password(str(value)) if name == "db" else value


def _without_password(database: str) -> str:
    """Return the name of the log, reduced to the scheme if it is a URL that may have a password."""
    kind, is_url, _ = database.partition("://")
    return f"{kind}://…" if is_url and kind != "sqlite" else database
