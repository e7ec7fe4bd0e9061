"""A report as a file: whole, or not there at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType


def write_report(path: Path, text: str) -> None:
    """Write the text to the path, making the directories above it; what was there is replaced in one step.

    What is no regular file, as a device or a pipe, is written to as it is.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: it cannot be written; the message names the path and says why.
    """
    data = text.encode()
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a directory")
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = path.resolve()
        _make(target.parent)
        _replace(target, data)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, links that lead in a circle
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise TerminalTestError(
            TerminalTestErrorType.INVALID_CONFIG,
            f"the report cannot be written to {os.fspath(path)!r}: {why}; make room or name another file",
            error,
        ) from error


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(0, f"{directory} is not a directory") from error


def _replace(target: Path, data: bytes) -> None:
    beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            file.write(data)
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
