"""Files and texts in YAML or JSON, read with bounds and as plain data."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from reenact._yaml import LARGEST, MOST_DIGITS, InvalidYAMLError, read_yaml
from reenact.terminal.matching.shown import quoted
from reenact.terminal.script.plain import Plain, Source, invalid

Format: TypeAlias = Literal["yaml", "json"]
FORMATS: Final[Mapping[str, Format]] = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
"""How a file is read, by what its name ends with."""
_LARGEST_FILE: Final = 4 * LARGEST + 3
"""Bytes that so many characters can have, with the mark that a file in UTF-8 may begin with."""
_PARTS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|(?P<number>-?[0-9][0-9.eE+-]*+)', re.DOTALL)
"""What numbers are looked for in: texts of JSON are passed over."""


def read_file(path: Path) -> Plain:
    """Return what a file holds, which is YAML or JSON by its name.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: it cannot be read, or is neither.
    """
    if (format_ := FORMATS.get(path.suffix.lower())) is None:
        raise invalid(f"{path}: the name of the file is to end with {', '.join(FORMATS)}")
    try:
        text = _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise invalid(f"{path}: this is no text in UTF-8: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise invalid(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in its name
        raise invalid(f"{path}: {error}") from error
    return read_text(text.replace("\r\n", "\n").replace("\r", "\n"), format_, path)


def _content(path: Path) -> bytes:
    """Return what is in a regular file, as much as is read at most; others may block, or never end."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise invalid(f"{path}: this is no regular file")
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise invalid(f"{path}: it has more than {LARGEST:,} characters; so many are read at most")
    return content


def read_text(text: str, format: Format, file: Path | None = None) -> Plain:  # noqa: A002 - the word for it
    """Return what a text holds.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: it is not what it should be.
    """
    where = "" if file is None else f"{file}: "
    try:
        value = read_yaml(text) if format == "yaml" else _read_json(text)
    except (InvalidYAMLError, _InvalidJSONError) as error:
        raise invalid(f"{where}{error}") from error
    return Plain(value, Source(file, text))


class _InvalidJSONError(ValueError):
    """The text is no JSON by RFC 8259, or its keys are not unique."""


def _read_json(text: str) -> object:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            raise _InvalidJSONError(f"the key {max(names, key=names.count)!r} comes twice in an object")
        return fields

    def finite(number: str) -> float:
        if math.isinf(value := float(number)):
            raise _too_large(number, text)
        return value

    def whole(number: str) -> int:
        if len(number) > MOST_DIGITS:
            raise _too_large(number, text)
        return int(number)

    def no_number(name: str) -> object:
        raise _InvalidJSONError(f"{name} is no JSON")

    if len(text) > LARGEST:
        raise _InvalidJSONError(f"it has {len(text):,} characters; {LARGEST:,} are read at most")
    try:
        value: object = json.loads(
            text, object_pairs_hook=unique, parse_constant=no_number, parse_float=finite, parse_int=whole
        )
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _InvalidJSONError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except UnicodeEncodeError as error:
        raise _InvalidJSONError("half of a surrogate pair is no character") from error
    except RecursionError as error:
        raise _InvalidJSONError("it is nested too deep") from error
    return value


def _too_large(number: str, text: str) -> _InvalidJSONError:
    """Return the error about the first such number in the text, with where it is."""
    at = next((found.start() for found in _PARTS.finditer(text) if found["number"] == number), 0)
    line, column = text[:at].count("\n") + 1, at - text[:at].rfind("\n")
    return _InvalidJSONError(f"line {line}, column {column}: the number {quoted(number)} is too large")
