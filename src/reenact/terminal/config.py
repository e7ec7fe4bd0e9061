"""The configuration of all terminal tests of a project. Times are in seconds."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from reenact.terminal.errors import invalid, is_kit_error
from reenact.terminal.screen.model import checked_size
from reenact.terminal.text import described

__tracebackhide__ = is_kit_error

LONGEST = 86_400
"""Maximum number of seconds, a day: clocks and locks do not accept all larger numbers."""


def seconds(value: object, name: str, *, positive: bool = False) -> float:
    """Return the number of seconds if it is valid: from 0, or above 0 if `positive`, to a day.

    Raises:
        TerminalTestError: it is invalid (`INVALID_CONFIG`).
    """
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= LONGEST
        and (value or not positive)
    ):
        return float(value)
    above = " above 0" if positive else ""
    raise invalid(f"{name} must be a number of seconds{above}, {LONGEST:,} (a day) at most, not {described(value)}")


ReportFormat: TypeAlias = Literal["junit", "html", "json", "console"]
DEFAULT_COLUMNS = 80
DEFAULT_ROWS = 24
DEFAULT_TIMEOUT = 30.0


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of options in files, where their names are in camel case, such as `globalTimeout`."""


class TerminalSize(msgspec.Struct, frozen=True):
    """The size of a terminal in characters.

    Raises:
        TerminalTestError: the size is invalid (`INVALID_CONFIG`).
    """

    cols: int = DEFAULT_COLUMNS
    rows: int = DEFAULT_ROWS

    def __post_init__(self) -> None:
        checked_size(self.cols, self.rows)


class Reporting(Options, frozen=True, kw_only=True):
    """The formats of the reports, and the directory that they are written to."""

    formats: tuple[ReportFormat, ...] = ("console",)
    output_dir: str = "test-results"


class Parallel(Options, frozen=True, kw_only=True):
    """Whether tests run in parallel, and how many at most."""

    enabled: bool = True
    max_workers: int = 4

    def __post_init__(self) -> None:
        if self.max_workers < 1:
            raise invalid(f"maxWorkers must be 1 or more, not {self.max_workers}")

    @property
    def workers(self) -> int:
        """Maximum number of tests that run at the same time."""
        return self.max_workers if self.enabled else 1


class TerminalTestConfig(Options, frozen=True, kw_only=True):
    """The configuration; in files its names are in camel case, such as `globalTimeout`.

    Raises:
        TerminalTestError: a value is invalid (`INVALID_CONFIG`).
    """

    global_timeout: float = DEFAULT_TIMEOUT
    """Timeout of a test, and of each wait that has no timeout of its own."""
    default_terminal_size: TerminalSize = TerminalSize()
    cli_command: str = "reenact"
    """The command of tests that name none: a command line, split like a shell does."""
    default_env: dict[str, str] = {}
    reporting: Reporting = Reporting()
    parallel: Parallel = Parallel()
    engine: Literal["ghostty"] = "ghostty"
    """The engine that computes the screens; there is only one."""

    def __post_init__(self) -> None:
        seconds(self.global_timeout, "globalTimeout", positive=True)
