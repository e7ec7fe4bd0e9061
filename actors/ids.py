"""Generates unique ids that sort by time of creation; tests supply their own."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, without letters that are easily confused
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_BITS = 80
_WORD = (1 << 40) - 1


def make_id(prefix: str, milliseconds: int, entropy: int) -> str:
    """Return `prefix_` and 26 characters: 48 bits of time, then 80 bits of `entropy`, as in a ULID."""
    time, low, high = milliseconds & _WORD, entropy & _WORD, entropy >> 40
    return f"{prefix}_{_PAIRS[milliseconds >> 40]}{_word(time)}{_word(high)}{_word(low)}"


def _word(bits: int) -> str:
    """Return 40 bits as 8 characters."""
    return _PAIRS[bits >> 30] + _PAIRS[bits >> 20 & 1023] + _PAIRS[bits >> 10 & 1023] + _PAIRS[bits & 1023]


class TimeOrderedIds:
    """Generates ids that sort by creation, even within one millisecond and when the clock steps back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._milliseconds = -1
        self._entropy = 0
        # Ids must be unique, not secret; system randomness for each would cost more than everything else.
        self._random = random.Random(secrets.randbits(256))  # noqa: S311 - see above

    def __call__(self, prefix: str) -> str:
        """Return a new id: the prefix, `_`, and 26 characters."""
        with self._lock:
            now = self._clock() // 1000
            if now > self._milliseconds:
                self._milliseconds = now
                self._entropy = self._random.getrandbits(_BITS - 1)  # leaves a bit free for counting up
            else:
                self._entropy += 1 + self._random.getrandbits(16)
            milliseconds, entropy = self._milliseconds, self._entropy
        return make_id(prefix, milliseconds, entropy)
