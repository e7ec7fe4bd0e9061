"""The read model: answers every get and list of the facades from tables that follow the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeAlias, TypeVar

import msgspec

from reenact.domain.children import Parent
from reenact.domain.container import ContainerInfo
from reenact.domain.errors import SessionNotFoundError
from reenact.domain.image import Definition, ImageInfo, describe
from reenact.domain.loop.asking import Question
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import Block, Message, StopDetails, instant, microseconds_of
from reenact.domain.plain import made
from reenact.domain.session.agent import AgentInfo, Failure
from reenact.domain.session.people import Caller, PendingCall
from reenact.domain.session.schedules import SECOND, Schedule
from reenact.domain.session.state import BranchPoint, Forgotten, KnownSession, SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, UsageInfo, usage_info
from reenact.domain.stream.events import AgentState
from reenact.projections.generations import NAME
from reenact.projections.log import Log
from reenact.projections.read_model import compiled
from reenact.projections.read_model.projection import Readers, ReadModelTables, Store, suspect
from reenact.projections.read_model.rows import Value
from reenact.projections.read_model.sqlite_store import PrivateStore, SqliteFiles
from reenact.projections.rebuilding import FollowingProjection
from reenact.projections.runner import ProjectionTables, Runner

if TYPE_CHECKING:
    from reenact.projections.read_model.postgres_store import PostgresSchemas

Tables: TypeAlias = "SqliteFiles | PostgresSchemas"
"""The storage of the generations of the runtime's own tables."""

_PACKED: Final[Mapping[str, Callable[[bytes], object]]] = {
    **dict.fromkeys(("arguments", "digest", "original", "reason", "result", "stop_sequence"), msgspec.msgpack.decode),
    "content": msgspec.msgpack.Decoder(tuple[Block, ...]).decode,
    "definition": msgspec.msgpack.Decoder(Definition).decode,
    "failure": msgspec.msgpack.Decoder(Failure).decode,
    "question": msgspec.msgpack.Decoder(Question).decode,
    "stop_details": msgspec.msgpack.Decoder(StopDetails).decode,
    "usage": msgspec.msgpack.Decoder(dict[str, object]).decode,
}
_NUMBERS: Final[Mapping[str, Callable[[int], object]]] = {
    **dict.fromkeys(
        ("accepted_at", "asked_at", "created_at", "decided_at", "ended_at", "since", "started_at"), instant
    ),
    **dict.fromkeys(("is_error", "partial", "ran"), bool),
}
"""Converters of columns that are stored in another form, for all tables."""

_T = TypeVar("_T")


class ReadModel:
    """Queries on the projected state of the log. Thread-safe.

    Lists are in the order of creation. `after` is the last entry of the previous page, `limit` bounds a page; the cost
    of a page does not depend on where it begins. Every method raises `ReadModelError` when the tables cannot be read,
    and `RuntimeClosedError` once the model is closed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers = Readers(store)

    @classmethod
    def of(cls, log: Log) -> ReadModel:
        """Return a private model of the log's present content, in memory; it does not follow the log."""
        store = PrivateStore()
        try:
            projection = ReadModelTables(log, store)
            while projection.advance():
                pass
            projection.close(intact=True)
        except BaseException:
            store.close()
            raise
        return cls(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def switch_to(self, store: Store) -> None:
        """Read from these tables from now on, and close the connections to the previous ones."""
        self._store = store
        self._readers.switch_to(store)

    def follow_by(self, follow: Callable[[], object]) -> None:
        """Set the function to call when the tables were deleted; it switches to those that replaced them."""
        self._readers.follow = follow

    def close(self) -> None:
        """Close the tables; queries under way finish first. Idempotent."""
        self._readers.close()
        if self._readers.failed:
            self._readers.failed = False
            suspect(self._store)
        self._store.close()

    def select(self, statement: str, values: Mapping[str, Value]) -> list[tuple[Value, ...]]:
        """Return the rows of an SQL statement with named values as `:name`."""
        return self._readers.ask(statement, values)[1]

    def container(self, container_id: str) -> ContainerInfo | None:
        """Return the container, or None if there is none with this id."""
        return self._one(ContainerInfo, compiled.CONTAINER, id=container_id)

    def containers(self, *, after: str | None = None, limit: int | None = None) -> list[ContainerInfo]:
        """Return all containers."""
        return self._list(ContainerInfo, compiled.ALL_CONTAINERS, after=after, limit=limit)

    def image(self, image_id: str) -> ImageInfo | None:
        """Return the newest revision of the image, or None if there is none with this id."""
        return self._one(_image, compiled.IMAGE, id=image_id)

    def images(self, *, after: str | None = None, limit: int | None = None) -> list[ImageInfo]:
        """Return the newest revision of every image."""
        return self._list(_image, compiled.ALL_IMAGES, after=after, limit=limit)

    def image_revision(self, image_id: str, revision: int) -> Definition | None:
        """Return the definition in the image's revision, or None if there is no such revision."""
        return self._one(_definition, compiled.IMAGE_REVISION, id=image_id, which=revision)

    def session(self, session_id: str) -> SessionInfo | None:
        """Return the session, or None if there is none with this id, or it was deleted."""
        return self._one(_session, compiled.SESSION, id=session_id)

    def known_session(self, session_id: str) -> KnownSession | None:
        """Return the data known of a session even if it was deleted or forgotten; None if it never existed."""
        return self._one(KnownSession, compiled.KNOWN_SESSION, id=session_id)

    def dependent_sessions(self, session_id: str) -> list[str]:
        """Return the sessions that depend on this one: its branches, its children, and the session that called it.

        Forgotten sessions are left out.
        """
        return sorted(self._list(_id, compiled.KIN, id=session_id))

    def sessions_of(
        self, container_id: str, *, after: str | None = None, limit: int | None = None
    ) -> list[SessionInfo]:
        """Return the sessions of the container."""
        return self._list(_session, compiled.SESSIONS_OF_CONTAINER, id=container_id, after=after, limit=limit)

    def sessions(
        self,
        limit: int | None = None,
        *,
        after: str | None = None,
        container_id: str | None = None,
        waiting: bool | None = None,
        parent: str | None = None,
    ) -> list[SessionInfo]:
        """Return the sessions, newest first: of one container, and with or without a call that waits for a person.

        With a `parent`, they are its children, and no container is given.

        Raises:
            SessionNotFoundError: there never was a session with the id `after`.
        """
        if after is not None and not self._ask(compiled.SESSION_EVER, id=after):
            raise SessionNotFoundError(after)
        of = "parent" if parent is not None else "all" if container_id is None else "container"
        query = compiled.NEWEST_SESSIONS[of, waiting]
        return self._list(_session, query, id=parent or container_id, after=after, limit=limit)

    def schedules(self, session_id: str | None = None) -> list[Schedule]:
        """Return the scheduled messages by their due time: of all sessions, or of one."""
        query = compiled.SCHEDULES_DUE if session_id is None else compiled.SCHEDULES_OF_SESSION
        return self._list(_schedule, query, id=session_id)

    def agent(self, agent_id: str) -> AgentInfo | None:
        """Return the agent, or None if it is not live."""
        return self._one(_agent, compiled.AGENT, id=agent_id)

    def agents(self, *, after: str | None = None, limit: int | None = None) -> list[AgentInfo]:
        """Return the live agents in the order of their start."""
        return self._list(_agent, compiled.LIVE_AGENTS, after=after, limit=limit)

    def messages(self, session_id: str, *, after: Message | None = None, limit: int | None = None) -> list[Message]:
        """Return the session's messages by turn, each question before its answer, including queued messages."""
        place = {"asked": 0, "position": 0}  # before all
        if after is not None:
            place = self._place_of(session_id, after) or place
        query = compiled.MESSAGES_OF_BRANCH if self._is_branch(session_id) else compiled.MESSAGES_OF_SESSION
        return self._list(Message, query, id=session_id, limit=limit, **place)

    def turns_of(self, session_id: str, *, after: str | None = None, limit: int | None = None) -> list[TurnInfo]:
        """Return the session's turns in the order of their questions, each followed by the turns that continue it."""
        query = compiled.TURNS_OF_BRANCH if self._is_branch(session_id) else compiled.TURNS_OF_SESSION
        return self._list(TurnInfo, query, id=session_id, after=after, limit=limit)

    def turn_began(self, turn_id: str) -> tuple[str, bool] | None:
        """Return the turn's session, even if deleted, and whether the turn began with a message, or None."""
        return self._one(_began, compiled.TURN_BEGAN, id=turn_id)

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """Return the tool calls in the session, in the order in which the model requested them."""
        query = compiled.CALLS_OF_BRANCH if self._is_branch(session_id) else compiled.CALLS_OF_SESSION
        return self._list(partial(ToolCallInfo, session_id=session_id), query, id=session_id)

    def usage(self, session_id: str) -> UsageInfo:
        """Return the session's usage, by model and by tool."""
        of: dict[str, dict[str, Spent]] = {"model": {}, "tool": {}}
        for kind, name, spent in self._list(_used, compiled.USAGE_OF_SESSION, id=session_id):
            of[kind][name] = spent
        return usage_info(session_id, of["model"], of["tool"])

    def pending(self, session_id: str | None = None) -> list[PendingCall]:
        """Return the calls that wait for a person, oldest first.

        They are those of all sessions, or of one and its descendants.
        """
        query = compiled.PENDING if session_id is None else compiled.PENDING_OF_SESSION
        return self._with_paths(self._list(_pending, query, id=session_id))

    def pending_of_id(self, call_id: str) -> list[PendingCall]:
        """Return the calls with this id that wait for a person: one, unless a model reuses ids."""
        return self._with_paths(self._list(_pending, compiled.PENDING_OF_ID, id=call_id))

    def callers(self, session_id: str) -> tuple[Caller, ...]:
        """Return the sessions above a child session, from the root on, each with its call; empty for other sessions."""
        found: list[Caller] = []
        while (caller := self._one(_caller, compiled.CALLER, id=session_id)) is not None:
            found.append(caller)
            session_id = caller.session_id
        return tuple(reversed(found))

    def _with_paths(self, calls: list[PendingCall]) -> list[PendingCall]:
        paths = {session_id: self.callers(session_id) for session_id in {call.session_id for call in calls}}
        return [
            msgspec.structs.replace(call, path=paths[call.session_id]) if paths[call.session_id] else call
            for call in calls
        ]

    def unfinished(self) -> list[str]:
        """Return the ids of the sessions with a live agent, a turn under way, or a child that has yet to branch off."""
        return self._list(_id, compiled.UNFINISHED)

    def _is_branch(self, session_id: str) -> bool:
        found = self._ask(compiled.ORIGIN_OF_SESSION, id=session_id)
        return bool(found) and found[0]["origin"] is not None

    def _place_of(self, session_id: str, message: Message) -> dict[str, int] | None:
        at = microseconds_of(message.created_at)
        if message.turn_id is None:
            question = compiled.PLACE_OF_MESSAGE_OF_NO_TURN
            return self._one(_place, question, id=session_id, message=message.id, at=at)
        return self._one(_place, compiled.PLACE_OF_MESSAGE, turn=message.turn_id, id=message.id, at=at)

    def _one(self, make: Callable[..., _T], question: str, **values: Value) -> _T | None:
        found = self._list(make, question, **values)
        return found[0] if found else None

    def _list(self, make: Callable[..., _T], question: str, **values: Value) -> list[_T]:
        return [make(**row) for row in self._ask(question, **values)]

    def _ask(self, question: str, **values: Value) -> list[dict[str, object]]:
        """Return the rows of the query, with their columns converted."""
        names, rows = self._readers.ask(question, values)
        stored = [name for name in names if name in _PACKED or name in _NUMBERS]
        found: list[dict[str, object]] = [dict(zip(names, row, strict=True)) for row in rows]
        for row in found:
            for name in stored:
                match row[name]:
                    case bytes() as packed:
                        row[name] = _PACKED[name](packed)
                    case int() as number:
                        row[name] = _NUMBERS[name](number)
                    case _:
                        pass
        return found


def _id(*, id: str) -> str:  # noqa: A002 - the column's name
    return id


def _definition(*, definition: Definition) -> Definition:
    return definition


def _place(*, asked: int, position: int) -> dict[str, int]:
    return {"asked": asked, "position": position}


def _began(*, id: str, with_message: int) -> tuple[str, bool]:  # noqa: A002 - likewise
    return id, bool(with_message)


def _used(*, kind: str, name: str, usage: dict[str, int] | None, **columns: object) -> tuple[str, str, Spent]:
    return kind, name, made(Spent, usage=usage or {}, **columns)


def _image(*, definition: Definition, **columns: object) -> ImageInfo:
    return made(describe, content=definition, **columns)


def _session(
    *,
    origin: str | None,
    shared_until: int,
    shared_version: int,
    parent: str | None,
    parent_version: int,
    parent_call: str,
    root: str,
    depth: int,
    forgotten_at: int | None,
    forgotten_by: str,
    forgotten_why: str,
    **columns: object,
) -> SessionInfo:
    begins = None if origin is None else BranchPoint(session_id=origin, position=shared_until, version=shared_version)
    of = None
    if parent is not None:
        of = Parent(session_id=parent, version=parent_version, call_id=parent_call, root=root, depth=depth)
    gone = None
    if forgotten_at is not None:
        gone = Forgotten(at=instant(forgotten_at), by=forgotten_by, why=forgotten_why)
    return made(SessionInfo, origin=begins, parent=of, forgotten=gone, **columns)


def _schedule(*, due: int, every: int | None, until: int | None, **columns: object) -> Schedule:
    return made(
        Schedule,
        at=instant(due),
        every=None if every is None else every / SECOND,
        until=None if until is None else instant(until),
        **columns,
    )


def _agent(*, activity: AgentState | None, waits: int, failed: int, **columns: object) -> AgentInfo:
    state = activity or ("waiting_for_human_input" if waits else "error" if failed else "idle")
    return made(AgentInfo, state=state, **columns)


def _caller(*, parent: str, image_id: str | None, parent_call: str) -> Caller:
    return Caller(session_id=parent, image_id=image_id or "", call_id=parent_call)


def _pending(*, question: Question | None, **columns: object) -> PendingCall:
    return made(
        PendingCall,
        prompt=None if question is None else question.prompt,
        options=None if question is None else question.options,
        multi=question is not None and question.multi,
        **columns,
    )


_PATIENCE = 1.0
"""How long to wait for readers of replaced tables, in seconds; later the next closing or opening deletes those."""
_PAUSE = 0.01
"""The pause between two checks whether replaced tables are still read, in seconds."""

_log = logging.getLogger("reenact.projections")


class ReadModelProjection(FollowingProjection):
    """The runtime's own tables with the `model` that reads them; close this first, then the model."""

    def __init__(self, tables: Tables, log: Log, is_leader: Callable[[], bool] | None = None) -> None:
        """Open the tables, up to date, with a runner that is running; for `is_leader` see `Runner`.

        The tables are rebuilt if they are missing, damaged, ahead of the log, or of another log. Those of another
        version stay until new ones have been built beside them.

        Raises:
            ReadModelError: the tables cannot be written, or the log cannot be read.
            ProjectionFailedError: the log holds an event that cannot be projected.
        """
        self._tables = tables
        self.model = ReadModel(tables.store(1))
        super().__init__(NAME, log, tables, version=compiled.VERSION, is_leader=is_leader)
        if self._former is not None:
            _log.warning("the read model is made anew from the log: it is of version %s", self._former.version)
            self.rebuild()
        self.model.switch_to(tables.store(self.runner.number))
        self.model.follow_by(self.runner.follow)
        try:
            self.runner.catch_up()
            self.runner.start()
        except BaseException:
            self.runner.close()
            raise

    @property
    def runner(self) -> Runner:
        """The runner that moves the tables."""
        assert self._runner is not None  # the constructor has built tables of this version
        return self._runner

    def start(self) -> None:
        """Continue a rebuild that was cut short by the end of a process."""
        if self._unfinished():
            self._rebuild_in_background()

    def close(self, until: float | None = None) -> None:
        """Stop the threads, and close the tables. Idempotent."""
        super().close(until)
        self._tables.close()

    def _create(self, number: int) -> None:
        self._tables.make(number)

    def _open(self, number: int) -> ReadModelTables:
        return ReadModelTables(self._log, self._tables.store(number), self.model.switch_to)

    def _take_over(self, successor: ProjectionTables) -> None:
        super()._take_over(successor)
        self.model.switch_to(self._tables.store(successor.number))

    def _tidy(self) -> None:
        until = time.monotonic() + _PATIENCE  # queries under way take a moment
        while not self._clear_old() and time.monotonic() < until and not self._closing.wait(_PAUSE):
            pass
