"""Redaction marks: placeholders for removed data, and comparison of values that treats them as wildcards."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isnan
from typing import TypeGuard

import msgspec

from reenact.domain.plain import is_mapping

REDACTED = "redacted"
"""The key of a mark that replaces a whole object."""

_MARK = re.compile(r"\[redacted: [^\[\]]*\]")
_WITHOUT_MARK = frozenset({"original", "extra", "citations", "signature"})
"""Fields that become None, without a mark, when they are removed."""


def mark(name: str) -> str:
    """Return the mark that replaces a removed text of this name."""
    return f"[redacted: {name}]"


def is_marked(value: object) -> bool:
    """Return whether the value contains a mark anywhere."""
    if isinstance(value, str):
        return _MARK.search(value) is not None
    parts = parts_of(value)
    return parts is not None and any(is_marked(name) or is_marked(one) for name, one in parts.items())


def equal_except_marks(recorded: object, decided: object) -> bool:
    """Return whether two values are equal, where a mark matches anything, and NaN equals itself."""
    if recorded == decided or _is_redacted(recorded) or _is_redacted(decided):
        return True
    if isinstance(recorded, float) and isinstance(decided, float):
        return isnan(recorded) and isnan(decided)
    if isinstance(recorded, str) and isinstance(decided, str):
        return _matches_pattern(recorded, decided) or _matches_pattern(decided, recorded)
    one, other = parts_of(recorded), parts_of(decided)
    if one is None or other is None or isinstance(recorded, msgspec.Struct) != isinstance(decided, msgspec.Struct):
        return False
    if isinstance(recorded, msgspec.Struct):
        return type(recorded) is type(decided) and all(
            equal_except_marks(one[name], other[name])
            or (name in _WITHOUT_MARK and one[name] is None and any(map(is_marked, one.values())))
            for name in one
        )
    unmarked = [{name for name in names if not is_marked(name)} for names in (one, other)]
    return (
        len(one) == len(other)
        and (unmarked[0] == unmarked[1] or len(unmarked[0]) != len(one) or len(unmarked[1]) != len(other))
        and all(equal_except_marks(one[name], other[name]) for name in unmarked[0] & unmarked[1])
    )


def parts_of(value: object) -> Mapping[object, object] | None:
    """Return the parts of a value by names or indices; None if it has no parts."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_mapping(value):
        return value
    return dict(enumerate(value)) if _is_collection(value) else None


def _is_redacted(value: object) -> bool:
    """Return whether the whole value is a mark."""
    if isinstance(value, str):
        return _MARK.fullmatch(value) is not None
    return is_mapping(value) and list(value) == [REDACTED] and _is_redacted(value[REDACTED])


def _matches_pattern(pattern: str, text: str) -> bool:
    """Return whether the text matches the pattern, where each mark of the pattern matches any text."""
    first, *rest = _MARK.split(pattern)
    if not rest or not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    place, end = len(first), len(text) - len(rest[-1])
    for part in rest[:-1]:
        place = text.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return place <= end


def _is_collection(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, Sequence | AbstractSet) and not isinstance(value, str | bytes)
