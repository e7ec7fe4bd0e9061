"""Programs that know nothing of this kit, each at a terminal with nobody's settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact.terminal import TerminalEmulator

PATIENCE = 60.0
"""Seconds that anything may take."""
Open: TypeAlias = Callable[..., TerminalEmulator]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return where the program runs."""
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def opened(tmp_path: Path, directory: Path) -> Iterator[Open]:
    """Return what opens a program, or skips the test where it is not installed: `opened("less", "file", rows=10)`."""
    home = tmp_path / "home"
    home.mkdir()
    with ExitStack() as programs:

        def opened(program: str, *arguments: str, cols: int = 80, rows: int = 24, **env: str) -> TerminalEmulator:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
            return programs.enter_context(
                TerminalEmulator(
                    program,
                    arguments,
                    cwd=directory,
                    env={"HOME": str(home), "LC_ALL": "C.UTF-8", **env},
                    cols=cols,
                    rows=rows,
                    timeout=PATIENCE,
                )
            )

        yield opened
