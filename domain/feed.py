"""What the part `feed` of a row holds: segments that stand there in full, and what others are derived from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

Segment = TypeVar("Segment")


class FeedPart(msgspec.Struct, Generic[Segment], frozen=True, array_like=True, gc=False):
    """What stands in a row: segments in full, then what is announced of its events.

    `version` is that of what derives it, 0 if nothing is derived, and `needs` what that needs beside the events.
    """

    segments: Sequence[Segment]
    version: int = 0
    needs: msgspec.Raw = msgspec.Raw()


_encode: Final = msgspec.msgpack.Encoder().encode


def pack_feed(segments: object, version: int = 0, needs: bytes | msgspec.Raw = b"") -> bytes:
    """Return the part as it is stored."""
    return _encode((segments, version, msgspec.Raw(needs)) if version else (segments,))
