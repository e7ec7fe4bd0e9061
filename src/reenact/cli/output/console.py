"""Output of the command: results to standard output, messages to standard error, and no keys to either."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from logging import LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TextIO, TypeAlias

from reenact.cli.output.failures import OutputLostError, Problem, hint_of
from reenact.cli.output.logs import (
    FOR_LATER,
    TERMINAL_LOCK,
    ErrorFileFormatter,
    ErrorFileHandler,
    JsonFormatter,
    TerminalHandler,
    TextFormatter,
    as_line,
)
from reenact.cli.output.streams import (
    copied,
    discard_output,
    has_hung_up,
    is_standard,
    is_writable,
    pieces,
    read_by_line,
    redirected,
)
from reenact.cli.settings.environment import KEYS, is_dumb, ring_variable
from reenact.cli.settings.values import CLAUDE, VARIABLES, Variables
from reenact.domain.errors import StorageError
from reenact.domain.legible import display_safe

if TYPE_CHECKING:
    from rich.console import Console as Screen

ListFormat: TypeAlias = Literal["text", "json"]
"""The formats in which a list is printed: text, or one JSON object a line."""

logger = logging.getLogger("reenact.cli")
tools = logging.getLogger("reenact.tools")
ERRORS = "errors.log"
"""The file with the tracebacks of unexpected errors, in the state directory."""
_SECRET_LENGTH = 8
"""Minimum length of a key that is concealed: a shorter one is useless, and may occur in ordinary text."""
_SIZES = frozenset({"COLUMNS", "LINES"})
"""Variables of a size that the terminal may have had once; it is asked for its width instead."""
_MOMENT = 1.0
"""Seconds to wait for a reader once the time limit is over."""


class Console:
    """The three standard streams, some of which may be closed, and the environment variables that concern them."""

    _out: TextIO | None = None
    _err: TextIO | None = None
    _deadline: float | None = None
    _session_id: Callable[[], str] | None = None

    _is_apart = False
    as_json = False
    """Whether standard output is JSON for a program."""

    variables: Variables | None = VARIABLES[CLAUDE]
    """The variables that say how the model is reached; None for a provider of the user's own."""

    gave_up = False
    """Whether standard output was abandoned because it blocked for longer than the time limit."""

    def __init__(self, environ: Mapping[str, str], *, in_ci: bool, debug: bool = False) -> None:
        self.environ = environ
        self.in_ci = in_ci
        self.debug = debug
        self._nowhere = io.StringIO()
        self._keys = _secrets_of(environ)

    @property
    def out(self) -> TextIO:
        """The stream for the result."""
        return self._out or sys.stdout or self._nowhere

    @property
    def err(self) -> TextIO:
        """The stream for everything else."""
        return self._err or sys.stderr or self._nowhere

    def screen(self, stream: TextIO | None = None) -> Screen:
        """Return a rich console that prints to the stream, with styles if it is a terminal that supports them.

        Without a stream, it prints where a person sees messages.
        """
        from rich.console import Console as Screen  # noqa: PLC0415 - not imported for help

        environ = {name: value for name, value in self.environ.items() if name not in _SIZES}
        return Screen(
            file=stream or self.terminal or self.err,
            emoji=False,
            highlight=False,
            markup=False,
            soft_wrap=True,
            force_terminal=False if is_dumb(self.environ) else None,
            _environ=environ,
        )

    @property
    def has_person(self) -> bool:
        """Whether a person types the input and sees the questions."""
        return sys.stdin is not None and sys.stdin.isatty() and self.terminal is not None

    @property
    def terminal(self) -> TextIO | None:
        """The stream on which a person sees messages; None if nobody does."""
        return next((stream for stream in (self.err, self.out) if stream.isatty()), None)

    def input(self) -> BinaryIO:
        """Return standard input as a binary stream, which is empty if standard input is closed."""
        return io.BytesIO() if sys.stdin is None else sys.stdin.buffer

    @contextmanager
    def guarding_output(self) -> Generator[None]:
        """Redirect everything that tools print to standard error, so that standard output has only the result.

        That includes programs that tools start. In CI, where standard error has only lines of JSON, their output is
        logged by `reenact.tools`.
        """
        before = sys.stdout
        with ExitStack() as streams:
            onto, self._out = 2, self.out
            if is_standard(before, 1) and not before.isatty():
                self._out, self._is_apart = streams.enter_context(copied(before)), True
                if self.in_ci and is_standard(sys.stderr, 2):
                    self._err = streams.enter_context(copied(sys.stderr))
                    onto = streams.enter_context(read_by_line(tools.info))
                    streams.enter_context(redirected(sys.stderr, onto, self._err.fileno()))
                streams.enter_context(redirected(before, onto, self._out.fileno()))
            sys.stdout = sys.stderr or self._nowhere
            try:
                yield
            finally:
                sys.stdout = before
                streams.close()
                self._out, self._err, self._is_apart = None, None, False

    @property
    def session_id(self) -> str | None:
        """The session that the command is about, once it is known."""
        return (self._session_id() if self._session_id else "") or None

    def report_session(self, session_id: Callable[[], str]) -> None:
        """Add this session to reports of failures, and report each failure once.

        Failures of the log that parts of the runtime log are then not shown: the command gets and reports the same
        error.
        """
        self._session_id = session_id

    def write(self, text: str) -> None:
        """Write a part of the result and flush it.

        Raises:
            BrokenPipeError: nobody reads the output any longer.
            OutputLostError: the disk is full, or the output cannot be written for another reason.
        """
        with self.raising_output_lost():
            for piece in pieces(text):
                if self._is_taking_output():
                    self.out.write(piece)
                    self.out.flush()

    def write_json(self, value: object) -> None:
        """Print the value as one line of JSON."""
        self.write(as_line(value))

    def show(self, value: object, form: ListFormat, *lines: str) -> None:
        """Print the result of a command: as a line of JSON, or as text in which control characters are escaped."""
        self.write(as_line(value) if form == "json" else "".join(f"{display_safe(line)}\n" for line in lines))

    def flush(self) -> None:
        """Flush everything that was written, also by others; raises the same errors as `write`."""
        with self.raising_output_lost():
            if self._is_taking_output():
                self.out.flush()

    @contextmanager
    def waiting_at_most(self, seconds: float | None) -> Generator[None]:
        """Limit how long a blocked standard output is waited for: `seconds`, and a moment more.

        After that the output is abandoned and `gave_up` is true. None sets no limit.
        """
        self._deadline = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = None

    def _is_taking_output(self) -> bool:
        if not self.gave_up and not is_writable(self.out, self._seconds_left()):
            self.gave_up = True
            self.abandon()
        return not self.gave_up

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else max(_MOMENT, self._deadline - time.monotonic())

    @contextmanager
    def raising_output_lost(self) -> Generator[None]:
        """Raise `OutputLostError` for an `OSError` from standard output."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.abandon()
            raise OutputLostError(error.strerror or str(error), is_in_log=self.session_id is not None) from error

    def say(self, message: str) -> None:
        """Report something to the user that is not a result."""
        logger.info("%s", self.without_key(message))

    def warn(self, message: str) -> None:
        """Warn the user."""
        logger.warning("%s", self.without_key(message))

    def report(
        self,
        problem: Problem,
        error: BaseException | None = None,
        *,
        session_id: str | None = None,
        turn_id: str | None = None,
    ) -> None:
        """Report why there is no result, or an incomplete one, with a hint.

        For an unexpected `error`, its traceback is written to the log of errors.
        """
        facts = {
            "code": int(problem.code),
            "type": problem.type,
            "hint": hint_of(problem.type, self.environ, self.variables),
            "session_id": session_id or self.session_id,
            "turn_id": turn_id,
        }
        logger.error("%s", self.without_key(problem.message), exc_info=error, extra=facts)

    def message_of(self, problem: Problem) -> str:
        """Return the message of the problem, and a hint on the next line."""
        hint = hint_of(problem.type, self.environ, self.variables)
        return "\n".join(filter(None, (self.without_key(problem.message), hint)))

    def without_key(self, text: str) -> str:
        """Remove API keys and the log's keys from the text."""
        for key in self._keys:
            text = text.replace(key, "…")
        return text

    def use_keys(self, named: str | None) -> None:
        """Use the named key ring in place of the one from the environment, if one is named."""
        if named is not None:
            self.environ = {**self.environ, KEYS: named}
            self._keys = _secrets_of(self.environ)

    def prepare(self, *, as_json: bool) -> None:
        """Make standard output replace characters that it cannot encode; JSON is UTF-8 whatever the locale is."""
        self.as_json = self.as_json or as_json
        _occupy_standard_descriptors()
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if callable(reconfigure):
            reconfigure(encoding="utf-8" if self.as_json else None, errors="replace")

    def abandon(self) -> None:
        """Discard further output that nobody reads, so that flushing it at exit does not fail."""
        if self._is_apart or is_standard(self.out, 1):
            discard_output(self.out)

    def _write_err(self, stream: TextIO, text: str) -> None:
        """Write to standard error; if that fails or blocks too long, discard the text without an error."""
        err = self._err or stream
        try:
            for piece in pieces(text):
                if not is_writable(err, self._seconds_left()):
                    discard_output(err)
                err.write(piece)
                err.flush()
        except (OSError, ValueError):
            if err is self._err or is_standard(err, 2):
                discard_output(err)

    def abandon_terminal(self) -> None:
        """Discard further output to a terminal that is gone because its window was closed."""
        for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
            if has_hung_up(stream):
                discard_output(stream)

    @contextmanager
    def logging(self, directory: Path) -> Generator[None]:
        """Send log records to standard error, and unexpected errors with their tracebacks to a file as well."""
        stderr = TerminalHandler(partial(self._write_err, self.err))
        errors = directory / ERRORS
        words = TextFormatter(self.without_key, errors, debug=self.debug)
        stderr.setFormatter(JsonFormatter(self.without_key) if self.in_ci else words)
        file = ErrorFileHandler(errors)
        file.setFormatter(ErrorFileFormatter(self.without_key))
        stderr.addFilter(self._is_shown)
        root, ours = logging.getLogger(), logging.getLogger("reenact")
        levels = root.level, ours.level, logger.level, tools.level
        handlers = (stderr,) if self.in_ci else (stderr, file)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(logging.WARNING)
        ours.setLevel(logging.DEBUG if self.debug else logging.WARNING)
        logger.setLevel(logging.DEBUG if self.debug else logging.INFO)
        tools.setLevel(logging.INFO)
        logging.captureWarnings(self.in_ci)
        try:
            yield
        finally:
            logging.captureWarnings(False)  # noqa: FBT003 - positional in its signature
            for handler in handlers:
                root.removeHandler(handler)
                handler.close()
            for log, level in zip((root, ours, logger, tools), levels, strict=True):
                log.setLevel(level)

    def _is_shown(self, record: LogRecord) -> bool:
        """Return whether to show the record; a failure of the log, for example, is shown once, by the command."""
        if self.debug:
            return True
        if not self.in_ci and (TERMINAL_LOCK.is_shown(record) or FOR_LATER.keys() <= vars(record).keys()):
            return False
        if self._session_id is None or record.name.startswith(logger.name):
            return True
        of_args = record.args if isinstance(record.args, tuple) else ()
        causes = (*of_args, record.exc_info[1] if record.exc_info else None, vars(record).get("failure"))
        return not any(isinstance(cause, StorageError) for cause in causes)


def _secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of APIs and of the log that are in environment variables."""
    ring = environ.get(ring_variable(environ) or "", "").split()
    keys = (environ.get(variables.key, "").strip() for variables in VARIABLES.values())
    return tuple(key for key in (*keys, *ring) if len(key) >= _SECRET_LENGTH)


def _occupy_standard_descriptors() -> None:
    """Open the null device for closed standard streams, so that no file gets their descriptors and is written to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(opened, True)  # noqa: FBT003 - positional in its signature
