"""A program at a terminal, as a test uses it: typed to, waited for, looked at, ended with all that it started."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar, Unpack

from reenact.terminal.errors import WaitTimeoutError
from reenact.terminal.matching.expressions import Finder
from reenact.terminal.matching.options import AssertionOptions, Pattern
from reenact.terminal.screen.model import Screen
from reenact.terminal.script.steps import Scope
from reenact.terminal.session.keys import SpecialKey, encode, paste
from reenact.terminal.session.locator import Locator, StyleFields
from reenact.terminal.session.session import Session, TerminalState
from reenact.terminal.session.waiting import Asking, wait
from reenact.terminal.status import ExitStatus

__all__ = ["TerminalEmulator", "TerminalState"]

T = TypeVar("T")


class TerminalEmulator(Session):
    """A program at a terminal of its own, driven as a person would.

    A `with` block starts it, if that was not done, and ends it. Times are in seconds; a `timeout` of None is the
    terminal's own, one of 0 looks once. Several threads may use it.
    """

    def start(self) -> Self:
        """Start the program.

        Raises:
            TerminalTestError: there is no pseudo-terminal (`PTY_CREATE_FAILED`), the program or its directory cannot be
                used, there is no thread to be had or SIGCHLD is ignored (`PROCESS_START_FAILED`), or it was started
                before (`SCRIPT_EXECUTION_ERROR`).
        """
        self._start()
        return self

    def dispose(self) -> None:
        """End the program with all that it has started, and close the terminal. Idempotent.

        They are hung up, terminated, and killed, with half a second to act on each; when that is interrupted, as with
        Ctrl+C, they are killed at once. What was shown can still be read. In a fork of the process it does nothing.

        A process is known to be one of them by its session, its process group, its ancestors, by a standard stream that
        is the terminal, or by REENACT_TERMINAL in its environment. So a daemon lives on that has left all of the first
        four and whose environment lacks that variable (`env -i`) or may not be read (ssh-agent, unless we are root).
        Where the system lists no processes, as Linux does, only the program's group and the one in the foreground end.
        """
        self._dispose()

    def __enter__(self) -> Self:
        return self if self._live is not None and not self._is_disposed else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.dispose()

    def write(self, data: str | bytes) -> None:
        r"""Send exactly this, text as UTF-8; wait for as long as the program leaves no room for it.

        Enter is `"\r"`. A program that reads whole lines is given at most 4,095 bytes of one; the kernel drops more.

        Raises:
            WaitTimeoutError: the program has not read in time; the message says how many bytes went.
            TerminalTestError: it has ended (`PROCESS_EXITED`), or was not started (`SCRIPT_EXECUTION_ERROR`).
        """
        self._wait(self._questions.writing(data))

    def send_line(self, text: str) -> None:
        """Send the text, and press Enter. Raises what `write` raises."""
        self.write(text + "\r")

    def paste(self, text: str) -> None:
        """Send the text as if it was pasted: in brackets, if the program asked for them. Raises as `write`."""
        self.write(paste(text, self._started().display.modes()))

    def send_key(self, key: SpecialKey | str, *, shift: bool = False, alt: bool = False, ctrl: bool = False) -> None:
        """Press a key, a character or one with a name, as `up`, `ctrl+c` or `shift+f5`. Raises what `write` raises.

        Raises:
            TerminalTestError: there is no such key (`INVALID_CONFIG`).
        """
        self.write(encode(key, self._started().display.modes(), shift=shift, alt=alt, ctrl=ctrl))

    def wait_for(self, pattern: Pattern | Finder, timeout: float | None = None, *, scope: Scope = "new") -> str:
        r"""Wait until the pattern is there; return what is there from the beginning up to the end of the match.

        A text is found as it stands, its `\n` also as `\r\n` or `\r\r\n`; a compiled pattern is searched for. With the
        scope `new` they are looked for in what has come behind the last match of such a wait, without sequences; with
        `all` in everything, without sequences; with `screen` in the text of the screen. What is found is on the screen
        as well. `match` is the match then. A pattern matches as soon as it can: `\d+` may find the first half of a
        number. A compiled one that backtracks for long is not interrupted, and nothing else runs meanwhile.

        Raises:
            WaitTimeoutError: it did not come in time; the program goes on.
            TerminalTestError: the program has ended without it (`PROCESS_EXITED`).
        """
        return self._wait(self._questions.finding(pattern, timeout, scope))

    def wait_idle(self, quiet: float = 0.1, timeout: float | None = None) -> None:
        """Wait until nothing has arrived for `quiet` seconds, from now on, or the program has ended.

        Raises:
            WaitTimeoutError: it did not fall silent in time.
        """
        self._wait(self._questions.quieting(quiet, timeout))

    def wait_until(self, condition: Callable[[Screen], bool], timeout: float | None = None, *, what: str) -> Screen:
        """Wait until the condition is true of the screen, and return that screen; `what` names it in errors.

        Raises:
            WaitTimeoutError: it did not become true in time.
            TerminalTestError: the program has ended, and it is not true (`PROCESS_EXITED`).
        """
        return self._wait(self._questions.seeing(condition, timeout, what))

    def wait_for_exit(self, timeout: float | None = None) -> ExitStatus:
        """Wait until the program has ended and all that it wrote is here; return how it ended.

        Raises:
            WaitTimeoutError: it did not end in time; it has been ended then, with all that it had started.
            TerminalTestError: something else in this process took note of its end first, as a handler of SIGCHLD that
                waits for any child: it is not known how it ended (`SCRIPT_EXECUTION_ERROR`).
        """
        try:
            return self._wait(self._questions.exiting(timeout))
        except WaitTimeoutError:
            self._end()
            raise

    def expect_cursor(self, row: int, column: int, timeout: float | None = None) -> None:
        """Wait until the cursor is there; both count from 0.

        Raises:
            ExpectationError: it was not, in time or at the end; the message says where it is.
        """
        self._wait(self._questions.cursor_at(row, column, timeout))

    def expect_screen(self, options: AssertionOptions | str, timeout: float | None = None) -> None:
        """Wait until the text of the screen is as expected; a text alone is to be found in it.

        Raises:
            ExpectationError: it was not, in time or at the end; the message says what is different.
        """
        self._wait(self._questions.showing(options, timeout))

    def get_by_text(self, text: Pattern, *, exact: bool = False, ignore_case: bool = False) -> Locator:
        """Return what finds the text on the screen, part of a row or, with `exact`, all of it; it waits when asked."""
        return Locator.by_text(self, text, exact=exact, ignore_case=ignore_case)

    def get_by_style(self, **fields: Unpack[StyleFields]) -> Locator:
        """Return what finds text of this look on the screen, say `bold=True, foreground="red"`; it waits when asked."""
        return Locator.by_style(self, **fields)

    def _wait(self, asking: Asking[T]) -> T:
        return wait(self._started().changes, asking)
