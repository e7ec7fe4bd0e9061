"""Envelopes: what is heard of the entries of a publication, whoever hears it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from reenact.actors.journal.api import Entry, Segment
from reenact.domain.commands import CATALOGUE, Request, Response
from reenact.domain.events import ContainerCreated, Context, Envelope, EventData, ImageRegistered
from reenact.domain.messages import instant


def open_up(segment: Segment, new_id: Callable[[str], str]) -> Iterator[Envelope]:
    """Yield the envelopes of a segment that no feed keeps."""
    context = Context(**segment.context)
    for entry in segment.entries:
        yield enveloped(entry, context, None, None, new_id)


def enveloped(
    entry: Entry, context: Context, topic: str | None, cursor: int | None, new_id: Callable[[str], str]
) -> Envelope:
    """Return the envelope of an entry; the id of one that a feed keeps is made of its topic and cursor."""
    kind = CATALOGUE[entry.type]
    return Envelope(
        id=_passing_id(entry, new_id) if cursor is None else f"{topic}:{cursor}",
        type=entry.type,
        timestamp=instant(entry.at),
        source=kind.source,
        category=kind.category,
        intent=kind.intent,
        context=context,
        cursor=cursor,
        data=typed(kind, entry.data),
    )


def _passing_id(entry: Entry, new_id: Callable[[str], str]) -> str:
    """Return the same id to all who tell of the event, wherever what it is about says which one it is."""
    match entry.data:
        case Request() | Response() as said:
            return f"{said.request_id}:{said.intent}"
        case ContainerCreated() as created:
            return f"container/{created.container_id}:1"
        case ImageRegistered() as registered:
            return f"image/{registered.image_id}:{registered.revision}"
        case _:
            return new_id("evt")


def typed(kind: type[EventData], data: Any) -> EventData:  # noqa: ANN401 - builtins as they come out of the log
    """Return the data of an event in its own type; what comes fresh from a publisher has it already."""
    return data if isinstance(data, EventData) else msgspec.convert(data, kind)


def flat(context: Context) -> dict[str, str]:
    """Return the context as a feed keeps it: only what is set."""
    names = Context.__struct_fields__
    values = ((name, getattr(context, name)) for name in names)
    return {name: value for name, value in values if value is not None}
