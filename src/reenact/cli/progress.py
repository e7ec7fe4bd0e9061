"""How far something that takes long has come: one line for whoever watches, gone at the end."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from reenact.cli.console import Console
from reenact.projections.log import OnProgress, Progress

_PAUSE: Final = 0.1
"""Seconds between two changes of the line."""


@contextmanager
def progress_line(console: Console) -> Generator[OnProgress]:
    """Return what shows progress on standard error, if that is a terminal, and clears it away at the end."""
    if not console.err.isatty():
        yield _nobody_watches
        return
    shown, last = "", 0.0

    def show(progress: Progress) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if now - last < _PAUSE:
            return
        of = "" if progress.total is None else f" of {progress.total:,}"
        line = f"{progress.phase}: {progress.done:,}{of}"
        console.err.write(f"\r{line:<{len(shown)}}")
        console.err.flush()
        shown, last = line, now

    try:
        yield show
    finally:
        if shown:
            console.err.write(f"\r{'':<{len(shown)}}\r")
            console.err.flush()


def _nobody_watches(progress: Progress) -> None:
    """Show nothing."""
