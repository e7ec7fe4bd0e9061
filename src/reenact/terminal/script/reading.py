"""Reads scripts from YAML, JSON or plain data, in long and short form."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, get_args

import msgspec

from reenact.domain.plain import is_mapping
from reenact.terminal.matching.options import AssertionOptions, AssertionType, Pattern, Scope
from reenact.terminal.matching.patterns import BadPatternError, Expression
from reenact.terminal.screen.model import Modes
from reenact.terminal.script.plain import (
    Format,
    Plain,
    called,
    data_of,
    fields_of,
    know,
    read_file,
    read_text,
    struct_of,
)
from reenact.terminal.script.steps import InteractionScript, InteractionStep, Subject, is_pattern
from reenact.terminal.session.keys import encode
from reenact.terminal.text import quoted

_ASSERTIONS: Final = get_args(AssertionType)
_FLAGS: Final = ("stripAnsi", "ignoreCase", "ignoreWhitespace")
_EXIT: Final = "waitForExit"


def load_script(path: str | os.PathLike[str]) -> InteractionScript:
    """Return the script in a file, whose name ends with `.yaml`, `.yml` or `.json`; without a name it has the file's.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: there is no such file, or no script in it.
    """
    file = Path(path)
    return script_in(read_file(file), file.stem)


def read_script(text: str, *, format: Format = "yaml", name: str = "script") -> InteractionScript:  # noqa: A002 - the word
    """Return the script in a text, which may give it another name.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: there is none in it.
    """
    return script_in(read_text(text, format), name)


def script_of(data: object, *, name: str = "script") -> InteractionScript:
    """Return the script that plain data stands for: a list of steps, or a mapping with `steps` and perhaps a `name`.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: it stands for none.
    """
    return script_in(Plain(data), name)


def script_in(plain: Plain, name: str) -> InteractionScript:
    """Return the script that data from anywhere stands for."""
    if not isinstance(plain.value, Mapping):
        return InteractionScript(name=name, steps=_steps(plain))
    fields = plain.fields(fields_of(InteractionScript))
    if (steps := fields.get("steps")) is None:
        raise plain.wrong("the field steps is missing")
    return InteractionScript(
        name=fields["name"].text() if "name" in fields else name,
        description=fields["description"].text() if "description" in fields else None,
        steps=_steps(steps),
    )


def _steps(plain: Plain) -> tuple[InteractionStep, ...]:
    return tuple(_step(item) for item in plain.items())


def _step(plain: Plain) -> InteractionStep:
    kind, fields = _taken_apart(plain)
    readers = _STEPS[kind]
    know(fields, readers)
    needed = [name for name in ("value", "assertion") if name in readers and name not in fields]
    if kind == "wait" and ("value" in fields) == ("regex" in fields):
        raise plain.wrong("a wait has a value, which is the text to wait for, or a regex")
    if kind != "wait" and needed:
        raise plain.wrong(f"the field {needed[0]} is missing")
    values = {"value" if name == "regex" else name: readers[name](item) for name, item in fields.items()}
    make: Callable[..., InteractionStep] = InteractionStep
    return plain.make(lambda: make(type="send" if kind == "sendLine" else kind, **values))  # pyright: ignore[reportArgumentType]  # as its readers gave them


def _taken_apart(plain: Plain) -> tuple[str, dict[str, Plain]]:
    """Return which step it is, and its fields, as the long form has them."""
    if isinstance(plain.value, str):
        if plain.value == _EXIT:
            return _EXIT, {}
        raise plain.wrong(f"a step is a mapping, or the word {_EXIT}, not {quoted(plain.value)}")
    fields = plain.fields()
    if "type" in fields:
        return fields.pop("type").choice(_STEPS), fields
    kinds = [name for name in fields if name in _STEPS]
    if len(kinds) != 1:
        found = " and ".join(kinds) if kinds else ", ".join(fields) or "nothing"
        raise plain.wrong(f"a step is one of {', '.join(sorted(_STEPS))}, not {found}")
    (kind,) = kinds
    short = fields.pop(kind)
    match kind, short.value:
        case "wait" | "waitForExit", Mapping():
            inner = short.fields()
        case "assert", Mapping():
            inner = {name: item for name, item in short.fields().items() if name == "subject"}
            inner["assertion"] = short
        case "waitForExit", None:
            inner = {}
        case "waitForExit", _:
            inner = {"timeout": short}
        case "assert", _:
            raise short.wrong(f"expected a mapping, as {{contains: …}}, got {called(short.value)}")
        case _:
            inner = {"value": short}
    for name in fields.keys() & inner.keys():
        raise fields[name].wrong(f"the field {name} comes twice")
    return kind, fields | inner


def _key(plain: Plain) -> str:
    """Return the name of the key, of which there is one in every mode."""
    key = plain.text()
    plain.make(lambda: encode(key, Modes()))
    return key


def _pattern(plain: Plain) -> Pattern | Expression:
    if is_mapping(plain.value):
        return _compiled(_needed(plain.fields(["regex"]), "regex", plain))
    return plain.value if is_pattern(plain.value) else plain.text()


def _assertion(plain: Plain) -> AssertionOptions:
    fields = plain.fields([*_ASSERTIONS, *_FLAGS, "type", "expected", "subject"])
    kinds = [name for name in _ASSERTIONS if name in fields]
    if "type" in fields and not kinds:
        kind, expected = fields["type"].choice(_ASSERTIONS), _needed(fields, "expected", plain)
    elif len(kinds) == 1 and "type" not in fields and "expected" not in fields:
        (kind,) = kinds
        expected = fields[kind]
    else:
        raise plain.wrong(f"an assertion has one of {', '.join(_ASSERTIONS)}, or a type and what is expected")
    flags = Plain({name: fields[name].value for name in _FLAGS if name in fields}, plain.source, plain.path)
    base = AssertionOptions(type=msgspec.convert(kind, AssertionType), expected=_expected(kind, expected))
    return struct_of(AssertionOptions, flags, base)


def _expected(kind: str, plain: Plain) -> object:
    match kind:
        case "exact" | "contains":
            return plain.text()
        case "regex":
            expression = _compiled(plain)
            return expression.pattern if isinstance(expression, Expression) else expression
        case "jsonSchema" if not isinstance(plain.value, Mapping | bool | str):
            raise plain.wrong(f"a schema is a mapping, true, false, or JSON text, not {called(plain.value)}")
        case _:
            return data_of(plain)


def _compiled(plain: Plain) -> re.Pattern[str] | Expression:
    if is_pattern(plain.value):
        return plain.value
    try:
        return Expression(plain.text())
    except BadPatternError as error:
        raise plain.wrong(str(error)) from error


def _needed(fields: Mapping[str, Plain], name: str, plain: Plain) -> Plain:
    if name not in fields:
        raise plain.wrong(f"the field {name} is missing")
    return fields[name]


_STEPS: Final[Mapping[str, Mapping[str, Callable[[Plain], object]]]] = {
    "send": {"value": Plain.text},
    "sendLine": {"value": lambda line: f"{line.text()}\r"},
    "sendKey": {"value": _key},
    "wait": {
        "value": _pattern,
        "regex": _compiled,
        "timeout": lambda seconds: seconds.value,
        "scope": lambda scope: scope.choice(get_args(Scope)),
    },
    "waitForExit": {"timeout": lambda seconds: seconds.value},
    "assert": {"assertion": _assertion, "subject": lambda subject: subject.choice(get_args(Subject))},
    "delay": {"value": lambda seconds: seconds.value},
}
"""What each step takes, and what reads it; `sendLine` is `send` with Enter."""
