"""Log records as words, as lines of JSON and with tracebacks, and the lock of the terminal that they wait for."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from reenact.cli.output.failures import printable
from reenact.domain.legible import harmless, in_ascii

Conceal: TypeAlias = Callable[[str], str]
"""Returns a text without the secrets in it."""

FOR_LATER: Final[Mapping[str, object]] = {"is_for_later": True}
"""What a record has as `extra` that people at a terminal are not to be told of: it is kept with its traceback."""
_FACTS = ("code", "type", "hint", "session_id", "agent_id", "turn_id")
"""What a record may say of itself beside its message, under these names."""
_MARGIN = "  "
_UNSEEN = re.compile(
    r"[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""What may stand in JSON as it is, and yet would end a line for some readers, or hide or move what a person sees."""
_ERRORS_SIZE = 1024 * 1024


def as_line(value: object) -> str:
    """Return the value as JSON on one line, which every reader takes for one line."""
    return _UNSEEN.sub(lambda found: in_ascii(found[0], ""), msgspec.json.encode(value).decode()) + "\n"


class _Formatter(logging.Formatter):
    """Keeps secrets out of whatever is logged."""

    def __init__(self, conceal: Conceal) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._conceal = conceal


class Words(_Formatter):
    """For people: words that a terminal shows and does not obey, and the traceback only if they ask for it.

    What a message has behind its first line is indented, so that it cannot be taken for a message of its own.
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
        return f"\n{_MARGIN}".join(map(harmless, "\n".join(filter(None, lines)).split("\n")))


class Lines(_Formatter):
    """For machines: a JSON object a line. Its fields are in the documentation, and stay."""

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
        return as_line({name: self._told(value) for name, value in fields.items()}).removesuffix("\n")

    def _told(self, value: object) -> object:
        return value if isinstance(value, int | float) else printable(self._conceal(str(value)))


class Whole(_Formatter):
    """For later: everything, as a terminal shows it on which somebody reads it. Only records begin at the margin."""

    def format(self, record: LogRecord) -> str:
        return f"\n{_MARGIN}".join(map(harmless, self._conceal(super().format(record)).split("\n")))


class Tracebacks(RotatingFileHandler):
    """Keeps what comes with a traceback, for the owner alone; it goes on if the file cannot be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=_ERRORS_SIZE, backupCount=1, encoding="utf-8", errors="backslashreplace", delay=True
        )

    def _open(self) -> TextIOWrapper:
        return open_privately(Path(self.baseFilename))

    def emit(self, record: LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            with contextlib.suppress(OSError):
                Path(self.baseFilename).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                super().emit(record)

    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - the name that logging calls
        """Do nothing: standard error has told already."""

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written is written once more
            super().close()


def open_privately(path: Path) -> TextIOWrapper:
    """Open a file to add to it; one that is not there yet is made for its owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


OF_TOOLS = "tool"
"""What the record of a tool that has failed has of its own: the name of the tool."""


class TerminalLock:
    """The one terminal of the process. Who writes there a line at a time holds the `lock` meanwhile."""

    written = 0
    """How often something that was logged has been written."""

    _holders = 0
    _pages = 0

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiting: list[Callable[[], None]] = []

    def acquire(self) -> None:
        """Have what is logged wait: a line, or a text of several, has begun."""
        with self.lock:
            self._holders += 1

    def release(self) -> None:
        """Write what has waited, once nobody else has the terminal."""
        with self.lock:
            self._holders -= 1
            while self._waiting and not self._holders:
                self._tell(self._waiting.pop(0))

    @contextmanager
    def held(self) -> Generator[None]:
        """Have what is logged wait meanwhile."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def showing_calls(self) -> Generator[None]:
        """Tell nothing meanwhile of tools that fail: their results are shown, and say so."""
        self._pages += 1
        try:
            yield
        finally:
            self._pages -= 1

    def is_shown(self, record: LogRecord) -> bool:
        """Return whether a person sees anyhow what the record says."""
        return self._pages > 0 and OF_TOOLS in vars(record)

    def write_when_free(self, write: Callable[[], None]) -> None:
        """Write, or have it written as soon as nobody has the terminal."""
        with self.lock:
            if self._holders:
                self._waiting.append(write)
            else:
                self._tell(write)

    def _tell(self, write: Callable[[], None]) -> None:
        self.written += 1
        write()


TERMINAL_LOCK = TerminalLock()


class Between(logging.Handler):
    """Writes to standard error, or to what is in its place, where that breaks neither an answer nor what is typed."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def createLock(self) -> None:  # noqa: N802 - the name that logging calls
        """Have one lock with all that is written there, so that nobody waits for two in two orders."""
        self.lock = TERMINAL_LOCK.lock  # pyright: ignore[reportAttributeAccessIssue] - typeshed has a lock of one kind only

    def emit(self, record: LogRecord) -> None:
        """Write the record, now or as soon as it can be."""
        TERMINAL_LOCK.write_when_free(partial(self._tell, record))

    def _tell(self, record: LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a library that logs arguments which its message does not take
            record.msg, record.args = f"{record.msg} {record.args}", None
            line = self.format(record)
        self._write(f"{line}\n")
