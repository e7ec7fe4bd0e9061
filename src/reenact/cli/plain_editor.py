"""Lines from a terminal that understands no sequences: it edits them itself, and nothing is drawn."""

from __future__ import annotations

import os
from typing import TextIO

from prompt_toolkit.history import History
from prompt_toolkit.input.base import Input

_MORE = "… "
_AT_ONCE = 64 * 1024


class PlainEditor:
    """Reads lines as the terminal sends them; a backslash at the end of one makes the next a part of the same text."""

    def __init__(self, typed: Input, output: TextIO, history: History) -> None:
        self.typed = typed
        self.history = history
        self._output = output

    def read(self, prompt: str, *, is_multiline: bool) -> str:
        """Ask for a text.

        Raises:
            EOFError: the input has ended.
            KeyboardInterrupt: it was Ctrl+C.
        """
        self._show(prompt)
        try:
            line = self._line()
            while is_multiline and ends_with_backslash(line):
                self._show(_MORE)
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
    r"""Return whether a backslash at the end of the line asks for another one; `\\` is a backslash that does not."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
