"""The command line: an interactive chat, a single answer for scripts, and commands that inspect the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the code is 2 if the extra `cli` is not installed."""
    left = leave_current_folder(is_started=argv is None)
    try:
        return _carry_out(argv)
    finally:
        if argv is not None:  # called by a program that goes on running: restore its path
            sys.path[:0] = left


def _carry_out(argv: Sequence[str] | None) -> int:
    try:
        from reenact.cli import app  # noqa: PLC0415 - this package must import with the standard library alone
    except ModuleNotFoundError as error:
        why = f"the command needs packages that are not installed ({error})"
        print(f"reenact: error: {why}: pip install 'reenact[cli]'", file=sys.stderr)  # noqa: T201 - there is no console yet
        return 2
    except KeyboardInterrupt:  # during the import, which takes half a second; later `app.main` handles it
        return 130
    return app.main(argv)


def leave_current_folder(*, is_started: bool) -> list[str]:
    """Remove the current folder from the front of the import path: anybody may have put modules there.

    `python -c` and `python -m` put it first. Folders that the environment names stay in the path, also if packages are
    installed there. Returns the entries that were removed.
    """
    first = sys.path[0] if sys.path else None
    if first == "" or (is_started and not sys.flags.safe_path and first == _current_folder()):
        return [sys.path.pop(0)]
    return []


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - spelled as the interpreter spells it, without another import
    except OSError:  # the folder has been deleted
        return None
