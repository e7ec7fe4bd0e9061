"""What holds for all terminal tests of a project. Times are in seconds."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

ReportFormat: TypeAlias = Literal["junit", "html", "json", "console"]
DEFAULT_COLUMNS: Final = 80
DEFAULT_ROWS: Final = 24
DEFAULT_TIMEOUT: Final = 30.0


class TerminalSize(msgspec.Struct, frozen=True):
    """How large a terminal is, in characters."""

    cols: int = DEFAULT_COLUMNS
    rows: int = DEFAULT_ROWS


class Reporting(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which reports are written, and where."""

    formats: tuple[ReportFormat, ...] = ("console",)
    output_dir: str = "test-results"


class Parallel(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Whether tests run at the same time, and how many."""

    enabled: bool = True
    max_workers: int = 4


class TerminalTestConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The configuration: in files the names are those of the document, as `globalTimeout`."""

    global_timeout: float = DEFAULT_TIMEOUT
    """How long a test may take, and every wait of one that says nothing else."""
    default_terminal_size: TerminalSize = TerminalSize()
    cli_command: str = "reenact"
    """What is run by tests that name no command: a command line, split as a shell would."""
    default_env: dict[str, str] = {}
    reporting: Reporting = Reporting()
    parallel: Parallel = Parallel()
