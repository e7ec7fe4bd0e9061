"""The hash chain and its records, where the journal looks for them."""

from __future__ import annotations

from reenact.domain.chain import (
    DIGEST_SIZE,
    FEED_GENESIS,
    STREAM_GENESIS,
    FeedRecord,
    Record,
    Timer,
    event_digest,
    feed_digest,
    record_seal,
    request_proof,
    seal_digest,
)

__all__ = [
    "DIGEST_SIZE",
    "FEED_GENESIS",
    "STREAM_GENESIS",
    "FeedRecord",
    "Record",
    "Timer",
    "event_digest",
    "feed_digest",
    "record_seal",
    "request_proof",
    "seal_digest",
]
