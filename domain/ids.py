"""Ids that sort by the time they were made, after a prefix that says of what they are."""

from __future__ import annotations

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no letter is mistaken for another
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(120, -1, -10)
_RANDOM_BITS = 80


def make_id(prefix: str, milliseconds: int, entropy: int) -> str:
    """Return `prefix_` and 26 characters: 48 bits of time, then 80 bits of `entropy`, as in a ULID."""
    value = (milliseconds << _RANDOM_BITS) | entropy
    pairs = _PAIRS
    return f"{prefix}_{''.join([pairs[(value >> shift) & 1023] for shift in _SHIFTS])}"
