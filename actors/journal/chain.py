"""The hash chain and its rows, where the journal looks for them."""

from __future__ import annotations

from reenact.domain.chain import (
    DIGEST_SIZE,
    GENESIS,
    Passed,
    Row,
    Timer,
    header_of,
    part_digest,
    request_proof,
    row_digest,
)

__all__ = [
    "DIGEST_SIZE",
    "GENESIS",
    "Passed",
    "Row",
    "Timer",
    "header_of",
    "part_digest",
    "request_proof",
    "row_digest",
]
