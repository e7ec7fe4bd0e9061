"""Plain data out of files, in which every value knows where it stands, so that what is wrong can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard, TypeVar

from reenact._yaml import InvalidYAMLError, Place, read_yaml_with_places
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.matching.shown import described, on_a_line, quoted

T = TypeVar("T")


def invalid(problem: str) -> TerminalTestError:
    """Return the error that something handed in cannot be used: on one line, with nothing in it that is not seen.

    It quotes names and values of files, which may hold what would drive the terminal that it is printed at.
    """
    return TerminalTestError(TerminalTestErrorType.INVALID_CONFIG, on_a_line(problem))


@dataclass(frozen=True)
class Source:
    """Where data came from: a file, or a text without one; values made in Python come from neither."""

    file: Path | None = None
    text: str | None = None

    def place_of(self, path: tuple[str | int, ...]) -> Place | None:
        """Return where a value stands, or what it is in. JSON is YAML as well, and looked through as such."""
        try:
            _, places = read_yaml_with_places(self.text or "")
        except InvalidYAMLError:
            return None
        return next((places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in places), None)


@dataclass(frozen=True)
class Plain:
    """A value with the way that leads to it."""

    value: object
    source: Source = Source()
    path: tuple[str | int, ...] = ()

    def wrong(self, problem: str) -> TerminalTestError:
        """Return the error that this value cannot be used, which says where it stands."""
        place = self.source.place_of(self.path)
        where = "" if self.source.file is None else f"{self.source.file}: "
        where += "" if place is None else f"line {place[0]}: "
        where += f"{path}: " if (path := _written(self.path)) else ""
        return invalid(f"{where}{problem}")

    def make(self, make: Callable[[], T]) -> T:
        """Return what is made of this value; an error that says what is wrong with it, says also where."""
        try:
            return make()
        except TerminalTestError as error:
            raise self.wrong(error.message) from error

    def at(self, step: str | int, value: object) -> Plain:
        """Return a value that is in this one."""
        return Plain(value, self.source, (*self.path, step))

    def text(self) -> str:
        """Return the text that this is."""
        if not isinstance(self.value, str):
            raise self.wrong(f"this is to be text, not {called(self.value)}{in_quotes(self.value)}")
        return self.value

    def choice(self, choices: Iterable[str]) -> str:
        """Return the text that this is, which is one of a few."""
        if self.value not in (known := sorted(choices)):
            raise self.wrong(f"this is to be one of {', '.join(known)}, not {called(self.value)}")
        return self.text()

    def items(self) -> tuple[Plain, ...]:
        """Return what is in the list that this is."""
        if not is_list(self.value):
            raise self.wrong(f"this is to be a list, not {called(self.value)}")
        return tuple(self.at(index, item) for index, item in enumerate(self.value))

    def named(self) -> dict[str, Plain]:
        """Return what is in the mapping that this is, by names as they are written."""
        if not is_mapping(self.value):
            raise self.wrong(f"this is to be a mapping, not {called(self.value)}")
        named: dict[str, Plain] = {}
        for name, value in self.value.items():
            if not isinstance(name, str):
                raise self.at(str(name), value).wrong(f"a name is to be text, not {called(name)}{in_quotes(name)}")
            named[name] = self.at(name, value)
        return named

    def fields(self, known: Iterable[str] | None = None) -> dict[str, Plain]:
        """Return what is in the mapping that this is, by names in camel case, which may be written in snake case."""
        fields: dict[str, Plain] = {}
        for written, plain in self.named().items():
            name = camel(written)
            if name in fields:
                raise plain.wrong(f"the field comes twice, as {written} and as {name}")
            fields[name] = plain
        if known is not None:
            know(fields, known)
        return fields


def know(fields: Mapping[str, Plain], known: Iterable[str]) -> None:
    """Refuse fields that there are not, and say which there are."""
    there = set(known)
    for name, plain in fields.items():
        if name not in there:
            raise plain.wrong(f"there is no field {name} here; there are {', '.join(sorted(there)) or 'none'}")


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether this is a list, or what Python has for one."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether this is a mapping."""
    return isinstance(value, Mapping)


def called(value: object) -> str:
    """Return what a value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {described(value)}"
        case str():
            return quoted(value) if value else "empty"
        case Mapping():
            return "a mapping"
        case _ if is_list(value):
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def in_quotes(value: object) -> str:
    """Return the advice that makes text of a value, if it is as simple as that."""
    return "; in quotes it is text" if value is None or isinstance(value, bool | int | float) else ""


def camel(name: str) -> str:
    """Return a name in snake case as the files have it; any other name as it is."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest) if first else name


def _written(path: tuple[str | int, ...]) -> str:
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(parts).removeprefix(".")
