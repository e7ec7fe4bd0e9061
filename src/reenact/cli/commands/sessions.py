"""The commands about sessions and key rings, opening the log for reading or writing, and the progress line."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from reenact._location import LogLocation, location_of
from reenact._runtime import SharedRuntime, codec
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.stored import StoredJournal
from reenact.cli.output.console import Console
from reenact.cli.output.failures import NoLogYetError
from reenact.cli.parsing.options import (
    BranchOptions,
    ForgetOptions,
    KeysOptions,
    SchedulesOptions,
    SessionsOptions,
    SwitchOptions,
)
from reenact.cli.settings.configuration import user_name
from reenact.cli.settings.environment import KEYS, database_of, default_database, read_variable, ring_variable
from reenact.domain.errors import ConfigurationError, InvalidInputError, SessionNotFoundError
from reenact.domain.messages import Message, text_of
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import SessionInfo
from reenact.projections.log import OnProgress, Progress
from reenact.projections.read_model.queries import ReadModel

_FIRST_WORDS = 60


def sessions(options: SessionsOptions, console: Console) -> None:
    """Print the sessions of the log, newest first."""
    with reading(options.database, console) as journal, ReadModel.of(journal) as model:
        for session in model.sessions():
            messages, waiting = model.messages(session.id), len(model.pending(session.id))
            listed = {
                "id": session.id,
                "created_at": session.created_at,
                "container_id": session.container_id,
                "image_id": session.image_id,
                "messages": len(messages),
                "first_words": first_words(messages),
                "waiting": waiting,
                "parent": None if session.parent is None else session.parent.session_id,
                "forgotten": session.forgotten,
            }
            console.show(listed, options.output_format, session_line(session, messages, waiting))


@contextmanager
def reading(database: str | None, console: Console, session: str | None = None) -> Generator[StoredJournal]:
    """Open the log for reading; raises the same errors as `log_to_read`."""
    with log_to_read(database, console, session).open(codec(), read_only=True) as journal:
        yield journal


def log_named(database: str | None, console: Console) -> LogLocation:
    """Return the location of the log, with its keys if there are any.

    Raises:
        ConfigurationError: the name is invalid, or the key ring cannot be used.
    """
    return location_of(database_of(database, console.environ), key_ring(console.environ))


def key_ring(environ: Mapping[str, str]) -> KeyRing | None:
    """Return the key ring that `REENACT_KEYS` names, a file or `env:` and a variable; None if it names none.

    Raises:
        ConfigurationError: the key ring does not exist, or cannot be used.
        MissingExtraError: the extra `encryption` is not installed.
    """
    named = read_variable(environ, KEYS)
    if named is None:
        return None
    variable = ring_variable(environ)
    return KeyRing.file(named) if variable is None else KeyRing.environment(variable)


def log_to_read(database: str | None, console: Console, session: str | None = None) -> LogLocation:
    """Return the location of the log for reading.

    Raises:
        NoLogYetError: the default log does not exist yet; the user has been told.
        SessionNotFoundError: the same, if a session in the log is requested.
    """
    named = database or read_variable(console.environ, "REENACT_DB")
    location = log_named(database, console)
    if named is None and not location.exists():
        console.say(f"there is no log yet; the first conversation begins one in {location.url}")
        raise NoLogYetError if session is None else SessionNotFoundError(session)
    return location


def runtime_with(session: str, database: str | None, console: Console) -> SharedRuntime:
    """Open the log of the session for writing; raises the same errors as `log_to_read`."""
    with reading(database, console, session):
        pass  # fails if there is no log, so that none is created
    return SharedRuntime.open(log_to_write(database, console))


def log_to_write(database: str | None, console: Console) -> LogLocation:
    """Return the location of the log for writing; create the directory of the default one."""
    if not database and read_variable(console.environ, "REENACT_DB") is None:
        folder = default_database(console.environ).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{folder} cannot be made ({error.strerror}); name a log with --db") from error
    return log_named(database, console)


def session_line(session: SessionInfo, messages: Sequence[Message], waiting: int) -> str:
    """Return a line about a session: id, start, number of messages, first words, parent, and whether it waits."""
    began = session.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    count = f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
    child = "" if session.parent is None else f"  (child of {session.parent.session_id})"
    waits = "  (waits for you)" if waiting else ""
    forgotten = "" if session.forgotten is None else f"(forgotten by {session.forgotten.by})"
    return f"{session.id}  {began}  {count:>12}  {forgotten}{first_words(messages)}{child}{waits}".rstrip()


def first_words(messages: Sequence[Message]) -> str:
    """Return the first words of the conversation, shortened to fit on a line."""
    text = " ".join(messages[0].text.split()) if messages else ""
    return text if len(text) <= _FIRST_WORDS else f"{text[: _FIRST_WORDS - 1]}…"


def branch(options: BranchOptions, console: Console) -> None:
    """Create the branch and print its id.

    Raises:
        ReenactError: the same errors as `Sessions.branch`.
    """
    with runtime_with(options.session, options.database, console) as runtime:
        session = runtime.sessions.branch(
            options.session,
            at=options.at,
            edit=options.edit,
            model=options.model,
            system_prompt=options.system_prompt,
            new_session_id=options.new_id,
        )
    console.show(session, options.output_format, session.id)


def switch(options: SwitchOptions, console: Console) -> None:
    """Hand the session over and print its id.

    Raises:
        ReenactError: the same errors as `Sessions.switch`.
    """
    with runtime_with(options.session, options.database, console) as runtime:
        if not runtime.sessions.switch(options.session, options.image, options.history):
            console.say("calls of its last turn wait for a person; it goes over when that turn has ended")
        session = runtime.sessions.get(options.session)
    if session is None:
        raise SessionNotFoundError(options.session)
    console.show(session, options.output_format, session.id)


def schedules(options: SchedulesOptions, console: Console) -> None:
    """Print the scheduled messages, or cancel schedules.

    Raises:
        InvalidInputError: there is no such schedule, or it has no further message.
        ReenactError: the same errors as `Agents.schedules`.
    """
    with reading(options.database, console) as log, ReadModel.of(log) as model:
        if options.session is not None and model.session(options.session) is None:
            raise SessionNotFoundError(options.session)
        to_come = model.schedules(options.session)
    if not options.cancel:
        for schedule in to_come:
            console.show(schedule, options.output_format, schedule_line(schedule))
        return
    with SharedRuntime.open(log_to_write(options.database, console)) as runtime:
        for schedule_id in options.cancel:
            if not runtime.agents.cancel_schedule(schedule_id):
                raise InvalidInputError(f"there is no schedule {schedule_id!r} with a message to come")
            console.write(f"{schedule_id}\n")


def schedule_line(schedule: Schedule) -> str:
    """Return a line about a schedule: id, time of the next message, interval, session, and first words."""
    at = schedule.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    every = "once" if schedule.every is None else f"every {schedule.every:g} s"
    words = " ".join(text_of(schedule.content).split())
    return f"{schedule.id}  {at}  {every}  {schedule.session_id}  {words[:_FIRST_WORDS]}".rstrip()


def keys(options: KeysOptions, console: Console) -> None:
    """Create the key ring, or add a key to it.

    Raises:
        ConfigurationError: the file exists, or does not exist if a key is to be added, or cannot be written.
        MissingExtraError: the extra `encryption` is not installed.
    """
    if options.rotate:
        KeyRing.file(options.file).rotate()
        console.say(f"{options.file} has a new key; programs that have it open use it when they open it again")
    else:
        KeyRing.generate(options.file)
        console.say(f"{options.file} is a key ring: keep a copy of it where the logs are not")


def forget(options: ForgetOptions, console: Console) -> None:
    """Forget the session, and print the ids of all sessions that were forgotten.

    Raises:
        SessionNotFoundError: there never was such a session.
        SessionInUseError: other sessions depend on it.
        SessionNotEncryptedError: it was recorded without keys.
        SessionLockedError: another process has the session open.
    """
    with runtime_with(options.session, options.database, console) as runtime:
        forgotten = runtime.sessions.forget(
            options.session, by=options.by or user_name() or "somebody", why=options.why, family=options.family
        )
    for session in forgotten:
        console.show(session, options.output_format, session.id)
    if not forgotten:
        console.say(f"session {options.session} had been forgotten")


_PAUSE = 0.1
"""Minimum interval in seconds between two updates of the line."""


@contextmanager
def progress_line(console: Console) -> Generator[OnProgress]:
    """Yield a function that shows progress on standard error, if that is a terminal; clear the line at the end."""
    if not console.err.isatty():
        yield lambda _: None
        return
    shown, last = "", 0.0

    def show(progress: Progress) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if now - last < _PAUSE:
            return
        of = "" if progress.total is None else f" of {progress.total:,}"
        line = f"{progress.phase}: {progress.done:,}{of}"
        console.err.write(f"\r{line:<{len(shown)}}")
        console.err.flush()
        shown, last = line, now

    try:
        yield show
    finally:
        if shown:
            console.err.write(f"\r{'':<{len(shown)}}\r")
            console.err.flush()
