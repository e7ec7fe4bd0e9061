"""The terminal emulator for tests: starts a program, sends input, waits for output, and ends it with its children."""

# ruff: noqa: ASYNC109 - same parameters as the blocking version; its timeout errors say what was seen

from __future__ import annotations

import asyncio
import math
import re
import secrets
import shlex
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from typing import Self, TypeVar, Unpack

import msgspec

from reenact.terminal.config import DEFAULT_COLUMNS, DEFAULT_ROWS, DEFAULT_TIMEOUT, seconds
from reenact.terminal.errors import (
    ExpectationError,
    TerminalTestError,
    TerminalTestErrorType,
    WaitTimeoutError,
    invalid,
    is_kit_error,
    not_possible,
)
from reenact.terminal.matching.options import (
    AssertionOptions,
    AssertionResult,
    Finder,
    Pattern,
    Scope,
    explanation,
    is_pattern,
)
from reenact.terminal.screen.model import Cell, Cursor, MouseAction, MouseButton, Screen, checked_size
from reenact.terminal.session import checking
from reenact.terminal.session.display import Display
from reenact.terminal.session.keys import SpecialKey, encode, encoded, paste
from reenact.terminal.session.live import Live, Outgoing, Waker
from reenact.terminal.session.locator import AsyncLocator, Locator, StyleFields
from reenact.terminal.session.pty import Pair, pty_error
from reenact.terminal.session.recording import Recording
from reenact.terminal.session.spawning import (
    START_ERRORS,
    STATUS_LOST,
    ExitStatus,
    Spawner,
    environment,
    lost_status_error,
    spawn,
    start_error,
)
from reenact.terminal.session.transcript import Transcript, compiled, compiled_for_rows
from reenact.terminal.session.waiting import Changes, Pause, answer_to, blocking

__tracebackhide__ = is_kit_error
T = TypeVar("T")
MAX_OUTPUT = 16 * 1024 * 1024


class TerminalState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a program and its terminal at one moment, with the output as far as it is kept."""

    running: bool
    pid: int | None
    exit_status: ExitStatus | None
    output: str
    stripped_output: str
    screen: Screen


class Session:
    """A program at its own terminal; base of the emulators, with everything that does not wait.

    Args:
        command: the program, by name or path, or its name and arguments. A text is one word: it is not split.
        args: more arguments.
        cwd: its working directory; None for ours.
        env: variables of its environment, besides PATH, LANG, LC_*, HOME and TMPDIR of ours, and TERM.
        inherit_env: pass our whole environment, except COLUMNS and LINES, which are about our terminal.
        cols: columns of the terminal.
        rows: rows of the terminal.
        timeout: default timeout of waits, in seconds.
        term: the variable TERM.
        spawner: starts the program, by default as a child process.
        max_output: maximum number of bytes that are kept of the output, and of its text; older output is dropped.

    Raises:
        TerminalTestError: an argument is invalid (`INVALID_CONFIG`).
        MissingExtraError: the extra `terminal` is not installed.
    """

    def __init__(
        self,
        command: checking.Command,
        args: Sequence[str] = (),
        *,
        cwd: checking.FilePath | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        cols: int = DEFAULT_COLUMNS,
        rows: int = DEFAULT_ROWS,
        timeout: float = DEFAULT_TIMEOUT,
        term: str = "xterm-256color",
        spawner: Spawner | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        self.command: tuple[str, ...] = checking.command_line(command, args)
        self.timeout: float = seconds(timeout, "timeout", positive=True)
        self._cwd = checking.directory(cwd)
        self._env = checking.variables(env)
        checking.variables({"TERM": term})
        self._term = term
        self._inherit_env = inherit_env
        self._cols, self._rows = checked_size(cols, rows)
        from reenact.terminal.screen.engine import Engine  # noqa: PLC0415 - not every importer starts a program

        self._make_engine = Engine
        self._spawner: Spawner = spawn if spawner is None else spawner
        self._max_output = checking.whole(max_output, "max_output", 1)
        self._transcript = Transcript(self._max_output)
        self._recording = self._new_recording()
        self._live: Live | None = None
        self._is_disposed = False
        self._lock = threading.RLock()
        self._finalizer: weakref.finalize[..., Session] | None = None

    # --- State ---

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._live is None else self._live.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the program was started and has not ended."""
        return self._live is not None and not self._live.has_ended()

    @property
    def exit_status(self) -> ExitStatus | None:
        """The exit status of the program; None while it runs, or if another part of this process reaped it first."""
        return self._live.status if self._live is not None and self._live.has_ended() else None

    @property
    def screen(self) -> Screen:
        """A snapshot of the screen: blank before the start; after the end, and after `dispose`, the last one."""
        return _blank(self._cols, self._rows) if self._live is None else self._live.display.screen()

    @property
    def recording(self) -> Recording:
        """The input and output with times; at most the first `max_output` bytes of each."""
        return self._recording

    @property
    def match(self) -> re.Match[str] | None:
        """The last match of `wait_for`."""
        return self._transcript.match

    @property
    def dropped(self) -> int:
        """Number of bytes of output that were dropped because it was longer than `max_output`."""
        return self._transcript.dropped

    def get_output(self) -> str:
        """Return the output, including escape sequences; bytes that are not UTF-8 are replaced."""
        return self._transcript.output()

    def get_output_bytes(self) -> bytes:
        """Return the output as bytes."""
        return self._transcript.output_bytes()

    def get_stripped_output(self) -> str:
        """Return the output without escape sequences."""
        return self._transcript.stripped_output()

    def get_terminal_state(self) -> TerminalState:
        """Return the current state."""
        with nullcontext() if self._live is None else self._live.display.locked():
            return TerminalState(
                running=self.is_running,
                pid=self.pid,
                exit_status=self.exit_status,
                output=self.get_output(),
                stripped_output=self.get_stripped_output(),
                screen=self.screen,
            )

    # --- Actions that do not wait ---

    def resize(self, cols: int, rows: int) -> None:
        """Change the size of the terminal; the program gets SIGWINCH.

        Raises:
            TerminalTestError: the size is invalid (`INVALID_CONFIG`).
        """
        self._cols, self._rows = checked_size(cols, rows)
        if self._live is not None:
            self._started().resize(cols, rows)

    def kill(self, signal: str | int | signal.Signals = "SIGTERM") -> None:
        """Send a signal to the process group of the program; do nothing if it has ended.

        Raises:
            TerminalTestError: there is no such signal (`INVALID_CONFIG`), or no program (`SCRIPT_EXECUTION_ERROR`).
        """
        self._started().signal(checking.signal_number(signal))

    # --- Start and end, blocking ---

    def _start(self) -> None:
        with self._lock, ExitStack() as undo:
            if self._live is not None or self._is_disposed:
                raise not_possible(f"{self.command[0]!r} was started before; a terminal serves once: make another one")
            engine = self._make_engine(self._cols, self._rows)
            undo.callback(engine.close)
            try:
                pair = Pair(self._cols, self._rows)
                undo.callback(pair.close)
                waker = Waker()
                undo.callback(waker.close)
            except OSError as error:
                raise pty_error(error) from error
            mark = secrets.token_hex(8)
            env = environment(self._term, self._env, mark, inherit=self._inherit_env)
            try:
                process = self._spawner(self.command, env, self._cwd, pair.other)
            except START_ERRORS as error:
                raise start_error(error, self.command, env, self._cwd) from error
            recording = self._new_recording()
            live = Live(
                pair=pair,
                waker=waker,
                process=process,
                mark=mark,
                transcript=self._transcript,
                display=Display(engine),
                recording=recording,
            )
            undo.callback(live.kill_all)
            live.begin()
            self._live, self._recording = live, recording
            # The thread has no reference to this object, so that it can be collected; it is cleaned up then or at exit.
            self._finalizer = weakref.finalize(self, _clean_up, live, self.command[0])
            undo.pop_all()

    def _dispose(self) -> None:
        if self._live is not None and self._live.is_foreign:
            return  # a fork leaves the `with` block of a program that belongs to its parent
        with self._lock:
            self._is_disposed = True
            if self._live is not None and self._finalizer is not None and self._finalizer.alive:
                try:
                    self._live.end()
                except BaseException:
                    self._live.kill_all()  # interrupted, for example by Ctrl+C
                    raise
                finally:
                    self._live.close()
                    self._live.display.close()
                # If an exception came before this line, another call or the interpreter's exit cleans up.
                self._finalizer.detach()

    def _new_recording(self) -> Recording:
        command = shlex.join(self.command)
        return Recording(self._cols, self._rows, term=self._term, command=command, limit=self._max_output)

    def _started(self) -> Live:
        if self._live is None:
            raise not_possible(
                f"{self.command[0]!r} is not running yet; call `start`, or use the terminal in a `with` block"
            )
        if self._live.is_foreign:
            raise not_possible(
                f"{self.command[0]!r} is a program of the process {self._live.owner}, of which this one is a fork; "
                "use it there, or start another one here"
            )
        return self._live

    # --- Waiting: on the calling thread, unless a subclass overrides the next two ---

    async def _wait_out(self, changes: Changes, pause: Pause) -> None:
        """Wait for the pause."""
        changes.wait_out(pause)

    async def _call(self, work: Callable[[], T]) -> T:
        """Call a blocking function."""
        return work()

    async def _answer(
        self,
        ask: Callable[[], T | None],
        what: str,
        timeout: float | None,
        shown: Callable[[], str],
        *,
        next_check: Callable[[], float] = lambda: math.inf,
        note: Callable[[], str] = str,
        error: Callable[[], Exception] | None = None,
    ) -> T:
        """Ask until there is an answer. `note` adds to the error if there is none; `error` replaces the error."""
        limit = self.timeout if timeout is None else seconds(timeout, "timeout")

        def ended() -> TerminalTestError:
            return self._exited_error(f"while waiting for {what}{note()}", shown())

        def too_late() -> WaitTimeoutError:
            return WaitTimeoutError(
                f"timed out after {limit:g} s waiting for {what} from {self.command[0]!r}{note()}", seen=shown()
            )

        changes = self._started().changes
        return await answer_to(
            changes, self._wait_out, limit, ask, ended=error or ended, too_late=error or too_late, next_check=next_check
        )

    def _running(self) -> Live:
        live = self._started()
        if live.has_ended():
            raise self._exited_error("before it could be written to", None)
        return live

    async def _write(self, data: object) -> None:
        live = self._running()
        if not isinstance(data, (str, bytes)):
            raise invalid(f"data: expected str or bytes, got {data!r}")
        outgoing = Outgoing(encoded(data) if isinstance(data, str) else data)

        def progress() -> str:
            return f"{outgoing.sent} of {len(outgoing.data)} bytes went"

        def too_late() -> WaitTimeoutError:
            return WaitTimeoutError(
                f"timed out after {self.timeout:g} s waiting for {self.command[0]!r} to read: {progress()}"
            )

        live.send(outgoing)
        try:
            await answer_to(
                live.changes,
                self._wait_out,
                self.timeout,
                lambda: outgoing.is_sent or None,
                ended=lambda: self._exited_error(f"before all was written; {progress()}", None),
                too_late=too_late,
            )
        finally:
            live.discard(outgoing)

    def _exited_error(self, what: str, seen: str | None) -> TerminalTestError:
        live, name = self._started(), self.command[0]
        if live.failure is not None:
            return not_possible(
                f"the terminal of {name!r} has failed {what}: {live.failure!r}",
                live.failure,
                seen=seen,
            )
        return TerminalTestError(
            TerminalTestErrorType.PROCESS_EXITED,
            f"{name!r} has ended ({STATUS_LOST if live.status is None else live.status}) {what}",
            seen=seen,
        )


class AsyncTerminalEmulator(Session):
    """`TerminalEmulator` with awaitable methods for everything that may wait.

    An `async with` block starts the program, unless it was started, and ends it. A cancelled wait has no further
    effect: no more input is sent, and nothing counts as matched. A cancelled start ends the program again, and a
    cancelled end is completed.
    """

    async def start(self) -> Self:
        """Start the program; raises the same errors as `TerminalEmulator.start`."""
        try:
            await self._call(self._start)
        except asyncio.CancelledError:
            await self.dispose()
            raise
        return self

    async def dispose(self) -> None:
        """End the program with all its descendants, and close the terminal. Idempotent.

        They get SIGHUP, SIGTERM and SIGKILL, with half a second to react to each; if that is interrupted, for example
        by Ctrl+C, they are killed at once. The output remains available. In a fork of the process this does nothing.

        A process counts as a descendant by its session, its process group, its ancestors, by a standard stream that is
        the terminal, or by REENACT_TERMINAL in its environment. So a daemon survives that has left all of the first
        four, and whose environment lacks that variable (`env -i`) or is not readable (ssh-agent, unless we are root).
        On systems without a process list like that of Linux, only the program's group and the foreground group are
        ended.
        """
        await self._call(self._dispose)

    async def __aenter__(self) -> Self:
        return self if self._live is not None and not self._is_disposed else await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.dispose()

    async def write(self, data: str | bytes) -> None:
        r"""Send exactly this, text as UTF-8; wait while the program's input is full.

        Enter is `"\r"`. A program that reads whole lines gets at most 4,095 bytes of a line; the kernel drops more.

        Raises:
            WaitTimeoutError: the program has not read in time; the message says how many bytes were sent.
            TerminalTestError: it has ended (`PROCESS_EXITED`), or was not started (`SCRIPT_EXECUTION_ERROR`).
        """
        await self._write(data)

    async def send_line(self, text: str) -> None:
        """Send the text and press Enter; raises the same errors as `write`."""
        await self._write(checking.text(text) + "\r")

    async def paste(self, text: str) -> None:
        """Send the text as a paste, in brackets if the program enabled them; raises the same errors as `write`."""
        await self._write(paste(checking.text(text), self._started().display.screen().modes))

    async def send_key(
        self, key: SpecialKey | str, *, shift: bool = False, alt: bool = False, ctrl: bool = False
    ) -> None:
        """Press a key: a character, or a name such as `up`, `ctrl+c` or `shift+f5`; also raises the errors of `write`.

        Raises:
            TerminalTestError: there is no such key (`INVALID_CONFIG`).
        """
        modes = self._started().display.screen().modes
        await self._write(encode(key, modes, shift=shift, alt=alt, ctrl=ctrl))

    async def send_mouse(
        self,
        action: MouseAction,
        row: int,
        column: int,
        button: MouseButton = "left",
        *,
        shift: bool = False,
        alt: bool = False,
        ctrl: bool = False,
    ) -> None:
        """Use the mouse at this position, counted from 0, as soon as the program asks for such reports of it.

        `click` is `press` and `release`; `drag` is a movement with the button held, `move` one without; `scroll_up` and
        `scroll_down` turn the wheel by one step. Also raises the errors of `write`.

        Raises:
            WaitTimeoutError: the program has not asked for them in time: no terminal would send any.
            TerminalTestError: there is no such action or button, or the position is not on the screen
                (`INVALID_CONFIG`).
        """
        display = self._running().display

        def report() -> bytes | None:
            held = {"shift": shift, "alt": alt, "ctrl": ctrl}
            return display.ask(lambda engine: engine.mouse(action, row, column, button, **held)) or None

        sent = await self._answer(report, f"a request for {action!r} of the mouse", None, display.text)
        await self._write(sent)

    async def wait_for(self, pattern: Pattern | Finder, timeout: float | None = None, *, scope: Scope = "new") -> str:
        r"""Wait until the pattern is found; return the searched text from its beginning to the end of the match.

        A text is matched literally, except that its `\n` also matches `\r\n` and `\r\r\n`; a compiled pattern is
        searched for. The scope `new` searches the output after the last match of such a wait, without escape sequences;
        `all` searches all output, without escape sequences; `screen` searches the text of the screen, where blanks at
        the end of a text also match the end of a row. A match in the output is on the screen by then. `match` is set to
        the match. A pattern matches as early as possible: `\d+` may match the first half of a number. A compiled
        pattern that backtracks for long cannot be interrupted, and blocks all threads meanwhile.

        Raises:
            WaitTimeoutError: it was not found in time; the program continues.
            TerminalTestError: the program has ended without it (`PROCESS_EXITED`).
        """
        live, transcript = self._started(), self._transcript
        finder, on_screen = compiled(pattern), compiled_for_rows(pattern)
        what = repr(pattern) if isinstance(pattern, str) else f"a match of {finder.pattern!r}"

        def new_output() -> str:
            return transcript.new_output() if transcript.new_output().strip() else transcript.stripped_output()

        def note() -> str:
            stripped, source = transcript.stripped_output(), str(pattern.pattern) if is_pattern(pattern) else ""
            is_drawn = isinstance(pattern, str) and not live.is_processing and finder.search(stripped) is None
            if is_drawn and on_screen.search(live.display.text()) is not None:
                return "; it is on the screen, drawn in pieces: search there, with the scope screen"
            if not transcript.new_output().strip() and stripped.strip():
                return "; nothing new was shown behind the last match"
            if ("\n" in source or r"\n" in source) and "\r\n" in stripped:
                return r"; lines end with \r\n here, which \n in a compiled pattern does not match"
            return ""

        match scope:
            case "new":
                search = partial(transcript.search, finder, only_new=True)
                return await self._answer(search, what, timeout, new_output, note=note)
            case "all":
                search = partial(transcript.search, finder, only_new=False)
                return await self._answer(search, what, timeout, transcript.stripped_output)
            case "screen":

                def find() -> str | None:
                    text = live.display.text()
                    match = on_screen.search(text)
                    if match is None:
                        return None
                    transcript.match = match if isinstance(match, re.Match) else None
                    return text[: match.end()]

                return await self._answer(find, f"{what} on the screen", timeout, live.display.text)
        raise invalid(f"scope: expected new, all or screen, got {scope!r}")

    async def wait_idle(self, quiet: float = 0.1, timeout: float | None = None) -> None:
        """Wait until no output has arrived for `quiet` seconds from now on, or the program has ended.

        Raises:
            WaitTimeoutError: the output did not pause in time.
        """
        live, begun = self._started(), time.monotonic()
        seconds(quiet, "quiet", positive=True)

        def quiet_at() -> float:
            # Output that is being processed counts as new; the end of its processing is announced.
            return math.inf if live.is_processing else max(begun, live.last_arrival) + quiet

        def ask() -> bool | None:
            return live.changes.moment.over or time.monotonic() >= quiet_at() or None

        shown = self._transcript.stripped_output
        await self._answer(ask, f"{quiet:g} s without output", timeout, shown, next_check=quiet_at)

    async def wait_until(
        self, condition: Callable[[Screen], bool], timeout: float | None = None, *, what: str
    ) -> Screen:
        """Wait until the condition is true for the screen, and return that screen; `what` describes it in errors.

        Raises:
            WaitTimeoutError: it did not become true in time.
            TerminalTestError: the program has ended, and it is not true (`PROCESS_EXITED`).
        """
        display = self._started().display

        def ask() -> Screen | None:
            screen = display.screen()
            return screen if condition(screen) else None

        return await self._answer(ask, what, timeout, display.text)

    async def watch(self, look: Callable[[Screen], T | None], timeout: float | None = None, *, what: str) -> T:
        """Call `look` with each changed screen until it returns something other than None, and return that.

        Raises:
            WaitTimeoutError: it returned only None in time; `what` describes what was expected.
            TerminalTestError: the program has ended, and it still returns None (`PROCESS_EXITED`).
        """
        display = self._started().display
        return await self._answer(lambda: look(display.screen()), what, timeout, display.text)

    async def wait_for_exit(self, timeout: float | None = None) -> ExitStatus:
        """Wait until the program has ended and all its output has been processed; return its exit status.

        Raises:
            WaitTimeoutError: it did not end in time, and was killed with all its descendants.
            TerminalTestError: something else in this process reaped it first, such as a handler of SIGCHLD that waits
                for any child, so that its status is unknown (`SCRIPT_EXECUTION_ERROR`).
        """
        live, shown = self._started(), self._transcript.stripped_output

        def ask() -> ExitStatus | None:
            if not live.changes.moment.over:
                return None
            if live.is_lost and live.failure is None:
                raise lost_status_error(self.command[0], shown())
            return live.status

        try:
            return await self._answer(ask, "its end", timeout, shown)
        except WaitTimeoutError:
            await self._call(live.end)
            raise

    async def expect_cursor(self, row: int, column: int, timeout: float | None = None) -> None:
        """Wait until the cursor is at this position; both count from 0.

        Raises:
            ExpectationError: it was not there in time or at the end; the message says where it is.
        """
        display = self._started().display

        def place() -> tuple[int, int]:
            cursor = display.screen().cursor
            return cursor.row, cursor.column

        def error() -> ExpectationError:
            there = "it is in row {}, column {}".format(*place())
            wanted = f"the cursor of {self.command[0]!r} was to be in row {row}, column {column}"
            return ExpectationError(f"{wanted}; {there}", seen=display.text())

        await self._answer(lambda: place() == (row, column) or None, "the cursor", timeout, display.text, error=error)

    async def expect_screen(self, options: AssertionOptions | str, timeout: float | None = None) -> None:
        """Wait until the text of the screen is as expected; a plain text must be contained in it.

        Raises:
            ExpectationError: it was not as expected in time or at the end; the message shows the differences.
        """
        from reenact.terminal.matching.matcher import AssertionMatcher  # noqa: PLC0415 - most tests compare no screens

        expected = AssertionOptions(type="contains", expected=options) if isinstance(options, str) else options
        text = self._started().display.text

        def judged() -> AssertionResult:
            return AssertionMatcher().assert_(text(), expected)  # noqa: PT009 - no unittest

        def error() -> ExpectationError:
            result = judged()
            message = f"the screen of {self.command[0]!r} is not as expected: {explanation(result)}"
            return ExpectationError(message, seen=result.actual)

        await self._answer(lambda: judged().passed or None, "the screen", timeout, text, error=error)

    def get_by_text(self, text: Pattern, *, exact: bool = False, ignore_case: bool = False) -> AsyncLocator:
        """Return a locator for the text on the screen, with awaitable methods."""
        return AsyncLocator.by_text(self, text, exact=exact, ignore_case=ignore_case)

    def get_by_style(self, **fields: Unpack[StyleFields]) -> AsyncLocator:
        """Return a locator for text of this style on the screen, with awaitable methods."""
        return AsyncLocator.by_style(self, **fields)

    async def _wait_out(self, changes: Changes, pause: Pause) -> None:
        await changes.wait_out_on_loop(pause)

    async def _call(self, work: Callable[[], T]) -> T:
        return await _run_in_thread(work)


class TerminalEmulator(Session):
    """A program at its own terminal, controlled as a person would.

    A `with` block starts the program, unless it was started, and ends it. Times are in seconds; a `timeout` of None
    stands for the terminal's own, one of 0 checks once. Thread-safe.
    """

    def start(self) -> Self:
        """Start the program.

        Raises:
            TerminalTestError: no pseudo-terminal is available (`PTY_CREATE_FAILED`), the program or its directory
                cannot be used or SIGCHLD is ignored (`PROCESS_START_FAILED`), or it was started before
                (`SCRIPT_EXECUTION_ERROR`).
        """
        self._start()
        return self

    def __enter__(self) -> Self:
        return self if self._live is not None and not self._is_disposed else self.start()

    def __exit__(self, *_: object) -> None:
        self.dispose()

    dispose = blocking(AsyncTerminalEmulator.dispose)
    write = blocking(AsyncTerminalEmulator.write)
    send_line = blocking(AsyncTerminalEmulator.send_line)
    paste = blocking(AsyncTerminalEmulator.paste)
    send_key = blocking(AsyncTerminalEmulator.send_key)
    send_mouse = blocking(AsyncTerminalEmulator.send_mouse)
    wait_for = blocking(AsyncTerminalEmulator.wait_for)
    wait_idle = blocking(AsyncTerminalEmulator.wait_idle)
    wait_until = blocking(AsyncTerminalEmulator.wait_until)
    watch = blocking(AsyncTerminalEmulator.watch)
    wait_for_exit = blocking(AsyncTerminalEmulator.wait_for_exit)
    expect_cursor = blocking(AsyncTerminalEmulator.expect_cursor)
    expect_screen = blocking(AsyncTerminalEmulator.expect_screen)

    def get_by_text(self, text: Pattern, *, exact: bool = False, ignore_case: bool = False) -> Locator:
        """Return a locator for the text on the screen, in a part of a row or, with `exact`, a whole one."""
        return Locator.by_text(self, text, exact=exact, ignore_case=ignore_case)

    def get_by_style(self, **fields: Unpack[StyleFields]) -> Locator:
        """Return a locator for text of this style on the screen, for example `bold=True, foreground="red"`."""
        return Locator.by_style(self, **fields)


def _blank(cols: int, rows: int) -> Screen:
    return Screen(columns=cols, rows=rows, lines=("",) * rows, cells=((Cell(),) * cols,) * rows, cursor=Cursor())


def _clean_up(live: Live, name: str) -> None:
    if live.is_foreign:
        return
    was_running = not live.has_ended()
    # The engine has a finalizer of its own: its lock may be held by a thread that waits for the collecting one.
    live.kill_all()
    if was_running:
        warnings.warn(f"the terminal of {name!r} was not disposed of", ResourceWarning, stacklevel=2)


async def _run_in_thread(work: Callable[[], T]) -> T:
    """Run a blocking function on a thread; if cancelled, first let it finish."""
    working = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # marks the exception as retrieved
        raise
