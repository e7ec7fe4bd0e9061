"""Encryption of the content of tables, with the keys of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

from reenact.domain.chain import DataKey

_Cell = TypeVar("_Cell")

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
