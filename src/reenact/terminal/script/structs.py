"""Structs made of plain data, with what is wrong said at the place where it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from sys import float_info
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from reenact.terminal.script.plain import Plain, called, camel, in_quotes, is_list, is_mapping

S = TypeVar("S", bound=msgspec.Struct)
Readers: TypeAlias = Mapping[str, Callable[[Plain], object]]
"""What reads a field, by its name in the struct."""
_NONE: Final[Readers] = {}


def struct_of(kind: type[S], plain: Plain, base: S | None = None, readers: Readers = _NONE) -> S:
    """Return the struct that a mapping stands for; its fields are named in camel case or in snake case.

    Fields that are not there are those of `base`: mappings and structs in it are gone through, all else is replaced.
    `readers` read the fields of these names, which files have in a form of their own.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: a field is unknown, missing, or not what it is to be.
    """
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    made = _struct(info, plain, base, readers)
    assert isinstance(made, kind)
    return made


def fields_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the fields, as files have them."""
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
            fitting = next((one for one in types if _fits(one, value)), None)
            if fitting is None:
                raise _unfit(plain, *types)
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
                raise plain.wrong(f"this is to be a list of {len(inners)}, not of {len(items)}")
            return tuple(_value(inner, item) for inner, item in zip(inners, items, strict=True))
        case inspect.EnumType(cls=cls):
            return cls(plain.choice(str(one.value) for one in cls))
        case inspect.LiteralType(values=values):
            return plain.choice(str(one) for one in values)
        case inspect.AnyType():
            return data_of(plain)
        case inspect.FloatType() if isinstance(value, int) and _fits(info, value):
            if abs(value) > float_info.max:
                raise plain.wrong(f"{called(value)} is too large")
            return float(value)
        case _:
            if not _fits(info, value):
                raise _unfit(plain, info)
            return value


def data_of(plain: Plain) -> object:
    """Return the value, which is to be one that JSON has."""
    value = plain.value
    if is_mapping(value):
        return {name: data_of(item) for name, item in plain.named().items()}
    if is_list(value):
        return [data_of(item) for item in plain.items()]
    if value is not None and not isinstance(value, str | bool | int | float):
        raise plain.wrong(f"JSON has no {type(value).__name__}")
    if _is_no_number(value):
        raise plain.wrong(f"JSON has no number {value}")
    return value


def _fits(info: inspect.Type, value: object) -> bool:
    match info:
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool) and not _is_no_number(value)
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType():
            return isinstance(value, str)
        case inspect.StructType() | inspect.DictType():
            return is_mapping(value)
        case _:
            return is_list(value)


def _is_no_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _unfit(plain: Plain, *infos: inspect.Type) -> Exception:
    advice = in_quotes(plain.value) if any(isinstance(info, inspect.StrType) for info in infos) else ""
    wanted = " or ".join(dict.fromkeys(_WORDS.get(type(info), "a mapping") for info in infos))
    return plain.wrong(f"this is to be {wanted}, not {called(plain.value)}{advice}")


_WORDS: Final[Mapping[type[inspect.Type], str]] = {
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.EnumType: "text",
    inspect.LiteralType: "text",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.TupleType: "a list",
}
