"""The command line: a chat for people, one answer for programs, and a look into the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks for and return the exit code, which is 2 if the extra `cli` is not installed."""
    left = leave_current_folder(is_started=argv is None)
    try:
        return _carry_out(argv)
    finally:
        if argv is not None:  # a program has called this, which goes on
            sys.path[:0] = left


def _carry_out(argv: Sequence[str] | None) -> int:
    try:
        from reenact.cli import app  # noqa: PLC0415 - so that this needs the standard library alone
    except ModuleNotFoundError as error:
        why = f"the command needs packages that are not installed ({error})"
        print(f"reenact: error: {why}: pip install 'reenact[cli]'", file=sys.stderr)  # noqa: T201 - there is no console yet
        return 2
    return app.main(argv)


def leave_current_folder(*, is_started: bool) -> list[str]:
    """Look for no module in the current folder, which may be anybody's: `python -c` and `python -m` have it first.

    What the environment names is kept, and so is what is installed there. Returns what was taken out of the path.
    """
    first = sys.path[0] if sys.path else None
    if first == "" or (is_started and not sys.flags.safe_path and first == _current_folder()):
        return [sys.path.pop(0)]
    return []


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - as the interpreter writes it, and without more imports
    except OSError:  # it is gone
        return None
