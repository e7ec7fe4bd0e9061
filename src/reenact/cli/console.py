"""Where things go: the result to standard output, everything else to standard error, and nobody's key anywhere."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TextIO

from reenact.cli.failures import Problem, printable
from reenact.domain.legible import harmless

logger: Final = logging.getLogger("reenact.cli")
_SECRET = "ANTHROPIC_API_KEY"  # noqa: S105 - the name of it
_SECRET_LENGTH: Final = 8
"""A key that is shorter opens nothing, and stands by chance in many words."""
_ERRORS = "errors.log"
_ERRORS_SIZE: Final = 1024 * 1024
_PARTS: Final = {"turn_id", "session_id", "code", "type"}


class Console:
    """The three standard streams, which need not all be there, and what the environment says about them."""

    def __init__(self, environ: Mapping[str, str], *, in_ci: bool, debug: bool = False) -> None:
        self.environ = environ
        self.in_ci = in_ci
        self.debug = debug
        self._nowhere = io.StringIO()
        self._out: TextIO | None = None
        key = environ.get(_SECRET, "").strip()
        self._key = key if len(key) >= _SECRET_LENGTH else ""

    @property
    def out(self) -> TextIO:
        """Where the result goes."""
        return self._out or sys.stdout or self._nowhere

    @property
    def err(self) -> TextIO:
        """Where everything else goes."""
        return sys.stderr or self._nowhere

    @property
    def has_person(self) -> bool:
        """Whether somebody types the input and sees what is asked."""
        return sys.stdin is not None and sys.stdin.isatty() and self.terminal is not None

    @property
    def terminal(self) -> TextIO | None:
        """Where somebody sees what is no result; None if nobody does."""
        return next((stream for stream in (self.err, self.out) if stream.isatty()), None)

    def input(self) -> io.BufferedIOBase | io.BytesIO:
        """Return what standard input holds, as bytes; nothing if it is closed."""
        return io.BytesIO() if sys.stdin is None else _bytes_of(sys.stdin)

    @contextlib.contextmanager
    def guarding_output(self) -> Generator[None]:
        """Let what tools print go to standard error: standard output has the result and nothing else."""
        before, self._out = sys.stdout, sys.stdout
        sys.stdout = self.err
        try:
            yield
        finally:
            sys.stdout, self._out = before, None

    def write(self, text: str) -> None:
        """Let a part of the result be read at once."""
        self.out.write(text)
        self.out.flush()

    def say(self, message: str) -> None:
        """Tell people something that is no result."""
        logger.info("%s", self.without_key(message))

    def warn(self, message: str) -> None:
        """Tell people about something that is not as they may think."""
        logger.warning("%s", self.without_key(message))

    def report(self, problem: Problem, error: BaseException | None = None) -> None:
        """Tell people why there is no result; with an `error` that nobody expected, in the log with its traceback."""
        facts = {"code": int(problem.code), "type": problem.type}
        logger.error("%s", self.without_key(problem.message), exc_info=error, extra=facts)

    def without_key(self, text: str) -> str:
        """Return the text without the API key, should it be in there."""
        return text.replace(self._key, "…") if self._key else text

    def prepare(self, *, utf8: bool) -> None:
        """Let no character that a stream cannot show be a failure; JSON is UTF-8 whatever the locale is."""
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if callable(reconfigure):
            reconfigure(encoding="utf-8" if utf8 else None, errors="replace")

    def abandon(self) -> None:
        """Forget what nobody reads any more, so that the end of the process does not stumble over it."""
        if sys.stdout is sys.__stdout__ and sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    @contextlib.contextmanager
    def logging(self, directory: Path) -> Generator[None]:
        """Send what is logged to standard error, and what nobody expected, with its traceback, to a file as well."""
        stderr = logging.StreamHandler(self.err)
        stderr.setFormatter(_Lines(self) if self.in_ci else _Words(self, directory / _ERRORS))
        file = _Tracebacks(
            directory / _ERRORS,
            maxBytes=_ERRORS_SIZE,
            backupCount=1,
            encoding="utf-8",
            errors="backslashreplace",
            delay=True,
        )
        file.setFormatter(_Whole(self))
        root, ours = logging.getLogger(), logging.getLogger("reenact")
        levels = root.level, ours.level, logger.level
        handlers = (stderr,) if self.in_ci else (stderr, file)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(logging.WARNING)
        ours.setLevel(logging.DEBUG if self.debug else logging.WARNING)
        logger.setLevel(logging.DEBUG if self.debug else logging.INFO)
        try:
            yield
        finally:
            for handler in handlers:
                root.removeHandler(handler)
                handler.close()
            for one, level in zip((root, ours, logger), levels, strict=True):
                one.setLevel(level)


class _Formatter(logging.Formatter):
    """Keeps the key out of whatever is logged."""

    def __init__(self, console: Console) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._console = console

    def traceback(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class _Words(_Formatter):
    """For people: words that a terminal shows and does not obey, and the traceback only if they ask for it."""

    def __init__(self, console: Console, errors: Path) -> None:
        super().__init__(console)
        self._errors = errors

    def format(self, record: logging.LogRecord) -> str:
        message = "\n".join(map(harmless, record.getMessage().split("\n")))
        if record.levelno > logging.INFO:
            message = f"reenact: {record.levelname.lower()}: {message}"
        if record.exc_info:
            debug = self._console.debug
            message += f"\n{self.traceback(record)}" if debug else f" ({self._errors} says where; so does --debug)"
        return self._console.without_key(message)


class _Lines(_Formatter):
    """For machines: a JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        fields |= {name: value for name, value in vars(record).items() if name in _PARTS}
        if record.exc_info:
            fields["traceback"] = self.traceback(record)
        return self._console.without_key(json.dumps(fields, ensure_ascii=False))


class _Whole(_Formatter):
    """For later: everything."""

    def format(self, record: logging.LogRecord) -> str:
        return self._console.without_key(super().format(record))


class _Tracebacks(RotatingFileHandler):
    """Keeps what comes with a traceback; a file that cannot be written is no failure of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            with contextlib.suppress(OSError):
                Path(self.baseFilename).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging calls
        """Do nothing: standard error has told already."""


def _bytes_of(stream: TextIO) -> io.BufferedIOBase | io.BytesIO:
    buffer = getattr(stream, "buffer", None)
    return buffer if isinstance(buffer, io.BufferedIOBase) else io.BytesIO(stream.read().encode())
