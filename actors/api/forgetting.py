"""Forgets sessions: stops and deletes them, then records the last event of each and destroys their keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Protocol

from reenact.actors.api.branching import children_of
from reenact.actors.api.reading import Log, ReadModel
from reenact.actors.envelopes import segments_of
from reenact.actors.idempotency import Askable, Attempt
from reenact.actors.journal.api import Append, Derived
from reenact.actors.session.actor import SessionActor
from reenact.domain.errors import SessionInUseError, SessionNotEncryptedError, SessionNotFoundError
from reenact.domain.messages import instant, microseconds_of
from reenact.domain.operations.table import SessionForgetRequest
from reenact.domain.session import announce as announcing
from reenact.domain.session.child_turns import WAKE
from reenact.domain.session.commands import Delete
from reenact.domain.session.state import Forgotten, KnownSession, Session, SessionForgotten, SessionInfo

_BLANK = Session()


class Branching:
    """Holds off forgetting while branches are being created in this process. Thread-safe."""

    def __init__(self) -> None:
        self._ended = threading.Condition()
        self._count = 0

    @contextmanager
    def branching(self) -> Generator[None]:
        """Hold off forgetting until the end of the block; several branches may be created at once."""
        with self._ended:
            self._count += 1
        try:
            yield
        finally:
            with self._ended:
                self._count -= 1
                self._ended.notify_all()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Wait until no branch is being created, and let none begin until the end of the block."""
        with self._ended:
            self._ended.wait_for(lambda: not self._count)
            yield


class Sessions(Protocol):
    """The part of the runtime's operations that is needed here."""

    now: Callable[[], int]
    branching: Branching

    def read(self) -> ReadModel:
        """Return the read model, once it has caught up with the log."""
        ...

    def actor_of(self, session_id: str) -> Askable:
        """Return a reference to the session's actor."""
        ...


def forget(sessions: Sessions, log: Log, request: SessionForgetRequest, attempt: Attempt) -> list[SessionInfo]:
    """Forget a session, or its whole family; return those that were forgotten by this call.

    Raises:
        SessionNotFoundError: there never was such a session.
        SessionInUseError: other sessions depend on it.
        SessionNotEncryptedError: one of them was recorded without keys, at least in part.
    """
    found = dict(_sessions_to_forget(sessions.read(), request.session_id, family=request.family))
    for id_, known in found.items():
        if not log.is_encrypted(SessionActor.stream(id_)):
            raise SessionNotEncryptedError(id_)
        if known.deleted_at is None:
            # Without the request's id: the request as a whole is carried out once, and a repeated deletion is harmless.
            sessions.actor_of(id_).ask(Delete(session_id=id_, at=sessions.now()), attempt.timeout)
        for child_id in children_of(log, id_) - found.keys():
            # The child may be about to begin; once it has replied, it has begun.
            sessions.actor_of(child_id).ask(WAKE, attempt.timeout)
    with sessions.branching.paused():
        if found.keys() == dict(_sessions_to_forget(sessions.read(), request.session_id, family=request.family)).keys():
            at = sessions.now()
            infos = [_forgotten_info(id_, known, request, at) for id_, known in found.items()]
            if found:
                steps = [_last_step(id_, known, request, at) for id_, known in found.items()]
                log.forget(steps, attempt.remembered(infos, at))
                sessions.read()  # afterwards the read model has dropped their content
            return infos
    return forget(sessions, log, request, attempt)  # another session was added meanwhile


def _sessions_to_forget(model: ReadModel, session_id: str, *, family: bool) -> Iterator[tuple[str, KnownSession]]:
    """Yield the sessions to forget."""
    ids = [session_id]
    for id_ in ids:
        known = model.known_session(id_)
        if known is None:
            raise SessionNotFoundError(id_)
        if known.forgotten_at is not None:
            continue
        dependent_sessions = model.dependent_sessions(id_)
        if dependent_sessions and not family:
            raise SessionInUseError(id_, dependent_sessions)
        ids += (one for one in dependent_sessions if one not in ids)
        yield id_, known


def _forgotten_info(session_id: str, known: KnownSession, request: SessionForgetRequest, at: int) -> SessionInfo:
    return SessionInfo(
        id=session_id,
        container_id=known.container_id,
        image_id=known.image_id,
        image_revision=known.image_revision,
        created_at=known.created_at,
        forgotten=Forgotten(at=instant(at), by=request.by, why=request.why),
    )


def _last_step(session_id: str, known: KnownSession, request: SessionForgetRequest, now: int) -> Append:
    event = SessionForgotten(
        session_id,
        known.container_id,
        known.image_id,
        known.image_revision,
        microseconds_of(known.created_at),
        request.by,
        request.why,
        deleted=known.deleted_at is not None,
    )
    needs = announcing.needed(_BLANK, (event,))
    heard = segments_of(announcing.announce(session_id, needs, (event,)), now)
    kept = Derived(announcing.TODAY, needs.stored(), heard)
    return Append(SessionActor.stream(session_id), None, now, (event,), kept)
