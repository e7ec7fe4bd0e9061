"""The events of a row, packed together: each its topic and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from reenact.domain.errors import LogUnusableError

Cells: TypeAlias = tuple[Any, ...]
"""Of an event the stream, version, position, topic, state, and what caused it; a file can hold anything in some."""

EVENTS: Final = "SELECT stream, version, position, cause, events FROM steps"
"""Reads the rows that hold events, for `cells_of`."""

unpack: Final = msgspec.msgpack.Decoder(Annotated[list[tuple[str, bytes]], msgspec.Meta(min_length=1)]).decode


def cells_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[Cells]:
    """Yield the events of rows, in their order; what caused those of a row comes with the first of them.

    Raises:
        LogUnusableError: a row cannot be decoded.
    """
    for stream, version, position, cause, events in rows:
        try:
            pairs, first, place = unpack(events), index(version), index(position)
        except (ValueError, TypeError) as error:
            message = f"the row at position {position!r} holds no events ({error}; stream {stream!r:.100})"
            raise LogUnusableError(f"{message}; verify the log, and restore a copy of it") from error
        for number, (topic, state) in enumerate(pairs):
            yield stream, first + number, place + number, topic, state, None if number else cause
