"""Where things go: the result to standard output, everything else to standard error, and nobody's key anywhere."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from enum import StrEnum
from functools import partial
from logging import LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from reenact.cli.output.failures import OutputLostError, Problem, hint_of
from reenact.cli.output.logs import FOR_LATER, TERMINAL_LOCK, Between, Lines, Tracebacks, Whole, Words, as_line
from reenact.cli.output.streams import copied, forget, is_standard, overheard, pieces, redirected, takes
from reenact.cli.settings.environment import KEYS, is_dumb, ring_variable
from reenact.cli.settings.providers import CLAUDE, VARIABLES, Variables
from reenact.domain.errors import StorageError
from reenact.domain.legible import harmless

if TYPE_CHECKING:
    from rich.console import Console as Screen


logger = logging.getLogger("reenact.cli")
tools = logging.getLogger("reenact.tools")
ERRORS = "errors.log"
"""The file of what nobody expected, where the state of the command is kept."""
_SECRET_LENGTH = 8
"""A key that is shorter opens nothing, and stands by chance in many words."""
_MOMENT = 1.0
"""Seconds that who reads is waited for when there is no time left."""


class ListFormat(StrEnum):
    """How a list is printed: lines for people, or one JSON object a line."""

    TEXT = "text"
    JSON = "json"


class Console:
    """The three standard streams, which need not all be there, and what the environment says about them."""

    _out: TextIO | None = None
    _err: TextIO | None = None
    _deadline: float | None = None
    _session_id: Callable[[], str] | None = None

    _is_apart = False
    as_json = False
    """Whether a program reads standard output."""

    variables: Variables | None = VARIABLES[CLAUDE]
    """Those that say how the model is reached, None if they are a user's own."""

    gave_up = False
    """Whether standard output is forgotten, because it took nothing for longer than there was time."""

    def __init__(self, environ: Mapping[str, str], *, in_ci: bool, debug: bool = False) -> None:
        self.environ = environ
        self.in_ci = in_ci
        self.debug = debug
        self._nowhere = io.StringIO()
        self._keys = _secrets_of(environ)

    @property
    def out(self) -> TextIO:
        """Where the result goes."""
        return self._out or sys.stdout or self._nowhere

    @property
    def err(self) -> TextIO:
        """Where everything else goes."""
        return self._err or sys.stderr or self._nowhere

    def screen(self, stream: TextIO) -> Screen:
        """Return what shows texts in styles on the stream; without them where it is not a terminal that knows any."""
        from rich.console import Console as Screen  # noqa: PLC0415 - whoever asks for help need not wait for it

        plain = False if is_dumb(self.environ) else None
        return Screen(file=stream, emoji=False, highlight=False, markup=False, soft_wrap=True, force_terminal=plain)

    @property
    def has_person(self) -> bool:
        """Whether somebody types the input and sees what is asked."""
        return sys.stdin is not None and sys.stdin.isatty() and self.terminal is not None

    @property
    def terminal(self) -> TextIO | None:
        """Where somebody sees what is not a result; None if nobody does."""
        return next((stream for stream in (self.err, self.out) if stream.isatty()), None)

    def input(self) -> io.BufferedIOBase | io.BytesIO:
        """Return what standard input holds, as bytes; nothing if it is closed."""
        return io.BytesIO() if sys.stdin is None else _bytes_of(sys.stdin)

    @contextlib.contextmanager
    def guarding_output(self) -> Generator[None]:
        """Let what tools print go to standard error: standard output has the result and nothing else.

        That holds for programs that tools start, too. In a build standard error has lines of JSON and nothing else, so
        what they print is logged, by `reenact.tools`.
        """
        before = sys.stdout
        with contextlib.ExitStack() as streams:
            onto, self._out = 2, self.out
            if is_standard(before, 1) and not before.isatty():
                self._out, self._is_apart = streams.enter_context(copied(before)), True
                if self.in_ci and is_standard(sys.stderr, 2):
                    self._err = streams.enter_context(copied(sys.stderr))
                    onto = streams.enter_context(overheard(tools.info))
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
        """The session that the command is about, once there is one."""
        return (self._session_id() if self._session_id else "") or None

    def speaks_of(self, session_id: Callable[[], str]) -> None:
        """Name this session, if there is one, in what is told of failures, each of which is told once.

        What the parts of the runtime say about a failure of the log is then left to the command, which gets it.
        """
        self._session_id = session_id

    def write(self, text: str) -> None:
        """Let a part of the result be read at once.

        Raises:
            BrokenPipeError: nobody reads it any more.
            OutputLostError: there is no space for it, or another reason.
        """
        with self.losing_output():
            for piece in pieces(text):
                if self._takes_more():
                    self.out.write(piece)
                    self.out.flush()

    def write_json(self, value: object) -> None:
        """Print the value as a line of JSON."""
        self.write(as_line(value))

    def show(self, value: object, form: ListFormat, *lines: str) -> None:
        """Print what a command has found: as a line of JSON, or as lines for people, which a terminal only shows."""
        self.write(as_line(value) if form is ListFormat.JSON else "".join(f"{harmless(line)}\n" for line in lines))

    def flush(self) -> None:
        """Let everything be read that was written, also by others; raises as `write` does."""
        with self.losing_output():
            if self._takes_more():
                self.out.flush()

    @contextlib.contextmanager
    def within(self, seconds: float | None) -> Generator[None]:
        """Wait no longer than so many seconds from now, and a moment, for who reads standard output.

        If it takes nothing then, it is forgotten, and `gave_up` says so. None is for ever.
        """
        self._deadline = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = None

    def _takes_more(self) -> bool:
        if not self.gave_up and not takes(self.out, self._left()):
            self.gave_up = True
            self.abandon()
        return not self.gave_up

    def _left(self) -> float | None:
        return None if self._deadline is None else max(_MOMENT, self._deadline - time.monotonic())

    @contextlib.contextmanager
    def losing_output(self) -> Generator[None]:
        """Raise `OutputLostError` for what the system says when it takes no more of standard output."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.abandon()
            raise OutputLostError(error.strerror or str(error)) from error

    def say(self, message: str) -> None:
        """Tell people something that is not a result."""
        logger.info("%s", self.without_key(message))

    def warn(self, message: str) -> None:
        """Tell people about something that is not as they may think."""
        logger.warning("%s", self.without_key(message))

    def report(
        self,
        problem: Problem,
        error: BaseException | None = None,
        *,
        session_id: str | None = None,
        turn_id: str | None = None,
    ) -> None:
        """Tell people why there is no result, or no whole one, and what may help.

        With an `error` that nobody expected, its traceback is kept in the log of errors.
        """
        facts = {
            "code": int(problem.code),
            "type": problem.type,
            "hint": hint_of(problem.type, self.environ, self.variables),
            "session_id": session_id or self.session_id,
            "turn_id": turn_id,
        }
        logger.error("%s", self.without_key(problem.message), exc_info=error, extra=facts)

    def told(self, problem: Problem) -> str:
        """Return in words why there is no result, and in a line below that what may help."""
        hint = hint_of(problem.type, self.environ, self.variables)
        return "\n".join(filter(None, (self.without_key(problem.message), hint)))

    def without_key(self, text: str) -> str:
        """Return the text without API keys and the log's, should they be in there."""
        for key in self._keys:
            text = text.replace(key, "…")
        return text

    def use_keys(self, named: str | None) -> None:
        """Take the key ring of the log for the one that the environment names, if one is named."""
        if named is not None:
            self.environ = {**self.environ, KEYS: named}
            self._keys = _secrets_of(self.environ)

    def prepare(self, *, as_json: bool) -> None:
        """Let no character that a stream cannot show be a failure; JSON is UTF-8 whatever the locale is."""
        self.as_json = self.as_json or as_json
        _occupy_standard_descriptors()
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if callable(reconfigure):
            reconfigure(encoding="utf-8" if self.as_json else None, errors="replace")

    def abandon(self) -> None:
        """Forget what nobody reads any more, so that the end of the process does not stumble over it."""
        if self._is_apart or is_standard(self.out, 1):
            forget(self.out)

    def _tell(self, stream: TextIO, text: str) -> None:
        """Write to standard error; what nobody takes is forgotten, and changes nothing."""
        err = self._err or stream
        try:
            for piece in pieces(text):
                if not takes(err, self._left()):
                    forget(err)
                err.write(piece)
                err.flush()
        except (OSError, ValueError):
            if err is self._err or is_standard(err, 2):
                forget(err)

    def abandon_terminal(self) -> None:
        """Forget what nobody sees any more: the window was closed, in which these streams have ended."""
        with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
                if _is_gone(stream.fileno()):
                    os.dup2(nowhere.fileno(), stream.fileno())

    @contextlib.contextmanager
    def logging(self, directory: Path) -> Generator[None]:
        """Send what is logged to standard error, and what nobody expected, with its traceback, to a file as well."""
        stderr = Between(partial(self._tell, self.err))
        errors = directory / ERRORS
        words = Words(self.without_key, errors, debug=self.debug)
        stderr.setFormatter(Lines(self.without_key) if self.in_ci else words)
        file = Tracebacks(errors)
        file.setFormatter(Whole(self.without_key))
        stderr.addFilter(self._is_news)
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
            logging.captureWarnings(False)  # noqa: FBT003 - it takes no other form
            for handler in handlers:
                root.removeHandler(handler)
                handler.close()
            for one, level in zip((root, ours, logger, tools), levels, strict=True):
                one.setLevel(level)

    def _is_news(self, record: LogRecord) -> bool:
        """Return whether nobody else tells it: a failure of the log comes back to the command, which tells it once."""
        if self.debug:
            return True
        if not self.in_ci and (TERMINAL_LOCK.is_shown(record) or FOR_LATER.items() <= vars(record).items()):
            return False
        if self._session_id is None or record.name.startswith(logger.name):
            return True
        of_args = record.args if isinstance(record.args, tuple) else ()
        causes = (*of_args, record.exc_info[1] if record.exc_info else None)
        return not any(isinstance(cause, StorageError) for cause in causes)


def _secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what opens an API, or the log, and is in a variable."""
    ring = environ.get(ring_variable(environ) or "", "").split()
    keys = (environ.get(variables.key, "").strip() for variables in VARIABLES.values())
    return tuple(key for key in (*keys, *ring) if len(key) >= _SECRET_LENGTH)


def _occupy_standard_descriptors() -> None:
    """Let no file that is opened later get the number of a standard stream that is closed, to be printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # with the lowest number that is free, which is this one
            os.set_inheritable(opened, True)  # noqa: FBT003 - it takes no other form


def _is_gone(descriptor: int) -> bool:
    """Return whether it leads to a terminal that has hung up, which says so of anything that it is asked."""
    try:
        os.get_terminal_size(descriptor)
    except OSError as error:
        return error.errno == errno.EIO
    return False


def _bytes_of(stream: TextIO) -> io.BufferedIOBase | io.BytesIO:
    buffer = getattr(stream, "buffer", None)
    return buffer if isinstance(buffer, io.BufferedIOBase) else io.BytesIO(stream.read().encode())
