"""What a session that branches off goes on with: the history that it shares, and what was open at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from reenact.domain.errors import LogUnusableError
from reenact.domain.session import SessionBranched
from reenact.projections.log import Log, Row
from reenact.projections.projectors import OpenEnd, project
from reenact.projections.state import Changes, Conversing


class Shared(msgspec.Struct, frozen=True, gc=False):
    """A part of a history: events of one stream, from its first to one that has this version."""

    stream: str
    version: int
    rows: Sequence[Row]


def stream_of(session_id: str) -> str:
    """Return the stream of a session."""
    return f"session/{session_id}"


def shared_before(log: Log, first: Row) -> list[Shared]:
    """Return the history that comes before a session's own first event, part by part; nothing, unless it is a branch.

    Raises:
        LogUnusableError: the log does not have it.
    """
    return list(_backwards(log, first))[::-1]


def open_before(log: Log, first: Row) -> OpenEnd:
    """Return the end of the history that comes before a branch's first event.

    Raises:
        LogUnusableError: the log does not have it.
    """
    parts = shared_before(log, first)
    conversations: dict[str, Conversing] = {}
    aside = Changes()
    ends: list[OpenEnd] = []
    for part in parts:
        for row in part.rows:
            project(aside, conversations, row, lambda _: ends[-1])
        ends.append(OpenEnd(conversations[part.stream], part.rows[-1]))
    return ends[-1]


def _backwards(log: Log, first: Row) -> Iterator[Shared]:
    while isinstance(branched := first.event, SessionBranched):
        stream, version = stream_of(branched.origin), branched.version
        rows = list(takewhile(lambda row: row.version <= version, log.read(stream)))  # noqa: B023 - taken at once
        if not rows or rows[-1].version != version or rows[-1].position >= first.position:
            message = f"{first.stream!r} branches off from {stream!r} at version {version}, which is not there"
            raise LogUnusableError(f"{message}; verify the log")
        yield Shared(stream, version, rows)
        first = rows[0]
