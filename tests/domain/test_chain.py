"""A record follows another one as it was written, or as it was redacted, and nothing else passes for it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.chain import (
    FEED_GENESIS,
    STREAM_GENESIS,
    FeedRecord,
    Record,
    event_digest,
    feed_digest,
    request_proof,
)

_bytes = st.binary(max_size=5)
_previous = st.sampled_from([STREAM_GENESIS, FEED_GENESIS, b"x" * 32])


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, Record]:
    previous, stream, version = draw(_previous), draw(st.text(max_size=3)), draw(st.integers(1, 3))
    topic, state = draw(st.sampled_from(["a:1", "b:1"])), draw(_bytes)
    digest = event_digest(previous, stream.encode(), version, topic.encode(), state)
    return previous, Record(stream, version, 9, topic, state, digest)


@given(one=records(), other=records(), topic=st.sampled_from(["a:1", "b:1"]), state=_bytes)
def test_a_record_follows_where_it_was_written_also_when_it_is_redacted(
    one: tuple[bytes, Record], other: tuple[bytes, Record], topic: str, state: bytes
) -> None:
    previous, record = one
    redacted = record.redacted(previous, topic, state)

    assert record.follows(previous)
    assert redacted.follows(previous)
    assert (redacted.topic, redacted.state, redacted.digest) == (topic, state, record.digest)
    assert record.follows(other[0]) == redacted.follows(other[0]) == (previous == other[0])
    for changed in ({"state": state + b"x"}, {"version": 7}, {"stream": "other"}, {"topic": "c:1"}):
        assert not msgspec.structs.replace(redacted, **changed).follows(previous)
        assert not msgspec.structs.replace(record, **{"state": record.state + b"x", **changed}).follows(previous)
    assert not msgspec.structs.replace(redacted, digest=b"y" * 32).follows(previous)
    assert not msgspec.structs.replace(record, seal=record.digest).follows(previous)


@given(previous=_previous, topic=st.text(max_size=3), first=st.integers(1, 9), count=st.integers(1, 9), less=_bytes)
def test_a_row_follows_likewise(previous: bytes, topic: str, first: int, count: int, less: bytes) -> None:
    digest = feed_digest(previous, topic.encode(), first, count, b"segments")
    row = FeedRecord(topic, first, count, b"segments", digest)
    redacted = row.redacted(previous, less)

    assert row.follows(previous)
    assert redacted.follows(previous)
    assert (redacted.segments, redacted.digest, redacted.last_cursor) == (less, digest, first + count - 1)
    for changed in ({"segments": b"other"}, {"first_cursor": 10}, {"count": 10}, {"topic": "other"}):
        assert not msgspec.structs.replace(row, **changed).follows(previous)
        assert not msgspec.structs.replace(redacted, **changed).follows(previous)
    assert not row.follows(b"z" * 32)
    assert not redacted.follows(b"z" * 32)


_request = st.tuples(_bytes, _bytes, _bytes, st.integers(0, 3))


@given(one=_request, other=_request)
def test_only_equal_requests_have_equal_proofs(
    one: tuple[bytes, bytes, bytes, int], other: tuple[bytes, bytes, bytes, int]
) -> None:
    assert (request_proof(*one) == request_proof(*other)) == (one == other)
