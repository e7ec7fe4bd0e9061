"""Recordings of terminal sessions, saved as asciicasts, and the files that are kept of a failed test."""

from __future__ import annotations

import codecs
import json
import os
import sys
import threading
import time as clock_module
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from reenact.terminal.screen.drawing import svg
from reenact.terminal.screen.model import Screen
from reenact.terminal.session.spawning import ExitStatus

Code: TypeAlias = Literal["o", "i", "r", "x", "m"]
"""The format's codes: output, input, resize, exit status, mark."""
_BY_SIGNAL = 128
"""Added to the number of a signal, as shells do, since the format has only a number."""


class Event(NamedTuple):
    """An event, `time` seconds after the start."""

    time: float
    code: Code
    data: str


class Recording:
    """The events of a terminal, in the order in which they were added.

    Output and input are kept as text, which takes about as much memory as their bytes, plus 200 bytes for each event.
    Any thread may add or read. A character whose bytes arrive in pieces belongs to the event of its last byte; bytes
    that are not UTF-8 become U+FFFD.

    Args:
        cols: columns at the start.
        rows: rows at the start.
        term: the type of the terminal, as in `TERM`.
        command: the recorded command line.
        started: seconds since the epoch at the start; None for now.
        clock: the clock in seconds that `elapsed` is based on.
        limit: maximum number of bytes of the output, and of the input; a mark says where recording stopped.

    Attributes:
        lock: protects the events; a thread that holds it is the only one that can add.
    """

    def __init__(
        self,
        cols: int,
        rows: int,
        *,
        term: str = "xterm-256color",
        command: str | None = None,
        started: float | None = None,
        clock: Callable[[], float] = clock_module.monotonic,
        limit: int = sys.maxsize,
    ) -> None:
        self.cols = cols
        self.rows = rows
        self.term = term
        self.command = command
        self.started = clock_module.time() if started is None else started
        self._clock = clock
        self._began = clock()
        self.lock = threading.RLock()
        self._events: list[Event] = []
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Code, codecs.IncrementalDecoder] = {"o": decoder("replace"), "i": decoder("replace")}
        self._bytes_left: dict[Code, int] = {"o": limit, "i": limit}

    @property
    def events(self) -> tuple[Event, ...]:
        """The events so far."""
        return tuple(self._events)

    def elapsed(self) -> float:
        """Return the seconds since the recording was created, which is the time of an event that happens now."""
        return self._clock() - self._began

    def add_output(self, time: float, data: bytes) -> None:
        """Add output of the program."""
        self._add(time, "o", data, "output")

    def add_input(self, time: float, data: bytes) -> None:
        """Add input to the program."""
        self._add(time, "i", data, "input")

    def add_resize(self, time: float, cols: int, rows: int) -> None:
        """Add a change of the terminal's size."""
        with self.lock:
            self._events.append(Event(time, "r", f"{cols}x{rows}"))

    def add_exit(self, time: float, status: ExitStatus) -> None:
        """Add the end of the program; a signal is recorded as its number plus 128, as in shells."""
        with self.lock:
            if rest := self._decoders["o"].decode(b"", final=True):
                self._events.append(Event(time, "o", rest))
            code = status.code if status.signal is None else _BY_SIGNAL + status.signal
            self._events.append(Event(time, "x", str(code)))

    def mark(self, label: str = "", time: float | None = None) -> None:
        """Add a mark with a label; a time of None is now."""
        self._events.append(Event(self.elapsed() if time is None else time, "m", label))

    def asciicast(self, title: str | None = None) -> str:
        """Return the events so far as an asciicast, version 3: lines of JSON.

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
            # Times are rounded, not intervals, so that errors do not add up. Threads may add events slightly out of
            # order.
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
            left = self._bytes_left[code]
            if left > 0:
                if text := self._decoders[code].decode(data[:left]):
                    self._events.append(Event(time, code, text))
                self._bytes_left[code] -= len(data)
                if self._bytes_left[code] <= 0:
                    self.mark(f"the {what} behind this was too much to be recorded", time)

    def _unfinished(self) -> list[Event]:
        """Return events for incomplete characters at the end."""
        last = max((event.time for event in self._events), default=0.0)
        return [Event(last, code, "\ufffd") for code, decoder in self._decoders.items() if decoder.getstate()[0]]


def save_evidence(recording: Recording, screen: Screen, stem: Path, title: str | None = None) -> tuple[Path, Path]:
    """Write the recording and a picture of the screen to `stem.cast` and `stem.svg`; return both paths.

    Raises:
        OSError: one of them cannot be written.
    """
    cast, picture = stem.with_name(f"{stem.name}.cast"), stem.with_name(f"{stem.name}.svg")
    recording.save(cast, title)
    picture.write_text(svg(screen), encoding="utf-8")
    return cast, picture


def _text(data: str) -> str:
    """Replace lone surrogates, which JSON cannot represent."""
    return data.encode("utf-8", "replace").decode("utf-8")
