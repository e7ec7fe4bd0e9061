"""Sessions as lines, beside whoever writes the log."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from reenact._runtime import codec
from reenact.actors.journal.opening import file_of
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.cli.console import Console
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_line
from reenact.cli.options import ListFormat, SessionsOptions
from reenact.cli.settings import default_database, given
from reenact.domain.messages import Message
from reenact.domain.session import SessionInfo
from reenact.projections.read_model.queries import ReadModel

_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_FIRST_WORDS = 60


class _Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a program reads it."""

    id: str
    created_at: datetime
    container_id: str
    image_id: str
    messages: int
    first_words: str
    waiting: int
    """Calls that wait for a person."""


def sessions(options: SessionsOptions, console: Console) -> int:
    """Print the sessions of the log, the newest first."""
    with reading(options.database, console) as journal:
        if journal is None:
            return ExitCode.SUCCESS
        with ReadModel.of(journal) as model:
            for session in model.sessions():
                messages, waiting = model.messages(session.id), len(model.pending(session.id))
                if options.output_format is ListFormat.JSON:
                    console.write(as_line(_listed(session, messages, waiting)))
                else:
                    console.write(f"{session_line(session, messages, waiting)}\n")
    return ExitCode.SUCCESS


@contextmanager
def reading(database: str | None, console: Console) -> Generator[SqliteJournal | None]:
    """Open the log for reading; None if there is none yet where it is by default."""
    path = database_of(database, console)
    if path is None:
        yield None
        return
    with SqliteJournal.open(file_of(path), codec(), read_only=True) as journal:
        yield journal


def database_of(database: str | None, console: Console) -> str | None:
    """Return the path or URL of the log; None, having said so, if there is none yet where it is by default."""
    named = database or given(console.environ, "REENACT_DB")
    path = named or str(default_database(console.environ))
    if named is None and not Path(path).exists():
        console.say(f"there is no log yet; the first conversation begins one in {path}")
        return None
    return path


def session_line(session: SessionInfo, messages: Sequence[Message], waiting: int) -> str:
    """Return a line for people: id, beginning, how many messages there are, what it is about, and if it waits."""
    began = session.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    count = f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
    waits = "  (waits for you)" if waiting else ""
    return f"{session.id}  {began}  {count:>12}  {first_words(messages)}{waits}".rstrip()


def first_words(messages: Sequence[Message]) -> str:
    """Return what the conversation began with, as it fits on a line."""
    text = visible(" ".join(messages[0].text.split())) if messages else ""
    return text if len(text) <= _FIRST_WORDS else f"{text[: _FIRST_WORDS - 1]}…"


def visible(text: str) -> str:
    """Return the text without what a terminal would obey instead of show; tabs and line ends stay."""
    return _UNSEEN.sub("", text)


def _listed(session: SessionInfo, messages: Sequence[Message], waiting: int) -> _Listed:
    return _Listed(
        id=session.id,
        created_at=session.created_at,
        container_id=session.container_id,
        image_id=session.image_id,
        messages=len(messages),
        first_words=first_words(messages),
        waiting=waiting,
    )
