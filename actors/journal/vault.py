"""The data keys of a log: one for each session, one for everything else; made, wrapped, found, and destroyed."""

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
"""What encrypted bytes begin with, before the id of their key: the one byte that no MessagePack begins with."""
ID_SIZE: Final = 8
_BEGIN = len(SEALED) + ID_SIZE
SHORTEST: Final = _BEGIN + 28
"""The fewest bytes of what is encrypted: a nonce of 12 bytes and a tag of 16 come behind the id of the key."""

LOG: Final = ""
"""Stands in the place of a stream for everything that has no key of its own."""

_OWN = "session/"
"""What the names of streams begin with that have keys of their own: sessions can be forgotten."""

_KEYS = "SELECT id, stream, wrapped FROM keys"
_ANY = f"{_KEYS} WHERE wrapped IS NOT NULL LIMIT 1"
_ALL = f"{_KEYS} ORDER BY id"
_BY_ID = f"{_KEYS} WHERE id = ?"
# Those that were destroyed come first: a stream that was forgotten gets no other key.
_OF_STREAM = f"{_KEYS} WHERE stream = ? ORDER BY wrapped IS NOT NULL, id LIMIT 1"

KEPT = 10_000
"""So many keys are remembered at most, by their ids and by their streams."""

AGE = 5.0
"""Seconds for which it is believed of a key that nobody else has destroyed it."""


class Key:
    """A data key in memory. It has a `row` for as long as it is not in the log yet."""

    __slots__ = ("_begin", "_cipher", "id", "row", "seen", "stream")

    def __init__(self, key_id: str, stream: str, cipher: Cipher | None, row: DataKey | None = None) -> None:
        """Take what encrypts with it, None if it was destroyed."""
        self.id = key_id
        self.stream = stream
        self.row = row
        self.seen = time.monotonic()
        self._cipher = cipher
        self._begin = SEALED + bytes.fromhex(key_id)

    @property
    def is_destroyed(self) -> bool:
        """Whether it was destroyed, so that nobody can read what was encrypted with it."""
        return self._cipher is None

    @property
    def blank(self) -> bytes:
        """What stands for something that was encrypted with it."""
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
            ValueError: they were changed.
        """
        return None if self._cipher is None else self._cipher.decrypt(sealed[_BEGIN:])


class Vault:
    """The keys of one log. Thread-safe: threads that look for the same key at once may each read the log."""

    def __init__(self, ring: KeyRing | None, select: Select, *, name: str, age: float | None = None) -> None:
        """Take the keys of a log.

        Args:
            ring: unwraps them; without one nothing that is encrypted can be read.
            select: reads the log's tables.
            name: what messages call the log.
            age: seconds after which it is looked again whether somebody else has destroyed a key; None: nobody can.
        """
        self._ring = ring
        self._select = select
        self._name = name
        self.age = age
        self._learned: dict[str, Cells] = {}
        self._by_id: dict[str, Key] = {}
        self._by_owner: dict[str, Key] = {}

    @property
    def has_ring(self) -> bool:
        """Whether there is a key ring, so that what is written is encrypted."""
        return self._ring is not None

    def check(self, keep: Callable[[DataKey], object]) -> None:
        """Unwrap a key of the log, so that a wrong key ring is noticed at once, and have its own ready.

        If that is new, `keep` puts it into the log: what is encrypted with it need not be there, as messages of nodes.

        Raises:
            WrongKeyError: the key ring is that of another log.
            KeyRingError: it cannot be used now.
            LogEncryptedError: there is none, and the log is encrypted.
        """
        found = self._select(_ANY, ())
        if found:
            self._known(found[0])
        if self._ring is not None:
            key = self.key_of(LOG)
            if key.row is not None:
                keep(key.row)
                key.row = None  # it is in the log

    def prepare(self, stream: str) -> None:
        """Have the key of a stream ready before it is written, so that the writer does not wait for the key ring.

        What goes wrong here is said when it is written.
        """
        with suppress(StorageError):
            self.key_of(stream)

    def key_of(self, stream: str) -> Key:
        """Return the key with which a stream is written, the log's if it has none of its own.

        Raises:
            KeyRingError: the key cannot be unwrapped, or none be made, now.
        """
        owner = _owner_of(stream)
        key = self._by_owner.get(owner)
        if key is None:
            key = self._by_owner.setdefault(owner, self._of_log(owner) or self._made(owner))
            self._remember(key)
        return key

    def seal(self, stream: str, plain: bytes) -> bytes:
        """Return the bytes encrypted with the key of the stream; if that was destroyed, what can be read by nobody.

        They are what follows from the log. So they stay as they are if the log has no key for the stream, all of which
        it has in plain, and are not encrypted with a key that may never get there.

        Raises:
            KeyRingError: the key cannot be unwrapped now.
            LogEncryptedError: there is no key ring.
        """
        key = self._of_log(_owner_of(stream))
        if key is None:
            return plain
        return key.blank if key.is_destroyed else key.seal(plain)

    def opened(self, stored: bytes) -> bytes | None:
        """Return the bytes as they were before they were encrypted, if they are; None if their key was destroyed.

        Raises:
            KeyRingError: the key cannot be unwrapped, or not now.
            LogEncryptedError: there is no key ring.
            LogUnusableError: they were changed.
        """
        if stored[:1] != SEALED or len(stored) < SHORTEST:
            return stored
        key_id = stored[len(SEALED) : _BEGIN].hex()
        key = self._by_id.get(key_id)
        if key is None or (self.age is not None and time.monotonic() - key.seen > self.age):
            key = self._find(key_id, key)
        try:
            return key.open(stored)
        except ValueError as error:
            message = f"{self._name}: what was encrypted was changed ({error}); verify the log"
            raise LogUnusableError(message) from error

    def all(self) -> list[DataKey]:
        """Return the keys of the log, wrapped as they stand there."""
        return [DataKey(_text(key_id), _text(stream), wrapped) for key_id, stream, wrapped in self._select(_ALL, ())]

    def learn(self, key: DataKey) -> None:
        """Take note of a key that is in no log, as it is wrapped."""
        self._learned[key.id] = key.id, key.stream, key.wrapped

    def forget(self, stream: str) -> None:
        """Read the keys of a stream from the log when they are next needed: they were destroyed."""
        self._by_owner.pop(stream, None)
        for key in list(self._by_id.values()):
            if key.stream == stream:
                self._by_id.pop(key.id, None)

    def _of_log(self, owner: str) -> Key | None:
        """Return the key that the log has for this, None if it has none."""
        key = self._by_owner.get(owner)
        if key is not None and key.row is None:
            return key
        rows = self._select(_OF_STREAM, (owner,))
        if not rows:
            return None
        if key is None or key.id != _text(rows[0][0]):  # who has made it here may have been refused
            key = self._by_owner[owner] = self._known(rows[0])
            self._remember(key)
        return key

    def _find(self, key_id: str, known: Key | None) -> Key:
        rows = self._select(_BY_ID, (key_id,))
        if not rows and key_id in self._learned:
            rows = [self._learned[key_id]]
        if not rows:
            if known is not None and known.row is not None:
                return known
            raise LogUnusableError(f"{self._name} has no key {key_id}, which a record needs; verify it")
        key = self._known(rows[0])
        self._remember(key)
        return key

    def _remember(self, key: Key) -> None:
        for keys in (self._by_id, self._by_owner):
            if len(keys) > KEPT:
                keys.clear()
        self._by_id[key.id] = key

    def _known(self, cells: Cells) -> Key:
        """Return the key that stands in the log; one that was unwrapped before need not be unwrapped again."""
        key_id, stream, wrapped = _text(cells[0]), _text(cells[1]), cells[2]
        if wrapped is None:
            return Key(key_id, stream, None)
        known = self._by_id.get(key_id)
        if known is not None and not known.is_destroyed:
            known.seen = time.monotonic()
            return known
        if self._ring is None:
            raise LogEncryptedError(self._name)
        return Key(key_id, stream, cipher_of(self._ring.unwrap(wrapped)))

    def _made(self, owner: str) -> Key:
        if self._ring is None:
            raise LogEncryptedError(self._name)
        key, key_id = os.urandom(KEY_SIZE), os.urandom(ID_SIZE).hex()
        return Key(key_id, owner, cipher_of(key), DataKey(key_id, owner, self._ring.wrap(key)))


def _owner_of(stream: str) -> str:
    return stream if stream.startswith(_OWN) else LOG


def _text(cell: object) -> str:
    # Whoever verifies a log reads text as the bytes that stand there.
    return cell.decode() if isinstance(cell, bytes | bytearray) else str(cell)
