"""What a session that branches off goes on with: the history that it shares, and what was open at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from reenact.domain.errors import LogUnusableError
from reenact.domain.session import SessionBranched
from reenact.projections.log import Log, Row
from reenact.projections.projectors import OpenEnd, project
from reenact.projections.state import Changes, Conversing


def stream_of(session_id: str) -> str:
    """Return the stream of a session."""
    return f"session/{session_id}"


def shared_before(log: Log, first: Row) -> list[Sequence[Row]]:
    """Return the history before a session's own first event, stream by stream; nothing, unless it is a branch.

    Raises:
        LogUnusableError: the log does not have it.
    """
    return list(_backwards(log, first))[::-1]


def open_before(log: Log, conversations: Mapping[str, Conversing], first: Row) -> OpenEnd:
    """Return the end of the history that comes before a branch's first event.

    The `conversations` are as they are when all that stands before that event in the log has happened.

    Raises:
        LogUnusableError: the log does not have it.
    """
    known = _known_before(log, conversations, first)
    if known is not None:
        return known
    aside = Changes()
    ends: list[OpenEnd] = []
    for part in shared_before(log, first):
        own: dict[str, Conversing] = {}
        for row in part:
            project(aside, own, row, lambda _: ends[-1])
        ends.append(OpenEnd(own[part[0].stream], part[-1]))
    return ends[-1]


def _known_before(log: Log, conversations: Mapping[str, Conversing], first: Row) -> OpenEnd | None:
    """Return the end of the history if it is what the other session has come to by now, as mostly it is."""
    branched = first.event
    assert isinstance(branched, SessionBranched)  # nothing else begins a branch
    stream = stream_of(branched.origin)
    session = conversations.get(stream)
    if session is None:
        return None
    since = log.read(stream, after=branched.version - 1)[:2]
    is_last = len(since) == 1 or (len(since) > 1 and since[1].position > first.position)
    return OpenEnd(session, since[0]) if is_last and since[0].version == branched.version else None


def _backwards(log: Log, first: Row) -> Iterator[Sequence[Row]]:
    while isinstance(branched := first.event, SessionBranched):
        stream, version = stream_of(branched.origin), branched.version
        rows = list(takewhile(lambda row: row.version <= version, log.read(stream)))  # noqa: B023 - taken at once
        if not rows or rows[-1].version != version or rows[-1].position >= first.position:
            message = f"{first.stream!r} branches off from {stream!r} at version {version}, which is not there"
            raise LogUnusableError(f"{message}; verify the log")
        yield rows
        first = rows[0]
