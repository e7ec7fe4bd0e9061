"""The page that lists every name that a program may import, made from the code."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "names.md"
MODULES = {
    "reenact": "runtimes, images, tools, messages, actors, projections, and every error",
    "reenact.events": "the types of the events that subscribers receive, and of requests",
    "reenact.loop": "the loop, step by step",
    "reenact.audit": "the log as evidence",
    "reenact.server": "serving a runtime",
    "reenact.inspector": "pages that show a log",
    "reenact.tracing": "turns as spans of OpenTelemetry",
    "reenact.testing": "mocks, and tests of actors",
    "reenact.terminal": "tests of programs at a terminal",
}
VALUES = {
    "Announcement": "what `announce` returns: the segments that are stored, and those that are only delivered",
    "BUILT_IN_DENY_LIST": "the rules that deny what hardly anybody means, such as `rm -rf /`",
    "ask_user": "the tool with which the model asks a person a question",
    "CATALOGUE": "the type of each event, by name",
    "EventType": "the names of all types of events, for type checkers",
    "RuntimeEvent": "an event of any type: a comparison of its `type` tells a type checker what its `data` is",
    "REQUESTS": "the type of each request, by name",
    "RESPONSES": "the type of each response, by name",
    "PREDEFINED_SCENARIOS": "the scenarios that every mock knows, by name",
}
"""What the names say that are neither classes nor functions, nor one of several types."""
HEAD = """# All names

What is not named here is private. This page is made from the docstrings; how things are used together is on the pages
that [the README](../README.md#where-to-read-on) names. A `?` stands behind what may be left out.
"""


def page() -> str:
    """Return the page."""
    return HEAD + "".join(f"\n## {name}\n\n{_intro(what)}\n\n{_table(name)}" for name, what in MODULES.items())


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield what the module exports, by name."""
    return ((name, getattr(module, name)) for name in sorted(module.__all__))


def _intro(what: str) -> str:
    return f"{what[0].upper()}{what[1:]}."


def _table(module: str) -> str:
    rows = (
        f"| `{name}{_given(value)}` | {what_of(name, value)} |\n"
        for name, value in public(importlib.import_module(module))
    )
    return "| name | |\n|---|---|\n" + "".join(rows)


def _given(value: object) -> str:
    """Return the fields of a value, or the parameters of a function."""
    if inspect.isfunction(value):
        given = list(inspect.signature(value).parameters)
    elif isinstance(value, type) and issubclass(value, msgspec.Struct):
        names, defaults = value.__struct_fields__, value.__struct_defaults__
        required = [msgspec.NODEFAULT] * (len(names) - len(defaults))
        given = [
            f"{name}{'' if default is msgspec.NODEFAULT else '?'}"
            for name, default in zip(names, (*required, *defaults), strict=True)
        ]
    elif isinstance(value, type) and dataclasses.is_dataclass(value) and not issubclass(value, Exception):
        given = [
            f"{field.name}{'' if _is_required(field) else '?'}" for field in dataclasses.fields(value) if field.init
        ]
    else:
        return ""
    return f"({', '.join(given)})"


def _is_required(field: dataclasses.Field[object]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def what_of(name: str, value: object) -> str:
    if name in VALUES:
        return VALUES[name]
    if not (isinstance(value, type) or inspect.isfunction(value)):
        return "one of " + ", ".join(f"`{getattr(one, '__name__', one)}`" for one in typing.get_args(value))
    said = inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z])", said)[0].replace("|", "\\|")
