"""Formats log records as text, as lines of JSON and with tracebacks; and the lock for writing to the terminal."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from reenact.cli.output.failures import printable
from reenact.domain.legible import display_safe, in_ascii

Conceal: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""

FOR_LATER: Final[Mapping[str, object]] = {"is_for_later": True}
"""`extra` of a record that is not shown at a terminal, but kept in the file of errors with its traceback."""
_FACTS = ("code", "type", "hint", "session_id", "agent_id", "turn_id")
"""Attributes of a record that are output in addition to its message."""
_MARGIN = "  "
_UNSEEN = re.compile(
    r"[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that JSON allows unescaped, but that end a line for some readers, or hide or reorder text."""
_ERRORS_SIZE = 1024 * 1024


def as_line(value: object) -> str:
    """Return the value as one line of JSON that every reader takes for one line."""
    return _UNSEEN.sub(lambda found: in_ascii(found[0], ""), msgspec.json.encode(value).decode()) + "\n"


class ErrorFileFormatter(logging.Formatter):
    """For the file of errors: everything, without secrets and control characters; further lines are indented."""

    def __init__(self, conceal: Conceal) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._conceal = conceal

    def format(self, record: LogRecord) -> str:
        return _indented(self._conceal(super().format(record)))


def _indented(text: str) -> str:
    """Return the text without control characters, with its further lines indented."""
    return f"\n{_MARGIN}".join(map(display_safe, text.split("\n")))


class TextFormatter(ErrorFileFormatter):
    """For people: text without control characters; tracebacks only with `--debug`.

    Further lines of a message are indented, so that they cannot be taken for other messages.
    """

    def __init__(self, conceal: Conceal, errors: Path, *, debug: bool) -> None:
        super().__init__(conceal)
        self._errors = errors
        self._debug = debug

    def format(self, record: LogRecord) -> str:
        message = self._conceal(record.getMessage())
        if record.levelno > logging.INFO:
            message = f"reenact: {record.levelname.lower()}: {message}"
        lines = [message, getattr(record, "hint", None)]
        if record.exc_info:
            lines.append(
                self._conceal(self.formatException(record.exc_info))
                if self._debug
                else f"{self._errors} says where; so does --debug"
            )
        return _indented("\n".join(filter(None, lines)))


class JsonFormatter(ErrorFileFormatter):
    """For programs: one JSON object a line, whose fields are documented and stable."""

    def format(self, record: LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: vars(record)[name] for name in _FACTS if vars(record).get(name) is not None}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return as_line({name: self._concealed(value) for name, value in fields.items()}).removesuffix("\n")

    def _concealed(self, value: object) -> object:
        return value if isinstance(value, int | float) else printable(self._conceal(str(value)))


class ErrorFileHandler(RotatingFileHandler):
    """Writes records with a traceback to a file that only its owner can read; errors with the file are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=_ERRORS_SIZE, backupCount=1, encoding="utf-8", errors="backslashreplace", delay=True
        )

    def _open(self) -> TextIOWrapper:
        return open_privately(Path(self.baseFilename))

    def emit(self, record: LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            with suppress(OSError):
                Path(self.baseFilename).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                super().emit(record)

    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - logging's name
        """Do nothing: the record was also written to standard error."""

    def close(self) -> None:
        with suppress(OSError):  # closing retries a failed write
            super().close()


def open_privately(path: Path) -> TextIOWrapper:
    """Open a file for appending; a new file is accessible only to its owner."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


OF_TOOLS = "tool"
"""Attribute of records about a tool that failed: the name of the tool."""


class TerminalLock:
    """Keeps log messages out of text that is being written to the terminal. Hold `lock` while writing a line."""

    written = 0
    """Number of log messages that have been written."""

    _holders = 0
    _pages = 0

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiting: list[Callable[[], None]] = []

    def acquire(self) -> None:
        """Make log messages wait: a line, or a text of several lines, has begun."""
        with self.lock:
            self._holders += 1

    def release(self) -> None:
        """Write the messages that have waited, once nobody else has the terminal."""
        with self.lock:
            self._holders -= 1
            while self._waiting and not self._holders:
                self._write_now(self._waiting.pop(0))

    @contextmanager
    def held(self) -> Generator[None]:
        """Make log messages wait during the `with` block."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def showing_calls(self) -> Generator[None]:
        """Do not log failures of tools during the block: the results of calls are shown, including failures."""
        self._pages += 1
        try:
            yield
        finally:
            self._pages -= 1

    def is_shown(self, record: LogRecord) -> bool:
        """Return whether a person sees the content of the record anyway."""
        return self._pages > 0 and OF_TOOLS in vars(record)

    def write_when_free(self, write: Callable[[], None]) -> None:
        """Write now, or as soon as nobody has the terminal."""
        with self.lock:
            if self._holders:
                self._waiting.append(write)
            else:
                self._write_now(write)

    def _write_now(self, write: Callable[[], None]) -> None:
        self.written += 1
        write()


TERMINAL_LOCK = TerminalLock()


class TerminalHandler(logging.Handler):
    """Writes to standard error whenever that does not interrupt an answer or the line that is being edited."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def createLock(self) -> None:  # noqa: N802 - logging's name
        """Share the terminal's lock: two locks could be acquired in opposite orders, which would deadlock."""
        self.lock = TERMINAL_LOCK.lock  # pyright: ignore[reportAttributeAccessIssue] - typeshed allows one kind of lock

    def emit(self, record: LogRecord) -> None:
        """Write the record, now or as soon as possible."""
        TERMINAL_LOCK.write_when_free(partial(self._write_now, record))

    def _write_now(self, record: LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a library's message does not fit its arguments
            record.msg, record.args = f"{record.msg} {record.args}", None
            line = self.format(record)
        self._write(f"{line}\n")
