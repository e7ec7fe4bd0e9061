"""What encrypts the content of tables: the keys of the log, which are on its side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

_Cell = TypeVar("_Cell")

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
