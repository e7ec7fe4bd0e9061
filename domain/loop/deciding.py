"""What is meant by what a step is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop import people
from reenact.domain.loop.adopting import context_given
from reenact.domain.loop.calls import call_of, looks_like_a_call
from reenact.domain.loop.events import LoopEvent
from reenact.domain.loop.people import Approval
from reenact.domain.loop.progress import MessageAdded
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import AgentContext, AgentState, context_of, message_of
from reenact.domain.loop.values import Frozen, is_mapping


@dataclass(frozen=True)
class Consult:
    """The runner is asked, with this context, after these events."""

    context: AgentContext
    events: tuple[LoopEvent, ...] = ()


Meaning: TypeAlias = Approval | Consult


def meaning_of(state: AgentState, given: object, rules: Rules) -> Meaning:
    """Return what is meant: nothing given, a call, a context, a message, or a text from the user.

    Raises:
        ReenactError: it means nothing, or is not possible now.
    """
    if looks_like_a_call(given):
        return people.approval(state, call_of(given), rules)
    if given is None:
        people.check_free(state)
        return Consult(context_of(state))
    if isinstance(given, AgentContext) or (is_mapping(given) and "phase" in given):
        people.check_free(state)
        told = context_given(given)
        return Consult(AgentContext(told.phase, told.payload, told.session or state.session))
    if isinstance(given, str) or (is_mapping(given) and "role" in given):
        people.check_free(state)
        message = message_of({"role": "user", "content": given} if isinstance(given, str) else given)
        session = Frozen({**state.session, "message_count": len(state.messages) + 1})
        return Consult(AgentContext("user_input", Frozen(message=message), session), (MessageAdded(message=message),))
    msg = f"a step is given a call of a tool, a context, a message or nothing; not {given!r}"
    raise InvalidInputError(msg)
