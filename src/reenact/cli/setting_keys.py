"""The keys of settings.json: what each stands for, how its value is read, and who may set it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from reenact.cli.importing import taken_apart
from reenact.cli.options import LARGEST_NUMBER, OutputFormat
from reenact.domain.tools import is_array, is_object

_SQLITE: Final = "sqlite:///"
_OURS: Final = "reenact"

_RUNS_CODE: Final = "a project may not name what runs"
_LETS_RUN: Final = "a project may not say which calls run"


class Place(msgspec.Struct, frozen=True):
    """Where a file of settings is, and the home of the user, for the paths in it."""

    folder: Path
    home: Path

    def path(self, text: str) -> str:
        """Return the path that a text means there."""
        if text == "~" or text.startswith("~/"):
            return str(self.home / text[2:])
        return os.path.normpath(self.folder / text)


Read: TypeAlias = Callable[[Any, Place], Any]
"""Returns what a value stands for, or raises `ValueError` saying what it is to be."""


class Key(msgspec.Struct, frozen=True):
    """A setting: the field of `TalkOptions` that it is, how it is read, and which variable goes before it.

    `withheld` says why a project may not set it. `is_of_new` is what a session is created with, and keeps.
    """

    option: str
    read: Read
    variable: str | None = None
    withheld: str | None = None
    is_of_new: bool = False


def _text(value: object, _: Place) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not blank")
    return value


def _prompt(value: object, _: Place) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")  # noqa: TRY004 - what is wrong with a value is told in one way
    return value


def _turns(value: object, _: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_NUMBER:
        raise ValueError(f"a whole number from 1 on, at most {LARGEST_NUMBER:,}")
    return value


def _cost(value: object, _: Place) -> float:
    number = _number(value)
    if number is None or number < 0:
        raise ValueError("an amount of 0 or more")
    return number


def _seconds(value: object, _: Place) -> float:
    number = _number(value)
    if number is None or number <= 0:
        raise ValueError("a number of seconds above 0")
    return number


def _prices(value: object, _: Place) -> tuple[str, ...]:
    """Return the prices as --price has them."""
    what = '{"MODEL": [IN, OUT]}, with what a million tokens cost, 0 or more'
    if not is_object(value):
        raise ValueError(what)
    prices: list[str] = []
    for model, amounts in value.items():
        numbers = [_number(amount) for amount in amounts] if is_array(amounts) else []
        costs = [number for number in numbers if number is not None and number >= 0]
        if not model.strip() or len(numbers) != 2 or len(costs) != 2:  # noqa: PLR2004 - in and out
            raise ValueError(what)
        prices.append(f"{model}={costs[0]!r},{costs[1]!r}")
    return tuple(prices)


def _format(value: object, _: Place) -> OutputFormat:
    found = next((form for form in OutputFormat if form.value == value), None)
    if found is None:
        raise ValueError(" or ".join(f'"{form.value}"' for form in OutputFormat))
    return found


def _names(value: object, _: Place) -> tuple[str, ...]:
    return _texts(value, 'a list of names of tools, as ["send_mail", "mcp__files__*"]')


def _tools(value: object, place: Place) -> tuple[str, ...]:
    """Return the places of tools; modules of other names would be looked for in whatever the current directory is."""
    what = 'a list of files with tools, as ["tools.py", "tools.py:send_mail"]'
    places: list[str] = []
    for text in _texts(value, what):
        where, name = taken_apart(text)
        if where.endswith(".py"):
            where = place.path(where)
        elif where.partition(".")[0] != _OURS:
            raise ValueError(f"{what}; a module is named on the command line alone, with --tools")
        places.append(f"{where}:{name}" if name else where)
    return tuple(places)


def _file(value: object, place: Place) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("the path of a file")
    return place.path(value)


def _database(value: object, place: Place) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("the path of a log, or a URL")
    if value.startswith(_SQLITE):
        return place.path(value.removeprefix(_SQLITE))
    return value if "://" in value else place.path(value)


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not is_array(value):
        raise ValueError(what)
    texts = [one for one in value if isinstance(one, str) and one.strip()]
    if len(texts) != len(value):
        raise ValueError(what)
    return tuple(texts)


def _number(value: object) -> float | None:
    """Return the number; None if it is none, or beyond what a float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


KEYS: Final[Mapping[str, Key]] = {
    "model": Key("model", _text, variable="ANTHROPIC_MODEL", is_of_new=True),
    "systemPrompt": Key("system_prompt", _prompt, is_of_new=True),
    "maxTurns": Key("max_turns", _turns, is_of_new=True),
    "maxCost": Key("max_cost", _cost, is_of_new=True),
    "prices": Key("prices", _prices),
    "timeout": Key("timeout", _seconds),
    "outputFormat": Key("output_format", _format, withheld="a project may not say what programs read"),
    "allowedTools": Key("allowed_tools", _names, withheld=_LETS_RUN),
    "tools": Key("tools", _tools, withheld=_RUNS_CODE),
    "policy": Key("policy", _file, withheld=_LETS_RUN, is_of_new=True),
    "mcpConfig": Key("mcp_config", _file, withheld=_RUNS_CODE, is_of_new=True),
    "db": Key("database", _database, variable="REENACT_DB", withheld="a project may not say where the log is"),
}
"""Every setting, by its name in the file."""
