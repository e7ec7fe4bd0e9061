"""Parses the events of a Messages API stream from bytes, which may be split anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from reenact.actors.environment.received_json import first_element, is_json_object, lenient_json, without_surrogates
from reenact.domain.messages import StopDetails
from reenact.domain.plain import Json, JsonDict, is_sequence, parsed


class SseDecoder:
    """Splits a stream of bytes into server-sent events, as WHATWG HTML chapter 9.2 defines them.

    An event that is not followed by a blank line is never returned.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._json_block = b""
        self._has_events = False
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """Take the next bytes; yield the name and the data of each event that they complete."""
        start = max(0, len(self._rest) - 1)
        self._rest += self._with_plain_line_ends(chunk)
        while not self._is_whole and (end := self._rest.find(b"\n\n", start)) >= 0:
            block = bytes(self._rest[:end])
            del self._rest[: end + 2]
            start = 0
            yield from self._event(block)

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _event(self, block: bytes) -> Iterator[tuple[str, bytes]]:
        if not self._started:
            self._started = True
            block = block.removeprefix(_BYTE_ORDER_MARK)
        name, data = "", list[bytes]()
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"error":  # llama-server sends errors this way
                name, data = ERROR, [value.removeprefix(b" ")]
            elif field == b"event":
                name = value.removeprefix(b" ").decode(errors="replace")
        if data:
            self._has_events = True
            yield name, b"\n".join(data)
        elif _JSON.match(block):
            self._json_block = block

    @property
    def _is_whole(self) -> bool:
        """Whether the body is JSON instead of a stream; blank lines in it end no event."""
        return not self._has_events and _JSON.match(self._rest, 0, _LONGEST_BLANK) is not None

    @property
    def body(self) -> bytes:
        """JSON that was sent instead of the events, or of one of them, or empty; known when the stream has ended."""
        rest = self._rest.removeprefix(_BYTE_ORDER_MARK)
        return bytes(rest) if _JSON.match(rest) else self._json_block


class Ending(msgspec.Struct):
    """Why a message ends, as far as it is known, and the container in which the API ran code for it."""

    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    container: JsonDict | None = None


class Delta(Ending):
    """The continuation of a block, or, in a `message_delta`, the end of the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: JsonDict | None = None
    content: str | None = None
    encrypted_content: str | None = None


class Started(Ending):
    """The message that a `message_start` announces."""

    id: str | None = None
    model: str | None = None
    content: list[JsonDict] | None = None
    usage: JsonDict | None = None


class WireEvent(msgspec.Struct):
    """Any event of a stream; which fields are set depends on the type."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    content_block: JsonDict | None = None
    message: Started | None = None
    usage: JsonDict | None = None
    error: Json = None


ERROR = "error"
KNOWN = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        ERROR,
    }
)
"""The types of events that are used; all others are skipped."""
DELTAS = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "compaction_delta"}
)
"""The types of deltas that are used."""

IMPOSSIBLE_COUNT = 1 << 53
"""A count that no message reaches, and from which on floats are not exact."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_LONGEST_BLANK = 128
"""Bytes of blanks within which JSON has to begin, since they are looked through again with each chunk and event."""
_decoder = msgspec.json.Decoder(WireEvent)


class MalformedEventError(ValueError):
    """An event of a known type does not have the required form."""


def wire_event(name: str, data: bytes) -> WireEvent | None:
    """Return the event, or None if its type is not used.

    Raises:
        MalformedEventError: its type is used, and it cannot be read.
    """
    try:
        event: WireEvent | None = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        event = _decoded_leniently(name, data)
    if event is None:
        return None
    event.type = event.type or name or (ERROR if event.error else "")
    return _checked(event) if event.type in KNOWN else None


def events_of_whole_message(body: bytes) -> tuple[WireEvent, ...]:
    """Return the events that are equivalent to a message, or an error, that was sent whole.

    Raises:
        MalformedEventError: it is neither.
    """
    try:
        value = first_element(lenient_json(body))
        if is_json_object(value) and (value.get(ERROR) or value.get("type") == ERROR):
            return (WireEvent(ERROR, error=value.get(ERROR)),)
        if is_json_object(value) and (isinstance(value.get("content"), list) or value.get("type") == "message"):
            start = WireEvent(type="message_start", message=msgspec.convert(value, Started))
            return _checked(start), WireEvent("message_stop")
    except MalformedEventError:
        raise
    except ValueError as broken:
        raise MalformedEventError(f"the answer cannot be read: {broken}") from None
    raise MalformedEventError(f"the answer is neither a stream nor a message: {body[:200].decode(errors='replace')!r}")


def _checked(event: WireEvent) -> WireEvent:
    for usage in (event.usage, event.message.usage if event.message else None):
        _check_counts("it", usage)
    return event


def _check_counts(name: str, usage: object) -> None:
    """Raise `MalformedEventError` if a number in the usage cannot be a count of tokens."""
    if isinstance(usage, int | float) and not 0 <= usage < IMPOSSIBLE_COUNT:
        raise MalformedEventError(f"the usage is invalid: {name} is {usage!r:.40}")
    if is_json_object(usage):
        for inner, value in usage.items():
            _check_counts(inner, value)
    elif is_sequence(usage):
        for one in usage:
            _check_counts(name, one)


def _decoded_leniently(name: str, data: bytes) -> WireEvent | None:
    """Parse an event that the fast decoder refuses: for its invalid Unicode, which becomes U+FFFD, or a new delta."""
    try:
        value = parsed(data.decode(errors="replace"))
        kind = value.get("type", name) if is_json_object(value) else name
        if not isinstance(kind, str) or kind not in KNOWN:
            return None
        return _decoder.decode(without_surrogates(_with_known_delta(value)))
    except ValueError as broken:
        if name == ERROR:
            return WireEvent(ERROR, error=data.decode(errors="replace"))
        if name and name not in KNOWN:
            return None
        raise MalformedEventError(f"an event of the stream cannot be read: {broken}") from None


def _with_known_delta(event: object) -> object:
    """Return the event; a delta of an unknown type, whose fields may have any form, is reduced to its type."""
    delta = event.get("delta") if is_json_object(event) else None
    kind = delta.get("type") if is_json_object(delta) else None
    if is_json_object(event) and isinstance(kind, str) and kind not in DELTAS:
        return {**event, "delta": {"type": kind}}
    return event
