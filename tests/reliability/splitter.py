"""One direction of an HTTP connection that becomes a WebSocket, cut into frames (RFC 6455, section 5.2)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_EXTENSIONS: Final = re.compile(rb"\r\nsec-websocket-extensions:[^\r]*", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"\r\nupgrade: *websocket", re.IGNORECASE)
_END_OF_HEAD: Final = b"\r\n\r\n"


class Piece(NamedTuple):
    """Bytes that are relayed together; if they are a frame, `payload` is what it says, unmasked."""

    data: bytes
    payload: bytes | None = None


class Splitter:
    """Takes what arrives and gives it in pieces: the head of the handshake, then frame by frame.

    The client's offer of extensions is left out of the head, so that no frame is compressed. What does not become a
    WebSocket is given as it comes.
    """

    def __init__(self) -> None:
        self._kept = b""
        self._in_head = True
        self._framed = False

    def split(self, arrived: bytes) -> list[Piece]:
        """Return the pieces that are complete."""
        self._kept += arrived
        pieces: list[Piece] = []
        if self._in_head:
            if _END_OF_HEAD not in self._kept:
                return []
            head, _, self._kept = self._kept.partition(_END_OF_HEAD)
            self._in_head = False
            self._framed = _UPGRADE.search(head) is not None
            pieces.append(Piece(_EXTENSIONS.sub(b"", head) + _END_OF_HEAD))
        if not self._framed:
            return [*pieces, *self.rest()]
        while (frame := self._frame()) is not None:
            pieces.append(frame)
        return pieces

    def rest(self) -> list[Piece]:
        """Return what is not a complete piece, and will not become one."""
        kept, self._kept = self._kept, b""
        return [Piece(kept)] if kept else []

    def _frame(self) -> Piece | None:
        data = self._kept
        if len(data) < 2:
            return None
        masked, length, begin = data[1] & 0x80, data[1] & 0x7F, 2
        if length >= 126:
            begin += 2 if length == 126 else 8
            length = int.from_bytes(data[2:begin])
        mask = data[begin : begin + 4] if masked else b""
        end = begin + length + (4 if masked else 0)
        if len(data) < max(begin, end):
            return None
        self._kept = data[end:]
        return Piece(data[:end], _unmasked(data[begin + len(mask) : end], mask))


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    if not mask:
        return payload
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(len(payload))
