"""Where streams end, and what can be said in few bytes of all that comes before."""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from struct import Struct

import msgspec

from reenact.domain.chain import DIGEST_SIZE

_TOGETHER = 4096
"""So many positions are digested at once."""

_PART = Struct(">qqI").pack


class End(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends: the version of its last event, its last cursor, and the digest of its last row.

    The version is -1 if it has no events, the cursor 0 if nobody has heard of any. `places` is what the positions of
    its events come to, and `sealed` what its announcements up to the cursor `sealed_to` do that stand in place of
    others.
    """

    name: str
    version: int
    cursor: int
    digest: bytes
    places: bytes
    sealed_to: int
    sealed: bytes


class Places:
    """What no digest of a stream's rows covers, in their order: positions, and what stands in redacted ones."""

    __slots__ = ("_digest", "_last")

    def __init__(self) -> None:
        """Begin with none."""
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._last = array("q")

    def add(self, position: int) -> None:
        """Take in that of the next row with events."""
        self._last.append(position)
        if len(self._last) == _TOGETHER:
            self._take_in()

    def redacted(self, part: bytes) -> None:
        """Take in the digest of what stands in it, if it was redacted."""
        self._take_in()
        self._digest.update(_PART(0, 0, len(part)))
        self._digest.update(part)

    def digest(self) -> bytes:
        """Return what they come to."""
        self._take_in()
        return self._digest.digest()

    def _take_in(self) -> None:
        if sys.byteorder == "big":
            self._last.byteswap()
        self._digest.update(self._last.tobytes())
        self._last = array("q")


class Sealed:
    """The announcements of a stream that stand in place of others, in their order."""

    __slots__ = ("_digest", "_last")

    def __init__(self) -> None:
        """Begin with none."""
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._last = 0

    def add(self, first_cursor: int, last_cursor: int, part: bytes) -> None:
        """Take in the digest of those of the next row that has such."""
        self._digest.update(_PART(first_cursor, last_cursor, len(part)))
        self._digest.update(part)
        self._last = last_cursor

    def end(self) -> tuple[int, bytes]:
        """Return the last cursor of such, 0 if there are none, and what they come to."""
        return self._last, self._digest.digest()
