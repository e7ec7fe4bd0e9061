"""Opens the log, chooses the session, and asks: one prompt, each line of the input, or what a person types."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

from reenact._runtime import SharedRuntime
from reenact.cli.chat.answering import Extend, Extending, answering
from reenact.cli.chat.commands import Commands
from reenact.cli.chat.conversation import CONTAINER, IMAGE, Conversation, new_session_id
from reenact.cli.chat.current import Current
from reenact.cli.chat.navigate import choose_session, session_named
from reenact.cli.chat.script import Script, warn_of_unknown
from reenact.cli.commands.sessions import log_to_write
from reenact.cli.interrupts import cleaning_up
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode, NoInputError, NothingToContinueError
from reenact.cli.output.streams import gives
from reenact.cli.parsing.options import OutputFormat, ServeOptions, TalkOptions
from reenact.cli.settings.configuration import KNOWN_PRICES, read_policies, read_prices, read_servers
from reenact.cli.settings.tools import Offered, functions_of, load_tools
from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.image import Image, check_policy_names, define
from reenact.domain.loop.rules import MAX_STEPS
from reenact.domain.messages import check_message, check_text

_PATIENCE: Final = 3.0
"""Seconds that standard input is waited for beside a prompt: whoever started this may have left it open."""


def talk(options: TalkOptions, console: Console, extending: Extend) -> int:
    """Talk as the options say, with what extensions add, and return the exit code."""
    if options.resume == "" and (options.prompt is not None or not console.has_person or console.in_ci):
        raise ConfigurationError("--resume needs the ID of a session: a list to choose from is for a chat")
    if options.prompt is not None:
        question = _all_of_it(console) if options.prompt == "-" else _with_input(check_message(options.prompt), console)
        return _answer([check_message(question)], options, console, extending)
    if not console.has_person:
        lines = _lines(console)
        if (first := next(lines, None)) is not None:
            return _answer(chain([first], lines), options, console, extending)
        if console.in_ci or options.output_format is not OutputFormat.TEXT:
            raise NoInputError("there is no prompt: give -p TEXT, or the prompts as lines of standard input")
        return ExitCode.SUCCESS
    if console.in_ci:
        raise NoInputError("nobody types in a build: give -p TEXT, or the prompts as lines of standard input")
    if options.output_format is not OutputFormat.TEXT:
        raise ConfigurationError(f"--output-format {options.output_format.value} needs -p TEXT, or lines of input")
    from reenact.cli.chat.chat import chat  # noqa: PLC0415 - the line editor is loaded when somebody types

    added = extending(options, console, asks=True)
    with _conversation(options, console, added) as current:
        return chat(current, who=current.introduce())


def _answer(prompts: Iterable[str], options: TalkOptions, console: Console, extending: Extend) -> int:
    """Answer the prompt, or each line of the input in turn; the exit code is that of the first that failed."""
    added = extending(options, console, asks=False)
    with _conversation(options, console, added) as current:
        _announce(current, console)
        script = Script(current)
        commands = Commands(script)
        take: Callable[[str], object] = commands.take if options.prompt is None else script.ask
        for prompt in prompts:
            if take(prompt) is False or script.is_over:
                break
        return script.code


@contextmanager
def _conversation(options: TalkOptions, console: Console, added: Extending) -> Generator[Current]:
    """Open the log and choose the session: a new one, the newest, or the one that was named."""
    for name, text in (("--model", options.model), ("--resume", options.resume or None)):
        if text is not None:
            check_text(name, text)
    with console.guarding_output():
        prices = read_prices(options.prices)
        base = image_of(options)
        image = added.image(base, goes_on=options.goes_on)
        check_policy(options, image)
        answerer, llm = answering(
            console.environ,
            model=options.model if options.goes_on else None,
            system_prompt=options.system_prompt if options.goes_on else None,
        )
        functions = functions_of(image.tools)
        if answerer.mock is None:
            prices = {**KNOWN_PRICES, **prices}
        try:
            database = log_to_write(options.database, console)
            runtime = SharedRuntime.open(
                database, environment=added.environment(answerer), llm=llm, tools=functions, prices=prices
            )
        except BaseException:
            answerer.dispose()
            raise
        try:
            session_id = _session(options, runtime, console)
            conversation = Conversation(runtime, image, session_id=session_id, is_new=not options.goes_on)
            warn_of_unknown(options, image, conversation, console)
            current = Current(
                conversation,
                new_image=lambda: (
                    added.image(_image_of_new(options, base), goes_on=False) if options.goes_on else image
                ),
                answerer=answerer,
                extending=added,
                options=options,
                console=console,
                prices=prices,
            )
            console.speaks_of(lambda: current.conversation.shown_id)
            added.begin(conversation)
            yield current
        finally:
            with cleaning_up(added.end):
                try:
                    runtime.close()  # the turns hear first that they are over, and then what runs for them ends
                finally:
                    added.end()


def _session(options: TalkOptions, runtime: SharedRuntime, console: Console) -> str:
    """Return the id of the session that is to be talked in; which one is meant by a part of an id is said."""
    if options.resume is None:
        return _latest(runtime) if options.goes_on else new_session_id()
    if not options.resume:
        return choose_session(runtime, console)
    session_id = session_named(runtime, options.resume)
    if session_id != options.resume:
        console.say(f"--resume goes on with session {session_id}")
    return session_id


def _image_of_new(options: TalkOptions, base: Image) -> Image:
    """Return what a session is created with that is begun while another one goes on, for which `base` is."""
    return base if options.of_new is None else image_of(options.of_new, base.tools)


def image_of(options: TalkOptions | ServeOptions, tools: tuple[Offered, ...] | None = None) -> Image:
    """Return what a new session is created with; of one that goes on, only the functions of its tools are needed.

    If the `tools` are given they are not loaded again.
    """
    if isinstance(options, TalkOptions) and options.goes_on:
        for option in ("mcp_config", "policy", "max_turns", "max_cost"):
            if getattr(options, option) is not None:
                name = f"--{option.replace('_', '-')}"
                raise ConfigurationError(
                    f"{name} is for a new session; one that goes on keeps what it was created with"
                )
    image = Image(
        id=IMAGE,
        model=options.model,
        system_prompt=options.system_prompt,
        tools=load_tools(options.tools) if tools is None else tools,
        mcp_servers=() if options.mcp_config is None else read_servers(options.mcp_config),
        policies=None if options.policy is None else read_policies(options.policy),
        max_steps=MAX_STEPS if options.max_turns is None else options.max_turns,
        cost_limit=options.max_cost,
    )
    define(image, IMAGE)  # so that what is wrong with it is said at once
    return image


def check_policy(options: TalkOptions | ServeOptions, image: Image) -> None:
    """Raise `ConfigurationError` if --policy names a tool that the image does not have."""
    try:
        check_policy_names(define(image, IMAGE))
    except ConfigurationError as error:
        raise ConfigurationError(f"--policy {options.policy}: {error}") from None


def _latest(runtime: SharedRuntime) -> str:
    """Return the id of the newest session that is not open in another process."""
    sessions = runtime.sessions.list_by_container(CONTAINER) if runtime.containers.get(CONTAINER) else []
    for session in reversed(sessions):
        if not runtime.is_open_elsewhere(session.id):
            return session.id
    which = "other session" if sessions else "session"
    raise NothingToContinueError(f"there is no {which} to continue in this log; begin one without --continue")


def _announce(current: Current, console: Console) -> None:
    """Say on standard error what a caller should know; that Claude answers is what everybody expects."""
    who = current.introduce()
    if console.in_ci or current.is_mocked:
        console.say(f"{who} (session {current.conversation.session_id})")


def _all_of_it(console: Console) -> str:
    with _readable():
        return _decoded(console.input().read())


def _with_input(prompt: str, console: Console) -> str:
    """Return the prompt, and behind it what standard input holds, unless that is a terminal or gives nothing."""
    if sys.stdin is None or sys.stdin.isatty():
        return prompt
    if not gives(sys.stdin, _PATIENCE):
        console.warn(f"standard input sent nothing for {_PATIENCE:g} s and is ignored; < /dev/null avoids the wait")
        return prompt
    try:
        data = _decoded(console.input().read())
    except OSError:  # it is none that can be read
        return prompt
    return f"{prompt}\n\n{data}" if data.strip() else prompt


def _lines(console: Console) -> Iterator[str]:
    with _readable():
        for line in console.input():
            text = _decoded(line).strip()
            if text:
                yield text


@contextmanager
def _readable() -> Generator[None]:
    """Raise `NoInputError` if standard input is none that can be read."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EBADF, errno.EISDIR}:
            raise
        raise NoInputError(f"standard input cannot be read: {error.strerror}") from error


def _decoded(data: bytes) -> str:
    if b"\0" in data:
        raise InvalidInputError("standard input has a NUL in it, which no text has")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"standard input is not UTF-8: see byte {error.start} of what was read") from error
