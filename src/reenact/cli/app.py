"""The command `reenact`: parses the command line, runs the command that it names, and turns errors into exit codes."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from typer.core import TyperGroup

from reenact._version import version
from reenact.cli.interrupts import cleaning_up, ending_on_request, keeping_exit_statuses, kill_if_stuck
from reenact.cli.output.console import ERRORS, Console
from reenact.cli.output.failures import (
    UNEXPECTED,
    ExitCode,
    NoLogYetError,
    OutputLostError,
    TerminatedError,
    problem_of,
)
from reenact.cli.parsing.commands import (
    Command,
    Group,
    clearer_error,
    given_options,
    help_for,
    look_for_garbage_seldom,
    options_of,
    refuse_options_as_values,
)
from reenact.cli.parsing.declaration import errors_of, made_of, with_signature
from reenact.cli.parsing.help_page import Section
from reenact.cli.parsing.options import (
    COMMANDS,
    BoundCommand,
    HelpOptions,
    TalkOptions,
    TrustOptions,
    typer_function,
    wants_json,
)
from reenact.cli.settings.environment import has_settings, in_ci, state_directory
from reenact.domain.errors import ReenactError

COMPLETE = "_REENACT_COMPLETE"
"""The environment variable with which the completion scripts of shells ask for completions."""
_TEXTS = ("prompt", "resume", "model", "system_prompt")
"""Options that take any text as their value, even text that looks like an option."""
_RESUME = ("--resume", "-r")
_ANYWHERE = frozenset({"database", "debug"})
"""Options that may be given before a subcommand."""

_APPENDIX: Final[Sequence[Section]] = (
    (
        "Exit codes",
        (
            ("0", "There is an answer, or what was asked for is done."),
            ("1", "Something unexpected; for some commands, that something was found."),
            ("2", "Bad arguments, configuration or input."),
            ("3", "Authentication: no key, or one that is refused."),
            ("4", "The network, or the service behind it."),
            ("5", "--timeout is over."),
            ("130, 131, 141, 143", "Ctrl+C; Ctrl+\\; nobody reads the output; terminated."),
        ),
    ),
    (
        "Environment",
        (
            ("REENACT_PROVIDER", "Who answers, unless --provider names somebody."),
            ("ANTHROPIC_API_KEY", "The key for claude; without one a mock answers, and says so."),
            ("OPENAI_API_KEY", "The key for openai; a server of your own may need none."),
            ("…_MODEL", "ANTHROPIC_MODEL or OPENAI_MODEL: the model, unless --model names one."),
            ("…_BASE_URL", "Likewise: where the API is, unless --base-url says it."),
            ("REENACT_DB", "The log, unless --db names one."),
            ("REENACT_KEYS", "Its key ring, if it is encrypted, unless --keys names one."),
            ("MOCK_LLM, MOCK_SCENARIO", "Let the mock answer, and from which script."),
            ("NO_COLOR", "No colours."),
            ("CI, GITHUB_ACTIONS, …", "No questions, and logs as lines of JSON."),
        ),
    ),
    (
        "Files",
        (
            ("~/.reenact, .reenact", "settings.json, skills, commands, agents and hooks: yours, and a project's."),
            ("~/.local/share/reenact", "The log, reenact.db, or in $XDG_DATA_HOME."),
            (
                "~/.local/state/reenact",
                "The history of the chat, errors.log, and whom you trust; or in $XDG_STATE_HOME.",
            ),
        ),
    ),
    (
        "More",
        (
            ("reenact help COMMAND", "The help of a command, with examples."),
            ("/help", "What can be typed in the chat."),
            ("docs/command-line.md", "The guide to all of this, in the source."),
        ),
    ),
)


class _Reenact(Group):
    """The command `reenact` itself."""

    appendix = _APPENDIX


app = typer.Typer(
    cls=_Reenact,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is None:
        look_for_garbage_seldom()
    arguments = sys.argv[1:] if argv is None else list(argv)
    if os.environ.get(COMPLETE):
        from reenact.cli.parsing.completion import complete  # noqa: PLC0415 - imported only for completion

        return complete(arguments, _parser(), os.environ, sys.stdout)
    state = state_directory(os.environ)
    if argv is None:
        kill_if_stuck(state / ERRORS)
    console = Console(os.environ, in_ci=in_ci(os.environ), debug="--debug" in arguments)
    console.prepare(as_json=wants_json(arguments))
    with console.logging(state), keeping_exit_statuses(), ending_on_request():
        command: BoundCommand | int | None = None
        try:
            with console.raising_output_lost(), _raising_broken_pipe():  # help is printed while parsing
                arguments = with_empty_resume(arguments)
                refuse_options_as_values(arguments, _parser(), _TEXTS)
                command = _parser()(arguments, prog_name="reenact", standalone_mode=False)
            code = command(console) if callable(command) else command
            console.flush()
        except NoLogYetError:
            return ExitCode.SUCCESS
        except BrokenPipeError:
            console.abandon()
            return ExitCode.CLOSED_PIPE
        except (Exception, KeyboardInterrupt, TerminatedError) as error:  # noqa: BLE001 - the last chance to report it
            if isinstance(error, typer.TyperException):
                return _give_up(clearer_error(error, _parser(), arguments), console, hint=help_for(error))
            return _give_up(error, console)
        return int(code or ExitCode.SUCCESS)


def with_empty_resume(arguments: Sequence[str]) -> list[str]:
    """Return the command line with an empty ID after each `--resume` that has no value."""
    named: list[str] = []
    for place, argument in enumerate(arguments):
        named.append(argument)
        if argument in _RESUME and (place + 1 == len(arguments) or arguments[place + 1].startswith("-")):
            named.append("")
    return named


def _talk(*, context: typer.Context, **values: object) -> BoundCommand | None:
    on_command_line = given_options(context)
    if context.invoked_subcommand is not None:
        _refuse(on_command_line - _ANYWHERE, context.invoked_subcommand)
        context.obj = values["database"]
        return None
    if values["version"]:
        return _print_version
    if values["continue_latest"] and values["resume"] is not None:
        raise typer.TyperException("--continue and --resume name two sessions; give one of them")
    return functools.partial(_converse, made_of(TalkOptions, values), on_command_line)


def _converse(options: TalkOptions, on_command_line: frozenset[str], console: Console) -> int:
    console.use_keys(options.keys)
    if has_settings(console.environ):
        from reenact.cli.parsing.preferences import preferred  # noqa: PLC0415 - not imported if there are no settings

        options = preferred(options, on_command_line, console)
        console.prepare(as_json=options.output_format != "text")
    from reenact.cli.chat.talk import talk  # noqa: PLC0415 - not imported for help
    from reenact.cli.extensions import load_extensions  # noqa: PLC0415 - not imported for help

    return talk(options, console, load_extensions)


@contextmanager
def _raising_broken_pipe() -> Generator[None]:
    """Raise `BrokenPipeError` where typer would exit; it has replaced the standard streams, which are put back."""
    streams = sys.stdout, sys.stderr
    try:
        yield
    except SystemExit as error:
        sys.stdout, sys.stderr = streams
        raise BrokenPipeError from error


@functools.cache
def _parser() -> TyperGroup:
    """Return the parser of the command line; it is cached because it is slow to build and `main` may run often."""
    return typer.main.get_group(app)


def _print_version(console: Console) -> None:
    console.write(f"reenact {version()}\n")


def _refuse(options: frozenset[str], command: str) -> None:
    """Refuse options before a subcommand that the subcommand would ignore."""
    root = _parser()
    wrong = [name for name, option in options_of(root).items() if option.name in options and name.startswith("--")]
    if not wrong:
        return
    if any(name in options_of(root.commands.get(command)) for name in wrong):
        raise typer.TyperException(f"{wrong[0]} comes after the command: reenact {command} {wrong[0]}")
    raise typer.TyperException(
        f"{wrong[0]} is for a conversation, and `{command}` is a command of its own; quote a prompt of several words"
    )


def _give_up(error: BaseException, console: Console, hint: str | None = None) -> int:
    """Report why there is no result, and return the exit code.

    After an interrupt or a request to end, unwritten output is not waited for; another one now ends the process at
    once.
    """
    ends = isinstance(error, KeyboardInterrupt | TerminatedError)
    with cleaning_up(), console.waiting_at_most(0.0 if ends else None):
        try:
            console.flush()
        except BrokenPipeError:
            console.abandon()
        except OutputLostError as lost:  # lost output is why code that writes there itself has failed
            error = error if isinstance(error, ReenactError) else lost
        problem = problem_of(error)
        console.report(problem, error if problem.type == UNEXPECTED else None)
        if hint is not None:
            console.say(hint)
        if console.as_json:
            from reenact.cli.output.answers import unasked, write_result  # noqa: PLC0415 - imported only when needed

            try:
                write_result(console, unasked(console.session_id or "", problem), usage=None, duration=None)
            except OSError:  # nobody reads the output, or the disk is full
                console.abandon()
        return problem.code


def print_help(options: HelpOptions, console: Console) -> None:
    """Print the help of a command."""
    command: object = _parser()
    context = typer.Context(_parser(), info_name="reenact")
    for word in options.words:
        with errors_of(context):
            if not isinstance(command, Group):
                raise typer.TyperException(f"`{context.command_path}` has no commands of its own")
            command = command.named(word)
        context = typer.Context(command, parent=context, info_name=word)
    console.write(f"{context.get_help()}\n")


def _add_commands() -> None:
    app.callback(invoke_without_command=True)(with_signature(_talk, TalkOptions))
    for name, (options, run) in COMMANDS.items():
        if name == "extensions":
            group = typer.Typer(cls=Group, add_completion=False, rich_markup_mode=None)
            group.callback(invoke_without_command=True)(typer_function(options, run))
            group.command("trust", cls=Command)(typer_function(TrustOptions, "extensions.page:trust"))
            app.add_typer(group, name=name)
        else:
            app.command(name, cls=Command)(typer_function(options, run))


_add_commands()
