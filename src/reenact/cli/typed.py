"""What the keys of a terminal send, read as keys: also where its end is an error, and Enter comes with Shift."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import select
import termios
import time
from typing import Final

from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.input.base import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.keys import Keys

NEW_LINE: Final = (Keys.Escape, Keys.ControlM)
"""The keys of a new line: Alt+Enter, as which Enter with Shift or Ctrl is read."""
_NOT_TYPED: Final = frozenset({Keys.Vt100MouseEvent, Keys.CPRResponse})
"""What no key sends, and nobody has asked a terminal for: where the mouse is, and the cursor."""
_ENTER_WITH_MORE: Final = frozenset({"\x1b[13;2u", "\x1b[13;5u", "\x1b[27;2;13~", "\x1b[27;5;13~"})
_LOCAL: Final = 3
_AT_ONCE: Final = 64 * 1024
_SILENCE: Final = 0.05
"""Seconds without a key after which somebody has stopped typing."""
_LONGEST: Final = 2.0
"""Seconds after which what still comes is taken for an answer: a key may be stuck."""


def typed_input() -> Input:
    """Return what is typed at standard input; all editors share it, so that none of it is lost between them."""
    return understood(get_app_session().input)


def understood(typed: Input) -> Input:
    """Return the input, changed so that it knows more keys, and the end of a terminal."""
    if isinstance(typed, Vt100Input) and not isinstance(typed.vt100_parser, _Parser):
        typed.vt100_parser = _Parser(typed.vt100_parser.feed_key_callback)
        typed.stdin_reader = _Reader(typed.stdin_reader.stdin_fd)
    return typed


def forget(typed: Input) -> None:
    """Drop what was typed until now, and what still comes without a pause, or belongs to a paste that has begun."""
    clear_typeahead(typed)
    if not isinstance(typed, Vt100Input):
        return
    until = time.monotonic() + _LONGEST
    with contextlib.suppress(OSError, termios.error):
        if termios.tcgetattr(typed.fileno())[_LOCAL] & termios.ICANON:
            termios.tcflush(typed.fileno(), termios.TCIFLUSH)  # of a line without an end nothing can be read
        while (pause := _pause(typed, until)) > 0 and select.select([typed.fileno()], [], [], pause)[0]:
            typed.read_keys()
    typed.flush_keys()
    typed.vt100_parser.reset()


def _pause(typed: Vt100Input, until: float) -> float:
    """Return for how many seconds the next key is waited for; 0 if it is not."""
    left = 0.0 if typed.closed else max(0.0, until - time.monotonic())
    parser = typed.vt100_parser
    return left if isinstance(parser, _Parser) and parser.is_in_paste else min(_SILENCE, left)


class _Parser(Vt100Parser):
    """Knows Enter with Shift or Ctrl from Enter alone, where the terminal does; what is no key does nothing."""

    @property
    def is_in_paste(self) -> bool:
        """Whether a paste has begun whose end is still to come."""
        return self._in_bracketed_paste

    def _get_match(self, prefix: str) -> Keys | tuple[Keys, ...] | None:
        if prefix in _ENTER_WITH_MORE:
            return NEW_LINE
        match = super()._get_match(prefix)
        return Keys.Ignore if match in _NOT_TYPED else match


class _Reader(PosixStdinReader):
    """Takes a terminal that has hung up, or was closed, for the end of the input."""

    def __init__(self, stdin_fd: int) -> None:
        super().__init__(stdin_fd)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")

    def read(self, count: int = _AT_ONCE) -> str:
        """Return what is there; it is empty if nothing is, and if there will be nothing any more."""
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
