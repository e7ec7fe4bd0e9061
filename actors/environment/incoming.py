"""Converts the events that drivers report, in each accepted form, to stream events that can be recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from reenact.actors.environment.api import SystemBusProducer
from reenact.actors.environment.failures import RETRYABLE, failure
from reenact.domain.errors import InvalidInputError
from reenact.domain.plain import DEEPEST, check_depth, check_unicode, is_mapping
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import InputJsonDelta, StreamData, StreamError, TextDelta, ThinkingDelta, stream_event

Reported: TypeAlias = StreamData | Mapping[str, object]
"""An event as a driver may report it: a stream event, or a mapping with `type` and `data`."""


DELTAS: Final[frozenset[type]] = frozenset({TextDelta, ThinkingDelta, InputJsonDelta})
"""The types of the many small events of an answer."""


def emit_all(producer: SystemBusProducer, reported: Sequence[Reported], turn_id: str) -> None:
    """Emit the reported events; an invalid one is replaced by an `error` event that says what is wrong with it."""
    try:
        producer.emit_all(reported, turn_id=turn_id)
    except InvalidInputError:  # the producer checks all events before it emits the first
        producer.emit_all([event_or_error(event) for event in reported], turn_id=turn_id)


def event_or_error(reported: object) -> StreamData:
    """Return the reported event as a stream event, or an `error` event that says what is wrong with it."""
    try:
        return checked_event(reported)
    except InvalidInputError as broken:
        return failure("driver_error", f"the driver reported {_described(reported)}: {broken}")


def checked_event(reported: object) -> StreamData:
    """Return the reported event as a stream event.

    Raises:
        UnknownEventTypeError: its type is not that of a stream event.
        InvalidInputError: its data does not fit the type, or cannot be recorded.
    """
    text: object
    if type(reported) is TextDelta or type(reported) is ThinkingDelta:
        delta: StreamData = reported
        text = reported.text
    elif type(reported) is InputJsonDelta:
        delta, text = reported, reported.partial_json
    else:
        return _checked(reported)
    if type(text) is not str:
        return _checked(reported)
    if not text.isascii():
        check_unicode("the text of a delta", text)
    return delta  # a delta whose text can be encoded needs no further check


def _checked(reported: object) -> StreamData:
    try:
        event = _read(reported)
        # No log can store lone surrogates, integers above 64 bits, keys that are not text, and deep nesting.
        check_depth(event.event_type, msgspec.to_builtins(event), 2 * DEEPEST)
        msgspec.json.encode(event)
        msgspec.msgpack.encode(event)
    except InvalidInputError:
        raise
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as broken:
        raise InvalidInputError(str(broken)) from None
    return event


def _read(reported: object) -> StreamData:
    match reported:
        case Complete():
            return msgspec.convert(msgspec.to_builtins(reported), Complete)
        case StreamData():
            return stream_event(reported.event_type, msgspec.to_builtins(reported))
        case _ if is_mapping(reported):
            return _from_parts(reported.get("type"), reported.get("data"))
        case _:
            return _from_parts(getattr(reported, "type", None), getattr(reported, "data", None))


def _from_parts(kind: object, data: object) -> StreamData:
    if not isinstance(kind, str):
        msg = "an event has a `type`, which is text"
        raise TypeError(msg)
    if data is not None and not is_mapping(data):
        msg = "the `data` of an event is a mapping"
        raise TypeError(msg)
    fields: dict[object, object] = msgspec.to_builtins(dict(data or {}))  # dates and bytes become text, as in the log
    if kind == StreamError.event_type:
        _complete_error(fields)
    elif kind == "tool_result" and "result" not in fields and "output" in fields:
        fields["result"] = fields.pop("output")
    return stream_event(kind, fields)


def _complete_error(fields: dict[object, object]) -> None:
    """Complete an error's fields: `code` is the default for the type, the type for the message; set `retryable`."""
    kind = fields.setdefault("type", fields.pop("code", None) or "api_error")
    fields.setdefault("message", kind)
    fields.setdefault("retryable", kind in RETRYABLE)


def _described(reported: object) -> str:
    if isinstance(reported, StreamData):
        kind: object = reported.event_type
    else:
        kind = reported.get("type") if is_mapping(reported) else getattr(reported, "type", None)
    return f"an invalid event of type {kind!r}" if isinstance(kind, str) else f"a {type(reported).__name__}"
