"""The lines of an export: what each holds, its one spelling, and bytes of records as JSON that says just them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from reenact.domain.chain import DIGEST_SIZE, FeedRecord, Record
from reenact.domain.tools import is_array, is_object

FORMAT: Final = 1
"""The version of the lines below."""
MOST_BYTES: Final = 2**30
"""A longer line is refused; SQLite keeps no longer record either."""

_TIME: Final = "$time"
_INTEGER: Final = 2**63 - 1
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=_INTEGER)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=_INTEGER)]
Hex: TypeAlias = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * DIGEST_SIZE}}}$")]
Base64: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]*={0,2}$")]


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="header", forbid_unknown_fields=True):
    """The first line: what was exported, when, and by what.

    `head` is the position of the log's last event then, and `sessions` are those that were asked for, None for
    everything. `events`, `rows` and `timers` are how many lines of each kind follow.
    """

    format: Positive
    software: str
    exported_at: datetime
    head: Natural
    sessions: tuple[str, ...] | None
    redacted: bool
    feeds: bool
    events: Natural
    rows: Natural
    timers: Natural


class EventLine(msgspec.Struct, frozen=True, kw_only=True, tag="event", forbid_unknown_fields=True, omit_defaults=True):
    """An event, in the order of the positions.

    `fields` are for reading, by their names. What the log holds is MessagePack: the value `state`, in its shortest
    form, or else `bytes`, in base64. With `times`, an object {"$time": …} in the state is a timestamp. The first event
    of a step has the step's `cause` likewise, or `cause_bytes`: the command that was recorded with it. `digest` and
    `seal` are hexadecimal digits; a redacted event has a seal.
    """

    position: Positive
    stream: str
    version: Natural
    topic: str
    recorded_at: datetime | UnsetType = UNSET
    fields: dict[str, Any] | UnsetType = UNSET
    state: Any = UNSET
    times: bool = False
    bytes: Base64 | UnsetType = UNSET
    cause: Any = UNSET
    cause_bytes: Base64 | UnsetType = UNSET
    digest: Hex
    seal: Hex | UnsetType = UNSET

    @property
    def record(self) -> Record:
        """The record, or `ValueError`."""
        state = packed(self.state, self.bytes, times=self.times)
        has_cause = self.cause is not UNSET or self.cause_bytes is not UNSET
        cause = packed(self.cause, self.cause_bytes, times=False) if has_cause else None
        digest, seal = bytes.fromhex(self.digest), _seal(self.seal)
        return Record(self.stream, self.version, self.position, self.topic, state, digest, seal, cause)


class RowLine(msgspec.Struct, frozen=True, kw_only=True, tag="row", forbid_unknown_fields=True, omit_defaults=True):
    """A row of a topic's feed, by topic and cursor: `count` entries from `first_cursor` on.

    `segments` are a list of [context, [[type, time in microseconds since 1970-01-01 UTC, data], …]]; or `bytes`.
    `times` are as in an event.
    """

    topic: str
    first_cursor: Positive
    count: Positive
    segments: Any = UNSET
    times: bool = False
    bytes: Base64 | UnsetType = UNSET
    digest: Hex
    seal: Hex | UnsetType = UNSET

    @property
    def record(self) -> FeedRecord:
        """The record, or `ValueError`."""
        segments = packed(self.segments, self.bytes, times=self.times)
        return FeedRecord(
            self.topic, self.first_cursor, self.count, segments, bytes.fromhex(self.digest), _seal(self.seal)
        )


class TimerLine(msgspec.Struct, frozen=True, kw_only=True, tag="timer", forbid_unknown_fields=True):
    """When a stream is to be woken, in microseconds since 1970-01-01 UTC; by stream."""

    stream: str
    due: Annotated[int, Meta(ge=-_INTEGER - 1, le=_INTEGER)]


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end", forbid_unknown_fields=True):
    """The last line: how many lines of each kind there were, and the digest of all bytes before this line.

    The digest is BLAKE2b of 32 bytes, as hexadecimal digits.
    """

    events: Natural
    rows: Natural
    timers: Natural
    digest: Hex


Line: TypeAlias = Header | EventLine | RowLine | TimerLine | End
_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_parse = msgspec.json.Decoder().decode


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a line."""
    (line,), definitions = msgspec.json.schema_components([Line], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Line", **line, "$defs": definitions}


def encoded(line: Line) -> bytes:
    """Return the line, with its end."""
    return _encode(line) + b"\n"


def decoded(text: bytes) -> Line:
    """Return what a line says that has no end.

    Raises:
        ValueError: it is no line of an export, or is spelled otherwise than by `encoded`: one line has one spelling.
    """
    try:
        line = _decode(text)
        spelled = _encode(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if spelled != text:
        raise ValueError("it is not spelled as an export is: it has spaces, a name twice, or a value in another form")
    return line


def event_line(record: Record, *, recorded_at: datetime | None, fields: dict[str, Any] | None) -> EventLine:
    """Return the line of an event."""
    state, times = spelled_out(record.state)
    cause, has_times = (UNSET, False) if record.cause is None else spelled_out(record.cause)
    cause = UNSET if has_times else cause
    return EventLine(
        position=record.position,
        stream=record.stream,
        version=record.version,
        topic=record.topic,
        recorded_at=UNSET if recorded_at is None else recorded_at,
        fields=UNSET if fields is None else fields,
        state=state,
        times=times,
        bytes=b64encode(record.state).decode() if state is UNSET else UNSET,
        cause=cause,
        cause_bytes=b64encode(record.cause).decode() if record.cause is not None and cause is UNSET else UNSET,
        digest=record.digest.hex(),
        seal=UNSET if record.seal is None else record.seal.hex(),
    )


def row_line(record: FeedRecord) -> RowLine:
    """Return the line of a row."""
    segments, times = spelled_out(record.segments)
    return RowLine(
        topic=record.topic,
        first_cursor=record.first_cursor,
        count=record.count,
        segments=segments,
        times=times,
        bytes=b64encode(record.segments).decode() if segments is UNSET else UNSET,
        digest=record.digest.hex(),
        seal=UNSET if record.seal is None else record.seal.hex(),
    )


def spelled_out(content: bytes) -> tuple[Any, bool]:
    """Return MessagePack as JSON that says exactly these bytes, or UNSET if no JSON does; and whether it has times."""
    try:
        value = _unpack(content)
        text = _encode(value)
        if _pack(_parse(text)) == content:
            return msgspec.Raw(text), False
        text = _encode(_marked(value))
        if _pack(_unmarked(_parse(text))) == content:
            return msgspec.Raw(text), True
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    return UNSET, False


def packed(value: object, content: str | UnsetType, *, times: bool) -> bytes:
    """Return the bytes that a line says, or `ValueError`."""
    if (value is UNSET) == (content is UNSET):
        raise ValueError("it has neither JSON nor bytes for its content, or both")
    if content is not UNSET:
        return b64decode(content, validate=True)
    try:
        return _pack(_unmarked(value) if times else value)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its content is no value of MessagePack: {error}") from None


def _marked(value: object) -> object:
    """Return the value with its timestamps as objects of JSON."""
    if isinstance(value, datetime):
        return {_TIME: value}
    if is_object(value):
        return {key: _marked(one) for key, one in value.items()}
    return [_marked(one) for one in value] if is_array(value) else value


def _unmarked(value: object) -> object:
    if is_object(value):
        if value.keys() == {_TIME}:
            return datetime.fromisoformat(value[_TIME])
        return {key: _unmarked(one) for key, one in value.items()}
    return [_unmarked(one) for one in value] if is_array(value) else value


def _seal(digits: str | UnsetType) -> bytes | None:
    return None if digits is UNSET else bytes.fromhex(digits)
