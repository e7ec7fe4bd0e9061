"""Values of events as pages show them: as text, of which a page has the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec
from markupsafe import Markup

from reenact.domain.errors import InvalidInputError
from reenact.domain.plain import is_mapping, is_sequence
from reenact.inspector.text import CUT, line, visible, within

Pieces: TypeAlias = Sequence[tuple[str, str]]
"""Names and texts; the name is empty where a text stands for itself."""

ROOM = 40_000
"""So many bytes of a page are for values."""
LEAST = 200
"""So many for each, at the least."""
KEY: Final = Markup('<span class="key">{}:</span> ')
"""The name of a piece, before its text."""
_SAMPLE = 512
_SUMMARY = 400
_FEW = 20


class Value(msgspec.Struct, frozen=True):
    """A value of the event at a position, where `path` names it. Its text is that of its pieces."""

    position: int
    path: str
    pieces: Pieces

    @property
    def length(self) -> int:
        """How many characters it has."""
        return sum(map(_length, self.pieces))

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(f"{name}: {text}\n" if name else text for name, text in self.pieces)

    def written(self, room: int) -> tuple[Markup, int]:
        """Return as much of it as so many bytes of a page hold, and how many characters of its text that is."""
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
            end += bool(name)  # its line has an end
            room -= len(html.encode())
        return Markup("\n").join(parts), end


def value_of(position: int, path: str, value: object) -> Value:
    """Return the value as it is shown: text as it is, objects by their names, all else as JSON."""
    return Value(position, path, _pieces(value))


def inside(fields: object, path: str) -> object:
    """Return what the path names in the fields of an event.

    Raises:
        InvalidInputError: it names nothing.
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


def room_for(lengths: Iterable[int], room: int = ROOM, least: int = LEAST) -> int:
    """Return how many bytes a page has for each value, so that the short ones are whole and all have room."""
    waiting = sorted(lengths)
    for number, length in enumerate(waiting):
        share = room // (len(waiting) - number)
        if length > share:
            return min(max(share, least), CUT)
        room -= length
    return min(max(room + max(waiting, default=0), least), CUT)


def room_of(values: Sequence[Value], room: int = ROOM) -> int:
    """Return how many bytes a page has for each of the values, as `room_for` does.

    Characters that are not ASCII, or must be written as escapes, take more than one; how many, the beginnings tell.
    """
    beginnings = [text[:_SAMPLE] for value in values for _, text in value.pieces[:1]]
    written = sum(len(visible(text).encode()) for text in beginnings)
    each = max(1.0, written / max(1, sum(map(len, beginnings))))
    return room_for((round(value.length * each) for value in values), room)


def on_one_line(value: object) -> str:
    """Return the value as JSON on one line."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def summary_of(arguments: Mapping[str, object]) -> str:
    """Return the beginning of the arguments of a call on one line."""
    few = list(islice(arguments.items(), _FEW))
    told = (f"{name}: {on_one_line(value[:_SUMMARY] if isinstance(value, str) else value)}" for name, value in few)
    return ", ".join(told)[:_SUMMARY]


def size_of(value: object) -> str:
    """Say what a long value is: how many items or characters."""
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
        return [(str(name), each if isinstance(each, str) else on_one_line(each)) for name, each in value.items()]
    if is_sequence(value) and value and all(map(is_mapping, value)):
        return (("", "\n".join(map(_item, value))),)
    return (("", on_one_line(value)),)


def _item(block: object) -> str:
    """Return the text of a block of text, which many results of tools are made of, and of all else the JSON."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return on_one_line(block)
