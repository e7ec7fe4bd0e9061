"""JSON values: parsing (strictly by RFC 8259), comparing, and writing in a canonical form."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from math import isfinite
from typing import NoReturn, TypeAlias

from reenact.domain.plain import is_mapping, is_sequence
from reenact.terminal.text import quoted

JSON: TypeAlias = "bool | Decimal | str | list[JSON] | dict[str, JSON] | None"
"""A JSON value; numbers are exact."""
Schema: TypeAlias = dict[str, JSON] | bool
Place: TypeAlias = tuple[str | int, ...]
"""The place of a value: the names and indexes that lead to it from the root."""

_BRIEF = 80
_POWER = 25
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNUSUAL = re.compile("[^ -~]")
_TOO_DEEP = "it is nested too deep, or contains itself"


class Number(Decimal):
    """A number whose `repr` is JSON."""

    def __repr__(self) -> str:
        return _number(self)


class InvalidJSONError(ValueError):
    """The input is not JSON; the message says what is wrong."""


def read(text: str) -> JSON:
    """Parse a JSON text.

    Raises:
        InvalidJSONError: it is not strict JSON: it has NaN, a duplicate name in an object, or text after the value.
    """
    try:
        value: JSON = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=_refuse, object_pairs_hook=_members
        )
    except json.JSONDecodeError as error:
        if not text.strip():
            raise InvalidJSONError("it is empty") from error
        rest = quoted(text[error.pos : error.pos + _BRIEF])
        raise InvalidJSONError(f"line {error.lineno}, column {error.colno}: {error.msg}, at {rest}") from error
    except RecursionError:
        raise InvalidJSONError(_TOO_DEEP) from None
    except InvalidOperation:
        raise InvalidJSONError("it has a number with an exponent too large to compare") from None
    return value


def value_of(value: object) -> JSON:
    """Convert a Python value to a JSON value: mappings, lists, tuples, texts, numbers, booleans and None.

    Raises:
        InvalidJSONError: a part of it cannot be represented in JSON, or it contains itself.
    """
    try:
        return _value_of(value, ())
    except RecursionError:
        raise InvalidJSONError(_TOO_DEEP) from None


def differences(expected: JSON, actual: JSON) -> Iterator[str]:
    """Yield descriptions of the differences, each with its path: `$.items[2].name: ...`."""
    left: list[tuple[Place, JSON, JSON]] = [((), expected, actual)]
    while left:
        place, old, new = left.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            for name in old:
                if name not in new:
                    yield f"{path(place)}: {brief(name)} is missing"
            for name in new:
                if name not in old:
                    yield f"{path(place)}: {brief(name)} is there, and not expected"
            left.extend(((*place, name), old[name], new[name]) for name in reversed(old) if name in new)
        elif isinstance(old, list) and isinstance(new, list):
            if len(old) != len(new):
                yield f"{path(place)}: {brief(old)} is expected, {brief(new)} is there"
            pairs = list(zip(old, new, strict=False))
            left.extend(((*place, at), *pairs[at]) for at in reversed(range(len(pairs))))
        elif type(old) is not type(new) or old != new:
            yield f"{path(place)}: {brief(old)} is expected, {brief(new)} is there"


def path(place: Iterable[str | int]) -> str:
    """Return the place in JSONPath notation: `$.items[2]["a name"]`."""
    return "$" + "".join(map(_step, place))


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _NAME.fullmatch(part) else f"[{brief(part)}]"


def brief(value: object) -> str:
    """Return a JSON value on a short line; of an object or array only its size."""
    if is_mapping(value):
        return f"an object with {_counted(len(value), 'member')}"
    if is_sequence(value):
        return f"an array with {_counted(len(value), 'element')}"
    text = _scalar(value)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"


def compact(value: object) -> str:
    """Return a JSON value as JSON on one line, in a form that is the same for equal values and differs for others.

    Raises:
        RecursionError: it is nested too deeply.
    """
    parts: list[str] = []
    _write(value, "", parts)
    return "".join(parts)


def pretty(value: JSON) -> str:
    """Return the value as JSON on many lines, in a form that is the same for equal values."""
    parts: list[str] = []
    try:
        _write(value, "\n", parts)
    except RecursionError:
        return brief(value)
    return "".join(parts)


def _refuse(constant: str) -> NoReturn:
    raise InvalidJSONError(f"{constant} is not JSON")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidJSONError(f"an object has the name {brief(twice)} twice")
    return members


def _value_of(value: object, place: Place) -> JSON:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return Number(int(value))
    if isinstance(value, float) and isfinite(value):
        return Number(repr(float(value)))
    if isinstance(value, Decimal) and value.is_finite():
        return Number(value)
    if is_sequence(value):
        return [_value_of(element, (*place, at)) for at, element in enumerate(value)]
    if is_mapping(value):
        return {_name_of(name, place): _value_of(member, (*place, str(name))) for name, member in value.items()}
    what = f"the number {value}" if isinstance(value, float | Decimal) else f"a value of type {type(value).__name__}"
    raise InvalidJSONError(f"{path(place)}: {what} has no form in JSON")


def _name_of(name: object, place: Place) -> str:
    if not isinstance(name, str):
        raise InvalidJSONError(f"{path(place)}: a name in an object is of type {type(name).__name__}, and must be str")
    return str(name)


def _write(value: object, line: str, parts: list[str]) -> None:
    """Append the value to the parts; `line` is the line break with indentation, or empty to stay on one line."""
    deeper, between = (line + "  ", ",") if line else ("", ", ")
    if is_mapping(value) and value:
        for at, name in enumerate(sorted(map(str, value))):
            parts.append(f"{between if at else '{'}{deeper}{_scalar(name)}: ")
            _write(value[name], deeper, parts)
        parts.append(line + "}")
    elif is_sequence(value) and value:
        for at, element in enumerate(value):
            parts.append(f"{between if at else '['}{deeper}")
            _write(element, deeper, parts)
        parts.append(line + "]")
    else:
        parts.append(_scalar(value))


def _scalar(value: object) -> str:
    if isinstance(value, Decimal):
        return _number(value)
    return _UNUSUAL.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1].replace("\x7f", "\\u007f")


def _number(value: Decimal) -> str:
    """Return the number in a canonical form: 1 for 1.0, 0 for -0."""
    number = _EXACT.normalize(value) or Decimal(0)
    _, power = parts(number)
    return f"{number:f}" if -_POWER <= power <= _POWER else f"{number:E}"


def parts(number: Decimal | float) -> tuple[int, int]:
    """Return a number's significant digits, without sign and trailing zeros, and the power of ten of the last digit."""
    value = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    _, digits, power = _EXACT.normalize(value).as_tuple()
    return int(Decimal((0, digits, 0))), int(power)


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"
