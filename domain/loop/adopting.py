"""Makes events of what custom executors return."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, get_args

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import AgentEvent, Custom, Done, LoopEvent, StepCompleted
from reenact.domain.loop.faults import InvalidOutcomeError, info_of
from reenact.domain.loop.folding import after
from reenact.domain.loop.instructions import snake
from reenact.domain.loop.ledger import is_amount
from reenact.domain.loop.state import AgentContext, AgentState
from reenact.domain.loop.storing import built_in, difference, event_from, sealed
from reenact.domain.loop.values import frozen_object, is_list, is_mapping

KNOWN: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AgentEvent)) - {"custom"}
"""The types of the events that have a meaning here."""


def stamped(event: LoopEvent, step: int, now: datetime) -> LoopEvent:
    """Return the event as it stands in a history: in its step, at its time, and such that it cannot be changed."""
    told = sealed(event)
    return msgspec.structs.replace(told, step=step, timestamp=told.timestamp or now)


def adopted(
    before: AgentState, returned: object, step: int, now: datetime, *, shown: AgentState | None = None
) -> list[LoopEvent]:
    """Return what has happened, by what an executor returned: `(events, new_state)`, or these and the next context.

    What the new state has and the events do not tell is told by the last event's `changes`. To return the state that
    it was `shown`, or None for it, is to let the events tell everything.

    Raises:
        InvalidOutcomeError: it is something else, or holds what cannot be recorded.
    """
    try:
        told, new_state, context = _parts(returned)
        events = [_checked(stamped(_event(each, before), step, now)) for each in told]
        if context is not None:
            new_state = (new_state or after(before, events)).replace(phase=context.phase, payload=context.payload)
        if new_state is None or new_state is shown:
            return events
        changes = difference(after(before, events), new_state)
    except InvalidInputError as broken:
        raise InvalidOutcomeError(str(broken)) from None
    if changes is None:
        return events
    last = events.pop() if events else StepCompleted(step=step, timestamp=now)
    return [*events, msgspec.structs.replace(last, changes=changes)]


def context_given(value: object) -> AgentContext:
    """Return the context that a mapping with a `phase` stands for, or raise `InvalidInputError`."""
    if isinstance(value, AgentContext):
        return value
    told = frozen_object(value, what="a context")
    try:
        return msgspec.convert(told, AgentContext)
    except msgspec.ValidationError as broken:
        raise InvalidInputError(f"this is no context: {broken}") from None


def with_final_state(events: list[LoopEvent], state: AgentState) -> list[LoopEvent]:
    """Return the events, with the state that the conversation ends with in the one that ends it."""
    final = state.snapshot()
    return [
        msgspec.structs.replace(event, final_state=final)
        if isinstance(event, Done) and event.final_state is None
        else event
        for event in events
    ]


def _parts(returned: object) -> tuple[list[object], AgentState | None, AgentContext | None]:
    names = ("events", "new_state", "next_context")
    told, new_state, context = (
        (*returned, None)[: len(names)]
        if is_list(returned) and len(returned) in (len(names) - 1, len(names))
        else (_part(returned, name) for name in names)
    )
    if not is_list(told) or not isinstance(new_state, AgentState | None):
        raise InvalidOutcomeError(f"an executor returns `(events, new_state)`, events and a state, not {returned!r}")
    return list(told), new_state, None if context is None else context_given(context)


def _part(returned: object, name: str) -> Any:  # noqa: ANN401 - parts differ in type
    if is_mapping(returned):
        return {snake(str(key)): each for key, each in returned.items()}.get(name)
    return getattr(returned, name, None)


def _event(value: object, state: AgentState) -> LoopEvent:
    if isinstance(value, LoopEvent):
        return value
    kind = value.get("type") if is_mapping(value) else None
    if not is_mapping(value) or not isinstance(kind, str) or not kind:
        raise InvalidOutcomeError(f"an event is a mapping with a `type`, or an event of `reenact.loop`; not {value!r}")
    told = {snake(str(name)): _value(each) for name, each in value.items()}
    if kind in KNOWN:
        try:
            return event_from({"session_id": state.session_id, **told})
        except InvalidInputError:
            pass  # it bears a name that has a meaning here, but tells something else
    data = {name: each for name, each in told.items() if name not in ("type", "step", "timestamp")}
    return Custom(name=kind, data=frozen_object(data, what=f"event {kind!r}"))


def _checked(event: LoopEvent) -> LoopEvent:
    """Return the event, or raise `InvalidInputError` if its fields hold what they cannot, or it costs no amount."""
    told = built_in(event)
    event_from(told)
    cost = None if isinstance(event, Custom) else told.get("cost")
    if cost is not None and not is_amount(cost):
        raise InvalidInputError(f"the cost of an event is an amount of 0 or more, not {cost!r:.80}")
    return event


def _value(value: object) -> Any:  # noqa: ANN401 - any part of an event
    match value:
        case BaseException():
            return info_of(value)
        case AgentState():
            return value.snapshot()
        case _:
            return value
