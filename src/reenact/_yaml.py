"""Reads YAML 1.2 as plain data: the core schema, without tags, anchors and duplicate keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn, TypeAlias

from reenact.domain.errors import InvalidInputError, needing_extra

LARGEST = 1_000_000
"""The most characters that are read; files written by hand have far fewer."""
MOST_DIGITS = 1_000
"""The most digits of an integer; Python refuses to format integers of more than 4,300."""
_DEEPEST = 100

Path: TypeAlias = tuple[str | int, ...]
"""The keys and indices that lead to a value; a key that is not text is converted to text."""
Place: TypeAlias = tuple[int, int]
"""Line and column, counted from 1."""

_VERSION = re.compile(r"^%YAML\b.*", re.MULTILINE)
_OTHER_VERSION = "it says that it is of another version than YAML 1.2, the one that is read here"
_BEYOND_UNICODE = re.compile(r"\\U(?!000|0010)[0-9A-Fa-f]{8}")

_WORDS: Mapping[str, bool | float | None] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")


class InvalidYAMLError(InvalidInputError):
    """The text is not YAML, or not only data; `line` and `column` are the place, counted from 1, if it is known.

    Invisible characters of the text are escaped in the message.
    """

    code = "invalid_yaml"

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        problem = "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in problem)
        super().__init__(problem if line is None else f"line {line}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column


def read_yaml(text: str) -> object:
    """Return the text's content: dicts, lists, strings, numbers, booleans and None, by the core schema (YAML 10.3).

    So `yes`, `012` and `2026-11-21` are a string, a number and a string. Anchors and aliases are refused, because a
    short text could expand to an endless one with them.

    Raises:
        InvalidYAMLError: it is not YAML, or has two documents, a key twice, an anchor or a tag, or is too large.
    """
    return read_yaml_with_places(text)[0]


def read_yaml_with_places(text: str) -> tuple[object, Mapping[Path, Place]]:
    """Return the content, as `read_yaml` does, and the place of each value; for a value with a key, that of the key.

    Raises:
        InvalidYAMLError: as for `read_yaml`.
    """
    if len(text) > LARGEST:
        raise InvalidYAMLError(f"it has {len(text):,} characters; {LARGEST:,} are read at most")
    return _Reader(_events(text)).read()


class _Event(NamedTuple):
    """An event of the parser; `kind` is the name of its class, without `Event`."""

    kind: str
    place: Place
    value: str
    is_plain: bool
    anchor: str | None
    tag: str | None
    version: tuple[int, int] | None

    def refuse(self, problem: str) -> NoReturn:
        """Raise an error about what begins here."""
        raise InvalidYAMLError(problem, *self.place)


def _events(text: str) -> Iterator[_Event]:
    with needing_extra("terminal", "YAML"):  # which the extra `cli` includes
        from ruamel.yaml import YAML  # noqa: PLC0415 - rarely needed

    parser = YAML(typ="safe", pure=True)
    try:
        for event in parser.parse(text):  # pyright: ignore[reportUnknownMemberType] - its parameters have no types
            yield _Event(
                kind=type(event).__name__.removesuffix("Event"),
                place=_place(getattr(event, "start_mark", None)),
                value=getattr(event, "value", ""),
                is_plain=getattr(event, "implicit", (False,))[0] if hasattr(event, "value") else False,
                anchor=getattr(event, "anchor", None),
                tag=getattr(event, "tag", None),
                version=getattr(event, "version", None),
            )
    except Exception as error:  # the parser may raise other exceptions than YAML errors
        raise _located_error(error, text) from error


class _Reader:
    """Builds values from the parser's events; the depth is limited, so that recursion is safe."""

    def __init__(self, events: Iterator[_Event]) -> None:
        self._events = events
        self._places: dict[Path, Place] = {}

    def read(self) -> tuple[object, Mapping[Path, Place]]:
        next(self._events)  # the start of the stream
        first = next(self._events)
        if first.kind == "StreamEnd":
            return None, {}
        if first.version not in (None, (1, 2)):
            first.refuse(_OTHER_VERSION)
        value = self._value(next(self._events), ())
        next(self._events)  # the end of the document
        if (after := next(self._events)).kind != "StreamEnd":
            after.refuse("another document begins here; one is read")
        return value, self._places

    def _value(self, event: _Event, path: Path) -> object:
        if event.anchor is not None:
            what = "an alias" if event.kind == "Alias" else "an anchor"
            event.refuse(f"{what} is not read here; write what it stands for")
        if event.tag is not None:
            event.refuse(f"the tag {event.tag} is not read here; values have the types that they show")
        if len(path) > _DEEPEST:
            event.refuse(f"it is nested more than {_DEEPEST} deep")
        self._places.setdefault(path, event.place)
        match event.kind:
            case "SequenceStart":
                return self._sequence(path)
            case "MappingStart":
                return self._mapping(path)
            case _:
                return _scalar(event)

    def _sequence(self, path: Path) -> list[object]:
        items: list[object] = []
        while (event := next(self._events)).kind != "SequenceEnd":
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[object, object]:
        fields: dict[object, object] = {}
        while (event := next(self._events)).kind != "MappingEnd":
            if event.kind != "Scalar" or event.anchor is not None or event.tag is not None:
                event.refuse("a key must be a text or a number, without an anchor or a tag")
            key = _scalar(event)
            if key in fields:
                event.refuse(f"the key {event.value!r} comes twice")
            inner = (*path, str(key))
            self._places[inner] = event.place
            fields[key] = self._value(next(self._events), inner)
        return fields


def _scalar(event: _Event) -> object:
    try:
        if not event.is_plain:
            return _unicode(event.value)
        if event.value in _WORDS:
            return _WORDS[event.value]
        number = _number(event.value)
        return _unicode(event.value) if number is None else number
    except ValueError as error:
        event.refuse(str(error))


def _number(text: str) -> int | float | None:
    is_decimal = _DECIMAL.fullmatch(text) is not None
    if is_decimal or _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        if len(text) > MOST_DIGITS:
            raise ValueError(f"the number has {len(text):,} digits; {MOST_DIGITS:,} are read at most")
        return int(text, 10 if is_decimal else 0)
    if _FLOAT.fullmatch(text):
        if math.isinf(number := float(text)):
            raise ValueError("the number is too large")
        return number
    infinity = _INFINITY.fullmatch(text)
    return None if infinity is None else float(f"{infinity[1]}inf")


def _unicode(text: str) -> str:
    """Return the text with pairs of surrogate escapes joined to one character, as in JSON."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ValueError("half of a surrogate pair is not a character") from None


def _located_error(error: Exception, text: str) -> InvalidYAMLError:
    """Return the parser's error with its place, which is given by a mark, by an offset, or not at all."""
    directive = _VERSION.search(text)
    if directive and isinstance(error, AssertionError):  # a version that the parser does not expect
        return InvalidYAMLError(_OTHER_VERSION, text.count("\n", 0, directive.start()) + 1, 1)
    mark: object = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        said: str = getattr(error, "problem", None) or getattr(error, "context", None) or "it cannot be read"
        if directive and "<document start>" in said:
            said = "a line `---` is to follow the lines that begin with `%`"
        return InvalidYAMLError(said.replace("'\\x00'", "the end"), *_place(mark))
    if isinstance(error, ValueError) and (beyond := _BEYOND_UNICODE.search(text)):
        return InvalidYAMLError(f"the escape {beyond[0]} is not a character", *_line_and_column(text, beyond.start()))
    position: int | None = getattr(error, "position", None)
    if position is None:
        problem = " ".join(str(error).split()) or f"the parser has failed with {type(error).__name__}"
        return InvalidYAMLError(problem)
    character: int = getattr(error, "character", 0)
    return InvalidYAMLError(
        f"the character U+{character:04X} is not allowed in YAML", *_line_and_column(text, position)
    )


def _line_and_column(text: str, position: int) -> Place:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _place(mark: object) -> Place:
    line: int = getattr(mark, "line", 0)
    column: int = getattr(mark, "column", 0)
    return line + 1, column + 1
