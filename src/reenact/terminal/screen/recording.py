"""Recordings of a terminal session, saved as asciicasts."""

from __future__ import annotations

import codecs
import json
import os
import sys
import threading
import time as clocks
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from reenact.terminal.status import ExitStatus

Code: TypeAlias = Literal["o", "i", "r", "x", "m"]
"""Output, input, another size, the exit status, a mark: the letters of the format."""
_BY_SIGNAL = 128
"""What shells add to the number of a signal; the format has a number alone."""
_MOST_EVENTS = 200_000
"""Events of a recording, some 40 MB."""


class Event(NamedTuple):
    """Something that happened, `time` seconds after the start."""

    time: float
    code: Code
    data: str


class Recording:
    """The events of a terminal, in the order in which they were added.

    It holds output and input as text: about the bytes of them, and 200 more for each event, of which there are 200,000
    at most. Any thread may add or read. A character whose bytes come in pieces is part of the event of its last one;
    bytes that are not UTF-8 are U+FFFD.

    Args:
        cols: columns at the start.
        rows: rows at the start.
        term: the type of the terminal, as in `TERM`.
        command: what is recorded, as it would be typed.
        started: seconds since the epoch at the start; None for now.
        clock: what gives the seconds from which `elapsed` counts.
        limit: how many bytes of the output, and of the input, are recorded; a mark says where that was too little.

    Attributes:
        lock: who holds it is the only one who adds.
    """

    def __init__(
        self,
        cols: int,
        rows: int,
        *,
        term: str = "xterm-256color",
        command: str | None = None,
        started: float | None = None,
        clock: Callable[[], float] = clocks.monotonic,
        limit: int = sys.maxsize,
    ) -> None:
        self.cols = cols
        self.rows = rows
        self.term = term
        self.command = command
        self.started = clocks.time() if started is None else started
        self._clock = clock
        self._began = clock()
        self.lock = threading.RLock()
        self._events: list[Event] = []
        self._events_left = _MOST_EVENTS
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Code, codecs.IncrementalDecoder] = {"o": decoder("replace"), "i": decoder("replace")}
        self._left: dict[Code, int] = {"o": limit, "i": limit}

    @property
    def events(self) -> tuple[Event, ...]:
        """What has happened so far."""
        return tuple(self._events)

    def elapsed(self) -> float:
        """Return the seconds since the recording was made: the time to add an event with that happens now."""
        return self._clock() - self._began

    def add_output(self, time: float, data: bytes) -> None:
        """Add what the program wrote."""
        self._add(time, "o", data, "output")

    def add_input(self, time: float, data: bytes) -> None:
        """Add what was typed."""
        self._add(time, "i", data, "input")

    def add_resize(self, time: float, cols: int, rows: int) -> None:
        """Add that the terminal has another size."""
        with self.lock:
            if self._has_room(time):
                self._events.append(Event(time, "r", f"{cols}x{rows}"))

    def add_exit(self, time: float, status: ExitStatus) -> None:
        """Add how the program ended; of a signal, its number and 128, as shells say it."""
        with self.lock:
            if rest := self._decoders["o"].decode(b"", final=True):
                self._events.append(Event(time, "o", rest))
            code = status.code if status.signal is None else _BY_SIGNAL + status.signal
            self._events.append(Event(time, "x", str(code)))

    def mark(self, label: str = "", time: float | None = None) -> None:
        """Add a mark, for people to find the place; None for now."""
        self._events.append(Event(self.elapsed() if time is None else time, "m", label))

    def asciicast(self, title: str | None = None) -> str:
        """Return what has happened so far as an asciicast, version 3: lines of JSON.

        The format: <https://docs.asciinema.org/manual/asciicast/v3/>.
        """
        header: dict[str, object] = {
            "version": 3,
            "term": {"cols": self.cols, "rows": self.rows, "type": _text(self.term)},
            "timestamp": int(self.started),
        }
        if self.command is not None:
            header["command"] = _text(self.command)
        if title is not None:
            header["title"] = _text(title)
        lines = [json.dumps(header)]
        before = 0.0
        for event in (*self._events, *self._unfinished()):
            # Times are rounded, not intervals: what is lost does not add up. Threads may add a little out of order.
            now = max(before, round(event.time, 6))
            lines.append(json.dumps([round(now - before, 6), event.code, _text(event.data)]))
            before = now
        return "\n".join([*lines, ""])

    def save(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write the asciicast to a file, and return its path.

        Raises:
            OSError: the file cannot be written.
        """
        file = Path(path)
        file.write_text(self.asciicast(title), encoding="utf-8")
        return file

    def _add(self, time: float, code: Code, data: bytes, what: str) -> None:
        with self.lock:
            left = self._left[code]
            if left > 0 and self._has_room(time):
                if text := self._decoders[code].decode(data[:left]):
                    self._events.append(Event(time, code, text))
                self._left[code] -= len(data)
                if self._left[code] <= 0:
                    self._mark_too_much(what, time)

    def _has_room(self, time: float) -> bool:
        """Whether there is room for another event; it is taken."""
        if self._events_left == 1:
            self._mark_too_much("session", time)
        self._events_left -= 1
        return self._events_left > 0

    def _mark_too_much(self, of_what: str, time: float) -> None:
        self.mark(f"the {of_what} behind this was too much to be recorded", time)

    def _unfinished(self) -> list[Event]:
        """Return what stands for beginnings of characters that nothing has followed so far."""
        last = max((event.time for event in self._events), default=0.0)
        return [Event(last, code, "\ufffd") for code, decoder in self._decoders.items() if decoder.getstate()[0]]


def _text(data: str) -> str:
    """Return the text without halves of characters, which JSON cannot carry."""
    return data.encode("utf-8", "replace").decode("utf-8")
