"""The events of a Messages API stream as they stand on the wire."""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec

from reenact.domain.messages import StopDetails

Json: TypeAlias = dict[str, Any]


class Delta(msgspec.Struct):
    """How a block goes on, or, in a `message_delta`, how the message ends."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: dict[str, Any] | None = None
    content: str | None = None
    stop_reason: str | None = None
    container: dict[str, Any] | None = None
    encrypted_content: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class Started(msgspec.Struct):
    """The message that a `message_start` announces."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] = []
    stop_reason: str | None = None
    container: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class ApiError(msgspec.Struct):
    """What went wrong, as the API says it."""

    type: str = "api_error"
    message: str = ""


class WireEvent(msgspec.Struct):
    """Any event of a stream; which of the fields there are depends on the type."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: Started | None = None
    usage: dict[str, Any] | None = None
    error: ApiError | None = None


KNOWN: Final = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)
"""The types of event that mean something; all others are passed over."""

_TOO_MANY: Final = 1 << 53
"""A count that no message reaches, and no program need be able to tell exactly."""
_decoder = msgspec.json.Decoder(WireEvent)


def is_json_object(value: object) -> TypeGuard[Json]:
    """Return whether a decoded value is an object, not a list or a scalar."""
    return isinstance(value, dict)


class MalformedEventError(ValueError):
    """An event of a known type has not the form that it must have."""


def wire_event(name: str, data: bytes) -> WireEvent | None:
    """Return the event, or None if it is of a type that means nothing.

    Raises:
        MalformedEventError: it is of a type that means something, and cannot be read.
    """
    try:
        event: WireEvent | None = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        event = _leniently(name, data)
    if event is None or (event.type or name) not in KNOWN:
        return None
    event.type = event.type or name
    for usage in (event.usage, event.message.usage if event.message else None):
        _check_counts(usage)
    return event


def whole_message(body: bytes) -> tuple[WireEvent, ...]:
    """Return the events that come to the same as a message, or an error, that was sent whole.

    Raises:
        MalformedEventError: it is neither.
    """
    try:
        value: object = json.loads(body.decode(errors="replace"))
        if is_json_object(value) and value.get("type") == "error":
            return (msgspec.convert(value, WireEvent),)
        if is_json_object(value) and isinstance(value.get("content"), list):
            _check_counts(value.get("usage"))
            return WireEvent(type="message_start", message=msgspec.convert(value, Started)), WireEvent("message_stop")
    except MalformedEventError:
        raise
    except ValueError as broken:
        msg = f"the answer cannot be read: {broken}"
        raise MalformedEventError(msg) from None
    msg = f"the answer is neither a stream nor a message: {body[:200].decode(errors='replace')!r}"
    raise MalformedEventError(msg)


def _check_counts(usage: object) -> None:
    """Raise `MalformedEventError` if a number in what is said of the usage can be no count of tokens."""
    if is_json_object(usage):
        for name, value in usage.items():
            if type(value) in (int, float) and not 0 <= value < _TOO_MANY:
                msg = f"the usage cannot be: {name} is {value!r:.40}"
                raise MalformedEventError(msg)
            _check_counts(value)


def _leniently(name: str, data: bytes) -> WireEvent | None:
    """Read what the fast decoder refuses: lone surrogates and broken UTF-8, which become U+FFFD."""
    try:
        value: object = json.loads(data.decode(errors="replace"))
        kind = value.get("type", name) if is_json_object(value) else name
        if kind not in KNOWN:
            return None
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _decoder.decode(text)
    except ValueError as broken:
        if name and name not in KNOWN:
            return None
        msg = f"an event of the stream cannot be read: {broken}"
        raise MalformedEventError(msg) from None
