"""States and events as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, get_origin, get_type_hints

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.calls import call_of
from reenact.domain.loop.events import LoopEvent
from reenact.domain.loop.growing import Growing, is_growing, is_list
from reenact.domain.loop.progress import AgentEvent, Done
from reenact.domain.loop.state import AgentState, message_of
from reenact.domain.loop.values import Frozen, FrozenList, compact, frozen, is_mapping

_TYPES = get_type_hints(AgentState)


def to_json(value: AgentState | LoopEvent | Sequence[LoopEvent]) -> str:
    """Return a state, with its history, an event, or several events as JSON; `from_json` makes it again.

    Raises:
        InvalidInputError: it is something else.
    """
    if isinstance(value, AgentState | LoopEvent):
        return compact(built_in(value))
    if (is_growing(value) or is_list(value)) and all(isinstance(each, LoopEvent) for each in value):
        return compact([built_in(each) for each in value])
    msg = f"only a state or events can be written as JSON, not {value!r}"
    raise InvalidInputError(msg)


def from_json(text: str | bytes) -> Any:  # noqa: ANN401 - what it is stands in the text
    """Return the state, the event, or the list of events that `to_json` has written.

    Raises:
        InvalidInputError: it has not written this.
    """
    try:
        value: object = json.loads(text)
    except (ValueError, TypeError, RecursionError) as broken:
        msg = f"this is no JSON: {broken}"
        raise InvalidInputError(msg) from None
    if is_list(value):
        return FrozenList(event_from(each) for each in value)
    is_state = is_mapping(value) and {"session_id", "status"} <= value.keys()
    return state_from(value) if is_state else event_from(value)


def state_from_json(text: str | bytes) -> AgentState:
    """Return the state that `to_json` has written, or raise `InvalidInputError`."""
    state: AgentState = _expected(from_json(text), AgentState)
    return state


def event_from_json(text: str | bytes) -> LoopEvent:
    """Return the event that `to_json` has written, or raise `InvalidInputError`."""
    event: LoopEvent = _expected(from_json(text), LoopEvent)
    return event


def built_in(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a state, an event, or the value of a field as JSON."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def state_from(value: object) -> AgentState:
    """Return the state that this was made of, or raise `InvalidInputError`."""
    state: AgentState = _converted(value, AgentState, "state")
    calls = tuple(msgspec.structs.replace(call, arguments=frozen(call.arguments)) for call in state.round.calls)
    return state.replace(
        pending_tool_calls=calls_from(state.pending_tool_calls),
        round=msgspec.structs.replace(state.round, calls=calls),
    )


def event_from(value: object) -> LoopEvent:
    """Return the event that this was made of, or raise `InvalidInputError`."""
    event: LoopEvent = _converted(value, AgentEvent, "event")
    return sealed(event)


def field_from(name: str, value: object) -> Any:  # noqa: ANN401 - fields differ in type
    """Return the value of that field of a state, which this was made of."""
    return _converted(value, _TYPES[name], name)


def calls_from(values: Iterable[object]) -> FrozenList:
    """Return the calls of tools that these were made of, or raise `InvalidToolCallError`."""
    return FrozenList(call_of(each) for each in values)


def sealed(event: LoopEvent) -> LoopEvent:
    """Return the event with all JSON in it such that it cannot be changed.

    Raises:
        InvalidInputError: something in it is no JSON.
    """
    if isinstance(event, Done) and is_mapping(event.final_state):
        event = msgspec.structs.replace(event, final_state=state_from(event.final_state))
    sealed_event: LoopEvent = _sealed(event)
    return sealed_event


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
        msg = f"this is no {what} of a conversation: {broken}"
        raise InvalidInputError(msg) from None


def _plain(value: object) -> object:
    if is_growing(value):
        return list(value)
    msg = f"{type(value).__name__} is no JSON"
    raise TypeError(msg)


def _made(kind: Any, value: Any) -> Any:  # noqa: ANN401 - a hook of msgspec's
    if get_origin(kind) is Growing:
        of_events = kind.__args__[0] is LoopEvent
        return Growing((event_from if of_events else message_of)(each) for each in value)
    return (FrozenList if kind is FrozenList else Frozen)(frozen(value))


def _expected(value: object, kind: type[Any]) -> Any:  # noqa: ANN401 - as the kind is
    if isinstance(value, kind):
        return value
    msg = f"this is no {kind.__name__}, but a {type(value).__name__}"
    raise InvalidInputError(msg)
