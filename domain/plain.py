"""Plain values: those that JSON can hold and returns unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeGuard, TypeVar, dataclass_transform

import msgspec

from reenact.domain.errors import InvalidInputError, meant, shown

Made = TypeVar("Made")
S = TypeVar("S", bound=msgspec.Struct)

if TYPE_CHECKING:
    Json: TypeAlias = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
    """A JSON value, read-only; a `dict[str, str]` is one, too."""
    JsonObject: TypeAlias = Mapping[str, Json]
    JsonDict: TypeAlias = dict[str, Json]
    """A JSON object that is being built."""
    Encodable: TypeAlias = object
    """A value that msgspec can encode, and decodes as a JSON value."""
else:  # msgspec does not support recursive type aliases, and decodes `object` more slowly than `Any`
    import typing

    Json = Encodable = typing.Any
    JsonObject = JsonDict = dict[str, Json]

DEEPEST = 100
"""The greatest nesting depth of a value."""
LONGEST_PAGE = 1000
"""The greatest number of sessions on one page of a list."""
_LEAST, _GREATEST = -(2**63), 2**64 - 1


def plain(where: str, value: object, depth: int = DEEPEST) -> Json:
    """Return a copy of the value with nothing but plain values in it; tuples become lists.

    Raises:
        InvalidInputError: a value in it cannot be stored or read back; the message names its place.
    """
    match value:
        case None | bool():
            return value
        case str():
            check_unicode(where, value)
            return str.__str__(value)
        case int():
            if not _LEAST <= value <= _GREATEST:
                raise InvalidInputError(f"{where} is an integer of more than 64 bits")
            return int(value)
        case float():
            if not isfinite(value):
                raise InvalidInputError(f"{where} is {value!r}, which JSON does not have")
            return float(value)
        case _ if depth == 0:
            raise InvalidInputError(f"{where:.80} is nested more than {DEEPEST} deep")
        case _ if is_mapping(value):
            return plain_object(where, value, depth)
        case _ if is_sequence(value):
            return [plain(f"{where}[{index}]", one, depth - 1) for index, one in enumerate(value)]
        case _:
            raise InvalidInputError(f"{where} is a {type(value).__name__}, which is not a JSON value")


def plain_object(where: str, value: Mapping[object, object], depth: int = DEEPEST) -> JsonDict:
    """Return a copy of the mapping with nothing but plain values in it; raises as `plain` does."""
    return {_key(where, name): plain(f"{where}.{name}", one, depth - 1) for name, one in value.items()}


def parsed(text: str, *, strict: bool = True) -> Json:
    """Return the value of a JSON text, with numbers that a log can hold; `strict` is that of `json.loads`.

    An integer of more than 64 bits becomes a float if no digit is lost. A number that is still too large becomes a
    string of its digits: a tool that requires a number refuses it, and the model reads why.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        value: Json = json.loads(
            text, strict=strict, parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _integer(digits: str) -> int | float | str:
    if _LEAST <= Decimal(digits) <= _GREATEST:
        return int(digits)
    return float(digits) if Decimal(digits) == float(digits) else digits


def _float(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def check_depth(where: str, value: Json, deepest: int = DEEPEST) -> None:
    """Raise `InvalidInputError` if the value is nested so deeply that programs which traverse it may fail."""
    level = [value]
    for _ in range(deepest + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list | tuple)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise InvalidInputError(f"{where} is nested more than {deepest} deep")


def check_unicode(where: str, text: str, error: type[InvalidInputError] = InvalidInputError) -> bytes:
    """Return the text in UTF-8, or raise the error if it has a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as broken:
        raise error(f"{where} is not valid Unicode: it contains a lone surrogate, at index {broken.start}") from None


def can_be_id(id_: object) -> bool:
    """Return whether a value can be an id: non-empty text that is valid Unicode."""
    try:
        return isinstance(id_, str) and bool(id_.encode())
    except UnicodeEncodeError:
        return False


def check_id(name: str, id_: object) -> None:
    """Raise `InvalidInputError` if an object is given instead of its id; `name` is the name of the argument."""
    if isinstance(id_, msgspec.Struct):
        known = (name, "id") if name.endswith("_id") else ("id", "session_id")
        own = next((one for one in known if isinstance(getattr(id_, one, None), str)), None)
        hint = f"; give its {own}" if own else ""
        raise InvalidInputError(f"{name.removesuffix('_id')} must be an id, not {type(id_).__name__}{hint}")


def with_plain_texts(values: S) -> S:
    """Return the struct with plain texts in its fields: ids, for example, may be of a subclass of `str`, as Markup is.

    Only plain texts can be stored and sent.
    """
    texts: dict[str, str] = {}
    for name in values.__struct_fields__:
        value: object = getattr(values, name)
        if type(value) is not str and isinstance(value, str):
            texts[name] = str.__str__(value)
    return msgspec.structs.replace(values, **texts) if texts else values


def check_page(waiting: object, limit: object) -> None:
    """Raise `InvalidInputError` unless these are valid bounds of a page of sessions."""
    if waiting is not None and not isinstance(waiting, bool):
        raise InvalidInputError(f"`waiting` must be True, False or None, not {shown(waiting):.100}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_PAGE:
        raise InvalidInputError(f"`limit` must be a whole number from 1 to {LONGEST_PAGE}, not {shown(limit):.100}")


def check_position(name: str, position: object) -> None:
    """Raise `InvalidInputError` unless the position is a whole number; whether it exists, the log checks."""
    if type(position) is not int:
        raise InvalidInputError(
            f"`{name}` must be a position of the log, a whole number of 1 or more, not {shown(position):.100}"
        )


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class SuggestsFields(msgspec.StructMeta):
    """Metaclass of structs that users create: an error says which field is nearest, or that fields must be named."""

    if not TYPE_CHECKING:  # a type checker knows the fields

        def __call__(self, *given, **fields):  # noqa: ANN002, ANN003, ANN204 - as the class is
            for name in fields:
                if name not in self.__struct_fields__:
                    raise TypeError(f"{self.__name__} has no field {name!r}{meant(name, self.__struct_fields__)}")
            if len(given) > len(self.__match_args__):
                raise TypeError(
                    f"name the fields of {self.__name__}, as in {self.__name__}({self.__struct_fields__[0]}=…)"
                )
            return super().__call__(*given, **fields)


class UserValue(msgspec.Struct, metaclass=SuggestsFields, frozen=True):
    """A frozen value that users create."""


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether the value is a mapping, without checking its contents."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether the value is a list or a tuple, without checking its contents."""
    return isinstance(value, list | tuple)


def _key(where: str, name: object) -> str:
    if isinstance(name, str) and (not name or can_be_id(name)):
        return str.__str__(name)
    raise InvalidInputError(f"{where} has the key {name!r}, which is not text")


LONGEST = 1e9
"""A longer timeout in seconds (31 years) counts as none, so that no clock has to wait that long."""


def seconds_of(timeout: object) -> float | None:
    """Return a timeout in seconds, None for no timeout.

    Raises:
        InvalidInputError: the timeout is not a number.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:  # noqa: PLR0124 - NaN
        raise InvalidInputError(f"a timeout must be a number of seconds, or None for none, not {shown(timeout):.100}")
    return None if timeout > LONGEST else max(0.0, float(max(timeout, -LONGEST)))


def made(make: Callable[..., Made], /, *values: object, **named: object) -> Made:
    """Call `make` with values whose types are known only at run time, and return the result."""
    return make(*values, **named)
