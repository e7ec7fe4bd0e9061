"""Writes states, events and changes of states as JSON, and reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import takewhile
from typing import Any, Final, TypeVar, get_origin, get_type_hints

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop import rounds
from reenact.domain.loop.calls import ToolCall, call_of
from reenact.domain.loop.events import AgentEvent, Done, LoopEvent, ToolPending
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.state import AgentState, message_of
from reenact.domain.loop.values import (
    Frozen,
    FrozenList,
    Growing,
    compact,
    frozen,
    frozen_object,
    is_growing,
    is_list,
    is_mapping,
)

_TYPES = get_type_hints(AgentState)
_Kind = TypeVar("_Kind")


def to_json(value: AgentState | LoopEvent | Sequence[LoopEvent]) -> str:
    """Return a state, with its history, an event, or several events as JSON; `from_json` makes it again.

    Raises:
        InvalidInputError: it is something else.
    """
    if isinstance(value, AgentState | LoopEvent):
        return compact(built_in(value))
    if (is_growing(value, object) or is_list(value)) and all(isinstance(each, LoopEvent) for each in value):
        return compact([built_in(each) for each in value])
    raise InvalidInputError(f"only a state or events can be written as JSON, not {value!r}")


def from_json(text: str | bytes) -> Any:  # noqa: ANN401 - what it is stands in the text
    """Return the state, the event, or the list of events that `to_json` has written.

    Raises:
        InvalidInputError: it has not written this.
    """
    try:
        value: object = json.loads(text)
    except (ValueError, TypeError, RecursionError) as broken:
        raise InvalidInputError(f"this is no JSON: {broken}") from None
    if is_list(value):
        return FrozenList(event_from(each) for each in value)
    is_state = is_mapping(value) and {"session_id", "status"} <= value.keys()
    return state_from(value) if is_state else event_from(value)


def state_from_json(text: str | bytes) -> AgentState:
    """Return the state that `to_json` has written, or raise `InvalidInputError`."""
    return _expected(from_json(text), AgentState)


def event_from_json(text: str | bytes) -> LoopEvent:
    """Return the event that `to_json` has written, or raise `InvalidInputError`."""
    return _expected(from_json(text), LoopEvent)


def built_in(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a state, an event, or the value of a field as JSON."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def state_from(value: object) -> AgentState:
    """Return the state that this was made of, or raise `InvalidInputError`."""
    state: AgentState = _converted(value, AgentState, "state")
    calls = tuple(msgspec.structs.replace(call, arguments=frozen(call.arguments)) for call in state.round.calls)
    return state.replace(round=msgspec.structs.replace(state.round, calls=calls))


def event_from(value: object) -> LoopEvent:
    """Return the event that this was made of, or raise `InvalidInputError`."""
    event: LoopEvent = _converted(value, AgentEvent, "event")
    return sealed(event)


def sealed(event: LoopEvent) -> LoopEvent:
    """Return the event with all JSON in it such that it cannot be changed.

    Raises:
        InvalidInputError: something in it is no JSON.
    """
    if isinstance(event, Done) and is_mapping(event.final_state):
        event = msgspec.structs.replace(event, final_state=state_from(event.final_state))
    sealed_event: LoopEvent = _sealed(event)
    return sealed_event


_OWN: Final = frozenset({"events", "messages", "step_count", "last_modified", "round"})
"""What is not compared field by field: the loop keeps it itself, or it is told in another way."""
_COMPARED: Final = tuple(each.name for each in fields(AgentState) if each.name not in _OWN)


def difference(expected: AgentState, actual: AgentState) -> Frozen | None:
    """Return by which changes the expected state becomes the actual one, or None if it is that already.

    Raises:
        InvalidInputError: a field of the actual one holds what is no JSON.
    """
    changed = {name: _built_in(actual, name) for name in _COMPARED if getattr(expected, name) != getattr(actual, name)}
    if expected.messages != actual.messages:
        same = (one == other for one, other in zip(expected.messages, actual.messages, strict=False))
        keep = sum(1 for _ in takewhile(bool, same))
        changed["messages"] = {"keep": keep, "add": actual.messages[keep:]}
    return frozen_object(changed, what="what has changed") if changed else None


def applied(draft: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the changes are about, as they are after them."""
    made = {name: _converted(value, _TYPES[name], name) for name, value in changes.items() if name in _COMPARED}
    if "messages" in changes:
        told = changes["messages"]
        kept = draft["messages"][: told["keep"]]
        grown = draft["messages"] if len(kept) == len(draft["messages"]) else type(draft["messages"])(kept)
        made["messages"] = grown.plus(message_of(each) for each in told["add"])
    if "pending_tool_calls" in made:
        made["round"] = _round_of(draft["round"], made["pending_tool_calls"])
    return made


def _sealed(value: Any) -> Any:  # noqa: ANN401 - any part of an event
    if isinstance(value, dict | list):
        return frozen(value)  # pyright: ignore[reportUnknownArgumentType] - it may hold anything
    if is_list(value):
        return tuple(_sealed(each) for each in value)
    if isinstance(value, msgspec.Struct):
        made = {name: _sealed(getattr(value, name)) for name in value.__struct_fields__ if name != "timestamp"}
        changed = {name: each for name, each in made.items() if each is not getattr(value, name)}
        return msgspec.structs.replace(value, **changed) if changed else value
    return value if isinstance(value, AgentState) else frozen(value)


def _converted(value: object, kind: Any, what: str) -> Any:  # noqa: ANN401 - as the kind is
    try:
        return msgspec.convert(value, kind, dec_hook=_made)
    except msgspec.ValidationError as broken:
        raise InvalidInputError(f"this is no {what} of a conversation: {broken}") from None


def _plain(value: object) -> object:
    if is_growing(value, object):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _made(kind: Any, value: Any) -> Any:  # noqa: ANN401 - a hook of msgspec's
    if get_origin(kind) is Growing:
        of_events = kind.__args__[0] is LoopEvent
        return Growing((event_from if of_events else message_of)(each) for each in value)
    return FrozenList(map(call_of, value)) if get_origin(kind) is FrozenList else frozen_object(value, what="an object")


def _expected(value: object, kind: type[_Kind]) -> _Kind:
    if isinstance(value, kind):
        return value
    raise InvalidInputError(f"this is no {kind.__name__}, but a {type(value).__name__}")


def _built_in(state: AgentState, name: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return built_in(getattr(state, name))
    except (TypeError, ValueError) as broken:
        raise InvalidInputError(f"the new state's {name} cannot be recorded: {broken}") from None


def _round_of(round_: Round, pending: FrozenList[ToolCall]) -> Round:
    """Return the round in which exactly the pending calls wait for approval."""
    calls = tuple(round_.call(call.id) or Call(call.id, call.name, call.input) for call in pending)
    return rounds.evolve(Round(calls, round_.revision), ToolPending(ids=tuple(call.id for call in calls)))
