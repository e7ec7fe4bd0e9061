"""Shards: groups of streams that have one owner, when several machines write one log."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

SHARDS: Final = 256
"""How many shards a new log has. A log keeps the number that it was created with."""

_SESSIONS: Final = "session/"
_CHILD: Final = re.compile("ses_[0-9a-f]{26}_([0-9a-f]{16})")


def shard_of(stream: str, *, count: int = SHARDS) -> int:
    """Return the shard of a stream, from 0 to `count` - 1: the same in every process and version.

    A session's stream is hashed by the session's id, any other by its whole name; a branch is hashed as any other
    session. The id of a child session ends with the key of the session at the root of its family, so that a family has
    one owner.
    """
    return _hash(stream) % count


def child_key(root: str) -> str:
    """Return the suffix, behind a `_`, of the id of each child session in the family of this root."""
    return f"{_hash(_SESSIONS + root):016x}"


def is_child(session_id: str) -> bool:
    """Return whether the id has the form of a child session's id."""
    return _CHILD.fullmatch(session_id) is not None


@lru_cache(1 << 16)
def _hash(stream: str) -> int:
    key = stream.removeprefix(_SESSIONS)
    child = _CHILD.fullmatch(key)
    return int(child[1], 16) if child else int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
