"""The configuration of all terminal tests of a project. Times are in seconds."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from reenact.terminal.errors import invalid
from reenact.terminal.screen.model import checked_size
from reenact.terminal.text import described

LONGEST = 86_400
"""A day: no test waits for longer, and clocks and locks do not know all numbers that are larger."""


def seconds(value: object, name: str, *, positive: bool = False) -> float:
    """Return the number of seconds, of which 0 may be none and nothing is more than a day.

    Raises:
        TerminalTestError: it is none (`INVALID_CONFIG`).
    """
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= LONGEST
        and (value or not positive)
    ):
        return float(value)
    above = " above 0" if positive else ""
    raise invalid(f"{name} is a number of seconds{above}, {LONGEST:,} (a day) at most, not {described(value)}")


ReportFormat: TypeAlias = Literal["junit", "html", "json", "console"]
DEFAULT_COLUMNS = 80
DEFAULT_ROWS = 24
DEFAULT_TIMEOUT = 30.0


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What files may say; the names there are those of the document, as `globalTimeout`."""


class TerminalSize(msgspec.Struct, frozen=True):
    """How large a terminal is, in characters.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: no terminal is.
    """

    cols: int = DEFAULT_COLUMNS
    rows: int = DEFAULT_ROWS

    def __post_init__(self) -> None:
        checked_size(self.cols, self.rows)


class Reporting(Options, frozen=True, kw_only=True):
    """Which reports are written, and where."""

    formats: tuple[ReportFormat, ...] = ("console",)
    output_dir: str = "test-results"


class Parallel(Options, frozen=True, kw_only=True):
    """Whether tests run at the same time, and how many."""

    enabled: bool = True
    max_workers: int = 4

    def __post_init__(self) -> None:
        if self.max_workers < 1:
            raise invalid(f"maxWorkers is 1 or more, not {self.max_workers}")

    @property
    def workers(self) -> int:
        """How many tests run at the same time."""
        return self.max_workers if self.enabled else 1


class TerminalTestConfig(Options, frozen=True, kw_only=True):
    """The configuration: in files the names are those of the document, as `globalTimeout`.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: a value cannot be.
    """

    global_timeout: float = DEFAULT_TIMEOUT
    """How long a test may take, and every wait of one that says nothing else."""
    default_terminal_size: TerminalSize = TerminalSize()
    cli_command: str = "reenact"
    """What is run by tests that name no command: a command line, split as a shell would."""
    default_env: dict[str, str] = {}
    reporting: Reporting = Reporting()
    parallel: Parallel = Parallel()
    engine: Literal["ghostty"] = "ghostty"
    """What works out what the screens show; there is one."""

    def __post_init__(self) -> None:
        seconds(self.global_timeout, "globalTimeout", positive=True)
