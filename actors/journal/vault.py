"""The data keys of a log, one per session and one for everything else: created, wrapped, found and destroyed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from reenact.actors.journal.key_ring import KEY_SIZE, KeyRing, cipher_of
from reenact.actors.journal.seeking import Cells, Select
from reenact.domain.chain import DataKey
from reenact.domain.errors import LogEncryptedError, LogUnusableError, StorageError

if TYPE_CHECKING:
    from eventsourcing.persistence import Cipher

SEALED: Final = b"\xc1"
"""The first byte of encrypted data, before the key's id: the one byte with which no MessagePack begins."""
ID_SIZE: Final = 8
_BEGIN = len(SEALED) + ID_SIZE
SHORTEST: Final = _BEGIN + 28
"""The minimum length of encrypted data: a nonce of 12 bytes and a tag of 16 follow the key's id."""

LOG: Final = ""
"""Used in place of a stream for everything that has no key of its own."""

_SESSION_PREFIX = "session/"
"""The prefix of streams that have keys of their own, because sessions can be forgotten."""

_KEYS = "SELECT id, stream, wrapped FROM keys"
_ANY = f"{_KEYS} WHERE wrapped IS NOT NULL LIMIT 1"
_ALL = f"{_KEYS} ORDER BY id"
_BY_ID = f"{_KEYS} WHERE id = ?"
# Destroyed keys come first: a stream that was forgotten gets no new key.
_OF_STREAM = f"{_KEYS} WHERE stream = ? ORDER BY wrapped IS NOT NULL, id LIMIT 1"

KEPT = 10_000
"""How many keys are cached at most, by id and by stream."""

AGE = 5.0
"""Seconds for which a cached key is used without checking whether another process has destroyed it."""


class Key:
    """A data key in memory. It has a `row` as long as it is not in the log yet."""

    __slots__ = ("_begin", "_cipher", "id", "row", "seen", "stream")

    def __init__(self, key_id: str, stream: str, cipher: Cipher | None, row: DataKey | None = None) -> None:
        """Use the cipher with this key, None if the key was destroyed."""
        self.id = key_id
        self.stream = stream
        self.row = row
        self.seen = time.monotonic()
        self._cipher = cipher
        self._begin = SEALED + bytes.fromhex(key_id)

    @property
    def is_destroyed(self) -> bool:
        """Whether the key was destroyed, so that nothing encrypted with it can be read."""
        return self._cipher is None

    @property
    def blank(self) -> bytes:
        """A placeholder for data encrypted with a destroyed key."""
        return self._begin + bytes(SHORTEST - _BEGIN)

    def seal(self, plain: bytes) -> bytes:
        """Return the bytes encrypted.

        Raises:
            StorageError: the key was destroyed.
        """
        if self._cipher is None:
            raise StorageError(f"the key of {self.stream!r} was destroyed; nothing more is recorded there")
        return self._begin + self._cipher.encrypt(plain)

    def open(self, sealed: bytes) -> bytes | None:
        """Return the bytes decrypted, None if the key was destroyed.

        Raises:
            ValueError: the bytes were changed.
        """
        return None if self._cipher is None else self._cipher.decrypt(sealed[_BEGIN:])


class Vault:
    """The keys of one log. Thread-safe: threads that need the same key at the same time may each read the log."""

    def __init__(self, ring: KeyRing | None, select: Select, *, name: str, age: float | None = None) -> None:
        """Use the keys of a log.

        Args:
            ring: unwraps the keys; without one, encrypted data cannot be read.
            select: reads the log's tables.
            name: the log's name in error messages.
            age: seconds after which to check again whether another process has destroyed a key; None if none can.
        """
        self._ring = ring
        self._select = select
        self._name = name
        self.age = age
        self._unstored_keys: dict[str, Cells] = {}
        self._by_id: dict[str, Key] = {}
        self._by_owner: dict[str, Key] = {}

    @property
    def has_ring(self) -> bool:
        """Whether there is a key ring, so that written data is encrypted."""
        return self._ring is not None

    def check(self, keep: Callable[[DataKey], object]) -> None:
        """Unwrap a key of the log, so that a wrong key ring is noticed at once, and prepare the log's own key.

        If that key is new, `keep` writes it to the log: not all that is encrypted with it is in the log, such as
        messages between nodes.

        Raises:
            WrongKeyError: the key ring is that of another log.
            KeyRingError: the key ring cannot be used now.
            LogEncryptedError: the log is encrypted, and there is no key ring.
        """
        found = self._select(_ANY, ())
        if found:
            self._key_of_row(found[0])
        if self._ring is not None:
            key = self.key_of(LOG)
            if key.row is not None:
                keep(key.row)
                key.row = None  # it is in the log now

    def prepare(self, stream: str) -> None:
        """Prepare the key of a stream before it is written, so that the writer does not wait for the key ring.

        Errors here are raised again when the stream is written.
        """
        with suppress(StorageError):
            self.key_of(stream)

    def key_of(self, stream: str) -> Key:
        """Return the key for writing a stream: its own, or the log's if it has none.

        Raises:
            KeyRingError: the key cannot be unwrapped, or no key can be created, now.
        """
        owner = _owner_of(stream)
        key = self._by_owner.get(owner)
        if key is None:
            key = self._by_owner.setdefault(owner, self._stored_key(owner) or self._create_key(owner))
            self._cache(key)
        return key

    def seal(self, stream: str, plain: bytes) -> bytes:
        """Return the bytes encrypted with the key of the stream, or unreadable bytes if that was destroyed.

        This is for data derived from the log. If the log has no key for the stream, all of the stream is unencrypted,
        so the bytes are returned unchanged, rather than encrypted with a new key that may never get into the log.

        Raises:
            KeyRingError: the key cannot be unwrapped now.
            LogEncryptedError: there is no key ring.
        """
        key = self._stored_key(_owner_of(stream))
        if key is None:
            return plain
        return key.blank if key.is_destroyed else key.seal(plain)

    def opened(self, stored: bytes) -> bytes | None:
        """Return stored bytes, decrypted if they are encrypted; None if their key was destroyed.

        Raises:
            KeyRingError: the key cannot be unwrapped, or not now.
            LogEncryptedError: there is no key ring.
            LogUnusableError: the bytes were changed.
        """
        if stored[:1] != SEALED or len(stored) < SHORTEST:
            return stored
        key_id = _key_id_of(stored)
        key = self._by_id.get(key_id)
        if key is None or (self.age is not None and time.monotonic() - key.seen > self.age):
            key = self._read_key(key_id, key)
        try:
            return key.open(stored)
        except ValueError as error:
            message = f"{self._name}: what was encrypted was changed ({error}); verify the log"
            raise LogUnusableError(message) from error

    def owner_of(self, sealed: bytes) -> str:
        """Return the stream with whose key these bytes were encrypted."""
        key_id = _key_id_of(sealed)
        return (self._by_id.get(key_id) or self._read_key(key_id, None)).stream

    def all(self) -> list[DataKey]:
        """Return the keys of the log in wrapped form."""
        return [DataKey(_text(key_id), _text(stream), wrapped) for key_id, stream, wrapped in self._select(_ALL, ())]

    def learn(self, key: DataKey) -> None:
        """Use a wrapped key that is not in the log."""
        self._unstored_keys[key.id] = key.id, key.stream, key.wrapped

    def forget(self, stream: str) -> None:
        """Drop the cached keys of a stream, which were destroyed; they are read from the log again when needed."""
        self._by_owner.pop(stream, None)
        for key in list(self._by_id.values()):
            if key.stream == stream:
                self._by_id.pop(key.id, None)

    def _stored_key(self, owner: str) -> Key | None:
        """Return the log's key for this owner, None if it has none."""
        key = self._by_owner.get(owner)
        if key is not None and key.row is None:
            return key
        rows = self._select(_OF_STREAM, (owner,))
        if not rows:
            return None
        if key is None or key.id != _text(rows[0][0]):  # the append with the cached key may have been refused
            key = self._by_owner[owner] = self._key_of_row(rows[0])
            self._cache(key)
        return key

    def _read_key(self, key_id: str, known: Key | None) -> Key:
        rows = self._select(_BY_ID, (key_id,))
        if not rows and key_id in self._unstored_keys:
            rows = [self._unstored_keys[key_id]]
        if not rows:
            if known is not None and known.row is not None:
                return known
            raise LogUnusableError(f"{self._name} has no key {key_id}, which a record needs; verify it")
        key = self._key_of_row(rows[0])
        self._cache(key)
        return key

    def _cache(self, key: Key) -> None:
        for keys in (self._by_id, self._by_owner):
            if len(keys) > KEPT:
                keys.clear()
        self._by_id[key.id] = key

    def _key_of_row(self, cells: Cells) -> Key:
        """Return the key of a row of the log; a key that was unwrapped before is not unwrapped again."""
        key_id, stream, wrapped = _text(cells[0]), _text(cells[1]), cells[2]
        if wrapped is None:
            return Key(key_id, stream, None)
        known = self._by_id.get(key_id)
        if known is not None and not known.is_destroyed:
            known.seen = time.monotonic()
            return known
        if not isinstance(wrapped, bytes):
            raise LogUnusableError(f"{self._name} has another value in place of the key {key_id}; verify it")
        if self._ring is None:
            raise LogEncryptedError(self._name)
        return Key(key_id, stream, cipher_of(self._ring.unwrap(wrapped)))

    def _create_key(self, owner: str) -> Key:
        if self._ring is None:
            raise LogEncryptedError(self._name)
        key, key_id = os.urandom(KEY_SIZE), os.urandom(ID_SIZE).hex()
        return Key(key_id, owner, cipher_of(key), DataKey(key_id, owner, self._ring.wrap(key)))


def _key_id_of(sealed: bytes) -> str:
    return sealed[len(SEALED) : _BEGIN].hex()


def _owner_of(stream: str) -> str:
    return stream if stream.startswith(_SESSION_PREFIX) else LOG


def _text(cell: object) -> str:
    # Verification reads text as the stored bytes.
    return cell.decode() if isinstance(cell, bytes | bytearray) else str(cell)
