"""The state of a conversation, an immutable value that every step replaces, and its form as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import takewhile
from typing import Any, Final, Literal, TypeAlias, TypeVar, assert_never, get_args, get_origin, get_type_hints

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop import rounds
from reenact.domain.loop.asking import Question
from reenact.domain.loop.calls import ToolCall, call_of
from reenact.domain.loop.events import AgentEvent, Done, Interrupted, LoopEvent, Option, Options, ToolPending, Warning  # noqa: A004 - the word of the specification
from reenact.domain.loop.faults import ErrorInfo, info_of
from reenact.domain.loop.instructions import snake
from reenact.domain.loop.ledger import MOST_COST, CostLimit, Ledger
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.values import (
    AppendOnlyList,
    Fields,
    Frozen,
    FrozenList,
    compact,
    converted,
    frozen,
    frozen_object,
    is_growing,
    is_iterable,
    is_mapping,
)
from reenact.domain.messages import EPOCH, check_text
from reenact.domain.plain import Json, JsonObject, is_sequence, made
from reenact.domain.tools import is_amount

Status: TypeAlias = Literal["idle", "running", "waiting_for_human_input", "done", "error", "interrupted"]
Phase: TypeAlias = Literal[
    "init", "user_input", "llm_result", "tool_result", "tools_batch_result", "human_response", "error"
]
MAX_STEPS_EXCEEDED = "max_steps_exceeded"
COST_LIMIT_EXCEEDED = "cost_limit_exceeded"


class PendingPrompt(Fields):
    """A pending question that is answered with text."""

    prompt: str
    metadata: JsonObject | None = None

    @property
    def question(self) -> Question:
        """The question against which an answer is checked."""
        return Question(self.prompt)


class PendingSelect(Fields):
    """A pending question that is answered with one of the options, or with any number of them if `multi`."""

    prompt: str
    options: tuple[Option, ...]
    multi: bool = False
    metadata: JsonObject | None = None

    @property
    def question(self) -> Question:
        """The question against which an answer is checked."""
        return Question(self.prompt, Options(self.options), self.multi)


class Interruption(Fields):
    """Why and when a conversation was interrupted, after which step, and whether it can be resumed."""

    reason: str
    can_resume: bool = True
    interrupted_at: datetime | None = None
    step: int = 0


class AgentContext(Fields):
    """The input of a runner: what has just happened (`phase`), with what outcome (`payload`), and where (`session`).

    `session` holds `session_id`, `message_count`, `status` and `step_count`.
    """

    phase: Phase
    payload: Any = None  # its members depend on the phase, and runners access them
    session: JsonObject | None = None


@dataclass(frozen=True)
class AgentState:
    """The state of a conversation with an agent after a step. `messages` and `events` are read-only sequences.

    `usage` are the sums of the models' token counts, `cost` the sum of the known costs; `ledger` has both by model and
    by tool, and counts the uses without a price. `phase` and `payload` are the next step's input to the runner. `round`
    holds the calls that people were last asked about; `approvals` the digests of those that were approved, `decided`
    the ids of those that were decided or ran. `free_steps` do not count against `max_steps`. `warned` is true once the
    cost limit has given its warning.

    Raises:
        InvalidInputError: a field has an invalid value.
    """

    session_id: str
    status: Status = "idle"
    messages: AppendOnlyList[Frozen] = field(default_factory=AppendOnlyList[Frozen])
    events: AppendOnlyList[LoopEvent] = field(default_factory=AppendOnlyList[LoopEvent], repr=False)
    step_count: int = 0
    max_steps: int | None = None
    pending_tool_calls: FrozenList[ToolCall] = field(default_factory=FrozenList[ToolCall])
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
    payload: Json = None
    round: Round = field(default_factory=Round)
    approvals: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    free_steps: int = 0
    warned: bool = False

    def __post_init__(self) -> None:
        """Convert the fields from the forms that users may give."""
        for name, told in tuple(vars(self).items()):
            object.__setattr__(self, name, _field_value(name, told))

    @property
    def session(self) -> Frozen:
        """The description of the conversation in a context."""
        return Frozen(
            session_id=self.session_id,
            message_count=len(self.messages),
            status=self.status,
            step_count=self.step_count,
        )

    def replace(self, **changes: object) -> AgentState:
        """Return the state with other values in some fields."""
        replace: Callable[..., AgentState] = dataclasses.replace  # pyright: ignore[reportAssignmentType] - of this one
        return replace(self, **changes)

    def snapshot(self) -> AgentState:
        """Return the state without its history."""
        return self.replace(events=AppendOnlyList[LoopEvent]())


def context_of(state: AgentState) -> AgentContext:
    """Return the input of the next step's runner."""
    phase = state.phase
    if phase == "init" and state.step_count and state.messages and state.messages[-1].get("role") == "user":
        phase = "user_input"
    return AgentContext(phase, state.payload, state.session)


def next_context(state: AgentState) -> AgentContext | None:
    """Return the input of the next step's runner, or None if no step can follow before something else happens."""
    return context_of(state) if state.status in ("idle", "running", "error") else None


def message_of(value: object) -> Frozen:
    """Return a message in its recorded form, or raise `InvalidInputError`."""
    message = value if isinstance(value, Frozen) else frozen_object(value, what="a message")
    if isinstance(message.get("role"), str) and message["role"]:
        return message
    raise InvalidInputError(f"a message must be a mapping with a `role`, not {value!r}")


def messages_of(values: object) -> AppendOnlyList[Frozen]:
    """Return the messages of a conversation, or raise `InvalidInputError`."""
    if is_growing(values, Frozen):
        return values
    if isinstance(values, str | bytes | Mapping) or not is_iterable(values):
        raise InvalidInputError(f"messages come as a list of mappings, not as {values!r}")
    return AppendOnlyList(message_of(each) for each in values)


def steps_exceeded(state: AgentState) -> Done | None:
    """Return the end of the conversation if one more step would exceed `max_steps`, else None."""
    if state.max_steps is None or state.step_count + 1 - state.free_steps <= state.max_steps:
        return None
    detail = f"the conversation has had its {state.max_steps} steps"
    return Done(reason=MAX_STEPS_EXCEEDED, reason_detail=detail, counted=False)


def cost_exceeded(state: AgentState) -> tuple[LoopEvent, ...]:
    """Return the events that follow from the cost limit; none if it is not exceeded."""
    limit = state.cost_limit
    if limit is None or not limit.is_exceeded(state.cost):
        return ()
    detail = f"the conversation has cost {state.cost:g}, and may cost {limit.max_total:g}"
    match limit.on_exceeded:
        case "stop":
            return (Done(reason=COST_LIMIT_EXCEEDED, reason_detail=detail),)
        case "interrupt":
            return (Interrupted(reason=f"{COST_LIMIT_EXCEEDED}: {detail}"),)
        case "warn":
            return () if state.warned else (Warning(reason=COST_LIMIT_EXCEEDED, message=detail),)
        case _:
            assert_never(limit.on_exceeded)


_KINDS: Final[Mapping[str, type[Fields]]] = {
    "pending_prompt": PendingPrompt,
    "pending_select": PendingSelect,
    "interruption": Interruption,
    "error": ErrorInfo,
}


def _field_value(name: str, told: object) -> object:  # noqa: C901, PLR0912 - one case for each field
    """Return the field's value converted from the forms that users may give, or raise `InvalidInputError`."""
    match name:
        case "session_id":
            return check_text(name, told)
        case "status" | "phase":
            known = get_args(Status if name == "status" else Phase)
            if told in known:
                return told
            raise InvalidInputError(f"{name} must be one of {', '.join(sorted(known))}, not {told!r}")
        case "messages":
            return messages_of(told)
        case "events":
            return told if is_growing(told, LoopEvent) else AppendOnlyList(_as_iterable(name, told))
        case "max_steps":
            if told is None or (type(told) is int and 0 < told < 1 << 63):
                return told
            raise InvalidInputError(
                f"max_steps must be a number of 1 or more, with at most 63 bits, or None for no limit, not {told!r:.80}"
            )
        case "pending_tool_calls":
            return FrozenList(map(call_of, _as_iterable(name, told)))
        case "error" if isinstance(told, BaseException):
            return info_of(told)
        case "pending_prompt" | "pending_select" | "interruption" | "error":
            kind = _KINDS[name]
            return None if told is None else converted(told, kind, f"{name} must be a {kind.__name__}, not {told!r}")
        case "usage" | "metadata":
            return Frozen() if told is None else frozen_object(told, what=name)
        case "cost":
            if is_amount(told, MOST_COST):
                return float(told)
            raise InvalidInputError(f"cost must be an amount of 0 or more, not {told!r:.80}")
        case "cost_limit":
            return _cost_limit(told)
        case "created_at" | "last_modified":
            if isinstance(told, datetime) and told.tzinfo is not None:
                return told
            raise InvalidInputError(f"{name} must be a time with a time zone, not {told!r}")
        case "payload":
            return frozen(told, what=name)
        case _:
            return told


def _as_iterable(name: str, told: object) -> Iterable[object]:
    if is_iterable(told):
        return told
    raise InvalidInputError(f"{name} come as a list, not as {told!r}")


def _cost_limit(value: object) -> CostLimit | None:
    """Return the limit that a mapping or an amount describes, or raise `InvalidInputError`."""
    match value:
        case CostLimit(max_total=math.inf):
            return None  # no limit: JSON has None, but not infinity
        case None | CostLimit():
            return value
        case int() | float():
            return _cost_limit(CostLimit(value))
        case _ if is_mapping(value):
            told: dict[str, object] = {snake(str(name)): each for name, each in value.items()}
            most = told.get("max_total", told.get("max_total_cost", -1))
            return _cost_limit(made(CostLimit, most, told.get("on_exceeded", "stop")))
        case _:
            raise InvalidInputError(
                f"a cost limit must be a `CostLimit`, a mapping with `max_total`, or an amount, not {value!r}"
            )


_TYPES = get_type_hints(AgentState)
_Kind = TypeVar("_Kind")


def to_json(value: AgentState | LoopEvent | Sequence[LoopEvent]) -> str:
    """Return a state with its history, an event, or several events as JSON; `from_json` reads it.

    Raises:
        InvalidInputError: the value is something else.
    """
    if isinstance(value, AgentState | LoopEvent):
        return compact(built_in(value))
    if (is_growing(value, object) or is_sequence(value)) and all(isinstance(each, LoopEvent) for each in value):
        return compact([built_in(each) for each in value])
    raise InvalidInputError(f"only a state or events can be written as JSON, not {value!r}")


def from_json(text: str | bytes) -> AgentState | LoopEvent | FrozenList[LoopEvent]:
    """Return the state, the event, or the list of events that `to_json` has written.

    Raises:
        InvalidInputError: the text was not written by `to_json`.
    """
    try:
        value: object = json.loads(text)
    except (ValueError, TypeError, RecursionError) as broken:
        raise InvalidInputError(f"this is not JSON: {broken}") from None
    if is_sequence(value):
        return FrozenList(event_from(each) for each in value)
    is_state = is_mapping(value) and {"session_id", "status"} <= value.keys()
    return state_from(value) if is_state else event_from(value)


def state_from_json(text: str | bytes) -> AgentState:
    """Return the state that `to_json` has written, or raise `InvalidInputError`."""
    return _checked_type(from_json(text), AgentState)


def event_from_json(text: str | bytes) -> LoopEvent:
    """Return the event that `to_json` has written, or raise `InvalidInputError`."""
    return _checked_type(from_json(text), LoopEvent)


def built_in(value: object) -> object:
    """Return a state, an event, or the value of a field in JSON's built-in types."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def state_from(value: object) -> AgentState:
    """Return the state from its built-in types, or raise `InvalidInputError`."""
    state = _checked_type(_converted(value, AgentState, "state"), AgentState)
    calls = tuple(msgspec.structs.replace(call, arguments=frozen(call.arguments)) for call in state.round.calls)
    return state.replace(round=msgspec.structs.replace(state.round, calls=calls))


def event_from(value: object) -> LoopEvent:
    """Return the event from its built-in types, or raise `InvalidInputError`."""
    return sealed(_checked_type(_converted(value, AgentEvent, "event"), LoopEvent))


def sealed(event: LoopEvent) -> LoopEvent:
    """Return the event with all JSON values in it immutable.

    Raises:
        InvalidInputError: a value in it is not JSON.
    """
    if isinstance(event, Done) and is_mapping(event.final_state):
        event = msgspec.structs.replace(event, final_state=state_from(event.final_state))
    return _checked_type(_sealed(event), LoopEvent)


_NOT_COMPARED = frozenset({"events", "messages", "step_count", "last_modified", "round"})
"""Fields that are not compared one by one: the loop maintains them itself, or they are handled separately."""
_COMPARED = tuple(each.name for each in fields(AgentState) if each.name not in _NOT_COMPARED)


def difference(expected: AgentState, actual: AgentState) -> Frozen | None:
    """Return the changes that turn the expected state into the actual one, or None if they are equal.

    Raises:
        InvalidInputError: a field of the actual state holds a value that is not JSON.
    """
    changed = {name: _built_in(actual, name) for name in _COMPARED if getattr(expected, name) != getattr(actual, name)}
    if expected.messages != actual.messages:
        same = (one == other for one, other in zip(expected.messages, actual.messages, strict=False))
        keep = sum(1 for _ in takewhile(bool, same))
        changed["messages"] = {"keep": keep, "add": actual.messages[keep:]}
    return frozen_object(changed, what="what has changed") if changed else None


def applied(messages: AppendOnlyList[Frozen], round_: Round, changes: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that the changes affect, with their new values."""
    made = {name: _converted(value, _TYPES[name], name) for name, value in changes.items() if name in _COMPARED}
    told = changes.get("messages")
    if is_mapping(told) and isinstance(keep := told["keep"], int):
        grown = messages if keep == len(messages) else AppendOnlyList(messages[:keep])
        made["messages"] = grown.plus(message_of(each) for each in _as_iterable("messages", told["add"]))
    if "pending_tool_calls" in made:
        pending = map(call_of, _as_iterable("pending_tool_calls", made["pending_tool_calls"]))
        made["round"] = _round_of(round_, pending)
    return made


def _sealed(value: object) -> object:
    if isinstance(value, dict | list):
        return frozen(value)  # pyright: ignore[reportUnknownArgumentType] - its items may be of any type
    if is_sequence(value):
        return tuple(_sealed(each) for each in value)
    if isinstance(value, msgspec.Struct):
        made = {name: _sealed(getattr(value, name)) for name in value.__struct_fields__ if name != "timestamp"}
        changed = {name: each for name, each in made.items() if each is not getattr(value, name)}
        return msgspec.structs.replace(value, **changed) if changed else value
    return value if isinstance(value, AgentState) else frozen(value)


def _converted(value: object, kind: object, what: str) -> object:
    try:
        return msgspec.convert(value, kind, dec_hook=_decode_custom)
    except msgspec.ValidationError as broken:
        raise InvalidInputError(f"this is not the {what} of a conversation: {broken}") from None


def _plain(value: object) -> object:
    if is_growing(value, object):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _decode_custom(kind: object, value: object) -> object:
    if get_origin(kind) is AppendOnlyList:
        make: Callable[[object], object] = event_from if get_args(kind)[0] is LoopEvent else message_of
        return AppendOnlyList(map(make, _as_iterable("items", value)))
    return (
        FrozenList(map(call_of, _as_iterable("calls", value)))
        if get_origin(kind) is FrozenList
        else frozen_object(value, what="an object")
    )


def _checked_type(value: object, kind: type[_Kind]) -> _Kind:
    if isinstance(value, kind):
        return value
    raise InvalidInputError(f"this is not of type {kind.__name__}, but {type(value).__name__}")


def _built_in(state: AgentState, name: str) -> object:
    try:
        return built_in(getattr(state, name))
    except (TypeError, ValueError) as broken:
        raise InvalidInputError(f"the new state's {name} cannot be recorded: {broken}") from None


def _round_of(round_: Round, pending: Iterable[ToolCall]) -> Round:
    """Return the round in which exactly the pending calls wait for approval."""
    calls = tuple(round_.call(call.id) or Call(call.id, call.name, call.input) for call in pending)
    return rounds.evolve(Round(calls, round_.revision), ToolPending(ids=tuple(call.id for call in calls)))
