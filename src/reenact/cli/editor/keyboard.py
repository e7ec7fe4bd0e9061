"""The keyboard: keeps what is typed while an answer streams for the editor, and reads plain lines where it must."""

from __future__ import annotations

import array
import codecs
import errno
import fcntl
import os
import select
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TextIO

from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.history import History
from prompt_toolkit.input.base import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from reenact.cli.interrupts import around_suspension
from reenact.cli.output.console import Console
from reenact.cli.settings.environment import is_dumb

_quiet_keyboards: Final[list[_Keyboard]] = []


@contextmanager
def quiet_keyboard(console: Console) -> Generator[None]:
    """Turn off echo, line editing and the translation of Enter in the terminal; keys still send signals.

    The next editor gets what is typed, even if Ctrl+C ends an answer meanwhile. A paste keeps its brackets, so that it
    remains a paste. The terminal's modes are restored at the end in any case, and while the process is stopped
    (Ctrl+Z). Nothing is changed without a terminal, or for a dumb terminal, which edits lines itself.
    """
    if sys.stdin is None or not sys.stdin.isatty() or is_dumb(console.environ):
        yield
        return
    keyboard = _Keyboard(sys.stdin.fileno(), console.terminal)
    try:
        _quiet_keyboards.append(keyboard)
        keyboard.quieten()
        _store_typeahead(keyboard.typed_already())
        with around_suspension(keyboard.suspend, keyboard.resume):
            yield
    finally:
        try:
            keyboard.restore()
        except BaseException:
            keyboard.restore()  # a signal interrupted the first call; it comes only once
            raise
        finally:
            _quiet_keyboards.remove(keyboard)


def be_quiet_again() -> None:
    """Turn echo and line editing off again after another program has had the terminal, within `quiet_keyboard`."""
    if _quiet_keyboards:
        _quiet_keyboards[-1].quieten_again()


def typed_ahead() -> TypedAhead | None:
    """Return the reader of what is typed during an answer; None unless `quiet_keyboard` is in force."""
    typed = typed_input()
    return TypedAhead(typed) if _quiet_keyboards and isinstance(typed, Vt100Input) else None


class TypedAhead:
    """Reads what is typed between `begin` and `end`, and keeps it for the editor that reads next."""

    def __init__(self, typed: Vt100Input) -> None:
        self._typed = typed
        self._keys: list[KeyPress] = []

    @property
    def descriptors(self) -> list[int]:
        """The keyboard's file descriptor, to wait for; none if another program has the terminal, or it is gone."""
        descriptor = self._typed.fileno()
        with suppress(OSError):
            if not self._typed.closed and os.tcgetpgrp(descriptor) == os.getpgrp():
                return [descriptor]
        return []

    @property
    def text(self) -> str:
        """The text that the keys have produced so far; an approximation, since the editor interprets the keys later."""
        text = ""
        for key in self._keys:
            if key.key == Keys.Backspace:
                text = text[:-1]
            elif key.key == Keys.ControlU:
                text = text[: text.rfind("\n") + 1]
            elif key.key in (Keys.ControlM, Keys.ControlJ):
                text += "\n"
            elif key.key == Keys.BracketedPaste or len(key.key) == 1:
                text += key.data
        return text

    def begin(self) -> None:
        """Take the keys that were typed before."""
        self._keys = get_typeahead(self._typed)

    def read(self) -> None:
        """Take the keys that can be read now; an incomplete escape sequence stays in the parser."""
        self._keys += self._typed.read_keys()

    def is_escape(self) -> bool:
        """Take the keys of an incomplete escape sequence; return True if it is Esc alone, which is dropped."""
        keys = self._typed.flush_keys()
        if [key.key for key in keys] == [Keys.Escape]:
            return True
        self._keys += keys
        return False

    def end(self) -> None:
        """Leave all keys to the next editor."""
        store_typeahead(self._typed, self._keys)
        self._keys = []


class _Quiet(raw_mode):
    """The terminal modes without echo and line editing; keys still send signals, and Ctrl+S still pauses the output."""

    @classmethod
    def _patch_lflag(cls, attrs: int) -> int:
        kept = attrs & ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN)
        return kept | termios.NOFLSH  # Ctrl+C ends an answer but discards nothing that was typed ahead

    @classmethod
    def _patch_iflag(cls, attrs: int) -> int:
        return attrs & ~(termios.ICRNL | termios.INLCR | termios.IGNCR)


class _Keyboard:
    """The terminal of a descriptor; `terminal` is the output stream that accepts escape sequences, if there is one."""

    _left: list[int | list[bytes | int]] | None = None

    def __init__(self, descriptor: int, terminal: TextIO | None) -> None:
        self._descriptor = descriptor
        self._terminal = terminal
        self._modes = _Quiet(descriptor)

    def quieten(self) -> None:
        """Turn echo and line editing off, and bracketed paste on."""
        self._modes.__enter__()
        self._say(b"\x1b[?2004h")

    def restore(self) -> None:
        """Restore the original modes."""
        self._say(b"\x1b[?2004l")
        self._modes.__exit__()

    def suspend(self) -> None:
        """Restore the original modes before the process is stopped."""
        with suppress(termios.error):
            self._left = termios.tcgetattr(self._descriptor)
        self.restore()

    def resume(self) -> None:
        """Set the modes that were in force before `suspend`, or the quiet ones if a shell has set its own meanwhile."""
        left, self._left = self._left, None
        with suppress(OSError, termios.error):
            if left is not None and self._is_ours():
                self._set(left)
            if termios.tcgetattr(self._descriptor)[_LOCAL_MODES] & termios.ICANON:
                self.quieten_again()

    def quieten_again(self) -> None:
        """Turn echo off, unless another process has the terminal in the foreground, or it is gone."""
        with suppress(OSError, termios.error):
            if self._is_ours():
                self.quieten()

    def typed_already(self) -> bytes:
        """Return what was typed before the modes were set, when the terminal still translated Enter to a newline."""
        waiting = array.array("i", [0])
        try:
            fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
            typed = os.read(self._descriptor, waiting[0]) if waiting[0] else b""
        except OSError:
            return b""
        return typed.replace(b"\n", b"\r")

    def _is_ours(self) -> bool:
        return os.tcgetpgrp(self._descriptor) == os.getpgrp()

    def _set(self, modes: list[int | list[bytes | int]]) -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)

    def _say(self, sequence: bytes) -> None:
        if self._terminal is not None:
            with suppress(OSError, ValueError):
                os.write(self._terminal.fileno(), sequence)  # bypasses the stream's buffer, which may be in use now


def _store_typeahead(typed: bytes) -> None:
    """Keep what was typed for the next editor."""
    if typed:
        keys: list[KeyPress] = []
        Vt100Parser(keys.append).feed(typed.decode("utf-8", "surrogateescape"))
        store_typeahead(get_app_session().input, keys)


NEW_LINE = (Keys.Escape, Keys.ControlM)
"""The keys for a new line: Alt+Enter; Enter with Shift or Ctrl is read as the same keys."""
_NOT_TYPED = frozenset({Keys.Vt100MouseEvent, Keys.CPRResponse})
"""Reports of the terminal that no key sends: of mouse events and of the cursor position."""
_ENTER_WITH_MORE = frozenset({"\x1b[13;2u", "\x1b[13;5u", "\x1b[27;2;13~", "\x1b[27;5;13~"})
_LOCAL_MODES = 3
_AT_ONCE = 64 * 1024
_SILENCE = 0.05
"""Seconds without a key after which typing counts as finished."""
_LONGEST = 2.0
"""Maximum time in seconds for which keys are discarded: a key may be stuck."""


def typed_input() -> Input:
    """Return the input for standard input; all editors share it, so that no key is lost between them."""
    return with_our_keys(get_app_session().input)


def with_our_keys(typed: Input) -> Input:
    """Change the input so that it recognises more keys and a terminal that has hung up, and return it."""
    if isinstance(typed, Vt100Input) and not isinstance(typed.vt100_parser, _Parser):
        typed.vt100_parser = _Parser(typed.vt100_parser.feed_key_callback)
        typed.stdin_reader = _Reader(typed.stdin_reader.stdin_fd)
    return typed


def discard_typed(typed: Input) -> None:
    """Discard what was typed so far, what follows without a pause, and the rest of a paste that has begun."""
    clear_typeahead(typed)
    if not isinstance(typed, Vt100Input):
        return
    until = time.monotonic() + _LONGEST
    with suppress(OSError, termios.error):
        if termios.tcgetattr(typed.fileno())[_LOCAL_MODES] & termios.ICANON:
            termios.tcflush(typed.fileno(), termios.TCIFLUSH)  # the end of an incomplete line cannot be read
        while (pause := _pause(typed, until)) > 0 and select.select([typed.fileno()], [], [], pause)[0]:
            typed.read_keys()
    typed.flush_keys()
    typed.vt100_parser.reset()


def _pause(typed: Vt100Input, until: float) -> float:
    """Return how many seconds to wait for the next key; 0 to stop waiting."""
    left = 0.0 if typed.closed else max(0.0, until - time.monotonic())
    parser = typed.vt100_parser
    return left if isinstance(parser, _Parser) and parser.is_in_paste else min(_SILENCE, left)


class _Parser(Vt100Parser):
    """Recognises Enter with Shift or Ctrl where the terminal reports it, and ignores reports that are not keys."""

    @property
    def is_in_paste(self) -> bool:
        """Whether a paste has begun and not ended."""
        return self._in_bracketed_paste

    def _get_match(self, prefix: str) -> Keys | tuple[Keys, ...] | None:
        if prefix in _ENTER_WITH_MORE:
            return NEW_LINE
        match = super()._get_match(prefix)
        return Keys.Ignore if match in _NOT_TYPED else match


class _Reader(PosixStdinReader):
    """Treats a terminal that has hung up or was closed as the end of the input."""

    def __init__(self, stdin_fd: int) -> None:
        super().__init__(stdin_fd)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")

    def read(self, count: int = _AT_ONCE) -> str:
        """Return what can be read now; an empty string if there is nothing, or the input has ended."""
        if self.closed:
            return ""
        try:
            if not select.select([self.stdin_fd], [], [], 0)[0]:
                return ""
            data = os.read(self.stdin_fd, count)
        except OSError as error:
            if error.errno in {errno.EINTR, errno.EAGAIN}:
                return ""
            data = b""
        self.closed = not data
        return self._decoder.decode(data)


@dataclass
class PlainEditor:
    """Reads lines that the terminal has edited; a line that ends with a backslash continues on the next line."""

    typed: Input
    _output: TextIO
    history: History

    def read(self, prompt: str, *, is_multiline: bool) -> str:
        """Show the prompt and read a text.

        Raises:
            EOFError: the input has ended.
            KeyboardInterrupt: the person presses Ctrl+C.
        """
        self._show(prompt)
        try:
            line = self._line()
            while is_multiline and ends_with_backslash(line):
                self._show("… ")
                line = f"{line[:-1]}\n{self._line()}"
        except (EOFError, KeyboardInterrupt):
            self._show("\n")
            raise
        if line:
            self.history.append_string(line)
        return line

    def _show(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            try:
                data = os.read(self.typed.fileno(), _AT_ONCE)
            except OSError as error:  # the terminal has hung up
                raise EOFError from error
            if not data and not line:
                raise EOFError
            if not data:
                break
            line += data
        return line.decode("utf-8", "surrogateescape").removesuffix("\n")


def ends_with_backslash(line: str) -> bool:
    r"""Return whether the line ends with a backslash that continues it; `\\` is a literal backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
