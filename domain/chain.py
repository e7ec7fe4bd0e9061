"""The hash chain: each row carries a digest of itself and of the row before it, so that every change is detected."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from reenact.domain.structs import Frozen

Event_co = TypeVar("Event_co", covariant=True)

DIGEST_SIZE = 32

GENESIS = blake2b(b"reenact: the first row of a stream", digest_size=DIGEST_SIZE).digest()
"""The previous digest of a stream's first row, which has no row before it."""

NOTHING = bytes(DIGEST_SIZE)
"""The digest of a part that a row does not have."""

End: TypeAlias = tuple[int, int, bytes]
"""The end of a stream: the version of its last event (-1 if it has none), its last cursor, its last row's digest."""

BEGINNING: Final[End] = (-1, 0, GENESIS)
"""The end of a stream without rows."""

Parts: TypeAlias = tuple[bytes, bytes, bytes]
"""The digests of a row's cause, events and feed, as they are stored."""

# The lengths of the two texts and the fixed size of the rest make the encoding unambiguous. The last number is always
# 0.
_HEADER = struct.Struct(">IIqqqqqq").pack
_ORIGINAL = struct.Struct(f">{DIGEST_SIZE}s{DIGEST_SIZE}s{DIGEST_SIZE}s{DIGEST_SIZE}sqq")
ORIGINAL_SIZE = _ORIGINAL.size
_REQUEST_HEADER = struct.Struct(">IIIq").pack

# Rows, seals and requests are digested with different `person` values, so that their digests never coincide.
_SEAL = b"reenact: a seal"
_REQUEST = b"reenact: request"


def part_digest(part: bytes | None) -> bytes:
    """Return the digest of a part of a row."""
    return NOTHING if part is None else blake2b(part, digest_size=DIGEST_SIZE).digest()


def header_of(
    stream: bytes,
    recorded_at: int,
    *,
    version: int,
    count: int,
    cursor: int,
    heard: int,
    key: bytes = b"",
) -> bytes:
    """Return the digested fields of a row other than its parts: its stream, time, version, cursor, counts and key.

    The number, the position and the epoch are left out: they belong to the log, and a stream can move to another log.
    The version is left out if the row has no events, and the cursor if it has no announcements.
    """
    place, first = version if count else -1, cursor if heard else 0
    return _HEADER(len(stream), len(key), recorded_at, place, count, first, heard, 0) + stream + key


def row_digest(previous: bytes, parts: Parts, header: bytes) -> bytes:
    """Return the digest of a row that follows the one with the digest `previous` in its stream."""
    return blake2b(b"".join((previous, *parts, header)), digest_size=DIGEST_SIZE).digest()


def seal_digest(previous: bytes, parts: Parts, header: bytes, *, digest: bytes, original: bytes) -> bytes:
    """Return the seal of a row whose content was changed: it keeps `digest`, which was computed over its `original`."""
    content = b"".join((previous, *parts, digest, original, header))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_SEAL).digest()


def request_proof(request_id: bytes, digest: bytes, note: bytes, at: int) -> bytes:
    """Return the digest of a completed request as the log stores it; it covers this record alone."""
    header = _REQUEST_HEADER(len(request_id), len(digest), len(note), at)
    content = b"".join((header, request_id, digest, note))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_REQUEST).digest()


class Row(Frozen):
    """A row of a log as it is stored: everything of one stream that became durable together.

    It holds `count` events from `version` and `position` on, `heard` announcements from `cursor` on, or both. If it has
    no events or no announcements, these are the values that the next ones will get, or 0 in a row that is in no log
    yet.

    A row can be changed later: its announcements replace its own and those of earlier rows, or data was removed from
    its events. It then keeps its `digest`; `original` holds the digests and places over which that was computed, and
    `seal` is the digest of the changed content.
    """

    number: int
    stream: str
    recorded_at: int
    version: int
    position: int
    count: int
    cursor: int
    heard: int
    key: str | None
    epoch: int
    digest: bytes
    original: bytes | None
    seal: bytes | None
    cause: bytes | None
    events: bytes | None
    feed: bytes | None

    def end(self, before: End) -> End:
        """Return the end of the stream after this row, given the end before it."""
        version, cursor, _ = before
        return (
            self.version + self.count - 1 if self.count else version,
            self.cursor + self.heard - 1 if self.heard else cursor,
            self.digest,
        )

    def missing(self, before: End) -> tuple[Literal["version", "cursor"], int] | None:
        """Return the version or cursor that is missing between this end of the stream and the row; None if none is."""
        version, cursor, _ = before
        # A stream that another library began may start at version 0.
        if self.count and self.version != version + 1 and (version, self.version) != (-1, 1):
            return "version", max(1, version + 1)
        return ("cursor", cursor + 1) if self.heard and self.cursor != cursor + 1 else None

    @property
    def is_redacted(self) -> bool:
        """Whether data was removed from its events or from its cause."""
        return self.original is not None and _ORIGINAL.unpack(self.original)[1:3] != self._parts()[:2]

    @property
    def is_replaced(self) -> bool:
        """Whether its announcements replace those of other rows."""
        if self.original is None:
            return False
        *_, feed, cursor, heard = _ORIGINAL.unpack(self.original)
        return (feed, cursor, heard) != (part_digest(self.feed), self._heard_from, self.heard)

    def follows(self, previous: bytes) -> bool:
        """Return whether the row is unchanged, or validly sealed, and follows the row with the digest `previous`.

        Returns False, and does not raise, if the stored values have unexpected types: a file can hold anything in its
        cells.
        """
        try:
            return self._follows(previous)
        except (AttributeError, TypeError, UnicodeError, struct.error):
            return False

    def replaced(
        self,
        previous: bytes,
        *,
        cause: bytes | None,
        events: bytes | None,
        feed: bytes | None,
        cursor: int,
        heard: int,
        behind: bytes | None = None,
    ) -> Row:
        """Return the row with other parts, sealed.

        `previous` is the digest of the row before it. `behind` is the digest of an earlier row that the new row shall
        follow instead, if it also replaces the rows in between.
        """
        original = self.original or _ORIGINAL.pack(previous, *self._parts(), self._heard_from, self.heard)
        changed = msgspec.structs.replace(
            self,
            cause=cause,
            events=events,
            feed=feed,
            cursor=cursor,
            heard=heard,
            original=original,
        )
        seal = changed._seal(previous if behind is None else behind, original)  # noqa: SLF001 - of the same class
        return msgspec.structs.replace(changed, seal=seal)

    def _follows(self, previous: bytes) -> bool:
        header = self._header(self.cursor, self.heard)
        if self.seal is None or self.original is None:
            return self.seal is self.original and self.digest == row_digest(previous, self._parts(), header)
        before, cause, events, feed, cursor, heard = _ORIGINAL.unpack(self.original)
        written = row_digest(before, (cause, events, feed), self._header(cursor, heard))
        return self.digest == written and self.seal == self._seal(previous, self.original)

    def _parts(self) -> Parts:
        return part_digest(self.cause), part_digest(self.events), part_digest(self.feed)

    @property
    def _heard_from(self) -> int:
        return self.cursor if self.heard else 0

    def _header(self, cursor: int, heard: int) -> bytes:
        return header_of(
            self.stream.encode(),
            self.recorded_at,
            version=self.version,
            count=self.count,
            cursor=cursor,
            heard=heard,
            key=(self.key or "").encode(),
        )

    def _seal(self, previous: bytes, original: bytes) -> bytes:
        header = self._header(self.cursor, self.heard)
        return seal_digest(previous, self._parts(), header, digest=self.digest, original=original)


class Passed(Frozen, Generic[Event_co]):
    """A row that has passed the check of the chain: its events, if they are decoded, and its feed part, still encoded.

    `stored` are the events as encoded in the row. The row has `heard` cursors from `cursor` on; it is sealed if its
    announcements replace others.
    """

    events: Sequence[Event_co]
    cursor: int
    heard: int
    feed: bytes | None
    stored: bytes | None
    is_sealed: bool


class Timer(Frozen):
    """The time at which a stream's actor is to be woken, in microseconds since 1970-01-01 UTC."""

    stream: str
    due: int


class DataKey(Frozen):
    """A data key of a log as it is stored: wrapped by a key ring; `wrapped` is None once the key was destroyed.

    `stream` is the stream that it encrypts, "" for all streams without a key of their own. The id is 16 hexadecimal
    digits.
    """

    id: str
    stream: str
    wrapped: bytes | None
