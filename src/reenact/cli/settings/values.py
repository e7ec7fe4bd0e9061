"""Types and limits of values that both options and settings have."""

from __future__ import annotations

from enum import StrEnum

LARGEST_NUMBER = 1_000_000_000
LONGEST_TIMEOUT = 1_000_000
"""Seconds, more than 11 days: the system waits no longer than 24 days for a stream."""


class OutputFormat(StrEnum):
    """The formats in which the answer to a prompt is printed."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"
