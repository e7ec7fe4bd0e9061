"""JSON values that cannot be changed: what the history of a conversation is made of.

They are dicts and lists to whoever reads them, compare equal to their plain form, and refuse every change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final, NoReturn, SupportsIndex, TypeGuard

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.growing import Growing, is_growing, is_list

DEEPEST: Final = 100
"""How deep JSON values may be nested; deeper ones would exhaust the stack of whoever compares or writes them."""
MOST_BITS: Final = 2126
"""Bits of an integer: those of 640 digits, which Python reads and writes under any settings."""
_Any = Any


class Frozen(dict[str, Any]):
    """An object of JSON that cannot be changed; its members are also its attributes (`message.role`)."""

    __slots__ = ()

    def __getattr__(self, name: str) -> _Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(frozenset(self))

    def __copy__(self) -> Frozen:
        return self

    def __deepcopy__(self, memo: object) -> Frozen:
        return self

    def __reduce__(self) -> tuple[type[Frozen], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)

    def __setitem__(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def __delitem__(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def __ior__(self, *args: _Any) -> NoReturn:  # type: ignore[misc]  # it takes what `|` takes, and more
        _refuse(self)

    def clear(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def pop(self, *args: _Any, **kwargs: _Any) -> NoReturn:
        _refuse(self)

    def popitem(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def setdefault(self, *args: _Any, **kwargs: _Any) -> NoReturn:
        _refuse(self)

    def update(self, *args: _Any, **kwargs: _Any) -> NoReturn:
        _refuse(self)


class FrozenList(list[_Any]):
    """An array of JSON that cannot be changed; it also equals a tuple of the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(list(other) if is_list(other) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]  # a list has none  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(tuple(self))

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Any]]]:
        return type(self), (list(self),)

    def __setitem__(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def __delitem__(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def __iadd__(self, *args: _Any) -> NoReturn:  # type: ignore[misc]  # it takes what `+` takes, and more
        _refuse(self)

    def __imul__(self, *args: _Any) -> NoReturn:  # type: ignore[misc]  # it takes what `*` takes, and more
        _refuse(self)

    def append(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def clear(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def extend(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def insert(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def pop(self, index: SupportsIndex = -1) -> NoReturn:
        _refuse(self)

    def remove(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def reverse(self, *args: _Any) -> NoReturn:
        _refuse(self)

    def sort(self, *args: _Any, **kwargs: _Any) -> NoReturn:
        _refuse(self)


class Fields(msgspec.Struct, frozen=True, eq=False):
    """A value whose fields can also be read by their names, and which equals the mapping of them.

    Fields that are None need not stand in the mapping.
    """

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - fields differ in type
        if name in self.__struct_fields__:
            return getattr(self, name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - fields differ in type
        """Return the field of that name, or the default."""
        return getattr(self, name) if name in self.__struct_fields__ else default

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return self.__struct_fields__

    def __eq__(self, other: object) -> bool:
        mine = {name: self[name] for name in self.keys()}
        if type(other) is type(self):
            return all(each == other[name] for name, each in mine.items())
        if is_mapping(other):
            return all(name in mine for name in other) and all(other.get(name) == mine[name] for name in mine)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.__struct_fields__)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether the value is a mapping."""
    return isinstance(value, Mapping)


def frozen(value: object, *, what: str = "the value") -> Any:  # noqa: ANN401 - any JSON value
    """Return the value as JSON that cannot be changed: the same object, if it is that already.

    Numbers that are not finite become None, as JSON has none; dates, sets, dataclasses and the like become what they
    are in JSON.

    Raises:
        InvalidInputError: it is no JSON value, is not valid Unicode, holds an integer of more than `MOST_BITS`,
            or is nested deeper than `DEEPEST`.
    """
    try:
        return _frozen(value, 0, _built_in)
    except (ValueError, TypeError, RecursionError) as broken:
        msg = f"{what} is no JSON value: {broken}"
        raise InvalidInputError(msg) from None


def check_numbers(value: object, *, what: str) -> None:
    """Raise `InvalidInputError` if the value, JSON as it is frozen from, holds a number that is not finite."""
    try:
        _check_numbers(value, what)
    except RecursionError:
        raise InvalidInputError(f"{what} is nested too deeply") from None


def _check_numbers(value: object, what: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"{what} holds {value}, which is no number of JSON"
        raise InvalidInputError(msg)
    if is_mapping(value):
        for _, each in _pairs(value):
            _check_numbers(each, what)
    elif isinstance(value, list | tuple | FrozenList):
        for each in _items(value):
            _check_numbers(each, what)


def portrayed(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value as `frozen` does, with a text that names it in the place of each part that JSON cannot have."""
    try:
        return _frozen(value, 0, _built_in_or_named)
    except (ValueError, TypeError, RecursionError):
        return _named(value)


def frozen_object(value: object, *, what: str) -> Frozen:
    """Return the mapping as an object of JSON that cannot be changed, or raise `InvalidInputError`."""
    made = frozen(value, what=what)
    if isinstance(made, Frozen):
        return made
    msg = f"{what} is a mapping, not {value!r}"
    raise InvalidInputError(msg)


def thawed(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a copy of the JSON value that can be changed: dicts and lists, to any depth."""
    if is_mapping(value):
        return {name: thawed(each) for name, each in _pairs(value)}
    if isinstance(value, list | Growing):
        return [thawed(each) for each in _items(value)]
    return value


def compact(value: object) -> str:
    """Return the JSON value as text without white space and without ASCII escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=list)


def _frozen(value: object, depth: int, other: Callable[[object], object]) -> Any:  # noqa: ANN401 - any JSON value
    if is_growing(value):
        return value
    match value:
        case None | bool() | Frozen() | FrozenList():
            return value
        case Enum():
            return _frozen(value.value, depth, other)
        case str():
            return _text(value)
        case int():
            if value.bit_length() > MOST_BITS:
                raise ValueError(f"it holds an integer of more than {MOST_BITS} bits")
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case _ if depth >= DEEPEST:
            msg = f"it is nested deeper than {DEEPEST}"
            raise ValueError(msg)
        case _ if is_mapping(value):
            return Frozen({_name(name): _frozen(each, depth + 1, other) for name, each in _pairs(value)})
        case _ if isinstance(value, AbstractSet):
            return FrozenList(sorted((_frozen(each, depth + 1, other) for each in _items(value)), key=compact))
        case _ if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return FrozenList([_frozen(each, depth + 1, other) for each in _items(value)])
        case _:
            return _frozen(other(value), depth + 1, other)


def _built_in(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else msgspec.to_builtins(value, str_keys=True)


def _built_in_or_named(value: object) -> object:
    try:
        return _frozen(_built_in(value), 0, _built_in)
    except Exception:  # noqa: BLE001 - it may be anybody's, and need not become JSON
        return _named(value)


def _named(value: object) -> str:
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _pairs(value: object) -> Iterable[tuple[Any, object]]:
    return value.items() if is_mapping(value) else ()


def _items(value: Any) -> list[object]:  # noqa: ANN401 - a collection of anything
    return list(value)


def _name(name: object) -> str:
    match name:
        case str():
            return _text(name)
        case None | bool() | int() | float():
            return compact(name)
        case _:
            msg = f"{name!r} is no name of a member"
            raise TypeError(msg)


def _text(text: str) -> str:
    text.encode()  # a lone surrogate cannot be written down
    return str.__str__(text)


def _refuse(value: object) -> NoReturn:
    msg = f"a {type(value).__name__} cannot be changed; copy it into a {type(value).__mro__[1].__name__} first"
    raise TypeError(msg)
