"""Rules of JSON Schema on exact numbers, on elements that are equal, and on patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeGuard

from reenact.terminal.matching.expressions import Expression
from reenact.terminal.matching.jsons import JSON, Number, compact, is_object

_PARTS: Final = re.compile(r"\\.|\[\^?+(?:\\.|[^\]\\])*+\]|\$", re.DOTALL)


def exact(value: JSON) -> JSON:
    """Return the value with numbers that are shown as JSON has them.

    Raises:
        RecursionError: it is nested too deep.
    """
    if isinstance(value, list):
        return [exact(element) for element in value]
    if isinstance(value, dict):
        return {name: exact(member) for name, member in value.items()}
    return Number(value) if isinstance(value, Decimal) else value


def draft_of(schema: object) -> str | None:
    """Return the address of the draft that the schema names."""
    return address if is_object(schema) and isinstance(address := schema.get("$schema"), str) else None


def is_number(value: object) -> TypeGuard[Decimal | int | float]:
    """Whether it is a number; those of the standard's own schemas are Python's."""
    return isinstance(value, Decimal | int | float) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Whether it is a number without a fraction, however it was written."""
    if not isinstance(value, Decimal):
        return isinstance(value, int) and not isinstance(value, bool)
    digits, power = _parts(value)
    return power >= 0 or not digits or _zeros(digits) >= -power


def is_written_as_integer(value: object) -> bool:
    """Whether it is a number that was written without a fraction and without an exponent, as drafts 3 and 4 want it."""
    return _parts(value)[1] == 0 if isinstance(value, Decimal) else is_integer(value)


def is_multiple(value: Decimal | float, of: Decimal | float) -> bool:
    """Whether a number is a whole multiple of another one, which is more than 0. Both are as large as they may be."""
    digits, power = _parts(value)
    other_digits, other_power = _parts(of)
    if not digits:
        return True
    divisor = _whole(other_digits)
    if power >= other_power:
        return _whole(digits) % divisor * pow(10, power - other_power, divisor) % divisor == 0
    more = other_power - power
    return _zeros(digits) >= more and _whole(digits[:-more]) % divisor == 0


def has_equal(elements: Iterable[JSON]) -> bool:
    """Whether two of the elements are equal, in time that is proportional to what there is."""
    seen: set[str] = set()
    for element in elements:
        form = compact(element)
        if form in seen:
            return True
        seen.add(form)
    return False


@lru_cache
def expression(pattern: str) -> Expression:
    """Return a pattern of a schema: an expression of Python, but for `$`, which is the end of the text alone.

    Raises:
        BadPatternError: it is none.
    """
    return Expression(_PARTS.sub(lambda part: r"\Z" if part[0] == "$" else part[0], pattern))


def _parts(value: Decimal | float) -> tuple[str, int]:
    """Return the digits of a number without its sign, none for 0, and the power of ten that they stand for."""
    _, digits, power = (Decimal(repr(value)) if isinstance(value, float) else Decimal(value)).as_tuple()
    return "".join(map(str, digits)).lstrip("0"), int(power)


def _whole(digits: str) -> int:
    return int(Decimal(digits))  # which takes as many as there are, as `int` of a text does not


def _zeros(digits: str) -> int:
    return len(digits) - len(digits.rstrip("0"))
