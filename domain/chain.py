"""The hash chain: each row carries a digest of itself and of the row before it, so that no history changes unseen."""

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
"""What stands for the row before the first one of a stream."""

NOTHING = bytes(DIGEST_SIZE)
"""What stands for the digest of a part that a row does not have."""

End: TypeAlias = tuple[int, int, bytes]
"""Where a stream ends: the version of its last event, -1 if it has none, its last cursor, and its last row's digest."""

BEGINNING: Final[End] = (-1, 0, GENESIS)
"""Where a stream ends that has no rows."""

Parts: TypeAlias = tuple[bytes, bytes, bytes]
"""The digests of a row's cause, events and feed, as they are stored."""

# The lengths of the two texts and the fixed size of the rest leave one way to cut the input into its parts. The last
# number is always 0.
_HEADER = struct.Struct(">IIqqqqqq").pack
_ORIGINAL = struct.Struct(f">{DIGEST_SIZE}s{DIGEST_SIZE}s{DIGEST_SIZE}s{DIGEST_SIZE}sqq")
ORIGINAL_SIZE = _ORIGINAL.size
_REQUEST_HEADER = struct.Struct(">IIIq").pack

# What is digested for a seal is never what is digested for a row.
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
    """Return what is digested of a row beside its parts.

    Neither number nor position nor epoch is: they are the log's, and a stream can go to another log. Nor is the version
    if it has no events, or the cursor if nothing is heard.
    """
    place, first = version if count else -1, cursor if heard else 0
    return _HEADER(len(stream), len(key), recorded_at, place, count, first, heard, 0) + stream + key


def row_digest(previous: bytes, parts: Parts, header: bytes) -> bytes:
    """Return the digest of a row that follows the one with the digest `previous` in its stream."""
    return blake2b(b"".join((previous, *parts, header)), digest_size=DIGEST_SIZE).digest()


def seal_digest(previous: bytes, parts: Parts, header: bytes, *, digest: bytes, original: bytes) -> bytes:
    """Return the seal of a row that keeps its `digest`, which is of its `original`, and says something else now."""
    content = b"".join((previous, *parts, digest, original, header))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_SEAL).digest()


def request_proof(request_id: bytes, digest: bytes, note: bytes, at: int) -> bytes:
    """Return the digest of a request that has taken effect, as it is remembered: no other record is in it."""
    header = _REQUEST_HEADER(len(request_id), len(digest), len(note), at)
    content = b"".join((header, request_id, digest, note))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_REQUEST).digest()


class Row(Frozen):
    """A row of a log as its bytes stand there: what became durable of a stream together.

    It holds `count` events from `version` and `position` on, `heard` announcements from `cursor` on, or both. If it has
    none, these are what the next ones get, or 0 in a row that is in no log yet. What stands in it may be less than what
    was written: announcements in the place of its own and those of rows before it, or events out of which something
    was taken. Then it keeps its digest; `original` is what that is of, beside what never changes, and `seal` is over
    what it says now.
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
        """Return where its stream ends with it, behind that end."""
        version, cursor, _ = before
        return (
            self.version + self.count - 1 if self.count else version,
            self.cursor + self.heard - 1 if self.heard else cursor,
            self.digest,
        )

    def missing(self, before: End) -> tuple[Literal["version", "cursor"], int] | None:
        """Return the version, or the cursor, that is missing between that end of its stream and the row."""
        version, cursor, _ = before
        # A stream that another library has begun may start at 0.
        if self.count and self.version != version + 1 and (version, self.version) != (-1, 1):
            return "version", max(1, version + 1)
        return ("cursor", cursor + 1) if self.heard and self.cursor != cursor + 1 else None

    @property
    def is_redacted(self) -> bool:
        """Whether something was taken out of its events, or of what caused them."""
        return self.original is not None and _ORIGINAL.unpack(self.original)[1:3] != self._parts()[:2]

    @property
    def is_replaced(self) -> bool:
        """Whether its announcements stand in the place of others."""
        if self.original is None:
            return False
        *_, feed, cursor, heard = _ORIGINAL.unpack(self.original)
        return (feed, cursor, heard) != (part_digest(self.feed), self._heard_from, self.heard)

    def follows(self, previous: bytes) -> bool:
        """Return whether it is as it was written, or sealed, behind the row of its stream with the digest `previous`.

        A file can hold anything in its cells.
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

        `previous` is the digest of the row before it. It is to come `behind` another one if it takes the place of
        those between them, too.
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
        seal = changed._seal(previous if behind is None else behind, original)  # noqa: SLF001 - one of its own
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
    """A row that is as it was written: its events, if they are decoded, and what it holds of the feed, still encoded.

    `stored` are the events as they stand in the row. It has `heard` cursors from `cursor` on; it is sealed if it stands
    in place of others.
    """

    events: Sequence[Event_co]
    cursor: int
    heard: int
    feed: bytes | None
    stored: bytes | None
    is_sealed: bool


class Timer(Frozen):
    """When a stream is to be woken, in microseconds since 1970-01-01 UTC."""

    stream: str
    due: int


class DataKey(Frozen):
    """A key of a log as it stands there: wrapped by a key ring, None once it was destroyed.

    `stream` is what it encrypts, "" for everything that has no key of its own. The id is 16 hexadecimal digits.
    """

    id: str
    stream: str
    wrapped: bytes | None
