"""An answer as it appears in the chat: Markdown in pieces of four characters, written to a terminal.

The other side renders all of it again for every piece, with `rich.markdown`, as a live display does.
"""

from __future__ import annotations

import io
import os
import pty
import termios
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markdown import Markdown

from bench.measure import Goal, Line, Sample, Workload, at_least
from reenact.cli.render.markdown import StreamedMarkdown

PIECE: Final = 4
SENTENCE: Final = "A sentence of plain words that has no marks in it at all, and goes on for a while. "
MARKED: Final = "A sentence with **bold words**, `code`, snake_case and a [link](http://example.org) in it. "
SOURCE: Final = '''def tell(name: str, *, loudly: bool = False) -> None:
    """Tell someone."""
    words = f"Hello {name}"  # nothing else
    print(words.upper() if loudly else words)

'''
ANSWER: Final = (
    f"# An answer\n\n{MARKED}\n\n- one item\n- another\n\n```python\n{SOURCE}```\n\n| a | b |\n|---|---|\n| c | d |\n\n"
)


class Nowhere(io.StringIO):
    """A terminal that has a width and discards what is written."""

    def __init__(self, terminal: int) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        return len(text)

    def fileno(self) -> int:
        return self._terminal


@contextmanager
def terminal() -> Generator[Console]:
    """Yield a terminal of 100 columns."""
    leader, follower = pty.openpty()
    try:
        termios.tcsetwinsize(follower, (40, 100))
        yield Console(file=Nowhere(follower), force_terminal=True, width=100, color_system="standard")
    finally:
        os.close(leader)
        os.close(follower)


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured."""
    size = 50_000 if quick else 500_000
    return [
        _speed("plain prose", f"{SENTENCE * 4}\n\n", size, at_least(1000)),
        _speed("prose with marks", f"{MARKED * 4}\n\n", size),
        _speed("source in Python", SOURCE, size, at_least(200), before="```python\n"),
        Workload((Line(f"an answer of {len(ANSWER)} characters", "ms", "rich.markdown, drawn again"),), _compared),
    ]


def _speed(name: str, unit: str, size: int, goal: Goal | None = None, before: str = "") -> Workload:
    text = before + unit * (size // len(unit))

    def measure(_directory: Path, _number: int) -> Sequence[Sample]:
        return (Sample(len(text) / 1000 / _seconds(_streamed(text))),)

    return Workload((Line(name, "kB/s", goal=goal),), measure)


def _compared(_directory: Path, _number: int) -> Sequence[Sample]:
    return (Sample(1000 * _seconds(_streamed(ANSWER)), 1000 * _seconds(_drawn_again(ANSWER))),)


def _seconds(write: Callable[[Console], None]) -> float:
    """Return the processor time in seconds."""
    with terminal() as console:
        begun = time.process_time()
        write(console)
        return time.process_time() - begun


def _streamed(text: str) -> Callable[[Console], None]:
    def write(console: Console) -> None:
        prose = StreamedMarkdown(console)
        for place in range(0, len(text), PIECE):
            prose.write(text[place : place + PIECE])
        prose.end()

    return write


def _drawn_again(text: str) -> Callable[[Console], None]:
    def write(console: Console) -> None:
        for place in range(0, len(text), PIECE):
            console.print(Markdown(text[: place + PIECE]))

    return write
