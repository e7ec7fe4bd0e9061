"""Problems of extensions: what is wrong, in which file, and on which line."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """Why something in a file or folder was passed over; `line` counts from 1 and is None where there is none."""

    path: str
    line: int | None
    message: str

    def told(self) -> str:
        """Return it as compilers tell of what they find."""
        return f"{self.path}: {self.message}" if self.line is None else f"{self.path}:{self.line}: {self.message}"


class MalformedError(Exception):
    """A file is not as its kind of extension has to be; `line` is that of the file, counted from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
