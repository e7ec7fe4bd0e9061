"""What can be waited for: each question, and what is said when there is no answer."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from reenact.terminal.errors import ExpectationError, TerminalTestError, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.matching.expressions import Finder
from reenact.terminal.matching.options import AssertionOptions, Pattern
from reenact.terminal.screen.model import Screen
from reenact.terminal.script.steps import Scope
from reenact.terminal.session import checking
from reenact.terminal.session.keys import encoded
from reenact.terminal.session.live import Live
from reenact.terminal.session.outbox import Outgoing
from reenact.terminal.session.transcript import Search, compiled
from reenact.terminal.session.waiting import Asking, Question, asking
from reenact.terminal.status import ExitStatus

T = TypeVar("T")
_LOST: Final = (
    "it is not known how: something else in this process, as a handler of SIGCHLD, took note of its end first"
)
_LAST_LINES: Final = 10


@dataclass(frozen=True)
class Questions:
    """Questions about a program; each is asked with the seconds it may take, None for `timeout`."""

    live: Live
    name: str
    timeout: float

    def writing(self, data: object) -> Asking[None]:
        """Ask whether all of it was written, once that was begun."""
        if not isinstance(data, (str, bytes)):
            raise checking.invalid(f"data: text or bytes are wanted, not {data!r}")
        outgoing = Outgoing(encoded(data) if isinstance(data, str) else data)
        if self.live.has_ended():
            raise self._ended("it could be written to", None)
        return self._writing(outgoing)

    def finding(self, pattern: Pattern | Finder, timeout: float | None, scope: Scope) -> Asking[str]:
        """Ask for what is there up to the end of a match."""
        transcript = self.live.transcript
        what = repr(pattern) if isinstance(pattern, str) else f"a match of {compiled(pattern).pattern!r}"
        match scope:
            case "new":
                search = Search(transcript, pattern, only_new=True)
                return self._asking(
                    search,
                    what,
                    timeout,
                    self._new_output,
                    note=lambda: self._nothing_new() or self._line_ends(pattern),
                )
            case "all":
                return self._asking(
                    Search(transcript, pattern, only_new=False), what, timeout, transcript.stripped_output
                )
            case "screen":
                find = self._on_screen(compiled(pattern))
                return self._asking(find, f"{what} on the screen", timeout, self.live.display.text)
        raise checking.invalid(f"scope: new, all or screen is wanted, not {scope!r}")

    def quieting(self, quiet: float, timeout: float | None) -> Asking[bool]:
        """Ask whether nothing has arrived for `quiet` seconds since the question was put."""
        checking.seconds(quiet, "quiet", positive=True)
        begun = time.monotonic()

        def quiet_at() -> float:
            # What is being taken in is news, and its end is announced.
            return math.inf if self.live.is_taking else max(begun, self.live.last_arrival) + quiet

        def ask() -> bool | None:
            return self.live.changes.moment.over or time.monotonic() >= quiet_at() or None

        return self._asking(ask, f"{quiet:g} s without output", timeout, self.live.transcript.stripped_output, quiet_at)

    def seeing(self, condition: Callable[[Screen], bool], timeout: float | None, what: str) -> Asking[Screen]:
        """Ask for a screen for which the condition is true."""
        return self.looking(lambda screen: screen if condition(screen) else None, timeout, what)

    def looking(self, look: Callable[[Screen], T | None], timeout: float | None, what: str) -> Asking[T]:
        """Ask for what is to be seen on the screen."""
        return self._asking(lambda: look(self.live.display.screen()), what, timeout, self.live.display.text)

    def cursor_at(self, row: int, column: int, timeout: float | None) -> Asking[Screen]:
        """Ask for a screen whose cursor is there."""

        def is_there(screen: Screen) -> bool:
            return (screen.cursor.row, screen.cursor.column) == (row, column)

        def error() -> ExpectationError:
            cursor = self.live.display.screen().cursor
            return ExpectationError(
                f"the cursor of {self.name!r} was to be in row {row}, column {column}; "
                f"it is in row {cursor.row}, column {cursor.column}",
                seen=self.live.display.text(),
            )

        return self._expecting(is_there, error, timeout)

    def showing(self, options: AssertionOptions | str, timeout: float | None) -> Asking[Screen]:
        """Ask for a screen whose text is as expected; a text alone is to be part of it."""
        from reenact.terminal.matching.matcher import AssertionMatcher  # noqa: PLC0415 - most tests compare no screens

        expected = AssertionOptions(type="contains", expected=options) if isinstance(options, str) else options
        matcher = AssertionMatcher()

        def is_shown(screen: Screen) -> bool:
            return matcher.assert_(screen.text, expected).passed  # noqa: PT009 - no unittest

        def error() -> ExpectationError:
            result = matcher.assert_(self.live.display.text(), expected)  # noqa: PT009 - likewise
            said = "\n".join(filter(None, (result.message, result.diff)))
            return ExpectationError(f"the screen of {self.name!r} is not as expected: {said}", seen=result.actual)

        return self._expecting(is_shown, error, timeout)

    def exiting(self, timeout: float | None) -> Asking[ExitStatus]:
        """Ask how the program has ended, when all it has written is here."""

        def ask() -> ExitStatus | None:
            if not self.live.changes.moment.over:
                return None
            if self.live.is_lost and self.live.failure is None:
                raise TerminalTestError(
                    TerminalTestErrorType.SCRIPT_EXECUTION_ERROR,
                    f"{self.name!r} has ended, {_LOST}; have that wait for its own processes only",
                    seen=self.live.transcript.stripped_output(),
                )
            return self.live.status

        return self._asking(ask, "its end", timeout, self.live.transcript.stripped_output)

    def _new_output(self) -> str:
        new = self.live.transcript.new_output()
        return new if new.strip() else _last_lines(self.live.transcript.stripped_output())

    def _nothing_new(self) -> str:
        transcript = self.live.transcript
        is_old = not transcript.new_output().strip() and transcript.stripped_output().strip()
        return "; nothing new was shown behind the last match" if is_old else ""

    def _line_ends(self, pattern: Pattern | Finder) -> str:
        r"""Say that lines end with `\r\n`, which the error does not show, where a compiled pattern has a newline."""
        source = str(pattern.pattern) if isinstance(pattern, re.Pattern) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]  # of text, not of bytes
        is_exact = "\n" in source or r"\n" in source
        has_returns = "\r\n" in self.live.transcript.stripped_output()
        return (
            r"; lines end with \r\n here, which \n in a compiled pattern does not match"
            if is_exact and has_returns
            else ""
        )

    def _writing(self, outgoing: Outgoing) -> Asking[None]:
        def progress() -> str:
            return f"{outgoing.sent} of {len(outgoing.data)} bytes went"

        question = Question(
            ask=lambda: outgoing.is_sent or None,
            ended=lambda: self._ended(f"all was written; {progress()}", None),
            too_late=lambda: WaitTimeoutError(
                f"waited {self.timeout:g} s for {self.name!r} to read: {progress()}, the rest does not"
            ),
        )
        self.live.send(outgoing)
        try:
            yield from asking(self.live.changes, question, self.timeout)
        finally:
            self.live.take_back(outgoing)

    def _on_screen(self, pattern: Finder) -> Callable[[], str | None]:
        def find() -> str | None:
            text = self.live.display.text()
            match = pattern.search(text)
            if match is None:
                return None
            self.live.transcript.match = match if isinstance(match, re.Match) else None
            return text[: match.end()]

        return find

    def _expecting(
        self, condition: Callable[[Screen], bool], error: Callable[[], Exception], timeout: float | None
    ) -> Asking[Screen]:
        limit = self.timeout if timeout is None else checking.seconds(timeout, "timeout")

        def ask() -> Screen | None:
            screen = self.live.display.screen()
            return screen if condition(screen) else None

        return asking(self.live.changes, Question(ask=ask, ended=error, too_late=error), limit)

    def _asking(
        self,
        ask: Callable[[], T | None],
        what: str,
        timeout: float | None,
        shown: Callable[[], str],
        again: Callable[[], float] = lambda: math.inf,
        *,
        note: Callable[[], str] = str,
    ) -> Asking[T]:
        limit = self.timeout if timeout is None else checking.seconds(timeout, "timeout")
        question = Question(
            ask=ask,
            ended=lambda: self._ended(f"there was {what}{note()}", shown()),
            too_late=lambda: WaitTimeoutError(
                f"waited {limit:g} s in vain for {what} of {self.name!r}{note()}", seen=shown()
            ),
            again=again,
        )
        return asking(self.live.changes, question, limit)

    def _ended(self, what: str, seen: str | None) -> TerminalTestError:
        status, failure = self.live.status, self.live.failure
        if failure is not None:
            return TerminalTestError(
                TerminalTestErrorType.SCRIPT_EXECUTION_ERROR,
                f"the terminal of {self.name!r} has failed, so it is not known whether {what}: {failure!r}",
                failure,
                seen=seen,
            )
        return TerminalTestError(
            TerminalTestErrorType.PROCESS_EXITED,
            f"{self.name!r} has ended ({_LOST if status is None else status}) before {what}",
            seen=seen,
        )


def _last_lines(text: str) -> str:
    return "\n".join(text.rstrip()[-_LAST_LINES * 200 :].splitlines()[-_LAST_LINES:])
