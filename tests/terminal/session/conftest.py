"""Terminals that are gone when the test is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest

from reenact.terminal.session.emulator import TerminalEmulator

Start: TypeAlias = Callable[..., TerminalEmulator]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what starts a program: `start("/bin/cat", cols=40)`."""
    with ExitStack() as terminals:

        def start(*command: str, **options: Any) -> TerminalEmulator:  # noqa: ANN401 - those of the constructor
            return terminals.enter_context(TerminalEmulator(command, **options))

        yield start
