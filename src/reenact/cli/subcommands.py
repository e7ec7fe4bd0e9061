"""The commands around conversations: what may be asked for, read here, done elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.arguments import (
    CONVERSATION,
    Command,
    Database,
    Lines,
    MaxCost,
    MaxTurns,
    McpConfig,
    Page,
    PolicyFile,
    Prices,
    Tools,
    amount,
    whole_number,
)
from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.options import (
    ListFormat,
    ServeOptions,
    SessionsOptions,
    SettingsOptions,
    Shell,
    TalkOptions,
    TestTerminalOptions,
)
from reenact.cli.parsing import Command as Taught
from reenact.cli.parsing import Group


def add_sessions_to(app: typer.Typer) -> None:
    """Let the command line know the command that comes first."""
    app.command("sessions", cls=Taught)(_sessions)


def add_to(app: typer.Typer) -> None:
    """Let the command line know the other commands."""
    app.command("settings", cls=Taught)(_settings)
    app.command("serve", cls=Taught)(_serve)
    app.command("test-terminal", cls=Taught)(_test_terminal)
    app.command("completion", cls=Taught)(_completion)
    app.command("help", cls=Taught)(_help)


def _sessions(*, database: Database = None, output_format: Lines = ListFormat.TEXT) -> Command:
    """List the sessions, the newest first: id, beginning, messages, first words, and if one waits for a person.

    $ reenact sessions  # `reenact --resume ID` goes on with one
    $ reenact sessions --output-format json
    """
    options = SessionsOptions(database=database, output_format=output_format)

    def sessions(console: Console) -> int:
        from reenact.cli import listing  # noqa: PLC0415 - whoever asks for help need not wait for it

        return listing.sessions(options, console)

    return sessions


def _settings(*, context: typer.Context, output_format: Page = ListFormat.TEXT) -> Command:
    """Show what options are when they are not given, and where each of them comes from.

    They come from the environment, from .reenact/settings.json of the current directory, and from
    ~/.reenact/settings.json; the first of these that has one holds. A project's file may say no more than `model`,
    `systemPrompt`, `maxTurns`, `maxCost`, `prices` and `timeout`. What is not heeded is listed, too.

    $ reenact settings
    $ reenact settings --output-format json
    """
    options = SettingsOptions(database=context.obj, output_format=output_format)

    def settings(console: Console) -> int:
        from reenact.cli import settings_page  # noqa: PLC0415 - likewise

        return settings_page.settings(options, console)

    return settings


def _serve(
    *,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; beyond this machine only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port, 8000 unless it is given; 0 takes any that is free.")
    ] = 8000,
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
        typer.Option(
            "--keep-deltas", metavar="HOURS", help="Compact the deltas of turns that ended earlier than this, or 48."
        ),
    ] = None,
    keep_consumers: Annotated[
        float | None,
        typer.Option("--keep-consumers", metavar="HOURS", help="Forget clients that have not come for so long, or 24."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="The model of the image `chat`.", rich_help_panel=CONVERSATION),
    ] = None,
    system_prompt: Annotated[
        str | None,
        typer.Option(
            "--system-prompt",
            metavar="TEXT",
            help="The instructions of the image `chat`.",
            rich_help_panel=CONVERSATION,
        ),
    ] = None,
    tools: Tools = None,
    mcp_config: McpConfig = None,
    policy: PolicyFile = None,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    prices: Prices = None,
    database: Database = None,
) -> Command:
    """Let other programs and web pages use the log and its agents, over WebSocket and HTTP.

    Prints where it listens, and goes on until Ctrl+C or SIGTERM; exits with 0 then. Of settings.json only `db` is for
    a server.

    $ reenact serve --port 0  # on any port that is free
    $ reenact serve --mock --db demo.db
    """
    talk = TalkOptions(
        database=database,
        model=model,
        system_prompt=system_prompt,
        tools=tuple(tools or ()),
        mcp_config=mcp_config,
        policy=policy,
        max_turns=whole_number("--max-turns", max_turns),
        max_cost=amount("--max-cost", max_cost),
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

    $ reenact test-terminal tests.yaml
    $ reenact test-terminal tests.yaml --retries 2 --report junit=junit.xml
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


def _completion(
    *, shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that is to complete.")]
) -> Command:
    """Print what lets a shell complete the command line with Tab.

    No file is changed. Put the line for your shell into its startup file: ~/.bashrc, ~/.zshrc, or
    ~/.config/fish/config.fish.

    $ eval "$(reenact completion bash)"
    $ eval "$(reenact completion zsh)"
    $ reenact completion fish | source
    """

    def completion(console: Console) -> int:
        from reenact.cli.completion import script  # noqa: PLC0415 - likewise

        console.write(script(shell))
        return ExitCode.SUCCESS

    return completion


def _help(
    *,
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]", help="The command; without one, all of them.")
    ] = None,
) -> Command:
    """Show the help of a command.

    $ reenact help log
    $ reenact help extensions trust
    """
    shown = context.find_root()
    command = _taught(shown.command)
    for word in words or ():
        if not isinstance(command, Group):
            raise typer.TyperException(f"`{shown.command_path}` has no commands of its own")
        command = _taught(command.named(word))
        shown = typer.Context(command, parent=shown, info_name=word)
    text = command.get_help(shown)

    def show(console: Console) -> int:
        console.write(f"{text}\n")
        return ExitCode.SUCCESS

    return show


def _taught(command: object) -> Taught | Group:
    """Return the command; all of ours have help that teaches."""
    if not isinstance(command, Taught | Group):
        raise TypeError(f"{command!r} has no help that teaches")
    return command
