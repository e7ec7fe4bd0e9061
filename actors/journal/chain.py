"""The hash chain, where the journal looks for it."""

from __future__ import annotations

from reenact.domain.chain import (
    DIGEST_SIZE,
    FEED_GENESIS,
    STREAM_GENESIS,
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
    "event_digest",
    "feed_digest",
    "record_seal",
    "request_proof",
    "seal_digest",
]
