"""The lines of an export: their content, their canonical form, and an exact representation of bytes as JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from math import isfinite
from types import NoneType
from typing import Annotated, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from reenact.domain.chain import DIGEST_SIZE, ORIGINAL_SIZE, Row
from reenact.domain.operations.table import tidied
from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.tools import is_array, is_object

FORMAT = 1
"""The version of the format below."""
MOST_BYTES = 2**30
"""The longest line in bytes; SQLite stores no longer record either."""

_TIME = "$time"
_INTEGER = 2**63 - 1
Value: TypeAlias = Annotated[object, Meta(description="Any JSON value.")]
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=_INTEGER)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=_INTEGER)]
Integer: TypeAlias = Annotated[int, Meta(ge=-_INTEGER - 1, le=_INTEGER)]
Original: TypeAlias = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * ORIGINAL_SIZE}}}$")]
_Bytes: TypeAlias = bytes
Hex: TypeAlias = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * DIGEST_SIZE}}}$")]
Base64: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]*={0,2}$")]


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="header", forbid_unknown_fields=True, omit_defaults=True):
    """The first line: the content of the export, its time, and the software that wrote it.

    `head` is the position of the log's last event then, and `sessions` are the requested ones, None for all. `keys`,
    `rows` and `timers` are the numbers of lines of each kind that follow, and `events` the number of events in them.
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
    keys: Natural = 0


class KeyLine(msgspec.Struct, frozen=True, kw_only=True, tag="key", forbid_unknown_fields=True):
    """A data key of the log, wrapped by its key ring; null once it was destroyed.

    `stream` is the name of a stream, or empty for all content without a key of its own. The id is 16 hexadecimal
    digits.
    """

    id: str
    stream: str
    wrapped: Base64 | None


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Bytes of MessagePack: the value, if the bytes are its shortest form, or else `bytes`, in base64.

    With `times`, an object {"$time": …} in the value is a timestamp.
    """

    value: Value = UNSET
    times: bool = False
    bytes: Base64 | UnsetType = UNSET

    @property
    def packed(self) -> _Bytes:
        """The bytes; raises `ValueError` if the content is not valid."""
        if (self.value is UNSET) == (self.bytes is UNSET):
            raise ValueError("it has neither JSON nor bytes for its content, or both")
        if self.bytes is not UNSET:
            return b64decode(self.bytes, validate=True)
        try:
            return _pack(_unmarked(self.value) if self.times else self.value)
        except (TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"its content is not a value of MessagePack: {error}") from None


class EventPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An event: its stored name with the version of its form, its `fields` by name, for readers, and its state."""

    topic: str
    fields: dict[str, Value] | UnsetType = UNSET
    state: Content


class RowLine(msgspec.Struct, frozen=True, kw_only=True, tag="row", forbid_unknown_fields=True, omit_defaults=True):
    """A row of the log, in the order of writing.

    `recorded_at` is microseconds since 1970-01-01 UTC. The row has events from `version` and `position` on, or `heard`
    announcements from `cursor` on, or both. `feed` is a list of the segments before the events, each as [context,
    [[type, time in microseconds, data], …]]; after it come, if the events are announced, the version of the function
    that derives their announcements, and its input besides the events. `digest`, `original` and `seal` are hexadecimal
    digits; a row with a replaced part has the last two. With a `key` its contents are encrypted.
    """

    stream: str
    recorded_at: Integer
    version: Natural | None = None
    position: Positive | None = None
    events: tuple[EventPart, ...] = ()
    cause: Content | None = None
    cursor: Positive | None = None
    heard: Natural = 0
    feed: Content | None = None
    key: str | None = None
    epoch: Natural = 0
    digest: Hex
    original: Original | None = None
    seal: Hex | None = None

    @property
    def row(self) -> Row:
        """The row; raises `ValueError` if its fields do not fit each other."""
        of_events, heard = (self.version, self.position), (self.cursor, self.feed)
        if (
            not (self.events or self.heard)
            or any((part is None) == bool(self.events) for part in of_events)
            or any((part is None) == bool(self.heard) for part in heard)
        ):
            raise ValueError("the row is not formed as rows are")
        events = [(event.topic, event.state.packed) for event in self.events]
        return Row(
            number=0,
            count=len(events),
            digest=bytes.fromhex(self.digest),
            original=None if self.original is None else bytes.fromhex(self.original),
            seal=None if self.seal is None else bytes.fromhex(self.seal),
            cause=None if self.cause is None else self.cause.packed,
            events=_pack(events) if events else None,
            feed=None if self.feed is None else self.feed.packed,
            version=self.version or 0,
            position=self.position or 0,
            cursor=self.cursor or 0,
            stream=self.stream,
            recorded_at=self.recorded_at,
            heard=self.heard,
            key=self.key,
            epoch=self.epoch,
        )


class TimerLine(msgspec.Struct, frozen=True, kw_only=True, tag="timer", forbid_unknown_fields=True):
    """The time at which a stream's actor is to be woken, in microseconds since 1970-01-01 UTC; ordered by stream."""

    stream: str
    due: Integer


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end", forbid_unknown_fields=True, omit_defaults=True):
    """The last line: the numbers of lines of each kind, and the digest of all bytes before this line.

    The digest is BLAKE2b of 32 bytes, as hexadecimal digits.
    """

    events: Natural
    rows: Natural
    timers: Natural
    digest: Hex
    keys: Natural = 0


Line: TypeAlias = Header | KeyLine | RowLine | TimerLine | End
_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_events = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode
_parse = msgspec.json.Decoder().decode


def schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a line."""
    (line,), definitions = msgspec.json.schema_components([Line], ref_template="#/$defs/{name}")
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": "Line", **line, "$defs": tidied(definitions)}


def encoded(line: Line) -> bytes:
    """Return the line, with its line end."""
    return _encode(line) + b"\n"


def decoded(text: bytes) -> Line:
    """Return the decoded line; the text has no line end.

    Raises:
        ValueError: the text is not a line of an export, or not the form that `encoded` gives: each line has only one
            form.
    """
    try:
        line = _decode(text)
        spelled = _encode(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if spelled != text:
        raise ValueError("it is not spelled as an export is: it has spaces, a name twice, or a value in another form")
    return line


def row_line(row: Row, events: Sequence[tuple[str, bytes, dict[str, object] | None]]) -> RowLine:
    """Return the line of a row with these events: the topic and the state of each, and its fields if known.

    Raises:
        ValueError: the row's events are not packed in the shortest form.
    """
    if row.events is not None and _pack([(topic, state) for topic, state, _ in events]) != row.events:
        raise ValueError("its events are not in their shortest form")
    return RowLine(
        events=tuple(
            EventPart(topic=topic, fields=UNSET if fields is None else fields, state=content_of(state))
            for topic, state, fields in events
        ),
        cause=None if row.cause is None else content_of(row.cause),
        feed=None if row.feed is None else content_of(row.feed),
        digest=row.digest.hex(),
        original=None if row.original is None else row.original.hex(),
        seal=None if row.seal is None else row.seal.hex(),
        version=row.version if row.count else None,
        position=row.position if row.count else None,
        cursor=row.cursor if row.heard else None,
        stream=row.stream,
        recorded_at=row.recorded_at,
        heard=row.heard,
        key=row.key,
        epoch=row.epoch,
    )


def content_of(content: bytes) -> Content:
    """Return bytes of MessagePack as the content of a line: as JSON that means exactly these bytes, if there is any."""
    try:
        value = _unpack(content)
        text = _encode(value)
        if _pack(_parse(text)) == content:
            return Content(value=msgspec.Raw(text))
        text = _encode(_marked(value))
        if _pack(_unmarked(_parse(text))) == content:
            return Content(value=msgspec.Raw(text), times=True)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    return Content(bytes=b64encode(content).decode())


def _marked(value: object) -> object:
    """Return the value with its timestamps as JSON objects."""
    if isinstance(value, datetime):
        return {_TIME: value}
    if is_object(value):
        return {key: _marked(one) for key, one in value.items()}
    return [_marked(one) for one in value] if is_array(value) else value


def _unmarked(value: object) -> object:
    if is_object(value):
        if value.keys() == {_TIME}:
            return datetime.fromisoformat(str(value[_TIME]))
        return {key: _unmarked(one) for key, one in value.items()}
    return [_unmarked(one) for one in value] if is_array(value) else value


_PLAIN = frozenset({str, int, bool, NoneType})


class Forms(Protocol):
    """The stored forms of a log's events, as implemented by a journal's codec."""

    def decode(self, topic: str, state: bytes) -> tuple[int, object]:
        """Return when the event was recorded, and the event in its current type, or raise `LogUnusableError`."""
        ...

    def encode(self, event: object, recorded_at: int) -> tuple[str, bytes]:
        """Return the topic and the bytes of the event, or raise `TypeError` or `ValueError`."""
        ...


def named(value: object) -> object:
    """Return the value as plain data, with the fields of structs by their names."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, msgspec.Struct):
        return {name: named(part) for name, part in _fields(value).items()}
    if is_mapping(value):
        return {str(key): named(part) for key, part in value.items()}
    if is_sequence(value):
        return [named(part) for part in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return msgspec.to_builtins(value)


def _fields(value: msgspec.Struct) -> dict[str, object]:
    tag, names = _known(type(value))
    return {**tag, **{name: getattr(value, name) for name in names}}


@cache
def _known(kind: type[msgspec.Struct]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the tag of a struct, by its field's name, and the names of its fields."""
    config = kind.__struct_config__
    return {} if config.tag is None else {config.tag_field or "type": config.tag}, kind.__struct_fields__


def agree(shown: object, own: object) -> bool:
    """Return whether the shown fields agree with the value; an older version may have shown fewer fields."""
    if type(shown) is not type(own):
        return False
    if is_object(shown) and is_object(own):
        return shown.keys() <= own.keys() and all(agree(part, own[name]) for name, part in shown.items())
    if is_array(shown) and is_array(own):
        return len(shown) == len(own) and all(map(agree, shown, own))
    return shown == own


def events_of(row: Row) -> list[tuple[str, bytes]]:
    """Return the topics and the states of a row's events, or raise `ValueError`."""
    return [] if row.events is None else _events(row.events)
