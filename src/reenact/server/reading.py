"""Decodes a client's messages into frames, or says why a message is not a frame."""

from __future__ import annotations

import contextlib
import re
from typing import Final

import msgspec

from reenact.domain.errors import ProtocolError, ReenactError
from reenact.domain.stream.frames import PROTOCOL, FromClient, Hello, Refused

INVALID = "invalid_frame"
MOST_VALUES = 200_000
"""Names and values in the JSON of one message. Parsing more of them would block the event loop for too long."""
TOO_LARGE = "too_large"
_FRAMES: Final[msgspec.json.Decoder[FromClient]] = msgspec.json.Decoder(FromClient)


class _Head(msgspec.Struct):
    """The fields of a message that are read even if it is not a valid frame."""

    id: object = None
    type: object = None
    protocol: object = PROTOCOL


_HEADS = msgspec.json.Decoder(_Head)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""An escaped UTF-16 surrogate, alone or one of a pair; languages with UTF-16 texts write a lone one after a cut."""


class NotAccepted(Exception):
    """A frame is refused; the client receives the reason."""

    def __init__(self, id_: str | None, code: str, message: str) -> None:
        super().__init__(message)
        self.refused = Refused(id=id_, code=code, message=message)

    @classmethod
    def because(cls, id_: str | None, error: ReenactError) -> NotAccepted:
        """Return the refusal of a frame because of the error."""
        return cls(id_, error.code, str(error))


def frame_of(text: str | None) -> FromClient:
    """Return a message as a frame; None stands for a binary message.

    Raises:
        NotAccepted: it is not a frame.
    """
    if text is None:
        raise NotAccepted(None, INVALID, "a message is JSON in text; this one is binary")
    if has_too_many_values(text.encode()):
        raise NotAccepted(_id_of(text), TOO_LARGE, f"a message has at most {MOST_VALUES:,} names and values")
    try:
        return _FRAMES.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAccepted(_id_of(text), INVALID, f"this is not a frame of a client: {error}") from None


def has_too_many_values(text: bytes) -> bool:
    """Return whether JSON has too many names and values, without parsing it."""
    if len(text) <= MOST_VALUES or text.count(b",") + text.count(b":") <= MOST_VALUES:
        return False
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")  # now each quote begins or ends a string
    if plain.count(b'"') > 2 * MOST_VALUES:
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return outside.count(b",") + outside.count(b":") > MOST_VALUES


def hello_of(text: str | None) -> Hello:
    """Return the first message as a hello.

    Raises:
        NotAccepted: it is not a hello, or one of another version of the protocol, in which case only its version is
            read.
    """
    head = _head(text or "")
    if head.type == "hello" and head.protocol != PROTOCOL:
        raise NotAccepted(
            None,
            ProtocolError.code,
            f"this server speaks version {PROTOCOL} of the protocol, the client {head.protocol!r:.20}",
        )
    frame = frame_of(text)
    if not isinstance(frame, Hello):
        raise NotAccepted(_id_of(text or ""), ProtocolError.code, "the first frame must be a hello")
    return frame


def _head(text: str) -> _Head:
    for readable in (text, _SURROGATE.sub(r"\\ufffd", text)):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return _HEADS.decode(readable)
    return _Head()


def _id_of(text: str) -> str | None:
    id_ = _head(text).id
    return id_ if isinstance(id_, str) else None
