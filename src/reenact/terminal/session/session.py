"""What both terminals have, the blocking one and asyncio's: a program, its start, its end, and what it shows."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.terminal.config import DEFAULT_COLUMNS, DEFAULT_ROWS, DEFAULT_TIMEOUT
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.screen.engines import engine_named
from reenact.terminal.screen.model import Cell, Cursor, Engine, Screen
from reenact.terminal.screen.recording import Recording
from reenact.terminal.session import checking
from reenact.terminal.session.display import Display, Recorder
from reenact.terminal.session.ending import AT_ONCE, Family
from reenact.terminal.session.live import Live
from reenact.terminal.session.pty import Pair, unavailable
from reenact.terminal.session.questions import Questions
from reenact.terminal.session.spawning import Process, Spawner, environment, returncode, spawn, started, unserved
from reenact.terminal.session.transcript import Transcript
from reenact.terminal.status import ExitStatus

EngineChoice: TypeAlias = Literal["ghostty", "pyte"] | Callable[[int, int], Engine]
MAX_OUTPUT: Final = 16 * 1024 * 1024


class TerminalState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a program and its terminal at one moment; the output as far as it is kept."""

    running: bool
    pid: int | None
    exit_status: ExitStatus | None
    output: str
    stripped_output: str
    screen: Screen


class Session:
    """A program at a terminal of its own, of which everything can be looked at without waiting.

    Args:
        command: the program, by name or path, or its name and arguments. A text is one word: it is not split.
        args: more arguments.
        cwd: its working directory; None for ours.
        env: variables of its environment, besides PATH, LANG, LC_*, HOME and TMPDIR of ours, and TERM.
        inherit_env: give it all of our environment, except COLUMNS and LINES, which are about our terminal.
        cols: columns of the terminal.
        rows: rows of the terminal.
        timeout: seconds that a wait may take which says nothing else.
        term: the variable TERM.
        engine: who works out what the screen shows: a name, or what makes one from columns and rows.
        spawner: how the program is started, if not as a process of ours.
        max_output: bytes and characters of the output that are kept; what comes before them is dropped.

    Raises:
        TerminalTestError: an argument cannot be what it is (`INVALID_CONFIG`).
    """

    def __init__(
        self,
        command: str | os.PathLike[str] | Sequence[str],
        args: Sequence[str] = (),
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        cols: int = DEFAULT_COLUMNS,
        rows: int = DEFAULT_ROWS,
        timeout: float = DEFAULT_TIMEOUT,
        term: str = "xterm-256color",
        engine: EngineChoice = "ghostty",
        spawner: Spawner | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        self.command: tuple[str, ...] = checking.command_line(command, args)
        self.timeout: float = checking.seconds(timeout, "timeout", positive=True)
        self._cwd = checking.directory(cwd)
        self._env = checking.variables(env)
        checking.variables({"TERM": term})
        self._term = term
        self._inherit_env = inherit_env
        self._cols, self._rows = checking.size(cols, rows)
        self._make_engine = engine_named(engine) if isinstance(engine, str) else engine
        self._spawner: Spawner = spawn if spawner is None else spawner
        self._max_output = checking.whole(max_output, "max_output", 1)
        self._transcript = Transcript(self._max_output)
        self._recording = self._new_recording()
        self._live: Live | None = None
        self._is_disposed = False
        self._lock = threading.RLock()
        self._forgotten: weakref.finalize[..., Session] | None = None

    # --- What is known of it ---

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
        """How the program has ended; None as long as it has not, or if others of this process took note of it first."""
        return self._live.status if self._live is not None and self._live.has_ended() else None

    @property
    def screen(self) -> Screen:
        """What the screen shows now. Blank before the start; after the end, and after `dispose`, as it was left."""
        return _blank(self._cols, self._rows) if self._live is None else self._live.display.screen()

    @property
    def recording(self) -> Recording:
        """What went in and came out, with times; of the output, and of the input, the first `max_output` bytes."""
        return self._recording

    @property
    def match(self) -> re.Match[str] | None:
        """The last match of `wait_for`."""
        return self._transcript.match

    @property
    def dropped(self) -> int:
        """How many bytes of the output were dropped, since there was more of it than `max_output`."""
        return self._transcript.dropped

    def get_output(self) -> str:
        """Return what the program has written, escape sequences and all; bytes that are no UTF-8 are replaced."""
        return self._transcript.output()

    def get_output_bytes(self) -> bytes:
        """Return what the program has written, to the byte."""
        return self._transcript.output_bytes()

    def get_stripped_output(self) -> str:
        """Return what the program has written without escape sequences."""
        return self._transcript.stripped_output()

    def get_terminal_state(self) -> TerminalState:
        """Return all of this, as it is now."""
        with nullcontext() if self._live is None else self._live.display.held():
            return TerminalState(
                running=self.is_running,
                pid=self.pid,
                exit_status=self.exit_status,
                output=self.get_output(),
                stripped_output=self.get_stripped_output(),
                screen=self.screen,
            )

    # --- What does not wait ---

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size; the program is told by SIGWINCH.

        Raises:
            TerminalTestError: no terminal has this size (`INVALID_CONFIG`).
        """
        self._cols, self._rows = checking.size(cols, rows)
        if self._live is not None:
            self._started().resize(cols, rows)

    def kill(self, signal: str | int | signal.Signals = "SIGTERM") -> None:
        """Send a signal to the process group of the program; nothing happens if it has ended.

        Raises:
            TerminalTestError: there is no such signal (`INVALID_CONFIG`), or no program (`SCRIPT_EXECUTION_ERROR`).
        """
        self._started().signal(checking.signal_number(signal))

    # --- Start and end, blocking ---

    def _start(self) -> None:
        with self._lock:
            if self._live is not None or self._is_disposed:
                raise cannot(f"{self.command[0]!r} was started before; a terminal serves once: make another one")
            with ExitStack() as undo:
                engine = self._make_engine(self._cols, self._rows)
                undo.callback(engine.close)
                pair = Pair(self._cols, self._rows)
                undo.callback(pair.close)
                mark = secrets.token_hex(8)
                env = environment(self._term, self._env, mark, inherit=self._inherit_env)
                process = started(self._spawner, self.command, env, self._cwd, pair.other)
                undo.callback(_undo_start, process, mark)
                recording = self._new_recording()
                try:
                    live = Live(
                        pair=pair,
                        process=process,
                        mark=mark,
                        transcript=self._transcript,
                        display=Display(engine),
                        recorder=Recorder(recording, self._max_output),
                    )
                except OSError as error:
                    raise unavailable(error) from error
                undo.callback(live.abandon)
                try:
                    live.begin()
                except RuntimeError as error:
                    raise unserved(self.command[0], error) from error
                self._live, self._recording = live, recording
                # The thread knows nothing of this object: it can be forgotten, and is cleared away then or at exit.
                self._forgotten = weakref.finalize(self, _clear_away, live, self.command[0])
                undo.pop_all()

    def _dispose(self) -> None:
        if self._live is not None and self._live.is_foreign:
            return  # a fork leaves the block of a program that is not its own
        with self._lock:
            self._is_disposed = True
            if self._live is not None and self._forgotten is not None and self._forgotten.alive:
                try:
                    self._live.end()
                except BaseException:
                    self._live.abandon()  # somebody is in a hurry, as with Ctrl+C
                    raise
                finally:
                    self._live.close()
                # Whatever was interrupted before is left to another call, or to the end of the interpreter.
                self._forgotten.detach()

    def _end(self) -> None:
        self._started().end()

    def _new_recording(self) -> Recording:
        return Recording(self._cols, self._rows, term=self._term, command=shlex.join(self.command))

    @property
    def _questions(self) -> Questions:
        return Questions(self._started(), self.command[0], self.timeout)

    def _started(self) -> Live:
        if self._live is None:
            raise cannot(f"{self.command[0]!r} is not running yet; call `start`, or use the terminal in a `with` block")
        if self._live.is_foreign:
            raise cannot(
                f"{self.command[0]!r} is a program of the process {self._live.owner}, of which this one is a fork; "
                "use it there, or start another one here"
            )
        return self._live


def cannot(message: str) -> TerminalTestError:
    """Return an error about what the terminal is in no state for."""
    return TerminalTestError(TerminalTestErrorType.SCRIPT_EXECUTION_ERROR, message)


def _blank(cols: int, rows: int) -> Screen:
    return Screen(columns=cols, rows=rows, lines=("",) * rows, cells=((Cell(),) * cols,) * rows, cursor=Cursor())


def _undo_start(process: Process, mark: str) -> None:
    def has_ended() -> bool:
        try:
            return returncode(process) is not None
        except ChildProcessError:
            return True

    Family(process.pid, mark, has_ended, lambda: None).end(AT_ONCE)
    with suppress(ChildProcessError):
        process.wait()


def _clear_away(live: Live, name: str) -> None:
    if live.is_foreign:
        return
    was_running = not live.has_ended()
    live.abandon()
    if was_running:
        warnings.warn(f"the terminal of {name!r} was not disposed of", ResourceWarning, stacklevel=2)
