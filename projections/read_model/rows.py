"""The rows of the tables, and the open state of conversations: loaded, changed in memory, and written back.

Thousands of these are alive at once, and none is part of a cycle, so the garbage collector need not track them.
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
from reenact.domain.plain import made
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
    """The progress of the tables."""

    name: str
    position: int
    mark: str  # identifies the event at that position, to tell one log from another
    version: int
    closed: int  # whether the last writer closed the tables


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
    revision: int  # the newest revision
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
    shared_until: int | None = None  # the position of the last shared event
    shared_version: int | None = None  # that event's version
    shared_asked: int | None = None  # the key of the question of the last turn begun by then; 0 if there is none
    parent: str | None = None  # the id of its parent session
    parent_version: int | None = None  # the version of the parent's event after which it began
    parent_call: str | None = None  # the parent's call that started it
    root: str | None = None  # the id of the session at the top of the family
    depth: int = 0  # how deep it is in the family
    forgotten_at: int | None = None  # set if its other rows were deleted; the row's key is then that of this event
    forgotten_by: str | None = None
    forgotten_why: str | None = None


class ActivityRow(msgspec.Struct, gc=False):
    """The current state of a session, for lists; for a branch, without inherited events."""

    session: int
    position: int  # the position of its last event
    events: int
    last_at: int  # when its last event was recorded
    state: ActivityState = "new"
    asked: int | None = None  # the key of the last question
    turn: int | None = None  # the key of the turn that ended last
    outcome: str | None = None  # the outcome of that turn
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    unpriced: int = 0


class MessageRow(msgspec.Struct, gc=False):
    """A message."""

    position: int
    session: int
    asked: int  # the key of the question, its own for a question: (asked, position) orders by turn
    id: str
    role: str
    content: bytes
    created_at: int
    turn_id: str | None  # none if the results of calls were given up outside of a turn
    stop_reason: str | None = None
    partial: bool = False
    usage: bytes | None = None
    stop_sequence: bytes | None = None
    stop_details: bytes | None = None


class UsageRow(msgspec.Struct, gc=False):
    """What a session has used of one model or tool."""

    session: int
    kind: str  # `model` or `tool`
    name: str  # empty if unknown
    calls: int
    usage: bytes | None  # the sums of its token counts
    cost: float
    unpriced: int


class TurnRow(msgspec.Struct, gc=False):
    """A turn that has not ended, or ended in this batch: the columns of its row, then a field only in memory."""

    position: int  # where its question was accepted, or where it began after a person's decision
    session: int
    id: str
    asked: int  # the key of its question
    accepted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    ended: int | None = None  # the position of the event that ended it
    outcome: str | None = None
    stop_reason: str | None = None
    duration: float | None = None  # seconds
    steps: int = 0
    answer: int | None = None  # the key of the model's last message in it
    model: str | None = None
    usage: bytes | None = None
    cost: float | None = None
    failure: bytes | None = None
    stop_sequence: bytes | None = None
    stop_details: bytes | None = None
    counted: dict[str, int] = {}  # the part of its usage that was counted for a model


class AnswerRow(msgspec.Struct, gc=False):
    """One use of a model, for an answer or a summary; for a branch, as in the next three classes, only its own."""

    position: int
    session: int
    at: int  # when it was recorded
    day: int  # days since 1970-01-01 UTC
    model: str  # empty if unknown
    tokens_in: int
    tokens_out: int
    tokens_cached: int  # how many of the input tokens were read from a cache
    cost: float | None
    first_delta: float | None = None  # seconds


class TurnEndRow(msgspec.Struct, gc=False):
    """The end of a turn that began in this session."""

    position: int
    session: int
    at: int
    day: int
    model: str  # the model of its last answer, empty if there is none
    outcome: str
    error: str | None  # the type of its failure
    duration: float | None  # seconds; none if it had not begun


class CallEndRow(msgspec.Struct, gc=False):
    """The result of a call that was started in this session, or that the policies denied."""

    position: int
    session: int
    at: int
    day: int
    answer: int  # the key of the answer that requested it
    name: str
    failed: bool
    denied: bool
    duration: float | None  # seconds; none if it was denied
    cost: float | None


class DecisionRow(msgspec.Struct, gc=False):
    """A person's decision about a waiting call."""

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
    due: int | None  # when the next message is due; none if there is no next one
    every: int | None  # microseconds
    until: int | None
    created_at: int


class AgentRow(msgspec.Struct, gc=False):
    """An agent that is live, or stopped in this batch: the columns of its row."""

    position: int
    id: str
    session: int  # the key of its session
    session_id: str
    container_id: str
    image_id: str
    started_at: int
    stopped_at: int | None = None
    turn_id: str | None = None
    activity: AgentState | None = None  # its state within its turn
    failed: bool = False
    waits: bool = False  # whether a call waits for a person; set at the end of the batch, like the next
    queued: int = 0


class CallRow(msgspec.Struct, gc=False):
    """A call whose result has not gone back to the model before this batch: the columns of its row."""

    position: int  # the key of the answer that requests it
    number: int  # its index among the calls of that answer
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
    decided: int | None = None  # the position of the decision
    asked: int = 0  # the key of its turn's question


class ConversationState(msgspec.Struct, gc=False):
    """The state of a session that is needed to project the next events of its stream."""

    position: int
    id: str
    container_id: str
    image_id: str
    activity: ActivityRow
    agent: AgentRow | None = None
    turns: dict[str, TurnRow] = {}  # those that have not ended
    asked: int = 0  # the key of the question of the last turn that began
    waiting: int = 0  # how many of the turns have not begun
    uses: tuple[ToolUseBlock, ...] = ()  # the calls that the last answer requests, until their rows are created
    calls: dict[str, CallRow] = {}  # those whose results have not gone back
    spent: dict[Spender, Spent] = {}  # by models and tools; totals, so that rows do not depend on the batches

    def state(self) -> ActivityState:
        """Return the state of the session, for lists."""
        if self.activity.state == "deleted":
            return "deleted"
        if any(call.stage == "waiting" for call in self.calls.values()):
            return "waits"
        if any(self.agent is not None or turn.started_at is not None for turn in self.turns.values()):
            return "live"
        if self.activity.outcome == "failed":
            return "failed"
        return "idle" if self.activity.asked or self.asked else "new"


def set_activity(session: ConversationState, activity: AgentState) -> None:
    """Set the activity of the session's agent in its turn."""
    if session.agent is not None:
        session.agent.activity = activity


class Changes(msgspec.Struct, gc=False):
    """The rows that a batch adds or changes; those in a `dict` are written in their state at the end of the batch.

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
    agents: dict[int, tuple[AgentRow, ConversationState]] = {}
    calls: dict[tuple[int, int, int], CallRow] = {}
    spent: dict[tuple[int, Spender], Spent] = {}
    activity: dict[int, ConversationState] = {}
    forgotten: dict[str, tuple[SessionRow, ActivityRow]] = {}

    def put_turn(self, turn: TurnRow) -> None:
        """Add the turn's row."""
        self.turns[turn.position, turn.session] = turn

    def put_call(self, call: CallRow) -> None:
        """Add the call's row."""
        self.calls[call.position, call.number, call.session] = call


TOKENS_IN = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""The counts of input tokens: the first does not include the others."""
TOKENS_OUT = "output_tokens"
_CACHED = "cache_read_input_tokens"

DAY = 86_400_000_000
"""The number of microseconds in a day."""

MOST_TOKENS = 1 << 40
"""The limit of a token count; sums of smaller ones stay far below the largest storable integer."""


def packed(value: object) -> bytes | None:
    """Return the encoded value, None for None."""
    return None if value is None else encode(value)


def spend(
    changes: Changes, session: ConversationState, by: Spender, usage: Mapping[str, int], cost: float | None
) -> None:
    """Count one more use of the model or tool."""
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


def fact_of(session: ConversationState, row: Row) -> tuple[int, int, int, int]:
    """Return the first columns of the rows of answers, ends and decisions."""
    return row.position, session.position, row.recorded_at, row.recorded_at // DAY


def tokens_in(usage: Mapping[str, int]) -> int:
    """Return the number of input tokens."""
    return sum(usage.get(name, 0) for name in TOKENS_IN)


def use_model(
    changes: Changes,
    session: ConversationState,
    row: Row,
    *,
    model: str | None,
    counts: Mapping[str, int],
    cost: float | None,
    first_delta: float | None = None,
) -> None:
    """Count one more use of a model, recorded by the event."""
    name = model or ""
    spend(changes, session, ("model", name), counts, cost)
    tokens = tokens_in(counts), counts.get(TOKENS_OUT, 0), counts.get(_CACHED, 0)
    changes.answers.append(AnswerRow(*fact_of(session, row), name, *tokens, cost, known(first_delta)))


def use_model_in(
    changes: Changes, session: ConversationState, turn: TurnRow, row: Row, event: AnswerRecorded | ContextCompressed
) -> None:
    """Count one more answer of a model in the turn."""
    counts, cost = counts_of(event.usage), known(event.cost)
    first_delta = event.first_delta if isinstance(event, AnswerRecorded) else None
    use_model(changes, session, row, model=event.model, counts=counts, cost=cost, first_delta=first_delta)
    if counts:
        turn.counted = _sum(turn.counted, counts) if turn.counted else counts
        turn.usage = encode(turn.counted)
    turn.cost = plus_cost(turn.cost, cost)
    changes.put_turn(turn)


def _sum(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of valid counts."""
    total = {**counts}
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
    return total


def counts_of(usage: Mapping[str, object]) -> dict[str, int]:
    """Return the valid token counts."""
    return {name: count for name, count in usage.items() if type(count) is int and 0 < count < MOST_TOKENS}


def known(amount: float | None) -> float | None:
    """Return the cost or the time if it is finite, else None."""
    return amount if amount is not None and math.isfinite(amount) else None


_content = msgspec.msgpack.Decoder(tuple[Block, ...]).decode
_counts = msgspec.msgpack.Decoder(dict[str, int]).decode


def asked_for(content: Iterable[Block]) -> tuple[ToolUseBlock, ...]:
    """Return the calls that an answer requests."""
    return tuple([block for block in content if isinstance(block, ToolUseBlock)])


class Cursor(Protocol):
    """The result of a statement, in the interface that database drivers share."""

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
    """A connection to any database that takes the statements of `compiled`."""

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, Value] = ..., /) -> Cursor:
        """Execute a statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> object:
        """Execute a statement with each of these rows."""
        ...

    def close(self) -> None:
        """Close the connection. Idempotent."""
        ...


Ask: TypeAlias = "Callable[[str, Collection[str | int]], Iterable[tuple[Value, ...]]]"
"""Returns the rows of a query for some keys."""


def load(ask: Ask, streams: Collection[str]) -> dict[str, ConversationState]:
    """Return the conversations of these streams, as far as they have rows."""
    conversations: dict[str, ConversationState] = {}
    by_key: dict[int, ConversationState] = {}
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


def _ask(ask: Ask, make: Callable[..., T], question: str, keys: Collection[str | int]) -> Iterator[T]:
    if keys:
        yield from starmap(make, ask(question, keys))


def _conversing(stream: str, *cells: object) -> tuple[str, ConversationState]:
    *known, asked = cells[:5]
    return stream, made(ConversationState, *known, made(ActivityRow, *cells[5:]), asked=asked)


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
    """Yield the cells of rows that have content: encoded, and encrypted with the key of their stream."""
    for row in rows:
        cells = astuple(row)
        if cipher is None:
            yield cells
        else:
            stream = f"image/{row.image_id}" if isinstance(row, RevisionRow) else streams[row.session]
            yield tuple([cipher.seal(stream, cell) if isinstance(cell, bytes) else cell for cell in cells])


def _forget(connection: Connection, forgotten: Mapping[str, tuple[SessionRow, ActivityRow]]) -> None:
    """Delete all rows of sessions, and write the remaining row of each."""
    for statement in compiled.FORGET:
        connection.executemany(statement, [(session_id,) for session_id in forgotten])
    connection.executemany(compiled.ADD_SESSIONS, [astuple(session) for session, _ in forgotten.values()])
    connection.executemany(compiled.PUT_ACTIVITY, [astuple(activity) for _, activity in forgotten.values()])
