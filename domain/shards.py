"""Shards: which streams have one owner together, when several machines write one log."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

SHARDS: Final = 256
"""How many shards a new log has. A log keeps the number that it was made with."""

_SESSIONS: Final = "session/"


def shard_of(stream: str, *, count: int = SHARDS) -> int:
    """Return the shard of a stream, from 0 to `count` - 1: the same in every process and version.

    A session's stream goes by the session's id, any other by its whole name. A branch is a session as any other. For
    the stream of a child session, give that of the session at the root of its family: a family has one owner.
    """
    return _hash(stream) % count


@lru_cache(1 << 16)
def _hash(stream: str) -> int:
    key = stream.removeprefix(_SESSIONS)
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
