"""The commands that go elsewhere: `/resume`, `/new` and `/branch` to another session, `/model` to another model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reenact.actors.environment.claude.models import DEFAULT_MODEL
from reenact.cli.calls import cut
from reenact.cli.exact import harmless
from reenact.cli.here import Here, settle
from reenact.cli.looking import entries, newest_sessions, sessions
from reenact.cli.named import numbered_or_named
from reenact.domain.errors import InvalidInputError
from reenact.domain.messages import Message
from reenact.domain.tools import is_array, is_object

_AS_CREATED: Final = "default"
_POSITION: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS: Final = 18
_QUESTION: Final = 3
"""So many lines of the last question are shown."""
_ANSWER: Final = 6
"""So many lines of the last answer are shown."""
_MARGIN: Final = "  │ "
_WIDEST: Final = 200
_POINTS: Final = 20
"""So many messages are offered to branch off at."""


def resume(here: Here, named: str) -> None:
    """Go on with the session that is named; without a name list them."""
    if not named:
        sessions(here, "")
        here.say("/resume ID goes on with one, or /resume 2 with the second of them.")
        return
    session_id = _meant(here, named)
    if session_id == here.current.conversation.session_id:
        here.say("You are in this session.")
        return
    before = here.current.who
    here.current.resume(session_id)
    _arrive(here, "", before)


def new(here: Here, _: str) -> None:
    """Begin a new session."""
    before = here.current.who
    here.current.begin_anew()
    _arrive(here, "", before)


def branch(here: Here, rest: str) -> None:
    """Go to a branch of the session."""
    origin = here.current.conversation
    if origin.is_new:
        here.say("There is nothing to branch off from: nothing was said in this session yet.")
        return
    at, edit = _point(rest)
    before, back = here.current.who, origin.session_id
    here.current.branch(at=at, edit=edit)
    session = here.current.runtime.sessions.get(here.current.conversation.session_id)
    where = "" if session is None or session.origin is None else f" at position {session.origin.position}"
    _arrive(here, f" It branches off from {harmless(back)}{where}; /resume {harmless(back)} goes back.", before)


def model(here: Here, name: str) -> None:
    """Tell which model answers, or let another one answer from now on."""
    current = here.current
    if current.is_mocked:
        here.say(f"{current.who}. It does so whatever the model.")
        return
    if name:
        current.use(None if name == _AS_CREATED else name)
        here.say(f"{harmless(current.who)} from now on{', in this run' if current.model else ''}.")
        return
    back = "" if current.model is None else f"; /model {_AS_CREATED} goes back to what each session was created with"
    here.say(f"{harmless(current.who)}. /model NAME lets another one answer, in this run{back}.")


def models(here: Here) -> list[tuple[str, str]]:
    """Return models that may stand behind `/model`: those that have prices, and those that have answered here."""
    current = here.current
    if current.is_mocked:
        return []
    conversation = current.conversation
    used = {} if conversation.is_new else current.runtime.sessions.usage(conversation.session_id).models
    answered = [name for name in used if name and not name.startswith("@")]
    known = dict.fromkeys((*current.prices, *answered, DEFAULT_MODEL))
    words = {name: "has a price" if name in current.prices else "" for name in known}
    return [(_AS_CREATED, "what each session was created with"), *words.items()]


def points(here: Here) -> list[tuple[str, str]]:
    """Return positions that may stand behind `/branch`: those of the last messages, the newest first."""
    if here.current.conversation.is_new:
        return []
    said = entries(here, _POINTS, "message-accepted")
    return [(str(entry.position), _words(entry.data.get("content"))) for entry in reversed(said)]


def _words(content: object) -> str:
    """Return the first words of a message as the log has it."""
    texts = [one.get("text") for one in content if is_object(one)] if is_array(content) else []
    return cut(harmless(" ".join(" ".join(filter(None, map(str, texts))).split())), 60)


def _meant(here: Here, named: str) -> str:
    """Return the id of the session that is meant: by its id, its beginning, or its number in the list."""
    runtime = here.current.runtime
    if named == here.current.conversation.session_id:
        return named
    return numbered_or_named(runtime, named, here.listed or [session.id for session in newest_sessions(runtime)])


def _point(rest: str) -> tuple[int | None, str | None]:
    """Return the position and the edited message in what stands behind `/branch`."""
    word, *text = rest.split(maxsplit=1) or [""]
    if not _POSITION.fullmatch(word):
        return None, rest or None
    if len(word) <= _DIGITS and int(word) < 1:
        raise InvalidInputError(f"POSITION is a whole number from 1 on, not {word}; /log lists them")
    if len(word) > _DIGITS:
        raise InvalidInputError(f"there is no position {word:.40}")
    return int(word), text[0] if text else None


def _arrive(here: Here, more: str, before: str) -> None:
    """Say where the person is now, and see to what waits there."""
    current = here.current
    conversation = current.conversation
    messages = () if conversation.is_new else current.runtime.sessions.messages(conversation.session_id)
    so_far = f", {len(messages)} message{'' if len(messages) == 1 else 's'} so far" if messages else ""
    who = "" if current.who == before else f" {harmless(current.who)}."
    here.say(f"Session {harmless(conversation.session_id)}{so_far}.{more}{who}")
    if here.width is not None:
        show_last_exchange(here, messages, here.width())
    settle(here)


def show_last_exchange(here: Here, messages: Sequence[Message], width: int) -> None:
    """Show how the last question began and its answer ended, in a few lines of so many columns."""
    for line in _last_exchange(messages, width - len(_MARGIN)):
        here.say(f"{_MARGIN}{line}")


def _last_exchange(messages: Sequence[Message], width: int) -> list[str]:
    asked = next((place for place, one in reversed([*enumerate(messages)]) if one.role == "user" and one.text), None)
    if asked is None:
        return []
    answers = [one.text for one in messages[asked + 1 :] if one.role == "assistant" and one.text]
    question = _lines(messages[asked].text)
    answer = _lines(answers[-1]) if answers else []
    shown = [*question[:_QUESTION], *(["…"] if len(question) > _QUESTION else [])]
    shown[0] = f"You: {shown[0]}"
    shown += [*(["…"] if len(answer) > _ANSWER else []), *answer[-_ANSWER:]]
    return [cut(line, max(width, 1)) for line in shown]


def _lines(text: str) -> list[str]:
    return [harmless(line) for line in text.strip().splitlines() if line.strip()] or [""]
