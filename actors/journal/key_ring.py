"""Key rings: they wrap the data keys of a log's sessions, so that the log alone does not reveal them."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from reenact.domain.errors import ConfigurationError, KeyRingError, WrongKeyError, needing_extra

if TYPE_CHECKING:  # an unencrypted log does not need it
    from eventsourcing.persistence import Cipher

KEY_SIZE = 32
"""The size of a key in bytes: AES-256."""
_ID_SIZE = 8
_KEY_ID = b"reenact: key id"

Wrap: TypeAlias = Callable[[bytes], bytes]
"""Wraps a key so that only the ring can unwrap it, or unwraps it."""


def cipher_of(key: bytes) -> Cipher:
    """Return the `eventsourcing` library's cipher for a key of 32 bytes: AES-GCM with a random nonce of 96 bits.

    Raises:
        MissingExtraError: the extra `encryption` is not installed.
    """
    with needing_extra("encryption", "encryption"):
        from reenact.actors.journal.aes import KeptCipher  # noqa: PLC0415 - an extra
    return KeptCipher(key)


class KeyRing(ABC):
    """Wraps and unwraps the data keys of a log. Pass one to `Runtime.open(…, keys=…)`."""

    @abstractmethod
    def wrap(self, key: bytes) -> bytes:
        """Return the key in wrapped form, for storage in the log.

        Raises:
            KeyRingError: the ring cannot be used now.
        """

    @abstractmethod
    def unwrap(self, wrapped: bytes) -> bytes:
        """Return the unwrapped key.

        Raises:
            WrongKeyError: another ring has wrapped the key, or the bytes were changed.
            KeyRingError: the ring cannot be used now.
        """

    @staticmethod
    def generate(path: str | os.PathLike[str]) -> FileKeyRing:
        """Create a key ring with one random key in a new file that only its owner can read and write.

        Raises:
            ConfigurationError: the file exists already, or cannot be created.
            MissingExtraError: the extra `encryption` is not installed.
        """
        cipher_of(bytes(KEY_SIZE))
        _write(Path(path), [os.urandom(KEY_SIZE)], os.O_EXCL)
        return FileKeyRing(path)

    @staticmethod
    def file(path: str | os.PathLike[str]) -> FileKeyRing:
        """Return the key ring in a file that `generate` has created.

        Raises:
            ConfigurationError: the file does not exist, can be read by other users, or is not a key ring.
            MissingExtraError: the extra `encryption` is not installed.
        """
        return FileKeyRing(path)

    @staticmethod
    def environment(name: str) -> KeyRing:
        """Return the key ring in an environment variable: keys in base64, of which the last one wraps.

        Raises:
            ConfigurationError: the variable does not exist, or is not a key ring.
            MissingExtraError: the extra `encryption` is not installed.
        """
        return _Keys(f"the variable {name}", _parse_keys(os.environ.get(name, ""), f"the variable {name}"))

    @staticmethod
    def custom(wrap: Wrap, unwrap: Wrap) -> KeyRing:
        """Return a custom key ring, such as one backed by a key management service.

        `wrap` is called with 32 bytes, once per session, and `unwrap` with its result, when the session is first read.
        They may be called on any thread, and may take their time; an exception becomes a `KeyRingError`, and nothing is
        recorded or read.
        """
        return _Custom(wrap, unwrap)


def check_keys(keys: object) -> None:
    """Raise `ConfigurationError` unless `keys` is a key ring or None."""
    if keys is not None and not isinstance(keys, KeyRing):
        raise ConfigurationError(f"keys must be a KeyRing, such as KeyRing.file(path), not {type(keys).__name__}")


class _Keys(KeyRing):
    """Keys in memory. A wrapped key begins with the id of the key that wrapped it."""

    def __init__(self, name: str, keys: Sequence[bytes]) -> None:
        self._name = name
        self._ciphers = {_id_of(key): cipher_of(key) for key in keys}
        self._newest = _id_of(keys[-1])

    def wrap(self, key: bytes) -> bytes:
        """Return the key, encrypted with the newest key of the ring."""
        return self._newest + self._ciphers[self._newest].encrypt(key)

    def unwrap(self, wrapped: bytes) -> bytes:
        """Return the key, decrypted with the key of the ring that wrapped it."""
        cipher = self._ciphers.get(wrapped[:_ID_SIZE])
        if cipher is None:
            raise WrongKeyError(f"{self._name} has no key {wrapped[:_ID_SIZE].hex()}, which this log needs")
        try:
            return cipher.decrypt(wrapped[_ID_SIZE:])
        except ValueError as error:
            raise WrongKeyError(f"a key of the log cannot be unwrapped with {self._name}: it was changed") from error


class FileKeyRing(_Keys):
    """Keys in a file that only its owner can read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file."""
        self.path = Path(path)
        self._read()

    def unwrap(self, wrapped: bytes) -> bytes:
        """Return the key, decrypted with the key of the ring that wrapped it, which may be newer than this object."""
        if wrapped[:_ID_SIZE] not in self._ciphers:
            with suppress(ConfigurationError):
                self._read()
        return super().unwrap(wrapped)

    def rotate(self) -> None:
        """Add a random key, which wraps new session keys from now on; the older keys still unwrap theirs.

        Programs that have opened the file already read it again when they meet a key that the new one has wrapped.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        path = self.path.resolve()  # a link stays one
        with _opened(path.parent) as directory:
            fcntl.flock(directory, fcntl.LOCK_EX)  # nobody else rotates a key ring there meanwhile
            keys = [*_read_keys(path), os.urandom(KEY_SIZE)]
            # Keep the old file until the new one is complete and on disk: without its keys the log is lost.
            beside = path.with_name(f"{path.name}.new")
            beside.unlink(missing_ok=True)
            _write(beside, keys, os.O_EXCL)
            beside.replace(path)
            os.fsync(directory)
            self._read()

    def _read(self) -> None:
        super().__init__(str(self.path), _read_keys(self.path))


class _Custom(KeyRing):
    def __init__(self, wrap: Wrap, unwrap: Wrap) -> None:
        self._wrap = wrap
        self._unwrap = unwrap

    def wrap(self, key: bytes) -> bytes:
        return _call_key_service(self._wrap, key, "wrap")

    def unwrap(self, wrapped: bytes) -> bytes:
        key = _call_key_service(self._unwrap, wrapped, "unwrap")
        if len(key) != KEY_SIZE:
            raise WrongKeyError(f"unwrap returned {len(key)} bytes; the key that was wrapped has {KEY_SIZE}")
        return key


def _call_key_service(function: Callable[[bytes], object], given: bytes, name: str) -> bytes:
    try:
        returned = function(given)
    except KeyRingError:
        raise
    except Exception as error:
        raise KeyRingError(f"the key ring cannot be used: {name} raised {type(error).__name__}: {error}") from error
    if not isinstance(returned, bytes):
        raise KeyRingError(f"the key ring cannot be used: {name} returned {type(returned).__name__}; it returns bytes")
    return returned


def _id_of(key: bytes) -> bytes:
    return blake2b(key, digest_size=_ID_SIZE, person=_KEY_ID).digest()


def _read_keys(path: Path) -> list[bytes]:
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            text = file.read()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds something else"
        message = f"the key ring {path} cannot be read: {reason}; KeyRing.generate and `reenact keys` make one"
        raise ConfigurationError(message) from error
    if status.st_mode & 0o077:
        raise ConfigurationError(f"the key ring {path} can be used by others than its owner; chmod 600 {path}")
    return _parse_keys(text, str(path))


def _parse_keys(text: str, name: str) -> list[bytes]:
    keys: list[bytes] = []
    for word in text.split():
        with suppress(Base64Error, ValueError):
            keys.append(b64decode(word, validate=True))
    if not keys or len(keys) != len(text.split()) or any(len(key) != KEY_SIZE for key in keys):
        raise ConfigurationError(f"{name} holds no key ring: keys of {KEY_SIZE} bytes in base64, with blanks between")
    return keys


def _write(path: Path, keys: Sequence[bytes], flags: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.writelines(f"{b64encode(key).decode()}\n" for key in keys)
            file.flush()
            os.fsync(descriptor)
        with _opened(path.parent) as directory:
            os.fsync(directory)
    except OSError as error:
        raise ConfigurationError(f"the key ring {path} cannot be written: {error.strerror}") from error


@contextmanager
def _opened(directory: Path) -> Generator[int]:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"the directory {directory} cannot be read: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
