"""The read model: every get and list of the facades, answered from the tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from reenact.domain.agent import AgentInfo, Failure
from reenact.domain.container import ContainerInfo
from reenact.domain.errors import SessionNotFoundError
from reenact.domain.events import AgentState
from reenact.domain.history import ToolCallInfo, TurnInfo, UsageInfo, usage_info
from reenact.domain.image import Definition, ImageInfo, describe
from reenact.domain.loop.asking import Question
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import EPOCH, Block, Message, StopDetails, instant
from reenact.domain.people import PendingCall
from reenact.domain.session import BranchPoint, SessionInfo
from reenact.projections import compiled
from reenact.projections.connections import PrivateStore, Store
from reenact.projections.log import Log
from reenact.projections.projection import Projection, suspect
from reenact.projections.readers import Readers
from reenact.projections.statements import Statement, Value

_content: Final = msgspec.msgpack.Decoder(tuple[Block, ...]).decode
_usage: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode
_value: Final = msgspec.msgpack.Decoder().decode
_question: Final = msgspec.msgpack.Decoder(Question).decode
_counts: Final = msgspec.msgpack.Decoder(dict[str, int]).decode
_failure: Final = msgspec.msgpack.Decoder(Failure).decode
_stop_details: Final = msgspec.msgpack.Decoder(StopDetails).decode
_definition: Final = msgspec.msgpack.Decoder(Definition).decode


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def turn_to(self, store: Store) -> None:
        """Answer from these tables from now on, of which others are let go."""
        self._store = store
        self._readers.turn_to(store)

    def close(self) -> None:
        """Let go of the tables; a question that is being answered is answered. Idempotent."""
        self._readers.close()
        if self._readers.failed:
            self._readers.failed = False
            suspect(self._store)
        self._store.close()

    def container(self, container_id: str) -> ContainerInfo | None:
        """Return the container, or None if there is none of this id."""
        rows = self._ask(compiled.CONTAINER, id=container_id)
        return _container(rows[0]) if rows else None

    def containers(self, *, after: str | None = None, limit: int | None = None) -> list[ContainerInfo]:
        """Return all containers."""
        return [_container(row) for row in self._ask(compiled.ALL_CONTAINERS, after=after, limit=_most(limit))]

    def image(self, image_id: str) -> ImageInfo | None:
        """Return the image in its newest revision, or None if there is none of this id."""
        rows = self._ask(compiled.IMAGE, id=image_id)
        return _image(rows[0]) if rows else None

    def images(self, *, after: str | None = None, limit: int | None = None) -> list[ImageInfo]:
        """Return all images, each in its newest revision."""
        return [_image(row) for row in self._ask(compiled.ALL_IMAGES, after=after, limit=_most(limit))]

    def image_revision(self, image_id: str, revision: int) -> Definition | None:
        """Return the content of the image's revision, or None if there is no such revision."""
        rows = self._ask(compiled.IMAGE_REVISION, id=image_id, which=revision)
        return _definition(rows[0][0]) if rows else None

    def session(self, session_id: str) -> SessionInfo | None:
        """Return the session, or None if there is none of this id, or none any more."""
        rows = self._ask(compiled.SESSION, id=session_id)
        return _session(rows[0]) if rows else None

    def sessions_of(
        self, container_id: str, *, after: str | None = None, limit: int | None = None
    ) -> list[SessionInfo]:
        """Return the sessions of the container."""
        query = compiled.SESSIONS_OF_CONTAINER
        return [_session(row) for row in self._ask(query, id=container_id, after=after, limit=_most(limit))]

    def sessions(
        self,
        limit: int | None = None,
        *,
        after: str | None = None,
        container_id: str | None = None,
        waiting: bool | None = None,
    ) -> list[SessionInfo]:
        """Return the sessions, the newest first: of one container, or with or without a call that waits for a person.

        Raises:
            SessionNotFoundError: there never was a session with the id `after`.
        """
        if after is not None and not self._ask(compiled.SESSION_EVER, id=after):
            raise SessionNotFoundError(after)
        query = compiled.NEWEST_SESSIONS[container_id is not None, waiting]
        rows = self._ask(query, id=container_id, after=after, limit=_most(limit))
        return [_session(row) for row in rows]

    def latest_session(self) -> SessionInfo | None:
        """Return the newest session, or None if there is none."""
        newest = self.sessions(1)
        return newest[0] if newest else None

    def agent(self, agent_id: str) -> AgentInfo | None:
        """Return the agent, or None if it is not live."""
        rows = self._ask(compiled.AGENT, id=agent_id)
        return _agent(rows[0]) if rows else None

    def agents(self, *, after: str | None = None, limit: int | None = None) -> list[AgentInfo]:
        """Return the live agents in the order in which they were started."""
        return [_agent(row) for row in self._ask(compiled.LIVE_AGENTS, after=after, limit=_most(limit))]

    def messages(self, session_id: str, *, after: Message | None = None, limit: int | None = None) -> list[Message]:
        """Return the session's messages by turn, each question before its answer, also while it waits."""
        asked, position = 0, 0  # before all
        if after is not None:
            place = self._place_of(session_id, after)
            asked, position = place[0] if place else (asked, position)
        query = compiled.MESSAGES_OF_BRANCH if self._is_branch(session_id) else compiled.MESSAGES_OF_SESSION
        rows = self._ask(query, id=session_id, asked=asked, position=position, limit=_most(limit))
        return [_message(row) for row in rows]

    def turns_of(self, session_id: str, *, after: str | None = None, limit: int | None = None) -> list[TurnInfo]:
        """Return the session's turns in the order of their questions, each followed by those that go on with it."""
        query = compiled.TURNS_OF_BRANCH if self._is_branch(session_id) else compiled.TURNS_OF_SESSION
        return [_turn(row) for row in self._ask(query, id=session_id, after=after, limit=_most(limit))]

    def turn_began(self, turn_id: str) -> tuple[str, bool] | None:
        """Return the session of the turn, also of one that is deleted, and whether it began with a message, or None."""
        rows = self._ask(compiled.TURN_BEGAN, id=turn_id)
        if not rows:
            return None
        _, session_id, with_message = min(rows)  # branches that have inherited the turn came later
        return session_id, bool(with_message)

    def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """Return the calls of tools in the session, in the order in which the model asked for them."""
        query = compiled.CALLS_OF_BRANCH if self._is_branch(session_id) else compiled.CALLS_OF_SESSION
        return [_call(session_id, row) for row in self._ask(query, id=session_id)]

    def usage(self, session_id: str) -> UsageInfo:
        """Return what the session has used, by model and by tool."""
        of: dict[str, dict[str, Spent]] = {"model": {}, "tool": {}}
        for kind, name, calls, usage, cost, unpriced in self._ask(compiled.USAGE_OF_SESSION, id=session_id):
            of[kind][name] = Spent(calls, {} if usage is None else _counts(usage), cost, unpriced)
        return usage_info(session_id, of["model"], of["tool"])

    def pending(self, session_id: str | None = None) -> list[PendingCall]:
        """Return the calls that wait for a person, in all sessions or in one, those first that were asked for first."""
        if session_id is None:
            return [_pending(row) for row in self._ask(compiled.PENDING)]
        return [_pending(row) for row in self._ask(compiled.PENDING_OF_SESSION, id=session_id)]

    def pending_of_id(self, call_id: str) -> list[PendingCall]:
        """Return the calls of this id that wait for a person: one, unless a model uses ids twice."""
        return [_pending(row) for row in self._ask(compiled.PENDING_OF_ID, id=call_id)]

    def unfinished(self) -> list[str]:
        """Return the ids of the sessions with a live agent or a turn under way."""
        return [session_id for (session_id,) in self._ask(compiled.UNFINISHED)]

    def _is_branch(self, session_id: str) -> bool:
        found = self._ask(compiled.ORIGIN_OF_SESSION, id=session_id)
        return bool(found) and found[0][0] is not None

    def _place_of(self, session_id: str, message: Message) -> list[tuple[Any, ...]]:
        at = round((message.created_at - EPOCH) / timedelta(microseconds=1))
        if message.turn_id is None:
            return self._ask(compiled.PLACE_OF_MESSAGE_OF_NO_TURN, id=session_id, message=message.id, at=at)
        return self._ask(compiled.PLACE_OF_MESSAGE, turn=message.turn_id, id=message.id, at=at)

    def _ask(self, question: Statement, **values: Value) -> list[tuple[Any, ...]]:
        return self._readers.ask(question, values)


def _most(limit: int | None) -> int:
    return -1 if limit is None else max(0, limit)


def _container(row: tuple[Any, ...]) -> ContainerInfo:
    container_id, name, created_at = row
    return ContainerInfo(id=container_id, name=name, created_at=instant(created_at))


def _image(row: tuple[Any, ...]) -> ImageInfo:
    image_id, definition, revision, created_at = row
    return describe(image_id, _definition(definition), revision, instant(created_at))


def _session(row: tuple[Any, ...]) -> SessionInfo:
    session_id, container_id, image_id, image_revision, created_at, origin, position, version = row
    return SessionInfo(
        id=session_id,
        container_id=container_id,
        image_id=image_id,
        image_revision=image_revision,
        created_at=instant(created_at),
        origin=None if origin is None else BranchPoint(session_id=origin, position=position, version=version),
    )


def _agent(row: tuple[Any, ...]) -> AgentInfo:
    agent_id, session_id, container_id, image_id, activity, waits, failed, turn_id, queued, started_at = row
    state: AgentState = activity or ("waiting_for_human_input" if waits else "error" if failed else "idle")
    return AgentInfo(
        id=agent_id,
        session_id=session_id,
        container_id=container_id,
        image_id=image_id,
        state=state,
        turn_id=turn_id,
        queued=queued,
        started_at=instant(started_at),
    )


def _message(row: tuple[Any, ...]) -> Message:
    message_id, role, content, created_at, turn_id, stop_reason, partial, *rest = row
    usage, stop_sequence, stop_details = rest
    return Message(
        id=message_id,
        role=role,
        content=_content(content),
        created_at=EPOCH + timedelta(0, 0, created_at),
        turn_id=turn_id,
        stop_reason=stop_reason,
        partial=bool(partial),
        usage=None if usage is None else _usage(usage),
        stop_sequence=stop_sequence,
        stop_details=None if stop_details is None else _stop_details(stop_details),
    )


def _turn(row: tuple[Any, ...]) -> TurnInfo:
    turn_id, message_id, accepted_at, started_at, ended_at, outcome, stop_reason, duration, *rest = row
    steps, model, usage, cost, failure, stop_sequence, stop_details = rest
    return TurnInfo(
        id=turn_id,
        message_id=message_id,
        accepted_at=instant(accepted_at),
        started_at=_instant(started_at),
        ended_at=_instant(ended_at),
        outcome=outcome,
        stop_reason=stop_reason,
        duration=duration,
        steps=steps,
        model=model,
        usage=None if usage is None else _usage(usage),
        cost=cost,
        failure=None if failure is None else _failure(failure),
        stop_sequence=stop_sequence,
        stop_details=None if stop_details is None else _stop_details(stop_details),
    )


def _call(session_id: str, row: tuple[Any, ...]) -> ToolCallInfo:
    call_id, turn_id, message_id, name, arguments, stage, result, is_error, ran, cost, attempts, *rest = row
    asked_at, reason, decision, decided_by, decided_at, original, started_at, ended_at = rest
    return ToolCallInfo(
        id=call_id,
        session_id=session_id,
        turn_id=turn_id,
        message_id=message_id,
        name=name,
        arguments=_value(arguments),
        stage=stage,
        result=None if result is None else _value(result),
        is_error=bool(is_error),
        ran=bool(ran),
        cost=cost,
        attempts=attempts,
        asked_at=_instant(asked_at),
        reason=reason,
        decision=decision,
        decided_by=decided_by,
        decided_at=_instant(decided_at),
        original=None if original is None else _value(original),
        started_at=_instant(started_at),
        ended_at=_instant(ended_at),
    )


def _pending(row: tuple[Any, ...]) -> PendingCall:
    call_id, session_id, agent_id, turn_id, kind, name, arguments, digest, reason, question, since = row
    asked = None if question is None else _question(question)
    return PendingCall(
        id=call_id,
        session_id=session_id,
        agent_id=agent_id,
        turn_id=turn_id,
        kind=kind,
        name=name,
        arguments=_value(arguments),
        digest=digest,
        reason=reason,
        prompt=None if asked is None else asked.prompt,
        options=None if asked is None else asked.options,
        multi=asked is not None and asked.multi,
        since=instant(since),
    )


def _instant(at: int | None) -> datetime | None:
    return None if at is None else instant(at)
