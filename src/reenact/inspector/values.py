"""Values of events as pages show them: as text, of which a page shows the beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec
from markupsafe import Markup

from reenact.domain.errors import InvalidInputError
from reenact.domain.plain import is_mapping, is_sequence
from reenact.inspector.text import CUT, line, within

Pieces: TypeAlias = Sequence[tuple[str, str]]
"""Names and texts; the name is empty for a text without one."""

ROOM = 40_000
"""Bytes of a page for values."""
LEAST = 200
"""The least bytes of a page for one value."""
KEY: Final = Markup('<span class="key">{}:</span> ')
"""The name of a piece, before its text."""
_SUMMARY = 400
_FEW = 20


class Value(msgspec.Struct, frozen=True):
    """A value of the event at a position; `path` is its place in the event. Its text consists of its pieces."""

    position: int
    path: str
    pieces: Pieces

    @property
    def length(self) -> int:
        """The number of its characters."""
        return sum(map(_length, self.pieces))

    @property
    def text(self) -> str:
        """Its whole text."""
        return "".join(f"{name}: {text}\n" if name else text for name, text in self.pieces)

    def html(self, room: int) -> tuple[Markup, int]:
        """Return as much of it as fits into `room` bytes, and how many characters of its text that is."""
        parts: list[Markup] = []
        end = 0
        for name, text in self.pieces:
            key = KEY.format(line(name)) if name else Markup()
            room -= len(key.encode()) + len(parts and "\n")
            html, length = within(text, room)
            if parts and (room < 0 or (text and not length)):
                break
            parts.append(key + html)
            end += len(name) + 2 + length if name else length
            if length < len(text):
                break
            end += bool(name)  # the end of its line
            room -= len(html.encode())
        return Markup("\n").join(parts), end


def value_of(position: int, path: str, value: object) -> Value:
    """Return the value as it is shown: text unchanged, objects by their members, all else as JSON."""
    return Value(position, path, _pieces(value))


def value_at(fields: object, path: str) -> object:
    """Return the value at the path in the fields of an event.

    Raises:
        InvalidInputError: there is no value at the path.
    """
    value = fields
    for step in path.split("."):
        if is_mapping(value) and step in value:
            value = value[step]
        elif is_sequence(value) and step.isdecimal() and step.isascii() and int(step[:9]) < len(value):
            value = value[int(step[:9])]
        else:
            raise InvalidInputError(f"this event has no value {path!r}")
    return value


def room_of(values: Sequence[Value], room: int = ROOM) -> int:
    """Return how many bytes a page has for each of the values, so that short ones are complete and all fit."""
    waiting = sorted(value.length for value in values)
    for number, length in enumerate(waiting):
        share = room // (len(waiting) - number)
        if length > share:
            return min(max(share, LEAST), CUT)
        room -= length
    return min(max(room + max(waiting, default=0), LEAST), CUT)


def on_one_line(value: object) -> str:
    """Return the value as JSON on one line."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def as_text(value: object) -> str:
    """Return a text unchanged, and any other value as JSON on one line."""
    return value if isinstance(value, str) else on_one_line(value)


def summary_of(arguments: Mapping[str, object]) -> str:
    """Return the beginning of a call's arguments on one line."""
    few = list(islice(arguments.items(), _FEW))
    told = (f"{name}: {on_one_line(value[:_SUMMARY] if isinstance(value, str) else value)}" for name, value in few)
    return ", ".join(told)[:_SUMMARY]


def size_of(value: object) -> str:
    """Return the number of items of a sequence as text; empty for other values."""
    if is_sequence(value):
        return f"{len(value)} item{'' if len(value) == 1 else 's'}"
    return ""


def _length(piece: tuple[str, str]) -> int:
    name, text = piece
    return len(name) + len(text) + 3 if name else len(text)


def _pieces(value: object) -> Pieces:
    if value is None:
        return ()
    if isinstance(value, str):
        return (("", value),)
    if is_mapping(value):
        return [(str(name), as_text(each)) for name, each in value.items()]
    if is_sequence(value) and value and all(map(is_mapping, value)):
        return (("", "\n".join(map(_item, value))),)
    return (("", on_one_line(value)),)


def _item(block: object) -> str:
    """Return the text of a text block, of which many tool results consist; any other value is JSON."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return on_one_line(block)
