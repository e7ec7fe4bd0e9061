"""The rows of the tables, and the open ends of conversations: read, changed in memory, and written back.

Thousands of these live at once and none refers back to what refers to it, so the collector of cycles may pass them by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import astuple

from reenact.domain.loop.ledger import Spent
from reenact.domain.loop.rounds import CallKind, Stage
from reenact.domain.messages import Block, ToolUseBlock
from reenact.domain.session.agent import AnswerRecorded, ContextCompressed
from reenact.domain.session.state import plus_cost
from reenact.domain.session.told import Decision
from reenact.domain.stream.events import AgentState
from reenact.projections.cipher import Cipher
from reenact.projections.log import Row, stream_of
from reenact.projections.read_model import compiled

Value: TypeAlias = str | int | float | bytes | None
ActivityState: TypeAlias = Literal["new", "live", "waits", "failed", "idle", "deleted", "forgotten"]
Spender: TypeAlias = tuple[Literal["model", "tool"], str]
NOTHING = Spent()
encode = msgspec.msgpack.Encoder().encode
EMPTY: Final = encode("")
T = TypeVar("T")


class ProgressRow(msgspec.Struct):
    """How far the tables are."""

    name: str
    position: int
    mark: str  # which event stands at that position: tells one log from another
    version: int
    closed: int  # whether the last writer took its leave


class ContainerRow(msgspec.Struct, gc=False):
    """A container."""

    position: int
    id: str
    name: str | None
    created_at: int


class ImageRow(msgspec.Struct, gc=False):
    """An image."""

    position: int
    id: str
    revision: int  # the newest
    created_at: int


class RevisionRow(msgspec.Struct, gc=False):
    """A revision of an image."""

    position: int
    image_id: str
    revision: int
    definition: bytes


class SessionRow(msgspec.Struct, gc=False):
    """A session."""

    position: int
    stream: str
    id: str
    container_id: str
    image_id: str
    image_revision: int
    created_at: int
    deleted_at: int | None = None
    origin: int | None = None  # the key of the session that it branches off from
    shared_until: int | None = None  # the position of the last event that both share
    shared_version: int | None = None  # its version
    shared_asked: int | None = None  # the key of the last question that was taken up by then; 0 if there is none
    parent: str | None = None  # the id of the session whose child it is
    parent_version: int | None = None  # behind which of its events
    parent_call: str | None = None  # for which call
    root: str | None = None  # the id of the session at the top of the family
    depth: int = 0  # how deep it is in the family
    forgotten_at: int | None = None  # when all else of it was deleted here; the row is of that event then
    forgotten_by: str | None = None
    forgotten_why: str | None = None


class ActivityRow(msgspec.Struct, gc=False):
    """What a session has come to, for lists: of a branch, only what is its own."""

    session: int
    position: int  # that of its last event
    events: int
    last_at: int  # when that was recorded
    state: ActivityState = "new"
    asked: int | None = None  # the key of the question that came in last
    turn: int | None = None  # the key of the turn that ended last
    outcome: str | None = None  # how
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    unpriced: int = 0


class MessageRow(msgspec.Struct, gc=False):
    """A message."""

    position: int
    session: int
    asked: int  # the key of the question, its own too: (asked, position) orders by turn
    id: str
    role: str
    content: bytes
    created_at: int
    turn_id: str | None  # none, if the results of calls were given up while no turn was under way
    stop_reason: str | None = None
    partial: bool = False
    usage: bytes | None = None
    stop_sequence: bytes | None = None
    stop_details: bytes | None = None


class UsageRow(msgspec.Struct, gc=False):
    """What a session has used of a model or a tool."""

    session: int
    kind: str  # `model` or `tool`
    name: str  # empty when unknown
    calls: int
    usage: bytes | None  # the sums of its token counts
    cost: float
    unpriced: int


class TurnRow(msgspec.Struct, gc=False):
    """A turn that has not ended, or has ended in this batch: the columns of its row, then what is not in it."""

    position: int  # where its question was accepted, or where it began after a person's decision
    session: int
    id: str
    asked: int  # the key of the question that it is about
    accepted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    ended: int | None = None  # the position of the event that ended it
    outcome: str | None = None
    stop_reason: str | None = None
    duration: float | None = None  # seconds
    steps: int = 0
    answer: int | None = None  # the key of the last message of the model in it
    model: str | None = None
    usage: bytes | None = None
    cost: float | None = None
    failure: bytes | None = None
    stop_sequence: bytes | None = None
    stop_details: bytes | None = None
    counted: dict[str, int] = {}  # what of its usage is counted for a model


class AnswerRow(msgspec.Struct, gc=False):
    """What a model was used for once, an answer or a summary; of a branch, as the next three, only what is its own."""

    position: int
    session: int
    at: int  # when it was recorded
    day: int  # which, since 1970-01-01 UTC
    model: str  # empty when unknown
    tokens_in: int
    tokens_out: int
    tokens_cached: int  # how many of those that went in were read from a cache
    cost: float | None
    first_delta: float | None = None  # seconds


class TurnEndRow(msgspec.Struct, gc=False):
    """The end of a turn that began in this session."""

    position: int
    session: int
    at: int
    day: int
    model: str  # that of its last answer, empty if there is none
    outcome: str
    error: str | None  # the type of its failure
    duration: float | None  # seconds; none if it had not been taken up


class CallEndRow(msgspec.Struct, gc=False):
    """The result of a call that was started in this session, or that the policies forbade."""

    position: int
    session: int
    at: int
    day: int
    answer: int  # the key of the answer that asks for it
    name: str
    failed: bool
    denied: bool
    duration: float | None  # seconds; none if it was denied
    cost: float | None


class DecisionRow(msgspec.Struct, gc=False):
    """What a person decided about a call that waited."""

    position: int
    session: int
    at: int
    day: int
    answer: int
    name: str
    decision: Decision
    waited: float  # seconds


class ScheduleRow(msgspec.Struct, gc=False):
    """A schedule of messages."""

    position: int
    session: int
    id: str
    content: bytes
    due: int | None  # when the next message comes; none if no more do
    every: int | None  # microseconds
    until: int | None
    created_at: int


class AgentRow(msgspec.Struct, gc=False):
    """An agent that is live, or has stopped in this batch: the columns of its row."""

    position: int
    id: str
    session: int  # the key of its session
    session_id: str
    container_id: str
    image_id: str
    started_at: int
    stopped_at: int | None = None
    turn_id: str | None = None
    activity: AgentState | None = None  # what it is at in its turn
    failed: bool = False
    waits: bool = False  # whether a call waits for a person; this and the next are known when the batch is over
    queued: int = 0


class CallRow(msgspec.Struct, gc=False):
    """A call whose result has not gone back to the model, or has gone back in this batch: the columns of its row."""

    position: int  # the key of the answer that asks for it
    number: int  # its place among the calls of that answer
    session: int
    id: str
    name: str
    arguments: bytes
    stage: Stage = "ready"
    kind: CallKind | None = None  # what a person is asked for, if one is; or that it waits for its child session
    digest: bytes = EMPTY
    reason: bytes = EMPTY
    question: bytes | None = None
    asked_at: int | None = None
    original: bytes | None = None  # the model's own arguments, if a person changed them
    decision: Decision | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    attempts: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    result: bytes | None = None
    is_error: bool = False
    ran: bool = False
    cost: float | None = None
    results: int | None = None  # the key of the message in which its result went back to the model
    started: int | None = None  # the position of its last start
    decided: int | None = None  # that of the decision
    asked: int = 0  # the key of the question that its turn is about


class Conversing(msgspec.Struct, gc=False):
    """What must be known of a session to project what comes next in its stream."""

    position: int
    id: str
    container_id: str
    image_id: str
    activity: ActivityRow
    agent: AgentRow | None = None
    turns: dict[str, TurnRow] = {}  # those that have not ended
    asked: int = 0  # the key of the question that was taken up last
    waiting: int = 0  # how many of them have not begun
    uses: tuple[ToolUseBlock, ...] = ()  # what the last answer asks for, until calls are made of it
    calls: dict[str, CallRow] = {}  # those whose results have not gone back
    spent: dict[Spender, Spent] = {}  # by models and tools; sums, so that rows do not depend on the batches

    def state(self) -> ActivityState:
        """Return how the session is."""
        if self.activity.state == "deleted":
            return "deleted"
        if any(call.stage == "waiting" for call in self.calls.values()):
            return "waits"
        if any(self.agent is not None or turn.started_at is not None for turn in self.turns.values()):
            return "live"
        if self.activity.outcome == "failed":
            return "failed"
        return "idle" if self.activity.asked or self.asked else "new"


def turn_to(session: Conversing, activity: AgentState) -> None:
    """Let the session's agent be at something else in its turn."""
    if session.agent is not None:
        session.agent.activity = activity


class Changes(msgspec.Struct, gc=False):
    """The rows that a batch comes to; those in a `dict` are looked at when it is over, the others as they come.

    Turns are by position and session, calls by position, number and session.
    """

    containers: list[ContainerRow] = []
    images: list[ImageRow] = []
    revisions: list[RevisionRow] = []
    sessions: list[SessionRow] = []
    deleted: list[tuple[int, int]] = []
    switched: list[tuple[str, int, int]] = []
    schedules: list[ScheduleRow] = []
    rescheduled: list[tuple[int | None, int, str]] = []
    messages: list[MessageRow] = []
    answers: list[AnswerRow] = []
    turn_ends: list[TurnEndRow] = []
    call_ends: list[CallEndRow] = []
    decisions: list[DecisionRow] = []
    turns: dict[tuple[int, int], TurnRow] = {}
    agents: dict[int, tuple[AgentRow, Conversing]] = {}
    calls: dict[tuple[int, int, int], CallRow] = {}
    spent: dict[tuple[int, Spender], Spent] = {}
    activity: dict[int, Conversing] = {}
    forgotten: dict[str, tuple[SessionRow, ActivityRow]] = {}

    def put_turn(self, turn: TurnRow) -> None:
        """Have the turn's row written."""
        self.turns[turn.position, turn.session] = turn

    def put_call(self, call: CallRow) -> None:
        """Have the call's row written."""
        self.calls[call.position, call.number, call.session] = call


TOKENS_IN = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""The counts that are of what the model was given: the first leaves out what the others count."""
TOKENS_OUT = "output_tokens"
_CACHED = "cache_read_input_tokens"

DAY = 86_400_000_000
"""Microseconds of a day."""

MOST_TOKENS = 1 << 40
"""No turn has so many; sums of what is below stay far from the largest integer that can be written."""


def packed(value: object) -> bytes | None:
    """Return the value as it is stored where there may be none."""
    return None if value is None else encode(value)


def spend(changes: Changes, session: Conversing, by: Spender, usage: Mapping[str, int], cost: float | None) -> None:
    """Count one more use by the model or tool."""
    before = session.spent.get(by, NOTHING)
    spent = Spent(
        before.calls + 1,
        _sum(before.usage, usage) if usage else before.usage,
        before.cost if cost is None else before.cost + cost,
        before.unpriced + (cost is None),
    )
    session.spent[by] = changes.spent[session.position, by] = spent
    activity = session.activity
    activity.tokens_in += tokens_in(usage)
    activity.tokens_out += usage.get(TOKENS_OUT, 0)
    activity.cost += cost or 0.0
    activity.unpriced += by[0] == "model" and cost is None  # most tools cost nothing


def fact_of(session: Conversing, row: Row) -> tuple[int, int, int, int]:
    """Return what the rows of answers, ends and decisions begin with."""
    return row.position, session.position, row.recorded_at, row.recorded_at // DAY


def tokens_in(usage: Mapping[str, int]) -> int:
    """Return how many tokens the model was given."""
    return sum(usage.get(name, 0) for name in TOKENS_IN)


def use_model(
    changes: Changes,
    session: Conversing,
    row: Row,
    *,
    model: str | None,
    counts: Mapping[str, int],
    cost: float | None,
    first_delta: float | None = None,
) -> None:
    """Count one more use of a model, of which the event says."""
    name = model or ""
    spend(changes, session, ("model", name), counts, cost)
    tokens = tokens_in(counts), counts.get(TOKENS_OUT, 0), counts.get(_CACHED, 0)
    changes.answers.append(AnswerRow(*fact_of(session, row), name, *tokens, cost, known(first_delta)))


def use_model_in(
    changes: Changes, session: Conversing, turn: TurnRow, row: Row, event: AnswerRecorded | ContextCompressed
) -> None:
    """Count one more answer of a model, given in the turn."""
    counts, cost = counts_of(event.usage), known(event.cost)
    first_delta = event.first_delta if isinstance(event, AnswerRecorded) else None
    use_model(changes, session, row, model=event.model, counts=counts, cost=cost, first_delta=first_delta)
    if counts:
        turn.counted = _sum(turn.counted, counts) if turn.counted else counts
        turn.usage = encode(turn.counted)
    turn.cost = plus_cost(turn.cost, cost)
    changes.put_turn(turn)


def _sum(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of counts that are known to be such."""
    total = {**counts}
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
    return total


def counts_of(usage: Mapping[str, object]) -> dict[str, int]:
    """Return the token counts that can be added up."""
    return {name: count for name, count in usage.items() if type(count) is int and 0 < count < MOST_TOKENS}


def known(amount: float | None) -> float | None:
    """Return the cost, or the time, if it is an amount."""
    return amount if amount is not None and math.isfinite(amount) else None


_content = msgspec.msgpack.Decoder(tuple[Block, ...]).decode
_counts = msgspec.msgpack.Decoder(dict[str, int]).decode


def asked_for(content: Iterable[Block]) -> tuple[ToolUseBlock, ...]:
    """Return the calls that an answer asks for."""
    return tuple([block for block in content if isinstance(block, ToolUseBlock)])


class Cursor(Protocol):
    """What a statement has come to, as drivers of databases have it."""

    @property
    def description(self) -> Sequence[Sequence[object]] | None:
        """The columns, with their names first."""
        ...

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> tuple[Value, ...] | None:
        """Return the next row."""
        ...

    def fetchall(self) -> list[tuple[Value, ...]]:
        """Return all rows."""
        ...


class Connection(Protocol):
    """A connection that takes the statements of `compiled`, whatever database it is to."""

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, Value] = ..., /) -> Cursor:
        """Execute a statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> object:
        """Execute a statement with each of these rows."""
        ...

    def close(self) -> None:
        """Let go of it. Idempotent."""
        ...


Ask: TypeAlias = "Callable[[str, Collection[str | int]], Iterable[tuple[Value, ...]]]"
"""Returns the rows that answer a question about some keys."""


def load(ask: Ask, streams: Collection[str]) -> dict[str, Conversing]:
    """Return the conversations of these streams, as far as there are rows of them."""
    conversations: dict[str, Conversing] = {}
    by_key: dict[int, Conversing] = {}
    for stream, session in _ask(ask, _conversing, compiled.SESSIONS_OF_STREAMS, streams):
        conversations[stream] = by_key[session.position] = session
    for agent in _ask(ask, AgentRow, compiled.LIVE_AGENTS_OF, by_key):
        by_key[agent.session].agent = agent
    for turn, content in _ask(ask, _turn, compiled.OPEN_TURNS_OF, by_key):
        session = by_key[turn.session]
        session.turns[turn.id] = turn
        session.waiting += turn.started_at is None
        if turn.usage is not None:
            turn.counted = _counts(turn.usage)
        if isinstance(content, bytes):
            session.uses = asked_for(_content(content))
    for call in _ask(ask, CallRow, compiled.OPEN_CALLS_OF, by_key):
        by_key[call.session].calls[call.id] = call
    for key, by, spent in _ask(ask, _used, compiled.USAGE_OF, by_key):
        by_key[key].spent[by] = spent
    return conversations


def made(make: Callable[..., T], *cells: object, **columns: object) -> T:
    """Return what is made of the cells of a row, which have the types that their table has."""
    return make(*cells, **columns)


def _ask(ask: Ask, make: Callable[..., T], question: str, keys: Collection[str | int]) -> Iterator[T]:
    if keys:
        yield from starmap(make, ask(question, keys))


def _conversing(stream: str, *cells: object) -> tuple[str, Conversing]:
    *known, asked = cells[:5]
    return stream, made(Conversing, *known, made(ActivityRow, *cells[5:]), asked=asked)


def _turn(*cells: object) -> tuple[TurnRow, object]:
    return made(TurnRow, *cells[:-1]), cells[-1]


def _used(
    session: int, kind: Literal["model", "tool"], name: str, calls: int, usage: bytes | None, *costs: object
) -> tuple[int, Spender, Spent]:
    return session, (kind, name), made(Spent, calls, {} if usage is None else _counts(usage), *costs)


def write(connection: Connection, changes: Changes, cipher: Cipher | None = None) -> None:
    """Write the rows, each kind in one statement, with their content encrypted if there is a cipher."""
    for agent, session in changes.agents.values():
        is_live = agent.stopped_at is None
        agent.waits = is_live and any(call.stage == "waiting" for call in session.calls.values())
        agent.queued = session.waiting if is_live else 0
    for session in changes.activity.values():
        session.activity.state = session.state()
    cells = partial(_cells, {key: stream_of(session.id) for key, session in changes.activity.items()}, cipher)
    for statement, rows in (
        (compiled.ADD_CONTAINERS, map(astuple, changes.containers)),
        (compiled.PUT_IMAGES, map(astuple, changes.images)),
        (compiled.ADD_REVISIONS, cells(changes.revisions)),
        (compiled.ADD_SESSIONS, map(astuple, changes.sessions)),
        (compiled.PUT_ACTIVITY, (astuple(session.activity) for session in changes.activity.values())),
        (compiled.DELETE_SESSIONS, changes.deleted),
        (compiled.SWITCH_SESSIONS, changes.switched),
        (compiled.ADD_SCHEDULES, cells(changes.schedules)),
        (compiled.RESCHEDULE, changes.rescheduled),
        (compiled.PUT_AGENTS, (astuple(agent) for agent, _ in changes.agents.values())),
        (compiled.PUT_TURNS, (turn[:-1] for turn in cells(changes.turns.values()))),
        (compiled.ADD_MESSAGES, cells(changes.messages)),
        (compiled.ADD_ANSWERS, map(astuple, changes.answers)),
        (compiled.ADD_TURN_ENDS, map(astuple, changes.turn_ends)),
        (compiled.ADD_CALL_ENDS, map(astuple, changes.call_ends)),
        (compiled.ADD_DECISIONS, map(astuple, changes.decisions)),
        (compiled.PUT_CALLS, (call[:-1] for call in cells(changes.calls.values()))),
        (
            compiled.PUT_USAGE,
            (
                (session, *by, spent.calls, packed(spent.usage or None), spent.cost, spent.unpriced)
                for (session, by), spent in changes.spent.items()
            ),
        ),
    ):
        connection.executemany(statement, rows)
    if changes.forgotten:
        _forget(connection, changes.forgotten)


def _cells(
    streams: Mapping[int, str],
    cipher: Cipher | None,
    rows: Iterable[RevisionRow | ScheduleRow | TurnRow | MessageRow | CallRow],
) -> Iterator[tuple[object, ...]]:
    """Yield the cells of rows that have content: packed, and encrypted with the key of their stream."""
    for row in rows:
        cells = astuple(row)
        if cipher is None:
            yield cells
        else:
            stream = f"image/{row.image_id}" if isinstance(row, RevisionRow) else streams[row.session]
            yield tuple([cipher.seal(stream, cell) if isinstance(cell, bytes) else cell for cell in cells])


def _forget(connection: Connection, forgotten: Mapping[str, tuple[SessionRow, ActivityRow]]) -> None:
    """Delete all rows of sessions, and write what is still known of each."""
    for statement in compiled.FORGET:
        connection.executemany(statement, [(session_id,) for session_id in forgotten])
    connection.executemany(compiled.ADD_SESSIONS, [astuple(session) for session, _ in forgotten.values()])
    connection.executemany(compiled.PUT_ACTIVITY, [astuple(activity) for _, activity in forgotten.values()])
