"""What is written down of one environment: requests, what is said to them, and calls of tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reenact.actors.environment.recorded.form import Cut, Exchange, Setting, Spoken, ToolRun, spoken
from reenact.actors.environment.recorded.matching import common
from reenact.actors.environment.recorded.writing import RecordingFile
from reenact.domain.events import MessageStop, StreamData, StreamError, ToolResult, ToolStarted
from reenact.domain.messages import Said


@dataclass(eq=False)
class _Exchange:
    """A request that has been made, and what was said to it so far."""

    number: int
    turn_id: str
    step: int
    follows: int | None
    messages: Sequence[Said]
    began: float
    events: list[Spoken] = field(default_factory=list[Spoken])
    written: bool = False


@dataclass(eq=False)
class _Run:
    """A call that has been started."""

    number: int
    exchange: int | None
    turn_id: str
    call: ToolStarted
    began: float


@dataclass(frozen=True, eq=False)
class Noted:
    """What was written down at once: the events of an exchange from `start` on, and the results of calls."""

    exchange: _Exchange | None = None
    start: int = 0
    runs: tuple[int, ...] = ()


class Scribe:
    """Writes down what one environment is asked and says. Thread-safe."""

    def __init__(self, file: RecordingFile, session_id: str, setting: Setting, clock: Callable[[], float]) -> None:
        self._file = file
        self._session_id = session_id
        self._setting = setting
        self._clock = clock
        self._lock = threading.Lock()
        self._exchange: _Exchange | None = None
        self._last: tuple[int, Sequence[Said]] | None = None
        self._runs: dict[str, _Run] = {}

    def ask(self, turn_id: str, step: int, messages: Sequence[Said]) -> None:
        """Begin an exchange, unless this one has begun already."""
        with self._lock:
            now = self._exchange
            if now is not None and (now.turn_id, now.step) == (turn_id, step):
                return
            self._end(complete=False)
            follows, added = self._after_last(messages)
            number = self._file.number()
            self._exchange = _Exchange(number, turn_id, step, follows, added, self._clock())
            self._last = (number, messages)

    def call(self, turn_id: str, call: ToolStarted) -> None:
        """Begin a call."""
        with self._lock:
            if call.id not in self._runs:
                asked_by = None if self._exchange is None else self._exchange.number
                self._runs[call.id] = _Run(self._file.number(), asked_by, turn_id, call, self._clock())

    def say(self, events: Sequence[StreamData], turn_id: str | None) -> Noted:
        """Note what was said; what ends an exchange or a call is on the disk when this returns."""
        with self._lock:
            exchange, runs = self._open_in(turn_id), list[int]()
            start = 0 if exchange is None else len(exchange.events)
            for event in events:
                run = self._answered(event, turn_id)
                if run is not None and isinstance(event, ToolResult):
                    runs.append(run.number)
                    self._write_run(run, event)
                elif exchange is not None and not exchange.written:
                    exchange.events.append(spoken(event, self._clock() - exchange.began))
                    if isinstance(event, MessageStop | StreamError):
                        self._end(complete=True)
            return Noted(exchange, start, tuple(runs))

    def take_back(self, noted: Noted) -> None:
        """Note that nobody heard this, because its turn was over."""
        with self._lock:
            for number in noted.runs:
                self._file.add(Cut(number))
            if noted.exchange is None:
                return
            if noted.exchange.written:
                self._file.add(Cut(noted.exchange.number, noted.start))
            else:
                del noted.exchange.events[noted.start :]

    def finish(self, turn_id: str) -> None:
        """Note that the turn is over: what is under way of it goes no further."""
        with self._lock:
            if self._exchange is not None and self._exchange.turn_id == turn_id:
                self._end(complete=False)
            for run in [run for run in self._runs.values() if run.turn_id == turn_id]:
                self._write_run(run, None)

    def close(self) -> None:
        """Note that nothing goes any further."""
        with self._lock:
            self._end(complete=False)
            for run in [*self._runs.values()]:
                self._write_run(run, None)

    def _after_last(self, messages: Sequence[Said]) -> tuple[int | None, Sequence[Said]]:
        """Return the exchange whose conversation goes on, if it does, and what is new."""
        if self._last is None:
            return None, messages
        number, before = self._last
        if common(messages, before) < len(before):
            return None, messages
        return number, messages[len(before) :]

    def _open_in(self, turn_id: str | None) -> _Exchange | None:
        exchange = self._exchange
        if exchange is None or exchange.written or turn_id not in (None, exchange.turn_id):
            return None
        return exchange

    def _answered(self, event: StreamData, turn_id: str | None) -> _Run | None:
        if not isinstance(event, ToolResult) or event.id is None:
            return None
        run = self._runs.get(event.id)
        return run if run is not None and turn_id in (None, run.turn_id) else None

    def _end(self, *, complete: bool) -> None:
        exchange = self._exchange
        if exchange is None or exchange.written:
            return
        exchange.written = True
        self._file.add(
            Exchange(
                number=exchange.number,
                session=self._session_id,
                turn=exchange.turn_id,
                step=exchange.step,
                follows=exchange.follows,
                setting=self._setting if exchange.follows is None else None,
                messages=tuple(exchange.messages),
                events=tuple(exchange.events),
                complete=complete,
            )
        )

    def _write_run(self, run: _Run, result: ToolResult | None) -> None:
        del self._runs[run.call.id]
        self._file.add(
            ToolRun(
                number=run.number,
                exchange=run.exchange,
                id=run.call.id,
                name=run.call.name,
                input=run.call.input,
                result=None if result is None else result.result,
                is_error=False if result is None else result.is_error,
                seconds=round(self._clock() - run.began, 6),
                complete=result is not None,
            )
        )
