"""The commands by which a person decides about calls that wait: `/pending`, `/approve` and `/reject`."""

from __future__ import annotations

from reenact.cli.chat.context import Here
from reenact.cli.chat.decisions import Approved, Rejected, user_name
from reenact.cli.output.answers import told
from reenact.domain.legible import harmless
from reenact.domain.people import PendingCall

_NOTHING = "Nothing waits for you."


def pending(here: Here, _: str) -> None:
    """See to the calls that wait."""
    if calls := here.current.conversation.pending():
        here.talking.see_to(calls)
    else:
        here.say(_NOTHING)


def approve(here: Here, call_id: str) -> None:
    """Let a call run."""
    call = _named(here, call_id)
    if call is None:
        return
    if call.kind == "approval":
        here.talking.carry_out(Approved(call=call, by=user_name()))
    else:
        here.say(f"{harmless(call.id)} asks a question: /pending asks it again, in a chat.")


def reject(here: Here, rest: str) -> None:
    """Do not let a call run; what does not begin with the id of one is the reason."""
    word, *reason = rest.split(maxsplit=1) or [""]
    if not any(call.id == word for call in here.current.conversation.pending()):
        word, reason = "", [rest]
    call = _named(here, word)
    if call is not None:
        here.talking.carry_out(Rejected(call=call, reason=" ".join(reason), by=user_name()))


def calls(here: Here) -> list[tuple[str, str]]:
    """Return the calls that wait, and what they are about."""
    return [
        (call.id, told(call).removeprefix(harmless(call.id)).strip()) for call in here.current.conversation.pending()
    ]


def _named(here: Here, call_id: str) -> PendingCall | None:
    """Return the call that is meant, or say why none is."""
    waiting = here.current.conversation.pending()
    found = [call for call in waiting if call_id in ("", call.id)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        here.say(_NOTHING)
    elif found:
        here.say("More than one call waits; name the one you mean:")
    else:
        here.say(f"No call {call_id} waits; these do:")
    for call in waiting:
        here.say(f"  {told(call)}")
    return None
