"""Talking: the runtime is opened, the session chosen, and questions asked by an option, by lines, or by a person."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from reenact._runtime import Runtime
from reenact.actors.environment.models import DEFAULT_MODEL
from reenact.actors.ids import TimeOrderedIds
from reenact.actors.kernel.timetable import microseconds
from reenact.cli.answering import Answering, answering
from reenact.cli.commands import Commands
from reenact.cli.console import Console
from reenact.cli.conversation import CONTAINER, IMAGE, Conversation
from reenact.cli.failures import ExitCode, NoInputError, NothingToContinueError
from reenact.cli.interrupts import cleaning_up
from reenact.cli.options import OutputFormat, TalkOptions
from reenact.cli.output import output
from reenact.cli.settings import default_database, given
from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.image import Image
from reenact.domain.messages import check_message, check_text


def talk(options: TalkOptions, console: Console) -> int:
    """Talk as the options say, and return the exit code."""
    if options.prompt is not None:
        question = check_message(_all_of_it(console) if options.prompt == "-" else options.prompt)
        return _ask_once(question, options, console)
    if not console.has_person:
        return _ask_each_line(options, console)
    if console.in_ci:
        raise NoInputError("nobody types in a build: give -p TEXT, or the prompts as lines of standard input")
    if options.output_format is not OutputFormat.TEXT:
        raise ConfigurationError(f"--output-format {options.output_format.value} needs -p TEXT, or lines of input")
    from reenact.cli.chat import chat  # noqa: PLC0415 - the line editor is loaded when somebody types

    with _conversation(options, console) as (conversation, answerer):
        who = _introduce(conversation, answerer, options, console)
        return chat(conversation, console, who=who, timeout=options.timeout)


def _ask_once(question: str, options: TalkOptions, console: Console) -> int:
    with _conversation(options, console) as (conversation, answerer):
        _announce(conversation, answerer, options, console)
        out = output(options.output_format, console)
        answer = conversation.ask(question, out.hear, timeout=options.timeout)
        out.end(answer)
    return answer.problem.code if answer.problem else ExitCode.SUCCESS


def _ask_each_line(options: TalkOptions, console: Console) -> int:
    """Answer each line of the input in turn; the exit code is that of the first that failed."""
    lines = _lines(console)
    first = next(lines, None)
    if first is None:
        if console.in_ci or options.output_format is not OutputFormat.TEXT:
            raise NoInputError("there is no prompt: give -p TEXT, or the prompts as lines of standard input")
        return ExitCode.SUCCESS
    code: int = ExitCode.SUCCESS
    with _conversation(options, console) as (conversation, answerer):
        _announce(conversation, answerer, options, console)
        commands = Commands(conversation, console.say)
        out = output(options.output_format, console)
        line: str | None = first
        while line is not None:
            if line.startswith("/"):
                if not commands.obey(line):
                    break
            else:
                answer = conversation.ask(check_message(line), out.hear, timeout=options.timeout)
                out.end(answer)
                problem = answer.problem
                code = code or (problem.code if problem else ExitCode.SUCCESS)
                if problem is not None and problem.code == ExitCode.INTERRUPTED:
                    break
            line = next(lines, None)
    return code


@contextmanager
def _conversation(options: TalkOptions, console: Console) -> Generator[tuple[Conversation, Answering]]:
    """Open the log and choose the session: a new one, the newest, or the one that was named."""
    goes_on = options.continue_latest or options.resume is not None
    image = Image(id=IMAGE, model=options.model, system_prompt=options.system_prompt)
    for name, text in (("--model", options.model), ("--resume", options.resume)):
        if text is not None:
            check_text(name, text)
    answerer, llm = answering(
        console.environ,
        model=options.model if goes_on else None,
        system_prompt=options.system_prompt if goes_on else None,
    )
    try:
        runtime = Runtime.open(_database(options, console), environment=answerer, llm=llm)
    except BaseException:
        answerer.dispose()
        raise
    try:
        session_id = options.resume or (_latest(runtime) if goes_on else TimeOrderedIds(microseconds)("ses"))
        yield Conversation(runtime, image, session_id=session_id, is_new=not goes_on), answerer
    finally:
        with cleaning_up():
            runtime.close()


def _database(options: TalkOptions, console: Console) -> str:
    named = options.database or given(console.environ, "REENACT_DB")
    if named is not None:
        return named
    path = default_database(console.environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{path.parent} cannot be made ({error.strerror}); name a log with --db") from error
    return str(path)


def _latest(runtime: Runtime) -> str:
    sessions = runtime.sessions.list_by_container(CONTAINER) if runtime.containers.get(CONTAINER) else []
    if not sessions:
        raise NothingToContinueError("there is no session to continue in this log; begin one without --continue")
    return sessions[-1].id


def _introduce(conversation: Conversation, answerer: Answering, options: TalkOptions, console: Console) -> str:
    """Return who answers, and warn of what is not as the session was created."""
    if not conversation.is_new:
        conversation.run()  # whoever answers learns what the session was created with
        for departure in answerer.departures():
            console.warn(departure)
    return answerer.name(options.model or given(console.environ, "ANTHROPIC_MODEL") or DEFAULT_MODEL)


def _announce(conversation: Conversation, answerer: Answering, options: TalkOptions, console: Console) -> None:
    """Say on standard error what a caller should know; that Claude answers is what everybody expects."""
    who = _introduce(conversation, answerer, options, console)
    if console.in_ci or answerer.mock:
        console.say(f"{who} (session {conversation.session_id})")


def _all_of_it(console: Console) -> str:
    return _decoded(console.input().read())


def _lines(console: Console) -> Iterator[str]:
    for line in console.input():
        text = _decoded(line).strip()
        if text:
            yield text


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"standard input is not UTF-8: see byte {error.start} of what was read") from error
