"""Hand-written asyncio and sqlite3 with Reenact's promises, for the turns of one workload only.

A question is durable before the model is asked; deltas are durable, each under a cursor, before a handler is called;
the digest of a row covers the row before it; what is waiting shares a commit; handlers have a thread of their own; the
tables that answer lists are in another file and follow. It has no tools, limits, guards, policies, branches, recovery
or subscribers, and knows no failure. So it is what the promises themselves cost in Python.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial, reduce
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

import msgspec

from bench.account import Deposit, decide, evolve
from bench.measure import must
from bench.workload import deltas, question
from reenact.actors.ids import TimeOrderedIds
from reenact.actors.journal.writer import BATCH_LIMIT
from reenact.domain.messages import EPOCH
from reenact.domain.stream.events import Context
from reenact.events import Envelope, EventData, MessageStop, TextDelta, TurnCompleted

_LOG: Final = """
    CREATE TABLE steps (
        number INTEGER PRIMARY KEY, stream TEXT, recorded_at INTEGER, version INTEGER, position INTEGER, count INTEGER,
        cursor INTEGER, heard INTEGER, digest BLOB, events BLOB, feed BLOB
    );
    CREATE UNIQUE INDEX steps_by_stream ON steps (stream, version, cursor)
"""
_INSERT: Final = "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TABLES: Final = """
    CREATE TABLE sessions (id TEXT PRIMARY KEY, state TEXT, last_at INTEGER, turns INTEGER);
    CREATE TABLE messages (position INTEGER PRIMARY KEY, session TEXT, role TEXT, content TEXT, at INTEGER);
    CREATE INDEX messages_of ON messages (session);
    CREATE TABLE turns (id TEXT PRIMARY KEY, session TEXT, asked_at INTEGER, ended_at INTEGER)
"""

_encode: Final = msgspec.msgpack.Encoder().encode


class Created(msgspec.Struct, gc=False):
    """A session was created."""

    at: int


class Asked(msgspec.Struct, gc=False):
    """A question was accepted, and its turn has begun."""

    turn: str
    message: str
    text: str
    at: int


class Answered(msgspec.Struct, gc=False):
    """The answer is complete, and the turn has ended."""

    turn: str
    message: str
    text: str
    at: int


class _Session:
    """The end of a session's stream, its open turn, and the questions that wait."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stream = f"session/{name}"
        self.version = self.cursor = 0
        self.digest = bytes(32)
        self.context = Context(session_id=name)
        self.is_open = False
        self.reported: list[EventData] = []
        self.texts: list[str] = []
        self.waiting: list[tuple[str, Callable[[], object]]] = []

    def take_reported(self) -> list[EventData]:
        """Return what the model has reported since the last time."""
        reported, self.reported = self.reported, []
        self.texts += [one.text for one in reported if isinstance(one, TextDelta)]
        return reported


class _Step(msgspec.Struct):
    """A row to come: events, what handlers get, and what happens once it is durable."""

    session: _Session
    events: Sequence[msgspec.Struct]
    heard: Sequence[EventData]
    then: Callable[[], object]


Committed: TypeAlias = tuple[int, int, _Step]
"""A durable step, after its position and its cursor."""


def _do_nothing() -> None:
    """Nothing waits for the step."""


def _envelope(data: EventData, cursor: int, at: datetime, context: Context) -> Envelope:
    return Envelope(
        id=f"{context.session_id}-{cursor}",
        type=data.event_type,
        timestamp=at,
        source=data.source,
        category=data.category,
        intent="notification",
        context=context,
        cursor=cursor,
        data=data,
    )


class _Log:
    """The file with the rows."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA page_size = 8192")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        self._connection.executescript(_LOG)
        self._number = self._position = 0

    def commit(self, steps: Sequence[_Step]) -> list[Committed]:
        """Commit the steps in one transaction."""
        now = time.time_ns() // 1000
        committed: list[Committed] = []
        rows: list[tuple[object, ...]] = []
        for step in steps:
            committed.append((self._position, step.session.cursor, step))
            rows.append(self._row(step, now))
        if len(rows) == 1:
            self._connection.execute(_INSERT, rows[0])
        else:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, rows)
            self._connection.execute("COMMIT")
        return committed

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _row(self, step: _Step, now: int) -> tuple[object, ...]:
        session = step.session
        self._number += 1
        events = _encode(step.events)
        feed = _encode([one.text for one in step.heard if isinstance(one, TextDelta)])
        place = self._number, session.stream, now, session.version, self._position, len(step.events)
        digest = blake2b(session.digest, digest_size=32)
        digest.update(_encode(place))
        digest.update(blake2b(events, digest_size=32).digest())
        digest.update(blake2b(feed, digest_size=32).digest())
        session.digest = digest.digest()
        row = (*place, session.cursor, len(step.heard), session.digest, events, feed)
        session.version += len(step.events)
        session.cursor += len(step.heard)
        self._position += len(step.events)
        return row


class _Tables:
    """The file with the tables, filled on a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_TABLES)
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def follow(self, commit: list[Committed]) -> None:
        """Write the rows of the commit soon."""
        self._work.put(partial(self._project, commit))

    def messages(self, session: str) -> list[tuple[str, str]]:
        """Return the session's messages, once everything before is written."""
        written = threading.Event()
        self._work.put(written.set)
        written.wait()
        query = "SELECT role, content FROM messages WHERE session = ? ORDER BY position"
        return self._connection.execute(query, (session,)).fetchall()

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._work.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        for work in iter(self._work.get, None):
            work()

    def _project(self, commit: list[Committed]) -> None:
        self._connection.execute("BEGIN")
        for position, _, step in commit:
            for count, event in enumerate(step.events):
                self._write(position + count, step.session.name, event)
        self._connection.execute("COMMIT")

    def _write(self, position: int, session: str, event: object) -> None:
        execute = self._connection.execute
        if isinstance(event, Created):
            execute("INSERT INTO sessions VALUES (?, 'new', ?, 0)", (session, event.at))
        if not isinstance(event, Asked | Answered):
            return
        role, state = ("user", "live") if isinstance(event, Asked) else ("assistant", "idle")
        execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?)", (position, session, role, event.text, event.at))
        if isinstance(event, Asked):
            execute("INSERT INTO turns VALUES (?, ?, ?, NULL)", (event.turn, session, event.at))
        else:
            execute("UPDATE turns SET ended_at = ? WHERE id = ?", (event.at, event.turn))
        ended = int(isinstance(event, Answered))
        update = "UPDATE sessions SET state = ?, last_at = ?, turns = turns + ? WHERE id = ?"
        execute(update, (state, event.at, ended, session))


def append_by_hand(directory: Path, actors: int, each: int) -> float:
    """Let each of many balances grow, one event at a time, as many as wait in a commit; return the events per second.

    One loop decides, commits and evolves: the least that event-sourced actors do.
    """
    log = _Log(directory / "bench.db", "FULL")
    balances = dict.fromkeys(range(actors), 0)
    accounts = [_Session(f"{number:06d}") for number in balances]
    waiting = deque((number, Deposit(1, each - 1)) for number in balances)
    begun = time.perf_counter()
    while waiting:
        batch = [waiting.popleft() for _ in range(min(len(waiting), BATCH_LIMIT))]
        decided = [decide(balances[number], command) for number, command in batch]
        steps = zip(batch, decided, strict=True)
        log.commit([_Step(accounts[number], events, [], _do_nothing) for (number, _), events in steps])
        for (number, command), events in zip(batch, decided, strict=True):
            balances[number] = reduce(evolve, events, balances[number])
            if command.more:
                waiting.append((number, Deposit(command.amount, command.more - 1)))
    took = time.perf_counter() - begun
    log.close()
    must(set(balances.values()) == {each}, "every balance has grown as often")
    return actors * each / took


class ByHand:
    """An event loop decides, commits and runs the models; one thread calls handlers, another one fills the tables."""

    name = "by hand"

    def __init__(self, path: Path, synchronous: str) -> None:
        self._log = _Log(path, synchronous)
        self._tables = _Tables(path.with_suffix(".tables.db"))
        self._ids = TimeOrderedIds(lambda: time.time_ns() // 1000)
        self._sessions: dict[str, _Session] = {}
        self._steps: list[_Step] = []
        self._reporting: list[_Session] = []
        self._is_commit_planned = False
        self._not_before = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._published: SimpleQueue[list[Committed] | None] = SimpleQueue()
        self._handlers = {TextDelta.event_type: self._hear, TurnCompleted.event_type: self._end}
        self._done = threading.Semaphore(0)
        self._ended: dict[str | None, threading.Semaphore] = {}
        self.heard = 0
        self._loop = asyncio.new_event_loop()
        self._threads = [threading.Thread(target=run) for run in (self._loop.run_forever, self._call_handlers)]
        for thread in self._threads:
            thread.start()

    def create(self, number: int) -> str:
        """Create one session, durably."""
        session = _Session(f"s{number:06d}")
        self._sessions[session.name] = session
        created = Created(time.time_ns() // 1000)
        self._request(lambda replied: self._append(_Step(session, [created], [], replied)))
        return session.name

    def run(self, session: str) -> str:
        """Do nothing: there is no agent."""
        return session

    def turn(self, session: str, number: int) -> str:
        """Ask and answer once; return when a handler has received the durable end of the turn."""
        self._request(lambda replied: self._ask(self._sessions[session], question(number), replied))
        self._ended.get(session, self._done).acquire()
        return "".join(deltas(number))

    def turns_at_once(self, sessions: list[str], turns: int) -> None:
        """Run the turns in each session, all sessions at once."""

        def converse(session: str) -> None:
            for number in range(turns):
                self.turn(session, number)

        self._ended = {session: threading.Semaphore(0) for session in sessions}
        with ThreadPoolExecutor(len(sessions)) as threads:
            list(threads.map(converse, sessions))
        self._ended = {}

    def history(self, session: str) -> int:
        """Return the number of the session's messages, having read them all."""
        return len(self._tables.messages(session))

    def close(self) -> None:
        """End the threads and close the files."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._published.put(None)
        for thread in self._threads:
            thread.join()
        self._loop.close()
        self._tables.close()
        self._log.close()

    def _request(self, ask: Callable[[Callable[[], object]], object]) -> None:
        gate = threading.Lock()
        gate.acquire()
        self._loop.call_soon_threadsafe(ask, gate.release)
        gate.acquire()

    # On the event loop.

    def _ask(self, session: _Session, text: str, replied: Callable[[], object]) -> None:
        if session.is_open:
            session.waiting.append((text, replied))
            return
        session.is_open = True
        asked = Asked(self._ids("turn"), self._ids("msg"), text, time.time_ns() // 1000)
        session.context = Context(session_id=session.name, turn_id=asked.turn, causation_id=asked.message)

        def begin() -> None:
            replied()
            task = self._loop.create_task(self._answer(session, asked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._append(_Step(session, [asked], [], begin))

    async def _answer(self, session: _Session, asked: Asked) -> None:
        begun = time.monotonic()
        await self.send_message(asked.text, lambda event: self._report(session, event))
        took = time.monotonic() - begun
        heard = session.take_reported()
        heard.append(TurnCompleted(turn_id=asked.turn, outcome="completed", stop_reason="end_turn", duration=took))
        answered = Answered(asked.turn, self._ids("msg"), "".join(session.texts), time.time_ns() // 1000)
        session.texts.clear()
        self._append(_Step(session, [answered], heard, lambda: self._go_on(session)))

    async def send_message(self, text: str, on_event: Callable[[EventData], object]) -> None:
        """Answer like the model of the other side."""
        for delta in deltas(int(text.split()[1])):
            on_event(TextDelta(text=delta))
        on_event(MessageStop())

    def _report(self, session: _Session, event: EventData) -> None:
        if not session.reported:
            self._reporting.append(session)
            self._commit_soon()
        session.reported.append(event)

    def _go_on(self, session: _Session) -> None:
        session.is_open = False
        if session.waiting:
            self._ask(session, *session.waiting.pop(0))

    def _append(self, step: _Step) -> None:
        self._steps.append(step)
        self._commit_soon()

    def _commit_soon(self) -> None:
        if self._is_commit_planned:
            return
        self._is_commit_planned = True
        if self._loop.time() < self._not_before:
            self._loop.call_at(self._not_before, self._commit)
        else:
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        begun = self._loop.time()
        steps, self._steps, self._is_commit_planned = self._steps, [], False
        for session in self._reporting:
            if session.reported:
                steps.append(_Step(session, [], session.take_reported(), _do_nothing))
        self._reporting.clear()
        committed = self._log.commit(steps)
        if any(step.heard for step in steps):
            self._published.put(committed)
        if any(step.events for step in steps):
            self._tables.follow(committed)
        ended = self._loop.time()
        # The next one comes as much later: the busier the machine is, the more share a commit.
        self._not_before = ended + (ended - begun if len(steps) > 1 else 0)
        for step in steps:
            step.then()

    # On the thread that calls handlers.

    def _call_handlers(self) -> None:
        for commit in iter(self._published.get, None):
            at = EPOCH + timedelta(microseconds=time.time_ns() // 1000)
            for _, cursor, step in commit:
                for place, data in enumerate(step.heard, cursor):
                    handler = self._handlers.get(data.event_type)
                    if handler is not None:
                        handler(_envelope(data, place, at, step.session.context))

    def _hear(self, _event: Envelope) -> None:
        self.heard += 1

    def _end(self, event: Envelope) -> None:
        self._ended.get(event.context.session_id, self._done).release()
