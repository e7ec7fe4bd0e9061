"""Checks whether the present code decides sessions as they were recorded, one after the other, the newest first."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import KeyRingError, LogEncryptedError, StorageError
from reenact.projections.explain.entries import session_of
from reenact.projections.log import stream_of
from reenact.projections.verification.replay import HistoryReplay, Parting

KEPT: Final = 10_000
"""The number of sessions whose marks are kept."""
OPEN: Final = 8
"""The number of sessions whose replay is kept, to be continued; a replay of another one begins again."""
LONG: Final = 20_000
"""The number of events above which a session's replay is not kept."""
PATIENCE: Final = 10
"""A session is replayed again from its beginning only after this many times as long as that took."""
_PAGE = 100
_BACK = """
    SELECT number, stream, position + count - 1 FROM steps
    WHERE number < ? AND count > 0 ORDER BY number DESC LIMIT 1000
"""
_END = "SELECT position + count - 1 FROM steps WHERE stream = ? AND count > 0 ORDER BY version DESC LIMIT 1"
_BEHIND_ALL = 2**62


class SessionMark(msgspec.Struct, frozen=True):
    """A session was replayed up to its end at that time, or up to the first decision that differs.

    `position` is that of its last event that was decided as recorded; `until` is the end of the log at that time.
    """

    session_id: str
    position: int
    until: int
    events: int
    steps: int
    undecided: int
    parting: Parting | None
    at: datetime
    forgotten: bool = False
    """Whether nothing can be replayed, because the session was forgotten."""


class DecisionMark(msgspec.Struct, frozen=True):
    """The results over all sessions: of `known` ones, the number decided the `same`, and those that have `parted`.

    `is_all` is whether no session is left to replay. The `forgotten` ones are counted separately. `problem` is the
    reason for which nothing can be replayed: the keys are missing.
    """

    same: int = 0
    known: int = 0
    parted: tuple[SessionMark, ...] = ()
    is_all: bool = False
    forgotten: int = 0
    problem: str = ""


@dataclass(slots=True)
class _SessionProgress:
    last: int
    mark: SessionMark | None = None
    due: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.mark is not None and (self.mark.until >= self.last or self.mark.parting is not None)


class _OpenReplay:
    """A replay of one session, which proceeds step by step."""

    def __init__(self, log: StoredJournal, session_id: str, replay: HistoryReplay) -> None:
        self.session_id = session_id
        self.replay = replay
        self.until = log.head()
        self.took = 0.0
        self.steps: Iterator[int]
        self.resume()

    def resume(self) -> None:
        """Continue after the last step."""
        self.steps = self.replay.go_on(self.until, _PAGE)


class DecisionMarks:
    """Replays sessions in time slices, and keeps the marks. `mark_of` and `prioritize` are thread-safe."""

    def __init__(self, log: StoredJournal, pause: Callable[[], object]) -> None:
        self._log = log
        self._pause = pause
        self._known: OrderedDict[str, _SessionProgress] = OrderedDict()
        self._prioritized: deque[str] = deque(maxlen=16)
        self._waiting: OrderedDict[str, None] = OrderedDict()
        """The sessions to be replayed; the last one is next."""
        self._before = _BEHIND_ALL
        self._first: int | None = None
        self._open: OrderedDict[str, HistoryReplay] = OrderedDict()
        self._replay: _OpenReplay | None = None
        self._problem = ""

    def prioritize(self, session_id: str) -> None:
        """Replay this session before others, if it is not up to date."""
        known = self._known.get(session_id)
        if known is None or not known.is_done:
            self._prioritized.append(session_id)

    def mark_of(self, session_id: str) -> SessionMark | None:
        """Return the mark of the session; None if it has not been replayed yet."""
        known = self._known.get(session_id)
        return None if known is None else known.mark

    def is_done(self, session_id: str) -> bool:
        """Return whether the session has been replayed up to its last known event."""
        known = self._known.get(session_id)
        return known is not None and known.is_done

    def mark(self) -> DecisionMark:
        """Return the results over all sessions."""
        is_all = self._before == 0 and not (self._waiting or self._replay)
        marks = [known.mark for known in self._known.values() if known.mark is not None]
        parted = tuple(mark for mark in marks if mark.parting is not None)
        forgotten = sum(mark.forgotten for mark in marks)
        same, known = len(marks) - len(parted) - forgotten, len(self._known) - forgotten
        return DecisionMark(same, known, parted, is_all, forgotten, self._problem)

    def changed(self, streams: Mapping[str, int]) -> None:
        """Note that streams have events up to these positions."""
        for stream, position in streams.items():
            session_id = session_of(stream)
            if session_id is None:
                continue
            known = self._known.get(session_id)
            if known is not None and position > known.last:
                known.last = position
                self._replay_next(session_id)
            elif known is None and self._first is not None and position > self._first:
                self._add_session(session_id, position)
                self._replay_next(session_id)

    def advance(self, until: float) -> bool:
        """Replay until the given time; return whether there is more to do now.

        Raises:
            StorageError: the log cannot be read now.
        """
        self._problem = ""
        while time.monotonic() < until:
            if self._replay is None and not self._choose():
                return False
            try:
                self._follow(until)
            except (LogEncryptedError, KeyRingError) as error:
                self._problem = str(error)
                return False
        return True

    def _follow(self, until: float) -> None:
        look = self._replay
        assert look is not None
        began = time.thread_time()
        try:
            for _ in look.steps:
                self._pause()
                if time.monotonic() >= until:
                    look.took += time.thread_time() - began
                    return
        except StorageError:
            look.resume()  # a generator that has raised is finished, which would look like the end of the session
            raise
        look.took += time.thread_time() - began
        self._replay = None
        self._settle(look)

    def _settle(self, look: _OpenReplay) -> None:
        found, session_id = look.replay.result(), look.session_id
        known = self._known.get(session_id) or self._add_session(session_id, look.replay.position)
        known.mark = SessionMark(
            session_id,
            look.replay.position,
            look.until,
            found.events,
            found.steps,
            found.undecided,
            found.divergence,
            datetime.now(UTC),
            found.forgotten,
        )
        is_open = found.divergence is None and found.events <= LONG
        known.due = 0.0 if is_open else time.monotonic() + PATIENCE * look.took
        if is_open:
            self._open[session_id] = look.replay
            if len(self._open) > OPEN:
                self._open.popitem(last=False)

    def _choose(self) -> bool:
        """Begin with the next session, if there is one."""
        session_id = self._next()
        if session_id is None:
            return False
        replay = self._open.pop(session_id, None) or HistoryReplay(self._log, stream_of(session_id))
        self._replay = _OpenReplay(self._log, session_id, replay)
        return True

    def _next(self) -> str | None:
        while self._prioritized:
            session_id = self._prioritized.popleft()
            if session_id in self._known or self._find_session(session_id):
                self._replay_next(session_id)
        now = time.monotonic()
        while True:
            for session_id in [*reversed(self._waiting)]:
                known = self._known.get(session_id)
                if known is None or known.is_done:
                    del self._waiting[session_id]
                elif known.due <= now:
                    del self._waiting[session_id]
                    return session_id
            if not self._go_back():
                return None

    def _replay_next(self, session_id: str) -> None:
        self._waiting[session_id] = None
        self._waiting.move_to_end(session_id)

    def _go_back(self) -> bool:
        """Look for sessions in older rows; return whether there are any such rows."""
        if self._before == 0 or len(self._known) >= KEPT:
            self._before = 0
            return False
        rows: list[tuple[int, str, int]] = self._log.select(_BACK, (self._before,))
        if self._first is None:
            self._first = rows[0][2] if rows else 0
        for _, stream, position in rows:
            session_id = session_of(stream)
            if session_id is not None and session_id not in self._known:
                self._add_session(session_id, position)
                self._waiting[session_id] = None
                self._waiting.move_to_end(session_id, last=False)
        self._pause()
        self._before = rows[-1][0] if rows else 0
        return bool(rows)

    def _find_session(self, session_id: str) -> bool:
        """Add the session if the log has it; return whether it has."""
        rows: list[tuple[int]] = self._log.select(_END, (stream_of(session_id),))
        if rows:
            self._add_session(session_id, rows[0][0])
        return bool(rows)

    def _add_session(self, session_id: str, last: int) -> _SessionProgress:
        """Add a session; if there are too many, the oldest entry is dropped."""
        known = self._known[session_id] = _SessionProgress(last)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known
