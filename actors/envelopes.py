"""Builds the envelopes of published events for all receivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeGuard

import msgspec

from reenact.actors.journal.api import Entry, Segment
from reenact.domain.messages import instant
from reenact.domain.operations.table import CATALOGUE, Request, Response
from reenact.domain.session.announce import version_of
from reenact.domain.stream.events import ContainerCreated, Context, Envelope, EventData, ImageRegistered
from reenact.domain.stream.feed import FeedPart


def enveloped(entry: Entry, context: Context, id_: str, cursor: int | None = None) -> Envelope:
    """Return the envelope of an entry."""
    data = entry.data
    if not isinstance(data, EventData):
        data = msgspec.convert(data, CATALOGUE[entry.type])  # entries from the log have builtins
    return Envelope(
        id=id_,
        type=entry.type,
        timestamp=instant(entry.at),
        source=data.source,
        category=data.category,
        intent=data.intent,
        context=context,
        cursor=cursor,
        data=data,
    )


def is_response(envelope: Envelope) -> TypeGuard[Envelope[Response]]:
    """Return whether the envelope holds a response."""
    return isinstance(envelope.data, Response)


def id_in_feed(topic: str, cursor: int) -> str:
    """Return the id of an event that is stored in a feed."""
    return f"{topic}:{cursor}"


def passing_id(data: object, new_id: Callable[[str], str]) -> str:
    """Return the id of an event that is not in a feed; deterministic for all receivers where its data allows that."""
    match data:
        case Request(request_id=request_id, intent=intent) | Response(request_id=request_id, intent=intent):
            return f"{request_id}:{intent}"
        case ContainerCreated() as created:
            return f"container/{created.container_id}:1"
        case ImageRegistered() as registered:
            return f"image/{registered.image_id}:{registered.revision}"
        case _:
            return new_id("evt")


def flat(context: Context) -> dict[str, str]:
    """Return the context as stored in a feed: only the fields that are set."""
    told: dict[str, str] = msgspec.to_builtins(context)
    return told


def segments_of(heard: Iterable[tuple[Context, EventData]], at: int) -> tuple[Segment, ...]:
    """Return the events as segments of a feed, grouping consecutive ones with the same context."""
    return tuple(
        [
            Segment(flat(context), tuple([Entry(data.event_type, at, data) for _, data in run]))
            for context, run in groupby(heard, itemgetter(0))
        ]
    )


def derived(part: FeedPart, stream: str, at: int, events: Sequence[object], row: str) -> tuple[Segment, ...]:
    """Return the segments for subscribers that are derived from the events of a session's step.

    Raises:
        LogTooNewError: an unknown version of `announce` is required; the message names the row.
    """
    version = version_of(part.version, row)
    return segments_of(version.announce(stream.partition("/")[2], version.read(part.needs), events), at)
