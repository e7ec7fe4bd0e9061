"""Snapshots of values, field by field, for later comparison; and the findings that are reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TypeAlias, TypeGuard

import msgspec

from reenact.domain.plain import is_mapping

Portrait: TypeAlias = dict[str, str]
"""The parts of a value: the path of each, and its text."""

_SHOWN = 8
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)


def portrait(value: object, name: str) -> Portrait:
    """Return the parts of the value, to any depth; their paths begin with `name`.

    Values that behave differently have different portraits (a list and a tuple, a value and its copy with one field
    less); values that behave alike have the same (1 and 1.0, a dict in another order, an instant in two time zones).
    """
    return dict(_parts(value, name, ()))


def differences(before: Portrait, after: Portrait, *, verb: str = "became") -> list[str]:
    """Return a line for each part that differs between the portraits, at most the first few."""
    found: list[str] = []
    for where in dict.fromkeys((*before, *after)):
        was, is_ = before.get(where), after.get(where)
        if was != is_:
            found.append(f"{where}: {was or 'nothing'} {verb} {is_ or 'nothing'}")
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"and {len(found) - _SHOWN} more"]
    return found


def _parts(value: object, where: str, above: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    plain = _plain(value)
    if plain is not None:
        yield where, plain
        return
    if id(value) in above:
        yield where, f"the same {type(value).__name__} again"
        return
    above = (*above, id(value))
    what, members = _members(value)
    yield where, what
    for suffix, member in members:
        yield from _parts(member, where + suffix, above)


def _plain(value: object) -> str | None:
    """Return the text of a value without parts, or None for one with parts."""
    match value:
        case None | bool():
            return repr(value)
        case int():
            return int.__repr__(value)
        case float():
            return int.__repr__(int(value)) if value.is_integer() else float.__repr__(value)
        case str():
            return repr(str.__str__(value))
        case bytes() | complex():
            return repr(value)
        case datetime(tzinfo=zone) if zone is not None:
            return value.astimezone(UTC).isoformat()
        case Enum():
            return str(value)
        case _ if isinstance(value, _NAMED):
            return repr(value)
        case _:
            return None


def _members(value: object) -> tuple[str, Iterator[tuple[str, object]]]:
    kind = type(value).__name__
    if isinstance(value, msgspec.Struct):
        return kind, _fields(value, value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        declared = [field.name for field in dataclasses.fields(value)]
        return kind, _fields(value, [*declared, *(name for name in _own(value) if name not in declared)])
    if is_mapping(value):
        return f"{kind} of {len(value)}", ((f"[{_shown(key)}]", member) for key, member in list(value.items()))
    if _is_set(value):
        return f"{kind} of {len(value)}", ((f"{{{member}}}", True) for member in sorted(map(_shown, value)))
    names: tuple[str, ...] | None = getattr(value, "_fields", None)
    if names is not None and _is_tuple(value):
        return kind, _fields(value, names)
    if _is_sequence(value):
        return f"{kind} of {len(value)}", ((f"[{number}]", member) for number, member in enumerate(list(value)))
    says = any("__repr__" in vars(base) for base in type(value).__mro__[:-1])  # object's own shows only the address
    return (repr(value) if says else kind), _fields(value, _own(value))


def _is_set(value: object) -> TypeGuard[AbstractSet[object]]:
    return isinstance(value, AbstractSet)


def _is_tuple(value: object) -> bool:
    return isinstance(value, tuple)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, (bytearray, memoryview, range))


def _own(value: object) -> list[str]:
    slots = [name for base in type(value).__mro__ for name in _slots(base)]
    kept = [name for name in getattr(value, "__dict__", ()) if not is_cache(value, name)]
    return [*kept, *(name for name in slots if hasattr(value, name))]


def is_cache(value: object, name: str) -> bool:
    """Return whether the attribute is a `cached_property`, whose evaluation changes nothing."""
    return any(isinstance(base.__dict__.get(name), cached_property) for base in type(value).__mro__)


def _slots(base: type) -> tuple[str, ...]:
    slots: str | tuple[str, ...] = base.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__"))


def _fields(value: object, names: Sequence[str]) -> Iterator[tuple[str, object]]:
    return ((f".{name}", getattr(value, name, "nothing")) for name in names)


def _shown(value: object) -> str:
    """Return the text of a key or a member of a set: its parts on one line."""
    parts = portrait(value, "")
    return parts[""] if len(parts) == 1 else "; ".join(f"{where}={what}" for where, what in parts.items())


class ReplayError(AssertionError):
    """An actor differs from what its log says, or could on another day; the message says where, and what to do."""

    def __init__(self, findings: Iterable[str]) -> None:
        self.findings = tuple(dict.fromkeys(findings))
        super().__init__("\n\n".join(self.findings))


def finding(what: str, details: Iterable[str] = (), advice: str = "") -> str:
    """Return the text of a finding: what is wrong, where, and what to do about it."""
    lines = [what + (":" if (details := list(details)) else "."), *(f"  {detail}" for detail in details)]
    return "\n".join([*lines, f"  ({advice})"] if advice else lines)
