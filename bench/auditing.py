"""Verifying and replaying a log, against sqlite3 and blake2b over the same rows."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import reduce
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final

import msgspec

from bench.account import Account, Deposited, evolve, open_log
from bench.measure import Line, Sample, Workload, at_least, must, ratio_of_at_least
from bench.replay import fill
from bench.workload import deltas, question
from reenact._runtime import codec
from reenact.actors.envelopes import flat, segments_of
from reenact.actors.journal.api import Append, Derived, Entry, Kept, Outcome, Segment
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel.profile import StoredNames
from reenact.audit import Verdict, verify_log
from reenact.domain.chain import GENESIS, Row
from reenact.domain.messages import TextBlock, Usage
from reenact.domain.session.agent import AgentStarted, AnswerRecorded, MessageAccepted, TurnCompleted, TurnStarted
from reenact.domain.session.announce import TODAY, announce, needed, of_turn
from reenact.domain.session.state import Session, SessionCreated, SessionEvent
from reenact.domain.session.state import evolve as believe
from reenact.domain.stream.events import AgentStateChanged, MessageDelta, MessageStart, MessageStop, TextDelta

STREAMS: Final = 1_000
TURNS: Final = 50
"""Of each session."""

_START: Final = 1_700_000_000_000_000
_COLUMNS: Final = ", ".join(Row.__struct_fields__)
_ROWS: Final = f"SELECT {_COLUMNS} FROM steps ORDER BY stream, number"  # noqa: S608 - ours
_STREAM: Final = "SELECT events FROM steps WHERE stream = ? AND count > 0 ORDER BY version"
_header: Final = Struct(">IIqqqqqq").pack
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


class Replayed(Account):
    """An account with its own stored names of events."""

    events: ClassVar[StoredNames] = {"deposited": Deposited}


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    return [
        _of_actors("verify, 1,000 streams, their chains", 0.5, 1_000_000 // scale, _verified),
        _of_actors(
            "verify, 1,000 streams, replayed", 0.35, 1_000_000 // scale, lambda path: _verified(path, actors=[Replayed])
        ),
        _folded(1_000_000 // scale),
        _of_sessions(400 // scale),
    ]


def _of_actors(name: str, bound: float, events: int, ours: Callable[[Path], int]) -> Workload:
    lines = (
        Line(name, "events/s", "sqlite3 + blake2b", ratio_of_at_least(bound)),
        Line(f"{name}, alone", "events/s", goal=at_least(200_000)),
    )

    def measure(directory: Path, number: int) -> Sequence[Sample]:
        path = directory / "log.db"
        with open_log(path, "OFF") as journal:
            fill(journal, [f"account/{stream:06d}" for stream in range(STREAMS)], events // STREAMS)
        sample = _both(lambda: ours(path), lambda: _by_hand(path), events, number)
        return sample, Sample(sample.ours)

    return Workload(lines, measure)


def _folded(events: int) -> Workload:
    def measure(directory: Path, number: int) -> Sequence[Sample]:
        path = directory / "log.db"
        streams = [f"account/{stream:06d}" for stream in range(STREAMS)]
        with open_log(path, "OFF") as journal:
            fill(journal, streams, events // STREAMS)

            def ours() -> int:
                return sum(reduce(evolve, (one.event for one in journal.read(stream)), 0) for stream in streams)

            return (_both(ours, lambda: _folded_by_hand(path, streams), events, number),)

    return Workload((Line("fold of 1,000 streams", "events/s", "sqlite3", ratio_of_at_least(0.3)),), measure)


def _of_sessions(sessions: int) -> Workload:
    lines = (
        Line("verify, sessions with turns and deltas", "events/s", "sqlite3 + blake2b"),
        Line("verify, sessions, events and what was told", "1/s", goal=at_least(200_000)),
    )

    def measure(directory: Path, number: int) -> Sequence[Sample]:
        path = directory / "log.db"
        events, told = write_sessions(path, sessions, TURNS)
        sample = _both(lambda: _verified(path), lambda: _by_hand(path), events, number)
        return sample, Sample(sample.ours * (events + told) / events)

    return Workload(lines, measure)


def _both(ours: Callable[[], int], peer: Callable[[], int], events: int, number: int) -> Sample:
    def rate(side: Callable[[], int]) -> float:
        begun = time.perf_counter()
        must(side() == events, "every event was looked at")
        return events / (time.perf_counter() - begun)

    if number % 2:
        first = rate(ours)
        return Sample(first, rate(peer))
    first = rate(peer)
    return Sample(rate(ours), first)


def _verified(path: Path, actors: Sequence[type[Account]] = ()) -> int:
    verdict: Verdict = verify_log(path, actors=actors)
    must(verdict.is_whole, "nothing is wrong")
    return verdict.events


def _by_hand(path: Path) -> int:
    """Check the digests of all streams, and nothing else."""
    count = 0
    with closing(sqlite3.connect(path)) as connection:
        for stream, rows in groupby(connection.execute(_ROWS), itemgetter(1)):
            name, previous = stream.encode(), GENESIS
            for _, _, at, version, _, events, cursor, heard, _, _, digest, _, _, *parts in rows:
                place, first = version if events else -1, cursor if heard else 0
                header = _header(len(name), 0, at, place, events, first, heard, 0)
                digests = [bytes(32) if one is None else blake2b(one, digest_size=32).digest() for one in parts]
                content = b"".join((previous, *digests, header, name))
                must(blake2b(content, digest_size=32).digest() == digest, "it is whole")
                previous = digest
                count += events
    return count


def _folded_by_hand(path: Path, streams: Sequence[str]) -> int:
    decode = msgspec.msgpack.Decoder(tuple[int, Deposited]).decode
    with closing(sqlite3.connect(path)) as connection:
        packed = (events for stream in streams for (events,) in connection.execute(_STREAM, (stream,)))
        return sum(decode(state)[1].amount for events in packed for _, state in _unpack(events))


def write_sessions(path: Path, sessions: int, turns: int) -> tuple[int, int]:
    """Write sessions with turns; return the number of events and of feed entries."""
    told = 0
    with SqliteJournal.open(path, codec(), synchronous="OFF") as journal:
        for number in range(sessions):
            session_id, version = f"s{number:06d}", 0
            for step in _steps(session_id, turns):
                journal.append(Append(f"session/{session_id}", version, step[0], step[1], step[2]), _ignored)
                version += len(step[1])
                told += sum(len(segment.entries) for segment in step[2])
            journal.recover(f"session/{session_id}")
        return journal.head(), told


def _steps(session_id: str, turns: int) -> Iterator[tuple[int, tuple[SessionEvent, ...], Kept]]:
    state, turn = Session(), 0
    at = _START
    for events in _decided(session_id, turns):
        at += 1_000
        yield at, events, _heard(session_id, state, events, at)
        state = reduce(believe, events, state)
        if isinstance(events[-1], TurnStarted):
            yield at, (), (_answer(state, events[-1].turn_id, turn, at),)
            turn += 1


def _decided(session_id: str, turns: int) -> Iterator[tuple[SessionEvent, ...]]:
    yield (SessionCreated(session_id, "bench", "bench", 1),)
    yield (AgentStarted(f"a{session_id}"),)
    for turn in range(turns):
        turn_id, usage = f"t{session_id}.{turn:06d}", _used(turn)
        said = TextBlock(question(turn)), TextBlock("".join(deltas(turn)))
        yield MessageAccepted(turn_id, f"q{turn_id}", said[:1], _START), TurnStarted(turn_id, _START)
        yield (
            AnswerRecorded(turn_id, f"m{turn_id}", said[1:], "end_turn", False, usage, "claude", _START),  # noqa: FBT003
            TurnCompleted(turn_id, "completed", "end_turn", usage, 0.5, "responding"),
        )


def _heard(session_id: str, state: Session, events: tuple[SessionEvent, ...], at: int) -> Derived:
    needs = needed(state, events)
    return Derived(TODAY, needs.stored(), segments_of(announce(session_id, needs, events), at))


def _used(turn: int) -> Usage:
    return {"input_tokens": 100 + turn, "output_tokens": 200}


def _answer(state: Session, turn_id: str, turn: int, at: int) -> Segment:
    said = (
        MessageStart(message_id=f"m{turn_id}", model="claude"),
        AgentStateChanged(previous="thinking", current="responding"),
        *(TextDelta(text=delta) for delta in deltas(turn)),
        MessageDelta(usage=_used(turn)),
        MessageStop(),
    )
    return Segment(flat(of_turn(state)), tuple(Entry(data.event_type, at, data) for data in said))


def _ignored(_outcome: Outcome) -> None:
    pass  # `recover` waits for all of them
