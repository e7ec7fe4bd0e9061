"""Where streams and feeds end, and what can be said in few bytes of all that comes before."""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from struct import Struct
from typing import Final

import msgspec

from reenact.actors.journal.chain import DIGEST_SIZE

_TOGETHER: Final = 4096
"""So many positions are digested at once."""

_SEAL: Final = Struct(">qqI").pack


class StreamEnd(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends: version and digest of its last record, and what the places of all of them come to."""

    version: int
    digest: bytes
    places: bytes


class FeedEnd(msgspec.Struct, frozen=True, gc=False):
    """Where a feed ends: its last cursor, the digest of that row, and what the seals up to a cursor come to."""

    cursor: int
    digest: bytes
    sealed: int
    seals: bytes


class End(msgspec.Struct, frozen=True, gc=False):
    """Where a stream and the feed of the same name end, as far as there are such."""

    name: str
    stream: StreamEnd | None
    feed: FeedEnd | None


class Places:
    """What no digest of a stream's records covers, in their order: their positions, and the seals of redacted ones."""

    __slots__ = ("_digest", "_last")

    def __init__(self) -> None:
        """Begin with none."""
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._last = array("q")

    def add(self, position: int) -> None:
        """Take in the next one."""
        self._last.append(position)
        if len(self._last) == _TOGETHER:
            self._take_in()

    def seal(self, seal: bytes) -> None:
        """Take in the seal of the next one."""
        self._take_in()
        self._digest.update(_SEAL(0, 0, len(seal)))
        self._digest.update(seal)

    def digest(self) -> bytes:
        """Return what they come to."""
        self._take_in()
        return self._digest.digest()

    def _take_in(self) -> None:
        if sys.byteorder == "big":
            self._last.byteswap()
        self._digest.update(self._last.tobytes())
        self._last = array("q")


class Seals:
    """The seals of a feed in their order."""

    __slots__ = ("_digest", "_last")

    def __init__(self) -> None:
        """Begin with none."""
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._last = 0

    def add(self, first_cursor: int, last_cursor: int, seal: bytes) -> None:
        """Take in the seal of the next row that has one."""
        self._digest.update(_SEAL(first_cursor, last_cursor, len(seal)))
        self._digest.update(seal)
        self._last = last_cursor

    def end(self) -> tuple[int, bytes]:
        """Return the last cursor under a seal, 0 if there is none, and what the seals come to."""
        return self._last, self._digest.digest()
