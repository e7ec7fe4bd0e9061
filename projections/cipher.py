"""What encrypts the content of tables: the keys of the log, which are on its side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

import msgspec

from reenact.domain.chain import DataKey, Row

_Cell = TypeVar("_Cell")

_events = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode
_pack = msgspec.msgpack.Encoder().encode

ENCRYPTED: Final = b"\xc1"
"""What encrypted bytes begin with: the one byte that no MessagePack begins with."""


class Cipher(Protocol):
    """The keys of a log: one for each session, one for everything else. Thread-safe."""

    def seal(self, stream: str, plain: bytes) -> bytes:
        """Return the bytes encrypted with the key of the stream; if that was destroyed, what can be read by nobody.

        Raises:
            StorageError: the key cannot be had now.
        """
        ...

    def opened(self, stored: bytes) -> bytes | None:
        """Return the bytes as they were before they were encrypted, if they are; None if their key was destroyed.

        Raises:
            StorageError: their key cannot be had now, or they were changed.
        """
        ...


class LearningCipher(Cipher, Protocol):
    """One that is told the keys."""

    def learn(self, key: DataKey) -> None:
        """Take note of a key, as it is wrapped."""
        ...


def opened(rows: Iterable[tuple[_Cell, ...]], cipher: Cipher | None) -> Iterator[tuple[_Cell | bytes | None, ...]]:
    """Yield the rows with their cells as they were before they were encrypted."""
    for row in rows:
        yield row if cipher is None else tuple([decrypted(cell, cipher) for cell in row])


def decrypted(cell: _Cell, cipher: Cipher) -> _Cell | bytes | None:
    """Return the cell as it was before it was encrypted, if it is."""
    return cipher.opened(cell) if isinstance(cell, bytes) else cell


def beginning(column: str, size: int) -> str:
    """Return SQL for the beginning of a packed value, but for all of one that is encrypted; it takes `ENCRYPTED`."""
    return f"CASE WHEN substr({column}, 1, 1) = :encrypted THEN {column} ELSE substr({column}, 1, {size}) END"


def opened_row(row: Row, previous: bytes, cipher: Cipher) -> Row | None:
    """Return the row with its parts as they were before they were encrypted, sealed; None if its key was destroyed.

    `previous` is the digest of the row before it.

    Raises:
        ValueError: its events are packed otherwise than events are.
        StorageError: its key cannot be had now, or something was changed.
    """
    cause, feed = (None if part is None else cipher.opened(part) for part in (row.cause, row.feed))
    pairs = [] if row.events is None else [(topic, cipher.opened(state)) for topic, state in _events(row.events)]
    is_lost = (cause is None and row.cause is not None) or (feed is None and row.feed is not None)
    if is_lost or any(state is None for _, state in pairs):
        return None
    events = _pack(pairs) if pairs else row.events
    return row.replaced(previous, cause=cause, events=events, feed=feed, cursor=row.cursor, heard=row.heard)
