"""Logs to export: of random histories, of real sessions, and files that somebody has tampered with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import reduce
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from reenact._runtime import codec
from reenact.actors.journal.api import Append, Entry, Segment
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain import events as heard
from reenact.domain.agent import StepStarted, TurnStarted
from reenact.domain.announce import announce, of_turn
from reenact.domain.session import Session, SessionBranched, evolve
from tests.journal.support import commit
from tests.projections.histories import Foreign, ListLog, Recorded, lineage
from tests.projections.said import GOES_ON, said_in

Line = dict[str, Any]


def write(log: ListLog, path: Path, *, deltas: Sequence[str] = ()) -> None:
    """Write what a list holds into a log, with what subscribers saw of it, and these texts as pieces of answers.

    Without any, the answers are those that were recorded.
    """
    with SqliteJournal.open(path, codec(), synchronous="OFF") as journal:
        after: dict[str, int] = {}
        for number, row in enumerate(log.rows):
            if isinstance(row.event, Foreign):
                continue
            stream = row.stream.replace("-", "/", 1) if row.stream[:7] != "session" else row.stream
            version = after.get(stream, 0)
            after[stream] = version + 1
            kept = tuple(_heard(log.rows[: number + 1])) if stream.startswith("session/") else ()
            event = row.event
            if isinstance(event, SessionBranched):
                shared = journal.digest_at(f"session/{event.origin}", event.version) or b""
                event = msgspec.structs.replace(event, digest=shared.hex())
            if said := () if deltas else tuple(_said(log.rows[: number + 1], log.rows[number:])):
                commit(journal, Append(stream, None, row.recorded_at, (), said))
            commit(journal, Append(stream, version, row.recorded_at, (event,), kept, cause=row.cause))
            if deltas and kept:
                pieces = tuple(Entry("text_delta", row.recorded_at, {"text": text}) for text in deltas)
                commit(journal, Append(stream, None, row.recorded_at, (), (Segment({"agent_id": "a"}, pieces),)))


def _said(rows: Sequence[Recorded], later: Sequence[Recorded]) -> Iterable[Segment]:
    """Yield what has been said when the last of the rows comes, if that ends an answer, which is among the later."""
    last, following = rows[-1], [row.event for row in later if row.stream == rows[-1].stream]
    own = [row.event for row in rows[:-1] if row.stream == last.stream]
    begun = next((event for event in reversed(own) if not isinstance(event, GOES_ON[2:])), None)
    if isinstance(last.event, GOES_ON) or not isinstance(begun, TurnStarted | StepStarted):
        return
    *before, _ = lineage(rows, last.stream.removeprefix("session/"))
    session = reduce(evolve, (row.event for row in before), Session())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # all there is
    names = {name: value for name, value in msgspec.to_builtins(of_turn(session)).items() if value is not None}
    entries = tuple(Entry(data.event_type, last.recorded_at, data) for data in said_in(following))
    if entries:
        yield Segment(names, entries)


def _heard(rows: Sequence[Recorded]) -> Iterable[Segment]:
    """Yield what is heard of the last of the rows."""
    last = rows[-1]
    *before, _ = lineage(rows, last.stream.removeprefix("session/"))
    session = reduce(evolve, (row.event for row in before), Session())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # all there is
    for context, told in announce(session, (last.event,)):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # likewise
        names = {name: value for name, value in msgspec.to_builtins(context).items() if value is not None}
        yield Segment(names, (Entry(told.event_type, last.recorded_at, told),))


def compact(path: Path, chosen: Sequence[int]) -> None:
    """Put fewer rows in the place of some of each feed; which ones the numbers say."""
    with SqliteJournal.open(path, codec(), synchronous="OFF") as journal:
        topics = {row.stream for row in journal.read_all(limit=100_000)}
        for topic in sorted(topics):
            rows = journal.read_feed(topic, limit=100_000)
            begins = [*(row.first_cursor for row in rows), journal.feed_end(topic) + 1]
            for begin in chosen:
                if begin + 2 < len(begins):
                    first, last = begins[begin], begins[begin + 2] - 1
                    entry = Entry("deltas_compacted", 1, heard.DeltasCompacted(first_cursor=first, last_cursor=last))
                    with suppress(ValueError):  # they are no longer as they were
                        journal.replace_feed(topic, first, last, [Segment({}, (entry,))])


def contents(path: Path) -> list[bytes]:
    """Return the lines of an export without what depends on the log that it is of."""
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()[1:-1]]
    return [msgspec.json.encode({key: value for key, value in line.items() if key != "position"}) for line in lines]


def forged(path: Path, change: Callable[[list[Line]], None]) -> Path:
    """Change the lines of an export, with the digest at its end as if that had been written so."""
    lines: list[Line] = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    change(lines)
    body = b"".join(msgspec.json.encode(line) + b"\n" for line in lines[:-1])
    end = {**lines[-1], "digest": blake2b(body, digest_size=32).hexdigest()}
    path.write_bytes(body + msgspec.json.encode(end) + b"\n")
    return path
