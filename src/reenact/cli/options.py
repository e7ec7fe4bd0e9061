"""What was asked for on the command line, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class OutputFormat(StrEnum):
    """How the answer to a prompt is printed."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class ListFormat(StrEnum):
    """How a list is printed: lines for people, or one JSON object a line."""

    TEXT = "text"
    JSON = "json"


class Shell(StrEnum):
    """A shell that can complete what is typed."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class TalkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation; `prompt` is None for a chat, and `-` for what standard input holds.

    `resume` is empty if the person is to choose the session.

    `max_turns` is how often the model may be asked for one prompt. `allowed_by_settings` tells that the allowed tools
    are named by settings, which are for all sessions. `of_new` are the options of sessions that are begun while one
    goes on, where settings make them others.
    """

    prompt: str | None = None
    output_format: OutputFormat = OutputFormat.TEXT
    continue_latest: bool = False
    resume: str | None = None
    database: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    timeout: float | None = None
    tools: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    allowed_by_settings: bool = False
    mcp_config: str | None = None
    policy: str | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    prices: tuple[str, ...] = ()
    of_new: TalkOptions | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the session is one that there is already."""
        return self.continue_latest or self.resume is not None


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A server; `talk` has what its agents are made with, as a new conversation has it."""

    talk: TalkOptions
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: str | None = None
    origins: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()
    mock: bool = False
    scenario: str | None = None
    keep_deltas: float | None = None
    keep_consumers: float | None = None


class BranchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A session that goes on with the history of another one up to a position; up to now if there is none."""

    session: str
    at: int | None = None
    edit: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    new_id: str | None = None
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the events of the log that fit every filter."""

    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT
    session: str | None = None
    lineage: bool = False
    agent: str | None = None
    types: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    text: str | None = None
    after: int = 0
    limit: int | None = None
    last: int | None = None
    reverse: bool = False
    follow: bool = False
    why: int | None = None


class ShowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A look at a session as it was at a position; now if there is none."""

    session: str
    at: int | None = None
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class DiffOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What changed between two positions of a session, or between two sessions: SESSION A B, or LEFT[@A] RIGHT[@B]."""

    what: tuple[str, ...]
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class ProjectionsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the projections."""

    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class RebuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A projection that is made anew; no `name` is that of the runtime's own tables, `places` is where classes are."""

    name: str | None = None
    places: tuple[str, ...] = ()
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves the log for a file; `-` is standard output."""

    file: str
    sessions: tuple[str, ...] = ()
    redact: str | None = None
    redact_secrets: bool = False
    hash_key: str | None = None
    feeds: bool = True
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What comes into the log from a file; `-` is standard input."""

    file: str
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Histories to be decided anew: all of a log, or these sessions of it, or those in these files and folders."""

    what: tuple[str, ...] = ()
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class ExtensionsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the extensions."""

    output_format: ListFormat = ListFormat.TEXT


class TrustOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A project whose hooks may run, or, to `untrust` it, may not; the current directory if it is None.

    With `yes` nobody is asked.
    """

    project: str | None = None
    untrust: bool = False
    yes: bool = False


class SettingsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the settings; `database` is the log that the command line names."""

    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class SessionsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the sessions."""

    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the log is whole, and still what it was at the checkpoint."""

    checkpoint: str | None = None
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class CheckpointOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of the log, in a file; on standard output without one. What is said of a file has the format."""

    output: str | None = None
    database: str | None = None
    output_format: ListFormat = ListFormat.TEXT


class TestTerminalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Tests in files that are to be run; `reports` are `FORMAT=PATH`, and `command` is that of tests that name none."""

    __test__ = False

    files: tuple[str, ...]
    config: str | None = None
    workers: int | None = None
    retries: int = 0
    reports: tuple[str, ...] = ()
    filter: str | None = None
    command: str | None = None
    keep: str | None = None


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether a command line, which may be a bad one, asks for JSON on standard output."""
    asked = False
    for place, argument in enumerate(arguments):
        if argument == "--output-format":
            asked = arguments[place + 1 : place + 2] in (["json"], ["stream-json"])
        elif argument.startswith("--output-format="):
            asked = argument.partition("=")[2] in ("json", "stream-json")
    return asked
