"""Reads YAML and JSON files as plain data whose values know their place, and converts them to structs."""

from __future__ import annotations

import math
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from sys import float_info
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from reenact._yaml import LARGEST, MOST_DIGITS, InvalidYAMLError, Place, read_yaml, read_yaml_with_places
from reenact.domain.plain import is_mapping, is_sequence
from reenact.terminal.errors import TerminalTestError, invalid
from reenact.terminal.matching import jsons
from reenact.terminal.matching.jsons import InvalidJSONError
from reenact.terminal.text import described, one_line, quoted

T = TypeVar("T")


@dataclass(frozen=True)
class Plain:
    """A value with its path in a file or a text; values that were created in Python are in neither."""

    value: object
    file: Path | None = None
    source: str | None = None
    """The text that the value was read from."""
    path: tuple[str | int, ...] = ()

    def wrong(self, problem: str) -> TerminalTestError:
        """Return the error that this value is invalid, with its place.

        It is on one line and without invisible characters: it quotes names and values of files, which might otherwise
        control the terminal that it is printed on.
        """
        place = self._place()
        where = "" if self.file is None else f"{self.file}: "
        where += "" if place is None else f"line {place[0]}: "
        where += f"{jsons.path(self.path).removeprefix('$').removeprefix('.')}: " if self.path else ""
        return invalid(one_line(f"{where}{problem}"))

    def make(self, make: Callable[[], T]) -> T:
        """Create something from this value; the place is added to an error."""
        try:
            return make()
        except TerminalTestError as error:
            raise self.wrong(error.message) from error

    def at(self, step: str | int, value: object) -> Plain:
        """Return a value inside this one."""
        return replace(self, value=value, path=(*self.path, step))

    def text(self) -> str:
        """Return the value if it is text."""
        if not isinstance(self.value, str):
            raise self.wrong(f"expected text, got {called(self.value)}{quote_hint(self.value)}")
        return self.value

    def choice(self, choices: Iterable[str]) -> str:
        """Return the value if it is one of the choices."""
        if self.value not in (known := sorted(choices)):
            raise self.wrong(f"expected one of {', '.join(known)}, got {called(self.value)}")
        return self.text()

    def items(self) -> tuple[Plain, ...]:
        """Return the items of the value if it is a list."""
        if not is_sequence(self.value):
            raise self.wrong(f"expected a list, got {called(self.value)}")
        return tuple(self.at(index, item) for index, item in enumerate(self.value))

    def named(self) -> dict[str, Plain]:
        """Return the items of the value by name if it is a mapping."""
        if not is_mapping(self.value):
            raise self.wrong(f"expected a mapping, got {called(self.value)}")
        named: dict[str, Plain] = {}
        for name, value in self.value.items():
            if not isinstance(name, str):
                raise self.at(str(name), value).wrong(f"a name must be text, not {called(name)}{quote_hint(name)}")
            named[name] = self.at(name, value)
        return named

    def fields(self, known: Iterable[str] | None = None) -> dict[str, Plain]:
        """Return the items of a mapping by name in camel case; the file may use snake case."""
        fields: dict[str, Plain] = {}
        for written, plain in self.named().items():
            name = camel(written)
            if name in fields:
                raise plain.wrong(f"the field comes twice, as {written} and as {name}")
            fields[name] = plain
        if known is not None:
            refuse_unknown(fields, known)
        return fields

    def _place(self) -> Place | None:
        """Return the place of the value, or of its nearest container with one. JSON is parsed as YAML for this."""
        try:
            _, places = read_yaml_with_places(self.source or "")
        except InvalidYAMLError:
            return None
        path = self.path
        return next((places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in places), None)


def refuse_unknown(fields: Mapping[str, Plain], known: Iterable[str]) -> None:
    """Refuse unknown fields; the error lists the known ones."""
    there = set(known)
    for name, plain in fields.items():
        if name not in there:
            raise plain.wrong(f"unknown field {name}; expected one of {', '.join(sorted(there)) or 'none'}")


def called(value: object) -> str:
    """Describe a value in words."""
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
        case _ if is_sequence(value):
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def quote_hint(value: object) -> str:
    """Return the advice to put a value in quotes, if that would make it text."""
    return "; in quotes it is text" if value is None or isinstance(value, bool | int | float) else ""


def camel(name: str) -> str:
    """Convert a name from snake case to camel case; other names are unchanged."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest) if first else name


Format: TypeAlias = Literal["yaml", "json"]
FORMATS: Final[Mapping[str, Format]] = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
"""The format of a file by its suffix."""
_LARGEST_FILE = 4 * LARGEST + 3
"""Maximum number of bytes of that many characters in UTF-8, with a byte order mark."""
_TOO_LARGE = f"it has more than {LARGEST:,} characters; so many are read at most"


def read_file(path: Path) -> Plain:
    """Read a YAML or JSON file, depending on its suffix.

    Raises:
        TerminalTestError: the file cannot be read, or is neither (`INVALID_CONFIG`).
    """
    whole = Plain(None, path)
    if (format_ := FORMATS.get(path.suffix.lower())) is None:
        raise whole.wrong(f"the name of the file is to end with {', '.join(FORMATS)}")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise whole.wrong("this is not a regular file")
        if status.st_size > _LARGEST_FILE:
            raise whole.wrong(_TOO_LARGE)
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise whole.wrong(f"this is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except (OSError, ValueError) as error:  # a NUL in its name
        raise whole.wrong(str(getattr(error, "strerror", None) or error)) from error
    return read_text(text, format_, path)


def read_text(text: str, format: Format, file: Path | None = None) -> Plain:  # noqa: A002 - the usual word
    """Parse a text.

    Raises:
        TerminalTestError: it is not valid in its format (`INVALID_CONFIG`).
    """
    whole = Plain(None, file)
    if len(text) > LARGEST:
        raise whole.wrong(_TOO_LARGE)
    try:
        if format == "yaml":
            return Plain(read_yaml(text), file, text)
        return Plain(_numbers(Plain(jsons.read(text), file, text)), file, text)
    except (InvalidYAMLError, InvalidJSONError) as error:
        raise whole.wrong(str(error)) from error
    except RecursionError as error:
        raise whole.wrong("it is nested too deep") from error


def _numbers(plain: Plain) -> object:
    """Return the value with JSON numbers converted to Python's."""
    match plain.value:
        case dict():
            return {name: _numbers(item) for name, item in plain.named().items()}
        case list():
            return [_numbers(item) for item in plain.items()]
        case Decimal() as number:
            _, digits, power = number.as_tuple()
            if len(digits) > MOST_DIGITS or math.isinf(float(number)):
                raise plain.wrong(f"the number {described(str(number))} is too large")
            return int(number) if power == 0 else float(number)
        case value:
            return value


S = TypeVar("S", bound=msgspec.Struct)
Readers: TypeAlias = Mapping[str, Callable[[Plain], object]]
"""Functions that read fields, by the fields' names in the struct."""
_NONE: Final[Readers] = {}


def struct_of(kind: type[S], plain: Plain, base: S | None = None, readers: Readers = _NONE) -> S:
    """Convert a mapping to a struct; its fields are named in camel case or snake case.

    Missing fields are taken from `base`: its mappings and structs are merged recursively, all else is replaced.
    `readers` convert fields that have a special form in files.

    Raises:
        TerminalTestError: a field is unknown, missing, or invalid (`INVALID_CONFIG`).
    """
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    made = _struct(info, plain, base, readers)
    assert isinstance(made, kind)
    return made


def fields_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the fields in files."""
    return tuple(camel(name) for name in kind.__struct_fields__)


def _struct(info: inspect.StructType, plain: Plain, base: object, readers: Readers = _NONE) -> object:
    given = plain.fields(camel(field.name) for field in info.fields)
    values: dict[str, object] = {}
    for field in info.fields:
        before: object = getattr(base, field.name, None)
        if (inner := given.get(camel(field.name))) is not None:
            read = readers.get(field.name)
            values[field.name] = _value(field.type, inner, before) if read is None else read(inner)
        elif base is not None:
            values[field.name] = before
        elif field.required:
            raise plain.wrong(f"the field {camel(field.name)} is missing")
    return plain.make(lambda: info.cls(**values))


def _value(info: inspect.Type, plain: Plain, base: object = None) -> object:
    value = plain.value
    match info:
        case inspect.UnionType(types=types):
            fitting = next((one for one in types if _has_type(one, value)), None)
            if fitting is None:
                raise _type_error(plain, *types)
            return _value(fitting, plain, base)
        case inspect.StructType():
            return _struct(info, plain, base)
        case inspect.DictType(value_type=inner):
            made = dict(base) if is_mapping(base) else {}
            for name, item in plain.named().items():
                made[name] = _value(inner, item, made.get(name))
            return made
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return tuple(_value(inner, item) for item in plain.items())
        case inspect.TupleType(item_types=inners):
            items = plain.items()
            if len(items) != len(inners):
                raise plain.wrong(f"expected a list of {len(inners)}, got {len(items)}")
            return tuple(_value(inner, item) for inner, item in zip(inners, items, strict=True))
        case inspect.EnumType(cls=cls):
            return cls(plain.choice(str(one.value) for one in cls))
        case inspect.LiteralType(values=values):
            return plain.choice(str(one) for one in values)
        case inspect.CustomType():  # `object`
            return data_of(plain)
        case inspect.FloatType() if isinstance(value, int) and _has_type(info, value):
            if abs(value) > float_info.max:
                raise plain.wrong(f"{called(value)} is too large")
            return float(value)
        case _:
            if not _has_type(info, value):
                raise _type_error(plain, info)
            return value


def data_of(plain: Plain) -> object:
    """Return the value if it can be represented in JSON."""
    try:
        jsons.value_of(plain.value)
    except InvalidJSONError as error:
        raise plain.wrong(str(error)) from error
    return plain.value


def _has_type(info: inspect.Type, value: object) -> bool:
    _, kinds = _KINDS.get(type(info), _MAPPING)
    if isinstance(value, bool):  # not a number here
        return bool in kinds
    return isinstance(value, kinds) and not (isinstance(value, float) and not math.isfinite(value))


def _type_error(plain: Plain, *infos: inspect.Type) -> Exception:
    advice = quote_hint(plain.value) if any(isinstance(info, inspect.StrType) for info in infos) else ""
    wanted = " or ".join(dict.fromkeys(_KINDS.get(type(info), _MAPPING)[0] for info in infos))
    return plain.wrong(f"expected {wanted}, got {called(plain.value)}{advice}")


_MAPPING = ("a mapping", (Mapping,))
_TEXT = ("text", (str,))
_LIST = ("a list", (list, tuple))
_KINDS: Final[Mapping[type[inspect.Type], tuple[str, tuple[type, ...]]]] = {
    inspect.NoneType: ("null", (type(None),)),
    inspect.BoolType: ("true or false", (bool,)),
    inspect.IntType: ("a whole number", (int,)),
    inspect.FloatType: ("a number", (int, float)),
    inspect.StrType: _TEXT,
    inspect.EnumType: _TEXT,
    inspect.LiteralType: _TEXT,
    inspect.ListType: _LIST,
    inspect.VarTupleType: _LIST,
    inspect.TupleType: _LIST,
}
"""Each type's description and Python types; all types that are not listed are mappings."""
