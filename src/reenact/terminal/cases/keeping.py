"""What is kept of tests that fail: what went over the terminal, and what it showed at last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from reenact.terminal.cases.attempt import Attempt
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.matching.shown import on_a_line
from reenact.terminal.report.results import TestResult
from reenact.terminal.screen.drawing import svg

_LONGEST: Final = 80


class Keeper:
    """Keeps things in a directory, which is made.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: it cannot be made.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = on_a_line(f"{directory}: nothing can be kept there: {error.strerror}")
            raise TerminalTestError(TerminalTestErrorType.INVALID_CONFIG, problem, error) from error

    def kept(self, made: Attempt, number: int) -> TestResult:
        """Keep what there is of an attempt; return its result, which names the files, or says why there are none."""
        if made.recording is None or made.screen is None:
            return made.result
        result = made.result
        stem = self._directory / _file_name(f"{number:03} {result.suite} {result.name}")
        cast, picture = Path(f"{stem}.cast"), Path(f"{stem}.svg")
        try:
            made.recording.save(cast)
            picture.write_text(svg(made.screen), "utf-8")
        except OSError as error:
            said = f"{result.error}\n\n{cast} and {picture.name} could not be written: {error.strerror}"
            return msgspec.structs.replace(result, error=said)
        return msgspec.structs.replace(result, attachments=(*result.attachments, str(cast), str(picture)))


def _file_name(text: str) -> str:
    """Return what every file system takes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:_LONGEST]
