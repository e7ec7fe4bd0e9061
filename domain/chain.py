"""The hash chain: each record carries a digest of itself and of the record before it, so no history changes unseen."""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

import msgspec

DIGEST_SIZE = 32

STREAM_GENESIS = blake2b(b"reenact: the first event of a stream", digest_size=DIGEST_SIZE).digest()
"""What stands for the record before the first event of a stream."""

FEED_GENESIS = blake2b(b"reenact: the first row of a feed", digest_size=DIGEST_SIZE).digest()
"""What stands for the row before the first one of a topic's feed."""

# The lengths of two of three byte strings and the fixed size of the rest leave one way to cut the input into its parts.
_EVENT_HEADER = Struct(">IqI").pack
_CAUSE_HEADER = Struct(">IqII").pack
_FEED_HEADER = Struct(">Iqq").pack
_SEAL_HEADER = Struct(">IIIqq").pack
_RECORD_SEAL_HEADER = Struct(">IIIqI").pack
_REQUEST_HEADER = Struct(">IIIq").pack
_LENGTH = Struct(">I").pack

# What is digested for a seal is never what is digested for a row, or for a record, with a cause or without.
_CAUSE = b"reenact: a cause"
_CAUSE_SEAL = b"reenact: cleared"
_SEAL = b"reenact: a seal"
_RECORD_SEAL = b"reenact: redact"
_REQUEST = b"reenact: request"


def event_digest(
    previous: bytes, stream: bytes, version: int, topic: bytes, state: bytes, *, cause: bytes | None = None
) -> bytes:
    """Return the digest of an event that follows the record with the digest `previous` in its stream."""
    if cause is None:
        header = _EVENT_HEADER(len(stream), version, len(topic))
        return blake2b(b"".join((previous, header, stream, topic, state)), digest_size=DIGEST_SIZE).digest()
    header = _CAUSE_HEADER(len(stream), version, len(topic), len(cause))
    content = b"".join((previous, header, stream, topic, cause, state))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_CAUSE).digest()


def feed_digest(previous: bytes, topic: bytes, first_cursor: int, count: int, segments: bytes) -> bytes:
    """Return the digest of a feed row that follows the row with the digest `previous` in its topic."""
    header = _FEED_HEADER(len(topic), first_cursor, count)
    return blake2b(b"".join((previous, header, topic, segments)), digest_size=DIGEST_SIZE).digest()


def seal_digest(
    previous: bytes, topic: bytes, first_cursor: int, count: int, segments: bytes, *, digest: bytes
) -> bytes:
    """Return the seal of a feed row that stands in place of others and keeps the `digest` of the last one of them.

    It follows the row with the digest `previous` in its topic; the row behind it follows `digest`, as it always has.
    """
    header = _SEAL_HEADER(len(previous), len(digest), len(topic), first_cursor, count)
    content = b"".join((header, previous, digest, topic, segments))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_SEAL).digest()


def record_seal(
    previous: bytes,
    stream: bytes,
    version: int,
    topic: bytes,
    state: bytes,
    *,
    digest: bytes,
    cause: bytes | None = None,
) -> bytes:
    """Return the seal of a redacted event, whose state or cause is no longer the one that its `digest` is of.

    It follows the record with the digest `previous` in its stream; the record behind it follows `digest`, as it always
    has.
    """
    header = _RECORD_SEAL_HEADER(len(previous), len(digest), len(stream), version, len(topic))
    if cause is None:
        content = b"".join((header, previous, digest, stream, topic, state))
        return blake2b(content, digest_size=DIGEST_SIZE, person=_RECORD_SEAL).digest()
    content = b"".join((header, _LENGTH(len(cause)), previous, digest, stream, topic, cause, state))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_CAUSE_SEAL).digest()


def request_proof(request_id: bytes, digest: bytes, note: bytes, at: int) -> bytes:
    """Return the digest of a request that has taken effect, as it is remembered: no other record is in it."""
    header = _REQUEST_HEADER(len(request_id), len(digest), len(note), at)
    content = b"".join((header, request_id, digest, note))
    return blake2b(content, digest_size=DIGEST_SIZE, person=_REQUEST).digest()


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event as its bytes stand in a log; with a `seal` if it was redacted, and a `cause` if it begins a step."""

    stream: str
    version: int
    position: int
    topic: str
    state: bytes
    digest: bytes
    seal: bytes | None = None
    cause: bytes | None = None

    def follows(self, previous: bytes) -> bool:
        """Return whether it is as it was written, behind the record of its stream with the digest `previous`."""
        content = (previous, self.stream.encode(), self.version, self.topic.encode(), self.state)
        if self.seal is None:
            return self.digest == event_digest(*content, cause=self.cause)
        return self.seal == record_seal(*content, digest=self.digest, cause=self.cause)

    def redacted(self, previous: bytes, topic: str, state: bytes, cause: bytes | None = None) -> Record:
        """Return the record with another state and cause, sealed; `previous` is as above."""
        content = (previous, self.stream.encode(), self.version, topic.encode(), state)
        seal = record_seal(*content, digest=self.digest, cause=cause)
        return Record(self.stream, self.version, self.position, topic, state, self.digest, seal, cause)


class FeedRecord(msgspec.Struct, frozen=True, gc=False):
    """A row of a topic's feed as its bytes stand in a log; with a `seal` if it stands in place of others."""

    topic: str
    first_cursor: int
    count: int
    segments: bytes
    digest: bytes
    seal: bytes | None = None

    @property
    def last_cursor(self) -> int:
        """The last of its cursors."""
        return self.first_cursor + self.count - 1

    def follows(self, previous: bytes) -> bool:
        """Return whether it is as it was written, behind the row of its topic with the digest `previous`."""
        topic, first, count = self.topic.encode(), self.first_cursor, self.count
        if self.seal is None:
            return self.digest == feed_digest(previous, topic, first, count, self.segments)
        return self.seal == seal_digest(previous, topic, first, count, self.segments, digest=self.digest)

    def redacted(self, previous: bytes, segments: bytes) -> FeedRecord:
        """Return the row with other segments, sealed; `previous` is as above."""
        topic, first, count = self.topic.encode(), self.first_cursor, self.count
        seal = seal_digest(previous, topic, first, count, segments, digest=self.digest)
        return FeedRecord(self.topic, first, count, segments, self.digest, seal)


class Timer(msgspec.Struct, frozen=True, gc=False):
    """When a stream is to be woken, in microseconds since 1970-01-01 UTC."""

    stream: str
    due: int
