"""What an executor of somebody's own has made of a state, beyond what its events say: told by field, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop import rounds, storing
from reenact.domain.loop.events import ToolPending
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.state import AgentState, message_of
from reenact.domain.loop.values import Frozen, FrozenList, frozen

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
        keep = 0
        while keep < min(len(expected.messages), len(actual.messages)) and _same_at(keep, expected, actual):
            keep += 1
        changed["messages"] = {"keep": keep, "add": actual.messages[keep:]}
    return Frozen(frozen(changed)) if changed else None


def applied(draft: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the changes are about, as they are after them."""
    made = {name: storing.field_from(name, value) for name, value in changes.items() if name in _COMPARED}
    if "messages" in changes:
        told = changes["messages"]
        kept = draft["messages"][: told["keep"]]
        grown = draft["messages"] if len(kept) == len(draft["messages"]) else type(draft["messages"])(kept)
        made["messages"] = grown.plus(message_of(each) for each in told["add"])
    if "pending_tool_calls" in made:
        made["pending_tool_calls"] = FrozenList(storing.calls_from(made["pending_tool_calls"]))
        made["round"] = _round_of(draft["round"], made["pending_tool_calls"])
    return made


def _same_at(place: int, expected: AgentState, actual: AgentState) -> bool:
    return expected.messages[place] == actual.messages[place]


def _built_in(state: AgentState, name: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return storing.built_in(getattr(state, name))
    except (TypeError, ValueError) as broken:
        msg = f"the new state's {name} cannot be recorded: {broken}"
        raise InvalidInputError(msg) from None


def _round_of(round_: Round, pending: FrozenList) -> Round:
    """Return the round in which exactly the pending calls wait for approval."""
    calls = tuple(round_.call(call.id) or Call(call.id, call.name, call.input) for call in pending)
    return rounds.evolve(Round(calls, round_.revision), ToolPending(ids=tuple(call.id for call in calls)))
