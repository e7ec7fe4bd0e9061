"""The commands that switch sessions or models (`/resume`, `/new`, `/branch`, `/model`), and the look-up of sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reenact._runtime import Runtime
from reenact.cli.chat.current import Frontend
from reenact.cli.chat.inspect import SHOWN, last_events, newest_sessions, numbered_lines, sessions
from reenact.cli.output.answers import cut
from reenact.cli.output.console import Console
from reenact.cli.output.exact import in_rows
from reenact.cli.output.failures import NothingToContinueError
from reenact.domain.errors import InvalidInputError, ReenactError, SessionNotFoundError
from reenact.domain.legible import display_safe
from reenact.domain.messages import Message, text_of
from reenact.domain.session.agent import MessageAccepted

_AS_CREATED = "default"
_POSITION = re.compile(r"[+-]?[0-9]+")
_DIGITS = 18
_QUESTION = 3
"""Number of lines of the last question that are shown."""
_ANSWER = 6
"""Number of lines of the last answer that are shown."""
_MARGIN = "  │ "
_WIDEST = 200
_POINTS = 20
"""Number of messages that are offered as points to branch at."""


def resume(frontend: Frontend, named: str) -> None:
    """Switch to the named session; without a name, list the sessions."""
    if not named:
        sessions(frontend, "")
        frontend.say("/resume ID goes on with one, or /resume 2 with the second of them.")
        return
    session_id = _meant(frontend, named)
    if session_id == frontend.current.conversation.session_id:
        frontend.say("You are in this session.")
        return
    before = frontend.current.who
    frontend.current.resume(session_id)
    _arrive(frontend, "", before)


def new(frontend: Frontend, _: str) -> None:
    """Switch to a new session."""
    before = frontend.current.who
    frontend.current.start_new()
    _arrive(frontend, "", before)


def branch(frontend: Frontend, rest: str) -> None:
    """Switch to a branch of the session."""
    origin = frontend.current.conversation
    if origin.is_new:
        frontend.say("There is nothing to branch off from: nothing was said in this session yet.")
        return
    at, edit = _point(rest)
    before, back = frontend.current.who, origin.session_id
    frontend.current.branch(at=at, edit=edit)
    session = frontend.current.runtime.sessions.get(frontend.current.conversation.session_id)
    where = "" if session is None or session.origin is None else f" at position {session.origin.position}"
    _arrive(
        frontend, f" It branches off from {display_safe(back)}{where}; /resume {display_safe(back)} goes back.", before
    )


def model(frontend: Frontend, name: str) -> None:
    """Say which model answers, or use another one from now on."""
    current = frontend.current
    if current.is_mock:
        frontend.say(f"{current.who}. It does so whatever the model.")
        return
    if name:
        current.use_model(None if name == _AS_CREATED else name)
        frontend.say(f"{display_safe(current.who)} from now on{', in this run' if current.model else ''}.")
        return
    back = "" if current.model is None else f"; /model {_AS_CREATED} goes back to what each session was created with"
    frontend.say(f"{display_safe(current.who)}. /model NAME lets another one answer, in this run{back}.")


def models(frontend: Frontend) -> list[tuple[str, str]]:
    """Return the arguments to offer for `/model`: models that have prices, and those that have answered here."""
    current = frontend.current
    if current.is_mock:
        return []
    conversation = current.conversation
    used = {} if conversation.is_new else current.runtime.sessions.usage(conversation.session_id).models
    answered = [name for name in used if name and not name.startswith("@")]
    known = dict.fromkeys(filter(None, (*current.prices, *answered, current.answerer.default)))
    words = {name: "has a price" if name in current.prices else "" for name in known}
    return [(_AS_CREATED, "what each session was created with"), *words.items()]


def points(frontend: Frontend) -> list[tuple[str, str]]:
    """Return the arguments to offer for `/branch`: the positions of the last messages, newest first."""
    if frontend.current.conversation.is_new:
        return []
    accepted = reversed(last_events(frontend, _POINTS, "message-accepted"))
    return [
        (str(row.position), cut(display_safe(" ".join(text_of(row.event.content).split())), 60))
        for row in accepted
        if isinstance(row.event, MessageAccepted)
    ]


def _meant(frontend: Frontend, named: str) -> str:
    """Return the id of the session named by its id, the beginning of its id, or its number in the list."""
    runtime = frontend.current.runtime
    if named == frontend.current.conversation.session_id:
        return named
    return numbered_or_named(runtime, named, frontend.listed or [session.id for session in newest_sessions(runtime)])


def _point(rest: str) -> tuple[int | None, str | None]:
    """Parse the arguments of `/branch` into the position and the edited message."""
    word, *text = rest.split(maxsplit=1) or [""]
    if not _POSITION.fullmatch(word):
        return None, rest or None
    if len(word) <= _DIGITS and int(word) < 1:
        raise InvalidInputError(f"POSITION must be a whole number of 1 or more, not {word}; /log lists them")
    if len(word) > _DIGITS:
        raise InvalidInputError(f"there is no position {word:.40}")
    return int(word), text[0] if text else None


def _arrive(frontend: Frontend, more: str, before: str) -> None:
    """Say which session the person is in now, and handle what waits there."""
    current = frontend.current
    conversation = current.conversation
    messages = () if conversation.is_new else current.runtime.sessions.messages(conversation.session_id)
    so_far = f", {len(messages)} message{'' if len(messages) == 1 else 's'} so far" if messages else ""
    who = "" if current.who == before else f" {display_safe(current.who)}."
    frontend.say(f"Session {display_safe(conversation.session_id)}{so_far}.{more}{who}")
    show_last_exchange(frontend, messages)
    frontend.handle_waiting()


def show_last_exchange(frontend: Frontend, messages: Sequence[Message]) -> None:
    """Show a person the beginning of the last question and the end of its answer, in a few lines."""
    for line in () if frontend.width is None else _last_exchange(messages, frontend.width - len(_MARGIN)):
        frontend.say(f"{_MARGIN}{line}")


def _last_exchange(messages: Sequence[Message], width: int) -> list[str]:
    questions = [place for place, message in enumerate(messages) if message.role == "user" and message.text]
    if not questions:
        return []
    asked = questions[-1]
    answers = [message.text for message in messages[asked + 1 :] if message.role == "assistant" and message.text]
    question = _lines(messages[asked].text)
    answer = _lines(answers[-1]) if answers else []
    shown = [*question[:_QUESTION], *(["…"] if len(question) > _QUESTION else [])]
    shown[0] = f"You: {shown[0]}"
    shown += [*(["…"] if len(answer) > _ANSWER else []), *answer[-_ANSWER:]]
    return [cut(line, max(width, 1)) for line in shown]


def _lines(text: str) -> list[str]:
    return [display_safe(line) for line in text.strip().splitlines() if line.strip()] or [""]


_PREFIX = "ses_"
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")


def numbered_or_named(runtime: Runtime, named: str, listed: Sequence[str]) -> str:
    """Return the id of the session named by its id, the beginning of its id, or its number among those listed.

    Raises:
        InvalidInputError: there is no such number, or several ids begin with the name.
        SessionNotFoundError: there is no such session.
    """
    if not _NUMBER.fullmatch(named) or runtime.sessions.get(named) is not None:
        return session_named(runtime, named)
    if int(named) > len(listed):
        raise InvalidInputError(f"there is no session number {named}: /sessions lists {len(listed)}")
    return listed[int(named) - 1]


def session_named(runtime: Runtime, named: str) -> str:
    """Return the id of the session with this id, or the only id that begins with it, with or without `ses_`.

    Raises:
        InvalidInputError: several ids begin with the name.
        SessionNotFoundError: no id does.
    """
    if runtime.sessions.get(named) is not None:
        return named
    containers = runtime.containers.list()
    ids = [session.id for each in containers for session in runtime.sessions.list_by_container(each.id)]
    for beginning in (named, f"{_PREFIX}{named}"):
        found = [session_id for session_id in ids if session_id.startswith(beginning)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidInputError(f"{len(found)} sessions begin with {beginning!r}; type more of the id")
    raise SessionNotFoundError(named)


def choose_session(runtime: Runtime, console: Console) -> str:
    """Let the person choose a session and return its id.

    Raises:
        KeyboardInterrupt: the person chooses none.
        NothingToContinueError: there are no sessions.
    """
    from reenact.cli.editor.editor import editor_of_decisions, read_line  # noqa: PLC0415 - loaded only to choose

    screen = console.screen()
    sessions = newest_sessions(runtime)
    if not sessions:
        raise NothingToContinueError("there is no session to resume in this log; begin one without --resume")
    for line in numbered_lines(runtime, sessions):
        screen.print(in_rows(display_safe(line), screen.width))
    listed = [session.id for session in sessions[:SHOWN]]
    editor = editor_of_decisions(console)
    while True:
        try:
            return numbered_or_named(
                runtime, read_line(editor, "Which one? A number or an ID; Enter takes the newest: ") or "1", listed
            )
        except EOFError:
            raise KeyboardInterrupt from None
        except ReenactError as error:
            screen.print(in_rows(display_safe(str(error)), screen.width), style="red")
