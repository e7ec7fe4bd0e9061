"""What is known of a conversation: a value that every step makes anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.asking import Question
from reenact.domain.loop.calls import call_of
from reenact.domain.loop.events import LoopEvent, Options
from reenact.domain.loop.faults import ErrorInfo, info_of
from reenact.domain.loop.growing import Growing, is_growing, is_iterable
from reenact.domain.loop.ledger import MOST_COST, CostLimit, Ledger, is_amount
from reenact.domain.loop.limits import checked_max_steps, cost_limit_of
from reenact.domain.loop.rounds import Round
from reenact.domain.loop.values import Fields, Frozen, FrozenList, frozen, frozen_object
from reenact.domain.messages import EPOCH, check_text

Status: TypeAlias = Literal["idle", "running", "waiting_for_human_input", "done", "error", "interrupted"]
Phase: TypeAlias = Literal[
    "init", "user_input", "llm_result", "tool_result", "tools_batch_result", "human_response", "error"
]
STATUSES: Final = frozenset[str](get_args(Status))
PHASES: Final = frozenset[str](get_args(Phase))


class PendingPrompt(Fields, frozen=True, eq=False):
    """A question that waits for text."""

    prompt: str
    metadata: dict[str, Any] | None = None

    @property
    def question(self) -> Question:
        """What an answer is checked against."""
        return Question(self.prompt)


class PendingSelect(Fields, frozen=True, eq=False):
    """A question that waits for one of the options, or for any number of them if `multi`."""

    prompt: str
    options: tuple[Any, ...]
    multi: bool = False
    metadata: dict[str, Any] | None = None

    @property
    def question(self) -> Question:
        """What an answer is checked against."""
        return Question(self.prompt, Options(self.options), self.multi)


class Interruption(Fields, frozen=True, eq=False):
    """Why and when a conversation was interrupted, after which step, and whether it can go on."""

    reason: str
    can_resume: bool = True
    interrupted_at: datetime | None = None
    step: int = 0


class AgentContext(Fields, frozen=True, eq=False):
    """What a runner is told: what has just happened (`phase`), with what outcome (`payload`), and where (`session`).

    `session` holds `session_id`, `message_count`, `status` and `step_count`.
    """

    phase: Phase
    payload: Any = None
    session: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class AgentState:
    """A conversation with an agent, as it is after a step. `messages` and `events` are read-only sequences.

    `usage` are the sums of the models' token counts, `cost` the sum of what has a price; `ledger` has both by model
    and by tool, and counts what has no price. `phase` and `payload` are what the next step's runner is told.
    `round` holds the calls that people were last asked about; `approvals` the digests of those that were approved,
    `decided` the ids of those that were decided or ran. `free_steps` do not count against `max_steps`. `warned`
    tells that the cost limit has given its warning.

    Raises:
        InvalidInputError: a field holds what it cannot.
    """

    session_id: str
    status: Status = "idle"
    messages: Growing[Frozen] = field(default_factory=Growing[Frozen])
    events: Growing[LoopEvent] = field(default_factory=Growing[LoopEvent], repr=False)
    step_count: int = 0
    max_steps: int | None = None
    pending_tool_calls: FrozenList = field(default_factory=FrozenList)
    pending_prompt: PendingPrompt | None = None
    pending_select: PendingSelect | None = None
    interruption: Interruption | None = None
    usage: Frozen = field(default_factory=Frozen)
    cost: float = 0.0
    cost_limit: CostLimit | None = None
    error: ErrorInfo | None = None
    created_at: datetime = EPOCH
    last_modified: datetime = EPOCH
    metadata: Frozen = field(default_factory=Frozen)
    ledger: Ledger = field(default_factory=Ledger)
    phase: Phase = "init"
    payload: Any = None
    round: Round = field(default_factory=Round)
    approvals: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    free_steps: int = 0
    warned: bool = False

    def __post_init__(self) -> None:
        """Take what people write for what it stands for."""
        _check(self)
        for name, made in _normal(self):
            object.__setattr__(self, name, made)

    @property
    def session(self) -> Frozen:
        """What a context tells of the conversation."""
        return Frozen(
            session_id=self.session_id,
            message_count=len(self.messages),
            status=self.status,
            step_count=self.step_count,
        )

    def replace(self, **changes: Any) -> AgentState:  # noqa: ANN401 - fields differ in type
        """Return the state with other values in some fields."""
        return dataclasses.replace(self, **changes)

    def snapshot(self) -> AgentState:
        """Return the state without its history."""
        return dataclasses.replace(self, events=Growing[LoopEvent]())


def context_of(state: AgentState) -> AgentContext:
    """Return what the next step's runner is told."""
    phase = state.phase
    if phase == "init" and state.step_count and state.messages and state.messages[-1].get("role") == "user":
        phase = "user_input"
    return AgentContext(phase, state.payload, state.session)


def next_context(state: AgentState) -> AgentContext | None:
    """Return what the next step's runner is told, or None if there is no next step before something happens."""
    return context_of(state) if state.status in ("idle", "running", "error") else None


def message_of(value: object) -> Frozen:
    """Return a message as it stands in a conversation, or raise `InvalidInputError`."""
    message = value if isinstance(value, Frozen) else frozen_object(value, what="a message")
    if isinstance(message.get("role"), str) and message["role"]:
        return message
    msg = f"a message is a mapping with a `role`, not {value!r}"
    raise InvalidInputError(msg)


def messages_of(values: object) -> Growing[Frozen]:
    """Return the messages of a conversation, or raise `InvalidInputError`."""
    if is_growing(values):
        return values
    if isinstance(values, str | bytes | Mapping) or not is_iterable(values):
        msg = f"messages come as a list of mappings, not as {values!r}"
        raise InvalidInputError(msg)
    return Growing(message_of(each) for each in values)


def _check(state: AgentState) -> None:
    check_text("session_id", state.session_id)
    checked_max_steps(state.max_steps)
    if state.status not in STATUSES:
        msg = f"status is one of {', '.join(sorted(STATUSES))}; not {state.status!r}"
        raise InvalidInputError(msg)
    if state.phase not in PHASES:
        msg = f"phase is one of {', '.join(sorted(PHASES))}; not {state.phase!r}"
        raise InvalidInputError(msg)
    for name in ("created_at", "last_modified"):
        told: object = getattr(state, name)
        if not isinstance(told, datetime) or told.tzinfo is None:
            msg = f"{name} is a time with a time zone, not {told!r}"
            raise InvalidInputError(msg)
    cost: object = vars(state)["cost"]
    if not is_amount(cost, MOST_COST):
        msg = f"cost is an amount of 0 or more, not {cost!r:.80}"
        raise InvalidInputError(msg)


def _normal(state: AgentState) -> Iterable[tuple[str, object]]:
    """Yield the fields that hold what stands for something else, and what it stands for."""
    given: dict[str, Any] = vars(state)
    if not isinstance(given["messages"], Growing):
        yield "messages", messages_of(given["messages"])
    if not isinstance(given["events"], Growing):
        yield "events", Growing[LoopEvent](given["events"])
    if not isinstance(given["pending_tool_calls"], FrozenList):
        yield "pending_tool_calls", FrozenList(call_of(call) for call in given["pending_tool_calls"])
    for name in ("usage", "metadata"):
        if not isinstance(given[name], Frozen):
            yield name, frozen_object(given[name] or {}, what=name)
    if type(given["cost"]) is not float:
        yield "cost", float(given["cost"])
    if not isinstance(given["cost_limit"], CostLimit | None):
        yield "cost_limit", cost_limit_of(given["cost_limit"])
    for name, kind in _KINDS:
        told = given[name]
        if isinstance(told, BaseException):
            yield name, info_of(told)
        elif not isinstance(told, kind | None):
            yield name, _converted(name, told, kind)
    yield "payload", frozen(state.payload, what="payload")


_KINDS: Final = (
    ("pending_prompt", PendingPrompt),
    ("pending_select", PendingSelect),
    ("interruption", Interruption),
    ("error", ErrorInfo),
)


def _converted(name: str, told: object, kind: type[Fields]) -> Fields:
    try:
        return msgspec.convert(told, kind, from_attributes=False)
    except msgspec.ValidationError as broken:
        msg = f"{name} is a {kind.__name__}, not {told!r}: {broken}"
        raise InvalidInputError(msg) from None
