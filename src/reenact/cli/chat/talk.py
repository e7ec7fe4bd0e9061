"""Opens the log, chooses the session, and runs a chat, or answers prompts as a script where there is no person."""

from __future__ import annotations

import difflib
import errno
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from reenact._runtime import SharedRuntime
from reenact.cli.chat.answering import ChatExtensions, check_policy, image_of, make_answerer
from reenact.cli.chat.commands import Commands
from reenact.cli.chat.conversation import (
    Approved,
    Conversation,
    Decision,
    Rejected,
    TurnRunner,
    new_session_id,
)
from reenact.cli.chat.current import Current, Frontend, definition_of
from reenact.cli.chat.inspect import newest_sessions
from reenact.cli.chat.navigate import choose_session, session_named
from reenact.cli.commands.sessions import log_to_write
from reenact.cli.interrupts import cleaning_up
from reenact.cli.output.answers import Answer, output, pending_line, unasked
from reenact.cli.output.console import Console
from reenact.cli.output.exact import plain_or_quoted
from reenact.cli.output.failures import (
    UNAPPROVED,
    ExitCode,
    NoInputError,
    NothingToContinueError,
    problem_of,
    timed_out,
)
from reenact.cli.output.streams import is_readable
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.configuration import functions_of, load_guards
from reenact.domain.errors import ConfigurationError, InvalidInputError, InvalidMessageError, ReenactError
from reenact.domain.image import Image, tool_names
from reenact.domain.messages import MAX_MESSAGE_BYTES, check_message, check_text
from reenact.domain.session.people import PendingCall
from reenact.domain.session.turns import REJECTED

LoadExtensions: TypeAlias = Callable[[TalkOptions, Console], ChatExtensions]
_READ_WITHIN = 3.0
"""Seconds to wait for standard input when there is also a prompt: the caller may have left it open."""


def talk(options: TalkOptions, console: Console, load_extensions: LoadExtensions) -> int:
    """Run a chat or a script as the options say, with what extensions add, and return the exit code."""
    if options.resume == "" and (not options.is_chat(console) or console.in_ci):
        raise ConfigurationError("--resume needs the ID of a session: a list to choose from is for a chat")
    if options.prompt is not None:
        question = _all_of_it(console) if options.prompt == "-" else _with_input(check_message(options.prompt), console)
        return _answer([check_message(question)], options, console, load_extensions)
    if not console.has_person:
        lines = _lines(console)
        if (first := next(lines, None)) is not None:
            return _answer(chain([first], lines), options, console, load_extensions)
        if console.in_ci or options.output_format != "text":
            raise NoInputError("there is no prompt: give -p TEXT, or the prompts as lines of standard input")
        return ExitCode.SUCCESS
    if console.in_ci:
        raise NoInputError(
            "there is no person to type in a build: give -p TEXT, or the prompts as lines of standard input"
        )
    if options.output_format != "text":
        raise ConfigurationError(f"--output-format {options.output_format} needs -p TEXT, or lines of input")
    from reenact.cli.chat.chat import chat  # noqa: PLC0415 - the line editor is loaded only for a chat

    extensions = load_extensions(options, console)
    with _conversation(options, console, extensions) as current:
        return chat(current, who=current.enter())


def _answer(prompts: Iterable[str], options: TalkOptions, console: Console, load_extensions: LoadExtensions) -> int:
    """Answer the prompt, or each line of the input; the exit code is that of the first failure."""
    extensions = load_extensions(options, console)
    with _conversation(options, console, extensions) as current:
        _announce(current, console)
        script = Script(current)
        commands = Commands(script)
        take: Callable[[str], object] = commands.run_line if options.prompt is None else script.ask
        for prompt in prompts:
            if take(prompt) is False or script.is_over:
                break
        return script.code


@contextmanager
def _conversation(options: TalkOptions, console: Console, extensions: ChatExtensions) -> Generator[Current]:
    """Open the log and choose the session: a new one, the newest one, or the one that is named."""
    texts = {"--model": options.model, "--resume": options.resume or None, "--base-url": options.base_url}
    for name, text in texts.items():
        if text is not None:
            check_text(name, text)
    with console.guarding_output():
        guarding = load_guards(options.guards)
        base = replace(image_of(options), guards=guarding.named)
        answerer = make_answerer(
            console.environ,
            provider=options.provider,
            base_url=options.base_url,
            usual_model=(options.of_new or options).model,
        )
        console.variables = answerer.variables
        if options.goes_on:
            answerer.model, answerer.system_prompt = options.model, options.system_prompt
        else:
            answerer.check_model(base.model)
        prices = answerer.prices(options.prices)
        try:
            environment = extensions.environment(answerer)
            image = extensions.image(base, goes_on=options.goes_on)
            check_policy(options, image)
            database = log_to_write(options.database, console)
            runtime = SharedRuntime.open(
                database,
                environment=environment,
                llm=answerer.llm,
                tools=functions_of(image.tools),
                guards=guarding.functions,
                prices=prices,
            )
        except BaseException:
            answerer.dispose()
            raise
        try:
            session_id = _session(options, runtime, console)
            conversation = Conversation(runtime, image, session_id=session_id, is_new=not options.goes_on)
            warn_of_unknown(options, conversation, console)
            current = Current(
                conversation,
                new_image=lambda: (
                    extensions.image(_image_of_new(options, base), goes_on=False) if options.goes_on else image
                ),
                answerer=answerer,
                extensions=extensions,
                options=options,
                console=console,
                prices=prices,
            )
            console.report_session(lambda: current.conversation.shown_id)
            extensions.begin(conversation)
            yield current
        finally:
            with cleaning_up(extensions.end):
                try:
                    runtime.close()  # the turns end first, and then what runs for them
                finally:
                    extensions.end()


def _session(options: TalkOptions, runtime: SharedRuntime, console: Console) -> str:
    """Return the id of the session to use; if the options have only a part of the id, report the whole one."""
    if options.resume is None:
        return _latest(runtime) if options.goes_on else new_session_id()
    if not options.resume:
        return choose_session(runtime, console)
    session_id = session_named(runtime, options.resume)
    if session_id != options.resume:
        console.say(f"--resume goes on with session {session_id}")
    return session_id


def _image_of_new(options: TalkOptions, base: Image) -> Image:
    """Return the image for a new session that is begun while the resumed session, with image `base`, is current."""
    if options.of_new is None:
        return base
    return replace(image_of(options.of_new, base.tools), guards=base.guards)


def _latest(runtime: SharedRuntime) -> str:
    """Return the id of the newest session that is not open in another process."""
    sessions = newest_sessions(runtime)
    for session in sessions:
        if not runtime.is_open_elsewhere(session.id):
            return session.id
    which = "other session" if sessions else "session"
    raise NothingToContinueError(f"there is no {which} to continue in this log; begin one without --continue")


def _announce(current: Current, console: Console) -> None:
    """Report on standard error who answers, in CI or if it is the mock; a person expects Claude to answer."""
    who = current.enter()
    if console.in_ci or current.is_mock:
        console.say(f"{who} (session {current.conversation.session_id})")


def _all_of_it(console: Console) -> str:
    with _readable():
        return _decoded(console.input().read(MAX_MESSAGE_BYTES + 1))


def _with_input(prompt: str, console: Console) -> str:
    """Return the prompt, followed by standard input, unless that is a terminal or sends nothing."""
    if sys.stdin is None or sys.stdin.isatty():
        return prompt
    if not is_readable(sys.stdin, _READ_WITHIN):
        console.warn(f"standard input sent nothing for {_READ_WITHIN:g} s and is ignored; < /dev/null avoids the wait")
        return prompt
    try:
        data = _decoded(console.input().read(MAX_MESSAGE_BYTES + 1))
    except OSError:  # standard input cannot be read
        return prompt
    return f"{prompt}\n\n{data}" if data.strip() else prompt


def _lines(console: Console) -> Iterator[str]:
    with _readable():
        for line in iter(partial(console.input().readline, MAX_MESSAGE_BYTES + 1), b""):
            text = _decoded(line).strip()
            if text:
                yield text


@contextmanager
def _readable() -> Generator[None]:
    """Raise `NoInputError` if standard input cannot be read."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EBADF, errno.EISDIR}:
            raise
        raise NoInputError(f"standard input cannot be read: {error.strerror}") from error


def _decoded(data: bytes) -> str:
    if len(data) > MAX_MESSAGE_BYTES:
        raise InvalidMessageError(
            f"the message in standard input has more than {MAX_MESSAGE_BYTES:,} bytes, the most that are accepted"
        )
    if b"\0" in data:
        raise InvalidInputError("standard input has a NUL in it, which no text has")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"standard input is not UTF-8: see byte {error.start} of what was read") from error


_OPTION = "--allowed-tools"
_OF_SERVERS = "mcp__"
_PATIENCE = 10
"""Maximum number of consecutive rounds in which a model requests only calls that nobody is there to approve."""


@dataclass
class Script(Frontend):
    """Answers the prompts of a script; `code` is the exit code of the first failure."""

    code: int = ExitCode.SUCCESS

    def __post_init__(self) -> None:
        self._options, self._console = self.current.options, self.current.console
        self._output = output(self._options.output_format, self._console)

    @property
    def is_over(self) -> bool:
        """Whether to send no further prompt: an answer was interrupted, or nobody reads the output."""
        return self.code == ExitCode.INTERRUPTED or self._console.gave_up

    def say(self, line: str) -> None:
        """Write the line to standard error."""
        self._console.say(line)

    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        """Send the text, and print the answer."""
        self.show(lambda runner: self.current.extensions.ask(runner, check_message(text), as_it_is=as_it_is))

    def ask_about_calls(self, pending: Sequence[PendingCall]) -> None:
        """Report the calls that wait for a person."""
        for call in pending:
            self._console.say(pending_line(call))

    def fail(self, error: ReenactError) -> None:
        """Print why a command failed."""
        self._end(unasked(self.current.conversation.shown_id, problem_of(error)))

    def show(self, act: Callable[[TurnRunner], Answer]) -> None:
        """Run the request and print its answer."""
        unattended = Unattended(self._options.allowed_tools, self._console.warn)
        runner = TurnRunner(
            self.current.conversation,
            self._output.on_event,
            unattended,
            timeout=self._options.timeout,
        )
        with self._console.waiting_at_most(self._options.timeout):
            answer = act(runner)
            if unattended.gave_up and (answer.stop_reason == REJECTED or answer.problem is not None):
                answer = replace(answer, problem=UNAPPROVED)
            self._end(answer)

    def _end(self, answer: Answer) -> None:
        self._output.end(answer)
        self.current.warn_of_unpriced()
        problem = answer.problem
        if problem is None and self._console.gave_up:
            problem = timed_out(self._options.timeout or 0.0)
            self._console.report(problem, session_id=answer.session_id or None, turn_id=answer.turn_id)
        self.code = self.code or (problem.code if problem else ExitCode.SUCCESS)


@dataclass
class Unattended:
    """Decides about calls where there is no person: approves what the options allow, rejects the rest with a reason."""

    _allowed: Sequence[str]
    _warn: Callable[[str], None]
    _refusals = 0

    def allows(self, call: PendingCall) -> bool:
        """Return whether the call may run without a person."""
        return call.kind == "approval" and any(fnmatchcase(call.name, pattern) for pattern in self._allowed)

    @property
    def gave_up(self) -> bool:
        """Whether the turn was ended because the model kept requesting calls that are rejected."""
        return self._refusals > _PATIENCE

    def __call__(self, pending: Sequence[PendingCall]) -> list[Decision]:
        """Decide about the calls."""
        refused = [call for call in pending if not self.allows(call)]
        self._refusals = self._refusals + 1 if len(refused) == len(pending) else 0
        if self.gave_up:
            return [Rejected(call=refused[0], reason=_reason(refused[0]), ends_turn=True, by=_OPTION)]
        for call in refused:
            self._warn(f"{plain_or_quoted(call.name)} was not run: {_reason(call)}")
        return [
            Rejected(call=call, reason=_reason(call), by=_OPTION)
            if call in refused
            else Approved(call=call, by=_OPTION)
            for call in pending
        ]


def _reason(call: PendingCall) -> str:
    if call.kind == "approval":
        return f"no person is there to approve it; run with {_OPTION} {call.name}"
    return "no person is there to answer it"


def warn_of_unknown(options: TalkOptions, conversation: Conversation, console: Console) -> None:
    """Warn of names in `--allowed-tools` that are not among the session's tools, as far as these are known.

    The tools of MCP servers are known only once these have answered. What settings allow applies to all sessions, so it
    is not checked.
    """
    if options.allowed_by_settings or not options.allowed_tools:
        return
    session = definition_of(conversation)
    known, has_servers = tool_names(session), bool(session.mcp_servers) or not conversation.is_new
    for name in options.allowed_tools:
        may_be_of_server = has_servers and (name.startswith(_OF_SERVERS) or "*" in name[: len(_OF_SERVERS)])
        if may_be_of_server or any(fnmatchcase(tool, name) for tool in known):
            continue
        meant = difflib.get_close_matches(name, known, 1)
        words = f"; is {meant[0]} meant?" if meant else f"; its tools are: {', '.join(sorted(known)) or 'none'}"
        console.warn(f"--allowed-tools {plain_or_quoted(name)}: the session has no such tool{words}")
