"""The keyboard while nobody is asked: what is typed is not shown, and kept for who asks next."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import sys
import termios
from collections.abc import Generator
from typing import Final, TextIO

from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from reenact.cli.console import Console
from reenact.cli.interrupts import around_stops
from reenact.cli.plain_editor import is_dumb

_INPUT, _LOCAL, _CHARACTERS = 0, 3, 6
_PASTES_ARE_MARKED: Final = b"\x1b[?2004h"
_PASTES_ARE_NOT_MARKED: Final = b"\x1b[?2004l"
_quiet: Final[list[_Keyboard]] = []


@contextlib.contextmanager
def quiet_keyboard(console: Console) -> Generator[None]:
    """Let the terminal neither show nor edit what is typed, nor take Enter for the end of a line; signals stay, and take
    nothing with them.

    What is typed is found by the editor that reads next. A paste keeps its marks, so that it stays one. All is as it
    was at the end, whatever happened, and while the process is stopped (Ctrl+Z). Nothing is done without a terminal,
    and at one that edits lines itself because it understands no sequences.
    """
    if sys.stdin is None or not sys.stdin.isatty() or is_dumb(console):
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
    except (termios.error, OSError, ValueError):
        return True
    return False


def be_quiet_again() -> None:
    """Make the keyboard as quiet as it was before a program had it for itself; without `quiet_keyboard` do nothing."""
    if _quiet:
        _quiet[-1].quieten_again()


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
