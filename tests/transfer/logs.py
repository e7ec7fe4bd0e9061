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
from reenact.actors.envelopes import flat, segments_of
from reenact.actors.journal.api import Append, Derived, Entry, Listener, Segment
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.session.agent import StepStarted, TurnStarted
from reenact.domain.session.announce import TODAY, announce, needed, of_turn
from reenact.domain.session.state import Session, SessionBranched, evolve
from reenact.domain.stream import events as heard
from tests.journal.support import commit
from tests.projections.histories import Foreign, ListLog, Recorded, lineage, steps_of
from tests.projections.said import GOES_ON, said_in

Line = dict[str, Any]


def write(log: ListLog, path: Path, *, deltas: Sequence[str] = (), listener: Listener | None = None) -> None:
    """Write what a list holds into a log, with what subscribers saw of it, and these texts as pieces of answers.

    Without any, the answers are those that were recorded.
    """
    rows = [row for row in log.rows if not isinstance(row.event, Foreign)]
    with SqliteJournal.open(path, codec(), synchronous="OFF", listener=listener) as journal:
        after: dict[str, int] = {}
        number = 0
        for step in steps_of(rows):
            first = step[0]
            stream = first.stream.replace("-", "/", 1) if first.stream[:7] != "session" else first.stream
            version, at = after.get(stream, 0), first.recorded_at
            after[stream] = version + len(step)
            events = tuple(row.event for row in step)
            if isinstance(events[0], SessionBranched):
                branched = events[0]
                shared = journal.digest_at(f"session/{branched.origin}", branched.version) or b""
                events = (msgspec.structs.replace(branched, digest=shared.hex()), *events[1:])
            kept = _heard(rows[:number], step) if stream.startswith("session/") else ()
            if said := () if deltas else tuple(_said(rows[:number], step, rows[number:])):
                commit(journal, Append(stream, None, at, (), said))
            commit(journal, Append(stream, version, at, events, kept, cause=first.cause))
            if deltas and kept:
                pieces = tuple(Entry("text_delta", at, {"text": text}) for text in deltas)
                commit(journal, Append(stream, None, at, (), (Segment({"agent_id": "a"}, pieces),)))
            number += len(step)


def _said(before: Sequence[Recorded], step: Sequence[Recorded], later: Sequence[Recorded]) -> Iterable[Segment]:
    """Yield what has been said when the step comes, if that ends an answer, which is among the later rows."""
    stream, events = step[0].stream, [row.event for row in step]
    own = [row.event for row in before if row.stream == stream]
    begun = next((event for event in reversed(own) if not isinstance(event, GOES_ON[2:])), None)
    if all(isinstance(event, GOES_ON) for event in events) or not isinstance(begun, TurnStarted | StepStarted):
        return
    following = [row.event for row in later if row.stream == stream]
    entries = tuple(Entry(data.event_type, step[0].recorded_at, data) for data in said_in(following))
    if entries:
        yield Segment(flat(of_turn(_before(before, step))), entries)


def _heard(before: Sequence[Recorded], step: Sequence[Recorded]) -> Derived:
    """Return what is heard of the step."""
    events: list[Any] = [row.event for row in step]
    needs = needed(_before(before, step), events)
    heard = announce(step[0].stream.removeprefix("session/"), needs, events)
    return Derived(TODAY, needs.stored(), segments_of(heard, step[0].recorded_at))


def _before(rows: Sequence[Recorded], step: Sequence[Recorded]) -> Session:
    *before, _ = lineage([*rows, step[0]], step[0].stream.removeprefix("session/"))
    return reduce(evolve, (row.event for row in before), Session())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # all there is


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
                    row = rows[begin + 1]
                    end = last - sum(len(segment.entries) for segment in row.segments[len(row.stored) :])
                    entry = Entry("deltas_compacted", 1, heard.DeltasCompacted(first_cursor=first, last_cursor=end))
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
