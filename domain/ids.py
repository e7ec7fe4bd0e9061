"""Ids that sort by the time they were made, after a prefix that says of what they are."""

from __future__ import annotations

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no letter is mistaken for another
_LENGTH = 26
_RANDOM_BITS = 80


def make_id(prefix: str, milliseconds: int, entropy: int) -> str:
    """Return `prefix_` and 26 characters: 48 bits of time, then 80 bits of `entropy`, as in a ULID."""
    value = (milliseconds << _RANDOM_BITS) | entropy
    digits = [""] * _LENGTH
    for place in range(_LENGTH - 1, -1, -1):
        digits[place] = _ALPHABET[value & 31]
        value >>= 5
    return f"{prefix}_{''.join(digits)}"
