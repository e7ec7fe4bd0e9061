"""Plain values: what JSON holds, and gives back as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

from reenact.domain.errors import InvalidInputError, meant

DEEPEST: Final = 100
"""How deep a value may be nested."""
LONGEST_PAGE: Final = 1000
"""So many sessions are listed at a time, at the most."""
_LEAST, _GREATEST = -(2**63), 2**64 - 1


def plain_mapping(where: str, given: Mapping[object, object]) -> dict[str, Any]:
    """Return a copy of the mapping with nothing but plain values in it; tuples become lists.

    Raises:
        InvalidInputError: something in it cannot be stored, or could not be read again; the message names the place.
    """
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            msg = f"{where} has the field {name!r}, which is not text"
            raise InvalidInputError(msg)
        check_unicode(f"a field's name in {where}", name)
        fields[name] = _plain(f"{where}.{name}", value)
    return fields


def check_unicode(where: str, text: str) -> bytes:
    """Return the text in UTF-8, or raise `InvalidInputError`: it has a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as broken:
        msg = f"{where} is not valid Unicode: a lone surrogate stands at index {broken.start}"
        raise InvalidInputError(msg) from None


def is_sayable(id_: object) -> bool:
    """Return whether an id could have been used at all: whether it is text, and not empty, that the log can hold."""
    try:
        return isinstance(id_, str) and bool(id_.encode())
    except UnicodeEncodeError:
        return False


def check_page(waiting: object, limit: object) -> None:
    """Raise `InvalidInputError` unless these can bound a page of sessions."""
    if waiting is not None and not isinstance(waiting, bool):
        message = f"`waiting` is True, False or None, not {waiting!r:.100}"
        raise InvalidInputError(message)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_PAGE:
        message = f"`limit` is a whole number from 1 to {LONGEST_PAGE}, not {limit!r:.100}"
        raise InvalidInputError(message)


class Spelled(msgspec.StructMeta):
    """Has a class of structs that users make say which field is meant by a keyword that it does not have."""

    if not TYPE_CHECKING:  # a type checker knows the fields

        def __call__(self, *given, **fields):  # noqa: ANN002, ANN003, ANN204 - as the class is
            for name in fields:
                if name not in self.__struct_fields__:
                    raise TypeError(f"{self.__name__} has no field {name!r}{meant(name, self.__struct_fields__)}")
            return super().__call__(*given, **fields)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether it is a mapping, whatever is in it."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether it is a list or a tuple, whatever is in it."""
    return isinstance(value, list | tuple)


def _plain(where: str, value: object) -> object:
    if where.count(".") + where.count("[") > DEEPEST:
        msg = f"{where:.80}… is nested more than {DEEPEST} deep"
        raise InvalidInputError(msg)
    if isinstance(value, str):
        check_unicode(where, value)
    elif is_mapping(value):
        return plain_mapping(where, value)
    elif is_sequence(value):
        return [_plain(f"{where}[{index}]", one) for index, one in enumerate(value)]
    elif not _is_scalar(value):
        msg = f"{where} is {value!r:.80}, which cannot be stored as JSON"
        raise InvalidInputError(msg)
    return value


def _is_scalar(value: object) -> bool:
    """Return whether it is null, a truth value, an integer of 64 bits, or a finite float."""
    if isinstance(value, float):
        return isfinite(value)
    return value is None or (isinstance(value, int) and _LEAST <= value <= _GREATEST)


LONGEST: Final = 1e9
"""What is more seconds than these, 31 years, is for ever: no clock is asked to wait so long."""


def seconds_of(timeout: object) -> float | None:
    """Return a time to wait in seconds, None for ever.

    Raises:
        InvalidInputError: it is no number.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:  # noqa: PLR0124 - NaN
        message = f"a timeout is a number of seconds, or None for none, not {timeout!r:.100}"
        raise InvalidInputError(message)
    return None if timeout > LONGEST else max(0.0, float(max(timeout, -LONGEST)))
