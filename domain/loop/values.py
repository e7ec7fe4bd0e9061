"""Immutable JSON values, of which the history of a conversation consists.

They are dicts and lists to their readers, compare equal to their plain form, and raise on every change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeGuard, TypeVar, overload

import msgspec

from reenact.domain import structs
from reenact.domain.errors import InvalidInputError
from reenact.domain.plain import Json, JsonDict, is_sequence

DEEPEST = 100
"""The greatest nesting depth of JSON values; deeper ones would exhaust the stack when compared or written."""
MOST_BITS = 2126
"""The greatest integer, in bits: 640 digits, which Python converts to and from text under any settings."""
T = TypeVar("T")


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the value is a mapping."""
    return isinstance(value, Mapping)


def is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    """Return whether the value can be iterated over."""
    return isinstance(value, Iterable)


def is_growing(value: object, _of: type[T]) -> TypeGuard[AppendOnlyList[T]]:
    """Return whether the value is a `AppendOnlyList`, which then has items of this type."""
    return isinstance(value, AppendOnlyList)


class _Unchangeable:
    """A value that raises on every change, and is its own copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _refuse(value: object, *_args: object, **_named: object) -> NoReturn:
    """Raise `TypeError`: the value is immutable. A copy, `dict(value)` or `list(value)`, can be changed."""
    kind = type(value)
    plain = "dict" if issubclass(kind, dict) else "list"
    raise TypeError(f"a {kind.__name__} cannot be changed; copy it into a {plain} first")


class Frozen(_Unchangeable, JsonDict):
    """An immutable JSON object; its members are also its attributes (`message.role`)."""

    __slots__ = ()
    if not TYPE_CHECKING:  # to a type checker, it is an ordinary dict
        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(frozenset(self))

    def __reduce__(self) -> tuple[type[Frozen], tuple[JsonDict]]:
        return type(self), (dict(self),)


class FrozenList(_Unchangeable, list[T]):
    """An immutable JSON array; it also equals a tuple of the same items."""

    __slots__ = ()
    if not TYPE_CHECKING:  # to a type checker, it is an ordinary list
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __eq__(self, other: object) -> bool:
        return super().__eq__(list(other) if is_sequence(other) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]  # a list has none  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type[FrozenList[T]], tuple[list[T]]]:
        return type(self), (list(self),)


class AppendOnlyList(_Unchangeable, Sequence[T], Generic[T]):
    """An immutable sequence to which appending an item costs the same at any length.

    All sequences derived from one another share their items, by index, and differ in how many of them they see.
    Appending an item where another sequence has appended a different one makes a copy. A sequence equals any list or
    tuple of the same items.
    """

    __slots__ = ("_length", "_shared")

    _length: int
    _shared: dict[int, T]

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._shared = dict(enumerate(items))
        self._length = len(self._shared)

    def plus(self, items: Iterable[T]) -> AppendOnlyList[T]:
        """Return the sequence with the items appended; this one does not change."""
        shared, length = self._shared, self._length
        for item in items:
            if shared.setdefault(length, item) is not item:  # setdefault is atomic, also between threads
                shared = {place: shared[place] for place in range(length)}
                shared[length] = item
            length += 1
        grown: AppendOnlyList[T] = AppendOnlyList()
        grown._shared, grown._length = shared, length
        return grown

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        found = range(self._length)[index]
        return self._shared[found] if isinstance(found, int) else [self._shared[place] for place in found]

    def __iter__(self) -> Iterator[T]:
        for place in range(self._length):
            yield self._shared[place]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if is_growing(other, object) or is_sequence(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._length)

    def __reduce__(self) -> tuple[type[AppendOnlyList[T]], tuple[list[T]]]:
        return AppendOnlyList, (list(self),)

    def __repr__(self) -> str:
        return repr(list(self))


class Fields(structs.Frozen, gc=True, eq=False):
    """A value whose fields can also be read as items, and which equals the mapping of them.

    The mapping may omit fields that are None.
    """

    def __getitem__(self, name: str) -> object:
        if name in self.keys():
            return getattr(self, name)
        raise KeyError(name)

    def get(self, name: str, default: object = None) -> object:
        """Return the field of that name, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return self.__struct_fields__

    def __eq__(self, other: object) -> bool:
        mine = {name: self[name] for name in self.keys()}
        if type(other) is type(self):
            return all(each == other[name] for name, each in mine.items())
        if is_mapping(other):
            return other.keys() <= mine.keys() and all(other.get(name) == mine[name] for name in mine)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.__struct_fields__)


def frozen(value: object, *, what: str = "the value", finite: bool = False) -> Json:
    """Return the value as immutable JSON: the same object, if it is immutable already.

    Numbers that are not finite become None, since JSON has none, or are refused if `finite`; dates, sets, dataclasses
    and similar values are converted to their JSON form.

    Raises:
        InvalidInputError: the value is not JSON or not valid Unicode, holds an integer of more than `MOST_BITS`, or is
            nested deeper than `DEEPEST`.
    """
    try:
        return _frozen(value, 0, _built_in, finite=finite)
    except (ValueError, TypeError, RecursionError) as broken:
        raise InvalidInputError(f"{what} is not a JSON value: {broken}") from None


def frozen_or_named(value: object) -> Json:
    """Return the value as `frozen` does, with the type's name in place of each part that JSON cannot represent."""
    try:
        return _frozen(value, 0, _built_in_or_named)
    except (ValueError, TypeError, RecursionError):
        return _named(value)


def frozen_object(value: object, *, what: str, finite: bool = False) -> Frozen:
    """Return the mapping as an immutable JSON object, or raise `InvalidInputError`."""
    made = frozen(value, what=what, finite=finite)
    if isinstance(made, Frozen):
        return made
    raise InvalidInputError(f"{what} must be a mapping, not {value!r}")


def converted(value: object, kind: type[T], what: str) -> T:
    """Return the value converted to this type, or raise `InvalidInputError` with a message that begins with `what`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as broken:
        raise InvalidInputError(f"{what}: {broken}") from None


def mutable_copy(value: object) -> object:
    """Return a mutable copy of the JSON value: dicts and lists, at any depth."""
    if is_mapping(value):
        return {name: mutable_copy(each) for name, each in value.items()}
    return [mutable_copy(each) for each in value] if is_sequence(value) or is_growing(value, object) else value


def compact(value: object) -> str:
    """Return the JSON value as text without white space and without ASCII escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=list)


def _frozen(value: object, depth: int, other: Callable[[object], object], *, finite: bool = False) -> Json:
    if is_growing(value, Frozen):
        return value
    match value:
        case None | bool() | Frozen() | FrozenList():
            return value  # pyright: ignore[reportUnknownVariableType]  # of anything
        case Enum():
            return _frozen(value.value, depth, other, finite=finite)
        case str():
            value.encode()  # raises for a lone surrogate, which UTF-8 cannot encode
            return str.__str__(value)
        case int():
            if value.bit_length() > MOST_BITS:
                raise ValueError(f"it holds an integer of more than {MOST_BITS} bits")
            return int(value)
        case float():
            if finite and not math.isfinite(value):
                raise ValueError(f"it holds {value}, which is not a JSON number")
            return float(value) if math.isfinite(value) else None
        case _ if depth >= DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST}")
        case _ if is_mapping(value):
            return Frozen({_name(name): _frozen(each, depth + 1, other, finite=finite) for name, each in value.items()})
        case _ if isinstance(value, AbstractSet):
            return FrozenList(sorted((_frozen(each, depth + 1, other) for each in _items(value)), key=compact))  # pyright: ignore[reportUnknownArgumentType]
        case _ if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return FrozenList(_frozen(each, depth + 1, other, finite=finite) for each in _items(value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return _frozen(other(value), depth + 1, other)


def _built_in(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else msgspec.to_builtins(value, str_keys=True)


def _built_in_or_named(value: object) -> object:
    try:
        return _frozen(_built_in(value), 0, _built_in)
    except Exception:  # noqa: BLE001 - a user's value may raise anything, and need not become JSON
        return _named(value)


def _named(value: object) -> str:
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _items(value: object) -> list[object]:
    return list(value) if is_iterable(value) else []


def _name(name: object) -> str:
    match name:
        case str():
            return str(_frozen(name, 0, _built_in))
        case None | bool() | int() | float():
            return compact(name)
        case _:
            raise TypeError(f"{name!r} is not a name of a member")
