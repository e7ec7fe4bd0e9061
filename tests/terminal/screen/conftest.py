"""Engines that are closed when a test has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from reenact.terminal import Engine


class Opened(Protocol):
    """Makes an engine that is closed when the test has ended."""

    def __call__(self, columns: int = 20, rows: int = 4) -> Engine: ...


@pytest.fixture
def opened() -> Iterator[Opened]:
    with ExitStack() as undo:

        def open_engine(columns: int = 20, rows: int = 4) -> Engine:
            engine = Engine(columns, rows)
            undo.callback(engine.close)
            return engine

        yield open_engine
