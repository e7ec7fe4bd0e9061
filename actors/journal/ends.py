"""The ends of streams, with short digests of everything before."""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from struct import Struct
from typing import Annotated, TypeAlias

import msgspec

from reenact.domain.chain import DIGEST_SIZE

_POSITIONS_AT_ONCE = 4096
"""How many positions are digested at once."""

_PART = Struct(">qqI").pack


Hex: TypeAlias = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")]
"""A digest in hexadecimal digits."""


class End(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="line", tag="end"):
    """The end of a stream: the version of its last event, its last cursor, and the digest of its last row.

    The version is -1 if the stream has no events, the cursor 0 if it has no announcements. `places` is the digest of
    the positions of its events, and `sealed` the digest of its sealed rows, up to the cursor `sealed_to`. A
    checkpoint holds ends in this form.
    """

    name: str
    version: int
    cursor: int
    digest: Hex
    places: Hex
    sealed_to: int
    sealed: Hex


class Places:
    """Digests what the stream's row digests do not cover, in order: positions, and the content of redacted rows."""

    __slots__ = ("_digest", "_last")

    def __init__(self) -> None:
        """Start with no rows."""
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._last = array("q")

    def add(self, position: int) -> None:
        """Add the position of the next row with events."""
        self._last.append(position)
        if len(self._last) == _POSITIONS_AT_ONCE:
            self._digest_buffered()

    def redacted(self, part: bytes) -> None:
        """Add the digest of the row's present content, if the row was redacted."""
        self._digest_buffered()
        self._digest.update(_PART(0, 0, len(part)))
        self._digest.update(part)

    def digest(self) -> str:
        """Return the digest over everything added."""
        self._digest_buffered()
        return self._digest.hexdigest()

    def _digest_buffered(self) -> None:
        if sys.byteorder == "big":
            self._last.byteswap()
        self._digest.update(self._last.tobytes())
        self._last = array("q")


class Sealed:
    """Digests the sealed feed rows of a stream, which replace others, in order."""

    __slots__ = ("_digest", "_last")

    def __init__(self) -> None:
        """Start with no rows."""
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._last = 0

    def add(self, first_cursor: int, last_cursor: int, part: bytes) -> None:
        """Add the digest of the next sealed row."""
        self._digest.update(_PART(first_cursor, last_cursor, len(part)))
        self._digest.update(part)
        self._last = last_cursor

    def end(self) -> tuple[int, str]:
        """Return the last cursor of the sealed rows, 0 if there are none, and the digest over them."""
        return self._last, self._digest.hexdigest()
