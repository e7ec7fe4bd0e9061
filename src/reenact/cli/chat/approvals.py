"""The commands by which a person decides about calls that wait: `/pending`, `/approve` and `/reject`."""

from __future__ import annotations

from reenact.cli.chat.context import Context
from reenact.cli.decisions import Approved, Rejected, user_name
from reenact.cli.output.answers import told
from reenact.domain.legible import harmless
from reenact.domain.people import PendingCall

_NOTHING = "Nothing waits for you."


def pending(context: Context, _: str) -> None:
    """See to the calls that wait."""
    if calls := context.current.conversation.pending():
        context.talking.see_to(calls)
    else:
        context.say(_NOTHING)


def approve(context: Context, call_id: str) -> None:
    """Let a call run."""
    call = _named(context, call_id)
    if call is None:
        return
    if call.kind == "approval":
        context.talking.carry_out([Approved(call=call, by=user_name())])
    else:
        context.say(f"{harmless(call.id)} asks a question: /pending asks it again, in a chat.")


def reject(context: Context, rest: str) -> None:
    """Do not let a call run; what does not begin with the id of one is the reason."""
    word, *reason = rest.split(maxsplit=1) or [""]
    if not any(call.id == word for call in context.current.conversation.pending()):
        word, reason = "", [rest]
    call = _named(context, word)
    if call is not None:
        context.talking.carry_out([Rejected(call=call, reason=" ".join(reason), by=user_name())])


def calls(context: Context) -> list[tuple[str, str]]:
    """Return the calls that wait, and what they are about."""
    return [
        (call.id, told(call).removeprefix(harmless(call.id)).strip()) for call in context.current.conversation.pending()
    ]


def _named(context: Context, call_id: str) -> PendingCall | None:
    """Return the call that is meant, or say why none is."""
    waiting = context.current.conversation.pending()
    found = [call for call in waiting if call_id in ("", call.id)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        context.say(_NOTHING)
    elif found:
        context.say("More than one call waits; name the one you mean:")
    else:
        context.say(f"No call {call_id} waits; these do:")
    for call in waiting:
        context.say(f"  {told(call)}")
    return None
