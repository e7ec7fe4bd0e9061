"""Who has the terminal: an answer or an editor has it for a while, and what is logged comes between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from logging import LogRecord
from typing import Final

from reenact.cli.logs import Told

OF_TOOLS: Final = "tool"
"""What the record of a tool that has failed has of its own: the name of the tool."""


class Floor:
    """The one terminal of the process. Who writes there a line at a time holds the `lock` meanwhile."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.told = 0
        """How often something that was logged has been written."""
        self._takers = 0
        self._pages = 0
        self._waiting: list[Callable[[], None]] = []

    def take(self) -> None:
        """Have what is logged wait: a line, or a text of several, has begun."""
        with self.lock:
            self._takers += 1

    def give(self) -> None:
        """Write what has waited, once nobody else has the terminal."""
        with self.lock:
            self._takers -= 1
            while self._waiting and not self._takers:
                self._tell(self._waiting.pop(0))

    @contextmanager
    def taken(self) -> Generator[None]:
        """Have what is logged wait meanwhile."""
        self.take()
        try:
            yield
        finally:
            self.give()

    @contextmanager
    def showing_calls(self) -> Generator[None]:
        """Tell nothing meanwhile of tools that fail: their results are shown, and say so."""
        self._pages += 1
        try:
            yield
        finally:
            self._pages -= 1

    def is_shown(self, record: LogRecord) -> bool:
        """Return whether a person sees anyhow what the record says."""
        return self._pages > 0 and OF_TOOLS in vars(record)

    def between(self, write: Callable[[], None]) -> None:
        """Write, or have it written as soon as nobody has the terminal."""
        with self.lock:
            if self._takers:
                self._waiting.append(write)
            else:
                self._tell(write)

    def _tell(self, write: Callable[[], None]) -> None:
        self.told += 1
        write()


FLOOR: Final = Floor()


class Between(Told):
    """Writes what is logged where an answer, or what is typed, is not broken by it."""

    def createLock(self) -> None:  # noqa: N802 - the name that logging calls
        """Have one lock with all that is written there, so that nobody waits for two in two orders."""
        self.lock = FLOOR.lock  # pyright: ignore[reportAttributeAccessIssue] - typeshed has a lock of one kind only

    def emit(self, record: LogRecord) -> None:
        """Write the record, now or as soon as it can be."""
        FLOOR.between(partial(super().emit, record))
