"""The options of all commands, each declared once with its name, its help and its type."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import typer

from reenact.cli.output.console import Console, ListFormat
from reenact.cli.parsing.declaration import (
    CONVERSATION,
    OUTPUT,
    PLACES,
    TOOLS,
    Options,
    amount,
    argument,
    made_of,
    names,
    option,
    seconds,
    whole_number,
    with_signature,
)
from reenact.cli.settings.database import preferred_database
from reenact.cli.settings.values import LARGEST_NUMBER, OutputFormat

FORMER = frozenset({"--allow-tool", "--max-steps"})
"""Former names of options, which are accepted but not listed."""

Command: TypeAlias = Callable[[Console], int]
"""A command with its options, ready to run; it returns the exit code."""


class Shell(StrEnum):
    """A shell for which completion is supported."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _database(context: typer.Context, value: str | None) -> str | None:
    """Return the log of a subcommand: named after it or before it, or else the one from the user's settings."""
    if value is not None and not value.strip():
        raise typer.TyperException("--db names a file, or a postgresql:// URL, and not nothing")
    if value or context.parent is None:
        return value
    before: str | None = context.obj
    return before or preferred_database(os.environ)


Database: TypeAlias = Annotated[
    str | None,
    option(
        "The log: a file, or a postgresql:// URL. Without it: REENACT_DB, or reenact.db in the user's data directory.",
        "PATH|URL",
        "--db",
        group=PLACES,
        callback=_database,
    ),
]
Keys: TypeAlias = Annotated[
    str | None,
    option(
        "The key ring of the log: a file that `reenact keys` has made, or env:NAME for a variable that holds one. "
        "Without it: REENACT_KEYS.",
        "FILE",
        group=PLACES,
    ),
]
Lines: TypeAlias = Annotated[
    ListFormat, option("Lines for people (text), or one JSON object a line.", "text|json", group=OUTPUT)
]
Page: TypeAlias = Annotated[ListFormat, option("Text for people, or one JSON object.", "text|json", group=OUTPUT)]
Tools: TypeAlias = Annotated[
    tuple[str, ...],
    option(
        "Python functions that the agent may call: every @tool there, or the one named. Repeatable.",
        "FILE.py|MODULE[:NAME]",
        group=TOOLS,
    ),
]
GuardsFile: TypeAlias = Annotated[
    str | None,
    option(
        "Python functions that refuse messages, calls or answers: every @guard there, and the Guards that names them.",
        "FILE.py|MODULE",
        group=TOOLS,
    ),
]
McpConfig: TypeAlias = Annotated[
    str | None,
    option('Servers with more tools: {"mcpServers": {NAME: {"command": …} or {"url": …}}}.', "FILE.json", group=TOOLS),
]
PolicyFile: TypeAlias = Annotated[
    str | None, option("Which calls are denied, and which a person is asked about.", "FILE.json", group=TOOLS)
]
MaxTurns: TypeAlias = Annotated[
    int | None,
    option("Ask the model at most so often for one prompt.", "N", "--max-turns", "--max-steps", group=TOOLS),
    whole_number,
]
MaxCost: TypeAlias = Annotated[
    float | None,
    option("Stop when the session has cost more; needs a price, known or of --price.", "AMOUNT", group=TOOLS),
    amount,
]
Prices: TypeAlias = Annotated[
    tuple[str, ...],
    option(
        "What a million tokens of a model cost, in and out, as claude-x=3,15, in the place of what is known. "
        "Repeatable.",
        "MODEL=IN,OUT",
        "--price",
        group=TOOLS,
    ),
]


Provider: TypeAlias = Annotated[
    str | None,
    option(
        "Who answers: openai, claude, mock, or MODULE:NAME, a provider of your own. Without it: REENACT_PROVIDER, or "
        "claude if there is a key for it, else mock.",
        "NAME",
        group=CONVERSATION,
    ),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    option("Where the API is that --provider speaks, as http://localhost:11434/v1.", "URL", group=CONVERSATION),
]


class OfLog(Options, frozen=True):
    """The options of a command that uses a log."""

    database: Database = None
    keys: Keys = None


class Paged(OfLog, frozen=True):
    """The options of a command that prints a page about a log."""

    output_format: Page = ListFormat.TEXT


class Listing(OfLog, frozen=True):
    """The options of a command that prints a list from a log."""

    output_format: Lines = ListFormat.TEXT


class TalkOptions(OfLog, frozen=True):
    """Talk to an agent whose every event is kept.

    With a terminal this is a chat. Without one, each line of standard input is a prompt. With -p it is one answer on
    standard output, and nothing else there. What these options are when they are not given, settings.json may say:
    `reenact settings`.

    $ reenact  # a chat; Ctrl+D leaves
    $ reenact -p "Name three colours"  # one answer
    $ reenact --continue -p "And two more?"  # the newest session again
    $ echo "1, 2, 3" | reenact -p "Explain this"  # and what it is about
    $ reenact -p "Say hello" --output-format json  # for a program
    $ reenact -p "Say hello" --max-turns 5 --timeout 60  # with limits
    $ reenact --tools reenact:ask_user  # a chat with a tool
    $ reenact log --last 10  # what has just happened

    An agent with tools: write functions below `from reenact import tool`, each with `@tool` above it, into tools.py.
    Calls that need approval, as @tool(intervention="required") or --policy say, are asked about in the chat. Where no
    person is, they are rejected unless --allowed-tools names them.
    """

    prompt: Annotated[
        str | None,
        option(
            "Answer this, and what standard input has, and exit; - takes all of it from there.",
            "TEXT",
            "--print",
            "-p",
            group=CONVERSATION,
        ),
    ] = None
    continue_latest: Annotated[
        bool, option("Go on with the newest session.", None, "--continue", "-c", group=CONVERSATION)
    ] = False
    resume: Annotated[
        str | None,
        option(
            "Go on with this session; `reenact sessions` lists them, and in a chat so does --resume without ID.",
            "ID",
            "--resume",
            "-r",
            group=CONVERSATION,
        ),
    ] = None
    provider: Provider = None
    base_url: BaseUrl = None
    model: Annotated[
        str | None, option("The model; in a session that goes on, for this run only.", "NAME", group=CONVERSATION)
    ] = None
    system_prompt: Annotated[
        str | None, option("The instructions; likewise, for this run only.", "TEXT", group=CONVERSATION)
    ] = None
    tools: Tools = ()
    mcp_config: McpConfig = None
    policy: PolicyFile = None
    guards: GuardsFile = None
    allowed_tools: Annotated[
        tuple[str, ...],
        option(
            "The tools that may run where no person is to approve their calls, with commas between them; "
            "* is a wildcard. Repeatable.",
            "NAMES",
            "--allowed-tools",
            "--allow-tool",
            group=TOOLS,
        ),
        names,
    ] = ()
    max_turns: MaxTurns = None
    max_cost: MaxCost = None
    prices: Prices = ()
    timeout: Annotated[
        float | None, option("Interrupt an answer that takes longer.", "SECONDS", group=TOOLS), seconds
    ] = None
    output_format: Annotated[
        OutputFormat,
        option(
            "Under -p and for lines of input: the answer as it comes (text), one JSON object, or every event when "
            "it happens and then that object.",
            "text|json|stream-json",
            group=OUTPUT,
        ),
    ] = OutputFormat.TEXT
    debug: Annotated[bool, option("Log more, and show tracebacks.", None, "--debug", group=OUTPUT)] = False
    version: Annotated[bool, option("Print the version and exit.", None, "--version", group=OUTPUT)] = False
    allowed_by_settings: bool = False
    """Whether the allowed tools come from settings, which apply to all sessions."""
    of_new: TalkOptions | None = None
    """The options of sessions that are begun while an existing one is continued, if settings make them differ."""

    @property
    def goes_on(self) -> bool:
        """Whether an existing session is continued."""
        return self.continue_latest or self.resume is not None


class SessionsOptions(Listing, frozen=True):
    """List the sessions, the newest first: id, beginning, messages, first words, and if one waits for a person.

    $ reenact sessions  # `reenact --resume ID` goes on with one
    $ reenact sessions --output-format json
    """


AllowActions: TypeAlias = Annotated[
    bool,
    option("Let the pages approve, reject, answer, interrupt and branch.", None, "--allow-actions"),
]
By: TypeAlias = Annotated[
    str | None, option("In whose name that is recorded; your name on this machine unless it is given.", "NAME")
]


class ServeOptions(OfLog, frozen=True):
    """Let other programs and web pages use the log and its agents, over WebSocket and HTTP.

    Prints where it listens, and goes on until Ctrl+C or SIGTERM; exits with 0 then. Of settings.json only
    `db`, `provider`, `baseUrl` and `model` are for a server, and those of yours alone.

    $ reenact serve --port 0  # on any port that is free
    $ reenact serve --mock --db demo.db
    $ reenact serve --inspect --allow-actions
    """

    host: Annotated[str, option("Where to listen; beyond this machine only with tokens.", "ADDRESS")] = "127.0.0.1"
    port: Annotated[int, option("The port, 8000 unless it is given; 0 takes any that is free.", "N")] = 8000
    token_file: Annotated[
        str | None, option("Tokens that open the server, one a line; # begins a comment.", "FILE")
    ] = None
    origins: Annotated[
        tuple[str, ...], option("Web pages from there may use the server, too. Repeatable.", "URL", "--origin")
    ] = ()
    host_names: Annotated[
        tuple[str, ...], option("Clients may call the server by this name, too. Repeatable.", "NAME", "--host-name")
    ] = ()
    mock: Annotated[bool, option("Let the mock answer, as MOCK_LLM=true does.", None, "--mock")] = False
    scenario: Annotated[str | None, option("Let the mock answer from this script, as MOCK_SCENARIO does.", "NAME")] = (
        None
    )
    inspect: Annotated[bool, option("Show the log as pages under /inspect, too; see `inspect`.", None, "--inspect")] = (
        False
    )
    allow_actions: AllowActions = False
    by: By = None
    keep_deltas: Annotated[
        float | None, option("Compact the deltas of turns that ended earlier than this, or 48.", "HOURS")
    ] = None
    keep_consumers: Annotated[
        float | None, option("Forget clients that have not come for so long, or 24.", "HOURS")
    ] = None
    provider: Provider = None
    base_url: BaseUrl = None
    model: Annotated[str | None, option("The model of the image `chat`.", "NAME", group=CONVERSATION)] = None
    system_prompt: Annotated[
        str | None, option("The instructions of the image `chat`.", "TEXT", group=CONVERSATION)
    ] = None
    tools: Tools = ()
    mcp_config: McpConfig = None
    policy: PolicyFile = None
    guards: GuardsFile = None
    max_turns: MaxTurns = None
    max_cost: MaxCost = None
    prices: Prices = ()


class InspectOptions(OfLog, frozen=True):
    """Show the log as pages in a browser: sessions, what happened in them and why, what waits, and what it cost.

    Prints the address that opens them, which works on this machine alone, and goes on until Ctrl+C or SIGTERM. The log
    may be written meanwhile, and is not changed.

    $ reenact inspect
    $ reenact inspect --db night.db --port 0  # on any port that is free
    $ reenact inspect --allow-actions --server http://127.0.0.1:8000  # of `reenact serve` on the same log
    """

    port: Annotated[int, option("The port, 8765 unless it is given; 0 takes any that is free.", "N")] = 8765
    allow_actions: AllowActions = False
    server: Annotated[
        str | None, option("The server that has the log, through which actions are carried out.", "URL")
    ] = None
    token_file: Annotated[str | None, option("The server's token: the first one in this file.", "FILE")] = None
    by: By = None


class TestTerminalOptions(Options, frozen=True):
    """Test programs at a terminal, by scripts in files.

    Exits with 1 if any test fails or cannot be carried out. Needs `pip install 'reenact[terminal]'`.

    $ reenact test-terminal tests.yaml
    $ reenact test-terminal tests.yaml --retries 2 --report junit=junit.xml
    """

    files: Annotated[tuple[str, ...], argument("FILE ...", "Tests, as YAML or JSON.")]
    config: Annotated[str | None, option("What holds for all of them, as YAML or JSON.", "FILE")] = None
    workers: Annotated[int | None, option("Run so many at the same time; else the configuration's, 4.", "N", min=1)] = (
        None
    )
    retries: Annotated[int, option("Try a test that fails again, so often at most.", "N", min=0)] = 0
    reports: Annotated[
        tuple[str, ...], option("Write junit, html, json or console there. Repeatable.", "FORMAT=PATH", "--report")
    ] = ()
    filter: Annotated[str | None, option("Run only what has this in the name of suite or test.", "TEXT")] = None
    command: Annotated[str | None, option("What tests run that name no command themselves.", "LINE")] = None
    keep: Annotated[str | None, option("Keep recordings and last screens of tests that fail there.", "DIR")] = None


class BranchOptions(Paged, frozen=True, kw_only=True):
    """Create a session that goes on with the history of another one, which stays as it is, and print its id.

    Nothing is copied. reenact --resume ID talks in it.

    $ reenact branch ses_1 --id ses_2  # from where it is now
    $ reenact branch ses_1 --at 42 --edit "Say it in French"  # another question
    """

    session: Annotated[str, argument("SESSION", "The session's id; it may be deleted.")]
    at: Annotated[int | None, option("Share the history up to this position of the log.", "POSITION")] = None
    edit: Annotated[str | None, option("Say this instead of the last message up to there.", "TEXT")] = None
    model: Annotated[str | None, option("Go on with this model.", "NAME")] = None
    system_prompt: Annotated[str | None, option("Go on with these instructions.", "TEXT")] = None
    new_id: Annotated[str | None, option("The id of the new session.", "NEW", "--id")] = None


class HandedOver(StrEnum):
    """How much of the conversation the new agent gets when a session is handed over."""

    ALL = "all"
    SUMMARY = "summary"
    NONE = "none"


class SwitchOptions(Paged, frozen=True, kw_only=True):
    """Hand a session over to another image of the log: the same conversation, another agent.

    Prints the session's id. No agent of it may run in another process.

    $ reenact switch ses_1 billing
    $ reenact switch ses_1 billing --history none
    """

    session: Annotated[str, argument("SESSION", "The session.")]
    image: Annotated[str, argument("IMAGE", "The image that it goes over to.")]
    history: Annotated[HandedOver, option("What its agent is given of what was said.", "all|summary|none")] = (
        HandedOver.ALL
    )


class ForgetOptions(Listing, frozen=True, kw_only=True):
    """Destroy the key of a session, so that nobody can read what was said in it; print the ids of what is forgotten.

    That cannot be undone. The log must have been encrypted (--keys) when the session began. Copies that were made
    before, and what was written elsewhere, such as exports, are as readable as they were.

    $ reenact forget ses_1 --why "asked to by the customer" --keys ring.keys
    $ reenact forget ses_1 --family --keys ring.keys  # with its branches, its children, and who has called it
    """

    session: Annotated[str, argument("SESSION", "The session; it may be deleted.")]
    by: Annotated[
        str | None, option("In whose name, which stays in the log; your name on this machine without it.", "NAME")
    ] = None
    why: Annotated[str, option("What for; it stays in the log, too.", "TEXT")] = ""
    family: Annotated[bool, option("With all the sessions that would miss it.", None, "--family")] = False


class KeysOptions(Options, frozen=True, kw_only=True):
    """Make a key ring, a file that only you can read, which encrypts logs with --keys; or add a key to one.

    Without the file nobody can read the logs that it has encrypted: keep a copy of it, and not beside the logs. Needs
    `pip install 'reenact[encryption]'`.

    $ reenact keys ring.keys
    $ reenact keys ring.keys --rotate  # a new key for what comes; the former ones still open what there is
    """

    file: Annotated[str, argument("FILE", "The file.")]
    rotate: Annotated[bool, option("Add a key to a file that is there.", None, "--rotate")] = False


class SchedulesOptions(Listing, frozen=True, kw_only=True):
    """List the messages that are to come, the next first; or cancel some, and print their ids.

    $ reenact schedules
    $ reenact schedules ses_1 --output-format json
    $ reenact schedules --cancel sch_1
    """

    session: Annotated[str | None, argument("[SESSION]", "Only those that come to this session.")] = None
    cancel: Annotated[tuple[str, ...], option("Cancel this schedule. Repeatable.", "SCHEDULE", "--cancel")] = ()


class DiffOptions(Paged, frozen=True, kw_only=True):
    """Say what changed in a session between two positions of the log, or what is different in two sessions.

    Exits with 1 if there is any difference.

    $ reenact diff ses_1 42 57  # between two positions of the log
    $ reenact diff ses_1 ses_2  # between two sessions, as a branch and its origin
    """

    what: Annotated[
        tuple[str, ...], argument("SESSION A B | LEFT[@A] RIGHT[@B]", "Two positions of a session, or two sessions.")
    ]


class ExportOptions(Paged, frozen=True, kw_only=True):
    """Write the log, or some of its sessions, to a file of JSON lines, which `reenact import` verifies.

    What is encrypted in the log is encrypted in the file.

    $ reenact export log.jsonl
    $ reenact export shared.jsonl --session ses_1 --redact-secrets
    $ reenact export --html ses_1  # a page for people, which needs nothing else
    """

    file: Annotated[
        str | None, argument("[FILE]", "Where it goes; - is standard output. A page is named after its session.")
    ] = None
    html: Annotated[
        str | None, option("A page with this session, instead: what was said, and what happened.", "ID", "--html")
    ] = None
    sessions: Annotated[
        tuple[str, ...], option("Only this one, with all that it needs; may be given again.", "ID", "--session")
    ] = ()
    family: Annotated[bool, option("With who has called the sessions, and their children.", None, "--family")] = False
    redact: Annotated[str | None, option("What must not leave, and secrets by their form.", "POLICY.json")] = None
    redact_secrets: Annotated[
        bool, option("API keys, tokens, passwords in URLs and private keys do not leave.", None, "--redact-secrets")
    ] = False
    hash_key: Annotated[str | None, option("Mark equal values equally, by a hash with this key.", "FILE")] = None
    no_feeds: Annotated[bool, option("Without what subscribers saw.", None, "--no-feeds")] = False


class ImportOptions(Paged, frozen=True, kw_only=True):
    """Take what was exported into the log, or begin one with it: all of it, once it is verified, or nothing.

    $ reenact import log.jsonl --db copy.db
    """

    file: Annotated[str, argument("FILE", "What was exported; - is standard input.")]


class LogOptions(Listing, frozen=True):
    """List the events of the log, also while it is being written.

    $ reenact log --last 20
    $ reenact log --follow --type turn_completed --output-format json
    $ reenact log --since 2h --text weather
    $ reenact log --why 42  # what an event follows from
    """

    session: Annotated[str | None, option("Only this session.", "ID")] = None
    lineage: Annotated[
        bool, option("With --session: also what a branch shares with its origin.", None, "--lineage")
    ] = False
    agent: Annotated[str | None, option("Only while this agent was live.", "AGENT")] = None
    types: Annotated[tuple[str, ...], option("Only this type; may be given more than once.", "TYPE", "--type")] = ()
    since: Annotated[str | None, option("Only from then on: 2026-11-21T08:30, or 15m, 2h, 7d.", "TIME")] = None
    until: Annotated[str | None, option("Only up to then.", "TIME")] = None
    text: Annotated[str | None, option("Only where this is said, in capitals or not.")] = None
    after: Annotated[int, option("Only what comes behind this.", "POSITION")] = 0
    limit: Annotated[int | None, option("No more than the first N.", "N", min=0, max=LARGEST_NUMBER)] = None
    last: Annotated[int | None, option("No more than the last N.", "N", min=0, max=LARGEST_NUMBER)] = None
    reverse: Annotated[bool, option("The newest first.", None, "--reverse")] = False
    follow: Annotated[bool, option("Go on with what is still to come.", None, "--follow", "-f")] = False
    why: Annotated[int | None, option("Why this event happened, and what followed from it.", "POSITION")] = None


class ProjectionsOptions(Listing, frozen=True):
    """List the tables that follow the log: how far they are, and if something keeps them from going on.

    Exits with 1 if one of them has stopped.

    $ reenact projections
    """


class RebuildOptions(Paged, frozen=True):
    """Make the tables of a projection anew from the log, beside those that are read, and put them in their place.

    A rebuilding that was cut short is gone on with. While a program has the log open to write, it is for that program
    to do, with runtime.projections.rebuild().

    $ reenact rebuild  # the runtime's tables
    $ reenact rebuild words --projections words.py  # one of your own
    """

    name: Annotated[str | None, argument("[NAME]", "One of your own projections. Default: the runtime's tables.")] = (
        None
    )
    places: Annotated[
        tuple[str, ...],
        option("Where the class of a projection of your own is. Repeatable.", "FILE.py|MODULE[:NAME]", "--projections"),
    ] = ()


class ReplayOptions(Listing, frozen=True):
    """Decide recorded histories anew, as today's code does, and say where it parts from them; nothing is run.

    With options of tools and limits it says what if: which recorded decisions would be otherwise with these instead.
    Exits with 1 if any history is decided otherwise today, or any decision would be.

    $ reenact replay  # the whole log
    $ reenact replay exports/  # the exports in a folder
    $ reenact replay --policy stricter.json --max-turns 20  # what if?
    """

    what: Annotated[
        tuple[str, ...],
        argument(
            "[SESSION ... | PATH ...]",
            "Sessions; or exports (*.jsonl), logs (*.db), and folders of them. Without any: the whole log.",
        ),
    ] = ()
    policy: Annotated[
        str | None,
        option('Suppose these policies, for all images or for some: {"images": {ID: …}}.', "FILE.json", group=TOOLS),
    ] = None
    max_turns: MaxTurns = None
    max_cost: MaxCost = None
    prices: Prices = ()


class ShowOptions(Paged, frozen=True, kw_only=True):
    """Show a session as it is, or was: its conversation, what is under way, what waits for people, and what it cost.

    $ reenact show ses_1
    $ reenact show ses_1 --at 42  # as it was at that position of the log
    """

    session: Annotated[str, argument("SESSION", "The session's id.")]
    at: Annotated[int | None, option("As it was at this position of the log.", "POSITION")] = None


class CheckpointOptions(Paged, frozen=True):
    """Write where every stream and feed of the log ends: what is kept elsewhere tells later whether any was cut off.

    A checkpoint is lines of JSON in either format, which is that of what is said of one in a file.

    $ reenact checkpoint --output checkpoint.jsonl  # `reenact verify --checkpoint` holds the log to it
    """

    output: Annotated[str | None, option("Where to; standard output without it.", "FILE")] = None


class StatisticsFormat(StrEnum):
    """The formats in which statistics are printed."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


class Grouping(StrEnum):
    """What statistics can be grouped by."""

    DAY = "day"
    MODEL = "model"
    IMAGE = "image"
    TOOL = "tool"
    SESSION = "session"


class StatsOptions(OfLog, frozen=True):
    """Count turns, tokens, costs, errors, calls and approvals, and how long they took.

    A branch counts only what is its own. A cost that is unknown is no 0: it is counted as such. Days are those of UTC.

    $ reenact stats --since 7d --by day
    $ reenact stats --by model --output-format csv
    $ reenact stats --by day --plot costs.svg  # for a browser
    """

    by: Annotated[Grouping | None, option("A line for each of these.", "day|model|image|tool|session")] = None
    since: Annotated[str | None, option("Only from then on: 2026-11-21T08:30, or 15m, 2h, 7d.", "TIME")] = None
    until: Annotated[str | None, option("Only up to then.", "TIME")] = None
    container: Annotated[str | None, option("Only the sessions in this one.", "CONTAINER")] = None
    image: Annotated[str | None, option("Only those of this one.", "IMAGE")] = None
    session: Annotated[str | None, option("Only this one.", "ID")] = None
    plot: Annotated[
        str | None, option("Draw it, too, by day unless --by says otherwise.", "FILE.svg", group=OUTPUT)
    ] = None
    output_format: Annotated[
        StatisticsFormat,
        option("Text for people, one JSON object, or CSV.", "text|json|csv", group=OUTPUT),
    ] = StatisticsFormat.TEXT


class TraceOptions(Paged, frozen=True):
    """Send the turns in the log to a collector of OpenTelemetry, as spans, also while the log is written.

    All that has ended is sent; sent again, spans have the same ids. With --follow it goes on until Ctrl+C, and begins
    where it was the last time. Headers, such as keys, are those of OTEL_EXPORTER_OTLP_HEADERS. Needs
    `pip install 'reenact[otel]'`.

    $ reenact trace --otlp http://localhost:4318 --follow
    $ reenact trace --otlp http://localhost:4318 --session ses_1 --content
    """

    otlp: Annotated[
        str | None, option("Where OTLP is taken over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT without it.", "URL")
    ] = None
    follow: Annotated[bool, option("Go on with what is still to come.", None, "--follow", "-f")] = False
    session: Annotated[str | None, option("Only the turns of this one.", "ID")] = None
    content: Annotated[bool, option("Messages, arguments and results, too.", None, "--content")] = False
    metrics: Annotated[bool, option("Metrics, too: the sums over all of the log.", None, "--metrics")] = False
    state: Annotated[
        str | None,
        option(
            "What was sent is kept there, and not sent again. With --follow: beside the log.", "DIR|URL", group=PLACES
        ),
    ] = None


class VerifyOptions(Paged, frozen=True):
    """Look for anything in the log that is not as it was written, also while it is being written.

    The first bad record of every stream and feed is named. Exits with 1 if there is any.

    $ reenact verify
    $ reenact verify --checkpoint checkpoint.jsonl  # and is all of it still there?
    """

    checkpoint: Annotated[str | None, option("Hold the log to what `checkpoint` has written.", "FILE")] = None


class TrustOptions(Options, frozen=True):
    """Let the hooks of a project run, and its commands be called.

    At a terminal they are shown, and you are asked; where nobody is, they are listed. They are trusted as they are now:
    when any of them changes, none runs until they are trusted again.

    $ reenact extensions trust  # the current directory
    $ reenact extensions trust ../project --untrust
    """

    project: Annotated[str | None, argument("[PATH]", "The project's folder; the current one without it.")] = None
    untrust: Annotated[bool, option("Trust the project no more.", None, "--untrust")] = False
    yes: Annotated[bool, option("Trust it without being asked.", None, "--yes")] = False


class ExtensionsOptions(Options, frozen=True):
    """List the skills, commands, agents and hooks in ~/.reenact and ./.reenact, and what was skipped.

    Exits with 1 if anything was.

    $ reenact extensions
    $ reenact extensions --output-format json
    """

    output_format: Page = ListFormat.TEXT


class SettingsOptions(Options, frozen=True):
    """Show what options are when they are not given, and where each of them comes from.

    They come from the environment, from .reenact/settings.json of the current directory, and from
    ~/.reenact/settings.json; the first of these that has one holds. A project's file may say no more than `model`,
    `systemPrompt`, `maxTurns`, `maxCost`, `prices` and `timeout`. What is ignored is listed, too.

    $ reenact settings
    $ reenact settings --output-format json
    """

    output_format: Page = ListFormat.TEXT
    database: str | None = None
    """The log that the command line names."""


class CompletionOptions(Options, frozen=True):
    """Print what lets a shell complete the command line with Tab.

    No file is changed. Put the line for your shell into its startup file: ~/.bashrc, ~/.zshrc, or
    ~/.config/fish/config.fish.

    $ eval "$(reenact completion bash)"
    $ eval "$(reenact completion zsh)"
    $ reenact completion fish | source
    """

    shell: Annotated[Shell, argument("bash|zsh|fish", "The shell that is to complete.")]


class HelpOptions(Options, frozen=True):
    """Show the help of a command.

    $ reenact help log
    $ reenact help extensions trust
    """

    words: Annotated[tuple[str, ...], argument("[COMMAND]", "The command; without one, all of them.")] = ()


COMMANDS: Final[Mapping[str, tuple[type[Options], str]]] = {
    "sessions": (SessionsOptions, "commands.sessions:sessions"),
    "branch": (BranchOptions, "commands.sessions:branch"),
    "schedules": (SchedulesOptions, "commands.sessions:schedules"),
    "switch": (SwitchOptions, "commands.sessions:switch"),
    "forget": (ForgetOptions, "commands.keys:forget"),
    "keys": (KeysOptions, "commands.keys:keys"),
    "checkpoint": (CheckpointOptions, "commands.audit:checkpoint"),
    "diff": (DiffOptions, "commands.audit:diff"),
    "export": (ExportOptions, "commands.transfer:export"),
    "import": (ImportOptions, "commands.transfer:import_"),
    "log": (LogOptions, "commands.log:log"),
    "projections": (ProjectionsOptions, "commands.projections:projections"),
    "rebuild": (RebuildOptions, "commands.projections:rebuild"),
    "replay": (ReplayOptions, "commands.audit:replay"),
    "show": (ShowOptions, "commands.audit:show"),
    "stats": (StatsOptions, "commands.stats:stats"),
    "trace": (TraceOptions, "commands.trace:trace"),
    "verify": (VerifyOptions, "commands.audit:verify"),
    "extensions": (ExtensionsOptions, "extensions.page:extensions"),
    "settings": (SettingsOptions, "parsing.preferences:settings"),
    "inspect": (InspectOptions, "commands.inspect:inspect"),
    "serve": (ServeOptions, "serve:serve"),
    "test-terminal": (TestTerminalOptions, "commands.test_terminal:run_tests"),
    "completion": (CompletionOptions, "parsing.completion:print_script"),
    "help": (HelpOptions, "app:print_help"),
}
"""The commands: the class of their options, and the `module:function` that runs them."""


def function_of(options: type[Options], run: str) -> Callable[..., Command | None]:
    """Return the function that typer calls with the parsed values, to run `module:function` with the options.

    The module is imported when the command runs, so that help is fast. A group does nothing if one of its commands
    runs.
    """
    module, _, name = run.partition(":")

    def read(*, context: typer.Context, **taken: object) -> Command | None:
        if context.invoked_subcommand is not None:
            return None
        made = made_of(options, {"database": context.obj, **taken})

        def command(console: Console) -> int:
            if isinstance(made, OfLog):
                console.use_keys(made.keys)
            code: int = getattr(importlib.import_module(f"reenact.cli.{module}"), name)(made, console)
            return code

        return command

    return with_signature(read, options)


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether a command line, valid or not, asks for JSON on standard output."""
    asked = False
    for given, value in zip(arguments, [*arguments[1:], ""], strict=False):
        name, is_joined, joined = given.partition("=")
        if name == "--output-format":
            asked = (joined if is_joined else value) in ("json", "stream-json")
    return asked
