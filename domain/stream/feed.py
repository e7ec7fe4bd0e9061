"""The feed part of a row: segments that are stored in full, and the data from which others are derived.

In a stored segment, consecutive texts of the same type are a run: their type, the list of their times and their texts.
The times are the first one and the following differences, in microseconds; only the first if all are equal. A segment's
context is the list of the values of `Context`, without names; a number refers to an equal value before it, by its place
from 1 on, or is 0 for the id in the stream's name. A context with other names is stored as it is.

Texts that the row's events or `needs` hold already are not stored again: instead of its texts a run has the offset at
which they begin in the bytes of the events followed by those of `needs`, and the number of bytes of each text. A
context has such an offset and size instead of an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from typing import Annotated, Final, TypeAlias

import msgspec

from reenact.domain.plain import Encodable, is_mapping, is_sequence
from reenact.domain.stream.events import Context, TextDelta, ThinkingDelta
from reenact.domain.structs import Frozen


class Entry(Frozen, array_like=True):
    """One entry of a topic, as a subscriber sees it.

    `at` is microseconds since 1970-01-01 UTC; `data` is anything that msgspec encodes (a Struct becomes a map); it is
    read from the log as plain builtins, or in its own type if it is derived from events.
    """

    type: str
    at: int
    data: Encodable


class Segment(Frozen, array_like=True):
    """Consecutive entries with the same context, such as their session, agent and turn."""

    context: dict[str, str]
    entries: tuple[Entry, ...]


class FeedPart(Frozen):
    """The feed part of a row: segments in full, followed by the announcements derived from its events.

    `version` is that of the function that derives them, 0 if nothing is derived, and `needs` its input besides the
    events.
    """

    segments: tuple[Segment, ...] = ()
    version: int = 0
    needs: msgspec.Raw = msgspec.Raw()


class _StoredEntry(msgspec.Struct, array_like=True, gc=False):
    """A stored entry, or a run if it has a list of times."""

    type: str
    at: int | list[int]
    data: Encodable


_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_StoredContext: TypeAlias = dict[str, str] | list[str | _Size | list[_Size] | None]


class _StoredPart(Frozen, array_like=True):
    segments: list[tuple[_StoredContext, list[_StoredEntry]]]
    version: int = 0
    needs: msgspec.Raw = msgspec.Raw()


_TYPES = (TextDelta, ThinkingDelta)
_NAMES = frozenset(kind.event_type for kind in _TYPES)
_FIELDS: Final[set[object]] = {"text"}
_CONTEXT_FIELDS = Context.__struct_fields__
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_StoredPart).decode
_SHORT = 8
"""Up to this number of bytes, a text is shorter than its offset and size."""


def pack_segments(
    segments: Iterable[tuple[Mapping[str, str], Sequence[Entry]]], stream: str, beside: bytes = b""
) -> msgspec.Raw:
    """Return contexts and their entries in the stored form of a row of the stream.

    `beside` are the other bytes of the row: its events, then the `needs` of the part.
    """
    own = _id_in(stream)
    return msgspec.Raw(
        _encode(
            [(_pack_context(context, own, beside), _pack_entries(entries, beside)) for context, entries in segments]
        )
    )


def pack_feed(segments: msgspec.Raw, version: int = 0, needs: bytes | msgspec.Raw = b"") -> bytes:
    """Return the stored form of the part, with packed segments."""
    return _encode((segments, version, msgspec.Raw(needs)) if version else (segments,))


def unpack_feed(feed: bytes, stream: str, events: bytes | None) -> FeedPart:
    """Return the part that is stored in a row of the stream, together with these events.

    Raises:
        ValueError: the bytes are not a valid part.
    """
    part, own = _decode(feed), _id_in(stream)
    beside = (events or b"") + bytes(part.needs)
    segments = tuple(
        Segment(_unpack_context(context, own, beside), tuple(_unpack_entries(stored, beside)))
        for context, stored in part.segments
    )
    return FeedPart(segments, part.version, part.needs)


def _id_in(stream: str) -> str:
    return stream.partition("/")[2]


def _pack_context(context: Mapping[str, str], own: str, beside: bytes) -> Mapping[str, str] | list[object]:
    values = [context.get(name) for name in _CONTEXT_FIELDS]
    if len(values) - values.count(None) != len(context):
        return context
    stored: list[object] = []
    for place, value in enumerate(values):
        first = place if value is None else values.index(value)
        if value == own:
            stored.append(0)
        elif value is None or first == place:
            stored.append(None if value is None else _find_texts((value,), beside) or value)
        else:
            stored.append(first + 1)
    return stored


def _unpack_context(stored: _StoredContext, own: str, beside: bytes) -> dict[str, str]:
    if isinstance(stored, dict):
        return stored
    if len(stored) > len(_CONTEXT_FIELDS):
        raise msgspec.ValidationError(f"the context of a segment has {len(stored)} values")
    values: list[str | None] = [own]
    try:
        for value in stored:
            if isinstance(value, list):
                values += _read_texts(value, beside)
            else:
                values.append(values[value] if isinstance(value, int) else value)
    except IndexError:
        raise msgspec.ValidationError("the context of a segment repeats a value that it does not have") from None
    return {name: value for name, value in zip(_CONTEXT_FIELDS, values[1:], strict=False) if value is not None}


def _find_texts(texts: Sequence[str], beside: bytes) -> list[int] | None:
    """Return the offset at which the texts stand in a row, and the bytes of each, None if that would not be shorter."""
    if not beside:
        return None
    parts = [text.encode() for text in texts]
    joined = b"".join(parts)
    begin = beside.find(joined) if len(joined) > _SHORT else -1
    return None if begin < 0 else [begin, *map(len, parts)]


def _read_texts(placed: Sequence[object], beside: bytes) -> list[str]:
    """Return the texts at this offset.

    Raises:
        ValueError: they are out of range, or not UTF-8.
    """
    end, *sizes = msgspec.convert(placed, list[_Size])
    texts: list[str] = []
    for size in sizes:
        begin, end = end, end + size
        texts.append(beside[begin:end].decode())
    if end > len(beside):
        raise msgspec.ValidationError(f"texts end at byte {end} of {len(beside)}")
    return texts


def _pack_entries(entries: Sequence[Entry], beside: bytes) -> list[object]:
    stored: list[object] = []
    runs: list[tuple[_StoredEntry, list[str]]] = []
    kind, last = "", 0
    times: list[int] = []
    texts: list[str] = []
    for entry in entries:
        data = entry.data
        text = data.text if isinstance(data, _TYPES) else _text_of(entry)
        if text is None:
            kind = ""
            stored.append(entry)
        elif entry.type == kind:
            texts.append(text)
            times.append(entry.at - last)
            last = entry.at
        else:
            kind, last = entry.type, entry.at
            times, texts = [last], [text]
            run = _StoredEntry(kind, times, texts)
            runs.append((run, texts))
            stored.append(run)
    for run, texts in runs:
        if isinstance(run.at, list) and not any(run.at[1:]):
            del run.at[1:]
        run.data = _find_texts(texts, beside) or texts
    return stored


def _text_of(entry: Entry) -> str | None:
    """Return the text of an entry with plain data, None if its data is anything but one text."""
    data = entry.data
    if entry.type in _NAMES and is_mapping(data) and set(data) == _FIELDS and isinstance(text := data["text"], str):
        return text
    return None


def _unpack_entries(stored: Iterable[_StoredEntry], beside: bytes) -> Iterator[Entry]:
    for each in stored:
        type_, times, texts = each.type, each.at, each.data
        if not isinstance(times, list):
            yield Entry(type_, times, texts)
            continue
        if is_sequence(texts) and texts and isinstance(texts[0], int):
            texts = _read_texts(texts, beside)
        if not (type_ in _NAMES and is_sequence(texts) and len(times) in {1, len(texts)}):
            raise msgspec.ValidationError(f"entries of type {type_!r} are not texts with their times")
        for time, text in zip(accumulate(times) if len(times) > 1 else repeat(times[0]), texts, strict=False):
            if not isinstance(text, str):
                raise msgspec.ValidationError(f"an entry of type {type_!r} says {text!r}, which is not text")
            yield Entry(type_, time, {"text": text})
