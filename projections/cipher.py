"""Encryption of the content of tables, with the keys of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

import msgspec

from reenact.domain.chain import DataKey, Row

_Cell = TypeVar("_Cell")

_events = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode
_pack = msgspec.msgpack.Encoder().encode

ENCRYPTED: Final = b"\xc1"
"""The first byte of encrypted values: the one byte with which no MessagePack value begins."""


class Cipher(Protocol):
    """The keys of a log: one for each session, and one for everything else. Thread-safe."""

    def seal(self, stream: str, plain: bytes) -> bytes:
        """Return the bytes encrypted with the key of the stream; if that was destroyed, bytes that nobody can read.

        Raises:
            StorageError: the key is not available now.
        """
        ...

    def opened(self, stored: bytes) -> bytes | None:
        """Return the decrypted bytes, unchanged if they are not encrypted; None if their key was destroyed.

        Raises:
            StorageError: the key is not available now, or the bytes were changed.
        """
        ...


class LearningCipher(Cipher, Protocol):
    """A cipher to which keys can be added."""

    def learn(self, key: DataKey) -> None:
        """Add a key, in its wrapped form."""
        ...


def opened(rows: Iterable[tuple[_Cell, ...]], cipher: Cipher | None) -> Iterator[tuple[_Cell | bytes | None, ...]]:
    """Yield the rows with their cells decrypted."""
    for row in rows:
        yield row if cipher is None else tuple([decrypted(cell, cipher) for cell in row])


def decrypted(cell: _Cell, cipher: Cipher) -> _Cell | bytes | None:
    """Return the cell decrypted, unchanged if it is not encrypted."""
    return cipher.opened(cell) if isinstance(cell, bytes) else cell


def beginning(column: str, size: int) -> str:
    """Return SQL for the first bytes of a packed value, or all bytes of an encrypted one; it takes `ENCRYPTED`."""
    return f"CASE WHEN substr({column}, 1, 1) = :encrypted THEN {column} ELSE substr({column}, 1, {size}) END"


def opened_row(row: Row, previous: bytes, cipher: Cipher) -> Row | None:
    """Return the row with its parts decrypted, and sealed; None if its key was destroyed.

    `previous` is the digest of the row before it.

    Raises:
        ValueError: its events are not packed as events are.
        StorageError: its key is not available now, or the row was changed.
    """
    cause, feed = (None if part is None else cipher.opened(part) for part in (row.cause, row.feed))
    pairs = [] if row.events is None else [(topic, cipher.opened(state)) for topic, state in _events(row.events)]
    is_lost = (cause is None and row.cause is not None) or (feed is None and row.feed is not None)
    if is_lost or any(state is None for _, state in pairs):
        return None
    events = _pack(pairs) if pairs else row.events
    return row.replaced(previous, cause=cause, events=events, feed=feed, cursor=row.cursor, heard=row.heard)
