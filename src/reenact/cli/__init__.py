"""The command line: a chat for people, one answer for programs, and a look into the log."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks for and return the exit code, which is 2 if the extra `cli` is not installed."""
    try:
        from reenact.cli import app  # noqa: PLC0415 - so that this needs the standard library alone
    except ModuleNotFoundError as error:
        why = f"the command needs packages that are not installed ({error})"
        print(f"reenact: error: {why}: pip install 'reenact[cli]'", file=sys.stderr)  # noqa: T201 - there is no console yet
        return 2
    return app.main(argv)
