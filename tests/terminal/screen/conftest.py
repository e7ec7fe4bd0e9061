"""Every engine, by its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from reenact.terminal import Engine
from reenact.terminal.screen.model import engine_named


class Opened(Protocol):
    """Makes an engine that is closed when the test has ended."""

    def __call__(self, columns: int = 20, rows: int = 4) -> Engine: ...


@pytest.fixture(params=["ghostty", "pyte"])
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(engine_name: str) -> Iterator[Opened]:
    make = engine_named(engine_name)
    with ExitStack() as undo:

        def open_engine(columns: int = 20, rows: int = 4) -> Engine:
            engine = make(columns, rows)
            undo.callback(engine.close)
            return engine

        yield open_engine
