"""The command `reenact`: what may be asked for, read here, done elsewhere, and the exit code that comes of it."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from reenact.cli import auditing, extensions
from reenact.cli.arguments import Command, Database, Lines
from reenact.cli.console import Console
from reenact.cli.failures import UNEXPECTED, ExitCode, OutputLostError, TerminatedError, problem_of
from reenact.cli.interrupts import ending_on_request
from reenact.cli.options import (
    ListFormat,
    OutputFormat,
    ServeOptions,
    SessionsOptions,
    TalkOptions,
    TestTerminalOptions,
    wants_json,
)
from reenact.cli.settings import in_ci, state_directory
from reenact.domain.errors import ReenactError

_EPILOG = (
    "Exit codes: 0 success, 1 unexpected, 2 arguments or configuration, 3 authentication, 4 network, 5 --timeout; "
    "130 Ctrl+C, 141 nobody reads the output, 143 terminated. Environment: ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, "
    "ANTHROPIC_MODEL, REENACT_DB, MOCK_LLM, MOCK_SCENARIO, NO_COLOR."
)
_ONLY_WHILE_TALKING = "belongs to a conversation, not to a subcommand"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Tools: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="FILE.py|MODULE[:NAME]",
        help="Python functions that the agent may call: every @tool there, or the one named. Repeatable.",
    ),
]
McpConfig: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--mcp-config", metavar="FILE.json", help='Servers with more tools: {"mcpServers": {NAME: {"command": …}}}.'
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--policy", metavar="FILE.json", help="Which calls are denied, and which a person is asked about."),
]
MaxSteps: TypeAlias = Annotated[
    int | None, typer.Option("--max-steps", metavar="N", help="Ask the model at most so often in a turn.")
]
MaxCost: TypeAlias = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="AMOUNT", help="Stop when the session has cost more; needs --price."),
]
Prices: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--price", metavar="MODEL=IN,OUT", help="What a million tokens of a model cost, in and out. Repeatable."
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks for and return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    console = Console(os.environ, in_ci=in_ci(os.environ), debug="--debug" in arguments)
    as_json = wants_json(arguments)
    console.prepare(utf8=as_json)
    with console.logging(state_directory(os.environ)), ending_on_request():
        try:
            command: Command | int | None = _parser()(arguments, prog_name="reenact", standalone_mode=False)
            code = command(console) if callable(command) else command or ExitCode.SUCCESS
            console.flush()
        except BrokenPipeError:
            console.abandon()
            return ExitCode.CLOSED_PIPE
        except (Exception, KeyboardInterrupt, TerminatedError) as error:  # noqa: BLE001 - the last one to know
            return _give_up(error, console, as_json=as_json)
        return int(code)


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def _talk(
    *,
    context: typer.Context,
    prompt: Annotated[
        str | None,
        typer.Option("--print", "-p", metavar="TEXT", help="Answer this and exit; - takes it from standard input."),
    ] = None,
    output_format: Annotated[
        OutputFormat, typer.Option("--output-format", help="How an answer is printed.")
    ] = OutputFormat.TEXT,
    continue_latest: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the newest session.")] = False,
    resume: Annotated[str | None, typer.Option("--resume", "-r", metavar="ID", help="Go on with this session.")] = None,
    database: Database = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="The model; in a session that goes on, for this run only."),
    ] = None,
    system_prompt: Annotated[
        str | None,
        typer.Option("--system-prompt", metavar="TEXT", help="The instructions; likewise, for this run only."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Interrupt an answer that takes longer.")
    ] = None,
    tools: Tools = None,
    allow_tools: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-tool",
            metavar="NAME",
            help="Where no person is to approve calls of this tool, approve them; * is a wildcard. Repeatable.",
        ),
    ] = None,
    mcp_config: McpConfig = None,
    policy: PolicyFile = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    prices: Prices = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log more, and show tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> Command | None:
    """Talk to an agent whose every event is kept.

    With a terminal this is a chat. Without one, each line of standard input is a prompt.

    An agent with tools: write functions with `from reenact import tool` and `@tool` into tools.py, then

    reenact --tools tools.py -p "What is the weather in Rome?"

    Calls that need approval, as @tool(intervention="required") or --policy say, are asked about in the chat; where no
    person is, they are rejected unless --allow-tool names them.
    """
    del debug  # it is looked for before anything can go wrong
    if version:
        return _print_version
    if context.invoked_subcommand is not None:
        _refuse(prompt, "-p")
        _refuse(continue_latest or None, "--continue")
        _refuse(resume, "--resume")
        context.obj = database
        return None
    if continue_latest and resume is not None:
        raise typer.BadParameter("--continue and --resume name two sessions; give one of them")
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise typer.BadParameter(f"--timeout is a number of seconds above 0, not {timeout:g}")
    _check_limits(max_steps, max_cost)
    options = TalkOptions(
        prompt=prompt,
        output_format=output_format,
        continue_latest=continue_latest,
        resume=resume,
        database=database,
        model=model,
        system_prompt=system_prompt,
        timeout=timeout,
        tools=tuple(tools or ()),
        allow_tools=tuple(allow_tools or ()),
        mcp_config=mcp_config,
        policy=policy,
        max_steps=max_steps,
        max_cost=max_cost,
        prices=tuple(prices or ()),
    )

    def talk(console: Console) -> int:
        from reenact.cli import talk as talking  # noqa: PLC0415 - whoever asks for help need not wait for it

        return talking.talk(options, console)

    return talk


@app.command("sessions")
def _sessions(*, context: typer.Context, database: Database = None, output_format: Lines = ListFormat.TEXT) -> Command:
    """List the sessions, the newest first: id, beginning, messages, first words, and if one waits for a person."""
    options = SessionsOptions(database=database or context.obj, output_format=output_format)

    def sessions(console: Console) -> int:
        from reenact.cli import listing  # noqa: PLC0415 - likewise

        return listing.sessions(options, console)

    return sessions


@app.command("serve")
def _serve(
    *,
    context: typer.Context,
    database: Database = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; beyond this machine only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 takes any that is free.")] = 8000,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file", metavar="FILE", help="Tokens that open the server, one a line; # begins a comment."
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="Web pages from there may use the server, too. Repeatable."),
    ] = None,
    host_names: Annotated[
        list[str] | None,
        typer.Option("--host-name", metavar="NAME", help="Clients may call the server by this name, too. Repeatable."),
    ] = None,
    mock: Annotated[bool, typer.Option("--mock", help="Let the mock answer, as MOCK_LLM=true does.")] = False,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", metavar="NAME", help="Let the mock answer from this script, as MOCK_SCENARIO does."),
    ] = None,
    keep_deltas: Annotated[
        float | None,
        typer.Option("--keep-deltas", metavar="HOURS", help="Compact the deltas of turns that ended earlier. [48]"),
    ] = None,
    keep_consumers: Annotated[
        float | None,
        typer.Option("--keep-consumers", metavar="HOURS", help="Forget clients that have not come since. [24]"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model of the image `chat`.")] = None,
    system_prompt: Annotated[
        str | None, typer.Option("--system-prompt", metavar="TEXT", help="The instructions of the image `chat`.")
    ] = None,
    tools: Tools = None,
    mcp_config: McpConfig = None,
    policy: PolicyFile = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    prices: Prices = None,
) -> Command:
    """Let other programs and web pages use the log and its agents, over WebSocket and HTTP.

    Prints where it listens, and goes on until Ctrl+C or SIGTERM; exits with 0 then.
    """
    _check_limits(max_steps, max_cost)
    talk = TalkOptions(
        database=database or context.obj,
        model=model,
        system_prompt=system_prompt,
        tools=tuple(tools or ()),
        mcp_config=mcp_config,
        policy=policy,
        max_steps=max_steps,
        max_cost=max_cost,
        prices=tuple(prices or ()),
    )
    options = ServeOptions(
        talk=talk,
        host=host,
        port=port,
        token_file=token_file,
        origins=tuple(origins or ()),
        host_names=tuple(host_names or ()),
        mock=mock,
        scenario=scenario,
        keep_deltas=keep_deltas,
        keep_consumers=keep_consumers,
    )

    def serve(console: Console) -> int:
        from reenact.cli import serve as serving  # noqa: PLC0415 - likewise

        return serving.serve(options, console)

    return serve


@app.command("test-terminal")
def _test_terminal(
    *,
    files: Annotated[list[str], typer.Argument(metavar="FILE ...", help="Tests, as YAML or JSON.")],
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="What holds for all of them, as YAML or JSON.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", min=1, help="Run so many at the same time; else the configuration's, 4."
        ),
    ] = None,
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", min=0, help="Try a test that fails again, so often at most.")
    ] = 0,
    reports: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT=PATH", help="Write junit, html, json or console there. Repeatable."),
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", metavar="TEXT", help="Run only what has this in the name of suite or test."),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="LINE", help="What tests run that name no command themselves.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="DIR", help="Keep recordings and last screens of tests that fail there."),
    ] = None,
) -> Command:
    """Test programs at a terminal, by scripts in files.

    Exits with 1 if any test fails or cannot be carried out. Needs `pip install 'reenact[terminal]'`.
    """
    options = TestTerminalOptions(
        files=tuple(files),
        config=config,
        workers=workers,
        retries=retries,
        reports=tuple(reports or ()),
        filter=filter_,
        command=command,
        keep=keep,
    )

    def test_terminal(console: Console) -> int:
        from reenact.cli import test_terminal as testing  # noqa: PLC0415 - likewise

        return testing.run_tests(options, console)

    return test_terminal


@functools.cache
def _parser() -> Callable[..., Any]:
    """Return what reads arguments; to make it takes long, and whoever calls `main` often need not wait each time."""
    return typer.main.get_command(app)


def _check_limits(max_steps: int | None, max_cost: float | None) -> None:
    if max_cost is not None and not (max_cost >= 0 and math.isfinite(max_cost)):
        raise typer.BadParameter(f"--max-cost is an amount of 0 or more, not {max_cost:g}")
    if max_steps is not None and max_steps < 1:
        raise typer.BadParameter(f"--max-steps is a number from 1 on, not {max_steps}")


def _print_version(console: Console) -> int:
    from reenact.cli.version import version  # noqa: PLC0415 - likewise

    console.write(f"reenact {version()}\n")
    return ExitCode.SUCCESS


def _refuse(value: object, option: str) -> None:
    if value is not None:
        raise typer.BadParameter(f"{option} {_ONLY_WHILE_TALKING}")


def _give_up(error: BaseException, console: Console, *, as_json: bool) -> int:
    """Say why there is no result, and return the exit code for it."""
    try:
        console.flush()
    except BrokenPipeError:
        console.abandon()
    except OutputLostError as lost:  # which is why others have failed, who write there themselves
        error = error if isinstance(error, ReenactError) else lost
    problem = problem_of(error)
    console.report(problem, error if problem.type == UNEXPECTED else None)
    if isinstance(error, typer.TyperException):
        console.say("reenact --help lists what may be asked for")
    if as_json:
        from reenact.cli.output import Result, write_result  # noqa: PLC0415 - likewise

        try:
            write_result(console, Result(success=False, session_id=console.session_id, error=problem))
        except OSError:  # nobody reads it, or there is no space for it
            console.abandon()
    return problem.code


auditing.add_to(app)
extensions.add_to(app)
