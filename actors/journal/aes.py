"""The cipher of the `eventsourcing` library, AES-GCM, with what it makes of a key kept from one call to the next."""

from __future__ import annotations

import os
from base64 import b64encode
from collections import deque

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from eventsourcing.cryptography import AESCipher
from eventsourcing.utils import Environment

_NONCE = 12
_TAG = 16
_AT_ONCE = 512

_nonces: deque[bytes] = deque()
# A child process that went on with its parent's would use some of them twice, which breaks AES-GCM.
os.register_at_fork(after_in_child=_nonces.clear)


class KeptCipher(AESCipher):
    """Encrypts as its base does, byte for byte, in less than half of the time."""

    def __init__(self, key: bytes) -> None:
        """Take a key of 32 bytes."""
        super().__init__(Environment("", {AESCipher.CIPHER_KEY: b64encode(key).decode()}))
        self._gcm = AESGCM(key)

    def encrypt(self, plaintext: bytes) -> bytes:
        """Return a random nonce, the tag, and the bytes encrypted."""
        nonce = _nonce()
        sealed = self._gcm.encrypt(nonce, plaintext, None)
        return nonce + sealed[-_TAG:] + sealed[:-_TAG]

    def decrypt(self, ciphertext: bytes) -> bytes:
        """Return the bytes that were encrypted.

        Raises:
            ValueError: they were changed, or another key has encrypted them.
        """
        nonce, tag, sealed = ciphertext[:_NONCE], ciphertext[_NONCE : _NONCE + _TAG], ciphertext[_NONCE + _TAG :]
        try:
            return self._gcm.decrypt(nonce, sealed + tag, None)
        except InvalidTag as error:
            raise ValueError("it does not fit its tag") from error


def _nonce() -> bytes:
    """Return a random nonce. They are drawn many at once: each call of the system lets other threads go first."""
    try:
        return _nonces.pop()
    except IndexError:
        drawn = os.urandom(_NONCE * _AT_ONCE)
        _nonces.extend([drawn[at : at + _NONCE] for at in range(_NONCE, len(drawn), _NONCE)])
        return drawn[:_NONCE]
