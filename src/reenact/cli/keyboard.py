"""The keyboard while nobody is asked: the terminal does not echo what is typed, which is kept for who asks next."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import sys
import termios
from collections.abc import Generator
from typing import Final, TextIO

from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from reenact.cli.console import Console
from reenact.cli.interrupts import around_stops
from reenact.cli.settings import is_dumb
from reenact.cli.typed import typed_input

_INPUT, _LOCAL, _CHARACTERS = 0, 3, 6
_PASTES_ARE_MARKED: Final = b"\x1b[?2004h"
_PASTES_ARE_NOT_MARKED: Final = b"\x1b[?2004l"
_GONE: Final = frozenset({errno.EIO, errno.ENXIO})
_quiet: Final[list[_Keyboard]] = []


@contextlib.contextmanager
def quiet_keyboard(console: Console) -> Generator[None]:
    """Let the terminal neither show nor edit what is typed, nor take Enter for the end of a line; signals stay.

    What is typed is found by the editor that reads next, whatever Ctrl+C has ended meanwhile. A paste keeps its marks,
    so that it stays one. All is as it was at the end, whatever happened, and while the process is stopped (Ctrl+Z).
    Nothing is done without a terminal, and at one that edits lines itself because it understands no sequences.
    """
    if sys.stdin is None or not sys.stdin.isatty() or is_dumb(console.environ):
        yield
        return
    keyboard = _Keyboard(sys.stdin.fileno(), console.terminal)
    try:
        _quiet.append(keyboard)
        keyboard.quieten()
        _keep(keyboard.typed_already())
        with around_stops(keyboard.leave, keyboard.come_back):
            yield
    finally:
        try:
            keyboard.restore()
        except BaseException:
            keyboard.restore()  # a signal came in between; it comes once
            raise
        finally:
            _quiet.remove(keyboard)


def is_hung_up() -> bool:
    """Return whether the terminal at standard input, where there was one, is gone: its window was closed."""
    if sys.stdin is None:
        return False
    try:
        termios.tcgetattr(sys.stdin.fileno())
    except termios.error as error:
        return error.args[0] in _GONE
    except (OSError, ValueError):  # it is no file
        return False
    return False


def be_quiet_again() -> None:
    """Make the keyboard as quiet as it was before a program had it for itself; without `quiet_keyboard` do nothing."""
    if _quiet:
        _quiet[-1].quieten_again()


def typed_ahead() -> TypedAhead | None:
    """Return what reads the keyboard while nobody is asked; None if there is none that is quiet."""
    typed = typed_input()
    return TypedAhead(typed) if _quiet and isinstance(typed, Vt100Input) else None


class TypedAhead:
    """Reads what is typed between `begin` and `end`, and keeps it for the editor that reads next."""

    def __init__(self, typed: Vt100Input) -> None:
        self._typed = typed
        self._keys: list[KeyPress] = []

    @property
    def descriptors(self) -> list[int]:
        """The keyboard, to be waited for; none if it is another program's at present, or gone."""
        descriptor = self._typed.fileno()
        with contextlib.suppress(OSError):
            if not self._typed.closed and os.tcgetpgrp(descriptor) == os.getpgrp():
                return [descriptor]
        return []

    @property
    def text(self) -> str:
        """What the keys have written, as far as that can be told before the editor has them."""
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
        """Take what was typed already."""
        self._keys = get_typeahead(self._typed)

    def read(self) -> None:
        """Take what is typed now; what begins like a sequence is waited for."""
        self._keys += self._typed.read_keys()

    def is_escape(self) -> bool:
        """Take what has begun like a sequence and not gone on; return whether it is Esc alone, which is not kept."""
        keys = self._typed.flush_keys()
        if [key.key for key in keys] == [Keys.Escape]:
            return True
        self._keys += keys
        return False

    def end(self) -> None:
        """Leave all of it to the editor that reads next."""
        store_typeahead(self._typed, self._keys)
        self._keys = []


class _Keyboard:
    """The terminal behind a descriptor; `obeys` is where it obeys sequences."""

    def __init__(self, descriptor: int, obeys: TextIO | None) -> None:
        self._descriptor = descriptor
        self._obeys = obeys
        self._before = termios.tcgetattr(descriptor)
        self._left: list[int | list[bytes | int]] | None = None

    def quieten(self) -> None:
        """Set the modes in which nothing is shown and everything is kept."""
        modes = termios.tcgetattr(self._descriptor)
        modes[_LOCAL] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN)
        modes[_LOCAL] |= termios.NOFLSH  # Ctrl+C ends an answer, and takes nothing of what was typed ahead
        modes[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        modes[_CHARACTERS] = [*modes[_CHARACTERS]]
        modes[_CHARACTERS][termios.VMIN], modes[_CHARACTERS][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)
        self._say(_PASTES_ARE_MARKED)

    def restore(self) -> None:
        """Set the modes that were found."""
        self._say(_PASTES_ARE_NOT_MARKED)
        self._set(self._before)

    def leave(self) -> None:
        """Set the modes that were found, while the process is stopped."""
        with contextlib.suppress(termios.error):
            self._left = termios.tcgetattr(self._descriptor)
        self.restore()

    def come_back(self) -> None:
        """Set the modes that were left, or those that are ours if a shell has set its own."""
        left, self._left = self._left, None
        with contextlib.suppress(OSError, termios.error):
            if left is not None and self._is_ours():
                self._set(left)
            if termios.tcgetattr(self._descriptor)[_LOCAL] & termios.ICANON:
                self.quieten_again()

    def quieten_again(self) -> None:
        """Set the modes in which nothing is shown, unless another process has the terminal now, or it is gone."""
        with contextlib.suppress(OSError, termios.error):
            if self._is_ours():
                self.quieten()

    def typed_already(self) -> bytes:
        """Return what was typed before the keyboard was quiet, when Enter still was the end of a line."""
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
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)

    def _say(self, sequence: bytes) -> None:
        if self._obeys is not None:
            with contextlib.suppress(OSError, ValueError):
                os.write(self._obeys.fileno(), sequence)  # past what the stream holds, which may be in use right now


def _keep(typed: bytes) -> None:
    """Keep what was typed for the editor that reads next."""
    if typed:
        keys: list[KeyPress] = []
        Vt100Parser(keys.append).feed(typed.decode("utf-8", "surrogateescape"))
        store_typeahead(get_app_session().input, keys)
