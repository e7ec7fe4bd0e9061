"""The keys of settings.json: what each stands for, how its value is read, and who may set it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from reenact.cli.importing import taken_apart
from reenact.cli.options import LARGEST_NUMBER, OutputFormat

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


def _as_it_is(value: Any, _: Place) -> Any:  # noqa: ANN401 - values of all kinds
    return value


class Key(msgspec.Struct, frozen=True):
    """A setting: the field of `TalkOptions` that it is, its type, and in words what it is to be.

    `placed` returns what a value of that type stands for. A `variable` goes before the file. `withheld` says why a
    project may not set it. `is_of_new` is what a session is created with, and keeps.
    """

    option: str
    kind: Any
    what: str
    placed: Callable[[Any, Place], Any] = _as_it_is
    variable: str | None = None
    withheld: str | None = None
    is_of_new: bool = False

    def read(self, value: object, place: Place) -> Any:  # noqa: ANN401 - likewise
        """Return what the value stands for, or raise `ValueError` saying what it is to be."""
        try:
            return self.placed(msgspec.convert(value, self.kind), place)
        except (msgspec.ValidationError, OverflowError):
            raise ValueError(self.what) from None


def _prices(value: Mapping[str, tuple[float, float]], _: Place) -> tuple[str, ...]:
    """Return the prices as --price has them."""
    return tuple(f"{model}={given!r},{received!r}" for model, (given, received) in value.items())


def _tools(value: Sequence[str], place: Place) -> tuple[str, ...]:
    """Return the places of tools; modules of other names would be looked for in whatever the current directory is."""
    places: list[str] = []
    for text in value:
        where, name = taken_apart(text)
        if where.endswith(".py"):
            where = place.path(where)
        elif where.partition(".")[0] != _OURS:
            raise ValueError(f"{_TOOLS}; a module is named on the command line alone, with --tools")
        places.append(f"{where}:{name}" if name else where)
    return tuple(places)


def _file(value: str, place: Place) -> str:
    return place.path(value)


def _database(value: str, place: Place) -> str:
    if value.startswith(_SQLITE):
        return place.path(value.removeprefix(_SQLITE))
    return value if "://" in value else place.path(value)


_Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
_Turns: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_NUMBER)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
_Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
_PATH: Final = "the path of a file"
_TOOLS: Final = 'a list of files with tools, as ["tools.py", "tools.py:send_mail"]'

KEYS: Final[Mapping[str, Key]] = {
    "model": Key("model", _Text, "a text that is not blank", variable="ANTHROPIC_MODEL", is_of_new=True),
    "systemPrompt": Key("system_prompt", str, "a text", is_of_new=True),
    "maxTurns": Key("max_turns", _Turns, f"a whole number from 1 on, at most {LARGEST_NUMBER:,}", is_of_new=True),
    "maxCost": Key("max_cost", _Amount, "an amount of 0 or more", is_of_new=True),
    "prices": Key(
        "prices",
        dict[_Text, tuple[_Amount, _Amount]],
        '{"MODEL": [IN, OUT]}, with what a million tokens cost, 0 or more',
        _prices,
    ),
    "timeout": Key("timeout", _Seconds, "a number of seconds above 0"),
    "outputFormat": Key(
        "output_format",
        OutputFormat,
        " or ".join(f'"{form.value}"' for form in OutputFormat),
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
"""Every setting, by its name in the file."""
