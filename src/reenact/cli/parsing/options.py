"""The options of all commands, each declared once with its name, its help and its type."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import typer

from reenact.cli.output.console import Console, ListFormat
from reenact.cli.parsing.declaration import (
    CONVERSATION,
    OUTPUT,
    PLACES,
    TOOLS,
    Options,
    argument,
    errors_of,
    flag,
    made_of,
    names,
    number,
    option,
    with_signature,
)
from reenact.cli.settings.environment import home_directory, read_variable, settings_files
from reenact.cli.settings.values import AMOUNT, LARGEST_NUMBER, SECONDS, TURNS, OutputFormat

FORMER = frozenset({"--allow-tool", "--max-steps"})
"""Former names of options, which are accepted but not listed."""

BoundCommand: TypeAlias = Callable[[Console], int | None]
"""A command with its options, ready to run; it returns the exit code, or None for success."""


Shell: TypeAlias = Literal["bash", "zsh", "fish"]
"""A shell for which completion is supported."""


def preferred_database(environ: Mapping[str, str]) -> str | None:
    """Return the log that the user's settings name, unless `REENACT_DB` is set; None if they name none.

    Raises:
        ConfigurationError: the user's settings file is invalid.
    """
    user, _ = settings_files(environ)
    if read_variable(environ, "REENACT_DB") is not None or not os.path.lexists(user):
        return None
    from reenact.cli.settings.files import read_file  # noqa: PLC0415 - not imported without settings

    settings, _ = read_file(user, "user", home=home_directory(environ))
    return str(settings["db"].value) if "db" in settings else None


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
        "The log: a file or a postgresql:// URL. Default: REENACT_DB, or reenact.db in the user's data directory.",
        "PATH|URL",
        "--db",
        group=PLACES,
        callback=_database,
    ),
]
Keys: TypeAlias = Annotated[
    str | None,
    option(
        "The key ring of the log: a file made by `reenact keys`, or env:NAME for an environment variable. "
        "Default: REENACT_KEYS.",
        "FILE",
        group=PLACES,
    ),
]
Lines: TypeAlias = Annotated[
    ListFormat, option("Text for people, or one JSON object per line.", "text|json", group=OUTPUT)
]
Page: TypeAlias = Annotated[ListFormat, option("Text for people, or one JSON object.", "text|json", group=OUTPUT)]
Tools: TypeAlias = Annotated[
    tuple[str, ...],
    option(
        "Python functions that the agent may call: every @tool in the file, or the one named. Repeatable.",
        "FILE.py|MODULE[:NAME]",
        group=TOOLS,
    ),
]
GuardsFile: TypeAlias = Annotated[
    str | None,
    option(
        "Python functions that refuse messages, calls or answers: every @guard there, and the Guards that name them.",
        "FILE.py|MODULE",
        group=TOOLS,
    ),
]
McpConfig: TypeAlias = Annotated[
    str | None,
    option(
        'MCP servers with more tools: {"mcpServers": {NAME: {"command": …} or {"url": …}}}.', "FILE.json", group=TOOLS
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None, option("Which calls are denied, and which need approval.", "FILE.json", group=TOOLS)
]
MaxTurns: TypeAlias = Annotated[
    int | None,
    option("Call the model at most N times for one prompt.", "N", "--max-turns", "--max-steps", group=TOOLS),
    number(*TURNS),
]
MaxCost: TypeAlias = Annotated[
    float | None,
    option(
        "Stop when the session has cost more than this. Needs the model's price: a known one, or --price.",
        "AMOUNT",
        group=TOOLS,
    ),
    number(*AMOUNT, float),
]
Prices: TypeAlias = Annotated[
    tuple[str, ...],
    option(
        "The price of a million input and output tokens of a model, such as claude-x=3,15; replaces a known price. "
        "Repeatable.",
        "MODEL=IN,OUT",
        "--price",
        group=TOOLS,
    ),
]


Provider: TypeAlias = Annotated[
    str | None,
    option(
        "Who answers: openai, claude, mock, or MODULE:NAME for a provider of your own. Default: REENACT_PROVIDER, or "
        "claude if there is a key for it, else mock.",
        "NAME",
        group=CONVERSATION,
    ),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    option("The address of the provider's API, such as http://localhost:11434/v1.", "URL", group=CONVERSATION),
]


class OfLog(Options, frozen=True):
    """The options of a command that uses a log."""

    database: Database = None
    keys: Keys = None


class Paged(OfLog, frozen=True):
    """The options of a command that prints a page about a log."""

    output_format: Page = "text"


class Listing(OfLog, frozen=True):
    """The options of a command that prints a list from a log."""

    output_format: Lines = "text"


class TalkOptions(OfLog, frozen=True):
    """Talk to an agent whose every event is kept.

    At a terminal this is a chat. Without a terminal, each line of standard input is a prompt. With -p, it prints one
    answer on standard output, and nothing else. Defaults of these options can be set in settings.json: see
    `reenact settings`.

    $ reenact  # a chat; Ctrl+D leaves
    $ reenact -p "Name three colours"  # one answer
    $ reenact --continue -p "And two more?"  # continues the newest session
    $ echo "1, 2, 3" | reenact -p "Explain this"  # with standard input
    $ reenact -p "Say hello" --output-format json  # for a program
    $ reenact -p "Say hello" --max-turns 5 --timeout 60  # with limits
    $ reenact --tools reenact:ask_user  # a chat with a tool
    $ reenact log --last 10  # the latest events

    To give the agent tools, write functions into tools.py, below `from reenact import tool`, each with `@tool` above
    it. The chat asks you about calls that need approval, by @tool(intervention="required") or --policy. Where there is
    no person, they are rejected unless --allowed-tools names the tool.
    """

    prompt: Annotated[
        str | None,
        option(
            "Answer this prompt, followed by standard input if there is any, and exit; - reads all from there.",
            "TEXT",
            "--print",
            "-p",
            group=CONVERSATION,
        ),
    ] = None
    continue_latest: Annotated[bool, flag("Continue the newest session.", "--continue", "-c", group=CONVERSATION)] = (
        False
    )
    resume: Annotated[
        str | None,
        option(
            "Continue this session; `reenact sessions` lists them. In a chat, --resume without ID lets you choose.",
            "ID",
            "--resume",
            "-r",
            group=CONVERSATION,
        ),
    ] = None
    provider: Provider = None
    base_url: BaseUrl = None
    model: Annotated[
        str | None, option("The model; for a continued session, in this run only.", "NAME", group=CONVERSATION)
    ] = None
    system_prompt: Annotated[
        str | None, option("The instructions; for a continued session, in this run only.", "TEXT", group=CONVERSATION)
    ] = None
    tools: Tools = ()
    mcp_config: McpConfig = None
    policy: PolicyFile = None
    guards: GuardsFile = None
    allowed_tools: Annotated[
        tuple[str, ...],
        option(
            "The tools that run without approval where there is no person, separated by commas; * is a wildcard. "
            "Repeatable.",
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
        float | None, option("Interrupt an answer that takes longer.", "SECONDS", group=TOOLS), number(*SECONDS, float)
    ] = None
    output_format: Annotated[
        OutputFormat,
        option(
            "With -p and for lines of input: the answer as it comes (text), one JSON object, or each event as it "
            "happens and then that object.",
            "text|json|stream-json",
            group=OUTPUT,
        ),
    ] = "text"
    debug: Annotated[bool, flag("Log more, and show tracebacks.", "--debug", group=OUTPUT)] = False
    version: Annotated[bool, flag("Print the version and exit.", "--version", group=OUTPUT)] = False
    allowed_by_settings: bool = False
    """Whether the allowed tools come from settings, which apply to all sessions."""
    of_new: TalkOptions | None = None
    """The options of sessions that are begun while an existing one is continued, if settings make them differ."""

    @property
    def goes_on(self) -> bool:
        """Whether an existing session is continued."""
        return self.continue_latest or self.resume is not None

    def is_chat(self, console: Console) -> bool:
        """Return whether a person types the prompts."""
        return self.prompt is None and console.has_person


class SessionsOptions(Listing, frozen=True):
    """List the sessions, newest first: id, start, messages, first words, and whether one waits for a person.

    $ reenact sessions  # `reenact --resume ID` continues one
    $ reenact sessions --output-format json
    """


AllowActions: TypeAlias = Annotated[
    bool,
    flag("Allow the pages to approve, reject, answer, interrupt and branch.", "--allow-actions"),
]
By: TypeAlias = Annotated[
    str | None, option("The name to record for these actions. Default: your name on this machine.", "NAME")
]


class ServeOptions(OfLog, frozen=True):
    """Let other programs and web pages use the log and its agents, over WebSocket and HTTP.

    Prints its address, and runs until Ctrl+C or SIGTERM, on which it exits with 0. A server takes only `db`,
    `provider`, `baseUrl` and `model` from settings.json, and only from yours, not from a project's.

    $ reenact serve --port 0  # on any free port
    $ reenact serve --mock --db demo.db
    $ reenact serve --inspect --allow-actions
    """

    host: Annotated[str, option("The address to listen on; other machines are let in only with tokens.", "ADDRESS")] = (
        "127.0.0.1"
    )
    port: Annotated[int, option("The port; 0 chooses a free one. Default: 8000.", "N")] = 8000
    token_file: Annotated[
        str | None, option("The tokens that let clients in, one per line; # begins a comment.", "FILE")
    ] = None
    origins: Annotated[
        tuple[str, ...], option("Also allow web pages from this origin. Repeatable.", "URL", "--origin")
    ] = ()
    host_names: Annotated[
        tuple[str, ...], option("Also accept this name of the server in requests. Repeatable.", "NAME", "--host-name")
    ] = ()
    mock: Annotated[bool, flag("Answer with the mock, like MOCK_LLM=true.", "--mock")] = False
    scenario: Annotated[str | None, option("Answer with this script of the mock, like MOCK_SCENARIO.", "NAME")] = None
    inspect: Annotated[bool, flag("Also show the log as pages under /inspect; see `reenact inspect`.", "--inspect")] = (
        False
    )
    allow_actions: AllowActions = False
    by: By = None
    keep_deltas: Annotated[
        float | None,
        option("Compact the deltas of turns that ended more than this many hours ago. Default: 48.", "HOURS"),
    ] = None
    keep_consumers: Annotated[
        float | None, option("Forget clients that were last seen more than this many hours ago. Default: 24.", "HOURS")
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
    """Show the log in a browser: sessions, what happened in them and why, what waits for people, and costs.

    Prints the address of the pages, which works on this machine only, and runs until Ctrl+C or SIGTERM. Other programs
    may write the log meanwhile; this one does not change it.

    $ reenact inspect
    $ reenact inspect --db night.db --port 0  # on any free port
    $ reenact inspect --allow-actions --server http://127.0.0.1:8000  # the address of `reenact serve` on the same log
    """

    port: Annotated[int, option("The port; 0 chooses a free one. Default: 8765.", "N")] = 8765
    allow_actions: AllowActions = False
    server: Annotated[str | None, option("The server that has the log open; actions go through it.", "URL")] = None
    token_file: Annotated[str | None, option("A file whose first token is the server's.", "FILE")] = None
    by: By = None


class TestTerminalOptions(Options, frozen=True):
    """Run tests of terminal programs from files.

    Exits with 1 if any test fails or cannot run. Needs `pip install 'reenact[terminal]'`.

    $ reenact test-terminal tests.yaml
    $ reenact test-terminal tests.yaml --retries 2 --report junit=junit.xml
    """

    files: Annotated[tuple[str, ...], argument("FILE ...", "Files with tests, in YAML or JSON.")]
    config: Annotated[str | None, option("Settings for all tests, in YAML or JSON.", "FILE")] = None
    workers: Annotated[
        int | None, option("Run N tests at the same time. Default: the configuration's number, or 4.", "N", min=1)
    ] = None
    retries: Annotated[int, option("Repeat a failing test up to N times.", "N", min=0)] = 0
    reports: Annotated[
        tuple[str, ...],
        option("Write a report (junit, html, json or console) to this file. Repeatable.", "FORMAT=PATH", "--report"),
    ] = ()
    filter: Annotated[str | None, option("Run only tests with this text in the name of the suite or test.", "TEXT")] = (
        None
    )
    command: Annotated[str | None, option("The command of tests that name none.", "LINE")] = None
    keep: Annotated[
        str | None, option("Keep recordings and last screens of failing tests in this directory.", "DIR")
    ] = None


class BranchOptions(Paged, frozen=True, kw_only=True):
    """Create a session that continues the history of another one, which does not change, and print its id.

    Nothing is copied. `reenact --resume ID` continues the branch.

    $ reenact branch ses_1 --id ses_2  # from its end
    $ reenact branch ses_1 --at 42 --edit "Say it in French"  # another question
    """

    session: Annotated[str, argument("SESSION", "The session's id; it may be deleted.")]
    at: Annotated[
        int | None, option("Share the history up to this position of the log. Default: all of it.", "POSITION")
    ] = None
    edit: Annotated[str | None, option("Replace the last message up to there by this text.", "TEXT")] = None
    model: Annotated[str | None, option("The model of the branch.", "NAME")] = None
    system_prompt: Annotated[str | None, option("The instructions of the branch.", "TEXT")] = None
    new_id: Annotated[str | None, option("The id of the new session.", "NEW", "--id")] = None


class SwitchOptions(Paged, frozen=True, kw_only=True):
    """Hand a session over to another image of the log: the same conversation, another agent.

    Prints the session's id. Refused while an agent of the session runs in another process.

    $ reenact switch ses_1 billing
    $ reenact switch ses_1 billing --history none
    """

    session: Annotated[str, argument("SESSION", "The session.")]
    image: Annotated[str, argument("IMAGE", "The image that takes over.")]
    history: Annotated[
        Literal["all", "summary", "none"],
        option("How much of the conversation the new agent gets.", "all|summary|none"),
    ] = "all"


class ForgetOptions(Listing, frozen=True, kw_only=True):
    """Destroy the key of a session, so that nobody can read its content again; print the ids of forgotten sessions.

    This cannot be undone. The log must have been encrypted (--keys) when the session began. Earlier copies of the log,
    and content that was written elsewhere, such as exports, stay readable.

    $ reenact forget ses_1 --why "asked to by the customer" --keys ring.keys
    $ reenact forget ses_1 --family --keys ring.keys  # with its branches, children and parents
    """

    session: Annotated[str, argument("SESSION", "The session; it may be deleted.")]
    by: Annotated[str | None, option("The name to record in the log. Default: your name on this machine.", "NAME")] = (
        None
    )
    why: Annotated[str, option("The reason to record in the log.", "TEXT")] = ""
    family: Annotated[bool, flag("Also forget all sessions that depend on it.", "--family")] = False


class KeysOptions(Options, frozen=True, kw_only=True):
    """Create a key ring, a file that only you can read, for encrypting logs with --keys; or add a key to one.

    Without the file, nobody can read the logs that it encrypts: keep a copy of it, apart from the logs. Needs
    `pip install 'reenact[encryption]'`.

    $ reenact keys ring.keys
    $ reenact keys ring.keys --rotate  # a new key for new content; the old keys still open the rest
    """

    file: Annotated[str, argument("FILE", "The key ring.")]
    rotate: Annotated[bool, flag("Add a key to an existing key ring.", "--rotate")] = False


class SchedulesOptions(Listing, frozen=True, kw_only=True):
    """List scheduled messages, the next one first; or cancel some, and print their ids.

    $ reenact schedules
    $ reenact schedules ses_1 --output-format json
    $ reenact schedules --cancel sch_1
    """

    session: Annotated[str | None, argument("[SESSION]", "Only messages to this session.")] = None
    cancel: Annotated[tuple[str, ...], option("Cancel this schedule. Repeatable.", "SCHEDULE", "--cancel")] = ()


class DiffOptions(Paged, frozen=True, kw_only=True):
    """Show what changed in a session between two positions of the log, or how two sessions differ.

    Exits with 1 if there is any difference.

    $ reenact diff ses_1 42 57  # between two positions of the log
    $ reenact diff ses_1 ses_2  # between two sessions, such as a branch and its origin
    """

    what: Annotated[
        tuple[str, ...], argument("SESSION A B | LEFT[@A] RIGHT[@B]", "Two positions of a session, or two sessions.")
    ]


class ExportOptions(Paged, frozen=True, kw_only=True):
    """Write the log, or some of its sessions, to a file of JSON lines, which `reenact import` verifies.

    Content that is encrypted in the log is encrypted in the file.

    $ reenact export log.jsonl
    $ reenact export shared.jsonl --session ses_1 --redact-secrets
    $ reenact export --html ses_1  # one page for a browser
    """

    file: Annotated[
        str | None, argument("[FILE]", "The file to write; - is standard output. Default for a page: the session's id.")
    ] = None
    html: Annotated[str | None, option("Write a page with this session instead, for a browser.", "ID", "--html")] = None
    sessions: Annotated[
        tuple[str, ...], option("Only this session, with what it depends on. Repeatable.", "ID", "--session")
    ] = ()
    family: Annotated[bool, flag("Also the parents and children of the sessions.", "--family")] = False
    redact: Annotated[
        str | None, option("Remove the fields that this policy names, and recognised secrets.", "POLICY.json")
    ] = None
    redact_secrets: Annotated[
        bool, flag("Remove API keys, tokens, passwords in URLs and private keys.", "--redact-secrets")
    ] = False
    hash_key: Annotated[
        str | None, option("Replace equal values by equal marks: a hash with the key in this file.", "FILE")
    ] = None
    no_feeds: Annotated[bool, flag("Leave out the feeds of subscribers.", "--no-feeds")] = False


class ImportOptions(Paged, frozen=True, kw_only=True):
    """Verify an export and add it to the log, or begin a log with it: all of it, or nothing.

    $ reenact import log.jsonl --db copy.db
    """

    file: Annotated[str, argument("FILE", "The export; - is standard input.")]


Since: TypeAlias = Annotated[
    str | None, option("Only from this time on: 2026-11-21T08:30, or 15m, 2h, 7d ago.", "TIME")
]
Until: TypeAlias = Annotated[str | None, option("Only up to this time.", "TIME")]
Follow: TypeAlias = Annotated[bool, flag("Continue with new events as they come.", "--follow", "-f")]


class LogOptions(Listing, frozen=True):
    """List the events of the log, also while another program writes it.

    $ reenact log --last 20
    $ reenact log --follow --type turn_completed --output-format json
    $ reenact log --since 2h --text weather
    $ reenact log --why 42  # what an event follows from
    """

    session: Annotated[str | None, option("Only this session.", "ID")] = None
    lineage: Annotated[
        bool, flag("With --session: also the history that a branch shares with its origin.", "--lineage")
    ] = False
    agent: Annotated[str | None, option("Only events while this agent was live.", "AGENT")] = None
    types: Annotated[tuple[str, ...], option("Only events of this type. Repeatable.", "TYPE", "--type")] = ()
    since: Since = None
    until: Until = None
    text: Annotated[str | None, option("Only events that contain this text, ignoring case.")] = None
    after: Annotated[int, option("Only events after this position.", "POSITION")] = 0
    limit: Annotated[int | None, option("At most the first N.", "N", min=0, max=LARGEST_NUMBER)] = None
    last: Annotated[int | None, option("At most the last N.", "N", min=0, max=LARGEST_NUMBER)] = None
    reverse: Annotated[bool, flag("Newest first.", "--reverse")] = False
    follow: Follow = False
    why: Annotated[
        int | None, option("Explain why the event at this position happened, and what followed from it.", "POSITION")
    ] = None


class ProjectionsOptions(Listing, frozen=True):
    """List the projections: how far each is, and what has stopped it, if anything.

    Exits with 1 if one has stopped.

    $ reenact projections
    """


class RebuildOptions(Paged, frozen=True):
    """Rebuild the tables of a projection from the log, beside the ones in use, and then replace those.

    An interrupted rebuild is continued. While a program has the log open for writing, that program must do it, with
    runtime.projections.rebuild().

    $ reenact rebuild  # the runtime's tables
    $ reenact rebuild words --projections words.py  # one of your own
    """

    name: Annotated[str | None, argument("[NAME]", "One of your own projections. Default: the runtime's tables.")] = (
        None
    )
    places: Annotated[
        tuple[str, ...],
        option("A file or module with classes of projections. Repeatable.", "FILE.py|MODULE[:NAME]", "--projections"),
    ] = ()


class ReplayOptions(Listing, frozen=True):
    """Replay recorded histories with today's code, and show where its decisions differ; nothing is executed.

    With options for tools and limits, it shows which recorded decisions would be different under these. Exits with 1 if
    there is any difference.

    $ reenact replay  # the whole log
    $ reenact replay exports/  # the exports in a folder
    $ reenact replay --policy stricter.json --max-turns 20  # what if?
    """

    what: Annotated[
        tuple[str, ...],
        argument(
            "[SESSION ... | PATH ...]",
            "Sessions, exports (*.jsonl), logs (*.db), or folders of these. Default: the whole log.",
        ),
    ] = ()
    policy: Annotated[
        str | None,
        option('Apply these policies, to all images or to some: {"images": {ID: …}}.', "FILE.json", group=TOOLS),
    ] = None
    max_turns: MaxTurns = None
    max_cost: MaxCost = None
    prices: Prices = ()


class ShowOptions(Paged, frozen=True, kw_only=True):
    """Show a session as it is or was: its conversation, current turn, what waits for people, and costs.

    $ reenact show ses_1
    $ reenact show ses_1 --at 42  # as it was at that position of the log
    """

    session: Annotated[str, argument("SESSION", "The session's id.")]
    at: Annotated[int | None, option("The state at this position of the log.", "POSITION")] = None


class CheckpointOptions(Paged, frozen=True):
    """Write where every stream and feed of the log ends, so that `verify` can tell later whether any was cut off.

    Keep checkpoints apart from the log. A checkpoint is always JSON lines; the format is that of the report about a
    checkpoint that was written to a file.

    $ reenact checkpoint --output checkpoint.jsonl  # for `reenact verify --checkpoint`
    """

    output: Annotated[str | None, option("The file to write. Default: standard output, which is also -.", "FILE")] = (
        None
    )


class StatsOptions(OfLog, frozen=True):
    """Count turns, tokens, costs, errors, calls and approvals, and how long they took.

    A branch counts only its own events. Unknown costs are counted as unknown, not as 0. Days are UTC days.

    $ reenact stats --since 7d --by day
    $ reenact stats --by model --output-format csv
    $ reenact stats --by day --plot costs.svg  # for a browser
    """

    by: Annotated[
        Literal["day", "model", "image", "tool", "session"] | None,
        option("One line for each of these.", "day|model|image|tool|session"),
    ] = None
    since: Since = None
    until: Until = None
    container: Annotated[str | None, option("Only sessions in this container.", "CONTAINER")] = None
    image: Annotated[str | None, option("Only sessions of this image.", "IMAGE")] = None
    session: Annotated[str | None, option("Only this session.", "ID")] = None
    plot: Annotated[str | None, option("Also draw it; by day, if --by is not given.", "FILE.svg", group=OUTPUT)] = None
    output_format: Annotated[
        Literal["text", "json", "csv"],
        option("Text for people, one JSON object, or CSV.", "text|json|csv", group=OUTPUT),
    ] = "text"


class TraceOptions(Paged, frozen=True):
    """Send the turns in the log to an OpenTelemetry collector as spans, also while another program writes the log.

    All turns that have ended are sent; if sent again, spans have the same ids. With --follow it runs until Ctrl+C, and
    begins where it stopped the last time. Headers, such as keys, come from OTEL_EXPORTER_OTLP_HEADERS. Needs
    `pip install 'reenact[otel]'`.

    $ reenact trace --otlp http://localhost:4318 --follow
    $ reenact trace --otlp http://localhost:4318 --session ses_1 --content
    """

    otlp: Annotated[
        str | None, option("The collector's OTLP/HTTP address. Default: OTEL_EXPORTER_OTLP_ENDPOINT.", "URL")
    ] = None
    follow: Follow = False
    session: Annotated[str | None, option("Only turns of this session.", "ID")] = None
    content: Annotated[bool, flag("Also send messages, arguments and results.", "--content")] = False
    metrics: Annotated[bool, flag("Also send metrics: the sums over the whole log.", "--metrics")] = False
    state: Annotated[
        str | None,
        option(
            "Where to record what was sent, so that it is not sent again. Default with --follow: beside the log.",
            "DIR|URL",
            group=PLACES,
        ),
    ] = None


class VerifyOptions(Paged, frozen=True):
    """Check that the log is as it was written, also while another program writes it.

    Shows the first bad record of every stream and feed. Exits with 1 if there is any.

    $ reenact verify
    $ reenact verify --checkpoint checkpoint.jsonl  # also checks that nothing was cut off
    """

    checkpoint: Annotated[
        str | None, option("Compare the log with this file, which `reenact checkpoint` wrote.", "FILE")
    ] = None


class TrustOptions(Options, frozen=True):
    """Trust a project: let its hooks run and its commands be called.

    At a terminal, it shows them and asks you; otherwise it lists them. They are trusted as they are now: when one of
    them changes, none runs until they are trusted again.

    $ reenact extensions trust  # the current directory
    $ reenact extensions trust ../project --untrust
    """

    project: Annotated[str | None, argument("[PATH]", "The project's folder. Default: the current one.")] = None
    untrust: Annotated[bool, flag("Stop trusting the project.", "--untrust")] = False
    yes: Annotated[bool, flag("Trust it without asking.", "--yes")] = False


class ExtensionsOptions(Options, frozen=True):
    """List the skills, commands, agents and hooks in ~/.reenact and ./.reenact, and what was skipped.

    Exits with 1 if anything was skipped.

    $ reenact extensions
    $ reenact extensions --output-format json
    """

    output_format: Page = "text"


class SettingsOptions(Options, frozen=True):
    """Show the defaults of options, and where each of them comes from.

    Defaults come from the environment, from .reenact/settings.json in the current directory, and from
    ~/.reenact/settings.json; the first one found applies. A project's file may set only `model`, `systemPrompt`,
    `maxTurns`, `maxCost`, `prices` and `timeout`. Settings that are ignored are listed, too.

    $ reenact settings
    $ reenact settings --output-format json
    """

    output_format: Page = "text"
    database: str | None = None
    """The log that the command line names."""


class CompletionOptions(Options, frozen=True):
    """Print the script with which a shell completes the command line on Tab.

    It changes no file. Put the line for your shell into its startup file: ~/.bashrc, ~/.zshrc, or
    ~/.config/fish/config.fish.

    $ eval "$(reenact completion bash)"
    $ eval "$(reenact completion zsh)"
    $ reenact completion fish | source
    """

    shell: Annotated[Shell, argument("bash|zsh|fish", "The shell.")]


class HelpOptions(Options, frozen=True):
    """Show the help of a command.

    $ reenact help log
    $ reenact help extensions trust
    """

    words: Annotated[tuple[str, ...], argument("[COMMAND]", "The command. Default: the list of all commands.")] = ()


COMMANDS: Final[Mapping[str, tuple[type[Options], str]]] = {
    "sessions": (SessionsOptions, "commands.sessions:sessions"),
    "branch": (BranchOptions, "commands.sessions:branch"),
    "schedules": (SchedulesOptions, "commands.sessions:schedules"),
    "switch": (SwitchOptions, "commands.sessions:switch"),
    "forget": (ForgetOptions, "commands.sessions:forget"),
    "keys": (KeysOptions, "commands.sessions:keys"),
    "checkpoint": (CheckpointOptions, "commands.audit:checkpoint"),
    "diff": (DiffOptions, "commands.audit:diff"),
    "export": (ExportOptions, "commands.transfer:export"),
    "import": (ImportOptions, "commands.transfer:import_"),
    "log": (LogOptions, "commands.log:log"),
    "projections": (ProjectionsOptions, "commands.projections:projections"),
    "rebuild": (RebuildOptions, "commands.projections:rebuild"),
    "replay": (ReplayOptions, "commands.replay:replay"),
    "show": (ShowOptions, "commands.audit:show"),
    "stats": (StatsOptions, "commands.audit:stats"),
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


def typer_function(options: type[Options], run: str) -> Callable[..., BoundCommand | None]:
    """Return the function that typer calls with the parsed values, to run `module:function` with the options.

    The module is imported when the command runs, so that help is fast. A group does nothing if one of its commands
    runs.
    """
    module, _, name = run.partition(":")

    def read(*, context: typer.Context, **values: object) -> BoundCommand | None:
        if context.invoked_subcommand is not None:
            return None
        with errors_of(context):
            made = made_of(options, {"database": context.obj, **values})

        def command(console: Console) -> int | None:
            if isinstance(made, OfLog):
                console.use_keys(made.keys)
            with errors_of(context):
                code: int | None = getattr(importlib.import_module(f"reenact.cli.{module}"), name)(made, console)
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
