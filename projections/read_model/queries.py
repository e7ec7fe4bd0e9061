"""The read model: every get and list of the facades, answered from tables that are kept up with the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final, Protocol, Self, TypeVar

import msgspec

from reenact.domain.children import Parent
from reenact.domain.container import ContainerInfo
from reenact.domain.errors import SessionNotFoundError
from reenact.domain.image import Definition, ImageInfo, describe
from reenact.domain.loop.asking import Question
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import EPOCH, Block, Message, StopDetails, instant
from reenact.domain.session.agent import AgentInfo, Failure
from reenact.domain.session.people import Caller, PendingCall
from reenact.domain.session.schedules import SECOND, Schedule
from reenact.domain.session.state import BranchPoint, Forgotten, KnownSession, SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, UsageInfo, usage_info
from reenact.domain.stream.events import AgentState
from reenact.projections.generations import NAME, Place
from reenact.projections.log import Log
from reenact.projections.read_model import compiled
from reenact.projections.read_model.projection import Projection, Readers, Store, suspect
from reenact.projections.read_model.rows import Value, made
from reenact.projections.read_model.sqlite_store import PrivateStore
from reenact.projections.rebuilding import Followed
from reenact.projections.runner import Moving, Runner

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
"""What the columns hold that are not stored as they are, whatever table they are of."""

_T = TypeVar("_T")


class ReadModel:
    """What the log comes to, as far as it is projected. Thread-safe.

    Lists are in the order in which things came to be. `after` names the last entry of the page before, `limit` bounds
    a page; a page costs the same wherever it begins. Every method raises `ReadModelError` when the tables cannot be
    read, and `RuntimeClosedError` once the model is closed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers = Readers(store)

    @classmethod
    def of(cls, log: Log) -> ReadModel:
        """Return a model of its own of what the log holds now, in memory; it does not follow the log."""
        store = PrivateStore()
        try:
            projection = Projection(log, store)
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

    def turn_to(self, store: Store) -> None:
        """Answer from these tables from now on, of which others are let go."""
        self._store = store
        self._readers.turn_to(store)

    def follow_by(self, follow: Callable[[], object]) -> None:
        """Have this called when the tables are gone that are read; it turns to those that have taken their place."""
        self._readers.follow = follow

    def close(self) -> None:
        """Let go of the tables; a question that is being answered is answered. Idempotent."""
        self._readers.close()
        if self._readers.failed:
            self._readers.failed = False
            suspect(self._store)
        self._store.close()

    def select(self, statement: str, values: Mapping[str, Value]) -> list[tuple[Value, ...]]:
        """Return the rows of a statement in SQL, which says its values as `:name`."""
        return self._readers.ask(statement, values)[1]

    def container(self, container_id: str) -> ContainerInfo | None:
        """Return the container, or None if there is none of this id."""
        return self._one(ContainerInfo, compiled.CONTAINER, id=container_id)

    def containers(self, *, after: str | None = None, limit: int | None = None) -> list[ContainerInfo]:
        """Return all containers."""
        return self._list(ContainerInfo, compiled.ALL_CONTAINERS, after=after, limit=limit)

    def image(self, image_id: str) -> ImageInfo | None:
        """Return the image in its newest revision, or None if there is none of this id."""
        return self._one(_image, compiled.IMAGE, id=image_id)

    def images(self, *, after: str | None = None, limit: int | None = None) -> list[ImageInfo]:
        """Return all images, each in its newest revision."""
        return self._list(_image, compiled.ALL_IMAGES, after=after, limit=limit)

    def image_revision(self, image_id: str, revision: int) -> Definition | None:
        """Return the content of the image's revision, or None if there is no such revision."""
        return self._one(_definition, compiled.IMAGE_REVISION, id=image_id, which=revision)

    def session(self, session_id: str) -> SessionInfo | None:
        """Return the session, or None if there is none of this id, or none any more."""
        return self._one(_session, compiled.SESSION, id=session_id)

    def known_session(self, session_id: str) -> KnownSession | None:
        """Return what every session is known by, also one that is deleted, or was forgotten; None if it never was."""
        return self._one(KnownSession, compiled.KNOWN_SESSION, id=session_id)

    def kin(self, session_id: str) -> list[str]:
        """Return the sessions that would miss this one: branches of it, its children, and the one that has called it.

        Those that were forgotten are not among them.
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
        """Return the sessions, the newest first: of one container, or with or without a call that waits for a person.

        With a `parent`, they are its children, and no container is named.

        Raises:
            SessionNotFoundError: there never was a session with the id `after`.
        """
        if after is not None and not self._ask(compiled.SESSION_EVER, id=after):
            raise SessionNotFoundError(after)
        of = "parent" if parent is not None else "all" if container_id is None else "container"
        query = compiled.NEWEST_SESSIONS[of, waiting]
        return self._list(_session, query, id=parent or container_id, after=after, limit=limit)

    def schedules(self, session_id: str | None = None) -> list[Schedule]:
        """Return the messages that are to come, those first that come first: to all sessions, or to one."""
        query = compiled.SCHEDULES_DUE if session_id is None else compiled.SCHEDULES_OF_SESSION
        return self._list(_schedule, query, id=session_id)

    def agent(self, agent_id: str) -> AgentInfo | None:
        """Return the agent, or None if it is not live."""
        return self._one(_agent, compiled.AGENT, id=agent_id)

    def agents(self, *, after: str | None = None, limit: int | None = None) -> list[AgentInfo]:
        """Return the live agents in the order in which they were started."""
        return self._list(_agent, compiled.LIVE_AGENTS, after=after, limit=limit)

    def messages(self, session_id: str, *, after: Message | None = None, limit: int | None = None) -> list[Message]:
        """Return the session's messages by turn, each question before its answer, also while it waits."""
        place = {"asked": 0, "position": 0}  # before all
        if after is not None:
            place = self._place_of(session_id, after) or place
        query = compiled.MESSAGES_OF_BRANCH if self._is_branch(session_id) else compiled.MESSAGES_OF_SESSION
        return self._list(Message, query, id=session_id, limit=limit, **place)

    def turns_of(self, session_id: str, *, after: str | None = None, limit: int | None = None) -> list[TurnInfo]:
        """Return the session's turns in the order of their questions, each followed by those that go on with it."""
        query = compiled.TURNS_OF_BRANCH if self._is_branch(session_id) else compiled.TURNS_OF_SESSION
        return self._list(TurnInfo, query, id=session_id, after=after, limit=limit)

    def turn_began(self, turn_id: str) -> tuple[str, bool] | None:
        """Return the session of the turn, also of one that is deleted, and whether it began with a message, or None."""
        return self._one(_began, compiled.TURN_BEGAN, id=turn_id)

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """Return the calls of tools in the session, in the order in which the model asked for them."""
        query = compiled.CALLS_OF_BRANCH if self._is_branch(session_id) else compiled.CALLS_OF_SESSION
        return self._list(partial(ToolCallInfo, session_id=session_id), query, id=session_id)

    def usage(self, session_id: str) -> UsageInfo:
        """Return what the session has used, by model and by tool."""
        of: dict[str, dict[str, Spent]] = {"model": {}, "tool": {}}
        for kind, name, spent in self._list(_used, compiled.USAGE_OF_SESSION, id=session_id):
            of[kind][name] = spent
        return usage_info(session_id, of["model"], of["tool"])

    def pending(self, session_id: str | None = None) -> list[PendingCall]:
        """Return the calls that wait for a person, those first that were asked for first.

        Those of all sessions, or of one and of all below it.
        """
        query = compiled.PENDING if session_id is None else compiled.PENDING_OF_SESSION
        return self._with_paths(self._list(_pending, query, id=session_id))

    def pending_of_id(self, call_id: str) -> list[PendingCall]:
        """Return the calls of this id that wait for a person: one, unless a model uses ids twice."""
        return self._with_paths(self._list(_pending, compiled.PENDING_OF_ID, id=call_id))

    def callers(self, session_id: str) -> tuple[Caller, ...]:
        """Return the sessions above a child session, from the root on, each with its call; none above any other."""
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
        """Return the ids of the sessions with a live agent or a turn under way."""
        return self._list(_id, compiled.UNFINISHED)

    def _is_branch(self, session_id: str) -> bool:
        found = self._ask(compiled.ORIGIN_OF_SESSION, id=session_id)
        return bool(found) and found[0]["origin"] is not None

    def _place_of(self, session_id: str, message: Message) -> dict[str, int] | None:
        at = (message.created_at - EPOCH) // timedelta(microseconds=1)
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
        """Return the rows that answer the question, as what their columns hold."""
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
"""Seconds that readers of the former tables are waited for; what is left is deleted at the next closing or opening."""
_PAUSE = 0.01
"""Seconds between two looks whether the former tables are still read."""

_log = logging.getLogger("reenact.projections")


class Tables(Place, Protocol):
    """Where the generations of the runtime's own tables are."""

    def make(self, number: int) -> None:
        """Make the tables of a generation, empty, entirely or not at all.

        Raises:
            ReadModelError: they cannot be written.
        """
        ...

    def store(self, number: int) -> Store:
        """Return the tables of a generation."""
        ...

    def close(self) -> None:
        """Let go of what is kept beyond the connections. Idempotent."""
        ...


class KeptReadModel(Followed):
    """The runtime's own tables, and the `model` that reads them; close this first, then the model."""

    def __init__(self, tables: Tables, log: Log, is_keeper: Callable[[], bool] | None = None) -> None:
        """Open the tables, up to date, with a runner that is running; `is_keeper` is as the runner's.

        The tables are made anew when they are missing, damaged, ahead of the log, or of another log. Those of another
        version are left until new ones have been made beside them.

        Raises:
            ReadModelError: the tables cannot be written, or the log not be read.
            ProjectionFailedError: the log holds an event that cannot be projected.
        """
        self._tables = tables
        self.model = ReadModel(tables.store(1))
        super().__init__(NAME, log, tables, version=compiled.VERSION, is_keeper=is_keeper)
        if self._former is not None:
            _log.warning("the read model is made anew from the log: it is of version %s", self._former.version)
            self.rebuild()
        self.model.turn_to(tables.store(self.runner.number))
        self.model.follow_by(self.runner.follow)
        try:
            self.runner.catch_up()
            self.runner.start()
        except BaseException:
            self.runner.close()
            raise

    @property
    def runner(self) -> Runner:
        """What moves the tables along."""
        assert self._runner is not None  # they are of this version once this is made
        return self._runner

    def start(self) -> None:
        """Go on with what somebody was killed at."""
        if self._begun():
            self._rebuild_aside()

    def close(self, until: float | None = None) -> None:
        """End what runs, and let go of the tables. Idempotent."""
        super().close(until)
        self._tables.close()

    def _create(self, number: int) -> None:
        self._tables.make(number)

    def _open(self, number: int) -> Projection:
        return Projection(self._log, self._tables.store(number), self.model.turn_to)

    def _take_over(self, successor: Moving) -> None:
        super()._take_over(successor)
        self.model.turn_to(self._tables.store(successor.number))

    def _tidy(self) -> None:
        until = time.monotonic() + _PATIENCE  # questions that were being answered are, in a moment
        while not self._clear_old() and time.monotonic() < until and not self._closing.wait(_PAUSE):
            pass
