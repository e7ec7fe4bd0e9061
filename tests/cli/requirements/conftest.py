"""The command at terminals of all kinds, each with the files and settings of somebody who has just come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pytest

from reenact.terminal import TerminalEmulator
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import KEY, PATIENCE
from tests.cli.requirements.pace import Pace
from tests.cli.requirements.views import View, wait_for_prompt
from tests.started.programs import Programs

At: TypeAlias = Callable[..., TerminalEmulator]
Paced: TypeAlias = Callable[..., tuple[Pace, dict[str, str]]]


@pytest.fixture
def at(programs: Programs, environ: dict[str, str], tmp_path: Path) -> Iterator[At]:
    """Return what starts the command at a terminal: `at(WIDE, "-p", "Hello", CI="true")`.

    `reads` and `writes` are descriptors that are its standard input and output in the place of the terminal.
    """
    with ExitStack() as terminals:

        def at(
            view: View, *arguments: str, reads: int | None = None, writes: int | None = None, **variables: str
        ) -> TerminalEmulator:
            return terminals.enter_context(
                TerminalEmulator(
                    "reenact",
                    arguments,
                    env={**environ, **view.variables, **variables},
                    cwd=tmp_path,
                    cols=view.columns,
                    rows=view.rows,
                    timeout=PATIENCE,
                    spawner=programs.beside_terminal(reads=reads, writes=writes),
                )
            )

        yield at


@pytest.fixture
def talk(at: At) -> At:
    """Return what opens a chat and waits for its prompt: `talk(NARROW, "--continue")`."""

    def talk(view: View, *arguments: str, **variables: str) -> TerminalEmulator:
        terminal = at(view, *arguments, **variables)
        wait_for_prompt(terminal)
        return terminal

    return talk


@pytest.fixture
def paced() -> Iterator[Paced]:
    """Return what makes a model that answers once, piece by piece as the test lets it; and how to get there."""
    with ExitStack() as models:

        def paced(*pieces: str) -> tuple[Pace, dict[str, str]]:
            pace = Pace(*pieces)
            api = models.enter_context(FakeMessagesAPI(api_key=KEY))
            models.callback(pace.end)  # an API that waits for a test that has failed would not end
            api.script([pace.reply])
            return pace, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}

        yield paced


@pytest.fixture
def file(tmp_path: Path) -> Iterator[BinaryIO]:
    """Where standard output is sent."""
    with Path(tmp_path, "sent").open("w+b") as file:
        yield file
